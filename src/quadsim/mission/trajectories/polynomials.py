"""Courses made of polynomials, one for each of x, y, z and, maybe, yaw between two knots.

Interpolating splines, with the same bits on every machine.

The spline of degree 2 m - 1 that is at rest to derivative m - 1 at both ends has the least integral
of the squared derivative m of all curves through its points (I. J. Schoenberg, *Spline functions
and the problem of graduation*, 1964): least jerk with m = 3, least snap with m = 4. Its unknowns
are derivatives 1 to m - 1 at the inner knots. That the integral's gradient by them is zero is a
symmetric, positive definite system with a narrow band.

Minimum-snap courses through waypoints, and how long each of their segments takes.

Of all ways through the waypoints at given times, at rest to the third derivative at both ends, the
one with the least integral of squared snap is a polynomial of degree 7 in each segment, continuous
to the sixth derivative (Mellinger and Kumar, *Minimum snap trajectory generation and control for
quadrotors*, 2011; the spline's conditions follow from the calculus of variations).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from quadsim.base.compiled import Array, kernel, owning_kernel
from quadsim.base.elementary import each, exp
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import lengths, solve
from quadsim.mission.reference.legs import Motion
from quadsim.mission.trajectories.course import YawLaw


@kernel
def solve_band(band: Array, found: Array) -> None:
    """Solve A X = B in place by elimination without pivoting.

    Args:
        band: (n, 2 p + 1), ``band[i, p + j - i]`` is A[i, j]; A must need no pivoting, as one that
            is positive definite does not. It is overwritten.
        found: (n, D) B; X is written into it.
    """
    count, p = len(band), band.shape[1] // 2
    for k in range(count):
        for i in range(k + 1, min(k + p + 1, count)):
            factor = band[i, p + k - i] / band[k, p]
            for j in range(k + 1, min(k + p + 1, count)):
                band[i, p + j - i] -= factor * band[k, p + j - k]
            for d in range(found.shape[1]):
                found[i, d] -= factor * found[k, d]
    for k in range(count - 1, -1, -1):
        for d in range(found.shape[1]):
            value = found[k, d]
            for j in range(k + 1, min(k + p + 1, count)):
                value -= band[k, p + j - k] * found[j, d]
            found[k, d] = value / band[k, p]


@cache
def _from_ends(m: int) -> tuple[Array, Array]:
    """What a segment's coefficients are made of, and the gradient of its integral.

    Returns:
        (2 m, 2 m) whole numbers, from derivatives k < m over k!, at the start and then at the end
        of a segment of length 1, to coefficients in ascending powers; and (2 m, 2 m), from the same
        to the gradient of half the integral by each of the 2 m derivatives.
    """
    orders = range(2 * m)
    # derivatives of the powers at 0 and at 1, over k!
    starts = np.array([[float(n == k) for n in orders] for k in orders])
    ends = np.array([[float(math.comb(n, k)) for n in orders] for k in orders])
    shape = np.rint(solve(np.concatenate([starts[:m], ends[:m]]), np.eye(2 * m)))
    # by parts: by derivative k at an end it is derivative 2 m - 1 - k there, but for the sign
    rows = [
        side * (1 - 2 * ((m - 1 - k) % 2)) * math.factorial(2 * m - 1 - k) * at[2 * m - 1 - k]
        for side, at in ((-1, starts), (1, ends))
        for k in range(m)
    ]
    return shape, np.asarray(np.einsum("ij,jk->ik", np.array(rows), shape))


def _powers(steps_s: Array, count: int) -> Array:
    """Powers (K, count) of the steps from 0 on."""
    factors = np.repeat(steps_s[:, None], count, axis=1)
    factors[:, 0] = 1.0
    return np.asarray(np.cumprod(factors, axis=1))


def _factorials(count: int) -> Array:
    return np.array([math.factorial(k) for k in range(count)], dtype=float)


def segments(derivatives: Array, steps_s: Array) -> Array:
    """Coefficients of a piecewise polynomial of degree 2 m - 1.

    Args:
        derivatives: (K + 1, m, D) values and derivatives to m - 1 at the knots.
        steps_s: (K,) between them.

    Returns:
        (K, D, 2 m) in ascending powers of tau in [0, 1].
    """
    m = derivatives.shape[1]
    shape, _ = _from_ends(m)
    scale = (_powers(steps_s, m) / _factorials(m))[..., None]
    start, end = scale * derivatives[:-1], scale * derivatives[1:]
    base = start[:, 0].copy()
    start[:, 0], end[:, 0] = 0.0, end[:, 0] - base  # far from zero, differences keep their digits
    found = np.einsum("ij,kjd->kdi", shape, np.concatenate([start, end], axis=1))
    found[..., 0] = base
    return np.asarray(found)


def rest_spline(values: Array, steps_s: Array, m: int) -> Array:
    """Derivatives at the knots of the spline of degree 2 m - 1 from rest to rest.

    Args:
        values: (K + 1, D) at the knots.
        steps_s: (K,) between them.
        m: order of the derivative whose squared integral is least.

    Returns:
        (K + 1, m, D) values and derivatives to m - 1.
    """
    count, unknown = len(steps_s), m - 1
    found = np.zeros((count + 1, m, values.shape[1]))
    found[:, 0] = values
    if count == 1:
        return found
    _, gradient = _from_ends(m)
    # (K, end, k, end, l): gradient by derivative k in seconds, from derivative l in seconds
    by = 1.0 / _powers(steps_s, 2 * m)[:, : m - 1 : -1]
    of = _powers(steps_s, m) / _factorials(m)
    parts = by[:, None, :, None, None] * gradient.reshape(2, m, 2, m) * of[:, None, None, None, :]
    half = 2 * unknown - 1
    band = np.zeros((unknown * (count - 1), 2 * half + 1))
    wanted = np.zeros((unknown * (count - 1), values.shape[1]))
    rise = np.diff(values, axis=0)
    for k in range(unknown):
        rows = slice(k, None, unknown)
        # the segment before ends at the knot, the one after starts there
        wanted[rows] = -parts[:-1, 1, k + 1, 1, 0, None] * rise[:-1]
        wanted[rows] -= parts[1:, 0, k + 1, 1, 0, None] * rise[1:]
        for n in range(unknown):
            here = half + n - k
            band[rows, here] = parts[:-1, 1, k + 1, 1, n + 1] + parts[1:, 0, k + 1, 0, n + 1]
            band[rows, here - unknown][1:] = parts[1:-1, 1, k + 1, 0, n + 1]
            band[rows, here + unknown][:-1] = parts[1:-1, 0, k + 1, 1, n + 1]
    solve_band(band, wanted)
    found[1:-1, 1:] = wanted.reshape(count - 1, unknown, -1)
    return found


def cubic_slopes(times_s: Array, values: Array) -> Array:
    """Slopes (K + 1, D) at the knots of the cubic spline through values (K + 1, D).

    Its third derivative is continuous at the second knot and at the last but one as well (C. de
    Boor, *A Practical Guide to Splines*, 1978, chapter IV: not a knot).
    """
    steps_s = np.diff(times_s)
    h, rises = steps_s[:, None], np.diff(values, axis=0) / steps_s[:, None]
    if len(h) == 1:
        return np.asarray(np.repeat(rises, 2, axis=0))
    band, wanted = np.zeros((len(values), 3)), np.zeros(values.shape)
    band[1:-1, 0], band[1:-1, 2] = steps_s[1:], steps_s[:-1]
    band[1:-1, 1] = 2.0 * (steps_s[:-1] + steps_s[1:])
    wanted[1:-1] = 3.0 * (h[:-1] * rises[1:] + h[1:] * rises[:-1])
    if len(h) == 2:  # a parabola
        band[0, 1:], band[-1, :2] = 1.0, 1.0
        wanted[0], wanted[-1] = 2.0 * rises[0], 2.0 * rises[1]
    else:
        both = times_s[2] - times_s[0]
        band[0, 1:] = steps_s[1], both
        wanted[0] = ((h[0] + 2.0 * both) * h[1] * rises[0] + h[0] * h[0] * rises[1]) / both
        both = times_s[-1] - times_s[-3]
        band[-1, :2] = both, steps_s[-2]
        wanted[-1] = (h[-1] * h[-1] * rises[-2] + (2.0 * both + h[-1]) * h[-2] * rises[-1]) / both
    solve_band(band, wanted)
    return wanted


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


#: Samples of a segment by which the optimiser judges it; the result is scaled exactly.
TRIAL_SAMPLES = 24
#: Most trials of the optimiser.
MOST_TRIALS = 400
#: By how much, as a logarithm, it first lengthens each segment.
FIRST_STEP = 0.3


@dataclass(frozen=True)
class Limits:
    """What a course keeps: m/s, m/s^2, and m/s up and down; infinite for no limit."""

    speed_mps: float = math.inf
    acceleration_mps2: float = math.inf
    ascent_mps: float = math.inf
    descent_mps: float = math.inf

    def stretch(self, speed: float, acceleration: float, up: float, down: float) -> float:
        """By how much slower a course must be flown to keep them just so; below 1, faster."""
        return max(
            speed / self.speed_mps,
            math.sqrt(acceleration / self.acceleration_mps2),
            up / self.ascent_mps,
            down / self.descent_mps,
        )


def course(waypoints: Array, durations_s: Array) -> Polynomials:
    """The course of least snap through waypoints (K + 1, 3) in segments of durations (K,)."""
    knots = np.concatenate([[0.0], np.cumsum(durations_s)])
    derivatives = rest_spline(waypoints, durations_s, 4)
    return Polynomials(knots, segments(derivatives, durations_s))


def _trial_stretch(waypoints: Array, durations_s: Array, limits: Limits) -> float:
    _, _, v, a = sample_course(course(waypoints, durations_s), TRIAL_SAMPLES)
    up = float(v[:, 2].max())
    down = float(-v[:, 2].min())
    speed, acceleration = float(lengths(v).max()), float(lengths(a).max())
    return limits.stretch(speed, acceleration, max(up, 0), max(down, 0))


def allocate(waypoints: Sequence[Vec3], limits: Limits, optimise: bool = False) -> Array:
    """Durations (K,) of the segments with which the course keeps its limits, one of them just so.

    They go as the roots of the distances, which is how long a rest-to-rest leg under an
    acceleration takes; the optimiser shifts them until the whole takes least (Nelder and Mead).

    Args:
        waypoints: K + 1 positions, no two in a row the same.
        optimise: whether to look for the shortest.
    """
    points = np.array(waypoints, dtype=float)
    durations = np.sqrt(lengths(np.diff(points, axis=0)))
    if optimise and len(durations) > 1:
        from scipy.optimize import minimize

        def total_s(shares: Array) -> float:
            trial = durations * each(exp, np.clip(np.append(shares, 0.0), -2.0, 2.0))
            return _trial_stretch(points, trial, limits) * float(trial.sum())

        count = len(durations) - 1
        corners = np.vstack([np.zeros(count), FIRST_STEP * np.eye(count)])
        found = minimize(
            total_s,
            corners[0],
            method="Nelder-Mead",
            options={"maxfev": MOST_TRIALS, "fatol": 1e-3, "initial_simplex": corners},
        )
        durations = durations * each(exp, np.clip(np.append(found.x, 0.0), -2.0, 2.0))
    return np.asarray(durations * limits.stretch(*peaks(course(points, durations))))
