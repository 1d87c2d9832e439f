"""Node ``supervisor``: what whoever started a graph hears of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rclpy.context import Context
from rclpy.node import Node
from std_srvs.srv import SetBool

from quadsim.ros.messages.cdr import MessageError, stamp_ns_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import values_of
from quadsim.ros.runtime.topics import Topic, full_name
from quadsim.sim.log import CRASH_REST_NS


@dataclass
class Report:
    """The last report of a node: how many came, when it did, its message and values."""

    count: int = 0
    heard_s: float = 0.0  # of the steady clock
    message: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def number(self, key: str) -> float | None:
        """A value as a number; None if it is not there."""
        try:
            return float(self.values[key])
        except (KeyError, ValueError):
            return None


class Watcher(Node):
    """Listens to the reports of all nodes, the clock and the missions."""

    def __init__(self, context: Context, namespaces: Sequence[str]) -> None:
        super().__init__(
            "supervisor", context=context, use_global_arguments=False, enable_rosout=False
        )
        self.reports: dict[str, Report] = {}
        self.time_ns = 0
        self.clock_heard = False
        self.clock_disturbed = False
        self.missions: dict[str, dict[str, str]] = {}
        self.crashes_ns: dict[str, int] = {}
        self.hear(topics.DIAGNOSTICS, self._on_reports)
        self.hear(topics.CLOCK, self._on_clock)
        for name in namespaces:
            self.hear(topics.MISSION_STATUS, partial(self._on_mission, name), name)
            self.hear(topics.EVENTS, partial(self._on_event, name), name)
        self.pause_client = self.create_client(SetBool, "/sim/pause")

    def hear(self, topic: Topic, callback: Callable[[Any], None], namespace: str = "/") -> None:
        """Subscribe to a topic of a vehicle, or of the world."""
        name = full_name(namespace, topic.name)
        self.create_subscription(topic.message, name, callback, topic.wanted)

    def _on_reports(self, message: Any) -> None:
        for status in message.status:
            report = self.reports.setdefault(status.name, Report())
            report.count, report.heard_s = report.count + 1, time.monotonic()
            report.message = status.message
            report.values = values_of(status)

    def _on_clock(self, message: Any) -> None:
        try:
            time_ns = stamp_ns_of(message.clock)
        except MessageError:  # no simulation has such a time
            self.clock_disturbed = True
            return
        # one publisher's time only grows
        self.clock_disturbed |= self.clock_heard and time_ns <= self.time_ns
        self.clock_heard = True
        self.time_ns = time_ns

    def _on_mission(self, namespace: str, message: Any) -> None:
        self.missions[namespace] = values_of(message)

    def _on_event(self, namespace: str, message: Any) -> None:
        if message.name == "crash":
            self.crashes_ns.setdefault(namespace, self.time_ns)

    def report(self, full_node_name: str) -> Report:
        """Last report of a node."""
        return self.reports.get(full_node_name, Report())

    def complete(self, full_node_name: str) -> bool:
        """Whether a node has stated that all it needs is there."""
        return self.report(full_node_name).values.get("complete") == "true"

    def finished(self, namespace: str) -> bool:
        """Whether a vehicle has flown and stopped its motors."""
        return self.missions.get(namespace, {}).get("finished") == "true"

    def over(self, namespace: str) -> bool:
        """Whether a vehicle has flown, or has crashed a while ago."""
        crash_ns = self.crashes_ns.get(namespace)
        crashed = crash_ns is not None and self.time_ns >= crash_ns + CRASH_REST_NS
        return self.finished(namespace) or crashed
