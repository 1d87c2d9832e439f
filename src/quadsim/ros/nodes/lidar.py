"""Node ``lidar``: a vehicle's pose in, ``scan`` (one channel) or ``points`` (several) out."""

from __future__ import annotations

import math
from typing import Any

from rclpy.context import Context

from quadsim.ros.messages.scans import LEVEL_FRAME, MOUNTED_LEVEL_FRAME, CloudWriter, ScanWriter
from quadsim.ros.messages.transforms import StaticTransforms
from quadsim.ros.parts.ray_sensor import SeeingNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import main_of
from quadsim.sensors.lidar_pattern import LidarParams


def frame_of(params: LidarParams, level: bool) -> str:
    """Name of the frame that a lidar's messages are in, which says how its reader places them."""
    if not level:
        return "lidar_link"
    mounted = any((*params.position_B_m, *params.rotation_deg))
    return MOUNTED_LEVEL_FRAME if mounted else LEVEL_FRAME


class LidarNode(SeeingNode):
    """A lidar: LaserScan of a planar one, PointCloud2 of any other."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("lidar", "ideal_lidar", **kwargs)
        self._planar = self.params.channels == 1
        self._publisher = self.offer(topics.SCAN if self._planar else topics.POINTS)
        self._mount = StaticTransforms(self)
        self.make_writers()

    def make_writers(self) -> None:
        """Write scans of these parameters, and say where a lidar sits that is fixed."""
        kind = ScanWriter if self._planar else CloudWriter
        self._writer = kind(self.frame(frame_of(self.params, self.ride.level)), self.params)
        if self.ride.level:
            return
        roll, pitch, yaw = map(math.radians, self.params.rotation_deg)
        self._mount.publish({"lidar_link": (self.params.position_B_m, (roll, pitch, yaw))})

    def publish_sample(self, sample: Any) -> None:
        """Publish one scan."""
        self._publisher.publish(self._writer.message(sample))


def make(context: Context, **kwargs: Any) -> LidarNode:
    """Make the node in a context."""
    return LidarNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
