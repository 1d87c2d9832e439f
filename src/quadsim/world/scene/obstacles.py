"""Obstacles: shapes with a pose in the world."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import plain
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import lengths
from quadsim.geometry.rotation import Quat, conjugate, multiply, rotate, to_matrix
from quadsim.geometry.vector import add, scale


@dataclass(frozen=True)
class Pose:
    """Position and attitude of a frame B in a frame A.

    Attributes:
        p_A: position of B's origin in m.
        q_AB: unit quaternion, w first.
    """

    p_A: Vec3 = (0.0, 0.0, 0.0)
    q_AB: Quat = (1.0, 0.0, 0.0, 0.0)

    def __matmul__(self, other: Pose) -> Pose:
        """Pose of C in A: this one of B in A times the other one of C in B."""
        p_A = plain(add)(self.p_A, plain(rotate)(self.q_AB, other.p_A))
        return Pose(p_A, plain(multiply)(self.q_AB, other.q_AB))

    def inverse(self) -> Pose:
        """Pose of A in B."""
        q_BA = plain(conjugate)(self.q_AB)
        return Pose(plain(rotate)(q_BA, plain(scale)(-1.0, self.p_A)), q_BA)

    def axes(self) -> NDArray[np.float64]:
        """(3, 3) rows: the x, y and z axis of B in A."""
        return np.array(plain(to_matrix)(self.q_AB)).T


def _require_positive(**lengths_m: float) -> None:
    for name, value in lengths_m.items():
        if not (0.0 < value < math.inf):
            raise InputError(f"{name}: {value!r} is out of range; allowed: > 0")


@dataclass(frozen=True)
class Plane:
    """Boundary of a solid half-space; the unit normal points out of it."""

    normal: Vec3 = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse a normal that is not a unit vector."""
        if not abs(math.hypot(*self.normal) - 1.0) < 1e-9:
            raise InputError(f"normal: {self.normal!r} is not a unit vector")


@dataclass(frozen=True)
class Box:
    """Solid box about its centre, with its edges along the axes."""

    size_m: Vec3

    def __post_init__(self) -> None:
        """Refuse a size that is not positive."""
        for size in self.size_m:
            _require_positive(size=size)


@dataclass(frozen=True)
class Sphere:
    """Solid sphere about its centre."""

    radius_m: float

    def __post_init__(self) -> None:
        """Refuse a radius that is not positive."""
        _require_positive(radius=self.radius_m)


@dataclass(frozen=True)
class Cylinder:
    """Solid cylinder about its centre, its axis along z."""

    radius_m: float
    length_m: float

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive."""
        _require_positive(radius=self.radius_m, length=self.length_m)


def is_sliver(triangles_m: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of (T, 3, 3) triangles have no area, and so no normal."""
    edges = np.diff(triangles_m, axis=1)
    areas = lengths(np.cross(edges[:, 0], edges[:, 1]))
    return np.asarray(areas <= 1e-14 * np.square(edges).sum(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles; solid when they close a volume, else thin sheets that are met from both sides.

    Attributes:
        triangles_m: (T, 3, 3) corners; seen from outside a closed mesh they go counter-clockwise.
        closed: whether every edge joins two triangles, so that there is an inside.
    """

    triangles_m: NDArray[np.float64]
    closed: bool

    def __post_init__(self) -> None:
        """Refuse what are not triangles."""
        shape = self.triangles_m.shape
        if len(shape) != 3 or shape[1:] != (3, 3) or shape[0] == 0:
            raise InputError(f"triangles: {shape} numbers; allowed: (T, 3, 3) with T > 0")
        if not np.all(np.isfinite(self.triangles_m)):
            raise InputError("triangles: a corner is not finite")
        if np.any(is_sliver(self.triangles_m)):
            raise InputError("triangles: one has no area")


Shape = Plane | Box | Sphere | Cylinder | Mesh


@dataclass(frozen=True)
class Obstacle:
    """A shape in the world.

    Attributes:
        name: where it comes from, for messages.
        shape: in its own frame.
        pose_W: of that frame in the world (``map``, ENU).
    """

    name: str
    shape: Shape
    pose_W: Pose = Pose()

    def is_level_ground(self) -> bool:
        """Whether it is a plane that looks straight up."""
        if not isinstance(self.shape, Plane):
            return False
        return plain(rotate)(self.pose_W.q_AB, self.shape.normal)[2] > 1.0 - 1e-12
