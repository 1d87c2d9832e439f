"""Obstacles as markers tell them (visualization_msgs/msg/MarkerArray), whoever decoded these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat
from quadsim.world.scene.mesh import mesh_of
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Pose, Shape, Sphere

#: Of visualization_msgs/msg/Marker.
CUBE, SPHERE, CYLINDER, TRIANGLE_LIST = 1, 2, 3, 11
ADD, DELETE_ALL = 0, 3
#: Shapes of one message, at most.
MOST_SHAPES = 1000
#: Largest shape, and how far it may be, m.
LARGEST_M = 1e6
#: By how much a quaternion may miss unit length.
UNIT_TOLERANCE = 1e-3


def unit_pose(p_W: Vec3, q_WB: Quat) -> Pose:
    """A pose out of a message.

    Args:
        p_W: position, m.
        q_WB: quaternion, w first.

    Raises:
        InputError: a number is not finite or too large, or the quaternion not of unit length.
    """
    if not all(map(math.isfinite, (*p_W, *q_WB))):
        raise InputError("pose: a number is not finite")
    if max(map(abs, p_W)) > LARGEST_M:
        raise InputError(f"pose: too far; allowed: {LARGEST_M:g} m")
    length = math.hypot(*q_WB)
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise InputError(f"pose: the quaternion's length is {length:g}; allowed: 1")
    w, x, y, z = (value / length for value in q_WB)
    return Pose(p_W, (w, x, y, z))


class MarkerReader:
    """Reads obstacles; a mesh that comes again is made once."""

    def __init__(self) -> None:
        self._meshes: dict[bytes, Mesh] = {}

    def read(self, message: Any) -> list[Obstacle]:
        """The obstacles of a MarkerArray: each message has all that are there.

        Raises:
            InputError: a marker is no solid, in another frame than ``map``, or out of range.
        """
        markers = [marker for marker in message.markers if marker.action != DELETE_ALL]
        if len(markers) > MOST_SHAPES:
            raise InputError(f"{len(markers)} markers; allowed: at most {MOST_SHAPES}")
        before, self._meshes = self._meshes, {}
        return [self._obstacle(marker, before) for marker in markers]

    def _obstacle(self, marker: Any, before: dict[bytes, Mesh]) -> Obstacle:
        name = f"{marker.ns}/{marker.id}"[:100]
        if marker.action != ADD or marker.header.frame_id not in ("", "map"):
            raise InputError(f"marker {name!r}; allowed: ADD or DELETEALL, in the frame map")
        at, turn, size = marker.pose.position, marker.pose.orientation, marker.scale
        try:
            pose_W = unit_pose((at.x, at.y, at.z), (turn.w, turn.x, turn.y, turn.z))
            shape = self._shape(marker, (size.x, size.y, size.z), before)
        except InputError as error:
            raise InputError(f"marker {name!r}: {error}") from None
        return Obstacle(name, shape, pose_W)

    def _shape(self, marker: Any, size_m: Vec3, before: dict[bytes, Mesh]) -> Shape:
        x, y, z = size_m
        if not max(map(abs, size_m)) <= LARGEST_M:
            raise InputError(f"scale {size_m}; allowed: at most {LARGEST_M:g} m")
        if marker.type == CUBE:
            return Box(size_m)
        if marker.type == SPHERE and x == y == z:
            return Sphere(0.5 * x)
        if marker.type == CYLINDER and x == y:
            return Cylinder(0.5 * x, z)
        if marker.type == TRIANGLE_LIST and size_m == (1.0, 1.0, 1.0):
            return self._mesh(np.array([(p.x, p.y, p.z) for p in marker.points]), before)
        raise InputError(
            f"type {marker.type} with scale {size_m}; allowed: CUBE, round SPHERE and CYLINDER,"
            " TRIANGLE_LIST with scale 1"
        )

    def _mesh(self, points_m: NDArray[np.float64], before: dict[bytes, Mesh]) -> Mesh:
        if not len(points_m) or len(points_m) % 3:
            raise InputError(f"{len(points_m)} points; allowed: three for each triangle")
        if not np.abs(points_m).max() <= LARGEST_M:
            raise InputError(f"points; allowed: finite, at most {LARGEST_M:g} m")
        key = points_m.tobytes()
        self._meshes[key] = before.get(key) or mesh_of(points_m.reshape(-1, 3, 3))
        return self._meshes[key]
