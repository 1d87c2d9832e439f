"""Courses made of polynomials, one for each of x, y, z and, maybe, yaw between two knots."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, owning_kernel
from quadsim.mission.reference.legs import Motion
from quadsim.mission.trajectories.yaw import YawLaw

Array = NDArray[np.float64]


def differentiated(coefficients: Array) -> Array:
    """Coefficients (..., n) in ascending powers to those (..., n - 1) of the derivative."""
    return np.asarray(coefficients[..., 1:] * np.arange(1, coefficients.shape[-1]))


class Polynomials:
    """A course through knots.

    Args:
        knots_s: (K + 1,) rising nominal times from 0 on.
        coefficients: (K, 3, n) or, with the yaw, (K, 4, n); ascending powers of tau in [0, 1].
        yaw: the yaw, where it is no polynomial.
    """

    def __init__(self, knots_s: Array, coefficients: Array, yaw: YawLaw | None = None) -> None:
        self.knots_s, self.coefficients = knots_s, coefficients
        self._knots: list[float] = [float(knot) for knot in knots_s]
        segments, given, orders = coefficients.shape
        axes = np.concatenate([coefficients, np.zeros((segments, 4 - given, orders))], axis=1)
        self._axes: list[list[list[float]]] = axes.tolist()
        self._yaw = yaw

    @property
    def length_s(self) -> float:
        """Nominal time from its start to its end."""
        return self._knots[-1]

    def at(self, u_s: float) -> Motion:
        """Position, its derivatives, yaw and its derivative at a nominal time."""
        k = min(max(bisect_right(self._knots, u_s) - 1, 0), len(self._axes) - 1)
        step_s = self._knots[k + 1] - self._knots[k]
        tau = min(max((u_s - self._knots[k]) / step_s, 0.0), 1.0)
        per_s = 1.0 / step_s
        x, y, z, turn = (_evaluate(axis, tau, per_s) for axis in self._axes[k])
        p, v, a = (x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])
        yaw, rate = turn[:2] if self._yaw is None else self._yaw.at(u_s, v, a)
        return p, v, a, yaw, rate


def _evaluate(coefficients: list[float], tau: float, per_s: float) -> tuple[float, float, float]:
    """Value, first and second derivative by time: Horner, with its derivatives."""
    value = first = second = 0.0
    for c in reversed(coefficients):
        second = second * tau + 2.0 * first
        first = first * tau + value
        value = value * tau + c
    return value, first * per_s, second * per_s * per_s


def sample_course(path: Polynomials, per_segment: int) -> tuple[Array, Array, Array, Array]:
    """Nominal times (N,), positions and their derivatives (N, 3), evenly within each segment."""
    tau = (np.arange(per_segment) + 0.5) / per_segment
    steps = np.diff(path.knots_s)
    found: list[Any] = []
    coefficients = path.coefficients[:, :3]
    for _ in range(3):
        value: Any = np.zeros((len(steps), per_segment, 3))
        for column in range(coefficients.shape[-1] - 1, -1, -1):
            value = value * tau[:, None] + coefficients[:, None, :, column]
        found.append(value.reshape(-1, 3))
        coefficients = differentiated(coefficients) / steps[:, None, None]
    times = (path.knots_s[:-1, None] + steps[:, None] * tau).reshape(-1)
    return times, found[0], found[1], found[2]


@kernel
def _value(row: Array, t: float) -> float:
    """Value of a polynomial, ascending."""
    value = 0.0
    for k in range(len(row) - 1, -1, -1):
        value = value * t + row[k]
    return value


@kernel
def _root(row: Array, low: float, high: float) -> float:
    """Where a polynomial that is monotone between two points changes its sign: by halving."""
    begins_below = _value(row, low) < 0.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        if (_value(row, middle) < 0.0) == begins_below:
            low = middle
        else:
            high = middle


@owning_kernel
def largest(polynomials: Array) -> float:
    """Largest value on [0, 1] of polynomials (K, n), ascending: at an end or where it is level.

    Between two roots of a derivative, what it is the derivative of is monotone: so the roots of
    each follow from those of the next higher one.
    """
    most, count = -math.inf, polynomials.shape[1]
    derivatives, points = np.zeros((count, count)), np.zeros(count + 1)
    for row in polynomials:
        derivatives[0] = row
        for m in range(1, count):
            for k in range(count - m):
                derivatives[m, k] = (k + 1) * derivatives[m - 1, k + 1]
        points[1], last = 1.0, 1
        for m in range(count - 2, 0, -1):
            found, low = 0, 0.0
            for i in range(last):
                high = points[i + 1]
                slopes = derivatives[m, : count - m]
                if (_value(slopes, low) < 0.0) != (_value(slopes, high) < 0.0):
                    found += 1
                    points[found] = _root(slopes, low, high)
                low = high
            last = found + 1
            points[last] = 1.0
        for i in range(last + 1):
            most = max(most, _value(row, points[i]))
    return most


def _squared(vectors: Array) -> Array:
    """Squared lengths (K, 2 n - 1) of vectors of polynomials (K, D, n), ascending."""
    count = vectors.shape[-1]
    found = np.zeros((len(vectors), 2 * count - 1))
    for axis in range(vectors.shape[1]):
        for k in range(count):
            found[:, k : k + count] += vectors[:, axis, k, None] * vectors[:, axis]
    return found


def peaks(path: Polynomials) -> tuple[float, float, float, float]:
    """Largest speed (m/s), acceleration (m/s^2), speed upwards and downwards (m/s), exactly."""
    steps = np.diff(path.knots_s)[:, None, None]
    first = differentiated(path.coefficients[:, :3]) / steps
    second = differentiated(first) / steps
    return (
        math.sqrt(max(largest(_squared(first)), 0.0)),
        math.sqrt(max(largest(_squared(second)), 0.0)),
        max(largest(first[:, 2]), 0.0),
        max(largest(-first[:, 2]), 0.0),
    )
