"""Obstacles that move, or that are suddenly there.

Where they are at a time is a list of obstacles, so rays and distances are those of any scene:
``scene_with(scene, movers.obstacles())`` of ``world.scene.moving_scene`` for a lidar, and
:func:`quadsim.world.scene.distance.surface_distance` of it for how near a vehicle came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose, Sphere

ZERO: Vec3 = (0.0, 0.0, 0.0)

#: Half the width of the vehicle before which a mover appears.
VEHICLE_RADIUS_M = 0.4


class MovingShape(NamedTuple):
    """An upright cylinder around something that moves, as others know it.

    Attributes:
        p_W: its centre, m.
        v_W: its velocity, m/s.
        radius_m: in the plane.
        half_height_m: up and down.
    """

    p_W: Vec3
    v_W: Vec3
    radius_m: float
    half_height_m: float

    @property
    def body(self) -> Obstacle:
        """It as an obstacle where it is."""
        return Obstacle(
            "vehicle", Cylinder(self.radius_m, 2.0 * self.half_height_m), Pose(self.p_W)
        )


def _between(a: Vec3, b: Vec3, share: float) -> Vec3:
    """Point of a line: a at 0, b at 1."""
    return (
        a[0] + share * (b[0] - a[0]),
        a[1] + share * (b[1] - a[1]),
        a[2] + share * (b[2] - a[2]),
    )


def _towards(a: Vec3, b: Vec3, length: float) -> Vec3:
    """Vector of a length in the direction from a to b."""
    return _between(ZERO, (b[0] - a[0], b[1] - a[1], b[2] - a[2]), length / math.dist(a, b))


@dataclass(frozen=True)
class Mover:
    """A solid that goes back and forth along a way at a steady speed.

    Attributes:
        name: of the obstacle.
        shape: in its own frame, whose axes are those of the world.
        way_W: (K >= 1) corners of the way of its centre, m; it begins at the first.
        speed_mps: along the way; 0 stands at its first corner.
        ahead_s: above 0, it is not there at first: it appears in front of a vehicle that would
            touch it after this time if it flew on as it does.
    """

    name: str
    shape: Box | Sphere | Cylinder
    way_W: tuple[Vec3, ...]
    speed_mps: float = 0.0
    ahead_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a way without a length where there is a speed."""
        if not self.way_W:
            raise InputError(f"{self.name}: way_W: no corner; allowed: at least one")
        for key in ("speed_mps", "ahead_s"):
            if not 0.0 <= getattr(self, key) < math.inf:
                raise InputError(f"{self.name}: {key}: {getattr(self, key)!r}; allowed: >= 0")
        if self.speed_mps > 0.0 and not self.length_m > 0.0:
            raise InputError(f"{self.name}: speed_mps: {self.speed_mps:g} along a way of no length")

    @property
    def length_m(self) -> float:
        """Length of the way."""
        return sum(math.dist(a, b) for a, b in zip(self.way_W, self.way_W[1:], strict=False))

    @property
    def radius_m(self) -> float:
        """Of the upright cylinder around it."""
        if isinstance(self.shape, Box):
            return 0.5 * math.hypot(*self.shape.size_m[:2])
        return self.shape.radius_m

    @property
    def half_height_m(self) -> float:
        """Of the upright cylinder around it."""
        if isinstance(self.shape, Box):
            return 0.5 * self.shape.size_m[2]
        if isinstance(self.shape, Sphere):
            return self.shape.radius_m
        return 0.5 * self.shape.length_m

    def at(self, t_s: float) -> tuple[Vec3, Vec3]:
        """Position in m and velocity in m/s at a time since it set out."""
        length_m = self.length_m
        if self.speed_mps <= 0.0 or t_s <= 0.0:
            return self.way_W[0], ZERO
        gone_m = math.fmod(self.speed_mps * t_s, 2.0 * length_m)
        sign = 1.0 if gone_m < length_m else -1.0
        left_m = gone_m if sign > 0.0 else 2.0 * length_m - gone_m
        for a, b in zip(self.way_W, self.way_W[1:], strict=False):
            leg_m = math.dist(a, b)
            if left_m <= leg_m and leg_m > 0.0:
                return _between(a, b, left_m / leg_m), _towards(a, b, sign * self.speed_mps)
            left_m -= leg_m
        return self.way_W[-1], ZERO  # by rounding, at the very end


class Movers:
    """The movers of one flight.

    Args:
        movers: what there is.
    """

    def __init__(self, movers: Sequence[Mover]) -> None:
        self._movers = tuple(movers)
        #: When each set out, s; None while it is not there.
        self._since_s: list[float | None] = []
        self._t_s = 0.0
        self.reset()

    def reset(self) -> None:
        """Begin anew: those that appear are gone."""
        self._since_s = [None if mover.ahead_s > 0.0 else 0.0 for mover in self._movers]
        self._t_s = 0.0

    def update(self, t_s: float, p_W: Vec3, v_W: Vec3) -> tuple[str, ...]:
        """Move on to a time.

        Args:
            t_s: since the beginning of the flight.
            p_W: true position of the vehicle, m.
            v_W: true velocity of the vehicle, m/s.

        Returns:
            Names of those that appeared just now.
        """
        self._t_s = t_s
        appeared = []
        for k, mover in enumerate(self._movers):
            if self._since_s[k] is None and touched_in_s(mover, p_W, v_W) <= mover.ahead_s:
                self._since_s[k] = t_s
                appeared.append(mover.name)
        return tuple(appeared)

    def _present(self) -> list[tuple[Mover, Vec3, Vec3]]:
        return [
            (mover, *mover.at(self._t_s - since_s))
            for mover, since_s in zip(self._movers, self._since_s, strict=True)
            if since_s is not None
        ]

    def obstacles(self) -> list[Obstacle]:
        """Those that are there, where they are now."""
        return [Obstacle(mover.name, mover.shape, Pose(p_W)) for mover, p_W, _ in self._present()]

    def shapes(self) -> list[MovingShape]:
        """The same as upright cylinders with their velocities."""
        return [
            MovingShape(p_W, v_W, mover.radius_m, mover.half_height_m)
            for mover, p_W, v_W in self._present()
        ]

    def vehicles(self) -> list[MovingShape]:
        """Those that move, which say where they are; what appears is for a lidar to see."""
        return [
            MovingShape(p_W, v_W, mover.radius_m, mover.half_height_m)
            for mover, p_W, v_W in self._present()
            if mover.speed_mps > 0.0
        ]


def touched_in_s(mover: Mover, p_W: Vec3, v_W: Vec3) -> float:
    """Time until a vehicle that goes on as it does would touch a mover's cylinder at its start.

    Args:
        mover: it stands at its first corner.
        p_W: the vehicle's middle, m; it is :data:`VEHICLE_RADIUS_M` wide to each side.
        v_W: its velocity, m/s; only the level part counts.

    Returns:
        In s; 0 inside, inf for never.
    """
    x, y = mover.way_W[0][0] - p_W[0], mover.way_W[0][1] - p_W[1]
    radius_m, speed_mps = mover.radius_m + VEHICLE_RADIUS_M, math.hypot(v_W[0], v_W[1])
    if math.hypot(x, y) <= radius_m:
        return 0.0
    if speed_mps == 0.0:
        return math.inf
    along_m = (x * v_W[0] + y * v_W[1]) / speed_mps
    beside_m = (x * v_W[1] - y * v_W[0]) / speed_mps
    if abs(beside_m) > radius_m or along_m < 0.0:
        return math.inf
    return (along_m - math.sqrt(radius_m * radius_m - beside_m * beside_m)) / speed_mps
