"""Ending an MCAP file on a disk that takes no more: the last chunks make room for the index.

A full disk, a quota and a limit on the size of files look alike from here: a write fails, and what
the file held before stays. So the file is cut behind a whole chunk, far enough back that the
summary fits where chunks were.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    MessageIndex,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
)

from quadsim.bag.mcap_records import MAGIC, RECORD_HEAD

#: What is left free behind the file, for ``metadata.yaml``; so much more is given up at each trial.
SPARE_BYTES = 128 * 1024
TRIALS = 5


@dataclass(slots=True)
class Kept:
    """What an ended file holds.

    Attributes:
        messages: number of a channel to its messages.
        start_ns, end_ns: first and last log time; 0 without a message.
    """

    messages: Counter[int] = field(default_factory=Counter)
    start_ns: int = 0
    end_ns: int = 0

    @property
    def total(self) -> int:
        """All messages."""
        return sum(self.messages.values())


@dataclass(slots=True)
class _Part:
    """A chunk: its entry in the index, messages by channel, where the next one begins."""

    index: ChunkIndex
    messages: Counter[int]
    end: int


def _records(file: Any, size: int) -> Iterator[tuple[int, int, bytes]]:
    """Offset, opcode and body of each whole record."""
    at = len(MAGIC)
    while at + RECORD_HEAD.size <= size:
        file.seek(at)
        opcode, length = RECORD_HEAD.unpack(file.read(RECORD_HEAD.size))
        end = at + RECORD_HEAD.size + length
        if end > size:
            return
        yield at, opcode, file.read(length)
        at = end


def _scan(file: Any, size: int, known: int) -> tuple[list[_Part], list[MetadataIndex]]:
    """The whole chunks and the metadata records in front of them.

    Behind ``known`` a chunk counts if another one begins behind it: the messages of the last one
    may not all have their entries.
    """
    parts: list[_Part] = []
    metadata: list[MetadataIndex] = []
    for at, opcode, body in _records(file, size):
        stream = ReadDataStream(BytesIO(body))
        end = at + RECORD_HEAD.size + len(body)
        if opcode == Opcode.CHUNK:
            chunk = Chunk.read(stream)
            index = ChunkIndex(
                chunk_length=end - at,
                chunk_start_offset=at,
                compression=chunk.compression,
                compressed_size=len(chunk.data),
                message_end_time=chunk.message_end_time,
                message_index_length=0,
                message_index_offsets={},
                message_start_time=chunk.message_start_time,
                uncompressed_size=chunk.uncompressed_size,
            )
            parts.append(_Part(index, Counter(), end))
        elif opcode == Opcode.MESSAGE_INDEX:
            found = MessageIndex.read(stream)
            part = parts[-1]
            part.index.message_index_offsets[found.channel_id] = at
            part.index.message_index_length += end - at
            part.messages[found.channel_id] += len(found.records)
            part.end = end
        elif opcode == Opcode.METADATA:
            if parts:
                break  # of an attempt to close the file
            metadata.append(MetadataIndex(at, end - at, Metadata.read(stream).name))
    if parts and parts[-1].end > known:
        parts.pop()
    return parts, metadata


def _size(index: ChunkIndex) -> int:
    """Bytes of one entry of the index."""
    builder = RecordBuilder()
    index.write(builder)
    return builder.count


def _kept(parts: Sequence[_Part]) -> Kept:
    kept = Kept()
    for part in parts:
        kept.messages += part.messages
    if parts:
        kept.start_ns = min(part.index.message_start_time for part in parts)
        kept.end_ns = max(part.index.message_end_time for part in parts)
    return kept


def _ending(
    start: int,
    parts: Sequence[_Part],
    metadata: Sequence[MetadataIndex],
    schemas: Sequence[Schema],
    channels: Sequence[Channel],
) -> bytes:
    """End of the data, summary, footer and magic of a file whose data end at ``start``."""
    kept = _kept(parts)
    builder = RecordBuilder()
    DataEnd(0).write(builder)
    summary_start = start + builder.count
    statistics = Statistics(
        attachment_count=0,
        channel_count=len(channels),
        channel_message_counts=dict(kept.messages),
        chunk_count=len(parts),
        message_count=kept.total,
        message_end_time=kept.end_ns,
        message_start_time=kept.start_ns,
        metadata_count=len(metadata),
        schema_count=len(schemas),
    )
    indexes = [part.index for part in parts]
    for record in (*schemas, *channels, statistics, *indexes, *metadata):
        record.write(builder)
    Footer(summary_start=summary_start, summary_offset_start=0, summary_crc=0).write(builder)
    return bytes(builder.end()) + MAGIC  # type: ignore[no-untyped-call]


def end_in_place(
    file: Any, known: int, schemas: Sequence[Schema], channels: Sequence[Channel]
) -> Kept:
    """Make a file that can grow no more a whole one; the last of its messages are given up.

    Args:
        file: raw, for reading and writing; its end may be the part of a record.
        known: so many bytes are known to be whole records.
        schemas, channels: all that its messages need.

    Returns:
        What it holds now.

    Raises:
        OSError: nothing can be written even where something was.
    """
    size = file.seek(0, os.SEEK_END)
    parts, metadata = _scan(file, size, known)
    data_start = max((entry.offset + entry.length for entry in metadata), default=known)
    sizes = [_size(part.index) for part in parts]
    least = len(_ending(0, [], metadata, schemas, channels)) + 10 * len(channels)
    spare = SPARE_BYTES
    for trial in range(1, TRIALS + 1):
        while parts and parts[-1].end + least + sum(sizes) + spare > size:
            parts.pop()
            sizes.pop()
        end = parts[-1].end if parts else data_start
        try:
            file.truncate(end)
            file.seek(end)
            left = memoryview(_ending(end, parts, metadata, schemas, channels))
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            if trial == TRIALS or not parts:
                raise
            spare += SPARE_BYTES  # somebody else has taken what was given up
        else:
            return _kept(parts)
    raise AssertionError("unreachable")
