"""The parts of PID loops against their closed forms."""

import math

import numpy as np
import pytest

from quadsim.control.pid import (
    clamp,
    integral_step,
    limit_horizontal,
    low_pass,
    low_pass_weight,
    rate_of_change,
)


def test_low_pass_follows_the_exponential_of_a_first_order_lag():
    cutoff_hz, dt_s = 20.0, 0.002
    weight = low_pass_weight(cutoff_hz, dt_s)
    value = 0.0
    for k in range(1, 51):
        value = low_pass(value, 1.0, weight)
        exact = 1.0 - math.exp(-2.0 * math.pi * cutoff_hz * k * dt_s)
        assert value == pytest.approx(exact, abs=1e-12)  # the step is held: exact but for rounding


def test_low_pass_weakens_white_noise_by_the_weight_it_gives():
    # variance of an AR(1) process: weight / (2 - weight); 1e5 samples with a correlation time of
    # 8 steps leave 2 * sqrt(8 / 1e5) = 2 % (one sigma), four sigmas are 8 %
    weight = low_pass_weight(10.0, 0.002)
    noise = np.random.default_rng(3).standard_normal(100_000)
    filtered = np.empty_like(noise)
    value = 0.0
    for i, sample in enumerate(noise):
        value = filtered[i] = low_pass(value, sample, weight)
    assert filtered[1000:].var() == pytest.approx(weight / (2.0 - weight), rel=0.08)


def test_derivative_of_a_low_passed_ramp_is_its_slope():
    weight, value, before = low_pass_weight(30.0, 0.002), 0.0, 0.0
    for k in range(500):
        before, value = value, low_pass(value, 3.0 * 0.002 * k, weight)
    assert rate_of_change(before, value, 0.002) == pytest.approx(3.0, rel=1e-9)


def test_integral_of_a_constant_error_grows_as_gain_times_time():
    integral = 0.0
    for _ in range(100):
        integral = integral_step(integral, 0.5, 2.0, 0.0, 10.0, 0.01)
    assert integral == pytest.approx(0.5 * 2.0 * 1.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_integral_stands_still_while_the_actuator_gives_less_than_asked(sign):
    assert integral_step(sign, sign, 2.0, sign * 0.1, 10.0, 0.01) == sign


def test_integral_leaves_a_saturation_at_once():
    assert integral_step(1.0, -1.0, 2.0, 0.1, 10.0, 0.01) == pytest.approx(1.0 - 0.02)


def test_integral_keeps_its_limit():
    assert integral_step(0.999, 1.0, 100.0, 0.0, 1.0, 0.01) == 1.0
    assert integral_step(-0.999, -1.0, 100.0, 0.0, 1.0, 0.01) == -1.0


def test_a_saturated_loop_recovers_without_the_overshoot_of_a_wound_up_integral():
    # integrator plant v_dot = u, |u| <= 1, PI; ten seconds out of reach, then the wish drops to 0
    def overshoot(anti_windup: bool) -> float:
        v, integral, cut, low = 0.0, 0.0, 0.0, 0.0
        for k in range(4000):
            wanted = 20.0 if k < 1000 else 0.0
            error = wanted - v
            integral = integral_step(integral, error, 1.0, cut if anti_windup else 0.0, 1e9, 0.01)
            u = 2.0 * error + integral
            given = clamp(u, -1.0, 1.0)
            cut = u - given
            v += given * 0.01
            low = min(low, v)
        return -low

    assert overshoot(True) < 0.5
    assert overshoot(False) > 2.0  # wound up by 10 s of errors of more than 10


def test_horizontal_limit_keeps_the_direction():
    x, y = limit_horizontal(30.0, -40.0, 5.0)
    assert (x, y) == pytest.approx((3.0, -4.0))
    assert limit_horizontal(0.3, -0.4, 5.0) == (0.3, -0.4)


@pytest.mark.parametrize(
    ("friction", "gains", "travel_s"),
    [
        (0.1, (0.01, 0.0, 0.25), 150.0),
        (0.5, (0.01, 0.0, 0.25), 400.0),
        (0.5, (1.0, 1e-3, 4.0), 70.0),
    ],
)
def test_train_of_the_ntnu_thesis(friction, gains, travel_s):
    """Travel times of section 4.3.2 (A. Larsen, 2010): 100 m with v_dot = u - friction v, |u| <= 1.

    20 %: the thesis reads them off plots, and does not say how near counts as arrived.
    """
    p, i, d = gains
    x = v = integral = cut = last_away_s = 0.0
    dt_s = 0.01
    for k in range(round(600.0 / dt_s)):
        integral = integral_step(integral, 100.0 - x, i, cut, 1.0, dt_s)
        wish = p * (100.0 - x) + integral - d * v
        u = clamp(wish, -1.0, 1.0)
        cut = wish - u
        v += dt_s * (u - friction * v)
        x += dt_s * v
        if abs(x - 100.0) > 0.5:
            last_away_s = k * dt_s
    assert last_away_s == pytest.approx(travel_s, rel=0.2)
