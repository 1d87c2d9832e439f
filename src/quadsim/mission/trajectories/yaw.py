"""How the yaw goes along a course: held, along the way, or at a rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, each
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import lengths

Array = NDArray[np.float64]

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
        """Yaw in rad and its derivative, beside the derivatives of the position."""


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
