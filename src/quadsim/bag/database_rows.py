"""Rows of a damaged SQLite database, page by page, without its tree.

A cut takes inner pages of the tree with it, and with them the way to pages that are there. Pages
that hold rows of a table say so themselves (sqlite.org/fileformat2.html, sections 1.6 and 2.1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"SQLite format 3\0"
_LEAF = 0x0D  # page of rows of a table
_INTEGERS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}  # serial type to bytes
_BLOB = 12  # serial types from here on, even: a blob of (type - 12) / 2 bytes
Row = tuple[int, int, bytes]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    return value << 8 | data[at + 8], at + 9


def rows(path: Path, known: set[int], found: list[int]) -> Iterator[Row]:
    """Topic number, time in ns and data of every message that is whole, in the file's order.

    Args:
        path: the database.
        known: numbers of topics; what looks like a row but has another is none.
        found: gets the number of rows that are not whole.

    Raises:
        ValueError: not a database.
    """
    lost = 0
    with path.open("rb") as file:
        head = file.read(100)
        if len(head) < 100 or head[:16] != _MAGIC:
            raise ValueError("not a database")
        (size,) = struct.unpack_from(">H", head, 16)
        pages = _Pages(file, 65536 if size == 1 else size, head[20])
        for number in range(2, pages.count + 1):
            page = pages.read(number)
            if not page or page[0] != _LEAF:
                continue
            (cells,) = struct.unpack_from(">H", page, 3)
            for i in range(min(cells, (len(page) - 8) // 2)):
                (at,) = struct.unpack_from(">H", page, 8 + 2 * i)
                try:
                    row = _row(pages.payload(page, at))
                except (IndexError, ValueError, struct.error):
                    lost += 1
                    continue
                if row is not None and row[0] in known:
                    yield row
    found.append(lost)


class _Pages:
    """Pages of a file, and what overflows from one into others."""

    def __init__(self, file: BinaryIO, size: int, reserved: int) -> None:
        self._file = file
        self.size = size
        self.usable = size - reserved
        self.count = file.seek(0, 2) // size

    def read(self, number: int) -> bytes:
        if not 0 < number <= self.count:
            raise ValueError("page beyond the file")
        self._file.seek((number - 1) * self.size)
        return self._file.read(self.size)

    def payload(self, page: bytes, at: int) -> bytes:
        """A row's record; sections 1.6 and 1.7 say how much of it is on the page."""
        length, at = _varint(page, at)
        if length > self.count * self.size:
            raise ValueError("row larger than the file")  # its pages may lead in a circle
        _, at = _varint(page, at)  # number of the row
        most, least = self.usable - 35, (self.usable - 12) * 32 // 255 - 23
        if length <= most:
            return page[at : at + length]
        local = least + (length - least) % (self.usable - 4)
        local = local if local <= most else least
        parts = [page[at : at + local]]
        (number,) = struct.unpack_from(">I", page, at + local)
        missing = length - local
        while missing > 0:
            overflow = self.read(number)
            (number,) = struct.unpack_from(">I", overflow)
            parts.append(overflow[4 : 4 + min(missing, self.usable - 4)])
            missing -= self.usable - 4
        return b"".join(parts)


def _row(record: bytes) -> Row | None:
    """A row of the table of messages (id, topic, time, data); None for another table's."""
    width, at = _varint(record, 0)
    kinds = []
    while at < width:
        kind, at = _varint(record, at)
        kinds.append(kind)
    if len(kinds) != 4 or kinds[0] != 0 or not all(k in _INTEGERS for k in kinds[1:3]):
        return None
    if kinds[3] < _BLOB or kinds[3] % 2:
        return None
    values = []
    for kind in kinds[1:3]:
        size = _INTEGERS[kind]
        value = int.from_bytes(record[at : at + size], "big", signed=True)
        values.append(1 if kind == 9 else value)
        at += size
    data = record[at : at + (kinds[3] - _BLOB) // 2]
    if len(data) != (kinds[3] - _BLOB) // 2 or values[1] < 0:
        raise ValueError("row is cut")
    return values[0], values[1], data
