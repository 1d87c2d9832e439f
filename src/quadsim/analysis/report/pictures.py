"""Pictures for papers and the README: figures as PNG or SVG."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import SETTLE_S, errors, rms
from quadsim.analysis.report.drawing import Figure
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
from quadsim.analysis.report.flights import Flights, Runs
from quadsim.analysis.report.parts import drawn
from quadsim.analysis.summary import Summary
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.surroundings import browser
from quadsim.base.whole_files import write_whole
from quadsim.sim.log import FlightLog

_WIDTH, _HEIGHT = 1200, 675
_PAPER_WIDTH = 900
_ENTRY_PX, _LETTER_PX, _LINE_PX = 60, 8, 24  # room that a legend takes, roughly
_PATIENCE_S, _PATIENCE_EACH_S = 60, 5
_HEADLESS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
    "--use-angle=swiftshader",  # pictures in space, without a graphics card
    "--enable-unsafe-swiftshader",
)
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
    worst = _error_rows(figure, log)
    style(figure, _HEIGHT)
    scenario = log.scenario or "flight"
    figure.update_layout(
        width=_WIDTH,
        title={
            "text": f"<b>quadsim</b>: {scenario}, flown on its own estimate ({worst})",
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


def _error_rows(figure: go.Figure, log: FlightLog) -> str:
    """Draw the position error per axis; say how large it is."""
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
    size = rms(error.position_W[settled])
    return "no error known" if size is None else f"position RMSE {100 * size:.1f} cm"


def _page(figures: Sequence[go.Figure | Figure], asked: Sequence[dict[str, Any]]) -> str:
    """A page that turns itself into the text of its pictures, one after the other."""
    content = json.dumps([figure.to_plotly_json() for figure in figures]).replace("<", "\\u003c")
    return (
        f"<html><head><meta charset='utf-8'><script>{get_plotlyjs()}</script></head><body><script>"
        f"const figures = {content}, asked = {json.dumps(asked)};"
        "(async () => { const made = [];"
        " for (const each of asked)"
        " made.push(await Plotly.toImage(figures[each.figure], each.options));"
        " document.body.textContent = made.join(' '); })();"
        "</script></body></html>"
    )


def _draw(figures: Sequence[go.Figure | Figure], asked: Sequence[dict[str, Any]]) -> list[bytes]:
    """Pictures by one start of the browser."""
    program = need_browser()
    patience_s = _PATIENCE_S + _PATIENCE_EACH_S * len(asked)
    with tempfile.TemporaryDirectory(prefix="quadsim-picture-") as folder:
        page = Path(folder) / "page.html"
        page.write_text(_page(figures, asked), encoding="utf-8")
        command = [program, *_HEADLESS, f"--user-data-dir={folder}/profile", "--dump-dom"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium has no sandbox for root
        try:
            done = subprocess.run(
                [*command, page.as_uri()], capture_output=True, timeout=patience_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise QuadsimError(f"{program} drew no picture within {patience_s} s") from None
    body = done.stdout.partition(b"<body>")[2]
    found = re.findall(rb"data:image/([a-z]+)[^,\s]*,([^<\s]+)", body)
    if len(found) != len(asked):
        raise QuadsimError(f"{program} drew no picture (status {done.returncode})")
    texts = [(kind, html.unescape(text.decode())) for kind, text in found]
    return [
        base64.b64decode(text) if kind == b"png" else unquote(text).encode() for kind, text in texts
    ]


def need_browser() -> str:
    """Path of the browser that draws pictures.

    Raises:
        QuadsimError: there is none.
    """
    program = browser()
    if program is None:
        raise QuadsimError("pictures need Chromium or Chrome; install it (apt install chromium)")
    return program


def save_picture(figure: go.Figure, path: Path, width: int = _WIDTH, height: int = _HEIGHT) -> None:
    """Save a figure as PNG or SVG, by the path's ending, drawn by a headless Chromium.

    Raises:
        InputError: the ending is not known, or the file cannot be written.
        QuadsimError: there is no browser, or it drew nothing.
    """
    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "svg"):
        raise InputError(f"{path}: pictures end in .png or .svg")
    options = {"format": kind, "width": width, "height": height}
    (content,) = _draw([figure], [{"figure": 0, "options": options}])
    write_whole(path, content)


def save_pictures(runs: Runs, summaries: Mapping[str, Summary], folder: Path) -> list[Path]:
    """Save each figure of a report as PNG (at twice the size, for print) and as SVG.

    Args:
        runs: label to flight.
        summaries: the same labels to summaries.
        folder: where they go; it is made. Pictures of the same names are written over.

    Returns:
        The files.

    Raises:
        InputError: a file cannot be written.
        QuadsimError: there is no browser, or it drew nothing.
    """
    need_browser()
    parts = list(drawn(Flights(runs, summaries)))
    paths, asked = [], []
    for number, (part, figure) in enumerate(parts):
        figure.data = [trace for trace in figure.data if trace.visible != "legendonly"]
        names = [trace.name for trace in figure.data if trace.showlegend is not False]
        wide_px = sum(_ENTRY_PX + _LETTER_PX * len(name) for name in names)
        legend_px = _LINE_PX * (1 + int(wide_px / (0.85 * _PAPER_WIDTH)))
        size = {"width": _PAPER_WIDTH, "height": figure.layout.height + legend_px}
        figure.update_layout(margin={"t": 40 + legend_px}, font={"size": 14})
        figure.update_layout(legend={"y": 1.0, "yref": "container", "yanchor": "top"})
        for kind, scale in (("png", 2), ("svg", 1)):
            paths.append(folder / f"{part.key}.{kind}")
            asked.append({"figure": number, "options": {"format": kind, "scale": scale} | size})
    for path, content in zip(paths, _draw([figure for _, figure in parts], asked), strict=True):
        write_whole(path, content)
    return paths
