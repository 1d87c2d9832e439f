"""Draw the picture of docs/rotors.md, which needs Chromium, and print the figures stated there.

python docs/rotor_pictures.py
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
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.neighbours import wake_at, wake_of
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.inflow import blade_response, descent_loss
from quadsim.vehicle.propulsion.motors import open_circuit_V
from quadsim.vehicle.propulsion.parameters import MotorParams
from quadsim.vehicle.propulsion.rotors import image_share, thrust_gain
from quadsim.vehicle.state import ROTOR, VEHICLE
from quadsim.world.environment import EnvironmentParams

IMAGES = Path(__file__).parent / "images"
AIR = 1.225
GRAVITY = 9.80665
LEVEL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
BLACK, ORANGE, GREEN, BLUE, GREY = "#222222", "#d95f02", "#1b9e77", "#386cb0", "#999999"
#: Solidity of the Hummingbird's rotors times the lift slope of their blades.
SOLIDITY_SLOPE = 0.75
Array = NDArray[np.float64]


def vehicle(name: str) -> VehicleParams:
    """A shipped vehicle."""
    return load(VehicleParams, find("vehicles", name))


def hover_radps(params: VehicleParams) -> float:
    """Rotor speed at hover."""
    rotors = len(params.rotor_directions)
    return math.sqrt(params.mass_kg * GRAVITY / (rotors * params.thrust_coefficient_N_s2))


def induced_mps(params: VehicleParams) -> float:
    """Induced velocity of hover."""
    area = len(params.rotor_directions) * math.pi * params.rotor.radius_m**2
    return math.sqrt(params.mass_kg * GRAVITY / (2.0 * AIR * area))


def theory(params: VehicleParams, solidity_slope: float, climb_mps: float) -> float:
    """Thrust over hover's at the same speed, by blade elements and momentum theory.

    Leishman, ch. 3: ``scale`` times the mean angle of attack, with the pitch that hovers.
    """
    speed, radius, v_h = hover_radps(params), params.rotor.radius_m, induced_mps(params)
    area, tip = math.pi * radius**2, speed * radius
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    scale = AIR * area * tip**2 * solidity_slope / 2.0

    def blades(v_i: float) -> float:
        return hover_N + scale * (v_h - climb_mps - v_i) / tip / 2.0

    v_i = brentq(lambda u: blades(u) - 2.0 * AIR * area * u * (climb_mps + u), 0.01, 50.0)
    return blades(v_i) / hover_N


def line(params: VehicleParams, climb_mps: float) -> float:
    """Thrust over hover's at the same speed, by the file's inflow coefficient alone."""
    lost = params.rotor.inflow_N_s2 * climb_mps / hover_radps(params)
    return 1.0 - lost / params.thrust_coefficient_N_s2


def model(params: VehicleParams, climb_mps: float) -> float:
    """Thrust over hover's at the same speed, as it is simulated."""
    if climb_mps >= 0.0:
        return line(params, climb_mps)
    speed = hover_radps(params)
    static_N = params.thrust_coefficient_N_s2 * speed**2
    return 1.0 - descent_loss(static_N, speed, climb_mps, pack(params)) / static_N


def gain(params: VehicleParams, radii: float) -> float:
    """Thrust near the ground over that far from it, at the same speed."""
    vehicle_record = np.zeros(1, VEHICLE)[0]
    vehicle_record.x[ROTOR : ROTOR + 4] = hover_radps(params)
    hub_m = params.rotor_positions_B_m[0][2]
    vehicle_record.held.height_m = radii * params.rotor.radius_m - hub_m
    return thrust_gain(0, LEVEL, vehicle_record, pack(params))


def climb(figure: go.Figure) -> None:
    """Thrust of a Hummingbird's rotor over the climb speed, beside momentum theory."""
    params = vehicle("hummingbird")
    v_h = induced_mps(params)
    for low, thrust, name, colour, dash in (
        (-0.3, lambda v: theory(params, SOLIDITY_SLOPE, v), "momentum theory", BLACK, "solid"),
        (-2.5, lambda v: model(params, v), "simulated", ORANGE, "solid"),
        (-2.5, lambda v: line(params, v), "k_z alone", GREY, "dot"),
    ):
        climbs = np.linspace(low, 1.0, 90)
        figure.add_scatter(
            x=climbs, y=[thrust(x * v_h) for x in climbs], name=name,
            line={"color": colour, "dash": dash}, row=1, col=1,
        )  # fmt: skip
    figure.update_xaxes(title_text="climb over induced velocity", row=1, col=1)
    figure.update_yaxes(title_text="thrust over hover's", row=1, col=1)


def ground(figure: go.Figure) -> None:
    """Gain of thrust over the height: as published at constant power, and at constant speed."""
    base = vehicle("x500")
    radii = np.linspace(0.5, 5.0, 90)
    for ground_effect, name, colour in (
        ("cheeseman_bennett", "Cheeseman, Bennett", BLACK),
        ("sanchez_cuevas", "Sanchez-Cuevas", ORANGE),
    ):
        params = replace(base, rotor=replace(base.rotor, ground_effect=ground_effect))
        packed = pack(params)
        power = [1.0 / (1.0 - image_share(0, z * base.rotor.radius_m, packed)) for z in radii]
        for y, words, dash in ((power, "", "solid"), (None, ", constant speed", "dot")):
            y = [gain(params, z) for z in radii] if y is None else y
            look = {"color": colour, "dash": dash}
            figure.add_scatter(x=radii, y=y, name=name + words, line=look, row=1, col=2)
    figure.update_xaxes(title_text="height over radius", row=1, col=2)
    figure.update_yaxes(title_text="thrust over that in free air", row=1, col=2)


