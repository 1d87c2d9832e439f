"""The tables of a report: what a reader asks first, in figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from quadsim.analysis.report.arrivals import topic_rows
from quadsim.analysis.report.criteria import criterion_rows
from quadsim.analysis.report.figures import RUNS
from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.inside import SHARE, innovation_rows
from quadsim.analysis.summary import Summary

MAX_EVENTS = 200
_NONE = "–"


class Cell(NamedTuple):
    """One field: its text, a class of the style, the colour of the run that it names."""

    text: str
    style: str = ""
    colour: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under titles; a title that ends in a unit is over numbers."""

    key: str
    title: str
    columns: list[Cell]
    rows: list[list[Cell]]
    note: str = ""


def figure_text(value: float | None, digits: int = 3) -> str:
    """A number as a table shows it."""
    if value is None or not math.isfinite(value):
        return _NONE
    if isinstance(value, int):
        return str(value)
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def _number(value: float | None, digits: int = 3) -> Cell:
    return Cell(figure_text(value, digits), "n")


def _verdict(passed: bool) -> Cell:
    return Cell("passed", "v good") if passed else Cell("failed", "v bad")


def _run(flights: Flights, run: str) -> list[Cell]:
    """The cell that names a run, where there are several."""
    if not flights.several:
        return []
    return [Cell(run, "", RUNS[list(flights.runs).index(run) % len(RUNS)])]


def _heads(flights: Flights, *titles: str) -> list[Cell]:
    """Titles of columns; one with a bar before it is over numbers."""
    heads = [Cell("run")] if flights.several else []
    return heads + [Cell(t.lstrip("|"), "n" if t.startswith("|") else "") for t in titles]


def why(summary: Summary) -> str:
    """Why a run passed or failed, in a sentence."""
    criteria = summary["criteria"]
    failed = [str(item["name"]) for item in criteria if not item["passed"]]
    parts = []
    if failed:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        parts.append(f"{len(failed)} of {len(criteria)} criteria missed: {failed[0]}{more}")
    elif criteria:
        parts.append("the criterion holds" if len(criteria) == 1 else
                     f"all {len(criteria)} criteria hold")  # fmt: skip
    errors = list(summary["errors"])
    if errors:
        more = f" and {len(errors) - 1} more errors" if len(errors) > 1 else ""
        parts.append(f"{errors[0]}{more}")
    elif not criteria:
        parts.append(
            "no error, and no criterion was set"
            if summary["passed"]
            else "an estimator never started"
        )
    return "; ".join(parts)


def runs_table(flights: Flights) -> Table:
    """Runs that are compared, with their verdicts."""
    rows = []
    for run in flights.runs:
        summary = flights.summaries[run]
        tracking = summary["tracking"] or {}
        rows.append(
            [
                *_run(flights, run),
                _verdict(summary["passed"]),
                Cell(why(summary)),
                _number(summary["seed"]),
                Cell(f"{summary['duration_s']:.1f}", "n"),
                _number(summary["real_time_factor"]),
                _number(tracking.get("position_rmse_m")),
            ]
        )
    heads = _heads(flights, "", "why", "|seed", "|flown, s", "|× real time", "|tracking RMSE, m")
    return Table("runs", "Runs", heads, rows)


def criteria_table(flights: Flights) -> Table:
    """What had to hold, those that failed first."""
    rows = [
        [
            *_run(flights, row["run"]),
            _verdict(row["passed"]),
            Cell(row["words"]),
            Cell(row["reached"], "n"),
            Cell(row["allowed"], "n"),
        ]
        for row in criterion_rows(flights)
    ]
    heads = _heads(flights, "", "what had to hold", "|reached", "|allowed")
    return Table("criteria-table", "Criteria", heads, rows)


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


