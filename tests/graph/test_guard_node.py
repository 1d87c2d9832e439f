"""The node guard on real DDS, as a vehicle's driver, a planner, a lidar and a person see it."""

import itertools
import math
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Point32, PolygonStamped, PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Joy, LaserScan
from std_msgs.msg import Bool, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory

from quadsim.base.errors import InputError
from quadsim.geometry.rotation import from_euler, to_euler
from quadsim.hil.guard.setpoints import ThrustSetpoint
from quadsim.ros.messages.setpoint_messages import make_setpoint, read_attitude_setpoint
from quadsim.ros.nodes import guard
from quadsim.ros.runtime import qos

#: Times that a machine full of other work keeps too.
PATIENT = {
    "watch.pose_stale_s": 1.0,
    "watch.pose_lost_s": 1.5,
    "watch.late_s": 1.0,
    "watch.wish_timeout_s": 2.0,
    "watch.dead_man_timeout_s": 2.0,
    "sight.timeout_s": 2.0,
    "watch.pose_rate_min_hz": 2.0,
}


class Hall:
    """A vehicle that stands in the air before a pillar, and all who have a say in its flight."""

    def __init__(self, bench, **parameters) -> None:
        self.bench = bench
        made = guard.make(bench.context, namespace="/quad", overrides={**PATIENT, **parameters})
        bench.add(made)
        node = bench.node
        self._odometry = node.create_publisher(Odometry, "/quad/odometry/filtered", qos.FAST)
        self._pose = node.create_publisher(PoseStamped, "/quad/external/pose_stamped", qos.FAST)
        self._scan = node.create_publisher(LaserScan, "/quad/scan", qos.RELIABLE)
        self._wish = node.create_publisher(TwistStamped, "/quad/command_velocity", qos.RELIABLE)
        self._button = node.create_publisher(Bool, "/quad/dead_man", qos.RELIABLE)
        self._joy = node.create_publisher(Joy, "/quad/joy", qos.RELIABLE)
        self._client = node.create_client(SetBool, "/quad/enable")
        self.commands: list[TwistStamped] = []
        self.events: list[DiagnosticStatus] = []
        self.reports: dict[str, str] = {}
        node.create_subscription(
            TwistStamped, "/quad/command_velocity/safe", self.commands.append, qos.RELIABLE
        )
        node.create_subscription(DiagnosticStatus, "/quad/events", self.events.append, qos.EVENTS)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_report, qos.RELIABLE)
        self.wish, self.frame, self.held = (1.0, 0.0), "map", True
        self.poses, self.pillar_m, self.rays = True, math.inf, 180
        self._other, self.others, self.ahead_s = None, True, 0
        self.strays, self.presses = False, True
        self.more = lambda: None  # is called with each round of messages
        self._next_ns = 0
        bench.until(lambda: self._odometry.get_subscription_count() > 0 or
                    self._pose.get_subscription_count() > 0)  # fmt: skip
        bench.until(lambda: node.count_publishers("/quad/command_velocity/safe") > 0)

    def follow_another(self, name: str) -> None:
        """Publish another vehicle too, far away, by a clock of its own."""
        self._other = self.bench.node.create_publisher(Odometry, name, qos.FAST)

    def _on_report(self, message) -> None:
        for status in message.status:
            if status.name == "/quad/guard":
                self.reports = {pair.key: pair.value for pair in status.values}

    def _publish(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns:  # the executor takes one message at a time
            return
        self._next_ns = now_ns + 20_000_000
        seconds, nanoseconds = divmod(now_ns, 10**9)
        scan = LaserScan(angle_min=0.0, angle_increment=math.radians(2.0), range_max=10.0)
        scan.header.frame_id = "base_stabilized"
        scan.ranges = [self.pillar_m] + [math.inf] * (self.rays - 1)
        wish, odometry, pose = TwistStamped(), Odometry(), PoseStamped()
        wish.header.frame_id, wish.twist.linear.x, wish.twist.linear.y = self.frame, *self.wish
        odometry.header.frame_id, odometry.child_frame_id = "map", "base_link"
        pose.header.frame_id = "map"
        odometry.pose.pose.position.z = pose.pose.position.z = 1.5
        # of no vehicle in the air is a pose the same to the bit as the last one
        odometry.pose.pose.position.x = pose.pose.position.x = 1e-6 * math.sin(now_ns)
        # it looks north
        odometry.pose.pose.orientation.w = odometry.pose.pose.orientation.z = math.sqrt(0.5)
        pose.pose.orientation = odometry.pose.pose.orientation
        for message in (scan, wish, odometry, pose):
            message.header.stamp.sec, message.header.stamp.nanosec = seconds, nanoseconds
        if self.poses:
            self._odometry.publish(odometry)
            self._pose.publish(pose)
        if self.strays:  # in no frame of ours, and far away; both look east
            for frame, x in (("elsewhere", 0.0), ("map", 9.0)):
                odometry.header.frame_id, odometry.pose.pose.position.x = frame, x
                odometry.header.stamp.nanosec = min(nanoseconds + 1, 999_999_999)
                odometry.pose.pose.orientation.w, odometry.pose.pose.orientation.z = 1.0, 0.0
                self._odometry.publish(odometry)
        if self._other is not None and self.others:
            other = Odometry(child_frame_id="a/base_link")
            other.header.frame_id = "map"
            other.header.stamp.sec, other.header.stamp.nanosec = seconds + self.ahead_s, nanoseconds
            other.pose.pose.position.y = other.pose.pose.position.z = 20.0
            other.pose.pose.orientation.w = 1.0
            self._other.publish(other)
        self._scan.publish(scan)
        self._wish.publish(wish)
        if self.presses:
            self._button.publish(Bool(data=self.held))
        self._joy.publish(Joy(axes=[0.0] * 4, buttons=[0, int(self.held)]))
        self.more()

    def until(self, condition) -> None:
        """Publish everything until a condition holds."""

        def held() -> bool:
            self._publish()
            return condition()

        self.bench.until(held)

    def enable(self, wanted: bool = True):
        """Ask the service, while everything goes on."""
        self.bench.until(self._client.service_is_ready)
        asked = []

        def answered() -> bool:  # a server that has not found the client drops its answer
            if not asked or time.monotonic() > asked[-1][0] + 2.0:
                asked.append(
                    (time.monotonic(), self._client.call_async(SetBool.Request(data=wanted)))
                )
            return any(future.done() for _, future in asked)

        self.until(answered)
        return next(future.result() for _, future in asked if future.done())

    def enabled(self) -> None:
        """Ask until it may: poses have to settle first."""
        self.until(lambda: self.enable().success)

    def said(self, words: str) -> bool:
        return any(words in event.message for event in self.events)


def speed(hall: Hall) -> float:
    last = hall.commands[-1].twist.linear
    return math.hypot(last.x, last.y)


def test_a_flight_from_enable_to_the_vehicles_own_landing(bench):
    hall = Hall(bench)
    landed = []

    def land(_, response):
        landed.append(True)
        response.success = len(landed) > 2
        return response

    bench.node.create_service(Trigger, "/quad/vehicle/land", land)
    hall.held = False
    hall.until(lambda: "button released" in hall.enable().message)
    assert not hall.commands
    assert hall.said("not enabled: dead-man button released")
    hall.held = True
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    last = hall.commands[-1]
    assert last.header.frame_id == "map"
    assert 0 < last.header.stamp.sec <= time.monotonic()
    # a command of the body's axes is turned by the heading: forward is north
    hall.frame = "base_link"
    hall.until(lambda: hall.commands[-1].twist.linear.y > 0.99)
    # poses that are refused change no heading
    count, hall.strays = len(hall.commands), True
    hall.until(lambda: int(hall.reports.get("odometry/filtered refused", 0)) > 10)
    assert all(command.twist.linear.y > 0.99 for command in hall.commands[count:])
    hall.frame, hall.strays = "map", False
    # a pillar to the north, seen by a lidar that looks there
    hall.wish, hall.pillar_m = (0.0, 1.2), 1.0  # it stands, and 1.5 m/s would be disobedience
    hall.until(lambda: 0.0 < hall.commands[-1].twist.linear.y < 0.8)
    hall.until(lambda: hall.reports.get("reason") == "obstacle")
    assert hall.reports["state"] == "limiting"
    assert 0.0 <= float(hall.reports["margin_m"]) < 0.6
    assert float(hall.reports["clearance_m"]) == pytest.approx(1.0 - 0.4, abs=0.01)
    assert float(hall.reports["handled_ms"]) > 0.0
    # a number that is none changes nothing and is counted
    hall.wish = (math.nan, 0.0)
    hall.until(lambda: int(hall.reports.get("command_velocity refused", 0)) > 0)
    assert all(math.isfinite(command.twist.linear.x) for command in hall.commands)
    hall.wish, hall.pillar_m = (1.0, 0.0), math.inf
    hall.until(lambda: speed(hall) > 0.99)
    hall.poses = False
    # it is asked until it says that it lands, and no more
    hall.until(lambda: len(landed) == 3)
    assert hall.said("pose lost: none for")
    begun_s = time.monotonic()
    hall.until(lambda: time.monotonic() > begun_s + 2.0 * guard.ASK_AGAIN_S)
    assert (len(landed), hall.reports["state"]) == (3, "landing")
    assert hall.said("landing: pose lost")
    stopped = [command for command in hall.commands if not command.twist.linear.x]
    assert stopped
    assert hall.commands[-1].twist.linear.z < 0.0
    stamps = [c.header.stamp.sec * 10**9 + c.header.stamp.nanosec for c in hall.commands]
    # they go on though no pose comes, and never back
    assert all(later > earlier for earlier, later in itertools.pairwise(stamps))
    assert hall.enable(False).success
    count = len(hall.commands)
    hall.until(lambda: hall.reports.get("state") == "disabled")
    assert len(hall.commands) == count


def test_it_ends_when_the_vehicle_leaves_offboard_mode(bench):
    hall = Hall(bench)
    mode = bench.publisher(Bool, "/quad/vehicle/offboard_state", qos.RELIABLE)
    hall.enabled()
    mode.publish(Bool(data=True))
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    hall.until(lambda: hall.reports.get("offboard") == "yes")
    mode.publish(Bool(data=False))
    hall.until(lambda: hall.reports.get("state") == "disabled")
    assert hall.reports["offboard"] == "no"
    assert hall.said("the vehicle has left offboard mode")
    count = len(hall.commands)
    hall.until(lambda: hall.reports.get("reason") == "may be enabled")
    assert len(hall.commands) == count


def test_landing_is_asked_for_until_the_vehicle_has_left_offboard_mode(bench, monkeypatch):
    """A yes says that the question went out; what stays deaf is named."""
    monkeypatch.setattr("quadsim.ros.nodes.guard.ASK_AGAIN_S", 0.1)
    monkeypatch.setattr("quadsim.ros.nodes.guard.DEAF_S", 0.5)
    hall = Hall(bench)
    asked = []

    def land(_, response):
        asked.append(True)
        response.success = True
        return response

    bench.node.create_service(Trigger, "/quad/vehicle/land", land)
    mode = bench.publisher(Bool, "/quad/vehicle/offboard_state", qos.RELIABLE)
    hall.enabled()
    mode.publish(Bool(data=True))
    hall.until(lambda: hall.reports.get("offboard") == "yes")
    hall.poses = False
    hall.until(lambda: len(asked) > 5)
    hall.until(lambda: hall.said("asked to land for 0.5 s, and the vehicle still obeys setpoints"))
    mode.publish(Bool(data=False))
    hall.until(lambda: hall.reports.get("state") == "disabled")
    count = len(asked)
    hall.until(lambda: hall.reports.get("offboard") == "no")
    assert len(asked) == count


def test_enable_asks_whether_the_way_to_the_vehicle_is_in_order(bench):
    hall = Hall(bench)
    ready = bench.publisher(DiagnosticStatus, "/quad/vehicle/ready", qos.LATCHED)
    ready.publish(DiagnosticStatus(level=DiagnosticStatus.ERROR, message="GUID_TIMEOUT is 3"))
    hall.until(lambda: hall.enable().message == "GUID_TIMEOUT is 3")
    ready.publish(DiagnosticStatus(level=DiagnosticStatus.WARN, message="GUID_TIMEOUT unread"))
    hall.enabled()
    hall.until(lambda: hall.said("GUID_TIMEOUT unread"))


def test_the_autopilots_heading_and_resets_are_listened_to(bench):
    """The pose looks north; the autopilot first east, then north, and then it resets."""
    hall = Hall(bench, **{"autopilot.odometry": "beside"})
    hall.until(lambda: "autopilot's own odometry is not heard" in hall.enable().message)
    own = bench.node.create_publisher(Odometry, "/quad/odometry/autopilot", qos.FAST)
    reset = bench.node.create_publisher(String, "/quad/vehicle/reset", qos.RELIABLE)
    bench.until(lambda: min(p.get_subscription_count() for p in (own, reset)) > 0)
    message = Odometry(child_frame_id="base_link")
    message.header.frame_id = "map"

    def look(z) -> bool:
        now_ns = time.monotonic_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now_ns, 10**9)
        orientation = message.pose.pose.orientation
        orientation.z, orientation.w = z, math.sqrt(1.0 - z * z)
        own.publish(message)
        return True

    hall.until(lambda: look(0.0) and "pose is 90 deg, the autopilot's 0" in hall.enable().message)
    hall.until(lambda: look(math.sqrt(0.5)) and hall.enable().success)
    reset.publish(String(data="the autopilot has reset its estimate"))
    hall.until(lambda: look(math.sqrt(0.5)) and hall.said("the autopilot has reset its estimate"))
    hall.until(lambda: look(math.sqrt(0.5)) and hall.reports.get("state") == "landing")


