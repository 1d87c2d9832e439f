"""Markers of a flight among virtual obstacles: the world, the rays, the wish and the command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Sphere

STONE = (0.6, 0.55, 0.5, 1.0)
RAY = (1.0, 0.2, 0.1, 0.8)
WISH = (0.2, 0.5, 1.0, 1.0)
COMMAND = (0.1, 0.9, 0.2, 1.0)
OTHER = (1.0, 0.6, 0.0, 0.9)
#: An arrow shows so many seconds of flight; its shaft's and its head's widths in m.
ARROW_S, SHAFT_M, HEAD_M = 0.5, 0.05, 0.12
#: What moves is shown for so long after it was last said, s.
LIFETIME_S = 1


def _marker(ns: str, number: int, kind: int, color: Sequence[float]) -> Marker:
    marker = Marker(ns=ns, id=number, type=kind, action=Marker.ADD)
    marker.header.frame_id = "map"
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=color[0], g=color[1], b=color[2], a=color[3])
    return marker


def _points(points_W: Iterable[Any]) -> list[Point]:
    return [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in points_W]


def _place(marker: Marker, p_W: Vec3, q_WB: Quat) -> None:
    position, turn = marker.pose.position, marker.pose.orientation
    position.x, position.y, position.z = map(float, p_W)
    turn.w, turn.x, turn.y, turn.z = map(float, q_WB)


def solid(
    number: int, obstacle: Obstacle, ns: str = "world", color: Sequence[float] = STONE
) -> Marker | None:
    """Marker of an obstacle; None of a plane, which has no end."""
    shape = obstacle.shape
    if isinstance(shape, Plane):
        return None
    kinds = {Box: Marker.CUBE, Sphere: Marker.SPHERE, Cylinder: Marker.CYLINDER}
    marker = _marker(ns, number, kinds.get(type(shape), Marker.TRIANGLE_LIST), color)
    _place(marker, obstacle.pose_W.p_A, obstacle.pose_W.q_AB)
    size_m: Vec3 = (1.0, 1.0, 1.0)
    if isinstance(shape, Box):
        size_m = shape.size_m
    elif isinstance(shape, Sphere):
        size_m = (2.0 * shape.radius_m,) * 3
    elif isinstance(shape, Cylinder):
        size_m = (2.0 * shape.radius_m, 2.0 * shape.radius_m, shape.length_m)
    elif isinstance(shape, Mesh):
        marker.points = _points(shape.triangles_m.reshape(-1, 3))
    marker.scale.x, marker.scale.y, marker.scale.z = map(float, size_m)
    return marker


def world_markers(obstacles: Sequence[Obstacle]) -> MarkerArray:
    """A world's obstacles."""
    every = (solid(number, obstacle) for number, obstacle in enumerate(obstacles))
    return MarkerArray(markers=[marker for marker in every if marker is not None])


def rays(origin_W: NDArray[np.float64], hits_W: NDArray[np.float64]) -> Marker:
    """Lines from a lidar to what it sees.

    Args:
        origin_W: (3,) m.
        hits_W: (N, 3) m.
    """
    marker = _marker("rays", 0, Marker.LINE_LIST, RAY)
    marker.scale.x = 0.01
    ends = np.empty((2 * len(hits_W), 3))
    ends[0::2], ends[1::2] = origin_W, hits_W
    marker.points = _points(ends)
    return marker


def arrow(ns: str, color: Sequence[float], p_W: Any, v_W: Any) -> Marker:
    """A velocity at a place."""
    marker = _marker(ns, 0, Marker.ARROW, color)
    marker.scale.x, marker.scale.y = SHAFT_M, HEAD_M
    start = np.asarray(p_W, dtype=float)
    marker.points = _points([start, start + ARROW_S * np.asarray(v_W, dtype=float)])
    return marker


def passing(markers: Iterable[Marker]) -> MarkerArray:
    """Markers that vanish when whoever draws them falls silent."""
    array = MarkerArray(markers=list(markers))
    for marker in array.markers:
        marker.lifetime.sec = LIFETIME_S
    return array


def words(p_W: Any, text: str) -> Marker:
    """A line of text above a place."""
    marker = _marker("guard", 0, Marker.TEXT_VIEW_FACING, (1.0, 1.0, 1.0, 1.0))
    marker.scale.z = 0.25
    _place(marker, (float(p_W[0]), float(p_W[1]), float(p_W[2]) + 0.6), (1.0, 0.0, 0.0, 0.0))
    marker.text = text
    return marker
