"""How the messages of a bag came: rates, gaps and latency, heard while the bag is read."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from quadsim.analysis.bag.definitions import standard_types
from quadsim.analysis.bag.reading import BLOCK, Bag, BagMessage
from quadsim.analysis.bag.topics import topic as topic_of
from quadsim.errors import QuadsimError
from quadsim.sim.log import Arrivals, Stamps

#: A gap is longer than so many median periods.
GAP_PERIODS = 3.0
#: With fewer messages nothing is called a gap: what comes on change has no period.
LEAST_FOR_GAPS = 10


class _Topic:
    """Stamps and log times of one topic: 16 bytes a message, and those of a block that wait."""

    def __init__(self, stamped: bool) -> None:
        self.stamped = stamped
        self.log_ns = array("q")
        self.stamp_ns = array("q")
        self.heads: list[bytes] = []  # the stamp lies behind the four bytes of CDR's header
        self.logs: list[int] = []

    def flush(self) -> None:
        """Pack what waits."""
        self.log_ns.extend(self.logs)
        if self.stamped:
            whole = [head if len(head) == 8 else bytes(8) for head in self.heads]
            parts = np.frombuffer(b"".join(whole), "<u4").reshape(-1, 2).astype(np.int64)
            self.stamp_ns.frombytes((parts[:, 0] * 1_000_000_000 + parts[:, 1]).tobytes())
        self.heads.clear()
        self.logs.clear()


class Overheard:
    """A bag that notes how messages came while others read them.

    It has what a :class:`~quadsim.analysis.bag.reading.Bag` has. A topic is noted the first time
    that it is read to its end.

    Args:
        bag: an open bag.
    """

    def __init__(self, bag: Bag) -> None:
        self._bag = bag
        self._topics: dict[str, _Topic] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bag, name)

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """Messages of some topics in the order of their log time."""
        known: dict[str, _Topic] = {}
        waiting = 0
        for message in self._bag.messages(topics):
            topic = known.get(message[0])
            if topic is None:
                topic = known[message.topic] = _Topic(_is_stamped(self._bag, message))
            topic.logs.append(message[2])  # names cost twice as much, and this is every message
            topic.heads.append(message[3][4:12])
            waiting += 1
            if waiting == BLOCK:
                _flush(known)
                waiting = 0
            yield message
        _flush(known)
        self._topics = known | self._topics

    def arrivals(self, namespace: str) -> dict[str, Arrivals]:
        """How each topic's messages came; names within a namespace are relative to it.

        What nobody has read is read now.
        """
        rest = [name for name, count in self._bag.counts.items() if count]
        for _ in self.messages([name for name in rest if name not in self._topics]):
            pass
        prefix = topic_of(namespace, "")
        found = {}
        for full, topic in sorted(self._topics.items()):
            name = full[len(prefix) :] if prefix != "/" and full.startswith(prefix) else full
            found[name] = _arrivals(
                np.array(topic.log_ns, np.int64),
                np.array(topic.stamp_ns, np.int64) if topic.stamped else None,
            )
        return found


def _flush(topics: dict[str, _Topic]) -> None:
    for topic in topics.values():
        topic.flush()


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
    clock_ns = log_ns if stamp_ns is None else stamp_ns
    steps_ns = np.diff(clock_ns)
    rising = steps_ns > 0
    median_ns = float(np.median(steps_ns[rising])) if rising.any() else None
    gaps_ns: Stamps = np.zeros((0, 2), np.int64)
    if median_ns is not None and len(clock_ns) >= LEAST_FOR_GAPS:
        before = np.flatnonzero(steps_ns > GAP_PERIODS * median_ns)
        gaps_ns = np.stack([clock_ns[before], clock_ns[before + 1]], axis=1)
    latency_s = None if stamp_ns is None else (log_ns - stamp_ns) * 1e-9
    return Arrivals(
        count=len(log_ns),
        rate_hz=None if median_ns is None else 1e9 / median_ns,
        gaps_ns=gaps_ns,
        repeated=0 if stamp_ns is None else int((~rising).sum()),
        latency_median_s=None if latency_s is None else float(np.median(latency_s)),
        latency_p99_s=None if latency_s is None else float(np.percentile(latency_s, 99.0)),
    )
