"""Conversion at the message border, against hand-built messages and ROS's own serialisation."""

import math

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import (
    AccelStamped,
    PoseStamped,
    TwistStamped,
    TwistWithCovarianceStamped,
    WrenchStamped,
)
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import Imu, JointState, NavSatFix, NavSatStatus, Range
from trajectory_msgs.msg import MultiDOFJointTrajectory

from quadsim.base.compiled import new_record
from quadsim.base.parameters import new
from quadsim.base.records import ATTITUDE_COMMAND, KINEMATICS, ODOMETRY, SETPOINT
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import from_euler, to_matrix
from quadsim.mission.items import name_of
from quadsim.ros.messages import commands as command_messages
from quadsim.ros.messages import conversion, transforms
from quadsim.ros.messages.cdr import MessageError, Reader, RotorsReader, rotor_names, stamp_of
from quadsim.ros.messages.missions import mission_of
from quadsim.sensors.gnss import GnssSample
from quadsim.sensors.imu import ImuSample
from quadsim.sensors.rangefinder import RangefinderParams, RangefinderSample
from quadsim.wire import samples
from quadsim.wire.encode import attitude_template, joint_template

HALF = math.sqrt(0.5)
STAMP_NS = 12_345_678_901
#: Yawed by 90 degrees: body x points north, body y west.
NORTH = (HALF, 0.0, 0.0, HALF)


def moving_north(dtype):
    record = new_record(dtype)
    record.stamp_ns = STAMP_NS
    record.p_W[:] = 1.0, 2.0, 3.0
    record.v_W[:] = 0.0, 5.0, -1.0
    record.q_WB[:] = NORTH
    record.w_B[:] = 0.1, 0.2, 0.3
    return record


def truth_message() -> Odometry:
    """The same by hand: north is the body's forward."""
    message = Odometry(child_frame_id="quad1/base_link")
    message.header.frame_id = "map"
    message.header.stamp.sec, message.header.stamp.nanosec = 12, 345_678_901
    position, orientation = message.pose.pose.position, message.pose.pose.orientation
    position.x, position.y, position.z = 1.0, 2.0, 3.0
    orientation.w, orientation.z = HALF, HALF
    linear, angular = message.twist.twist.linear, message.twist.twist.angular
    linear.x, linear.y, linear.z = 5.0, 0.0, -1.0
    angular.x, angular.y, angular.z = 0.1, 0.2, 0.3
    return message


def vector(part) -> list[float]:
    return [part.x, part.y, part.z]


def test_truth_is_the_message_built_by_hand():
    writer = conversion.OdometryWriter("map", "quad1/base_link", moving_north(KINEMATICS))
    message = deserialize_message(writer.payload(), Odometry)
    by_hand = truth_message()
    assert message.header == by_hand.header
    assert message.child_frame_id == by_hand.child_frame_id
    assert message.pose.pose.orientation == by_hand.pose.pose.orientation
    assert vector(message.pose.pose.position) == [1.0, 2.0, 3.0]
    # one rotation in double precision: 1e-15 of 5 m/s
    assert vector(message.twist.twist.linear) == pytest.approx([5.0, 0.0, -1.0], abs=1e-14)
    assert vector(message.twist.twist.angular) == [0.1, 0.2, 0.3]
    assert not np.any(message.pose.covariance)


def test_odometry_is_read_into_world_axes():
    payload = serialize_message(truth_message())
    record = new_record(ODOMETRY)
    reader = conversion.OdometryReader(record)
    reader.read(payload)
    wanted = moving_north(ODOMETRY)
    assert reader.frames == ["map", "quad1/base_link"]
    assert record.stamp_ns == STAMP_NS == stamp_of(payload)
    for name in ("p_W", "v_W", "q_WB", "w_B"):
        np.testing.assert_allclose(record[name], wanted[name], atol=1e-14)


def test_variances_of_the_velocity_turn_with_the_body():
    message = truth_message()
    message.pose.covariance = np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).ravel()
    twist = np.diag([7.0, 8.0, 9.0, 0.0, 0.0, 0.0])
    twist[0, 1] = twist[1, 0] = 1.0
    message.twist.covariance = twist.ravel()
    payload = serialize_message(message)
    record = moving_north(ODOMETRY)
    record.q_WB[:] = math.cos(math.pi / 8), 0.0, 0.0, math.sin(math.pi / 8)  # yawed by 45 degrees
    conversion.read_variances(Reader("nav_msgs/msg/Odometry").read(payload), record)
    assert list(record.p_variance) == [1.0, 2.0, 3.0]
    assert list(record.attitude_variance) == [4.0, 5.0, 6.0]
    # east is (forward - left) / sqrt(2), north (forward + left) / sqrt(2): (7 + 8 -+ 2) / 2
    np.testing.assert_allclose(record.v_variance, [6.5, 8.5, 9.0], rtol=1e-14)


