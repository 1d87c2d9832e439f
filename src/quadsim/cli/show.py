"""Results for people: the summary of a run as a few lines and tables on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from quadsim.base.parts import Part, PartError
from quadsim.cli.common import finish

_COLUMNS = {
    "position_rmse_m": "position RMSE, m",
    "position_max_m": "largest, m",
    "velocity_rmse_mps": "velocity RMSE, m/s",
    "yaw_rmse_rad": "yaw RMSE, rad",
    "tilt_rmse_rad": "tilt RMSE, rad",
    "nees_mean": "NEES",
}
#: The same where many rows are compared, and every column counts.
_SHORT = {
    "position_rmse_m": "RMSE, m",
    "velocity_rmse_mps": "m/s",
    "yaw_rmse_rad": "yaw, rad",
    "tilt_rmse_rad": "tilt",
    "nees_mean": "NEES",
}


#: Width of tables that go to a file or a pipe.
FILE_WIDTH = 130


def tables() -> Console:
    """A console for tables, wide enough for them where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    return console


def print_table(
    console: Console, titles: Iterable[str | Column], rows: Iterable[Iterable[str | Text]]
) -> None:
    """Print a table; nothing without rows."""
    table = Table(*titles)
    for row in rows:
        table.add_row(*row)
    if table.rows:
        console.print(table)


def narrow(first: str, *titles: str) -> list[Column]:
    """Columns of which the first folds, and the others stay on a line."""
    return [Column(first, overflow="fold"), *(Column(title, no_wrap=True) for title in titles)]


def number(value: float | None, digits: int = 4) -> str:
    """A number as a table shows it."""
    return "-" if value is None else f"{value:.{digits}g}"


def criterion_words(item: Mapping[str, Any]) -> tuple[str, str]:
    """What had to hold: name, with the time without a break, and the band."""
    name, least = item["name"], item.get("least")
    if item.get("hold_s"):
        name += f" for {item['hold_s']:g} s"
    band = number(item["limit"])
    return name, f"{number(least)} … {band}" if least else band


def verdict(passed: bool, good: str = "passed", bad: str = "failed") -> Text:
    """Passed or failed, coloured."""
    return Text(good, "green") if passed else Text(bad, "red bold")


def show_flight(summary: Mapping[str, Any], parts: Iterable[Part], as_json: bool) -> int:
    """Print the summary of a flight with own parts, and give the exit status.

    Raises:
        PartError: a part failed in the flight, or after it.
    """
    status = show_summary(summary, as_json)
    failed = [item["error"] for item in summary["criteria"] if "error" in item]
    names = [f"{part}: " for part in parts]
    failed += [words for words in summary["errors"] if any(name in words for name in names)]
    if failed:
        raise PartError(failed[0])
    return status


def show_summary(summary: Mapping[str, Any], as_json: bool) -> int:
    """Print a summary, the JSON object or tables; the exit status."""
    return finish(summary, as_json, _show_summary)


def _show_summary(summary: Mapping[str, Any]) -> None:
    console = Console(highlight=False)
    factor = summary["real_time_factor"]
    speed = "" if factor is None else f", {factor:.2f} x real time"
    head = Text(f"{summary['scenario'] or summary['bag']}: {summary['duration_s']:.1f} s{speed}: ")
    refused = summary.get("refused", [])
    console.print(head + verdict(summary["passed"], ", ".join(["passed", *refused])))
    if summary["estimators"]:
        rows = (
            (name, *(number(scores[key]) for key in _COLUMNS))
            for name, scores in summary["estimators"].items()
        )
        print_table(console, ("estimator", *_COLUMNS.values()), rows)
        _show_more(console, summary["estimators"])
    if summary["tracking"]:
        console.print(f"tracking RMSE {number(summary['tracking']['position_rmse_m'])} m")
    named = ((item, *criterion_words(item)) for item in summary["criteria"])
    rows = (
        (name, number(item["value"]), band, verdict(item["passed"])) for item, name, band in named
    )
    print_table(console, ("criterion", "reached", "limit", ""), rows)
    for key in ("bag", "report"):
        if summary[key]:
            console.print(Text(f"{key}: {summary[key]}"), soft_wrap=True)
    for line in (*summary["notes"], *summary["errors"]):
        console.print(Text(line, "yellow"), soft_wrap=True)


def show_runs(summary: Mapping[str, Any], as_json: bool) -> int:
    """Print a summary of several replays, the JSON object or tables; the exit status."""
    return finish(summary, as_json, _show_runs)


def _show_runs(summary: Mapping[str, Any]) -> None:
    console = Console(highlight=False)
    factor = summary["real_time_factor"]
    speed = "" if factor is None else f", {factor:.2f} x real time"
    count = len(summary["runs"])
    head = Text(
        f"{count} replay{'' if count == 1 else 's'}: {summary['duration_s']:.1f} s{speed}: "
    )
    console.print(head + verdict(summary["passed"]))
    table = Table(*narrow("replay", *_SHORT.values()))
    for run in summary["runs"]:
        table.add_row(Text(run["title"], "bold"))
        for name, scores in run["estimators"].items():
            table.add_row(f"  {name}", *(number(scores[key], 3) for key in _SHORT))
    table.add_section()
    for name, scores in summary["estimators"].items():
        table.add_row(Text(name, "bold"))
        table.add_row("  mean", *(number(scores[key], 3) for key in _SHORT))
        worst = {key: item and item["value"] for key, item in summary["worst"][name].items()}
        table.add_row("  worst", *(number(worst[key], 3) for key in _SHORT))
    console.print(table)
    _show_more(console, summary["estimators"])
    for run in summary["runs"]:
        for line in (*run["errors"], *run["notes"]):
            console.print(Text(f"{run['title']}: {line}", "yellow"))
    for failure in summary["failures"]:
        console.print(Text(failure["error"], "red"))
    if summary["report"]:
        console.print(Text(f"report: {summary['report']}"), soft_wrap=True)


def _show_more(console: Console, estimators: Mapping[str, Mapping[str, Any]]) -> None:
    """What a replay has beyond the figures of a flight: drift, availability, innovations."""
    judged = {name: scores for name, scores in estimators.items() if "rpe" in scores}
    if not judged:
        return
    apart = (
        (
            name, span, number(rpe["translation_rmse_m"]), number(rpe["rotation_rmse_rad"]),
            percentage(rpe.get("drift_share")), str(rpe["count"]),
        )
        for name, scores in judged.items()
        for span, rpe in scores["rpe"].items()
    )  # fmt: skip
    print_table(console, ("estimator", "apart", "RPE, m", "RPE, rad", "drift", "pairs"), apart)
    refused = (
        (
            name, kind, f"{nis['dof']:g}", number(nis["mean"]), percentage(nis["refused_share"]),
            str(nis["count"] + nis["refused"]),
        )
        for name, scores in judged.items()
        for kind, nis in scores["nis"].items()
    )  # fmt: skip
    print_table(console, ("estimator", "measurement", "numbers", "NIS", "refused", "of"), refused)
    for name, scores in judged.items():
        there = scores["availability"]
        console.print(
            f"{name}: there for {percentage(there['share'])} of the time;"
            f" position within 3 sigma for {percentage(there['within_3_sigma'])}"
        )


def percentage(value: float | None) -> str:
    """A share as a percentage."""
    return "-" if value is None else f"{100.0 * value:.4g} %"