def test_motion_capture_and_a_button_of_a_joystick(bench):
    hall = Hall(bench, pose_type="pose", **{"dead_man.button": 1})
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    hall.held = False
    hall.until(lambda: hall.reports.get("reason") == "dead-man button released")
    assert speed(hall) == 0.0


def test_another_vehicle_counts_when_it_is_heard_and_its_clock_is_ours(bench):
    """Not heard, its clock far ahead, as it should be, and silent."""
    hall = Hall(bench, **{"others.odometry": ["/a/odom"]})
    hall.until(lambda: hall.enable().message == "no known shapes yet: /a/odom not heard")
    hall.follow_another("/a/odom")
    hall.ahead_s = 30
    hall.until(lambda: "clock is" in hall.enable().message)
    assert "s ahead of that of our pose" in hall.enable().message
    hall.ahead_s = 0  # one stamp of the future does not shut out what comes after it
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    hall.others = False
    hall.until(lambda: "known shapes lost" in hall.reports.get("reason", ""))
    assert "/a/odom not heard for" in hall.reports["reason"]
    assert speed(hall) == 0.0


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"config": "nowhere"}, "unknown guard 'nowhere'"),
        ({"limits.height_min_m": 4.0}, "height_max_m"),
        ({"watch.late_s": -1.0}, "watch.late_s"),
        ({"lidar.self_radius_m": 0.41}, r"self_radius_m: 0.41; allowed: at most .*\(0.4\)"),
        (
            {"lidar.self_radius_m": 0.3, "lidar.self_half_height_m": 5.0},
            r"self_half_height_m: 5; allowed: at most vehicle.half_height_m \(0.2\)",
        ),
    ],
)
def test_parameters_that_cannot_be_are_refused(bench, overrides, expected):
    with pytest.raises(InputError, match=expected):
        guard.make(bench.context, namespace="/quad", overrides=overrides)


