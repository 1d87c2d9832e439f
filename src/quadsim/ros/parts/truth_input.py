"""The truth as the nodes of simulated sensors take it: what belongs to one stamp, in one record."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from quadsim.base.records import MAX_ROTORS
from quadsim.ros.messages.cdr import MessageError, Reader, stamp_of, xyz
from quadsim.ros.messages.conversion import OdometryReader, finite, read_accel, unit_quaternion
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.frames import FrameCheck
from quadsim.ros.runtime.params import declare_one


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


#: What a vehicle's pose can come as: the topic that is listened to, and what reads it.
POSES: dict[str, tuple[topics.Topic, Any]] = {
    "odometry": (topics.TRUTH, OdometryReader),
    "pose": (topics.EXTERNAL_POSE_STAMPED, PoseReader),
}


def declare_pose_frame(node: QuadsimNode) -> str:
    """Declare the parameter ``frames.pose``; its value."""
    return declare_one(node, "frames.pose", "map", "of the vehicle's pose, and of others'")


#: Takes the stamp of a truth, and what reads it into the record.
Use = Callable[[int, Callable[[], None]], None]


class TruthInput:
    """Subscriptions to the truth, and to what else of it a sensor feels.

    Acceleration and pose of one stamp are taken together, whichever comes first; of motors and wind
    the newest message counts.

    Args:
        needs: which of "accel", "motors" and "wind" the sensor feels.
        use: called with each stamp as it is complete.
        reliable: False takes a best-effort odometry too, as real vehicles have.
        pose_type: a key of :data:`POSES`; a pose has no velocity, which rays do not feel.
        frame: that messages must name, if any; empty: it is not looked at.
    """

    def __init__(
        self,
        node: QuadsimNode,
        record: Any,
        needs: Collection[str],
        use: Use,
        reliable: bool = True,
        pose_type: str = "odometry",
        frame: str = "",
    ) -> None:
        topic, reader = POSES[pose_type]
        self._record = record
        self._use = use
        self._reader = reader(record)
        self._check = FrameCheck(node, topic.name, "frames.pose", frame) if frame else None
        self._accel_reader = Reader(topics.ACCEL.type_name)
        self._pair = "accel" in needs
        self._truth: bytes | None = None
        self._accel: bytes | None = None
        node.listen(topic, self._on_truth, needed=True, reliable=reliable)
        if self._pair:
            node.listen(topics.ACCEL, self._on_accel, needed=True)
        if "motors" in needs:
            node.listen(topics.MOTOR_SPEED, self._on_motors, raw=False, needed=True)
        if "wind" in needs:
            node.listen(topics.WIND, self._on_wind, raw=False, needed=True)

    def _on_truth(self, payload: bytes) -> None:
        self._truth = payload
        if self._pair:
            self._use_pair()
        else:
            self._use(stamp_of(payload), self._read)

    def _on_accel(self, payload: bytes) -> None:
        self._accel = payload
        self._use_pair()

    def _use_pair(self) -> None:
        """Go on when truth and acceleration of one stamp are there."""
        truth, accel = self._truth, self._accel
        if truth is not None and accel is not None and stamp_of(truth) == stamp_of(accel):
            self._use(stamp_of(truth), self._read)
            self._truth = self._accel = None

    def _read(self) -> None:
        """Read what is complete into the record."""
        assert self._truth is not None
        self._reader.read(self._truth)
        if self._check is not None:
            self._check.check(self._reader.frames[0])
        if self._accel is not None:
            read_accel(self._accel_reader.read(self._accel), self._record)

    def _on_motors(self, message: Any) -> None:
        if len(message.velocity) > MAX_ROTORS:
            raise MessageError(f"{len(message.velocity)} rotors; at most {MAX_ROTORS}")
        current_A = sum(message.effort)
        if not all(map(math.isfinite, (*message.velocity, current_A))):
            raise MessageError("a rotor's speed or current is not finite")
        self._record.rotor_speed_radps[: len(message.velocity)] = message.velocity
        self._record.motor_current_A = current_A

    def _on_wind(self, message: Any) -> None:
        wind_W = xyz(message.vector)
        if not all(map(math.isfinite, wind_W)):
            raise MessageError("the wind is not finite")
        self._record.wind_W[:] = wind_W
