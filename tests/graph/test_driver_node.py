"""Node ``driver`` on DDS: sensors exchanged in flight, commands and services of a vehicle."""

import math
import time
from itertools import count

import numpy as np
import pymap3d
import pytest
import rclpy
import rclpy.parameter
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import (
    AccelStamped,
    PoseStamped,
    Twist,
    TwistStamped,
    TwistWithCovarianceStamped,
)
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Log
from rclpy.executors import SingleThreadedExecutor
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import (
    FluidPressure,
    Imu,
    LaserScan,
    MagneticField,
    NavSatFix,
    NavSatStatus,
    Range,
)
from std_msgs.msg import Bool
from std_srvs.srv import SetBool, Trigger

from quadsim.base.errors import InputError
from quadsim.ros.graph.graph import GraphOptions, NodeSpec, describe
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime import qos
from quadsim.ros.runtime.packages import is_installed
from quadsim.ros.runtime.processes import maker
from quadsim.ros.runtime.runtime import make_executor
from quadsim.sim.scenario import load_scenario

#: A box on the vehicle, with conventions of its own: forward, right, down; north, east, down;
#: microtesla, hectopascals; a lidar of one ray for the height.
BOX = """
description: a box
namespace: box
topics:
  - {ours: imu/data_raw, names: [imu], type: sensor_msgs/msg/Imu, body: frd, reliability: reliable, depth: 200}
  - {ours: imu/mag, names: [compass], type: sensor_msgs/msg/MagneticField, body: frd, scale: 1.0e-6, sigma: [5.0e-7]}
  - {ours: imu/static_pressure, names: [pressure], type: sensor_msgs/msg/FluidPressure, scale: 100.0, sigma: [5.0]}
  - {ours: gps/fix, names: [fix], type: sensor_msgs/msg/NavSatFix, sigma: [0.05, 0.05, 0.1]}
  - {ours: gps/vel, names: [velocity], type: geometry_msgs/msg/TwistWithCovarianceStamped, world: ned, sigma: [0.1]}
  - {ours: range/down, names: ["*/scan"], type: sensor_msgs/msg/LaserScan, sigma: [0.02]}
"""  # noqa: E501
FRD = np.diag([1.0, -1.0, -1.0])
NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
NOW_NS = time.time_ns
#: For what comes within seconds where the machine has nothing else to do.
PATIENCE_S = 180.0
NODES = {
    "imu": ("imu/data_raw",),
    "gnss": ("gps/fix", "gps/vel"),
    "magnetometer": ("imu/mag",),
    "barometer": ("imu/static_pressure",),
    "rangefinder": ("range/down",),
}


def xyz(field, values) -> None:
    field.x, field.y, field.z = map(float, values)


def array(field):
    return np.array([field.x, field.y, field.z])


