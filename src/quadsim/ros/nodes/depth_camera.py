"""Node ``depth_camera``: publishes depth images from a vehicle's pose, and what they show."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from sensor_msgs.msg import CameraInfo, PointCloud2, PointField

from quadsim.ros.messages.images import ImageWriter, millimetres
from quadsim.ros.messages.world import make_time
from quadsim.ros.parts.sensor import Messages, SensorKind, SensorNode
from quadsim.ros.parts.sensor_nodes import Carrier
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors import OPTICAL
from quadsim.sensors.depth_camera import KIND, SCANNER, DepthCameraParams, DepthImage
from quadsim.sensors.scanner import NEEDS


def camera_info(frame: str, params: DepthCameraParams) -> CameraInfo:
    """CameraInfo of a simulated camera, but for its stamp."""
    f, x, y = params.focal_px, 0.5 * (params.columns - 1), 0.5 * (params.rows - 1)
    wide = params.projection == "equidistant"
    message = CameraInfo(
        height=params.rows,
        width=params.columns,
        distortion_model="equidistant" if wide else "plumb_bob",
        d=[0.0] * (4 if wide else 5),
        k=[f, 0.0, x, 0.0, f, y, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[f, 0.0, x, 0.0, 0.0, f, y, 0.0, 0.0, 0.0, 1.0, 0.0],
    )
    message.header.frame_id = frame
    return message


class PixelCloud:
    """PointCloud2 of a depth image in the optical frame, organised; NaN without a reading."""

    def __init__(self, frame: str, params: DepthCameraParams) -> None:
        x, y, z = np.moveaxis(params.directions(), 2, 0)
        self._slopes = np.stack([-y / x, -z / x, np.ones_like(x)], axis=2).astype(np.float32)
        fields = [
            PointField(name=name, offset=4 * k, datatype=PointField.FLOAT32, count=1)
            for k, name in enumerate("xyz")
        ]
        self._message = PointCloud2(
            height=params.rows, width=params.columns, fields=fields, point_step=12,
            row_step=12 * params.columns,
        )  # fmt: skip
        self._message.header.frame_id = frame

    def message(self, image: DepthImage) -> PointCloud2:
        """Message of an image; the same object at each call."""
        depth_m = np.where(np.isfinite(image.depth_m), image.depth_m, np.float32(np.nan))
        self._message.header.stamp = make_time(image.stamp_ns)
        self._message.data = array("B", (self._slopes * depth_m[..., None]).tobytes())
        return self._message


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
