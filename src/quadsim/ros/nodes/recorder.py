"""Node ``recorder``: the topics of a profile, raw, into a bag (MCAP).

A message's log time is the newest simulated time that the recorder has seen (``/clock`` or the
truth's stamp), so that a bag replays in the order in which things were heard, a sensor's latency
included, however slow the machine was. Without a simulation it is the system's time.

Messages wait in their subscriptions and are taken together, in the order in which they came: one
that woke the recorder would cost it, and whoever sends it, more than its recording.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile

from quadsim.bag.metadata import qos_yaml
from quadsim.bag.origin import surroundings
from quadsim.bag.profiles import Recording, Thinning
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import FlightError, InputError
from quadsim.ros.graph.vehicles import vehicle_namespaces
from quadsim.ros.messages.cdr import MessageError, deserialize, stamp_ns_of, stamp_of
from quadsim.ros.parts.estimator_params import BESIDE
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode, make_status, values_of
from quadsim.ros.runtime.intra_process import Listening
from quadsim.ros.runtime.params import declare, declare_one, declare_texts
from quadsim.ros.runtime.reset_times import Ahead
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.sim.log import WARN

FLUSH_PERIOD_S = 0.25
#: And of simulated time, which may be several times as fast, ns.
FLUSH_SIMULATED_NS = 125_000_000
#: Messages wait for so long, s, and so many of a topic: at 2000 Hz half a second.
TAKE_PERIOD_S = 0.05
WAITING = 1000
#: Of what comes while nobody is armed for long, so much is stored for the next flight, ns.
BEFORE_NS = 10_000_000_000
#: A bag states how large it is whenever it has grown by so much.
SAID_BYTES = 100_000_000
#: What a flight of ``x500`` with the default sensors and every topic takes.
RATE = "80 MB a minute and"
#: Name of the event that reports it, on ``events`` of the first vehicle.
STOPPED = "recording_stopped"


class RecorderNode(QuadsimNode):
    """Writes what it hears; closes the bag when it is destroyed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("recorder", **kwargs)
        output = declare_one(self, "output", "", "folder of the bag; it must not exist")
        recording = declare(self, Recording())
        metadata = declare_one(self, "metadata", "", "stored in the bag: texts by name, as JSON")
        count = declare_one(self, "count", 1, "vehicles", ge=1)
        words = "of the vehicles, where they are not /quad1, /quad2, ..."
        namespaces = declare_texts(self, "namespaces", words) or vehicle_namespaces(count)
        running = declare_one(
            self, "nodes", "", "executables whose topics must be there before all is complete"
        ).split()
        words = "unarmed for so long it keeps the last 10 s until arming alone; 0: keeps all"
        self._idle_ns = round(1e9 * declare_one(self, "idle_s", 60.0, words, ge=0.0))
        self._armed: dict[str, bool] = {}  # by the topic of each vehicle's mission
        self._rested_ns = -1  # since when nobody has been armed, as far as that is known
        self._idle: deque[tuple[int, Callable[[], None]]] = deque()
        self._profile = recording.profile()
        folder = Path(output or f"bag-{time.strftime('%Y%m%d-%H%M%S')}")
        self._bag = BagWriter(folder, self._custom(metadata), storage=recording.storage())
        self._said_stopped, self._said_bytes = False, 0
        rests = f"; it rests after {self._idle_ns * 1e-9:g} s unarmed" if self._idle_ns else ""
        self.get_logger().info(f"records into {self._bag.path}, some {RATE} a vehicle{rests}")
        self._kept: dict[str, Thinning] = {}
        self._latched: set[str] = set()
        self._awaited: dict[str, Callable[[], None]] = {}  # how to subscribe, by the topic
        self._heard: list[tuple[Listening, Callable[[int, bytes], None]]] = []
        self._time_ns = self._flushed_ns = 0
        self._ahead = Ahead()
        # what is latched is heard before the clock
        self._simulated = bool({"dynamics", "swarm"} & set(running))
        self.when_destroyed(self._end)
        for name, topic in topics.every_topic(namespaces):
            self._record(name, topic, needed=bool(set(topic.publishers) & set(running)))
        for text in declare_texts(self, "also", "other topics: NAME TYPE"):
            if text.partition(" ")[0] not in self._kept:  # of the table
                where = f"node {self.get_fully_qualified_name()}: parameter also"
                topic = topics.foreign(text, where)
                self._record(topic.name, topic, needed=False)
        for namespace in namespaces:
            for estimator in BESIDE:
                topic = topics.beside_odometry(estimator)
                self._record(topics.full_name(namespace, topic.name), topic, needed=False)
        self._stops = self.offer(topics.EVENTS, topics.full_name(namespaces[0], "events"))
        self.wall_timer(FLUSH_PERIOD_S, self._flush)
        self.wall_timer(TAKE_PERIOD_S, self._take)

    def _custom(self, metadata: str) -> dict[str, str]:
        """What the bag keeps: what the graph reports of the run, else what is known here."""
        if not metadata:
            return surroundings()
        try:
            return {str(key): str(text) for key, text in json.loads(metadata).items()}
        except (ValueError, AttributeError):
            where = f"node {self.get_fully_qualified_name()}: parameter metadata"
            raise InputError(f"{where}: no JSON object of texts by their names") from None

    def _record(self, name: str, topic: Topic, needed: bool) -> None:
        """Record one topic, reliable where it is offered so, once it is in use.

        The clock and the truth are heard in any case: they tell the time.
        """
        keeps = self._profile.keeps(topic.name)
        time_of: Callable[[bytes], int] | None = None
        if topic is topics.CLOCK:
            time_of = _clock_ns
        elif topic is topics.TRUTH:
            time_of = stamp_of
        elif not keeps:
            return
        offered = offered_yaml(topic.offered)
        if keeps:
            if topic.offered.durability == DurabilityPolicy.TRANSIENT_LOCAL:
                self._latched.add(name)
            self._bag.add_topic(name, topic.type_name, offered)
            self._kept[name] = Thinning(self._profile.period_ns(topic.name))
        hear = partial(self._hear, name, topic.type_name, offered, time_of)
        self._awaited[name] = partial(self._subscribe, name, topic, hear)
        if needed:
            self._awaited.pop(name)()
            self.need(partial(self.count_publishers, name))

    def _subscribe(self, name: str, topic: Topic, hear: Callable[[int, bytes], None]) -> None:
        """Let messages of a topic wait for :meth:`_take`."""
        waiting = replace(topic, wanted=qos.deeper(topic.offered, WAITING))
        self._heard.append((self.pause_messages(self.listen(waiting, lambda _: None, name)), hear))

    def _subscribe_to_used(self) -> None:
        """Subscribe to what somebody has begun to publish or to listen to.

        A topic that only the recorder knows would be in everybody's list of topics.
        """
        for name in list(self._awaited):
            if self.count_publishers(name) or self.count_subscribers(name):
                self._awaited.pop(name)()

    def _hear(
        self,
        name: str,
        type_name: str,
        offered: str,
        time_of: Callable[[bytes], int] | None,
        came_ns: int,
        payload: bytes,
    ) -> None:
        """Write one message, if it is to be recorded, behind the time that it may tell."""
        if time_of is not None:
            self._advance(name, partial(time_of, payload))
        stored = self._kept.get(name)
        stamp_ns = self._time_ns if self._simulated else came_ns
        if name.endswith(topics.MISSION_STATUS.name):
            self._note_armed(name, payload)
        if stored is None or not stored.keeps(stamp_ns):
            return
        write = partial(self._bag.add, name, type_name, offered, stamp_ns, payload)
        if name in self._latched or not self._rests(stamp_ns):
            write()
        else:
            self._idle.append((stamp_ns, write))
            while self._idle[0][0] < stamp_ns - BEFORE_NS:
                self._idle.popleft()

    def _note_armed(self, name: str, payload: bytes) -> None:
        """Take note of who is armed; with the first the recording goes on."""
        armed = values_of(deserialize(payload, topics.MISSION_STATUS.message)).get("armed")
        self._armed[name] = armed == "true"
        if any(self._armed.values()):
            self._rested_ns = -1
            while self._idle:
                self._idle.popleft()[1]()

    def _rests(self, stamp_ns: int) -> bool:
        """Whether nobody has been armed for so long that only the last seconds are stored."""
        if not self._idle_ns or not self._armed or any(self._armed.values()):
            return False
        if not 0 <= self._rested_ns <= stamp_ns:
            self._rested_ns = stamp_ns
        return stamp_ns - self._rested_ns >= self._idle_ns

    def _take(self) -> None:
        """Write what has come.

        In a simulation, whose nodes have one clock, in the order in which it was sent: an answer
        may come before what it answers. Else in the order in which it came.
        """
        taken = [
            (sent_ns if self._simulated else came_ns, came_ns, write, payload)
            for listening, write in self._heard
            for sent_ns, came_ns, payload in listening.taken()
        ]
        taken.sort(key=itemgetter(0))  # stable: of one topic they stay in their order
        for _, came_ns, write, payload in taken:
            write(came_ns, payload)
        if self._time_ns - self._flushed_ns >= FLUSH_SIMULATED_NS:
            self._flushed_ns = self._time_ns
            self._bag.flush()

    def _flush(self) -> None:
        """Hand what is there to the system; say once that the disk takes no more."""
        self._subscribe_to_used()
        self._bag.flush_when_due()
        size = self._bag.size
        if size >= self._said_bytes + SAID_BYTES:
            self._said_bytes = size
            self.get_logger().info(f"{self._bag.path}: {size / 1e6:.0f} MB so far")
        if self._bag.stopped and not self._said_stopped:
            self._said_stopped = True
            words = f"{self._bag.path}: {self._bag.stopped}"
            self._stops.publish(make_status(WARN, STOPPED, words))
            self.get_logger().error(words)
            self.report()

    def _advance(self, name: str, read: Callable[[], int]) -> None:
        """Take simulated time out of a message; a single one far ahead is none."""
        try:
            stamp_ns = read()
            self._ahead.check(stamp_ns, self._time_ns)
        except MessageError as error:
            self.fault(name, str(error))
            return
        self._simulated = True
        self._time_ns = max(self._time_ns, stamp_ns)

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Messages written so far."""
        values = {"messages": sum(self._bag.counts.values()), "bytes": self._bag.size}
        if self._bag.stopped:
            return 2, self._bag.stopped, values
        return 0, "recording", values

    def _end(self) -> None:
        """Write what has come and close the bag."""
        try:
            self._take()
        finally:
            self._bag.close()
        if self._bag.stopped:
            raise FlightError(f"{self._bag.path}: {self._bag.stopped}")


def offered_yaml(profile: QoSProfile) -> str:
    """Text that a bag stores of a publisher's quality of service."""
    return qos_yaml(
        profile.reliability.name.lower(), profile.durability.name.lower(), profile.depth
    )


def _clock_ns(payload: bytes) -> int:
    return stamp_ns_of(deserialize(payload, topics.CLOCK.message).clock)


make, main = entry_points(RecorderNode)
