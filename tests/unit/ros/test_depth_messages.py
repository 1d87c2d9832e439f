"""Depth images as messages, through ROS's own serialisation, and back into points of the world."""

import math
from array import array
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rclpy.serialization import deserialize_message, serialize_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image

from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.messages.images import ImageWriter, millimetres, rays_of, read_depth
from quadsim.ros.nodes.depth_camera import PixelCloud, camera_info
from quadsim.ros.parts import scan_input
from quadsim.ros.parts.scan_input import CameraMountParams, DepthInput
from quadsim.sensors.depth_camera import DepthCameraParams, DepthImage
from quadsim.sensors.pose_history import PoseHistory

STAMP_NS = 12_345_678_901
PARAMS = DepthCameraParams(columns=80, rows=60)


def depths(seed=1):
    depth_m = np.random.default_rng(seed).uniform(0.5, 9.0, (60, 80)).astype(np.float32)
    depth_m[0, :3] = (np.nan, np.inf, -np.inf)
    return depth_m


def written(depth_m, encoding="32FC1"):
    pixels = depth_m if encoding == "32FC1" else millimetres(depth_m)
    return deserialize_message(
        ImageWriter("optical", (60, 80), encoding).message(STAMP_NS, pixels), Image
    )


def test_an_image_of_metres_is_as_sensor_msgs_documents_it():
    message, depth_m = written(depths()), depths()
    assert (message.header.frame_id, message.encoding) == ("optical", "32FC1")
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (12, 345_678_901)
    assert (message.height, message.width, message.step, message.is_bigendian) == (60, 80, 320, 0)
    assert bytes(message.data) == depth_m.tobytes()
    assert read_depth(message).tobytes() == depth_m.tobytes()


def test_an_image_of_millimetres_has_no_reading_as_0():
    message, depth_m = written(depths(), "16UC1"), depths()
    assert (message.encoding, message.step) == ("16UC1", 160)
    found = read_depth(message)
    assert np.isnan(found[0, :3]).all()
    assert found[1:] == pytest.approx(depth_m[1:], abs=0.51e-3)


def test_camera_info_gives_the_rays_of_the_camera():
    for params in (
        PARAMS,
        DepthCameraParams(columns=80, rows=60, projection="equidistant", field_of_view_deg=130.0),
    ):
        message = camera_info("optical", params)
        message = deserialize_message(serialize_message(message), CameraInfo)
        assert rays_of(message) == pytest.approx(params.directions(), abs=1e-12)
    assert PARAMS.focal_px == pytest.approx(40.0 / math.tan(math.radians(43.5)))


def test_a_cloud_is_in_the_optical_frame():
    image = DepthImage(STAMP_NS, depths(), np.zeros((60, 80), np.uint16))
    message = PixelCloud("optical", PARAMS).message(image)
    points = np.frombuffer(bytes(message.data), "<f4").reshape(60, 80, 3)
    rays = PARAMS.directions()
    assert points[..., 2][1:] == pytest.approx(image.depth_m[1:])
    assert points[..., 0][1:] == pytest.approx(
        (-image.depth_m * rays[..., 1] / rays[..., 0])[1:], rel=1e-5
    )
    assert points[..., 1][1:] == pytest.approx(
        (-image.depth_m * rays[..., 2] / rays[..., 0])[1:], rel=1e-5
    )
    assert np.isnan(points[0, :3]).all()


@pytest.fixture
def listening(monkeypatch):
    """A listener on a vehicle at (1, 2, 3) that looks north, nose down by 10 degrees."""
    monkeypatch.setattr(
        scan_input, "declare", lambda *_: CameraMountParams(position_B_m=(0.2, 0.0, 0.0))
    )
    poses, heard, found = PoseHistory(), {}, []
    node = SimpleNamespace(listen=lambda topic, take, raw: heard.update({topic.name: take}))
    x, y, z, w = Rotation.from_euler("ZYX", [90.0, 10.0, 0.0], degrees=True).as_quat()
    poses.take(STAMP_NS, np.array([1.0, 2.0, 3.0]), np.array([w, x, y, z]))
    DepthInput(node, poses, lambda *args: found.append(args))
    image, info = (heard[f"camera/depth/{name}"] for name in ("image_rect_raw", "camera_info"))
    return image, info, found


