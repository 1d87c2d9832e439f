"""What a trajectory is: a course over a nominal time, and the plan by which it is flown.

A course gives position and yaw with their derivatives at a nominal time u. A plan flies it: its
clock runs up to the nominal rate smoothly and down again, u(t), so that a course in motion is
entered and left at rest, and one that was paused in the middle is taken up there.

How the yaw goes along a course: held, along the way, or at a rate.

Courses of closed form: circle, helix and spiral are one, the figure of eight another.

Each is a curve r(theta), flown at an even rate of theta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from quadsim.base.compiled import Array, kernel
from quadsim.base.elementary import atan2, cos, cos_sin, each
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import lengths
from quadsim.geometry.rotation import wrap
from quadsim.mission.reference.legs import Motion, evaluate, new_leg, plan_leg

ZERO: Vec3 = (0.0, 0.0, 0.0)

#: Steepest slope of the clock's run-up: 35/16, at its middle.
PEAK_RAMP = 2.1875
#: Share of an acceleration limit that the run-up takes along the way. Even where the course's own
#: acceleration points along the way too, the squared rate of the clock times that and the share
#: times the slope over its peak are together at most 1.04 of the limit.
RAMP_SHARE = 0.4
#: Shortest run-up, s.
LEAST_RAMP_S = 0.5


class Course(Protocol):
    """Position and yaw over a nominal time from 0 to ``length_s``."""

    @property
    def length_s(self) -> float:
        """Nominal time from its start to its end."""

    def at(self, u_s: float) -> Motion:
        """Position, its first and second derivative, yaw and its derivative at a nominal time."""


class Flyable(Protocol):
    """What a reference flies."""

    @property
    def duration_s(self) -> float:
        """Time from its start to its end."""

    def at(self, t_s: float) -> Motion:
        """Motion at a time; before the start and after the end, that of the start and the end."""


def ramp(tau: float) -> tuple[float, float, float]:
    """The clock's run-up from 0 to 1: its integral, its value and its slope at tau in [0, 1].

    The value is 35 tau^4 - 84 tau^5 + 70 tau^6 - 20 tau^7, at rest to the third derivative.
    """
    t4 = tau * tau * tau * tau
    integral = t4 * tau * (7.0 + tau * (-14.0 + tau * (10.0 - 2.5 * tau)))
    value = t4 * (35.0 + tau * (-84.0 + tau * (70.0 - 20.0 * tau)))
    bell = tau * (1.0 - tau)
    slope = 140.0 * bell * bell * bell
    return integral, value, slope


def ramp_duration(speed: float, acceleration: float) -> float:
    """Time in s in which the clock runs up to a speed, in m/s, with a share of an acceleration."""
    return max(LEAST_RAMP_S, PEAK_RAMP * speed / (RAMP_SHARE * acceleration))


@dataclass(frozen=True)
class Plan:
    """A course as it is flown.

    The clock's rate goes from 0 to ``rate`` within ``run_in_s``, stays, and goes back to 0 within
    ``run_out_s``; a run of 0 s is none: the course begins, or ends, at its own speed. The rate is
    1, and less only where what is left of the course is too short to come to it.

    Attributes:
        course: what is flown.
        run_in_s: time of the run-up.
        run_out_s: time of the run-down.
        from_s: nominal time at which it begins.
    """

    course: Course
    run_in_s: float = 0.0
    run_out_s: float = 0.0
    from_s: float = 0.0

    @property
    def _left_s(self) -> float:
        return max(self.course.length_s - self.from_s, 0.0)

    @property
    def rate(self) -> float:
        """Rate of the clock between run-up and run-down."""
        half = 0.5 * (self.run_in_s + self.run_out_s)
        return 1.0 if half <= self._left_s else self._left_s / half

    @property
    def duration_s(self) -> float:
        """Time from start to end."""
        runs = self.run_in_s + self.run_out_s
        rate = self.rate
        if rate <= 0.0:
            return 0.0
        return runs + max(self._left_s / rate - 0.5 * runs, 0.0)

    def clock(self, t_s: float) -> tuple[float, float, float]:
        """Nominal time in s, its rate and the rate's derivative in 1/s at a time."""
        duration_s = self.duration_s
        t_s = min(max(t_s, 0.0), duration_s)
        left_s = duration_s - t_s
        rate = self.rate
        if t_s < self.run_in_s:
            integral, value, slope = ramp(t_s / self.run_in_s)
            u_s = self.from_s + rate * self.run_in_s * integral
            return u_s, rate * value, rate * slope / self.run_in_s
        if left_s < self.run_out_s:
            integral, value, slope = ramp(left_s / self.run_out_s)
            u_s = self.course.length_s - rate * self.run_out_s * integral
            return u_s, rate * value, -rate * slope / self.run_out_s
        return self.from_s + rate * (t_s - 0.5 * self.run_in_s), rate, 0.0

    def progress(self, t_s: float) -> float:
        """Nominal time that is reached at a time."""
        return self.clock(t_s)[0]

    def at(self, t_s: float) -> Motion:
        """Position, velocity, acceleration, yaw and yaw rate at a time since the start."""
        u_s, rate, rate_dot = self.clock(t_s)
        p, first, second, yaw, turn = self.course.at(u_s)
        square = rate * rate
        return (
            p,
            (rate * first[0], rate * first[1], rate * first[2]),
            (
                square * second[0] + rate_dot * first[0],
                square * second[1] + rate_dot * first[1],
                square * second[2] + rate_dot * first[2],
            ),
            yaw,
            rate * turn,
        )

    def resumed(self, from_s: float, acceleration_mps2: float) -> Plan:
        """The rest of it from a nominal time on, entered from rest within an acceleration."""
        ahead = np.linspace(from_s, self.course.length_s, 100)
        speed = max(math.hypot(*self.course.at(float(u_s))[1]) for u_s in ahead)
        run_in_s = ramp_duration(speed, acceleration_mps2)
        return replace(self, from_s=from_s, run_in_s=run_in_s)