def test_estimate_carries_its_covariances():
    pose, twist = np.arange(36.0).reshape(6, 6), np.arange(36.0, 72.0).reshape(6, 6)
    writer = conversion.OdometryWriter("map", "base_link", moving_north(ODOMETRY))
    message = deserialize_message(writer.estimate(pose, twist), Odometry)
    assert list(message.pose.covariance) == list(range(36))
    assert list(message.twist.covariance) == list(range(36, 72))


def test_acceleration_is_in_body_axes_both_ways():
    record = moving_north(KINEMATICS)
    record.a_W[:] = 0.0, 2.0, 9.0  # northwards: forward
    record.w_dot_B[:] = 4.0, 5.0, 6.0
    payload = conversion.AccelWriter("base_link", record).payload()
    message = deserialize_message(payload, AccelStamped)
    assert vector(message.accel.linear) == pytest.approx([2.0, 0.0, 9.0], abs=1e-14)
    assert vector(message.accel.angular) == [4.0, 5.0, 6.0]
    back = moving_north(KINEMATICS)
    conversion.read_accel(Reader("geometry_msgs/msg/AccelStamped").read(payload), back)
    np.testing.assert_allclose(back.a_W, record.a_W, atol=1e-14)


def test_imu_has_no_orientation_and_its_devices_variances():
    sample = new(ImuSample)
    sample.stamp_ns = STAMP_NS
    sample.f_S[:] = 0.1, 0.2, 9.8
    sample.w_S[:] = 1.0, 2.0, 3.0
    payload = samples.imu_messages("imu_link", (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)).payload(sample)
    message = deserialize_message(payload, Imu)
    assert message.orientation_covariance[0] == -1.0
    assert vector(message.linear_acceleration) == [0.1, 0.2, 9.8]
    assert vector(message.angular_velocity) == [1.0, 2.0, 3.0]
    assert np.array_equal(
        np.reshape(message.linear_acceleration_covariance, (3, 3)), np.diag([1.0, 2.0, 3.0])
    )
    assert np.array_equal(
        np.reshape(message.angular_velocity_covariance, (3, 3)), np.diag([4.0, 5.0, 6.0])
    )
    view = Reader("sensor_msgs/msg/Imu").read(payload)
    assert list(view["f"]) == [0.1, 0.2, 9.8]


def test_fix_is_geodetic_and_velocity_says_that_it_has_no_rate():
    datum = Datum(47.0, 8.0, 500.0)
    sample = new(GnssSample)
    sample.stamp_ns = STAMP_NS
    sample.p_W[:] = 0.0, 0.0, 7.0
    sample.v_W[:] = 1.0, 2.0, 3.0
    sample.p_variance[:] = 1.0, 1.0, 4.0
    sample.v_variance[:] = 0.01, 0.04, 0.09
    writer = samples.fix_messages("gps_link", datum)
    fix = deserialize_message(writer.payload(sample), NavSatFix)
    assert fix.status.status == NavSatStatus.STATUS_FIX
    # a degree is 1e5 m: 1e-12 degree is 0.1 micrometre
    assert fix.latitude == pytest.approx(47.0, abs=1e-11)
    assert fix.longitude == pytest.approx(8.0, abs=1e-11)
    assert fix.altitude == pytest.approx(507.0, abs=1e-6)
    assert list(fix.position_covariance) == [1, 0, 0, 0, 1, 0, 0, 0, 4]
    assert fix.position_covariance_type == NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN
    velocity = deserialize_message(
        samples.velocity_messages().payload(sample), TwistWithCovarianceStamped
    )
    assert vector(velocity.twist.twist.linear) == [1.0, 2.0, 3.0]
    covariance = np.reshape(velocity.twist.covariance, (6, 6))
    np.testing.assert_allclose(np.diag(covariance), [0.01, 0.04, 0.09, -1.0, 0.0, 0.0])
    sample.values[:] = math.nan
    assert not samples.has_fix(sample)
    lost = deserialize_message(writer.payload(sample), NavSatFix)
    assert lost.status.status == NavSatStatus.STATUS_NO_FIX
    assert math.isnan(lost.latitude)


@pytest.mark.parametrize("reading", [2.5, math.inf, -math.inf])
def test_range_is_in_its_own_message(reading):
    sample = new(RangefinderSample)
    sample.stamp_ns = STAMP_NS
    sample.range_m, sample.variance_m2 = reading, 0.25
    params = RangefinderParams(field_of_view_deg=45.0, radiation="ultrasound")
    payload = samples.range_messages("range_link", params).payload(sample)
    message = deserialize_message(payload, Range)
    assert message.range == reading
    assert message.field_of_view == pytest.approx(math.pi / 4, rel=1e-7)  # a float32
    assert (message.min_range, message.max_range) == (pytest.approx(0.1), 8.0)
    assert message.variance == 0.25
    assert message.radiation_type == Range.ULTRASOUND


