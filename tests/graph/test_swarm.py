"""The node swarm on real DDS, as fast as it goes, and ``quadsim fly`` with it."""

import json
from functools import partial

import numpy as np
import pytest
import yaml
from geometry_msgs.msg import Point, PoseStamped, Vector3
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import Imu, MagneticField, NavSatFix
from std_srvs.srv import Empty, SetBool, Trigger

from quadsim.base.files import find
from quadsim.ros.messages.cdr import stamp_ns_of
from quadsim.ros.nodes.swarm import SwarmNode
from quadsim.ros.runtime import topics
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import Swarm

#: Mission ticks that are compared.
TICKS = 40


def test_a_swarm_is_steered_reset_and_says_what_the_closed_loop_computes(bench):
    """Six vehicles, stepped by the services; every sample of one is that of the swarm's loop."""
    node = bench.add(
        SwarmNode(
            context=bench.context,
            overrides={"scenario": "formation", "count": 6, "publish": "all", "paused": True},
        )
    )
    heard = {"imu": [], "mag": [], "fix": [], "odometry": []}
    for key, kind, topic in (
        ("imu", Imu, topics.IMU_RAW),
        ("mag", MagneticField, topics.MAGNETIC_FIELD),
        ("fix", NavSatFix, topics.GPS_FIX),
        ("odometry", Odometry, topics.TRUTH),
    ):
        bench.node.create_subscription(
            kind, f"/quad3/{topic.name}", heard[key].append, topic.offered
        )
    bench.until(lambda: all(bench.node.count_publishers(f"/quad3/{t.name}") for t in (
        topics.IMU_RAW, topics.MAGNETIC_FIELD, topics.GPS_FIX, topics.TRUTH)))  # fmt: skip
    outputs = node._outputs
    sensors = outputs._sensors
    batches = (outputs._truth, sensors["imu"][0], sensors["magnetometer"][0], sensors["gnss"][0])
    matched = [batch._publishers[2] for batch in batches]
    bench.until(lambda: all(one.get_subscription_count() == 1 for one in matched))
    for _ in range(TICKS):  # fewer samples than a queue holds
        node._step()
    bench.until(lambda: len(heard["imu"]) == 4 * TICKS)
    bench.until(lambda: len(heard["odometry"]) == TICKS)
    same = Swarm(load_scenario("formation", vehicles=6), keep_samples=True)
    for _ in range(TICKS):
        same.tick()
    whose, samples = same.published("imu")
    samples = samples[whose == 2]
    assert [stamp_ns_of(m.header.stamp) for m in heard["imu"]] == samples["stamp_ns"].tolist()
    felt = [[getattr(m.linear_acceleration, axis) for axis in "xyz"] for m in heard["imu"]]
    np.testing.assert_array_equal(felt, samples["f_S"])
    assert heard["imu"][0].header.frame_id == "quad3/imu_link"
    assert heard["odometry"][0].child_frame_id == "quad3/base_link"
    bench.until(lambda: heard["mag"] and heard["fix"])

    for _ in range(100):  # the filter wants a second, the checks of arming another
        node._step()
    moved = []
    outputs._transforms.publish = lambda stamp_ns, poses: moved.append((stamp_ns, poses))
    for _ in range(5):  # at 10 Hz
        node._step()
    ((stamp_ns, poses),) = moved
    assert 0 <= node.stamp_ns - stamp_ns <= 100_000_000
    assert sorted(poses) == [f"quad{i}/base_link" for i in range(1, 7)]
    for i, (p_W, _) in enumerate(poses.values()):
        np.testing.assert_allclose(p_W, node.swarm.loops[i].state["truth"]["p_W"][0], atol=0.2)
    goal = bench.node.create_publisher(PoseStamped, "/quad2/command_pose", 10)
    call = partial(bench.call, SetBool)
    told = bench.heard(topics.EVENTS.message, "/quad2/events", topics.EVENTS.wanted)
    bench.until(lambda: node.count_subscribers("/quad2/events") == 1)
    assert call("/quad2/arm", SetBool.Request(data=True)).success
    bench.until(lambda: "armed" in [event.name for event in told])  # paused as it is
    assert bench.call(Trigger, "/quad2/mission/start", Trigger.Request()).success
    loop = node.swarm.loops[1]
    for _ in range(600):
        node._step()
        if loop.manager.state == "mission":
            break
    bench.until(lambda: goal.get_subscription_count() > 0)
    message = PoseStamped()
    message.header.frame_id = "map"
    message.pose.position.x, message.pose.position.z = 1.0, 3.0
    message.pose.orientation.w = 1.0
    goal.publish(message)
    bench.until(lambda: loop.manager.state == "guided")
    assert node.swarm.loops[0].manager.state == "disarmed"  # the others were not asked
    before_ns = node.stamp_ns
    assert bench.call(Trigger, "/sim/reset", Trigger.Request()).success
    assert node.swarm.loops[1].manager.state == "disarmed"
    answer = bench.call(Trigger, "/sim/step", Trigger.Request())
    assert answer.success
    assert node.stamp_ns == before_ns + 20_000_000


