"""What tuning found: an autopilot file, and a picture of the steps before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import plotly.graph_objects as go
import yaml
from plotly.subplots import make_subplots

from quadsim import __version__
from quadsim.analysis.report.figures import ESTIMATE, REFERENCE, style, thin
from quadsim.base.parameters import from_mapping
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.tune.step_flights import AXES, SIZE, UNITS, Response
from quadsim.lab.tune.tuning import Tuning

WIDTH_PX, HEIGHT_PX = 1100, 1000

_BEFORE, _AFTER = "#d55e00", ESTIMATE


def _plain(value: Any) -> Any:
    """Tuples as lists, all the way down: what YAML writes."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _lines(content: dict[str, Any], depth: int = 0) -> Iterator[str]:
    for key, value in content.items():
        pad = "  " * depth
        if isinstance(value, dict):
            yield f"{pad}{key}:"
            yield from _lines(value, depth + 1)
        else:
            text = yaml.safe_dump([value], default_flow_style=True, width=10_000)
            yield f"{pad}{key}: {text.strip()[1:-1]}"


def _one(words: str) -> str:
    return " ".join(words.split())


def autopilot_text(tuning: Tuning) -> str:
    """The text of an autopilot file with every key, and how it was made as a comment."""
    file = tuning.scenario.file
    how = f"relay experiments, rule {tuning.rule}"
    if tuning.method == "optimise":
        how += ", then a search over flown steps"
    name = f"{_one(file.vehicle)}, tuned by {tuning.method}"
    content = _plain(asdict(replace(tuning.after, name=name)))
    head = [
        f"# Made by quadsim {__version__}, quadsim tune: {how}; seed {tuning.seed}.",
        f"# Vehicle {_one(file.vehicle)}, sensors {_one(file.sensors)}.",
        f"# Loops tuned: {', '.join(tuning.loops)}.",
        f"# What tuning does not set is of the autopilot {_one(file.autopilot)}.",
    ]
    text = "\n".join([*head, *_lines(content)]) + "\n"
    from_mapping(AutopilotParams, yaml.safe_load(text), "tuned autopilot")
    return text


def _trace(
    figure: go.Figure, response: Response | None, name: str, colour: str, place: tuple[int, int]
) -> None:
    if response is None:
        return
    rows = thin(len(response.time_s), 400)
    figure.add_trace(
        go.Scatter(
            x=response.time_s[rows],
            y=response.values[rows],
            name=name,
            legendgroup=name,
            showlegend=place == (1, 1),
            mode="lines",
            line={"color": colour, "width": 1.8},
        ),
        row=place[0],
        col=place[1],
    )


def picture(tuning: Tuning) -> tuple[go.Figure, int]:
    """Steps before and after, a row for each axis, in calm air and in wind; its height in px."""
    titles = [
        f"{axis}, {UNITS[axis]}{', wind 4.5 m/s with gusts' if windy else ''}"
        for axis in AXES
        for windy in (False, True)
    ]
    figure = make_subplots(
        rows=len(AXES), cols=2, subplot_titles=titles, vertical_spacing=0.08, shared_xaxes=True
    )
    before, after = tuning.flown
    for row, axis in enumerate(AXES, 1):
        for column, windy in enumerate((False, True), 1):
            place = (row, column)
            for flown, name, colour in ((before, "before", _BEFORE), (after, "after", _AFTER)):
                responses = flown.windy if windy else flown.calm
                found = next((r for r in responses or () if r.axis == axis), None)
                _trace(figure, found, name, colour, place)
            figure.add_hline(
                y=SIZE[axis], line={"color": REFERENCE, "dash": "dash", "width": 1},
                row=row, col=column,
            )  # fmt: skip
            figure.update_yaxes(range=[-0.2, 1.8 * SIZE[axis]], row=row, col=column)
    figure.update_xaxes(title_text="time since the step, s", row=len(AXES))
    style(figure, HEIGHT_PX, x_title="")
    lost = " (before: lost)" if before.calm is None else ""
    figure.update_layout(
        width=WIDTH_PX,
        title={
            "text": f"<b>{_one(tuning.scenario.file.vehicle)}</b>, {tuning.method}: steps before"
            f" and after{lost}",
            "x": 0.05,
            "y": 0.985,
        },
        legend={"y": 1.035},
        margin={"t": 95},
        hovermode=False,
    )
    return figure, HEIGHT_PX
