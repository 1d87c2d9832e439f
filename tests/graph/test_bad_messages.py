"""No message kills or fools a node: each input takes thousands that are wrong, then a good one.

Nodes are real; their subscriptions are called by hand, in simulated time, so that nothing waits.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from bad_messages import bad_payloads, numbers_in
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import (
    PoseStamped,
    PoseWithCovarianceStamped,
    Transform,
    Twist,
    TwistStamped,
    TwistWithCovarianceStamped,
)
from nav_msgs.msg import Odometry, Path
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.task import Future
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import (
    BatteryState,
    FluidPressure,
    Imu,
    JointState,
    Joy,
    LaserScan,
    MagneticField,
    NavSatFix,
    PointCloud2,
    PointField,
    Range,
)
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from quadsim.geometry.geodesy import Datum
from quadsim.hil.guard.emergency import Emergency
from quadsim.hil.guard.guard import Guard
from quadsim.hil.guard.parameters import WatchParams
from quadsim.ros.messages.world import make_time
from quadsim.ros.nodes import (
    autopilot,
    driver,
    estimator,
    guard,
    mixer,
    monitor,
    planner,
    recorder,
    stand_in,
)
from quadsim.ros.runtime import qos

STEP_NS = 20_000_000
#: Simulated time after which a good input has to be obeyed again, in steps: 4 s.
MOST_STEPS = 200


@pytest.fixture
def sent(monkeypatch) -> list[tuple[str, Any]]:
    """What is published, by the end of its topic's name; nothing goes out."""
    said: list[tuple[str, Any]] = []

    def publish(self: Publisher, message: Any) -> None:
        if isinstance(message, bytes):
            message = deserialize_message(message, self.msg_type)
        said.append((self.topic_name, message))

    monkeypatch.setattr(Publisher, "publish", publish)
    return said


class Fed:
    """A node in simulated time whose inputs are given by hand.

    Args:
        node: made with ``use_sim_time``.
        sent: what it publishes.
    """

    def __init__(self, node: Any, sent: list[tuple[str, Any]]) -> None:
        self.node, self.sent = node, sent
        self.now_ns = 10_000_000_000
        self.tell_time()

    def take(self, topic: str, payload: bytes) -> None:
        """Hand a topic's callbacks one message."""
        found = [
            one for one in Node.subscriptions.fget(self.node) if one.topic_name.endswith(topic)
        ]
        assert found, topic
        for subscription in found:
            subscription.callback(payload)

    def give(self, topic: str, message: Any) -> None:
        """A good one; its header gets the time."""
        if hasattr(message, "header"):
            message.header.stamp = make_time(self.now_ns)
        self.take(topic, serialize_message(message))

    def tell_time(self) -> None:
        for subscription in Node.subscriptions.fget(self.node):
            if subscription.topic_name == "/clock":
                subscription.callback(Clock(clock=make_time(self.now_ns)))

    def step(self) -> None:
        """Time goes on, and timers fire."""
        self.now_ns += STEP_NS
        self.tell_time()
        for timer in list(self.node.timers):
            timer.callback()

    def last(self, topic: str) -> Any:
        """The newest message of a topic since :meth:`forget`."""
        return next((m for name, m in reversed(self.sent) if name.endswith(topic)), None)

    def all_finite(self, *names: str) -> bool:
        """Whether all numbers are, that were sent since :meth:`forget`."""
        return all(
            math.isfinite(number)
            for name, message in self.sent
            if name.endswith(names)
            for number in numbers_in(message)
        )

    def forget(self) -> None:
        self.sent.clear()


def feed(
    fed: Fed,
    inputs: dict[str, Any],
    outputs: tuple[str, ...],
    good: Callable[[], None],
    obeyed: Callable[[], bool],
    every: int = 1,
) -> int:
    """Give every wrong message of every input; after each one good input is obeyed again.

    Args:
        fed: the node.
        inputs: topics, and a good message of each.
        outputs: topics in which every number is finite.
        good: gives good input of one step.
        obeyed: whether the node does what that asks for.
        every: one message of so many is given, where the way back to good takes its time.
    """
    count = 0
    for topic, message in inputs.items():
        if hasattr(message, "header"):
            message.header.stamp = make_time(fed.now_ns)
        for words, payload in islice(bad_payloads(message), None, None, every):
            where = f"{topic}: {words}"
            count += 1
            fed.forget()
            try:
                fed.take(topic, payload)
                for _ in range(MOST_STEPS):
                    fed.step()
                    good()
                    if obeyed():
                        break
                else:
                    last = [(n, str(m)[:300]) for n, m in fed.sent[-3:]]
                    raise AssertionError(f"{where}: not obeyed any more: {last}")
            except Exception as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
            assert fed.all_finite(*outputs), where
    return count


