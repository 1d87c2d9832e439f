"""What an estimator assumed besides the motion: innovations with their bounds, and biases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from quadsim.analysis.report.flights import UNAIDED, Flights
from quadsim.analysis.report.sheet import Sheet
from quadsim.sim.log import Innovations

REFUSED = "refused by the gate"
#: NIS is drawn next to the interval that holds this share of it, if the filter is right.
SHARE = 0.95

_DEGREES = float(np.degrees(1.0))


class MeasurementKind(NamedTuple):
    """How the innovations of a measurement are drawn: in a unit, times a scale, by component."""

    words: str
    unit: str
    scale: float
    names: tuple[str, ...]


_ENU = ("east", "north", "up")
#: As the filters name their sensors.
KINDS: dict[str, MeasurementKind] = {
    "gnss_position": MeasurementKind("GPS position", "m", 1.0, _ENU),
    "gnss_velocity": MeasurementKind("GPS velocity", "m/s", 1.0, _ENU),
    "magnetic_field": MeasurementKind("magnetic heading", "°", _DEGREES, ("heading",)),
    "inclination": MeasurementKind("vertical magnetic field", "µT", 1e6, ("field",)),
    "pressure": MeasurementKind("pressure height", "m", 1.0, ("height",)),
    "range": MeasurementKind("range to the ground", "m", 1.0, ("range",)),
    "external_position": MeasurementKind("external position", "m", 1.0, _ENU),
    "external_attitude": MeasurementKind("external attitude", "°", _DEGREES, ("x", "y", "z")),
}


def _believed(flights: Flights) -> Iterator[tuple[str, str, Any]]:
    for run, log in flights.runs.items():
        for name in [*log.estimates, *(set(log.inside) - set(log.estimates))]:
            if name in log.inside and name != UNAIDED:
                yield run, name, log.inside[name]


def kinds_of(flights: Flights) -> list[str]:
    """Kinds of measurements that any estimator took."""
    found = {kind for _, _, inside in _believed(flights) for kind in inside.innovations}
    return [kind for kind in KINDS if kind in found] + sorted(found - set(KINDS))


def measurement_name(kind: str) -> str:
    """What a kind of measurement is called."""
    return KINDS[kind].words if kind in KINDS else kind.replace("_", " ")


def innovation_figure(flights: Flights, kind: str) -> go.Figure:
    """Measured minus expected, with three expected deviations, and below it the NIS."""
    found = [
        (run, name, inside.innovations[kind])
        for run, name, inside in _believed(flights)
        if kind in inside.innovations and len(inside.innovations[kind].stamp_ns)
    ]
    width = max((each.value.shape[1] for _, _, each in found), default=0)
    look = KINDS.get(kind, MeasurementKind(measurement_name(kind), "", 1.0, ()))
    unit, scale, names = look.unit, look.scale, look.names
    if width != len(names):
        names = tuple(f"{i + 1}" for i in range(width)) if width > 1 else ("value",)
    titles = [f"{name}, {unit}" if unit else name for name in names]
    sheet = Sheet(flights, [*titles, "NIS"], 130)
    limits = np.zeros(len(names) + 1)
    for run, name, each in found:
        first = name == next(iter(flights.runs[run].inside))
        for i in range(each.value.shape[1]):
            high, sizes = 3 * scale * each.sigma[:, i], np.abs(scale * each.value[:, i])
            sheet.bounds(run, name, first, each.stamp_ns, high, i + 1)
            limits[i] = max(limits[i], _most(high), _most(sizes))
        _draw(sheet, run, flights.kind_of(name), each, scale)
        limits[-1] = max(limits[-1], _most(each.nis), 1.2 * _interval(each)[1])
    figure = sheet.finish()
    if not found:
        return figure
    for row, limit in enumerate(limits, 1):
        low = -1.1 * limit if row < len(limits) else 0.0
        if limit > 0.0:
            figure.update_yaxes(row=row, range=[low, 1.1 * limit])
    low, high = _interval(found[0][2])
    sheet.band(len(names) + 1, (0.0, flights.longest_s), (low, high), "")
    return figure


def _most(values: Any) -> float:
    """What all but a few are below: one wild value must not flatten the rest."""
    values = values[np.isfinite(values)]
    return float(np.quantile(values, 0.995)) if len(values) else 0.0


def _interval(each: Innovations) -> tuple[float, float]:
    """Where the share :data:`SHARE` of the NIS of a filter that is right lies."""
    from quadsim.analysis.consistency import interval  # its scipy takes 0.1 s; few flights need it

    low, high = interval(each.value.shape[1])
    return low, high


def _draw(sheet: Sheet, run: str, kind: str, each: Innovations, scale: float) -> None:
    """Lines of the values and of the NIS, and what the gate refused as crosses."""
    start_ns = sheet.flights.runs[run].start_ns
    refused = np.flatnonzero(~each.accepted)[: sheet.flights.points // 4]
    t_s = (each.stamp_ns[refused] - start_ns) * 1e-9
    rows = [*(scale * each.value.T), each.nis]
    for row, values in enumerate(rows, 1):
        sheet.over_time(run, kind, each.stamp_ns, values, row, width=1.1)
        if len(refused):
            colour = None if sheet.flights.several else "#d55e00"
            sheet.markers(
                run, REFUSED, t_s, values[refused], row, colour=colour, symbol="x", size=6
            )


def innovation_rows(flights: Flights) -> list[dict[str, Any]]:
    """Figures of the innovations: one row for each run, estimator and kind."""
    rows = []
    for run, name, inside in _believed(flights):
        for kind, each in inside.innovations.items():
            if not len(each.stamp_ns):
                continue
            low, high = _interval(each)
            nis = each.nis[np.isfinite(each.nis)]
            row: dict[str, Any] = {"run": run, "estimator": name, "kind": measurement_name(kind)}
            row |= {"count": len(each.stamp_ns), "refused": int((~each.accepted).sum())}
            row["expected"] = each.value.shape[1]
            row["nis"] = float(nis.mean()) if len(nis) else None
            row["inside"] = float(((nis >= low) & (nis <= high)).mean()) if len(nis) else None
            rows.append(row)
    return rows


def _biases(flights: Flights, part: str, columns: slice, scale: float, unit: str) -> go.Figure:
    sheet = Sheet(flights, [f"{axis}, {unit}" for axis in "xyz"], 130)
    for run, name, inside in _believed(flights):
        values = getattr(inside, part) * scale
        sigma = inside.sigma[:, columns] * scale
        first = name == next(iter(flights.runs[run].inside))
        if not len(inside.stamp_ns) or not np.isfinite(values).any():
            continue
        for axis in range(3):
            if sigma[:, axis].any():  # about the estimate: where the filter states the true one is
                three, about = 3 * sigma[:, axis], values[:, axis]
                sheet.bounds(run, name, first, inside.stamp_ns, three, axis + 1, about)
            kind = flights.kind_of(name)
            sheet.over_time(run, kind, inside.stamp_ns, values[:, axis], axis + 1)
    return sheet.finish()


def gyro_biases(flights: Flights) -> go.Figure:
    """Estimated bias of the gyroscope."""
    return _biases(flights, "gyro_bias_B", slice(0, 3), float(np.degrees(1.0)), "°/s")


def accel_biases(flights: Flights) -> go.Figure:
    """Estimated bias of the accelerometer."""
    return _biases(flights, "accel_bias_B", slice(3, 6), 1.0, "m/s²")
