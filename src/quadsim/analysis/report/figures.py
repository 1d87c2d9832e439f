"""The look that all figures share: colours, axes, and how many points are drawn.

A line is thinned to what a screen can show, so that a page stays small: of every stretch of samples
the smallest and the largest are drawn, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.io import templates
from plotly.subplots import make_subplots

from quadsim.sim.log import ERROR, WARN, Array, Stamps

#: Plotly.js' own look is white too. A template costs 30 ms in each figure, 0.4 s in a report.
templates.default = "none"

MAX_POINTS = 1200  # of a line: a page is hardly wider
MAX_FIXES = 3000

#: What a line means (Okabe and Ito's colours, told apart by everybody).
TRUTH, ESTIMATE, BLIND, REFERENCE = "#1b1b1b", "#0072b2", "#e69f00", "#8c8c8c"
FIXES, WAYPOINTS, BAND = "#d55e00", "#009e73", "rgba(0, 114, 178, 0.16)"
GROUND, ALLOWED = "#8c6d1f", "rgba(0, 158, 115, 0.13)"
RUNS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1b1b1b", "#8c6d1f")
#: How plotly behaves in a page: it never sends data anywhere, and a wheel turns the page.
CONFIG = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtonsToRemove": ["select2d", "lasso2d"],
    "responsive": True,
    "scrollZoom": False,
    "showSendToCloud": False,
}
LEVELS = {WARN: "#b36b00", ERROR: "#c62828"}


def thin(count: int, limit: int = MAX_POINTS) -> NDArray[np.intp]:
    """Indices of at most ``limit`` rows out of ``count``, evenly, with the first and the last."""
    if count <= limit:
        return np.arange(count)
    return np.round(np.linspace(0, count - 1, limit)).astype(np.intp)


def extremes(values: Array, limit: int = MAX_POINTS) -> NDArray[np.intp]:
    """Indices of at most ``limit`` rows that keep every peak.

    Args:
        values: (N,) or (N, d); with several columns the limit holds for each.
        limit: 4 at least.

    Returns:
        The first and the last row, and of each of ``limit / 2 - 1`` even stretches those of the
        smallest and of the largest value, rising; all rows where they are no more than ``limit``.
    """
    count = len(values)
    if count <= limit:
        return np.arange(count)
    columns = values.reshape(count, -1).T
    width = -(-count // (limit // 2 - 1))
    rows = np.append(np.arange(count), np.full(-count % width, count - 1)).reshape(-1, width)
    chosen = [np.array([0, count - 1])]
    for column in columns:
        each = column[rows]
        unknown = np.isnan(each)
        stretch = np.arange(len(rows))
        chosen.append(rows[stretch, np.where(unknown, np.inf, each).argmin(axis=1)])
        chosen.append(rows[stretch, np.where(unknown, -np.inf, each).argmax(axis=1)])
    return np.asarray(np.unique(np.concatenate(chosen)), np.intp)


def seconds(stamp_ns: Stamps, start_ns: int) -> NDArray[np.float32]:
    """Time since the start of a run, s; fine enough to draw."""
    return ((stamp_ns - start_ns) * 1e-9).astype(np.float32)


def style(figure: go.Figure, height: int, y_title: str = "", x_title: str = "time, s") -> go.Figure:
    """The look that all figures share."""
    figure.update_layout(
        height=height,
        margin={"l": 60, "r": 20, "t": 30, "b": 45},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="x unified" if x_title.startswith("time") else "closest",
    )
    figure.update_xaxes(showline=True, linecolor="#bbb", zeroline=False)
    figure.update_yaxes(showline=True, linecolor="#bbb", zeroline=False)
    if y_title:
        figure.update_yaxes(title={"text": y_title})
    return figure


#: Panels next to each other.
ACROSS = 3


def panels(titles: Sequence[str], row_px: int) -> tuple[go.Figure, list[dict[str, Any]]]:
    """Subplots, three side by side, with room for the legend above, and the place of each."""
    rows = -(-len(titles) // ACROSS)
    height_px = 90 + row_px * rows
    figure = make_subplots(
        rows, min(ACROSS, len(titles)), subplot_titles=list(titles), horizontal_spacing=0.07,
        vertical_spacing=min(0.9 / rows, 70.0 / height_px),
    )  # fmt: skip
    style(figure, height_px, x_title="")
    figure.update_layout(margin={"t": 70}, legend={"y": 1.0 + 36.0 / height_px})
    figure.update_annotations(font_size=13)
    places = [{"row": k // ACROSS + 1, "col": k % ACROSS + 1} for k in range(len(titles))]
    return figure, places


#: Room above the panels of a picture for its title and legend, and below them.
HEAD_PX, FOOT_PX = 110, 50


def finish_panels(figure: go.Figure, width_px: int, inner_px: int, title: str = "") -> go.Figure:
    """The look of a picture of several panels, whose legend has each name once."""
    height_px = HEAD_PX + inner_px + FOOT_PX
    style(figure, height_px, x_title="")
    names: set[str] = set()
    for trace in figure.data:
        is_new = bool(trace.name) and trace.name not in names and trace.showlegend is not False
        trace.update(showlegend=is_new, legendgroup=trace.name)
        if is_new:
            names.add(trace.name)
    figure.update_annotations(font_size=13)
    figure.update_layout(
        width=width_px, title={"text": title, "x": 0.05, "y": 1.0 - 24.0 / height_px},
        legend={"y": 1.0 + 30.0 / inner_px}, margin={"t": HEAD_PX, "b": FOOT_PX}, hovermode=False,
    )  # fmt: skip
    return figure