class Box:
    """Measures the truth without noise, by formulas of its own."""

    def __init__(self, bench, environment) -> None:
        self._node = bench.node
        self._datum = environment.datum
        self._m_W = np.array(environment.field_W_T())
        self._attitudes: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.on: set[str] = set()
        self.heights: list[float] = []
        self.tilts: list[float] = []
        self.stamp_ns = 0
        kinds = {
            "imu": Imu, "compass": MagneticField, "pressure": FluidPressure, "fix": NavSatFix,
            "velocity": TwistWithCovarianceStamped, "eye/scan": LaserScan,
        }  # fmt: skip
        self._out = {
            name: bench.node.create_publisher(kind, f"/quad/box/{name}", qos.FAST)
            for name, kind in kinds.items()
        }
        self._kinds = kinds
        node = bench.node
        node.create_subscription(AccelStamped, "/quad/ground_truth/accel", self._on_accel, qos.FAST)
        node.create_subscription(Odometry, "/quad/ground_truth/odom", self._on_truth, qos.FAST)

    def _send(self, name, header, **fields) -> None:
        message = self._kinds[name](header=header, **fields)
        self._out[name].publish(message)

    def _on_accel(self, message) -> None:
        """The acceleration comes behind the truth of the same stamp."""
        stamp = message.header.stamp
        R_WB, w_B = self._attitudes.pop(stamp.sec * 10**9 + stamp.nanosec)
        if "imu" in self.on:
            sample = Imu(header=message.header)
            f_B = array(message.accel.linear) + R_WB.T @ [0.0, 0.0, 9.80665]
            xyz(sample.linear_acceleration, FRD @ f_B)
            xyz(sample.angular_velocity, FRD @ w_B)
            self._out["imu"].publish(sample)

    def _on_truth(self, message) -> None:
        stamp = message.header.stamp
        self.stamp_ns = stamp.sec * 10**9 + stamp.nanosec
        p_W = array(message.pose.pose.position)
        q = message.pose.pose.orientation
        R_WB = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
        self.heights.append(p_W[2])
        self.tilts.append(math.acos(min(1.0, R_WB[2, 2])))
        tick = self.stamp_ns // 2_000_000
        header = message.header
        self._attitudes[self.stamp_ns] = R_WB, array(message.twist.twist.angular)
        if "magnetometer" in self.on and tick % 10 == 0:
            sample = MagneticField(header=header)
            xyz(sample.magnetic_field, 1e6 * FRD @ R_WB.T @ self._m_W)
            self._out["compass"].publish(sample)
        if "barometer" in self.on and tick % 10 == 0:
            height_m = self._datum.height_m + p_W[2]  # ICAO standard atmosphere
            hectopascals = 1013.25 * (1.0 - 0.0065 * height_m / 288.15) ** 5.25588
            self._send("pressure", header, fluid_pressure=hectopascals)
        if "rangefinder" in self.on and tick % 20 == 0 and p_W[2] > 0.2:
            self._send(
                "eye/scan", header, range_min=0.1, range_max=20.0,
                ranges=[float(p_W[2] / R_WB[2, 2])],
            )  # fmt: skip
        if "gnss" in self.on and tick % 50 == 0:
            place = (self._datum.latitude_deg, self._datum.longitude_deg, self._datum.height_m)
            latitude, longitude, height = pymap3d.enu2geodetic(*p_W, *place)
            self._send(
                "fix", header, latitude=float(latitude), longitude=float(longitude),
                altitude=float(height), status=NavSatStatus(status=NavSatStatus.STATUS_FIX),
            )  # fmt: skip
            sample = TwistWithCovarianceStamped(header=header)
            xyz(sample.twist.twist.linear, NED @ R_WB @ array(message.twist.twist.linear))
            self._out["velocity"].publish(sample)


#: Counts of the estimator by the sensor that they are of. A barometer that is exchanged has another
#: offset, and is told from a measurement of the height by the gate.
TAKEN = {
    "imu": "imu_received",
    "gnss": "gnss_position_accepted",
    "magnetometer": "magnetic_field_accepted",
    "barometer": "pressure_received",
    "rangefinder": "range_accepted",
}


def test_every_sensor_is_exchanged_in_flight(bench, tmp_path, long_hover, monkeypatch):
    """One after the other: the box's begins, ours ends, and the flight goes on."""
    monkeypatch.setattr("quadsim.ros.nodes.driver.PATIENCE_S", 0.0)  # for its lidar, found by a *
    monkeypatch.setattr("quadsim.ros.nodes.driver.LATE_SEARCH_PERIOD_S", 0.2)
    (tmp_path / "box.yaml").write_text(BOX)
    scenario = load_scenario(str(long_hover))
    options = GraphOptions(pacing="lockstep", rate=0.0, paused=True, arm=True)
    driver = NodeSpec("driver", "/quad", {"drivers": str(tmp_path / "box.yaml"), "send": False})
    made = {
        spec.executable: bench.add(maker(spec)(bench.context))
        for spec in [*describe(scenario, options), driver]
    }
    box = Box(bench, scenario.environment)
    bench.until(lambda: all(node.complete for node in made.values()))
    bench.call(SetBool, "/sim/pause", SetBool.Request(data=False))
    bench.until(lambda: bool(box.heights) and box.heights[-1] > 0.8)

    def passed_on(topics, since) -> int:
        return min(made["driver"].counts.get(topic, 0) - since.get(topic, 0) for topic in topics)

    def taken(name) -> int:
        return made["estimator"].health()[2][TAKEN[name]]

    for name, ours in NODES.items():
        before = dict(made["driver"].counts)
        box.on.add(name)
        bench.until(lambda ours=ours, before=before: passed_on(ours, before) > 0)
        bench.end(made[name])
        begun_ns, begun, count = box.stamp_ns, len(box.heights), taken(name)
        bench.until(lambda begun_ns=begun_ns: box.stamp_ns > begun_ns + 10**9)
        for topic in ours:
            there = bench.node.get_publishers_info_by_topic(f"/quad/{topic}")
            assert [info.node_name for info in there] == ["driver"]
        assert taken(name) - count >= 8  # of ten fixes in that second
        # a hover at 1.2 m, reached with some overshoot; who falls loses 0.5 m in 0.3 s
        assert min(box.heights[begun:]) > 0.7, name
        assert max(box.heights[begun:]) < 1.5, name
        assert max(box.tilts[begun:]) < 0.35, name


