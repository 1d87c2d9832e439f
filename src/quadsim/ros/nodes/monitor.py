"""Node ``monitor``: how late a vehicle's commands are, and what is to be seen, as markers.

It takes no part in the flight. The time from a driver's message to the setpoint that answers it is
measured on the driver's own topics: both carry the stamp of the pose.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from visualization_msgs.msg import Marker

from quadsim.base.files import find_world
from quadsim.ros.messages.cdr import MessageError, checked_stamp, stamp_of
from quadsim.ros.messages.commands import read_velocity_command
from quadsim.ros.messages.markers import (
    COMMAND,
    LIFETIME_S,
    OTHER,
    WISH,
    arrow,
    passing,
    rays,
    solid,
    words,
    world_markers,
)
from quadsim.ros.parts.other_vehicles import Others
from quadsim.ros.parts.pose_input import PoseInput
from quadsim.ros.parts.scan_input import PlacedScan, ScanInput
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, values_of
from quadsim.ros.runtime.latency import Latency
from quadsim.ros.runtime.params import declare_one
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.wire.encode import SECOND_NS
from quadsim.wire.px4 import PACKAGE
from quadsim.world.sdf.world_file import load_world

#: Of the markers, s.
DRAW_PERIOD_S = 0.1
#: Median and 99th percentile from pose to setpoint beyond which it is late, ms.
LATE_MS, LATE_99_MS = 5.0, 15.0
#: The guard reports once a second; after this time it is silent, s.
GUARD_SILENT_S = 2.0
#: A guard that sends and poses that come, but no setpoint for so long: something is lost, s.
UNANSWERED_S = 1.0
#: PX4's messages begin with their time in us, after the four bytes that say how they are written.
_PX4_STAMP = struct.Struct("<Q"), 4


def stamp_reader(type_name: str) -> Callable[[bytes], int]:
    """What gives the stamp, ns, of a serialised message of this type."""
    if not type_name.startswith(PACKAGE):
        return stamp_of

    def read(payload: bytes) -> int:
        layout, at = _PX4_STAMP
        if len(payload) < at + layout.size:
            raise MessageError(f"{len(payload)} bytes, too short for a time")
        time_us = int(layout.unpack_from(payload, at)[0])
        return checked_stamp(*divmod(1000 * time_us, SECOND_NS))

    return read


class GuardReport:
    """What the guard last stated of itself, as long as it goes on to say something."""

    def __init__(self) -> None:
        self._words = "no guard"
        self._heard_s: float | None = None
        self._sends_since_s: float | None = None

    def take(self, now_s: float, message: str, values: Mapping[str, str]) -> None:
        """Take one: its message and values."""
        margin = values.get("margin_m")
        self._words = message + (f", margin {margin} m" if margin else "")
        self._heard_s = now_s
        sends = values.get("state", "disabled") != "disabled"
        since_s = self._sends_since_s if self._sends_since_s is not None else now_s
        self._sends_since_s = since_s if sends else None

    def silent(self, now_s: float) -> bool:
        """Whether it spoke once, and does no longer."""
        return self._heard_s is not None and now_s - self._heard_s > GUARD_SILENT_S

    def words(self, now_s: float) -> str:
        """Its state and margin."""
        return "guard silent" if self.silent(now_s) else self._words

    def sends_s(self, now_s: float) -> float:
        """For how long it has stated that it sends; 0 while it does not."""
        return now_s - self._sends_since_s if self._sends_since_s is not None else 0.0


def judge_flight(
    latency: Latency, guard: GuardReport, now_ns: int
) -> tuple[int, str, dict[str, float]]:
    """Level and message for /diagnostics, and the latency's values."""
    now_s = now_ns * 1e-9
    values = latency.values("latency", now_ns)
    median_ms, most_ms = values.get("latency_ms", 0.0), values.get("latency_99_ms", 0.0)
    if guard.silent(now_s):
        return 1, "the guard is silent", values
    silent_s = latency.silent_s(now_ns)
    if min(silent_s, guard.sends_s(now_s)) > UNANSWERED_S:
        return 1, f"no setpoint answers a pose for {silent_s:.1f} s", values
    if median_ms > LATE_MS or most_ms > LATE_99_MS:
        return 1, "setpoints are late", values
    return 0, "running", values


