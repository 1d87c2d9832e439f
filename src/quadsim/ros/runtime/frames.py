"""Frames of messages at the border: what names another frame is refused, and named."""

from __future__ import annotations

import math
import time
from typing import Any

from quadsim.ros.messages.cdr import MessageError, Reader, brief

#: What frames of other conventions end with, and how they are brought into ours.
_REMEDIES = {
    "ned": "NED to ENU: x<-y, y<-x, z<--z",
    "frd": "FRD to FLU: y<--y, z<--z",
    "ecef": "ECEF to ENU about the datum",
    "enu": "ENU to FLU: turn it into the body",
    "flu": "FLU to ENU: turn it into the world",
}
#: For so long after the last refused message ``/diagnostics`` speaks of it.
RECENT_S = 5.0
#: So many different frames of a topic are named in the log.
NAMED = 5


def remedy(frame: str, expected: str) -> str:
    """What to do about a frame that is not the expected one."""
    convention = frame.lower().replace("/", "_").rpartition("_")[2]
    if convention in _REMEDIES:
        return f"convert before ({_REMEDIES[convention]})"
    return f"publish it as {expected!r}, or say what it is called with the parameter"


class FrameCheck:
    """Compares the frame of each message of a topic with the one that it should have.

    A message that names none is taken at its word: many drivers leave it empty.

    Args:
        node: whose log and counts are used.
        expected: the name, of this vehicle.
    """

    def __init__(self, node: Any, topic: str, parameter: str, expected: str) -> None:
        self.expected = expected
        self._node = node
        self.topic = topic
        self._parameter = parameter
        self._good = b""  # names of the last message that was good
        self._named: set[str] = set()
        self._refused_s = -math.inf  # on the steady clock, when one was last refused

    def check_reader(self, reader: Reader) -> None:
        """Check the message that a reader has read last; 0.1 us while its frame stays the same.

        Raises:
            MessageError: it is in another frame.
        """
        if reader.names is not self._good:
            self.check(reader.frames[0])
            self._good = reader.names

    def check(self, frame: str) -> None:
        """Check a frame.

        Raises:
            MessageError: it is another one.
        """
        if frame in ("", self.expected):
            return
        self._node.count(f"{self.topic} wrong frame")
        self._refused_s = time.monotonic()
        frame = brief(frame)
        words = f"frame {frame!r}, not {self.expected!r}: {remedy(frame, self.expected)}"
        if words.endswith("parameter"):
            words += f" {self._parameter}"
        if frame not in self._named and len(self._named) < NAMED:
            self._named.add(frame)
            self._node.get_logger().error(f"{self.topic}: refused: {words}")
        raise MessageError(words)

    @property
    def recent(self) -> str:
        """The frames that were refused, while that is not long ago; else empty."""
        if time.monotonic() - self._refused_s > RECENT_S:
            return ""
        return f"{self.topic}: {', '.join(sorted(self._named))}"
