"""AllanNoise figures out of Allan curves, each with its 95 % interval.

The generalised method of moments on Allan variances (Guerrier, Skaloud et al. 2013), in logarithms:
the logarithm of a variance of nu degrees of freedom is off by a known mean and variance (digamma,
trigamma), whatever the variance is. Neighbouring averages see the same noise; how much so follows
from the spectrum of the model. An interval holds every value that a fit with this figure fixed does
not make worse by more than chi-square allows (profile likelihood), so that a figure that cannot be
told from zero has an interval that begins at zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, optimize, special, stats

from quadsim.base.compiled import Array
from quadsim.lab.sensor_check.allan import HUMP_AT, VARIANCES, AllanCurve, AllanNoise, freedom_at

#: What a model can be made of.
TERMS = tuple(VARIANCES)

#: A term stays if without it the fit is worse than chance makes it in one of a hundred cases.
SELECTION = 0.99

#: A term that adds less than this part to any deviation is none.
NOTHING = 1e-3

#: First step of the search for the end of an interval, and how finely the end is found, relative.
FIRST_STEP, LAST_STEP = 0.01, 5e-4


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its 95 % interval; infinite where the recording sets no bound."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class AllanFit:
    """What a fit found on axes that share one correlation time.

    Attributes:
        estimates: of each axis, by the names of :class:`AllanNoise`, for the terms of the fit;
            ``instability_time_s`` is the same on all.
        freedom: its degrees of freedom, where the model is true.
    """

    noises: tuple[AllanNoise, ...]
    estimates: tuple[dict[str, Estimate], ...]
    misfit: float
    freedom: int

    @property
    def chance(self) -> float:
        """Probability of a misfit as large if the model is true."""
        return float(stats.chi2.sf(self.misfit, max(self.freedom, 1)))


def _whitened(curve: AllanCurve, noise: AllanNoise) -> tuple[Array, Array]:
    """(M,) what logarithms of variances should be, and the (M, M) root of how they scatter."""
    n = curve.count.astype(float)
    half = 0.5 * freedom_at(n, noise.variance(n, curve.dt_s), curve.samples)
    log_variance = 2.0 * np.log(curve.deviation) - special.digamma(half) + np.log(half)
    scatter = np.sqrt(special.polygamma(1, half))
    covariance = correlation(curve, noise) * np.outer(scatter, scatter)
    covariance[np.diag_indices_from(covariance)] *= 1.0 + 1e-9
    return log_variance, linalg.cholesky(covariance, lower=True)


def correlation(curve: AllanCurve, noise: AllanNoise) -> Array:
    """(M, M) correlation of overlapping Allan variances of Gaussian noise.

    The covariance of two means of squares is the sum of their squared cross-covariance, which by
    Parseval is the integral of ``S^2 |H_i|^2 |H_j|^2``; ``|H|^2 = 2 sin^4(pi f tau) / (m sin(pi f
    dt))^2``. The integral is taken on a logarithmic axis, one point in each of its parts at a place
    that does not repeat (the golden section), as the integrand oscillates.
    """
    points = 20_000
    low, high = math.log(0.01 / (curve.samples * curve.dt_s)), math.log(0.5 / curve.dt_s)
    places = np.arange(points) + np.mod(np.arange(points) * 0.6180339887498949, 1.0)
    frequency_hz = np.exp(low + (high - low) * places / points)
    phase = math.pi * frequency_hz * curve.dt_s
    m = curve.count[:, None]
    gain = 2.0 * np.sin(m * phase) ** 4 / (m * np.sin(phase)) ** 2
    rows = gain * noise.density(frequency_hz, curve.dt_s) * np.sqrt(frequency_hz)
    covariance = rows @ rows.T
    scale = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(scale, scale))


def first_guess(curve: AllanCurve, terms: Sequence[str], time_s: float) -> AllanNoise:
    """Non-negative least squares on the variances, each weighed by its own size and freedom."""
    n = curve.count.astype(float)
    weight = np.sqrt(0.5 * curve.freedom) / curve.deviation**2
    basis = np.stack([VARIANCES[term](n, curve.dt_s, time_s) * weight for term in terms], axis=1)
    sizes = np.linalg.norm(basis, axis=0)
    found, _ = optimize.nnls(basis / sizes, curve.deviation**2 * weight)
    figures = zip(terms, np.sqrt(found / sizes).tolist(), strict=True)
    return AllanNoise(instability_time_s=time_s, **dict(figures))


class _Fit:
    """Figures of all axes as one vector of logarithms, with the correlation time at its end."""

    def __init__(self, curves: Sequence[AllanCurve], terms: Sequence[str]) -> None:
        self.curves, self.terms = curves, tuple(terms)
        self.timed = "instability" in terms
        longest = min(float(curve.tau_s[-1]) for curve in curves)
        shortest = max(float(curve.tau_s[0]) for curve in curves)
        # with its hump beyond the longest average it is no different from a walk
        self.times_s = (2.0 * shortest, longest / HUMP_AT)
        self.names = [(axis, term) for axis in range(len(curves)) for term in terms]
        self.low = np.log([self._smallest(curves[axis], term) for axis, term in self.names])
        self.high = self.low + math.log(1e3 / NOTHING)
        if self.timed:
            self.names.append((-1, "instability_time_s"))
            self.low = np.append(self.low, math.log(self.times_s[0]))
            self.high = np.append(self.high, math.log(self.times_s[1]))
        self.whitened: list[tuple[Array, Array]] = []

    @staticmethod
    def _smallest(curve: AllanCurve, term: str) -> float:
        """A figure that adds at most :data:`NOTHING` to any deviation."""
        unit = AllanNoise(instability_time_s=float(curve.tau_s[-1]), **{term: 1.0})
        top = np.sqrt(unit.variance(curve.count, curve.dt_s)) / curve.deviation
        return NOTHING / float(top.max())

    def noises(self, x: Array) -> list[AllanNoise]:
        """Figures of each axis."""
        time_s = float(np.exp(x[-1])) if self.timed else AllanNoise().instability_time_s
        width = len(self.terms)
        values = np.exp(x[: width * len(self.curves)]).reshape(-1, width)
        return [
            AllanNoise(instability_time_s=time_s, **dict(zip(self.terms, row, strict=True)))
            for row in values.tolist()
        ]

    def residual(self, x: Array) -> Array:
        """Independent residuals of deviation 1, of all axes."""
        return np.concatenate(
            [
                linalg.solve_triangular(
                    root, log_variance - np.log(noise.variance(c.count, c.dt_s)), lower=True
                )
                for c, noise, (log_variance, root) in zip(
                    self.curves, self.noises(x), self.whitened, strict=True
                )
            ]
        )

    def minimise(self, start: Array, fixed: int | None = None) -> tuple[Array, float]:
        """Best figures and their misfit, with one of them held at its start if wanted."""
        free = np.array([i for i in range(len(start)) if i != fixed], int)
        best = np.clip(start, self.low + 1e-9, self.high - 1e-9)
        if not len(free):
            return best, float(np.sum(self.residual(best) ** 2))

        def residual(part: Array) -> Array:
            x = best.copy()
            x[free] = part
            return self.residual(x)

        bounds = (self.low[free], self.high[free])
        found: Any = optimize.least_squares(
            residual, best[free], bounds=bounds, x_scale=1.0, ftol=1e-6, xtol=1e-6
        )
        best[free] = found.x
        return best, 2.0 * float(found.cost)

    def best(self) -> tuple[Array, float]:
        """From several correlation times, as the misfit has more than one valley."""
        starts = []
        for time_s in np.geomspace(*self.times_s, 6)[1:-1].tolist() if self.timed else [1.0]:
            guesses = [first_guess(curve, self.terms, time_s) for curve in self.curves]
            values = [getattr(guesses[axis], term) for axis, term in self.names if axis >= 0]
            values += [time_s] if self.timed else []
            starts.append(np.clip(np.log(np.maximum(values, 1e-300)), self.low, self.high))
        self._weigh(starts[0])
        x, misfit = min((self.minimise(start) for start in starts), key=lambda pair: pair[1])
        for _ in range(2):  # the weights are those of the model that was found
            self._weigh(x)
            x, misfit = self.minimise(x)
        return x, misfit

    def _weigh(self, x: Array) -> None:
        self.whitened = [_whitened(*pair) for pair in zip(self.curves, self.noises(x), strict=True)]

    def interval(self, x: Array, misfit: float, index: int, allowed: float) -> Estimate:
        """Profile of one figure: how far it can go on each side until the misfit refuses."""

        def end(bound: float, open_end: float) -> float:
            near = x.copy()

            def beyond(value: float) -> float:
                near[index] = value
                near[:], reached = self.minimise(near, index)
                return reached - misfit - allowed

            inner = outer = float(x[index])
            step = math.copysign(FIRST_STEP, bound - inner)
            while inner == outer or beyond(outer) <= 0.0:  # outwards, in steps that double
                if outer == bound:
                    return open_end
                inner, outer = outer, min(max(outer + step, self.low[index]), self.high[index])
                step *= 2.0
            while abs(outer - inner) > LAST_STEP:
                middle = 0.5 * (inner + outer)
                inner, outer = (middle, outer) if beyond(middle) <= 0.0 else (inner, middle)
            return math.exp(0.5 * (inner + outer))

        low = end(float(self.low[index]), 0.0)
        return Estimate(math.exp(x[index]), low, end(float(self.high[index]), math.inf))


def fit_allan(curves: Sequence[AllanCurve], terms: Sequence[str] = TERMS) -> AllanFit:
    """Fit noise figures to Allan curves.

    Args:
        curves: of axes that share one correlation time.
        terms: of :data:`TERMS`; what is left out is zero.

    Returns:
        Figures with intervals. One that adds nothing anywhere is zero.
    """
    fit = _Fit([curve.octaves() for curve in curves], terms)
    x, misfit = fit.best()
    allowed = float(stats.chi2.ppf(0.95, 1))
    estimates: list[dict[str, Estimate]] = [{} for _ in curves]
    for index, (axis, name) in enumerate(fit.names):
        estimate = fit.interval(x, misfit, index, allowed)
        if axis >= 0 and x[index] < fit.low[index] + 0.01:
            estimate = replace(estimate, value=0.0)
        for each in estimates if axis < 0 else [estimates[axis]]:
            each[name] = estimate
    noises = tuple(AllanNoise(**{k: e.value for k, e in found.items()}) for found in estimates)
    freedom = sum(len(curve.count) for curve in fit.curves) - len(x)
    return AllanFit(noises, tuple(estimates), misfit, freedom)


def select(curves: Sequence[AllanCurve], terms: Sequence[str] = TERMS) -> tuple[str, ...]:
    """The terms that the curves show.

    From all of them on, the one that is missed least goes, as long as the fit without it is worse
    by no more than chance would have it.

    Args:
        curves: as of :func:`fit_allan`.
        terms: what there may be; the first always stays.
    """
    thinned = [curve.octaves() for curve in curves]
    chosen = tuple(terms)
    misfit = _Fit(thinned, chosen).best()[1]
    while len(chosen) > 1:
        trials = []
        for term in chosen[1:]:
            rest = tuple(name for name in chosen if name != term)
            reached = _Fit(thinned, rest).best()[1]
            figures = len(curves) + (term == "instability")  # its time is one figure more
            trials.append((float(stats.chi2.sf(reached - misfit, figures)), rest, reached))
        chance, rest, reached = max(trials)
        if chance < 1.0 - SELECTION:
            break
        chosen, misfit = rest, reached
    return chosen
