"""The vehicle against closed forms and conservation laws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find, known
from quadsim.base.parameters import load, new, pack
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.multirotor import derivative
from quadsim.vehicle.parameters import (
    BatteryParams,
    ContactParams,
    MotorParams,
    RotorParams,
    VehicleParams,
)
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import STATE_SIZE, VEHICLE, Workspace
from quadsim.world.environment import EnvironmentParams

X500 = load(VehicleParams, find("vehicles", "x500"))
FREE = replace(
    X500,
    contact=ContactParams(points_B_m=()),
    rotor_drag_N_s2=0.0,
    rolling_moment_N_s2=0.0,
    body_drag_N_s_m=(0.0, 0.0, 0.0),
    drag_area_m2=(0.0, 0.0, 0.0),
    air_density_kg_m3=0.0,
    rotor=RotorParams(),
    motor=MotorParams(),
    battery=BatteryParams(),
)
GRAVITY = 9.80665
SECOND_NS = 1_000_000_000
HOVER_RADPS = math.sqrt(X500.mass_kg * GRAVITY / (4 * X500.thrust_coefficient_N_s2))


def flying(params, environment=None, **state):
    """A fleet of one with parts of its state set; rotors and commands as ``rotors``."""
    fleet = Fleet(params, environment or EnvironmentParams())
    named = {"v": "v_W", "q": "q_WB", "w": "w_B", "rotors": "rotor_speeds_radps"}
    motion = {named[name]: value for name, value in state.items() if name in named}
    fleet.set_motion(0, state.get("p", (0.0, 0.0, 0.0)), **motion)
    if "rotors" in state:
        fleet.set_motor_command(0, state["rotors"])
    return fleet


@pytest.mark.parametrize("name", known("vehicles"))
def test_vehicle_files_load_and_can_hover_on_half_their_thrust(name):
    params = load(VehicleParams, find("vehicles", name))
    if params.kind == "helicopter":
        assert params.lift_ratio > 1.5
        return
    most_N = (
        len(params.rotor_directions)
        * params.thrust_coefficient_N_s2
        * (params.rotor_speed_max_radps**2)
    )
    assert most_N > 1.5 * params.mass_kg * GRAVITY
    hubs = np.array(params.rotor_positions_B_m)
    middle = hubs.mean(axis=0)  # not the origin where the centre of mass is off the middle
    for hub, direction in zip(hubs, params.rotor_directions, strict=True):
        away = np.linalg.norm(2.0 * middle - hub - hubs, axis=1)
        assert away.min() < 0.05 * np.ptp(hubs)  # the iris' rear arms are shorter
        partner = params.rotor_directions[int(away.argmin())]
        opposite = len(hubs) % 4 == 2  # of a hexacopter they turn against each other
        assert partner == (-direction if opposite else direction)


def test_the_phantom_hovers_at_the_rotor_speed_of_its_recorded_flight():
    """83 revolutions a second at 1.38 kg; the motors turn twice the weight."""
    params = load(VehicleParams, find("vehicles", "phantom4"))
    hover = math.sqrt(params.mass_kg * GRAVITY / (4.0 * params.thrust_coefficient_N_s2))
    assert hover / (2.0 * math.pi) == pytest.approx(83.0, rel=2e-3)
    assert (params.rotor_speed_max_radps / hover) ** 2 == pytest.approx(2.2, rel=0.05)


def test_free_fall():
    fleet = flying(FREE, p=(0.0, 0.0, 100.0), v=(1.0, 2.0, 0.0))
    fleet.step_to(2 * SECOND_NS)
    truth = fleet.truth(0)
    # a quadratic in time is integrated exactly by RK4, so only rounding remains
    assert truth.p_W == pytest.approx([2.0, 4.0, 100.0 - 0.5 * GRAVITY * 4.0], abs=1e-9)
    assert truth.v_W == pytest.approx([1.0, 2.0, -2 * GRAVITY], abs=1e-10)
    assert truth.a_W == pytest.approx([0.0, 0.0, -GRAVITY], abs=1e-12)


def test_hover_speed_of_the_rotors():
    fleet = flying(FREE, p=(0.0, 0.0, 10.0), rotors=[HOVER_RADPS] * 4)
    fleet.step_to(5 * SECOND_NS)
    assert fleet.truth(0).p_W == pytest.approx([0.0, 0.0, 10.0], abs=1e-8)


def test_terminal_velocity():
    drag = 2.0
    params = replace(FREE, body_drag_N_s_m=(drag, drag, drag))
    terminal = -params.mass_kg * GRAVITY / drag
    fleet = flying(params, p=(0.0, 0.0, 1000.0))
    time_constant = params.mass_kg / drag
    fleet.step_to(round(time_constant * SECOND_NS))
    seconds = fleet.stamp_ns * 1e-9
    expected = terminal * (1.0 - math.exp(-seconds / time_constant))
    assert fleet.truth(0).v_W[2] == pytest.approx(expected, rel=1e-9)
    fleet.step_to(40 * SECOND_NS)
    assert fleet.truth(0).v_W[2] == pytest.approx(terminal, rel=1e-9)


def test_wind_carries_a_body_that_drags():
    environment = EnvironmentParams(wind_W_mps=(3.0, -2.0, 1.0), gravity_mps2=0.0)
    fleet = flying(replace(FREE, body_drag_N_s_m=(5.0, 5.0, 5.0)), environment)
    fleet.step_to(20 * SECOND_NS)
    assert fleet.truth(0).v_W == pytest.approx([3.0, -2.0, 1.0], abs=1e-9)


@pytest.mark.parametrize(
    ("start", "command", "time_constant"),
    [(200.0, 800.0, X500.time_constant_up_s), (800.0, 200.0, X500.time_constant_down_s)],
)
def test_motors_are_of_first_order_up_and_down(start, command, time_constant):
    fleet = flying(FREE, p=(0.0, 0.0, 50.0), rotors=[start] * 4)
    fleet.set_motor_command(0, [command] * 4)
    fleet.step_to(20_000_000)
    expected = command + (start - command) * math.exp(-0.02 / time_constant)
    # RK4 with dt/tau = 0.08: global error about (dt/tau)^4/120 of the step
    assert fleet.motor_speeds(0) == pytest.approx([expected] * 4, abs=1e-3)


def test_commands_beyond_the_limits_are_cut():
    fleet = flying(FREE, rotors=[0.0] * 4)
    fleet.set_motor_command(0, [5000.0, -5000.0, math.nan, 100.0])
    fleet.step_to(SECOND_NS)
    assert fleet.motor_speeds(0) == pytest.approx(
        [X500.rotor_speed_max_radps, 0.0, 0.0, 100.0], abs=1e-6
    )


@pytest.mark.parametrize(
    ("axis", "sign"),
    [
        (0, 1.0),  # the left rotors lift the left side: positive roll
        (1, -1.0),  # the front rotors lift the nose: negative pitch
        (2, -1.0),  # faster counter-clockwise rotors turn the body clockwise
    ],
)
def test_rotor_torques_turn_the_body_the_right_way(axis, sign):
    positions = np.array(X500.rotor_positions_B_m)
    left, front = positions[:, 1] > 0, positions[:, 0] > 0
    chosen = {0: left, 1: front, 2: np.array(X500.rotor_directions) > 0}[axis]
    speeds = np.where(chosen, 1.05, 1.0) * HOVER_RADPS
    fleet = flying(FREE, p=(0.0, 0.0, 10.0), rotors=speeds)
    w_dot = fleet.truth(0).w_dot_B
    thrust = X500.thrust_coefficient_N_s2 * speeds**2
    arms = np.array([positions[:, 1], -positions[:, 0], -np.array(X500.rotor_directions) * 0.016])
    assert w_dot == pytest.approx(arms @ thrust / np.array(X500.inertia_kg_m2), rel=1e-9, abs=1e-9)
    assert sign * w_dot[axis] > 0.0


def test_torque_free_tumbling_matches_scipy_and_keeps_momentum_and_energy():
    inertia = np.array(X500.inertia_kg_m2)
    w0 = np.array([2.0, -1.5, 3.0])
    fleet = flying(FREE, EnvironmentParams(gravity_mps2=0.0), w=w0)
    fleet.step_to(10 * SECOND_NS)

    def euler(_, state):
        q, w = state[:4], state[4:]
        rate = np.array([0.0, *w])
        product = np.array(
            [
                -q[1:] @ rate[1:],
                *(q[0] * rate[1:] + np.cross(q[1:], rate[1:])),
            ]
        )
        return np.concatenate([0.5 * product, -np.cross(w, inertia * w) / inertia])

    reference = solve_ivp(
        euler, (0, 10), [1, 0, 0, 0, *w0], method="DOP853", rtol=1e-12, atol=1e-12
    ).y[:, -1]
    truth = fleet.truth(0)
    # RK4 at 1 ms and 4 rad/s: local error (w dt)^5/120, summed over 1e4 steps below 1e-10
    assert truth.w_B == pytest.approx(reference[4:], abs=1e-9)
    assert abs(truth.q_WB @ reference[:4]) == pytest.approx(1.0, abs=1e-9)
    R_WB = Rotation.from_quat(np.roll(truth.q_WB, -1)).as_matrix()
    assert R_WB @ (inertia * truth.w_B) == pytest.approx(inertia * w0, abs=1e-9)
    assert truth.w_B @ (inertia * truth.w_B) == pytest.approx(w0 @ (inertia * w0), rel=1e-10)


def test_rotor_drag_of_a_climbless_drift_follows_the_published_form():
    params = replace(FREE, rotor_drag_N_s2=8.06428e-05, rolling_moment_N_s2=1e-6)
    v_W = (3.0, 0.0, 0.0)
    fleet = flying(params, v=v_W, rotors=[HOVER_RADPS] * 4)
    # four rotors, each with -|Omega| C_d v in its disc (Furrer et al. 2016)
    drag_N = -4 * HOVER_RADPS * 8.06428e-05 * 3.0
    truth = fleet.truth(0)
    assert truth.a_W[0] == pytest.approx(drag_N / params.mass_kg, rel=1e-12)
    pitch_Nm = 0.0581 * drag_N  # the force acts at the hubs, above the centre of mass
    assert truth.w_dot_B[1] == pytest.approx(pitch_Nm / params.inertia_kg_m2[1], rel=1e-9)
    # two rotors of each sense: their rolling moments cancel
    assert truth.w_dot_B[0] == pytest.approx(0.0, abs=1e-12)


def test_rk4_is_of_fourth_order():
    errors = []
    steps_ns = [8_000_000, 4_000_000, 2_000_000, 1_000_000]
    reference = None
    for step_ns in [250_000, *steps_ns]:
        fleet = Fleet(
            FREE,
            EnvironmentParams(),
            physics=PhysicsParams(step_s=step_ns * 1e-9),
            period_ns=8_000_000,
        )
        x = fleet._vehicles[0].x
        speeds = [HOVER_RADPS] * 4
        fleet.set_motion(0, (0.0, 0.0, 0.0), w_B=(3.0, 2.0, -4.0), rotor_speeds_radps=speeds)
        fleet.set_motor_command(0, [HOVER_RADPS] * 4)
        fleet.step_to(800_000_000)
        if reference is None:
            reference = np.array(x)
        else:
            errors.append(np.linalg.norm(x[:13] - reference[:13]))
    slope = np.polyfit(np.log(np.array(steps_ns) * 1e-9), np.log(errors), 1)[0]
    assert slope == pytest.approx(4.0, abs=0.2)


def test_it_stands_still_on_its_feet_and_sinks_by_the_sag():
    fleet = Fleet(X500, EnvironmentParams(ground_height_m=2.0))
    start = np.array(fleet.truth(0).p_W)
    fleet.step_to(10 * SECOND_NS)
    assert fleet.contact(0)
    assert fleet.truth(0).p_W == pytest.approx(start, abs=1e-9)
    assert start[2] == pytest.approx(2.0 + 0.229 - X500.contact.sag_m)


def test_a_drop_comes_to_rest_without_gaining_energy():
    fleet = flying(X500, p=(0.0, 0.0, 0.5), v=(0.5, 0.0, 0.0))
    highest = 0.0
    for k in range(1, 400):
        fleet.step_to(k * 10_000_000)
        truth = fleet.truth(0)
        if truth.v_W[2] > 0.0:
            highest = max(highest, truth.p_W[2])
    # dropped from 0.27 m above its feet it may bounce a little, never back to where it was
    assert highest < 0.35
    assert np.linalg.norm(truth.v_W) < 1e-3
    assert abs(truth.p_W[2] - (0.229 - X500.contact.sag_m)) < 1e-3
    assert 0.0 < truth.p_W[0] < 0.5  # friction stopped the slide


def test_friction_holds_and_gives_way_at_the_coulomb_limit():
    weight = X500.mass_kg * GRAVITY
    for factor, moves in ((0.5, False), (1.5, True)):
        fleet = Fleet(X500, EnvironmentParams())
        # pushed at the feet's height, so that it slides rather than tips
        push = factor * X500.contact.friction * weight
        fleet.set_external_wrench(0, (push, 0.0, 0.0), (0.0, -0.226 * push, 0.0))
        fleet.step_to(SECOND_NS)
        assert bool(fleet.truth(0).p_W[0] > 0.5) is moves


def test_external_wrench_accelerates():
    fleet = flying(FREE, EnvironmentParams(gravity_mps2=0.0))
    fleet.set_external_wrench(0, (2.0, 0.0, -1.0), (0.0, 0.01, 0.0))
    fleet._advance(0)
    truth = fleet.truth(0)
    assert truth.a_W * X500.mass_kg == pytest.approx([2.0, 0.0, -1.0])
    assert truth.w_dot_B[1] == pytest.approx(0.01 / X500.inertia_kg_m2[1])


def test_battery_counts_the_electric_charge():
    fleet = flying(FREE, p=(0.0, 0.0, 1e3), rotors=[HOVER_RADPS] * 4)
    before = fleet.battery_charge(0)
    fleet.step_to(10 * SECOND_NS)
    shaft_W = 4 * X500.thrust_coefficient_N_s2 * 0.016 * HOVER_RADPS**3
    used_C = (before - fleet.battery_charge(0)) * X500.battery.capacity_Ah * 3600
    assert fleet.motor_currents(0).sum() == pytest.approx(shaft_W / 14.8 / 0.6, rel=1e-9)
    assert used_C == pytest.approx(10 * shaft_W / 14.8 / 0.6, rel=1e-6)


def test_many_vehicles_fly_as_one_alone():
    poses = [(50.0 * i, 0.0, 0.1 * i) for i in range(5)]  # out of each other's reach
    fleet = Fleet(X500, EnvironmentParams(), poses)
    alone = Fleet(X500, EnvironmentParams(), [poses[3]])
    for i in range(5):
        fleet.set_motor_command(i, [700.0 + 40 * i] * 4)
    alone.set_motor_command(0, [820.0] * 4)
    fleet.step_to(SECOND_NS)
    alone.step_to(SECOND_NS)
    assert fleet.truth(3).tobytes() == alone.truth(0).tobytes()


def test_a_state_that_goes_to_infinity_is_named():
    fleet = flying(replace(FREE, body_drag_N_s_m=(100.0,) * 3, mass_kg=1e-3), v=(1.0, 0.0, 0.0))
    with pytest.raises(FlightError, match=r"went to infinity at t = .* likely cause is its drag"):
        fleet.step_to(10 * SECOND_NS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inertia_kg_m2": (0.01, 0.01, 0.03)}, r"no body has it \(0.03 > 0.02\)"),
        ({"rotor_directions": (1.0, -1.0)}, "one each"),
        ({"rotor_directions": (0.5, 1.0, -1.0, 1.0)}, "each 1 or -1"),
        ({"rotor_speed_min_radps": 1000.0}, "rotor_speed_min_radps"),
        ({"mass_kg": 20.0}, "do not lift the weight"),
    ],
)
def test_impossible_bodies_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        replace(X500, **change)


def test_derivative_does_not_change_its_inputs():
    vehicle = np.zeros(1, VEHICLE)[0]
    vehicle.x[:13] = np.random.default_rng(3).standard_normal(13)
    before = vehicle.x.copy()
    out = np.zeros(STATE_SIZE)
    vehicle.held.mass_kg = X500.mass_kg
    physics = pack(PhysicsParams())
    model = (vehicle, pack(X500), pack(EnvironmentParams()), physics, new(Workspace))
    derivative(vehicle.x, model, out)
    assert np.array_equal(vehicle.x, before)