#: A vehicle that speaks standard types, in other axes.
ROVER = """
description: takes velocities
namespace: rover
topics:
  - {ours: odometry/autopilot, names: [odom], type: nav_msgs/msg/Odometry}
commands:
  - {ours: command_velocity/safe, name: go, type: geometry_msgs/msg/Twist, world: ned}
  - {ours: command_velocity/safe, name: go_stamped, type: geometry_msgs/msg/TwistStamped}
services:
  - {ours: arm, name: switch, type: std_srvs/srv/SetBool, value: true}
  - {ours: disarm, name: switch, type: std_srvs/srv/SetBool, value: false}
  - {ours: land, name: come_down, type: std_srvs/srv/Trigger}
"""


def guard_of(bench):
    """A node whose commands may go out."""
    return bench.add(
        rclpy.create_node("guard", namespace="/quad", context=bench.context, enable_rosout=False)
    )


def fallback(context) -> SingleThreadedExecutor:
    """Where rclpy has no events executor that waits for coroutines."""
    return SingleThreadedExecutor(context=context)


@pytest.mark.parametrize("bench", [make_executor, fallback], indirect=True)
def test_commands_and_questions_reach_the_vehicle(bench, tmp_path):
    (tmp_path / "rover.yaml").write_text(ROVER)
    parameters = {"drivers": str(tmp_path / "rover.yaml"), "driver_namespace": "/lab/one"}
    node = bench.add(maker(NodeSpec("driver", "/quad", parameters))(bench.context))
    went: list[Twist] = []
    stamped: list[TwistStamped] = []
    switched: list[bool] = []

    def on_switch(request, response):
        switched.append(request.data)
        response.success, response.message = request.data, "so be it"
        return response

    here = bench.node
    heard = (
        here.create_subscription(Twist, "/lab/one/rover/go", went.append, 10),
        here.create_subscription(TwistStamped, "/lab/one/rover/go_stamped", stamped.append, 10),
    )
    here.create_service(SetBool, "/lab/one/rover/switch", on_switch)
    command = guard_of(bench).create_publisher(TwistStamped, "/quad/command_velocity/safe", 10)
    # nothing is kept for whoever comes late: both sides know each other before anything is sent
    theirs = [p for p in node.publishers if p.topic_name.startswith("/lab/one/rover/go")]
    (listens,) = (s for s in node.subscriptions if s.topic_name == "/quad/command_velocity/safe")
    assert len(theirs) == len(heard)
    bench.until(lambda: command.get_subscription_count() == listens.get_publisher_count() == 1)
    bench.until(lambda: {p.get_subscription_count() for p in theirs} == {1})
    bench.until(lambda: {s.get_publisher_count() for s in heard} == {1})

    seconds = count(5)

    def send(frame, yaw_rate=0.5) -> None:
        message = TwistStamped()
        message.header.frame_id = frame
        message.header.stamp.sec = next(seconds)
        xyz(message.twist.linear, (1.0, 2.0, 0.5))
        message.twist.angular.z = yaw_rate
        command.publish(message)

    for frame, yaw_rate in (("base_link", 0.5), ("map", math.nan)):
        refused = node.counts.get("command_velocity/safe refused", 0)
        send(frame, yaw_rate)
        bench.until(lambda n=refused: node.counts.get("command_velocity/safe refused", 0) > n)
    send("map")
    bench.until(lambda: bool(went) and bool(stamped))
    # north is y, east is x, and a turn to the left about up is one to the left about down, negative
    assert array(went[0].linear).tolist() == [2.0, 1.0, -0.5]
    assert went[0].angular.z == -0.5
    assert array(stamped[0].twist.linear).tolist() == [1.0, 2.0, 0.5]
    assert (stamped[0].header.frame_id, stamped[0].header.stamp.sec) == ("map", 7)  # of the third
    assert (len(went), len(stamped)) == (1, 1)
    assert node.counts["command_velocity/safe refused"] == 2

    def arm(wanted) -> SetBool.Response:
        return bench.call(SetBool, "/quad/vehicle/arm", SetBool.Request(data=wanted))

    began_s = time.monotonic()
    yes = arm(True)
    while "not offered" in yes.message and time.monotonic() - began_s < PATIENCE_S:
        yes = arm(True)
    assert (yes.success, yes.message) == (True, "/lab/one/rover/switch: so be it")
    assert not arm(False).success
    assert (switched[0], switched[-1]) == (True, False)
    for service, says in (("land", "come_down is not offered"), ("offboard", "cannot be asked")):
        answer = bench.call(Trigger, f"/quad/vehicle/{service}", Trigger.Request())
        assert not answer.success
        assert says in answer.message
    send("map")
    bench.until(lambda: len(went) == 2)  # a question that was asked stops nothing


