"""The tables of a report: what a reader asks first, in figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from quadsim.analysis.report.arrivals import topic_rows
from quadsim.analysis.report.criteria import criterion_rows
from quadsim.analysis.report.figures import RUNS
from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.inside import SHARE, innovation_rows
from quadsim.analysis.report.template import figure_text
from quadsim.analysis.summary import Summary

MAX_EVENTS = 200


class Cell(NamedTuple):
    """One field: its text, a class of the style, the colour of the run that it names."""

    text: str
    style: str = ""
    colour: str = ""


@dataclass(frozen=True)
class ReportTable:
    """Rows under titles; a title that ends in a unit is over numbers."""

    key: str
    title: str
    columns: list[Cell]
    rows: list[list[Cell]]
    note: str = ""


def _cell(value: Any) -> Cell:
    """The cell of a verdict, a text, or a number."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, bool):
        return Cell("passed", "v good") if value else Cell("failed", "v bad")
    return Cell(value) if isinstance(value, str) else Cell(figure_text(value), "n")


def _table(
    flights: Flights,
    key: str,
    title: str,
    heads: Sequence[str],
    rows: Iterable[tuple[str, Sequence[Any]]],
    note: str = "",
) -> ReportTable:
    """A table of runs, which are named where there are several.

    Args:
        flights: the runs.
        heads: titles of columns; one with a bar before it is over numbers.
    """
    titles = [Cell(head.lstrip("|"), "n" if head.startswith("|") else "") for head in heads]
    cells = []
    for run, values in rows:
        named = Cell(run, "", RUNS[list(flights.runs).index(run) % len(RUNS)])
        cells.append([named] * flights.several + [_cell(value) for value in values])
    return ReportTable(key, title, [Cell("run")] * flights.several + titles, cells, note)


def why(summary: Summary) -> str:
    """Why a run passed or failed, in a sentence."""
    criteria = summary["criteria"]
    failed = [str(item["name"]) for item in criteria if not item["passed"]]
    parts = []
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        parts.append(f"{len(failed)} of {len(criteria)} criteria missed: {failed[0]}{more}")
    elif criteria:
        all_hold = f"all {len(criteria)} criteria hold"
        parts.append("the criterion holds" if len(criteria) == 1 else all_hold)
    errors = list(summary["errors"])
    if errors:
        more = f" and {len(errors) - 1} more errors" if len(errors) > 1 else ""
        parts.append(f"{errors[0]}{more}")
    elif not criteria:
        no_error = "no error, and no criterion was set"
        parts.append(no_error if summary["passed"] else "an estimator never started")
    return "; ".join(parts)


def runs_table(flights: Flights) -> ReportTable:
    """Runs that are compared, with their verdicts."""

    def row(summary: Summary) -> list[Any]:
        flown = Cell(f"{summary['duration_s']:.1f}", "n")
        tracking_m = (summary["tracking"] or {}).get("position_rmse_m")
        factor = summary["real_time_factor"]
        return [summary["passed"], why(summary), summary["seed"], flown, factor, tracking_m]

    heads = ("", "why", "|seed", "|flown, s", "|× real time", "|tracking RMSE, m")
    rows = ((run, row(flights.summaries[run])) for run in flights.runs)
    return _table(flights, "runs", "Runs", heads, rows)


def criteria_table(flights: Flights) -> ReportTable:
    """What had to hold, those that failed first."""
    rows = (
        (row["run"], [bool(row["passed"]), row["words"], Cell(row["reached"], "n"),
                      Cell(row["allowed"], "n")])
        for row in criterion_rows(flights)
    )  # fmt: skip
    heads = ("", "what had to hold", "|reached", "|allowed")
    return _table(flights, "criteria-table", "Criteria", heads, rows)


_ROWS = {
    "position_rmse_m": ("position RMSE, m", 1.0),
    "position_max_m": ("largest, m", 1.0),
    "velocity_rmse_mps": ("velocity RMSE, m/s", 1.0),
    "yaw_rmse_rad": ("yaw RMSE, °", math.degrees(1.0)),
    "tilt_rmse_rad": ("tilt RMSE, °", math.degrees(1.0)),
    "nees_mean": ("NEES, mean", 1.0),
}


