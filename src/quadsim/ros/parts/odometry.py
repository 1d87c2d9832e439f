"""Which odometry a node flies on: the estimate's or the truth's, switched while it runs."""

from __future__ import annotations

from collections.abc import Callable

from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.intra_process import Listening

#: What ``state_source`` reports, and the topic it means.
SOURCES = {"estimate": topics.ODOMETRY, "truth": topics.TRUTH}


class OdometrySource:
    """The subscription of the present source; the other one costs nothing.

    Args:
        callback: takes the bytes of each odometry.
        reliable: False for a vehicle whose driver publishes best effort.
        seamless: whether the source before is heard until the new one speaks: in lockstep physics
            waits for the answer to what was on the way.
    """

    def __init__(
        self,
        node: QuadsimNode,
        callback: Callable[[bytes], None],
        reliable: bool = True,
        seamless: bool = False,
    ) -> None:
        self._node = node
        self._callback = callback
        self._reliable = reliable
        self._seamless = seamless
        self.name = "estimate"
        self._left: list[Listening] = []
        self._listening = self._listen()

    def _listen(self) -> Listening:
        def hear(payload: bytes) -> None:
            while self._left and listening is self._listening:
                self._node.forget(self._left.pop())
            self._callback(payload)

        listening = self._node.listen(
            SOURCES[self.name], hear, needed=True, reliable=self._reliable
        )
        return listening

    def switch(self, name: str) -> None:
        """Listen to another source.

        Raises:
            MessageError: there is no such source.
        """
        if name not in SOURCES:
            raise MessageError(f"{name!r}; allowed: {', '.join(SOURCES)}")
        if name != self.name:
            self.name = name
            if self._seamless:
                self._left.append(self._listening)
            else:
                self._node.forget(self._listening)
            self._listening = self._listen()
            self._node.get_logger().info(f"flies on {SOURCES[name].name}")
