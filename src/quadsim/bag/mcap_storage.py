"""Reading one MCAP file: in order, in bounded memory, around what is damaged.

Memory: a table of chunks, 40 bytes each, and chunks of about a megabyte together, with those that
overlap them in time (one or two in a recording). rosbags holds an index of every channel of every
chunk, gives up at the first damaged chunk, and refuses messages outside of chunks that are not in
order, as rosbag2's preset ``fastwrite`` writes them.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from mcap.opcode import Opcode
from mcap.records import Channel, Footer, Metadata, MetadataIndex, Schema, Statistics
from numpy.typing import NDArray

from quadsim.bag.mcap_records import (
    DAMAGED,
    MAGIC,
    MESSAGE_HEAD,
    RECORD_HEAD,
    Bounds,
    find_messages,
    find_what_makes_sense,
    next_chunk,
    next_message,
    stream_of,
    unpacked,
)
from quadsim.bag.storage import BLOCK_BYTES, END_OF_TIME_NS, Batch, StoredTopic, ahead
from quadsim.bag.writer import CUSTOM_RECORD
from quadsim.base.errors import InputError
from quadsim.wire.payloads import Payloads

_CHUNK_INDEX = struct.Struct("<QQQQI")  # first and last time, offset, length, bytes of the map
_FOOTER_BYTES = 29 + len(MAGIC)
#: Messages outside of chunks are read in pieces of this size.
_PIECE_BYTES = 1 << 20


class _Chunks:
    """Where the chunks are, and when."""

    def __init__(self) -> None:
        self.start_ns, self.end_ns = array("q"), array("q")
        self.offset, self.length = array("q"), array("q")
        self.bare = bytearray()  # 1: a piece of the file itself, with messages outside of chunks
        self.channels: list[frozenset[int] | None] = []  # None: not known
        self._known: dict[frozenset[int], frozenset[int]] = {}

    def add(
        self,
        times_ns: tuple[int, int],
        place: tuple[int, int],
        channels: frozenset[int] | None = None,
        bare: bool = False,
    ) -> None:
        """Append one; ``place`` is where its record begins, and its length."""
        self.start_ns.append(min(times_ns[0], END_OF_TIME_NS))
        self.end_ns.append(min(times_ns[1], END_OF_TIME_NS))
        self.offset.append(place[0])
        self.length.append(place[1])
        self.bare.append(bare)
        if channels is not None:  # few sets, many chunks
            channels = self._known.setdefault(channels, channels)
        self.channels.append(channels)

    def __len__(self) -> int:
        return len(self.bare)


class McapStorage:
    """An open MCAP file; see :class:`quadsim.bag.storage.Storage`.

    Args:
        path: a file that was closed by its recorder (:func:`repair.is_whole`).
        notes: gets one line for each thing that cannot be read.

    Raises:
        InputError: it is no MCAP file, or cannot be opened.
    """

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.path = path
        self.custom: dict[str, str] = {}
        self.start_ns, self.end_ns = 0, 0
        self._notes = notes
        self._told: set[int] = set()
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._counts: dict[int, int] = {}
        self._chunks = _Chunks()
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        if not self._read_summary():
            self._chunks = _Chunks()
            self._scan()
        self.topics = [self._topic(number, channel) for number, channel in self._channels.items()]
        self._order = np.argsort(np.frombuffer(self._chunks.start_ns, np.int64), kind="stable")

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order."""
        return ahead(self._batches(wanted, start_ns))

    def _batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        chunks, channels = self._chunks, self._wanted(wanted)
        order = [
            k
            for k in self._order.tolist()
            if chunks.end_ns[k] >= start_ns
            and (chunks.channels[k] is None or not channels.keys().isdisjoint(chunks.channels[k]))
        ]
        topics = tuple(channels.values())
        numbers = np.full(1 << 16, -1, np.int64)
        numbers[list(channels)] = np.arange(len(topics))
        held: list[Batch] = []  # what a later chunk may still come before
        for group, next_ns in self._groups(order):
            batch = Batch.merged([*held, Batch(topics, *self._found(group, numbers))])
            ready = int(np.searchsorted(batch.log_ns, next_ns, side="right"))
            held = [batch[ready:].compact()] if ready < len(batch) else []
            first = int(np.searchsorted(batch.log_ns[:ready], start_ns)) if start_ns > 0 else 0
            if first < ready:
                yield batch[first:ready] if first or held else batch

    def _wanted(self, wanted: Collection[str]) -> dict[int, tuple[str, str]]:
        return {
            number: (channel.topic, self._type_of(channel))
            for number, channel in self._channels.items()
            if channel.topic in wanted
        }

    def _groups(self, order: list[int]) -> Iterator[tuple[list[tuple[int, bytes]], int]]:
        """Chunks with their content, about as much as a batch is to have; when the next begins."""
        group: list[tuple[int, bytes]] = []
        size = 0
        starts_ns = [self._chunks.start_ns[k] for k in order] + [END_OF_TIME_NS]
        for k, next_ns in zip(order, starts_ns[1:], strict=True):
            try:
                group.append((k, self._content(k)))
                size += len(group[-1][1])
            except DAMAGED as error:
                yield group, self._chunks.start_ns[k]
                group, size = [], 0
                self._tell(k, 0, error)
            if size >= BLOCK_BYTES or next_ns == END_OF_TIME_NS:
                yield group, next_ns
                group, size = [], 0

    def _found(
        self, group: list[tuple[int, bytes]], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Payloads]:
        """Topics, log times and payloads of the messages of chunks, as far as they make sense."""
        whole = b"".join(content for _, content in group)
        places = np.empty((4, len(whole) // 31 + 1), np.int64)
        count = find_messages(np.frombuffer(whole, np.uint8), numbers, places)
        found = places[:, : max(count, 0)].copy()
        if count < 0:
            parts, offset = [], 0
            bounds = Bounds(self._channels.keys(), self.start_ns, self.end_ns)
            for k, content in group:
                part, lost = find_what_makes_sense(content, numbers, bounds)
                part[2] += offset
                offset += len(content)
                parts.append(part)
                if lost:
                    self._tell(k, part.shape[1], ValueError(f"{lost} bytes make no sense"))
            found = np.concatenate(parts, axis=1)
        return found[0], found[1], Payloads(whole, found[2], found[3])

    def _content(self, k: int) -> bytes:
        """Records of a chunk, unpacked, with its checksum tested."""
        chunks = self._chunks
        body = os.pread(self._file.fileno(), chunks.length[k], chunks.offset[k])
        if len(body) < chunks.length[k]:
            raise ValueError("the file ends in it")
        return body if chunks.bare[k] else unpacked(body)

    def _tell(self, k: int, kept: int, error: BaseException) -> None:
        if k in self._told:
            return
        self._told.add(k)
        chunks = self._chunks
        first_s = (chunks.start_ns[k] - self.start_ns) * 1e-9
        last_s = (chunks.end_ns[k] - self.start_ns) * 1e-9
        rest = f"{kept} messages of it are read" if kept else "left out"
        self._notes.append(
            f"{self.path.name}: damaged from {first_s:.3f} to {last_s:.3f} s"
            f" ({' '.join(str(error).split()) or type(error).__name__}): {rest}"
        )

    def _topic(self, number: int, channel: Channel) -> StoredTopic:
        schema = self._schemas.get(channel.schema_id)
        return StoredTopic(
            channel.topic,
            self._type_of(channel),
            self._counts.get(number, 0),
            "" if schema is None else schema.encoding,
            "" if schema is None else schema.data.decode(errors="replace"),
            channel.metadata.get("offered_qos_profiles", ""),
            channel.metadata.get("topic_type_hash", ""),
        )

    def _type_of(self, channel: Channel) -> str:
        schema = self._schemas.get(channel.schema_id)
        return "" if schema is None else schema.name

    # -- how the file is laid out

    def _read_summary(self) -> bool:
        """Topics and chunks from the file's end; False where it has not got them all."""
        try:
            size = self._file.seek(0, 2)
            self._file.seek(size - _FOOTER_BYTES)
            footer = self._file.read(_FOOTER_BYTES)
            end = Footer.read(stream_of(footer[RECORD_HEAD.size :]))
            if footer[0] != Opcode.FOOTER or not end.summary_start:
                return False
            self._file.seek(end.summary_start)
            summary = self._file.read(size - end.summary_start)
            checked = memoryview(summary)[: -len(MAGIC) - 4]
            if end.summary_crc and zlib.crc32(checked) != end.summary_crc:
                raise ValueError("wrong checksum")
            statistics = self._records_of_summary(summary)
        except (*DAMAGED, OSError):
            self._notes.append(f"{self.path.name}: its index is damaged; read without it")
            return False
        if statistics is None or statistics.chunk_count != len(self._chunks):
            return False
        if statistics.message_count and not statistics.chunk_count:
            return False  # messages outside of chunks have no index
        if sum(statistics.channel_message_counts.values()) != statistics.message_count:
            return False  # no counts: not available, as the format allows
        self._counts = dict(statistics.channel_message_counts)
        self.start_ns = statistics.message_start_time
        self.end_ns = statistics.message_end_time
        return bool(self._channels) or not statistics.message_count

    def _records_of_summary(self, summary: bytes) -> Statistics | None:
        statistics = None
        at = 0
        while at + RECORD_HEAD.size <= len(summary) - len(MAGIC):
            opcode, length = RECORD_HEAD.unpack_from(summary, at)
            at += RECORD_HEAD.size
            if not 0 < opcode <= Opcode.DATA_END or at + length > len(summary):
                raise ValueError(f"no record of kind {opcode}")
            if opcode == Opcode.CHUNK_INDEX:
                first, last, offset, size, width = _CHUNK_INDEX.unpack_from(summary, at)
                begin = at + _CHUNK_INDEX.size
                numbers = np.frombuffer(summary, "<u2,<u8", width // 10, begin)["f0"]
                channels = frozenset(numbers.tolist()) if width else None
                self._chunks.add((first, last), (offset, size), channels)
            elif opcode == Opcode.STATISTICS:
                statistics = Statistics.read(stream_of(summary[at : at + length]))
            elif opcode == Opcode.METADATA_INDEX:
                self._read_custom(MetadataIndex.read(stream_of(summary[at : at + length])))
            else:
                self._learn(opcode, summary[at : at + length])
            at += length
        return statistics

    def _read_custom(self, index: MetadataIndex) -> None:
        if index.name == CUSTOM_RECORD:
            self._file.seek(index.offset + RECORD_HEAD.size)
            self._learn_what_makes_sense(Opcode.METADATA, self._file.read(index.length))

    def _learn_what_makes_sense(self, opcode: int, body: bytes) -> None:
        """Take note of a record that stands in no index with a checksum of its own."""
        try:
            self._learn(opcode, body)
        except DAMAGED:
            note = f"{self.path.name}: a record of kind {Opcode(opcode).name} makes no sense"
            if f"{note}: left out" not in self._notes:
                self._notes.append(f"{note}: left out")

    def _learn(self, opcode: int, body: bytes) -> None:
        """Take note of a schema, a channel, or the recorder's own data."""
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream_of(body))
            self._schemas.setdefault(schema.id, schema)
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(stream_of(body))
            self._channels.setdefault(channel.id, channel)
        elif opcode == Opcode.METADATA:
            record = Metadata.read(stream_of(body))
            if record.name == CUSTOM_RECORD:
                self.custom.update(record.metadata)

    def _scan(self) -> None:
        """The same from the records themselves, all of them."""
        self._counts, first_ns, last_ns = {}, END_OF_TIME_NS, 0
        size = self._file.seek(0, 2)
        at = len(MAGIC)
        piece = at  # where messages outside of chunks begin that belong to no piece yet
        while at < size - len(MAGIC):
            self._file.seek(at)
            head = self._file.read(RECORD_HEAD.size)
            opcode, length = RECORD_HEAD.unpack(head.ljust(RECORD_HEAD.size, b"\0"))
            end = at + RECORD_HEAD.size + length
            whole = opcode not in (0, Opcode.DATA_END, Opcode.FOOTER) and end <= size
            if opcode != Opcode.MESSAGE or end - piece > _PIECE_BYTES:
                self._add_piece(piece, at)
                piece = at
            if not whole:
                found = next_chunk(self._file, at + 1, size)
                if opcode in (Opcode.DATA_END, Opcode.FOOTER) or found is None:
                    break
                self._notes.append(f"{self.path.name}: {found - at} bytes make no sense: left out")
                at = piece = found
                continue
            if opcode == Opcode.CHUNK:
                self._chunks.add((0, END_OF_TIME_NS), (at, end - at))
            elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.METADATA):
                self._learn_what_makes_sense(opcode, self._file.read(length))
            at = end
            if opcode != Opcode.MESSAGE:
                piece = at
        unknown: list[int] = []
        for k in range(len(self._chunks)):
            low_ns, high_ns = self._scan_chunk(k)
            if low_ns <= high_ns:
                first_ns, last_ns = min(first_ns, low_ns), max(last_ns, high_ns)
            else:  # without a message: it lies where the one before it ends
                unknown.append(k)
                low_ns = high_ns = self._chunks.end_ns[k - 1] if k else 0
            self._chunks.start_ns[k], self._chunks.end_ns[k] = low_ns, high_ns
        self.start_ns, self.end_ns = min(first_ns, last_ns), last_ns
        for k in unknown:  # or at the beginning
            at_ns = max(self._chunks.end_ns[k], self.start_ns)
            self._chunks.start_ns[k] = self._chunks.end_ns[k] = at_ns

    def _add_piece(self, begin: int, end: int) -> None:
        if end > begin:
            self._chunks.add((0, END_OF_TIME_NS), (begin, end - begin), bare=True)

    def _scan_chunk(self, k: int) -> tuple[int, int]:
        """First and last time of a chunk; the last is below the first where it has no message.

        Topics and counts are noted.
        """
        low_ns, high_ns, at = END_OF_TIME_NS, 0, 0
        bounds = Bounds(self._channels.keys(), 0, END_OF_TIME_NS)
        try:
            content = self._content(k)
            while at < len(content):
                opcode, length = RECORD_HEAD.unpack_from(content, at)
                end = at + RECORD_HEAD.size + length
                if end > len(content) or not 0 < opcode < 16:  # reading says so
                    at = next_message(content, at + 1, bounds)
                    continue
                if opcode == Opcode.MESSAGE:
                    _, _, number, _, log_ns = MESSAGE_HEAD.unpack_from(content, at)
                    self._counts[number] = self._counts.get(number, 0) + 1
                    low_ns, high_ns = min(low_ns, log_ns), max(high_ns, log_ns)
                elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.METADATA):
                    self._learn_what_makes_sense(opcode, content[at + RECORD_HEAD.size : end])
                at = end
        except DAMAGED:
            pass  # reading says so
        return low_ns, high_ns