def test_an_image_of_a_wall_lies_on_it_in_the_world(listening):
    image, info, found = listening
    info(camera_info("optical", PARAMS))
    turn = Rotation.from_euler("ZYX", [90.0, 10.0, 0.0], degrees=True)
    north_m = 2.0 + turn.apply([0.2, 0.0, 0.0])[1]
    rays_W = turn.apply(PARAMS.directions().reshape(-1, 3))
    distance = (7.0 - north_m) / rays_W[:, 1]  # a wall at y = 7
    depth_m = (distance * PARAMS.directions().reshape(-1, 3)[:, 0]).reshape(60, 80)
    image(written(depth_m.astype(np.float32)))
    stamp_ns, scan, range_m = found[0]
    assert (stamp_ns, range_m) == (STAMP_NS, 10.0)
    assert scan.points_W[:, 1] == pytest.approx(7.0, abs=1e-5)
    assert np.abs(scan.points_W[:, 2] - 3.0).max() <= 0.5 + 1e-6
    assert len(scan.ends_W) == 0
    assert np.ptp(np.degrees(scan.azimuths_W)) == pytest.approx(87.0, abs=3.0)


def test_sky_is_seen_free_and_what_is_not_known_is_not(listening):
    image, info, found = listening
    info(camera_info("optical", PARAMS))
    image(written(np.full((60, 80), np.inf, np.float32)))
    scan = found[0][1]
    assert len(scan.points_W) == 0
    assert np.linalg.norm(scan.ends_W - scan.origin_W, axis=1) == pytest.approx(10.0)
    with pytest.raises(MessageError, match="no pixel at the vehicle's height has a reading"):
        image(written(np.full((60, 80), np.nan, np.float32)))
    assert len(found) == 1


def message_of(**fields):
    message = Image(height=60, width=80, encoding="32FC1", step=320, data=array("B", bytes(19200)))
    for name, value in fields.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"encoding": "rgb8"}, "encoding 'rgb8'; allowed: 32FC1, 16UC1, mono16"),
        ({"height": 2**31, "width": 2**31}, "allowed: 4000000"),
        ({"height": 0}, "80 x 0 pixels"),
        ({"step": 100}, "its sizes do not fit: 80 x 60 pixels of 4 bytes, step 100, 19200 bytes"),
        ({"height": 61}, "its sizes do not fit"),
        ({"height": 30, "data": array("B", bytes(9600))}, "its camera_info has 80 x 60"),
    ],
)
def test_an_image_that_cannot_be_used_is_refused_in_a_line(listening, fields, said):
    image, info, found = listening
    info(camera_info("optical", PARAMS))
    with pytest.raises(MessageError) as refused:
        image(message_of(**fields))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not found


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"k": [0.0] * 9}, "focal length 0, 0 px; allowed: > 0"),
        ({"k": [math.nan] * 9}, "focal length nan"),
        ({"d": [0.1, 0.0, 0.0, 0.0, 0.0]}, "its image is distorted; allowed: a rectified one"),
        ({"height": 2**31, "width": 2**31}, "allowed: 4000000"),
    ],
)
def test_camera_info_that_says_nothing_is_refused_and_its_images_with_it(listening, fields, said):
    image, info, found = listening
    with pytest.raises(MessageError, match="no camera_info"):
        image(message_of())
    message = camera_info("optical", PARAMS)
    for name, value in fields.items():
        setattr(message, name, value)
    with pytest.raises(MessageError) as refused:
        info(message)
    assert said in str(refused.value)
    with pytest.raises(MessageError, match="no camera_info"):
        image(message_of())
    assert not found
