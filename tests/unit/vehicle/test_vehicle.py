"""The vehicle against closed forms and conservation laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.files import find, known
from quadsim.base.parameters import load
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import (
    BatteryParams,
    ContactParams,
    MotorParams,
    RotorParams,
    VehicleParams,
)
from quadsim.world.environment import EnvironmentParams

X500 = load(VehicleParams, find("vehicles", "x500"))
FREE = replace(
    X500, contact=ContactParams(points_B_m=()), rotor_drag_N_s2=0.0, rolling_moment_N_s2=0.0,
    body_drag_N_s_m=(0.0, 0.0, 0.0), drag_area_m2=(0.0, 0.0, 0.0), air_density_kg_m3=0.0,
    rotor=RotorParams(), motor=MotorParams(), battery=BatteryParams(),
)  # fmt: skip
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


def test_external_wrench_accelerates():
    fleet = flying(FREE, EnvironmentParams(gravity_mps2=0.0))
    fleet.set_external_wrench(0, (2.0, 0.0, -1.0), (0.0, 0.01, 0.0))
    fleet._advance(0)
    truth = fleet.truth(0)
    assert truth.a_W * X500.mass_kg == pytest.approx([2.0, 0.0, -1.0])
    assert truth.w_dot_B[1] == pytest.approx(0.01 / X500.inertia_kg_m2[1])


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
