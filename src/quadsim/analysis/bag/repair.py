"""Making a cut or damaged bag whole: what can be read is kept, the rest is counted and named."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, McapRecord, Message, Metadata, Schema
from mcap.stream_reader import CRCValidationError, breakup_chunk

from quadsim.analysis.bag.metadata import FILE_NAME, BagFacts, FileFacts, TopicFacts
from quadsim.analysis.bag.writer import CUSTOM_RECORD, McapFile, lock
from quadsim.errors import InputError

MAGIC = b"\x89MCAP0\r\n"
_RECORD_HEAD = struct.Struct("<BQ")  # opcode, length of what follows
#: Opcode, (length, times, size, checksum), length of the compression's name, (size of the records).
_CHUNK_HEAD = struct.Struct("<B36xI8x")
_UNREADABLE = (CRCValidationError, McapError, ValueError, RuntimeError, struct.error)


@dataclass(frozen=True)
class Repair:
    """What was done to a bag.

    Attributes:
        path: the file that was written anew, or the folder that got a ``metadata.yaml``.
        messages: how many messages it holds now.
        lost_bytes: bytes of the old file that could not be read.
        damaged_chunks: chunks dropped because their checksum was wrong.
    """

    path: Path
    messages: int
    lost_bytes: int
    damaged_chunks: int

    def __str__(self) -> str:
        if not self.lost_bytes and not self.damaged_chunks:
            return f"{self.path}: not closed by its recorder; made whole, {self.messages} messages"
        damaged = f", {self.damaged_chunks} damaged chunks dropped" if self.damaged_chunks else ""
        return (
            f"{self.path}: cut short; repaired, {self.messages} messages kept,"
            f" {self.lost_bytes} bytes lost{damaged}"
        )


def is_whole(path: Path) -> bool:
    """Whether an MCAP file was closed: it ends with the magic bytes."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return False
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(MAGIC)))
        return size > 2 * len(MAGIC) and file.read() == MAGIC


def _whole_records(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Opcode and body of each record before ``end``; stops in front of one that is not whole."""
    while True:
        start = file.tell()
        head = file.read(_RECORD_HEAD.size)
        opcode, length = _RECORD_HEAD.unpack(head) if len(head) == _RECORD_HEAD.size else (0, 0)
        if opcode == 0 or length > end - file.tell():  # 0 is no opcode: a tail of zeros
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
    """Reads the records of an MCAP file as far as it goes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self.lost_bytes = 0
        self.damaged_chunks = 0

    def records(self) -> Iterator[McapRecord]:
        """Schemas, channels, messages and metadata, up to the first byte that makes no sense."""
        for opcode, body in _whole_records(self._file, self._size):
            if opcode == Opcode.DATA_END:
                return  # only the index was cut
            try:
                record = _parsed(opcode, body)
                if isinstance(record, Chunk):
                    yield from breakup_chunk(record, validate_crc=True)
                elif record is not None:
                    yield record
            except _UNREADABLE:
                self.damaged_chunks += 1
        yield from self._cut_chunk()
        self.lost_bytes = self._size - self._file.tell()

    def _cut_chunk(self) -> Iterator[McapRecord]:
        """Whole messages at the start of an uncompressed chunk that the cut went through."""
        start = self._file.tell()
        head = self._file.read(_CHUNK_HEAD.size)
        opcode, name_length = _CHUNK_HEAD.unpack(head) if len(head) == _CHUNK_HEAD.size else (0, 1)
        if opcode != Opcode.CHUNK or name_length:  # a name of a compression: not to be had in part
            self._file.seek(start)
            return
        for kind, body in _whole_records(self._file, self._size):
            record = _parsed(kind, body)
            if record is not None:
                yield record


@contextmanager
def _taken(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if not lock(file):
            raise InputError(f"{path}: is being recorded; wait until its recorder has ended")
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
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    return writer.facts.count


def _add_topic(writer: McapFile, channel: Channel, schema: Schema | None) -> None:
    if channel.topic in writer.topics:
        return
    text = None if schema is None else (schema.encoding, schema.data.decode())
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
    files = sorted(bag.glob("*.mcap"))
    if not files:
        raise InputError(f"{bag}: holds no .mcap file, so there is nothing to repair")
    done = [repair_file(path) for path in files if not is_whole(path)]
    if done or not (bag / FILE_NAME).is_file():
        facts = _facts(files)
        facts.write(bag)
        if not done:
            done.append(Repair(bag, sum(file.count for file in facts.files), 0, 0))
    return done


def _facts(paths: list[Path]) -> BagFacts:
    """What ``metadata.yaml`` has to say, from the summaries of whole files."""
    from mcap.reader import make_reader

    files = []
    topics: dict[str, TopicFacts] = {}
    custom: dict[str, str] = {}
    for path in paths:
        with path.open("rb") as stream:
            reader = make_reader(stream)
            summary = reader.get_summary()
            statistics = None if summary is None else summary.statistics
            if summary is None or statistics is None:
                raise InputError(f"{path}: has no summary; record or convert it again")
            files.append(
                FileFacts(
                    path.name,
                    statistics.message_start_time,
                    statistics.message_end_time,
                    statistics.message_count,
                )
            )
            for number, channel in summary.channels.items():
                schema = summary.schemas.get(channel.schema_id)
                facts = topics.setdefault(
                    channel.topic,
                    TopicFacts(
                        channel.topic,
                        "" if schema is None else schema.name,
                        channel.metadata.get("offered_qos_profiles", ""),
                        channel.metadata.get("topic_type_hash", ""),
                    ),
                )
                facts.count += statistics.channel_message_counts.get(number, 0)
            for record in reader.iter_metadata():
                if record.name == CUSTOM_RECORD:
                    custom.update(record.metadata)
    return BagFacts(files, list(topics.values()), custom)
