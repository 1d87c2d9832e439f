"""A vehicle's pose as guard and planner take it: an odometry, or a pose of motion capture."""

from __future__ import annotations

from collections.abc import Callable

from quadsim.base.compiled import new_record
from quadsim.base.records import KINEMATICS
from quadsim.ros.messages.cdr import MessageError, stamp_of
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.parts.truth_input import POSES, declare_pose_frame
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.frames import FrameCheck
from quadsim.ros.runtime.params import declare_one
from quadsim.ros.runtime.reset_times import Ahead

#: A stamp that is older by more is that of a clock which was set back, ns.
BACK_NS = 1_000_000_000
#: What the pose can come as: the topic that is listened to, and what reads it.
FORMS = POSES | {"odometry": (topics.ODOMETRY, OdometryReader)}


class PoseInput:
    """The subscription to the vehicle's pose, best effort or not.

    A pose whose stamp does not rise is refused; one that is more than :data:`BACK_NS` older is not.
    One far ahead of the last is refused until the next confirms it.

    Parameters: ``pose_type``, ``frames.pose``.

    Args:
        use: called with each stamp in ns; ``record`` holds the pose then.

    Attributes:
        record: KINEMATICS record of the last pose in this frame; a pose leaves its velocities zero.
        has_velocity: whether the velocity is reported.
        frame: that poses must name.
        topic, listening: where it comes from.
    """

    def __init__(self, node: QuadsimNode, use: Callable[[int], None]) -> None:
        words = "where the vehicle is: odometry (odometry/filtered), pose (external/pose_stamped)"
        form = declare_one(node, "pose_type", "odometry", words, choices=tuple(FORMS))
        self.frame = declare_pose_frame(node)
        self.has_velocity = form == "odometry"
        self.record = new_record(KINEMATICS)
        topic, reader = FORMS[form]
        self._read = new_record(KINEMATICS)
        self._reader = reader(self._read)
        self._use = use
        self._last_ns: int | None = None
        self._ahead = Ahead()
        self._check = FrameCheck(node, topic.name, "frames.pose", self.frame)
        self.topic = topic.name
        self.listening = node.listen(
            topic, self._take, needed=True, reliable=False, note_publishers=True
        )

    def _take(self, payload: bytes) -> None:
        self._reader.read(payload)
        self._check.check(self._reader.frames[0])
        stamp_ns, last_ns = stamp_of(payload), self._last_ns
        self._ahead.check(stamp_ns, last_ns or 0)
        if last_ns is not None and last_ns - BACK_NS <= stamp_ns <= last_ns:
            raise MessageError("repeats or jumps back in time")
        for name in ("stamp_ns", "p_W", "q_WB", "v_W", "w_B"):
            self.record[name] = self._read[name]
        self._use(stamp_ns)
        self._last_ns = stamp_ns  # not before: one that is refused is no step in time
