"""What a simulated depth camera states beside its images."""

from __future__ import annotations

from array import array

import numpy as np
from sensor_msgs.msg import CameraInfo, PointCloud2, PointField

from quadsim.ros.messages.world import make_time
from quadsim.sensors.depth_camera import DepthCameraParams, DepthImage


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
    """PointCloud2 of a depth image in the optical frame, organised; NaN without a reading.

    Args:
        frame: name of that frame.
        params: of the camera.
    """

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
