"""How the messages of a bag came: rates, gaps and latency, heard while the bag is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

import numpy as np

from quadsim.analysis.bag.definitions import standard_types
from quadsim.analysis.bag.reading import BLOCK, Bag, BagMessage
from quadsim.analysis.bag.topics import topic as topic_of
from quadsim.analysis.kept import KeptRows
from quadsim.errors import QuadsimError
from quadsim.sim.log import Arrivals, Stamps

#: A gap is longer than so many median periods.
GAP_PERIODS = 3.0
#: With fewer messages nothing is called a gap: what comes on change has no period.
LEAST_FOR_GAPS = 10


class Listener(Protocol):
    """Who wants messages beside the one that reads."""

    @property
    def names(self) -> Collection[str]:
        """Full names of the topics."""

    def take(self, full: str, log_ns: list[int], payloads: list[bytes]) -> None:
        """Take the next messages of one of them."""


class _Topic:
    """Stamps and log times of one topic; messages of a block wait.

    As numbers and bytes: of so many tuples the collection of garbage would take its time. Of what
    nobody listens to only the bytes of the stamp wait: it may be pictures.
    """

    def __init__(self, stamped: bool, listened: bool) -> None:
        self.logs: list[int] = []
        self.payloads: list[bytes] = []
        self.listened = listened
        self._stamped = stamped
        self._log_ns, self._stamp_ns = KeptRows(np.int64), KeptRows(np.int64)

    def note(self) -> None:
        """Pack what waits."""
        self._log_ns.append(np.array(self.logs, np.int64))
        if self._stamped:  # the stamp lies behind the four bytes of CDR's header
            heads = [part[4:12] for part in self.payloads] if self.listened else self.payloads
            whole = [head if len(head) == 8 else bytes(8) for head in heads]
            parts = np.frombuffer(b"".join(whole), "<u4").reshape(-1, 2).astype(np.int64)
            self._stamp_ns.append(parts[:, 0] * 1_000_000_000 + parts[:, 1])

    def arrivals(self) -> Arrivals:
        """Its figures."""
        return _arrivals(self._log_ns.whole(), self._stamp_ns.whole() if self._stamped else None)


class Overheard:
    """A bag of which every message is read while somebody reads some, to the end, once.

    Else it has what a :class:`~quadsim.analysis.bag.reading.Bag` has.

    Args:
        bag: an open bag.
        listener: gets its messages at the same time, in blocks.
    """

    def __init__(self, bag: Bag, listener: Listener) -> None:
        self._bag = bag
        self._listener = listener
        self._topics: dict[str, _Topic] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bag, name)

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """Messages of some topics in the order of their log time."""
        wanted = frozenset(topics)
        known = self._topics
        waiting = 0
        for message in self._bag.messages(self._bag.counts):
            name = message[0]  # by number: names cost twice as much, and this is every message
            topic = known.get(name)
            if topic is None:
                stamped = _is_stamped(self._bag, message)
                topic = known[name] = _Topic(stamped, name in self._listener.names)
            topic.logs.append(message[2])
            topic.payloads.append(message[3] if topic.listened else message[3][4:12])
            waiting += 1
            if waiting == BLOCK:
                self._hand_on()
                waiting = 0
            if name in wanted:
                yield message
        self._hand_on()

    def arrivals(self, namespace: str) -> dict[str, Arrivals]:
        """How each topic's messages came; names within a namespace are relative to it."""
        prefix = topic_of(namespace, "")
        found = {}
        for full, topic in sorted(self._topics.items()):
            name = full[len(prefix) :] if prefix != "/" and full.startswith(prefix) else full
            found[name] = topic.arrivals()
        return found

    def _hand_on(self) -> None:
        for full, topic in self._topics.items():
            topic.note()
            if topic.listened and topic.logs:
                self._listener.take(full, topic.logs, topic.payloads)
            topic.logs, topic.payloads = [], []


def _is_stamped(bag: Bag, message: BagMessage) -> bool:
    """Whether a message begins with a std_msgs/Header."""
    known = standard_types().fielddefs.get(message.type_name)
    if known is not None:
        first = next(iter(known[1]), None)
        return first is not None and first[1][1] == "std_msgs/msg/Header"
    try:
        content: Any = bag.deserialize(message)
    except QuadsimError:
        return False  # a type that nobody knows
    return hasattr(content, "header") and next(iter(vars(content))) == "header"


def _arrivals(log_ns: Stamps, stamp_ns: Stamps | None) -> Arrivals:
    """Figures of one topic; without stamps the log times stand for them.

    Args:
        log_ns: (N,) when each was recorded.
        stamp_ns: (N,) what each says; None where the type has none.
    """
    latency_median_s = latency_p99_s = None
    if stamp_ns is not None:
        latency_s = (log_ns - stamp_ns) * 1e-9
        latency_median_s = float(np.median(latency_s, overwrite_input=True))
        latency_p99_s = float(np.percentile(latency_s, 99.0, overwrite_input=True))
        del latency_s
    clock_ns = log_ns if stamp_ns is None else stamp_ns
    steps_ns = np.diff(clock_ns)
    rising = steps_ns > 0
    median_ns = None
    if rising.any():
        median_ns = float(np.median(steps_ns[rising], overwrite_input=True))
    gaps_ns: Stamps = np.zeros((0, 2), np.int64)
    if median_ns is not None and len(clock_ns) >= LEAST_FOR_GAPS:
        before = np.flatnonzero(steps_ns > GAP_PERIODS * median_ns)
        gaps_ns = np.stack([clock_ns[before], clock_ns[before + 1]], axis=1)
    return Arrivals(
        count=len(log_ns),
        rate_hz=None if median_ns is None else 1e9 / median_ns,
        gaps_ns=gaps_ns,
        repeated=0 if stamp_ns is None else int((~rising).sum()),
        latency_median_s=latency_median_s,
        latency_p99_s=latency_p99_s,
    )
