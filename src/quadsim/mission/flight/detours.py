"""What interrupts the mission and leads back to it: a hold, a recovery."""

from __future__ import annotations

from quadsim.base.parameters import Vec3
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.estimate_check import ESTIMATE_RETURN_S, ZERO
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.states import LANDINGS, OK, WARN
from quadsim.mission.flight.way_home import RECOVERY_CLIMB_M, WayHome

#: Time that a recovery from below the floor may take, s.
RECOVERY_S = 5.0
#: One more dive below the floor than this ends the flight.
MOST_RECOVERIES = 3
#: Climb rate at which a fall has been caught, m/s.
CAUGHT_MPS = 0.2


class Hold:
    """Stay by inertial navigation while the position is not fixed: velocity zero, height held."""

    def __init__(
        self, flight: FlightContext, landing: Landing, way_home: WayHome, mission: MissionItems
    ) -> None:
        self._flight, self._landing = flight, landing
        self._way_home, self._mission = way_home, mission
        self._held: tuple[str, Vec3, float] = ("hover", ZERO, 0.0)
        self._fixed_ns: int | None = None  # since when the position has been fixed again

    def begin(self, message: str) -> None:
        """Begin it."""
        flight = self._flight
        p_W, _, _, yaw, _ = flight.reference.motion()
        self._mission.suspend()
        self._held, self._fixed_ns = (flight.state, p_W, yaw), None
        flight.reference.drift(0.0)
        flight.enter("hold", message, WARN)

    def tick(self) -> None:
        """End it once the position is fixed for a while, or land when that takes too long."""
        flight, failsafe = self._flight, self._flight.params.failsafe
        if not flight.is_fixed:
            self._fixed_ns = None
            if flight.since_s(flight.entered_ns) > failsafe.hold_s:
                reason = f"no fix of the position for {failsafe.hold_s:g} s"
                self._landing.fail(reason, placed=False)
        elif self._fixed_ns is None:
            self._fixed_ns = flight.now_ns
        elif flight.since_s(self._fixed_ns) >= ESTIMATE_RETURN_S:
            flight.event(OK, "position fixed", f"after {flight.since_s(flight.entered_ns):.1f} s")
            self._end()

    def _end(self) -> None:
        """Go on with what was held."""
        flight, (state, goal_W, yaw) = self._flight, self._held
        flight.reference.stand()
        if state in ("takeoff", "mission") and self._mission.item is not None:
            self._mission.begin()
        elif state == "failsafe_return":
            self._way_home.begin_failsafe(flight.reason)
        else:
            flight.reference.go(goal_W, yaw)
            flight.enter("hover", "back to where it was told")


class Recovery:
    """Near the ground: level and full thrust when a crash is near, then a climb."""

    def __init__(
        self, flight: FlightContext, landing: Landing, way_home: WayHome, mission: MissionItems
    ) -> None:
        self._flight, self._landing = flight, landing
        self._way_home, self._mission = way_home, mission
        self._state = "hover"  # that was left

    def pull_up(self, message: str) -> None:
        """Level and full thrust until it climbs."""
        flight = self._flight
        if flight.state != "recovery":
            self._mission.suspend()
            self._state = flight.state
        flight.recoveries += 1
        flight.reference.pull_up(flight.params.ascent_mps)
        flight.enter("recovery", message, WARN)

    def climb(self, message: str) -> None:
        """Climb; too often, land."""
        flight = self._flight
        self._mission.suspend()
        flight.recoveries += 1
        if flight.recoveries > MOST_RECOVERIES:
            self._landing.fail("too low, again and again")
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
                self._landing.fail("it falls, and no recovery")
        elif reference.is_over:
            if reference.away_m <= params.arrival_radius_m:
                self._end()
            elif reference.late_s > RECOVERY_S:
                self._landing.fail("too low, and no recovery")

    def _end(self) -> None:
        """Go on with what came before."""
        flight, state = self._flight, self._state
        lands = state in (*LANDINGS, "failsafe_return")
        if flight.recoveries > MOST_RECOVERIES and not lands:
            self._landing.fail("too low, again and again")
        elif state in ("takeoff", "mission") and self._mission.item is not None:
            self._mission.begin()
        elif state == "landing":
            self._landing.begin("again", flight.sink_mps)
        elif state == "failsafe_landing":
            self._landing.fail(flight.reason)
        elif state == "failsafe_return":
            self._way_home.begin_failsafe(flight.reason)
        else:
            flight.enter("hover", "recovered")
