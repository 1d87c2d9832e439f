"""Noise of the rotor speeds is told from their motion, and its bias is taken off a fit."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from flown import crazyflie

from quadsim.lab.identify.shooting import UnknownFigure, fit_figures, rotor_noise, with_noise_again
from quadsim.lab.validate.recorded import COMMANDED


@dataclass(frozen=True)
class Speeds:
    """What is read of a flight here."""

    dt_s: float
    speed: np.ndarray
    free: np.ndarray
    notes: tuple[str, ...] = ()


@pytest.mark.parametrize("dt_s", [0.001, 0.002, 0.004])
def test_noise_is_told_from_what_a_motor_does(dt_s):
    time_s, rng = np.arange(0.0, 4.0, dt_s), np.random.default_rng(3)
    step = np.floor(time_s / 0.3) * 0.3  # every 0.3 s the motor is asked for another speed
    smooth = 1500.0 + 200.0 * np.cos(7.0 * step) * (1.0 - np.exp((step - time_s) / 0.03))
    speed = smooth[:, None] + rng.normal(size=(len(time_s), 3)) * [0.0, 1.0, 3.0]
    free = time_s > 1.0
    speed[~free] = 0.0
    found = rotor_noise(Speeds(dt_s, speed, free))
    assert found[0] < 0.2
    assert found[1:] == pytest.approx([1.0, 3.0], rel=0.15)
    short = Speeds(dt_s, speed, time_s < 3.0 * dt_s)
    assert not rotor_noise(short).any()
    assert not rotor_noise(Speeds(dt_s, speed, free, (COMMANDED,))).any()


def test_a_slope_over_noisy_places_is_found_unbiased():
    """Least squares finds such a slope too small by the noise's share of the places' variance."""
    rng, true, share = np.random.default_rng(4), 0.006, 0.1
    x = rng.normal(size=100_000)
    seen = x + np.sqrt(share) * rng.normal(size=len(x))
    again = np.sqrt(share) * rng.normal(size=len(x))
    unknowns = [UnknownFigure("torque_ratio_m", true, 0.0)]

    def residuals(places):
        return lambda vehicle: [0.1 * (vehicle.torque_ratio_m * places - true * x) / true]

    begin = replace(crazyflie(), torque_ratio_m=0.9 * true)
    naive = fit_figures(begin, unknowns, residuals(seen))
    noisier = [residuals(seen + again), residuals(seen - again)]
    corrected = fit_figures(begin, unknowns, residuals(seen), noisier=noisier)
    assert naive.values[0] == pytest.approx(true / (1.0 + share), rel=0.005)
    # a linear extrapolation leaves the square of the share
    assert corrected.values[0] == pytest.approx(true * (1.0 - share**2), rel=0.005)
    assert corrected.vehicle.torque_ratio_m == corrected.values[0]
    bounded = [replace(unknowns[0], high=0.93 * true)]
    assert (
        fit_figures(begin, bounded, residuals(seen), noisier=noisier).values[0] == bounded[0].high
    )


def test_noise_is_added_and_subtracted_alike():
    still = 1500.0 + np.random.default_rng(5).normal(size=(2000, 4)) * [0.0, 1.0, 2.0, 3.0]
    flight = Speeds(0.004, still, np.ones(2000, bool))
    (more,), (less,) = with_noise_again([flight])
    assert 0.5 * (more.speed + less.speed) == pytest.approx(still, abs=1e-9)
    assert (more.speed - still).std(axis=0) == pytest.approx([0.0, 1.0, 2.0, 3.0], rel=0.1)
