"""What the files of a bag have in common, whatever their format."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.wire.payloads import Index, Payloads

#: No message is later.
END_OF_TIME_NS = 2**63 - 1
_AFTER_NS = END_OF_TIME_NS + 1
#: Messages that are handed on together: so many, or about so many bytes.
BLOCK, BLOCK_BYTES = 4096, 1 << 20


class BagMessage(NamedTuple):
    """One message as it lies in a bag: topic, type, log time (ns), CDR bytes."""

    topic: str
    type_name: str
    log_ns: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in a row.

    Attributes:
        topics: names and types.
        topic: (N,) of each message, the place of its topic in these.
        log_ns: (N,) rising log times.
        payloads: (N,) CDR bytes.
    """

    topics: tuple[tuple[str, str], ...]
    topic: NDArray[np.int64]
    log_ns: NDArray[np.int64]
    payloads: Payloads

    def __len__(self) -> int:
        return len(self.log_ns)

    def __getitem__(self, rows: Index) -> Batch:
        """Some of the messages."""
        return Batch(self.topics, self.topic[rows], self.log_ns[rows], self.payloads[rows])

    def __iter__(self) -> Iterator[BagMessage]:
        for k, at_ns, payload in zip(
            self.topic.tolist(), self.log_ns.tolist(), self.payloads, strict=True
        ):
            name, type_name = self.topics[k]
            yield BagMessage(name, type_name, at_ns, payload)

    def compact(self) -> Batch:
        """The same without the memory of messages that are not in it."""
        return Batch(self.topics, self.topic, self.log_ns, self.payloads.compact())

    def by_topic(self) -> Iterator[tuple[str, str, NDArray[np.intp]]]:
        """Name and type of each topic that has messages, and their rows."""
        for k in np.flatnonzero(np.bincount(self.topic)).tolist():
            yield *self.topics[k], np.flatnonzero(self.topic == k)

    @staticmethod
    def of(messages: Sequence[BagMessage]) -> Batch:
        """These messages."""
        known: dict[tuple[str, str], int] = {}
        topic = [known.setdefault(message[:2], len(known)) for message in messages]
        return Batch(
            tuple(known),
            np.array(topic, np.int64),
            np.array([message.log_ns for message in messages], np.int64),
            Payloads.of([message.payload for message in messages]),
        )

    @staticmethod
    def merged(parts: Sequence[Batch]) -> Batch:
        """Messages of several, in the order of their log times; of equal times as they are."""
        if len(parts) == 1:
            whole = parts[0]
        else:
            known: dict[tuple[str, str], int] = {}
            numbers = []
            for part in parts:
                if part.topics:
                    new = [known.setdefault(topic, len(known)) for topic in part.topics]
                    numbers.append(np.array(new, np.int64)[part.topic])
            whole = Batch(
                tuple(known),
                np.concatenate([np.zeros(0, np.int64), *numbers]),
                np.concatenate([part.log_ns for part in parts]),
                Payloads.joined([part.payloads for part in parts]),
            )
        if (whole.log_ns[1:] >= whole.log_ns[:-1]).all():
            return whole
        return whole[np.argsort(whole.log_ns, kind="stable")]


@dataclass(slots=True)
class StoredTopic:
    """A topic of one file.

    Attributes:
        name: full name.
        type_name: ``package/msg/Type``.
        count: messages.
        encoding: of the definition: ``ros2msg``, ``ros2idl``, or empty where the file has none.
        definition: text of the type's definition.
        qos_yaml: offered quality of service, as the file has it.
        type_hash: of the type, where the file has it.
    """

    name: str
    type_name: str
    count: int = 0
    encoding: str = ""
    definition: str = ""
    qos_yaml: str = ""
    type_hash: str = ""


class Storage(Protocol):
    """An open file of a bag. What it cannot read goes into ``notes``, once, when it is found."""

    topics: list[StoredTopic]
    custom: dict[str, str]
    start_ns: int
    end_ns: int

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order."""

    def close(self) -> None:
        """Let go of the file."""


def batched(messages: Iterable[BagMessage]) -> Iterator[Batch]:
    """Messages that come one by one, in batches."""
    waiting: list[BagMessage] = []
    size = 0
    for message in messages:
        waiting.append(message)
        size += len(message.payload)
        if len(waiting) == BLOCK or size >= BLOCK_BYTES:
            yield Batch.of(waiting)
            waiting, size = [], 0
    if waiting:
        yield Batch.of(waiting)


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same, read and unpacked one step ahead, while somebody works on the step before."""
    with ThreadPoolExecutor(1, "reading") as worker:
        coming = worker.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = worker.submit(next, batches, None)
            yield batch


class _Stream:
    """A stream that has begun: what of it was read and not yet given.

    Attributes:
        left: that.
        known_ns: what follows is not before this time.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self.left: Batch | None = None
        self.known_ns = -1
        self.read()

    def read(self) -> None:
        """Read on."""
        batch = next((batch for batch in self._batches if len(batch)), None)
        if batch is None:
            self.known_ns = _AFTER_NS
            return
        self.known_ns = int(batch.log_ns[-1])
        self.left = batch if self.left is None else Batch.merged([self.left.compact(), batch])

    def until(self, end_ns: int) -> list[Batch]:
        """Take out what is before a time, if there is something."""
        if self.left is None:
            return []
        count = len(self.left)
        if end_ns < _AFTER_NS:
            count = int(np.searchsorted(self.left.log_ns, end_ns))
        given, rest = self.left[:count], self.left[count:]
        self.left = rest if len(rest) else None
        return [given] if count else []

    def rest(self) -> Iterator[Batch]:
        """Take out all there is."""
        if self.left is not None:
            yield self.left
        yield from self._batches


def in_order(streams: Iterable[tuple[int, Callable[[], Iterator[Batch]]]]) -> Iterator[Batch]:
    """Streams that are in order each, as one: a stream is begun when its time has come.

    Args:
        streams: time of the first message, ns, and what gives the messages.
    """
    waiting = deque(sorted(streams, key=lambda stream: stream[0]))
    begun: list[_Stream] = []
    while begun or waiting:
        if len(begun) == 1 and not waiting:
            yield from begun[0].rest()
            return
        next_ns = waiting[0][0] if waiting else _AFTER_NS
        known_ns = min((stream.known_ns for stream in begun), default=_AFTER_NS)
        parts = [part for stream in begun for part in stream.until(min(next_ns, known_ns))]
        if parts:
            yield Batch.merged(parts)
        if waiting and next_ns <= known_ns:
            begun.append(_Stream(waiting.popleft()[1]()))
        else:
            for stream in begun:
                if stream.known_ns == known_ns < _AFTER_NS:
                    stream.read()
        begun = [stream for stream in begun if stream.left is not None]
