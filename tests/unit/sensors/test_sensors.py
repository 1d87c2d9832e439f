"""What all sensors share: stamps, gaps, streams, devices and suites."""

from __future__ import annotations

import numpy as np
import pytest

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.files import known
from quadsim.base.noise import stream
from quadsim.base.records import KINEMATICS
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device, load_suite
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.model import SimulatedSensor, due
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


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("accel_noise_density: [-0.1, 0.0, 0.0]", "accel_noise_density[0]: -0.1 is out of range"),
        ("rate_hz: 1001.0", "rate_hz: 1001.0 is out of range; allowed: >= 1 and <= 1000 Hz"),
        ("position_B_m: [0.1, 0.0]", "position_B_m: 2 items; allowed: exactly 3"),
        ("rotation_deg: [1.0, 0.0, 0.0, 0.0]", "rotation_deg: 4 items; allowed: exactly 3"),
        ("accel_nose: 1.0", "unknown key 'accel_nose'"),
    ],
)
def test_a_key_of_a_suite_that_is_refused_is_named_with_the_suite(tmp_path, key, said):
    path = tmp_path / "mine.yaml"
    path.write_text(f"imu: {{device: adis16448, {key}}}\n")
    with pytest.raises(InputError) as refused:
        load_suite(str(path))
    assert str(refused.value).startswith(f"{path}: imu: {said}")