def test_a_lidar_that_covers_little_is_no_sight(bench):
    """One ray once counted as a scan that sees all round."""
    hall = Hall(bench)
    hall.rays = 1
    hall.until(lambda: "the scan covers 1 deg of azimuth" in hall.enable().message)
    assert not hall.commands
    hall.rays = 46  # 90 degrees to the vehicle's left, which is west
    hall.enabled()
    hall.wish = (-1.0, 1.0)
    hall.until(lambda: hall.commands and hall.commands[-1].twist.linear.x < -0.9)
    hall.wish = (1.0, 0.0)
    hall.until(lambda: hall.reports.get("reason") == "direction not seen")
    assert speed(hall) == 0.0


@pytest.mark.parametrize("held", [True, False])
def test_a_button_of_two_publishers_is_released(bench, held):
    """Whatever both say: one that is held overrules none; when one is left, it goes on."""
    hall = Hall(bench)
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    other = bench.node.create_publisher(Bool, "/quad/dead_man", qos.RELIABLE)
    # one that has not spoken changes no flight, and is named
    hall.until(lambda: hall.said("2 publish dead_man: /bench, /bench"))
    hall.until(lambda: "2 publish dead_man" in bench.reports["/quad/guard"]["message"])
    hall.until(lambda: hall.reports["state"] == "passing" and speed(hall) > 0.99)
    hall.held = held
    hall.more = lambda: other.publish(Bool(data=True))
    hall.until(lambda: speed(hall) == 0.0)
    hall.until(lambda: hall.reports["reason"] == "2 publish dead_man: /bench, /bench")
    count, begun_s = len(hall.commands), time.monotonic()
    hall.until(lambda: time.monotonic() > begun_s + 1.0)
    assert not any(command.twist.linear.x for command in hall.commands[count:])
    assert hall.enable(False).success
    assert "2 publish dead_man: /bench, /bench; allowed: one" in hall.enable().message
    # the operator's falls silent: the other one, which is there alone now, counts no more for that
    hall.presses = False
    begun_s = time.monotonic()
    hall.until(lambda: time.monotonic() > begun_s + 2.5)
    assert "2 publish dead_man" in hall.enable().message
    hall.presses, hall.more, hall.held = True, lambda: None, True
    bench.node.destroy_publisher(other)
    hall.until(lambda: hall.enable().success)
    hall.until(lambda: speed(hall) > 0.99)