class MonitorNode(QuadsimNode):
    """Watches a flight among virtual obstacles.

    Parameters: ``pose`` and ``setpoint`` (``NAME TYPE`` of the driver's topics), ``world`` (for the
    markers; empty: none), ``others.*``, ``lidar.*``, those of :class:`PoseInput`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("monitor", **kwargs)
        pose = declare_one(self, "pose", "", "the driver's topic of poses: NAME TYPE")
        setpoint = declare_one(self, "setpoint", "", "the driver's topic of setpoints: NAME TYPE")
        world = declare_one(self, "world", "", "a file of worlds, or a path; empty: no markers")
        where = f"node {self.get_fully_qualified_name()}"
        self._latency = Latency()
        for name, text, callback in (
            ("pose", pose, self._latency.asked),
            ("setpoint", setpoint, self._latency.answered),
        ):
            if text:
                self._time(topics.foreign(text, f"{where}: parameter {name}"), callback)
        self._world = self.offer(topics.WORLD_MARKERS)
        if world:
            obstacles = load_world(find_world(world)).obstacles
            self._world.publish(world_markers(obstacles))
        self._markers = self.offer(topics.FLIGHT_MARKERS)
        self._pose = PoseInput(self, self._on_pose)
        self._motion = self._pose.record
        self._scan: tuple[float, PlacedScan] | None = None
        self._scans = ScanInput(self, self._on_scan)
        self._others = Others(self, self._pose.frame)
        self._wishes: dict[str, Any] = {}
        for name, wanted in (("wish", topics.COMMAND_VELOCITY), ("command", topics.COMMAND_SAFE)):
            self._follow(name, wanted)
        self._guard = GuardReport()
        self.listen(topics.DIAGNOSTICS, self._on_report, raw=False)
        self.wall_timer(DRAW_PERIOD_S, self._draw)

    def _time(self, topic: Topic, callback: Any) -> None:
        stamp = stamp_reader(topic.type_name)
        self.listen(topic, lambda payload: callback(stamp(payload), time.monotonic_ns()))

    def _follow(self, name: str, topic: Topic) -> None:
        def take(payload: bytes) -> None:
            v_W, _ = read_velocity_command(payload, self._motion["q_WB"])
            self._wishes[name] = (time.monotonic(), v_W)

        self.listen(topic, take)

    def _on_pose(self, stamp_ns: int) -> None:
        self._scans.poses.take(stamp_ns, self._motion["p_W"], self._motion["q_WB"])

    def _on_scan(self, scan: PlacedScan) -> None:
        self._scan = time.monotonic(), scan

    def _on_report(self, message: Any) -> None:
        """What the guard reports of itself."""
        wanted = f"{self.get_namespace().rstrip('/')}/guard"
        for status in message.status:
            if status.name == wanted:
                self._guard.take(time.monotonic(), status.message, values_of(status))

    def _draw(self) -> None:
        """Publish rays, request, command, others and the guard's words as they are now."""
        p_W = self._motion["p_W"].copy()
        stamp_ns = int(self._motion["stamp_ns"])
        if not stamp_ns or not self._markers.get_subscription_count():
            return
        now_s = time.monotonic()
        markers = [words(p_W, self._guard.words(now_s))]
        if self._scan is not None and now_s - self._scan[0] < LIFETIME_S:
            scan = self._scan[1]
            markers.append(rays(np.array(scan.origin_W), scan.points_W))
        for name, color in (("wish", WISH), ("command", COMMAND)):
            heard_s, v_W = self._wishes.get(name, (-1.0, (0.0, 0.0, 0.0)))
            if now_s - heard_s < LIFETIME_S:
                markers.append(arrow(name, color, p_W, v_W))
        others: list[Marker | None] = [
            solid(k, obstacle, "others", OTHER)
            for k, obstacle in enumerate(self._others.obstacles(stamp_ns))
        ]
        markers += [marker for marker in others if marker is not None]
        self._markers.publish(passing(markers))

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Whether commands are late or missing, and whether the guard is there."""
        now_ns = time.monotonic_ns()
        level, message, values = judge_flight(self._latency, self._guard, now_ns)
        return level, message, {"guard": self._guard.words(now_ns * 1e-9), **values}


make, main = entry_points(MonitorNode)
