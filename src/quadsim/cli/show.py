"""Results for people: the summary of a run as a few lines and tables on stdout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quadsim.cli.common import print_json

_COLUMNS = {
    "position_rmse_m": "position RMSE, m",
    "position_max_m": "largest, m",
    "velocity_rmse_mps": "velocity RMSE, m/s",
    "yaw_rmse_rad": "yaw RMSE, rad",
    "tilt_rmse_rad": "tilt RMSE, rad",
    "nees_mean": "NEES",
}


def number(value: float | None) -> str:
    """A number as a table shows it."""
    return "-" if value is None else f"{value:.4g}"


def criterion_words(item: Mapping[str, Any]) -> tuple[str, str]:
    """What had to hold: name, with the time without a break, and the band."""
    name, least = item["name"], item.get("least")
    if item.get("hold_s"):
        name += f" for {item['hold_s']:g} s"
    band = number(item["limit"])
    return name, f"{number(least)} … {band}" if least else band


def verdict(passed: bool) -> Text:
    """Passed or failed, coloured."""
    return Text("passed", "green") if passed else Text("failed", "red bold")


def show_summary(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary: the JSON object, or tables."""
    if as_json:
        print_json(summary)
        return
    console = Console(highlight=False)
    factor = summary["real_time_factor"]
    speed = "" if factor is None else f", {factor:.2f} x real time"
    head = Text(f"{summary['scenario'] or summary['bag']}: {summary['duration_s']:.1f} s{speed}: ")
    console.print(head + verdict(summary["passed"]))
    if summary["estimators"]:
        table = Table("estimator", *_COLUMNS.values())
        for name, scores in summary["estimators"].items():
            table.add_row(name, *(number(scores[key]) for key in _COLUMNS))
        console.print(table)
    if summary["tracking"]:
        console.print(f"tracking RMSE {number(summary['tracking']['position_rmse_m'])} m")
    if summary["criteria"]:
        table = Table("criterion", "reached", "limit", "")
        for item in summary["criteria"]:
            name, band = criterion_words(item)
            table.add_row(name, number(item["value"]), band, verdict(item["passed"]))
        console.print(table)
    for line in (*summary["errors"], *summary["notes"]):
        console.print(Text(line, "yellow"))
    for key in ("bag", "report"):
        if summary[key]:
            console.print(Text(f"{key}: {summary[key]}"), soft_wrap=True)
