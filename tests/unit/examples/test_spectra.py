"""Spectra against closed forms: white noise, sines, aliases."""

import math

import numpy as np
import pytest
from scipy import stats
from spectra import Spectrum, compare, levels, welch

RATE_HZ = 120.0


def white(seed: int, count: int, density: float, rate_hz: float = RATE_HZ) -> np.ndarray:
    return density * math.sqrt(rate_hz) * np.random.default_rng(seed).standard_normal(count)


def sine(count: int, frequency_hz: float, amplitude: float) -> np.ndarray:
    t_s = np.arange(count) / RATE_HZ
    return amplitude * np.sin(2.0 * math.pi * frequency_hz * t_s + 0.3)


def bound(spectrum: Spectrum, values: int) -> float:
    """Five deviations of a density that is the mean of some values of a spectrum, relative."""
    return 5.0 * math.sqrt(2.0 / (spectrum.freedom * values))


def test_white_noise_has_its_density_everywhere():
    density = 2.0e-3
    spectrum = welch(white(1, 120_000, density), RATE_HZ)
    inner = spectrum.density[1:-1, 0]
    assert inner.mean() == pytest.approx(2.0 * density**2, rel=bound(spectrum, len(inner)))
    # the scatter is that of chi-square values with the stated degrees of freedom
    scatter = inner.var() / inner.mean() ** 2
    # 5 deviations of a variance from n values; neighbours share (2/3)^2 through the window
    independent = len(inner) / (1 + 2 * (2 / 3) ** 2)
    assert scatter == pytest.approx(2.0 / spectrum.freedom, rel=5 * math.sqrt(2 / independent))


def test_the_power_is_the_variance():
    values = white(2, 60_000, 1.0)
    # a window weighs its middle, and the mean is taken out: the two variances differ by chance
    assert welch(values, RATE_HZ).power()[0] == pytest.approx(values.var(), rel=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_has_a_floor_and_no_line(seed):
    spectrum = welch(white(seed, 6_000, 0.1), RATE_HZ)
    found = levels(spectrum, 0)
    assert not found.lines
    # the variance of a median is pi/2 times that of the mean; half as a density
    rel = 0.5 * math.sqrt(math.pi / 2.0 * (1 + 2 * (2 / 3) ** 2))
    assert found.floor == pytest.approx(0.1, rel=rel * bound(spectrum, len(spectrum.density)))


def test_lines_have_the_amplitude_and_place_of_their_sine():
    count = 12_000
    values = white(3, count, 0.02) + sine(count, 23.0, 0.8) + sine(count, 180.0 + 4.3, 0.5)
    found = levels(welch(values, RATE_HZ), 0)
    first, second = found.lines
    # noise within the line: 0.02^2 2 Hz 3 wide is 1e-3 of its power
    assert first.amplitude == pytest.approx(0.8, rel=0.01)
    assert first.frequency_hz == pytest.approx(23.0, abs=0.05)
    assert second.amplitude == pytest.approx(0.5, rel=0.01)
    assert second.frequency_hz == pytest.approx(240.0 - 184.3, abs=0.05)
    assert found.floor == pytest.approx(0.02, rel=0.05)
    assert first.low_hz < 23.0 < first.high_hz < second.low_hz


def test_a_wandering_line_keeps_its_power():
    count = 60_000
    t_s = np.arange(count) / RATE_HZ
    # between 30 and 40 Hz within 20 s and back
    phase = 2.0 * math.pi * (35.0 * t_s + 5.0 * 20.0 / (2 * math.pi) * np.sin(math.tau * t_s / 20))
    found = levels(welch(white(4, count, 0.01) + 0.6 * np.sin(phase), RATE_HZ), 0)
    assert len(found.lines) == 1
    line = found.lines[0]
    assert line.amplitude == pytest.approx(0.6, rel=0.02)
    assert line.low_hz == pytest.approx(30.0, abs=2.0)
    assert line.high_hz == pytest.approx(40.0, abs=2.0)


def test_axes_are_apart_and_ratios_are_those_of_deviations():
    count = 24_000
    noise = np.stack([white(5 + i, count, 0.05) for i in range(3)], axis=1)
    lines = np.stack([np.zeros(count), sine(count, 30.0, 1.0), sine(count, 45.0, 2.0)], axis=1)
    base = welch(noise + lines, RATE_HZ)
    louder = welch(2.0 * noise[::-1] + 3.0 * lines, RATE_HZ)
    quiet = compare(louder, base, 0)
    assert math.isnan(quiet.lines)
    for axis in range(3):
        assert compare(louder, base, axis).floor == pytest.approx(2.0, rel=0.05)
    for axis in (1, 2):
        assert compare(louder, base, axis).lines == pytest.approx(3.0, rel=0.02)
        sine_power, noise_power = 0.5 * axis**2, 0.05**2 * RATE_HZ
        total = math.sqrt((9 * sine_power + 4 * noise_power) / (sine_power + noise_power))
        assert compare(louder, base, axis).total == pytest.approx(total, rel=0.02)
    assert compare(base, welch(noise, RATE_HZ), 1).lines == math.inf


def test_a_part_of_a_spectrum():
    spectrum = welch(sine(6_000, 20.0, 1.0) + sine(6_000, 50.0, 2.0), RATE_HZ)
    assert spectrum.within(10.0, 30.0).power()[0] == pytest.approx(0.5, rel=1e-3)
    assert spectrum.within(40.0, 60.0).power()[0] == pytest.approx(2.0, rel=1e-3)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="wants 240"):
        welch(np.zeros(239), RATE_HZ)


def test_degrees_of_freedom_of_one_window():
    assert welch(np.arange(240.0), RATE_HZ).freedom == 2.0
    # the interval of one periodogram, as every textbook has it
    assert stats.chi2.ppf(0.975, 2.0) / 2.0 == pytest.approx(3.689, abs=1e-3)
