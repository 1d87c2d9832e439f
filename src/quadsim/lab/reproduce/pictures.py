"""Pictures of published experiments: FCND scenarios and fleets over many seeds, the NTNU thesis.

Of FCND signals with their spread and band, and ways; of the thesis one picture for each scenario,
with the runs of its four configurations side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import errors
from quadsim.analysis.report.figures import (
    BAND,
    BLIND,
    ESTIMATE,
    FIXES,
    TRUTH,
    WAYPOINTS,
    finish_panels,
    seconds,
    thin,
)
from quadsim.analysis.signals import SIGNALS
from quadsim.lab.reproduce.fcnd import FcndResult, Reached
from quadsim.lab.reproduce.ntnu import Drawn, NtnuCell
from quadsim.mission.items import corners
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.criterion import SignalCriterion

WIDTH_PX, ROW_PX, VIEW_PX, GAP_PX = 900, 210, 520, 60
PASS_BAND, PASS_EDGE = "rgba(0, 158, 115, 0.13)", "#009e73"
GRID = 300
#: Vehicles of a fleet that are drawn; of more, the first seeds'.
MOST_WAYS = 40

#: Signals whose vehicles are drawn one by one below them: column of the error, name, unit.
COMPONENTS = {
    "x_error_probability": (0, "east error", "m"),
    "v_x_error_probability": (3, "error of the velocity to the east", "m/s"),
}


def quantiles_over_seeds(
    each: Sequence[Reached],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A common time and the 5 %, 50 % and 95 % quantiles over the seeds, (N,) and (3, N)."""
    known = [item for item in each if len(item.t_s)]
    if not known:
        return np.zeros(0), np.zeros((3, 0))
    first = min(float(item.t_s[0]) for item in known)
    last = max(float(item.t_s[-1]) for item in known)
    grid = np.asarray(np.linspace(first, last, GRID), np.float64)
    rows = [np.interp(grid, item.t_s, item.values, np.nan, np.nan) for item in known]
    return grid, np.asarray(np.nanquantile(rows, (0.05, 0.5, 0.95), axis=0))


def fcnd_picture(result: FcndResult) -> go.Figure:
    """One row for each criterion; of a fleet its ways, of several vehicles their errors."""
    signals = [item.criterion for item in result.flown[0].reached]
    drawn = [] if result.is_fleet else [c for c in signals if c.signal in COMPONENTS]
    titles = ["ways from above, m"] * result.is_fleet + [SIGNALS[c.signal].doc for c in signals]
    titles += [
        f"{COMPONENTS[item.signal][1]} of the vehicles of seed 1; black: one stated deviation"
        for item in drawn
    ]
    heights = [ROW_PX] * len(titles)
    if result.is_fleet:
        heights[0] = VIEW_PX
    inner = sum(heights)
    figure = make_subplots(
        len(titles), 1, row_heights=heights, subplot_titles=titles, vertical_spacing=GAP_PX / inner
    )
    if result.is_fleet:
        _draw_ways(figure, result)
    for k in range(len(signals)):
        each = [flown.reached[k] for flown in result.flown]
        _draw_signal(figure, k + 1 + result.is_fleet, each)
    if drawn:
        _draw_vehicles(figure, len(signals) + 1, result, drawn)
    figure.update_xaxes(title_text="time, s", row=len(titles), col=1)
    return finish_panels(figure, WIDTH_PX, inner, f"<b>{result.name}</b>: {result.headline}")


