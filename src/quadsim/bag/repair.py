"""Making a cut or damaged bag whole: what can be read is kept, the rest is counted and named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, McapRecord, Message, Metadata, Schema
from mcap.stream_reader import breakup_chunk

from quadsim.bag.mcap_records import CHUNK_HEAD, DAMAGED, MAGIC, RECORD_HEAD, next_chunk
from quadsim.bag.mcap_storage import McapStorage
from quadsim.bag.metadata import (
    DISTRIBUTION,
    FILE_NAME,
    BagFacts,
    FileFacts,
    TopicFacts,
    stated,
)
from quadsim.bag.writer import CUSTOM_RECORD, McapFile, lock
from quadsim.base.errors import InputError

#: A chunk's head with no name of a compression, and the size of its records.
_PLAIN_HEAD_BYTES = CHUNK_HEAD.size + 8


@dataclass(frozen=True)
class Repair:
    """What was done to a bag.

    Attributes:
        path: the file that was written anew, or the folder that got a ``metadata.yaml``.
        messages: how many messages it holds now.
        lost_bytes: bytes of the old file that could not be read.
        damaged_chunks: places that were left out: chunks with a wrong checksum, rows of a database.
    """

    path: Path
    messages: int
    lost_bytes: int
    damaged_chunks: int

    def __str__(self) -> str:
        if not self.lost_bytes and not self.damaged_chunks:
            return f"{self.path}: not closed by its recorder; made whole, {self.messages} messages"
        lost = f", {self.lost_bytes} bytes lost" if self.lost_bytes else ""
        damaged = f", {self.damaged_chunks} damaged places left out" if self.damaged_chunks else ""
        return f"{self.path}: cut short; repaired, {self.messages} messages kept{lost}{damaged}"


class BeingRecorded(InputError):
    """A bag that has not ended yet."""


def is_whole(path: Path) -> bool:
    """Whether an MCAP file was closed: it ends with the magic bytes.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(MAGIC)))
            return size > 2 * len(MAGIC) and file.read() == MAGIC
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _whole_records(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Opcode and body of each record before ``end``; stops in front of one that is not whole."""
    while True:
        start = file.tell()
        head = file.read(RECORD_HEAD.size)
        opcode, length = RECORD_HEAD.unpack(head) if len(head) == RECORD_HEAD.size else (0, 0)
        if not 0 < opcode <= Opcode.DATA_END or length > end - file.tell():
            file.seek(start)
            return
        yield opcode, file.read(length)


#: Readers of the kinds of records that a repair keeps.
_KINDS: dict[int, Callable[[ReadDataStream], McapRecord]] = {
    Opcode.CHUNK: Chunk.read,
    Opcode.CHANNEL: Channel.read,
    Opcode.SCHEMA: Schema.read,
    Opcode.METADATA: Metadata.read,
}


def _parsed(opcode: int, body: bytes) -> McapRecord | None:
    """A record of the kinds that a repair keeps; None for others."""
    stream = ReadDataStream(BytesIO(body))
    if opcode == Opcode.MESSAGE:
        return cast(McapRecord, Message.read(stream, len(body)))
    return _KINDS[opcode](stream) if opcode in _KINDS else None


class _Salvage:
    """Reads the records of an MCAP file, around what makes no sense."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self.lost_bytes = 0
        self.damaged_chunks = 0

    def records(self) -> Iterator[McapRecord]:
        """Schemas, channels, messages and metadata, of all that can be read."""
        while True:
            for opcode, body in _whole_records(self._file, self._size):
                if opcode == Opcode.DATA_END:
                    return  # only the index was cut
                try:
                    record = _parsed(opcode, body)
                    if isinstance(record, Chunk):
                        yield from breakup_chunk(record, validate_crc=True)
                    elif record is not None:
                        yield record
                except DAMAGED:
                    self.damaged_chunks += 1
            if not self._goes_on():
                self.lost_bytes += self._size - self._file.tell()
                return

    def _goes_on(self) -> bool:
        """Whether there is more behind what is no whole record; the file is then there.

        The records of an uncompressed chunk that a cut goes through are read one by one.
        """
        start = self._file.tell()
        head = self._file.read(_PLAIN_HEAD_BYTES)
        opcode, name_length = 0, 1
        if len(head) == _PLAIN_HEAD_BYTES:
            opcode, *_, name_length = CHUNK_HEAD.unpack_from(head)
        if opcode == Opcode.CHUNK and not name_length:
            return True
        found = next_chunk(self._file, start + 1, self._size)
        self._file.seek(start if found is None else found)
        if found is None:
            return False
        self.lost_bytes += found - start
        self.damaged_chunks += 1
        return True


@contextmanager
def _taken(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if not lock(file):
            raise BeingRecorded(f"{path}: is being recorded; wait until its recorder has ended")
        yield file


def repair_file(path: Path, target: Path | None = None) -> Repair:
    """Write a whole MCAP file from what can be read of a cut one.

    Args:
        path: the cut file.
        target: where the whole one goes; None replaces ``path`` (by a rename, once it is ready).

    Raises:
        InputError: nothing can be read, it is being recorded, or the folder cannot be written.
    """
    target = target or path
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with _taken(path) as file:
            size = path.stat().st_size
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{path}: not an MCAP file")
            salvage = _Salvage(file, size)
            messages = _copy(salvage, temporary, target.name)
            temporary.replace(target)
            return Repair(target, messages, salvage.lost_bytes, salvage.damaged_chunks)
    except OSError as error:
        raise InputError(f"{target}: cannot be repaired ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def _copy(salvage: _Salvage, temporary: Path, name: str) -> int:
    """Copy what is left of a file into a new one; give the number of messages."""
    records = salvage.records()
    custom: dict[str, str] = {}
    held: list[McapRecord] = []
    for record in records:  # custom data must be known before the file is opened
        if isinstance(record, Metadata):
            if record.name == CUSTOM_RECORD:
                custom = record.metadata
        else:
            held.append(record)
        if isinstance(record, Message):
            break
    writer = McapFile(temporary, custom, library="quadsim repair")
    writer.facts.name = name
    try:
        schemas: dict[int, Schema] = {}
        topics: dict[int, str] = {}
        for source in (held, records):
            for record in source:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel) and record.id not in topics:
                    topics[record.id] = record.topic
                    _add_topic(writer, record, schemas.get(record.schema_id))
                elif isinstance(record, Message) and record.channel_id in topics:
                    writer.add(topics[record.channel_id], record.log_time, record.data)
                elif isinstance(record, Metadata) and record.name == CUSTOM_RECORD:
                    writer.custom.update(record.metadata)  # what was known only at the end
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    return writer.facts.count


def _add_topic(writer: McapFile, channel: Channel, schema: Schema | None) -> None:
    if channel.topic in writer.topics:
        return
    text = None if schema is None else (schema.encoding, schema.data.decode(errors="replace"))
    type_name = "" if schema is None else schema.name
    qos = channel.metadata.get("offered_qos_profiles", "")
    writer.add_topic(channel.topic, type_name, qos, text)


def repair(bag: Path) -> list[Repair]:
    """Make a bag whole where it is not: cut MCAP files, a missing ``metadata.yaml``.

    Args:
        bag: a rosbag2 folder with MCAP files.

    Returns:
        What was done; nothing for a bag that is whole.

    Raises:
        InputError: the bag is missing, empty, being recorded, or nothing of it can be read.
    """
    if not bag.is_dir():
        raise InputError(f"{bag}: no such bag folder")
    files = sorted(path for path in bag.glob("*.mcap") if path.is_file())
    if not files:
        raise InputError(f"{bag}: holds no .mcap file, so there is nothing to repair")
    done = [repair_file(path) for path in files if not is_whole(path)]
    if done or not (bag / FILE_NAME).is_file():
        facts = _facts(files, bag)
        facts.write(bag)
        if not done:
            done.append(Repair(bag, sum(file.count for file in facts.files), 0, 0))
    return done


def _facts(paths: list[Path], bag: Path) -> BagFacts:
    """What ``metadata.yaml`` has to say of whole files, and what only the old one knows."""
    files = []
    topics: dict[str, TopicFacts] = {}
    try:
        old = stated(bag)
    except ValueError:
        old = None
    custom = {} if old is None else dict(old.custom)
    for path in paths:
        storage = McapStorage(path, [])
        storage.close()
        count = sum(stored.count for stored in storage.topics)
        files.append(FileFacts(path.name, storage.start_ns, storage.end_ns, count))
        custom.update(storage.custom)
        for stored in storage.topics:
            facts = topics.setdefault(
                stored.name,
                TopicFacts(stored.name, stored.type_name, stored.qos_yaml, stored.type_hash),
            )
            facts.count += stored.count
    distribution = old.distribution if old is not None else ""
    return BagFacts(files, list(topics.values()), custom, distribution or DISTRIBUTION)
