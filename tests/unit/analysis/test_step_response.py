"""Figures of step responses against the closed forms of first- and second-order systems."""

import math

import numpy as np
import pytest

from quadsim.lab.tune.step_flights import step_figures

T_S = np.linspace(0.0, 12.0, 12_001)


def second_order(damping, w=3.0):
    """Unit step of w^2 / (s^2 + 2 damping w s + w^2), underdamped."""
    wd = w * math.sqrt(1.0 - damping**2)
    ring = np.cos(wd * T_S) + damping * w / wd * np.sin(wd * T_S)
    return 1.0 - np.exp(-damping * w * T_S) * ring


def test_first_order_lag():
    tau = 0.5
    found = step_figures(T_S, 1.0 - np.exp(-T_S / tau), 0.0, 1.0)
    assert found.rise_s == pytest.approx(tau * math.log(9.0), rel=1e-4)
    assert found.settling_s == pytest.approx(tau * math.log(50.0), rel=1e-4)
    assert found.overshoot == 0.0
    assert found.steady_error == pytest.approx(0.0, abs=1e-6)
    assert found.itae == pytest.approx(tau**2, rel=1e-4)  # int t exp(-t/tau) dt


@pytest.mark.parametrize("damping", [0.2, 0.5, 0.7, 0.9])
def test_overshoot_of_a_second_order_system(damping):
    found = step_figures(T_S, second_order(damping), 0.0, 1.0)
    expected = math.exp(-math.pi * damping / math.sqrt(1.0 - damping**2))
    assert found.overshoot == pytest.approx(expected, abs=1e-5)


def test_rise_and_settling_of_a_second_order_system():
    """At damping 0.5: 10 to 90 % in 1.64 / w, and settled after the last crossing of the band."""
    w = 3.0
    found = step_figures(T_S, second_order(0.5, w), 0.0, 1.0)
    assert found.rise_s == pytest.approx(1.64 / w, rel=0.01)  # Ogata's curve, figure 5-8
    after = found.settling_s + 2e-3 < T_S
    off = np.abs(second_order(0.5, w) - 1.0)
    assert off[after].max() <= 0.02
    assert off[np.searchsorted(T_S, found.settling_s) - 1] >= 0.02 - 1e-4


def test_the_figures_do_not_depend_on_size_offset_direction_or_clock():
    y = second_order(0.4)
    plain = step_figures(T_S, y, 0.0, 1.0)
    turned = step_figures(T_S + 100.0, 5.0 - 3.0 * y, 5.0, 2.0)
    assert turned.rise_s == pytest.approx(plain.rise_s)
    assert turned.settling_s == pytest.approx(plain.settling_s)
    assert turned.overshoot == pytest.approx(plain.overshoot)
    assert turned.itae == pytest.approx(plain.itae)


def test_what_never_arrives():
    """P control of a lag: it stays at K / (1 + K) of the step."""
    gain = 4.0
    share = gain / (1.0 + gain)
    found = step_figures(T_S, share * (1.0 - np.exp(-T_S * (1.0 + gain))), 0.0, 1.0)
    assert found.rise_s is None
    assert found.settling_s is None
    assert found.steady_error == pytest.approx(1.0 / (1.0 + gain), abs=1e-6)