def _draw_signal(figure: go.Figure, row: int, each: list[Reached]) -> None:
    """Draw a criterion's signal over the seeds, with its pass band, into a row."""
    criterion, first, place = each[0].criterion, each[0], {"row": row, "col": 1, "mode": "lines"}
    signal = SIGNALS[criterion.signal]
    t_s, (low, median, high) = quantiles_over_seeds(each)
    begin, end = (float(t_s[0]), float(t_s[-1])) if len(t_s) else (0.0, 1.0)
    least, limit = criterion.least, criterion.limit
    figure.add_scatter(
        x=[begin, end, end, begin, begin], y=[least, least, limit, limit, least], name="pass band",
        fill="toself", fillcolor=PASS_BAND, line={"color": PASS_EDGE, "width": 1}, **place,
    )  # fmt: skip
    figure.add_scatter(
        x=np.concatenate([t_s, t_s[::-1]]), y=np.concatenate([low, high[::-1]]), fill="toself",
        fillcolor=BAND, line={"width": 0}, name="5 to 95 % of the seeds", **place,
    )  # fmt: skip
    line = {"color": ESTIMATE, "width": 2}
    figure.add_scatter(x=t_s, y=median, name="median", line=line, **place)
    line = {"color": TRUTH, "width": 1}
    figure.add_scatter(x=first.t_s, y=first.values, name="seed 1", line=line, **place)
    top = 1.1 * max(limit, float(np.nanmax(high, initial=0.0)))
    unit = signal.unit if signal.unit != "1" else "share" if signal.is_share else "probability"
    bounds = [0.4, 1.0] if signal.is_share else [0.0, top]
    figure.update_yaxes(range=bounds, title_text=unit, row=row, col=1)


def _draw_vehicles(
    figure: go.Figure, row: int, result: FcndResult, drawn: list[SignalCriterion]
) -> None:
    """Errors of every vehicle of seed 1, and one stated deviation of the first on both sides."""
    names = vehicle_names(result.scenario.file.vehicles)
    logs = [ClosedLoop(result.scenario, vehicle=name).fly() for name in names]
    found = [errors(next(iter(log.estimates.values())), log.truth) for log in logs]
    for k, criterion in enumerate(drawn, row):
        column, _, unit = COMPONENTS[criterion.signal]
        place = {"row": k, "col": 1, "mode": "lines", "showlegend": False}
        for number, (log, error) in enumerate(zip(logs, found, strict=True)):
            t_s = seconds(error.stamp_ns, log.start_ns)
            rows = thin(int(np.searchsorted(t_s, criterion.to_s)), GRID)
            values = (error.position_W if column < 3 else error.velocity_W)[rows, column % 3]
            line = {"color": ESTIMATE, "width": 1}
            figure.add_scatter(x=t_s[rows], y=values, line=line, **place)
            if number == 0 and error.sigma is not None:
                sigma, line = error.sigma[rows, column], {"color": TRUTH, "width": 2.5}
                figure.add_scatter(x=t_s[rows], y=sigma, line=line, **place)
                figure.add_scatter(x=t_s[rows], y=-sigma, line=line, **place)
        figure.update_yaxes(title_text=unit, row=k, col=1)


def _draw_ways(figure: go.Figure, result: FcndResult) -> None:
    """The vehicles' ways from above, where they came to rest, and the mission."""
    shown, place = result.flown[:MOST_WAYS], {"row": 1, "col": 1}
    for item in shown:
        line = {"color": ESTIMATE if item.passed else FIXES, "width": 1.0}
        x, y, _ = item.way_W.T
        figure.add_scatter(
            x=x, y=y, mode="lines", name=item.vehicle, line=line, showlegend=False, **place
        )
    x, y, _ = np.array([item.way_W[-1] for item in shown]).T
    marker = {"color": "#1b1b1b", "size": 6, "symbol": "x"}
    figure.add_scatter(x=x, y=y, mode="markers", name="rests", marker=marker, **place)
    x, y, *_ = np.array(corners(result.scenario.items, result.scenario.autopilot.flight)).T
    line = {"color": WAYPOINTS, "width": 2.0}
    figure.add_scatter(x=x, y=y, mode="lines", name="mission", line=line, **place)
    figure.update_yaxes(scaleanchor="x", scaleratio=1.0, **place)


NTNU_WIDTH_PX, INNER_PX = 1500, 740
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
    return finish_panels(figure, NTNU_WIDTH_PX, INNER_PX, title)


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
