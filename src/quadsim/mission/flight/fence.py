"""Where a vehicle may fly: any of a cylinder about home, a polygon, a floor and a ceiling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from quadsim.base.parameters import Vec3
from quadsim.control.parameters import FenceParams, FlightParams
from quadsim.mission.items import Follow, Goto, Item, Takeoff, name_of
from quadsim.mission.trajectories.items import TrackItem, map_points
from quadsim.mission.waypoint import ReturnHome, Waypoint

#: Between two points of a leg that are looked at, m.
LOOK_M = 0.5
#: No leg is looked at in more places.
MOST_LOOKS = 2000

#: A bound: room left in m (negative outside), and the unit vector in W that leads to it.
Bound = tuple[float, Vec3]


def _is_inside(polygon: Sequence[tuple[float, float]], x: float, y: float) -> bool:
    """Whether a point is inside a polygon, by the crossings of a ray to the east."""
    inside = False
    for (x0, y0), (x1, y1) in pairwise((*polygon, polygon[0])):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            inside = not inside
    return inside


def _nearest(
    a: tuple[float, float], b: tuple[float, float], x: float, y: float
) -> tuple[float, float]:
    """Point of the line from a to b that is nearest to (x, y)."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length2 = dx * dx + dy * dy
    share = ((x - a[0]) * dx + (y - a[1]) * dy) / length2 if length2 > 0.0 else 0.0
    share = min(max(share, 0.0), 1.0)
    return (a[0] + share * dx, a[1] + share * dy)


class Fence:
    """The bounds of one flight.

    Args:
        home_W_m: where the vehicle was armed.
    """

    def __init__(self, params: FenceParams, home_W_m: Vec3) -> None:
        self._params = params
        self._home = home_W_m
        corners = params.polygon_W_m
        self._edges = list(pairwise((*corners, corners[0]))) if corners else []
        self.action = params.action
        #: Whether there is anything to keep within.
        self.bounds_anything = bool(
            params.radius_m or corners or params.ceiling_m or params.floor_m
        )

    def bounds(self, p_W: Vec3) -> Iterator[Bound]:
        """Every bound as seen from a point: of a polygon each edge, by its nearest point."""
        params, home = self._params, self._home
        x, y, z = p_W
        if params.radius_m:
            dx, dy = x - home[0], y - home[1]
            apart = math.hypot(dx, dy)
            towards = (dx / apart, dy / apart, 0.0) if apart > 0.0 else (1.0, 0.0, 0.0)
            yield params.radius_m - apart, towards
        if self._edges:
            sign = 1.0 if _is_inside(params.polygon_W_m, x, y) else -1.0
            rooms = []
            for a, b in self._edges:
                near_x, near_y = _nearest(a, b, x, y)
                room = math.hypot(near_x - x, near_y - y)
                scale = sign / room if room > 0.0 else 0.0
                rooms.append((sign * room, (scale * (near_x - x), scale * (near_y - y), 0.0)))
            # outside, the nearest edge is the way back in
            yield from rooms if sign > 0.0 else [max(rooms)]
        if params.ceiling_m:
            yield home[2] + params.ceiling_m - z, (0.0, 0.0, 1.0)
        if params.floor_m:
            yield z - home[2] - params.floor_m, (0.0, 0.0, -1.0)

    def beyond_m(self, p_W: Vec3) -> float:
        """How far outside a point is in m; 0 inside."""
        return max([0.0, *(-room for room, _ in self.bounds(p_W))])

    def fault(self, p_W: Vec3) -> str:
        """What a point breaks, in words; empty inside."""
        params, home = self._params, self._home
        x, y, z = p_W
        apart = math.hypot(x - home[0], y - home[1])
        if params.radius_m and apart > params.radius_m:
            return f"{apart:.1f} m from home; the fence allows {params.radius_m:g}"
        if self._edges and not _is_inside(params.polygon_W_m, x, y):
            return f"({x:.1f}, {y:.1f}) is outside the fence"
        if params.ceiling_m and z - home[2] > params.ceiling_m:
            return f"{z - home[2]:.1f} m above home; the fence allows {params.ceiling_m:g}"
        if params.floor_m and z - home[2] < params.floor_m:
            return (
                f"{z - home[2]:.1f} m above home; the fence allows no less than {params.floor_m:g}"
            )
        return ""

    def way_fault(self, start_W: Vec3, goal_W: Vec3) -> str:
        """What the straight way between two points breaks, in words; empty inside."""
        if not self.bounds_anything:
            return ""
        fault = self.fault(goal_W)
        if fault:
            return fault
        count = min(math.ceil(math.dist(start_W, goal_W) / LOOK_M), MOST_LOOKS)
        for k in range(1, count):
            share = k / count
            x, y, z = (a + share * (b - a) for a, b in zip(start_W, goal_W, strict=True))
            fault = self.fault((x, y, z))
            if fault:
                return fault
        return ""

    def ways_fault(self, points_W: Sequence[Vec3]) -> str:
        """What the straight ways from point to point break, in words; empty inside."""
        faults = (self.way_fault(a, b) for a, b in pairwise(points_W))
        return next(filter(None, faults), "")

    def cut(self, p_W: Vec3, v_W: Vec3, braking_mps2: float, lag_s: float) -> Vec3:
        """A velocity that does not lead across the fence.

        Towards each bound no faster than what a steady braking stops at the margin before it,
        after a lag: v lag + v^2 / (2 a) = room.

        Args:
            p_W: position.
            v_W: wanted velocity.
            braking_mps2: deceleration that is counted on.
            lag_s: time before it begins.
        """
        v = v_W
        for room, towards in self.bounds(p_W):
            left = max(room - self._params.margin_m, 0.0)
            lost = braking_mps2 * lag_s
            most = math.sqrt(lost * lost + 2.0 * braking_mps2 * left) - lost
            closing = v[0] * towards[0] + v[1] * towards[1] + v[2] * towards[2]
            if closing > most:
                less = closing - most
                v = (v[0] - less * towards[0], v[1] - less * towards[1], v[2] - less * towards[2])
        return v

    def inside(self, p_W: Vec3, margin_m: float) -> Vec3:
        """A point within the fence near a point outside it, with a margin to the bounds.

        Where the fence is too narrow or too crooked for that, home's place at the point's height.
        """
        p = p_W
        for _ in range(8):
            worst = min(self.bounds(p), default=(margin_m, (0.0, 0.0, 0.0)))
            if worst[0] >= margin_m - 1e-6:
                return p
            step, (x, y, z) = margin_m - worst[0], worst[1]
            p = (p[0] - step * x, p[1] - step * y, p[2] - step * z)
        return (self._home[0], self._home[1], p[2])


