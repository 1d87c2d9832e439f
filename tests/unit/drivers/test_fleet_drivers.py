"""What of drivers is one vehicle's where there are several, and setpoints on their way out."""

import math
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("rclpy")

from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message

from quadsim.drivers import bodies
from quadsim.drivers.driver import load_driver
from quadsim.geometry.rotation import from_euler
from quadsim.hil.guard.gate import CommandGateParams, Gate
from quadsim.hil.guard.setpoints import ThrustSetpoint
from quadsim.ros.drivers import outputs as module
from quadsim.ros.drivers.inputs import DriverPlace, find_source, origin_shift
from quadsim.ros.drivers.outputs import FlightParameters, Outputs
from quadsim.ros.messages.setpoint_messages import make_setpoint

TRACKING = "motion_capture_tracking_interfaces/msg/NamedPoseArray"


def named_poses(*names):
    """A NamedPoseArray of bodies at (1, 0, 0), (2, 0, 0), ..."""
    types = bodies.body_types()
    of = {name.rpartition("/")[2]: kind for name, kind in types.types.items()}
    stamp = of["Time"](sec=3, nanosec=0)
    turn = of["Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0)
    poses = [
        of["NamedPose"](
            name=name,
            pose=of["Pose"](position=of["Point"](x=k + 1.0, y=0.0, z=0.0), orientation=turn),
        )
        for k, name in enumerate(names)
    ]
    header = of["Header"](stamp=stamp, frame_id="map")
    message = of["NamedPoseArray"](header=header, poses=poses)
    return bytes(types.serialize_cdr(message, TRACKING))


def test_of_several_vehicles_a_body_is_one_by_its_name_alone():
    """The only body that is seen is another vehicle, while one's own is hidden."""
    payload = named_poses("cf5")
    assert bodies.pose_of(TRACKING, payload, "cf231") is not None  # alone, it must be this one
    assert bodies.pose_of(TRACKING, payload, "cf231", alone=False) is None
    assert bodies.pose_of(TRACKING, payload, "cf5", alone=False) is not None
    assert bodies.pose_of(TRACKING, named_poses("a", "b"), "cf5", alone=False) is None


def test_of_several_vehicles_a_driver_is_known_by_its_own_namespace():
    place = DriverPlace("/quad2", "/cf5", alone=False)
    assert place.name == "cf5"
    assert DriverPlace("/quad2", "", alone=False).name == "quad2"
    assert DriverPlace("/quad", "/uav1", alone=True).name == "quad"
    driver = load_driver("mocap")
    known = [topic for topic in driver.topics if topic.ours == "external/pose_stamped"]
    kind = "geometry_msgs/msg/PoseStamped"
    there = {f"/vrpn_mocap/{name}/pose": [kind] for name in ("cf231", "cf5")}
    found = find_source(driver, known, there, place, [])
    assert found is not None
    assert found.full == "/vrpn_mocap/cf5/pose"
    found = find_source(driver, known, {"/poses": [TRACKING]}, place, [])
    assert found is not None
    assert found.full == "/poses"  # it is everybody's


def test_an_odometry_is_shifted_and_nothing_else_of_it():
    message = Odometry(child_frame_id="base_link")
    message.header.frame_id, message.header.stamp.sec = "map", 7
    message.pose.pose.position.x, message.pose.pose.position.z = 1.5, 2.0
    message.twist.twist.linear.y = 0.3
    payload = bytes(serialize_message(message))
    got = deserialize_message(
        origin_shift("nav_msgs/msg/Odometry", (3.0, -1.0, 0.25))(payload), Odometry
    )
    assert (got.pose.pose.position.x, got.pose.pose.position.y) == (4.5, -1.0)
    assert got.pose.pose.position.z == 2.25
    message.pose.pose.position = got.pose.pose.position
    assert got == message


@pytest.fixture
def outputs(monkeypatch):
    """The driver's way out, with an outlet that keeps what goes there."""
    monkeypatch.setattr(module, "publishers_of", lambda *_: ["/quad/guard"])
    made = object.__new__(Outputs)
    made._node = MagicMock()
    made.gate = Gate(CommandGateParams(), "/quad/guard")
    made.sent, made._passed = 0, (0, 0)
    (command,) = load_driver("mavros").commands_of("command_attitude/safe")
    axes = {name: SimpleNamespace(x=0.0, y=0.0, z=0.0, w=0.0) for name in "qw"}
    header = SimpleNamespace(stamp=None, frame_id="")
    message = SimpleNamespace(
        header=header, type_mask=0, orientation=axes["q"], body_rate=axes["w"], thrust=0.0
    )
    outlet = MagicMock(entry=command, message=message)
    made._outlets = {"command_attitude/safe": [outlet]}
    return made, outlet


def test_an_attitude_of_the_guard_goes_out_to_the_driver(outputs):
    made, outlet = outputs
    q_WB = from_euler(0.1, 0.0, 0.4)
    made._on_setpoint(
        "attitude", make_setpoint(ThrustSetpoint("attitude", q_WB, (0, 0, 0.2), 10.0), 5)
    )
    assert made.sent == 1
    outlet.publish.assert_called_once()
    told = outlet.message
    got = np.array([getattr(told.orientation, axis) for axis in "wxyz"])
    np.testing.assert_allclose(got, q_WB)
    assert told.thrust == pytest.approx(0.5 * 10.0 / 9.80665)
    assert told.body_rate.z == 0.2


@pytest.mark.parametrize("thrust", [3.0, 20.0, float("nan")])
def test_what_goes_beyond_the_guards_file_does_not(outputs, thrust):
    made, outlet = outputs
    level = ThrustSetpoint("attitude", (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0), thrust)
    made._on_setpoint("attitude", make_setpoint(level, 5))
    assert made.sent == 0
    outlet.publish.assert_not_called()
    assert made.gate.refused


@pytest.mark.parametrize(
    ("sent", "value", "level", "words"),
    [
        ((), 0.0, 0, ""),  # no attitude goes out
        (("command_rates/safe",), 0.0, 2, "GUID_OPTIONS of the flight controller is 0; allowed: w"),
        (("command_rates/safe",), 12.0, 0, ""),
        (("command_rates/safe",), math.inf, 2, "GUID_OPTIONS of the flight controller is inf"),
        (("command_attitude/safe",), math.nan, 1, "see that it is with the bits 8"),
    ],
)
def test_a_thrust_needs_the_bit_that_makes_it_one(sent, value, level, words):
    driver = load_driver("mavros_ardupilot")
    made = FlightParameters(MagicMock(), [driver], lambda driver, name: name, sent)
    made._values |= {"GUID_TIMEOUT": 0.5, "GUID_OPTIONS": value}
    found, said = made.judge()
    assert found == level
    assert words in said
