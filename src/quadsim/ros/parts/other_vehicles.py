"""Other vehicles, real or simulated, by what is published of them: where they are at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.base.records import KINEMATICS
from quadsim.ros.messages.cdr import refuse, stamp_of
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.parts.truth_input import PoseReader
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.frames import FrameCheck
from quadsim.ros.runtime.params import declare, declare_texts
from quadsim.world.scene.movers import MovingShape
from quadsim.world.scene.obstacles import Obstacle
from quadsim.world.scene.vehicle_track import FLIES_ON_S, VehicleTrack

T = TypeVar("T")


@dataclass(frozen=True)
class OthersParams:
    """What other vehicles are like, and for how long they are assumed to fly on."""

    radius_m: Annotated[
        tuple[float, ...],
        Spec("about their vertical axes: one for all, or one each", "m", gt=0.0, le=100.0),
    ] = (0.4,)
    height_m: Annotated[
        tuple[float, ...], Spec("about their poses, likewise", "m", gt=0.0, le=100.0)
    ] = (0.4,)
    flies_on_s: Annotated[
        float, Spec("with its last velocity, when nothing is heard; then it stands", "s", ge=0.0)
    ] = FLIES_ON_S


class Others:
    """The other vehicles that a node knows of.

    Parameters: ``others.odometry`` and ``others.pose``, topics of type Odometry and PoseStamped,
    one for each vehicle; ``others.frame``, the frames that these name; ``others.*`` of
    :class:`OthersParams`.

    Args:
        frame: in which poses must be where nothing else is stated, as of :class:`FrameCheck`.
        now_ns: the clock by which they fall silent.
    """

    def __init__(
        self, node: QuadsimNode, frame: str = "map", now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.params = declare(node, OthersParams(), "others.")
        self._now_ns = now_ns
        self.tracks: dict[str, VehicleTrack] = {}
        kinds = (
            (topics.TRUTH, "odometry", "Odometry"),
            (topics.EXTERNAL_POSE_STAMPED, "pose", "PoseStamped"),
        )
        followed = [
            (topic, name)
            for topic, key, kind in kinds
            for name in declare_texts(node, f"others.{key}", f"topics ({kind}) of other vehicles")
        ]
        count, words = len(followed), "that their poses name: one for all, or each; none: as ours"
        frames = declare_texts(node, "others.frame", words) or [frame]
        frames = self._each(node, "frame", frames, count)
        for (topic, name), named in zip(followed, frames, strict=True):
            self._follow(node, topic, name, named)
        radii_m = self._each(node, "radius_m", self.params.radius_m, count)
        heights_m = self._each(node, "height_m", self.params.height_m, count)
        self._sizes_m = list(zip(radii_m, heights_m, strict=True))

    def _each(self, node: QuadsimNode, key: str, given: Sequence[T], count: int) -> list[T]:
        """A value for each of the vehicles."""
        if len(given) not in (1, count):
            raise InputError(
                f"node {node.get_fully_qualified_name()}: parameter others.{key}: {len(given)}"
                f" values; allowed: 1, or one for each of {count} vehicles"
            )
        return list(given) * count if len(given) == 1 else list(given)

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
            refuse(track.take(stamp_of(payload), record["p_W"], v_W, self._now_ns()))

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

    def at(self, stamp_ns: int, within_s: float = math.inf) -> list[MovingShape]:
        """Where each that has been heard of is at a time.

        Args:
            stamp_ns: the time.
            within_s: of one that was heard of longer ago or after it, no more is known.
        """
        return [
            track.shape(stamp_ns, size_m, self.params.flies_on_s)
            for track, size_m in zip(self.tracks.values(), self._sizes_m, strict=True)
            if track.stamp_ns and abs(stamp_ns - track.stamp_ns) * 1e-9 <= within_s
        ]

    def obstacles(self, stamp_ns: int) -> list[Obstacle]:
        """Each as an upright cylinder where it is at a time."""
        return [shape.body for shape in self.at(stamp_ns)]