def test_reference_is_a_pose_with_the_setpoints_yaw():
    setpoint = new_record(SETPOINT)
    setpoint.p_W[:] = 4.0, 5.0, 6.0
    setpoint.yaw = math.pi / 2
    message = deserialize_message(samples.reference_messages().payload(setpoint, 0), PoseStamped)
    assert vector(message.pose.position) == [4.0, 5.0, 6.0]
    assert (message.pose.orientation.z, message.pose.orientation.w) == pytest.approx((HALF, HALF))


@pytest.mark.parametrize("with_current", [False, True])
@pytest.mark.parametrize("rotors", [4, 6])
def test_readers_without_ros_read_rotor_messages(rotors, with_current):
    """Rosbags' own reader of the format takes not a byte more than the type has."""
    template = joint_template(rotor_names(rotors), with_current)
    payload = template.payload(7_000_000_003, speeds=100.0 + np.arange(rotors))
    typestore = get_typestore(Stores.ROS2_JAZZY)
    message = typestore.deserialize_cdr(payload, "sensor_msgs/msg/JointState")
    assert message.velocity.tolist() == [100.0 + i for i in range(rotors)]
    assert len(message.effort) == (rotors if with_current else 0)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (7, 3)


def test_rotor_speeds_survive_both_ways_and_any_order_of_names():
    template = joint_template(rotor_names(4), with_current=True)
    payload = template.payload(STAMP_NS, speeds=(1.0, 2.0, 3.0, 4.0), currents=(5.0, 6.0, 7.0, 8.0))
    message = deserialize_message(payload, JointState)
    assert list(message.name) == ["rotor_0", "rotor_1", "rotor_2", "rotor_3"]
    assert list(message.velocity) == [1.0, 2.0, 3.0, 4.0]
    assert list(message.effort) == [5.0, 6.0, 7.0, 8.0]
    assert stamp_of(payload) == STAMP_NS
    reader = RotorsReader(4)
    assert list(reader.read(payload)) == [1.0, 2.0, 3.0, 4.0]
    message.name = list(reversed(message.name))
    assert list(reader.read(serialize_message(message))) == [4.0, 3.0, 2.0, 1.0]
    assert list(reader.read(payload)) == [1.0, 2.0, 3.0, 4.0]
    message.header.frame_id, message.position = "some frame", [0.5] * 4
    message.name = list(reversed(message.name))
    assert list(reader.read(serialize_message(message))) == [1.0, 2.0, 3.0, 4.0]
    message.name = message.name[:3]
    with pytest.raises(MessageError, match="rotor_3"):
        reader.read(serialize_message(message))


def test_a_helicopters_command_goes_by_the_names_of_its_stick():
    names = ("roll_rate", "pitch_rate", "yaw_rate", "throttle")
    payload = joint_template(names).payload(STAMP_NS, speeds=(0.1, -0.2, 0.3, 0.6))
    assert tuple(deserialize_message(payload, JointState).name) == names
    assert list(RotorsReader(4, names).read(payload)) == [0.1, -0.2, 0.3, 0.6]
    with pytest.raises(MessageError, match="no velocity of rotor_0"):
        RotorsReader(4).read(payload)


def test_another_frame_name_moves_the_numbers_and_is_followed():
    reader = Reader("nav_msgs/msg/Odometry")
    message = truth_message()
    for frame in ("map", "odom", "world"):
        message.header.frame_id = frame
        view = reader.read(serialize_message(message))
        assert list(view["p"]) == [1.0, 2.0, 3.0]
        assert reader.frames[0] == frame


@pytest.mark.parametrize("part", ["position", "orientation", "linear", "angular"])
def test_a_nan_is_stopped_at_the_border(part):
    message = truth_message()
    target = {
        "position": message.pose.pose.position,
        "orientation": message.pose.pose.orientation,
        "linear": message.twist.twist.linear,
        "angular": message.twist.twist.angular,
    }[part]
    target.y = math.nan
    payload = serialize_message(message)
    with pytest.raises(MessageError):
        conversion.OdometryReader(new_record(ODOMETRY)).read(payload)


def test_bytes_of_another_message_are_refused():
    with pytest.raises(MessageError, match="Odometry"):
        Reader("nav_msgs/msg/Odometry").read(serialize_message(PoseStamped()))
    message = truth_message()
    message.pose.pose.orientation.w = message.pose.pose.orientation.z = 0.0
    payload = serialize_message(message)
    with pytest.raises(MessageError, match="length 0"):
        conversion.OdometryReader(new_record(ODOMETRY)).read(payload)


