"""The lidar's node on real DDS: what it publishes of a known world, and in a flight."""

import itertools
import json
import math
import struct

import numpy as np
import pytest
from geometry_msgs.msg import Point, Vector3
from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan, PointCloud2
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError
from quadsim.ros.nodes import dynamics, lidar
from quadsim.ros.runtime import qos

STEP_NS = 10_000_000
WORLD = """<sdf version="1.9"><world name="wall">
<model name="wall"><static>true</static><pose>4.5 0 5 0 0 0</pose><link name="link">
<collision name="wall"><geometry><box><size>1 40 10</size></box></geometry></collision>
</link></model></world></sdf>
"""


@pytest.fixture
def world(tmp_path):
    """A world with a wall, its face at x = 4."""
    path = tmp_path / "wall.sdf"
    path.write_text(WORLD)
    return str(path)


@pytest.fixture
def scans(bench):
    """Runs the node on a vehicle 2 m high that does not move, until so many messages came."""

    def collect(kind, topic, overrides, count=2):
        bench.add(lidar.make(bench.context, namespace="/quad", overrides=overrides))
        found = bench.heard(kind, topic, qos.SENSOR_INPUT)
        truth = bench.publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
        bench.until(lambda: bench.node.count_publishers(topic) > 0)
        stamps_ns = itertools.count(0, STEP_NS)

        def held() -> bool:
            message = Odometry(child_frame_id="base_link")
            message.header.frame_id = "map"
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(next(stamps_ns), 10**9)
            message.pose.pose.position.z = 2.0
            message.pose.pose.orientation.w = 1.0
            truth.publish(message)
            return len(found) >= count

        bench.until(held)
        return found

    return collect


def stamp_ns(message) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def test_a_planar_lidar_publishes_laser_scans(scans, world):
    overrides = {"device": "ideal_lidar", "world": world, "rate_hz": 5.0}
    for message in scans(LaserScan, "/quad/scan", overrides):
        assert message.header.frame_id == "lidar_link"
        assert stamp_ns(message) % 200_000_000 == 0
        azimuth = message.angle_min + message.angle_increment * np.arange(360)
        assert azimuth[-1] == pytest.approx(message.angle_max, abs=1e-5)
        ranges = np.array(message.ranges)
        ahead = np.abs(azimuth) < 1.3
        assert ranges[ahead] == pytest.approx(4.0 / np.cos(azimuth[ahead]), rel=1e-5)
        assert np.all(np.isposinf(ranges[np.abs(azimuth) > math.pi / 2]))


def test_a_lidar_of_several_channels_publishes_organised_clouds(scans, world):
    overrides = {
        "device": "vlp16", "world": world, "noise_sigma_m": 0.0, "dropout_probability": 0.0,
        "grazing_dropout_probability": 0.0, "step_m": 0.0,
    }  # fmt: skip
    for message in scans(PointCloud2, "/quad/points", overrides):
        assert message.header.frame_id == "lidar_link"
        assert stamp_ns(message) % 100_000_000 == 0
        assert (message.height, message.width) == (16, 1800)
        points = np.frombuffer(bytes(message.data), np.uint8).reshape(16, 1800, message.point_step)
        offsets = {field.name: field.offset for field in message.fields}
        x, y, z = (
            points[:, :, offsets[name] : offsets[name] + 4].copy().view("<f4")[..., 0]
            for name in "xyz"
        )
        # the column straight ahead: the wall, and the ground where a ray falls below it first
        column = 900
        elevation = np.radians(np.arange(-15.0, 16.0, 2.0))
        assert x[:, column] == pytest.approx(np.full(16, 4.0), abs=1e-4)
        assert z[:, column] == pytest.approx(4.0 * np.tan(elevation), abs=1e-4)
        # behind, 2 m above the ground: the steepest channel meets it at 2 / tan(15 degrees)
        assert np.hypot(x, y)[0, 0] == pytest.approx(2.0 / math.tan(math.radians(15.0)), rel=1e-4)
        assert np.isnan(x[15, 0])
        last = points[0, -1].tobytes()
        assert struct.unpack_from("<f", last, offsets["time"])[0] == pytest.approx(
            0.1 * 1799 / 1800
        )


