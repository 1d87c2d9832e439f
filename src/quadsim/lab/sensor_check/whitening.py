"""Spectra of flights without their rotors' lines, and filters that whiten them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, signal
from scipy.ndimage import median_filter

from quadsim.lab.sensor_check.shaken import ShakenStretch

Array = NDArray[np.float64]

#: Length of the segments by which the filters are found, s, and their order.
SEGMENT_S, ORDER = 0.5, 16


@dataclass(frozen=True)
class Clock:
    """How the recorded rotor speeds relate to those of the lines.

    Attributes:
        scale: true speed over recorded.
        delay_s: by which the recorded speeds are late against the IMU.
        half: (2,) of the 95 % intervals.
        told: whether any line was seen to tell it by.
    """

    scale: float
    delay_s: float
    half: Array
    told: bool


def segment_power(
    stretch: ShakenStretch, clock: Clock | None, orders: Sequence[int], length: int
) -> Array:
    """(segments, F, 6) one-sided periodograms, of the values without the lines if there is a clock.

    Lines are taken off by least squares in each segment, so that their skirts go, too.
    """
    window = signal.windows.hann(length, sym=False)[:, None]
    phase = None if clock is None else clock.scale * stretch.phases(clock.delay_s)
    found = []
    for begin in range(0, len(stretch.values) - length + 1, length):
        part = slice(begin, begin + length)
        values = signal.detrend(stretch.values[part], axis=0) * window
        if phase is not None:
            turned = np.hstack([order * phase[part] for order in orders])
            lines = np.hstack([np.cos(turned), np.sin(turned)]) * window
            values = values - lines @ np.linalg.lstsq(lines, values)[0]
        found.append(np.abs(np.fft.rfft(values, axis=0)) ** 2)
    return np.array(found) * 2.0 / (stretch.rate_hz * float((window**2).sum()))


def whitener(stretch: ShakenStretch, clock: Clock | None, orders: Sequence[int]) -> Array:
    """(6, ORDER + 1) filters that make the axes white but for the lines.

    Yule and Walker's, of a spectrum whose lines, or what is left of them, a running median takes.
    """
    length = min(round(stretch.rate_hz * SEGMENT_S), len(stretch.values))
    power = segment_power(stretch, clock, orders, length).mean(axis=0)
    width = 2 * (len(power) // 8) + 1
    smooth = median_filter(power, (width, 1), mode="nearest")
    filters = []
    for lags in np.fft.irfft(0.5 * stretch.rate_hz * smooth, axis=0).T:
        first = np.concatenate([[lags[0] * (1.0 + 1e-9)], lags[1:ORDER]])
        kept = linalg.solve_toeplitz(first, lags[1 : ORDER + 1])
        size = np.sqrt(first[0] - kept @ lags[1 : ORDER + 1])
        filters.append(np.concatenate([[1.0], -kept]) / size)
    return np.array(filters)


def folded(frequency_hz: Array, rate_hz: float) -> Array:
    """Where frequencies appear in samples."""
    rest = np.mod(frequency_hz, rate_hz)
    return np.asarray(np.minimum(rest, rate_hz - rest))


def filtered(filters: Array, values: Array) -> Array:
    """(N, 6) values, each axis by its own filter."""
    each = zip(filters, values.T, strict=True)
    return np.stack([signal.lfilter(h, 1.0, column) for h, column in each], axis=1)
