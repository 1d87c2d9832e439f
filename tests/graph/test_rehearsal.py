"""``quadsim rehearse --dds``: the graph of a real vehicle flies one that stands in for it."""

import json
import math
import os
import time

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, Twist, TwistStamped, Vector3
from nav_msgs.msg import Odometry, Path
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from quadsim.bag.reading import open_bag
from quadsim.ros.graph.hil_graph import HilLaunch
from quadsim.ros.runtime import qos
from quadsim.ros.runtime.processes import maker

#: One pillar in the middle of a way of 9 m.
RADIUS_M, START_W, GOAL_W, PILLAR_W = 0.5, (0.0, 0.0, 2.0), (9.0, 0.0, 2.0), (4.5, 0.1)
WORLD = f"""<sdf version="1.9"><world name="one">
  <model name="pillar"><static>true</static><pose>{PILLAR_W[0]} {PILLAR_W[1]} 2 0 0 0</pose>
    <link name="link"><collision name="collision"><geometry>
      <cylinder><radius>{RADIUS_M}</radius><length>4</length></cylinder>
    </geometry></collision></link>
  </model></world></sdf>"""
ODOMETRY = "/stand_in/mavros/local_position/odom"
SETPOINT = "/stand_in/mavros/setpoint_velocity/cmd_vel"
TRUTH = "/stand_in/ground_truth/odom"
#: Half the x500 with its propellers, m (docs/vehicle.md); the judge's ball is a little larger.
HULL_M = 0.388


@pytest.fixture
def scenario(tmp_path):
    world, file = tmp_path / "one.sdf", tmp_path / "one.yaml"
    world.write_text(WORLD)
    file.write_text(
        f"world: {world}\nstart_W_m: {list(START_W)}\ngoal_W_m: {list(GOAL_W)}\nduration_s: 30.0\n"
        "stand_in: {vehicle: x500, sensors: motion_capture, estimator: eskf,"
        " autopilot: stand_in}\n"
    )
    return file


def stamp_s(message) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


@pytest.mark.alone
def test_a_stand_in_is_flown_around_a_pillar_by_the_graph_of_a_real_vehicle(
    command, domain, scenario, tmp_path
):
    quiet = os.getloadavg()[0] < 0.5 * (os.cpu_count() or 1)
    run = command(
        "rehearse", str(scenario), "--dds", "--domain", str(domain), "--seed", "3",
        "--output", str(tmp_path / "run"), "--json",
    )  # fmt: skip
    status, out = run.finish(150.0)
    assert status == 0, run.log
    summary = json.loads(out)
    (flown,) = summary["runs"]
    assert flown["arrived"] is True
    assert flown["collided"] is False
    with open_bag(tmp_path / "run" / "seed-3" / "bag") as bag:
        told = {name: list(map(bag.deserialize, bag.messages([name]))) for name in (
            ODOMETRY, SETPOINT, TRUTH, "/quad/scan", "/quad/command_velocity",
            "/quad/command_velocity/safe",
        )}  # fmt: skip
        events = [(m.log_ns, bag.deserialize(m).message) for m in bag.messages(["/quad/events"])]
        first_ns = next(iter(bag.messages([SETPOINT]))).log_ns
        poses_ns = [m.log_ns for m in bag.messages([ODOMETRY])]
    # nothing goes out before somebody has enabled it
    enabled_ns = next(stamp for stamp, words in events if words == "enabled")
    assert first_ns > enabled_ns
    # what goes to the vehicle is what the guard let pass, and stands for the vehicle's own clock
    assert {stamp_s(m) for m in told[SETPOINT]} <= {
        stamp_s(m) for m in told["/quad/command_velocity/safe"]
    }
    assert max(math.hypot(m.twist.linear.x, m.twist.linear.y) for m in told[SETPOINT]) > 1.0
    # the link: 5 % of 50 a second are lost, binomially
    sent = round((stamp_s(told[ODOMETRY][-1]) - stamp_s(told[ODOMETRY][0])) * 50.0)
    assert len(poses_ns) == pytest.approx(0.95 * sent, abs=5.0 * math.sqrt(0.05 * 0.95 * sent) + 3)
    # the true way, by which the vehicle went around what only its lidar saw
    way_W = np.array([[getattr(m.pose.pose.position, axis) for axis in "xyz"] for m in told[TRUTH]])
    nearest_m = np.hypot(*(way_W[:, :2] - PILLAR_W).T).min() - RADIUS_M
    assert nearest_m > HULL_M
    # poses 50 times a second at up to 4 m/s, and the ball about the rotors: larger than the hull
    assert flown["clearance_m"] == pytest.approx(nearest_m - HULL_M, abs=0.1)
    assert np.linalg.norm(way_W - GOAL_W, axis=1).min() < 1.0
    assert len(told["/quad/scan"]) > 50
    latency = flown["latency"]
    assert latency["driver_count"] > 100
    if quiet:  # the figures of docs/hil.md, on a machine that does nothing else
        assert latency["driver_ms"] < 5.0
        assert latency["driver_99_ms"] < 15.0


