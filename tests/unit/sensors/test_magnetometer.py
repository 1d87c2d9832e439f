"""Magnetometer against closed forms; every error against the distribution of its own samples."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation
from sensor_rig import ALPHA, assert_deviation, output, samples

from quadsim.base.parameters import leaves
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams

FIELD_W = np.array([1e-6, 2.15e-5, -4.3e-5])
WORLD = EnvironmentParams(magnetic_field="fixed", magnetic_field_W_T=tuple(FIELD_W))
COUNT = 8_000


# ---- what it measures --------------------------------------------------------------------------


def device(params, seed=1):
    return SimulatedSensor(SENSORS["magnetometer"], params, WORLD, seed, "quad")


def readings(params, count=1, seed=1, **motion):
    """Samples of a vehicle whose state does not change, (count, 3) T."""
    return samples(device(params, seed), count, **motion)["m_S"]


def test_iron_bends_the_field_in_the_sensors_axes():
    iron = (1.1, 0.9, 1.05, 0.08, -0.05, 0.03)
    matrix = np.array([[1.1, 0.08, -0.05], [0.08, 0.9, 0.03], [-0.05, 0.03, 1.05]])
    hard_T = np.array([3e-6, -5e-6, 8e-6])
    mount = Rotation.from_euler("ZYX", [30.0, -20.0, 10.0], degrees=True)
    params = MagnetometerParams(
        soft_iron=iron, hard_iron_T=tuple(hard_T), rotation_deg=(10.0, -20.0, 30.0)
    )
    for attitude in Rotation.random(20, random_state=1):
        q_WB = np.roll(attitude.as_quat(), 1)
        expected = matrix @ mount.inv().apply(attitude.inv().apply(FIELD_W)) + hard_T
        assert readings(params, q_WB=q_WB)[0] == pytest.approx(expected, abs=1e-18)


def test_the_motors_current_adds_its_field():
    params = MagnetometerParams(motor_current_T_per_A=(3e-7, -2e-7, 1e-7))
    still, flying = readings(params)[0], readings(params, motor_current_A=20.0)[0]
    assert flying - still == pytest.approx([6e-6, -4e-6, 2e-6], abs=1e-18)
    assert SENSORS["magnetometer"].needs(params) == {"motors"}
    assert SENSORS["magnetometer"].needs(MagnetometerParams()) == frozenset()


def test_the_offset_follows_the_temperature():
    params = MagnetometerParams(
        rate_hz=10.0,
        temperature_bias=(1e-7, 0.0, -2e-7),
        ambient_offset_K=-5.0,
        warm_up_K=20.0,
        warm_up_s=4.0,
    )
    found = readings(params, 100) - readings(MagnetometerParams())[0]
    t_s = 0.1 * np.arange(1, 101)
    warmth_K = -5.0 + 20.0 * (1.0 - np.exp(-t_s / 4.0))
    assert found == pytest.approx(np.outer(warmth_K, [1e-7, 0.0, -2e-7]), abs=1e-17)


def test_counts_and_range_come_last():
    params = MagnetometerParams(hard_iron_T=(1.0e-5, 1.7e-5, 0.0), step_T=3e-7, range_T=3.1e-5)
    found = readings(params)[0]
    # 1.1e-5 is 36.67 counts; 3.85e-5 and -4.3e-5 are out of range
    assert found == pytest.approx([37 * 3e-7, 3.1e-5, -3.1e-5], abs=1e-18)
    noisy = readings(MagnetometerParams(noise_sigma_T=(1e-6,) * 3, step_T=3e-7), 500) / 3e-7
    assert noisy == pytest.approx(np.round(noisy), abs=1e-9)
    assert len(np.unique(np.round(noisy))) > 20


# ---- noise -------------------------------------------------------------------------------------


@pytest.mark.many
def test_white_noise_has_the_stated_deviation_and_nothing_else():
    sigma = np.array([1e-7, 2e-7, 3e-7])
    params = MagnetometerParams(noise_sigma_T=tuple(sigma))
    errors = readings(params, COUNT) - readings(MagnetometerParams())[0]
    assert_deviation(errors, sigma)
    # of white noise the sample autocorrelation has the deviation 1/sqrt(n)
    bound = stats.norm.ppf(1 - ALPHA / 2) / math.sqrt(COUNT - 1)
    assert np.all(np.abs(np.mean(errors[1:] * errors[:-1], axis=0) / sigma**2) < bound)


@pytest.mark.parametrize("rate_hz", [50.0, 400.0])
@pytest.mark.many
def test_the_walk_grows_with_the_root_of_time_at_any_rate(rate_hz):
    walk = np.array([1e-8, 2e-8, 4e-8])
    found = readings(MagnetometerParams(rate_hz=rate_hz, bias_walk=tuple(walk)), COUNT)
    assert_deviation(np.diff(found, axis=0), walk / math.sqrt(rate_hz))


@pytest.mark.many
def test_heading_noise_turns_the_field_about_the_vertical():
    found = readings(MagnetometerParams(heading_sigma_rad=0.1), COUNT)
    assert found[:, 2] == pytest.approx(FIELD_W[2], abs=1e-18)
    assert np.hypot(found[:, 0], found[:, 1]) == pytest.approx(np.hypot(*FIELD_W[:2]), abs=1e-18)
    turned = np.arctan2(found[:, 1], found[:, 0]) - np.arctan2(FIELD_W[1], FIELD_W[0])
    assert_deviation(turned[:, None], 0.1)


def test_the_offset_is_drawn_once_at_switch_on():
    params = MagnetometerParams(turn_on_sigma_T=2e-6)
    drawn = np.array([readings(params, 2, seed) - FIELD_W for seed in range(400)])
    assert np.array_equal(drawn[:, 0], drawn[:, 1])
    assert_deviation(drawn[:, 0].reshape(-1, 1), 2e-6)


def test_scale_and_cross_axis_are_drawn_for_each_unit():
    scales = MagnetometerParams(scale_sigma=0.03)
    drawn = np.array([readings(scales, seed=seed)[0] - FIELD_W for seed in range(400)])
    assert_deviation(drawn, 0.03 * np.abs(FIELD_W))
    crosses = MagnetometerParams(cross_axis_sigma=0.01)
    drawn = np.array([readings(crosses, seed=seed)[0] - FIELD_W for seed in range(400)])
    # each axis reads both others
    others = np.sqrt(FIELD_W @ FIELD_W - FIELD_W**2)
    assert_deviation(drawn, 0.01 * others)


@pytest.mark.many
def test_the_stated_variance_of_white_noise_and_counts_is_that_of_the_samples():
    params = MagnetometerParams(noise_sigma_T=(3e-7, 4e-7, 5e-7), step_T=3e-7)
    found = readings(params, COUNT)
    ratio = found.var(axis=0) / params.variance(tuple(FIELD_W))
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], COUNT - 1) / (COUNT - 1)
    # noise of one count: the error of rounding is uniform and independent to exp(-2 pi^2)
    assert np.all((ratio > low) & (ratio < high)), ratio


@pytest.mark.parametrize(
    ("errors", "kurtosis"),
    [
        ({"turn_on_sigma_T": 1e-6}, 3.0),
        # normal with a variance of B_i^2 or B^2 - B_i^2 of a field that lies anywhere: 3 times the
        # mean square of that variance over its squared mean
        ({"scale_sigma": 0.02}, 3.0 * (1 / 5) / (1 / 3) ** 2),
        ({"cross_axis_sigma": 0.02}, 3.0 * (1 - 2 / 3 + 1 / 5) / (2 / 3) ** 2),
    ],
)
def test_the_stated_variance_is_that_of_all_units_in_all_attitudes(errors, kurtosis):
    params, count = MagnetometerParams(**errors), 1000
    squares = np.zeros((count, 3))
    for seed, attitude in enumerate(Rotation.random(count, random_state=3)):
        found = readings(params, seed=seed, q_WB=np.roll(attitude.as_quat(), 1))[0]
        squares[seed] = (found - attitude.inv().apply(FIELD_W)) ** 2
    ratio = squares.mean(axis=0) / params.variance(tuple(FIELD_W))
    bound = stats.norm.ppf(1 - ALPHA / 2) * math.sqrt((kurtosis - 1.0) / count)
    assert np.all(np.abs(ratio - 1.0) < bound), ratio


def test_turned_noise_counts_on_every_axis():
    params = MagnetometerParams(heading_sigma_rad=0.1, noise_sigma_T=(1e-6, 2e-6, 3e-6))
    expected = np.array([1e-12, 4e-12, 9e-12]) + 0.01 * (FIELD_W[0] ** 2 + FIELD_W[1] ** 2)
    assert params.variance(tuple(FIELD_W)) == pytest.approx(expected)


# ---- every parameter, every bad value ----------------------------------------------------------

BASE = MagnetometerParams(
    stamp_jitter_s=0.001,
    loss_probability=0.1,
    noise_sigma_T=(1e-7,) * 3,
    temperature_bias=(1e-7,) * 3,
    warm_up_K=10.0,
)
OTHER = {
    "rate_hz": 50.0, "latency_s": 0.05, "stamp_jitter_s": 0.002, "loss_probability": 0.3,
    "rotation_deg": (0.0, 0.0, 1.0), "noise_sigma_T": (1e-7, 1e-7, 2e-7), "heading_sigma_rad": 0.01,
    "soft_iron": (1.0, 1.0, 1.0, 0.0, 0.0, 0.01), "scale_sigma": 0.01, "cross_axis_sigma": 0.01,
    "hard_iron_T": (0.0, 0.0, 1e-7), "turn_on_sigma_T": 1e-7, "bias_walk": (0.0, 0.0, 1e-8),
    "temperature_bias": (1e-7, 1e-7, 2e-7), "ambient_offset_K": 3.0, "warm_up_K": 11.0,
    "warm_up_s": 100.0, "motor_current_T_per_A": (0.0, 0.0, 1e-8), "step_T": 3e-7, "range_T": 3e-5,
}  # fmt: skip


@pytest.mark.parametrize("name", [leaf.name for leaf in leaves(MagnetometerParams)])
def test_every_parameter_changes_what_comes_out(name):
    changed = replace(BASE, **{name: OTHER[name]})
    first, second = (
        output(device(params), 250, 2_000_000, motor_current_A=12.0) for params in (changed, BASE)
    )
    assert first != second


@pytest.mark.parametrize(
    ("name", "noise_T", "count_T", "range_T"),
    [
        ("ist8310", 3.0e-7, 3.0e-7, 1.6e-3),
        ("bmm150", 3.0e-7, 3.0e-7, 1.3e-3),
        ("fcnd_magnetometer", 0.0, 0.0, 0.0),
        ("ideal_magnetometer", 0.0, 0.0, 0.0),
    ],
)
def test_devices_have_the_figures_of_their_data_sheets(name, noise_T, count_T, range_T):
    params = load_device("magnetometer", name)
    assert isinstance(params, MagnetometerParams)
    assert params.noise_sigma_T == (noise_T,) * 3
    assert (params.step_T, params.range_T) == (count_T, range_T)
    assert params.heading_sigma_rad == (0.1 if name.startswith("fcnd") else 0.0)