class Joined:
    """A plan that is entered from any motion: the difference goes to zero by a polynomial.

    Args:
        begin_s: the plan's time at which it is entered.
        blend_s: time in which the difference goes.
    """

    def __init__(self, plan: Plan, begin_s: float, motion: Motion, blend_s: float) -> None:
        self._plan, self._begin_s = plan, begin_s
        p, v, a, yaw, rate = plan.at(begin_s)
        apart = tuple(
            (now[0] - then[0], now[1] - then[1], now[2] - then[2])
            for now, then in zip(motion[:3], (p, v, a), strict=True)
        )
        self._leg = new_leg()
        start: Motion = (*apart, wrap(motion[3] - yaw), motion[4] - rate)  # type: ignore[assignment]
        plan_leg(self._leg, start, ZERO, 0.0, blend_s)

    @property
    def duration_s(self) -> float:
        """Time from the entry to the end."""
        return max(self._plan.duration_s - self._begin_s, float(self._leg["duration_s"][0]))

    def at(self, t_s: float) -> Motion:
        """Motion at a time since the entry."""
        p, v, a, yaw, rate = self._plan.at(t_s + self._begin_s)
        duration_s = float(self._leg["duration_s"][0])
        axes = self._leg["coefficients"][0]
        x, y, z, turn = (evaluate(axes[i], duration_s, t_s) for i in range(4))
        return (
            (p[0] + x[0], p[1] + y[0], p[2] + z[0]),
            (v[0] + x[1], v[1] + y[1], v[2] + z[1]),
            (a[0] + x[2], a[1] + y[2], a[2] + z[2]),
            yaw + turn[0],
            rate + turn[1],
        )


#: The nose follows the way where the horizontal speed is above this share of the largest.
ALONG_SHARE = 0.1
#: Share of the limit below which the slope between samples keeps the cubics within it.
RATE_SHARE = 0.95


@kernel
def _direction(x: float, y: float) -> float:
    """Angle in rad of a direction: compiled, as it is called in each step of a flight."""
    return atan2(y, x)


