"""Make the picture of docs/identify.md from a recorded flight.

python docs/make_identify_picture.py runs/identification-<time>/bag

The flight is that of ``./quadsim fly --scenario identification``; the picture needs Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import ESTIMATE, TRUTH, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.bag.reading import open_bag
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.lab.identify.figures import MEANING
from quadsim.lab.identify.flight_data import read_flight
from quadsim.lab.identify.identification import IdentifiedVehicle, identify_vehicle
from quadsim.vehicle.parameters import VehicleParams

IMAGES = Path(__file__).parent / "images"

#: Rows of the equations that are drawn: column of the residual, name.
DRAWN = ((0, "specific force x, m/s²"), (3, "angular acceleration x, rad/s²"))
WIDTH_PX, HEIGHT_PX = 1200, 760


def of_one(results: dict[str, IdentifiedVehicle]) -> go.Figure:
    """What the figures explain of a flight, and the figures with their intervals."""
    first = next(iter(results.values()))
    figure = make_subplots(
        rows=2,
        cols=2,
        specs=[[{}, {"rowspan": 2}], [{}, None]],
        column_widths=[0.55, 0.45],
        horizontal_spacing=0.2,
        vertical_spacing=0.12,
        subplot_titles=(DRAWN[0][1], "estimate over the vehicle's file, %", DRAWN[1][1]),
    )
    equations, grid = first.equations, first.grid
    time_s = grid.windows.middle * grid.step_s
    left = equations.residual(first.solution.value)
    measured = np.hstack([equations.force_S, equations.gyro_dot_S])
    for place, (column, _) in enumerate(DRAWN):
        for name, values, colour in (
            ("measured", measured[:, column], TRUTH),
            ("explained", measured[:, column] - left[:, column], ESTIMATE),
            ("not explained", left[:, column], "#999999"),
        ):
            line = go.Scatter(
                x=time_s, y=values, name=name, line={"color": colour, "width": 1.2},
                showlegend=place == 0,
            )  # fmt: skip
            figure.add_trace(line, row=place + 1, col=1)
    names = [name for name in MEANING if name in first.figures and first.figures[name].file_value]
    for (label, result), colour in zip(results.items(), (TRUTH, ESTIMATE), strict=True):
        shown = [result.figures[name] for name in names]
        figure.add_trace(
            go.Scatter(
                x=[100.0 * (f.value / f.file_value - 1.0) for f in shown],
                y=[name.replace("_", " ") for name in names],
                error_x={
                    "type": "data",
                    "array": [50.0 * (f.high - f.low) / f.file_value for f in shown],
                    "thickness": 2,
                },
                mode="markers",
                marker={"color": colour, "size": 8},
                name=label,
            ),
            row=1,
            col=2,
        )
    figure.update_xaxes(range=[-8, 8], row=1, col=2)
    figure.update_yaxes(autorange="reversed", row=1, col=2)
    figure.update_xaxes(title_text="time, s", row=2, col=1)
    style(figure, HEIGHT_PX)
    figure.update_layout(legend={"y": 1.06}, hovermode=False, margin={"t": 80})
    return figure


def main() -> None:
    """Draw ``images/identify.png`` from the bag named on the command line."""
    vehicle = load(VehicleParams, find("vehicles", "x500"))
    results = {}
    with open_bag(Path(sys.argv[1])) as bag:
        for label, topic in (
            ("with the true motion", "ground_truth/odom"),
            ("with the filter's", "odometry/filtered"),
        ):
            results[label] = identify_vehicle(read_flight(bag, "/quad", topic), vehicle)
    IMAGES.mkdir(exist_ok=True)
    save_picture(of_one(results), IMAGES / "identify.png", WIDTH_PX, HEIGHT_PX)


if __name__ == "__main__":
    main()
