"""What an open bag holds: its topics and types, and its messages as a stream."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
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

from quadsim.bag.storage import (
    MOST_BYTES,
    BagFile,
    BagMessage,
    Batch,
    StoredTopic,
    in_order,
    printable,
)
from quadsim.base.errors import InputError, QuadsimError
from quadsim.wire.definitions import standard_types
from quadsim.wire.payloads import Payloads

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


@dataclass(slots=True)
class Opened:
    """The files of a bag, open, and what is known of them.

    Attributes:
        storages: at least one.
        notes: what was done, and what cannot be read.
        custom: the recorder's own data.
        unread: what of a log no topic of ours takes, with numbers of messages.
    """

    storages: list[BagFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    custom: dict[str, str] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)


class Bag:
    """An open bag; see :func:`quadsim.bag.reading.open_bag`.

    Attributes:
        path: what was asked for.
        notes: what was done to it when it was opened (repairs), and what of it cannot be read;
            damage that only reading finds is added when it is met.
        custom: data of its recorder.
        unread: what of a log no topic of ours takes: messages, or ``message.field``, to numbers of
            messages.
    """

    def __init__(self, path: Path, opened: Opened) -> None:
        self.path = path
        self.notes = opened.notes
        self.custom = opened.custom
        self.unread = opened.unread
        self._storages = opened.storages
        self._types: Typestore | None = None
        self._topics: dict[str, StoredTopic] = {}
        self._mixed: set[str] = set()  # topics of several types
        for storage in self._storages:
            for stored in storage.facts.topics:
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
        filled = [storage.facts for storage in self._storages if storage.facts.count]
        start_ns = min((facts.start_ns for facts in filled), default=0)
        return max(0, max((facts.end_ns for facts in filled), default=0) - start_ns) * 1e-9

    def messages(self, topics: Collection[str], start_ns: int = 0) -> Iterator[BagMessage]:
        """Messages of some topics one by one; arguments and errors as of :meth:`batches`."""
        for batch in self.batches(topics, start_ns):
            yield from batch
            del batch  # before the next one is read

    def batches(self, topics: Collection[str], start_ns: int = 0) -> Iterator[Batch]:
        """Messages of some topics in the order of their log time, in bounded memory.

        Args:
            start_ns: log time of the first one wanted.

        Raises:
            InputError: a file can no longer be read.
        """
        wanted = frozenset(topics) & self._topics.keys()
        storages = [s for s in self._storages if wanted & {t.name for t in s.facts.topics}]
        bad = 0
        try:
            for batch in in_order(storages, wanted, start_ns):
                sound = self._sound(batch)
                bad += len(batch) - len(sound)
                if len(sound):
                    yield sound
                del batch, sound  # before the next one is read
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error
        if bad:
            self.notes.append(
                f"{self.path}: {bad} messages of another type, too large or damaged: left out"
            )

    def _sound(self, batch: Batch) -> Batch:
        """A batch without messages of a topic's second type, and with all unpacked."""
        if self._mixed:
            right = [self._topics[name].type_name == kind for name, kind in batch.topics]
            batch = batch[np.array(right)[batch.topic]]
        long = np.flatnonzero(batch.payloads.length >= len(_ZSTD))
        if not (batch.payloads[long].heads(len(_ZSTD)) == np.void(_ZSTD)).any():
            return batch
        unpacked = [_decompressed(payload) for payload in batch.payloads]
        good = np.flatnonzero([payload is not None for payload in unpacked])
        whole = Payloads.of([payload or b"" for payload in unpacked])
        return Batch(batch.topics, batch.topic, batch.log_ns, whole)[good]

    def deserialize(self, message: BagMessage) -> Any:
        """Turn one message into an object, by the definitions the bag carries.

        Raises:
            QuadsimError: the bag does not say what the type is, or the message does not fit it.
        """
        try:
            return self.typestore.deserialize_cdr(message.payload, message.type_name)
        except _UNREADABLE as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise QuadsimError(
                f"{self.path}: {message.topic}: not a {message.type_name} ({why})"
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
            self._topics[stored.name] = replace(stored)
            return
        if known.type_name != stored.type_name:
            self._mixed.add(stored.name)
            self.notes.append(
                f"{self.path}: {stored.name} is {known.type_name} and"
                f" {printable(stored.type_name)}; {stored.count} messages of the second left out"
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
                f" {', '.join(printable(name) or 'one without a name' for name in unknown)}"
            )


def _decompressed(payload: bytes) -> bytes | None:
    """A message as it is, or unpacked, if it was compressed by itself.

    None where it is damaged, or larger than any message. The frame need not state its size.
    """
    if not payload.startswith(_ZSTD):
        return payload
    try:
        whole = zstandard.ZstdDecompressor().stream_reader(payload).read(MOST_BYTES + 1)
    except (zstandard.ZstdError, MemoryError):
        return None
    return whole if len(whole) <= MOST_BYTES else None


def _definitions(stored: StoredTopic) -> dict[str, Any]:
    try:
        if stored.encoding == "ros2msg":
            return dict(get_types_from_msg(stored.definition, stored.type_name))
        if stored.encoding in ("ros2idl", "omgidl"):
            return dict(get_types_from_idl(stored.definition))
    except _UNREADABLE:
        return {}  # reading the topic then reports an unknown type
    return {}
