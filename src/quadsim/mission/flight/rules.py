"""What ends or bends a flight when something is wrong: the rules of the table in docs/mission.md.

At each tick the first rule that applies acts, the gravest first. A rule gives its reason in words,
which is the event's message; an empty one: it does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from quadsim.base.parameters import Vec3
from quadsim.mission.flight.estimate_check import POSITION_DIVERGED
from quadsim.mission.flight.states import FLYING, LANDINGS, PILOTED, STATES, WARN

if TYPE_CHECKING:
    from quadsim.mission.flight.flight import FlightManager

#: Off course for so long, the estimate is distrusted, s.
OFF_COURSE_S = 2.0
#: Height that a pull-up leaves, m.
IMPACT_MARGIN_M = 0.15
#: Time until a pull-up acts, s.
IMPACT_LAG_S = 0.15
#: Upwards, at full thrust, m/s^2.
IMPACT_ACCELERATION_MPS2 = 4.0
#: Pull-ups in a landing, after which it is let go on.
MOST_PULL_UPS = 6
#: A landing that sinks faster than so often its speed falls.
TOO_FAST = 2.0
#: What stands between the body's centre and the ground, m.
LEGS_M = 0.25
#: A fall is one that the estimate is sure of, by so many of its deviations.
DEVIATIONS = 3.0
#: How far inside the fence a vehicle that was about to leave it goes, m, beyond the margin.
BACK_INSIDE_M = 1.0
#: How far beyond the fence a stop on the way of a mission may be foreseen, m.
FENCE_SLACK_M = 0.3
#: Time between two looks by the slow rules, ns.
LOOK_NS = 100_000_000


class FailsafeRule(NamedTuple):
    """One failsafe.

    Attributes:
        applies: why it is to act, in words; empty: it is not.
        acts: what it does, told why.
        states: in which it is looked at.
        slow: whether it is looked at ten times a second, not at each tick.
    """

    applies: Callable[[FlightManager], str]
    acts: Callable[[FlightManager, str], None]
    states: tuple[str, ...]
    slow: bool = False


def watch_over(flight: FlightManager) -> None:
    """Act by the first rule that applies."""
    if not flight.estimate.good:
        _distrust(flight)
        return
    if not flight.flying or flight.landing.blind:
        return
    looks = flight.now_ns - flight.looked_ns >= LOOK_NS
    for rule in _RULES_IN[flight.state, looks]:
        if rule.slow:
            flight.looked_ns = flight.now_ns
        reason = rule.applies(flight)
        if reason:
            rule.acts(flight, reason)
            return


def _distrust(flight: FlightManager) -> None:
    """The estimate is bad; without a position alone, its velocity is still flown on."""
    estimate = flight.estimate
    if flight.state == "armed":
        flight.enter("disarmed", f"{estimate.words} before take-off", WARN)
    elif not flight.flying or flight.landing.blind:
        return
    elif (
        estimate.verdict != POSITION_DIVERGED
        or estimate.sigma_z_m > flight.params.failsafe.position_sigma_m
    ):
        flight.landing.fail(estimate.words, blind=True)
    elif flight.landing.placed:
        flight.landing.fail(estimate.words, placed=False)


# impact


def _falls(flight: FlightManager) -> str:
    """The sink rate leads into the ground before full thrust could stop it."""
    failsafe, sink_mps = flight.params.failsafe, flight.sink_rate_mps
    if sink_mps <= failsafe.impact_sink_mps:  # no state has a fall that is slower
        return ""
    if flight.pulls_up or flight.recovery.count > MOST_PULL_UPS or flight.landing.crippled:
        return ""
    if flight.state == "assisted" and flight.ground.known:  # along a slope it is no fall
        (x, y, _), v_W = flight.estimate.p_W, flight.estimate.v_W
        _, east, north = flight.ground.at(x, y)
        if east * v_W[0] + north * v_W[1] - v_W[2] <= failsafe.impact_sink_mps:
            return ""
    least_mps = failsafe.impact_sink_mps
    if flight.state in (*LANDINGS, "failsafe_return"):
        least_mps = max(least_mps, TOO_FAST * flight.landing.sink_mps)
    sink_mps -= _doubt_mps(flight)
    height_m = _clearance_m(flight)
    stop_m = sink_mps * (IMPACT_LAG_S + 0.5 * sink_mps / IMPACT_ACCELERATION_MPS2)
    if sink_mps <= least_mps or stop_m < height_m - IMPACT_MARGIN_M:
        return ""
    return f"falls, {sink_mps:.1f} m/s at {height_m:.2f} m"


def _doubt_mps(flight: FlightManager) -> float:
    """How much of a sink rate may be the estimate's own error."""
    variance = float(flight.estimate.odometries["v_variance"][0, 2])
    return DEVIATIONS * math.sqrt(variance) if 0.0 < variance < math.inf else 0.0


