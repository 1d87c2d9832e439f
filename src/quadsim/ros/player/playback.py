"""What of a bag is played, under which names, and in which order; no ROS here.

The order is that of the bag: by log time, and of equal log times as in the file. Before the first
message, and again after every jump, comes what holds at that time: the clock, then the last message
of each latched topic. Origin, static transforms and mission, which hold for all of a flight, come
first even where the bag has them later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import read_yaml_text

CLOCK = "/clock"
STATIC_TRANSFORMS = "/tf_static"
CLOCK_TYPE = "rosgraph_msgs/msg/Clock"
CLOCK_PERIOD_NS = 10_000_000
#: Name of the ticks of ``/clock`` among the topics; see :class:`Item`.
TICKS = ""
#: Depth of a topic of which the bag does not say it: 0.4 s at 500 Hz.
DEPTH = 200
#: Ends of the names of topics that are latched, where the bag states nothing of it.
LATCHED = (STATIC_TRANSFORMS, "/datum", "/mission", "/robot_description", "/map")
#: Of these the first message holds from the beginning.
CONSTANT = (STATIC_TRANSFORMS, "/datum", "/mission", "/robot_description")
#: Words and, before ROS 2 Jazzy, numbers of bags.
_BEST_EFFORT, _TRANSIENT_LOCAL = ("best_effort", 2), ("transient_local", 1)


class Offer(NamedTuple):
    """Quality of service of a publisher: queue length, reliable, latched (transient local)."""

    depth: int
    reliable: bool
    latched: bool


@dataclass(frozen=True)
class Selection:
    """Which topics are played, and under which names.

    Attributes:
        topics: patterns (``*``, ``?``); empty: all.
        exclude: patterns of what is left out.
        remap: pairs of names: of topics, or of namespaces.
        reliable: whether every topic is offered reliable, whatever was recorded.
    """

    topics: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    remap: tuple[tuple[str, str], ...] = ()
    reliable: bool = False

    def renamed(self, name: str) -> str:
        """Name under which a topic, or what lies in a namespace, is played."""
        for old, new in self.remap:
            if name == old or name.startswith(old.rstrip("/") + "/"):
                return new.rstrip("/") + name[len(old.rstrip("/")) :] or "/"
        return name

    def chosen(self, bag: Bag) -> list[str]:
        """Topics of a bag that are to be played, by name.

        Raises:
            InputError: a pattern fits no topic, or nothing is left.
        """
        counts = bag.counts
        for pattern in (*self.topics, *self.exclude):
            if not any(fnmatchcase(name, pattern) for name in bag.types):
                raise InputError(
                    f"{bag.path}: no topic fits {pattern!r}; it has: {', '.join(sorted(bag.types))}"
                )
        names = [
            name
            for name in sorted(bag.types)
            if counts[name]
            and (not self.topics or _fits(name, self.topics))
            and not _fits(name, self.exclude)
        ]
        if not names:
            raise InputError(f"{bag.path}: nothing is left to play; see --topics, --exclude")
        targets: dict[str, str] = {}
        for name in names:
            other = targets.setdefault(self.renamed(name), name)
            if other != name:
                raise InputError(
                    f"--remap: {other} and {name} would both be {self.renamed(name)}; exclude one"
                )
        return names


def _fits(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def parse_remap(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of names out of ``a:=b``.

    Raises:
        InputError: one is no such pair.
    """
    pairs = []
    for text in texts:
        old, separator, new = text.partition(":=")
        if not (separator and old.startswith("/") and new.startswith("/")):
            raise InputError(f"--remap: {text!r} is not A:=B with two absolute names")
        pairs.append((old, new))
    return tuple(pairs)


def offer_of(name: str, recorded: str, known: Offer | None, count: int) -> Offer:
    """Quality of service with which a topic is played.

    Several publishers of one topic become one that every listener of theirs can hear: reliable and
    latched if one of them is, with the longest queue.

    Args:
        name: of the topic.
        recorded: ``offered_qos_profiles`` as YAML; may be empty.
        known: what this project's table of topics reports, or None.
        count: messages in the bag.
    """
    default = known or Offer(DEPTH, True, name.endswith(LATCHED))
    profiles = _profiles(recorded)
    offer = default
    if profiles:
        depths = [depth for profile in profiles if isinstance(depth := profile.get("depth"), int)]
        offer = Offer(
            max((depth for depth in depths if depth > 0), default=default.depth),
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
        urgent: whether it belongs to a jump, and is not waited for.
    """

    log_ns: int
    topic: str
    payload: bytes
    urgent: bool


class Playback:
    """A bag's messages from any time on.

    Args:
        bag: an open bag.
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

    def read(self, from_ns: int) -> Iterator[Item]:
        """What is to be published from a log time on, in order."""
        if self._ticks:
            yield Item(from_ns, TICKS, b"", True)
        early: set[tuple[str, int]] = set()  # came first, though the bag has them later
        for item in self._held(from_ns):
            if item.log_ns >= from_ns:
                early.add((item.topic, item.log_ns))
            yield item
        tick_ns = (from_ns // CLOCK_PERIOD_NS + 1) * CLOCK_PERIOD_NS
        for topic, _, log_ns, payload in self._bag.messages(self._topics, from_ns):
            if log_ns >= self.stop_ns:
                return
            while self._ticks and tick_ns <= log_ns:
                yield Item(tick_ns, TICKS, b"", False)
                tick_ns += CLOCK_PERIOD_NS
            if early and (topic, log_ns) in early:
                early.discard((topic, log_ns))
                continue
            yield Item(log_ns, topic, payload, False)

    def _held(self, at_ns: int) -> Iterator[Item]:
        """What holds at a log time: the bag's clock, then what is latched."""
        held: dict[str, list[Item]] = {}
        for topic, _, log_ns, payload in self._bag.messages(self._state):
            if log_ns >= at_ns:
                break
            items = held.setdefault(topic, [])
            if topic != STATIC_TRANSFORMS:
                items.clear()
            items.append(Item(log_ns, topic, payload, True))
        for topic in sorted(self._state):
            if topic not in held and (topic.endswith(CONSTANT) or topic == CLOCK):
                first = next(self._bag.messages([topic], at_ns), None)
                if first is not None and first.log_ns < self.stop_ns:
                    held[topic] = [Item(first.log_ns, topic, first.payload, True)]
        for topic in sorted(held, key=lambda name: (name != CLOCK, name)):
            yield from held[topic]
