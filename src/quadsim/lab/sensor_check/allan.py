"""Allan deviation of a sensor at rest, with its confidence, and that of a noise model.

Figures follow IEEE Std 952-1997, annex C: for an average over tau, white noise of density N has the
variance N^2/tau, a random walk K^2 tau/3, a Gauss-Markov process of deviation sigma and correlation
time T (there q_c^2 = 2 sigma^2/T) its own hump, with the peak 0.437 q_c sqrt(T) = 0.618 sigma at
1.89 T. The models below are those of sampled processes, exact at every tau; far above the sample
interval they are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import allantools
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from quadsim.base.compiled import Array

#: The flat part of a flicker bias of instability B lies at 0.664 B (IEEE Std 952-1997, C.1.3).
FLAT_FLOOR = math.sqrt(2.0 * math.log(2.0) / math.pi)

#: Where the hump of a Gauss-Markov process lies, over its correlation time, and how high, over its
#: deviation.
HUMP_AT, HUMP = 1.89, 0.618

#: The longest averages are a fifth of the recording: of longer ones there are too few.
SHARE = 5

PER_DECADE = 6


@dataclass(frozen=True)
class AllanNoise:
    """Figures of one axis at rest; zero where a term is absent.

    Attributes:
        white: density N, unit/sqrt(Hz).
        walk: random walk K of the bias, unit/s/sqrt(Hz).
        instability: deviation sigma of the Gauss-Markov bias instability, unit.
    """

    white: float = 0.0
    walk: float = 0.0
    instability: float = 0.0
    instability_time_s: float = 500.0

    def variance(self, count: ArrayLike, dt_s: float) -> Array:
        """Allan variance for averages over ``count`` samples, dt_s apart."""
        n = np.asarray(count, float)
        parts = (
            getattr(self, term) ** 2 * unit(n, dt_s, self.instability_time_s)
            for term, unit in VARIANCES.items()
        )
        return np.asarray(sum(parts))

    def density(self, frequency_hz: Array, dt_s: float) -> Array:
        """Two-sided power spectral density of the samples, unit^2/Hz."""
        half = 4.0 * np.sin(math.pi * frequency_hz * dt_s) ** 2
        decay = math.exp(-dt_s / self.instability_time_s)
        instability = dt_s * (1.0 - decay**2) / ((1.0 - decay) ** 2 + decay * half)
        return np.asarray(
            self.white**2 + self.walk**2 * dt_s**2 / half + self.instability**2 * instability
        )


def _walk_variance(n: Array, dt_s: float, time_s: float) -> Array:
    """Of a walk whose steps have the variance dt_s (K = 1).

    The difference of two neighbouring means weighs the steps by a triangle, 1 to n and down again:
    ``dt (2 n^2 + 1) / (6 n)``, for large n the tau/3 of the standard.
    """
    return np.asarray(dt_s * (2.0 * n**2 + 1.0) / (6.0 * n))


def _instability_variance(n: Array, dt_s: float, time_s: float) -> Array:
    """Of a Gauss-Markov process of deviation 1, sampled each dt_s.

    With ``c = exp(-dt/T)``: variance of a mean of n less the covariance of two neighbouring means,
    ``(n (1 - c^2) - c (1 - c^n) (3 - c^n)) / (n (1 - c))^2``.
    """
    x = dt_s / time_s
    c, lost = math.exp(-x), -math.expm1(-x)
    gone = -np.expm1(-n * x)
    exact = (n * lost * (1.0 + c) - c * gone * (2.0 + gone)) / (n * lost) ** 2
    # below n x = 2e-5 the terms cancel; the process is a walk of the density 2/T there
    return np.where(n * x < 2e-5, 2.0 * x / dt_s * _walk_variance(n, dt_s, time_s), exact)


#: Allan variance of each term at the figure 1, of averages over n samples dt_s apart; time_s is the
#: instability's.
VARIANCES: dict[str, Callable[[Array, float, float], Array]] = {
    "white": lambda n, dt_s, time_s: 1.0 / (n * dt_s),
    "walk": _walk_variance,
    "instability": _instability_variance,
}


@dataclass(frozen=True)
class AllanCurve:
    """Overlapping Allan deviation of one axis.

    Attributes:
        count: (M,) samples in an average.
        deviation: (M,) Allan deviation, the samples' unit.
        freedom: (M,) equivalent degrees of freedom (Greenhall and Riley 2003).
    """

    dt_s: float
    samples: int
    count: NDArray[np.int64]
    deviation: Array
    freedom: Array

    @property
    def tau_s(self) -> Array:
        """(M,) averaging times."""
        return np.asarray(self.count * self.dt_s)

    def interval(self, confidence: float = 0.95) -> tuple[Array, Array]:
        """(M,) lower and (M,) upper end of the confidence interval of each deviation."""
        tail = 0.5 * (1.0 - confidence)
        low = np.sqrt(self.freedom / stats.chi2.ppf(1.0 - tail, self.freedom))
        high = np.sqrt(self.freedom / stats.chi2.ppf(tail, self.freedom))
        return self.deviation * low, self.deviation * high

    def from_tau(self, tau_s: float) -> AllanCurve:
        """The part from an averaging time on."""
        return self._part(self.count >= tau_s / self.dt_s - 1e-6)

    def octaves(self) -> AllanCurve:
        """Averaging times that at least double: nearer ones see nearly the same noise."""
        rows = [0]
        for i, count in enumerate(self.count):
            if count >= 2 * self.count[rows[-1]]:
                rows.append(i)
        return self._part(rows)

    def _part(self, rows: Any) -> AllanCurve:
        parts = (self.count[rows], self.deviation[rows], self.freedom[rows])
        return AllanCurve(self.dt_s, self.samples, *parts)

    def flat_floor(self) -> float:
        """Bias instability B if the lowest deviation is a flicker floor: lowest / 0.664."""
        return float(self.deviation.min()) / FLAT_FLOOR


def allan_curve(
    values: ArrayLike,
    rate_hz: float,
    model: Callable[[Array], Array] | None = None,
    per_decade: int = PER_DECADE,
) -> AllanCurve:
    """Allan deviation of the samples of one axis at rest.

    Args:
        values: (N,) samples at a steady rate, at least 4.
        model: variance for (M,) samples in an average; from its slopes the kind of noise is taken
            that the degrees of freedom depend on. None takes the slopes that were measured.
        per_decade: averaging times in a decade.

    Raises:
        ValueError: fewer samples.
    """
    samples = np.asarray(values, float)
    if len(samples) < 4:
        raise ValueError(f"{len(samples)} samples are too few for an Allan deviation")
    longest = max(1, len(samples) // SHARE)
    steps = np.arange(math.floor(per_decade * math.log10(longest)) + 1)
    count = np.unique(np.round(10.0 ** (steps / per_decade)).astype(np.int64))
    _, deviation, _, _ = allantools.oadev(samples, rate_hz, "freq", count / rate_hz)
    n = count.astype(float)
    freedom = freedom_at(n, deviation**2 if model is None else model(n), len(samples))
    return AllanCurve(1.0 / rate_hz, len(samples), count, np.asarray(deviation), freedom)


def freedom_at(n: Array, variance: Array, samples: int) -> Array:
    """(M,) degrees of freedom of Allan variances of averages over n of so many samples."""
    kinds = noise_kind(n, variance)
    return np.array(
        [
            degrees_of_freedom(int(kind), int(count), samples + 1)
            for kind, count in zip(kinds, n, strict=True)
        ]
    )


def noise_kind(count: Array, variance: Array) -> NDArray[np.int64]:
    """Exponent of the spectrum at each averaging time: 2 rounding, 0 white, -1 flicker, -2 walk.

    From the slope of the variance over half a decade on each side.
    """
    if len(count) < 2:
        return np.zeros(len(count), np.int64)
    x, y = np.log10(count), np.log10(np.maximum(variance, 1e-300))
    slopes = []
    for i, centre in enumerate(x):
        near = np.abs(x - centre) <= 0.5
        near[max(i - 1, 0) : i + 2] = True  # however far apart they are
        slopes.append(np.polyfit(x[near], y[near], 1)[0])
    exponent = np.clip(np.round(-1.0 - np.array(slopes)), -2, 1)
    return np.where(exponent == 1, 2, exponent).astype(np.int64)


@cache
def degrees_of_freedom(alpha: int, count: int, points: int) -> float:
    """Of an overlapping Allan variance, by Greenhall and Riley (2003).

    Args:
        alpha: exponent of the spectrum, 2 to -2.
        points: of the integral, one more than samples.
    """
    return float(allantools.edf_greenhall(alpha, 2, count, points, overlapping=True))
