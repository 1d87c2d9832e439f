"""Recorded wind from a table in CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.files import read_limited
from quadsim.world.air.wind_parameters import FASTEST_WIND_MPS, WindParams

Array = NDArray[np.float64]

MAX_FILE_BYTES = 100_000_000
COLUMNS = ("t_s", "east_mps", "north_mps", "up_mps")
HEIGHT = "height_m"


def no_wind() -> Array:
    """The recording that is none."""
    return np.zeros((0, 1, 5))


def wind_table(wind: WindParams) -> Array:
    """The recording that the parameters name, or none; see :func:`read_wind`."""
    return read_wind(Path(wind.file).expanduser()) if wind.file else no_wind()


def read_wind(path: Path) -> Array:
    """Read velocities of the air by time, or by time and height above the ground.

    The first line names the columns, in any order: t_s, east_mps, north_mps, up_mps, and height_m
    where there are several heights, which are then the same at each time. Times count from the
    simulation's zero.

    Returns:
        (times, heights, 5): t_s, height_m, and the velocity in W; one height without that column.

    Raises:
        InputError: the file is missing, or no such table; with the line.
    """
    try:
        text = read_limited(path, MAX_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: cannot be read (not UTF-8 text)") from None
    rows = csv.reader(io.StringIO(text))
    names = [name.strip() for name in next(rows, [])]
    allowed = (COLUMNS, (*COLUMNS, HEIGHT))
    if sorted(names) not in [sorted(columns) for columns in allowed]:
        raise InputError(
            f"{path}: columns {', '.join(names) or '(none)'}; allowed: {', '.join(COLUMNS)}, and"
            f" {HEIGHT} for several heights"
        )
    table = _numbers(path, rows, len(names))
    order = [names.index(name) for name in COLUMNS]
    heights = table[:, names.index(HEIGHT)] if HEIGHT in names else np.zeros(len(table))
    table = np.column_stack([table[:, order[0]], heights, table[:, order[1:]]])
    return _grid(path, table, HEIGHT in names)


def _numbers(path: Path, rows: Any, width: int) -> Array:
    """Every row that is not empty, as finite numbers."""
    found = []
    try:
        for row in rows:
            if not row:
                continue
            numbers = [float(cell) for cell in row]
            if len(row) != width or not np.isfinite(numbers).all():
                raise ValueError
            found.append(numbers)
    except (ValueError, csv.Error):
        raise InputError(
            f"{path}: line {rows.line_num}: expected {width} finite numbers, separated by commas"
        ) from None
    if not found:
        raise InputError(f"{path}: no row of numbers after the names of the columns")
    return np.array(found)


def _grid(path: Path, table: Array, has_heights: bool) -> Array:
    """Rows by time and height; what is missing or out of range is refused."""
    fastest = float(np.abs(table[:, 2:]).max())
    if fastest > FASTEST_WIND_MPS:
        raise InputError(
            f"{path}: a velocity of {fastest:g} m/s; allowed: at most {FASTEST_WIND_MPS:g} an axis"
        )
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    times, heights = np.unique(table[:, 0]), np.unique(table[:, 1])
    wanted = np.column_stack([np.repeat(times, len(heights)), np.tile(heights, len(times))])
    common = min(len(table), len(wanted))
    differs = (table[:common, :2] != wanted[:common]).any(axis=1)
    if len(table) != len(wanted) or differs.any():
        rows = table if len(table) > len(wanted) else wanted  # one too many, or one that is missing
        wrong = rows[int(np.argmax(np.append(differs, True)))]
        at = f"{wrong[0]:g} s" + (f", {wrong[1]:g} m" if has_heights else "")
        raise InputError(f"{path}: at {at}: expected exactly one row for each time and height")
    return table.reshape(len(times), len(heights), 5)
