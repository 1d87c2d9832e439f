"""How the messages of a bag came: rates, gaps and latency, heard while the bag is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

import numpy as np

from quadsim.bag.reading import Bag, BagMessage, Batch
from quadsim.bag.topics import topic as topic_of
from quadsim.base.errors import QuadsimError
from quadsim.sim.disk_arrays import KeptRows, give_back, slices
from quadsim.sim.log import Arrivals, Stamps
from quadsim.wire.decode import HEADER, STAMP_END
from quadsim.wire.definitions import standard_types
from quadsim.wire.payloads import Payloads

#: A gap is longer than so many median periods.
GAP_PERIODS = 3.0
#: With fewer messages nothing is called a gap: what comes on change has no period.
LEAST_FOR_GAPS = 10


class Listener(Protocol):
    """Who wants messages besides the one that reads."""

    @property
    def names(self) -> Collection[str]:
        """Full names of the topics."""

    def take(self, full: str, log_ns: Stamps, payloads: Payloads) -> None:
        """Take the next messages of one of them."""


class _Topic:
    """Stamps and log times of one topic."""

    def __init__(self, stamped: bool) -> None:
        self._stamped = stamped
        self._log_ns, self._stamp_ns = KeptRows(np.int64), KeptRows(np.int64)

    def note(self, log_ns: Stamps, payloads: Payloads) -> None:
        """Write down the next messages."""
        self._log_ns.append(log_ns)
        if self._stamped:  # the stamp lies behind the four bytes of CDR's header
            stamp_ns = np.zeros(len(payloads), np.int64)
            whole = payloads.length >= STAMP_END
            parts = payloads[whole].heads(STAMP_END - HEADER, HEADER).view("<u4").reshape(-1, 2)
            parts = parts.astype(np.int64)
            stamp_ns[whole] = parts[:, 0] * 1_000_000_000 + parts[:, 1]
            self._stamp_ns.append(stamp_ns)

    def arrivals(self) -> Arrivals:
        """Its figures."""
        return _arrivals(self._log_ns.whole(), self._stamp_ns.whole() if self._stamped else None)


class Overheard:
    """A bag of which every message is read while somebody reads some, to the end, once.

    Else it has what a :class:`~quadsim.bag.reading.Bag` has.

    Args:
        listener: gets its messages at the same time, in blocks.
    """

    def __init__(self, bag: Bag, listener: Listener) -> None:
        self._bag = bag
        self._listener = listener
        self._topics: dict[str, _Topic] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bag, name)

    def batches(self, topics: Collection[str]) -> Iterator[Batch]:
        """Messages of some topics in the order of their log time."""
        for batch in self._bag.batches(self._bag.counts):
            for full, _, rows in batch.by_topic():
                log_ns, payloads = batch.log_ns[rows], batch.payloads[rows]
                topic = self._topics.get(full)
                if topic is None:
                    first = next(iter(batch[rows[:1]]))
                    topic = self._topics[full] = _Topic(_is_stamped(self._bag, first))
                topic.note(log_ns, payloads)
                if full in self._listener.names:
                    self._listener.take(full, log_ns, payloads)
            wanted = np.array([name in topics for name, _ in batch.topics])
            yield batch[wanted[batch.topic]]

    def arrivals(self, namespace: str) -> dict[str, Arrivals]:
        """How each topic's messages came; names within a namespace are relative to it."""
        prefix = topic_of(namespace, "")
        found = {}
        for full, topic in sorted(self._topics.items()):
            name = full[len(prefix) :] if prefix != "/" and full.startswith(prefix) else full
            found[name] = topic.arrivals()
        return found


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
        stamp_ns: (N,) of each; None where the type has none.
    """
    latency_median_s = latency_p99_s = None
    if stamp_ns is not None:
        latency_s = np.zeros(len(log_ns))
        for rows in slices(len(log_ns)):
            latency_s[rows] = (log_ns[rows] - stamp_ns[rows]) * 1e-9
            give_back(log_ns, stamp_ns)
        latency_median_s = float(np.median(latency_s, overwrite_input=True))
        latency_p99_s = float(np.percentile(latency_s, 99.0, overwrite_input=True))
        del latency_s
    clock_ns = log_ns if stamp_ns is None else stamp_ns
    steps_ns = np.zeros(max(len(clock_ns) - 1, 0), np.int64)
    for rows in slices(len(steps_ns)):
        steps_ns[rows] = np.diff(clock_ns[rows.start : rows.stop + 1])
        give_back(clock_ns)
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