BOX = """<sdf version="1.9"><model name="box"><link name="link"><collision name="c">
<geometry><box><size>4 4 4</size></box></geometry></collision></link></model></sdf>"""


def test_what_is_spawned_is_in_the_swarms_physics(bench, services):
    overrides = {"scenario": "hover", "count": 2, "paused": True}
    node = bench.add(SwarmNode(context=bench.context, overrides=overrides))

    def call(service: str, **fields) -> None:
        answer = services(service, **fields).result
        assert answer.result == 1, answer.error_message

    truth = node.swarm.loops[1].state["truth"][0]
    call("spawn_entity", entity_resource__resource_string=BOX,
         initial_pose__pose__position=Point(x=9.0, z=2.0))  # fmt: skip
    pose = {"set_pose": True, "set_twist": True}
    call("set_entity_state", entity="quad2", **pose, state__pose__position=Point(x=9.0, z=4.4))
    state = services("get_entity_state", entity="quad2").state
    assert (state.pose.position.x, state.pose.position.z) == (9.0, 4.4)
    for _ in range(60):
        node._step()
    assert truth["p_W"] == pytest.approx([9.0, 0.0, 4.2], abs=0.06)
    # the floor sinks away under it
    call("set_entity_state", entity="box", set_twist=True, state__twist__linear=Vector3(z=-0.3))
    for _ in range(60):
        node._step()
    assert truth["p_W"][2] == pytest.approx(4.2 - 1.2 * 0.3, abs=0.06)
    call("reset_simulation", scope=2)
    assert services("get_entity_state", entity="box").state.pose.position.z == 2.0
    assert node.swarm.loops[1].state["truth"][0]["p_W"][0] != 9.0
    call("reset_simulation", scope=255)
    assert services("get_entities").entities == ["quad1", "quad2"]
    for _ in range(5):
        node._step()
    # what comes after is a flight in which nothing was ever spawned
    same = Swarm(load_scenario("hover", vehicles=2))
    for _ in range(5):
        same.tick()
    for loop, other in zip(node.swarm.loops, same.loops, strict=True):
        assert loop.state["truth"].tobytes() == other.state["truth"].tobytes()


@pytest.fixture
def short(tmp_path):
    """A formation of a few seconds."""
    content = yaml.safe_load(find("scenarios", "formation").read_text())
    content["mission"] = [
        {"takeoff": {"height_m": 1.0}},
        {"formation": {"shape": "row", "center_W_m": [0.0, 0.0, 1.3], "spacing_m": 4.0}},
        {"land": {}},
    ]
    path = tmp_path / "short.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_formation_is_flown_recorded_and_judged_for_each(fly, short):
    run = fly("--count", "6", "--rate", "3", "--json", scenario=str(short))
    status, out = run.finish()
    assert status == 0, run.log
    summary = json.loads(out)
    assert [one["vehicle"] for one in summary["runs"]] == [f"quad{i + 1}" for i in range(6)]
    assert all(one["passed"] for one in summary["runs"])
    assert set(summary["nodes"]) == {"/swarm", "/recorder"}
    assert summary["tracking"]["position_rmse_m"] < 0.3
    assert run.nothing_left()


