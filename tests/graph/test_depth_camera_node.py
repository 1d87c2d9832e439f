"""The depth camera's node on real DDS: what it publishes of a known world."""

import itertools

import numpy as np
import pytest
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CameraInfo, Image, PointCloud2

from quadsim.ros.nodes import depth_camera
from quadsim.ros.runtime import qos

STEP_NS = 10_000_000
WORLD = """<sdf version="1.9"><world name="wall">
<model name="wall"><static>true</static><pose>4.5 0 5 0 0 0</pose><link name="link">
<collision name="wall"><geometry><box><size>1 80 80</size></box></geometry></collision>
</link></model></world></sdf>
"""


@pytest.fixture
def images(bench, tmp_path):
    """Runs the node on a vehicle 2 m high that does not move, until every topic has come twice."""
    path = tmp_path / "wall.sdf"
    path.write_text(WORLD)

    def collect(topics, **overrides):
        overrides["world"] = str(path)
        bench.add(depth_camera.make(bench.context, namespace="/quad", overrides=overrides))
        found = {
            name: bench.heard(kind, f"/quad/camera/{name}", qos.SENSOR_INPUT)
            for name, kind in topics.items()
        }
        truth = bench.publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
        bench.until(
            lambda: all(bench.node.count_publishers(f"/quad/camera/{name}") for name in topics)
        )
        stamps_ns = itertools.count(0, STEP_NS)

        def held() -> bool:
            message = Odometry(child_frame_id="base_link")
            message.header.frame_id = "map"
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(next(stamps_ns), 10**9)
            message.pose.pose.position.z = 2.0
            message.pose.pose.orientation.w = 1.0
            truth.publish(message)
            return all(len(messages) >= 2 for messages in found.values())

        bench.until(held)
        return {name: messages[-1] for name, messages in found.items()}

    return collect


def test_an_image_of_320_by_240_comes_whole_with_its_camera_info(images):
    """307 kB: five fragments of UDP."""
    found = images({"depth/image_rect_raw": Image, "depth/camera_info": CameraInfo}, rate_hz=20.0)
    image, info = found["depth/image_rect_raw"], found["depth/camera_info"]
    assert image.header.frame_id == info.header.frame_id == "camera_depth_optical_frame"
    assert (image.height, image.width, image.encoding) == (240, 320, "32FC1")
    assert (info.height, info.width, info.distortion_model) == (240, 320, "plumb_bob")
    depth_m = np.frombuffer(bytes(image.data), "<f4").reshape(240, 320)
    assert depth_m[:120] == pytest.approx(4.0, rel=1e-6)
    below = (np.arange(240) - info.k[5]) / info.k[4]  # the ground, 2 m below
    nearer = below > 2.0 / 4.0 + 1e-6
    assert depth_m[nearer, 160] == pytest.approx(2.0 / below[nearer], rel=1e-5)


def test_clouds_counts_and_ids_come_where_they_are_asked_for(images):
    found = images(
        {"depth/image_rect_raw": Image, "depth/points": PointCloud2, "segmentation": Image},
        rate_hz=20.0, columns=64, rows=48, encoding="16UC1", points=True, segmentation=True,
    )  # fmt: skip
    image, ids = found["depth/image_rect_raw"], found["segmentation"]
    assert (image.encoding, ids.encoding) == ("16UC1", "mono16")
    counts = np.frombuffer(bytes(image.data), "<u2").reshape(48, 64)
    assert (counts[:20] == 4000).all()
    seen = np.frombuffer(bytes(ids.data), "<u2").reshape(48, 64)
    assert (seen[:20] == 2).all()
    assert (seen[-1] == 1).all()
    cloud = found["depth/points"]
    points = np.frombuffer(bytes(cloud.data), "<f4").reshape(48, 64, 3)
    assert points[:20, :, 2] == pytest.approx(4.0, rel=1e-5)
    assert (points[0, :32, 0] < 0.0).all()  # x to the right
    assert (points[:20, 0, 1] < 0.0).all()  # y down