def _flat(scores: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float | None]]:
    """Numbers of nested scores by their dotted names."""
    for key, value in scores.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield before + key, value


def estimates_table(flights: Flights) -> ReportTable:
    """Estimators as rows, their figures against the truth as columns."""
    rows = []
    for run in flights.runs:
        for name, scores in flights.summaries[run]["estimators"].items():
            figures = [
                None if scores.get(key) is None else scores[key] * scale
                for key, (_, scale) in _ROWS.items()
            ]
            rows.append((run, [name, *figures, scores.get("count")]))
    heads = ["estimator", *(f"|{words}" for words, _ in _ROWS.values()), "|stamps compared"]
    settle_s = next(iter(flights.summaries.values()))["settle_s"]
    note = (
        f"From {settle_s:g} s after the start. NEES is 3 for a filter whose stated deviations are"
        " right."
    )
    return _table(flights, "estimates", "Estimates against the truth", heads, rows, note)


def more_table(flights: Flights) -> ReportTable:
    """Every other figure that a summary has of its estimators, one column for each."""
    columns = {
        f"{run}: {name}" if flights.several else name: dict(_flat(scores))
        for run in flights.runs
        for name, scores in flights.summaries[run]["estimators"].items()
    }
    keys = dict.fromkeys(
        key
        for figures in columns.values()
        for key in figures
        if key not in _ROWS and key != "count" and not key.startswith("nis.")
    )
    rows = [
        [Cell(key.replace("_", " "))]
        + [Cell(figure_text(each.get(key), 4), "n") for each in columns.values()]
        for key in keys
    ]
    heads = [Cell("figure"), *(Cell(name, "n") for name in columns)]
    note = "As in the summary; angles in rad. docs/replay.md explains each."
    return ReportTable("more", "Further figures", heads, rows, note)


def innovations_table(flights: Flights) -> ReportTable:
    """Innovations in figures."""
    keys = ("estimator", "kind", "count", "refused", "nis", "expected")
    rows = (
        (row["run"], [*(row[key] for key in keys),
                      None if row["inside"] is None else 100.0 * row["inside"]])
        for row in innovation_rows(flights)
    )  # fmt: skip
    heads = ("estimator", "measurement", "|count", "|refused", "|NIS, mean", "|expected",
             f"|in the {100 * SHARE:.0f} % interval, %")  # fmt: skip
    return _table(flights, "innovations", "Innovations", heads, rows)


def events_table(flights: Flights) -> ReportTable:
    """What happened, numbered as the marks in the plots are."""
    rows = []
    for run, log in flights.runs.items():
        for number, event in enumerate(log.events[:MAX_EVENTS], 1):
            time = Cell(f"{(event.stamp_ns - log.start_ns) * 1e-9:.2f}", "n")
            style = ("", "warn", "bad")[min(max(event.level, 0), 2)]
            rows.append((run, [number, time, event.name, Cell(event.message, style)]))
    longest = max((len(log.events) for log in flights.runs.values()), default=0)
    note = f"The first {MAX_EVENTS} of {longest}." if longest > MAX_EVENTS else ""
    heads = ("|no.", "|time, s", "what", "")
    return _table(flights, "events", "Events", heads, rows, note)


def topics_table(flights: Flights) -> ReportTable:
    """Topics: counts and rates; gaps and latency where they were looked at."""
    found = topic_rows(flights)
    looked = any(row["looked"] for row in found)
    more = ("gaps", "longest_s", "repeated", "median_ms", "p99_ms") if looked else ()
    rows = (
        (row["run"], [row["topic"], row["count"], Cell(figure_text(row["rate_hz"], 4), "n"),
                      *(row.get(key) for key in more)])
        for row in found
    )  # fmt: skip
    heads = ["topic", "|messages", "|rate, Hz"]
    if looked:
        heads += ["|gaps", "|longest, s", "|stamps not rising"]
        heads += ["|latency, median, ms", "|99 %, ms"]
    note = "Latency: log time minus stamp." if looked else ""
    return _table(flights, "topics", "Topics", heads, rows, note)
