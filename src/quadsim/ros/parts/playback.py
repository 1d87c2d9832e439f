"""What of a bag is played, in which order, and when each message is due; no ROS here.

The order is that of the bag: by log time, and of equal log times as in the file. Before the first
message comes what holds at that time: the clock, then the last message of each latched topic.
Origin, static transforms and mission, which hold for all of a flight, come first even where the bag
has them later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import read_yaml_text
from quadsim.ros.runtime.latency import Latencies

CLOCK = "/clock"
STATIC_TRANSFORMS = "/tf_static"
CLOCK_PERIOD_NS = 10_000_000
#: Name of the ticks of ``/clock`` among the topics; see :class:`Item`.
TICKS = ""
#: Depth of a topic of which the bag does not say it: 0.4 s at 500 Hz.
DEPTH = 200
#: Of topics that are latched where the bag states nothing, the first message of these holds from
#: the beginning.
CONSTANT = (STATIC_TRANSFORMS, "/datum", "/mission", "/robot_description")
LATCHED = (*CONSTANT, "/map")
#: Words and, before ROS 2 Jazzy, numbers of bags.
_BEST_EFFORT, _TRANSIENT_LOCAL = ("best_effort", 2), ("transient_local", 1)
#: While nothing is due: how often a standing clock is told, s.
IDLE_S = 0.1


class Pace:
    """When log times are due by the wall clock; pause and stop, from any thread.

    Args:
        rate: bag time over wall time; 0: nothing is waited for.
        paused: whether it begins so.
        start_ns: log time at which it begins.
        idle: called now and then while paused.

    Attributes:
        stopping: whether it is to end.
        position_ns: log time at which it is.
        lateness: of messages, as they are published.
    """

    def __init__(
        self, rate: float, paused: bool, start_ns: int, idle: Callable[[], None] = lambda: None
    ) -> None:
        self._condition = threading.Condition()
        self._idle, self._start_ns = idle, start_ns
        self.rate, self.paused, self.stopping = rate, paused, False
        self.position_ns = start_ns
        self.lateness = Latencies()
        self.begin()

    def begin(self) -> None:
        """The first message is due now."""
        self._begun_ns = self._paused_ns = time.monotonic_ns()

    def pause(self, paused: bool) -> None:
        """Stand, or go on."""
        with self._condition:
            now_ns = time.monotonic_ns()
            if paused and not self.paused:
                self._paused_ns = now_ns
            elif self.paused and not paused:
                self._begun_ns += now_ns - self._paused_ns
            self.paused = paused
            self._condition.notify_all()

    def stop(self) -> None:
        """End."""
        self.stopping = True
        self.notify()

    def notify(self) -> None:
        """Something that is waited for may have come."""
        with self._condition:
            self._condition.notify_all()

    def wait(self, log_ns: int) -> bool:
        """Wait until a log time is due; False: it is to end."""
        with self._condition:
            while not self.stopping:
                if self.paused:
                    self._condition.wait(IDLE_S)
                    self._idle()
                    continue
                if self.rate == 0.0:
                    break
                due_ns = self._begun_ns + int((log_ns - self._start_ns) / self.rate)
                late_s = (time.monotonic_ns() - due_ns) * 1e-9
                if late_s >= 0.0:
                    self.lateness.add(late_s)
                    break
                self._condition.wait(-late_s)
            else:
                return False
            self.position_ns = log_ns
        return True

    def wait_until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for something else; False: the time is over, or it is to end."""
        deadline = time.monotonic() + within_s
        with self._condition:
            while not condition():
                rest_s = deadline - time.monotonic()
                if self.stopping or rest_s <= 0.0:
                    return False
                self._condition.wait(min(rest_s, IDLE_S))
        return True


