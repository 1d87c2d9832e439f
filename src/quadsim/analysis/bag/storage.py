"""What the files of a bag have in common, whatever their format."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: No message is later.
END_OF_TIME_NS = 2**63 - 1


class BagMessage(NamedTuple):
    """One message as it lies in a bag: topic, type, log time (ns), CDR bytes."""

    topic: str
    type_name: str
    log_ns: int
    payload: bytes


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

    def messages(self, wanted: Collection[str], start_ns: int) -> Iterator[BagMessage]:
        """Messages of some topics from a log time on, in its order."""

    def close(self) -> None:
        """Let go of the file."""


def in_order(
    streams: Iterable[tuple[int, Callable[[], Iterator[BagMessage]]]],
) -> Iterator[BagMessage]:
    """Streams that are in order each, as one: a stream is begun when its time has come.

    Args:
        streams: time of the first message, ns, and what gives the messages.
    """
    waiting = deque(sorted(streams, key=lambda stream: stream[0]))
    heap: list[tuple[int, int, BagMessage, Iterator[BagMessage]]] = []
    begun = 0
    while heap or waiting:
        limit_ns = waiting[0][0] if waiting else END_OF_TIME_NS + 1
        if not heap or heap[0][0] >= limit_ns:
            stream = waiting.popleft()[1]()
            begun += 1
            first = next(stream, None)
            if first is not None:
                heapq.heappush(heap, (first.log_ns, begun, first, stream))
            continue
        _, order, message, stream = heapq.heappop(heap)
        yield message
        until_ns = min(limit_ns, heap[0][0]) if heap else limit_ns
        for message in stream:
            if message.log_ns >= until_ns:
                heapq.heappush(heap, (message.log_ns, order, message, stream))
                break
            yield message
