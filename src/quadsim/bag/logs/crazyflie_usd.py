"""The log that a Crazyflie's uSD-card deck writes.

A header of event types (name, variables with their struct codes), then events (number, time,
values), then the CRC-32 of all before it. Source: crazyflie-firmware, its uSD deck's driver
(usddeck.c) and tools/usdlog/cfusdlog.py.

The flow deck's counts become an optical flow: its lens sees 0.71674 rad (twice the sine of
half of 42 deg) in 35 pixels of 10 counts (mm_flow.c); forward motion lowers deltaY, motion to the
left deltaX (flowdeck_v1v2.c). Each event is what was counted since the deck was last read, which
events without motion do not tell.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from quadsim.bag.logs.columns import Table, map_of, to_log
from quadsim.bag.logs.log_file import LogFile
from quadsim.bag.logs.motion import steps_s
from quadsim.base.errors import InputError

#: Version of the log to the type of an event's time, and its unit in ns.
_TIMES = {1: ("<u4", 1_000_000), 2: ("<u8", 1_000)}
_CRC_BYTES = 4
#: Columns of the flow deck's counts; rad of a count.
FLOW_X, FLOW_Y, RAD_PER_COUNT = "motion.deltaX", "motion.deltaY", 0.71674 / 350.0
_CODES = frozenset("bBhHiIqQfd")


class _Header:
    """Names and layouts of a log's events, read from its beginning."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._content, self.at = content, 5
        try:
            self.version, count = struct.unpack_from("<HH", content, 1)
            if self.version not in _TIMES:
                raise ValueError(f"version {self.version}; known: 1 and 2")
            self.events = dict(self._event() for _ in range(count))
        except (struct.error, ValueError) as error:
            raise InputError(f"{path}: no whole header of a Crazyflie log ({error})") from None

    def _text(self) -> str:
        end = self._content.find(b"\0", self.at)
        if end < 0:
            raise ValueError("a name is cut off")
        text, self.at = self._content[self.at : end].decode("utf-8", "replace"), end + 1
        return text

    def _number(self) -> int:
        (number,) = struct.unpack_from("<H", self._content, self.at)
        self.at += 2
        return int(number)

    def _event(self) -> tuple[int, tuple[str, np.dtype[np.void]]]:
        number, name = self._number(), self._text()
        fields: list[tuple[str, str]] = [("number", "<u2"), ("time", _TIMES[self.version][0])]
        for _ in range(self._number()):
            variable = self._text()
            code = variable[-2:-1]
            if variable[-3:-2] != "(" or variable[-1:] != ")" or code not in _CODES:
                raise ValueError(f"{variable!r} has no type")
            fields.append((variable[:-3], f"<{np.dtype(code).str[1:]}"))
        return number, (name, np.dtype(fields))


def read_tables(path: Path, notes: list[str]) -> dict[str, Table]:
    """Every event type of a log as a table; ``notes`` gets what is damaged.

    Raises:
        InputError: it is no such log.
    """
    content = path.read_bytes()
    header = _Header(path, content)
    end = len(content) - _CRC_BYTES
    if end < header.at or zlib.crc32(content[:end]) != int.from_bytes(content[end:], "little"):
        notes.append(f"{path}: its checksum is wrong: cut or damaged; read as far as it goes")
    sizes = {number: layout.itemsize for number, (_, layout) in header.events.items()}
    begins: dict[int, list[int]] = {number: [] for number in sizes}
    at = header.at
    while at + 2 <= end:
        number = int.from_bytes(content[at : at + 2], "little")
        size = sizes.get(number)
        if size is None or at + size > end:
            notes.append(f"{path}: {end - at} bytes at its end are no event: left out")
            break
        begins[number].append(at)
        at += size
    unit_ns = _TIMES[header.version][1]
    tables = {}
    for number, (name, layout) in header.events.items():
        rows = np.frombuffer(
            b"".join(content[at : at + layout.itemsize] for at in begins[number]), layout
        )
        names = (layout.names or ())[2:]
        stamp_ns = rows["time"].astype(np.int64) * unit_ns
        tables[name] = Table({each: rows[each] for each in names}, stamp_ns)
    return tables


def read(path: Path, columns: str) -> LogFile:
    """Read a Crazyflie's log by a column map."""
    notes: list[str] = []
    tables = read_tables(path, notes)
    log = to_log(path, tables, map_of(path, "crazyflie_usd", tables, columns))
    log.notes += notes
    for table in tables.values():
        if {FLOW_X, FLOW_Y} <= table.columns.keys() and len(table) > 1:
            _add_flow(log, table)
    return log


def _add_flow(log: LogFile, table: Table) -> None:
    """Add the flow deck's counts as an optical flow about x and y, with the time it was counted."""
    assert table.stamp_ns is not None
    x, y = (RAD_PER_COUNT * table.columns[name].astype(float) for name in (FLOW_X, FLOW_Y))
    turn = np.full((len(table), 3), np.nan)
    log.add(
        "flow/down", table.stamp_ns, v=np.stack([-x, y, steps_s(table.stamp_ns)], axis=1), w=turn
    )
    for name in (FLOW_X, FLOW_Y):
        log.unread.pop(name, None)
