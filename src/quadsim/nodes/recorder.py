"""Node ``recorder``: every topic of the graph, raw, into a bag (MCAP).

A message's log time is the newest simulated time that the recorder has seen (``/clock`` or the
truth's stamp), so that a bag replays in the order in which things were heard, a sensor's latency
included, however slow the machine was. Without a simulation it is the system's time.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.context import Context
from rclpy.serialization import deserialize_message

from quadsim import __version__
from quadsim.analysis.bag.metadata import FIELD
from quadsim.analysis.bag.writer import BagWriter
from quadsim.nodes import qos, topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import stamp_of
from quadsim.nodes.estimator_params import BESIDE
from quadsim.nodes.params import declare_int, declare_text
from quadsim.nodes.runtime import main_of
from quadsim.nodes.topics import Topic
from quadsim.nodes.vehicles import namespaces
from quadsim.nodes.world_messages import stamp_ns_of

FLUSH_PERIOD_S = 0.25


class RecorderNode(QuadsimNode):
    """Writes what it hears; closes the bag when it is destroyed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("recorder", **kwargs)
        output = declare_text(self, "output", "", "folder of the bag; it must not exist")
        scenario = declare_text(self, "scenario", "", "kept in the bag")
        seed = declare_int(self, "seed", 0, "kept in the bag", 0)
        count = declare_int(self, "count", 1, "vehicles", 1)
        field_W_T = declare_text(
            self, FIELD, "", "magnetic field, east, north, up in T; kept in the bag, for replays"
        )
        running = declare_text(
            self, "nodes", "", "executables whose topics must be there before all is complete"
        ).split()
        folder = Path(output or f"bag-{time.strftime('%Y%m%d-%H%M%S')}")
        custom = {"scenario": scenario, "seed": str(seed), "quadsim": __version__}
        if field_W_T:
            custom[FIELD] = field_W_T
        self._bag = BagWriter(folder, custom)
        self._time_ns = 0
        self._simulated = "dynamics" in running  # what is latched is heard before the clock
        for name, topic in topics.every_topic(namespaces(count)):
            self._record(name, topic, needed=bool(set(topic.publishers) & set(running)))
        for namespace in namespaces(count):
            for estimator in BESIDE:
                topic = topics.beside_odometry(estimator)
                self._record(topics.full_name(namespace, topic.name), topic, needed=False)
        self.wall_timer(FLUSH_PERIOD_S, self._bag.flush_when_due)

    def _record(self, name: str, topic: Topic, needed: bool) -> None:
        """Subscribe to one topic, reliable where it is offered so."""
        callback: Any = self._write
        if topic is topics.CLOCK:
            callback = self._write_clock
        elif topic is topics.TRUTH:
            callback = self._write_truth
        offered = qos.as_yaml(topic.offered)
        self._bag.add_topic(name, topic.type_name, offered)
        self.create_subscription(
            topic.message,
            name,
            partial(callback, name, topic.type_name, offered),
            topic.offered,
            raw=True,
            event_callbacks=self.subscription_events(name),
        )
        if needed:
            self.need(partial(self.count_publishers, name))

    def _write(self, name: str, type_name: str, offered: str, payload: bytes) -> None:
        stamp_ns = self._time_ns if self._simulated else time.time_ns()
        self._bag.add(name, type_name, offered, stamp_ns, payload)

    def _advance(self, stamp_ns: int) -> None:
        self._simulated = True
        self._time_ns = max(self._time_ns, stamp_ns)

    def _write_clock(self, name: str, type_name: str, offered: str, payload: bytes) -> None:
        self._advance(stamp_ns_of(deserialize_message(payload, topics.CLOCK.message).clock))
        self._write(name, type_name, offered, payload)

    def _write_truth(self, name: str, type_name: str, offered: str, payload: bytes) -> None:
        self._advance(stamp_of(payload))
        self._write(name, type_name, offered, payload)

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Messages written so far."""
        return 0, "recording", {"messages": sum(self._bag.counts.values())}

    def destroy_node(self) -> None:
        """Close the bag; the node is gone afterwards."""
        self._bag.close()
        super().destroy_node()


def make(context: Context, **kwargs: Any) -> RecorderNode:
    """Make the node in a context."""
    return RecorderNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
