"""Records of an MCAP file as bytes: chunks unpacked, messages taken out, the next chunk found."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection
from io import BytesIO
from typing import BinaryIO, NamedTuple

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode

from quadsim.analysis.bag.storage import BagMessage

MAGIC = b"\x89MCAP0\r\n"
#: What a damaged chunk makes the libraries raise; lz4 raises RuntimeError.
DAMAGED = (McapError, zstandard.ZstdError, ValueError, RuntimeError, struct.error, MemoryError)
RECORD_HEAD = struct.Struct("<BQ")  # opcode, length of what follows
MESSAGE_HEAD = struct.Struct("<BQHIQ")  # opcode, length, channel, sequence, log time; a time more
_PAYLOAD_AT = MESSAGE_HEAD.size + 8
#: Opcode, length, first and last time, size and checksum of the content, length of a name.
CHUNK_HEAD = struct.Struct("<BQQQQII")
_CHUNK_MARK = bytes([Opcode.CHUNK])
_MESSAGE_MARK = bytes([Opcode.MESSAGE])


class Bounds(NamedTuple):
    """What the messages of a file can be: their channels, their first and last time."""

    channels: Collection[int]
    start_ns: int
    end_ns: int


def next_chunk(file: BinaryIO, start: int, end: int) -> int | None:
    """Where the next chunk begins, by its looks; None if there is none before ``end``."""
    step = 1 << 20
    for at in range(start, end, step):
        file.seek(at)
        window = file.read(step + CHUNK_HEAD.size + 12)
        found = window.find(_CHUNK_MARK)
        while 0 <= found < step and found + CHUNK_HEAD.size + 12 <= len(window):
            _, length, first, last, _, _, width = CHUNK_HEAD.unpack_from(window, found)
            name = window[found + CHUNK_HEAD.size :][: width % 8]
            if width < 8 and name in (b"", b"lz4", b"zstd") and first <= last:
                (packed,) = struct.unpack_from("<Q", window, found + CHUNK_HEAD.size + width)
                if length == CHUNK_HEAD.size - RECORD_HEAD.size + width + 8 + packed:
                    return at + found
            found = window.find(_CHUNK_MARK, found + 1)
    return None


def stream_of(body: bytes) -> ReadDataStream:
    """A record's body, as mcap's records are read from."""
    return ReadDataStream(BytesIO(body))


def unpacked(record: bytes) -> bytes:
    """Content of a chunk's record, its size and checksum tested (a checksum of 0 is none)."""
    opcode, _, _, _, size, checksum, width = CHUNK_HEAD.unpack_from(record)
    begin = CHUNK_HEAD.size + width + 8
    if opcode != Opcode.CHUNK or begin > len(record):
        raise ValueError("no chunk where the index says one is")
    compression = record[CHUNK_HEAD.size : begin - 8]
    packed = memoryview(record)[begin:]
    if not compression:
        content = record[begin:]
    elif compression == b"zstd":
        content = zstandard.decompress(packed, size)
    elif compression == b"lz4":
        content = lz4.frame.decompress(packed)
    else:
        raise ValueError(f"unknown compression {compression.decode(errors='replace')!r}")
    if len(content) != size:
        raise ValueError(f"{len(content)} bytes, expected {size}")
    if checksum and zlib.crc32(content) != checksum:
        raise ValueError("wrong checksum")
    return content


def collect(
    content: bytes, wanted: dict[int, tuple[str, str]], bounds: Bounds, found: list[BagMessage]
) -> None:
    """Messages of some channels among records.

    Args:
        content: records, one behind the other.
        wanted: channel to topic and type.
        bounds: what a message must be, to go on with behind one that makes no sense.
        found: gets the messages.

    Raises:
        ValueError: some of it makes no sense; ``found`` has the rest.
    """
    at, size, lost = 0, len(content), 0
    head, new, add = MESSAGE_HEAD.unpack_from, tuple.__new__, found.append  # in half the time
    names = wanted.get
    while at < size:
        if size - at >= MESSAGE_HEAD.size:
            opcode, length, channel, _, log_ns = head(content, at)
            end = at + 9 + length
        else:
            opcode, end = 0, 0
        if end > size or not 0 < opcode < 16:
            start = next_message(content, at + 1, bounds)
            lost += start - at
            at = start
            continue
        if opcode == 5:
            name = names(channel)
            if name is not None:
                payload = content[at + _PAYLOAD_AT : end]
                add(new(BagMessage, (name[0], name[1], log_ns, payload)))
        at = end
    if lost:
        raise ValueError(f"{lost} bytes make no sense")


def next_message(content: bytes, start: int, bounds: Bounds) -> int:
    """Where the next message's record begins, by its looks; the end if there is none."""
    size = len(content)
    at = content.find(_MESSAGE_MARK, start)
    while 0 <= at <= size - _PAYLOAD_AT:
        _, length, channel, _, log_ns = MESSAGE_HEAD.unpack_from(content, at)
        end = at + RECORD_HEAD.size + length
        fits = end == size or (end < size and 0 < content[end] < 16)
        if fits and channel in bounds.channels and bounds.start_ns <= log_ns <= bounds.end_ns:
            return at
        at = content.find(_MESSAGE_MARK, at + 1)
    return size