# ---- good messages -----------------------------------------------------------------------------


def odometry(z: float = 1.5) -> Odometry:
    message = Odometry(child_frame_id="base_link")
    message.header.frame_id = "map"
    message.pose.pose.position.z = z
    message.pose.pose.orientation.w = 1.0
    return message


def pose(z: float = 1.5) -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = "map"
    message.pose.position.z = z
    message.pose.orientation.w = 1.0
    return message


def scan(distance_m: float = 8.0) -> LaserScan:
    message = LaserScan(
        angle_min=-math.pi, angle_increment=math.radians(5.0), range_min=0.1, range_max=10.0,
        ranges=[distance_m] * 72,
    )  # fmt: skip
    message.header.frame_id = "base_stabilized"
    return message


def cloud() -> PointCloud2:
    fields = [PointField(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate("xyz")]
    message = PointCloud2(
        height=1, width=2, point_step=12, row_step=24, fields=fields, data=[0, 0, 0, 65] * 6
    )
    message.header.frame_id = "base_stabilized"
    return message


def velocity(x: float = 1.0) -> TwistStamped:
    message = TwistStamped()
    message.header.frame_id = "map"
    message.twist.linear.x = x
    return message


# ---- the nodes ---------------------------------------------------------------------------------


def made(bench, module: Any, **overrides: Any) -> Any:
    return bench.add(
        module.make(bench.context, namespace="/quad", overrides={"use_sim_time": True, **overrides})
    )


@pytest.mark.parametrize("in_flight", [True, False])
def test_guard(bench, sent, in_flight):
    """In flight it goes on, brakes or holds, never lands or ends; on the ground it may begin."""
    fed = Fed(made(bench, guard, **{"others.odometry": ["/a/odom"]}), sent)
    other = odometry()
    other.pose.pose.position.x = 30.0

    def good() -> None:
        fed.give("/a/odom", other)
        here = odometry()  # of no vehicle in motion the same to the bit as the last one
        here.pose.pose.position.x = 1e-6 * math.sin(fed.now_ns)
        fed.give("/odometry/filtered", here)
        fed.give("/scan", scan())
        fed.give("/dead_man", Bool(data=True))
        fed.give("/command_velocity", velocity())
        fed.give("/vehicle/offboard_state", Bool(data=True))

    def enable(wanted: bool) -> bool:
        (service,) = (s for s in fed.node.services if s.srv_name.endswith("enable"))
        request, response = service.srv_type.Request(data=wanted), service.srv_type.Response()
        return bool(service.callback(request, response).success)

    def obeyed() -> bool:
        if not in_flight:
            begins = enable(True)
            return begins and enable(False)
        state = fed.node.health()[2]["state"]
        assert state != "landing"
        if state == "disabled":  # the vehicle said that it has left offboard mode
            enable(True)
        command = fed.last("/command_velocity/safe")
        return command is not None and command.twist.linear.x > 0.95

    for _ in range(40):
        fed.step()
        good()
    if in_flight:
        assert enable(True)
    inputs = {
        "/odometry/filtered": odometry(), "/scan": scan(), "/points": cloud(),
        "/command_velocity": velocity(), "/dead_man": Bool(data=True), "/a/odom": other,
        "/vehicle/offboard_state": Bool(data=True),
    }  # fmt: skip
    every = 1 if in_flight else 7
    count = feed(fed, inputs, ("/command_velocity/safe",), good, obeyed, every)
    assert count * every > 1000


def attitude_command() -> MultiDOFJointTrajectory:
    point = MultiDOFJointTrajectoryPoint(
        transforms=[Transform()], velocities=[Twist()], accelerations=[Twist()]
    )
    point.transforms[0].rotation.w = 1.0
    point.accelerations[0].linear.z = 9.8
    return MultiDOFJointTrajectory(joint_names=["base_link"], points=[point])


def trajectory() -> MultiDOFJointTrajectory:
    points = [attitude_command().points[0] for _ in range(3)]
    for k, point in enumerate(points):
        point.transforms[0].translation.x, point.transforms[0].translation.z = 0.1 * k, 2.0
        point.time_from_start.sec = 1 + k
    message = MultiDOFJointTrajectory(joint_names=["base_link"], points=points)
    message.header.frame_id = "map"
    return message


def imu() -> Imu:
    message = Imu()
    message.header.frame_id = "imu_link"
    message.linear_acceleration.z = 9.80665
    message.linear_acceleration_covariance[::4] = [1e-4] * 3
    message.angular_velocity_covariance[::4] = [1e-6] * 3
    return message


def path(*places: tuple[float, float, float]) -> Path:
    message = Path(poses=[pose() for _ in places])
    message.header.frame_id = "map"
    for each, (x, y, z) in zip(message.poses, places, strict=True):
        each.pose.position.x, each.pose.position.y, each.pose.position.z = x, y, z
    return message


def event() -> DiagnosticStatus:
    values = [KeyValue(key="stamp_s", value="1.0"), KeyValue(key="motor", value="x")]
    return DiagnosticStatus(name="something", message="happened", values=values)


def rotors() -> JointState:
    return JointState(name=[f"rotor_{k}" for k in range(4)], velocity=[500.0] * 4, effort=[1.0] * 4)


def ranging() -> Range:
    message = Range(field_of_view=0.4, min_range=0.1, max_range=10.0, range=2.0, variance=1e-4)
    message.header.frame_id = "range_link"
    return message


def test_mixer(bench, sent):
    """Each good odometry is answered by speeds of its stamp that carry the vehicle."""
    fed = Fed(made(bench, mixer, gyro_fallback=True), sent)

    def good() -> None:
        fed.give("/command_attitude", attitude_command())
        fed.give("/odometry/filtered", odometry())

    def obeyed() -> bool:
        said = fed.last("/command_motor_speed")
        at_once = said is not None and said.header.stamp == make_time(fed.now_ns)
        return at_once and min(said.velocity) > 300.0

    for _ in range(10):
        fed.step()
        good()
    assert obeyed()
    inputs = {
        "/odometry/filtered": odometry(), "/command_attitude": attitude_command(),
        "/motor_speed": rotors(), "/imu/data_raw": imu(), "/events": event(),
        "/state_source": String(data="estimate"),
    }  # fmt: skip
    feed(fed, inputs, ("/command_motor_speed",), good, obeyed)


@pytest.mark.parametrize("in_flight", [False, True])
def test_autopilot(bench, sent, in_flight):
    """Each good odometry is answered; in flight a good wish is obeyed."""
    fed = Fed(made(bench, autopilot, joystick="xbox"), sent)
    at = [0.0, 0.0, 0.0]

    def good() -> None:
        """A vehicle that does at once what is wanted of it."""
        message = odometry(at[2])
        message.pose.pose.position.x, message.pose.pose.position.y = at[:2]
        wish, reference = fed.last("/command_velocity"), fed.last("/reference")
        if fed.node.manager.armed and wish is not None and reference is not None:
            v, p = wish.twist.linear, reference.pose.position
            moves = [v.x, v.y, v.z]
            message.twist.twist.linear = v
            at[:] = [old + 0.02 * speed for old, speed in zip(at, moves, strict=True)]
            if not any(moves):
                at[:] = [p.x, p.y, p.z]
            at[2] = max(at[2], 0.0)
        source = fed.node.health()[2]["state_source"]  # a button of the pad switches it
        fed.give("/odometry/filtered" if source == "estimate" else "/ground_truth/odom", message)
        if flying:
            fed.give("/command_velocity", velocity(0.001))

    def obeyed() -> bool:
        said = fed.last("/command_attitude")
        if said is None or said.header.stamp != make_time(fed.now_ns):
            return False
        return not flying or fed.node.manager.state == "velocity"

    flying = False
    for _ in range(60):
        fed.step()
        good()
    assert obeyed()
    inputs: dict[str, Any] = {
        "/odometry/filtered": odometry(), "/command_velocity": velocity(0.001),
        "/command_pose": pose(2.0), "/command_trajectory": trajectory(),
    }  # fmt: skip
    if in_flight:
        fed.node.manager.arm()
        fed.node.manager.take_off()
        for _ in range(1000):
            fed.step()
            good()
            if fed.node.manager.state == "hover":
                break
        flying = True
        for _ in range(100):
            fed.step()
            good()
        assert obeyed(), fed.node.manager.status()
    else:
        inputs |= {
            "/mission": path((1.0, 0.0, 2.0), (2.0, 0.0, 2.0)), "/range/down": ranging(),
            "/battery_state": BatteryState(percentage=0.9, voltage=16.0), "/events": event(),
            "/joy": Joy(axes=[0.0] * 8, buttons=[0] * 11),
        }  # fmt: skip
    outputs = ("/command_attitude", "/command_velocity", "/reference", "/mission")
    feed(fed, inputs, outputs, good, obeyed)


def test_estimator(bench, sent):
    """Each good IMU sample is answered by an estimate that is where the vehicle stands."""
    node = made(
        bench, estimator, datum_source="parameter", external_pose_type="pose_with_covariance",
        beside=["ekf7", "gps_ins"],
    )  # fmt: skip
    fed, datum = Fed(node, sent), Datum()
    field, fix, gps = MagneticField(), NavSatFix(), TwistWithCovarianceStamped()
    field.header.frame_id = "imu_link"
    field.magnetic_field.y, field.magnetic_field.z = 2.15e-5, -4.3e-5
    fix.latitude, fix.longitude, fix.altitude = datum.to_geodetic((0.0, 0.0, 0.0))
    fix.position_covariance[::4] = [0.01] * 3
    fix.status.status = 0
    fix.position_covariance_type = NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN
    gps.header.frame_id = "map"
    gps.twist.covariance[::7] = [0.01] * 6
    external = PoseWithCovarianceStamped()
    external.header.frame_id = "map"
    external.pose.pose.orientation.w = 1.0
    external.pose.covariance[::7] = [0.01] * 6

    def good() -> None:
        for _ in range(4):
            fed.now_ns += STEP_NS // 4
            fed.give("/imu/data_raw", imu())
        fed.give("/imu/mag", field)
        fed.give("/imu/static_pressure", FluidPressure(fluid_pressure=101325.0, variance=10.0))
        if fed.now_ns % (10 * STEP_NS) == 0:
            fed.give("/gps/fix", fix)
            fed.give("/gps/vel", gps)

    def obeyed() -> bool:
        said = fed.last("/odometry/filtered")
        if said is None or said.header.stamp != make_time(fed.now_ns):
            return False
        p = said.pose.pose.position
        return math.hypot(p.x, p.y, p.z) < 3.0

    for _ in range(200):
        good()
    assert obeyed(), (fed.node.health(), fed.last("/odometry/filtered"))
    inputs = {
        "/imu/data_raw": imu(), "/imu/mag": field, "/gps/fix": fix, "/gps/vel": gps,
        "/imu/static_pressure": FluidPressure(fluid_pressure=101325.0, variance=10.0),
        "/range/down": ranging(), "/external/pose": external, "/landed": Bool(data=False),
        "/events": event(),
    }  # fmt: skip
    outputs = ("/odometry/filtered", "/odometry/blind", "/imu/data", "/ekf7", "/gps_ins")
    feed(fed, inputs, outputs, good, obeyed, every=5)


def test_planner(bench, sent):
    """Each good pose is answered by a wish, as long as there is a goal."""
    fed = Fed(made(bench, planner, **{"others.odometry": ["/a/odom"]}), sent)

    def good() -> None:
        if fed.node.health()[1] != "flying":
            fed.give("/goals", path((30.0, 0.0, 1.5)))
        fed.give("/odometry/filtered", odometry())
        fed.give("/scan", scan(math.inf))

    def obeyed() -> bool:
        wish = fed.last("/command_velocity")
        return wish is not None and math.hypot(wish.twist.linear.x, wish.twist.linear.y) > 0.1

    for _ in range(20):
        fed.step()
        good()
    assert obeyed(), fed.node.health()
    inputs = {
        "/odometry/filtered": odometry(), "/scan": scan(), "/points": cloud(),
        "/a/odom": odometry(), "/goals": path((30.0, 0.0, 1.5)), "/goal_pose": pose(),
    }  # fmt: skip
    feed(fed, inputs, ("/command_velocity", "/planner/path"), good, obeyed, every=5)


def test_the_planner_takes_no_more_goals_than_it_can_show(bench, sent):
    """50 000 goals once kept it silent for tens of seconds."""
    fed = Fed(made(bench, planner), sent)
    fed.give("/odometry/filtered", odometry())
    fed.give("/goals", path(*[(30.0, 0.1 * k, 1.5) for k in range(-100, 100)]))
    fed.step()
    fed.give("/odometry/filtered", odometry())
    assert fed.node.health()[2]["goals"] == 200
    fed.give("/goals", path(*[(30.0, 0.0, 1.5)] * 1001))
    fed.give("/goals", path((1e9, 0.0, 1.5)))
    assert fed.node.counts["goals refused"] == 2
    fed.step()
    fed.give("/odometry/filtered", odometry())
    assert fed.node.health()[2]["goals"] == 200


def test_monitor(bench, sent):
    """It takes part in nothing, and goes on to report."""
    given = {
        "pose": "/driver/odom nav_msgs/msg/Odometry",
        "setpoint": "/driver/cmd_vel geometry_msgs/msg/TwistStamped",
        "others.odometry": ["/a/odom"],
    }
    fed = Fed(made(bench, monitor, **given), sent)

    def good() -> None:
        fed.give("/driver/odom", odometry())
        fed.give("/odometry/filtered", odometry())
        fed.give("/scan", scan())
        fed.give("/driver/cmd_vel", velocity())
        fed.node.report()

    def obeyed() -> bool:
        report = fed.last("/diagnostics")
        return report is not None and report.status[0].name == "/quad/monitor"

    report = DiagnosticArray(status=[DiagnosticStatus(name="/quad/guard", values=[KeyValue()])])
    inputs = {
        "/driver/odom": odometry(), "/driver/cmd_vel": velocity(), "/scan": scan(),
        "/odometry/filtered": odometry(), "/points": cloud(), "/a/odom": odometry(),
        "/command_velocity": velocity(), "/command_velocity/safe": velocity(),
        "/diagnostics": report,
    }  # fmt: skip
    feed(fed, inputs, (), good, obeyed, every=5)


def test_stand_in(bench, sent):
    """It counts each good setpoint."""
    node = bench.add(stand_in.make(bench.context, namespace="/standing"))
    fed = Fed(node, sent)
    counted = [0]

    def good() -> None:
        counted[0] = node.health()[2]["setpoints"]
        fed.give("/cmd_vel", velocity())

    def obeyed() -> bool:
        return bool(node.health()[2]["setpoints"] == counted[0] + 1)

    feed(fed, {"/cmd_vel": velocity()}, ("/odom",), good, obeyed)


# ---- on DDS ------------------------------------------------------------------------------------


def test_bytes_on_dds_leave_a_running_graph_alive(bench, tmp_path):
    """What the middleware passes on of them; recorder and driver are among those that hear it."""
    nodes = [
        bench.add(guard.make(bench.context, namespace="/quad")),
        bench.add(estimator.make(bench.context, namespace="/quad")),
        bench.add(autopilot.make(bench.context, namespace="/quad")),
        bench.add(recorder.make(bench.context, overrides={"output": str(tmp_path / "bag")})),
        bench.add(driver.make(bench.context, namespace="/quad", overrides={"drivers": "mavros"})),
    ]
    heard = {
        "/quad/odometry/filtered": odometry(), "/quad/command_velocity": velocity(),
        "/quad/scan": scan(), "/quad/imu/data_raw": imu(), "/quad/range/down": ranging(),
        "/quad/ground_truth/odom": odometry(), "/clock": Clock(),
        "/mavros/imu/data_raw": imu(), "/mavros/local_position/odom": odometry(),
        "/mavros/global_position/raw/fix": NavSatFix(),
    }  # fmt: skip
    offered = {
        name: bench.node.create_publisher(type(message), name, qos.RELIABLE)
        for name, message in heard.items()
    }
    bench.until(lambda: all(p.get_subscription_count() > 0 for p in offered.values()))
    count = 0
    for name, message in heard.items():
        for k, (_, payload) in enumerate(bad_payloads(message)):
            if k % 7 == 0 and 4 <= len(payload) < 2000:
                with suppress(RuntimeError):  # what is too long for its type is not even sent
                    offered[name].publish(payload)
                    count += 1
                bench.executor.spin_once(0.0)
    assert count > 150
    # each has taken what came, and still counts what is wrong
    wrong = odometry()
    wrong.pose.pose.position.x = math.nan
    seen = dict(nodes[0].counts)

    def counted() -> bool:
        offered["/quad/odometry/filtered"].publish(wrong)
        return nodes[0].counts["odometry/filtered refused"] > seen["odometry/filtered refused"] + 3

    bench.until(counted)
    bench.until(lambda: all(node.get_fully_qualified_name() in bench.reports for node in nodes))
    for refused in ("imu/data_raw", "range/down"):
        assert nodes[1].counts[f"{refused} refused"] > 0
    assert nodes[2].counts["command_velocity refused"] > 0
    assert nodes[3].counts["/quad/ground_truth/odom refused"] > 0


# ---- an exception that nobody expected ---------------------------------------------------------


class Broken(Exception):
    """Of a defect that nobody has found yet."""


@pytest.mark.parametrize("lands", [True, False])
def test_a_guard_that_fails_brakes_lands_is_named_and_ends_then(bench, sent, monkeypatch, lands):
    fed = Fed(made(bench, guard), sent)

    def good() -> None:
        fed.give("/odometry/filtered", odometry())
        fed.give("/scan", scan())
        fed.give("/dead_man", Bool(data=True))
        fed.give("/command_velocity", velocity())

    for _ in range(40):
        fed.step()
        good()
    (service,) = (s for s in fed.node.services if s.srv_name.endswith("enable"))
    request, response = service.srv_type.Request(data=True), service.srv_type.Response()
    assert service.callback(request, response).success
    for _ in range(40):
        fed.step()
        good()
    assert fed.last("/command_velocity/safe").twist.linear.x == pytest.approx(1.0)

    def fail(*_: Any, **__: Any) -> None:
        raise Broken("here")

    monkeypatch.setattr("quadsim.hil.guard.guard.safe_command", fail)
    monkeypatch.setattr("quadsim.hil.guard.emergency.LAST_S", 12.0)
    asked = []
    client = next(c for c in fed.node.clients if c.srv_name.endswith("vehicle/land"))

    def call(_: Any) -> Future:
        asked.append(fed.now_ns)
        future: Future = Future()
        future.set_result(Trigger.Response(success=lands))
        return future

    monkeypatch.setattr(type(client), "service_is_ready", lambda _: True)
    monkeypatch.setattr(type(client), "call_async", lambda _, request: call(request))
    fed.forget()
    begun_ns, ended_ns = fed.now_ns, 0
    speeds: list[tuple[float, float, float]] = []
    for _ in range(5000):
        try:
            fed.step()
            good()
        except Broken:
            ended_ns = fed.now_ns
            break
        said = fed.last("/command_velocity/safe")
        if said is None:  # in the step in which it fails
            continue
        command = said.twist.linear
        speeds.append(((fed.now_ns - begun_ns) * 1e-9, command.x, command.z))
    # zero at once, then the descent, and the call to land once a second until it is taken up
    assert all(x == 0.0 for _, x, _ in speeds)
    assert all(z == 0.0 for t_s, _, z in speeds if t_s < 1.9)
    assert all(z == -0.4 for t_s, _, z in speeds if t_s > 2.1)
    took_s = (ended_ns - begun_ns) * 1e-9
    assert len(asked) == 1 if lands else 8 <= len(asked) <= 10
    assert took_s == pytest.approx(4.0 if lands else 12.0, abs=0.1)
    told = [m.message for name, m in sent if name.endswith("/events")]
    assert "the guard has failed: Broken: here" in told
    report = fed.last("/diagnostics").status[0]
    assert (report.level, report.message) == (
        DiagnosticStatus.ERROR, "landing: the guard has failed: Broken: here",
    )  # fmt: skip


def test_a_guard_that_fails_before_a_flight_ends_at_once(bench, sent, monkeypatch):
    fed = Fed(made(bench, guard), sent)

    def fail(*_: Any, **__: Any) -> None:
        raise Broken("here")

    monkeypatch.setattr(Guard, "take_pose", fail)
    with pytest.raises(Broken):
        fed.give("/odometry/filtered", odometry())
    assert fed.last("/events").message == "the guard has failed: Broken: here"
    assert fed.last("/command_velocity/safe") is None


def test_a_pilot_who_takes_over_from_a_failed_guard_has_the_vehicle(bench, sent):
    guard_left = Emergency(WatchParams(), 0, "failed")
    assert guard_left.step(0).send
    guard_left.take_offboard(False)
    said = guard_left.step(10**9)
    assert (said.send, said.land, said.state) == (False, False, "disabled")
    assert guard_left.over(10**9, False)