class Rover:
    """A vehicle that is commanded and asked, and the driver before it."""

    def __init__(self, bench, tmp_path, **parameters) -> None:
        (tmp_path / "rover.yaml").write_text(ROVER)
        given = {"drivers": str(tmp_path / "rover.yaml"), "driver_namespace": "/lab", **parameters}
        self.bench = bench
        self.driver = bench.add(maker(NodeSpec("driver", "/quad", given))(bench.context))
        here = bench.node
        self.went: list[TwistStamped] = []
        self.asked: list[str] = []
        self.events: list[str] = []
        self.ready = DiagnosticStatus()
        here.create_subscription(TwistStamped, "/lab/rover/go_stamped", self.went.append, 10)
        here.create_subscription(Twist, "/lab/rover/go", lambda _: None, 10)
        here.create_service(Trigger, "/lab/rover/come_down", self._on_land)
        here.create_subscription(
            DiagnosticStatus, "/quad/events", lambda m: self.events.append(m.message), qos.EVENTS
        )
        here.create_subscription(DiagnosticStatus, "/quad/vehicle/ready", self._on_ready,
                                 qos.LATCHED)  # fmt: skip
        self.mode = here.create_publisher(Bool, "/quad/vehicle/offboard_state", 10)
        bench.until(lambda: self.mode.get_subscription_count() == 1)
        bench.until(lambda: here.count_publishers("/lab/rover/go_stamped") == 1)
        bench.until(lambda: here.count_publishers("/quad/events") == 1)

    def _on_land(self, _, response):
        self.asked.append("land")
        response.success = True
        return response

    def _on_ready(self, message) -> None:
        self.ready = message

    def commands(self, node):
        """A publisher of what goes to the vehicle, known to the driver."""
        made = node.create_publisher(TwistStamped, "/quad/command_velocity/safe", 10)
        self.bench.until(lambda: made.get_subscription_count() == 1)
        return made

    def until(self, condition, *publishers, v_W=(1.0, 0.0, 0.0)) -> None:
        """Command at 50 Hz or less until something holds."""

        def held() -> bool:
            now_s = time.monotonic()
            if now_s - self.before_s > 0.02:
                self.before_s = now_s
                for publisher in publishers:
                    message = TwistStamped()
                    message.header.frame_id = "map"
                    message.header.stamp = make_time(NOW_NS())
                    xyz(message.twist.linear, v_W)
                    publisher.publish(message)
            return condition()

        self.bench.until(held)

    before_s = 0.0

    def said(self, words) -> int:
        return sum(words in event for event in self.events)


