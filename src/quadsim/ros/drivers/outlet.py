"""A driver's topic that something goes out to, who else is there, and what a device lends it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from quadsim.base.errors import InputError
from quadsim.drivers.driver import Driver
from quadsim.drivers.loans import LENT, DriverLoan, lent_as
from quadsim.drivers.outward import DriverCommand, DriverRelay
from quadsim.ros.drivers.services import set_fields
from quadsim.ros.messages.cdr import Reader, stamp_of
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.packages import is_installed, lost
from quadsim.ros.runtime.topics import full_name, message_class

Said = TypeVar("Said", DriverCommand, DriverRelay, DriverLoan)


class Outlet(Generic[Said]):
    """One of the driver's topics that a command or a pose goes to.

    Args:
        entry: of the driver file.

    Attributes:
        message: what is sent.
    """

    def __init__(self, node: QuadsimNode, entry: Said, name: str) -> None:
        self._node, self._asked = node, name
        self.entry: Said = entry
        self.message = message_class(entry.type)()
        self._open(name)

    def _open(self, name: str) -> None:
        stated, node = self.entry, self._node
        self.name = name
        self._publisher = node.create_publisher(
            message_class(stated.type),
            name,
            qos.profile(
                stated.depth,
                stated.reliability == "reliable",
                stated.durability == "transient_local",
            ),
            event_callbacks=node.publisher_events(name),
        )

    def publish(self) -> None:
        """Send the message."""
        self._publisher.publish(self.message)

    def look(self) -> str:
        """What is wrong with who listens and who else publishes; empty: nothing."""
        node, own = self._node, self._node.get_fully_qualified_name()
        if not node.count_subscribers(self.name):
            self._follow()
        if not node.count_subscribers(self.name):
            return f"nobody listens to {self.name}: is the driver running, in this version?"
        others = [name for name in publishers_of(node, self.name) if name != own]
        if others:
            return f"{self.name} is published by {', '.join(others)} too; allowed: this node alone"
        return ""

    def _follow(self) -> None:
        """Publish where somebody listens, if that is another version of the topic.

        PX4 appends ``_vN`` to the names of messages whose MESSAGE_VERSION is N > 0.
        """
        if not self.entry.versioned:
            return
        version = re.compile(rf"{re.escape(self._asked)}(_v\d+)?")
        for name, types in self._node.get_topic_names_and_types():
            if (
                version.fullmatch(name)
                and self.entry.type in types
                and self._node.count_subscribers(name)
            ):
                self._node.destroy_publisher(self._publisher)
                self._open(name)
                self._node.get_logger().info(f"{name} is where commands go")
                return


def publishers_of(node: QuadsimNode, name: str) -> list[str]:
    """Full names of the nodes that publish a topic, one for each publisher."""
    return [
        full_name(info.node_namespace, info.node_name)
        for info in node.get_publishers_info_by_topic(name)
    ]


class Lender:
    """Sends each message of one of our topics to the first driver that takes it.

    Args:
        ours: a key of :data:`quadsim.drivers.loans.LENT`.
        full: full name of a driver's topic.

    Attributes:
        sent: how many went out.

    Raises:
        InputError: no driver takes it here.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        ours: str,
        full: Callable[[Driver, str], str],
    ) -> None:
        takers = [(d, loan) for d in drivers for loan in d.loans if loan.ours == ours]
        usable = [(driver, loan) for driver, loan in takers if is_installed(loan.type)]
        if not usable:
            why = "; ".join(lost([(ours, loan.type) for _, loan in takers]))
            raise InputError(
                f"lend: {ours}: {why or 'no driver file of the chain has it in loans'}"
            )
        driver, self._said = usable[0]
        self._outlet = Outlet(node, self._said, full(driver, self._said.name))
        self._reader, self.ours, self.sent = Reader(LENT[ours]), ours, 0
        node.listen(topics.SENSORS[ours], self._take)

    def _take(self, payload: bytes) -> None:
        numbers, now_ns = self._reader.read(payload), time.time_ns()
        set_fields(
            self._outlet.message, lent_as(self._said, numbers, stamp_of(payload) or now_ns, now_ns)
        )
        self._outlet.publish()
        self.sent += 1

    def look(self) -> str:
        """What is wrong with who listens and who else publishes; empty: nothing."""
        return self._outlet.look()
