"""Which odometry a node flies on: the estimate's or the truth's, switched while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadsim.nodes import topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import MessageError

#: What ``state_source`` says, and the topic it means.
SOURCES = {"estimate": topics.ODOMETRY, "truth": topics.TRUTH}


class OdometrySource:
    """The subscription of the present source; the other one costs nothing.

    Args:
        node: who listens.
        callback: takes the bytes of each odometry.
        reliable: False for a vehicle whose driver publishes best effort.
    """

    def __init__(
        self, node: QuadsimNode, callback: Callable[[bytes], None], reliable: bool = True
    ) -> None:
        self._node = node
        self._callback = callback
        self._reliable = reliable
        self.name = "estimate"
        self._subscription: Any = self._listen()

    def _listen(self) -> Any:
        return self._node.listen(
            SOURCES[self.name], self._callback, needed=True, reliable=self._reliable
        )

    def switch(self, name: str) -> None:
        """Listen to another source.

        Raises:
            MessageError: there is no such source.
        """
        if name not in SOURCES:
            raise MessageError(f"{name!r}; allowed: {', '.join(SOURCES)}")
        if name != self.name:
            self.name = name
            self._node.forget(self._subscription)
            self._subscription = self._listen()
            self._node.get_logger().info(f"flies on {SOURCES[name].name}")
