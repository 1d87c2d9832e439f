"""What a trajectory is: a course over a nominal time, and the plan by which it is flown.

A course gives position and yaw with their derivatives at a nominal time u. A plan flies it: its
clock runs up to the nominal rate smoothly and down again, u(t), so that a course in motion is
entered and left at rest, and one that was paused in the middle is taken up there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from quadsim.base.parameters import Vec3
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
        plan: what is flown.
        begin_s: the plan's time at which it is entered.
        motion: present motion.
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
