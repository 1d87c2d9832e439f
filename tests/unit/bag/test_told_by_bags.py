"""What bags tell beside measurements: sensors that nobody reads, places and noise that are none."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from quadsim.bag.flight import header, serialise
from quadsim.bag.measurements import heard_of
from quadsim.bag.metadata import qos_yaml
from quadsim.bag.reading import open_bag
from quadsim.bag.unread import unread_notes
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.wire.encode import Template

FIX = "sensor_msgs/msg/NavSatFix"
STAMPS_NS = np.arange(200) * 100_000_000


@pytest.fixture
def bag_of(tmp_path):
    """Writes a bag of columns: topic to type and columns of a layout."""

    def write(topics) -> Path:
        with BagWriter(tmp_path / "bag", {}) as bag:
            for name, (kind, columns) in topics.items():
                bag.add_topic(name, kind, qos_yaml())
                payloads = Template.of(kind, "").payloads(STAMPS_NS, **columns)
                for at, payload in zip(STAMPS_NS.tolist(), payloads, strict=True):
                    bag.add(name, kind, qos_yaml(), at, bytes(payload))
        return tmp_path / "bag"

    return write


def fixes(latitude_deg, variance):
    rng = np.random.default_rng(4)
    noise = rng.normal(0.0, 1e-6, 200)
    longitude_deg = np.where(latitude_deg == 0.0, 0.0, 8.5)
    return {
        "status": 0, "service": 1, "latitude_deg": latitude_deg + noise * (latitude_deg != 0.0),
        "longitude_deg": longitude_deg, "height_m": np.full(200, 400.0),
        "covariance": np.eye(3) * variance, "covariance_type": 2,
    }  # fmt: skip


def test_a_place_at_0_0_is_none(bag_of):
    latitude_deg = np.where(np.arange(200) < 40, 0.0, 47.0)
    with open_bag(bag_of({"/quad/gps/fix": (FIX, fixes(latitude_deg, 1.0))})) as bag:
        assert heard_of(bag, "/quad", None).place.latitude_deg == pytest.approx(47.0, abs=1e-5)


@pytest.mark.parametrize("variance", [1.797e308, -1.0, np.nan])
def test_a_covariance_beyond_sense_gives_no_warning(bag_of, variance):
    twist = "geometry_msgs/msg/TwistWithCovarianceStamped"
    velocity = {"v": np.zeros((200, 3)), "covariance": np.eye(6) * variance}
    topics = {
        "/quad/gps/fix": (FIX, fixes(np.full(200, 47.0), variance)),
        "/quad/gps/vel": (twist, velocity),
    }
    with open_bag(bag_of(topics)) as bag, warnings.catch_warnings():
        warnings.simplefilter("error")
        heard = heard_of(bag, "/quad", None)
    assert heard.place.longitude_deg == pytest.approx(8.5)


def test_a_topic_without_a_message_is_no_failure(tmp_path, circle_rows):
    with BagWriter(tmp_path / "bag", {}) as bag:
        bag.add_topic("/quad/silent", "sensor_msgs/msg/MagneticField", qos_yaml())
        for row in circle_rows[:50]:
            bag.add(row.topic, row.type_name, qos_yaml(), row.stamp_ns, row.payload)
    with open_bag(tmp_path / "bag") as bag:
        assert list(bag.messages(["/quad/silent"])) == []


def test_sensors_that_nobody_reads_are_named_with_counts(tmp_path, circle_rows):
    """A second IMU, a camera and a type of one's own; goals and our own topics are no news."""
    temperature, imu = "sensor_msgs/msg/Temperature", "sensor_msgs/msg/Imu"
    extra = {
        "/cam/temperature": serialise(temperature, header=header("cam"), temperature=20.0),
        "/imu_2/data": next(row.payload for row in circle_rows if row.type_name == imu),
        "/quad/goal_pose": serialise("geometry_msgs/msg/PoseStamped", header=header("map")),
    }
    kinds = dict(zip(extra, (temperature, imu, "geometry_msgs/msg/PoseStamped"), strict=True))
    with BagWriter(tmp_path / "bag", {}) as bag:
        for row in circle_rows[:200]:
            bag.add(row.topic, row.type_name, qos_yaml(), row.stamp_ns, row.payload)
        for name, payload in extra.items():
            for at in range(3):
                bag.add(name, kinds[name], qos_yaml(), at, payload)
    with open_bag(tmp_path / "bag") as bag:
        (note,) = unread_notes(bag)
    assert note == (
        f"in the file but not read: /cam/temperature ({temperature}) 3, /imu_2/data ({imu}) 3"
    )


def test_a_length_beyond_every_file_is_damage(tmp_path):
    """A record in a chunk of an MCAP that claims 2^64 - 1 bytes."""
    path = tmp_path / "cut.mcap"
    records = b"\x7f" + b"\xff" * 8
    chunk = struct.pack("<QQQIIQ", 0, 0, len(records), 0, 0, len(records)) + records
    path.write_bytes(b"\x89MCAP0\r\n\x06" + struct.pack("<Q", len(chunk)) + chunk)
    with pytest.raises(InputError, match="empty"), open_bag(path):
        pass
