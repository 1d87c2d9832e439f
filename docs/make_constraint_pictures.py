"""Make the pictures of docs/constraints.md, which need Chromium; prints the figures stated there.

PYTHONPATH=examples python docs/make_constraint_pictures.py
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from rope import FRICTION_J, IMPACT_J, STATE, TAUT, TENSION, TIME, RopeParams, V, X, energy_J, swing

from quadsim.analysis.report.figures import BLIND, ESTIMATE, FIXES, TRUTH, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import LoadParams, VehicleParams
from quadsim.vehicle.state import LOAD_P
from quadsim.world.environment import EnvironmentParams

IMAGES = Path(__file__).parent / "images"
LECTURE = RopeParams()


def curve(x, y, name, colour, **more):
    """One line of a picture."""
    return go.Scatter(
        x=x, y=y, name=name, mode="lines", line={"color": colour, "width": 1.6, **more}
    )


def rope_picture() -> go.Figure:
    """The lecture's mass: its path, the tension, and where its energy goes."""
    motion = swing(LECTURE, 8.0)
    t, p = motion[:, TIME], motion[:, STATE + X : STATE + X + 2]
    kinetic = 0.5 * LECTURE.mass_kg * (motion[:, STATE + V : STATE + V + 2] ** 2).sum(axis=1)
    potential = LECTURE.mass_kg * LECTURE.gravity_mps2 * p[:, 1]
    total = energy_J(motion, LECTURE)
    taut = int(np.argmax(motion[:, TAUT] > 0.0))
    sys.stdout.write(
        f"rope: taut at {t[taut]:.3f} s, impact {motion[-1, STATE + IMPACT_J]:.3f} J,"
        f" energy off by {np.ptp(total):.1e} J in 8 s\n"
    )
    figure = make_subplots(
        rows=2,
        cols=2,
        specs=[[{"rowspan": 2}, {}], [None, {}]],
        column_widths=[0.4, 0.6],
        subplot_titles=("path, m", "tension, N", "energy, J"),
        vertical_spacing=0.14,
    )
    circle = np.linspace(-math.pi, 0.0, 100)
    figure.add_trace(
        curve(0.5 + np.cos(circle), np.sin(circle), "rope's reach", "#bbb", dash="dot"), 1, 1
    )
    figure.add_trace(curve(p[:taut, 0], p[:taut, 1], "slack", "#cc79a7"), 1, 1)
    figure.add_trace(curve(p[taut:, 0], p[taut:, 1], "taut", "#56b4e9"), 1, 1)
    figure.add_trace(curve(t, motion[:, TENSION], "tension", TRUTH), 1, 2)
    for name, values, colour in (
        ("kinetic", kinetic, ESTIMATE),
        ("potential", potential, BLIND),
        ("lost in the impact", motion[:, STATE + IMPACT_J], FIXES),
        ("lost to friction", motion[:, STATE + FRICTION_J], "#009e73"),
        ("sum", total, TRUTH),
    ):
        figure.add_trace(curve(t, values, name, colour), 2, 2)
    style(figure, 560)
    figure.update_yaxes(scaleanchor="x", row=1, col=1)
    figure.update_xaxes(title_text="time, s", row=2, col=2)
    return figure.update_layout(margin={"t": 90}, legend={"y": 1.07})


def tell_impacts() -> None:
    """What each rule of impact takes from the lecture's mass."""
    for rule in ("radial", "vertical"):
        motion = swing(replace(LECTURE, impact=rule), 8.0)
        taut = int(np.argmax(motion[:, TAUT] > 0.0))
        speed = np.hypot(*motion[taut, STATE + V : STATE + V + 2])
        sys.stdout.write(
            f"impact, {rule}: {motion[-1, STATE + IMPACT_J]:.2f} J lost, {speed:.2f} m/s after it,"
            f" highest point {motion[taut:, STATE + X + 1].max():.2f} m\n"
        )


def drift_picture() -> go.Figure:
    """What becomes of a taut rope's length in a minute, at steps of 10 ms without friction."""
    figure = go.Figure()
    for how, colour in (("none", FIXES), ("baumgarte", BLIND), ("projection", ESTIMATE)):
        params = replace(LECTURE, friction_N_s_m=0.0, stabilised=how)
        motion = swing(params, 60.0, 0.01)
        distance = np.hypot(motion[:, STATE] - 0.5, motion[:, STATE + 1])
        off_m = np.where(motion[:, TAUT] > 0.0, np.abs(distance - 1.0), 0.0)
        sys.stdout.write(f"drift, {how}: {off_m.max():.1e} m at most\n")
        figure.add_trace(curve(motion[::5, TIME], np.maximum(off_m, 1e-17)[::5], how, colour))
    style(figure, 400)
    figure.update_yaxes(type="log", exponentformat="power", title_text="length error, m")
    return figure.update_xaxes(title_text="time, s")


def load_picture() -> go.Figure:
    """A load lifted by constant thrust and pushed aside: heights, and tension of its rope."""
    x500 = load(VehicleParams, find("vehicles", "x500"))
    params = replace(x500, load=LoadParams(0.4, 1.0))
    environment = EnvironmentParams()
    fleet = Fleet(params, environment)
    weight_N = (params.mass_kg + params.load.mass_kg) * environment.gravity_mps2
    speed = math.sqrt(1.05 * weight_N / (4.0 * params.thrust_coefficient_N_s2))
    fleet.set_motor_command(0, [speed] * 4)
    rows = []
    for k in range(1200):
        fleet.step_to(k * 4_000_000)
        if k in (600, 650):  # 0.2 s of it
            fleet.set_external_wrench(0, (12.0 if k == 600 else 0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        vehicle = fleet._vehicles[0]
        rows.append((k * 0.004, *vehicle.x[:3], *vehicle.x[LOAD_P : LOAD_P + 3],
                     vehicle.suspension.tension_N[0]))  # fmt: skip
    t, x, _, z, load_x, _, load_z, tension_N = np.array(rows).T
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.08,
        subplot_titles=("height, m", "tension of the rope, N", "angle of the rope, deg"),
    )
    figure.add_trace(curve(t, z, "vehicle", ESTIMATE), 1, 1)
    figure.add_trace(curve(t, load_z, "load", FIXES), 1, 1)
    figure.add_trace(curve(t, tension_N, "", TRUTH), 2, 1)
    angle = np.degrees(np.arctan2(load_x - x, z - load_z))
    figure.add_trace(curve(t, angle, "", TRUTH), 3, 1)
    figure.for_each_trace(lambda trace: trace.update(showlegend=bool(trace.name)))
    style(figure, 600)
    figure.update_xaxes(title_text="time, s", row=3)
    return figure.update_layout(margin={"t": 70}, legend={"y": 1.05})


def main() -> None:
    """Draw ``images/rope.png``, ``images/rope_drift.png`` and ``images/slung_load.png``."""
    IMAGES.mkdir(exist_ok=True)
    tell_impacts()
    save_picture(rope_picture(), IMAGES / "rope.png", 1100, 560)
    save_picture(drift_picture(), IMAGES / "rope_drift.png", 1000, 400)
    save_picture(load_picture(), IMAGES / "slung_load.png", 1000, 600)


if __name__ == "__main__":
    main()
