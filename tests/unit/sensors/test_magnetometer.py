"""Magnetometer against closed forms; lab/test_sensor_check has the size of each error."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation
from sensor_rig import ALPHA, samples

from quadsim.sensors import SENSORS
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams

FIELD_W = np.array([1e-6, 2.15e-5, -4.3e-5])
WORLD = EnvironmentParams(magnetic_field="fixed", magnetic_field_W_T=tuple(FIELD_W))


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


def test_counts_and_range_come_last():
    params = MagnetometerParams(hard_iron_T=(1.0e-5, 1.7e-5, 0.0), step_T=3e-7, range_T=3.1e-5)
    found = readings(params)[0]
    # 1.1e-5 is 36.67 counts; 3.85e-5 and -4.3e-5 are out of range
    assert found == pytest.approx([37 * 3e-7, 3.1e-5, -3.1e-5], abs=1e-18)
    noisy = readings(MagnetometerParams(noise_sigma_T=(1e-6,) * 3, step_T=3e-7), 500) / 3e-7
    assert noisy == pytest.approx(np.round(noisy), abs=1e-9)
    assert len(np.unique(np.round(noisy))) > 20


# ---- noise -------------------------------------------------------------------------------------


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
