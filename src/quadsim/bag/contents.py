"""What an open bag holds: its topics and types, and its messages as a stream."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from rosbags.serde import SerdeError
from rosbags.typesys import (
    Stores,
    TypesysError,
    get_types_from_idl,
    get_types_from_msg,
    get_typestore,
)
from rosbags.typesys.store import Typestore

from quadsim.bag.folder import Opened
from quadsim.bag.mcap_records import zstd_unpacked
from quadsim.bag.storage import BLOCK, BagMessage, Batch, StoredTopic, in_order
from quadsim.base.errors import InputError, QuadsimError
from quadsim.wire.definitions import standard_types
from quadsim.wire.payloads import Payloads

__all__ = ["BLOCK", "Bag"]

#: What a message that does not fit its type makes rosbags raise.
_UNREADABLE = (
    SerdeError,
    TypesysError,
    struct.error,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AssertionError,
    EOFError,
    RuntimeError,
)
#: How a message begins that rosbag2 compressed by itself; one in CDR begins with a zero.
_ZSTD = b"\x28\xb5\x2f\xfd"
#: Messages that were compressed by themselves are handed on when they have become so many bytes.
_PART_BYTES = 1 << 26


class Bag:
    """An open bag; see :func:`quadsim.bag.reading.open_bag`.

    Attributes:
        path: what was asked for.
        notes: what was done to it when it was opened (repairs), and what of it cannot be read;
            damage that only reading finds is added when it is met.
        custom: data of its recorder.
    """

    def __init__(self, path: Path, opened: Opened) -> None:
        self.path = path
        self.notes = opened.notes
        self.custom = opened.custom
        self._storages = opened.storages
        self._types: Typestore | None = None
        self._topics: dict[str, StoredTopic] = {}
        self._mixed: set[str] = set()  # topics of several types
        for storage in self._storages:
            for stored in storage.topics:
                self._add(stored)
        self._name_unknown_types()

    @property
    def types(self) -> dict[str, str]:
        """Topic to type name."""
        return {name: stored.type_name for name, stored in self._topics.items()}

    @property
    def counts(self) -> dict[str, int]:
        """Topic to number of messages, as the files' own index states it."""
        return {name: stored.count for name, stored in self._topics.items()}

    @property
    def qos(self) -> dict[str, str]:
        """Topic to offered quality of service, YAML; empty where the bag does not say."""
        return {name: stored.qos_yaml for name, stored in self._topics.items()}

    @property
    def duration_s(self) -> float:
        """Time between the first and the last message, by log time, s."""
        filled = [s for s in self._storages if any(stored.count for stored in s.topics)]
        start_ns = min((storage.start_ns for storage in filled), default=0)
        return max(0, max((storage.end_ns for storage in filled), default=0) - start_ns) * 1e-9

    def messages(self, topics: Collection[str], start_ns: int = 0) -> Iterator[BagMessage]:
        """Messages of some topics one by one; arguments and errors as of :meth:`batches`."""
        for batch in self.batches(topics, start_ns):
            yield from batch
            del batch  # before the next one is read

    def batches(self, topics: Collection[str], start_ns: int = 0) -> Iterator[Batch]:
        """Messages of some topics in the order of their log time, in bounded memory.

        Args:
            topics: full names.
            start_ns: log time of the first one wanted.

        Raises:
            InputError: a file can no longer be read.
        """
        wanted = frozenset(topics) & self._topics.keys()
        streams = [
            (max(storage.start_ns, start_ns), partial(storage.batches, wanted, start_ns))
            for storage in self._storages
            if any(stored.name in wanted for stored in storage.topics)
        ]
        bad = 0
        try:
            for batch in in_order(streams):
                for sound, damaged in self._sound(batch):
                    bad += damaged
                    if len(sound):
                        yield sound
                    del sound  # before the next one is read
                del batch
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error
        if bad:
            self.notes.append(
                f"{self.path}: {bad} compressed messages are damaged or too large: left out"
            )

    def _sound(self, batch: Batch) -> Iterator[tuple[Batch, int]]:
        """A batch without messages of a topic's second type, and with all unpacked.

        In parts, where much comes out of what was compressed. Also how many could not be unpacked.
        """
        if self._mixed:
            right = [self._topics[name].type_name == kind for name, kind in batch.topics]
            batch = batch[np.array(right)[batch.topic]]
        long = np.flatnonzero(batch.payloads.length >= len(_ZSTD))
        packed = long[batch.payloads[long].heads(len(_ZSTD)) == np.void(_ZSTD)]
        if not len(packed):
            yield batch, 0
            return
        is_packed = np.zeros(len(batch), bool)
        is_packed[packed] = True
        payloads: list[bytes | None] = []
        size = 0
        for row, payload in enumerate(batch.payloads):
            payloads.append(_decompressed(payload) if is_packed[row] else payload)
            size += len(payloads[-1] or b"")
            if size >= _PART_BYTES or row == len(batch) - 1:
                yield _whole(batch[row + 1 - len(payloads) : row + 1], payloads)
                payloads, size = [], 0

    def deserialize(self, message: BagMessage) -> Any:
        """Turn one message into an object, by the definitions the bag carries.

        Raises:
            QuadsimError: the bag does not say what the type is, or the message does not fit it.
        """
        try:
            return self.typestore.deserialize_cdr(message.payload, message.type_name)
        except _UNREADABLE as error:
            raise QuadsimError(
                f"{self.path}: {message.topic}: not a {message.type_name} ({_reason(error)})"
            ) from error

    def first(self, topic: str) -> Any:
        """First message of a topic, deserialised; None if there is none."""
        for message in self.messages([topic]):
            return self.deserialize(message)
        return None

    @property
    def typestore(self) -> Typestore:
        """The types of the bag's topics: by its own definitions, else the standard ones."""
        if self._types is None:
            found: dict[str, Any] = dict(standard_types().fielddefs)
            for stored in self._topics.values():
                found.update(_definitions(stored))
            self._types = get_typestore(Stores.EMPTY)
            self._types.register(found)
        return self._types

    def _add(self, stored: StoredTopic) -> None:
        known = self._topics.get(stored.name)
        if known is None:
            self._topics[stored.name] = StoredTopic(
                stored.name,
                stored.type_name,
                stored.count,
                stored.encoding,
                stored.definition,
                stored.qos_yaml,
                stored.type_hash,
            )
            return
        if known.type_name != stored.type_name:
            self._mixed.add(stored.name)
            self.notes.append(
                f"{self.path}: {stored.name} is {known.type_name} and {stored.type_name};"
                f" {stored.count} messages of the second left out"
            )
            return
        known.count += stored.count
        if not known.definition:
            known.encoding, known.definition = stored.encoding, stored.definition

    def _name_unknown_types(self) -> None:
        bare = {stored.type_name for stored in self._topics.values() if not stored.definition}
        unknown = sorted(bare - standard_types().fielddefs.keys()) if bare else []
        if unknown:
            self.notes.append(
                f"{self.path}: types that neither the bag nor ROS defines, not decoded:"
                f" {', '.join(name or 'one without a name' for name in unknown)}"
            )


def _whole(batch: Batch, payloads: list[bytes | None]) -> tuple[Batch, int]:
    """A batch with other payloads, without those that are None, and how many these are."""
    good = np.array([payload is not None for payload in payloads])
    whole = Payloads.of([payload or b"" for payload in payloads])
    unpacked = Batch(batch.topics, batch.topic, batch.log_ns, whole)
    return unpacked[np.flatnonzero(good)], int((~good).sum())


def _decompressed(payload: bytes) -> bytes | None:
    """One message that was compressed by itself; the frame need not state its size.

    None where it is damaged, or larger than any message.
    """
    try:
        return zstd_unpacked(payload)
    except (zstandard.ZstdError, ValueError, MemoryError):
        return None


def _definitions(stored: StoredTopic) -> dict[str, Any]:
    try:
        if stored.encoding == "ros2msg":
            return dict(get_types_from_msg(stored.definition, stored.type_name))
        if stored.encoding in ("ros2idl", "omgidl"):
            return dict(get_types_from_idl(stored.definition))
    except _UNREADABLE:
        return {}  # reading the topic then says that its type is not known
    return {}


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