def test_attitude_command_says_what_the_record_says_both_ways():
    record = new_record(ATTITUDE_COMMAND)
    record.q_WB[:] = 0.5, 0.5, -0.5, 0.5
    record.yaw_rate, record.thrust, record.stamp_ns = 0.3, 9.9, STAMP_NS
    messages = samples.SampleMessages(attitude_template("base_link"), samples.attitude_numbers)
    message = deserialize_message(messages.payload(record), MultiDOFJointTrajectory)
    assert (message.header.frame_id, list(message.joint_names)) == ("base_link", ["base_link"])
    (point,) = message.points
    q = point.transforms[0].rotation
    assert (q.w, q.x, q.y, q.z) == (0.5, 0.5, -0.5, 0.5)
    assert point.velocities[0].angular.z == 0.3
    assert point.accelerations[0].linear.z == 9.9
    back = new_record(ATTITUDE_COMMAND)
    command_messages.read_attitude_command(message, back)
    assert back == record
    point.accelerations[0].linear.z = math.nan
    with pytest.raises(MessageError, match="thrust"):
        command_messages.read_attitude_command(message, back)
    message.points = []
    with pytest.raises(MessageError, match="one point"):
        command_messages.read_attitude_command(message, back)


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        ("map", (1.0, 2.0, 3.0)),
        ("base_link", (-2.0, 1.0, 3.0)),
        ("quad2/base_link", (-2.0, 1.0, 3.0)),
    ],
)
def test_velocity_command_is_turned_by_the_heading_alone(frame, wanted):
    message = TwistStamped()
    message.header.frame_id = frame
    linear = message.twist.linear
    linear.x, linear.y, linear.z = 1.0, 2.0, 3.0
    message.twist.angular.z = 0.4
    # nose north and rolled: level axes take no part in the roll
    q_WB = from_euler(0.5, 0.0, math.pi / 2)
    v_W, yaw_rate = command_messages.read_velocity_command(serialize_message(message), q_WB)
    assert v_W == pytest.approx(wanted)
    assert yaw_rate == 0.4


def test_wrench_is_force_in_the_world_and_torque_in_the_body():
    message = WrenchStamped()
    message.wrench.force.x, message.wrench.torque.x = 1.0, 2.0
    message.header.frame_id = "base_link"  # forward is north
    assert command_messages.wrench_of(message, NORTH) == (
        pytest.approx((0.0, 1.0, 0.0)),
        (2.0, 0.0, 0.0),
    )
    message.header.frame_id = "map"  # east is the body's right
    force, torque = command_messages.wrench_of(message, NORTH)
    assert force == (1.0, 0.0, 0.0)
    assert torque == pytest.approx((0.0, -2.0, 0.0))
    message.header.frame_id = "elsewhere"
    with pytest.raises(MessageError, match="elsewhere"):
        command_messages.wrench_of(message, NORTH)
    message.header.frame_id = "map"
    for axis in (message.wrench.force, message.wrench.torque):
        axis.z = 1e308  # finite, but no physics goes on with it
        with pytest.raises(MessageError, match="at most 1e\\+06"):
            command_messages.wrench_of(message, NORTH)
        axis.z = 0.0


def test_a_path_is_a_mission_with_take_off_and_landing():
    path = command_messages.make_path([(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)])
    path.poses[1].pose.orientation.w = path.poses[1].pose.orientation.z = HALF
    items = mission_of(serialize_message(path))
    assert [name_of(item) for item in items] == ["takeoff", "goto", "goto", "land"]
    assert items[2].position_W_m == (4.0, 5.0, 6.0)
    assert items[2].yaw_deg == pytest.approx(90.0)
    path.header.frame_id = "odom"
    with pytest.raises(MessageError, match="odom"):
        mission_of(serialize_message(path))


def test_map_to_odom_takes_inertial_navigation_to_the_filter():
    """T_map_odom T_odom_body = T_map_body, by matrices."""
    filtered, blind = new_record(ODOMETRY), new_record(ODOMETRY)
    filtered.p_W[:], filtered.q_WB[:] = (1.0, 2.0, 3.0), from_euler(0.1, -0.2, 2.0)
    blind.p_W[:], blind.q_WB[:] = (-4.0, 0.5, 2.0), from_euler(-0.3, 0.4, -1.0)
    p, q = transforms.map_to_odom(filtered, blind)

    def matrix(p, q):
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = np.array(to_matrix(tuple(q))), p
        return T

    np.testing.assert_allclose(
        matrix(p, q) @ matrix(blind.p_W, blind.q_WB),
        matrix(filtered.p_W, filtered.q_WB),
        atol=1e-14,
    )
