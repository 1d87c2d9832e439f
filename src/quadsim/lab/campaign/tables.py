"""The tables of a campaign, as Parquet: what was flown, and how long that took.

Rows are sorted by the number of the run. ``table.parquet`` holds nothing of the clock, so that the
same campaign gives the same bytes, wherever it is flown and however often it is interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quadsim.lab.campaign.columns import CRITERION, FIGURES, OF_LIMIT, factor_column
from quadsim.lab.campaign.factors import INTEGERS
from quadsim.lab.campaign.plan import Campaign
from quadsim.lab.campaign.record import CampaignRecord, unwritable

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
