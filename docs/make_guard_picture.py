"""Make the picture of docs/guard.md: a wish that knows of no pillars, and a wall ahead.

python docs/make_guard_picture.py; it needs Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from PIL import Image
from plotly.subplots import make_subplots

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

from point_mass import Flight, PointMass, fly

from quadsim.analysis.report.figures import style
from quadsim.analysis.report.pictures import save_picture
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.control.avoidance import speed_of
from quadsim.hil.guard.guard import Guard, GuardParams

PATH = Path(__file__).parent / "images" / "guard.png"
WIDTH_PX, HEIGHT_PX, COLOURS = 1500, 560, 96
PARAMS = load(GuardParams, find("guards", "default"))
WALL_M = 14.0


def flown(pillars: np.ndarray, duration_s: float) -> Flight:
    """East at 4 m/s, with brakes and latency as bad as assumed."""
    vehicle = PARAMS.vehicle
    mass = PointMass(
        np.array((0.0, 0.0, 1.5)),
        brake_mps2=vehicle.brake_mps2,
        answer_s=0.6 * vehicle.latency_s,
        pose_s=0.4 * vehicle.latency_s,
    )
    return fly(Guard(PARAMS), mass, lambda *_: np.array((4.0, 0.0, 0.0)), duration_s, pillars)


def circle(figure: go.Figure, x: float, y: float, radius: float, **how: object) -> None:
    """Draw a circle in the first panel."""
    figure.add_shape(
        type="circle", x0=x - radius, x1=x + radius, y0=y - radius, y1=y + radius,
        row=1, col=1, **how,
    )  # fmt: skip


def main() -> None:
    """Fly and draw."""
    figure = make_subplots(
        1, 2, column_widths=[0.62, 0.38], horizontal_spacing=0.13,
        subplot_titles=("pillars, their keep-outs, and the way of a wish straight east", "a wall"),
    )  # fmt: skip
    pillars = np.array(
        [(6.0, 0.15, 0.3), (10.0, -0.6, 0.25), (13.0, 1.3, 0.3), (16.0, -1.1, 0.3),
         (16.0, 0.65, 0.3), (20.0, 2.3, 0.4), (9.0, 2.6, 0.3), (22.0, -0.2, 0.3)]
    )  # fmt: skip
    flight = flown(pillars, 11.0)
    for x, y, radius in pillars:
        circle(figure, x, y, radius + PARAMS.keep_out_m, line={"color": "#d62728", "dash": "dot"})
        circle(figure, x, y, radius, fillcolor="#8c7b6b", line={"width": 0})
    speed = np.linalg.norm(flight.v_W, axis=1)
    figure.add_scatter(
        x=flight.p_W[::8, 0], y=flight.p_W[::8, 1], mode="markers", showlegend=False,
        marker={"size": 6, "color": speed[::8], "colorscale": "Viridis", "cmin": 0.0, "cmax": 4.0,
                "colorbar": {"title": "m/s", "x": 0.55, "thickness": 12}},
        row=1, col=1,
    )  # fmt: skip
    figure.update_yaxes(scaleanchor="x", title="north, m", row=1, col=1)
    figure.update_xaxes(range=[-1.0, 26.0], title="east, m", row=1, col=1)

    wall = np.array([(WALL_M, y, 0.2) for y in np.arange(-8.0, 8.0, 0.3)])
    stop = flown(wall, 8.0)
    left_m = WALL_M - 0.2 - stop.p_W[:, 0]
    room_m = np.linspace(0.0, 6.0, 100)
    vehicle = PARAMS.vehicle
    limit = [speed_of(x, vehicle.latency_s, vehicle.brake_mps2) for x in room_m]
    figure.add_scatter(
        x=room_m + PARAMS.keep_out_m, y=limit, name="stops at the keep-out, at worst",
        line={"color": "#d62728", "dash": "dash"}, row=1, col=2,
    )  # fmt: skip
    figure.add_scatter(
        x=left_m, y=stop.v_W[:, 0], name="flown", line={"color": "#1f77b4"}, row=1, col=2
    )
    figure.update_xaxes(range=[6.0, 0.0], title="centre to wall, m", row=1, col=2)
    figure.update_yaxes(range=[0.0, 4.5], title="speed, m/s", row=1, col=2)
    style(figure, HEIGHT_PX, x_title="")
    figure.update_layout(legend={"x": 0.7, "y": -0.25}, margin={"t": 50, "b": 70})
    save_picture(figure, PATH, WIDTH_PX, HEIGHT_PX)
    with Image.open(PATH) as drawn:
        few = drawn.convert("RGB").quantize(COLOURS)
    few.save(PATH, optimize=True)
    print(f"{PATH}: nearest {flight.least_m:.2f} m to a pillar, ends at {flight.p_W[-1]}")


if __name__ == "__main__":
    main()
