"""One MCAP file of a bag, written as messages come, locked while it is."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import yaml
from mcap.records import Channel, Schema
from mcap.writer import CompressionType, Writer

from quadsim.bag.ending import end_in_place
from quadsim.bag.metadata import BagFacts, FileFacts, TopicFacts
from quadsim.wire.definitions import definition_of

#: Largest chunk as it is, and before it is compressed: a larger one packs better.
CHUNK_BYTES = 64 * 1024
COMPRESSED_CHUNK_BYTES = 512 * 1024

COMPRESSIONS = {"none": CompressionType.NONE, "zstd": CompressionType.ZSTD}

#: Name of the MCAP metadata record that holds the bag's custom data from the first byte on, so
#: that a bag whose recorder was killed still knows its scenario and seed.
CUSTOM_RECORD = "quadsim"


def lock(file: BinaryIO) -> bool:
    """Take the file for this process alone; False if another one holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class McapFile:
    """One MCAP file with rosbag2's conventions: profile ``ros2``, ``cdr``, ``ros2msg`` schemas."""

    def __init__(
        self,
        path: Path,
        custom: Mapping[str, str],
        library: str = "quadsim",
        compression: str = "none",
    ) -> None:
        self.path = path
        self.topics: dict[str, TopicFacts] = {}
        self.facts = FileFacts(path.name)
        self._channels: dict[str, Channel] = {}
        self._schemas: dict[str, Schema] = {}
        self.custom = dict(custom)
        self._told = dict(custom)  # what the file's first bytes say already
        self._file = path.open("x+b", buffering=0)
        lock(self._file)
        chunk_bytes = CHUNK_BYTES if compression == "none" else COMPRESSED_CHUNK_BYTES
        self._stream = _Whole(self._file)
        self._writer: Any = Writer(
            cast(IO[Any], self._stream), chunk_bytes, COMPRESSIONS[compression]
        )
        try:
            self._writer.start("ros2", library)
            if self.custom:
                self._writer.add_metadata(CUSTOM_RECORD, self.custom)
            self._stream.flush()
        except OSError:
            self.discard()
            raise
        self._flushed = self._file.tell()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._stream.tell())

    def add_topic(
        self, topic: str, type_name: str, qos: str, schema: tuple[str, str] | None = None
    ) -> None:
        """Make a topic known, with no message yet.

        Args:
            topic: full name.
            type_name: ``package/msg/Type``.
            qos: ``offered_qos_profiles`` as YAML; may be empty.
            schema: (encoding, text) of the type; None takes the standard definition.
        """
        text, type_hash = definition_of(type_name)
        encoding, text = schema if schema is not None else ("ros2msg" if text else "", text)
        if type_name not in self._schemas:
            content = text.encode()
            number = self._writer.register_schema(type_name, encoding, content)
            self._schemas[type_name] = Schema(
                id=number, data=content, encoding=encoding, name=type_name
            )
        about = {"offered_qos_profiles": qos, "topic_type_hash": type_hash}
        schema_id = self._schemas[type_name].id
        number = self._writer.register_channel(topic, "cdr", schema_id, about)
        self._channels[topic] = Channel(
            id=number, topic=topic, message_encoding="cdr", metadata=about, schema_id=schema_id
        )
        self.topics[topic] = TopicFacts(topic, type_name, qos, type_hash)

    def add(self, topic: str, stamp_ns: int, payload: bytes) -> None:
        """Append one serialised message of a known topic at its log time."""
        facts = self.topics[topic]
        self._writer.add_message(
            self._channels[topic].id, stamp_ns, payload, stamp_ns, facts.count & 0xFFFFFFFF
        )
        facts.count += 1
        self.facts.add(stamp_ns)

    def flush(self) -> None:
        """Hand everything to the operating system: from here a kill loses none of it."""
        self._writer.flush()
        self._flushed = self._file.tell()

    def bag(self) -> BagFacts:
        """What ``metadata.yaml`` would say of this file alone."""
        return BagFacts([self.facts], list(self.topics.values()), self.custom)

    def close(self) -> BagFacts:
        """Write index and summary, and synchronise; give what ``metadata.yaml`` says."""
        self.flush()
        if self.custom != self._told:
            self._writer.add_metadata(CUSTOM_RECORD, self.custom)
        self._writer.add_metadata(
            "rosbag2",
            {"serialized_metadata": yaml.safe_dump(self.bag().information(), sort_keys=False)},
        )
        self._writer.finish()
        self._stream.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self.bag()

    def end(self) -> BagFacts:
        """Close a file that can grow no more: as much is dropped as its index needs.

        Raises:
            OSError: even that cannot be written.
        """
        counts = end_in_place(
            self._file, self._flushed, list(self._schemas.values()), list(self._channels.values())
        )
        self._file.close()
        self.facts.start_ns, self.facts.end_ns = counts.start_ns, counts.end_ns
        self.facts.count = counts.total
        for topic, channel in self._channels.items():
            self.topics[topic].count = counts.messages.get(channel.id, 0)
        return self.bag()

    def abandon(self) -> None:
        """Close without index."""
        self._file.close()

    def discard(self) -> None:
        """Close and remove: nothing is lost with it."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class _Whole:
    """A raw file whose writes are whole or raise; what was not written is then not kept back."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting = bytearray()

    def write(self, data: bytes) -> int:
        """Gather: the records of one chunk go to the system together."""
        self._waiting += data
        if len(self._waiting) >= CHUNK_BYTES:
            self.flush()
        return len(data)

    def tell(self) -> int:
        """Where the next byte will lie."""
        return self._file.tell() + len(self._waiting)

    def flush(self) -> None:
        """Hand what has been gathered to the system.

        Raises:
            OSError: the disk takes no more.
        """
        waiting, self._waiting = memoryview(bytes(self._waiting)), bytearray()
        while waiting:
            waiting = waiting[self._file.write(waiting) :]