#: A machine that is full of other work passes commands on late.
PATIENT = {"watch.command_age_s": 2.0, "watch.late_s": 0.1}


def test_who_is_no_guard_does_not_fly_the_vehicle(bench, tmp_path):
    rover = Rover(bench, tmp_path, **PATIENT)
    stranger = rover.commands(bench.node)
    rover.until(lambda: rover.said("comes from /bench; allowed: the guard (/quad/guard)"), stranger)
    rover.until(lambda: "comes from /bench" in rover.ready.message, stranger)
    assert rover.ready.level == DiagnosticStatus.ERROR
    assert rover.went == []
    bench.until(lambda: "refused" in bench.reports.get("/quad/driver", {}).get("message", ""))
    bench.node.destroy_publisher(stranger)
    guard = rover.commands(guard_of(bench))
    rover.until(lambda: bool(rover.went), guard)
    assert rover.went[0].twist.linear.x == 1.0
    bench.until(lambda: rover.ready.message == "in order")


def test_a_second_publisher_stops_and_lands_the_vehicle(bench, tmp_path):
    """Named once, zero, and a landing that is asked for until the vehicle has left offboard."""
    rover = Rover(bench, tmp_path, **PATIENT)
    guard = rover.commands(guard_of(bench))
    rover.mode.publish(Bool(data=True))
    rover.until(lambda: len(rover.went) > 5, guard)
    assert not rover.asked
    second = rover.commands(bench.node)
    rover.until(lambda: rover.said("2 publish command_velocity/safe"), guard, second)
    rover.until(lambda: rover.went[-1].twist.linear.x == 0.0, guard, second)
    rover.until(lambda: len(rover.asked) >= 2, guard, second)
    assert rover.went[-1].twist.linear.z == pytest.approx(-0.4)
    assert rover.said("commands are refused: 2 publish") == 1
    assert rover.said("landing: 2 publish") == 1
    rover.mode.publish(Bool(data=False))
    bench.until(lambda: rover.driver._outputs.services.obeys is False)
    count = len(rover.went)
    seen = rover.driver.counts["command_velocity/safe refused"]
    rover.until(lambda: rover.driver.counts["command_velocity/safe refused"] > seen + 20,
                guard, second)  # fmt: skip
    assert len(rover.went) == count


def test_commands_beyond_the_guards_file_are_dropped(bench, tmp_path):
    rover = Rover(bench, tmp_path, **PATIENT, **{"limits.speed_max_mps": 0.5})
    guard = rover.commands(guard_of(bench))
    rover.until(lambda: rover.said("speed 1 m/s; the guard's file allows: 0.5"), guard)
    refused = rover.driver.counts["command_velocity/safe refused"]
    rover.until(lambda: rover.driver.counts["command_velocity/safe refused"] > refused, guard,
                v_W=(1e30, 0.0, 0.0))  # fmt: skip
    assert rover.went == []
    rover.until(lambda: bool(rover.went), guard, v_W=(0.4, 0.0, 0.0))


def test_of_commands_that_pile_up_the_last_one_goes_out(bench, tmp_path):
    """The driver stands still while ten are sent, as a process that is stopped does."""
    rover = Rover(bench, tmp_path, **PATIENT)
    guard = rover.commands(guard_of(bench))
    rover.until(lambda: bool(rover.went), guard)
    elsewhere = type(bench)(bench.context.get_domain_id())
    heard: list[TwistStamped] = []
    name = "/quad/command_velocity/safe"
    elsewhere.node.create_subscription(TwistStamped, name, heard.append, 100)
    bench.until(lambda: guard.get_subscription_count() == 2)
    elsewhere.until(lambda: elsewhere.node.count_publishers(name) == 1)
    for k in range(1, 11):
        message = TwistStamped()
        message.header.frame_id = "map"
        message.header.stamp = make_time(NOW_NS())
        message.twist.linear.x = 0.1 * k
        guard.publish(message)
    elsewhere.until(lambda: len(heard) == 10)
    elsewhere.close()
    count = len(rover.went)
    bench.until(lambda: len(rover.went) > count)
    rover.until(lambda: rover.went[-1].twist.linear.x == 0.05, guard, v_W=(0.05, 0.0, 0.0))
    speeds = [round(message.twist.linear.x, 3) for message in rover.went[count:]]
    assert [speed for speed in speeds if speed > 0.05] == [1.0]


