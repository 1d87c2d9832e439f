"""Densities of the noise that flights record, in bands, without the lines of the rotors.

What a model of the noise, such as a closed-loop twin's, has to show behind all filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from quadsim.lab.sensor_check.shaken import LEVEL, ShakenStretch, blocks_of
from quadsim.lab.sensor_check.whitening import SEGMENT_S, Clock, segment_power

Array = NDArray[np.float64]

#: Bands in an octave, the lowest frequency in Hz, and samples in a segment at least.
PER_OCTAVE, FROM_HZ, LEAST = 3, 4.0, 16

#: A band in which the lines leave less than this share of its power is left out.
LEFT = 0.1


@dataclass(frozen=True)
class Density:
    """Noise of a channel.

    Attributes:
        name, axis: "accel" or "gyro" and x, y or z, or "rotor_speed" and its number from 1.
        unit: of the density.
        hz: (B,) middles of the bands.
        density: (B, 3) value, low and high, one-sided.
    """

    name: str
    axis: str
    unit: str
    hz: Array
    density: Array

    def summary(self) -> dict[str, Any]:
        """As one JSON object."""
        density, low, high = self.density.T.tolist()
        channel = {"name": self.name, "axis": self.axis, "unit": self.unit}
        ends = {"one_sided_density": density, "low": low, "high": high}
        return {**channel, "hz": self.hz.tolist(), **ends}


def densities(
    stretches: Sequence[ShakenStretch], orders: Sequence[int], clock: Clock
) -> Iterator[Density]:
    """Of the channels of the IMU, and of the recorded rotor speeds."""
    hz, found = _in_bands(stretches, orders, clock if clock.told else None)
    channels = [("accel", axis, "m/s^2/sqrt(Hz)") for axis in "xyz"]
    channels += [("gyro", axis, "rad/s/sqrt(Hz)") for axis in "xyz"]
    for channel, each in zip(channels, found, strict=True):
        yield Density(*channel, hz, each)
    rotors = [_rotors(each) for each in stretches]
    if min(each.rate_hz for each in rotors) * SEGMENT_S >= LEAST:
        hz, found = _in_bands(rotors, orders, None)
        for k, each in enumerate(found):
            yield Density("rotor_speed", str(k + 1), "rad/s/sqrt(Hz)", hz, each)


def _rotors(stretch: ShakenStretch) -> ShakenStretch:
    """The recorded speeds of a stretch in the place of the IMU's values."""
    first, last = np.searchsorted(stretch.rotor_s, stretch.time_s[[0, -1]])
    part = slice(int(first), int(last))
    return replace(stretch, time_s=stretch.rotor_s[part], values=stretch.speed[part])


def _in_bands(
    stretches: Sequence[ShakenStretch], orders: Sequence[int], clock: Clock | None
) -> tuple[Array, Array]:
    """(B,) middles of the bands and (channels, B, 3) densities; a block is one observation."""
    rate_hz = float(np.median([each.rate_hz for each in stretches]))
    length = round(SEGMENT_S * rate_hz)
    bins_hz = np.fft.rfftfreq(length, 1.0 / rate_hz)
    count = int(PER_OCTAVE * np.log2(0.5 * rate_hz / FROM_HZ))
    edges_hz = 0.5 * rate_hz * 2.0 ** (np.arange(-count, 1) / PER_OCTAVE)
    edges = np.unique(np.append(np.searchsorted(bins_hz, edges_hz[:-1]), len(bins_hz)))
    rows: dict[int, list[Array]] = {}
    for stretch, of_segment in zip(stretches, blocks_of(list(stretches), SEGMENT_S), strict=True):
        power, share = segment_power(stretch, clock, orders, length)
        both = np.concatenate([power, share[..., None]], axis=2)
        for block, each in zip(of_segment.tolist(), both, strict=False):
            rows.setdefault(block, []).append(each)
    sums = np.array([np.sum(each, axis=0) for each in rows.values()])
    sums = np.add.reduceat(sums, edges[:-1], axis=1)
    power, left = sums[..., :-1], sums[..., -1:]
    value = power.sum(axis=0) / left.sum(axis=0)
    deviation = np.sqrt(((power - value * left) ** 2).sum(axis=0)) / power.sum(axis=0)
    half = deviation * stats.t.ppf(0.5 + 0.5 * LEVEL, max(len(rows) - 1, 1))
    ends = np.sqrt(value * np.exp([0.0 * half, -half, half])).transpose(2, 1, 0)
    middles = np.add.reduceat(bins_hz, edges[:-1]) / np.diff(edges)
    stored = left.sum(axis=0)[:, 0] > LEFT * sum(map(len, rows.values())) * np.diff(edges)
    return np.asarray(middles[stored], float), np.asarray(ends[:, stored], float)
