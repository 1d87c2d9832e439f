"""How the mission's items are flown, one after the other, and the way home."""

from __future__ import annotations

import math

from quadsim.base.elementary import atan2
from quadsim.mission.flight.states import OK, WARN, FlightStates
from quadsim.mission.formations import Gather
from quadsim.mission.items import Follow, Goto, Hover, Item, Land, Takeoff, name_of
from quadsim.mission.trajectories.items import TrackItem, plan_of
from quadsim.mission.waypoint import ReturnHome, Waypoint


class MissionStates(FlightStates):
    """The states that the mission leads through."""

    def _begin_item(self) -> None:
        """Set the reference for the present item, from its start or from where it was paused."""
        item, now_ns = self._items[self._index], self._stamp_ns
        self._item_ns = now_ns
        self._land_at_ns = self._reached_ns = None
        self._released = False
        if isinstance(item, Land):
            self._begin_landing(item.speed_mps or self._params.landing_speed_mps, "as planned")
            return
        if isinstance(item, Takeoff):
            (x, y, _), _, _, yaw, _ = self._guidance.motion(now_ns)
            goal = (x, y, self._ground_m + item.height_m)
            self._guidance.go(now_ns, goal, yaw, item.speed_mps)
            self._enter("takeoff", f"to {item.height_m:g} m")
            return
        if isinstance(item, Goto):
            yaw = math.radians(item.yaw_deg)
            above = item.height == "above_ground"
            self._guidance.approach(
                now_ns, item.position_W_m, yaw, item.speed_mps, item.acceleration_mps2, above
            )
        elif isinstance(item, Waypoint):
            yaw = self._heading(item)
            above = item.height == "above_ground"
            self._guidance.approach(now_ns, item.position_W_m, yaw, item.speed_mps, above=above)
        elif isinstance(item, ReturnHome):
            self._begin_way_home(item.height_m, item.speed_mps)
        elif isinstance(item, Follow):
            self._guidance.follow(now_ns, item, self._paused_s)
        elif isinstance(item, TrackItem):
            plan = plan_of(item, self._params)
            if self._paused_s > 0.0:
                plan = plan.resumed(self._paused_s, self._params.acceleration_mps2)
            self._guidance.fly(now_ns, plan)
        else:
            self._guidance.brake(now_ns)
        self._enter("mission", f"item {self._index}: {name_of(item)}")

    def _heading(self, item: Waypoint) -> float:
        """Yaw in rad on the way to a waypoint."""
        p_W, yaw = self._guidance.estimate
        if item.heading == "given":
            return math.radians(item.yaw_deg)
        if item.heading == "course":
            east, north = (item.position_W_m[i] - p_W[i] for i in range(2))
            return atan2(north, east) if math.hypot(east, north) > 1e-3 else yaw
        return yaw

    def _begin_way_home(self, height_m: float, speed_mps: float) -> None:
        """Climb, then fly home; heights count from what they counted from before.

        Args:
            height_m: least height of the way, above home, or above the ground where one is held.
            speed_mps: fastest; 0 for the autopilot's.
        """
        (x, y, z), _ = self._guidance.estimate
        above = self._guidance.above
        base_m = self._following.level_m if above else self._ground_m
        up_m = max(z - base_m, height_m) + (0.0 if above else self._ground_m)
        self._way = [(*self._home, up_m)]
        if z - base_m < height_m - self._params.arrival_radius_m:
            self._way.insert(0, (x, y, up_m))
        self._way_mps = speed_mps
        self._next_on_way()

    def _next_on_way(self) -> None:
        yaw = self._guidance.estimate[1]
        self._guidance.approach(
            self._stamp_ns, self._way.pop(0), yaw, self._way_mps, above=self._guidance.above
        )

    def _on_mission(self) -> None:
        """Take-off and items: go on to the next when this one is done."""
        item = self._items[self._index]
        if isinstance(item, Hover):
            if self._since_s(self._item_ns) < item.duration_s:
                return
        elif isinstance(item, Gather):
            if not self._released:
                return
        elif isinstance(item, Waypoint) and self._reached_ns is not None:
            if self._since_s(self._reached_ns) < item.hold_s:
                return
        elif isinstance(item, Waypoint) and item.type == "intermediate":
            if not self._is_passed(item) and not self._is_given_up(item):
                return
        elif not self._guidance.is_over(self._stamp_ns):
            return
        elif isinstance(item, Takeoff | Goto | Waypoint | ReturnHome):
            if not self._is_passed(item) and not self._is_given_up(item):
                return
            if self._way:
                self._next_on_way()
                return
            if isinstance(item, Waypoint) and item.hold_s > 0.0:
                self._reached_ns = self._stamp_ns
                return
        if self.state == "failsafe_landing":
            return
        if isinstance(item, Waypoint) and item.type == "land":
            self._begin_landing(self._params.landing_speed_mps, "at the last waypoint")
            return
        self._paused_s = 0.0
        self._index += 1
        if self._index < len(self._items):
            self._begin_item()
        else:
            self._guidance.brake(self._stamp_ns)
            self._enter("hover", "the mission is over")

    def _is_passed(self, item: Item) -> bool:
        """Whether the estimate is near enough to where the item leads."""
        radius_m = item.radius_m if isinstance(item, Waypoint) else 0.0
        return self._guidance.away_m <= (radius_m or self._params.arrival_radius_m)

    def _is_given_up(self, item: Item) -> bool:
        """Whether a place was not reached in time; says so, and ends a take-off that was not."""
        over = self._guidance.is_over(self._stamp_ns)
        if not over or self._guidance.late_s(self._stamp_ns) < self._params.arrival_timeout_s:
            return False
        away_m = self._guidance.away_m
        if isinstance(item, Takeoff):
            self._fail(f"take-off failed, {away_m:.2f} m short")
        else:
            self._event(WARN, "not reached", f"item {self._index}, {away_m:.2f} m short")
        return True

    def _on_returning(self) -> None:
        """On the way home by request; it ends on the ground."""
        if not self._guidance.is_over(self._stamp_ns):
            return
        late = self._guidance.late_s(self._stamp_ns) > self._params.arrival_timeout_s
        if self._guidance.away_m > self._params.arrival_radius_m and not late:
            return
        if self._way:
            self._next_on_way()
        else:
            self._begin_landing(self._params.landing_speed_mps, "at home")

    def _tell_ground(self) -> None:
        """Say when the ground that is followed is lost, and when it is seen again."""
        lost = self._guidance.above and self._following.lost
        if lost and not self._ground_lost:
            seen = "nothing within reach" if self.ground.is_far else "no reading"
            self._event(WARN, "ground lost", f"{seen}: the height is held, slower")
        elif self._ground_lost and not lost and self._guidance.above:
            self._event(OK, "ground seen", "heights count from it again")
        self._ground_lost = lost