def test_a_vehicle_is_asked_until_its_state_says_so(bench, tmp_path, monkeypatch):
    """As with mavros, an answer says no more than that the question went out."""
    monkeypatch.setattr("quadsim.ros.drivers.services.STATE_S", 0.3)
    rover = Rover(bench, tmp_path, **PATIENT)

    def state(value) -> None:
        rover.mode.publish(Bool(data=value))
        bench.until(lambda: rover.driver._outputs.services.obeys is value)

    def land():
        return bench.call(Trigger, "/quad/vehicle/land", Trigger.Request())

    state(True)
    deaf = land()
    assert not deaf.success
    assert "asked 3 times, but vehicle/offboard_state does not say" in deaf.message
    assert len(rover.asked) >= 3
    asked = len(rover.asked)

    def second() -> None:
        if len(rover.asked) == asked + 2:
            rover.mode.publish(Bool(data=False))

    timer = bench.node.create_timer(0.02, second)
    assert land().success
    bench.node.destroy_timer(timer)
    assert len(rover.asked) == asked + 2


def test_of_two_who_say_that_the_vehicle_obeys_none_is_believed(bench, tmp_path):
    """One who says that it does not is; it is not handed over, and no flight begins."""
    rover = Rover(bench, tmp_path, **PATIENT)
    services = rover.driver._outputs.services
    rover.mode.publish(Bool(data=True))
    bench.until(lambda: services.obeys is True)
    other = bench.publisher(Bool, "/quad/vehicle/offboard_state")
    other.publish(Bool(data=False))
    bench.until(lambda: services.obeys is False)
    for _ in range(3):
        rover.mode.publish(Bool(data=True))
    bench.until(lambda: "2 publish vehicle/offboard_state" in rover.ready.message)
    assert rover.ready.level == DiagnosticStatus.ERROR
    answer = bench.call(Trigger, "/quad/vehicle/offboard", Trigger.Request())
    assert not answer.success
    assert answer.message == "2 publish vehicle/offboard_state: /bench, /bench; allowed: one"
    assert services.obeys is False
    assert bench.call(Trigger, "/quad/vehicle/land", Trigger.Request()).success
    assert rover.asked == ["land"]
    bench.node.destroy_publisher(other)
    bench.until(lambda: "offboard_state" not in rover.ready.message)
    rover.mode.publish(Bool(data=True))
    bench.until(lambda: services.obeys is True)


def test_what_ends_a_flight_of_lost_setpoints_is_read_and_judged(bench, tmp_path, monkeypatch):
    """As mavros offers GUID_TIMEOUT: a ROS parameter of its node param, once it knows it."""
    monkeypatch.setattr("quadsim.ros.drivers.outputs.ASK_S", 0.2)
    monkeypatch.setattr("quadsim.ros.drivers.outputs.AGAIN_S", 0.2)
    monkeypatch.setattr(f"{__name__}.ROVER", ROVER + """
parameters:
  - {name: GUID_TIMEOUT, node: param, most: 1.0, why: it flies on when setpoints end}
""")  # fmt: skip
    param = bench.add(rclpy.create_node("param", namespace="/lab/rover", context=bench.context))
    rover = Rover(bench, tmp_path)
    bench.until(
        lambda: "GUID_TIMEOUT could not be read from /lab/rover/param" in rover.ready.message
    )
    assert rover.ready.level == DiagnosticStatus.WARN
    param.declare_parameter("GUID_TIMEOUT", 3.0)
    bench.until(lambda: rover.ready.level == DiagnosticStatus.ERROR)
    assert rover.ready.message == (
        "GUID_TIMEOUT of the flight controller is 3; allowed: at most 1: it flies on when"
        " setpoints end"
    )
    param.set_parameters([rclpy.parameter.Parameter("GUID_TIMEOUT", value=0.5)])
    bench.until(lambda: rover.ready.message == "in order")


