"""A lidar's messages as points in the world: what guard, planner and monitor see.

Each ray is placed where the lidar was at the ray's own time: a LaserScan states it by
``time_increment``, a cloud by a field ``time`` (s after the stamp) or ``t`` (ns after it). What
reports no times is taken to have been seen at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.ros.messages.cdr import MessageError, stamp_ns_of
from quadsim.ros.messages.images import rays_of, read_depth
from quadsim.ros.messages.scans import LEVEL_FRAME, MOUNTED_LEVEL_FRAME
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare
from quadsim.sensors.depth_scan import DepthScan, DepthScanner
from quadsim.sensors.pose_history import WITHIN_S, PoseHistory

Array = NDArray[np.float64]
#: No ray reports anything of what is farther, m.
FARTHEST_RAY_M = 1e4
#: Bytes of a point, at most.
LONGEST_POINT = 4096
#: PointField.datatype of a FLOAT32 and of a UINT32, and as numpy has them.
FLOAT32, UINT32 = 7, 6
KINDS = {FLOAT32: "f4", UINT32: "u4"}
#: Fields of clouds that say when a point was seen: name, type, and in which unit, s.
TIMES = (("time", FLOAT32, 1.0), ("t", UINT32, 1e-9))


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
        use: takes the stamp of each image, its scan, and how far that sees.
    """

    def __init__(
        self, node: QuadsimNode, poses: PoseHistory, use: Callable[[int, DepthScan, float], None]
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
                f"{columns} x {rows} pixels; its camera_info has {self._key[1]} x {self._key[0]}"
            )
        stamp_ns = stamp_ns_of(message.header.stamp)
        try:
            p_W, q_WB = self._poses.at(np.array([stamp_ns]))
        except ValueError as error:
            raise MessageError(str(error)) from None
        scan = self._scanner.scan(depth_m, p_W[0], q_WB[0])
        if not len(scan.azimuths_W):
            raise MessageError("no pixel at the vehicle's height has a reading")
        self._use(stamp_ns, scan, self._scanner.range_m)


class PlacedScan(NamedTuple):
    """A scan in the world.

    Attributes:
        stamp_ns: of its first ray.
        origin_W: where the rays began, m; of a lidar that moved meanwhile, the middle of that.
        points_W: (N, 3) what they hit, m.
        ends_W: (M, 3) how far those saw that hit nothing, m.
        range_m: how far the lidar sees; None where it does not say so.
        azimuths_W: (K,) where its rays have looked, rad; None: all round.
    """

    stamp_ns: int
    origin_W: Vec3
    points_W: Array
    ends_W: Array
    range_m: float | None
    azimuths_W: Array | None


@dataclass(frozen=True)
class LidarMountParams:
    """Where the lidar sits, as of its device file; not asked of what comes in LEVEL_FRAME.

    And what it sees besides the world: the vehicle's own body.
    """

    position_B_m: Annotated[Vec3, Spec("of the lidar in base_link", "m", ge=-10.0, le=10.0)] = (
        0.0, 0.0, 0.0,
    )  # fmt: skip
    rotation_deg: Annotated[Vec3, Spec("its roll, pitch, yaw", "deg", ge=-360.0, le=360.0)] = (
        0.0, 0.0, 0.0,
    )  # fmt: skip
    cloud_field_deg: Annotated[
        float,
        Spec(
            "horizontal field of view of a lidar that gives clouds, about its x axis: a cloud does"
            " not say what its rays did not hit",
            "deg",
            gt=0.0,
            le=360.0,
        ),
    ] = 360.0
    self_radius_m: Annotated[
        float,
        Spec(
            "hits so near to the body's z axis are the vehicle itself and left out; the guard"
            " refuses more than its vehicle has; 0: none",
            "m",
            ge=0.0,
            le=5.0,
        ),
    ] = 0.0
    self_half_height_m: Annotated[
        float, Spec("and no farther than this above or below its origin", "m", gt=0.0, le=5.0)
    ] = 0.2


