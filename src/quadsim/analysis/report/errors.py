"""Errors of the estimates against the truth, with the bounds that the filters state."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from quadsim.analysis.report.flights import UNAIDED, Flights
from quadsim.analysis.report.sheet import Sheet

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
