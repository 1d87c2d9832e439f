"""What tuning found: an autopilot file, and a picture of the steps before and after."""

from __future__ import annotations

from dataclasses import asdict, replace

import plotly.graph_objects as go
import yaml
from plotly.subplots import make_subplots

from quadsim._version import __version__
from quadsim.analysis.report.figures import ESTIMATE, REFERENCE, finish_panels, thin
from quadsim.base.parameters import from_mapping
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.parameter_text import parameter_lines
from quadsim.lab.tune.step_flights import AXES, SIZE, UNITS
from quadsim.lab.tune.tuning import Tuning

WIDTH_PX, INNER_PX = 1100, 840

_BEFORE, _AFTER = "#d55e00", ESTIMATE


def _one(words: str) -> str:
    return " ".join(words.split())


def autopilot_text(tuning: Tuning) -> str:
    """The text of an autopilot file with every key, and how it was made as a comment."""
    file = tuning.scenario.file
    how = f"relay experiments, rule {tuning.rule}"
    if tuning.method == "optimise":
        how += ", then a search over flown steps"
    name = f"{_one(file.vehicle)}, tuned by {tuning.method}"
    content = asdict(replace(tuning.after, name=name))
    head = [
        f"# Made by quadsim {__version__}, quadsim tune: {how}; seed {tuning.seed}.",
        f"# Vehicle {_one(file.vehicle)}, sensors {_one(file.sensors)}.",
        f"# Loops tuned: {', '.join(tuning.loops)}.",
        f"# What tuning does not set is of the autopilot {_one(file.autopilot)}.",
    ]
    text = "\n".join([*head, *parameter_lines(content)]) + "\n"
    from_mapping(AutopilotParams, yaml.safe_load(text), "tuned autopilot")
    return text


def tuning_picture(tuning: Tuning) -> go.Figure:
    """Steps before and after, a row for each axis, in calm air and in wind."""
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
        for windy in (False, True):
            place = {"row": row, "col": 1 + windy}
            for flown, name, colour in ((before, "before", _BEFORE), (after, "after", _AFTER)):
                response = flown.of(axis, windy)
                if response is not None:
                    rows = thin(len(response.time_s), 400)
                    figure.add_scatter(
                        x=response.time_s[rows], y=response.values[rows], name=name, mode="lines",
                        line={"color": colour, "width": 1.8}, **place,
                    )  # fmt: skip
            line = {"color": REFERENCE, "dash": "dash", "width": 1}
            figure.add_hline(y=SIZE[axis], line=line, **place)
            figure.update_yaxes(range=[-0.2, 1.8 * SIZE[axis]], **place)
    figure.update_xaxes(title_text="time since the step, s", row=len(AXES))
    lost = " (before: lost)" if before.calm is None else ""
    vehicle = _one(tuning.scenario.file.vehicle)
    title = f"<b>{vehicle}</b>, {tuning.method}: steps before and after{lost}"
    return finish_panels(figure, WIDTH_PX, INNER_PX, title)
