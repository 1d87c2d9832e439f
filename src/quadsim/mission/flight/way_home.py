"""The way home."""

from __future__ import annotations

from quadsim.base.parameters import Vec3
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.states import ERROR

#: Height above the floor to which a recovery or a way home climbs at least, m.
RECOVERY_CLIMB_M = 0.5


class WayHome:
    """Climb, then fly home; where a pilot flew above the ground as it comes, above the ground.

    Attributes:
        places: still to come.
    """

    def __init__(self, flight: FlightContext, landing: Landing) -> None:
        self._flight, self._landing = flight, landing
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
        if flight.took_over and flight.ground.known:
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
            self._landing.begin("at home")
        else:
            self._landing.fail(flight.reason)
