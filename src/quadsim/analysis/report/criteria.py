"""The pass criteria: signals in the bands that they must keep, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.sheet import Sheet
from quadsim.analysis.signals import SIGNALS

VALUE = "value"
#: Last words of a value in the summary to the signal it is taken from.
_OF_VALUES = {
    "estimator.position_rmse_m": "position_error_m",
    "estimator.position_max_m": "position_error_m",
    "estimator.velocity_rmse_mps": "velocity_error_mps",
    "estimator.yaw_rmse_rad": "yaw_error_rad",
    "estimator.tilt_rmse_rad": "tilt_error_rad",
    "tracking.position_rmse_m": "tracking_error_m",
    "landing.speed_mps": "sink_mps",
    "landing.tilt_rad": "tilt_rad",
    "landing.away_m": "away_m",
}
#: What a landing is judged by lies within this time of its end, s.
_LANDING_S = 3.0
_UNITS = {"_m": "m", "_mps": "m/s", "_rad": "rad", "_s": "s"}


def unit_of(name: str) -> str:
    """Unit of a value of the summary or a signal, by the end of its name."""
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


def signal_of(item: Mapping[str, Any]) -> str | None:
    """Signal that a judged criterion speaks of; None for an event, or what no signal shows."""
    name = str(item["name"])
    signal = SIGNALS.get(name)
    if "event" in item or (signal is not None and signal.of_all):
        return None  # of all vehicles a report may hold a part only
    return _OF_VALUES.get(name) if signal is None else name


def criteria_figure(flights: Flights) -> go.Figure:
    """A row for each signal that a criterion speaks of, with the band to keep."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for run in flights.runs:
        for item in flights.judged(run):
            name = signal_of(item)
            if name is not None:
                found.setdefault(name, []).append((run, item))
    words = [_title(name) for name in found]
    sheet = Sheet(flights, words or [""], 170)
    tops = []
    for row, (name, items) in enumerate(found.items(), 1):
        top = max(float(item["limit"]) for _, item in items)
        for run, log in flights.runs.items():
            signal = SIGNALS[name]
            series = signal.of([log])
            if not len(series) or (signal.is_share and run not in dict(items)):
                continue
            values = series.values
            if signal.is_share:
                values = _share(flights, run, name, series)
            sheet.over_time(run, VALUE, series.stamp_ns, values, row)
            top = max(top, float(values.max()))
        tops.append(min(top, 6.0 * max(float(item["limit"]) for _, item in items)))
        _allow(sheet, row, items)
    figure = sheet.finish()
    for row, top in enumerate(tops, 1):
        figure.update_yaxes(row=row, range=[0.0, 1.12 * top])
    return figure


def _title(name: str) -> str:
    """Title of a signal's axis."""
    unit = SIGNALS[name].unit
    ends = [end for end, of in _UNITS.items() if of == unit and name.endswith(end)]
    words = (name[: -len(ends[0])] if ends else name).replace("_", " ")
    return f"{words}, {unit}" if ends else words


def _share(flights: Flights, run: str, name: str, series: Any) -> Any:
    """Share of ones since the criterion's beginning."""
    item = next(item for item in flights.judged(run) if item["name"] == name)
    since_s = (series.stamp_ns - flights.runs[run].start_ns) * 1e-9
    counted = (since_s >= item.get("from_s", 0.0)) & np.isfinite(series.values)
    total = np.cumsum(np.where(counted, series.values, 0.0))
    return total / np.maximum(np.cumsum(counted), 1)


def _allow(sheet: Sheet, row: int, items: list[tuple[str, Mapping[str, Any]]]) -> None:
    """Bands and limits of the criteria on a signal, those that runs share only once."""
    seen = set()
    end_s = sheet.flights.longest_s
    for run, item in items:
        name, limit = str(item["name"]), float(item["limit"])
        low, from_s = float(item.get("least") or 0.0), float(item.get("from_s") or 0.0)
        to_s = min(float(item.get("to_s") or end_s), end_s)
        if name.startswith("landing."):
            from_s = max(0.0, end_s - _LANDING_S)
        elif name.startswith("estimator."):
            from_s = float(sheet.flights.summaries[run]["settle_s"])
        key = (name, low, limit, from_s)
        if key in seen or from_s >= to_s:
            continue
        seen.add(key)
        band = f"{low:g} … {limit:g}" if low else f"≤ {limit:g}"
        if "_rmse_" in name:
            reached = "" if sheet.flights.several else f", reached {_short(item['value'])}"
            sheet.band(row, (from_s, to_s), (limit, limit), f"RMSE {band}{reached}")
        else:
            sheet.band(row, (from_s, to_s), (low, limit), band)


def _short(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.3g}"


def criterion_phrase(item: Mapping[str, Any]) -> str:
    """What had to hold."""
    if "event" in item:
        return f"{item['name']}, {_window(item)}".rstrip(", ")
    words = str(item["name"])
    if "hold_s" in item:
        words += f", {_window(item)}"
        if item["hold_s"]:
            words += f", for {item['hold_s']:g} s without a break"
    return words.rstrip(", ")


def _window(item: Mapping[str, Any]) -> str:
    from_s, to_s = float(item.get("from_s") or 0.0), float(item.get("to_s") or 86400.0)
    if to_s >= 86400.0:
        return f"from {from_s:g} s on" if from_s else ""
    return f"{from_s:g} to {to_s:g} s"


def allowed(item: Mapping[str, Any]) -> str:
    """The band, in words."""
    if "event" in item:
        return "comes"
    unit = unit_of(str(item["name"]))
    low = f"{item['least']:g} … " if item.get("least") else "≤ "
    return f"{low}{item['limit']:g} {unit}".strip()


def criterion_rows(flights: Flights) -> list[dict[str, Any]]:
    """One row for each run and criterion, those that failed first."""
    rows = []
    for run in flights.runs:
        for item in flights.judged(run):
            value, is_event = item["value"], "event" in item
            if value is None:
                reached = "never" if is_event else "–"
            else:
                words = f"{value:.3g} {unit_of(str(item['name']))}".strip()
                reached = f"at {value:.2f} s" if is_event else words
            row = {"run": run, "words": criterion_phrase(item), "reached": reached}
            rows.append(row | {"allowed": allowed(item), "passed": item["passed"]})
    return sorted(rows, key=lambda row: row["passed"])
