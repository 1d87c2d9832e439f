"""Floors under the lines of rotors: noise of numpy, of a known density."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import signal

from quadsim.lab.sensor_check.shaken import ShakenStretch
from quadsim.lab.sensor_check.whitening import Clock, orthonormal, segment_power, whitener

RATE_HZ, SECONDS, DENSITY = 500.0, 30.0, 0.02
TRUE = Clock(1.0, 0.0, np.zeros(2), True)


def shaken(speed_radps: float, corner_hz: float = 0.0, motion: float = 0.0) -> ShakenStretch:
    """Noise, four rotors whose lines are a hundred times as strong, and a slow motion."""
    rng = np.random.default_rng(5)
    count = round(SECONDS * RATE_HZ)
    time_s = np.arange(count) / RATE_HZ
    wander = 4.0 * np.sin(2.0 * math.pi * np.outer(time_s, rng.uniform(0.2, 1.0, 4)))
    speed = speed_radps + 3.0 * rng.standard_normal(4) + wander
    values = DENSITY * math.sqrt(0.5 * RATE_HZ) * rng.standard_normal((count, 6))
    if corner_hz > 0.0:
        values = signal.lfilter(*signal.butter(2, corner_hz, fs=RATE_HZ), values, axis=0)
    slow = signal.butter(2, 2.0, fs=RATE_HZ, output="sos")
    values += motion * signal.sosfilt(slow, rng.standard_normal((count, 6)), axis=0)
    whole = ShakenStretch(0, time_s, values, time_s, speed)
    turned = whole.phases(0.0) + rng.uniform(0.0, 6.0, 4)
    values += np.cos(turned).sum(axis=1, keepdims=True) + np.sin(2.0 * turned).sum(axis=1)[:, None]
    return whole


@pytest.mark.parametrize("line_hz", [80.0, 250.0])
def test_a_floor_is_seen_under_lines(line_hz):
    """Beside half of the rate, too, and beside a motion a thousand times as strong."""
    stretch = shaken(2.0 * math.pi * line_hz, motion=50.0)
    power, share = segment_power(stretch, TRUE, (1,), 250)
    hz = np.fft.rfftfreq(250, 1.0 / RATE_HZ)
    near = (np.abs(hz - line_hz) < 10.0) & (hz < 249.0)
    found = power[:, near].sum() / (6.0 * share[:, near].sum())
    raw, all_of = segment_power(stretch, None, (1,), 250)
    assert raw[:, near].mean() > 20.0 * DENSITY**2
    assert np.all(all_of == 1.0)
    assert 0.02 < share[:, near].mean() < 0.8
    # a window of Hann counts 1.5 bins as one: three deviations of what is left
    degrees = share[:, near].sum() * 6.0 / 1.5
    assert found == pytest.approx(DENSITY**2, rel=3.0 / math.sqrt(degrees))


def test_a_filter_makes_a_steep_floor_white_under_lines():
    """A low-pass whose corner is the line: a slope of four in power."""
    stretch = shaken(2.0 * math.pi * 80.0, corner_hz=80.0)
    hz = np.arange(60.0, 101.0, 5.0)
    filters = whitener(stretch, TRUE, (1, 2))
    passed = signal.freqz(*signal.butter(2, 80.0, fs=RATE_HZ), hz, fs=RATE_HZ)[1]
    floor = 0.5 * RATE_HZ * DENSITY**2 * np.abs(passed) ** 2
    white = [floor * np.abs(signal.freqz(h, 1.0, hz, fs=RATE_HZ)[1]) ** 2 for h in filters]
    assert np.mean(white, axis=0) == pytest.approx(np.ones(len(hz)), abs=0.2)


def test_a_sum_of_columns_is_no_column():
    rng = np.random.default_rng(1)
    columns = rng.standard_normal((2, 9, 4))
    columns[:, :, 2] = columns[:, :, 0] - 2.0 * columns[:, :, 1]
    space = orthonormal(columns)
    assert np.swapaxes(space, 1, 2) @ space == pytest.approx(
        np.broadcast_to(np.diag([1.0, 1.0, 0.0, 1.0]), (2, 4, 4)), abs=1e-12
    )
