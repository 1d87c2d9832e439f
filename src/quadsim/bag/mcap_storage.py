"""Reading one indexed MCAP file in the order of log times, in bounded memory, around damage.

The records are read by the library ``mcap``; the messages of a chunk are found here, because its
readers make an object of every message (30 000 a second) and replays take whole blocks of them.
In memory are a table of chunks (40 bytes each) and the chunks that overlap in time, of which a
recording has one or two.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import zstandard
from mcap.exceptions import McapError
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    Footer,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
)
from mcap.stream_reader import StreamReader, get_chunk_data_stream
from numpy.typing import NDArray

from quadsim.bag.storage import BLOCK_BYTES, MOST_BYTES, Batch, FileFacts, StoredTopic
from quadsim.bag.writer import CUSTOM_RECORD
from quadsim.base.errors import InputError
from quadsim.wire.payloads import Payloads

#: What a damaged record makes the libraries raise; lz4 raises RuntimeError.
DAMAGED = (McapError, zstandard.ZstdError, ValueError, RuntimeError, struct.error, MemoryError,
           OverflowError)  # fmt: skip
_FOOTER = struct.Struct("<BQQQI8s")  # opcode, length, summary, offsets, checksum, magic
_LENGTH, _RECORD_HEAD = struct.Struct("<Q"), 9  # of what follows the nine bytes of a head
#: How a message begins; no record is shorter.
_HEAD = np.dtype(
    [
        ("opcode", "u1"),
        ("length", "<i8"),
        ("channel", "<u2"),
        ("sequence", "<u4"),
        ("log_ns", "<i8"),
    ]
)
_MESSAGE = 5
_PAYLOAD_AT = _HEAD.itemsize + 8  # behind the publish time
_PAYLOAD_BYTES = _PAYLOAD_AT - _RECORD_HEAD  # of a record's length those before the payload
_END_OF_TIME_NS = 2**63 - 1


class NoIndexError(InputError):
    """A file that lacks an index, or has a damaged one."""


class _ChunkPlace(NamedTuple):
    start_ns: int
    end_ns: int
    offset: int
    channels: frozenset[int]


class _Wanted(NamedTuple):
    topics: tuple[tuple[str, str], ...]
    rows: NDArray[np.int64]  # (65536,) of each channel the place of its topic; -1: not wanted


class McapStorage:
    """An open MCAP file; see :class:`quadsim.bag.storage.BagFile`.

    Args:
        path: a file that was closed by its recorder (:func:`quadsim.bag.repair.is_whole`).
        notes: gets one line for each chunk that cannot be read.

    Raises:
        NoIndexError: its messages can only be found by reading all of it.
        InputError: it cannot be opened.
    """

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.custom: dict[str, str] = {}
        self.facts = FileFacts(path.name)
        self._notes = notes
        self._noted: set[int] = set()
        self._chunks: list[_ChunkPlace] = []
        self._channels: dict[int, StoredTopic] = {}
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            self._read_summary()
        except (*DAMAGED, OSError) as error:
            self._file.close()
            raise NoIndexError(f"{path}: has no sound index ({error})") from None
        self.facts.topics = list(self._channels.values())
        self._chunks.sort(key=lambda chunk: chunk.start_ns)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read_summary(self) -> None:
        """Topics and chunks from the file's end."""
        size = self._file.seek(-_FOOTER.size, 2) + _FOOTER.size
        _, _, start, _, checksum, _ = _FOOTER.unpack(self._file.read(_FOOTER.size))
        self._file.seek(start)
        summary = self._file.read(size - 12 - start)
        if not start or (checksum and zlib.crc32(summary) != checksum):
            raise ValueError("wrong checksum" if start else "it is not there")
        self._file.seek(start)
        schemas: dict[int, Schema] = {}
        known: dict[frozenset[int], frozenset[int]] = {}  # few sets, many chunks
        statistics, metadata = None, list[MetadataIndex]()
        for record in StreamReader(self._file, skip_magic=True).records:
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                self._channels[record.id] = stored_topic(record, schemas.get(record.schema_id))
            elif isinstance(record, ChunkIndex):
                channels = frozenset(record.message_index_offsets)
                self._chunks.append(
                    _ChunkPlace(
                        record.message_start_time,
                        min(record.message_end_time, _END_OF_TIME_NS),
                        record.chunk_start_offset,
                        known.setdefault(channels, channels),
                    )
                )
            elif isinstance(record, Statistics):
                statistics = record
            elif isinstance(record, MetadataIndex) and record.name == CUSTOM_RECORD:
                metadata.append(record)
            elif isinstance(record, Footer):
                break
        counts = {} if statistics is None else statistics.channel_message_counts
        if statistics is None or sum(counts.values()) != statistics.message_count:
            raise ValueError("the messages are not counted")
        if len(self._chunks) != statistics.chunk_count or (counts and not self._chunks):
            raise ValueError("not all chunks are in it")
        if not counts.keys() <= self._channels.keys():
            raise ValueError("not all channels are in it")
        for number, topic in self._channels.items():
            topic.count = counts.get(number, 0)
        self.facts.start_ns = statistics.message_start_time
        self.facts.end_ns = statistics.message_end_time
        for index in metadata:
            self._file.seek(index.offset)
            try:
                record = next(StreamReader(self._file, skip_magic=True).records)
                if isinstance(record, Metadata):
                    self.custom.update(record.metadata)
            except DAMAGED:
                words = "a record of its metadata is damaged: left out"
                self._notes.append(f"{self.facts.name}: {words}")

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order."""
        numbers = {k: topic for k, topic in self._channels.items() if topic.name in wanted}
        rows = np.full(1 << 16, -1, np.int64)
        rows[list(numbers)] = np.arange(len(numbers))
        topics = tuple((topic.name, topic.type_name) for topic in numbers.values())
        of_chunks = _Wanted(topics, rows)
        chosen = [
            chunk
            for chunk in self._chunks
            if chunk.end_ns >= start_ns
            and not (chunk.channels and chunk.channels.isdisjoint(numbers))
        ]
        next_ns = [chunk.start_ns for chunk in chosen[1:]] + [_END_OF_TIME_NS] * bool(chosen)
        held: list[Batch] = []  # what a later chunk may still come before
        size = 0
        for chunk, until_ns in zip(chosen, next_ns, strict=True):
            content = self._content(chunk)
            size += len(content)
            held.append(self._found(chunk, content, of_chunks))
            if size < BLOCK_BYTES and until_ns != _END_OF_TIME_NS:
                continue
            batch, size = Batch.merged(held), 0
            first, ready = np.searchsorted(batch.log_ns, (start_ns, until_ns)).tolist()
            ready = len(batch) if until_ns == _END_OF_TIME_NS else ready
            held = [batch[ready:].compact()] if ready < len(batch) else []
            if first < ready:
                yield batch[first:ready]
            del batch  # before the next chunk is read

    def _content(self, chunk: _ChunkPlace) -> bytes:
        """Records of a chunk, its checksum tested; empty where it is damaged."""
        self._file.seek(chunk.offset)
        try:
            record = next(StreamReader(self._file, skip_magic=True, emit_chunks=True).records)
            if not isinstance(record, Chunk):
                raise ValueError("no chunk where the index has one")
            size = record.uncompressed_size
            if record.compression == "zstd":
                size = max(size, zstandard.frame_content_size(record.data))
            if size > MOST_BYTES:
                raise ValueError(f"{size} bytes in one chunk, allowed: {MOST_BYTES}")
            stream, length = get_chunk_data_stream(record, validate_crc=True)
            return stream.read(length)
        except DAMAGED as error:
            self._note(chunk, f"{error or type(error).__name__}: left out")
            return b""

    def _found(self, chunk: _ChunkPlace, content: bytes, wanted: _Wanted) -> Batch:
        """Messages of some channels, as far as the records of a chunk are whole."""
        begins = []
        at, size, length_at = 0, len(content), _LENGTH.unpack_from
        while at <= size - _HEAD.itemsize and content[at]:  # no record has opcode 0
            begins.append(at)
            at += _RECORD_HEAD + length_at(content, at + 1)[0]
        if at != size:
            lost = size - (begins.pop() if at > size else at)
            self._note(chunk, f"{lost} bytes make no sense: left out")
        records = np.array(begins, np.int64)
        heads = Payloads(content, records, records).heads(_HEAD.itemsize).view(_HEAD)
        rows = wanted.rows[heads["channel"]]
        good = (heads["opcode"] == _MESSAGE) & (rows >= 0)
        return Batch(
            wanted.topics,
            rows[good],
            heads["log_ns"][good],
            Payloads(content, records[good] + _PAYLOAD_AT, heads["length"][good] - _PAYLOAD_BYTES),
        )

    def _note(self, chunk: _ChunkPlace, what: str) -> None:
        """Say once what of a chunk cannot be read."""
        if chunk.offset in self._noted:
            return
        self._noted.add(chunk.offset)
        first_s, last_s = (
            (time_ns - self.facts.start_ns) * 1e-9 for time_ns in (chunk.start_ns, chunk.end_ns)
        )
        self._notes.append(
            f"{self.facts.name}: damaged from {first_s:.3f} to {last_s:.3f} s"
            f" ({' '.join(what.split())})"
        )


def stored_topic(channel: Channel, schema: Schema | None) -> StoredTopic:
    """A topic with what its records say of it, and no message yet."""
    return StoredTopic(
        channel.topic,
        "" if schema is None else schema.name,
        0,
        "" if schema is None else schema.encoding,
        "" if schema is None else schema.data.decode(errors="replace"),
        channel.metadata.get("offered_qos_profiles", ""),
        channel.metadata.get("topic_type_hash", ""),
    )