def item_places(item: Item, at_W_m: Vec3, home_W_m: Vec3, flight: FlightParams) -> list[Vec3]:
    """Places that an item leads to; heights above ground as if the ground were level with home.

    Args:
        at_W_m: where it begins.
        home_W_m: where the mission began.
        flight: how it is flown.
    """
    if isinstance(item, Takeoff):
        return [(at_W_m[0], at_W_m[1], at_W_m[2] + item.height_m)]
    if isinstance(item, Goto | Waypoint):
        x, y, z = item.position_W_m
        return [(x, y, home_W_m[2] + z) if item.height == "above_ground" else (x, y, z)]
    if isinstance(item, Follow):
        return [point[1:4] for point in item.points]
    if isinstance(item, TrackItem):
        return map_points(item, flight)
    if isinstance(item, ReturnHome):
        return [(home_W_m[0], home_W_m[1], max(at_W_m[2], home_W_m[2] + item.height_m))]
    return []


def mission_fault(items: Sequence[Item], flight: FlightParams, home_W_m: Vec3) -> str | None:
    """Why a mission does not fit the fence or the ground, naming the item; None if it does.

    Args:
        flight: its fence and its floor.
        home_W_m: where it begins.
    """
    at, fence = home_W_m, Fence(flight.fence, home_W_m)
    lowest_m = home_W_m[2] + flight.failsafe.floor_m
    for i, item in enumerate(items):
        words = f"mission[{i}]: {name_of(item)}: "
        rises = isinstance(item, Takeoff)  # from below the floor, by intent
        for goal in item_places(item, at, home_W_m, flight):
            if goal[2] < lowest_m and not rises:
                return f"{words}z = {goal[2]:g} m is too low; allowed: >= {lowest_m:.2f}"
            fault = fence.fault(goal) if rises else fence.way_fault(at, goal)
            if fault:
                return words + fault
            at = goal
    return None
