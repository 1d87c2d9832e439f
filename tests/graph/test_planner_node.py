"""Node planner on DDS: goals, poses and scans in, velocities, ways and states out."""

import math

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, TwistStamped
from nav_msgs.msg import OccupancyGrid, Odometry, Path
from planned_flight import level_ranges
from sensor_msgs.msg import LaserScan
from visualization_msgs.msg import MarkerArray

from quadsim.base.errors import InputError
from quadsim.ros.messages.commands import make_path
from quadsim.ros.nodes import planner
from quadsim.ros.runtime import qos, topics
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose

PERIOD_NS = 20_000_000
RAYS = 240
AZIMUTH_RAD = 2.0 * math.pi * np.arange(RAYS) / RAYS


#: Turns of the executor after which an answer counts as lost.
PATIENCE = 20


class Vehicle:
    """A vehicle that does at once what it is told, with a planar lidar.

    Its time goes on when its last pose was answered by a command; before the first one, at once.
    """

    def __init__(self, bench, obstacles, kind=Odometry, pose_topic="odometry/filtered"):
        self.p_W, self.v_W = np.array([0.0, 0.0, 2.0]), np.zeros(3)
        self.steps, self.track = 0, []
        self._answered, self._turns = True, 0
        self._obstacles, self._kind = obstacles, kind
        node = bench.node
        self._pose = node.create_publisher(kind, f"/quad/{pose_topic}", qos.best_effort(qos.FAST))
        self._scan = node.create_publisher(LaserScan, "/quad/scan", topics.SCAN.offered)
        node.create_subscription(TwistStamped, "/quad/command_velocity", self._obey, 10)
        bench.until(
            lambda: self._pose.get_subscription_count() and self._scan.get_subscription_count()
        )
        bench.until(lambda: node.count_publishers("/quad/command_velocity") > 0)

    def _obey(self, message):
        assert message.header.frame_id == "map"
        linear = message.twist.linear
        self.v_W = np.array((linear.x, linear.y, linear.z))
        stamp = message.header.stamp
        self._answered = (stamp.sec, stamp.nanosec) == self._stamp

    @property
    def _stamp(self):
        return divmod(10**9 + self.steps * PERIOD_NS, 10**9)

    def turn(self):
        """Move for one period if it was answered, and tell where that is and what is seen there."""
        self._turns += 1
        if not self._answered and self._turns < PATIENCE:
            return
        self._answered, self._turns = not self.v_W.any(), 0
        self.p_W = self.p_W + 1e-9 * PERIOD_NS * self.v_W
        self.track.append(self.p_W)
        self.steps += 1
        message = self._kind()
        message.header.frame_id = "map"
        message.header.stamp.sec, message.header.stamp.nanosec = self._stamp
        pose = message.pose if self._kind is PoseStamped else message.pose.pose
        pose.position.x, pose.position.y, pose.position.z = self.p_W.tolist()
        pose.orientation.w = 1.0
        if self._kind is Odometry:
            linear = message.twist.twist.linear
            linear.x, linear.y, linear.z = self.v_W.tolist()
        self._pose.publish(message)
        if self.steps % 5 == 0:
            self._look(self._stamp)

    def _look(self, stamp):
        ranges = level_ranges(self._obstacles, self.p_W, AZIMUTH_RAD, 15.0)
        message = LaserScan(
            angle_min=0.0, angle_increment=2.0 * math.pi / RAYS, range_min=0.05, range_max=15.0,
            ranges=ranges.astype(np.float32).tolist(),
        )  # fmt: skip
        message.header.frame_id = "base_stabilized"
        message.header.stamp.sec, message.header.stamp.nanosec = stamp
        self._scan.publish(message)


