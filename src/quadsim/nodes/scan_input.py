"""A lidar's messages as points in the world: what guard, planner and monitor see."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.geometry.rotation import Quat, from_euler, to_matrix, yaw_of
from quadsim.nodes import topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import MessageError
from quadsim.nodes.params import declare
from quadsim.nodes.world_messages import stamp_ns_of
from quadsim.parameters import Spec, Vec3

#: Frame of a lidar that stays level (REP 120): it turns with the heading alone.
LEVEL_FRAME = "base_stabilized"
#: Poses of so long a time are kept; a scan that is newer than the newest pose waits for no other.
KEPT_NS = 1_000_000_000


class SeenScan(NamedTuple):
    """A scan in the world.

    Attributes:
        stamp_ns: of its first ray.
        origin_W: where the rays began, m.
        points_W: (N, 3) what they hit, m.
        ends_W: (M, 3) how far those saw that hit nothing, m.
        range_m: how far the lidar sees.
    """

    stamp_ns: int
    origin_W: Vec3
    points_W: NDArray[np.float64]
    ends_W: NDArray[np.float64]
    range_m: float


@dataclass(frozen=True)
class MountParams:
    """Where the lidar sits, as of its device file; not asked of one that stays level."""

    position_B_m: Annotated[Vec3, Spec("of the lidar in base_link", "m", ge=-10.0, le=10.0)] = (
        0.0, 0.0, 0.0,
    )  # fmt: skip
    rotation_deg: Annotated[Vec3, Spec("its roll, pitch, yaw", "deg", ge=-360.0, le=360.0)] = (
        0.0, 0.0, 0.0,
    )  # fmt: skip


class PoseHistory:
    """Poses of the last second, to know where a scan was taken."""

    def __init__(self) -> None:
        self._poses: deque[tuple[int, NDArray[np.float64], NDArray[np.float64]]] = deque()

    def take(self, stamp_ns: int, p_W: Any, q_WB: Any) -> None:
        """Keep a pose; one that jumps back in time begins anew."""
        if self._poses and stamp_ns <= self._poses[-1][0]:
            self._poses.clear()
        self._poses.append((stamp_ns, np.array(p_W, dtype=float), np.array(q_WB, dtype=float)))
        while self._poses[0][0] < stamp_ns - KEPT_NS:
            self._poses.popleft()

    def at(self, stamp_ns: int) -> tuple[NDArray[np.float64], Quat]:
        """Position and attitude at a time: between two poses, or the first or last.

        Raises:
            MessageError: there is no pose yet.
        """
        if not self._poses:
            raise MessageError("no pose yet")
        later = self._poses[-1]
        earlier = later
        for pose in reversed(self._poses):
            earlier = pose
            if pose[0] <= stamp_ns:
                break
            later = pose
        span_ns = later[0] - earlier[0]
        part = min(max((stamp_ns - earlier[0]) / span_ns, 0.0), 1.0) if span_ns > 0 else 0.0
        sign = 1.0 if float(earlier[2] @ later[2]) >= 0.0 else -1.0
        turn = (1.0 - part) * earlier[2] + part * sign * later[2]
        w, x, y, z = (turn / np.linalg.norm(turn)).tolist()
        return (1.0 - part) * earlier[1] + part * later[1], (w, x, y, z)


class ScanInput:
    """Subscriptions to ``scan`` and ``points``.

    Parameters: ``lidar.position_B_m``, ``lidar.rotation_deg``. Messages in the frame
    :data:`LEVEL_FRAME` are of a lidar that stays level at the vehicle's middle.

    Args:
        node: who listens.
        use: takes each scan.
    """

    def __init__(self, node: QuadsimNode, use: Callable[[SeenScan], None]) -> None:
        self.poses = PoseHistory()
        self._use = use
        mount = declare(node, MountParams(), "lidar.")
        self._position_B = np.array(mount.position_B_m)
        roll, pitch, yaw = (math.radians(angle) for angle in mount.rotation_deg)
        self._R_BS = np.array(to_matrix(from_euler(roll, pitch, yaw)))
        self._rays: tuple[Any, NDArray[np.float64]] | None = None
        node.listen(topics.SCAN, self._on_scan, raw=False)
        node.listen(topics.POINTS, self._on_points, raw=False)

    def _place(self, message: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the lidar was, (3,), and its axes, (3, 3)."""
        p_W, q_WB = self.poses.at(stamp_ns_of(message.header.stamp))
        if message.header.frame_id.rsplit("/", 1)[-1] == LEVEL_FRAME:
            return p_W, np.array(to_matrix(from_euler(0.0, 0.0, yaw_of(q_WB))))
        R_WB = np.array(to_matrix(q_WB))
        return p_W + R_WB @ self._position_B, R_WB @ self._R_BS

    def _directions(self, message: Any) -> NDArray[np.float64]:
        """(N, 3) of a planar scan's rays; made once for the same pattern."""
        key = (message.angle_min, message.angle_increment, len(message.ranges))
        if self._rays is None or self._rays[0] != key:
            azimuth_rad = key[0] + key[1] * np.arange(key[2])
            level = [np.cos(azimuth_rad), np.sin(azimuth_rad), np.zeros(key[2])]
            self._rays = (key, np.stack(level, axis=1))
        return self._rays[1]

    def _on_scan(self, message: Any) -> None:
        """REP 117: inf has seen nothing, -inf something too near; NaN says nothing."""
        origin_W, R_WS = self._place(message)
        rays_W = self._directions(message) @ R_WS.T
        ranges = np.asarray(message.ranges, dtype=float)
        far_m = float(message.range_max)
        near = (ranges == -np.inf) | (ranges < message.range_min)
        hit = near | (ranges <= far_m)
        free = ranges > far_m
        distances = np.where(near, float(message.range_min), ranges)
        self._give(
            message,
            origin_W,
            origin_W + distances[hit, None] * rays_W[hit],
            origin_W + far_m * rays_W[free],
            far_m,
        )

    def _on_points(self, message: Any) -> None:
        """Points without a return are NaN; what a cloud's rays did not hit is not said."""
        origin_W, R_WS = self._place(message)
        at = {field.name: field.offset for field in message.fields}
        if not {"x", "y", "z"} <= at.keys():
            raise MessageError("no fields x, y, z")
        kind = ">f4" if message.is_bigendian else "<f4"
        cloud = np.frombuffer(
            bytes(message.data),
            np.dtype(
                {
                    "names": ["x", "y", "z"],
                    "formats": [kind] * 3,
                    "offsets": [at["x"], at["y"], at["z"]],
                    "itemsize": message.point_step,
                }
            ),
        )
        points_S = np.stack([cloud["x"], cloud["y"], cloud["z"]], axis=1).astype(float)
        points_S = points_S[np.isfinite(points_S).all(axis=1)]
        far_m = float(np.linalg.norm(points_S, axis=1).max(initial=0.0))
        self._give(message, origin_W, origin_W + points_S @ R_WS.T, np.zeros((0, 3)), far_m)

    def _give(
        self,
        message: Any,
        origin_W: NDArray[np.float64],
        points_W: NDArray[np.float64],
        ends_W: NDArray[np.float64],
        range_m: float,
    ) -> None:
        x, y, z = origin_W.tolist()
        stamp_ns = stamp_ns_of(message.header.stamp)
        self._use(SeenScan(stamp_ns, (x, y, z), points_W, ends_W, range_m))
