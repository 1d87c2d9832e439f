"""Noise as Gazebo makes it of our figures: gz-sensors' recursion, written down again here."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pymap3d
import pytest

from quadsim.gazebo.sensors import (
    Noise,
    barometer_noise,
    echo_noise,
    field_noise,
    gnss_noise,
    imu_noise,
    wandering,
)
from quadsim.geometry.geodesy import Datum
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.devices import load_device
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.lidar import LidarParams
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.rangefinder import RangefinderParams


def bias_variance(noise: Noise, rate_hz: float, time_s: float, start: float = 0.0) -> float:
    """Variance of Gazebo's wandering bias after a time, from that at its beginning.

    GaussianNoiseModel::ApplyImpl of gz-sensors: bias = phi bias + N(0, sigma_d), with phi =
    exp(-dt/tau) and sigma_d^2 = -sigma_b^2 tau/2 expm1(-2 dt/tau).
    """
    dt, tau = 1.0 / rate_hz, noise.dynamic_bias_correlation_time
    step = -(noise.dynamic_bias_stddev**2) * tau / 2.0 * math.expm1(-2.0 * dt / tau)
    kept, variance = math.exp(-2.0 * dt / tau), start
    for _ in range(round(time_s * rate_hz)):
        variance = kept * variance + step
    return variance


@pytest.mark.parametrize("rate_hz", [100.0, 500.0])
def test_white_noise_of_an_imu_is_its_density_whatever_the_rate(rate_hz):
    """The mean over a second of f samples of deviation N sqrt(f) has the deviation N."""
    params = ImuParams(
        rate_hz=rate_hz,
        accel_noise_density=(0.001, 0.002, 0.003),
        gyro_noise_density=(1e-4, 2e-4, 3e-4),
    )
    noises = imu_noise(params)
    accel = [noise.stddev / math.sqrt(rate_hz) for noise in noises["linear_acceleration"]]
    gyro = [noise.stddev / math.sqrt(rate_hz) for noise in noises["angular_velocity"]]
    assert accel == pytest.approx([0.001, 0.002, 0.003], rel=1e-12)
    assert gyro == pytest.approx([1e-4, 2e-4, 3e-4], rel=1e-12)
    assert {noise.kind for noise in noises["angular_velocity"]} == {"gaussian"}


def test_a_random_walk_grows_with_the_root_of_time():
    noise = imu_noise(ImuParams(gyro_bias_walk=(2e-5, 2e-5, 2e-5)))["angular_velocity"][0]
    for time_s in (1.0, 100.0):
        # the process that Gazebo has forgets 1e-6 of itself a second
        assert math.sqrt(bias_variance(noise, 500.0, time_s)) == pytest.approx(
            2e-5 * math.sqrt(time_s), rel=1e-4
        )


def test_bias_instability_is_the_same_gauss_markov_process():
    """sigma^2 (1 - exp(-2t/T)) from zero, and stationary at sigma."""
    params = ImuParams(accel_instability=(3e-4, 3e-4, 3e-4), accel_instability_time_s=20.0)
    noise = imu_noise(params)["linear_acceleration"][1]
    for time_s in (1.0, 20.0, 60.0):
        found = bias_variance(noise, 200.0, time_s)
        assert found == pytest.approx(3e-4**2 * -math.expm1(-2.0 * time_s / 20.0), rel=1e-9)
    assert bias_variance(noise, 200.0, 10.0, 3e-4**2) == pytest.approx(3e-4**2, rel=1e-9)


def test_a_walk_beside_an_instability_keeps_both_gains_of_short_times():
    density, time_s = wandering(3e-4, 20.0, 1e-4)
    noise = Noise(dynamic_bias_stddev=density, dynamic_bias_correlation_time=time_s)
    both = 1e-4**2 * 0.1 + 3e-4**2 * -math.expm1(-2.0 * 0.1 / 20.0)
    assert bias_variance(noise, 500.0, 0.1) == pytest.approx(both, rel=0.01)
    assert wandering(0.0, 20.0, 0.0) == (0.0, 0.0)


def test_steps_are_rounded_where_gazebo_rounds_and_noise_where_it_does_not():
    """It takes a precision below 1e-6 for none (math::equal with 1e-6 in GaussianNoiseModel)."""
    coarse = imu_noise(ImuParams(accel_step=8e-3, accel_noise_density=(1e-3,) * 3))
    noise = coarse["linear_acceleration"][0]
    assert (noise.kind, noise.precision) == ("gaussian_quantized", 8e-3)
    assert noise.stddev == pytest.approx(1e-3 * math.sqrt(500.0))
    fine = field_noise(MagnetometerParams(step_T=3e-7, noise_sigma_T=(4e-7, 0.0, 0.0)))
    assert [noise.precision for noise in fine] == [0.0, 0.0, 0.0]
    generator = np.random.Generator(np.random.PCG64(5))
    white = generator.normal(1e-5, 4e-7, 100_000)
    rounded = np.round(white / 3e-7) * 3e-7
    # the deviation of 1e5 normal numbers is known to 0.22 %; four of that
    assert fine[0].stddev == pytest.approx(rounded.std(), rel=0.01)
    assert fine[1].stddev == pytest.approx(3e-7 / math.sqrt(12.0))


@pytest.mark.parametrize("latitude_deg", [-33.0, 0.0, 47.397742, 69.0])
def test_metres_of_a_position_come_through_as_degrees(latitude_deg):
    """Noise added to latitude and longitude as gz-sensors adds it, counted in metres by pymap3d."""
    datum = Datum(latitude_deg, 8.5, 400.0)
    params = GnssParams(
        horizontal_accuracy_m=2.0, vertical_accuracy_m=3.0, velocity_accuracy_mps=0.1,
        vertical_velocity_factor=2.0, correlated_share=0.75,
    )  # fmt: skip
    noises = gnss_noise(params, datum)
    level = noises["position_sensing", "horizontal"]
    assert level.bias_stddev / level.stddev == pytest.approx(math.sqrt(3.0))
    total_deg = math.hypot(level.stddev, level.bias_stddev)
    # in this very small part of the Earth a linear map: the images of two independent deviations
    origin = (datum.latitude_deg, datum.longitude_deg, datum.height_m)
    images = [
        pymap3d.geodetic2enu(latitude_deg + north, 8.5 + east, 400.0, *origin)
        for north, east in ((total_deg, 0.0), (0.0, total_deg))
    ]
    east_m, north_m = np.linalg.norm(np.array(images)[:, :2], axis=0)
    assert (east_m**2 + north_m**2) / 2.0 == pytest.approx(2.0**2, rel=1e-4)
    assert east_m / north_m == pytest.approx(math.cos(math.radians(latitude_deg)), rel=0.01)
    up = noises["position_sensing", "vertical"]
    assert math.hypot(up.stddev, up.bias_stddev) == pytest.approx(3.0)
    assert noises["velocity_sensing", "horizontal"].stddev == pytest.approx(0.1)
    assert noises["velocity_sensing", "vertical"].stddev == pytest.approx(0.2)


def test_the_datasheets_accuracies_are_read_as_they_are_meant():
    """A CEP of 2.5 m is 2.123 m on each axis (2.5 / sqrt(2 ln 2))."""
    noise = gnss_noise(load_device("gnss", "ublox_m8"), Datum())
    level = noise["position_sensing", "horizontal"]
    metres = math.hypot(level.stddev, level.bias_stddev) / 360.0 * 40.0e6
    # the Earth's girth is 40 000 km to 0.2 %; at 47 degrees north and east differ: between both
    assert 2.123 * 1.0 < metres < 2.123 / math.cos(math.radians(47.4))


def test_offsets_at_switch_on():
    pressure = barometer_noise(
        BarometerParams(noise_sigma_pa=0.9, turn_on_sigma_pa=50.0, bias_pa=-3.0)
    )
    assert (pressure.stddev, pressure.bias_stddev, pressure.bias_mean) == (0.9, 50.0, -3.0)
    field = field_noise(MagnetometerParams(hard_iron_T=(1e-6, 0.0, -2e-6)))
    assert [noise.bias_mean for noise in field] == [1e-6, 0.0, -2e-6]


def test_ranges():
    lidar = LidarParams(noise_sigma_m=0.03, step_m=0.002)
    assert echo_noise(lidar).stddev == pytest.approx(math.hypot(0.03, 0.002 / math.sqrt(12.0)))
    finder = RangefinderParams(noise_share=0.0025, range_max_m=8.0)
    assert echo_noise(finder).stddev == pytest.approx(0.01)  # at 4 m


def test_an_ideal_device_has_no_noise():
    quiet = imu_noise(load_device("imu", "ideal_imu"))
    for noise in (
        *quiet["angular_velocity"],
        *quiet["linear_acceleration"],
        *field_noise(load_device("magnetometer", "ideal_magnetometer")),
        barometer_noise(load_device("barometer", "ideal_barometer")),
        *gnss_noise(load_device("gnss", "ideal_gnss"), Datum()).values(),
    ):
        assert replace(noise, precision=0.0) == Noise()
        assert noise.content()["stddev"] == 0.0
