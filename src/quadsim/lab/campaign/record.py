"""The folder of a campaign: what it is, a line for each run that ended, and the tables.

A line is given to the system as soon as a run ends, so that a kill of the process at any moment
costs the runs under way alone. It is synced to the disk itself with the first line that comes
:data:`SYNC_S` after the last syncing, and at the end: a power cut costs what came since then, and a
line that it tore is cut off. The tables are made of the lines when all runs have ended, or whenever
somebody stops. They are Parquet: what was flown, and how long that took. Rows are sorted by the
number of the run. ``table.parquet`` holds nothing of the clock, so that the same campaign gives the
same bytes, wherever it is flown and however often it is interrupted.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.whole_files import write_whole
from quadsim.lab.campaign.factors import CRITERION, FIGURES, INTEGERS, OF_LIMIT, factor_column
from quadsim.lab.campaign.plan import Campaign

CONTENTS, LINES, LOCK = "campaign.json", "rows.jsonl", "lock"

#: The first line that comes so long after the last syncing is synced, with those before it.
SYNC_S = 1.0


class CampaignRecord:
    """The lines of a campaign, for one process at a time.

    Args:
        folder: made if it is not there.
        contents: everything that decides what is flown.
        resume: go on with the runs that are there already.

    Attributes:
        done: (runs,) 1 for each run that has a line.

    Raises:
        InputError: the folder is another campaign's, or in use, or holds runs that nobody asked to
            go on with; or it cannot be written.
    """

    def __init__(self, folder: Path, contents: dict[str, Any], runs: int, resume: bool) -> None:
        self.folder = folder
        self.path = folder / LINES
        self.done = bytearray(runs)
        self._places: dict[int, int] = {}
        self._synced_s = time.monotonic()
        self.check(folder, contents, resume)
        self._lock = _locked(folder)
        try:
            self.check(folder, contents, resume)  # again: now nobody else writes there
            write_whole(folder / CONTENTS, json.dumps(contents, indent=1) + "\n")
            self._file = self.path.open("ab", buffering=0)
            self._end = self._read()
            self._file.truncate(self._end)
        except OSError as error:
            self._lock.close()
            raise unwritable(self.path, error) from None
        except InputError:
            self._lock.close()
            raise

    @staticmethod
    def check(folder: Path, contents: dict[str, Any], resume: bool) -> None:
        """Refuse a folder that is not for this campaign.

        Raises:
            InputError: as of the class.
        """
        path = folder / CONTENTS
        if not folder.exists() or all(_is_nothing(item) for item in folder.iterdir()):
            return
        if not path.is_file():
            raise InputError(
                f"{folder}: exists already and is no campaign's; name another: --output"
            )
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"{path}: cannot be read; name a new folder with --output") from None
        after = json.loads(json.dumps(contents))
        if before != after:
            raise InputError(
                f"{folder}: holds a campaign with other contents ({_difference(before, after)});"
                " name a new folder with --output"
            )
        if not resume and (folder / LINES).is_file() and (folder / LINES).stat().st_size:
            raise InputError(
                f"{folder}: holds runs of this campaign; go on with --resume, or name a new folder"
                " with --output"
            )

    def __enter__(self) -> CampaignRecord:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            self._sync()
        except InputError:
            if kind is None:
                raise
        finally:
            self._file.close()
            self._lock.close()

    def __len__(self) -> int:
        """Runs that have a line."""
        return len(self._places)

    def _read(self) -> int:
        """Find the lines that are there; where the last whole one ends, before what a kill left."""
        place = 0
        with self.path.open("rb") as file:
            for line in file:
                row = _row(line, len(self.done))
                if row is None:
                    break
                self._places[row["run"]] = place
                self.done[row["run"]] = 1
                place += len(line)
        return place

    def add(self, number: int, row: dict[str, Any]) -> None:
        """Store the row of a run.

        Raises:
            InputError: the disk does not take it; the rows before it are whole.
        """
        line = json.dumps({"run": number, **row}, allow_nan=False, separators=(",", ":"))
        content = line.encode() + b"\n"
        try:
            written = 0
            while written < len(content):  # a disk that is almost full takes a part of it
                written += self._file.write(content[written:])
        except OSError as error:
            self._file.truncate(self._end)
            raise unwritable(self.path, error) from None
        self._places[number] = self._end
        self.done[number] = 1
        self._end += len(content)
        if time.monotonic() - self._synced_s > SYNC_S:
            self._sync()

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from None
        self._synced_s = time.monotonic()

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows, by the numbers of their runs; one at a time is held in memory."""
        with self.path.open("rb") as file:
            for number in sorted(self._places):
                file.seek(self._places[number])
                row: dict[str, Any] = json.loads(file.readline())
                yield row

    def left(self) -> Iterator[int]:
        """Numbers of the runs that have no line."""
        return (number for number, done in enumerate(bytes(self.done)) if not done)


