"""Node ``lidar``: publishes ``scan`` (one channel) or ``points`` from a vehicle's pose."""

from __future__ import annotations

from quadsim.ros.messages.scans import LEVEL_FRAME, MOUNTED_LEVEL_FRAME, CloudWriter, ScanWriter
from quadsim.ros.parts.sensor import Messages, SensorKind, SensorNode
from quadsim.ros.parts.sensor_nodes import Carrier
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.lidar import KIND, LidarParams, SimulatedLidar
from quadsim.sensors.scanner import NEEDS


def frame_of(params: LidarParams, level: bool) -> str:
    """Name of the frame that a lidar's messages are in, by which a reader places them."""
    if not level:
        return "lidar_link"
    mounted = any((*params.position_B_m, *params.rotation_deg))
    return MOUNTED_LEVEL_FRAME if mounted else LEVEL_FRAME


def lidar_messages(node: SensorNode) -> Messages:
    """LaserScan of a planar lidar, PointCloud2 of any other; publishes where a fixed one sits."""
    params, level = node.params, node.get_parameter("level").value
    planar = params.channels == 1
    if not level:
        node.platform.show_mount("lidar_link", params.position_B_m, params.rotation_deg)
    writer = ScanWriter if planar else CloudWriter
    message = writer(node.frame(frame_of(params, level)), params).message
    return [(topics.SCAN if planar else topics.POINTS, message)]


LIDAR = SensorKind(
    KIND,
    "ideal_lidar",
    LidarParams,
    lambda _: NEEDS,
    SimulatedLidar,
    lidar_messages,
    needed=False,
    fixed=("channels",),
    platform=Carrier,
)

make, main = entry_points(LIDAR.make)