class ScanInput:
    """Subscriptions to ``scan``, ``points`` and a depth camera.

    Parameters: ``lidar.*`` of :class:`LidarMountParams`, those of :class:`DepthInput`. Messages in
    the frame :data:`LEVEL_FRAME` are of a lidar that stays level at the vehicle's middle, those in
    :data:`MOUNTED_LEVEL_FRAME` of one that is mounted on something level.

    Args:
        use: takes each scan.
        within_s: as of :class:`PoseHistory`.
    """

    def __init__(
        self, node: QuadsimNode, use: Callable[[PlacedScan], None], within_s: float = WITHIN_S
    ) -> None:
        self.poses = PoseHistory(within_s)
        self._use = use
        mount = declare(node, LidarMountParams(), "lidar.")
        self.mount = mount
        self._position_B = np.array(mount.position_B_m)
        self._turn_BS = Rotation.from_euler("ZYX", mount.rotation_deg[::-1], degrees=True)
        self._rays: tuple[Any, Array] | None = None
        node.listen(topics.SCAN, self._on_scan, raw=False)
        node.listen(topics.POINTS, self._on_points, raw=False)
        DepthInput(node, self.poses, self._on_depth)

    def _on_depth(self, stamp_ns: int, scan: DepthScan, range_m: float) -> None:
        self._use(PlacedScan(stamp_ns, *scan[:3], range_m, scan.azimuths_W))

    def _place(
        self, message: Any, vectors_S: Array, after_s: Array, lengths: Array
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Where the lidar was at each time, (N, 3), and vectors of its axes (N, 3) in W.

        Args:
            message: for its stamp and frame.
            vectors_S: (N, 3).
            after_s: (N,) after the stamp.
            lengths: (N,) of the vectors that end at hits; third comes which of these (N,) are on
                the vehicle itself.
        """
        if not np.isfinite(after_s).all():
            raise MessageError("a time in it is not finite")
        at_once = not np.ptp(after_s)
        if at_once:
            after_s = after_s[:1]
        # what is farther off is refused by its stamp, whatever it is
        after_ns = np.round(1e9 * np.clip(after_s, -1e6, 1e6)).astype(np.int64)
        try:
            p_W, q_WB = self.poses.at(stamp_ns_of(message.header.stamp) + after_ns)
        except ValueError as error:
            raise MessageError(str(error)) from None
        turn_WB = body_WB = Rotation.from_quat(q_WB[:, [1, 2, 3, 0]])
        frame = message.header.frame_id.rsplit("/", 1)[-1]
        if frame in (LEVEL_FRAME, MOUNTED_LEVEL_FRAME):
            w, x, y, z = q_WB.T
            yaw_rad = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
            turn_WB = Rotation.from_euler("Z", yaw_rad[:, None])
        if frame == LEVEL_FRAME:
            origins_W, turn_WS = p_W, turn_WB
        else:
            origins_W, turn_WS = p_W + turn_WB.apply(self._position_B), turn_WB * self._turn_BS
        vectors_W = turn_WS.apply(vectors_S)
        own, mount = np.zeros(len(vectors_S), np.bool_), self.mount
        if mount.self_radius_m > 0.0:  # upright in the body, whatever the lidar's frame
            x, y, z = body_WB.inv().apply(origins_W - p_W + lengths[:, None] * vectors_W).T
            own = (np.hypot(x, y) <= mount.self_radius_m) & (np.abs(z) <= mount.self_half_height_m)
        return np.broadcast_to(origins_W, vectors_W.shape), vectors_W, own

    def _is_early(self, message: Any) -> bool:
        """Whether it came before the first pose: no fault, and nodes say that they have none."""
        return self.poses.begins_after(stamp_ns_of(message.header.stamp))

    def _directions(self, message: Any) -> Array:
        """(N, 3) of a planar scan's rays; made once for the same pattern."""
        key = (message.angle_min, message.angle_increment, len(message.ranges))
        if self._rays is None or self._rays[0] != key:
            azimuth_rad = key[0] + key[1] * np.arange(key[2])
            level = [np.cos(azimuth_rad), np.sin(azimuth_rad), np.zeros(key[2])]
            self._rays = (key, np.stack(level, axis=1))
        return self._rays[1]

    def _on_scan(self, message: Any) -> None:
        """REP 117: inf has seen nothing, -inf something too near; NaN states nothing."""
        if self._is_early(message):
            return
        ranges = np.asarray(message.ranges, dtype=float)
        far_m = min(float(message.range_max), FARTHEST_RAY_M)
        nearest_m = float(message.range_min)
        near = (ranges == -np.inf) | (ranges < message.range_min)
        hit = near | (ranges <= far_m)
        free = ranges > far_m
        if not (hit | free).any():
            raise MessageError(f"none of its {len(ranges)} rays has a reading")
        numbers = (message.time_increment, message.angle_min, message.angle_increment)
        if not all(map(math.isfinite, (*numbers, message.range_max, nearest_m))):
            raise MessageError("a time, an angle or the range is not finite")
        if not -far_m <= nearest_m <= far_m:
            raise MessageError(f"range_min {nearest_m:g} m, range_max {far_m:g} m")
        after_s = float(message.time_increment) * np.arange(len(ranges), dtype=float)
        distances = np.where(near, max(nearest_m, 0.0), np.where(hit, ranges, 0.0))
        directions = self._directions(message)
        origins_W, rays_W, own = self._place(message, directions, after_s, distances)
        hit &= ~own
        looked = rays_W[hit | free]
        self._give(
            message,
            origins_W,
            origins_W[hit] + distances[hit, None] * rays_W[hit],
            origins_W[free] + far_m * rays_W[free],
            far_m,
            np.arctan2(looked[:, 1], looked[:, 0]),
        )

    def _on_points(self, message: Any) -> None:
        """Points without a return are NaN; what a cloud's rays did not hit is not stated."""
        if self._is_early(message):
            return
        cloud = _read_cloud(message)
        points_S = np.stack([cloud[name] for name in "xyz"], axis=1).astype(float)
        seen = (np.abs(points_S) <= FARTHEST_RAY_M).all(axis=1)  # nor is NaN
        if not seen.any():
            raise MessageError(f"none of its {len(seen)} points has a reading")
        after_s = np.zeros(int(seen.sum()))
        for name, _, unit_s in TIMES:
            if name in (cloud.dtype.names or ()):
                after_s = unit_s * cloud[name][seen].astype(float)
                break
        origins_W, points_W, own = self._place(
            message, points_S[seen], after_s, np.ones(len(after_s))
        )
        hidden: NDArray[np.int64] = np.zeros(0, np.int64)
        if own.any():  # behind what hides all rays of a degree nothing is seen
            degrees = _degrees(np.arctan2(points_W[:, 1], points_W[:, 0]))
            hidden = np.setdiff1d(degrees[own], degrees[~own])
        self._give(
            message,
            origins_W,
            (origins_W + points_W)[~own],
            np.zeros((0, 3)),
            None,
            self._field_of_view(message, hidden),
        )

    def _field_of_view(self, message: Any, hidden_deg: NDArray[np.int64]) -> Array | None:
        """(K,) azimuths in W that a cloud's lidar sees, rad, but for hidden ones; None: all."""
        half_rad = math.radians(0.5 * self.mount.cloud_field_deg)
        if half_rad >= math.pi and not len(hidden_deg):
            return None
        _, ahead_W, _ = self._place(message, np.array([(1.0, 0.0, 0.0)]), np.zeros(1), np.ones(1))
        ahead_rad = math.atan2(ahead_W[0, 1], ahead_W[0, 0])
        field = ahead_rad + np.linspace(-half_rad, half_rad, 361)
        return np.asarray(field[~np.isin(_degrees(field), hidden_deg)], dtype=np.float64)

    def _give(
        self,
        message: Any,
        origins_W: Array,
        points_W: Array,
        ends_W: Array,
        range_m: float | None,
        azimuths_W: Array | None,
    ) -> None:
        x, y, z = origins_W.mean(axis=0).tolist()
        stamp_ns = stamp_ns_of(message.header.stamp)
        self._use(PlacedScan(stamp_ns, (x, y, z), points_W, ends_W, range_m, azimuths_W))


def _degrees(azimuths_rad: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) whole degrees, 0 to 359."""
    return np.floor(np.degrees(azimuths_rad)).astype(np.int64) % 360


def _read_cloud(message: Any) -> NDArray[np.void]:
    """Points of a cloud with x, y, z and, where it reports when they were seen, that.

    Raises:
        MessageError: it has no such fields, of these types, or its sizes do not fit each other.
    """
    fields = {field.name: field for field in message.fields}
    if not {"x", "y", "z"} <= fields.keys():
        raise MessageError("no fields x, y, z")
    wrong = [name for name in "xyz" if fields[name].datatype != FLOAT32]
    if wrong:
        raise MessageError(
            f"field {wrong[0]} of type {fields[wrong[0]].datatype}; allowed: {FLOAT32} (FLOAT32)"
        )
    times = [n for n, kind, _ in TIMES if n in fields and fields[n].datatype == kind]
    names = ["x", "y", "z", *times[:1]]
    order = ">" if message.is_bigendian else "<"
    rows, columns, step = message.height, message.width, message.point_step
    row_step = message.row_step if rows > 1 else columns * step  # one row: some leave it 0
    needed = (rows - 1) * row_step + columns * step if rows and columns else 0
    end = max(fields[name].offset + 4 for name in names)
    # looked at here: numpy reckons with 32 bits, and reads what is not there
    if end > step or step > LONGEST_POINT or needed > len(message.data):
        raise MessageError(
            f"its sizes do not fit: {rows} x {columns} points of {step} bytes, fields to {end},"
            f" {len(message.data)} bytes"
        )
    if row_step < columns * step:
        raise MessageError(
            f"its sizes do not fit: row_step {row_step} of {columns} points of {step}"
        )
    try:
        point = np.dtype(
            {
                "names": names,
                "formats": [order + KINDS[fields[name].datatype] for name in names],
                "offsets": [fields[name].offset for name in names],
                "itemsize": step,
            }
        )
        cloud: NDArray[np.void] = np.ndarray(
            (rows, columns), point, bytes(message.data), strides=(row_step, step)
        )
    except (ValueError, TypeError) as error:
        raise MessageError(f"its sizes do not fit: {error}") from None
    return cloud.reshape(-1)
