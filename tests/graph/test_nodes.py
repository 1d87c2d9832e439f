"""Nodes by themselves: as ``ros2 run`` starts them, at the border, and by their services."""

import math
import signal
import time
from functools import partial
from itertools import count

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, Transform, TwistStamped, Vector3
from nav_msgs.msg import Odometry
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.gazebo.urdf import robot_description
from quadsim.ros.nodes import autopilot, description, dynamics, mixer
from quadsim.ros.runtime import qos
from quadsim.sensors.devices import load_suite
from quadsim.vehicle.parameters import VehicleParams


#: Two stand for all, which begin and end alike (test_launched ends each once).
@pytest.mark.parametrize("name", ["dynamics", "recorder"])
def test_a_node_runs_alone_and_two_ctrl_c_end_it_cleanly(
    command, bench, domain, name, tmp_path, monkeypatch
):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.chdir(tmp_path)  # the recorder names its bag there
    args = ["--ros-args", "-r", "__ns:=/quad7", "-r", "__node:=other"]
    node = command(name, *args, module="quadsim.ros")
    bench.until(lambda: "/quad7/other" in bench.reports)
    node.interrupt()
    node.interrupt()
    status, _ = node.finish()
    assert status == 0, node.log
    assert "Traceback" not in node.log


@pytest.mark.parametrize(
    ("name", "parameter", "word"),
    [
        ("imu", "rate_hz:=fast", "rate_hz"),
        ("autopilot", "mission:=nowhere", "nowhere"),
    ],
)
def test_a_wrong_parameter_is_one_line(command, domain, monkeypatch, name, parameter, word):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    node = command(name, "--ros-args", "-p", parameter, module="quadsim.ros")
    status, _ = node.finish()
    assert status == 2
    (line,) = node.log.splitlines()
    assert word in line


def odometry(stamp_ns: int, height: float = 1.0) -> Odometry:
    message = Odometry(child_frame_id="base_link")
    message.header.frame_id = "map"
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.pose.pose.position.z = height
    return message


def test_what_cannot_be_flown_on_is_counted_at_the_border(bench):
    """NaN, a repeat and a jump back reach no model; what is good is answered with its stamp."""
    node = bench.add(mixer.make(bench.context, namespace="/quad"))
    answers: list[int] = []
    bench.node.create_subscription(
        JointState,
        "/quad/command_motor_speed",
        lambda m: answers.append(m.header.stamp.sec * 10**9 + m.header.stamp.nanosec),
        qos.FAST,
    )
    source = bench.publisher(Odometry, "/quad/odometry/filtered", qos.FAST)
    # stamps of the future: the watchdog's clock has not come to them
    start_ns = time.time_ns() + 10**12
    for stamp_ns, height in (
        (start_ns, 1.0),
        (start_ns, 1.0),
        (start_ns - 2_000_000, 1.0),
        (start_ns + 2_000_000, math.nan),
        (start_ns + 4_000_000, 1.0),
    ):
        source.publish(odometry(stamp_ns, height))
    bench.until(lambda: len(answers) >= 2)
    assert answers == [start_ns, start_ns + 4_000_000]
    assert node.counts["odometry/filtered refused"] == 3


def test_late_comers_are_told_what_the_vehicles_look_like(bench):
    """By ``dynamics`` for all of its vehicles, by ``description`` where another physics flies."""
    bench.add(dynamics.make(bench.context, overrides={"count": 2, "paused": True}))
    overrides = {"vehicle": "hexacopter", "sensors": "lidar"}
    bench.add(description.make(bench.context, namespace="/quad7", overrides=overrides))
    bodies = {
        "quad1": ("x500", "default"),
        "quad2": ("x500", "default"),
        "quad7": ("hexacopter", "lidar"),
    }
    heard = {}
    for name in bodies:
        bench.node.create_subscription(
            String, f"/{name}/robot_description", partial(heard.setdefault, name), qos.LATCHED
        )
    bench.until(lambda: len(heard) == len(bodies))
    for name, (vehicle, suite) in bodies.items():
        params = load(VehicleParams, find("vehicles", vehicle))
        assert heard[name].data == robot_description(params, load_suite(suite), f"{name}/")


