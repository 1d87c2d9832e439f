"""Crazyswarm2's requests and setpoints, by its definitions (IMRCLab/crazyswarm2 at f6154e2)."""

import math
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point, Pose, Twist, Vector3
from std_msgs.msg import Header

from quadsim.control.parameters import FlightParams
from quadsim.mission.flight.flight import FlightManager
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.nodes.swarm import make
from quadsim.ros.runtime.runtime import run
from quadsim.ros.swarm import crazyswarm as module

ROWS = "".join(f"float32[] poly_{axis}\n" for axis in ("x", "y", "z", "yaw"))
DEFINITIONS = {
    "srv/Takeoff": "uint8 group_mask\nfloat32 height\nDuration duration",
    "srv/Land": "uint8 group_mask\nfloat32 height\nDuration duration",
    "srv/GoTo": "uint8 group_mask\nbool relative\nPoint goal\nfloat32 yaw\nDuration duration",
    "srv/StartTrajectory": "uint8 group_mask\nuint8 trajectory_id\nfloat32 timescale\n"
    "bool reversed\nbool relative",
    "srv/UploadTrajectory": "uint8 trajectory_id\nuint32 piece_offset\nPiece[] pieces",
    "srv/NotifySetpointsStop": "uint8 group_mask\nuint32 remain_valid_millisecs",
    "srv/SetGroupMask": "uint8 group_mask",
    "srv/Arm": "bool arm",
    "msg/FullState": "Header header\nPose pose\nTwist twist\nVector3 acc",
    "msg/Hover": "Header header\nfloat32 vx\nfloat32 vy\nfloat32 yaw_rate\nfloat32 z_distance",
    "msg/Position": "Header header\nfloat32 x\nfloat32 y\nfloat32 z\nfloat32 yaw",
    "msg/VelocityWorld": "Header header\nVector3 vel\nfloat32 yaw_rate",
    "msg/Status": "Header header\nuint16 supervisor_info\nfloat32 battery_voltage\nuint8 pm_state",
    "msg/Piece": ROWS + "Duration duration",
}
STANDARD = {
    kind.__name__: kind for kind in (Duration, Point, Pose, Twist, Vector3, Header)
}  # fmt: skip
ZERO = (0.0, 0.0, 0.0)


def made(name, **values):
    """A message as rosidl makes it: every field of the definition, and no other."""
    fields = dict(line.split()[::-1] for line in DEFINITIONS[name].splitlines())
    message = SimpleNamespace(
        **{
            field: STANDARD[kind]() if kind in STANDARD else [] if "[]" in kind else 0
            for field, kind in fields.items()
        }
    )
    for field, value in values.items():
        assert field in fields
        setattr(message, field, value)
    return message


class Asked:
    """Keeps what a commander is asked, as floats."""

    def __getattr__(self, name):
        return lambda *arguments: (name, *arguments)


def ask(service, **values):
    type_name, answer = module.SERVICES[service]
    return answer(Asked(), made(type_name.removeprefix("crazyflie_interfaces/"), **values))


def send(topic, mass_kg=0.04, **values):
    type_name, answer = module.SETPOINTS[topic]
    if topic == "cmd_vel_legacy":
        return answer(Asked(), Twist(**values), mass_kg)
    return answer(Asked(), made(type_name.removeprefix("crazyflie_interfaces/"), **values), mass_kg)


def test_requests():
    half = Duration(sec=2, nanosec=500_000_000)
    assert ask("takeoff", height=1.0, duration=half) == ("take_off", 1.0, 2.5)
    assert ask("land", height=0.04, duration=half) == ("land", 0.04, 2.5)
    goal = Point(x=1.0, y=2.0, z=3.0)
    asked = ask("go_to", goal=goal, yaw=0.5, duration=half, relative=True)
    assert asked == ("go_to", (1.0, 2.0, 3.0), 0.5, 2.5, True)  # radians, whatever GoTo.srv says
    asked = ask("start_trajectory", trajectory_id=3, timescale=2.0, reversed=True, relative=False)
    assert asked == ("start_trajectory", 3, 2.0, True, False)
    assert ask("arm", arm=True) == ("arm", True)
    assert ask("notify_setpoints_stop", remain_valid_millisecs=100) == ("stop_setpoints",)
    row = [float(k) for k in range(8)]
    piece = made("msg/Piece", poly_x=row, poly_y=row, poly_z=row, poly_yaw=row, duration=half)
    _, number, offset, (kept,) = ask("upload_trajectory", trajectory_id=1, pieces=[piece])
    assert (number, offset, kept) == (1, 0, (2.5, (tuple(row),) * 4))