def fits(name: str, patterns: Collection[str]) -> bool:
    """Whether a name fits one of some patterns (``*``, ``?``)."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def chosen_topics(bag: Bag, wanted: Collection[str], excluded: Collection[str]) -> list[str]:
    """Topics of a bag that are to be played, by name.

    Args:
        wanted: patterns; empty: all.
        excluded: patterns of what is left out.

    Raises:
        InputError: a pattern fits no topic, or nothing is left.
    """
    for pattern in (*wanted, *excluded):
        if not any(fits(name, [pattern]) for name in (*bag.types, CLOCK)):
            raise InputError(
                f"{bag.path}: no topic fits {pattern!r}; it has: {', '.join(sorted(bag.types))}"
            )
    names = [
        name
        for name in sorted(bag.types)
        if bag.counts[name] and (not wanted or fits(name, wanted)) and not fits(name, excluded)
    ]
    if not names:
        raise InputError(f"{bag.path}: nothing is left to play; see --topics, --exclude")
    return names


class Offer(NamedTuple):
    """Quality of service of a publisher: queue length, reliable, latched (transient local)."""

    depth: int
    reliable: bool
    latched: bool


def offer_of(name: str, recorded: str, known: Offer | None, count: int) -> Offer:
    """Quality of service with which a topic is played.

    Several publishers of one topic become one that every listener of theirs can hear: reliable and
    latched if one of them is, with the longest queue.

    Args:
        recorded: ``offered_qos_profiles`` as YAML; may be empty.
        known: what this project's table of topics reports, or None.
        count: messages in the bag.
    """
    offer = known or Offer(DEPTH, True, name.endswith(LATCHED))
    if profiles := _profiles(recorded):
        depths = [depth for profile in profiles if isinstance(depth := profile.get("depth"), int)]
        offer = Offer(
            max((depth for depth in depths if depth > 0), default=offer.depth),
            any(profile.get("reliability") not in _BEST_EFFORT for profile in profiles),
            any(profile.get("durability") in _TRANSIENT_LOCAL for profile in profiles),
        )
    if name == STATIC_TRANSFORMS:  # each message adds to the others, whoever sent them
        return offer._replace(latched=True, depth=max(offer.depth, count))
    return offer


def _profiles(text: str) -> list[dict[str, Any]]:
    """What a bag states of its publishers; empty where it is not to be read."""
    try:
        found = read_yaml_text(text, "quality of service") if text else None
    except InputError:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


class Item(NamedTuple):
    """One thing to publish: when, and what.

    Attributes:
        log_ns: log time.
        topic: name in the bag; empty: a tick of ``/clock`` at the log time.
        payload: the message, serialised; of a tick nothing.
        urgent: whether it holds at the beginning, and is not waited for.
    """

    log_ns: int
    topic: str
    payload: bytes
    urgent: bool


class Playback:
    """A part of a bag as what is to be published, in order.

    Args:
        latched: names of what is played, and whether each is latched; empty: ticks of ``/clock``.
        start_ns: log time at which it begins.
        stop_ns: log time before which it ends.
    """

    def __init__(self, bag: Bag, latched: Mapping[str, bool], start_ns: int, stop_ns: int) -> None:
        self._bag = bag
        self._ticks = TICKS in latched
        self._topics = frozenset(latched) - {TICKS}
        self._state = {name for name in self._topics if latched[name] or name == CLOCK}
        self.start_ns, self.stop_ns = start_ns, stop_ns

    def __iter__(self) -> Iterator[Item]:
        start_ns = self.start_ns
        if self._ticks:
            yield Item(start_ns, TICKS, b"", True)
        early: set[tuple[str, int]] = set()  # came first, though the bag has them later
        for item in self._held():
            if item.log_ns >= start_ns:
                early.add((item.topic, item.log_ns))
            yield item
        tick_ns = (start_ns // CLOCK_PERIOD_NS + 1) * CLOCK_PERIOD_NS
        for topic, _, log_ns, payload in self._bag.messages(self._topics, start_ns):
            if log_ns >= self.stop_ns:
                return
            while self._ticks and tick_ns <= log_ns:
                yield Item(tick_ns, TICKS, b"", False)
                tick_ns += CLOCK_PERIOD_NS
            if early and (topic, log_ns) in early:
                early.discard((topic, log_ns))
                continue
            yield Item(log_ns, topic, payload, False)

    def _held(self) -> Iterator[Item]:
        """What holds at the beginning: the bag's clock, then what is latched."""
        held: dict[str, list[Item]] = {}
        for topic, _, log_ns, payload in self._bag.messages(self._state):
            if log_ns >= self.start_ns:
                break
            items = held.setdefault(topic, [])
            if topic != STATIC_TRANSFORMS:
                items.clear()
            items.append(Item(log_ns, topic, payload, True))
        for topic in sorted(self._state):
            if topic not in held and (topic.endswith(CONSTANT) or topic == CLOCK):
                first = next(self._bag.messages([topic], self.start_ns), None)
                if first is not None and first.log_ns < self.stop_ns:
                    held[topic] = [Item(first.log_ns, topic, first.payload, True)]
        for topic in sorted(held, key=lambda name: (name != CLOCK, name)):
            yield from held[topic]
