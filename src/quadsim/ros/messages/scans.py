"""Scans of a lidar to messages: LaserScan of a planar one, PointCloud2 of any other.

The numbers go from numpy into the message as one block of bytes; nothing is done point by point.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from sensor_msgs.msg import LaserScan, PointCloud2, PointField

from quadsim.ros.messages.world import make_time

#: Frame of a lidar that stays level at the vehicle's middle (REP 120), with the heading alone.
LEVEL_FRAME = "base_stabilized"
#: Frame of one that stays level too, and is mounted there somewhere else, or rotated.
MOUNTED_LEVEL_FRAME = "lidar_stabilized"

#: A point of a cloud: x, y, z in the lidar's axes in m (NaN: no return), intensity, channel counted
#: from the lowest, and time after the message's stamp in s.
POINT = np.dtype(
    [
        ("x", "<f4"),
        ("y", "<f4"),
        ("z", "<f4"),
        ("intensity", "<f4"),
        ("ring", "<u2"),
        ("time", "<f4"),
    ],
    align=True,
)

_DATATYPES = {"<f4": PointField.FLOAT32, "<u2": PointField.UINT16}


class ScanWriter:
    """LaserScan messages of one planar lidar."""

    def __init__(self, frame: str, params: Any) -> None:
        azimuth_rad, offset_s = params.azimuths(), params.offsets_s()
        steps = max(params.columns - 1, 1)
        self._with_intensity = params.intensity
        self._message = LaserScan(
            angle_min=azimuth_rad[0],
            angle_max=azimuth_rad[-1],
            angle_increment=(azimuth_rad[-1] - azimuth_rad[0]) / steps,
            time_increment=(offset_s[-1] - offset_s[0]) / steps,
            scan_time=1.0 / params.rate_hz,
            range_min=params.range_min_m,
            range_max=params.range_max_m,
        )
        self._message.header.frame_id = frame

    def message(self, scan: Any) -> LaserScan:
        """Message of a scan, stamped with its first ray; the same object at each call."""
        self._message.header.stamp = make_time(scan.stamp_ns)
        self._message.ranges = array("f", scan.ranges[0].tobytes())
        if self._with_intensity:
            self._message.intensities = array("f", scan.intensities[0].tobytes())
        return self._message


class CloudWriter:
    """PointCloud2 messages of one lidar, organised: a row for each channel, the lowest first."""

    def __init__(self, frame: str, params: Any) -> None:
        shape = (params.channels, params.columns)
        self._directions = np.moveaxis(params.directions(), 2, 0).astype(np.float32)
        self._points = np.zeros(shape, POINT)
        self._points["ring"] = np.arange(params.channels)[:, None]
        self._points["time"] = params.offsets_s()
        self._message = PointCloud2(
            height=params.channels,
            width=params.columns,
            fields=[self._field(name) for name in POINT.names or ()],
            is_bigendian=False,
            point_step=POINT.itemsize,
            row_step=POINT.itemsize * params.columns,
            is_dense=False,
        )
        self._message.header.frame_id = frame

    @staticmethod
    def _field(name: str) -> PointField:
        assert POINT.fields is not None
        kind, offset = POINT.fields[name][:2]
        return PointField(name=name, offset=offset, datatype=_DATATYPES[kind.str], count=1)

    def message(self, scan: Any) -> PointCloud2:
        """Message of a scan, stamped with its first ray; the same object at each call."""
        ranges = np.where(np.isfinite(scan.ranges), scan.ranges, np.float32(np.nan))
        for name, direction in zip("xyz", self._directions, strict=True):
            np.multiply(ranges, direction, out=self._points[name])
        self._points["intensity"] = scan.intensities
        self._message.header.stamp = make_time(scan.stamp_ns)
        self._message.data = array("B", self._points.tobytes())
        return self._message
