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
SEGMENT_S, ORDER = 0.5, 32

#: Segments that are counted at least where the lines take the floor with them.
LEAST_LEFT = 0.5

#: A line that folds below this frequency cannot be told from the motion, Hz; and how far below the
#: lowest line begin the frequencies by which lines are taken off.
MOTION_HZ, BELOW_HZ = 20.0, 16.0


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
) -> tuple[Array, Array]:
    """One-sided periodograms of segments, of the values without the lines if there is a clock.

    Lines are taken off by least squares in each segment, with their skirts, which reach above a
    low-passed floor. What lies below the lines is left out, since the motion is larger by far.

    Returns:
        (segments, F, 6) periodograms, (segments, F) share of a floor's power that is left in them.
    """
    window = signal.windows.hann(length, sym=False)[:, None]
    size = float((window**2).sum())
    hz: Array = np.fft.rfftfreq(length, 1.0 / stretch.rate_hz).astype(float)
    waves = np.fft.rfft(np.eye(length), axis=0) * window[:, 0]
    scale, delay_s = (1.0, 0.0) if clock is None else (clock.scale, clock.delay_s)
    rotated, speed = scale * stretch.phases(delay_s), scale * stretch.speeds(delay_s)
    found, left = [], []
    for begin in range(0, len(stretch.values) - length + 1, length):
        part = slice(begin, begin + length)
        seen = waves @ signal.detrend(stretch.values[part], axis=0)
        share = np.ones(len(waves))
        lines_hz = [folded(k * speed[part] / (2.0 * np.pi), stretch.rate_hz).min() for k in orders]
        if clock is not None and max(lines_hz) > MOTION_HZ:
            above = hz >= min(low for low in lines_hz if low > MOTION_HZ) - BELOW_HZ
            rows = np.vstack([waves[above].real, waves[above].imag])
            clear = [k for k, low in zip(orders, lines_hz, strict=True) if low > MOTION_HZ]
            phase = np.hstack([order * rotated[part] for order in clear])
            space = orthonormal(rows @ np.hstack([np.cos(phase), np.sin(phase)]))
            both = np.vstack([seen[above].real, seen[above].imag])
            both -= space @ (space.T @ both)
            seen[above] = both[: above.sum()] + 1j * both[above.sum() :]
            stored = ((rows - space @ (space.T @ rows)) ** 2).sum(axis=1)
            share[above] = stored.reshape(2, -1).sum(axis=0) / size
        found.append(np.abs(seen) ** 2)
        left.append(share)
    return np.array(found) * 2.0 / (stretch.rate_hz * size), np.array(left)


def whitener(stretch: ShakenStretch, clock: Clock | None, orders: Sequence[int]) -> Array:
    """(6, ORDER + 1) filters that make the axes white but for the lines.

    Yule and Walker's, of a spectrum whose lines, or what is left of them, a running median takes.
    """
    length = min(round(stretch.rate_hz * SEGMENT_S), len(stretch.values))
    power, share = segment_power(stretch, clock, orders, length)
    level = np.log(power.sum(axis=0) / np.maximum(share.sum(axis=0), LEAST_LEFT)[:, None])
    width = (2 * (len(level) // 8) + 1, 1)
    smooth = median_filter(level, width, mode="mirror")
    # once more of what is left: a median next to a line is wrong where the floor is steep
    smooth += median_filter(level - smooth, width, mode="mirror")
    filters = []
    for lags in np.fft.irfft(0.5 * stretch.rate_hz * np.exp(smooth), axis=0).T:
        first = np.concatenate([[lags[0] * (1.0 + 1e-9)], lags[1:ORDER]])
        stored = linalg.solve_toeplitz(first, lags[1 : ORDER + 1])
        size = np.sqrt(first[0] - stored @ lags[1 : ORDER + 1])
        filters.append(np.concatenate([[1.0], -stored]) / size)
    return np.array(filters)


def orthonormal(columns: Array, own: float = 1e-4) -> Array:
    """(..., N, M) orthonormal, of as many columns; 0 where less than ``own`` of one is its own.

    Lines of rotors at the same speed, or that fold at half of the rate, are sums of others.
    """
    space, left = np.linalg.qr(columns)
    stored = np.abs(np.diagonal(left, axis1=-2, axis2=-1)) > own * np.linalg.norm(columns, axis=-2)
    return np.asarray(space * stored[..., None, :])


def folded(frequency_hz: Array, rate_hz: float) -> Array:
    """Where frequencies appear in samples."""
    rest = np.mod(frequency_hz, rate_hz)
    return np.asarray(np.minimum(rest, rate_hz - rest))


def filtered(filters: Array, values: Array) -> Array:
    """(N, 6) values, each axis by its own filter."""
    each = zip(filters, values.T, strict=True)
    return np.stack([signal.lfilter(h, 1.0, column) for h, column in each], axis=1)
