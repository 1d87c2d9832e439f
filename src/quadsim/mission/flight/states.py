"""The states of a flight: what each is, and what it does at a tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from quadsim.mission.flight.flight import FlightManager

#: Levels of events, as diagnostic_msgs/DiagnosticStatus counts them.
OK, WARN, ERROR = 0, 1, 2

#: Stamp, level, name, message.
FlightEvent = tuple[int, int, str, str]

Tick = Callable[["FlightManager"], None]

#: A hold ends when the growth of the position's deviation is below this share of what begins it.
FIXED_SHARE = 0.3
#: Climb rate at which a fall has been caught, m/s.
CAUGHT_MPS = 0.2


def _wait(flight: FlightManager) -> None:
    """Nothing happens by itself."""


def _spool_up(flight: FlightManager) -> None:
    """Take off once the rotors turn, if that was asked for."""
    mission, pilot = flight.mission, flight.pilot
    spooled = flight.since_s(flight.entered_ns) >= flight.params.spool_up_s
    if not spooled or not (mission.started or pilot.lifts):
        return
    p_W = flight.estimate.p_W
    flight.takeoff_ns = flight.now_ns
    flight.ground_m = flight.ground.level_m = p_W[2]
    flight.home = p_W[:2]
    flight.reference.stand()
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
    if flight.land_at_ns is not None and flight.now_ns >= flight.land_at_ns:
        flight.land_at_ns = None
        flight.begin_landing("no new command")


def _guided(flight: FlightManager) -> None:
    """Come to rest at the end of a commanded trajectory that ends in motion."""
    if flight.reference.kind == "plan" and flight.reference.is_over:
        flight.reference.brake()


def _velocity(flight: FlightManager) -> None:
    """Fly the commanded velocity, cut at the fence, until commands stay away."""
    failsafe = flight.params.failsafe
    v_W, yaw_rate = flight.commanded
    flight.reference.fly_velocity(flight.cut(v_W), yaw_rate)
    if flight.since_s(flight.commanded_ns) > failsafe.command_timeout_s:
        flight.reference.brake()
        flight.enter("hover", "the velocity commands stay away", WARN)
        flight.land_after(failsafe.command_land_s)


def _way_home(flight: FlightManager) -> None:
    """Climb and fly home, by request or by a failsafe; it ends on the ground."""
    if not flight.arrives():
        return
    if flight.way:
        flight.next_on_way()
    elif flight.state == "returning":
        flight.begin_landing("at home")
    else:
        flight.fail(flight.reason)


def _hold(flight: FlightManager) -> None:
    """Stay by inertial navigation until the position is fixed for a while, or for too long."""
    failsafe = flight.params.failsafe
    if flight.estimate.growth_m > FIXED_SHARE * failsafe.hold_growth_m:
        flight.fixed_ns = None
        if flight.since_s(flight.entered_ns) > failsafe.hold_s:
            flight.fail(f"no fix of the position for {failsafe.hold_s:g} s", placed=False)
    elif flight.fixed_ns is None:
        flight.fixed_ns = flight.now_ns
    elif flight.since_s(flight.fixed_ns) >= failsafe.estimate_return_s:
        flight.end_hold()


def _recover(flight: FlightManager) -> None:
    """Level and full thrust until it climbs, then a climb to a safe height."""
    reference, params = flight.reference, flight.params
    if reference.kind == "pull_up":
        if flight.estimate.v_W[2] > CAUGHT_MPS:
            flight.climb_away()
        elif flight.since_s(flight.entered_ns) > params.failsafe.recovery_s:
            flight.fail("it falls, and no recovery")
    elif reference.is_over:
        if reference.away_m <= params.arrival_radius_m:
            flight.resume()
        elif reference.late_s > params.failsafe.recovery_s:
            flight.fail("too low, and no recovery")


def _land(flight: FlightManager) -> None:
    """Descend once the vehicle has come to rest; feel for the ground."""
    if flight.reference.is_over:
        flight.reference.sink(flight.sink_mps)
    if flight.touchdown.is_down():
        flight.enter("landed", "touch-down")


def _land_in_need(flight: FlightManager) -> None:
    """Land with what is left of the estimate; on a good one again, under position control."""
    estimate, failsafe = flight.estimate, flight.params.failsafe
    back = estimate.good and estimate.good_s >= failsafe.estimate_return_s
    fixed = estimate.growth_m <= FIXED_SHARE * failsafe.hold_growth_m
    if flight.placed and not flight.blind:
        _land(flight)
    elif back and flight.trusted and fixed:
        flight.blind, flight.placed = False, True
        flight.sink_mps = flight.params.landing_speed_mps
        flight.reference.stand()
        flight.event(WARN, "estimate is back", "the landing goes on under position control")
    elif not flight.blind:
        if flight.touchdown.is_down():
            flight.enter("landed", "touch-down")
    elif flight.now_ns >= flight.blind_until_ns:
        flight.stop(f"{flight.reason}; the descent should have ended by now")


def _landed(flight: FlightManager) -> None:
    """Idle for a while, then stop the motors."""
    if flight.since_s(flight.entered_ns) >= flight.params.spool_down_s:
        flight.finished = True
        flight.enter("disarmed", "motors stopped")


class State(NamedTuple):
    """A state of the flight.

    Attributes:
        tick: what it does by itself.
        motors: off, idle or on.
        steered: whether commands and sticks may take over.
        placed: whether a position is held, from which the vehicle may be off course.
        doc: in words.
    """

    tick: Tick = _wait
    motors: str = "on"
    steered: bool = False
    placed: bool = True


STATES = {
    "disarmed": State(motors="off"),
    "armed": State(_spool_up, motors="idle"),
    "takeoff": State(_take_off),
    "mission": State(lambda flight: flight.mission.tick(), steered=True),
    "hover": State(_hover, steered=True),
    "guided": State(_guided, steered=True),
    "velocity": State(_velocity, steered=True, placed=False),
    "returning": State(_way_home, steered=True),
    "hold": State(_hold, placed=False),
    "assisted": State(lambda flight: flight.pilot.assisted_tick(), placed=False),
    "manual": State(lambda flight: flight.pilot.manual_tick(), placed=False),
    "recovery": State(_recover),
    "failsafe_return": State(_way_home),
    "landing": State(_land),
    "failsafe_landing": State(_land_in_need, placed=False),
    "landed": State(_landed, motors="idle"),
    "stopped": State(motors="off"),
}

#: Flown by somebody who sees for himself how high it is.
PILOTED = ("assisted", "manual")
#: States in which a command or a stick that moves takes over.
STEERED = tuple(name for name, state in STATES.items() if state.steered)
#: States in which the vehicle is, or should be, in the air.
FLYING = tuple(name for name, state in STATES.items() if state.motors == "on")
#: On the way down.
LANDINGS = ("landing", "failsafe_landing")