def test_a_pose_goes_into_the_vehicles_estimator(bench, tmp_path, monkeypatch):
    """Under mavros's name and type, with its own stamp; one without an attitude does not go."""
    monkeypatch.setattr(f"{__name__}.ROVER", ROVER + """
relays:
  - {name: vision_pose/pose, type: geometry_msgs/msg/PoseStamped, depth: 5}
""")  # fmt: skip
    rover = Rover(bench, tmp_path, relay="pose")
    bench.until(lambda: "nobody listens to /lab/rover/vision_pose/pose" in rover.ready.message)
    went: list[PoseStamped] = bench.heard(PoseStamped, "/lab/rover/vision_pose/pose", 10)
    seen = bench.publisher(PoseStamped, "/quad/external/pose_stamped", 10)
    bench.until(lambda: rover.ready.message == "in order")
    for w in (0.0, 1.0):
        message = PoseStamped()
        message.header.frame_id, message.header.stamp.sec = "world", 5 + int(w)
        message.pose.position.y, message.pose.orientation.w = 2.5, w
        seen.publish(message)
    bench.until(lambda: bool(went))
    assert (went[0].header.frame_id, went[0].header.stamp.sec) == ("map", 6)
    assert (went[0].pose.position.y, went[0].pose.orientation.w) == (2.5, 1.0)
    assert rover.driver.counts["external/pose_stamped refused"] == 1


def test_what_a_virtual_device_measures_is_lent_to_the_vehicle(bench, tmp_path, monkeypatch):
    """With its own stamp and deviations, and without a velocity, which it does not measure."""
    monkeypatch.setattr(f"{__name__}.ROVER", ROVER + """
loans:
  - {ours: odometry/visual, name: odometry/out, type: nav_msgs/msg/Odometry, depth: 5}
""")  # fmt: skip
    rover = Rover(bench, tmp_path, lend=["odometry/visual"])
    bench.until(lambda: "nobody listens to /lab/rover/odometry/out" in rover.ready.message)
    went: list[Odometry] = bench.heard(Odometry, "/lab/rover/odometry/out", 10)
    seen = bench.publisher(Odometry, "/quad/odometry/visual", 10)
    bench.until(lambda: rover.ready.message == "in order")
    message = Odometry()
    message.header.frame_id, message.header.stamp.sec = "visual_odom", 5
    message.pose.pose.position.y, message.pose.pose.orientation.w = 2.5, 1.0
    message.pose.covariance[7] = 0.25
    seen.publish(message)
    bench.until(lambda: bool(went))
    got = went[0]
    assert (got.header.frame_id, got.child_frame_id, got.header.stamp.sec) == (
        "odom", "base_link", 5,
    )  # fmt: skip
    assert (got.pose.pose.position.y, got.pose.covariance[7]) == (2.5, 0.25)
    assert math.isnan(got.twist.twist.linear.x)


def test_two_drivers_of_one_name_are_refused(bench, tmp_path):
    """Whoever has started the second one: ros2 run, another launch file."""
    Rover(bench, tmp_path)
    given = {"drivers": str(tmp_path / "rover.yaml"), "driver_namespace": "/lab"}
    with pytest.raises(InputError, match=r"/quad/driver is on DDS domain \d+ already"):
        maker(NodeSpec("driver", "/quad", given))(bench.context)


#: Names that are absolute, and a range finder that is one of several.
TOWED = """
description: absolute names
topics:
  - {ours: odometry/autopilot, names: [/towed/odom], type: nav_msgs/msg/Odometry}
  - {ours: range/down, names: [/towed/down, "/towed/eye/*"], type: sensor_msgs/msg/Range}
commands:
  - {ours: command_velocity/safe, name: /towed/go, type: geometry_msgs/msg/TwistStamped}
"""


