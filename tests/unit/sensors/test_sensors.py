"""What all sensors share: stamps, gaps, streams, devices and suites."""

import pytest
from sensor_rig import samples, truth_at

from quadsim.base.errors import InputError
from quadsim.base.noise import stream
from quadsim.base.parameters import from_mapping
from quadsim.sensors import SENSORS
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.devices import load_device, load_suite
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.lidar import LidarParams
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.model import SimulatedSensor, due
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.world.environment import EnvironmentParams

WORLD = EnvironmentParams(gravity_mps2=9.81)
DT_NS = 2_000_000


def device(kind, params, seed=1, vehicle="quad", world=WORLD):
    return SimulatedSensor(SENSORS[kind], params, world, seed, vehicle)


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
    first = samples(sensor, 50)["f_S"]
    sensor.reset()
    assert samples(sensor, 50)["f_S"].tobytes() == first.tobytes()


@pytest.mark.parametrize(
    ("params_type", "keys", "said"),
    [
        (BarometerParams, {"range_min_pa": 9e4, "range_max_pa": 9e4}, "range_min_pa: not below"),
        (MagnetometerParams, {"soft_iron": [1, 1, 1, 2, 0, 0]}, "a matrix of positive eigenvalues"),
        (ImuParams, {"gyro_nonlinearity": 0.01}, "a share of gyro_range; give that too"),
        (RangefinderParams, {"range_min_m": 8.0}, "range_min_m: 8.0 is not below range_max_m 8.0"),
        (LidarParams, {"range_min_m": 40.0}, "range_min_m: 40.0 is not below range_max_m 30.0"),
        (LidarParams, {"channels": 16, "elevation_min_deg": 15.0}, "is not below elevation_max"),
        (LidarParams, {"elevation_max_deg": 10.0}, "a lidar of 1 channel scans its x-y plane"),
        (LidarParams, {"azimuth_max_deg": -190.0}, "allowed: above azimuth_min_deg"),
        (LidarParams, {"azimuth_max_deg": 190.0}, "by at most 360"),
        (LidarParams, {"columns": 1}, "azimuth_max_deg: 1 column; allowed: azimuth_min_deg"),
    ],
)
def test_values_that_do_not_go_together_are_refused(params_type, keys, said):
    with pytest.raises(InputError, match=r"^device\.yaml: ") as refused:
        from_mapping(params_type, keys, "device.yaml")
    assert said in str(refused.value)


BAROMETER = ("noise_sigma_pa", "step_pa", "range_min_pa", "range_max_pa")
MAGNETOMETER = ("noise_sigma_T", "step_T", "range_T", "heading_sigma_rad")
RANGEFINDER = ("range_min_m", "range_max_m", "rate_hz", "step_m", "radiation")


@pytest.mark.parametrize(
    ("kind", "name", "keys", "figures"),
    [
        ("barometer", "bmp390", BAROMETER, (0.9, 0.016, 30_000.0, 125_000.0)),
        ("barometer", "ms5611", BAROMETER, (1.2, 1.0, 1_000.0, 120_000.0)),
        ("barometer", "fcnd_barometer", BAROMETER, (1.137, 0.0, 0.0, 2e5)),
        ("barometer", "ideal_barometer", BAROMETER, (0.0, 0.0, 0.0, 2e5)),
        ("magnetometer", "ist8310", MAGNETOMETER, ((3.0e-7,) * 3, 3.0e-7, 1.6e-3, 0.0)),
        ("magnetometer", "bmm150", MAGNETOMETER, ((3.0e-7,) * 3, 3.0e-7, 1.3e-3, 0.0)),
        ("magnetometer", "fcnd_magnetometer", MAGNETOMETER, ((0.0,) * 3, 0.0, 0.0, 0.1)),
        ("magnetometer", "ideal_magnetometer", MAGNETOMETER, ((0.0,) * 3, 0.0, 0.0, 0.0)),
        ("rangefinder", "tf_luna", RANGEFINDER, (0.2, 8.0, 50.0, 0.01, "infrared")),
        ("rangefinder", "lv_maxsonar_ez0", RANGEFINDER, (0.1524, 6.45, 20.0, 0.0254, "ultrasound")),
    ],
)
def test_devices_have_the_figures_of_their_data_sheets(kind, name, keys, figures):
    params = load_device(kind, name)
    assert tuple(getattr(params, key) for key in keys) == figures


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
    [("accel_noise_density: [-0.1, 0.0, 0.0]", "accel_noise_density[0]: -0.1 is out of range")],
)
def test_a_key_of_a_suite_that_is_refused_is_named_with_the_suite(tmp_path, key, said):
    path = tmp_path / "mine.yaml"
    path.write_text(f"imu: {{device: adis16448, {key}}}\n")
    with pytest.raises(InputError) as refused:
        load_suite(str(path))
    assert str(refused.value).startswith(f"{path}: imu: {said}")
