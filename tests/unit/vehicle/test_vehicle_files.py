"""Shipped vehicles against what is published of them, layouts, and that every figure counts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from quadsim.base.errors import InputError
from quadsim.base.files import find, known
from quadsim.base.parameters import flatten, leaves, load, unflatten
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.layout import LAYOUTS, lay_out
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.parameters import BatteryParams, MotorParams, RotorParams
from quadsim.world.environment import EnvironmentParams

GRAVITY = 9.80665
SECOND_NS = 1_000_000_000
MULTIROTORS = [
    name
    for name in known("vehicles")
    if load(VehicleParams, find("vehicles", name)).rotor_directions
]


def hover_radps(params):
    rotors = len(params.rotor_directions)
    return math.sqrt(params.mass_kg * GRAVITY / (rotors * params.thrust_coefficient_N_s2))


def fly(params, speeds, commands, seconds, p_W=(0.0, 0.0, 1e3), v_W=(0.0, 0.0, 0.0)):
    fleet = Fleet(params, EnvironmentParams())
    fleet.set_motor_command(0, commands)
    fleet.set_motion(0, p_W, v_W, rotor_speeds_radps=speeds)
    fleet.step_to(round(seconds * SECOND_NS))
    return fleet


@pytest.mark.parametrize("name", MULTIROTORS)
def test_vehicles_hover_at_their_hover_speed(name):
    """Far from the ground, in air of the density of their figures."""
    params = replace(load(VehicleParams, find("vehicles", name)), air_density_kg_m3=0.0)
    middle = np.mean(params.rotor_positions_B_m, axis=0)
    if np.linalg.norm(middle[:2]) > 1e-6:
        pytest.skip("its centre of mass is off the middle of its rotors")
    speed = [hover_radps(params)] * len(params.rotor_directions)
    truth = fly(params, speed, speed, 1.0).truth(0)
    # the iris' hubs and inertia are rounded to 4 digits
    assert truth.p_W == pytest.approx([0.0, 0.0, 1e3], abs=1e-6)
    assert truth.q_WB == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)


@pytest.mark.parametrize(
    ("name", "minutes"),
    # published: DJI Matrice 600 Pro without load, AscTec, Bitcraze
    [("hexacopter", 32.0), ("hummingbird", 20.0), ("crazyflie2", 7.0)],
)
def test_they_fly_as_long_as_published(name, minutes):
    """Hover until the battery is empty, from the current of the first seconds; within 10 %."""
    params = load(VehicleParams, find("vehicles", name))
    speed = [hover_radps(params)] * len(params.rotor_directions)
    thick = replace(params, air_density_kg_m3=0.0)
    fleet = fly(thick, speed, speed, 1.0)
    # over a whole discharge the voltage is about the nominal one, at first a tenth higher
    full = fleet.battery_voltage(0) / params.battery.voltage_V
    hours = params.battery.capacity_Ah / float(fleet.motor_currents(0).sum() * full)
    assert 60.0 * hours == pytest.approx(minutes, rel=0.1)


def test_the_heavy_hexacopter_flies_18_mps_at_25_degrees():
    """DJI's top speed of the Matrice 600 Pro; its largest tilt."""
    params = load(VehicleParams, find("vehicles", "hexacopter"))
    tilt = math.radians(25.0)
    fleet = Fleet(params, EnvironmentParams())
    speed = [hover_radps(params) / math.sqrt(math.cos(tilt))] * 6
    attitude = (math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0)
    fleet.set_motor_command(0, speed)
    fleet.set_motion(0, (0.0, 0.0, 50.0), (18.0, 0.0, 0.0), attitude, rotor_speeds_radps=speed)
    assert abs(float(fleet.truth(0).a_W[0])) < 0.1 * GRAVITY * math.tan(tilt)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_layouts_balance_and_turn_alternately(layout):
    count = int(layout[-1])
    hubs, directions = lay_out(layout, 0.3, 0.05)
    assert len(hubs) == len(directions) == count
    xyz = np.array(hubs)
    assert np.allclose(np.hypot(xyz[:, 0], xyz[:, 1]), 0.3)
    assert np.allclose(xyz[:, 2], 0.05)
    assert np.allclose(xyz.mean(axis=0), [0.0, 0.0, 0.05])
    # thrust alone and torque alone about each axis: four independent rows
    rows = np.array([np.ones(count), xyz[:, 1] / 0.3, -xyz[:, 0] / 0.3, directions])
    assert np.linalg.svd(rows)[1].min() > 0.5
    steps = np.diff(np.unwrap(np.arctan2(xyz[:, 1], xyz[:, 0])))
    assert np.allclose(steps, 2.0 * math.pi / count)  # counter-clockwise
    front = np.flatnonzero(np.isclose(xyz[:, 0], xyz[:, 0].max()))
    assert list(front) == ([0] if layout.startswith("plus") else [0, 1])
    assert layout.startswith("plus") or xyz[0, 1] < 0.0 < xyz[1, 1]  # the right one first


