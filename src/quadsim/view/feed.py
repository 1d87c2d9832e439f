"""Messages of one vehicle, as they lie in a bag or come from DDS, to its view.

High rates are thinned by the stamps in the bytes before anything is decoded, and what is left is
decoded in blocks, so that looking costs little.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from quadsim.base.errors import QuadsimError
from quadsim.geometry.geodesy import Datum
from quadsim.sim.log import Array, Event, Track
from quadsim.view.motion import wxyz
from quadsim.view.vehicle import BACK_NS, BLIND, ESTIMATE, REFERENCE, TRUTH, VehicleView
from quadsim.wire.decode import Block, decode
from quadsim.wire.definitions import standard_types
from quadsim.wire.standard import IMAGE

ODOMETRY = "nav_msgs/msg/Odometry"
POSE = "geometry_msgs/msg/PoseStamped"
#: Topic (relative) to its type.
TOPICS = {
    "ground_truth/odom": ODOMETRY,
    "odometry/filtered": ODOMETRY,
    "odometry/blind": ODOMETRY,
    "reference": POSE,
    "motor_speed": "sensor_msgs/msg/JointState",
    "gps/fix": "sensor_msgs/msg/NavSatFix",
    "wind": "geometry_msgs/msg/Vector3Stamped",
    "range/down": "sensor_msgs/msg/Range",
    "scan": "sensor_msgs/msg/LaserScan",
    "points": "sensor_msgs/msg/PointCloud2",
    "camera/depth/image_rect_raw": IMAGE,
    "camera/segmentation": IMAGE,
    "battery_state": "sensor_msgs/msg/BatteryState",
    "mission": "nav_msgs/msg/Path",
    "mission/status": "diagnostic_msgs/msg/DiagnosticStatus",
    "events": "diagnostic_msgs/msg/DiagnosticStatus",
}
#: Those of a depth camera, and their names.
IMAGES = {"camera/depth/image_rect_raw": "depth", "camera/segmentation": "segmentation"}
#: Topic to the name of its track; other estimators' have the end of their topic.
TRACKS = {
    "ground_truth/odom": TRUTH,
    "odometry/filtered": ESTIMATE,
    "odometry/blind": BLIND,
    "reference": REFERENCE,
}
ESTIMATES = "odometry/"
_STAMPED = struct.Struct("<iI")
#: Motor speeds are integrated, so they are thinned less, Hz.
MOTOR_HZ = 100.0
#: Scans are thinned to so many a second, and to so many points.
SCAN_HZ, SCAN_POINTS = 10.0, 20_000
#: Messages of a topic that wait to be drawn, at most; older ones are left out.
MOST_WAITING = 4096
#: Status of a fix that is none, or better.
_NO_FIX = 0


@dataclass(frozen=True)
class Mounts:
    """Where the sensors that are drawn sit, in body axes."""

    rangefinder_B_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lidar_B_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lidar_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)


def odometry_track(block: Block) -> tuple[Track, Array]:
    """A block of odometries or poses as a track, and the (N, 3, 3) covariance of the position.

    The twist of an odometry is in the body's axes (nav_msgs); rows that are no pose are left out.
    """
    p_W, q = block["p"], block["q_xyzw"]
    good = np.isfinite(p_W).all(axis=1) & (np.abs(np.linalg.norm(q, axis=1) - 1.0) < 0.1)
    R_WB = Rotation.from_quat(np.where(good[:, None], q, [0.0, 0.0, 0.0, 1.0]))
    v_W = w_B = np.zeros_like(p_W)
    covariance: Array = np.zeros((len(p_W), 3, 3))
    sigma = None
    if "v" in block.names:
        v_W, w_B = R_WB.apply(block["v"]), block["w"]
        pose, twist = block["pose_covariance"], block["twist_covariance"]
        covariance = pose[:, :3, :3]
        R = R_WB.as_matrix()
        of_v = R @ twist[:, :3, :3] @ np.swapaxes(R, 1, 2)
        parts = (covariance, of_v, pose[:, 3:, 3:])
        variance = np.hstack([np.einsum("nii->ni", part) for part in parts])
        sigma = np.sqrt(np.maximum(variance, 0.0)) if variance.any() else None
    track = Track(block.stamp_ns, p_W, v_W, wxyz(R_WB), w_B, sigma)
    return track[good], covariance[good]


class Feed:
    """Takes one vehicle's messages and draws them in blocks.

    Args:
        datum: origin of the world; without one no fix is drawn.
    """

    def __init__(
        self, view: VehicleView, mounts: Mounts, datum: Datum | None, rate_hz: float = 50.0
    ) -> None:
        self.view, self.datum = view, datum
        self._mounts = mounts
        self._waiting: dict[str, list[bytes]] = {}
        self._events: list[Event] = []
        self._types: dict[str, str] = {}
        self._newest_ns = 0
        self._slots: dict[str, int] = {}
        self._last_ns: dict[str, int] = {}
        pose_ns, scan_ns = round(1e9 / rate_hz), round(1e9 / SCAN_HZ)
        self._periods_ns = {"motor_speed": round(1e9 / MOTOR_HZ), "gps/fix": 1}
        self._periods_ns |= dict.fromkeys(("scan", "points", *IMAGES), scan_ns)
        self._pose_ns = pose_ns
        self._drawers: dict[str, Callable[[list[bytes]], None]] = {
            "motor_speed": self._motors,
            "gps/fix": self._fixes,
            "wind": self._wind,
            "range/down": self._range,
            "scan": self._scans,
            "points": self._clouds,
            **{topic: partial(self._images, topic) for topic in IMAGES},
            "battery_state": self._battery,
            "mission": self._mission,
        }

    def take(self, topic: str, type_name: str, payload: bytes) -> None:
        """Keep a message until the next :meth:`flush`, if it is to be drawn.

        Args:
            topic: relative to the vehicle.
        """
        if type_name == TOPICS["events"]:
            self._take_event(type_name, payload)
            return
        if len(payload) < 12:
            return
        seconds, nanoseconds = _STAMPED.unpack_from(payload, 4)
        stamp_ns = seconds * 1_000_000_000 + nanoseconds
        if topic != "mission":
            if stamp_ns < self._last_ns.get(topic, stamp_ns) - BACK_NS:
                self._restart(stamp_ns)
            self._last_ns[topic] = stamp_ns
            slot = stamp_ns // self._periods_ns.get(topic, self._pose_ns)
            if slot <= self._slots.get(topic, -1):
                return
            self._slots[topic] = slot
            self._newest_ns = max(self._newest_ns, stamp_ns)
        waiting = self._waiting.setdefault(topic, [])
        self._types[topic] = type_name
        waiting.append(payload)
        if len(waiting) > MOST_WAITING:
            del waiting[0]

    def _restart(self, stamp_ns: int) -> None:
        """Stamps went back (a loop, a seek, another start): draw what waits, then begin anew."""
        self.flush()
        self._slots.clear()
        self._last_ns.clear()
        self._newest_ns = stamp_ns
        self.view.restart(stamp_ns)

    def _take_event(self, type_name: str, payload: bytes) -> None:
        """Keep an event; it has no stamp but what it may state, so the newest heard is its."""
        try:
            message: Any = standard_types().deserialize_cdr(payload, type_name)
        except Exception:  # whatever a parser makes of a broken message
            return
        values = {pair.key: pair.value for pair in message.values}
        level = message.level[0] if isinstance(message.level, bytes) else int(message.level)
        stamp_ns = self._newest_ns
        with suppress(KeyError, ValueError, OverflowError):
            stamp_ns = round(float(values["stamp_s"]) * 1e9)
        self._events.append(Event(stamp_ns, level, str(message.name), str(message.message)))
        del self._events[:-MOST_WAITING]

    def flush(self) -> None:
        """Draw what waits, the truth first: errors are taken against it."""
        waiting, self._waiting = self._waiting, {}
        for topic in sorted(waiting, key=lambda topic: topic != "ground_truth/odom"):
            draw = self._drawers.get(topic)
            try:
                if draw is not None:
                    draw(waiting[topic])
                else:
                    self._track(topic, waiting[topic])
            except (QuadsimError, ValueError, IndexError, KeyError) as error:
                self._events.append(Event(self._newest_ns, 1, topic, f"not drawn: {error}"))
        events, self._events = self._events, []
        self.view.events(events)

    # ---- kinds of messages ---------------------------------------------------------------------

    def _read(self, topic: str, payloads: list[bytes]) -> list[tuple[int, Any]]:
        """Stamps and messages of a type without a fixed layout."""
        read = []
        for payload in payloads:
            message: Any = standard_types().deserialize_cdr(payload, self._types[topic])
            stamp = message.header.stamp
            read.append((stamp.sec * 1_000_000_000 + stamp.nanosec, message))
        return read

    def _track(self, topic: str, payloads: list[bytes]) -> None:
        block = decode(self._types[topic], payloads)
        track, covariance = odometry_track(block)
        name = TRACKS.get(topic) or topic.removeprefix(ESTIMATES)
        self.view.track(name, track, covariance if covariance.any() else None)

    def _motors(self, payloads: list[bytes]) -> None:
        read = self._read("motor_speed", payloads)
        width = len(read[-1][1].velocity)
        rows = [(stamp, m.velocity) for stamp, m in read if len(m.velocity) == width]
        if width:
            stamps, speeds = zip(*rows, strict=True)
            self.view.rotors(np.array(stamps, np.int64), np.array(speeds, float))

    def _fixes(self, payloads: list[bytes]) -> None:
        if self.datum is None:
            return
        block = decode(self._types["gps/fix"], payloads)
        places = zip(
            block["latitude_deg"].tolist(),
            block["longitude_deg"].tolist(),
            block["height_m"].tolist(),
            strict=True,
        )
        p_W = np.array([self.datum.to_enu(*place) for place in places], float)
        good = np.isfinite(p_W).all(axis=1) & (block["status"] >= _NO_FIX)
        track = Track.empty(int(good.sum()))
        track.stamp_ns[:], track.p_W[:] = block.stamp_ns[good], p_W[good]
        self.view.fixes(track)

    def _wind(self, payloads: list[bytes]) -> None:
        block = decode(self._types["wind"], payloads)
        self.view.wind(block.stamp_ns, block["v"])

    def _range(self, payloads: list[bytes]) -> None:
        block = decode(self._types["range/down"], payloads)
        reading = block["range"].astype(float)
        low, high = block["min_range"], block["max_range"]
        reading[(reading < low) | ((high > 0.0) & (reading > high))] = np.nan
        self.view.range(block.stamp_ns, reading, self._mounts.rangefinder_B_m)

    def _battery(self, payloads: list[bytes]) -> None:
        read = self._read("battery_state", payloads)
        stamps = np.array([stamp for stamp, _ in read], np.int64)
        charge = np.array([message.percentage for _, message in read], float)
        voltage = np.array([message.voltage for _, message in read], float)
        self.view.battery(stamps, charge, voltage)

    def _mission(self, payloads: list[bytes]) -> None:
        for stamp_ns, message in self._read("mission", payloads[-1:]):
            places = [pose.pose.position for pose in message.poses]
            points = np.array([(p.x, p.y, p.z) for p in places], float).reshape(-1, 3)
            self.view.mission(points, max(stamp_ns, self.view.start_ns))

    def _scans(self, payloads: list[bytes]) -> None:
        for stamp_ns, scan in self._read("scan", payloads):
            ranges = np.asarray(scan.ranges, float)
            angle = scan.angle_min + scan.angle_increment * np.arange(len(ranges))
            seen = (ranges >= scan.range_min) & (ranges <= scan.range_max)
            flat = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
            self._scan(stamp_ns, flat[seen] * ranges[seen, None])

    def _clouds(self, payloads: list[bytes]) -> None:
        for stamp_ns, cloud in self._read("points", payloads):
            offsets = {f.name: f.offset for f in cloud.fields if f.datatype == 7}  # float32
            if not {"x", "y", "z"} <= offsets.keys():
                raise ValueError("its points have no x, y, z in float32")
            order = ">" if cloud.is_bigendian else "<"
            kind = np.dtype(
                {
                    "names": list("xyz"),
                    "formats": [f"{order}f4"] * 3,
                    "offsets": [offsets[axis] for axis in "xyz"],
                    "itemsize": cloud.point_step,
                }
            )
            points = np.frombuffer(bytes(cloud.data), kind, cloud.width * cloud.height)
            self._scan(stamp_ns, np.stack([points[axis] for axis in "xyz"], axis=1))

    def _images(self, topic: str, payloads: list[bytes]) -> None:
        for stamp_ns, image in self._read(topic, payloads):
            kind = {"32FC1": "f4", "16UC1": "u2", "mono16": "u2"}[image.encoding]
            order, size = ">" if image.is_bigendian else "<", int(kind[1])
            shape, strides = (image.height, image.width), (image.step, size)
            pixels: Any = np.ndarray(shape, order + kind, bytes(image.data), strides=strides)
            self.view.image(stamp_ns, IMAGES[topic], pixels.astype(kind))

    def _scan(self, stamp_ns: int, points_S: Array) -> None:
        points_S = points_S[:: max(1, len(points_S) // SCAN_POINTS)]
        points_S = points_S[np.isfinite(points_S).all(axis=1)]
        rotated = Rotation.from_euler("ZYX", self._mounts.lidar_deg[::-1], degrees=True)
        if len(points_S):
            self.view.scan(stamp_ns, rotated.apply(points_S) + self._mounts.lidar_B_m)
