"""Curves of a flight and of steps, as options of ECharts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim.analysis.metrics import errors
from quadsim.analysis.report.figures import thin
from quadsim.analysis.signals import euler_angles
from quadsim.lab.tune.step_flights import AXES, SIZE, UNITS, StepsFlown
from quadsim.sim.log import Array, FlightLog, Stamps

#: Colours that stand out on white and on black.
TRUTH, ESTIMATE, REFERENCE, BOUND = "#8c8c8c", "#3b8eea", "#e69f00", "#3b8eea66"
ROTORS = ("#3b8eea", "#e69f00", "#2ca87f", "#d55e00", "#cc79a7", "#56b4e9", "#8c8c8c", "#b8860b")
_AXIS, _GRID = "#888888", "#88888833"
#: Width from which on panels lie side by side, pixels.
WIDE_PX = 800
#: Points of a curve.
POINTS = 300
#: Time that is shown of a flight under way, s.
WINDOW_S = 30.0
DIRECTIONS = ("east", "north", "up")
ANGLES = ("roll", "pitch", "yaw")


@dataclass(frozen=True)
class Curve:
    """One line: (N,) times in s and values."""

    name: str
    colour: str
    time_s: Array
    values: Array
    dashed: bool = False
    width: float = 1.5


@dataclass(frozen=True)
class Panel:
    """Lines over the same axes."""

    title: str
    curves: Sequence[Curve]


def _seconds(stamp_ns: Stamps) -> Array:
    return np.asarray(stamp_ns * 1e-9)


def _tracks(log: FlightLog) -> list[tuple[str, str, Any, bool, float]]:
    """Name, colour, track, whether dashed and width of what a log holds."""
    estimate = next(iter(log.estimates.values()), None)
    return [
        (name, colour, track, dashed, width)
        for name, colour, track, dashed, width in (
            ("truth", TRUTH, log.truth, False, 3.0),
            ("estimate", ESTIMATE, estimate, False, 1.5),
            ("reference", REFERENCE, log.reference, True, 1.5),
        )
        if track is not None
    ]


def positions(log: FlightLog) -> list[Panel]:
    """Truth, estimate and reference."""
    return [
        Panel(
            f"{direction}, m",
            [
                Curve(name, colour, _seconds(track.stamp_ns), track.p_W[:, axis], dashed, width)
                for name, colour, track, dashed, width in _tracks(log)
            ],
        )
        for axis, direction in enumerate(DIRECTIONS)
    ]


def error_panels(log: FlightLog) -> list[Panel]:
    """Estimate minus truth within three stated deviations."""
    estimate = next(iter(log.estimates.values()), None)
    if estimate is None or not len(log.truth) or not len(estimate):
        return [Panel(f"{direction}, m", []) for direction in DIRECTIONS]
    error = errors(estimate, log.truth)
    time_s = _seconds(error.stamp_ns)
    panels = []
    for axis, direction in enumerate(DIRECTIONS):
        curves = [Curve("error", ESTIMATE, time_s, error.position_W[:, axis])]
        if error.sigma is not None:
            three = 3.0 * error.sigma[:, axis]
            curves += [Curve("3 σ", BOUND, time_s, sign * three, width=1.0) for sign in (1, -1)]
        panels.append(Panel(f"{direction}, m", curves))
    return panels


def attitudes(log: FlightLog) -> list[Panel]:
    """Roll, pitch and yaw of truth and estimate."""
    tracks = [each for each in _tracks(log) if each[0] != "reference" and len(each[2])]
    angles = {name: np.rad2deg(euler_angles(track.q_WB)) for name, _, track, *_ in tracks}
    return [
        Panel(
            f"{angle}, °",
            [
                Curve(name, colour, _seconds(track.stamp_ns), angles[name][:, axis], dashed, width)
                for name, colour, track, dashed, width in tracks
            ],
        )
        for axis, angle in enumerate(ANGLES)
    ]


def motors(log: FlightLog) -> list[Panel]:
    """Speeds of the rotors."""
    time_s = _seconds(log.motor_stamps_ns)
    curves = [
        Curve(f"rotor {i}", ROTORS[i % len(ROTORS)], time_s, speed)
        for i, speed in enumerate(log.motor_speed_radps.T)
    ]
    return [Panel("rotor speed, rad/s", curves)]


#: What the live plots show, by title.
VIEWS = {"position": positions, "error": error_panels, "attitude": attitudes, "rotors": motors}


def step_panels(steps: StepsFlown, before: StepsFlown | None, windy: bool) -> list[Panel]:
    """Steps of each axis, besides those with the gains of the file."""
    panels = []
    for axis in AXES:
        curves = []
        for name, colour, flown in (("file", TRUTH, before), ("now", ESTIMATE, steps)):
            response = flown.of(axis, windy) if flown else None
            if response is not None:
                curves.append(Curve(name, colour, response.time_s, response.values, width=2.0))
        if curves:
            ends = curves[0].time_s[[0, -1]]
            curves.append(Curve("step", REFERENCE, ends, np.full(2, SIZE[axis]), dashed=True))
        panels.append(Panel(f"{axis}, {UNITS[axis]}", curves))
    return panels


def _series(panel: int, curve: Curve) -> dict[str, Any]:
    rows = thin(len(curve.time_s), POINTS)
    values = np.where(np.isfinite(curve.values[rows]), curve.values[rows], np.nan)
    points = np.stack([np.round(curve.time_s[rows], 3), np.round(values, 5)], axis=1).tolist()
    return {
        "type": "line",
        "name": curve.name,
        "xAxisIndex": panel,
        "yAxisIndex": panel,
        "showSymbol": False,
        "silent": True,
        "color": curve.colour,
        "lineStyle": {"width": curve.width, "type": "dashed" if curve.dashed else "solid"},
        "data": [[x, y if y == y else None] for x, y in points],
    }


def _places(count: int, columns: int) -> list[dict[str, str]]:
    """Where the panels lie in a chart, row by row, below its legend."""
    head, foot = 7.0, 5.0
    rows = -(-count // columns)
    height, width = (100.0 - head - foot) / rows, 100.0 / columns
    return [
        {
            "left": f"{k % columns * width + 7.0 / columns}%",
            "width": f"{width - 10.0 / columns}%",
            "top": f"{head + k // columns * height + 3.5}%",
            "height": f"{height - 8.0}%",
        }
        for k in range(count)
    ]


def options(
    panels: Sequence[Panel], x_title: str = "time, s", wide_columns: int = 1
) -> dict[str, Any]:
    """Options of a chart of panels with joined times, one below the other.

    Args:
        wide_columns: columns of panels where there is room for them.
    """
    count = len(panels)
    names = [curve.name for panel in panels for curve in panel.curves]
    times = [curve.time_s for panel in panels for curve in panel.curves if len(curve.time_s)]
    begin_s = math.floor(min((float(time_s[0]) for time_s in times), default=0.0))
    look = {
        "axisLine": {"lineStyle": {"color": _AXIS}},
        "axisLabel": {"color": _AXIS},
        "splitLine": {"lineStyle": {"color": _GRID}},
        "scale": True,
        "type": "value",
    }
    chart: dict[str, Any] = {
        "animation": False,
        "legend": {
            "top": 0, "textStyle": {"color": _AXIS}, "icon": "roundRect", "itemHeight": 4,
            "data": [{"name": name} for name in dict.fromkeys(names)],
        },
        "tooltip": {"trigger": "axis", "confine": True, "transitionDuration": 0},
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "dataZoom": [
            {"type": "inside", "xAxisIndex": list(range(count)), "zoomOnMouseWheel": "ctrl"}
        ],
        "grid": _places(count, 1),
        "xAxis": [
            {"gridIndex": k, "min": begin_s, "max": "dataMax",
             "name": x_title if k == count - 1 else "", "nameLocation": "middle", "nameGap": 22,
             "nameTextStyle": {"color": _AXIS}, **look}
            for k in range(count)
        ],
        "yAxis": [
            {"gridIndex": k, "name": panel.title, "nameGap": 11, "splitNumber": 3,
             "nameTextStyle": {"color": _AXIS, "align": "left", "padding": [0, 0, 0, -40]}, **look}
            for k, panel in enumerate(panels)
        ],
        "series": [_series(k, curve) for k, panel in enumerate(panels) for curve in panel.curves],
    }  # fmt: skip
    if wide_columns > 1:
        wide = {"grid": _places(count, wide_columns)}
        chart["media"] = [
            {"query": {"minWidth": WIDE_PX}, "option": wide}, {"option": {"grid": chart["grid"]}}
        ]  # fmt: skip
    return chart