def test_setpoints():
    turned = Pose()
    turned.orientation.w = turned.orientation.z = math.sqrt(0.5)
    turned.position.x = 4.0
    twist = Twist()
    twist.linear.y, twist.angular.z = 5.0, 0.7
    name, *motion, yaw, rate = send(
        "cmd_full_state", pose=turned, twist=twist, acc=Vector3(z=6.0)
    )  # fmt: skip
    assert (name, motion) == ("full_state", [(4.0, 0.0, 0.0), (0.0, 5.0, 0.0), (0.0, 0.0, 6.0)])
    assert (yaw, rate) == pytest.approx((math.pi / 2, 0.7))
    asked = send("cmd_position", x=1.0, y=2.0, z=3.0, yaw=90.0)  # degrees, as the firmware
    assert asked == ("full_state", (1.0, 2.0, 3.0), ZERO, ZERO, math.pi / 2, 0.0)
    asked = send("cmd_hover", vx=1.0, vy=2.0, z_distance=0.5, yaw_rate=0.3)
    assert asked == ("hover", (1.0, 2.0, 0.0), 0.5, 0.3)
    asked = send("cmd_velocity_world", vel=Vector3(x=1.0), yaw_rate=90.0)  # clockwise
    assert asked == ("velocity", (1.0, 0.0, 0.0), -math.pi / 2)


@pytest.mark.parametrize(
    ("thrust", "newton"), [(0.0, 0.0), (999.0, 0.0), (32767.5, 0.24), (6e4, 0.4395), (1e9, 0.4395)]
)
def test_legacy_setpoints_are_degrees_and_thrust(thrust, newton):
    twist = {"linear": Vector3(x=10.0, y=20.0, z=thrust), "angular": Vector3(z=90.0)}
    name, roll, pitch, rate, specific = send("cmd_vel_legacy", mass_kg=0.04, **twist)
    assert name == "attitude"
    expected = (math.radians(20.0), math.radians(10.0), -math.pi / 2)
    assert (roll, pitch, rate) == pytest.approx(expected)
    assert specific == pytest.approx(newton / 0.04, rel=1e-3)


def test_what_cannot_be_is_refused():
    with pytest.raises(MessageError, match="not finite"):
        send("cmd_vel_legacy", linear=Vector3(z=math.nan))
    with pytest.raises(MessageError):
        send("cmd_full_state", pose=Pose(orientation=Pose().orientation.__class__(w=0.0)))


def test_status():
    manager = FlightManager(FlightParams(), ())
    status = module.put_status(made("msg/Status"), manager, crashed=False)
    assert (status.supervisor_info, status.pm_state) == (0, module.ON_BATTERY)  # no estimate yet
    manager.take_battery(0, 0.1, 3.5)
    manager.commander.emergency()
    status = module.put_status(made("msg/Status"), manager, crashed=True)
    assert status.supervisor_info == module.IS_TUMBLED | module.IS_LOCKED
    assert (status.battery_voltage, status.pm_state) == (3.5, module.LOW_POWER)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("offer", "crazyswarm2", "install ros-$ROS_DISTRO-crazyflie-interfaces"),
        ("offer", "something", "'something' is not known; allowed: one of none, crazyswarm2"),
        ("crazyflies", "nowhere.yaml", "nowhere.yaml: cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(monkeypatch, capfd, name, value, words):
    monkeypatch.setitem(sys.modules, "crazyflie_interfaces", None)
    given = ["--ros-args", "-p", "scenario:=crazyswarm", "-p", f"{name}:={value}"]
    assert run([make], given, domain=100) == 2
    lines = capfd.readouterr().err.splitlines()
    (line,) = (one for one in lines if "tf2_msgs is not installed" not in one)
    assert words in line
