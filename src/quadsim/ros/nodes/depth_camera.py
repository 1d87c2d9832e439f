"""Node ``depth_camera``: publishes depth images from a vehicle's pose, and what they show."""

from __future__ import annotations

from typing import Any

from quadsim.ros.messages.camera import PixelCloud, camera_info
from quadsim.ros.messages.images import ImageWriter, millimetres
from quadsim.ros.messages.world import make_time
from quadsim.ros.parts.ray_sensor import Carrier
from quadsim.ros.parts.sensor import Messages, SensorKind, SensorNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors import OPTICAL
from quadsim.sensors.depth_camera import KIND, SCANNER, DepthCameraParams
from quadsim.sensors.scanner import NEEDS


def depth_messages(node: SensorNode) -> Messages:
    """Depth and CameraInfo; cloud and segmentation where they are asked for."""
    params: DepthCameraParams = node.params
    node.platform.show_mount("camera_link", params.position_B_m, params.rotation_deg)
    node.platform.show_optical("camera_link", OPTICAL)
    frame, shape = node.frame(OPTICAL), (params.rows, params.columns)
    depths, ids = ImageWriter(frame, shape, params.encoding), ImageWriter(frame, shape, "mono16")
    info = camera_info(frame, params)
    whole = params.encoding == "16UC1"

    def depth_of(image: Any) -> bytes:
        pixels = millimetres(image.depth_m) if whole else image.depth_m
        return depths.message(image.stamp_ns, pixels)

    def info_of(image: Any) -> Any:
        info.header.stamp = make_time(image.stamp_ns)
        return info

    found: list[Any] = [(topics.DEPTH, depth_of), (topics.DEPTH_INFO, info_of)]
    if params.points:
        found.append((topics.DEPTH_POINTS, PixelCloud(frame, params).message))
    if params.segmentation:
        found.append((topics.SEGMENTATION, lambda image: ids.message(image.stamp_ns, image.ids)))
    return found


DEPTH_CAMERA = SensorKind(
    KIND,
    "ideal_depth_camera",
    DepthCameraParams,
    lambda _: NEEDS,
    SCANNER,
    depth_messages,
    needed=False,
    fixed=("points", "segmentation"),
    platform=Carrier,
)

make, main = entry_points(DEPTH_CAMERA.make)
