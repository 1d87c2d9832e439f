"""The states of a flight."""

from __future__ import annotations

from typing import NamedTuple

from quadsim.base.levels import ERROR as ERROR
from quadsim.base.levels import OK as OK
from quadsim.base.levels import WARN as WARN

#: Idling between touch-down and stopping, s.
SPOOL_DOWN_S = 0.5
#: Idling between arming and take-off, s.
SPOOL_UP_S = 1.0
#: Stamp, level, name, message.
FlightEvent = tuple[int, int, str, str]


class FlightState(NamedTuple):
    """A state of the flight.

    Attributes:
        motors: off, idle or on.
        steered: whether commands and sticks may take over.
        placed: whether a position is held, from which the vehicle may be off course.
    """

    motors: str = "on"
    steered: bool = False
    placed: bool = True


STATES = {
    "disarmed": FlightState(motors="off"),
    "armed": FlightState(motors="idle"),
    "takeoff": FlightState(),
    "mission": FlightState(steered=True),
    "hover": FlightState(steered=True),
    "guided": FlightState(steered=True),
    "velocity": FlightState(steered=True, placed=False),
    "commanded": FlightState(steered=True),
    "returning": FlightState(steered=True),
    "hold": FlightState(placed=False),
    "assisted": FlightState(placed=False),
    "manual": FlightState(placed=False),
    "recovery": FlightState(),
    "failsafe_return": FlightState(),
    "landing": FlightState(),
    "failsafe_landing": FlightState(placed=False),
    "landed": FlightState(motors="idle"),
    "stopped": FlightState(motors="off"),
}

#: Flown by somebody who sees for himself how high it is.
PILOTED = ("assisted", "manual")
#: States in which a command or a stick that moves takes over.
STEERED = tuple(name for name, state in STATES.items() if state.steered)
#: States in which the vehicle is, or should be, in the air.
FLYING = tuple(name for name, state in STATES.items() if state.motors == "on")
#: On the way down.
LANDINGS = ("landing", "failsafe_landing")