def test_an_offer_that_does_not_fit_is_named(bench, capfd):
    node = bench.add(mixer.make(bench.context, namespace="/quad"))
    profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    bench.node.create_publisher(
        Odometry,
        "/quad/odometry/filtered",
        profile,
        event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
    )
    bench.until(lambda: "odometry/filtered incompatible" in node.counts)
    assert "odometry/filtered" in capfd.readouterr().err


def test_a_best_effort_vehicle_is_heard_when_told_so(bench):
    node = mixer.make(bench.context, namespace="/quad", overrides={"odometry_reliable": False})
    bench.add(node)
    profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    source = bench.publisher(Odometry, "/quad/odometry/filtered", profile)
    answers: list[JointState] = bench.heard(JointState, "/quad/command_motor_speed", qos.FAST)
    bench.until(lambda: bench.node.count_publishers("/quad/command_motor_speed") > 0)
    # best effort may lose one: a new stamp each time, all of them later than the watchdog's clock
    stamps_ns = count(time.time_ns() + 10**12, 2_000_000)
    bench.node.create_timer(0.02, lambda: source.publish(odometry(next(stamps_ns))))
    bench.until(lambda: bool(answers))
    assert "odometry/filtered incompatible" not in node.counts


@pytest.fixture
def flight(bench, fly, long_hover):
    """A composed flight that hovers, and the bench beside it.

    At most twice as fast as time: without a bound commands grow old before a bench with little
    time has sent the next.
    """
    running = fly("--composed", "--pacing", "lockstep", "--rate", "2", scenario=str(long_hover))
    running.wait_for("mission: item 1")
    return running


def trajectory(*points_W: tuple[float, float, float]) -> MultiDOFJointTrajectory:
    """Positions in map, two seconds apart."""
    message = MultiDOFJointTrajectory()
    message.header.frame_id = "map"
    for i, (x, y, z) in enumerate(points_W):
        transform = Transform(translation=Vector3(x=x, y=y, z=z))
        point = MultiDOFJointTrajectoryPoint(transforms=[transform])
        point.time_from_start.sec = 2 * i
        message.points.append(point)
    return message


def test_commands_and_services_in_flight(bench, flight):
    """Pose and velocity commands, the truth as state source, and landing, each by its own door."""
    said: list[str] = []
    bench.node.create_subscription(
        String, "/quad/state_source", lambda m: said.append(m.data), qos.LATCHED
    )
    answer = bench.call(SetBool, "/quad/use_truth", SetBool.Request(data=True))
    assert answer.success
    bench.until(lambda: said[-1:] == ["truth"])

    truth: list[Odometry] = bench.heard(Odometry, "/quad/ground_truth/odom", qos.FAST)
    pose = PoseStamped()
    pose.header.frame_id = "map"
    pose.pose.position.x, pose.pose.position.y, pose.pose.position.z = 1.0, -0.5, 1.5
    poses = bench.publisher(PoseStamped, "/quad/command_pose", 10)
    # refused as long as nothing has been heard of the new source
    again = bench.node.create_timer(0.5, lambda: poses.publish(pose))

    def near(x: float, y: float, z: float) -> bool:
        # the autopilot's own tolerance is 0.5 m; hover on the truth is within 0.1
        places = [one.pose.pose.position for one in truth[-20:]]
        return any(math.dist((p.x, p.y, p.z), (x, y, z)) < 0.1 for p in places)

    bench.until(lambda: near(1.0, -0.5, 1.5))
    bench.node.destroy_timer(again)

    # to a place where it stays, since a bench that gets little time misses what passes
    ways = bench.publisher(MultiDOFJointTrajectory, "/quad/command_trajectory", 10)
    ways.publish(trajectory((1.0, -0.5, 1.5), (2.0, -0.5, 2.0)))
    bench.until(lambda: near(2.0, -0.5, 2.0))
    # one with a NaN is counted and changes nothing
    ways.publish(trajectory((2.0, -0.5, 2.0), (math.nan, -0.5, 1.5)))
    refusals = "command_trajectory refused"
    bench.until(lambda: bench.reports.get("/quad/autopilot", {}).get(refusals) == "1")
    truth.clear()
    bench.until(lambda: near(2.0, -0.5, 2.0))

    wish = TwistStamped()
    wish.header.frame_id = "map"
    wish.twist.linear.y = 1.0
    velocities = bench.publisher(TwistStamped, "/quad/command_velocity", 10)

    again = bench.node.create_timer(0.05, lambda: velocities.publish(wish))
    bench.until(lambda: any(one.twist.twist.linear.y > 0.8 for one in truth[-20:]))
    bench.node.destroy_timer(again)
    # a bench that gets little time lets the wish grow old, and then it hovers already
    paused = bench.call(Trigger, "/quad/mission/pause", Trigger.Request())
    assert paused.success or paused.message == "not while hover"
    landing = bench.call(Trigger, "/quad/land", Trigger.Request())
    assert landing.success, landing.message
    again = bench.call(Trigger, "/quad/land", Trigger.Request())
    assert not again.success
    status, _ = flight.finish()
    # it flew elsewhere than the scenario says, which its criteria may or may not forgive
    assert status in (0, 1)
    assert "disarmed: motors stopped" in flight.log


