"""Sensors against closed forms; every noise against the distribution of its own samples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from quadsim.compiled import new_record
from quadsim.errors import InputError
from quadsim.files import known
from quadsim.geometry import rotation
from quadsim.records import KINEMATICS
from quadsim.sensors import SENSORS
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.devices import load_device, load_suite
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.model import SimulatedSensor, due
from quadsim.sensors.noise import stream
from quadsim.world.atmosphere import height_of, pressure_at
from quadsim.world.environment import EnvironmentParams

WORLD = EnvironmentParams(gravity_mps2=9.81)
DT_NS = 2_000_000


def truth_at(stamp_ns=0, **fields):
    record = new_record(KINEMATICS)
    record.q_WB[0] = 1.0
    record.stamp_ns = stamp_ns
    for name, value in fields.items():
        record[name] = value
    return record


def device(kind, params, seed=1, vehicle="quad", world=WORLD):
    return SimulatedSensor(SENSORS[kind], params, world, seed, vehicle)


def samples(sensor, count, field, **fields):
    """Samples of a vehicle whose state does not change."""
    truth = truth_at(0, **fields)
    sensor.measure(truth)
    found = []
    for k in range(1, count + 1):
        truth.stamp_ns = k * sensor.period_ns
        found.append(np.copy(sensor.measure(truth)[field]))
    return np.array(found)


def chi2_bounds(count, probability=1e-4):
    """Ratio of a sample deviation to the true one that chance leaves inside."""
    return np.sqrt(stats.chi2.ppf([probability / 2, 1 - probability / 2], count) / count)


@pytest.mark.parametrize(
    ("kind", "params", "field", "expected"),
    [
        ("gnss", GnssParams(position_sigma_m=(0.7, 0.8, 2.0)), "p_W", [0.7, 0.8, 2.0]),
        ("gnss", GnssParams(velocity_sigma_mps=(0.1, 0.2, 0.3)), "v_W", [0.1, 0.2, 0.3]),
        (
            "magnetometer",
            MagnetometerParams(noise_sigma_T=(1e-7, 2e-7, 3e-7)),
            "m_S",
            [1e-7, 2e-7, 3e-7],
        ),
        ("barometer", BarometerParams(noise_sigma_pa=1.5), "pressure_pa", [1.5]),
    ],
)
@pytest.mark.many
def test_white_noise_has_the_stated_deviation_and_nothing_else(kind, params, field, expected):
    count = 20_000
    found = samples(device(kind, params), count, field, p_W=(0.0, 0.0, 2.0)).reshape(count, -1)
    low, high = chi2_bounds(count)
    ratio = found.std(axis=0) / expected
    assert np.all((ratio > low) & (ratio < high))
    mean_error = (
        found.mean(axis=0)
        - samples(
            device(kind, type(params)(rate_hz=params.rate_hz)), 1, field, p_W=(0.0, 0.0, 2.0)
        ).ravel()
    )
    assert np.all(np.abs(mean_error) < 4.5 * np.array(expected) / math.sqrt(count))


@pytest.mark.parametrize("rate_hz", [100.0, 500.0])
@pytest.mark.parametrize(
    ("kind", "name", "field"),
    [
        ("gnss", "position_walk", "p_W"),
        ("magnetometer", "bias_walk", "m_S"),
    ],
)
@pytest.mark.many
def test_random_walk_grows_with_the_root_of_time_at_any_rate(kind, name, field, rate_hz):
    if kind == "gnss":
        rate_hz /= 10.0
    walk = np.array([1e-5, 2e-5, 4e-5])
    params = replace(SENSORS[kind].params_type(rate_hz=rate_hz), **{name: tuple(walk)})
    count = 20_000
    increments = np.diff(samples(device(kind, params), count, field), axis=0)
    low, high = chi2_bounds(count - 1)
    ratio = increments.std(axis=0) / (walk / math.sqrt(rate_hz))
    assert np.all((ratio > low) & (ratio < high))


def test_gnss_measures_its_antenna():
    params = GnssParams(position_B_m=(0.0, 0.0, 0.5))
    q = rotation.from_euler(math.pi / 2, 0.0, 0.0)  # rolled right: up in the body is -y
    sensor = device("gnss", params)
    p_W = samples(sensor, 1, "p_W", p_W=(1.0, 2.0, 3.0), q_WB=q)[0]
    assert p_W == pytest.approx([1.0, 1.5, 3.0], abs=1e-12)
    v_W = samples(device("gnss", params), 1, "v_W", q_WB=q, w_B=(2.0, 0.0, 0.0))[0]
    assert v_W == pytest.approx([0.0, 0.0, -1.0], abs=1e-12)


def test_magnetometer_sees_north_from_a_vehicle_that_looks_north_and_tilts():
    q = rotation.from_euler(0.0, 0.0, math.pi / 2)
    m_S = samples(device("magnetometer", MagnetometerParams()), 1, "m_S", q_WB=q)[0]
    assert m_S == pytest.approx([2.15e-5, 0.0, -4.3e-5], abs=1e-15)
    down = rotation.from_euler(0.0, math.pi / 2, math.pi / 2)  # nose straight down
    m_S = samples(device("magnetometer", MagnetometerParams()), 1, "m_S", q_WB=down)[0]
    assert m_S == pytest.approx([4.3e-5, 0.0, 2.15e-5], abs=1e-15)


@pytest.mark.many
def test_heading_noise_turns_the_field_about_the_vertical():
    params = MagnetometerParams(heading_sigma_rad=0.1)
    m_S = samples(device("magnetometer", params), 20_000, "m_S")
    assert m_S[:, 2] == pytest.approx(-4.3e-5, abs=1e-18)
    assert np.hypot(m_S[:, 0], m_S[:, 1]) == pytest.approx(2.15e-5, abs=1e-18)
    low, high = chi2_bounds(20_000)
    assert low < np.arctan2(m_S[:, 0], m_S[:, 1]).std() / 0.1 < high


@pytest.mark.parametrize(
    ("height_m", "pressure_pa"),
    [(0.0, 101325.0), (1000.0, 89874.6), (5000.0, 54019.9), (11000.0, 22632.1)],
)
def test_standard_atmosphere_matches_the_tables(height_m, pressure_pa):
    # ISO 2533 tables for geopotential height, given to 0.1 Pa
    assert pressure_at(height_m) == pytest.approx(pressure_pa, abs=0.6)
    assert height_of(pressure_at(height_m)) == pytest.approx(height_m, abs=1e-6)


def test_barometer_falls_by_the_hydrostatic_gradient():
    low, high = (
        samples(device("barometer", BarometerParams()), 1, "pressure_pa", p_W=(0.0, 0.0, z))[0]
        for z in (0.0, 1.0)
    )
    # dp = -rho g dz with rho = p / (R T) at 488 m
    temperature_K = 288.15 - 0.0065 * 488.5
    density = low / (287.05287 * temperature_K)
    assert high - low == pytest.approx(-density * 9.80665, rel=1e-4)


def test_a_gnss_of_10_hz_publishes_on_the_stamps_of_a_500_hz_truth():
    sensor = device("gnss", GnssParams(rate_hz=10.0))
    stamps = [
        int(sample.stamp_ns)
        for k in range(501)
        if (sample := sensor.measure(truth_at(k * DT_NS))) is not None
    ]
    assert stamps == [100_000_000 * k for k in range(1, 11)]


def test_repeated_and_backward_truth_is_refused_and_gaps_are_counted():
    sensor = device("imu", ImuParams())
    for k in (0, 1, 2):
        sensor.measure(truth_at(k * DT_NS))
    assert sensor.measure(truth_at(2 * DT_NS)) is None
    assert sensor.measure(truth_at(DT_NS)) is None
    assert (sensor.refused, sensor.gaps) == (2, 0)
    assert sensor.measure(truth_at(5 * DT_NS)) is not None
    assert (sensor.refused, sensor.gaps) == (2, 1)


def test_due():
    assert due(10, 19, 20)
    assert not due(10, 20, 29)
    assert due(10, 20, 41)


def test_streams_depend_on_seed_vehicle_and_sensor_alone():
    def first(*key):
        return stream(*key).standard_normal(4).tobytes()

    assert first(1, "quad", "imu") == first(1, "quad", "imu")
    keys = [(1, "quad", "imu"), (2, "quad", "imu"), (1, "quad1", "imu"), (1, "quad", "gnss")]
    assert len({first(*key) for key in keys}) == 4


def test_reset_repeats_the_samples_to_the_bit():
    params = load_device("imu", "adis16448")
    sensor = device("imu", params)
    first = samples(sensor, 50, "f_S")
    sensor.reset()
    assert samples(sensor, 50, "f_S").tobytes() == first.tobytes()


@pytest.mark.parametrize("name", known("sensors/suites"))
def test_suites_load(name):
    suite = load_suite(name)
    assert "imu" in suite


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("sensor: gnss\n", "'gnss' where 'imu' is wanted"),
        ("sensor: imu\ngyro_noise_density: [-1.0, 0.0, 0.0]\n", r"gyro_noise_density\[0\]: -1.0"),
        ("sensor: imu\nrate_hz: 5000.0\n", "rate_hz: 5000.0 is out of range"),
        ("sensor: imu\nnoise: 1.0\n", "unknown key 'noise'"),
    ],
)
def test_bad_devices_are_refused(tmp_path, content, words):
    path = tmp_path / "device.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        load_device("imu", str(path))


def test_unknown_device_names_those_there_are():
    with pytest.raises(InputError, match=r"unknown sensor 'adis'.*adis16448"):
        load_device("imu", "adis")


def test_suite_without_imu_or_with_an_unknown_sensor(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("gnss: ideal_gnss\n")
    with pytest.raises(InputError, match="'imu' is missing"):
        load_suite(str(path))
    path.write_text("imu: ideal_imu\nsonar: x\n")
    with pytest.raises(InputError, match="unknown sensor 'sonar'"):
        load_suite(str(path))
