"""What the files of a bag have in common, whatever their format."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.wire.payloads import Index, Payloads

#: Messages that are handed on together: so many, or about so many bytes.
BLOCK, BLOCK_BYTES = 4096, 1 << 20
#: Most bytes that a chunk, or a message that is compressed by itself, may become: a few hundred
#: kilobytes can say gigabytes. Recorders write chunks of a few megabytes.
MOST_BYTES = 1 << 28


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
    def joined(parts: Sequence[Batch]) -> Batch:
        """Messages of several, one behind the other."""
        known: dict[tuple[str, str], int] = {}
        numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        for part in (part for part in parts if part.topics):
            new = [known.setdefault(topic, len(known)) for topic in part.topics]
            numbers.append(np.array(new, np.int64)[part.topic])
        return Batch(
            tuple(known),
            np.concatenate(numbers),
            np.concatenate([part.log_ns for part in parts]),
            Payloads.joined([part.payloads for part in parts]),
        )

    @staticmethod
    def merged(parts: Sequence[Batch]) -> Batch:
        """The same in the order of their log times; of equal times as they are."""
        whole = Batch.joined(parts)
        if (whole.log_ns[1:] >= whole.log_ns[:-1]).all():
            return whole
        return whole[np.argsort(whole.log_ns, kind="stable")]


def printable(text: str) -> str:
    """A text of a file without what moves a terminal."""
    return "".join(letter for letter in text if letter.isprintable())


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


@dataclass(slots=True)
class FileFacts:
    """What a file of a bag holds: its name in the folder, topics, first and last log time (ns)."""

    name: str
    topics: list[StoredTopic] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0

    @property
    def count(self) -> int:
        """Messages of all topics."""
        return sum(topic.count for topic in self.topics)


class BagFile(Protocol):
    """An open file of a bag. What it cannot read goes into ``notes``, once, when it is found."""

    facts: FileFacts
    custom: dict[str, str]

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


def in_order(
    storages: Iterable[BagFile], wanted: Collection[str], start_ns: int
) -> Iterator[Batch]:
    """Messages of several files in the order of their log times."""
    ordered = sorted(storages, key=lambda storage: storage.facts.start_ns)
    facts = [storage.facts for storage in ordered]
    if all(before.end_ns <= after.start_ns for before, after in pairwise(facts)):
        for storage in ordered:
            yield from storage.batches(wanted, start_ns)
        return
    streams = [_from_start(storage, wanted, start_ns) for storage in ordered]
    merged = heapq.merge(*streams, key=lambda message: message.log_ns)
    yield from batched(message for message in merged if message.topic)


def _from_start(storage: BagFile, wanted: Collection[str], start_ns: int) -> Iterator[BagMessage]:
    """Messages of a file behind a mark at its start, which keeps it unread until its time."""
    yield BagMessage("", "", storage.facts.start_ns, b"")
    yield from chain.from_iterable(storage.batches(wanted, start_ns))