def test_what_is_spawned_is_seen_and_stood_upon_until_it_is_deleted(bench, services):
    node = bench.add(dynamics.make(bench.context, overrides={"paused": True}))
    device = {"device": "ideal_lidar", "rate_hz": 20.0}
    bench.add(lidar.make(bench.context, namespace="/quad", overrides=device))
    scans = bench.heard(LaserScan, "/quad/scan", qos.SENSOR_INPUT)
    told = bench.heard(MarkerArray, "/obstacles", qos.LATCHED)
    bench.until(lambda: bench.node.count_subscribers("/quad/ground_truth/odom") > 0)
    bench.until(lambda: bench.node.count_publishers("/quad/scan") > 0)

    def ahead(distance_m: float) -> bool:
        node._step()
        return bool(scans) and scans[-1].ranges[180] == pytest.approx(distance_m, abs=1e-3)

    def call(service: str, **fields):
        answer = services(service, **fields).result
        assert answer.result == 1, answer.error_message

    bench.until(lambda: ahead(math.inf))
    wall = WORLD.replace('<world name="wall">', "").replace("</world>", "")
    place = {"initial_pose__pose__position": Point(x=4.5, z=5.0)}
    call("spawn_entity", entity_resource__resource_string=wall, **place)
    bench.until(lambda: ahead(4.0))
    pose = {"set_pose": True, "set_twist": True}
    call("set_entity_state", entity="wall", **pose, state__pose__position=Point(x=6.5, z=5.0))
    bench.until(lambda: ahead(6.0))
    assert told[-1].markers[-1].pose.position.x == 6.5
    # its top is 10 m high: the vehicle falls upon it, and stays there until it is gone
    above = {"state__pose__position": Point(x=6.5, z=10.3), **pose}
    call("set_entity_state", entity="quad", **above, state__twist__linear=Vector3(z=-0.1))
    truth = node.fleet.truth(0)
    assert truth["v_W"][2] == -0.1
    for _ in range(500):
        node._step()
    assert truth["p_W"][2] == pytest.approx(10.2, abs=0.05)
    assert abs(truth["v_W"][2]) < 0.01
    inside = services("set_entity_state", entity="quad", **pose,
                      state__pose__position=Point(x=6.5, z=9.0)).result  # fmt: skip
    assert (inside.result, "inside an obstacle" in inside.error_message) == (101, True)
    call("delete_entity", entity="wall")
    for _ in range(100):
        node._step()
    assert truth["p_W"][2] < 10.1
    call("spawn_entity", entity_resource__resource_string=wall, **place)
    assert bench.call(Trigger, "/sim/reset", Trigger.Request()).success
    bench.until(lambda: ahead(math.inf))
    assert services("get_entities").entities == ["quad"]


def test_a_wrong_pattern_is_refused_with_the_node_and_the_reason(bench):
    with pytest.raises(InputError, match=r"node /quad/lidar: range_min_m: 40\.0 is not below"):
        lidar.make(bench.context, namespace="/quad", overrides={"range_min_m": 40.0})


def test_a_suite_with_a_lidar_flies_and_its_fault_is_told(fly, tmp_path, world):
    suite = tmp_path / "seeing.yaml"
    suite.write_text(
        "imu: adis16448\ngnss: ublox_f9p_rtk\nmagnetometer: ist8310\nbarometer: bmp390\n"
        "lidar: {device: hokuyo_ust10lx, rate_hz: 10.0, position_B_m: [0.0, 0.0, 0.1]}\n"
    )
    scenario = tmp_path / "look.yaml"
    scenario.write_text(
        f"sensors: {suite}\nworld: {world}\nduration_s: 30.0\nmission:\n"
        "  - takeoff: {height_m: 1.0}\n  - hover: {duration_s: 3.0}\n  - land: {}\n"
        "faults: [{sensor: lidar, fault: dropout, at_s: 4.0, duration_s: 2.0}]\n"
    )
    flight = fly("--json", "--composed", "--pacing", "lockstep", scenario=str(scenario))
    status, out = flight.finish()
    assert status == 0, flight.log
    summary = json.loads(out)
    with open_bag(tmp_path / "run" / "bag") as bag:
        counts = dict(bag.counts)
        events = [bag.deserialize(m).message for m in bag.messages(["/quad/events"])]
        ahead = [bag.deserialize(m).ranges[540] for m in bag.messages(["/quad/scan"])]
    assert "lidar: dropout begins" in events
    assert "lidar: dropout ends" in events
    # the first scan begins one period after the first truth, the last one may not have ended
    assert counts["/quad/scan"] == pytest.approx(10.0 * (summary["duration_s"] - 2.0), abs=3)
    heard = np.array(ahead)[np.isfinite(ahead)]
    assert len(heard) > 0.9 * len(ahead)
    # the wall from a vehicle that hovers within 0.3 m of its place, offset and noise of the device
    assert np.median(heard) == pytest.approx(4.0, abs=0.35)