def test_what_is_discovered_first_is_not_taken_for_the_rest(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("quadsim.ros.nodes.driver.PATIENCE_S", 1e6)
    monkeypatch.setattr("quadsim.ros.nodes.driver.SILENT_S", 1e6)
    (tmp_path / "towed.yaml").write_text(TOWED)
    parameters = {"drivers": str(tmp_path / "towed.yaml")}
    node = bench.add(maker(NodeSpec("driver", "/quad", parameters))(bench.context))
    here = bench.node
    forward = here.create_publisher(Range, "/towed/eye/forward", 10)
    bench.until(lambda: node.count_publishers(forward.topic_name) == 1)
    for _ in range(3):  # searches
        node._find()
    assert node.health()[1] == "nothing here for odometry/autopilot, range/down, commands"
    # its odometry is there, so its commands go out, though its name says nothing of where it is
    here.create_publisher(Odometry, "/towed/odom", 10)
    bench.until(lambda: here.count_publishers("/towed/go") == 1)
    assert node.health()[1] == "nothing here for range/down"
    here.create_publisher(Range, "/towed/down", 10)
    bench.until(lambda: node.health()[0] == 0)
    assert node.health()[2]["range/down from"] == "/towed/down"


def test_a_topic_that_brings_nothing_is_named_once(bench, tmp_path, monkeypatch):
    """As mavros's range, where its plugin is there and no sensor is configured."""
    monkeypatch.setattr("quadsim.ros.nodes.driver.SILENT_S", 0.5)
    (tmp_path / "towed.yaml").write_text(TOWED)
    here, said = bench.node, []
    here.create_subscription(Log, "/rosout", lambda m: said.append(m.msg), qos.RELIABLE)
    odom = here.create_publisher(Odometry, "/towed/odom", 10)
    down = here.create_publisher(Range, "/towed/down", 10)
    parameters = {"drivers": str(tmp_path / "towed.yaml"), "send": False}
    node = bench.add(maker(NodeSpec("driver", "/quad", parameters))(bench.context))

    def report() -> dict[str, str]:
        odom.publish(Odometry())
        return bench.reports.get("/quad/driver", {"message": ""})

    bench.until(lambda: report()["message"] == "no message of range/down")
    words = "/towed/down (range/down) is published, and no message has come in 0.5 s"
    bench.until(lambda: words in said)
    for _ in range(3):
        node.health()
    down.publish(Range())
    bench.until(lambda: report()["message"] == "running")
    assert [text for text in said if "is published" in text] == [words]


def test_mavros_without_its_messages_still_gives_and_takes(bench, tmp_path):
    """Where mavros_msgs is missing, its standard-typed topics are there, and the rest is named."""
    if is_installed("mavros_msgs/srv/SetMode"):
        pytest.skip("mavros_msgs is installed")
    parameters = {"drivers": "mavros", "topics": "odometry/autopilot"}
    bench.add(maker(NodeSpec("driver", "/quad", parameters))(bench.context))
    here = bench.node
    # best effort, as mavros offers it; its parameter frame_id may be anything
    theirs = here.create_publisher(Odometry, "/mavros/local_position/odom", qos.profile(5, False))
    heard: list[Odometry] = []
    here.create_subscription(Odometry, "/quad/odometry/autopilot", heard.append, qos.FAST)
    bench.until(lambda: theirs.get_subscription_count() == 1)
    message = Odometry(child_frame_id="uav_body")
    message.header.frame_id = "uav_map"
    message.header.stamp.sec = 3
    message.pose.pose.position.y = 2.5
    message.pose.pose.orientation.w = 1.0

    def arrived() -> bool:
        theirs.publish(message)
        return bool(heard)

    bench.until(arrived)
    assert (heard[0].header.frame_id, heard[0].child_frame_id) == ("map", "base_link")
    assert (heard[0].header.stamp.sec, heard[0].pose.pose.position.y) == (3, 2.5)
    refused = bench.call(SetBool, "/quad/vehicle/arm", SetBool.Request(data=True))
    assert not refused.success
    assert "the package mavros_msgs is not installed" in refused.message
    # where its odometry was found, its command goes
    bench.until(lambda: here.count_publishers("/mavros/setpoint_velocity/cmd_vel") == 1)
