"""The figures of reports: one function each, from runs to a plotly figure.

A run is a label and a :class:`FlightLog`. One run is coloured by what a line means, several runs
each have a colour. Lines are thinned to what a screen can show, so that a page stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import Errors, errors
from quadsim.sim.log import ERROR, WARN, Array, FlightLog, Stamps

Runs = Mapping[str, FlightLog]

MAX_POINTS = 1000  # more than a screen shows
MAX_FIXES = 3000

#: What a line means (Okabe and Ito's colours, told apart by everybody).
TRUTH, ESTIMATE, BLIND, REFERENCE = "#1b1b1b", "#0072b2", "#e69f00", "#8c8c8c"
FIXES, WAYPOINTS, BAND = "#d55e00", "#009e73", "rgba(0, 114, 178, 0.16)"
RUNS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#1b1b1b",
    "#8c6d1f",
)
_ESTIMATES = {"blind": BLIND}
_LEVELS = {WARN: "#e69f00", ERROR: "#c62828"}
_AXES = ("east", "north", "up")


def thin(count: int, limit: int = MAX_POINTS) -> NDArray[np.intp]:
    """Indices of at most ``limit`` rows out of ``count``, evenly, with the first and the last."""
    if count <= limit:
        return np.arange(count)
    return np.round(np.linspace(0, count - 1, limit)).astype(np.intp)


def seconds(stamp_ns: Stamps, start_ns: int) -> NDArray[np.float32]:
    """Time since the start of a run, s; fine enough to draw."""
    return ((stamp_ns - start_ns) * 1e-9).astype(np.float32)


def _small(values: Array) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)


def _estimate_colour(name: str, run: int, runs: int) -> str:
    return RUNS[run % len(RUNS)] if runs > 1 else _ESTIMATES.get(name, ESTIMATE)


def _label(run: str, what: str, runs: int) -> str:
    return f"{run}: {what}" if runs > 1 else what


def style(figure: go.Figure, height: int, y_title: str = "", x_title: str = "time, s") -> go.Figure:
    """The look that all figures share."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 30, "b": 45},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="x unified" if x_title.startswith("time") else "closest",
    )
    figure.update_xaxes(showline=True, linecolor="#bbb", zeroline=False)
    figure.update_yaxes(showline=True, linecolor="#bbb", zeroline=False)
    if y_title:
        figure.update_yaxes(title_text=y_title)
    return figure


def _line(x: Any, y: Any, name: str, colour: str, **more: Any) -> go.Scatter:
    line = {"color": colour, "width": more.pop("width", 1.6)}
    if "dash" in more:
        line["dash"] = more.pop("dash")
    return go.Scatter(x=_small(x), y=_small(y), name=name, mode="lines", line=line, **more)


def _frame(values: Array, least: float) -> tuple[list[float], list[float]]:
    """Ranges of x and y that hold (N, 2) points with a margin, at least ``least`` wide."""
    low, high = values.min(axis=0), values.max(axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) * 0.62, least / 2)
    x, y = np.stack([middle - half, middle + half], axis=1).tolist()
    return x, y


def path_from_above(runs: Runs) -> go.Figure:
    """East and north: truth, estimates, reference, waypoints, GPS fixes."""
    figure = go.Figure()
    framed = []
    for number, (run, log) in enumerate(runs.items()):
        if log.gnss is not None:
            rows = thin(len(log.gnss), MAX_FIXES)
            p_W = log.gnss.p_W[rows]
            figure.add_scatter(
                x=_small(p_W[:, 0]),
                y=_small(p_W[:, 1]),
                name=_label(run, "GPS fixes", len(runs)),
                mode="markers",
                marker={"color": FIXES, "size": 4, "opacity": 0.45},
            )
        if log.reference is not None:
            p_W = log.reference.p_W[thin(len(log.reference))]
            name = _label(run, "reference", len(runs))
            figure.add_trace(_line(p_W[:, 0], p_W[:, 1], name, REFERENCE, dash="dash", width=2.5))
        if len(log.truth):
            p_W = log.truth.p_W[thin(len(log.truth))]
            framed.append(p_W[:, :2])
            name = _label(run, "truth", len(runs))
            figure.add_trace(_line(p_W[:, 0], p_W[:, 1], name, TRUTH, width=2.2))
        for name, track in log.estimates.items():
            p_W = track.p_W[thin(len(track))]
            colour = _estimate_colour(name, number, len(runs))
            if name != "blind":
                framed.append(p_W[:, :2])
            figure.add_trace(_line(p_W[:, 0], p_W[:, 1], _label(run, name, len(runs)), colour))
    waypoints = next((log.waypoints for log in runs.values() if len(log.waypoints)), None)
    if waypoints is not None:
        framed.append(waypoints[:, :2])
        figure.add_scatter(
            x=_small(waypoints[:, 0]),
            y=_small(waypoints[:, 1]),
            name="waypoints",
            mode="markers",
            marker={"symbol": "cross-thin", "size": 13, "line": {"color": WAYPOINTS, "width": 2.5}},
        )
    style(figure, 560, "north, m", "east, m")
    figure.update_xaxes(title_text="east, m")
    figure.update_yaxes(scaleanchor="x")
    if framed:
        x, y = _frame(np.concatenate(framed), 2.0)
        figure.update_xaxes(range=x)
        figure.update_yaxes(range=y)
    return figure


