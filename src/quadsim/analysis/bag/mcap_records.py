"""Records of an MCAP file as bytes: chunks unpacked, messages taken out, the next chunk found."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import BinaryIO

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
_CHUNK_HEAD = struct.Struct("<BQQQQII")
_CHUNK_MARK = bytes([Opcode.CHUNK])


def next_chunk(file: BinaryIO, start: int, end: int) -> int | None:
    """Where the next chunk begins, by its looks; None if there is none before ``end``."""
    step = 1 << 20
    for at in range(start, end, step):
        file.seek(at)
        window = file.read(step + _CHUNK_HEAD.size + 12)
        found = window.find(_CHUNK_MARK)
        while 0 <= found < step and found + _CHUNK_HEAD.size + 12 <= len(window):
            _, length, first, last, _, _, width = _CHUNK_HEAD.unpack_from(window, found)
            name = window[found + _CHUNK_HEAD.size :][: width % 8]
            if width < 8 and name in (b"", b"lz4", b"zstd") and first <= last:
                (packed,) = struct.unpack_from("<Q", window, found + _CHUNK_HEAD.size + width)
                if length == _CHUNK_HEAD.size - RECORD_HEAD.size + width + 8 + packed:
                    return at + found
            found = window.find(_CHUNK_MARK, found + 1)
    return None


def stream_of(body: bytes) -> ReadDataStream:
    """A record's body, as mcap's records are read from."""
    return ReadDataStream(BytesIO(body))


def unpacked(record: bytes) -> bytes:
    """Content of a chunk's record, its size and checksum tested (a checksum of 0 is none)."""
    opcode, _, _, _, size, checksum, width = _CHUNK_HEAD.unpack_from(record)
    begin = _CHUNK_HEAD.size + width + 8
    if opcode != Opcode.CHUNK or begin > len(record):
        raise ValueError("no chunk where the index says one is")
    compression = record[_CHUNK_HEAD.size : begin - 8]
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


def collect(content: bytes, wanted: dict[int, tuple[str, str]], found: list[BagMessage]) -> None:
    """Messages of some channels among records.

    Raises:
        ValueError: from a record on it makes no sense; ``found`` has what lies before.
    """
    at, size = 0, len(content)
    head, new, add = MESSAGE_HEAD.unpack_from, tuple.__new__, found.append  # in half the time
    names = wanted.get
    while at < size:
        if size - at < MESSAGE_HEAD.size:
            raise ValueError("a record is cut")
        opcode, length, channel, _, log_ns = head(content, at)
        end = at + 9 + length
        if end > size:
            raise ValueError("a record is longer than what holds it")
        if opcode == 5:
            name = names(channel)
            if name is not None:
                payload = content[at + _PAYLOAD_AT : end]
                add(new(BagMessage, (name[0], name[1], log_ns, payload)))
        elif not 0 < opcode < 16:
            raise ValueError(f"no record of kind {opcode}")
        at = end