class YawLaw(Protocol):
    """The yaw over the nominal time of a course."""

    def at(self, u_s: float, first: Vec3, second: Vec3) -> tuple[float, float]:
        """Yaw in rad and its derivative, next to the derivatives of the position."""


@dataclass(frozen=True)
class Turning:
    """A yaw that turns evenly, or not at all."""

    yaw: float
    rate: float = 0.0

    def at(self, u_s: float, _first: Vec3, _second: Vec3) -> tuple[float, float]:
        """Yaw and its derivative."""
        return self.yaw + self.rate * u_s, self.rate


@dataclass(frozen=True)
class Along:
    """The nose along a way that never stands still seen from above."""

    offset: float = 0.0

    def at(self, _u_s: float, first: Vec3, second: Vec3) -> tuple[float, float]:
        """Yaw and its derivative: the way's direction, and its curvature times the speed."""
        square = first[0] * first[0] + first[1] * first[1]
        turn = (first[0] * second[1] - first[1] * second[0]) / square
        return _direction(first[0], first[1]) + self.offset, turn


class YawTable:
    """A yaw between samples, by cubics with the slopes of their neighbours.

    Args:
        step_s: between two samples.
        yaws: (N,) in rad, unwrapped, the first at nominal time 0.
    """

    def __init__(self, step_s: float, yaws: Array) -> None:
        self._step_s = step_s
        self._yaws: list[float] = yaws.tolist()
        slopes = np.gradient(yaws)
        slopes[[0, -1]] = 0.0
        self._slopes: list[float] = slopes.tolist()

    def at(self, u_s: float, _first: Vec3, _second: Vec3) -> tuple[float, float]:
        """Yaw and its derivative."""
        k = min(max(int(u_s / self._step_s), 0), len(self._yaws) - 2)
        t = min(max(u_s / self._step_s - k, 0.0), 1.0)
        y0, y1, m0, m1 = *self._yaws[k : k + 2], *self._slopes[k : k + 2]
        c2, c3 = 3.0 * (y1 - y0) - 2.0 * m0 - m1, 2.0 * (y0 - y1) + m0 + m1
        yaw = y0 + t * (m0 + t * (c2 + t * c3))
        return yaw, (m0 + t * (2.0 * c2 + 3.0 * c3 * t)) / self._step_s


def along_table(length_s: float, velocity: Array, rate_max: float, offset: float = 0.0) -> YawTable:
    """The nose along a way that may stop, turn back or climb straight up.

    Where it is slow the yaw goes over from one direction to the next at an even rate. All is
    smoothed by a window of a thirtieth of the way, or by a longer one, up to all of it, until it
    turns within ``rate_max``.

    Args:
        length_s: nominal time of the way.
        velocity: (N, 3) at even nominal times from 0 to ``length_s``.
        rate_max: fastest turn, rad/s.
        offset: of the nose from the way, rad.
    """
    speed = lengths(velocity[:, :2])
    fast = np.flatnonzero(speed > ALONG_SHARE * max(float(speed.max()), 1e-9))
    rows = np.arange(len(velocity))
    if not len(fast):
        return YawTable(length_s / (len(rows) - 1), np.full(len(rows), offset))
    yaws = np.unwrap(each(_direction, velocity[fast, 0], velocity[fast, 1]))
    yaws = np.interp(rows, fast, yaws) + offset
    step_s = length_s / (len(rows) - 1)
    smooth, half = yaws, max(len(rows) // 60, 1)
    while half <= len(rows) // 2:
        # Hann's window, without the zeros at its ends
        window = 0.5 + 0.5 * each(cos, np.arange(-half, half + 1) * (math.pi / (half + 1)))
        padded = np.concatenate([np.full(half, yaws[0]), yaws, np.full(half, yaws[-1])])
        smooth = np.zeros(len(yaws))
        for k, weight in enumerate(window / window.sum()):
            smooth += weight * padded[k : k + len(yaws)]
        if float(np.abs(np.diff(smooth)).max()) <= RATE_SHARE * rate_max * step_s:
            break
        half = math.ceil(1.3 * half)
    return YawTable(step_s, smooth)


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
