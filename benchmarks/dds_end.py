"""One host of dds_hosts.py: publishes for a swarm, or hears one. It obeys lines of JSON.

``python dds_end.py '{"role": "fleet", ...}'``: fields of :class:`Spec`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import rclpy
from rclpy.context import Context
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node

from quadsim.ros.messages.cdr import stamp_of
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.runtime import make_executor
from quadsim.ros.runtime.topics import Topic
from quadsim.wire.decode import LAYOUTS
from quadsim.wire.encode import Template

#: The node ``swarm`` publishes at its ticks what came since the last.
TICK_HZ = 50
#: Topic and how many messages of it a tick gives.
TOPICS: dict[str, tuple[Topic, int]] = {
    "imu": (topics.IMU_RAW, 4),
    "odometry": (topics.ODOMETRY, 1),
    "truth": (topics.TRUTH, 1),
}
#: Topics of a full graph that are announced, though nothing is sent on them here.
SILENT = tuple(
    topic for topic in topics.VEHICLE_TOPICS if topic not in [topic for topic, _ in TOPICS.values()]
)
#: Quiet is what stays so for longer than Fast DDS's heartbeat, after which repairs may come.
MATCH_LIMIT_S, QUIET_S, QUIET_LIMIT_S = 60.0, 3.5, 20.0
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Spec:
    """What an end is to do.

    Attributes:
        role: ``fleet`` publishes, ``listener`` subscribes.
        domain: of DDS.
        vehicles: how many.
        topics: of each, keys of :data:`TOPICS`.
        silent: how many of :data:`SILENT` beside.
        participants: of DDS, among which the vehicles are shared.
        share: of the vehicles that a listener hears: ``[k, n]``, every n-th from k on.
        staggered: vehicles publish one after the other in a period, not all at its beginning.
        best_effort: listeners ask for no repair of what is lost.
    """

    role: str
    domain: int
    vehicles: int
    topics: list[str]
    silent: int = 0
    participants: int = 1
    share: list[int] = field(default_factory=lambda: [0, 1])
    staggered: bool = False
    best_effort: bool = False


def network() -> dict[str, int]:
    """Counters of this namespace: of the link, and datagrams that found no room."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    words = next(line for line in lines if line.strip().startswith("eth:")).split()
    udp = [
        line.split()[1:]
        for line in Path("/proc/self/net/snmp").read_text(encoding="ascii").splitlines()
        if line.startswith("Udp:")
    ]
    return {
        "bytes_in": int(words[1]), "packets_in": int(words[2]),
        "bytes_out": int(words[9]), "packets_out": int(words[10]),
        "no_room": int(udp[1][udp[0].index("RcvbufErrors")]),
    }  # fmt: skip


def processor() -> dict[str, float]:
    """Processor time of this process and of its main thread, in which Python runs, s."""
    main = int(
        Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text().split()[0]
    )
    return {"cpu_s": time.process_time(), "main_thread_s": main * 1e-9}


def now() -> dict[str, float]:
    """All counters."""
    return {"wall_s": time.monotonic(), **network(), **processor()}


def since(before: dict[str, float]) -> dict[str, float]:
    """What was added to the counters."""
    return {key: value - before[key] for key, value in now().items()}


def namespace(vehicle: int) -> str:
    """Of a vehicle, as in all graphs of several."""
    return f"/quad{vehicle + 1}"


def writer(topic: Topic, vehicle: int) -> Template:
    """Bytes of a topic, with the frames of a vehicle."""
    prefix = namespace(vehicle)[1:]
    odometry = LAYOUTS[topic.type_name].frames > 1
    frames = ("map", f"{prefix}/base_link") if odometry else (f"{prefix}/imu_link",)
    return Template.of(topic.type_name, *frames)


class End:
    """Nodes of one end, and who has been found by them."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.contexts: list[Context] = []
        self.nodes = [self._node(f"{spec.role}{k}") for k in range(spec.participants)]
        #: Per endpoint: how many others it has found.
        self.found: list[Callable[[], int]] = []

    def _node(self, name: str) -> Node:
        """A node with a participant of its own."""
        context = Context()
        rclpy.init(context=context, domain_id=self.spec.domain)
        self.contexts.append(context)
        return Node(name, context=context)

    def wait_for_others(self, each: int) -> dict[str, Any]:
        """Wait until each endpoint has found so many others."""
        begin, left = time.monotonic(), self.found
        while left and time.monotonic() - begin < MATCH_LIMIT_S:
            left = [count for count in left if count() < each]
            if left:
                time.sleep(0.01)
        return {"matched_at": time.monotonic(), "endpoints": len(self.found), "left": len(left)}

    def end(self) -> None:
        """Take all down."""
        for node in self.nodes:
            node.destroy_node()
        for context in self.contexts:
            context.try_shutdown()


class Fleet(End):
    """Publishes for all vehicles from one thread, by bytes."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        none = PublisherEventCallbacks(use_default_callbacks=False)
        self._publishers: list[list[tuple[Any, Template, int]]] = []
        for vehicle in range(spec.vehicles):
            node = self.nodes[vehicle % spec.participants]
            mine = []
            for topic, count in [TOPICS[name] for name in spec.topics]:
                full = topics.full_name(namespace(vehicle), topic.name)
                publisher = node.create_publisher(
                    topic.message, full, topic.offered, event_callbacks=none
                )
                self.found.append(publisher.get_subscription_count)
                mine.append((publisher, writer(topic, vehicle), count))
            for topic in SILENT[: spec.silent]:
                full = topics.full_name(namespace(vehicle), topic.name)
                publisher = node.create_publisher(
                    topic.message, full, topic.offered, event_callbacks=none
                )
                self.found.append(publisher.get_subscription_count)
            self._publishers.append(mine)

    def publish(self, seconds: float) -> dict[str, Any]:
        """Publish for a while, at the pace of the clock; what is late is caught up."""
        before = now()
        ticks, sent, late = round(seconds * TICK_HZ), 0, 0
        groups = [self._publishers]
        if self.spec.staggered:  # each vehicle at its own time of the period
            groups = [[mine] for mine in self._publishers]
        step_ns = SECOND_NS // TICK_HZ // len(groups)
        begin_ns = time.monotonic_ns()
        for tick in range(ticks):
            for k, group in enumerate(groups):
                due_ns = begin_ns + tick * SECOND_NS // TICK_HZ + k * step_ns
                wait_ns = due_ns - time.monotonic_ns()
                if wait_ns > 0:
                    time.sleep(wait_ns * 1e-9)
                late = max(late, -wait_ns)
                for publishers in group:
                    for publisher, bytes_of, count in publishers:
                        for _ in range(count):
                            publisher.publish(bytes_of.payload(time.monotonic_ns()))
                        sent += count
        return {"sent": sent, "late_max_ms": late * 1e-6, "asked_s": seconds, **since(before)}


