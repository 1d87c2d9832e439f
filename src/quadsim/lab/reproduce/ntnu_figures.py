"""One picture for each scenario: the runs of its four configurations side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import BLIND, ESTIMATE, FIXES, TRUTH, WAYPOINTS, style
from quadsim.lab.reproduce.ntnu import Drawn, Outcome

WIDTH_PX, HEIGHT_PX = 1500, 900
#: Room around the waypoints in the view from above, as a share of their extent, and at least, m.
MARGIN, LEAST_MARGIN_M = 0.35, 4.0


def pictures(outcomes: Sequence[Outcome]) -> dict[str, go.Figure]:
    """Scenario to its picture."""
    names = dict.fromkeys(outcome.scenario for outcome in outcomes)
    return {
        name: picture([outcome for outcome in outcomes if outcome.scenario == name])
        for name in names
    }


def picture(cells: Sequence[Outcome]) -> go.Figure:
    """The first seed of each configuration: from above, height over ground, acceleration."""
    titles = [f"{cell.number} {cell.configuration.words}: {_words(cell)}" for cell in cells]
    columns = len(cells)
    figure = make_subplots(
        rows=3,
        cols=columns,
        row_heights=[0.5, 0.25, 0.25],
        vertical_spacing=0.07,
        horizontal_spacing=0.04,
        subplot_titles=titles,
    )
    drawn = [cell.flown[0].drawn for cell in cells]
    for column, each in enumerate(drawn, 1):
        if each is not None:
            _from_above(figure, column, each, column == columns)
            _over_time(figure, column, each)
    style(figure, HEIGHT_PX)
    figure.update_layout(
        width=WIDTH_PX,
        title={"text": f"<b>{cells[0].scenario}</b>, {cells[0].kind}", "x": 0.04, "y": 0.98},
        legend={"y": 1.06},
        margin={"t": 110},
        hovermode=False,
    )
    figure.update_annotations(font_size=13)
    figure.update_yaxes(title_text="north, m", row=1, col=1)
    figure.update_yaxes(title_text="height over ground, m", rangemode="tozero", row=2, col=1)
    figure.update_yaxes(title_text="acceleration, m/s²", rangemode="tozero", row=3, col=1)
    figure.update_xaxes(title_text="east, m", row=1)
    figure.update_xaxes(title_text="time, s", row=3)
    heights = [float(each.height_m.max()) for each in drawn if each is not None]
    forces = [float(np.quantile(each.acceleration_mps2, 0.99)) for each in drawn if each]
    figure.update_yaxes(range=[0.0, 1.05 * max(heights, default=1.0)], row=2)
    figure.update_yaxes(range=[0.0, 1.1 * max(forces, default=1.0)], row=3)
    return figure


def _words(cell: Outcome) -> str:
    """How the run that is drawn ended."""
    last = cell.flown[0].last
    return f"{last.end}, {last.duration_s:.1f} s"


def _from_above(figure: go.Figure, column: int, drawn: Drawn, shown: bool) -> None:
    """Truth, estimate, blind estimate, fixes and waypoints."""
    points = np.vstack([drawn.waypoints, drawn.truth[:1, :2]])
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    extent = float(np.ptp(points, axis=0).max())
    half = extent / 2 + max(MARGIN * extent, LEAST_MARGIN_M, 1.5 * drawn.radius_m)
    place = {"row": 1, "col": column}

    def add(name: str, x: object, y: object, **more: object) -> None:
        trace = go.Scatter(x=x, y=y, name=name, legendgroup=name, showlegend=shown, **more)
        figure.add_trace(trace, **place)

    if len(drawn.fixes):
        marker = {"color": FIXES, "size": 5, "opacity": 0.5}
        add("GPS fixes", drawn.fixes[:, 0], drawn.fixes[:, 1], mode="markers", marker=marker)
    turn = np.linspace(0.0, 2.0 * np.pi, 40)
    x, y = ([] for _ in range(2))
    for east, north in np.unique(drawn.waypoints, axis=0):
        x += [*(east + drawn.radius_m * np.cos(turn)), None]
        y += [*(north + drawn.radius_m * np.sin(turn)), None]
    add("waypoints", x, y, mode="lines", line={"color": WAYPOINTS, "width": 1.5})
    for name, track, colour, width in (
        ("blind", drawn.blind, BLIND, 1.5),
        ("truth", drawn.truth, TRUTH, 2.5),
        ("estimate", drawn.estimate, ESTIMATE, 1.5),
    ):
        line = {"color": colour, "width": width}
        add(name, track[:, 0], track[:, 1], mode="lines", line=line)
    figure.update_xaxes(range=[middle[0] - half, middle[0] + half], **place)
    axis = "x" if column == 1 else f"x{column}"
    figure.update_yaxes(
        range=[middle[1] - half, middle[1] + half], scaleanchor=axis, constrain="domain", **place
    )


def _over_time(figure: go.Figure, column: int, drawn: Drawn) -> None:
    for row, values in ((2, drawn.height_m), (3, drawn.acceleration_mps2)):
        line = {"color": TRUTH, "width": 1.5}
        trace = go.Scatter(x=drawn.t_s, y=values, mode="lines", line=line, showlegend=False)
        figure.add_trace(trace, row=row, col=column)
