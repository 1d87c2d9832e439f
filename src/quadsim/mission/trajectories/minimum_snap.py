"""Minimum-snap courses through waypoints, and how long each of their segments takes.

Of all ways through the waypoints at given times, at rest to the third derivative at both ends, the
one with the least integral of squared snap is a polynomial of degree 7 in each segment, continuous
to the sixth derivative (Mellinger and Kumar, *Minimum snap trajectory generation and control for
quadrotors*, 2011; the spline's conditions follow from the calculus of variations).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quadsim.mission.trajectories.polynomials import (
    ORDERS,
    Array,
    Polynomials,
    derivative_row,
    peaks,
    sampled,
)
from quadsim.parameters import Vec3

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


def solve(waypoints: Array, durations_s: Array) -> Array:
    """Coefficients of the least snap through waypoints at given times.

    Args:
        waypoints: (K + 1, D).
        durations_s: (K,) of the segments.

    Returns:
        (K, D, 8) in ascending powers of tau in [0, 1].
    """
    count = len(durations_s)
    matrix = np.zeros((ORDERS * count, ORDERS * count))
    wanted = np.zeros((ORDERS * count, waypoints.shape[1]))
    at_start = np.stack([derivative_row(k, 0.0) / math.factorial(k) for k in range(ORDERS)])
    at_end = np.stack([derivative_row(k, 1.0) / math.factorial(k) for k in range(ORDERS)])
    matrix[:4, :ORDERS] = at_start[:4]
    matrix[4:8, -ORDERS:] = at_end[:4]
    wanted[0], wanted[4] = waypoints[0], waypoints[-1]
    for i in range(count - 1):
        rows = ORDERS * (i + 1)
        before, after = slice(ORDERS * i, rows), slice(rows, rows + ORDERS)
        matrix[rows, before], matrix[rows + 1, after] = at_end[0], at_start[0]
        wanted[rows] = wanted[rows + 1] = waypoints[i + 1]
        ratio = durations_s[i] / durations_s[i + 1]
        for k in range(1, 7):
            matrix[rows + 1 + k, before] = at_end[k]
            matrix[rows + 1 + k, after] = -(ratio**k) * at_start[k]
    found = np.linalg.solve(matrix, wanted)
    return np.asarray(found.reshape(count, ORDERS, -1).transpose(0, 2, 1))


def course(waypoints: Array, durations_s: Array) -> Polynomials:
    """The course through waypoints (K + 1, 3) in segments of given durations (K,)."""
    knots = np.concatenate([[0.0], np.cumsum(durations_s)])
    return Polynomials(knots, solve(waypoints, durations_s))


def snap_cost(path: Polynomials) -> float:
    """Integral of squared snap over the course, m^2/s^7, by Gauss-Legendre (exact)."""
    points, weights = np.polynomial.legendre.leggauss(5)
    total = 0.0
    for axes, step_s in zip(path.coefficients, np.diff(path.knots_s), strict=True):
        for point, weight in zip(0.5 * (points + 1.0), 0.5 * weights, strict=True):
            snap = axes[:3] @ derivative_row(4, point) / step_s**4
            total += weight * step_s * float(snap @ snap)
    return total


def _trial_stretch(waypoints: Array, durations_s: Array, limits: Limits) -> float:
    _, _, v, a = sampled(course(waypoints, durations_s), TRIAL_SAMPLES)
    up = float(v[:, 2].max())
    down = float(-v[:, 2].min())
    speed = float(np.linalg.norm(v, axis=1).max())
    return limits.stretch(speed, float(np.linalg.norm(a, axis=1).max()), max(up, 0), max(down, 0))


def allocate(waypoints: Sequence[Vec3], limits: Limits, optimise: bool = False) -> Array:
    """Durations (K,) of the segments with which the course keeps its limits, one of them just so.

    They go as the roots of the distances, which is how long a rest-to-rest leg under an
    acceleration takes; the optimiser shifts them until the whole takes least (Nelder and Mead).

    Args:
        waypoints: K + 1 positions, no two in a row the same.
        limits: what it keeps.
        optimise: whether to look for the shortest.
    """
    points = np.array(waypoints, dtype=float)
    durations = np.sqrt(np.linalg.norm(np.diff(points, axis=0), axis=1))
    if optimise and len(durations) > 1:
        from scipy.optimize import minimize

        def total_s(shares: Array) -> float:
            trial = durations * np.exp(np.clip(np.append(shares, 0.0), -2.0, 2.0))
            return _trial_stretch(points, trial, limits) * float(trial.sum())

        count = len(durations) - 1
        corners = np.vstack([np.zeros(count), FIRST_STEP * np.eye(count)])
        found = minimize(
            total_s,
            corners[0],
            method="Nelder-Mead",
            options={"maxfev": MOST_TRIALS, "fatol": 1e-3, "initial_simplex": corners},
        )
        durations = durations * np.exp(np.clip(np.append(found.x, 0.0), -2.0, 2.0))
    return np.asarray(durations * limits.stretch(*peaks(course(points, durations))))