def test_a_button_whose_publisher_begins_anew_counts(bench):
    """The old one has taken its leave: in flight it brakes for the time-out and goes on."""
    hall = Hall(bench)
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    bench.node.destroy_publisher(hall._button)
    hall._button = bench.node.create_publisher(Bool, "/quad/dead_man", qos.RELIABLE)
    hall.until(lambda: hall.said("2 publish dead_man: /bench, one not listed"))
    hall.until(lambda: hall.said("well again after: 2 publish dead_man"))
    hall.until(lambda: speed(hall) > 0.99)


def test_what_is_no_button_is_released(bench):
    """A Joy with too few buttons, and bytes that are none, between those that say held."""
    hall = Hall(bench, **{"dead_man.button": 1})
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    for message in (Joy(buttons=[1]), b"\x00\x01\x00\x00\x07"):
        count = len(hall.commands)
        hall._joy.publish(message)
        hall.until(lambda: any(c.twist.linear.x == 0.0 for c in hall.commands[count:]))  # noqa: B023
        hall.until(lambda: speed(hall) > 0.99)
    assert hall.said("dead-man button released")
    hall.until(lambda: hall.reports["joy refused"] == "2")


def test_of_two_who_say_whether_the_vehicle_obeys_the_one_who_says_no_is_believed(bench):
    hall = Hall(bench)
    mode = bench.publisher(Bool, "/quad/vehicle/offboard_state", qos.RELIABLE)
    hall.enabled()
    mode.publish(Bool(data=True))
    hall.until(lambda: hall.reports.get("offboard") == "yes")
    other = bench.publisher(Bool, "/quad/vehicle/offboard_state", qos.RELIABLE)
    other.publish(Bool(data=True))
    hall.until(lambda: "2 publish vehicle/offboard_state" in hall.reports.get("reason", ""))
    assert (hall.reports["state"], speed(hall)) == ("holding", 0.0)
    other.publish(Bool(data=False))
    hall.until(lambda: hall.reports.get("state") == "disabled")
    assert hall.said("or so says one of them: 2 publish vehicle/offboard_state: /bench, /bench")
    assert "2 publish vehicle/offboard_state" in hall.enable().message


