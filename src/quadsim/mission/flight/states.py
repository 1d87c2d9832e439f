"""The states of a flight: what each is, and what it does at a tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from quadsim.base.levels import ERROR as ERROR
from quadsim.base.levels import OK as OK
from quadsim.base.levels import WARN as WARN

if TYPE_CHECKING:
    from quadsim.mission.flight.flight import FlightManager

#: Idling between touch-down and stopping, s.
SPOOL_DOWN_S = 0.5
#: Idling between arming and take-off, s.
SPOOL_UP_S = 1.0
#: Stamp, level, name, message.
FlightEvent = tuple[int, int, str, str]


def _wait(flight: FlightManager) -> None:
    """Nothing happens by itself."""


def _spool_up(flight: FlightManager) -> None:
    """Take off once the rotors turn, if that was asked for."""
    mission, pilot = flight.mission, flight.pilot
    spooled = flight.since_s(flight.entered_ns) >= SPOOL_UP_S
    if not spooled or not (mission.started or pilot.lifts):
        return
    flight.leave_ground()
    if pilot.lifts:
        mission.skip_takeoff()
        flight.ground.use()
        flight.climb(flight.params.assisted.takeoff_m)
    else:
        mission.begin()


def _take_off(flight: FlightManager) -> None:
    """Climb, to the mission's next item or to the hands of a pilot."""
    if flight.pilot.lifts:
        flight.pilot.lift_tick()
    else:
        flight.mission.tick()


def _hover(flight: FlightManager) -> None:
    """Stay, and land after a while where nobody commands any more."""
    if flight.landing.at_ns is not None and flight.now_ns >= flight.landing.at_ns:
        flight.landing.at_ns = None
        flight.landing.begin("no new command")


def _guided(flight: FlightManager) -> None:
    """Come to rest at the end of a commanded trajectory that ends in motion."""
    if flight.reference.kind == "plan" and flight.reference.is_over:
        flight.reference.brake()


def _landed(flight: FlightManager) -> None:
    """Idle for a while, then stop the motors."""
    if flight.since_s(flight.entered_ns) >= SPOOL_DOWN_S:
        flight.finished = True
        flight.enter("disarmed", "motors stopped")


class FlightState(NamedTuple):
    """A state of the flight.

    Attributes:
        tick: what it does by itself.
        motors: off, idle or on.
        steered: whether commands and sticks may take over.
        placed: whether a position is held, from which the vehicle may be off course.
    """

    tick: Callable[[FlightManager], None] = _wait
    motors: str = "on"
    steered: bool = False
    placed: bool = True


STATES = {
    "disarmed": FlightState(motors="off"),
    "armed": FlightState(_spool_up, motors="idle"),
    "takeoff": FlightState(_take_off),
    "mission": FlightState(lambda flight: flight.mission.tick(), steered=True),
    "hover": FlightState(_hover, steered=True),
    "guided": FlightState(_guided, steered=True),
    "velocity": FlightState(
        lambda flight: flight.commands.velocity_tick(), steered=True, placed=False
    ),
    "commanded": FlightState(lambda flight: flight.commander.tick(), steered=True),
    "returning": FlightState(lambda flight: flight.way_home.tick(), steered=True),
    "hold": FlightState(lambda flight: flight.hold.tick(), placed=False),
    "assisted": FlightState(lambda flight: flight.pilot.assisted_tick(), placed=False),
    "manual": FlightState(lambda flight: flight.pilot.manual_tick(), placed=False),
    "recovery": FlightState(lambda flight: flight.recovery.tick()),
    "failsafe_return": FlightState(lambda flight: flight.way_home.tick()),
    "landing": FlightState(lambda flight: flight.landing.tick()),
    "failsafe_landing": FlightState(lambda flight: flight.landing.failsafe_tick(), placed=False),
    "landed": FlightState(_landed, motors="idle"),
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
