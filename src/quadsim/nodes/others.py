"""Other vehicles, real or simulated, by what is published of them: where they are at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import new_record
from quadsim.errors import InputError
from quadsim.nodes import topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import MessageError, Reader, stamp_of
from quadsim.nodes.conversion import OdometryReader, finite, unit_quaternion
from quadsim.nodes.frames import FrameCheck
from quadsim.nodes.params import declare, declare_texts
from quadsim.parameters import Spec
from quadsim.records import KINEMATICS
from quadsim.world.obstacles import Cylinder, Obstacle, Pose

#: A velocity out of poses is taken over so long at least, ns.
BASELINE_NS = 50_000_000


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


class PoseReader:
    """PoseStamped messages into one record; what a pose does not say stays zero.

    Args:
        record: KINEMATICS record that each message is read into.
    """

    def __init__(self, record: Any) -> None:
        self._record = record
        self._reader = Reader(topics.EXTERNAL_POSE_STAMPED.type_name)

    @property
    def frames(self) -> list[str]:
        """Name of the frame of the last message."""
        return self._reader.frames

    def read(self, payload: bytes) -> None:
        """Read one message.

        Raises:
            MessageError: no pose, or a number is missing; the record is as it was.
        """
        view = self._reader.read(payload)
        p_W, q_WB = finite(view["p"], "position"), unit_quaternion(view["q_xyzw"])
        self._record["p_W"][:] = p_W
        self._record["q_WB"][:] = q_WB
        self._record["stamp_ns"] = stamp_of(payload)


class Track:
    """One other vehicle: its last position and velocity in W."""

    def __init__(self) -> None:
        self.stamp_ns = 0
        self.p_W: NDArray[np.float64] = np.zeros(3)
        self.v_W: NDArray[np.float64] = np.zeros(3)
        self._base: tuple[int, NDArray[np.float64]] | None = None

    def take(self, stamp_ns: int, p_W: Any, v_W: Any | None) -> None:
        """Take where it is; its velocity comes out of positions where none is given.

        Raises:
            MessageError: this is not newer.
        """
        if stamp_ns <= self.stamp_ns:
            raise MessageError("repeats or jumps back in time")
        self.stamp_ns, self.p_W = stamp_ns, np.array(p_W)
        if v_W is not None:
            self.v_W = np.array(v_W)
            return
        if self._base is None:
            self._base = (stamp_ns, self.p_W)
        base_ns, base_W = self._base
        if stamp_ns - base_ns >= BASELINE_NS:
            self.v_W = (self.p_W - base_W) / ((stamp_ns - base_ns) * 1e-9)
            self._base = (stamp_ns, self.p_W)

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
    """

    def __init__(self, node: QuadsimNode, frame: str = "map") -> None:
        self.params = declare(node, OthersParams(), "others.")
        self.tracks: dict[str, Track] = {}
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
        track = self.tracks.setdefault(name, Track())
        check = FrameCheck(node, name, "frames.pose", frame)

        def take(payload: bytes) -> None:
            reader.read(payload)
            check.check(reader.frames[0])
            track.take(stamp_of(payload), record["p_W"], record["v_W"] if odometry else None)

        node.listen(topic, take, name, reliable=False)

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
