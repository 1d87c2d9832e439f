"""Spectra of a sensor's axes: floor, lines of vibration, and how two flights compare.

Power spectral densities are one-sided, as scipy gives them: their integral is the variance. A noise
density N is the project's (a sample at a rate r has the deviation N sqrt(r), IEEE Std 952-1997), so
white noise of density N has the one-sided density 2 N^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal, stats

Array = NDArray[np.float64]

#: A line stands out of the floor by at least this factor in power, however long the recording.
STANDS_OUT = 3.0

#: Chance that noise alone is taken for a line somewhere in a spectrum.
FALSE_ALARM = 0.01


@dataclass(frozen=True)
class Spectrum:
    """Averaged periodograms of several axes (Welch 1967).

    Attributes:
        frequency_hz: (F,) without zero, evenly spaced.
        density: (F, A) one-sided power spectral density of each axis, unit^2/Hz.
        freedom: degrees of freedom of each value, twice the number of independent segments.
    """

    frequency_hz: Array
    density: Array
    freedom: float

    @property
    def resolution_hz(self) -> float:
        """Distance of two frequencies."""
        return float(self.frequency_hz[1] - self.frequency_hz[0])

    def within(self, low_hz: float, high_hz: float) -> Spectrum:
        """The part between two frequencies, both included."""
        inside = (self.frequency_hz >= low_hz) & (self.frequency_hz <= high_hz)
        return Spectrum(self.frequency_hz[inside], self.density[inside], self.freedom)

    def power(self) -> Array:
        """(A,) variance of each axis in this part of the spectrum, unit^2."""
        return np.asarray(self.density.sum(axis=0) * self.resolution_hz)


@dataclass(frozen=True)
class Line:
    """A peak of one axis: power above the floor and where it lies.

    Attributes:
        frequency_hz: centre of its power.
        low_hz, high_hz: where it ends; a line that wanders is wide.
        power: variance above the floor, unit^2; that of a sine of amplitude a is a^2/2.
    """

    frequency_hz: float
    low_hz: float
    high_hz: float
    power: float

    @property
    def amplitude(self) -> float:
        """Amplitude of the sine of this power."""
        return math.sqrt(2.0 * self.power)


@dataclass(frozen=True)
class Levels:
    """What one axis has in a band.

    Attributes:
        floor: noise density of the floor, unit/sqrt(Hz); see the module's convention.
        lines: strongest first.
    """

    floor: float
    lines: tuple[Line, ...]

    @property
    def line_power(self) -> float:
        """Variance of all lines together, unit^2."""
        return math.fsum(line.power for line in self.lines)


@dataclass(frozen=True)
class Ratio:
    """One axis of a spectrum over the same axis of another.

    Attributes:
        floor: ratio of the floors' noise densities.
        lines: ratio of the lines' deviations (root of their power); NaN where neither has a line.
        total: ratio of the deviations in the whole band.
    """

    floor: float
    lines: float
    total: float


def welch(values: ArrayLike, rate_hz: float, resolution_hz: float = 0.5) -> Spectrum:
    """Spectrum of (N, A) samples: Hann windows that overlap by half, each without its mean.

    Args:
        values: (N,) or (N, A) samples at a steady rate.
        rate_hz: of the samples.
        resolution_hz: wanted distance of two frequencies.

    Raises:
        ValueError: fewer samples than one window wants.
    """
    rows = np.asarray(values, float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    length = round(rate_hz / resolution_hz)
    if len(rows) < length:
        raise ValueError(f"{len(rows)} samples; a resolution of {resolution_hz} Hz wants {length}")
    frequency_hz, density = signal.welch(rows, rate_hz, "hann", length, axis=0)
    step = length - length // 2
    windows = 1 + (len(rows) - length) // step
    # Welch 1967: neighbours share (1/6)^2 of their variance with Hann windows at half overlap
    freedom = 2.0 * windows / (1.0 + 2.0 * (windows - 1) / windows / 36.0)
    return Spectrum(frequency_hz[1:], density[1:], freedom)


def levels(spectrum: Spectrum, axis: int) -> Levels:
    """Floor and lines of one axis.

    The floor is the median of the density outside the lines; a line is where the density stands
    out of the floor by :data:`STANDS_OUT`, or, in a short recording, by more than noise does. The
    two are found in turns until nothing changes.
    """
    density = spectrum.density[:, axis]
    quantile = 1.0 - FALSE_ALARM / len(density)
    by_noise = stats.chi2.ppf(quantile, spectrum.freedom) / spectrum.freedom
    threshold = max(STANDS_OUT, float(by_noise))
    # the median of a chi-square value lies below its mean
    below = float(stats.chi2.median(spectrum.freedom)) / spectrum.freedom
    in_line: NDArray[np.bool_] = np.zeros(len(density), bool)
    while True:  # ends: the floor only falls, the lines only grow
        floor = float(np.median(density[~in_line])) / below
        found = density > threshold * floor
        if (found == in_line).all():
            break
        in_line = found
    lines = [
        _line(spectrum, density, part, floor) for part in _runs(_widened(in_line, density, floor))
    ]
    strongest = sorted(lines, key=lambda line: -line.power)
    return Levels(math.sqrt(0.5 * floor), tuple(strongest))


def _widened(in_line: NDArray[np.bool_], density: Array, floor: float) -> NDArray[np.bool_]:
    """Lines with their skirts: on each side down to the floor."""
    wide = in_line.copy()
    for step in (1, -1):
        rows = range(len(wide)) if step == 1 else range(len(wide) - 1, -1, -1)
        inside = False
        for i in rows:
            inside = bool(in_line[i]) or (inside and density[i] > floor)
            wide[i] |= inside
    return wide


def _runs(flags: NDArray[np.bool_]) -> list[slice]:
    """Runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _line(spectrum: Spectrum, density: Array, part: slice, floor: float) -> Line:
    above = np.maximum(density[part] - floor, 0.0)
    frequency_hz = spectrum.frequency_hz[part]
    return Line(
        float(above @ frequency_hz / above.sum()),
        float(frequency_hz[0]),
        float(frequency_hz[-1]),
        float(above.sum() * spectrum.resolution_hz),
    )


def compare(one: Spectrum, other: Spectrum, axis: int) -> Ratio:
    """Levels of one axis over those of the same axis of another spectrum of the same band."""
    a, b = levels(one, axis), levels(other, axis)
    lines = math.nan
    if a.line_power or b.line_power:
        lines = math.sqrt(a.line_power / b.line_power) if b.line_power else math.inf
    total = math.sqrt(float(one.power()[axis] / other.power()[axis]))
    return Ratio(a.floor / b.floor, lines, total)
