"""Markers of a flight among virtual obstacles: the world, the rays, the request and the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.messages.world import make_time
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Sphere

STONE = (0.6, 0.55, 0.5, 1.0)
RAY = (1.0, 0.2, 0.1, 0.8)
WISH = (0.2, 0.5, 1.0, 1.0)
COMMAND = (0.1, 0.9, 0.2, 1.0)
OTHER = (1.0, 0.6, 0.0, 0.9)
SPAWNED = (0.7, 0.45, 0.2, 1.0)
MISSION = (0.0, 1.0, 0.0, 1.0)
#: An arrow shows so many seconds of flight; its shaft's and its head's widths in m.
ARROW_S, SHAFT_M, HEAD_M = 0.5, 0.05, 0.12
#: What moves is shown for so long after it was last stated, s.
LIFETIME_S = 1


def new_marker(
    ns: str,
    number: int,
    kind: int,
    color: Sequence[float],
    size_m: Sequence[float] = (1.0, 1.0, 1.0),
    points_W: Iterable[Any] = (),
) -> Marker:
    """A marker in ``map``.

    Args:
        ns, number: what it is replaced by.
        kind: of Marker.
        color: red, green, blue, opacity.
        size_m: its scale.
        points_W: (K, 3) of a line or a list.
    """
    marker = Marker(ns=ns, id=number, type=kind, action=Marker.ADD)
    marker.header.frame_id = "map"
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=color[0], g=color[1], b=color[2], a=color[3])
    put_xyz(marker.scale, size_m)
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in points_W]
    return marker


def _place(marker: Marker, p_W: Vec3, q_WB: Quat) -> None:
    turn = marker.pose.orientation
    put_xyz(marker.pose.position, p_W)
    turn.w, turn.x, turn.y, turn.z = map(float, q_WB)


def solid(
    number: int, obstacle: Obstacle, ns: str = "world", color: Sequence[float] = STONE
) -> Marker | None:
    """Marker of an obstacle; None of a plane, which has no end."""
    shape = obstacle.shape
    if isinstance(shape, Plane):
        return None
    kind, size_m = Marker.TRIANGLE_LIST, (1.0, 1.0, 1.0)
    points_W: Iterable[Any] = ()
    if isinstance(shape, Box):
        kind, size_m = Marker.CUBE, shape.size_m
    elif isinstance(shape, Sphere):
        kind, size_m = Marker.SPHERE, (2.0 * shape.radius_m,) * 3
    elif isinstance(shape, Cylinder):
        width_m = 2.0 * shape.radius_m
        kind, size_m = Marker.CYLINDER, (width_m, width_m, shape.length_m)
    elif isinstance(shape, Mesh):
        points_W = shape.triangles_m.reshape(-1, 3)
    marker = new_marker(ns, number, kind, color, size_m, points_W)
    _place(marker, obstacle.pose_W.p_A, obstacle.pose_W.q_AB)
    return marker


def world_markers(obstacles: Sequence[Obstacle]) -> MarkerArray:
    """A world's obstacles."""
    every = (solid(number, obstacle) for number, obstacle in enumerate(obstacles))
    return MarkerArray(markers=[marker for marker in every if marker is not None])


def obstacle_markers(by_name: Mapping[str, Sequence[Obstacle]], stamp_ns: int) -> MarkerArray:
    """All that was spawned, by its names: it stands for what was told before."""
    markers = [Marker(action=Marker.DELETEALL)]
    for name, obstacles in by_name.items():
        every = (solid(i, obstacle, name, SPAWNED) for i, obstacle in enumerate(obstacles))
        markers += [marker for marker in every if marker is not None]
    for marker in markers:
        marker.header.frame_id, marker.header.stamp = "map", make_time(stamp_ns)
    return MarkerArray(markers=markers)


def rays(origin_W: NDArray[np.float64], hits_W: NDArray[np.float64]) -> Marker:
    """Lines from a lidar to what it sees.

    Args:
        origin_W: (3,) m.
        hits_W: (N, 3) m.
    """
    ends = np.empty((2 * len(hits_W), 3))
    ends[0::2], ends[1::2] = origin_W, hits_W
    return new_marker("rays", 0, Marker.LINE_LIST, RAY, (0.01, 0.0, 0.0), ends)


def arrow(ns: str, color: Sequence[float], p_W: Any, v_W: Any) -> Marker:
    """A velocity at a place."""
    start = np.asarray(p_W, dtype=float)
    ends = [start, start + ARROW_S * np.asarray(v_W, dtype=float)]
    return new_marker(ns, 0, Marker.ARROW, color, (SHAFT_M, HEAD_M, 0.0), ends)


def passing(markers: Iterable[Marker]) -> MarkerArray:
    """Markers that vanish when whoever draws them falls silent."""
    array = MarkerArray(markers=list(markers))
    for marker in array.markers:
        marker.lifetime.sec = LIFETIME_S
    return array


def words(p_W: Any, text: str) -> Marker:
    """A line of text above a place."""
    return text_marker("guard", 0, (1.0, 1.0, 1.0, 1.0), 0.25, (p_W[0], p_W[1], p_W[2] + 0.6), text)


def text_marker(
    ns: str, number: int, color: Sequence[float], height_m: float, p_W: Any, text: str
) -> Marker:
    """A line of text at a place."""
    size_m = (0.0, 0.0, height_m)
    marker = new_marker(ns, number, Marker.TEXT_VIEW_FACING, color, size_m)
    _place(marker, p_W, (1.0, 0.0, 0.0, 0.0))
    marker.text = text
    return marker


def mission_markers(points_W: Any) -> MarkerArray:
    """Waypoints (K, 3) in ``map`` as a line and as balls."""
    kinds = ((Marker.LINE_STRIP, 0.05), (Marker.SPHERE_LIST, 0.2))
    return MarkerArray(
        markers=[
            new_marker("mission", i, kind, MISSION, (size_m,) * 3, points_W)
            for i, (kind, size_m) in enumerate(kinds)
        ]
    )
