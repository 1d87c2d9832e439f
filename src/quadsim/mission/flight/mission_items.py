"""How the mission's items are flown, one after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from quadsim.base.elementary import atan2
from quadsim.mission.flight.states import WARN
from quadsim.mission.formations import Gather
from quadsim.mission.items import Follow, Goto, Hover, Item, Land, Takeoff, name_of
from quadsim.mission.reference.preview import PointsPlan
from quadsim.mission.trajectories.items import TrackItem, plan_of
from quadsim.mission.waypoint import ReturnHome, Waypoint

if TYPE_CHECKING:
    from quadsim.mission.flight.flight import FlightManager


class MissionItems:
    """The mission of one flight.

    Args:
        flight: whose reference and state they lead.
        items: the mission.

    Attributes:
        index: of the present item.
        started: whether it was begun.
        released: whether all others are here too.
        paused_s: how far timed points or a trajectory were flown before a pause.
    """

    def __init__(self, flight: FlightManager, items: tuple[Item, ...]) -> None:
        self._flight, self.items = flight, items
        self.index = 0
        self.started = self.released = False
        self.paused_s = 0.0
        self._begun_ns = 0  # the item
        self._reached_ns: int | None = None  # the waypoint

    @property
    def item(self) -> Item | None:
        """The present item; None after the last."""
        return self.items[self.index] if self.index < len(self.items) else None

    def skip_takeoff(self) -> None:
        """Begin behind the take-off, which somebody else flies."""
        self.started = True
        self.index = int(isinstance(self.item, Takeoff))

    def suspend(self) -> None:
        """Remember how far timed points or a trajectory were followed."""
        if isinstance(self.item, Follow | TrackItem):
            self.paused_s = self._flight.reference.progress_s

    def begin(self) -> None:
        """Set the reference for the present item, from its start or from where it was paused."""
        flight, reference, item = self._flight, self._flight.reference, self.items[self.index]
        self._begun_ns = flight.now_ns
        flight.landing.at_ns = self._reached_ns = None
        self.released = False
        if isinstance(item, Land):
            flight.landing.begin("as planned", item.speed_mps)
            return
        if isinstance(item, Takeoff):
            flight.climb(item.height_m, item.speed_mps)
            return
        if isinstance(item, Goto | Waypoint):
            acceleration_mps2 = item.acceleration_mps2 if isinstance(item, Goto) else 0.0
            above, yaw = item.height == "above_ground", self._yaw(item)
            reference.approach(item.position_W_m, yaw, item.speed_mps, acceleration_mps2, above)
        elif isinstance(item, ReturnHome):
            flight.way_home.begin(item.height_m, item.speed_mps)
        elif isinstance(item, Follow):
            reference.follow(PointsPlan(item, flight.params.preview_s), self.paused_s)
        elif isinstance(item, TrackItem):
            plan = plan_of(item, flight.params)
            if self.paused_s > 0.0:
                plan = plan.resumed(self.paused_s, flight.params.acceleration_mps2)
            reference.fly(plan)
        else:
            reference.brake()
        flight.enter("mission", f"item {self.index}: {name_of(item)}")

    def _yaw(self, item: Goto | Waypoint) -> float:
        """Yaw in rad on the way to a place."""
        estimate = self._flight.estimate
        if isinstance(item, Goto) or item.heading == "given":
            return math.radians(item.yaw_deg)
        if item.heading == "course":
            east, north = (item.position_W_m[i] - estimate.p_W[i] for i in range(2))
            return atan2(north, east) if math.hypot(east, north) > 1e-3 else estimate.yaw
        return estimate.yaw

    def tick(self) -> None:
        """Go on to the next item when this one is done."""
        flight, item = self._flight, self.items[self.index]
        if not self._is_done(item) or flight.state == "failsafe_landing":
            return
        if isinstance(item, Waypoint) and item.type == "land":
            flight.landing.begin("at the last waypoint")
            return
        self.paused_s = 0.0
        self.index += 1
        if self.item is not None:
            self.begin()
        else:
            flight.reference.brake()
            flight.enter("hover", "the mission is over")

    def _is_done(self, item: Item) -> bool:
        flight = self._flight
        if isinstance(item, Hover):
            return flight.since_s(self._begun_ns) >= item.duration_s
        if isinstance(item, Gather):
            return self.released
        if isinstance(item, Waypoint) and self._reached_ns is not None:
            return flight.since_s(self._reached_ns) >= item.hold_s
        if isinstance(item, Waypoint) and item.type == "intermediate":
            return self.is_reached(item)
        if not flight.reference.is_over:
            return False
        if not isinstance(item, Takeoff | Goto | Waypoint | ReturnHome):
            return True
        if not self.is_reached(item):
            return False
        if flight.way_home.places:
            flight.way_home.next()
            return False
        if isinstance(item, Waypoint) and item.hold_s > 0.0:
            self._reached_ns = flight.now_ns
            return False
        return True

    def is_reached(self, item: Item | None) -> bool:
        """Whether the estimate is near enough to where an item leads, or that is given up.

        Says so where it is given up, and ends the flight of a take-off.
        """
        flight, reference = self._flight, self._flight.reference
        radius_m = item.radius_m if isinstance(item, Waypoint) else 0.0
        away_m = reference.away_m
        if away_m <= (radius_m or flight.params.arrival_radius_m):
            return True
        if not reference.is_over or reference.late_s < flight.params.arrival_timeout_s:
            return False
        if flight.state == "takeoff":
            flight.landing.fail(f"take-off failed, {away_m:.2f} m short")
        else:
            flight.event(WARN, "not reached", f"item {self.index}, {away_m:.2f} m short")
        return True
