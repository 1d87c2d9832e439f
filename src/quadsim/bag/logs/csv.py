"""CSV files: a header of names, or none, and numbers; commas, semicolons or tabs between."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from quadsim.bag.logs.columns import Table, map_of, to_log
from quadsim.bag.logs.log_file import LogFile
from quadsim.base.errors import InputError


def read(path: Path, columns: str) -> LogFile:
    """Read a CSV file by a column map; what is no number is NaN."""
    table = read_table(path)
    return to_log(path, {"": table}, map_of(path, "csv", {"": table}, columns))


def read_table(path: Path) -> Table:
    """Columns of a CSV file by their names, or by numbers from 0 where it has none.

    Raises:
        InputError: it has no rows of numbers.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.read(4096)
            file.seek(0)
            first = head.splitlines()[0] if head else ""
            delimiter = max(",;\t", key=first.count)
            rows = list(csv.reader(file, delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: no CSV file ({error})") from None
    named = bool(rows) and any(not np.isfinite(_number(text)) for text in rows[0])
    names = [name.strip().lstrip("#").strip() for name in rows[0]] if named else []
    width = len(rows[0]) if rows else 0
    numbers = [list(map(_number, row)) for row in rows[named:] if len(row) == width]
    if not numbers:
        raise InputError(f"{path}: no rows of numbers in it")
    values, left = np.array(numbers), sum(map(bool, rows[named:])) - len(numbers)
    columns = {(names[k] if names else str(k)): values[:, k] for k in range(width)}
    return Table(columns, left=left)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
