"""Broadband floor and low-pass of an IMU in flight, by Whittle's likelihood of its spectrum.

Periodograms of short segments are compared with the spectrum that a device file makes: white noise
and the rotors' floor, which grows with the fourth power of the speed, behind a Butterworth
low-pass. What is left of the motion falls with the frequency as f^-2 and f^-4. Bins at which a
rotor's line lies, folded, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.lab.sensor_check.shaken import ShakenStretch, blocks_of, fit_blocks
from quadsim.lab.sensor_check.whitening import SEGMENT_S, Clock, folded, segment_power

Array = NDArray[np.float64]

#: Lowest frequency that counts, over half of the rate.
LOWEST = 0.2

#: Bins about a line that are left out.
ABOUT = 4

#: Highest corner of a low-pass that is sought, over the rate; beyond half of it there is none.
HIGHEST = 0.49


@dataclass(frozen=True)
class Spectra:
    """Mean periodograms of blocks.

    Attributes:
        frequency_hz: (F,).
        rate_hz: of the samples.
        count: (blocks, F) segments in the mean.
        power: (blocks, F, 6) one-sided, unit^2/Hz.
        vibration: (blocks, F) mean over them of (speed / reference)^4.
    """

    frequency_hz: Array
    rate_hz: float
    count: Array
    power: Array
    vibration: Array


def spectra_of(
    stretches: list[ShakenStretch], orders: Sequence[int], clock: Clock, reference: float
) -> Spectra:
    """Spectra without the lines."""
    rate_hz = float(np.median([each.rate_hz for each in stretches]))
    length = round(SEGMENT_S * rate_hz)
    frequency_hz: Array = np.fft.rfftfreq(length, 1.0 / rate_hz).astype(float)
    blocks = blocks_of(stretches, SEGMENT_S)
    shape = (max(int(b.max()) for b in blocks if len(b)) + 1, len(frequency_hz))
    count, power, vibration = np.zeros(shape), np.zeros((*shape, 6)), np.zeros(shape)
    for stretch, of_segment in zip(stretches, blocks, strict=True):
        speed = stretch.speeds(clock.delay_s)
        segments, _ = segment_power(stretch, clock, orders, length)
        for j, (block, seen) in enumerate(zip(of_segment.tolist(), segments, strict=False)):
            part = speed[j * length : (j + 1) * length]
            clear = _clear(frequency_hz, clock.scale * part, orders, rate_hz)
            count[block] += clear
            power[block] += clear[:, None] * seen
            vibration[block] += clear * float(((part / reference) ** 4).mean())
    stored = count.sum(axis=1) > 0.0
    count = np.maximum(count, 0.0)[stored]
    per = 1.0 / np.maximum(count, 1.0)
    return Spectra(
        frequency_hz, rate_hz, count, power[stored] * per[..., None], vibration[stored] * per
    )


def _clear(frequency_hz: Array, speed: Array, orders: Sequence[int], rate_hz: float) -> Array:
    """(F,) 1 where no line is and the motion is past, else 0."""
    half_hz = 0.5 * rate_hz
    clear = (frequency_hz >= LOWEST * half_hz) & (frequency_hz < 0.99 * half_hz)
    wide_hz = ABOUT * frequency_hz[1]
    for order in orders:
        line_hz = folded(order * speed / (2.0 * np.pi), rate_hz)
        for low, high in zip(line_hz.min(axis=0), line_hz.max(axis=0), strict=True):
            clear &= (frequency_hz < low - wide_hz) | (frequency_hz > high + wide_hz)
    return np.asarray(clear, float)


@dataclass(frozen=True)
class FloorFit:
    """Floor and corner of a triad.

    Attributes:
        density: (3, 3) value, low, high of each axis, unit/sqrt(Hz) at the reference speed.
        corner_hz: value, low, high; 0: none is seen.
        misfit: (3,) largest ratio of the spectra, measured and fitted, in bands of an eighth.
    """

    density: Array
    corner_hz: Array
    misfit: Array


def fit_floor(spectra: Spectra, axes: slice, white: Array, step: float) -> FloorFit:
    """Fit floor and low-pass of three axes.

    Args:
        spectra: of all flights.
        axes: of the accelerometer or of the gyroscope.
        white: (3,) density at rest, unit/sqrt(Hz).
        step: of the counts.
    """
    use = spectra.count.sum(axis=0) > 0.0
    hz, count = spectra.frequency_hz[use], spectra.count[:, use, None]
    power, vibration = spectra.power[:, use, axes], spectra.vibration[:, use, None]
    rate_hz, lowest = spectra.rate_hz, float(hz[0])
    counted = step**2 / 6.0 / rate_hz
    falls = np.stack([(hz / lowest) ** -2.0, (hz / lowest) ** -4.0])[..., None]

    def model(x: Array) -> Array:
        floor2, slow, fast = np.exp(x[:9]).reshape(3, 3)
        passed = _passed(hz, float(np.exp(x[9])), rate_hz)[:, None] if len(x) > 9 else 1.0
        whole = 2.0 * (white**2 + floor2 * vibration) * passed + counted
        return np.asarray(whole + slow * falls[0] + fast * falls[1])

    def losses(x: Array) -> Array:
        whole = model(x)
        return np.asarray((count * (np.log(whole) + power / whole)).sum(axis=(1, 2)))

    total = (power * count).sum(axis=(0, 1)) / count.sum()
    start = np.log(np.concatenate([0.5 * total, 0.1 * total, 0.1 * total]))
    bounds = start[:, None] + np.array([-14.0, 8.0])
    small = np.full(9, 0.05)
    flat = fit_blocks(losses, start, small, bounds)
    corners = np.log(np.array([lowest, HIGHEST * rate_hz]))
    tries = [
        fit_blocks(losses, np.append(start, begin), np.append(small, 0.02),
                   np.vstack([bounds, corners]))
        for begin in np.linspace(corners[0], corners[1], 4)[1:3]
    ]  # fmt: skip
    best = min(tries, key=lambda fit: losses(fit.value).sum())
    better = losses(flat.value).sum() - losses(best.value).sum()
    low, high = best.value[9] - best.half[9], best.value[9] + best.half[9]
    seen = bool(better > 10.0 and corners[0] < low and high < corners[1])
    chosen = best if seen else flat
    ends = np.stack([chosen.value, chosen.value - chosen.half, chosen.value + chosen.half])
    corner_hz = np.exp(ends[:, 9]) if seen else np.zeros(3)
    bands = np.array_split(np.arange(len(hz)), 8)
    over = count * power / model(chosen.value)
    ratios = [over[:, band].sum(axis=(0, 1)) / count[:, band].sum() for band in bands]
    misfit = np.exp(np.abs(np.log(ratios)).max(axis=0))
    return FloorFit(np.exp(0.5 * ends[:, :3]).T, corner_hz, misfit)


def low_passed(line_hz: Array | float, corner_hz: float) -> Array:
    """Part of a line's amplitude that the device's low-pass lets through; a corner of 0 is none."""
    bend = 0.0 if corner_hz == 0.0 else (np.asarray(line_hz) / corner_hz) ** 4
    return np.asarray((1.0 + bend) ** -0.5)


def _passed(frequency_hz: Array, corner_hz: float, rate_hz: float) -> Array:
    """Power that the device's low-pass lets through (bilinear, the corner where it belongs)."""
    shown = np.tan(np.pi * frequency_hz / rate_hz) / np.tan(np.pi * corner_hz / rate_hz)
    return np.asarray(1.0 / (1.0 + shown**4))
