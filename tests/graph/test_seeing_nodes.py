"""Lidar and range finder on a real vehicle: they ride on its pose, and other vehicles are there."""

import math
from itertools import count

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan, Range

from quadsim.ros.nodes import lidar, node_module
from quadsim.ros.runtime import qos

PERIOD_NS = 10_000_000
BEST_EFFORT = qos.best_effort(qos.FAST)


def pose_message(stamp_ns, p_W, frame="map"):
    message = PoseStamped()
    message.header.frame_id = frame
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    position = message.pose.position
    position.x, position.y, position.z = map(float, p_W)
    message.pose.orientation.w = 1.0
    return message


def odometry_message(stamp_ns, p_W, v_W):
    message = Odometry()
    posed = pose_message(stamp_ns, p_W)
    message.header, message.pose.pose = posed.header, posed.pose
    message.twist.twist.linear.x, message.twist.twist.linear.y = v_W
    return message


def test_a_lidar_rides_on_motion_capture_and_sees_who_flies_by(bench):
    """One passes ahead by odometry, one stands behind by pose: ranges to their cylinders."""
    node = lidar.make(
        bench.context,
        namespace="/quad",
        overrides={
            "pose_type": "pose", "odometry_reliable": False, "others.radius_m": [0.5],
            "others.odometry": ["/a/odom"], "others.pose": ["/b/pose"],
            "others.frame": ["map", "hall"],
        },
        cli_args=["--ros-args", "-r", "external/pose_stamped:=tracker/pose"],
    )  # fmt: skip
    bench.add(node)
    scans = bench.heard(LaserScan, "/quad/scan", qos.SENSOR_INPUT)
    own = bench.node.create_publisher(PoseStamped, "/quad/tracker/pose", BEST_EFFORT)
    passes = bench.node.create_publisher(Odometry, "/a/odom", BEST_EFFORT)
    stands = bench.node.create_publisher(PoseStamped, "/b/pose", BEST_EFFORT)
    publishers = (own, passes, stands)
    bench.until(lambda: all(p.get_subscription_count() for p in publishers))
    bench.until(lambda: bench.node.count_publishers("/quad/scan") > 0)
    stamps_ns = count(PERIOD_NS, PERIOD_NS)

    def heard() -> bool:
        stamp_ns = next(stamps_ns)
        t_s = stamp_ns * 1e-9
        # it goes around us at 4 m, and is heard of 50 ms late
        late_s = t_s - 0.05
        p_W = (4.0 * math.cos(late_s), 4.0 * math.sin(late_s), 2.0)
        passes.publish(
            odometry_message(
                stamp_ns - 50_000_000, p_W, (-4.0 * math.sin(late_s), 4.0 * math.cos(late_s))
            )
        )
        stands.publish(pose_message(stamp_ns, (0.0, -2.0, 2.1), "hall"))
        own.publish(pose_message(stamp_ns, (0.0, 0.0, 2.0)))
        return len(scans) >= 8

    bench.until(heard)
    for message in scans[2:]:
        t_s = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        ranges = np.array(message.ranges)
        azimuth = message.angle_min + message.angle_increment * np.arange(len(ranges))
        there = int(np.argmin(np.abs(np.angle(np.exp(1j * (azimuth - t_s))))))
        # a ray is off its axis by 0.5 degrees at most, its place by 50 ms on a chord (5 mm) or,
        # where a message was overtaken, by some more
        assert ranges[there] == pytest.approx(3.5, abs=0.02)
        behind = int(np.argmin(np.abs(azimuth + math.pi / 2)))
        assert ranges[behind] == pytest.approx(1.5, abs=1e-3)
        assert np.isinf(ranges).sum() > 270  # the ground is not met by level rays


def test_a_pose_in_another_frame_is_not_ridden_on(bench):
    node = node_module("rangefinder").make(
        bench.context,
        namespace="/quad",
        overrides={"pose_type": "pose", "device": "ideal_rangefinder"},
    )
    bench.add(node)
    ranges = bench.heard(Range, "/quad/range/down", qos.SENSOR_INPUT)
    own = bench.publisher(PoseStamped, "/quad/external/pose_stamped", BEST_EFFORT)
    bench.until(lambda: bench.node.count_publishers("/quad/range/down") > 0)
    stamps_ns = count(PERIOD_NS, PERIOD_NS)

    def told(frame: str, height_m: float, enough) -> None:
        def publish() -> bool:
            own.publish(pose_message(next(stamps_ns), (0.0, 0.0, height_m), frame))
            return enough()

        bench.until(publish)

    wrong = "external/pose_stamped wrong frame"
    told("camera", 7.0, lambda: int(bench.reports.get("/quad/rangefinder", {}).get(wrong, 0)) > 10)
    told("map", 3.0, lambda: len(ranges) > 5)
    assert {round(message.range, 6) for message in ranges} == {3.0}
