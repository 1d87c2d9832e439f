"""Courses of closed form: circle, helix and spiral are one, the figure of eight another.

Each is a curve r(theta), flown at an even rate of theta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from quadsim.base.compiled import kernel
from quadsim.base.elementary import cos_sin
from quadsim.base.parameters import Vec3
from quadsim.mission.reference.legs import Motion
from quadsim.mission.trajectories.yaw import YawLaw


@kernel
def _cos_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine: compiled, as it is called in each step of a flight."""
    return cos_sin(angle)


@dataclass(frozen=True)
class Coil:
    """A circle; with a climb, a helix; with a second radius, a spiral (Archimedes').

    Attributes:
        center_W: of its start, m.
        radius: at its start, m.
        growth: of the radius by theta, m/rad.
        climb: by theta, m/rad.
        start: direction from the centre to its start, rad, 0 = east.
        sign: 1 counter-clockwise, -1 clockwise, seen from above.
    """

    center_W: Vec3
    radius: float
    growth: float
    climb: float
    start: float
    sign: float

    def at(self, theta: float) -> tuple[Vec3, Vec3, Vec3]:
        """Position and its derivatives by theta."""
        r, g, s = self.radius + self.growth * theta, self.growth, self.sign
        angle = self.start + s * theta
        ex, ey = _cos_sin(angle)  # outwards; along the way: (-ey, ex) times sign
        x, y, z = self.center_W
        return (
            (x + r * ex, y + r * ey, z + self.climb * theta),
            (g * ex - s * r * ey, g * ey + s * r * ex, self.climb),
            (-r * ex - 2.0 * s * g * ey, -r * ey + 2.0 * s * g * ex, 0.0),
        )


@dataclass(frozen=True)
class Eight:
    """A lemniscate (Gerono's), which may rise and sink: x sin(theta), y sin(2 theta), z sin(theta).

    Attributes:
        center_W: its crossing, m.
        half_length: along its axis, m.
        half_width: m.
        half_height: m.
        heading: of its axis, rad, 0 = east.
    """

    center_W: Vec3
    half_length: float
    half_width: float
    half_height: float
    heading: float

    @cached_property
    def _heading(self) -> tuple[float, float]:
        return _cos_sin(self.heading)

    def at(self, theta: float) -> tuple[Vec3, Vec3, Vec3]:
        """Position and its derivatives by theta."""
        c, s = _cos_sin(theta)
        s2, c2 = 2.0 * s * c, 1.0 - 2.0 * s * s
        x, y, z = self.center_W
        p = self._turned(self.half_length * s, self.half_width * s2)
        first = self._turned(self.half_length * c, 2.0 * self.half_width * c2)
        second = self._turned(-self.half_length * s, -4.0 * self.half_width * s2)
        h = self.half_height
        return (x + p[0], y + p[1], z + h * s), (*first, h * c), (*second, -h * s)

    def _turned(self, along: float, left: float) -> tuple[float, float]:
        c, s = self._heading
        return c * along - s * left, s * along + c * left


@dataclass(frozen=True)
class ShapeCourse:
    """A curve at an even rate.

    Attributes:
        curve: its form.
        rate: of theta, rad/s.
        turns: how often theta goes round.
        yaw: of the vehicle.
    """

    curve: Coil | Eight
    rate: float
    turns: float
    yaw: YawLaw

    @property
    def length_s(self) -> float:
        """Nominal time from its start to its end."""
        return 2.0 * math.pi * self.turns / self.rate

    def at(self, u_s: float) -> Motion:
        """Position, its derivatives, yaw and its derivative at a nominal time."""
        rate = self.rate
        p, first, second = self.curve.at(rate * u_s)
        v = (rate * first[0], rate * first[1], rate * first[2])
        a = (rate * rate * second[0], rate * rate * second[1], rate * rate * second[2])
        yaw, turn = self.yaw.at(u_s, v, a)
        return p, v, a, yaw, turn