@pytest.mark.parametrize("pose_type", ["odometry", "pose"])
def test_it_flies_around_what_it_sees(bench, pose_type):
    """To a goal behind a pillar, with an odometry or a pose alone."""
    bench.add(planner.make(bench.context, namespace="/quad", overrides={"pose_type": pose_type}))
    pillar = Obstacle("pillar", Cylinder(0.5, 6.0), Pose((4.0, 0.0, 3.0)))
    kind, name = {
        "odometry": (Odometry, "odometry/filtered"), "pose": (PoseStamped, "external/pose_stamped"),
    }[pose_type]  # fmt: skip
    vehicle = Vehicle(bench, [pillar], kind, name)
    ways, maps, drawn, said = [], [], [], []
    latched = topics.PLANNER_PATH.wanted
    for message, topic, heard in (
        (Path, "planner/path", ways), (OccupancyGrid, "planner/map", maps),
        (MarkerArray, "markers/planner", drawn),
        (topics.PLANNER_STATUS.message, "planner/status", said),
    ):  # fmt: skip
        bench.node.create_subscription(message, f"/quad/{topic}", heard.append, latched)
    goals = bench.node.create_publisher(Path, "/quad/goals", topics.GOALS.offered)
    goals.publish(make_path([(8.0, 0.0, 2.0)]))

    def arrived() -> bool:
        vehicle.turn()
        return bool(said) and said[-1].message == "arrived"

    bench.until(arrived, 60.0)
    track = np.array(vehicle.track)
    assert np.hypot(*(track[:, :2] - (4.0, 0.0)).T).min() > 0.5 + 0.4
    assert track[-1] == pytest.approx((8.0, 0.0, 2.0), abs=0.5)
    assert {status.message for status in said} >= {"flying", "arrived"}
    end = max(ways, key=lambda way: len(way.poses)).poses[-1].pose.position
    assert (end.x, end.y, end.z) == pytest.approx((8.0, 0.0, 2.0), abs=1e-6)
    info = maps[-1].info
    cells = np.array(maps[-1].data).reshape(info.height, info.width)
    rows, columns = np.nonzero(cells == 100)
    x = info.origin.position.x + (columns + 0.5) * info.resolution
    y = info.origin.position.y + (rows + 0.5) * info.resolution
    assert np.hypot(x - 4.0, y) == pytest.approx(np.full(len(x), 0.5), abs=0.3)
    assert {marker.ns for marker in drawn[-1].markers} == {"planner"}


def test_what_cannot_be_flown_to_is_counted_and_said(bench):
    bench.add(planner.make(bench.context, namespace="/quad"))
    walls = [
        Obstacle(f"wall_{k}", Box(size), Pose(place))
        for k, (size, place) in enumerate(
            (
                ((0.4, 6.4, 6.0), (3.0, 0.0, 3.0)), ((0.4, 6.4, 6.0), (-3.0, 0.0, 3.0)),
                ((6.4, 0.4, 6.0), (0.0, 3.0, 3.0)), ((6.4, 0.4, 6.0), (0.0, -3.0, 3.0)),
            )
        )
    ]  # fmt: skip
    vehicle = Vehicle(bench, walls)
    goal = bench.node.create_publisher(PoseStamped, "/quad/goal_pose", topics.GOAL_POSE.offered)
    bench.until(goal.get_subscription_count)
    wrong = PoseStamped()
    wrong.header.frame_id = "odom"
    right = PoseStamped()
    right.header.frame_id = "map"  # RViz says nothing of the height
    right.pose.position.x = 9.0

    def refused() -> bool:
        vehicle.turn()
        goal.publish(wrong)
        return "goal_pose refused" in bench.reports.get("/quad/planner", {})

    bench.until(refused)
    goal.publish(right)

    def blocked() -> bool:
        vehicle.turn()
        return bench.reports["/quad/planner"]["message"] == "blocked"

    bench.until(blocked)
    assert bench.reports["/quad/planner"]["reason"] == "no way to the goal (9.0, 0.0) is left"
    assert np.abs(np.array(vehicle.track)[:, :2]).max() < 3.0 - 0.2 - 0.4


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"config": "nowhere"}, "unknown planner 'nowhere'; known: default"),
        ({"vehicle_radius_m": 99.0}, "vehicle_radius_m"),
        ({"map.cell_m": 1.9}, "map.cell_m: 1.9 is too coarse"),
    ],
)
def test_bad_parameters_are_refused(bench, given, text):
    with pytest.raises(InputError, match=text):
        planner.make(bench.context, overrides=given)