def _clearance_m(flight: FlightManager) -> float:
    """Height of the feet above the ground beneath, as far as that is known; else infinite."""
    if not flight.ground.used:
        return flight.height_m() - min(flight.params.failsafe.floor_m, 0.0)
    if not flight.ground.known:
        return math.inf
    x, y, z = flight.estimate.p_W
    return z - flight.ground.at(x, y)[0] - LEGS_M


# the vehicle does not go where it shall


def _is_off_course(flight: FlightManager) -> str:
    """It is far from its reference and does not come nearer: then nothing is right."""
    failsafe = flight.params.failsafe
    off_m = 0.0
    if STATES[flight.state].placed and not flight.pulls_up:
        p_W, v_W, wanted_W = flight.estimate.p_W, flight.estimate.v_W, flight.reference.place
        east, north = wanted_W[0] - p_W[0], wanted_W[1] - p_W[1]
        off_m = math.hypot(east, north)
        if east * v_W[0] + north * v_W[1] > 0.5 * off_m:
            off_m = 0.0
    if off_m < failsafe.off_course_m:
        flight.off_ns = None
    elif flight.off_ns is None:
        flight.off_ns = flight.now_ns
    elif flight.since_s(flight.off_ns) > OFF_COURSE_S:
        return f"off course by {off_m:.1f} m"
    return ""


def _disbelieve(flight: FlightManager, reason: str) -> None:
    """Descend blind; a good estimate is not flown on again."""
    flight.landing.fail(reason, blind=True)
    flight.landing.trusted = False


# the battery


def _home_s(flight: FlightManager) -> float:
    """Time that the way home and the landing there take, in s."""
    p_W, params = flight.estimate.p_W, flight.params
    away_m = math.dist(p_W[:2], flight.home)
    down_m = max(p_W[2] - flight.ground_m, 0.0)
    # a leg takes half as long again as its way at full speed
    return 1.5 * away_m / params.speed_mps + down_m / params.landing_speed_mps + 5.0


def _is_critical(flight: FlightManager) -> str:
    return f"battery at {flight.battery.words}" if flight.battery.is_critical else ""


def _is_low(flight: FlightManager) -> str:
    low = flight.battery.warns(_home_s(flight))
    return f"battery at {flight.battery.words}" if low else ""


def _land_here(flight: FlightManager, reason: str) -> None:
    flight.suspend()
    flight.landing.fail(reason, placed=flight.state != "hold")


def _go_home(flight: FlightManager, reason: str) -> None:
    """Home while it is near enough, else down."""
    if flight.state == "hold" or not flight.battery.lasts(_home_s(flight)):
        _land_here(flight, f"{reason}, home is too far")
        return
    flight.suspend()
    flight.way_home.begin_failsafe(reason)


# time, position, floor and fence


