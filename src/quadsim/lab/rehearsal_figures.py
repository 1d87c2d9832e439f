"""A picture of rehearsals from above: obstacles, what moved, and the way that was flown."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import BLIND, REFERENCE, TRUTH, WAYPOINTS, style
from quadsim.geometry.rotation import yaw_of
from quadsim.hil.rehearsal.flight import TRACK, Outcome
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.world.scene.obstacle_fields import Field
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Sphere

WIDTH_PX, ROW_PX = 1500, 330
#: Flights in a picture, those that came nearest to an obstacle.
MOST = 6
COLUMNS = 2


def chosen(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The flights of the picture: what did not end well first, then by the smallest distance."""
    order = sorted(outcomes, key=lambda o: (not o.collided, o.arrived, o.clearance_m))
    return order[:MOST]


def outline(obstacle: Obstacle) -> tuple[list[float], list[float]]:
    """East and north of an obstacle's outline from above, closed; empty where it has none."""
    x, y, _ = obstacle.pose_W.p_A
    shape = obstacle.shape
    if isinstance(shape, Cylinder | Sphere):
        turn = np.linspace(0.0, 2.0 * np.pi, 25)
        return (
            (x + shape.radius_m * np.cos(turn)).tolist(),
            (y + shape.radius_m * np.sin(turn)).tolist(),
        )
    if isinstance(shape, Box):
        yaw = yaw_of(obstacle.pose_W.q_AB)
        half_x, half_y = 0.5 * shape.size_m[0], 0.5 * shape.size_m[1]
        corners = [(1, 1), (-1, 1), (-1, -1), (1, -1), (1, 1)]
        along = [(a * half_x, b * half_y) for a, b in corners]
        return (
            [x + math.cos(yaw) * a - math.sin(yaw) * b for a, b in along],
            [y + math.sin(yaw) * a + math.cos(yaw) * b for a, b in along],
        )
    return [], []


def _outlines(obstacles: Sequence[Obstacle]) -> tuple[list[float | None], list[float | None]]:
    """All outlines as one line with gaps."""
    east: list[float | None] = []
    north: list[float | None] = []
    for obstacle in obstacles:
        x, y = outline(obstacle)
        east += [*x, None]
        north += [*y, None]
    return east, north


def picture(flown: Sequence[tuple[str, Outcome]], speed_mps: float | None = None) -> go.Figure:
    """Flights from above.

    Args:
        flown: name of the rehearsal, and what came of the flight.
        speed_mps: limit of speed with which they were flown; None: that of their files.
    """
    rows = math.ceil(len(flown) / COLUMNS)
    several = len({name for name, _ in flown}) > 1
    titles = [
        f"{name + ', ' if several else ''}seed {o.seed}: {o.reason}, {o.time_s:.1f} s,"
        f" nearest {o.clearance_m:.2f} m"
        for name, o in flown
    ]
    figure = make_subplots(
        rows=rows, cols=COLUMNS, subplot_titles=titles, horizontal_spacing=0.05,
        vertical_spacing=0.22 / rows,
    )  # fmt: skip
    shown: set[str] = set()
    for k, (name, outcome) in enumerate(flown):
        field = load_rehearsal(name, outcome.seed, speed_mps).field
        _draw(figure, k // COLUMNS + 1, k % COLUMNS + 1, field, outcome, shown)
    height = 110 + rows * ROW_PX
    style(figure, height)
    figure.update_layout(width=WIDTH_PX, margin={"t": 90}, legend={"y": 1.0 + 60.0 / height})
    figure.update_annotations(font_size=13)
    figure.update_xaxes(title_text="east, m", row=rows)
    figure.update_yaxes(title_text="north, m", col=1)
    return figure


def _draw(
    figure: go.Figure, row: int, column: int, field: Field, outcome: Outcome, shown: set[str]
) -> None:
    """One flight into its panel; ``shown`` are the entries that the legend has."""
    place = {"row": row, "col": column}

    def add(name: str, x: object, y: object, **more: object) -> None:
        new = name not in shown
        shown.add(name)
        trace = go.Scatter(x=x, y=y, name=name, legendgroup=name, showlegend=new, **more)
        figure.add_trace(trace, **place)

    east, north = _outlines(field.obstacles)
    add(
        "obstacles", east, north, mode="lines", fill="toself", line={"color": WAYPOINTS, "width": 1}
    )
    ways = [(*mover.way_W, None) for mover in field.movers]
    if ways:
        corners = [corner for way in ways for corner in way]
        add(
            "moves or appears",
            [None if corner is None else corner[0] for corner in corners],
            [None if corner is None else corner[1] for corner in corners],
            mode="lines+markers",
            line={"color": BLIND, "width": 1.5, "dash": "dot"},
            marker={"size": 4},
        )
    track = dict(zip(TRACK, outcome.track.T, strict=True))
    add(
        "flown",
        track["x_m"],
        track["y_m"],
        mode="lines+markers",
        line={"color": TRUTH, "width": 1},
        marker={
            "color": track["speed_mps"], "colorscale": "Viridis", "size": 4, "cmin": 0.0,
            "showscale": "flown" not in shown, "colorbar": {"title": "m/s", "thickness": 12},
        },
    )  # fmt: skip
    ends = np.array([field.start_W, field.goal_W])
    add("start, goal", ends[:, 0], ends[:, 1], mode="markers",
        marker={"color": REFERENCE, "size": 9, "symbol": "x"})  # fmt: skip
    index = (row - 1) * COLUMNS + column
    axis = "x" if index == 1 else f"x{index}"
    figure.update_yaxes(scaleanchor=axis, constrain="domain", **place)
