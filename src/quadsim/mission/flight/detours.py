"""What leads away from the mission, and back to it: the way home, a hold, a recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadsim.base.parameters import Vec3
from quadsim.mission.flight.estimate_check import ESTIMATE_RETURN_S, ZERO
from quadsim.mission.flight.states import ERROR, LANDINGS, OK, WARN

if TYPE_CHECKING:
    from quadsim.mission.flight.flight import FlightManager

#: Time that a recovery from below the floor may take, s.
RECOVERY_S = 5.0
#: A hold ends when the growth of the position's deviation is below this share of what begins it.
FIXED_SHARE = 0.3
#: One more dive below the floor than this ends the flight.
MOST_RECOVERIES = 3
#: Height above the floor to which a recovery climbs at least, m.
RECOVERY_CLIMB_M = 0.5
#: Climb rate at which a fall has been caught, m/s.
CAUGHT_MPS = 0.2


class WayHome:
    """Climb, then fly home; where a pilot flew above the ground as it comes, above the ground.

    Attributes:
        places: still to come.
    """

    def __init__(self, flight: FlightManager) -> None:
        self._flight = flight
        self.places: list[Vec3] = []
        self._speed_mps = 0.0

    def begin(self, height_m: float, speed_mps: float = 0.0) -> None:
        """Begin it; heights count from what they counted from before.

        Args:
            height_m: least height of the way, above home, or above the ground where one is held.
            speed_mps: fastest; 0 for the autopilot's.
        """
        flight, reference = self._flight, self._flight.reference
        x, y, z = flight.estimate.p_W
        if flight.pilot.took_over and flight.ground.known:
            reference.go((x, y, flight.height_m()), flight.estimate.yaw, above=True)
            height_m = max(height_m, flight.params.assisted.takeoff_m)
        above = reference.above
        base_m = flight.ground.level_m if above else flight.ground_m
        up_m = max(z - base_m, height_m) + (0.0 if above else flight.ground_m)
        self.places, self._speed_mps = [(*flight.home, up_m)], speed_mps
        if z - base_m < height_m - flight.params.arrival_radius_m:
            self.places.insert(0, (x, y, up_m))
        self.next()

    def begin_failsafe(self, reason: str) -> None:
        """Fly home and land there; nothing but its end, or a graver failsafe, ends it."""
        flight = self._flight
        flight.reason = reason
        flight.enter("failsafe_return", reason, ERROR)
        self.begin(flight.params.failsafe.floor_m + RECOVERY_CLIMB_M)

    def next(self) -> None:
        """Fly to the next place."""
        reference, yaw = self._flight.reference, self._flight.estimate.yaw
        reference.approach(self.places.pop(0), yaw, self._speed_mps, above=reference.above)

    def tick(self) -> None:
        """Go on to the next place; land at home."""
        flight, reference, params = self._flight, self._flight.reference, self._flight.params
        near = reference.away_m <= params.arrival_radius_m
        if not reference.is_over or not (near or reference.late_s > params.arrival_timeout_s):
            return
        if self.places:
            self.next()
        elif flight.state == "returning":
            flight.landing.begin("at home")
        else:
            flight.landing.fail(flight.reason)


class Hold:
    """Stay by inertial navigation while the position is not fixed: velocity zero, height held."""

    def __init__(self, flight: FlightManager) -> None:
        self._flight = flight
        self._held: tuple[str, Vec3, float] = ("hover", ZERO, 0.0)
        self._fixed_ns: int | None = None  # since when the position has been fixed again

    @property
    def is_fixed(self) -> bool:
        """Whether the position is fixed again."""
        most_m = FIXED_SHARE * self._flight.params.failsafe.hold_growth_m
        return self._flight.estimate.growth_m <= most_m

    def begin(self, message: str) -> None:
        """Begin it."""
        flight = self._flight
        p_W, _, _, yaw, _ = flight.reference.motion()
        flight.suspend()
        self._held, self._fixed_ns = (flight.state, p_W, yaw), None
        flight.reference.drift(0.0)
        flight.enter("hold", message, WARN)

    def tick(self) -> None:
        """End it once the position is fixed for a while, or land when that takes too long."""
        flight, failsafe = self._flight, self._flight.params.failsafe
        if not self.is_fixed:
            self._fixed_ns = None
            if flight.since_s(flight.entered_ns) > failsafe.hold_s:
                reason = f"no fix of the position for {failsafe.hold_s:g} s"
                flight.landing.fail(reason, placed=False)
        elif self._fixed_ns is None:
            self._fixed_ns = flight.now_ns
        elif flight.since_s(self._fixed_ns) >= ESTIMATE_RETURN_S:
            flight.event(OK, "position fixed", f"after {flight.since_s(flight.entered_ns):.1f} s")
            self._end()

    def _end(self) -> None:
        """Go on with what was held."""
        flight, (state, goal_W, yaw) = self._flight, self._held
        flight.reference.stand()
        if state in ("takeoff", "mission") and flight.mission.item is not None:
            flight.mission.begin()
        elif state == "failsafe_return":
            flight.way_home.begin_failsafe(flight.reason)
        else:
            flight.reference.go(goal_W, yaw)
            flight.enter("hover", "back to where it was told")


class Recovery:
    """Near the ground: level and full thrust when a crash is near, then a climb.

    Attributes:
        count: how often it was needed.
    """

    def __init__(self, flight: FlightManager) -> None:
        self._flight = flight
        self.count = 0
        self._state = "hover"  # that was left

    def pull_up(self, message: str) -> None:
        """Level and full thrust until it climbs."""
        flight = self._flight
        if flight.state != "recovery":
            flight.suspend()
            self._state = flight.state
        self.count += 1
        flight.reference.pull_up(flight.params.ascent_mps)
        flight.enter("recovery", message, WARN)

    def climb(self, message: str) -> None:
        """Climb away from the ground; too often, land."""
        flight = self._flight
        flight.suspend()
        self.count += 1
        if self.count > MOST_RECOVERIES:
            flight.landing.fail("too low, again and again")
            return
        self._state = flight.state
        self._climb_away()
        flight.enter("recovery", message, WARN)

    def _climb_away(self) -> None:
        """A leg straight up to the height that was wanted, or a safe one."""
        flight, (x, y, z) = self._flight, self._flight.estimate.p_W
        wanted_m = flight.reference.place[2]
        least_m = z - flight.height_m() + flight.params.failsafe.floor_m + RECOVERY_CLIMB_M
        flight.reference.stand()
        flight.reference.go((x, y, max(wanted_m, least_m)), flight.estimate.yaw)

    def tick(self) -> None:
        """Pull up until it climbs, then climb to a safe height."""
        flight, reference, params = self._flight, self._flight.reference, self._flight.params
        if reference.kind == "pull_up":
            if flight.estimate.v_W[2] > CAUGHT_MPS:
                self._climb_away()
            elif flight.since_s(flight.entered_ns) > RECOVERY_S:
                flight.landing.fail("it falls, and no recovery")
        elif reference.is_over:
            if reference.away_m <= params.arrival_radius_m:
                self._end()
            elif reference.late_s > RECOVERY_S:
                flight.landing.fail("too low, and no recovery")

    def _end(self) -> None:
        """Go on with what came before."""
        flight, state = self._flight, self._state
        landing = state in (*LANDINGS, "failsafe_return")
        if self.count > MOST_RECOVERIES and not landing:
            flight.landing.fail("too low, again and again")
        elif state in ("takeoff", "mission") and flight.mission.item is not None:
            flight.mission.begin()
        elif state == "landing":
            flight.landing.begin("again", flight.landing.sink_mps)
        elif state == "failsafe_landing":
            flight.landing.fail(flight.reason)
        elif state == "failsafe_return":
            flight.way_home.begin_failsafe(flight.reason)
        else:
            flight.enter("hover", "recovered")