def test_a_second_publisher_of_the_pose_ends_the_flight(bench):
    hall = Hall(bench)
    hall.enabled()
    hall.until(lambda: hall.commands and speed(hall) > 0.99)
    other = bench.node.create_publisher(Odometry, "/quad/odometry/filtered", qos.FAST)
    begun_s = time.monotonic()

    def drift() -> None:
        message = Odometry(child_frame_id="base_link")
        message.header.frame_id = "map"
        now_ns = time.monotonic_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now_ns, 10**9)
        message.pose.pose.position.x = 0.2 * (time.monotonic() - begun_s)
        message.pose.pose.position.z = 1.5
        message.pose.pose.orientation.w = message.pose.pose.orientation.z = math.sqrt(0.5)
        other.publish(message)

    hall.more = drift
    hall.until(lambda: hall.reports.get("state") == "landing")
    assert hall.reports["reason"] == "2 publish odometry/filtered: /bench, /bench"


def test_a_driver_that_is_gone_is_not_ready(bench):
    hall = Hall(bench)
    ready = bench.publisher(DiagnosticStatus, "/quad/vehicle/ready", qos.LATCHED)
    ready.publish(DiagnosticStatus(level=DiagnosticStatus.OK, message="in order"))
    hall.enabled()
    hall.enable(False)
    bench.node.destroy_publisher(ready)
    hall.until(lambda: "the publisher of vehicle/ready is gone" in hall.enable().message)


