"""The figures of a report in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import plotly.graph_objects as go

from quadsim.analysis.report.arrivals import arrivals
from quadsim.analysis.report.criteria import criteria_figure
from quadsim.analysis.report.errors import attitude_errors, position_errors, velocity_errors
from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.inside import (
    SHARE,
    accel_biases,
    gyro_biases,
    innovation_figure,
    kinds_of,
    measurement_name,
)
from quadsim.analysis.report.motors import motor_speeds
from quadsim.analysis.report.paths import height, path_from_above, path_in_space


@dataclass(frozen=True)
class ReportPart:
    """One figure of a report.

    Attributes:
        key: name of its file and its place in the page.
        title: over it.
        note: a line under the title.
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
