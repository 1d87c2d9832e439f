"""Things that are put into a world while it is flown in: what they are, and where they are when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import plain
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import exp, multiply, normalize
from quadsim.geometry.vector import add, scale
from quadsim.world.scene.obstacles import Obstacle, Pose
from quadsim.world.scene.scene import scene_of
from quadsim.world.sdf.world_file import Model

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Drift:
    """Where something is that keeps its velocities.

    Attributes:
        pose_W: at the stamp.
        v_W: velocity of its frame's origin, m/s.
        w_W: angular velocity in world axes, rad/s.
        stamp_ns: simulated time of the pose.
    """

    pose_W: Pose
    v_W: Vec3 = ZERO
    w_W: Vec3 = ZERO
    stamp_ns: int = 0

    @property
    def moves(self) -> bool:
        """Whether it does not stand still."""
        return self.v_W != ZERO or self.w_W != ZERO

    def at(self, stamp_ns: int) -> Pose:
        """Pose at a time."""
        if not self.moves:
            return self.pose_W
        dt_s = (stamp_ns - self.stamp_ns) * 1e-9
        turn = plain(exp)(plain(scale)(dt_s, self.w_W))
        return Pose(
            plain(add)(self.pose_W.p_A, plain(scale)(dt_s, self.v_W)),
            plain(normalize)(plain(multiply)(turn, self.pose_W.q_AB)),
        )


@dataclass
class Entity:
    """One thing: it is moved by its course alone, never by what it meets.

    Attributes:
        model: what it is.
        start: where it was put at first.
        course: where it is from now on.
    """

    model: Model
    start: Drift
    course: Drift

    def obstacles(self, stamp_ns: int) -> list[Obstacle]:
        """Its shapes in the world at a time."""
        pose_W = self.course.at(stamp_ns)
        return [Obstacle(one.name, one.shape, pose_W @ one.pose_W) for one in self.model.obstacles]


def box_around(obstacles: Iterable[Obstacle]) -> NDArray[np.float64]:
    """(2, 3) lower and upper corner of the box around bounded shapes, along the axes, m."""
    corners: NDArray[np.float64] = scene_of(tuple(obstacles)).shapes.boxes[0].reshape(2, 3)
    return corners
