"""gazebo_view on real DDS; Gazebo's services, whose packages the wheels lack, stand in."""

import os
import sys
from array import array
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Pose
from nav_msgs.msg import Odometry
from rclpy.task import Future
from sensor_msgs.msg import CameraInfo, Image, LaserScan

from quadsim.base.errors import InputError
from quadsim.ros.nodes import gazebo_view
from quadsim.ros.runtime import qos

SECOND_NS = 10**9


class SetEntityPose:
    """Of ros_gz_interfaces, as its .srv says."""

    class Request:
        def __init__(self):
            self.entity = SimpleNamespace(id=0, name="", type=0)
            self.pose = Pose()


class SetEntityState:
    """Of simulation_interfaces."""

    class Request:
        def __init__(self):
            self.entity = ""
            self.state = SimpleNamespace(pose=Pose())


def answers(success: bool) -> dict[type, SimpleNamespace]:
    """What each service says."""
    return {
        SetEntityPose: SimpleNamespace(success=success),
        SetEntityState: SimpleNamespace(
            result=SimpleNamespace(result=1 if success else 3, error_message="it is not there")
        ),
    }


class Service:
    """The client's side of a service that answers when it is told to."""

    def __init__(self, kind, name):
        self.kind, self.name, self.is_there = kind, name, True
        self.asked: list[tuple] = []
        self.forgotten: list[Future] = []
        self.remove_pending_request = self.forgotten.append

    def service_is_ready(self):
        return self.is_there

    def call_async(self, request):
        self.asked.append((request, Future()))
        return self.asked[-1][1]

    def answer(self, success=True):
        self.asked[-1][1].set_result(answers(success)[self.kind])


@pytest.fixture
def services(monkeypatch):
    """Both packages are installed; services by their names."""
    found: dict[str, Service] = {}
    for package, kind in (
        ("ros_gz_interfaces", SetEntityPose),
        ("simulation_interfaces", SetEntityState),
    ):
        module = ModuleType(f"{package}.srv")
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
        monkeypatch.setitem(sys.modules, f"{package}.srv", module)

    def create_client(_, kind, name):
        return found.setdefault(name, Service(kind, name))

    monkeypatch.setattr(gazebo_view.GazeboViewNode, "create_client", create_client)
    return found


def stamped(message, stamp_ns: int, frame: str = "map"):
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
    message.header.frame_id = frame
    return message


def at(stamp_ns: int, x_m: float) -> Odometry:
    message = stamped(Odometry(child_frame_id="base_link"), stamp_ns)
    message.pose.pose.position.x = x_m
    orientation = message.pose.pose.orientation
    orientation.w, orientation.z = 0.0, 1.0  # it looks west
    return message


def stamp_ns_of(message) -> int:
    return message.header.stamp.sec * SECOND_NS + message.header.stamp.nanosec