@pytest.fixture
def robots(tmp_path):
    """Two Crazyflies of a crazyflies.yaml."""
    path = tmp_path / "crazyflies.yaml"
    kept = {"enabled": True, "type": "cf21", "uri": "radio://0/80/2M/E7E7E7E707"}
    places = {"cf7": [0.0, 0.0, 0.0], "cf8": [1.0, 0.5, 0.0]}
    robots = {name: kept | {"initial_position": place} for name, place in places.items()}
    path.write_text(yaml.safe_dump({"robots": robots, "robot_types": {"cf21": {}}}))
    return path


def test_a_swarm_offers_what_crazyswarm2_does(bench, robots):
    """Where its messages are installed: two Crazyflies, one of which is in a group."""
    interfaces = pytest.importorskip("crazyflie_interfaces.srv")
    overrides = {"scenario": "crazyswarm", "offer": "crazyswarm2", "paused": True}
    node = bench.add(
        SwarmNode(context=bench.context, overrides=overrides | {"crazyflies": str(robots)})
    )
    poses = bench.heard(PoseStamped, "/cf8/pose")
    bench.until(lambda: node.count_subscribers("/cf8/pose") == 1)
    for _ in range(100):
        node._step()
    bench.until(lambda: poses)
    assert poses[0].pose.position.x == pytest.approx(1.0, abs=0.05)
    mask = Parameter("cf8.params.hlCommander.groupmask", value=2).to_parameter_msg()
    asked = SetParameters.Request(parameters=[mask])
    assert (
        bench.call(SetParameters, "/crazyflie_server/set_parameters", asked).results[0].successful
    )
    managers = [loop.manager for loop in node.swarm.loops]
    bench.until(lambda: managers[1].commander.group_mask == 2)
    takeoff = interfaces.Takeoff.Request(group_mask=2, height=1.0)
    bench.call(interfaces.Takeoff, "/all/takeoff", takeoff)  # without a duration: refused
    assert [manager.state for manager in managers] == ["disarmed", "disarmed"]
    takeoff.duration.sec = 2
    bench.call(interfaces.Takeoff, "/all/takeoff", takeoff)
    assert [manager.state for manager in managers] == ["disarmed", "commanded"]
    for _ in range(150):
        node._step()
    assert managers[1].estimate.p_W[2] == pytest.approx(1.0, abs=0.1)
    mask = Parameter("all.params.hlCommander.groupmask", value=4).to_parameter_msg()
    asked = SetParameters.Request(parameters=[mask])
    bench.call(SetParameters, "/crazyflie_server/set_parameters", asked)
    bench.until(lambda: [one.commander.group_mask for one in managers] == [4, 4])
    bench.call(Empty, "/all/emergency", Empty.Request())
    assert managers[1].state == "stopped"


def test_a_reset_starts_in_the_air_as_the_node_is_told(bench):
    """Another start and another estimate with each reset, on DDS."""
    overrides = {"scenario": "hover", "count": 2, "paused": True}
    node = bench.add(SwarmNode(context=bench.context, overrides=overrides))
    assert node.swarm.loops[0].manager.state == "disarmed"

    def reset(text: str) -> str:
        node.set_parameters([Parameter("overrides", value=text)])
        return str(bench.call(Trigger, "/sim/reset", Trigger.Request()).message)

    assert not reset("{start.z_m: 6.0, start.roll_deg: 120.0, start.estimate: drawn}")
    loop = node.swarm.loops[0]
    assert loop.state["truth"][0]["p_W"][2] == pytest.approx(6.0)
    assert loop.manager.state == "hover"
    off_m = np.linalg.norm(loop.state["odometry"]["p_W"] - loop.state["truth"][0]["p_W"])
    assert 0.01 < off_m < 2.5  # of 0.5 m a side: five deviations
    for _ in range(250):
        node._step()
    _, x, y, _ = loop.state["truth"][0]["q_WB"]
    assert 1.0 - 2.0 * (x * x + y * y) > 0.98  # level again
    assert not reset("start: {z_m: 4.0, estimate: truth}")
    state = node.swarm.loops[1].state
    assert state["odometry"]["p_W"] == pytest.approx(state["truth"][0]["p_W"])
    assert "start.z_m" in reset("{start.z_m: nowhere}")
    assert "overrides: expected keys" in reset("[1]")
