"""Figures of a sensor, measured: each with its interval of confidence and what was specified.

Intervals come from the distribution of what is measured: chi-square for deviations, Student's t for
means, Clopper and Pearson's for shares, Poisson's for counts, order statistics for radii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

#: Half of an interval, over the figure: what "measured" means.
WANTED = 0.05

#: What is certain agrees to this part, or to this part of its unit's scale: rounding alone.
EXACT = 1e-9


@dataclass(frozen=True)
class MeasuredFigure:
    """One figure of a device.

    Attributes:
        name: as in the device's file, with the axis where there are several.
        specified: in the file; None where it cannot be judged.
        measured: out of the device's samples.
        low, high: ends of the interval of confidence; ``measured`` itself where it is certain.
        ok: whether the interval holds what is specified, or nothing is.
    """

    name: str
    unit: str
    specified: float | None
    measured: float
    low: float
    high: float
    ok: bool

    @property
    def verdict(self) -> str:
        """In words."""
        if self.specified is None:
            return "not judged"
        return "holds" if self.ok else "does not hold"

    @property
    def half_width(self) -> float:
        """Half of the interval over the figure; 0 where it is certain."""
        if self.high == self.low:
            return 0.0
        return 0.5 * (self.high - self.low) / abs(self.measured) if self.measured else math.inf


@dataclass(frozen=True)
class Specified:
    """What a file states of a figure, and how sure the measured one shall be.

    Attributes:
        name, unit, specified: as of :class:`MeasuredFigure`.
    """

    name: str
    unit: str
    specified: float
    confidence: float = 0.95

    @property
    def tail(self) -> float:
        """Probability beyond either end."""
        return 0.5 * (1.0 - self.confidence)

    def within(self, measured: float, low: float, high: float) -> MeasuredFigure:
        """The figure with its interval."""
        ok = bool(low <= self.specified <= high)
        return MeasuredFigure(
            self.name, self.unit, self.specified, float(measured), float(low), float(high), ok
        )

    def exactly(self, measured: float, tolerance: float = 0.0) -> MeasuredFigure:
        """A figure without chance.

        Args:
            tolerance: allowed besides rounding, in the figure's unit.
        """
        measured = float(measured)
        allowed = max(tolerance, EXACT * abs(self.specified))
        ok = abs(measured - self.specified) <= allowed
        return MeasuredFigure(
            self.name, self.unit, self.specified, measured, measured, measured, ok
        )

    def spread(self, variance: float, freedom: float, scale: float = 1.0) -> MeasuredFigure:
        """A deviation out of a variance of so many degrees of freedom.

        Args:
            freedom: of the chi-square distribution it has.
            scale: from the deviation to the figure.
        """
        measured = scale * math.sqrt(variance)
        low = measured * math.sqrt(freedom / stats.chi2.ppf(1.0 - self.tail, freedom))
        high = measured * math.sqrt(freedom / stats.chi2.ppf(self.tail, freedom))
        return self.within(measured, low, high)

    def deviation(self, values: ArrayLike, scale: float = 1.0) -> MeasuredFigure:
        """Of independent normal values of unknown mean."""
        x = np.asarray(values, float)
        return self.spread(float(x.var(ddof=1)), len(x) - 1, scale)

    def mean(self, values: ArrayLike, scale: float = 1.0) -> MeasuredFigure:
        """Of independent normal values."""
        x = scale * np.asarray(values, float)
        ends = stats.ttest_1samp(x, 0.0).confidence_interval(self.confidence)
        return self.within(x.mean(), *ends)

    def share(self, hits: int, trials: int, scale: float = 1.0) -> MeasuredFigure:
        """Probability of independent events (Clopper and Pearson 1934).

        Args:
            scale: from the probability to the figure.
        """
        low, high = stats.binomtest(hits, trials).proportion_ci(self.confidence)
        return self.within(scale * hits / trials, scale * low, scale * high)

    def radius(self, distances: ArrayLike, part: float) -> MeasuredFigure:
        """The distance that holds a part of independent ones, by order statistics."""
        x = np.sort(np.asarray(distances, float))
        ranks = stats.binom.ppf([self.tail, 1.0 - self.tail], len(x), part)
        low, high = (x[int(np.clip(rank, 0, len(x) - 1))] for rank in ranks)
        return self.within(np.quantile(x, part), low, high)

    def persistence(self, values: ArrayLike, dt_s: float) -> MeasuredFigure:
        """Correlation time of a Gauss-Markov process of mean zero, sampled each dt_s.

        The lag-one correlation c of n samples has the variance (1 - c^2) / n (Bartlett 1946), its
        arc sine the variance 1 / n; T = -dt / ln c.
        """
        x = np.asarray(values, float)
        stored = float(x[1:] @ x[:-1]) / float(x @ x)
        half = stats.norm.ppf(1.0 - self.tail) / math.sqrt(len(x))
        angles = np.clip(math.asin(stored) + np.array([-half, 0.0, half]), 1e-9, math.pi / 2 - 1e-9)
        low, measured, high = -dt_s / np.log(np.sin(angles))
        return self.within(measured, low, high)

    def instability(self, values: ArrayLike, dt_s: float, time_s: float) -> MeasuredFigure:
        """Deviation of a Gauss-Markov process of mean zero and known correlation time.

        Neighbours are alike: n samples have n (1 - c^2) / (1 + c^2) degrees of freedom (Bartlett).
        """
        x = np.asarray(values, float)
        kept2 = math.exp(-2.0 * dt_s / time_s)
        return self.spread(float(np.mean(x**2)), len(x) * (1.0 - kept2) / (1.0 + kept2))


def consistency_figure(
    name: str, squares: float, freedom: float, confidence: float = 0.95
) -> MeasuredFigure:
    """Actual errors against what messages say of them: mean normalised square, 1 if they agree.

    Args:
        squares: mean of the squared errors over their stated variances.
    """
    stated = Specified(name, "1", 1.0, confidence)
    low = squares * freedom / stats.chi2.ppf(1.0 - stated.tail, freedom)
    high = squares * freedom / stats.chi2.ppf(stated.tail, freedom)
    return stated.within(squares, low, high)


def independent(count: int, stored: float, share: float) -> float:
    """Independent errors among so many of which a share lasts.

    The mean of n squared normal errors of correlation r_k has the variance 2/n^2 times the sum of
    all r^2: as many degrees of freedom as n^2 over that sum.

    Args:
        stored: correlation of the lasting share from one error to the next.
    """
    lag = np.arange(1, count)
    total = count + 2.0 * float(np.sum((count - lag) * (share * stored**lag) ** 2))
    return count**2 / total


def count_step(values: NDArray[np.floating[Any]]) -> float:
    """Distance of the counts that all values are whole multiples of; 0 if they are none.

    Args:
        values: a few hundred readings that fall on neighbouring counts here and there.
    """
    levels = np.unique(values.astype(float))
    apart = np.diff(levels)
    noise = 64.0 * float(np.finfo(values.dtype).eps) * max(abs(levels[0]), abs(levels[-1]))
    apart = apart[apart > noise]
    if len(apart) == 0:
        return 0.0
    step = float(apart.min())
    counts = np.round(levels / step)
    if counts.any():  # the many readings together say it more finely than two
        step = float(levels @ counts / (counts @ counts))
    off = np.abs(levels - step * counts)
    return step if off.max() <= max(noise, EXACT * step) else 0.0


def trials_for_deviation(confidence: float) -> int:
    """Values that make the interval of a deviation as narrow as :data:`WANTED`, with some spare."""
    z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
    return math.ceil(0.5 * (1.25 * z / WANTED) ** 2)


def trials_for_squares(confidence: float) -> int:
    """The same for a mean of squares of normal values."""
    return 4 * trials_for_deviation(confidence)


def trials_for_share(probability: float, confidence: float) -> int:
    """The same for a probability."""
    z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
    return math.ceil((1.25 * z / WANTED) ** 2 * (1.0 - probability) / max(probability, 1e-9))


def trials_for_radius(part: float, confidence: float) -> int:
    """The same for the radius that holds a part of two normal axes, or of one."""
    z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
    needed = 1
    for axes in (1, 2):
        quantile = float(stats.chi2.ppf(part, axes))
        density = 2.0 * quantile * float(stats.chi2.pdf(quantile, axes))  # of ln(radius)
        needed = max(needed, math.ceil(part * (1.0 - part) * (1.25 * z / (WANTED * density)) ** 2))
    return needed
