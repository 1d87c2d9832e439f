"""Courses made of polynomials of degree 7, one for each of x, y, z and yaw between two knots."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.mission.trajectories.yaw import YawLaw
from quadsim.mission.trajectory import Motion

Array = NDArray[np.float64]

DEGREE = 7
ORDERS = DEGREE + 1


def derivative_row(order: int, tau: float) -> Array:
    """Weights of the coefficients in the derivative of an order at tau in [0, 1]."""
    row = np.zeros(ORDERS)
    for k in range(order, ORDERS):
        row[k] = math.perm(k, order) * tau ** (k - order)
    return row


def differentiated(coefficients: Array) -> Array:
    """Coefficients (..., n) in ascending powers to those (..., n - 1) of the derivative."""
    return np.asarray(coefficients[..., 1:] * np.arange(1, coefficients.shape[-1]))


class Polynomials:
    """A course through knots.

    Args:
        knots_s: (K + 1,) rising nominal times from 0 on.
        coefficients: (K, 3, 8) or, with the yaw, (K, 4, 8); ascending powers of tau in [0, 1].
        yaw: the yaw, where it is no polynomial.
    """

    def __init__(self, knots_s: Array, coefficients: Array, yaw: YawLaw | None = None) -> None:
        self.knots_s, self.coefficients = knots_s, coefficients
        self._knots: list[float] = [float(knot) for knot in knots_s]
        axes = np.concatenate(
            [coefficients, np.zeros((len(coefficients), 4 - coefficients.shape[1], ORDERS))], axis=1
        )
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


def sampled(path: Polynomials, per_segment: int) -> tuple[Array, Array, Array, Array]:
    """Nominal times (N,), positions and their derivatives (N, 3), evenly within each segment."""
    tau = (np.arange(per_segment) + 0.5) / per_segment
    steps = np.diff(path.knots_s)
    found: list[Any] = []
    coefficients = path.coefficients[:, :3]
    for order in range(3):
        powers = tau[:, None] ** np.arange(coefficients.shape[-1])
        value = np.einsum("kdc,nc->knd", coefficients, powers) / steps[:, None, None] ** order
        found.append(value.reshape(-1, 3))
        coefficients = differentiated(coefficients)
    times = (path.knots_s[:-1, None] + steps[:, None] * tau).reshape(-1)
    return times, found[0], found[1], found[2]


def largest(polynomials: Array) -> float:
    """Largest value on [0, 1] of polynomials (K, n), ascending: at an end or where it is level."""
    most = -math.inf
    for row in polynomials:
        slope = differentiated(row)
        slope = slope[: 1 + max(np.flatnonzero(np.abs(slope) > 0.0), default=0)]
        roots = np.polynomial.polynomial.polyroots(slope)
        real = roots.real[(np.abs(roots.imag) < 1e-6) & (roots.real > 0.0) & (roots.real < 1.0)]
        points = np.concatenate([[0.0, 1.0], real])
        most = max(most, float(np.polynomial.polynomial.polyval(points, row).max()))
    return most


def peaks(path: Polynomials) -> tuple[float, float, float, float]:
    """Largest speed (m/s), acceleration (m/s^2), speed upwards and downwards (m/s), exactly."""
    steps = np.diff(path.knots_s)[:, None, None]
    first = differentiated(path.coefficients[:, :3]) / steps
    second = differentiated(first) / steps

    def squared(vectors: Array) -> Array:
        return np.array(
            [sum(np.convolve(axis, axis) for axis in vector) for vector in vectors], dtype=float
        )

    return (
        math.sqrt(max(largest(squared(first)), 0.0)),
        math.sqrt(max(largest(squared(second)), 0.0)),
        max(largest(first[:, 2]), 0.0),
        max(largest(-first[:, 2]), 0.0),
    )
