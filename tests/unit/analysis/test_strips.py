"""Strips of a depth camera's frames in the report: pixels against the images in the bag."""

from base64 import b64decode

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from quadsim.analysis.report.page import FRAMES, GAP, NOTHING, WIDE, strips_of
from quadsim.wire.standard import IMAGE

cv2 = pytest.importorskip("cv2")
ROWS, COLUMNS = 24, 320
DEPTH, IDS = "/quad/camera/depth/image_rect_raw", "/quad/camera/segmentation"


def bag_of(path, encoding, images, topic):
    """A bag of a second of images at 20 Hz."""
    types = get_typestore(Stores.ROS2_HUMBLE)
    image, header, time = (
        types.types[name] for name in (IMAGE, "std_msgs/msg/Header", "builtin_interfaces/msg/Time")
    )
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(topic, IMAGE, typestore=types)
        for k, pixels in enumerate(images):
            content = image(
                header(time(1, k), "camera"), *pixels.shape, encoding, 0,
                pixels.shape[1] * pixels.itemsize, pixels.view(np.uint8).ravel(),
            )  # fmt: skip
            stamp_ns = 1_000_000_000 + 50_000_000 * k
            writer.write(connection, stamp_ns, types.serialize_cdr(content, IMAGE))
    return str(path)


def picture(strip):
    data = b64decode(strip.address.partition("base64,")[2])
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]


def frames(strip):
    """Each frame of it, without the gaps."""
    seen, wide = picture(strip), -(-COLUMNS // 3)
    assert wide <= WIDE
    assert seen.shape == (ROWS // 3, FRAMES * (wide + GAP) - GAP, 3)
    return [seen[:, k * (wide + GAP) :][:, :wide] for k in range(FRAMES)]


@pytest.mark.parametrize("encoding", ["32FC1", "16UC1"])
def test_depths_are_brighter_the_farther_they_are(tmp_path, encoding):
    """From 1 m at the left to 5 m at the right; the upper third has no return."""
    depth = np.tile(np.linspace(1.0, 5.0, COLUMNS, dtype=np.float32), (ROWS, 1))
    depth[: ROWS // 3] = np.inf if encoding == "32FC1" else 0.0
    pixels = depth if encoding == "32FC1" else np.round(1e3 * depth).astype(np.uint16)
    (strip,) = strips_of(bag_of(tmp_path / "bag", encoding, [pixels] * 20, DEPTH))
    assert strip.title == DEPTH
    assert "bright from 4.9 m on" in strip.note
    for frame in frames(strip):
        assert (frame[:2] == NOTHING).all()
        light = frame[-1].astype(float) @ [0.3, 0.6, 0.1]
        assert np.corrcoef(light, np.arange(len(light)))[0, 1] > 0.98


def test_each_thing_has_one_colour_and_frames_are_evenly_apart(tmp_path):
    ids = [np.full((ROWS, COLUMNS), 2 + k, np.uint16) for k in range(20)]
    for image in ids:
        image[:, COLUMNS // 2 :] = 0
    (strip,) = strips_of(bag_of(tmp_path / "bag", "mono16", ids, IDS))
    found = frames(strip)
    assert len({frame[0, 0].tobytes() for frame in found}) == FRAMES  # all of other images
    assert all((frame[:, -40:] == NOTHING).all() for frame in found)
    assert strip.note.startswith("After 0.0, 0.2, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9 s")


def test_what_is_no_depth_is_left_out(tmp_path):
    colours = np.zeros((ROWS, COLUMNS), np.uint16)
    assert strips_of(bag_of(tmp_path / "bag", "rgb8", [colours] * 3, "/quad/camera/image")) == []
    assert strips_of(None) == []
