"""Draw the picture of docs/rotors.md: what the models of rotors, motors and wakes say.

python docs/rotor_pictures.py

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
from scipy.optimize import brentq

from quadsim.analysis.report.pictures import save_picture
from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.vehicle.downwash import downwash_W
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.ground_effect import image_share
from quadsim.vehicle.propulsion.parameters import MotorParams
from quadsim.world.environment import EnvironmentParams

IMAGES = Path(__file__).parent / "images"
AIR = 1.225
GRAVITY = 9.80665
LEVEL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
BLACK, ORANGE, GREEN, BLUE, GREY = "#222222", "#d95f02", "#1b9e77", "#386cb0", "#999999"
Array = NDArray[np.float64]


def vehicle(name: str) -> VehicleParams:
    """A shipped vehicle."""
    return load(VehicleParams, find("vehicles", name))


def hover_radps(params: VehicleParams) -> float:
    """Rotor speed at hover."""
    rotors = len(params.rotor_directions)
    return math.sqrt(params.mass_kg * GRAVITY / (rotors * params.thrust_coefficient_N_s2))


def climb(figure: go.Figure) -> None:
    """Thrust of a Hummingbird's rotor over the climb speed, beside momentum theory."""
    params = vehicle("hummingbird")
    speed, radius = hover_radps(params), params.rotor.radius_m
    area, tip = math.pi * radius**2, hover_radps(params) * radius
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    scale, v_h = AIR * area * tip**2 * 0.75 / 2.0, math.sqrt(hover_N / (2.0 * AIR * area))
    climbs = np.linspace(-0.3 * v_h, v_h, 60)

    def theory(v: float) -> float:
        def blades(v_i: float) -> float:
            return scale * (hover_N / scale + (v_h - v - v_i) / tip / 2.0)

        v_i = brentq(lambda u: blades(u) - 2.0 * AIR * area * u * (v + u), 0.01, 50.0)
        return blades(v_i) / hover_N

    linear = 1.0 - params.rotor.inflow_N_s2 * speed * climbs / hover_N
    theories = [theory(v) for v in climbs]
    for y, name, colour in (
        (theories, "momentum theory", BLACK),
        (linear, "k_z, measured", ORANGE),
    ):
        figure.add_scatter(x=climbs / v_h, y=y, name=name, line={"color": colour}, row=1, col=1)
    figure.update_xaxes(title_text="climb over induced velocity", row=1, col=1)
    figure.update_yaxes(title_text="thrust over hover's", row=1, col=1)


def ground(figure: go.Figure) -> None:
    """Gain of thrust over the height, of one rotor and of the x500."""
    base = vehicle("x500")
    radii = np.linspace(0.5, 5.0, 90)
    for model, name, colour in (
        ("cheeseman_bennett", "Cheeseman, Bennett", BLACK),
        ("sanchez_cuevas", "Sanchez-Cuevas (x500)", ORANGE),
    ):
        packed = pack(replace(base, rotor=replace(base.rotor, ground_effect=model)))
        gains = [1.0 / (1.0 - image_share(0, z * base.rotor.radius_m, packed)) for z in radii]
        figure.add_scatter(x=radii, y=gains, name=name, line={"color": colour}, row=1, col=2)
    figure.update_xaxes(title_text="height over radius", row=1, col=2)
    figure.update_yaxes(title_text="thrust over that in free air", row=1, col=2)


def wake(figure: go.Figure) -> None:
    """Speed of the wake of an x500 across, at some depths."""
    params = vehicle("x500")
    packed, thrust_N = pack(params), params.mass_kg * GRAVITY
    side, still = np.linspace(-2.0, 2.0, 161), (0.0, 0.0, 0.0)
    for depth, colour in ((0.5, BLACK), (2.0, ORANGE), (5.0, GREEN), (10.0, BLUE)):
        speeds = [
            -downwash_W((x, 0.0, -depth), still, LEVEL, thrust_N, AIR, packed, still)[2]
            for x in side
        ]
        figure.add_scatter(
            x=side, y=speeds, name=f"{depth:g} m below", line={"color": colour}, row=2, col=1
        )
    figure.update_xaxes(title_text="beside the axis, m", row=2, col=1)
    figure.update_yaxes(title_text="downwards, m/s", row=2, col=1)


def spin_up(figure: go.Figure) -> None:
    """Rotor speed of the hexacopter after a step of the command, full and sagging battery."""
    base = vehicle("hexacopter")
    hover = hover_radps(base)
    variants = (
        ("first order", replace(base, motor=MotorParams()), GREY),
        ("electric", base, BLACK),
        ("electric, 60 % of the voltage", replace(
            base, battery=replace(base.battery, voltage_V=0.6 * base.battery.voltage_V)), ORANGE),
    )  # fmt: skip
    milliseconds = np.arange(0, 301, 4)
    for name, params, colour in variants:
        fleet = Fleet(params, EnvironmentParams())
        fleet.set_motor_command(0, [440.0] * 6)
        fleet.set_motion(0, (0.0, 0.0, 500.0), rotor_speeds_radps=[hover] * 6)
        speeds = []
        for ms in milliseconds:
            fleet.step_to(int(ms) * 1_000_000)
            speeds.append(float(fleet.motor_speeds(0)[0]))
        figure.add_scatter(
            x=milliseconds, y=speeds, name=name, line={"color": colour}, row=2, col=2
        )
    figure.update_xaxes(title_text="ms after the command", row=2, col=2)
    figure.update_yaxes(title_text="rotor speed, rad/s", row=2, col=2)


def main() -> None:
    """Draw ``images/rotors.png``."""
    titles = (
        "thrust in climb (Hummingbird)",
        "ground effect",
        "wake of a hovering x500",
        "step to full speed (hexacopter)",
    )
    figure = make_subplots(2, 2, subplot_titles=titles, horizontal_spacing=0.1)
    for draw in (climb, ground, wake, spin_up):
        draw(figure)
    for k, (x, y) in enumerate(((0.2, 0.995), (0.72, 0.995), (0.01, 0.38), (0.72, 0.16))):
        name = "legend" if k == 0 else f"legend{k + 1}"
        figure.update_traces(legend=name, row=k // 2 + 1, col=k % 2 + 1)
        figure.update_layout({name: {"x": x, "y": y, "bgcolor": "rgba(255,255,255,0.6)"}})
    figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 40, "b": 50})
    IMAGES.mkdir(exist_ok=True)
    save_picture(figure, IMAGES / "rotors.png", 960, 680)


if __name__ == "__main__":
    main()
