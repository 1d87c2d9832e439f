"""What ends or bends a flight when something is wrong: the rules of the table in docs/mission.md.

At each tick the first rule that applies acts, the gravest first. A rule is a function of the
flight's record. It gives its reason in words, which is the event's message; an empty one: it does
not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from quadsim.base.parameters import Vec3
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.detours import Hold, Recovery
from quadsim.mission.flight.estimate_check import POSITION_DIVERGED
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.states import FLYING, LANDINGS, PILOTED, STATES, WARN
from quadsim.mission.flight.way_home import WayHome

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


# impact


def _falls(flight: FlightContext) -> str:
    """The sink rate leads into the ground before full thrust could stop it."""
    failsafe, sink_mps = flight.params.failsafe, flight.sink_rate_mps
    if sink_mps <= failsafe.impact_sink_mps:  # no state has a fall that is slower
        return ""
    if flight.pulls_up or flight.recoveries > MOST_PULL_UPS or flight.crippled:
        return ""
    if flight.state == "assisted" and flight.ground.known:  # along a slope it is no fall
        (x, y, _), v_W = flight.estimate.p_W, flight.estimate.v_W
        _, east, north = flight.ground.at(x, y)
        if east * v_W[0] + north * v_W[1] - v_W[2] <= failsafe.impact_sink_mps:
            return ""
    least_mps = failsafe.impact_sink_mps
    if flight.state in (*LANDINGS, "failsafe_return"):
        least_mps = max(least_mps, TOO_FAST * flight.sink_mps)
    sink_mps -= _doubt_mps(flight)
    height_m = _clearance_m(flight)
    stop_m = sink_mps * (IMPACT_LAG_S + 0.5 * sink_mps / IMPACT_ACCELERATION_MPS2)
    if sink_mps <= least_mps or stop_m < height_m - IMPACT_MARGIN_M:
        return ""
    return f"falls, {sink_mps:.1f} m/s at {height_m:.2f} m"


def _doubt_mps(flight: FlightContext) -> float:
    """How much of a sink rate may be the estimate's own error."""
    variance = float(flight.estimate.odometries["v_variance"][0, 2])
    return DEVIATIONS * math.sqrt(variance) if 0.0 < variance < math.inf else 0.0


def _clearance_m(flight: FlightContext) -> float:
    """Height of the feet above the ground beneath, as far as that is known; else infinite."""
    if not flight.ground.used:
        return flight.height_m() - min(flight.params.failsafe.floor_m, 0.0)
    if not flight.ground.known:
        return math.inf
    x, y, z = flight.estimate.p_W
    return z - flight.ground.at(x, y)[0] - LEGS_M


# the vehicle does not go where it shall


def _is_off_course(flight: FlightContext) -> str:
    """It is far from its reference and does not come nearer: then nothing is right."""
    failsafe = flight.params.failsafe
    off_m = 0.0
    if STATES[flight.state].placed and not flight.pulls_up:
        p_W, v_W, wanted_W = flight.estimate.p_W, flight.estimate.v_W, flight.reference.place
        east, north = wanted_W[0] - p_W[0], wanted_W[1] - p_W[1]
        off_m = math.hypot(east, north)
        if east * v_W[0] + north * v_W[1] > 0.5 * off_m:
            off_m = 0.0
    return f"off course by {off_m:.1f} m" if off_m >= failsafe.off_course_m else ""


# the battery


def _home_s(flight: FlightContext) -> float:
    """Time that the way home and the landing there take, in s."""
    p_W, params = flight.estimate.p_W, flight.params
    away_m = math.dist(p_W[:2], flight.home)
    down_m = max(p_W[2] - flight.ground_m, 0.0)
    # a leg takes half as long again as its way at full speed
    return 1.5 * away_m / params.speed_mps + down_m / params.landing_speed_mps + 5.0


def _is_critical(flight: FlightContext) -> str:
    return f"battery at {flight.battery.words}" if flight.battery.is_critical else ""


def _is_low(flight: FlightContext) -> str:
    low = flight.battery.warns(_home_s(flight))
    return f"battery at {flight.battery.words}" if low else ""


# time, position, floor and fence


def _is_late(flight: FlightContext) -> str:
    flown_s = flight.since_s(flight.takeoff_ns)
    late = flown_s > flight.params.failsafe.mission_timeout_s
    return "the mission takes too long" if late else ""


def _is_unfixed(flight: FlightContext) -> str:
    if flight.estimate.growth_m <= flight.params.failsafe.hold_growth_m:
        return ""
    return f"the position is not fixed any more, +-{flight.estimate.sigma_m:.1f} m"


def _is_too_low(flight: FlightContext) -> str:
    height_m = flight.height_m()
    return f"too low, {height_m:.2f} m" if height_m < flight.params.failsafe.floor_m else ""


def _stop_W(flight: FlightContext) -> Vec3:
    """Where braking now would end."""
    p, v = flight.estimate.p_W, flight.estimate.v_W
    ahead = math.hypot(*v) / (2.0 * flight.params.acceleration_mps2)
    return (p[0] + ahead * v[0], p[1] + ahead * v[1], p[2] + ahead * v[2])


def _leaves_fence(flight: FlightContext) -> str:
    """The way on leads out of the fence, by the distance that braking takes."""
    if not flight.fence.bounds_anything:
        return ""
    stop_W = _stop_W(flight)
    outside = flight.fence.beyond_m(stop_W) > FENCE_SLACK_M
    return f"about to leave: {flight.fence.fault(stop_W)}" if outside else ""