def test_a_layout_is_the_x500s_square():
    x500 = load(VehicleParams, find("vehicles", "x500"))
    hubs, directions = lay_out("x4", math.hypot(0.174, 0.174), 0.0581)
    for hub, direction in zip(x500.rotor_positions_B_m, x500.rotor_directions, strict=True):
        away = np.linalg.norm(np.array(hubs) - hub, axis=1)
        assert away.min() < 1e-12
        assert directions[int(away.argmin())] == direction


def test_a_layout_survives_ros_parameters():
    params = load(VehicleParams, find("vehicles", "hexacopter"))
    flat = {k: v for k, v in flatten(params).items() if v != []}
    assert unflatten(VehicleParams, flat, "node") == params


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arm_m": 0.3}, "arm_m, rotor_height_m: allowed: with a rotor_layout"),
        ({"rotor_layout": "x4"}, "arm_m: 0; a rotor_layout needs one"),
        ({"rotor_layout": "x4", "arm_m": 0.3}, "rotor_positions_B_m: not those of rotor_layout"),
    ],
)
def test_layouts_that_contradict_are_refused(change, words):
    x500 = load(VehicleParams, find("vehicles", "x500"))
    with pytest.raises(InputError, match=words):
        replace(x500, **change)


#: Everything on, so that every figure has its part.
FULL = replace(
    load(VehicleParams, find("vehicles", "x500")),
    rotor=RotorParams(
        radius_m=0.14,
        inertia_kg_m2=2.65e-5,
        inflow_N_s2=4e-4,
        translational_lift_N_s2_m2=3e-3,
        flapping_rad=0.3,
        hinge_stiffness_N_m=1.0,
        ground_effect="sanchez_cuevas",
        thrust_residual=(1e-8, 1e-5, 1e-5, 1e-3, 1e-3, 1e-3, 1e-3, 1e-4, 1e-3, 1e-3),
        torque_residual=(1e-8, 1e-5, 1e-5, 1e-6, 1e-4) * 2,
    ),
    motor=MotorParams("electric", 700.0, 0.12, 0.6, 20.0),
    battery=BatteryParams(
        capacity_Ah=0.01,
        open_circuit="lithium_polymer",
        resistance_ohm=0.05,
        polarization_ohm=0.05,
        polarization_s=0.05,
    ),
    drag_area_m2=(0.02, 0.03, 0.05),
    air_density_kg_m3=1.2,
)
#: The same by momentum theory.
MOMENTUM = replace(
    FULL,
    rotor=replace(
        FULL.rotor,
        inflow_N_s2=0.0,
        inflow_model="momentum",
        blade_inflow_N_s2=8e-4,
        inflow_drag_N_s2_m2=1e-3,
    ),
)
OF_MOMENTUM = ("rotor.inflow_model", "rotor.blade_inflow_N_s2", "rotor.inflow_drag_N_s2_m2")
MINE = [
    leaf.name
    for leaf in leaves(VehicleParams)
    if leaf.name.split(".")[0] in ("rotor", "motor", "battery", "drag_area_m2")
    and leaf.name not in OF_MOMENTUM
] + ["air_density_kg_m3", "rotor_drag_N_s2", "rolling_moment_N_s2", "body_drag_N_s_m"]


def outcome(params):
    """Motion and battery after 0.15 s near the ground, moving, one pair of motors at its limits."""
    speeds = [700.0, 720.0, 680.0, 660.0]
    fleet = fly(params, speeds, [1000.0, 990.0, 500.0, 0.0], 0.15, (0.0, 0.0, 0.5), (3.0, 2.0, 0.5))
    state = [float(fleet.battery_charge(0)), fleet.battery_voltage(0)]
    truth = fleet.truth(0)
    return np.concatenate([truth.v_W, truth.w_B, truth.rotor_speed_radps, state])


@pytest.fixture(scope="module")
def usual():
    return outcome(FULL)


@pytest.mark.parametrize("name", OF_MOMENTUM[1:])
def test_every_figure_of_momentum_theory_counts(name, usual):
    flat = dict(flatten(MOMENTUM))
    base = outcome(MOMENTUM)
    assert np.max(np.abs(base - usual)) > 1e-3
    flat[name] = 1.1 * flat[name]
    assert np.max(np.abs(outcome(unflatten(VehicleParams, flat, "test")) - base)) > 1e-7


@pytest.mark.parametrize("name", MINE)
def test_every_figure_counts(name, usual):
    """A tenth more, or another choice, changes the flight by more than rounding."""
    flat = dict(flatten(FULL))
    value = flat[name]
    base = usual
    if isinstance(value, str):
        kinds = {leaf.name: leaf.spec.choices for leaf in leaves(VehicleParams)}[name]
        flat[name] = next(choice for choice in kinds if choice != value)
    elif isinstance(value, list):
        flat[name] = [1.1 * v for v in value]
    elif name == "battery.efficiency":  # of motors of first order
        flat["motor.model"] = "first_order"
        base = outcome(unflatten(VehicleParams, flat, "test"))
        flat[name] = 1.1 * value
    else:
        flat[name] = 1.1 * value if value else 1e-5
    changed = outcome(unflatten(VehicleParams, flat, "test"))
    assert np.max(np.abs(changed - base)) > 1e-7
