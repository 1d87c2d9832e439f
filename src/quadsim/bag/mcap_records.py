"""Records of an MCAP file as bytes: chunks unpacked, messages taken out, the next chunk found."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import lz4.frame
import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from numpy.typing import NDArray

from quadsim.base.compiled import block_kernel

MAGIC = b"\x89MCAP0\r\n"
#: What a damaged chunk makes the libraries raise; lz4 raises RuntimeError.
DAMAGED = (McapError, zstandard.ZstdError, ValueError, RuntimeError, struct.error, MemoryError)
RECORD_HEAD = struct.Struct("<BQ")  # opcode, length of what follows
MESSAGE_HEAD = struct.Struct("<BQHIQ")  # opcode, length, channel, sequence, log time; a time more
_HEAD_BYTES = MESSAGE_HEAD.size
_PAYLOAD_AT = _HEAD_BYTES + 8
_LARGEST = 2**63 - 1
#: Opcode, length, first and last time, size and checksum of the content, length of a name.
CHUNK_HEAD = struct.Struct("<BQQQQII")
#: Most bytes that a chunk, or a message that is compressed by itself, may become: a few hundred
#: kilobytes can say gigabytes. Recorders write chunks of a few megabytes.
MOST_BYTES = 1 << 28
#: What is unpacked at a time of a frame that does not state its size.
_PIECE_BYTES = 1 << 22
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
    if size > MOST_BYTES:
        raise ValueError(f"{size} bytes in one chunk, allowed: {MOST_BYTES}")
    if not compression:
        content = record[begin:]
    elif compression == b"zstd":
        content = zstd_unpacked(packed, size)
    elif compression == b"lz4":
        content = lz4.frame.LZ4FrameDecompressor().decompress(packed, max_length=size + 1)
    else:
        raise ValueError(f"unknown compression {compression.decode(errors='replace')!r}")
    if len(content) != size:
        raise ValueError(f"{len(content)} bytes, expected {size}")
    if checksum and zlib.crc32(content) != checksum:
        raise ValueError("wrong checksum")
    return content


def zstd_unpacked(packed: bytes | memoryview, most: int = MOST_BYTES) -> bytes:
    """Content of a zstd frame.

    Args:
        packed: the frame.
        most: bytes that are made of it at most.

    Raises:
        ZstdError: the frame is damaged.
        ValueError: it has more.
    """
    stated = zstandard.frame_content_size(packed)  # -1: it does not say
    if stated > most:
        raise ValueError(f"{stated} bytes, allowed: {most}")
    if stated >= 0:
        whole: bytes = zstandard.decompress(packed)
        return whole
    pieces, left = [], most
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        while left and (piece := reader.read(min(left, _PIECE_BYTES))):
            pieces.append(piece)
            left -= len(piece)
        if not left and reader.read(1):
            raise ValueError(f"more than {most} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@block_kernel
def little_endian(content: Any, at: int, width: int) -> int:
    """An unsigned number of ``width`` bytes; what is beyond the signed ones becomes the largest."""
    value: Any = 0
    for k in range(width):
        value |= np.int64(content[at + k]) << (8 * k)
    return int(value) if value >= 0 else _LARGEST


@block_kernel
def find_messages(content: Any, wanted: Any, places: Any) -> int:
    """Messages of some channels among records.

    Args:
        content: (B,) bytes, records one behind the other.
        wanted: (65536,) of each channel the number of its topic; -1: not wanted.
        places: (4, B // 31 + 1) gets of each message the topic's number, its log time, and where
            its payload begins and how long it is.

    Returns:
        How many messages there are; -1 where some of it makes no sense.
    """
    at, size, count = 0, content.size, 0
    while at < size:
        if size - at < _HEAD_BYTES:
            return -1
        opcode, length = content[at], little_endian(content, at + 1, 8)
        if not 0 < opcode < 16 or length > size - at - 9:
            return -1
        end = at + 9 + length
        if opcode == 5:
            if end - at < _PAYLOAD_AT:
                return -1
            topic = wanted[little_endian(content, at + 9, 2)]
            if topic >= 0:
                places[0, count] = topic
                places[1, count] = little_endian(content, at + 15, 8)
                places[2, count] = at + _PAYLOAD_AT
                places[3, count] = end - at - _PAYLOAD_AT
                count += 1
        at = end
    return count


def find_what_makes_sense(
    content: bytes, wanted: NDArray[np.int64], bounds: Bounds
) -> tuple[NDArray[np.int64], int]:
    """The same among records of which some make no sense.

    Args:
        content: records, one behind the other.
        wanted: as of :func:`find_messages`.
        bounds: what a message must be, to go on with behind one that makes no sense.

    Returns:
        (4, N) as of :func:`find_messages`, and how many bytes make no sense.
    """
    found = []
    at, size, lost = 0, len(content), 0
    while at < size:
        opcode, end = 0, 0
        if size - at >= _HEAD_BYTES:
            opcode, length, channel, _, log_ns = MESSAGE_HEAD.unpack_from(content, at)
            end = at + 9 + length
        if end > size or not 0 < opcode < 16:
            start = next_message(content, at + 1, bounds)
            lost += start - at
            at = start
            continue
        if opcode == Opcode.MESSAGE and wanted[channel] >= 0:
            begin = min(at + _PAYLOAD_AT, end)
            found.append((wanted[channel], min(log_ns, _LARGEST), begin, end - begin))
        at = end
    return np.array(found, np.int64).reshape(-1, 4).T, lost


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