# ---- several vehicles in one graph -------------------------------------------------------------

#: A slow vehicle and times that a machine full of other work keeps too; no lidar.
SLOW = """
limits: {speed_max_mps: 1.0}
vehicle: {measured_on: a test, latency_s: 0.3}
sight: {required: false}
watch: {pose_stale_s: 1.0, pose_lost_s: 1.5, late_s: 0.5, wish_timeout_s: 2.0, hold_s: 60.0,
        dead_man_timeout_s: 2.0, pose_rate_min_hz: 2.0, command_age_s: 1.0}
neighbours: {timeout_s: 2.0}
"""
PERIOD_NS = 20_000_000


class Craft:
    """A vehicle behind the topics of mavros that flies what it is told; it knows nothing of others.

    It is asked to fly towards a place, straight through whoever is there.
    """

    def __init__(self, bench, name: str, driver: str, place, towards) -> None:
        self.p_W, self.v_W = np.array(place, float), np.zeros(3)
        self._towards = np.array(towards, float)
        self._wish = bench.node.create_publisher(
            TwistStamped, f"{name}/command_velocity", qos.RELIABLE
        )
        self.told = 0
        self._connect(bench.node, driver)

    def _connect(self, node, driver: str) -> None:
        out = qos.profile(5, reliable=False)
        mavros = f"{driver}/mavros"
        self._odometry = node.create_publisher(Odometry, f"{mavros}/local_position/odom", out)
        self._mode = node.create_publisher(Bool, f"{driver}/mavros/offboard", qos.RELIABLE)
        node.create_subscription(
            TwistStamped, f"{driver}/mavros/setpoint_velocity/cmd_vel",
            lambda message: self._told(message.twist.linear), qos.RELIABLE,
        )  # fmt: skip

    def _told(self, linear) -> None:
        self.v_W = np.array((linear.x, linear.y, linear.z))
        self.told += 1

    def say(self, now_ns: int, dt_s: float) -> Odometry:
        """Fly on, and say where it is."""
        self.p_W = self.p_W + dt_s * self.v_W
        message = Odometry(child_frame_id="base_link")
        message.header.frame_id = "map"
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now_ns, 10**9)
        place, twist = message.pose.pose.position, message.twist.twist.linear
        place.x, place.y, place.z = self.p_W.tolist()
        twist.x, twist.y, twist.z = self.v_W.tolist()
        message.pose.pose.orientation.w = 1.0
        self._odometry.publish(message)
        self._mode.publish(Bool(data=True))
        return message

    def step(self, now_ns: int, dt_s: float) -> None:
        """Fly on, say where it is, and wish to go on."""
        wish = TwistStamped(header=self.say(now_ns, dt_s).header)
        off = self._towards - self.p_W
        wish.twist.linear.x, wish.twist.linear.y, _ = (off / max(np.linalg.norm(off), 1.0)).tolist()
        self._wish.publish(wish)


