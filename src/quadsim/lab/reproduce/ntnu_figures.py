"""One picture for each scenario: the runs of its four configurations side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import BLIND, ESTIMATE, FIXES, TRUTH, WAYPOINTS, finish_panels
from quadsim.lab.reproduce.ntnu import Drawn, NtnuCell

WIDTH_PX, INNER_PX = 1500, 740
#: Room around the waypoints in the view from above, as a share of their extent, and at least, m.
MARGIN, LEAST_MARGIN_M = 0.35, 4.0


def pictures(cells: Sequence[NtnuCell]) -> dict[str, go.Figure]:
    """Scenario to its picture."""
    names = dict.fromkeys(cell.scenario for cell in cells)
    return {name: ntnu_picture([cell for cell in cells if cell.scenario == name]) for name in names}


def ntnu_picture(cells: Sequence[NtnuCell]) -> go.Figure:
    """The first seed of each configuration: from above, height over ground, acceleration."""
    titles = [f"{cell.number} {cell.configuration.words}: {_words(cell)}" for cell in cells]
    figure = make_subplots(
        3, len(cells), row_heights=[0.5, 0.25, 0.25], vertical_spacing=0.07,
        horizontal_spacing=0.04, subplot_titles=titles,
    )  # fmt: skip
    drawn = [cell.flown[0].drawn for cell in cells]
    for column, each in enumerate(drawn, 1):
        if each is not None:
            _from_above(figure, column, each)
            for row, values in ((2, each.height_m), (3, each.acceleration_mps2)):
                line = {"color": TRUTH, "width": 1.5}
                figure.add_scatter(x=each.t_s, y=values, mode="lines", line=line, row=row,
                                   col=column)  # fmt: skip
    heights = [float(each.height_m.max()) for each in drawn if each is not None]
    forces = [float(np.quantile(each.acceleration_mps2, 0.99)) for each in drawn if each]
    figure.update_yaxes(range=[0.0, 1.05 * max(heights, default=1.0)], row=2)
    figure.update_yaxes(range=[0.0, 1.1 * max(forces, default=1.0)], row=3)
    sides = ("north, m", "height over ground, m", "acceleration, m/s²")
    for row, title in enumerate(sides, 1):
        figure.update_yaxes(title_text=title, row=row, col=1)
    figure.update_xaxes(title_text="east, m", row=1)
    figure.update_xaxes(title_text="time, s", row=3)
    title = f"<b>{cells[0].scenario}</b>, {cells[0].kind}"
    return finish_panels(figure, WIDTH_PX, INNER_PX, title)


def _words(cell: NtnuCell) -> str:
    """How the run that is drawn ended."""
    last = cell.flown[0].last
    return f"{last.end}, {last.duration_s:.1f} s"


def _from_above(figure: go.Figure, column: int, drawn: Drawn) -> None:
    """Truth, estimate, blind estimate, fixes and waypoints."""
    points = np.vstack([drawn.waypoints, drawn.truth[:1, :2]])
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    extent = float(np.ptp(points, axis=0).max())
    half = extent / 2 + max(MARGIN * extent, LEAST_MARGIN_M, 1.5 * drawn.radius_m)
    place = {"row": 1, "col": column}
    if len(drawn.fixes):
        marker = {"color": FIXES, "size": 5, "opacity": 0.5}
        x, y, _ = drawn.fixes.T
        figure.add_scatter(x=x, y=y, mode="markers", name="GPS fixes", marker=marker, **place)
    turn = np.append(np.linspace(0.0, 2.0 * np.pi, 40), np.nan)
    circle = drawn.radius_m * np.stack([np.cos(turn), np.sin(turn)])
    x, y = np.hstack([goal[:, None] + circle for goal in np.unique(drawn.waypoints, axis=0)])
    line = {"color": WAYPOINTS, "width": 1.5}
    figure.add_scatter(x=x, y=y, mode="lines", name="waypoints", line=line, **place)
    for name, track, colour, width in (
        ("blind", drawn.blind, BLIND, 1.5),
        ("truth", drawn.truth, TRUTH, 2.5),
        ("estimate", drawn.estimate, ESTIMATE, 1.5),
    ):
        line = {"color": colour, "width": width}
        x, y, _ = track.T
        figure.add_scatter(x=x, y=y, mode="lines", name=name, line=line, **place)
    ranges = np.stack([middle - half, middle + half], axis=1).tolist()
    axis = "x" if column == 1 else f"x{column}"
    figure.update_xaxes(range=ranges[0], **place)
    figure.update_yaxes(range=ranges[1], scaleanchor=axis, constrain="domain", **place)
