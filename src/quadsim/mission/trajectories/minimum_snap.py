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

from quadsim.base.elementary import each, exp
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import lengths
from quadsim.mission.trajectories.polynomials import (
    Array,
    Polynomials,
    peaks,
    sample_course,
)
from quadsim.mission.trajectories.splines import rest_spline, segments

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
        limits: what it keeps.
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
