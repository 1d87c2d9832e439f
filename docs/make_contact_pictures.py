"""Draw ``images/contact.png`` for docs/contact.md: landing, sliding and tipping on a slope.

python docs/make_contact_pictures.py

Needs Chromium.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import ESTIMATE, REFERENCE, TRUTH, WAYPOINTS, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import from_euler
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import P, Q
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Obstacle, Plane, Pose
from quadsim.world.scene.scene import scene_of

IMAGES = Path(__file__).parent / "images"
X500 = load(VehicleParams, find("vehicles", "x500"))
#: The x500 without air.
BARE = replace(
    X500, rotor_drag_N_s2=0.0, body_drag_N_s_m=(0.0, 0.0, 0.0), drag_area_m2=(0.0, 0.0, 0.0)
)
FOOT_X_M, FOOT_Z_M = 0.125, 0.229
LIMIT_DEG = math.degrees(math.atan(FOOT_X_M / FOOT_Z_M))
G_MPS2 = 9.80665
DEEP = EnvironmentParams(ground_height_m=-1000.0)
COLORS = (TRUTH, ESTIMATE, WAYPOINTS)


def on_slope(angle_deg: float, lift_m: float, level: bool, **contact: float) -> Fleet:
    """The x500 over a slope that falls towards east."""
    angle = math.radians(angle_deg)
    params = replace(BARE, contact=replace(BARE.contact, **contact))
    plane = Obstacle("slope", Plane(), Pose((0.0, 0.0, 0.0), from_euler(0.0, angle, 0.0)))
    fleet = Fleet(params, DEEP, scene=scene_of([plane]))
    x = fleet._vehicles[0].x
    if level:
        x[P : P + 3] = 0.0, 0.0, FOOT_Z_M + FOOT_X_M * math.tan(angle) + lift_m
        return fleet
    height = FOOT_Z_M - params.contact.sag_m * math.cos(angle) + lift_m
    x[P : P + 3] = height * math.sin(angle), 0.0, height * math.cos(angle)
    x[Q : Q + 4] = from_euler(0.0, angle, 0.0)
    return fleet


def hold(fleet: Fleet, angle_deg: float, share: float) -> None:
    """Hold a share of what pulls the vehicle down the slope."""
    angle = math.radians(angle_deg)
    uphill = np.array([-math.cos(angle), 0.0, math.sin(angle)])
    force_N = share * BARE.mass_kg * G_MPS2 * math.sin(angle)
    fleet.set_external_wrench(0, force_N * uphill, (0.0, 0.0, 0.0))


def flown(fleet: Fleet, seconds: float) -> NDArray[np.float64]:
    """(N, 3) time in s from now, pitch in deg (beyond 90 too), and speed in m/s."""
    rows = []
    start_ns = fleet.stamp_ns
    for k in range(round(seconds * 200)):
        fleet.step_to(start_ns + k * 5_000_000)
        truth = fleet.truth(0)
        pitch_deg = 2.0 * math.degrees(math.atan2(truth.q_WB[2], truth.q_WB[0]))
        rows.append((k * 0.005, pitch_deg, math.hypot(truth.v_W[0], truth.v_W[2])))
    return np.array(rows)


def landing(figure: go.Figure) -> None:
    """Dropped level from 2 cm on three slopes."""
    for color, angle_deg in zip(COLORS, (4.0, 8.0, 12.0), strict=True):
        rows = flown(on_slope(angle_deg, 0.02, level=True), 1.0)
        line(figure, 1, rows[:, 0], rows[:, 1], f"{angle_deg:g}°", color)
        line(figure, 1, [0.0, 1.0], [angle_deg, angle_deg], "", REFERENCE, dash="dot")


def sliding(figure: go.Figure) -> None:
    """Let go on three slopes with a friction of 0.3, beside Coulomb's law."""
    friction = 0.3
    for color, angle_deg in zip(COLORS, (16.0, 20.0, 25.0), strict=True):
        fleet = on_slope(angle_deg, 0.0, level=False, friction=friction)
        hold(fleet, angle_deg, 1.0)
        fleet.step_to(2_000_000_000)
        hold(fleet, angle_deg, 0.0)
        rows = flown(fleet, 2.0)
        angle = math.radians(angle_deg)
        rate = max(0.0, G_MPS2 * (math.sin(angle) - friction * math.cos(angle)))
        line(figure, 2, rows[:, 0], rows[:, 2], f"{angle_deg:g}°", color)
        line(figure, 2, [0.0, 2.0], [0.0, 2.0 * rate], "", REFERENCE, dash="dot")


def tipping(figure: go.Figure) -> None:
    """Let go slowly just below and just above the angle at which the weight leaves the feet."""
    for color, change_deg in zip(COLORS, (-0.4, 0.4), strict=False):
        angle_deg = LIMIT_DEG + change_deg
        fleet = on_slope(angle_deg, 0.0, level=False, friction=2.0, sag_m=2e-4)
        parts = []
        for k in range(220):
            hold(fleet, angle_deg, max(0.0, 1.0 - k / 150))
            parts.append(flown(fleet, 0.02)[-1, 1])
            fleet.step_to((k + 1) * 20_000_000)
        line(figure, 3, 0.02 * np.arange(220), parts, f"{angle_deg:.1f}°", color)
    line(figure, 3, [0.0, 4.4], [LIMIT_DEG, LIMIT_DEG], "", REFERENCE, dash="dot")
    figure.update_yaxes(range=[25.0, 60.0], row=1, col=3)


def line(
    figure: go.Figure, col: int, x: object, y: object, name: str, color: str, dash: str = "solid"
) -> None:
    """One curve of a panel; those of theory have no name."""
    trace = go.Scatter(
        x=x,
        y=y,
        name=name,
        mode="lines",
        line={"color": color, "width": 2, "dash": dash},
        showlegend=bool(name),
        legend="legend" if col == 1 else f"legend{col}",
    )
    figure.add_trace(trace, row=1, col=col)


def main() -> None:
    """Draw the picture."""
    figure = make_subplots(
        rows=1,
        cols=3,
        subplot_titles=(
            "dropped level from 2 cm: pitch, deg",
            "let go on a slope, µ = 0.3: speed, m/s",
            f"let go slowly; tips beyond {LIMIT_DEG:.1f}°: pitch, deg",
        ),
        horizontal_spacing=0.06,
    )
    landing(figure)
    sliding(figure)
    tipping(figure)
    style(figure, 420)
    boxes = {"yanchor": "top", "orientation": "v", "bgcolor": "rgba(255,255,255,0.7)"}
    figure.update_layout(
        width=1200,
        margin={"l": 40, "r": 20, "t": 40, "b": 50},
        legend={"x": 0.02, "y": 0.98, **boxes},
        legend2={"x": 0.37, "y": 0.98, **boxes},
        legend3={"x": 0.73, "y": 0.98, **boxes},
        paper_bgcolor="white",
    )
    figure.update_xaxes(title_text="time, s")
    IMAGES.mkdir(exist_ok=True)
    save_picture(figure, IMAGES / "contact.png", 1200, 420)


if __name__ == "__main__":
    main()
