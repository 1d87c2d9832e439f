"""Other vehicles, real or simulated, by what is published of them: where they are at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.base.records import KINEMATICS
from quadsim.ros.messages.cdr import MessageError, stamp_of
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.parts.truth_input import PoseReader
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.frames import FrameCheck
from quadsim.ros.runtime.params import declare, declare_texts
from quadsim.world.scene.obstacles import Cylinder, Obstacle, Pose

#: A velocity out of poses is taken over so long at least, ns.
BASELINE_NS = 50_000_000
#: A stamp that is so much earlier than the last one begins anew: one of them was wrong.
ANEW_NS = 1_000_000_000


@dataclass(frozen=True)
class OthersParams:
    """What other vehicles are like, and for how long they are believed to fly on."""

    radius_m: Annotated[
        tuple[float, ...],
        Spec("about their vertical axes: one for all, or one each", "m", gt=0.0, le=100.0),
    ] = (0.4,)
    height_m: Annotated[
        tuple[float, ...], Spec("about their poses, likewise", "m", gt=0.0, le=100.0)
    ] = (0.4,)
    flies_on_s: Annotated[
        float, Spec("with its last velocity, when nothing is heard; then it stands", "s", ge=0.0)
    ] = 0.5


class VehicleTrack:
    """One other vehicle: its last position and velocity in W.

    Attributes:
        stamp_ns: of them; 0: nothing has been heard.
        came_ns: when that was heard, by its listener's clock.
    """

    def __init__(self) -> None:
        self.stamp_ns = self.came_ns = 0
        self.p_W: NDArray[np.float64] = np.zeros(3)
        self.v_W: NDArray[np.float64] = np.zeros(3)
        self._base: tuple[int, NDArray[np.float64]] | None = None

    def take(self, stamp_ns: int, p_W: Any, v_W: Any | None, came_ns: int = 0) -> None:
        """Take where it is; its velocity comes out of positions where none is given.

        Raises:
            MessageError: this is not newer.
        """
        if stamp_ns <= self.stamp_ns:
            if self.stamp_ns - stamp_ns < ANEW_NS:
                raise MessageError("repeats or jumps back in time")
            self.forget()
        self.stamp_ns, self.came_ns, self.p_W = stamp_ns, came_ns, np.array(p_W)
        if v_W is not None:
            self.v_W = np.array(v_W)
            return
        if self._base is None:
            self._base = (stamp_ns, self.p_W)
        base_ns, base_W = self._base
        if stamp_ns - base_ns >= BASELINE_NS:
            self.v_W = (self.p_W - base_W) / ((stamp_ns - base_ns) * 1e-9)
            self._base = (stamp_ns, self.p_W)

    def forget(self) -> None:
        """As if nothing had been heard."""
        self.stamp_ns = self.came_ns = 0
        self.v_W, self._base = np.zeros(3), None

    def at(
        self, stamp_ns: int, flies_on_s: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where it is at a time, and its velocity: it flies on for a while, and then stands."""
        age_s = (stamp_ns - self.stamp_ns) * 1e-9
        ahead_s = min(max(age_s, -flies_on_s), flies_on_s)
        v_W = self.v_W if age_s <= flies_on_s else np.zeros(3)
        return self.p_W + ahead_s * self.v_W, v_W


class Others:
    """The other vehicles that a node knows of.

    Parameters: ``others.odometry`` and ``others.pose``, topics of type Odometry and PoseStamped,
    one for each vehicle; ``others.*`` of :class:`OthersParams`.

    Args:
        node: who listens.
        frame: in which poses must be, as of :class:`FrameCheck`.
        now_ns: the clock by which they fall silent.
    """

    def __init__(
        self,
        node: QuadsimNode,
        frame: str = "map",
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.params = declare(node, OthersParams(), "others.")
        self._now_ns = now_ns
        self.tracks: dict[str, VehicleTrack] = {}
        for name in declare_texts(node, "others.odometry", "topics (Odometry) of other vehicles"):
            self._follow(node, topics.TRUTH, name, frame)
        for name in declare_texts(node, "others.pose", "topics (PoseStamped) of other vehicles"):
            self._follow(node, topics.EXTERNAL_POSE_STAMPED, name, frame)
        count = len(self.tracks)
        sizes = [
            self._each(node, "radius_m", self.params.radius_m, count),
            self._each(node, "height_m", self.params.height_m, count),
        ]
        self._shapes = [
            Cylinder(radius_m, height_m) for radius_m, height_m in zip(*sizes, strict=True)
        ]

    def _each(
        self, node: QuadsimNode, key: str, given: tuple[float, ...], count: int
    ) -> tuple[float, ...]:
        """A number for each of the vehicles."""
        if len(given) not in (1, count):
            raise InputError(
                f"node {node.get_fully_qualified_name()}: parameter others.{key}: {len(given)}"
                f" numbers; allowed: 1, or one for each of {count} vehicles"
            )
        return given * count if len(given) == 1 else given

    def _follow(self, node: QuadsimNode, topic: topics.Topic, name: str, frame: str) -> None:
        record = new_record(KINEMATICS)
        odometry = topic is topics.TRUTH
        reader = OdometryReader(record) if odometry else PoseReader(record)
        track = self.tracks.setdefault(name, VehicleTrack())
        check = FrameCheck(node, name, "frames.pose", frame)

        def take(payload: bytes) -> None:
            reader.read(payload)
            check.check(reader.frames[0])
            v_W = record["v_W"] if odometry else None
            track.take(stamp_of(payload), record["p_W"], v_W, self._now_ns())

        node.listen(topic, take, name, reliable=False)

    def forget(self) -> None:
        """As if nothing had been heard."""
        for track in self.tracks.values():
            track.forget()

    def missing(self, now_ns: int, stamp_ns: int, within_s: float) -> str:
        """In words, which of them are silent or stamped by another clock; empty: none is.

        Args:
            now_ns: by the clock of this object.
            stamp_ns: of the listener's own pose, by the clock of stamps.
            within_s: longest silence, and largest difference of stamps.
        """
        words = []
        for name, track in self.tracks.items():
            silent_s, ahead_s = (now_ns - track.came_ns) * 1e-9, (track.stamp_ns - stamp_ns) * 1e-9
            if not track.stamp_ns:
                words.append(f"{name} not heard")
            elif silent_s > within_s:
                words.append(f"{name} not heard for {silent_s:.2f} s")
            elif abs(ahead_s) > within_s:
                side = "ahead of" if ahead_s > 0.0 else "behind"
                words.append(
                    f"{name}: its clock is {abs(ahead_s):.2f} s {side} that of our pose; give both"
                    " one time"
                )
        return ", ".join(words)

    def at(self, stamp_ns: int) -> list[tuple[NDArray[np.float64], NDArray[np.float64], Cylinder]]:
        """Position and velocity in W and shape of each that has been heard of, at a time."""
        flies_on_s = self.params.flies_on_s
        return [
            (*track.at(stamp_ns, flies_on_s), shape)
            for track, shape in zip(self.tracks.values(), self._shapes, strict=True)
            if track.stamp_ns
        ]

    def obstacles(self, stamp_ns: int) -> list[Obstacle]:
        """Each as an upright cylinder where it is at a time."""
        return [
            Obstacle("vehicle", shape, Pose((float(p[0]), float(p[1]), float(p[2]))))
            for p, _, shape in self.at(stamp_ns)
        ]
