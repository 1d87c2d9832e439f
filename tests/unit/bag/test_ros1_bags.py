"""Bags of ROS 1: messages of ROS 2 with the same numbers, custom types, and damage."""

import numpy as np
import pytest
from rosbags.rosbag1 import Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from quadsim.bag.reading import open_bag
from quadsim.bag.unread import unread_notes
from quadsim.base.errors import InputError
from quadsim.wire.decode import decode

SPEEDS = "std_msgs/Header header\nfloat64[] angular_velocities\n"


def ros1_types():
    store = get_typestore(Stores.ROS1_NOETIC)
    store.register(get_types_from_msg(SPEEDS, "mav_msgs/msg/Actuators"))
    return store


@pytest.fixture(scope="module", params=[None, Writer.CompressionFormat.BZ2])
def ros1_bag(request, tmp_path_factory):
    """20 samples of an IMU and of a type that only this bag defines, stamped 2017."""
    path, store = tmp_path_factory.mktemp("ros1") / "flight.bag", ros1_types()
    kinds = store.types
    writer = Writer(path)
    if request.param is not None:
        writer.set_compression(request.param)
    with writer:
        imu = writer.add_connection("/quad/imu/data_raw", "sensor_msgs/msg/Imu", typestore=store)
        motors = writer.add_connection("/motors", "mav_msgs/msg/Actuators", typestore=store)
        for k in range(20):
            stamp = kinds["builtin_interfaces/msg/Time"](1_500_000_000, 5_000_000 * k)
            header = kinds["std_msgs/msg/Header"](k, stamp, "imu_link")
            xyz = kinds["geometry_msgs/msg/Vector3"]
            q = kinds["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
            nine = np.zeros(9)
            sample = kinds["sensor_msgs/msg/Imu"](
                header, q, nine, xyz(0.1, 0.2, 0.3 * k), nine, xyz(0.0, 0.0, 9.8), nine
            )
            log_ns = 1_500_000_000_000_000_000 + 5_000_000 * k
            writer.write(imu, log_ns, store.serialize_ros1(sample, imu.msgtype))
            speeds = kinds["mav_msgs/msg/Actuators"](header, np.full(4, 100.0 + k))
            writer.write(motors, log_ns, store.serialize_ros1(speeds, motors.msgtype))
    return path


def test_a_bag_of_ros_1_is_read_with_the_types_of_ros_2(ros1_bag):
    with open_bag(ros1_bag) as bag:
        payloads = [message.payload for message in bag.messages(["/quad/imu/data_raw"])]
        imu = decode("sensor_msgs/msg/Imu", payloads)
        last = [bag.deserialize(message) for message in bag.messages(["/motors"])][-1]
        notes = "\n".join(unread_notes(bag))
    assert np.diff(imu.stamp_ns).tolist() == [5_000_000] * 19
    assert imu["w"][:, 2] == pytest.approx(0.3 * np.arange(20))
    assert last.angular_velocities == pytest.approx(np.full(4, 119.0))
    assert last.header.frame_id == "imu_link"
    assert "imu" not in notes


def with_a_long_chunk(content):
    """A bag whose first chunk states to be 4 MB longer than the file."""
    head, mark, rest = content.partition(b"compression=none\x09\x00\x00\x00size=")
    return head + mark + rest[:6] + b"\x40" + rest[7:] if mark else content[:-300]


@pytest.mark.parametrize("damage", [lambda content: content[:-200], with_a_long_chunk])
def test_a_bag_of_ros_1_that_is_damaged_is_refused_in_one_line(damage, ros1_bag, tmp_path):
    cut = tmp_path / "cut.bag"
    cut.write_bytes(damage(ros1_bag.read_bytes()))
    with (
        pytest.raises(InputError, match=r"not a readable bag of ROS 1.*rosbag reindex"),
        open_bag(cut),
    ):
        pass


@pytest.mark.parametrize("ros1_bag", [None], indirect=True)
def test_a_definition_that_is_damaged_is_told_in_one_line(ros1_bag, tmp_path):
    """The parser's own words hold the whole definition."""
    path = tmp_path / "flight.bag"
    path.write_bytes(ros1_bag.read_bytes().replace(b"float64[] ang", b"float\x1b\x00[] ang"))
    with open_bag(path) as bag:
        (note,) = [note for note in bag.notes if "left out" in note]
    assert note.endswith(
        "/motors: 20 messages of mav_msgs/msg/Actuators left out (Could not parse)"
    )