def estimates_table(flights: Flights) -> Table:
    """Estimators as rows, their figures against the truth as columns."""
    rows = []
    for run in flights.runs:
        for name, scores in flights.summaries[run]["estimators"].items():
            cells = [
                _number(None if scores.get(key) is None else scores[key] * scale)
                for key, (_, scale) in _ROWS.items()
            ]
            rows.append([*_run(flights, run), Cell(name), *cells, _number(scores.get("count"))])
    heads = _heads(
        flights, "estimator", *(f"|{words}" for words, _ in _ROWS.values()), "|stamps compared"
    )
    settle_s = next(iter(flights.summaries.values()))["settle_s"]
    note = (
        f"From {settle_s:g} s after the start. NEES is 3 for a filter whose stated deviations are"
        " right."
    )
    return Table("estimates", "Estimates against the truth", heads, rows, note)


def more_table(flights: Flights) -> Table:
    """Every other figure that a summary has of its estimators, one column for each."""
    columns = {
        (run, name): dict(_flat(scores))
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
        [Cell(key.replace("_", " ")), *(_number(each.get(key), 4) for each in columns.values())]
        for key in keys
    ]
    heads = [Cell("figure")]
    for run, name in columns:
        heads.append(Cell(f"{run}: {name}" if flights.several else name, "n"))
    note = "As in the summary; angles in rad. docs/replay.md says what each means."
    return Table("more", "Further figures", heads, rows, note)


def innovations_table(flights: Flights) -> Table:
    """Innovations in figures."""
    rows = [
        [
            *_run(flights, row["run"]),
            Cell(row["estimator"]),
            Cell(row["kind"]),
            _number(row["count"]),
            _number(row["refused"]),
            _number(row["nis"]),
            _number(row["expected"]),
            _number(None if row["inside"] is None else 100.0 * row["inside"]),
        ]
        for row in innovation_rows(flights)
    ]
    share = f"{100 * SHARE:.0f} %"
    heads = _heads(
        flights, "estimator", "measurement", "|count", "|refused", "|NIS, mean", "|expected",
        f"|in the {share} interval, %",
    )  # fmt: skip
    return Table("innovations", "Innovations", heads, rows)


def events_table(flights: Flights) -> Table:
    """What happened, numbered as the marks in the plots are."""
    rows = []
    for run, log in flights.runs.items():
        for number, event in enumerate(log.events[:MAX_EVENTS], 1):
            t_s = (event.stamp_ns - log.start_ns) * 1e-9
            rows.append(
                [
                    *_run(flights, run),
                    Cell(str(number), "n"),
                    Cell(f"{t_s:.2f}", "n"),
                    Cell(event.name),
                    Cell(event.message, ("", "warn", "bad")[min(max(event.level, 0), 2)]),
                ]
            )
    longest = max((len(log.events) for log in flights.runs.values()), default=0)
    note = f"The first {MAX_EVENTS} of {longest}." if longest > MAX_EVENTS else ""
    heads = _heads(flights, "|no.", "|time, s", "what", "")
    return Table("events", "Events", heads, rows, note)


def topics_table(flights: Flights) -> Table:
    """Topics: counts and rates; gaps and latency where they were looked at."""
    found = topic_rows(flights)
    looked = any(row["looked"] for row in found)
    rows = []
    for row in found:
        cells = [Cell(row["topic"]), _number(row["count"]), _number(row["rate_hz"], 4)]
        if looked:
            cells += [_number(row.get(key)) for key in ("gaps", "longest_s", "repeated")]
            cells += [_number(row.get(key)) for key in ("median_ms", "p99_ms")]
        rows.append([*_run(flights, row["run"]), *cells])
    titles = ["topic", "|messages", "|rate, Hz"]
    if looked:
        titles += ["|gaps", "|longest, s", "|stamps not rising"]
        titles += ["|latency, median, ms", "|99 %, ms"]
    note = "Latency: log time minus stamp." if looked else ""
    return Table("topics", "Topics", _heads(flights, *titles), rows, note)