def test_a_second_publisher_of_wishes_is_named(bench):
    hall = Hall(bench)
    hall.enabled()
    second = bench.node.create_publisher(TwistStamped, "/quad/command_velocity", qos.RELIABLE)
    hall.until(lambda: hall.said("2 publish command_velocity: /bench, /bench; the newest counts"))
    hall.until(lambda: "2 publish command_velocity" in bench.reports["/quad/guard"]["message"])
    bench.node.destroy_publisher(second)
    hall.until(lambda: "publish" not in bench.reports["/quad/guard"]["message"])
    hall.until(lambda: hall.reports["wishes_from"] == "1")


def test_a_neighbour_with_a_guard_of_its_own_is_heard_and_kept_away_from(bench):
    """It stands 2 m ahead, where 1 m is kept, of which each may use its half."""
    hall = Hall(bench, **{"neighbours.names": ["quad2"], "neighbours.keep_out_m": [0.5],
                          "neighbours.timeout_s": 2.0})  # fmt: skip
    told = bench.node.create_publisher(PolygonStamped, "/quad2/guard/reach", qos.RELIABLE)
    reaches = []
    bench.node.create_subscription(
        PolygonStamped, "/quad/guard/reach", reaches.append, qos.RELIABLE
    )
    said = {"frame": "map", "x": 2.0, "publish": False}

    def tell_reach() -> None:
        if said["publish"]:
            message = PolygonStamped()
            message.header.frame_id = said["frame"]
            message.header.stamp = bench.node.get_clock().now().to_msg()
            message.polygon.points = [Point32(x=said["x"], y=0.0, z=1.5)]
            told.publish(message)

    hall.more = tell_reach
    hall.until(lambda: hall.enable().message == "neighbour quad2 not heard")
    said.update(publish=True, frame="world")
    hall.until(lambda: hall.reports.get("/quad2/guard/reach wrong frame", "0") != "0")
    assert hall.enable().message == "neighbour quad2 not heard"
    said.update(frame="map", x=math.nan)
    hall.until(lambda: hall.reports.get("/quad2/guard/reach refused", "0") != "0")
    assert hall.enable().message == "neighbour quad2 not heard"
    said.update(x=0.7)
    hall.until(lambda: hall.enable().message == "neighbour quad2 is 0.70 m away; allowed: 1.00")
    said.update(x=2.0)
    hall.enabled()
    hall.until(lambda: hall.reports.get("reason", "").startswith("neighbour quad2"))
    assert speed(hall) < 1.0
    # what the others hear of this one
    assert reaches[-1].header.frame_id == "map"
    first = reaches[-1].polygon.points[0]
    assert (first.x, first.y, first.z) == pytest.approx((0.0, 0.0, 1.5), abs=1e-5)
    said.update(publish=False)
    hall.until(lambda: hall.said("neighbour quad2 lost: not heard for"))
    hall.until(lambda: speed(hall) == 0.0)


def test_an_attitude_passes_as_it_is_until_a_velocity_is_asked_for(bench):
    """In an empty hall, with the heading of the pose; its limits hold."""
    high = {"limits.height_min_m": -100.0, "limits.height_max_m": 100.0, "watch.late_s": 0.3}
    hall = Hall(bench, setpoints=["attitude", "rates", "position"], **high)
    asked = bench.node.create_publisher(
        MultiDOFJointTrajectory, "/quad/command_attitude", qos.RELIABLE
    )
    passed = []
    bench.node.create_subscription(
        MultiDOFJointTrajectory, "/quad/command_attitude/safe", passed.append, qos.RELIABLE
    )
    hall.enabled()
    tilted = ThrustSetpoint("attitude", from_euler(0.1, 0.0, 0.0), (0.0, 0.0, 0.2), 9.9)
    said = {"setpoint": tilted}
    velocities, hall._wish = hall._wish, SimpleNamespace()
    hall._wish.publish = lambda _: asked.publish(make_setpoint(said["setpoint"], 1))
    hall.until(lambda: passed)
    got = read_attitude_setpoint(passed[-1])
    assert to_euler(got.q_WB) == pytest.approx((0.1, 0.0, 0.5 * math.pi))
    assert (got.w_B, got.thrust_mps2) == ((0.0, 0.0, 0.2), 9.9)
    assert passed[-1].header.frame_id == "map"
    assert passed[-1].header.stamp.sec > 0
    said["setpoint"] = replace(tilted, q_WB=from_euler(1.0, 0.0, 0.0))
    hall.until(lambda: hall.reports.get("command_attitude refused", "0") != "0")
    hall._wish = velocities
    count = len(hall.commands)
    hall.until(lambda: len(hall.commands) > count and speed(hall) > 0.9)
