"""Gazebo's messages against hand-built ones and ROS's own serialisation."""

import math
from array import array
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import TwistWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import (
    FluidPressure,
    Image,
    Imu,
    LaserScan,
    MagneticField,
    NavSatFix,
    PointCloud2,
    PointField,
    Range,
)

from quadsim.ros.messages import gazebo
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.nodes.gazebo_adapter import FieldCheck
from quadsim.sensors.devices import load_device

HALF = math.sqrt(0.5)
STAMP_NS = 12_345_678_901
FIELD_W_T = (0.0, 2.15e-5, -4.3e-5)


def as_bridged(message, stamp_ns: int = 7, frame: str = "quad/base_link/imu") -> bytes:
    """Serialised as the bridge publishes it: in Gazebo's frame."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.header.frame_id = frame
    return serialize_message(message)


def stamp_ns_of(message) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


@pytest.mark.parametrize("frame", ["lidar_link", "quad12/lidar_link", "a", ""])
@pytest.mark.parametrize("given", ["x", "quad/base_link/gpu_lidar", ""])
def test_another_header_leaves_the_rest_as_rclpy_reads_it(given, frame):
    scan = LaserScan(
        angle_min=-1.0, angle_max=1.0, angle_increment=0.5, range_min=0.125, range_max=30.0,
        ranges=array("f", [1.0, math.inf, 3.5]), intensities=array("f", [0.0, 1.0, 2.0]),
    )  # fmt: skip
    cloud = PointCloud2(
        height=1, width=2, point_step=7, row_step=14, data=array("B", range(14)), is_dense=True,
        fields=[PointField(name="xyz", offset=0, datatype=7, count=1)],
    )  # fmt: skip
    image = Image(height=1, width=3, encoding="rgb8", step=9, data=array("B", range(9)))
    for message in (scan, cloud, image):
        changed = gazebo.with_header(as_bridged(message, 7, given), STAMP_NS, frame)
        read = deserialize_message(changed, type(message))
        assert (stamp_ns_of(read), read.header.frame_id) == (STAMP_NS, frame)
        message.header = read.header
        assert read == message


@pytest.mark.parametrize("payload", [b"", b"\x00\x00" + bytes(30), b"\x00\x01" + b"\xff" * 14])
def test_bytes_that_are_no_message_are_refused(payload):
    with pytest.raises(MessageError):
        gazebo.with_header(payload, STAMP_NS, "lidar_link")


def test_an_imu_sample_keeps_its_numbers_and_gets_our_covariance():
    given = Imu()
    given.orientation.w = 1.0  # of Gazebo's own; ours has none
    given.linear_acceleration.x, given.linear_acceleration.z = 0.5, 9.81
    given.angular_velocity.y = -0.2
    device = SimpleNamespace(  # variances of a sample
        accel_variance=lambda: np.array([0.01, 0.04, 0.09]),
        gyro_variance=lambda: np.array([1e-4, 4e-4, 9e-4]),
    )
    convert = gazebo.imu_conversion("quad1/imu_link", device)
    read = deserialize_message(convert(as_bridged(given), STAMP_NS), Imu)
    assert (stamp_ns_of(read), read.header.frame_id) == (STAMP_NS, "quad1/imu_link")
    assert read.linear_acceleration == given.linear_acceleration
    assert read.angular_velocity == given.angular_velocity
    assert read.orientation_covariance[0] == -1.0
    assert np.diag(read.linear_acceleration_covariance.reshape(3, 3)) == pytest.approx(
        [0.01, 0.04, 0.09]
    )
    assert np.diag(read.angular_velocity_covariance.reshape(3, 3)) == pytest.approx(
        [1e-4, 4e-4, 9e-4]
    )
    given.angular_velocity.y = math.nan
    with pytest.raises(MessageError, match="angular rate"):
        convert(as_bridged(given), STAMP_NS)


def test_a_field_in_gauss_is_named():
    told: list = []
    convert = gazebo.magnetic_conversion("imu_link", (1e-14, 1e-14, 4e-14), told.append)
    given = MagneticField()
    given.magnetic_field.y, given.magnetic_field.z = 2.15e-5, -4.3e-5
    read = deserialize_message(convert(as_bridged(given), STAMP_NS), MagneticField)
    assert read.magnetic_field == given.magnetic_field
    assert read.magnetic_field_covariance[8] == pytest.approx(4e-14)
    given.magnetic_field.y, given.magnetic_field.z = 0.215, -0.43
    with pytest.raises(MessageError, match="use_units_gauss"):
        convert(as_bridged(given), STAMP_NS)
    assert told == [(0.0, 2.15e-5, -4.3e-5)]


def looking(check: FieldCheck, field_W_T, headings_deg) -> None:
    """A vehicle that stands at some headings, its magnetometer turned by 90 degrees to the left."""
    for _ in range(20):
        for heading_deg in headings_deg:
            body = Rotation.from_euler("z", heading_deg, degrees=True)
            sensor = body * Rotation.from_euler("z", 90.0, degrees=True)
            x, y, z, w = body.as_quat()
            check.take(tuple(sensor.inv().apply(field_W_T)), (w, x, y, z))


def test_a_field_that_is_turned_is_named():
    check = FieldCheck(FIELD_W_T, (0.0, 0.0, 90.0))
    looking(check, FIELD_W_T, [0.0])
    assert check.field_W_T is None  # not enough yet
    looking(check, FIELD_W_T, [30.0, -120.0])
    assert check.field_W_T == pytest.approx(FIELD_W_T, abs=1e-12)
    assert check.heading_error_deg == pytest.approx(0.0, abs=1e-6)
    assert not check.words
    # Gazebo's default: what is north in x, which is our east, east in y, down in z
    wrong = FieldCheck(FIELD_W_T, (0.0, 0.0, 90.0))
    looking(wrong, (FIELD_W_T[1], FIELD_W_T[0], -FIELD_W_T[2]), [0.0, 45.0, 200.0])
    assert "use_earth_frame_ned" in wrong.words
    # this field points east, to the right of north: it looks as if the vehicle were turned left
    assert wrong.heading_error_deg == pytest.approx(90.0)
    unknown = FieldCheck((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    looking(unknown, FIELD_W_T, [0.0, 1.0, 2.0])
    assert (unknown.heading_error_deg, unknown.words) == (0.0, "")


@pytest.mark.parametrize(
    ("world_z_m", "datum_m", "pressure_pa"),
    # ISO 2533:1975, table 5, at 0, 500 and 600 m
    [(0.0, 0.0, 101325.0), (0.0, 500.0, 95461.0), (100.0, 500.0, 94322.0)],
)
def test_pressure_is_that_at_the_datum_with_a_variance_that_is_one(world_z_m, datum_m, pressure_pa):
    """Given as gz-sensors computes it, from the height in the world alone; tables round to 1 Pa."""
    geopotential_m = 6356766.0 * world_z_m / (6356766.0 + world_z_m)
    temperature_K = 288.15 - 0.0065 * geopotential_m
    exponent = 9.80665 * 28.9644 / (8314.32 * -0.0065)
    found_pa = 101325.0 * math.exp(exponent * math.log(288.15 / temperature_K))
    convert = gazebo.pressure_conversion("base_link", 9.0, datum_m)
    given = FluidPressure(fluid_pressure=found_pa, variance=math.sqrt(3.0))
    read = deserialize_message(convert(as_bridged(given), STAMP_NS), FluidPressure)
    assert read.fluid_pressure == pytest.approx(pressure_pa, abs=1.0)
    assert read.variance == 9.0
    with pytest.raises(MessageError, match="Pa"):
        convert(as_bridged(FluidPressure()), STAMP_NS)


def one_ray(range_m: float, rays: int = 1) -> LaserScan:
    return LaserScan(range_min=0.1, range_max=8.0, ranges=array("f", [range_m] * rays))


def test_a_scan_of_one_ray_is_a_range():
    keys = {"noise_sigma_m": 0.02, "noise_share": 0.01, "field_of_view_deg": 2.0}
    device = load_device("rangefinder", "ideal_rangefinder", keys | {"radiation": "ultrasound"})
    convert = gazebo.range_conversion("range_link", device)
    read = deserialize_message(convert(as_bridged(one_ray(3.0)), STAMP_NS), Range)
    assert (read.range, read.radiation_type) == (3.0, Range.ULTRASOUND)
    assert (read.min_range, read.max_range) == pytest.approx((0.1, 8.0))
    assert read.field_of_view == pytest.approx(math.radians(2.0))
    if hasattr(read, "variance"):
        assert read.variance == pytest.approx(0.02**2 + 0.03**2)
    for limit in (math.inf, -math.inf):
        read = deserialize_message(convert(as_bridged(one_ray(limit)), STAMP_NS), Range)
        assert read.range == limit
    for wrong, words in (
        (one_ray(1.0, 3), "3 rays"),
        (one_ray(1.0, 0), "0 rays"),
        (one_ray(math.nan), "not a number"),
    ):
        with pytest.raises(MessageError, match=words):
            convert(as_bridged(wrong), STAMP_NS)


def odometry(stamp_ns: int, speed_mps: float) -> bytes:
    """Yawed by 90 degrees, so forward is north, and turning at 2 rad/s."""
    message = Odometry(child_frame_id="x500/base_footprint")
    message.pose.pose.orientation.w = message.pose.pose.orientation.z = HALF
    message.pose.pose.position.z = 3.0
    message.twist.twist.linear.x = speed_mps
    message.twist.twist.angular.z = 2.0
    return as_bridged(message, stamp_ns, "x500/odom")


def test_odometry_is_the_truth_in_our_frames():
    convert = gazebo.TruthConversion("quad1/base_link")
    read = deserialize_message(convert(odometry(5, 4.0), STAMP_NS), Odometry)
    assert (read.header.frame_id, read.child_frame_id) == ("map", "quad1/base_link")
    assert stamp_ns_of(read) == STAMP_NS
    assert read.twist.twist.linear.x == pytest.approx(4.0)
    assert convert.record.v_W == pytest.approx([0.0, 4.0, 0.0], abs=1e-15)


def fix(latitude_deg: float = 47.0) -> bytes:
    message = NavSatFix(latitude=latitude_deg, longitude=8.5, altitude=490.0)
    message.status.status = 0
    return as_bridged(message)


class FixBench:
    """A receiver whose antenna is 0.5 m ahead, with the odometry that it waits for."""

    def __init__(self, sigma_mps: float = 0.0) -> None:
        device = SimpleNamespace(
            position_sigma_m=lambda: (1.0, 1.0, 2.0),
            velocity_sigma_mps=lambda: (sigma_mps,) * 3,
            position_B_m=(0.5, 0.0, 0.0),
        )
        self.truth = gazebo.TruthConversion("base_link")
        self.fixes = gazebo.FixConversion("gps_link", device, np.random.default_rng(1))

    def move(self, stamp_ns: int, speed_mps: float):
        self.truth(odometry(stamp_ns, speed_mps), stamp_ns)
        return self.fixes.odometry(self.truth.record)


def velocity_of(payload: bytes) -> list[float]:
    read = deserialize_message(payload, TwistWithCovarianceStamped)
    assert read.header.frame_id == "map"
    linear = read.twist.twist.linear
    return [linear.x, linear.y, linear.z]


def test_a_fix_has_the_antennas_velocity_at_its_stamp():
    """Forward 4 m/s is north; the antenna 0.5 m north of the body moves 1 m/s west as it turns."""
    bench = FixBench()
    assert bench.move(100, 3.0) is None
    assert bench.move(110, 4.0) is None
    ((payload, velocity),) = bench.fixes.fix(fix(), 108)  # an odometry of its time is there
    assert velocity_of(velocity) == pytest.approx([-1.0, 4.0, 0.0], abs=1e-12)
    read = deserialize_message(payload, NavSatFix)
    assert (read.latitude, read.longitude, read.altitude) == (47.0, 8.5, 490.0)
    assert (stamp_ns_of(read), read.header.frame_id) == (108, "gps_link")
    assert list(np.diag(read.position_covariance.reshape(3, 3))) == [1.0, 1.0, 4.0]
    assert read.position_covariance_type == NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN


def test_a_fix_waits_for_an_odometry_of_its_time():
    bench = FixBench()
    bench.move(100, 3.0)
    assert bench.fixes.fix(fix(), 120) == []
    assert bench.move(110, 4.0) is None
    done = bench.move(121, 5.0)
    assert done is not None
    assert velocity_of(done[1]) == pytest.approx([-1.0, 5.0, 0.0], abs=1e-12)
    assert bench.move(130, 6.0) is None
    # no odometry any more: the fix before goes without a velocity
    assert bench.fixes.fix(fix(46.0), 200) == []
    ((late, velocity),) = bench.fixes.fix(fix(45.0), 300)
    assert velocity is None
    assert deserialize_message(late, NavSatFix).latitude == 46.0
    bench.fixes.forget()
    assert bench.move(400, 1.0) is None


def test_the_velocitys_noise_is_the_receivers():
    """Of 1000 samples, deviation and mean lie within 4 deviations of theirs."""
    bench = FixBench(sigma_mps=0.2)
    found = []
    for i in range(1, 1001):
        bench.move(i * 10, 4.0)
        ((_, payload),) = bench.fixes.fix(fix(), i * 10)
        found.append(velocity_of(payload))
    errors = np.array(found) - [-1.0, 4.0, 0.0]
    assert np.std(errors, axis=0) == pytest.approx(0.2, rel=4.0 / math.sqrt(2000.0))
    assert np.mean(errors, axis=0) == pytest.approx(0.0, abs=4.0 * 0.2 / math.sqrt(1000.0))


@pytest.mark.parametrize("latitude_deg", [math.nan, 91.0, math.inf])
def test_no_position_is_refused(latitude_deg):
    with pytest.raises(MessageError, match="no position"):
        FixBench().fixes.fix(fix(latitude_deg), 10)


def test_rotor_speeds_go_out_as_velocities():
    kind = lambda: SimpleNamespace(  # noqa: E731 - a class of actuator_msgs would be called so
        header=SimpleNamespace(stamp=SimpleNamespace(sec=0, nanosec=0)), velocity=[]
    )
    writer = gazebo.ActuatorsWriter(kind)
    message = writer.message(STAMP_NS, [500.0, 501.0, 502.0, 503.0])
    assert message.velocity == [500.0, 501.0, 502.0, 503.0]
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (12, 345_678_901)
    with pytest.raises(MessageError, match="not finite"):
        writer.message(STAMP_NS, [500.0, math.nan])