#: Somebody's own driver: a pose and no velocity, both in NED and FRD.
BOX = """
description: a box
namespace: box
topics:
  - {ours: external/pose_stamped, names: [where], type: geometry_msgs/msg/PoseStamped, world: ned, body: frd}
commands:
  - {ours: command_velocity/safe, name: go, type: geometry_msgs/msg/Twist, world: ned}
"""  # noqa: E501


class Boxed(Craft):
    """A vehicle behind that driver."""

    def _connect(self, node, driver: str) -> None:
        self._where = node.create_publisher(PoseStamped, f"{driver}/box/where", qos.SENSOR_INPUT)
        node.create_subscription(Twist, f"{driver}/box/go", self._on_go, qos.RELIABLE)

    def _on_go(self, message) -> None:
        north, east, down = message.linear.x, message.linear.y, message.linear.z
        self._told(Vector3(x=east, y=north, z=-down))

    def say(self, now_ns: int, dt_s: float) -> PoseStamped:
        """Fly on, and say where it is: it looks east, which is a yaw of 90 degrees in NED."""
        self.p_W = self.p_W + dt_s * self.v_W
        message = PoseStamped()
        message.header.frame_id = "map"
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now_ns, 10**9)
        east, north, up = self.p_W.tolist()
        place, turn = message.pose.position, message.pose.orientation
        place.x, place.y, place.z = north, east, -up
        turn.w = turn.z = math.sqrt(0.5)
        self._where.publish(message)
        return message


class Hall:
    """Two vehicles and the person with the button, fifty times a second."""

    def __init__(self, bench, specs, crafts: dict[str, Craft]) -> None:
        self._bench, self._crafts = bench, crafts
        for spec in specs:
            bench.add(maker(spec)(bench.context))
        self._button = bench.node.create_publisher(Bool, "/dead_man", qos.RELIABLE)
        self._last_ns = time.time_ns()
        self.apart_m = math.inf
        self.period_ns = PERIOD_NS
        self.steps = {name: craft.step for name, craft in crafts.items()}

    def _publish(self) -> None:
        now_ns = time.time_ns()
        if now_ns - self._last_ns < self.period_ns:
            return
        for step in self.steps.values():
            step(now_ns, (now_ns - self._last_ns) * 1e-9)
        self._button.publish(Bool(data=True))
        first, second = self._crafts.values()
        self.apart_m = min(self.apart_m, float(np.linalg.norm(first.p_W - second.p_W)))
        self._last_ns = now_ns

    def until(self, condition) -> None:
        def held() -> bool:
            self._publish()
            return condition()

        self._bench.until(held)

    def enable(self) -> None:
        """Enable both guards, once they may be."""
        reports, node = self._bench.reports, self._bench.node
        self.until(
            lambda: all(
                reports.get(f"/{name}/guard", {}).get("reason") == "may be enabled"
                for name in self._crafts
            )
        )
        clients = [node.create_client(SetBool, f"/{name}/enable") for name in self._crafts]
        asked = [client.call_async(SetBool.Request(data=True)) for client in clients]
        self.until(lambda: all(future.done() for future in asked))
        assert all(future.result().success for future in asked)


@pytest.mark.thorough
def test_two_vehicles_in_one_graph_pass_each_other(bench, tmp_path):
    """Drivers and guards as they are launched; the guards hear each other, and one button."""
    guard = tmp_path / "slow.yaml"
    guard.write_text(SLOW)
    specs = HilLaunch(
        drivers="stand_in", vehicles=2, guard=str(guard), planner="", lidar="", record="false"
    ).describe()
    crafts = {
        "quad1": Craft(bench, "/quad1", "/quad1", (-4.0, 0.0, 1.5), (4.0, 0.0, 1.5)),
        "quad2": Craft(bench, "/quad2", "/quad2", (4.0, 0.0, 1.5), (-4.0, 0.0, 1.5)),
    }
    hall = Hall(bench, specs, crafts)
    hall.enable()
    hall.until(lambda: crafts["quad1"].p_W[0] > 2.0 and crafts["quad2"].p_W[0] < -2.0)
    assert hall.apart_m > 1.0  # what both keep out, 0.4 m and 0.1 m each
    assert all(craft.told > 20 for craft in crafts.values())
    assert abs(crafts["quad1"].p_W[1] - crafts["quad2"].p_W[1]) > 0.0


