"""Relay experiments against closed forms, and against the linear model of the loops."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from quadsim.base.errors import FlightError
from quadsim.lab.tune.loop_margins import OMEGA, Delays, control_loops, spin_up_lead_s
from quadsim.lab.tune.relay import RelayBench, limit_cycle
from quadsim.lab.tune.relay_flight import switched
from quadsim.lab.tune.tuning import load_vehicle

#: By the describing function: it leaves out the harmonics, of which a lag and an integral let some
#: per cent through; the relay is asked once a sample, the hysteresis turns its phase by degrees.
GAIN_OFF, PERIOD_OFF = 0.12, 0.08


def relay_on(lag_s, delay_s, hysteresis, noise=0.0, seconds=20.0, dt_s=0.001, d=2.0):
    """Signal and output of a relay around exp(-s T) / (s (lag s + 1)), by small Euler steps."""
    rng = np.random.default_rng(3)
    x = v = 0.0
    queue = [0.0] * round(delay_s / dt_s)
    output, signal, given = 1.0, [], []
    for _ in range(round(seconds / dt_s)):
        measured = x + noise * rng.standard_normal()
        output = switched(output, -measured, hysteresis)
        queue.append(d * output)
        v += dt_s * (queue.pop(0) - v) / lag_s
        x += dt_s * v
        signal.append(measured)
        given.append(d * output)
    return np.array(signal), np.array(given)


@pytest.mark.parametrize(("lag_s", "delay_s"), [(0.05, 0.02), (0.02, 0.1), (0.1, 0.05)])
@pytest.mark.parametrize("noise", [0.0, 0.0005])
def test_a_lag_and_a_delay_have_the_ultimate_gain_of_their_closed_form(lag_s, delay_s, noise):
    """Phase -90 deg - atan(w lag) - w T = -180 deg; the gain there 1 / (w sqrt(1 + w^2 lag^2))."""
    w = brentq(lambda w: math.pi / 2 - math.atan(w * lag_s) - w * delay_s, 1e-3, 1e3)
    gain = w * math.sqrt(1.0 + (w * lag_s) ** 2)
    signal, given = relay_on(lag_s, delay_s, 3.0 * noise, noise)
    found = limit_cycle(signal, given, 0.001, 3.0 * noise)
    assert found is not None
    assert found.gain == pytest.approx(gain, rel=GAIN_OFF)
    assert found.period_s == pytest.approx(2.0 * math.pi / w, rel=PERIOD_OFF)
    assert found.output == 2.0


def test_the_hysteresis_counts_in_the_gain():
    """A sine of amplitude a: 4 d / (pi sqrt(a^2 - h^2))."""
    t = np.arange(0.0, 40.0, 0.01)
    signal = 0.5 * np.sin(2.0 * np.pi * t)
    found = limit_cycle(signal, np.where(np.cos(2.0 * np.pi * t) > 0.0, 3.0, -3.0), 0.01, 0.3)
    assert found.gain == pytest.approx(4.0 * 3.0 / (math.pi * 0.4), rel=1e-3)
    assert found.period_s == pytest.approx(1.0)
    assert found.amplitude == pytest.approx(0.5, rel=1e-3)


def test_what_is_no_limit_cycle():
    t = np.arange(0.0, 40.0, 0.01)
    stuck = np.ones(len(t))
    assert limit_cycle(np.sin(t), stuck, 0.01, 0.0) is None
    chirp = np.sin(0.057 * t**2)  # 14.5 turns, the last twice as quick as the fifth
    assert limit_cycle(chirp, np.sign(chirp + 1e-9), 0.01, 0.0) is None
    quick = np.sin(20.0 * t)
    assert limit_cycle(0.01 * quick, np.sign(quick + 1e-9), 0.01, 0.02) is None  # within the band


@pytest.fixture(scope="module")
def bench():
    return RelayBench(load_vehicle("x500", "default", "default", 1))


def ultimate(process):
    """Gain at which a process under P control oscillates, and the period in s."""
    size, phase = np.abs(process), np.unwrap(np.angle(process))
    turns = np.flatnonzero((phase[:-1] > -np.pi) & (phase[1:] <= -np.pi))
    first = turns[np.argmax(size[turns])]
    return 1.0 / size[first], 2.0 * np.pi / OMEGA[first]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("rate", marks=pytest.mark.thorough),  # the longest, 40 s
        *("yaw_rate", "tilt", "velocity", "position", "climb", "height"),
    ],
)
def test_a_relay_in_flight_finds_the_linear_models_phase_crossover(bench, name):
    params, vehicle = bench.scenario.autopilot, bench.scenario.vehicle
    delays = Delays(
        (0.5 + bench.inner_samples) * bench.dt_s, (1 + bench.outer_samples(params)) * bench.dt_s
    )
    gain, period_s = ultimate(control_loops(params, vehicle, delays)[name][1])
    found = bench.ultimate(name, params)
    assert found.gain == pytest.approx(gain, rel=GAIN_OFF)
    assert found.period_s == pytest.approx(period_s, rel=PERIOD_OFF)
    assert found.output <= bench.most(name, params, found.axis) * (1.0 + 1e-9)


def test_the_inertia_of_the_rotors_leads_the_yaw(bench):
    """J / (2 ratio k w) at the hover speed; without it the yaw rate would be as the roll rate."""
    vehicle = bench.scenario.vehicle
    hover = math.sqrt(2.0643 * 9.80665 / 4 / 8.54858e-6)
    lead_s = 2.65e-5 / (2.0 * 0.016 * 8.54858e-6 * hover)
    assert spin_up_lead_s(vehicle) == pytest.approx(lead_s, rel=1e-6)


def test_noise_that_hides_the_limit_cycle_ends_in_one_line(bench):
    noisy = RelayBench(load_vehicle("x500", "fcnd", "fcnd", 1))
    with pytest.raises(FlightError, match="yaw_rate loop, axis z: no limit cycle"):
        noisy.measure("yaw_rate", noisy.scenario.autopilot, 2)