def height(runs: Runs) -> go.Figure:
    """Height over time, with the events as marks."""
    figure = go.Figure()
    for number, (run, log) in enumerate(runs.items()):
        start_ns = log.start_ns
        lines: list[tuple[str, Any, str, dict[str, Any]]] = []
        if log.reference is not None:
            lines.append(("reference", log.reference, REFERENCE, {"dash": "dash", "width": 2.2}))
        lines.append(("truth", log.truth, TRUTH, {"width": 2.2}))
        for name, track in log.estimates.items():
            more = {"visible": "legendonly"} if name == "blind" else {}
            lines.append((name, track, _estimate_colour(name, number, len(runs)), more))
        for name, track, colour, more in lines:
            if len(track):
                rows = thin(len(track))
                t_s = seconds(track.stamp_ns[rows], start_ns)
                label = _label(run, name, len(runs))
                figure.add_trace(_line(t_s, track.p_W[rows, 2], label, colour, **more))
        if len(runs) == 1:
            _mark_events(figure, log)
    figure.update_xaxes(title_text="time, s")
    return style(figure, 320, "height, m")


def _mark_events(figure: go.Figure, log: FlightLog) -> None:
    for event in log.events[:60]:
        t_s = (event.stamp_ns - log.start_ns) * 1e-9
        if not 0.0 <= t_s <= log.duration_s:
            continue  # would stretch the axis
        figure.add_vline(
            x=t_s,
            line={"color": _LEVELS.get(event.level, "#bbb"), "width": 1, "dash": "dot"},
        )


def _judged(runs: Runs) -> dict[tuple[str, str], Errors]:
    found = {
        (run, name): errors(track, log.truth)
        for run, log in runs.items()
        for name, track in log.estimates.items()
    }
    return {key: error for key, error in found.items() if len(error)}


def _error_figure(
    runs: Runs, quantity: str, columns: slice, scale: float, titles: tuple[str, ...]
) -> go.Figure:
    """Three rows: the error per axis and the band of three stated deviations."""
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.04)
    limits = np.zeros(3)
    numbers = {run: i for i, run in enumerate(runs)}
    for (run, name), error in _judged(runs).items():
        start_ns = runs[run].start_ns
        first = name == next(iter(runs[run].estimates))
        rows = thin(len(error))
        t_s = seconds(error.stamp_ns[rows], start_ns)
        values = getattr(error, quantity)[rows] * scale
        sigma = None if error.sigma is None else error.sigma[rows, columns] * scale
        settled = t_s >= min(2.0, float(t_s[-1]) / 2)
        colour = _estimate_colour(name, numbers[run], len(runs))
        shown = {} if first else {"visible": "legendonly"}
        for axis in range(3):
            group = {"legendgroup": f"{run} {name}", "showlegend": axis == 0} | shown
            if sigma is not None and first and len(runs) == 1:
                _band(figure, t_s, 3 * sigma[:, axis], axis)
                bound = 3 * float(np.quantile(sigma[settled, axis], 0.95))
                limits[axis] = max(limits[axis], bound)
            line = _line(t_s, values[:, axis], _label(run, name, len(runs)), colour, **group)
            figure.add_trace(line, row=axis + 1, col=1)
            inside = np.abs(values[settled, axis])
            if first and np.isfinite(inside).any():
                limits[axis] = max(limits[axis], float(np.nanmax(inside)))
    for axis in range(3):
        span = [-1.15 * limits[axis], 1.15 * limits[axis]] if limits[axis] else None
        figure.update_yaxes(title_text=titles[axis], range=span, row=axis + 1, col=1)
    longest_s = max((log.duration_s for log in runs.values()), default=0.0)
    if longest_s:
        figure.update_xaxes(range=[0.0, longest_s])
    figure.update_xaxes(title_text="time, s", row=3, col=1)
    return style(figure, 560)


def _band(figure: go.Figure, t_s: NDArray[np.float32], bound: Array, axis: int) -> None:
    figure.add_trace(
        go.Scatter(
            x=np.concatenate([t_s, t_s[::-1]]),
            y=_small(np.concatenate([bound, -bound[::-1]])),
            name="3 σ stated",
            legendgroup="band",
            showlegend=axis == 0,
            fill="toself",
            fillcolor=BAND,
            line={"width": 0},
            hoverinfo="skip",
        ),
        row=axis + 1,
        col=1,
    )


def position_errors(runs: Runs) -> go.Figure:
    """Position error against the truth, per axis, with three stated deviations."""
    titles = tuple(f"{axis}, m" for axis in _AXES)
    return _error_figure(runs, "position_W", slice(0, 3), 1.0, titles)


def velocity_errors(runs: Runs) -> go.Figure:
    """Velocity error against the truth, per axis, with three stated deviations."""
    titles = tuple(f"{axis}, m/s" for axis in _AXES)
    return _error_figure(runs, "velocity_W", slice(3, 6), 1.0, titles)


def attitude_errors(runs: Runs) -> go.Figure:
    """Attitude error as a rotation about the world axes, with three stated deviations."""
    titles = tuple(f"about {axis}, °" for axis in _AXES)
    return _error_figure(runs, "attitude_W", slice(6, 9), float(np.degrees(1.0)), titles)


def motor_speeds(runs: Runs) -> go.Figure:
    """Speeds of the rotors."""
    figure = go.Figure()
    for run, log in runs.items():
        rows = thin(len(log.motor_stamps_ns))
        t_s = seconds(log.motor_stamps_ns[rows], log.start_ns)
        for rotor in range(log.motor_speed_radps.shape[1] if len(rows) else 0):
            name = _label(run, f"rotor {rotor}", len(runs))
            colour = RUNS[rotor % len(RUNS)]
            figure.add_trace(
                _line(t_s, log.motor_speed_radps[rows, rotor], name, colour, width=1.1)
            )
    figure.update_xaxes(title_text="time, s")
    return style(figure, 320, "rotor speed, rad/s")
