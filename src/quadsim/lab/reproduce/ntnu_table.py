"""The table of results in the thesis's form: a cell's row, and the thesis's own below it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TITLES = (
    "scenario", "configuration", "", "passed", "duration s", "attempts", "limit km/h",
    "velocity km/h max / avg", "height m max / avg / min", "position error m max / avg",
)  # fmt: skip


def figures(values: Sequence[float], digits: int) -> str:
    """Numbers with slashes between; a dash for what is not known."""
    return " / ".join(f"{v:.{digits}f}" if math.isfinite(v) else "-" for v in values)


def passed(share: float, seeds: int) -> str:
    """How many seeds pass, or of one whether it does."""
    if seeds == 1:
        return "yes" if share else "no"
    return f"{round(share * seeds)} of {seeds}"


def table_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Texts of the table.

    Args:
        cells: as of :meth:`quadsim.lab.reproduce.ntnu.Outcome.summary`.
    """
    before = ""
    for cell in cells:
        name = cell["scenario"]
        for who, row, seeds in (
            ("ours", cell["ours"], cell["seeds"]),
            ("thesis", cell["thesis"], 1),
        ):
            first = who == "ours"
            yield (
                name if first and name != before else "",
                f"{cell['configuration']} {cell['words']}" if first else "",
                who,
                passed(row["passed"], seeds),
                figures([row["duration_s"]], 1),
                f"{row['attempts']:.0f}",
                figures([row["limit_kmh"]], 0),
                figures(row["velocity_kmh"], 0),
                figures(row["height_m"], 2),
                figures(row["error_m"], 2),
            )
        before = name
