"""Pictures of scenarios over many seeds: each criterion's signal, its spread and the pass band."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import errors
from quadsim.analysis.report.figures import BAND, ESTIMATE, TRUTH, seconds, style, thin
from quadsim.analysis.signals import SIGNALS
from quadsim.lab.reproduce.fcnd import Outcome, Reached
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.criterion import SignalCriterion
from quadsim.sim.log import FlightLog

WIDTH_PX, ROW_PX, HEAD_PX, FOOT_PX = 900, 210, 110, 50
PASS_BAND, PASS_EDGE = "rgba(0, 158, 115, 0.13)", "#009e73"
GRID = 300

#: Signals whose vehicles are drawn one by one beside them: column of the error, name, unit.
COMPONENTS = {
    "x_error_probability": (0, "east error", "m"),
    "v_x_error_probability": (3, "error of the velocity to the east", "m/s"),
}


def over_seeds(each: list[Reached]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A common time and the 5 %, 50 % and 95 % quantiles over the seeds, (N,) and (3, N)."""
    known = [item for item in each if len(item.t_s)]
    if not known:
        return np.zeros(0), np.zeros((3, 0))
    first = min(float(item.t_s[0]) for item in known)
    last = max(float(item.t_s[-1]) for item in known)
    grid = np.asarray(np.linspace(first, last, GRID), np.float64)
    rows = [np.interp(grid, item.t_s, item.values, np.nan, np.nan) for item in known]
    return grid, np.asarray(np.nanquantile(rows, (0.05, 0.5, 0.95), axis=0))


def picture(outcome: Outcome) -> tuple[go.Figure, int]:
    """One row for each criterion, and for the errors of several vehicles; and its height in px."""
    reached = outcome.flown[0].reached
    parts = [(k, item.criterion.signal) for k, item in enumerate(reached)]
    drawn = [item.criterion for item in reached if item.criterion.signal in COMPONENTS]
    titles = [SIGNALS[signal].doc for _, signal in parts]
    titles += [
        f"{COMPONENTS[item.signal][1]} of the vehicles of seed 1; black: one stated deviation"
        for item in drawn
    ]
    rows = len(titles)
    figure = make_subplots(
        rows=rows, cols=1, subplot_titles=titles, vertical_spacing=0.32 / (rows + 1)
    )
    for row, (k, _) in enumerate(parts, 1):
        draw_signal(figure, row, [flown.reached[k] for flown in outcome.flown])
    if drawn:
        scenario = outcome.scenario
        names = vehicle_names(scenario.file.vehicles)
        logs = [ClosedLoop(scenario, vehicle=name).fly() for name in names]
        for row, item in enumerate(drawn, len(parts) + 1):
            _vehicles(figure, row, logs, item)
    inner = ROW_PX * rows
    height = HEAD_PX + inner + FOOT_PX
    style(figure, height)
    figure.update_layout(
        width=WIDTH_PX,
        title={
            "text": f"<b>{outcome.name}</b>: {outcome.headline}",
            "x": 0.06,
            "y": 1.0 - 24.0 / height,
        },
        legend={"y": 1.0 + 30.0 / inner},
        margin={"t": HEAD_PX, "b": FOOT_PX},
        hovermode=False,
    )
    figure.update_xaxes(title_text="time, s", row=rows, col=1)
    return figure, height


def _add(figure: go.Figure, row: int, name: str, **trace: object) -> None:
    figure.add_trace(
        go.Scatter(
            name=name,
            showlegend=name not in {drawn.name for drawn in figure.data},
            legendgroup=name,
            mode="lines",
            **trace,
        ),
        row=row,
        col=1,
    )


def draw_signal(figure: go.Figure, row: int, each: list[Reached]) -> None:
    """Draw a criterion's signal over the seeds, with its pass band, into a row."""
    criterion, first = each[0].criterion, each[0]
    unit = SIGNALS[criterion.signal].unit
    t_s, (low, median, high) = over_seeds(each)
    begin, end = (float(t_s[0]), float(t_s[-1])) if len(t_s) else (0.0, 1.0)
    _add(
        figure,
        row,
        "pass band",
        x=[begin, end, end, begin, begin],
        y=[criterion.least, criterion.least, criterion.limit, criterion.limit, criterion.least],
        fill="toself",
        fillcolor=PASS_BAND,
        line={"color": PASS_EDGE, "width": 1},
    )
    _add(
        figure,
        row,
        "5 to 95 % of the seeds",
        x=np.concatenate([t_s, t_s[::-1]]),
        y=np.concatenate([low, high[::-1]]),
        fill="toself",
        fillcolor=BAND,
        line={"width": 0},
    )
    _add(figure, row, "median", x=t_s, y=median, line={"color": ESTIMATE, "width": 2})
    _add(figure, row, "seed 1", x=first.t_s, y=first.values, line={"color": TRUTH, "width": 1})
    top = max(criterion.limit, float(np.nanmax(high, initial=0.0)))
    if SIGNALS[criterion.signal].is_share:
        figure.update_yaxes(range=[0.4, 1.0], row=row, col=1)
    else:
        figure.update_yaxes(range=[0.0, 1.1 * top], row=row, col=1)
    if unit == "1":
        unit = "share" if SIGNALS[criterion.signal].is_share else "probability"
    figure.update_yaxes(title_text=unit, row=row, col=1)


def _vehicles(
    figure: go.Figure, row: int, logs: list[FlightLog], criterion: SignalCriterion
) -> None:
    """Errors of every vehicle, and one stated deviation of the first on both sides."""
    column, _, unit = COMPONENTS[criterion.signal]
    for number, log in enumerate(logs):
        error = errors(next(iter(log.estimates.values())), log.truth)
        t_s = seconds(error.stamp_ns, log.start_ns)
        shown = int(np.searchsorted(t_s, criterion.to_s))
        rows = thin(shown, GRID)
        t_s = t_s[rows]
        vector = error.position_W if column < 3 else error.velocity_W
        figure.add_trace(
            go.Scatter(
                x=t_s,
                y=vector[rows, column % 3],
                mode="lines",
                showlegend=False,
                line={"color": ESTIMATE, "width": 1},
            ),
            row=row,
            col=1,
        )
        if number == 0 and error.sigma is not None:
            for sign in (1.0, -1.0):
                figure.add_trace(
                    go.Scatter(
                        x=t_s,
                        y=sign * error.sigma[rows, column],
                        mode="lines",
                        name="one stated deviation",
                        showlegend=False,
                        line={"color": TRUTH, "width": 2.5},
                    ),
                    row=row,
                    col=1,
                )
    figure.update_yaxes(title_text=unit, row=row, col=1)