def test_pause_step_and_reset(bench, flight):
    bench.call(SetBool, "/sim/pause", SetBool.Request(data=True))
    bench.until(lambda: bench.reports.get("/dynamics", {}).get("paused") == "true")
    first = bench.call(Trigger, "/sim/step", Trigger.Request())
    second = bench.call(Trigger, "/sim/step", Trigger.Request())
    times = [float(answer.message.split()[2]) for answer in (first, second)]
    assert times[1] - times[0] == pytest.approx(0.002, abs=1e-9)
    truth: list[Odometry] = bench.heard(Odometry, "/quad/ground_truth/odom", qos.FAST)
    bench.until(lambda: bench.node.count_publishers("/quad/ground_truth/odom") > 0)
    bench.call(Trigger, "/sim/reset", Trigger.Request())
    while not truth:
        bench.call(Trigger, "/sim/step", Trigger.Request())
    # on the ground again, and time has not gone back
    position = truth[-1].pose.pose.position
    assert (position.x, position.y) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert position.z < 0.3
    stamp = truth[-1].header.stamp
    assert stamp.sec + stamp.nanosec * 1e-9 > times[1]
    bench.until(lambda: bench.reports.get("/quad/autopilot", {}).get("message") == "disarmed")
    flight.interrupt()
    assert flight.finish()[0] == 128 + signal.SIGINT


def test_a_second_publisher_of_the_truth_is_named(bench):
    """Whoever flies on the truth takes either, and crashes."""
    bench.add(dynamics.make(bench.context, overrides={"paused": True}))
    events = bench.heard(DiagnosticStatus, "/quad/events", qos.EVENTS)
    bench.until(lambda: "/dynamics" in bench.reports)
    assert bench.reports["/dynamics"]["message"] == "paused"
    bench.node.create_publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
    words = "2 publish /quad/ground_truth/odom: /bench, /dynamics"
    bench.until(lambda: bench.reports["/dynamics"]["message"] == words)
    bench.until(lambda: any(event.message == words for event in events))


def test_the_autopilot_does_not_arm_while_the_estimator_rejects_a_sensor(bench):
    """The estimator of this vehicle; what another's rejects is not its matter."""
    bench.add(autopilot.make(bench.context, namespace="/quad"))
    reports = bench.node.create_publisher(DiagnosticArray, "/diagnostics", 10)
    bench.until(lambda: reports.get_subscription_count() > 1)

    def refusal(name, sensors):
        status = DiagnosticStatus(name=name, values=[KeyValue(key="rejected", value=sensors)])
        reports.publish(DiagnosticArray(status=[status]))
        return bench.call(SetBool, "/quad/arm", SetBool.Request(data=True)).message

    assert refusal("/quad2/estimator", "range") == "there is no estimate"
    bench.until(
        lambda: refusal("/quad/estimator", "pressure") == "measurements are rejected: pressure"
    )
    bench.until(lambda: refusal("/quad/estimator", "") == "there is no estimate")
