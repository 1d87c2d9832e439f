"""Make the pictures of docs/disturbances.md and docs/helicopter.md; they need Chromium.

python docs/make_disturbance_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.pictures import save_picture
from quadsim.sim.closed_loop import run
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.disturbances import WindChange, describe

IMAGES = Path(__file__).parent / "images"
COLOURS = ("#1b6ca8", "#d95f02", "#3a923a", "#7f7f7f")
AXES = ("east", "north", "up")


def flown(scenario: Scenario) -> FlightLog:
    """A flight on the vehicle's own estimate."""
    return run(scenario)[0]


def disturbed_picture() -> go.Figure:
    """Position and rotor speeds of a hover through four disturbances."""
    scenario = load_scenario("disturbed")
    log = flown(scenario)
    rotors = log.motor_speed_radps.shape[1]
    figure = make_subplots(
        2, 1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.55, 0.45],
    )  # fmt: skip
    t_s = log.truth.stamp_ns * 1e-9
    airborne = (t_s > 6.0) & (t_s < 26.5)
    hover_m = (0.0, 0.0, 2.0)
    for axis, name in enumerate(AXES):
        figure.add_scatter(
            x=t_s[airborne], y=log.truth.p_W[airborne, axis] - hover_m[axis], name=name,
            line={"color": COLOURS[axis]}, row=1, col=1,
        )  # fmt: skip
    turning = (log.motor_stamps_ns * 1e-9 > 6.0) & (log.motor_stamps_ns * 1e-9 < 26.5)
    for rotor in range(rotors):
        figure.add_scatter(
            x=log.motor_stamps_ns[turning] * 1e-9, y=log.motor_speed_radps[turning, rotor],
            name=f"rotor {rotor}", line={"color": COLOURS[rotor], "width": 1.2, "dash": "dot"},
            row=2, col=1,
        )  # fmt: skip
    for item in scenario.disturbances:
        for row in (1, 2):
            figure.add_vline(x=item.at_s, line={"color": "#999999", "width": 1}, row=row, col=1)
        figure.add_annotation(
            x=item.at_s, y=1.06, yref="paper", text=describe(item), showarrow=False, xanchor="left"
        )
        if isinstance(item, WindChange):
            figure.add_vrect(
                x0=item.at_s, x1=item.at_s + item.rise_s, fillcolor="#cccccc", opacity=0.4,
                line_width=0, layer="below", row=1, col=1,
            )  # fmt: skip
    figure.update_xaxes(title_text="time, s", row=2)
    figure.update_yaxes(title_text="off the hover, m", row=1)
    figure.update_yaxes(title_text="rotor speed, rad/s", row=2)
    return figure.update_layout(template="plotly_white", margin={"t": 60})


def helicopter_picture() -> go.Figure:
    """The square by the x500 and by the helicopter, and the helicopter's stick and throttle."""
    figure = make_subplots(
        2, 2, specs=[[{"rowspan": 2}, {}], [None, {}]], horizontal_spacing=0.09,
        vertical_spacing=0.08, column_widths=[0.45, 0.55],
    )  # fmt: skip
    for colour, vehicle in zip(COLOURS, ("x500", "thesis_helicopter"), strict=False):
        log = flown(load_scenario("square", vehicle=vehicle))
        path = log.truth.p_W
        dash = "solid" if vehicle == "x500" else "dash"
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=path[:, 0], y=path[:, 1], name=vehicle, line=line, row=1, col=1)
    t_s = log.motor_stamps_ns * 1e-9
    for slot, name in enumerate(("roll rate", "pitch rate", "yaw rate")):
        figure.add_scatter(
            x=t_s, y=log.motor_speed_radps[:, slot], name=name,
            line={"color": COLOURS[slot], "width": 1.1}, row=1, col=2,
        )  # fmt: skip
    figure.add_scatter(
        x=t_s, y=log.motor_speed_radps[:, 3], name="throttle",
        line={"color": "#222222", "width": 1.2}, row=2, col=2,
    )  # fmt: skip
    hover = np.full(2, 1.0 / 1.7)
    figure.add_scatter(
        x=t_s[[0, -1]], y=hover, name="1/1.7", mode="lines",
        line={"color": "#999999", "dash": "dash"}, row=2, col=2,
    )  # fmt: skip
    figure.update_xaxes(title_text="east, m", row=1, col=1)
    figure.update_yaxes(title_text="north, m", scaleanchor="x", row=1, col=1)
    figure.update_yaxes(title_text="stick, rad/s", row=1, col=2)
    figure.update_yaxes(title_text="throttle", row=2, col=2)
    figure.update_xaxes(matches="x2", range=[0.0, t_s[-1]], col=2)
    figure.update_xaxes(title_text="time, s", row=2, col=2)
    return figure.update_layout(template="plotly_white", margin={"t": 30})


def main() -> None:
    """Draw ``images/disturbed.png`` and ``images/helicopter.png``."""
    IMAGES.mkdir(exist_ok=True)
    save_picture(disturbed_picture(), IMAGES / "disturbed.png", 1000, 560)
    save_picture(helicopter_picture(), IMAGES / "helicopter.png", 1000, 480)


if __name__ == "__main__":
    main()