def _is_late(flight: FlightManager) -> str:
    flown_s = flight.since_s(flight.takeoff_ns)
    late = flown_s > flight.params.failsafe.mission_timeout_s
    return "the mission takes too long" if late else ""


def _is_unfixed(flight: FlightManager) -> str:
    if flight.estimate.growth_m <= flight.params.failsafe.hold_growth_m:
        return ""
    return f"the position is not fixed any more, +-{flight.estimate.sigma_m:.1f} m"


def _is_too_low(flight: FlightManager) -> str:
    height_m = flight.height_m()
    return f"too low, {height_m:.2f} m" if height_m < flight.params.failsafe.floor_m else ""


def _stop_W(flight: FlightManager) -> Vec3:
    """Where braking now would end."""
    p, v = flight.estimate.p_W, flight.estimate.v_W
    ahead = math.hypot(*v) / (2.0 * flight.params.acceleration_mps2)
    return (p[0] + ahead * v[0], p[1] + ahead * v[1], p[2] + ahead * v[2])


def _leaves_fence(flight: FlightManager) -> str:
    """The way on leads out of the fence, by the distance that braking takes; told once."""
    if not flight.fence.bounds_anything:
        return ""
    stop_W = _stop_W(flight)
    told, flight.outside = flight.outside, flight.fence.beyond_m(stop_W) > FENCE_SLACK_M
    if told or not flight.outside or flight.state == "failsafe_return":
        return ""
    return f"about to leave: {flight.fence.fault(stop_W)}"


def _return_inside(flight: FlightManager, reason: str) -> None:
    flight.suspend()
    flight.event(WARN, "fence", reason)
    flight.reference.stand()
    if flight.fence.action == "land":
        flight.landing.fail(reason)
    elif flight.fence.action == "return":
        flight.way_home.begin_failsafe(reason)
    else:
        margin_m = flight.params.fence.margin_m + BACK_INSIDE_M
        flight.reference.go(flight.fence.inside(_stop_W(flight), margin_m), flight.estimate.yaw)
        flight.enter("hover", "back inside the fence", WARN)


def _without(states: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(name for name in states if name not in names)


_EN_ROUTE = _without(FLYING, "recovery", *LANDINGS)
_PLACED = tuple(name for name in _EN_ROUTE if STATES[name].placed)
_UNPILOTED = _without(_EN_ROUTE, *PILOTED, "commanded")
_NOT_UNDER_WAY = ("takeoff", "hold")  # states in which it is not yet, or not knowingly, on its way


def _pull_up(flight: FlightManager, reason: str) -> None:
    flight.recovery.pull_up(reason)


def _climb(flight: FlightManager, reason: str) -> None:
    flight.recovery.climb(reason)


def _land(flight: FlightManager, reason: str) -> None:
    flight.landing.fail(reason)


def _hold(flight: FlightManager, reason: str) -> None:
    flight.hold.begin(reason)


#: The gravest first.
RULES = (
    FailsafeRule(_falls, _pull_up, _without(FLYING, "manual", "commanded")),
    FailsafeRule(_is_off_course, _disbelieve, FLYING, slow=True),
    FailsafeRule(_is_critical, _land_here, _without(FLYING, "failsafe_landing"), slow=True),
    FailsafeRule(_is_low, _go_home, _without(FLYING, *LANDINGS), slow=True),
    FailsafeRule(_is_late, _land, _UNPILOTED),
    FailsafeRule(_is_unfixed, _hold, _PLACED),
    FailsafeRule(_is_too_low, _climb, _without(_UNPILOTED, *_NOT_UNDER_WAY)),
    FailsafeRule(_leaves_fence, _return_inside, _without(_EN_ROUTE, *_NOT_UNDER_WAY)),
)

#: Those that are looked at in a state, and whether it is a look by the slow ones.
_RULES_IN = {
    (state, looks): tuple(r for r in RULES if state in r.states and (looks or not r.slow))
    for state in STATES
    for looks in (False, True)
}
