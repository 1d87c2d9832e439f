"""Make docs/images/square.png: the flight of ``quadsim sim``.

The picture needs Chromium. It keeps its figure as a text of the PNG, which a test compares with
today's flight.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import SETTLE_S, errors, rms
from quadsim.analysis.report.figures import (
    BAND,
    ESTIMATE,
    FIXES,
    REFERENCE,
    TRUTH,
    WAYPOINTS,
    seconds,
    style,
    thin,
)
from quadsim.analysis.report.pictures import save_picture
from quadsim.base.errors import InputError
from quadsim.sim.closed_loop import run
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import load_scenario

PICTURE = Path(__file__).parent / "images" / "square.png"
#: Name of the PNG's text that has the figure of its title.
FIGURE = "figure"
_WIDTH, _HEIGHT = 1200, 675
_AXES = ("east", "north", "up")


def square_picture(log: FlightLog) -> go.Figure:
    """One flight in one picture: path from above, height, and the error inside its bounds.

    Args:
        log: a flight with a truth and at least one estimate.

    Raises:
        InputError: the log has no truth or no estimate.
    """
    if not len(log.truth) or not log.estimates:
        raise InputError("a picture of a flight needs its truth and an estimate")
    figure = make_subplots(
        rows=4,
        cols=2,
        column_widths=[0.54, 0.46],
        row_heights=[0.34, 0.22, 0.22, 0.22],
        specs=[[{"rowspan": 4}, {}], [None, {}], [None, {}], [None, {}]],
        horizontal_spacing=0.09,
        vertical_spacing=0.055,
        subplot_titles=("", "", "position error"),
    )
    _path(figure, log)
    _height(figure, log)
    _error_rows(figure, log)
    style(figure, _HEIGHT)
    flown = f"{log.scenario or 'flight'}, flown on its own estimate ({estimate_error(log)})"
    figure.update_layout(
        width=_WIDTH,
        title={
            "text": f"<b>quadsim</b>: {flown}",
            "x": 0.045,
            "y": 0.965,
            "font": {"size": 21},
        },
        font={"size": 14},
        margin={"l": 62, "r": 30, "t": 84, "b": 50},
        legend={"y": 1.015, "x": 0.0, "font": {"size": 14}},
        paper_bgcolor="white",
        hovermode=False,
    )
    figure.update_xaxes(title_text="east, m", row=1, col=1)
    figure.update_yaxes(
        title_text="north, m", scaleanchor="x", scaleratio=1, row=1, col=1, constrain="domain"
    )
    for row in (1, 2, 3):
        figure.update_xaxes(showticklabels=False, row=row, col=2)
    figure.update_xaxes(showticklabels=True, row=1, col=1)
    figure.update_xaxes(title_text="time, s", row=4, col=2)
    figure.update_xaxes(range=[0.0, log.duration_s], col=2)
    return figure


def _add(figure: go.Figure, row: int, col: int, name: str, show: bool, **trace: object) -> None:
    figure.add_trace(go.Scatter(name=name, showlegend=show, **trace), row=row, col=col)


def _path(figure: go.Figure, log: FlightLog) -> None:
    if log.gnss is not None:
        p_W = log.gnss.p_W
        marker = {"color": FIXES, "size": 5, "opacity": 0.35}
        _add(
            figure, 1, 1, "GPS fixes", True, x=p_W[:, 0], y=p_W[:, 1], mode="markers", marker=marker
        )
    estimate = next(iter(log.estimates.values()))
    lines = [("truth", log.truth, {"color": TRUTH, "width": 3})]
    if log.reference is not None:
        lines.insert(
            0, ("reference", log.reference, {"color": REFERENCE, "width": 5, "dash": "dot"})
        )
    lines.append(("estimate", estimate, {"color": ESTIMATE, "width": 2}))
    for name, track, line in lines:
        p_W = track.p_W[thin(len(track), 2000)]
        _add(figure, 1, 1, name, True, x=p_W[:, 0], y=p_W[:, 1], mode="lines", line=line)
    if len(log.waypoints):
        marker = {"symbol": "cross-thin", "size": 16, "line": {"color": WAYPOINTS, "width": 3.5}}
        x, y = log.waypoints[:, 0], log.waypoints[:, 1]
        _add(figure, 1, 1, "waypoints", True, x=x, y=y, mode="markers", marker=marker)


def _height(figure: go.Figure, log: FlightLog) -> None:
    estimate = next(iter(log.estimates.values()))
    for name, track, line in (
        ("truth", log.truth, {"color": TRUTH, "width": 2.5}),
        ("estimate", estimate, {"color": ESTIMATE, "width": 1.5}),
    ):
        rows = thin(len(track))
        t_s = seconds(track.stamp_ns[rows], log.start_ns)
        _add(figure, 1, 2, name, False, x=t_s, y=track.p_W[rows, 2], mode="lines", line=line)
    figure.update_yaxes(title_text="height, m", row=1, col=2)


def _error_rows(figure: go.Figure, log: FlightLog) -> None:
    """Draw the position error per axis."""
    estimate = next(iter(log.estimates.values()))
    error = errors(estimate, log.truth)
    rows = thin(len(error))
    t_s = seconds(error.stamp_ns[rows], log.start_ns)
    settled = seconds(error.stamp_ns, log.start_ns) >= SETTLE_S
    for axis, name in enumerate(_AXES):
        row = axis + 2
        values = error.position_W[rows, axis] * 100
        limit = float(np.abs(error.position_W[settled, axis]).max(initial=0.001)) * 100
        if error.sigma is not None:
            bound = 300 * error.sigma[rows, axis]
            limit = max(limit, 300 * float(np.median(error.sigma[:, axis])))
            _add(
                figure,
                row,
                2,
                "3 σ stated by the filter",
                axis == 0,
                x=np.concatenate([t_s, t_s[::-1]]),
                y=np.concatenate([bound, -bound[::-1]]),
                fill="toself",
                fillcolor=BAND,
                mode="lines",
                line={"width": 0},
            )
        line = {"color": ESTIMATE, "width": 1.3}
        _add(figure, row, 2, "error", False, x=t_s, y=values, mode="lines", line=line)
        span = [-1.3 * limit, 1.3 * limit]
        figure.update_yaxes(title_text=f"{name}, cm", range=span, row=row, col=2)


def estimate_error(log: FlightLog) -> str:
    """How far the estimate is from the truth, in words."""
    error = errors(next(iter(log.estimates.values())), log.truth)
    settled = seconds(error.stamp_ns, log.start_ns) >= SETTLE_S
    size = rms(error.position_W[settled])
    return "no error known" if size is None else f"position RMSE {100 * size:.1f} cm"


def fly() -> FlightLog:
    """The flight that is drawn."""
    return run(load_scenario("square"))[0]


def main() -> None:
    """Fly and draw."""
    log = fly()
    save_picture(square_picture(log), PICTURE, _WIDTH, _HEIGHT)
    text = PngInfo()
    text.add_text(FIGURE, estimate_error(log))
    image = Image.open(PICTURE).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(PICTURE, optimize=True, pnginfo=text)


if __name__ == "__main__":
    main()
