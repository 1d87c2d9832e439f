"""Least squares with channels of unknown noise, priors, and intervals that trust no noise model.

Weights are one over each channel's own residual variance (iterated). Errors are correlated over
time and not alike at all times, so that intervals come from the data themselves: the fit is
repeated without each of a number of stretches of time (delete-a-group jackknife; R. G. Miller, *The
jackknife - a review*, Biometrika 61, 1974), and the estimates' scatter, times Student's t, is the
interval. Priors add their own part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats

from quadsim.base.compiled import Array

#: Residuals of parameters: (times, channels).
Residual = Callable[[Array], Array]

#: Stretches of time that are left out in turn.
PARTS = 20

#: Gauss-Newton ends when no parameter moves by more than this part of its deviation.
CONVERGED, MOST_STEPS = 0.02, 12

#: Step of the differences, in sizes of the parameter; the models are nearly bilinear.
DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Prior:
    """What is known of the parameters beforehand.

    Attributes:
        mean: (P,).
        sigma: (P,) deviations; 0: the parameter is not free.
        size: (P,) a change of the parameter that can be noticed.
        noise: (channels,) below which no residual's deviation is taken to be.
    """

    mean: Array
    sigma: Array
    size: Array
    noise: Array


@dataclass(frozen=True)
class Solution:
    """What a fit found.

    Attributes:
        value: (P,).
        covariance: (P, P); zero for what was not free.
        noise: (channels,) root mean square of the residuals.
        freedom: of Student's t.
    """

    value: Array
    covariance: Array
    noise: Array
    freedom: int

    @property
    def quantile(self) -> float:
        """Deviations to either side of a 95 % interval."""
        return float(stats.t.ppf(0.975, self.freedom))


def jacobian(
    residual: Residual, value: Array, errors: Array, free: NDArray[np.intp], size: Array
) -> Array:
    """(times, channels, free) derivatives by differences from the residuals at a value."""
    rows = np.empty((*errors.shape, len(free)))
    for column, index in enumerate(free):
        step = np.zeros(len(value))
        step[index] = DIFFERENCE * size[index]
        rows[..., column] = (residual(value + step) - errors) / step[index]
    return rows


def _normal(rows: Array, errors: Array, noise: Array) -> tuple[Array, Array]:
    """Normal matrix and gradient of some times."""
    weighed = (rows / noise[:, None]).reshape(-1, rows.shape[-1])
    return weighed.T @ weighed, weighed.T @ (errors / noise).ravel()


def fit_least_squares(residual: Residual, prior: Prior, begin: Array) -> Solution:
    """Minimise the weighed squares of residuals and of deviations from the prior.

    Args:
        residual: parameters (P,) to (times, channels); times in order.
        begin: (P,) where the search begins.
    """
    free = np.flatnonzero(prior.sigma > 0.0)
    value = np.where(prior.sigma > 0.0, begin, prior.mean)
    size, precision = prior.size[free], prior.sigma[free] ** -2.0
    errors = residual(value)
    for _ in range(MOST_STEPS):
        rows = jacobian(residual, value, errors, free, prior.size)
        noise = _noise(errors, prior)
        matrix, gradient = _normal(rows, errors, noise)
        matrix[np.diag_indices_from(matrix)] += precision
        gradient += precision * (value - prior.mean)[free]
        scaled = matrix * np.outer(size, size)
        step = size * linalg.solve(scaled, -size * gradient, assume_a="pos")
        value[free] += step
        errors = residual(value)
        spread = size * np.sqrt(np.diag(linalg.inv(scaled)))
        if np.all(np.abs(step) <= CONVERGED * spread):
            break
    rows, noise = jacobian(residual, value, errors, free, prior.size), _noise(errors, prior)
    covariance = np.zeros((len(value), len(value)))
    covariance[np.ix_(free, free)] = _scatter(rows, errors, noise, precision, size)
    return Solution(value, covariance, noise, PARTS - 1)


def _noise(errors: Array, prior: Prior) -> Array:
    """Root mean square of each channel."""
    return np.asarray(np.maximum(np.sqrt(np.mean(errors**2, axis=0)), prior.noise))


def _scatter(rows: Array, errors: Array, noise: Array, precision: Array, size: Array) -> Array:
    """Covariance: jackknife over stretches of time, and what the priors leave open."""
    whole, _ = _normal(rows, errors, noise)
    whole[np.diag_indices_from(whole)] += precision
    moved = []
    for part in np.array_split(np.arange(len(errors)), PARTS):
        matrix, gradient = _normal(rows[part], errors[part], noise)
        scaled = (whole - matrix) * np.outer(size, size)
        moved.append(size * linalg.solve(scaled, size * gradient, assume_a="pos"))
    off = np.array(moved) - np.mean(moved, axis=0)
    inverse = np.outer(size, size) * linalg.inv(whole * np.outer(size, size))
    open_part = (inverse * precision) @ inverse
    return np.asarray((PARTS - 1) / PARTS * off.T @ off + open_part)
