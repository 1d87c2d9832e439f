"""Figures of a report: paths, errors within stated bounds, rotors; and all in the page's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from quadsim.analysis.report.arrivals import arrivals
from quadsim.analysis.report.criteria import criteria_figure
from quadsim.analysis.report.figures import GROUND, MAX_FIXES, RUNS, extremes, thin
from quadsim.analysis.report.flights import (
    CORNERS,
    ESTIMATED,
    GPS,
    TERRAIN,
    TRUE,
    UNAIDED,
    WISH,
    Flights,
)
from quadsim.analysis.report.inside import (
    SHARE,
    accel_biases,
    gyro_biases,
    innovation_figure,
    kinds_of,
    measurement_name,
)
from quadsim.analysis.report.sheet import Sheet
from quadsim.sim.log import Array, FlightLog, Track

#: Ground that rises less than this along the path is flat, m.
FLAT_M = 0.05
_CURTAIN = 200  # rows of the surface between path and ground


def _tracks(flights: Flights, log: FlightLog) -> Iterator[tuple[str, Track]]:
    """Kind and track of what is drawn as a line, what lies below first."""
    if log.reference is not None and len(log.reference):
        yield WISH, log.reference
    if len(log.truth):
        yield TRUE, log.truth
    for name, track in sorted(log.estimates.items(), key=lambda item: item[0] != UNAIDED):
        if len(track):
            yield flights.kind_of(name), track


def _frame(values: Array, least: float) -> tuple[Array, Array]:
    """Lowest and highest coordinates that hold (N, d) points with a margin, ``least`` wide."""
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) * 0.58, least / 2)
    return middle - half, middle + half


def _framed(flights: Flights) -> Array:
    """(N, 3) points that the view must hold: all but the blind estimate, which may be far off."""
    points: list[Array] = [np.zeros((0, 3))]
    for log in flights.runs.values():
        points += [t.p_W[thin(len(t))] for kind, t in _tracks(flights, log) if kind != UNAIDED]
        points.append(log.waypoints)
    return np.concatenate(points)


def _rows(flights: Flights, track: Track, columns: int) -> NDArray[np.intp]:
    return extremes(track.p_W[:, :columns], flights.points)


def path_from_above(flights: Flights) -> go.Figure:
    """East and north at one scale: true, estimated, blind, reference, waypoints, GPS fixes."""
    sheet = Sheet(flights, ["north, m"], 520, "east, m")
    for run, log in flights.runs.items():
        if log.gnss is not None and len(log.gnss):
            p_W = log.gnss.p_W[thin(len(log.gnss), MAX_FIXES // len(flights.runs))]
            shown = not flights.several
            sheet.markers(run, GPS, p_W[:, 0], p_W[:, 1], shown=shown, size=5, opacity=0.45)
    for run, log in flights.runs.items():
        for kind, track in _tracks(flights, log):
            p_W = track.p_W[_rows(flights, track, 2)]
            shown = not flights.several or kind not in (WISH, UNAIDED)
            sheet.line(run, kind, p_W[:, 0], p_W[:, 1], shown=shown)
    for run, p_W in _corners(flights):
        cross = {"color": "#009e73", "width": 2.5}
        sheet.markers(run, CORNERS, p_W[:, 0], p_W[:, 1], symbol="cross-thin", size=13, line=cross)
    figure = sheet.finish()
    figure.update_yaxes(scaleanchor="x")
    framed = _framed(flights)
    if len(framed):
        low, high = _frame(framed[:, :2], 2.0)
        figure.update_xaxes(range=[low[0], high[0]])
        figure.update_yaxes(range=[low[1], high[1]])
    return figure


def _corners(flights: Flights) -> Iterator[tuple[str, Array]]:
    """Waypoints of each run, those that another run has too only once."""
    seen: list[Array] = []
    for run, log in flights.runs.items():
        if len(log.waypoints) and not any(np.array_equal(log.waypoints, old) for old in seen):
            seen.append(log.waypoints)
            yield run, log.waypoints


def path_in_space(flights: Flights) -> go.Figure:
    """East, north and up at one scale, with the ground beneath the truth where it is known."""
    sheet = Sheet(flights, [""], 540, "", in_space=True)
    framed = _framed(flights)
    low, high = _frame(framed, 2.0) if len(framed) else (np.zeros(3), np.ones(3))
    for run, log in flights.runs.items():
        for kind, track in _tracks(flights, log):
            p_W = track.p_W[_rows(flights, track, 3)]
            inside = bool(((p_W > low) & (p_W < high)).all())
            look = sheet._look(run, kind, {}) | {"width": 5 if kind == TRUE else 3}
            shown = inside and not (flights.several and kind in (WISH, UNAIDED))
            x, y, z = p_W.T
            sheet.add(run, kind, shown=shown, x=x, y=y, z=z, mode="lines", line=look)
        if log.ground_m is not None and len(log.truth):
            low[2] = min(low[2], float(np.nanmin(log.ground_m)) - 0.1)
            _ground(sheet, run, log)
    for run, p_W in _corners(flights):
        marker = {"symbol": "cross", "size": 4, "color": "#009e73"}
        x, y, z = p_W.T
        sheet.add(run, CORNERS, x=x, y=y, z=z, mode="markers", marker=marker)
    figure = sheet.finish()
    extent = high - low
    axes = zip("xyz", ("east, m", "north, m", "up, m"), low, high, strict=True)
    scene = {
        f"{axis}axis": {"title": {"text": title}, "range": [a, b]} for axis, title, a, b in axes
    } | {
        "aspectmode": "manual",
        "aspectratio": dict(zip("xyz", extent / extent.max(), strict=True)),
        "camera": {
            "eye": {"x": -1.0, "y": -1.35, "z": 0.85},
            "center": {"x": 0.0, "y": 0.0, "z": -0.12},
        },
        "dragmode": "turntable",
    }
    figure.update_layout(scene=scene, margin={"l": 0, "r": 0, "t": 10, "b": 0})
    return figure


def _ground(sheet: Sheet, run: str, log: FlightLog) -> None:
    """The ground beneath the truth, and of a single run a surface that hangs down to it."""
    assert log.ground_m is not None
    rows = thin(len(log.truth), 2 * _CURTAIN)
    p_W, ground_m = log.truth.p_W[rows], log.ground_m[rows]
    line = {"color": sheet.flights.colour(run, TERRAIN), "width": 3}
    sheet.add(run, TERRAIN, x=p_W[:, 0], y=p_W[:, 1], z=ground_m, mode="lines", line=line)
    if sheet.flights.several or len(rows) < 2:
        return
    count = len(rows)
    a = np.arange(count - 1)
    corners = {
        "i": np.concatenate([a, a + 1]),
        "j": np.concatenate([a + 1, a + 1 + count]),
        "k": np.concatenate([a + count, a + count]),
    }
    corners = {name: rows.astype(np.int32) for name, rows in corners.items()}
    x, y, z = *np.tile(p_W[:, :2], (2, 1)).T, np.concatenate([p_W[:, 2], ground_m])
    sheet.add(
        run, TERRAIN, of="mesh3d", x=x, y=y, z=z, color=GROUND, opacity=0.12, hoverinfo="skip",
        **corners,
    )  # fmt: skip


def height(flights: Flights) -> go.Figure:
    """Height over time, the ground beneath; where it is not flat, the height over it below."""
    hilly = any(
        log.ground_m is not None and len(log.ground_m) and np.ptp(log.ground_m) > FLAT_M
        for log in flights.runs.values()
    )
    titles = ["height, m", "over ground, m"] if hilly else ["height, m"]
    sheet = Sheet(flights, titles, 230 if hilly else 280)
    for run, log in flights.runs.items():
        if log.ground_m is not None and len(log.truth):
            stamp_ns, ground_m = log.truth.stamp_ns, log.ground_m
            sheet.over_time(run, TERRAIN, stamp_ns, ground_m, dash="solid")
            if hilly:
                above = log.truth.p_W[:, 2] - ground_m
                sheet.over_time(run, TRUE, stamp_ns, above, 2)
        for kind, track in _tracks(flights, log):
            shown = kind != UNAIDED and not (flights.several and kind == WISH)
            sheet.over_time(run, kind, track.stamp_ns, track.p_W[:, 2], 1, shown)
    _keep_height(sheet, hilly)
    return sheet.finish()


def _keep_height(sheet: Sheet, hilly: bool) -> None:
    """The band of a criterion on the height over ground."""
    flights = sheet.flights
    for run in flights.runs:
        for item in flights.judged(run):
            if item["name"] == "height_above_ground_m" and hilly:
                end_s = min(item.get("to_s", np.inf), flights.longest_s)
                sheet.band(2, (item.get("from_s", 0.0), end_s), (item["least"], item["limit"]), "")
        return  # all runs of a scenario keep the same


SPEED, COMMAND = "speed", "commanded"


def motor_speeds(flights: Flights) -> go.Figure:
    """Speeds of the rotors: all in one row, or a row for each where there is more to tell."""
    logs = flights.runs.values()
    rotors = max((log.motor_speed_radps.shape[1] for log in logs if len(log.motor_stamps_ns)),
                 default=0)  # fmt: skip
    commanded = any(len(log.command_stamps_ns) for log in logs)
    if not (flights.several or commanded):
        return _together(flights, rotors)
    sheet = Sheet(flights, [f"rotor {i}, rad/s" for i in range(rotors)] or [""], 110)
    for run, log in flights.runs.items():
        for kind, stamps, speeds, like, look in (
            (SPEED, log.motor_stamps_ns, log.motor_speed_radps, TRUE, {"width": 1.2}),
            (COMMAND, log.command_stamps_ns, log.command_radps, ESTIMATED,
             {"width": 1.0, "dash": "dot"}),
        ):  # fmt: skip
            colour = None if flights.several else flights.colour(run, like)
            shown = kind == SPEED or not flights.several
            for i in range(min(speeds.shape[1], rotors) if len(stamps) else 0):
                sheet.over_time(
                    run, kind, stamps, speeds[:, i], i + 1, shown, colour=colour, **look
                )
    return sheet.finish()


def _together(flights: Flights, rotors: int) -> go.Figure:
    sheet = Sheet(flights, ["rotor speed, rad/s"], 270)
    for run, log in flights.runs.items():
        for i in range(rotors):
            sheet.over_time(
                run, f"rotor {i}", log.motor_stamps_ns, log.motor_speed_radps[:, i],
                width=1.1, colour=RUNS[i % len(RUNS)],
            )  # fmt: skip
    return sheet.finish()


_AXES = ("east", "north", "up")
_SETTLED_S = 2.0  # a range of axes that the first moments would make useless begins later


def _figure(
    flights: Flights, quantity: str, columns: slice, scale: float, titles: tuple[str, ...]
) -> go.Figure:
    """Three rows: the error per axis and plus and minus three stated deviations."""
    sheet = Sheet(flights, titles)
    limits = np.zeros(3)
    for (run, name), error in flights.errors.items():
        log = flights.runs[run]
        first = name == next(iter(log.estimates))
        kind = flights.kind_of(name)
        values = getattr(error, quantity) * scale
        sigma = None if error.sigma is None else error.sigma[:, columns] * scale
        t_s = (error.stamp_ns - log.start_ns) * 1e-9
        settled = t_s >= min(_SETTLED_S, float(t_s[-1]) / 2)
        judged = first or kind != UNAIDED
        for axis in range(3):
            if sigma is not None and sigma[:, axis].any():
                three = 3 * sigma[:, axis]
                if sheet.bounds(run, name, first, error.stamp_ns, three, axis + 1):
                    high = 3 * float(np.nanquantile(sigma[settled, axis], 0.95))
                    limits[axis] = max(limits[axis], high)
            sheet.over_time(run, kind, error.stamp_ns, values[:, axis], axis + 1, judged)
            sizes = np.abs(values[settled, axis])
            if judged and np.isfinite(sizes).any():
                limits[axis] = max(limits[axis], float(np.nanmax(sizes)))
    figure = sheet.finish()
    for axis in range(3):
        span = [-1.15 * limits[axis], 1.15 * limits[axis]] if limits[axis] else None
        figure.update_yaxes(row=axis + 1, range=span)
    return figure


def position_errors(flights: Flights) -> go.Figure:
    """Position error per axis."""
    titles = tuple(f"{axis}, m" for axis in _AXES)
    return _figure(flights, "position_W", slice(0, 3), 1.0, titles)


def velocity_errors(flights: Flights) -> go.Figure:
    """Velocity error per axis."""
    titles = tuple(f"{axis}, m/s" for axis in _AXES)
    return _figure(flights, "velocity_W", slice(3, 6), 1.0, titles)


def attitude_errors(flights: Flights) -> go.Figure:
    """Attitude error as a rotation about the world axes."""
    titles = tuple(f"about {axis}, °" for axis in _AXES)
    return _figure(flights, "attitude_W", slice(6, 9), float(np.degrees(1.0)), titles)


@dataclass(frozen=True)
class ReportPart:
    """One figure of a report.

    Attributes:
        key: name of its file and its place in the page.
        draw: gives it; without traces where there is nothing to show.
    """

    key: str
    title: str
    note: str
    draw: Callable[[Flights], go.Figure]


_BOUNDS = "Estimate minus truth, and plus and minus three standard deviations as the filter states."
_BIASES = "As the filter estimates it, with three standard deviations about it."

BEFORE = (
    ReportPart(
        "criteria",
        "Pass criteria",
        "Green: where the signal has to stay; dashed: the largest RMSE that passes.",
        criteria_figure,
    ),
    ReportPart("path", "Path from above", "", path_from_above),
    ReportPart("space", "Path in space", "Drag to turn.", path_in_space),
    ReportPart(
        "height", "Height", "Brown: the ground beneath the truth, where it is known.", height
    ),
    ReportPart("position-error", "Position error", _BOUNDS, position_errors),
    ReportPart("velocity-error", "Velocity error", _BOUNDS, velocity_errors),
    ReportPart(
        "attitude-error", "Attitude error", f"About the world axes. {_BOUNDS}", attitude_errors
    ),
)
AFTER = (
    ReportPart("gyro-bias", "Gyroscope bias", _BIASES, gyro_biases),
    ReportPart("accel-bias", "Accelerometer bias", _BIASES, accel_biases),
    ReportPart("motors", "Rotor speeds", "", motor_speeds),
    ReportPart(
        "arrivals",
        "Messages of each topic",
        "Red: longer than three median periods without a message.",
        arrivals,
    ),
)


def report_parts(flights: Flights) -> Iterator[ReportPart]:
    """The figures that these flights may have."""
    yield from BEFORE
    for kind in kinds_of(flights):
        yield ReportPart(
            f"innovation-{kind.replace('_', '-')}",
            f"Innovation: {measurement_name(kind)}",
            "Measured minus expected, and plus and minus three expected standard deviations; below"
            f" it the NIS and where {100 * SHARE:.0f} % of it lie if the filter is right.",
            partial(innovation_figure, kind=kind),
        )
    yield from AFTER


def drawn(flights: Flights) -> Iterator[tuple[ReportPart, go.Figure]]:
    """The figures that have something to show."""
    for part in report_parts(flights):
        figure = part.draw(flights)
        if figure.data:
            yield part, figure