def _without(states: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(name for name in states if name not in names)


_EN_ROUTE = _without(FLYING, "recovery", *LANDINGS)
_PLACED = tuple(name for name in _EN_ROUTE if STATES[name].placed)
_UNPILOTED = _without(_EN_ROUTE, *PILOTED, "commanded")

_NOT_UNDER_WAY = ("takeoff", "hold")  # it is not yet, or not knowingly, on its way
_FREE = _without(_EN_ROUTE, *_NOT_UNDER_WAY, "failsafe_return")


class FailsafeRule(NamedTuple):
    """One failsafe.

    Attributes:
        applies: why it is to act, in words; empty: it is not.
        act: name of what :class:`Failsafes` does then.
        states: in which it is looked at.
        slow: whether it is looked at ten times a second, not at each tick.
        lasts_s: it acts once it has applied for longer than this.
        once: whether it acts only when it begins to apply.
    """

    applies: Callable[[FlightContext], str]
    act: str
    states: tuple[str, ...]
    slow: bool = False
    lasts_s: float = 0.0
    once: bool = False


#: The gravest first.
RULES = (
    FailsafeRule(_falls, "pull_up", _without(FLYING, "manual", "commanded")),
    FailsafeRule(_is_off_course, "descend_blind", FLYING, slow=True, lasts_s=OFF_COURSE_S),
    FailsafeRule(_is_critical, "land_here", _without(FLYING, "failsafe_landing"), slow=True),
    FailsafeRule(_is_low, "go_home", _without(FLYING, *LANDINGS), slow=True),
    FailsafeRule(_is_late, "land", _UNPILOTED),
    FailsafeRule(_is_unfixed, "hold", _PLACED),
    FailsafeRule(_is_too_low, "climb", _without(_UNPILOTED, *_NOT_UNDER_WAY)),
    FailsafeRule(_leaves_fence, "return_inside", _FREE, once=True),
)

#: Those that are looked at in a state, and whether it is a look by the slow ones.
_RULES_IN = {
    (state, looks): tuple(r for r in RULES if state in r.states and (looks or not r.slow))
    for state in STATES
    for looks in (False, True)
}


class Failsafes:
    """Watches over one flight by the rules, and acts on its parts."""

    def __init__(
        self,
        flight: FlightContext,
        landing: Landing,
        way_home: WayHome,
        mission: MissionItems,
        hold: Hold,
        recovery: Recovery,
    ) -> None:
        self._flight, self._landing, self._way_home = flight, landing, way_home
        self._mission = mission
        self._acts: dict[str, Callable[[str], None]] = {
            "pull_up": recovery.pull_up,
            "descend_blind": self._descend_blind,
            "land_here": self._land_here,
            "go_home": self._go_home,
            "land": landing.fail,
            "hold": hold.begin,
            "climb": recovery.climb,
            "return_inside": self._return_inside,
        }
        self.reset()

    def reset(self) -> None:
        """Forget the last flight."""
        self._looked_ns = 0
        self._since_ns: dict[str, int] = {}  # by act, since when a rule applies

    def forgive(self) -> None:
        """Count anew how long the vehicle has been off course."""
        self._since_ns.pop("descend_blind", None)

    def watch_over(self) -> None:
        """Act by the first rule that applies."""
        flight = self._flight
        if not flight.estimate.good:
            self._distrust()
            return
        if not flight.flying or flight.blind:
            return
        looks = flight.now_ns - self._looked_ns >= LOOK_NS
        for rule in _RULES_IN[flight.state, looks]:
            if rule.slow:
                self._looked_ns = flight.now_ns
            reason = rule.applies(flight)
            if not reason:
                self._since_ns.pop(rule.act, None)
            elif self._is_due(rule):
                self._acts[rule.act](reason)
                return

    def _is_due(self, rule: FailsafeRule) -> bool:
        """Whether a rule that applies acts now."""
        flight, new = self._flight, rule.act not in self._since_ns
        since_ns = self._since_ns.setdefault(rule.act, flight.now_ns)
        if rule.once:
            return new
        return rule.lasts_s == 0.0 or flight.since_s(since_ns) > rule.lasts_s

    def _distrust(self) -> None:
        """The estimate is bad; without a position alone, its velocity is still flown on."""
        flight, estimate = self._flight, self._flight.estimate
        if flight.state == "armed":
            flight.enter("disarmed", f"{estimate.words} before take-off", WARN)
        elif not flight.flying or flight.blind:
            return
        elif (
            estimate.verdict != POSITION_DIVERGED
            or estimate.sigma_z_m > flight.params.failsafe.position_sigma_m
        ):
            self._landing.fail(estimate.words, blind=True)
        elif self._landing.placed:
            self._landing.fail(estimate.words, placed=False)

    def _descend_blind(self, reason: str) -> None:
        """Descend blind; a good estimate is not flown on again."""
        self._landing.fail(reason, blind=True)
        self._landing.trusted = False

    def _land_here(self, reason: str) -> None:
        self._mission.suspend()
        self._landing.fail(reason, placed=self._flight.state != "hold")

    def _go_home(self, reason: str) -> None:
        """Home while it is near enough, else down."""
        flight = self._flight
        if flight.state == "hold" or not flight.battery.lasts(_home_s(flight)):
            self._land_here(f"{reason}, home is too far")
            return
        self._mission.suspend()
        self._way_home.begin_failsafe(reason)

    def _return_inside(self, reason: str) -> None:
        flight = self._flight
        self._mission.suspend()
        flight.event(WARN, "fence", reason)
        flight.reference.stand()
        if flight.fence.action == "land":
            self._landing.fail(reason)
        elif flight.fence.action == "return":
            self._way_home.begin_failsafe(reason)
        else:
            margin_m = flight.params.fence.margin_m + BACK_INSIDE_M
            goal_W = flight.fence.inside(_stop_W(flight), margin_m)
            flight.reference.go(goal_W, flight.estimate.yaw)
            flight.enter("hover", "back inside the fence", WARN)