def unwritable(path: Path, error: OSError) -> InputError:
    """What is reported of a file of a campaign that cannot be written."""
    return InputError(
        f"{path}: cannot be written ({error.strerror or ' '.join(str(error).split())});"
        " its runs are safe: make room and go on with --resume"
    )


def _locked(folder: Path) -> BinaryIO:
    """The lock of a folder, which is made if it is not there; held until it is closed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock: BinaryIO = (folder / LOCK).open("wb")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InputError(f"{folder}: another process flies this campaign") from None
    return lock


def _is_nothing(item: Path) -> bool:
    """Whether a file is what a campaign leaves that ended before its first run did."""
    if item.name == LINES:
        return item.is_file() and not item.stat().st_size
    return item.name == LOCK or item.name.startswith(f".{CONTENTS}.")


def _row(line: bytes, runs: int) -> dict[str, Any] | None:
    """The row of a line; None where it is not whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(row, dict) and isinstance(row.get("run"), int) and 0 <= row["run"] < runs
    return row if whole else None


def _difference(before: Any, after: Any, name: str = "") -> str:
    """The first thing that differs, in words."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*after, *before):
            if before.get(key) != after.get(key):
                return _difference(before.get(key), after.get(key), f"{name}.{key}".lstrip("."))
    was, now = (text if len(text := json.dumps(v)) < 60 else "otherwise" for v in (before, after))
    return f"{name} was {was}, is {now}"


TABLE, TIMES = "table.parquet", "times.parquet"

#: Rows that are held in memory at once.
GROUP = 10_000

Columns = dict[str, NDArray[Any]]


def criteria_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of all criteria, in the order in which the runs have them."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row.get("criteria", ()))
    return list(names)


def schema(campaign: Campaign, criteria: Iterable[str]) -> pa.Schema:
    """Columns of a campaign's table."""
    whole, real, text = pa.int64(), pa.float64(), pa.string()
    factors = [
        (f.column, whole if f.kind == INTEGERS else real if f.is_number else text)
        for f in campaign.factors
    ]
    return pa.schema(
        [
            ("run", whole), ("sample", whole), ("seed", whole), ("scenario", text),
            ("status", text), ("missed", text), ("reason", text),
            *factors,
            *((CRITERION + name, real) for name in criteria),
            (OF_LIMIT, real),
            *((name, real) for name in FIGURES),
            ("digest", text),
        ]
    )  # fmt: skip


def _flat(campaign: Campaign, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table."""
    run = campaign.run(row["run"])
    flat: dict[str, Any] = {
        "run": run.number,
        "sample": run.sample,
        "seed": run.seed,
        "scenario": run.scenario,
        "missed": row.get("missed", ""),
        **{key: row.get(key) for key in ("status", "reason", OF_LIMIT, "digest")},
        **row.get("figures", {}),
        **{CRITERION + name: value for name, value in row.get("criteria", {}).items()},
    }
    flat.update({factor_column(name): value for name, value in run.values.items()})
    return flat


def _write(path: Path, columns: pa.Schema, rows: Iterator[dict[str, Any]]) -> None:
    """Write a table, whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")  # the next one replaces what a kill left
    try:
        with pq.ParquetWriter(temporary, columns) as writer:
            while group := list(islice(rows, GROUP)):
                writer.write_table(pa.Table.from_pylist(group, columns), row_group_size=GROUP)
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_tables(campaign: Campaign, record: CampaignRecord) -> None:
    """Make the tables of the runs that have ended; a few thousand are in memory at once.

    Raises:
        InputError: they cannot be written.
    """
    columns = schema(campaign, criteria_of(record.rows()))
    _write(record.folder / TABLE, columns, (_flat(campaign, row) for row in record.rows()))
    times = pa.schema([("run", pa.int64()), ("wall_s", pa.float64()), ("process", pa.string())])
    stored = ({name: row.get(name) for name in times.names} for row in record.rows())
    _write(record.folder / TIMES, times, stored)


def read_table(path: Path) -> Columns:
    """A table as columns: numbers as float64 (NaN where there is none), texts as objects.

    Whole numbers beyond 2^53, as seeds may be, are the nearest ones.
    """
    table = pq.read_table(path)
    found: Columns = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_string(column.type):
            found[name] = np.array(column.to_pylist(), object)
        else:
            found[name] = column.cast(pa.float64(), safe=False).to_numpy()
    return found