FLEET = """
vehicles:
  - {name: uav1, drivers: stand_in, guard: GUARD1}
  - {name: cf2, drivers: BOX, driver_namespace: /second, guard: GUARD2}
"""


@pytest.mark.thorough
def test_vehicles_of_different_drivers_see_each_other_and_plan_around(bench, tmp_path):
    """A file says what each is; lidars and planners know the other by its driver's poses."""
    fleet = FLEET
    for name, text in (
        ("GUARD1", SLOW),
        ("GUARD2", SLOW.replace("{measured_on", "{radius_m: 0.2, measured_on")),
        ("BOX", BOX),
        ("PLANNER", "scan_timeout_s: 5.0\nrate_hz: 1.0\nspeed: {speed_mps: 1.0}\n"),
        ("LIDAR", "sensor: lidar\ncolumns: 180\nrate_hz: 5.0\nrange_max_m: 12.0\n"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
        fleet = fleet.replace(name, str(tmp_path / f"{name}.yaml"))
    (tmp_path / "fleet.yaml").write_text(fleet)
    files = {name: str(tmp_path / f"{name}.yaml") for name in ("fleet", "PLANNER", "LIDAR")}
    bag = tmp_path / "bag"
    specs = HilLaunch(
        fleet=files["fleet"], planner=files["PLANNER"], lidar=files["LIDAR"], record=str(bag)
    ).describe()
    crafts = {
        "uav1": Craft(bench, "/uav1", "/uav1", (-2.5, 0.0, 1.5), (2.5, 0.0, 1.5)),
        "cf2": Boxed(bench, "/cf2", "/second", (2.5, 0.0, 1.5), (-2.5, 0.0, 1.5)),
    }
    # all in one thread, so fewer nodes and messages
    hall = Hall(bench, [spec for spec in specs if spec.executable != "monitor"], crafts)
    hall.period_ns = 2 * PERIOD_NS
    hall.steps = {name: craft.say for name, craft in crafts.items()}  # the planners wish
    scans = {name: bench.heard(LaserScan, f"/{name}/scan", qos.SENSOR_INPUT) for name in crafts}
    hall.until(lambda: all(found and min(found[-1].ranges) < 6.0 for found in scans.values()))
    nearest = {name: min(found[-1].ranges) for name, found in scans.items()}
    # 5 m apart, each sees the other's cylinder
    assert nearest == pytest.approx({"uav1": 5.0 - 0.2, "cf2": 5.0 - 0.4}, abs=0.01)
    hall.enable()
    goals = {name: bench.publisher(Path, f"/{name}/goals", qos.LATCHED) for name in crafts}
    for name, x in (("uav1", 2.5), ("cf2", -2.5)):
        pose = PoseStamped()
        pose.header.frame_id, pose.pose.position.x, pose.pose.position.z = "map", x, 1.5
        path = Path(header=pose.header, poses=[pose])
        goals[name].publish(path)
    hall.until(lambda: crafts["uav1"].p_W[0] > 2.0 and crafts["cf2"].p_W[0] < -2.0)
    assert hall.apart_m > 0.5 + 0.3  # what they keep out
    assert crafts["uav1"].told > 20
    assert crafts["cf2"].told > 20
    bench.end(next(node for node in bench.nodes if node.get_name() == "recorder"))
    with open_bag(bag) as recorded:
        topics = {name for name, count in recorded.counts.items() if count}
    driven = {"/uav1/mavros/setpoint_velocity/cmd_vel", "/second/box/go"}
    assert driven | {f"/{name}/{topic}" for name in crafts for topic in ("scan", "goals")} <= topics