class Listener(End):
    """Hears vehicles by raw subscriptions, and notes how old each message is."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._ages_ns = {name: array("q") for name in spec.topics}
        first, step = spec.share
        none = SubscriptionEventCallbacks(use_default_callbacks=False)
        for vehicle in range(first, spec.vehicles, step):
            node = self.nodes[vehicle % spec.participants]
            for name in spec.topics:
                topic = TOPICS[name][0]
                self._hear(node, topic, vehicle, self._noting(self._ages_ns[name]), none)
            for topic in SILENT[: spec.silent]:
                self._hear(node, topic, vehicle, lambda _: None, none)
        self.executor = make_executor(self.contexts[0])
        self.executor.add_node(self.nodes[0])

    def _hear(
        self, node: Node, topic: Topic, vehicle: int, callback: Callable[[bytes], None], none: Any
    ) -> None:
        """Subscribe."""
        wanted = qos.best_effort(topic.wanted) if self.spec.best_effort else topic.wanted
        subscription = node.create_subscription(
            topic.message, topics.full_name(namespace(vehicle), topic.name), callback, wanted,
            raw=True, event_callbacks=none,
        )  # fmt: skip
        self.found.append(subscription.get_publisher_count)

    def _noting(self, ages_ns: array[int]) -> Callable[[bytes], None]:
        """What notes a message's age."""

        def note(payload: bytes) -> None:
            ages_ns.append(time.monotonic_ns() - stamp_of(payload))

        return note

    def heard(self) -> int:
        """Messages so far."""
        return sum(map(len, self._ages_ns.values()))

    def listen(self, commands: Callable[[], bool]) -> dict[str, Any]:
        """Take messages until a line comes, and then until it is quiet."""
        before = now()
        over = threading.Event()
        threading.Thread(target=lambda: (commands(), over.set()), daemon=True).start()
        while not over.is_set():
            self.executor.spin_once(0.1)
        heard, quiet_since = self.heard(), time.monotonic()
        limit = quiet_since + QUIET_LIMIT_S
        while time.monotonic() - quiet_since < QUIET_S and time.monotonic() < limit:
            self.executor.spin_once(0.1)
            if self.heard() != heard:
                heard, quiet_since = self.heard(), time.monotonic()
        spent = since(before)
        ages_ms = {
            name: [float(np.percentile(ages, q)) * 1e-6 for q in (50, 99, 100)]
            for name, ages in self._ages_ns.items()
            if len(ages)
        }
        together = np.concatenate([np.array(ages) for ages in self._ages_ns.values()])
        quantiles = np.percentile(together, (50, 99, 100)) * 1e-6 if len(together) else [None] * 3
        return {
            "heard": heard,
            "latency_ms": [*map(float, quantiles)] if len(together) else None,
            "latency_ms_by_topic": ages_ms, **spent,
        }  # fmt: skip

    def end(self) -> None:
        """Take all down."""
        self.executor.shutdown(0)
        super().end()


def answer(**words: Any) -> None:
    """Say a line."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Obey."""
    spec = Spec(**json.loads(sys.argv[1]))
    end: End | None = None
    answer(here=True)
    for line in iter(sys.stdin.readline, ""):
        words = json.loads(line)
        match words["do"]:
            case "begin":
                before = now()
                end = Fleet(spec) if spec.role == "fleet" else Listener(spec)
                answer(begun_at=before["wall_s"], **since(before))
            case "memory":
                answer(MB=psutil.Process().memory_info().rss * 1e-6)
            case "match":
                assert end is not None
                before = now()
                answer(**end.wait_for_others(words["each"]), **since(before))
            case "idle":
                before = now()
                time.sleep(words["seconds"])
                answer(**since(before))
            case "publish":
                assert isinstance(end, Fleet)
                answer(**end.publish(words["seconds"]))
            case "listen":
                assert isinstance(end, Listener)
                answer(**end.listen(sys.stdin.readline))
    if end is not None:
        end.end()


if __name__ == "__main__":
    main()
