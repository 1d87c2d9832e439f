"""Who listens to a swarm from outside: its clock, its slips and the IMUs of some vehicles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from rclpy.context import Context
from rclpy.node import Node
from std_srvs.srv import SetBool

from quadsim.base.errors import FlightError
from quadsim.ros.messages.cdr import stamp_ns_of, stamp_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import own_node
from quadsim.ros.runtime.topics import full_name

#: The longest time without a look at who is listened to, s.
TURN_S = 0.05


class SwarmListener:
    """Counts the samples of some IMUs, and reads the clock.

    Attributes:
        clock_ns: simulated time, as heard last.
        slips: of the node, which it counts where it falls behind the wall clock.
        stamps_ns: by vehicle, the stamps of the samples that were heard.

    Args:
        domain: of DDS.
        names: of the vehicles that are listened to.
    """

    def __init__(self, domain: int, names: Sequence[str]) -> None:
        self._open = ExitStack()
        self._node, self._spin = self._open.enter_context(own_node(_make, domain))
        self.clock_ns = self.slips = 0
        self.stamps_ns: dict[str, list[int]] = {name: [] for name in names}
        listen = self._node.create_subscription
        clock, reports, imu = topics.CLOCK, topics.DIAGNOSTICS, topics.IMU_RAW
        listen(clock.message, clock.name, self._on_clock, clock.wanted)
        listen(reports.message, reports.name, self._on_reports, reports.wanted)
        for name in names:
            hear = partial(self._on_sample, self.stamps_ns[name])
            listen(imu.message, full_name(name, imu.name), hear, imu.offered, raw=True)
        self._pause = self._node.create_client(SetBool, "/sim/pause")

    def _on_clock(self, message: Any) -> None:
        self.clock_ns = stamp_ns_of(message.clock)

    def _on_reports(self, message: Any) -> None:
        for status in message.status:
            if status.name == "/swarm":
                values = {pair.key: pair.value for pair in status.values}
                self.slips = int(values["slips"])

    def _on_sample(self, stamps_ns: list[int], payload: bytes) -> None:
        stamps_ns.append(stamp_of(payload))

    def until(
        self, condition: Callable[[], object], within_s: float, alive: Callable[[], None]
    ) -> None:
        """Turn until a condition holds.

        Args:
            condition: asked after each turn.
            within_s: wall time that it has.
            alive: asked too; it raises what there is to say of a swarm that has ended.

        Raises:
            FlightError: it did not hold in time.
        """
        deadline_s = time.monotonic() + within_s
        while not condition():
            self._spin(TURN_S)
            alive()
            if time.monotonic() > deadline_s:
                raise FlightError(f"node swarm: nothing heard for {within_s:g} s")

    def run(self, within_s: float, alive: Callable[[], None]) -> None:
        """Let simulated time run, once the node is there and everybody is heard.

        Args:
            within_s: wall time for each of the three steps.
            alive: as of :meth:`until`.

        Raises:
            FlightError: the node is not there in time.
        """
        names = [full_name(name, topics.IMU_RAW.name) for name in self.stamps_ns]
        self.until(self._pause.service_is_ready, within_s, alive)
        self.until(lambda: all(map(self._node.count_publishers, names)), within_s, alive)
        future = self._pause.call_async(SetBool.Request(data=False))
        self.until(lambda: future.done() or self.clock_ns > 0, within_s, alive)

    def close(self) -> None:
        """Stop."""
        self._open.close()


def _make(context: Context) -> Node:
    return Node("swarm_listener", context=context, enable_rosout=False)
