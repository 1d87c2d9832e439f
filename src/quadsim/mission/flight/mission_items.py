"""How the mission's items are flown, one after the other.

What a vehicle does best about timed points whose velocity jumps: it begins before they do.

Points joined by straight lines ask for infinite acceleration at their corners. Smoothed over a
window around now (half a period of a raised cosine, of weight 1), they have a velocity and an
acceleration that can be flown; the part of the window that lies ahead is the preview. On a straight
stretch longer than the window the smoothed points are the points.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.states import WARN
from quadsim.mission.flight.way_home import WayHome
from quadsim.mission.formations import Gather
from quadsim.mission.items import Follow, Goto, Hover, Item, Land, Takeoff, TimedPoint, name_of
from quadsim.mission.reference.legs import Motion
from quadsim.mission.trajectories.items import TrackItem, plan_of
from quadsim.mission.waypoint import ReturnHome, Waypoint


def window_weight(x: float) -> float:
    """Raised cosine (1 + cos(pi x)) / 2 on [-1, 1], 0 outside; its integral is 1."""
    return 0.5 * (1.0 + cos(math.pi * x)) if abs(x) < 1.0 else 0.0


def window_share(x: float) -> float:
    """Integral of :func:`window_weight` from -1 to ``x``."""
    x = min(max(x, -1.0), 1.0)
    return 0.5 * (1.0 + x + sin(math.pi * x) / math.pi)


def window_moment(x: float) -> float:
    """Integral of :func:`window_share` from -1 to ``x``; ``x`` beyond 1."""
    inside = min(max(x, -1.0), 1.0)
    bell = (1.0 + cos(math.pi * inside)) / (math.pi * math.pi)
    area = 0.25 * (1.0 + inside) * (1.0 + inside) - 0.5 * bell
    return area + max(x - 1.0, 0.0)


def smoothed(points: Sequence[TimedPoint], t_s: float, half_s: float) -> tuple[Vec3, Vec3, Vec3]:
    """Position, velocity and acceleration in W of timed points under the window around a time.

    Before the first and after the last point they stand there.

    Args:
        points: time in s, x, y, z in m, yaw in deg; times rise.
        t_s: time since their start.
        half_s: half the window's width, > 0.

    Returns:
        Position in m, velocity in m/s, acceleration in m/s^2.
    """
    first = max(bisect_right(points, t_s - half_s, key=lambda point: point[0]) - 1, 0)
    p, v, a = list(points[first][1:4]), [0.0] * 3, [0.0] * 3
    for before, after in zip(points[first:], points[first + 1 :], strict=False):
        if before[0] >= t_s + half_s:
            break
        entered, left = (t_s - before[0]) / half_s, (t_s - after[0]) / half_s
        slope = [(after[k] - before[k]) / (after[0] - before[0]) for k in (1, 2, 3)]
        way_s = half_s * (window_moment(entered) - window_moment(left))
        share = window_share(entered) - window_share(left)
        weight = (window_weight(entered) - window_weight(left)) / half_s
        for i in range(3):
            p[i] += slope[i] * way_s
            v[i] += slope[i] * share
            a[i] += slope[i] * weight
    return (p[0], p[1], p[2]), (v[0], v[1], v[2]), (a[0], a[1], a[2])


@dataclass(frozen=True)
class PointsPlan:
    """Timed points as a reference, which states how it moves only with a preview.

    Attributes:
        item: the points.
        preview_s: half the window of :func:`smoothed`; 0: velocity and acceleration are zero.
    """

    item: Follow
    preview_s: float

    @property
    def duration_s(self) -> float:
        """Time of the last point."""
        return self.item.points[-1][0]

    def progress(self, t_s: float) -> float:
        """Time within the points that is reached at a time."""
        return t_s

    def at(self, t_s: float) -> Motion:
        """Motion that is wanted at a time since the start."""
        p, yaw = self.item.at(t_s)
        v: Vec3 = (0.0, 0.0, 0.0)
        a = v
        if self.preview_s > 0.0:
            _, v, a = smoothed(self.item.points, t_s, self.preview_s)
        return p, v, a, yaw, 0.0


class MissionItems:
    """The mission of one flight.

    Args:
        flight: whose reference and state they lead.
        landing, way_home: to which items lead.

    Attributes:
        index: of the present item.
        started: whether it was begun.
        released: whether all others are here too.
        paused_s: how far timed points or a trajectory were flown before a pause.
    """

    def __init__(
        self, flight: FlightContext, items: tuple[Item, ...], landing: Landing, way_home: WayHome
    ) -> None:
        self._flight, self.items = flight, items
        self._landing, self._way_home = landing, way_home
        self.reset()

    def reset(self) -> None:
        """Stand before the first item."""
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
        """Drop what was to come; remember how far timed points or a trajectory were followed."""
        flight = self._flight
        flight.land_at_ns = None
        if flight.state == "mission" and isinstance(self.item, Follow | TrackItem):
            self.paused_s = flight.reference.progress_s

    def begin(self) -> None:
        """Set the reference for the present item, from its start or from where it was paused."""
        flight, reference, item = self._flight, self._flight.reference, self.items[self.index]
        self._begun_ns = flight.now_ns
        flight.land_at_ns = self._reached_ns = None
        self.released = False
        if isinstance(item, Land):
            self._landing.begin("as planned", item.speed_mps)
            return
        if isinstance(item, Takeoff):
            flight.climb(item.height_m, item.speed_mps)
            return
        if isinstance(item, Goto | Waypoint):
            acceleration_mps2 = item.acceleration_mps2 if isinstance(item, Goto) else 0.0
            above, yaw = item.height == "above_ground", self._yaw(item)
            reference.approach(item.position_W_m, yaw, item.speed_mps, acceleration_mps2, above)
        elif isinstance(item, ReturnHome):
            self._way_home.begin(item.height_m, item.speed_mps)
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
            self._landing.begin("at the last waypoint")
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
        if self._way_home.places:
            self._way_home.next()
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
            words = f"{away_m:.2f} m short"
            if reference.over_m > flight.params.arrival_radius_m:
                words = f"it overshot by {reference.over_m:.2f} m; its gains may not suit it (tune)"
            self._landing.fail(f"take-off failed, {words}")
        else:
            flight.event(WARN, "not reached", f"item {self.index}, {away_m:.2f} m short")
        return True
