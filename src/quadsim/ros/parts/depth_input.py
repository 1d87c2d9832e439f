"""A depth camera's images, ours or a real one's, as scans for planner and guard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.messages.images import rays_of, read_depth
from quadsim.ros.messages.world import stamp_ns_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare
from quadsim.sensors.depth_scan import DepthScan, DepthScanner
from quadsim.sensors.pose_history import PoseHistory


@dataclass(frozen=True)
class CameraMountParams:
    """Where the depth camera sits, as of its device file, and how far it is relied on."""

    position_B_m: Annotated[Vec3, Spec("of the camera in base_link", "m", ge=-10.0, le=10.0)] = (
        0.0, 0.0, 0.0,
    )  # fmt: skip
    rotation_deg: Annotated[Vec3, Spec("its roll, pitch, yaw", "deg", ge=-360.0, le=360.0)] = (
        0.0, 0.0, 0.0,
    )  # fmt: skip
    range_m: Annotated[
        float, Spec("level; what it sees beyond does not count", "m", gt=0.5, le=100.0)
    ] = 10.0
    empty_is_free: Annotated[
        bool,
        Spec(
            "a pixel without a reading (0, NaN) has nothing in range; a stereo camera leaves sky"
            " empty, and what has no texture too"
        ),
    ] = False


class DepthInput:
    """Subscriptions to a depth camera.

    Parameters: ``camera.*`` of :class:`CameraMountParams`.

    Args:
        node: who listens.
        poses: where the vehicle was.
        use: takes the stamp of each image, its scan, and how far that sees.
    """

    def __init__(
        self,
        node: QuadsimNode,
        poses: PoseHistory,
        use: Callable[[int, DepthScan, float], None],
    ) -> None:
        self._poses, self._use = poses, use
        self._mount = declare(node, CameraMountParams(), "camera.")
        self._key: tuple[Any, ...] = ()
        self._scanner: DepthScanner | None = None
        node.listen(topics.DEPTH_INFO, self._on_info, raw=False)
        node.listen(topics.DEPTH, self._on_image, raw=False)

    def _on_info(self, message: Any) -> None:
        key = (message.height, message.width, message.distortion_model, *message.k, *message.d)
        if key == self._key:
            return
        self._key, self._scanner, mount = (), None, self._mount
        try:
            self._scanner = DepthScanner(
                rays_of(message), mount.position_B_m, mount.rotation_deg, mount.range_m,
                mount.empty_is_free,
            )  # fmt: skip
        except InputError as error:
            raise MessageError(str(error)) from None
        self._key = key

    def _on_image(self, message: Any) -> None:
        if self._poses.begins_after(stamp_ns_of(message.header.stamp)):
            return
        depth_m = read_depth(message)
        if self._scanner is None:
            raise MessageError("no camera_info that can be used has come")
        if depth_m.shape != self._key[:2]:
            rows, columns = depth_m.shape
            raise MessageError(
                f"{columns} x {rows} pixels; its camera_info says {self._key[1]} x {self._key[0]}"
            )
        stamp_ns = stamp_ns_of(message.header.stamp)
        try:
            p_W, q_WB = self._poses.at(np.array([stamp_ns]))
        except ValueError as error:
            raise MessageError(str(error)) from None
        scan = self._scanner.scan(depth_m, p_W[0], q_WB[0])
        if not len(scan.azimuths_W):
            raise MessageError("no pixel at the vehicle's height says anything")
        self._use(stamp_ns, scan, self._scanner.range_m)
