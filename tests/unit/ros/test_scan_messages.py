"""LaserScan and PointCloud2 as their definitions say, through ROS's own serialisation."""

import math
import struct

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import LaserScan, PointCloud2, PointField

from quadsim.ros.messages.scans import CloudWriter, ScanWriter
from quadsim.sensors.lidar import LidarParams, Scan

STAMP_NS = 12_345_678_901
INF = math.inf


def make_scan(ranges, intensities=None):
    ranges = np.array(ranges, np.float32)
    intensities = np.zeros_like(ranges) if intensities is None else np.array(intensities)
    return Scan(STAMP_NS, ranges, intensities.astype(np.float32))


def through_ros(message):
    return deserialize_message(serialize_message(message), type(message))


def test_a_laser_scan_is_as_sensor_msgs_documents_it():
    params = LidarParams(
        columns=5, azimuth_min_deg=-90.0, azimuth_max_deg=90.0, rate_hz=10.0, spinning=True,
        range_min_m=0.1, range_max_m=8.0,
    )  # fmt: skip
    message = through_ros(
        ScanWriter("lidar_link", params).message(make_scan([[1.0, INF, -INF, 2.5, 8.0]]))
    )
    assert isinstance(message, LaserScan)
    assert message.header.frame_id == "lidar_link"
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (12, 345_678_901)
    near = pytest.approx
    assert message.angle_min == near(-math.pi / 2, rel=1e-7)
    assert message.angle_max == near(math.pi / 2, rel=1e-7)
    assert message.angle_increment == near(math.pi / 4, rel=1e-7)
    assert message.time_increment == near(0.1 / 8, rel=1e-7)  # 45 degrees of a turn of 0.1 s
    assert message.scan_time == near(0.1, rel=1e-7)
    assert (message.range_min, message.range_max) == (near(0.1, rel=1e-7), 8.0)
    assert list(message.ranges) == [1.0, INF, -INF, 2.5, 8.0]
    assert list(message.intensities) == []


def test_a_scan_taken_at_once_has_no_time_increment_and_one_column_no_angle_increment():
    message = ScanWriter("lidar_link", LidarParams()).message(make_scan(np.ones((1, 360))))
    assert message.time_increment == 0.0
    assert len(message.ranges) == 360
    ray = LidarParams(columns=1, azimuth_min_deg=10.0, azimuth_max_deg=10.0)
    message = ScanWriter("lidar_link", ray).message(make_scan([[3.0]]))
    assert message.angle_increment == 0.0
    assert message.angle_min == message.angle_max == pytest.approx(math.radians(10.0))


def test_intensities_are_told_where_there_are_some():
    params = LidarParams(columns=2, azimuth_max_deg=0.0, intensity=True)
    message = through_ros(
        ScanWriter("lidar_link", params).message(make_scan([[1.0, INF]], [[50.0, 0.0]]))
    )
    assert list(message.intensities) == [50.0, 0.0]


def test_a_cloud_is_decoded_from_its_bytes_by_its_fields():
    params = LidarParams(
        channels=3, elevation_min_deg=-30.0, elevation_max_deg=30.0, columns=4,
        azimuth_min_deg=0.0, azimuth_max_deg=270.0, spinning=True, intensity=True,
    )  # fmt: skip
    ranges = [[1.0, 2.0, 3.0, 4.0], [5.0, INF, -INF, 6.0], [7.0, 8.0, 9.0, 10.0]]
    intensities = 10.0 * np.arange(12.0).reshape(3, 4)
    message = through_ros(
        CloudWriter("quad1/lidar_link", params).message(make_scan(ranges, intensities))
    )
    assert isinstance(message, PointCloud2)
    assert message.header.frame_id == "quad1/lidar_link"
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (12, 345_678_901)
    assert (message.height, message.width) == (3, 4)
    assert not message.is_bigendian
    assert not message.is_dense
    assert message.row_step == 4 * message.point_step
    assert len(message.data) == 3 * message.row_step
    codes = {PointField.FLOAT32: "<f", PointField.UINT16: "<H"}
    fields = {field.name: field for field in message.fields}
    assert list(fields) == ["x", "y", "z", "intensity", "ring", "time"]
    assert fields["ring"].datatype == PointField.UINT16
    assert {field.count for field in message.fields} == {1}

    def value(name, channel, column):
        at = channel * message.row_step + column * message.point_step + fields[name].offset
        return struct.unpack_from(codes[fields[name].datatype], bytes(message.data), at)[0]

    for channel, elevation_deg in enumerate((-30.0, 0.0, 30.0)):
        for column, azimuth_deg in enumerate((0.0, 90.0, 180.0, 270.0)):
            reading = ranges[channel][column]
            elevation, azimuth = math.radians(elevation_deg), math.radians(azimuth_deg)
            level = reading * math.cos(elevation)
            point = [value(name, channel, column) for name in "xyz"]
            if math.isinf(reading):
                assert all(map(math.isnan, point))
            else:
                assert point == pytest.approx(
                    [level * math.cos(azimuth), level * math.sin(azimuth),
                     reading * math.sin(elevation)], abs=1e-6,
                )  # fmt: skip
            assert value("intensity", channel, column) == intensities[channel, column]
            assert value("ring", channel, column) == channel
            assert value("time", channel, column) == pytest.approx(0.025 * column, rel=1e-6)


def test_a_writer_forgets_the_scan_before():
    writer = CloudWriter("lidar_link", LidarParams(columns=2, azimuth_max_deg=0.0))
    first = through_ros(writer.message(make_scan([[1.0, INF]])))
    second = through_ros(writer.message(make_scan([[INF, 2.0]])))
    x = [struct.unpack_from("<f", bytes(m.data), k * m.point_step)[0]
         for m in (first, second) for k in range(2)]  # fmt: skip
    assert x[0] == pytest.approx(-1.0)
    assert math.isnan(x[1])
    assert math.isnan(x[2])
    assert x[3] == pytest.approx(2.0)