def test_the_model_follows_and_what_it_sees_has_the_stamp_of_its_pose(bench, services, monkeypatch):
    monkeypatch.setattr(gazebo_view, "TIMEOUT_S", 60.0)  # the answers are ours
    given = {"world": "hall", "lent": ["scan", "camera"], "service": "set_pose"}
    node = gazebo_view.make(bench.context, namespace="/quad2", overrides=given)
    bench.add(node)
    seen: dict[str, list] = {"scan": [], "image": [], "info": []}

    def listen(kind, topic, name):
        bench.node.create_subscription(kind, f"/quad2/{topic}", seen[name].append, qos.RELIABLE)
        return name

    listen(LaserScan, "scan", "scan")
    listen(Image, "camera/image_raw", "image")
    listen(CameraInfo, "camera/camera_info", "info")
    truth = bench.node.create_publisher(Odometry, "/quad2/ground_truth/odom", qos.FAST)
    gazebo = {
        kind: bench.node.create_publisher(kind, f"/quad2/gazebo/{name}", qos.RELIABLE)
        for kind, name in ((LaserScan, "scan"), (Image, "image"), (CameraInfo, "camera_info"))
    }
    bench.until(
        lambda: (
            all(p.get_subscription_count() for p in (truth, *gazebo.values()))
            and node.count_subscribers("/quad2/scan") == 1
            and node.count_subscribers("/quad2/camera/image_raw") == 1
            and node.count_subscribers("/quad2/camera/camera_info") == 1
        )
    )
    service = services["/world/hall/set_pose"]
    gazebo[LaserScan].publish(stamped(LaserScan(range_max=1.0), 7, "x"))  # from no pose at all
    truth.publish(at(5 * SECOND_NS, 3.0))
    bench.until(lambda: len(service.asked) == 1)
    request, _ = service.asked[0]
    assert (request.entity.name, request.entity.type) == ("quad2", 2)
    assert (request.pose.position.x, request.pose.orientation.z) == (3.0, 1.0)
    # no second request before the answer; the newest pose goes then
    for stamp_ns, x_m in ((6 * SECOND_NS, 4.0), (7 * SECOND_NS, 5.0)):
        truth.publish(at(stamp_ns, x_m))
    bench.until(lambda: node._newest is not None and stamp_ns_of_bytes(node._newest) == 7)
    assert len(service.asked) == 1
    service.answer()
    bench.until(lambda: len(service.asked) == 2)
    assert service.asked[1][0].pose.position.x == 5.0
    # Gazebo's clock is its own: 900 s. The model is shown at 5 s, for all that Gazebo has answered
    scan = LaserScan(range_max=30.0, ranges=array("f", [1.0, 2.0]))
    gazebo[LaserScan].publish(stamped(scan, 900 * SECOND_NS, "quad2/base_link/lidar"))
    bench.until(lambda: len(seen["scan"]) == 1)
    assert stamp_ns_of(seen["scan"][0]) == 5 * SECOND_NS
    assert seen["scan"][0].header.frame_id == "quad2/lidar_link"
    assert list(seen["scan"][0].ranges) == [1.0, 2.0]
    service.answer()
    bench.until(lambda: node._mover.shown_ns == 7 * SECOND_NS)
    # an image and its camera's message of one time of Gazebo have one stamp
    gazebo[CameraInfo].publish(stamped(CameraInfo(width=3, height=1), 901 * SECOND_NS, "x"))
    bench.until(lambda: len(seen["info"]) == 1)
    truth.publish(at(8 * SECOND_NS, 6.0))
    bench.until(lambda: len(service.asked) == 3)
    service.answer()
    bench.until(lambda: node._mover.shown_ns == 8 * SECOND_NS)
    gazebo[Image].publish(stamped(Image(width=3, height=1), 901 * SECOND_NS, "x"))
    bench.until(lambda: len(seen["image"]) == 1)
    assert stamp_ns_of(seen["info"][0]) == stamp_ns_of(seen["image"][0]) == 7 * SECOND_NS
    assert seen["image"][0].header.frame_id == seen["info"][0].header.frame_id
    # time stands: the same picture again is not passed on, a new pose's is
    gazebo[LaserScan].publish(stamped(scan, 902 * SECOND_NS, "x"))
    bench.until(lambda: len(seen["scan"]) == 2)
    gazebo[LaserScan].publish(stamped(scan, 903 * SECOND_NS, "x"))
    gazebo[Image].publish(stamped(Image(width=4, height=1), 904 * SECOND_NS, "x"))
    bench.until(lambda: len(seen["image"]) == 2)
    assert [stamp_ns_of(m) // SECOND_NS for m in seen["scan"]] == [5, 8]


def stamp_ns_of_bytes(payload: bytes) -> int:
    """Whole seconds of a serialised message's stamp."""
    return int.from_bytes(payload[4:8], "little")


def test_a_gazebo_that_refuses_or_is_silent_is_named(bench, services, monkeypatch):
    monkeypatch.setattr(gazebo_view, "TIMEOUT_S", 0.05)
    node = gazebo_view.make(bench.context, namespace="/quad")
    state, pose = services["/gzserver/set_entity_state"], services["/world/flat/set_pose"]
    assert "running" not in node.health()[1]
    state.is_there = pose.is_there = False
    level, words, _ = node.health()
    assert level == 1
    assert "/gzserver/set_entity_state nor /world/flat/set_pose" in words
    state.is_there = True  # the first that is there
    bench.add(node)
    truth = bench.publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
    truth.publish(at(SECOND_NS, 1.0))
    bench.until(lambda: len(state.asked) == 1)
    assert state.asked[0][0].entity == "quad"
    assert state.asked[0][0].state.pose.position.x == 1.0
    truth.publish(at(2 * SECOND_NS, 2.0))
    bench.until(lambda: len(state.asked) == 2)  # no answer within 0.05 s
    assert node.counts["unanswered"] == 1
    assert state.forgotten == [state.asked[0][1]]  # it would stay with the client for good
    state.answer(success=False)
    assert node.health()[:2] == (2, "Gazebo does not move quad: it is not there")
    truth.publish(at(3 * SECOND_NS, 2.0))
    bench.until(lambda: len(state.asked) == 3)
    state.answer()
    assert node.health()[:2] == (0, "running")
    assert not pose.asked


def gazebo_command(folder, monkeypatch) -> Path:
    """Gazebo's command, which keeps its arguments and answers; its notes."""
    notes = folder / "asked"
    command = folder / "gz"
    command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {notes}.new\nmv {notes}.new {notes}\n'
                       "echo 'data: true'\n")  # fmt: skip
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return notes


@pytest.mark.parametrize("service", ["auto", "command"])
def test_without_a_service_the_command_of_gazebo_is_used(
    bench, services, tmp_path, monkeypatch, service
):
    """As with the bridge of Humble, which has no pose service; and that is said."""
    notes = gazebo_command(tmp_path, monkeypatch)
    monkeypatch.setattr(gazebo_view, "PATIENCE_S", 0.0)
    node = gazebo_view.make(bench.context, namespace="/quad", overrides={"service": service})
    for service in services.values():
        service.is_there = False
    said = bench.heard(DiagnosticStatus, "/quad/events", qos.EVENTS)
    bench.add(node)
    truth = bench.publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
    again = bench.node.create_timer(0.1, lambda: truth.publish(at(SECOND_NS, 1.5)))
    bench.until(lambda: node.health()[:2] == (0, "running"))
    bench.node.destroy_timer(again)
    if service == "auto":
        bench.until(lambda: said)
        assert "/world/flat/set_pose" in said[0].message
    words = notes.read_text().splitlines()
    assert words[:7] == [
        "service", "-s", "/world/flat/set_pose", "--reqtype", "gz.msgs.Pose", "--reptype",
        "gz.msgs.Boolean",
    ]  # fmt: skip
    assert words[-1].startswith('name: "quad", position: {x: 1.5, y: ')


def test_without_the_packages_it_says_so_in_one_line(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # nor gz or ign, wherever this runs
    for package in ("ros_gz_interfaces", "simulation_interfaces"):
        monkeypatch.setitem(sys.modules, package, None)  # wherever this runs
    with pytest.raises(InputError, match="ros_gz_interfaces is not installed"):
        gazebo_view.make(bench.context, namespace="/quad")
