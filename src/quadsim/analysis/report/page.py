"""The report of a run: one HTML file that needs nothing else and opens offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from quadsim.analysis.report import figures
from quadsim.analysis.report.figures import Runs
from quadsim.analysis.report.template import TEMPLATE
from quadsim.analysis.summary import Summary
from quadsim.analysis.whole_files import write_whole
from quadsim.errors import InputError

MAX_EVENTS = 200
MAX_RUNS = 8  # colours that everybody tells apart

_ROWS = {
    "position_rmse_m": "position RMSE, m",
    "position_max_m": "position, largest error, m",
    "velocity_rmse_mps": "velocity RMSE, m/s",
    "yaw_rmse_rad": "yaw RMSE, rad",
    "tilt_rmse_rad": "tilt RMSE, rad",
    "nees_mean": "position NEES, mean (3 = as stated)",
    "count": "stamps compared",
}


@dataclass(frozen=True)
class Part:
    """One figure of a report: its title, a line under it, and what draws it."""

    title: str
    note: str
    draw: Callable[[Runs], go.Figure]


PARTS = (
    Part("Path from above", "", figures.path_from_above),
    Part("Height", "Dotted lines are events.", figures.height),
    Part(
        "Position error",
        "Estimate minus truth; the band is three stated standard deviations.",
        figures.position_errors,
    ),
    Part("Velocity error", "", figures.velocity_errors),
    Part("Attitude error", "Rotation about the world axes.", figures.attitude_errors),
    Part("Rotor speeds", "", figures.motor_speeds),
)


def figure_text(value: float | None) -> str:
    """A number as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return str(value)
    return f"{value:.4g}"


def _drawn(runs: Runs) -> list[dict[str, Any]]:
    """The figures that have something to show, as markup."""
    parts = []
    for part in PARTS:
        figure = part.draw(runs)
        if figure.data:
            html = figure.to_html(
                full_html=False,
                include_plotlyjs=False,
                config={"displaylogo": False, "responsive": True},
            )
            parts.append({"title": part.title, "note": part.note, "html": Markup(html)})
    return parts


def _facts(summary: Summary) -> list[tuple[str, str]]:
    factor = summary["real_time_factor"]
    tracking = summary["tracking"] or {}
    facts = [
        ("seed", None if summary["seed"] is None else str(summary["seed"])),
        ("flown", f"{summary['duration_s']:.1f} s"),
        ("real-time factor", None if factor is None else f"{factor:.2f}"),
        (
            "tracking RMSE",
            f"{tracking['position_rmse_m']:.3f} m" if tracking else None,
        ),
        ("bag", summary["bag"]),
    ]
    return [(name, value) for name, value in facts if value is not None]


def render(runs: Runs, summaries: Mapping[str, Summary]) -> str:
    """The page as text.

    Args:
        runs: label to flight, one to :data:`MAX_RUNS`; the first is the one asked about.
        summaries: the same labels to summaries, by :func:`quadsim.analysis.summary.summarize`.

    Raises:
        InputError: there is no run, or there are more than a reader can tell apart.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise InputError(f"a report compares 1 to {MAX_RUNS} runs, not {len(runs)}")
    label, log = next(iter(runs.items()))
    summary = summaries[label]
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["figure"] = figure_text
    scores = {
        (name if len(runs) == 1 else f"{run}: {name}"): score
        for run in runs
        for name, score in summaries[run]["estimators"].items()
    }
    start_ns = log.start_ns
    return environment.from_string(TEMPLATE).render(
        title=label,
        summary=summary,
        facts=_facts(summary),
        estimators=list(scores),
        rows=[
            {"name": text, "figures": [score[key] for score in scores.values()]}
            for key, text in _ROWS.items()
        ],
        parts=_drawn(runs),
        events=[
            {
                "time_s": (event.stamp_ns - start_ns) * 1e-9,
                "level": event.level,
                "name": event.name,
                "message": event.message,
            }
            for event in log.events[:MAX_EVENTS]
        ],
        plotly_js=Markup(get_plotlyjs()),
    )


def write_report(runs: Runs, summaries: Mapping[str, Summary], path: Path) -> None:
    """Write the report of one flight, or of several in the same axes, whole or not at all.

    Args:
        runs: label to flight, one to :data:`MAX_RUNS`.
        summaries: the same labels to summaries.
        path: where the page goes.

    Raises:
        InputError: the file cannot be written, or there are too many runs.
    """
    write_whole(path, render(runs, summaries))