def wake(figure: go.Figure) -> None:
    """Speed of the wake of an x500 across, at some depths."""
    params = vehicle("x500")
    packed, thrust_N = pack(params), params.mass_kg * GRAVITY
    side, still = np.linspace(-2.0, 2.0, 161), (0.0, 0.0, 0.0)
    for depth, colour in ((0.5, BLACK), (2.0, ORANGE), (5.0, GREEN), (10.0, BLUE)):
        blown = wake_of(LEVEL, thrust_N, AIR, packed, still)
        speeds = [-wake_at(blown, (x, 0.0, -depth), depth)[2] for x in side]
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


def tell_rotors() -> None:
    """Print what the sections on rotors say of shipped vehicles."""
    for name in ("x500", "iris"):
        params = vehicle(name)
        drag = 2.0 * params.torque_ratio_m * params.thrust_coefficient_N_s2 * hover_radps(params)
        ratio = params.rotor.inertia_kg_m2 / (drag * params.time_constant_up_s)
        print(f"{name}: reaction to spinning up over the drag's, {ratio:.1f}")
    x500, bird = vehicle("x500"), vehicle("hummingbird")
    rolling = 4.0 * x500.rolling_moment_N_s2 * hover_radps(x500) * 10.0
    print(f"x500, 10 m/s: rolling moments of one sense of all rotors {rolling:.3f} N m")
    v_h, shares = induced_mps(bird), [x for x in np.linspace(-0.25, 0.5, 31) if x]
    off = max(
        abs((1.0 - line(bird, x * v_h)) / (1.0 - theory(bird, SOLIDITY_SLOPE, x * v_h)) - 1.0)
        for x in shares
    )
    print(f"hummingbird: loss of thrust off momentum theory by {100.0 * off:.0f} % at most")
    for name in ("hummingbird", "x500", "crazyflie2"):
        print(f"{name}: beta {blade_response(pack(vehicle(name))):.2f}")
    for x in (1.0, 1.5, 2.0):
        told = f"{model(bird, -x * v_h):.2f} (the line alone {line(bird, -x * v_h):.2f})"
        print(f"hummingbird: thrust in descent at {x:g} v_h {told}")


def tell() -> None:
    """Print the figures of docs/rotors.md."""
    tell_rotors()
    x500, bird, fly = vehicle("x500"), vehicle("hummingbird"), vehicle("crazyflie2")
    alone = pack(replace(x500, rotor=replace(x500.rotor, ground_effect="cheeseman_bennett")))
    for radii in (0.5, 1.0, 2.0):
        share = image_share(0, radii * x500.rotor.radius_m, alone)
        print(
            f"ground effect of one rotor at {radii:g} radii, constant power: {1 / (1 - share):.3f}"
        )
    for params in (bird, fly):
        rotor = replace(params.rotor, ground_effect="sanchez_cuevas")
        params = replace(params, rotor=rotor)
        for radii in (1.0, 2.0):
            published = 1.0 / (1.0 - image_share(0, radii * rotor.radius_m, pack(params)))
            told = f"{gain(params, radii):.3f} at constant speed, published {published:.3f}"
            print(f"{params.name}: ground effect at {radii:g} radii {told}")
    cells = x500.battery.voltage_V / 3.7
    volts = [
        open_circuit_V(charge * x500.battery.capacity_Ah * 3600.0, pack(x500)) / cells
        for charge in (1.0, 0.5, 0.0)
    ]
    print("open circuit of a cell, full, half, empty:", *(f"{v:.2f} V" for v in volts))
    still, thrust_N = (0.0, 0.0, 0.0), 0.034 * GRAVITY
    speed = math.sqrt(thrust_N / (4.0 * fly.thrust_coefficient_N_s2))
    for depth_m in (0.5, 0.3):
        air = wake_of(LEVEL, thrust_N, AIR, pack(fly), still)
        blown = wake_at(air, (0.0, 0.0, -depth_m), depth_m)[2]
        lost_g = 4.0 * fly.rotor.inflow_N_s2 * speed * -blown / GRAVITY * 1e3
        print(f"crazyflie2, {depth_m:g} m below another of 34 g: {lost_g:.1f} g of thrust less")


def main() -> None:
    """Draw ``images/rotors.png``."""
    titles = (
        "thrust in climb and descent (Hummingbird)",
        "ground effect (x500)",
        "wake of a hovering x500",
        "step to full speed (hexacopter)",
    )
    figure = make_subplots(2, 2, subplot_titles=titles, horizontal_spacing=0.1)
    for draw in (climb, ground, wake, spin_up):
        draw(figure)
    for k, (x, y) in enumerate(((0.28, 0.995), (0.7, 0.995), (0.31, 0.37), (0.72, 0.25))):
        name = "legend" if k == 0 else f"legend{k + 1}"
        figure.update_traces(legend=name, row=k // 2 + 1, col=k % 2 + 1)
        figure.update_layout(
            {name: {"x": x, "y": y, "yanchor": "top", "bgcolor": "rgba(255,255,255,0.6)"}}
        )
    figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 40, "b": 50})
    IMAGES.mkdir(exist_ok=True)
    save_picture(figure, IMAGES / "rotors.png", 960, 680)
    tell()


if __name__ == "__main__":
    main()
