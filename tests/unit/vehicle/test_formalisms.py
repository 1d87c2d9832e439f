"""Four formalisms of the attitude and three integrators, against each other and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from reference_flight import reference_state
from scipy.spatial.transform import Rotation

from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import (
    apply,
    apply_inverse,
    compose,
    from_matrix,
    matrix_from_euler,
    to_matrix,
)
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.formalisms.formalisms import local_rates
from quadsim.vehicle.formalisms.quaternion_constraint import constrained_rates
from quadsim.vehicle.parameters import ContactParams, VehicleParams
from quadsim.vehicle.physics import FORMALISMS, INTEGRATORS, PhysicsParams
from quadsim.vehicle.state import Q_DOT, STATE_SIZE, Q
from quadsim.world.environment import EnvironmentParams

X500 = load(VehicleParams, find("vehicles", "x500"))
AIRBORNE = replace(X500, contact=ContactParams(points_B_m=()))
WEIGHTLESS = EnvironmentParams(gravity_mps2=0.0)
SECOND_NS = 1_000_000_000
HOVER_RADPS = 770.0


def aloft(formalism, integrator="rk4", step_s=0.001, vehicle=AIRBORNE, world=None, **motion):
    """One vehicle in the air, rotors turning at the speeds that they are told."""
    fleet = Fleet(
        vehicle,
        world or EnvironmentParams(),
        physics=PhysicsParams(step_s=step_s, formalism=formalism, integrator=integrator),
        period_ns=round(step_s * 1e9),
    )
    speeds = motion.pop("rotors", (HOVER_RADPS,) * len(vehicle.rotor_directions))
    fleet.set_motion(0, (0.0, 0.0, 100.0), rotor_speeds_radps=speeds, **motion)
    fleet.set_motor_command(0, speeds)
    return fleet


# ---- rotation matrices ---------------------------------------------------------------------------


def test_matrices_agree_with_scipy():
    rng = np.random.default_rng(1)
    for _ in range(100):
        roll, pitch, yaw = rng.uniform(-3.1, 3.1, 3)
        expected = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_matrix()
        R = matrix_from_euler(roll, pitch, yaw)
        v = tuple(rng.standard_normal(3))
        assert np.allclose(R, expected, atol=1e-14)
        assert np.allclose(apply(R, v), expected @ v, atol=1e-14)
        assert np.allclose(apply_inverse(R, v), expected.T @ v, atol=1e-14)
        assert np.allclose(compose(R, R), expected @ expected, atol=1e-14)
        assert np.allclose(to_matrix(from_matrix(R)), expected, atol=1e-14)


@pytest.mark.parametrize("axis", range(3))
def test_half_turns_have_a_quaternion(axis):
    """The trace is -1 there, where the naive formula divides by zero."""
    turn = np.zeros(3)
    turn[axis] = math.pi
    R = Rotation.from_rotvec(turn).as_matrix()
    q = from_matrix(tuple(map(tuple, R)))
    assert np.allclose(np.abs(q), np.eye(4)[axis + 1], atol=1e-15)


@pytest.mark.parametrize("angle", [1e-6, 0.05, 0.15, 2.0])
def test_local_rates_are_the_derivative_of_the_local_coordinates(angle):
    """R0 exp(theta) turned on by w dt has theta + theta_dot dt; by both series and closed form."""
    rng = np.random.default_rng(7)
    axis = rng.standard_normal(3)
    theta = angle * axis / np.linalg.norm(axis)
    w, dt = rng.standard_normal(3), 1e-6
    ahead = (Rotation.from_rotvec(theta) * Rotation.from_rotvec(w * dt)).as_rotvec()
    behind = (Rotation.from_rotvec(theta) * Rotation.from_rotvec(-w * dt)).as_rotvec()
    # central difference: dt^2 of truncation, and 1e-16/dt of rounding
    assert local_rates(tuple(theta), tuple(w)) == pytest.approx(
        (ahead - behind) / (2 * dt), abs=1e-9
    )


# ---- the constraint ------------------------------------------------------------------------------


def test_the_constraint_is_the_second_derivative_of_a_unit_quaternion():
    """Q_dd of a body that turns by w(t), from scipy's rotations, and lambda = -|Q_dot|^2-part."""
    w0, w_dot = np.array([0.7, -1.1, 0.4]), np.array([2.0, 1.0, -3.0])
    q0 = Rotation.from_rotvec([0.3, -0.2, 0.9])

    def attitude(t):
        """Exact to third order in t: constant rate turned on by its derivative (Magnus)."""
        turn = w0 * t + w_dot * t**2 / 2 + np.cross(w0, w_dot) * t**3 / 12
        return (q0 * Rotation.from_rotvec(turn)).as_quat(scalar_first=True)

    dt = 1e-4
    q, ahead, behind = attitude(0.0), attitude(dt), attitude(-dt)
    x, x_dot = np.zeros(STATE_SIZE), np.zeros(STATE_SIZE)
    x[Q : Q + 4] = q
    x[Q_DOT : Q_DOT + 4] = (ahead - behind) / (2 * dt)
    multiplier = constrained_rates(x, (0.0, 0.0, 0.0), tuple(w_dot), 0.0, x_dot)
    second = (ahead - 2 * q + behind) / dt**2
    # differences: dt^2 of truncation, 1e-16 / dt^2 of rounding
    assert x_dot[Q_DOT : Q_DOT + 4] == pytest.approx(second, abs=1e-6)
    # the norm's second derivative is zero
    q_dot = x[Q_DOT : Q_DOT + 4]
    assert q @ x_dot[Q_DOT : Q_DOT + 4] == pytest.approx(-q_dot @ q_dot, abs=1e-12)
    # the multiplier is all of the acceleration towards the middle: -w^2/4
    assert multiplier == pytest.approx(-w0 @ w0 / 4.0, abs=1e-6)


def test_the_multiplier_pulls_a_violated_velocity_constraint_back():
    x, x_dot = np.zeros(STATE_SIZE), np.zeros(STATE_SIZE)
    x[Q : Q + 4] = 1.0, 0.0, 0.0, 0.0
    x[Q_DOT : Q_DOT + 4] = 0.5, 0.2, -0.1, 0.3  # Q'Q_dot = 0.5: off the tangent plane
    multiplier = constrained_rates(x, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0), 0.0, x_dot)
    q_dot = x[Q_DOT : Q_DOT + 4]
    assert x_dot[Q_DOT] == pytest.approx(-q_dot @ q_dot)
    assert multiplier == pytest.approx(-q_dot @ q_dot)
    assert x_dot[3:6] == pytest.approx([1.0, 2.0, 3.0])


INERTIA = np.array([0.02, 0.025, 0.04])


def spun(seconds, dt_s=0.004, rate_per_s=0.0):
    """|Q| of a free body at 7 rad/s, by numpy's solution of the block system and RK4.

    Args:
        seconds: how long.
        dt_s: step.
        rate_per_s: of Baumgarte's stabilisation.
    """

    def product(a, b):
        return np.array([a[0] * b[0] - a[1:] @ b[1:],
                         *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])  # fmt: skip

    def rates(y):
        q, q_dot = y[:4], y[4:]
        w = 2.0 * product(q * [1.0, -1.0, -1.0, -1.0], q_dot)[1:]
        gamma = -np.cross(w, INERTIA * w) / INERTIA
        matrix = np.eye(5)
        matrix[:4, 4], matrix[4, :4], matrix[4, 4] = -q, q, 0.0
        phi, phi_dot = q @ q - 1.0, 2.0 * q @ q_dot
        pull = 0.5 * (2.0 * rate_per_s * phi_dot + rate_per_s**2 * phi)
        along = 0.5 * product(q, np.array([0.0, *gamma]))
        solution = np.linalg.solve(matrix, [*along, -q_dot @ q_dot - pull])
        return np.concatenate([q_dot, solution[:4]])

    y = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 2.5, -1.5, 2.0])
    for _ in range(round(seconds / dt_s)):
        k1 = rates(y)
        k2 = rates(y + 0.5 * dt_s * k1)
        k3 = rates(y + 0.5 * dt_s * k2)
        k4 = rates(y + dt_s * k3)
        y = y + dt_s / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return float(np.linalg.norm(y[:4]))


@pytest.mark.parametrize(("rate_per_s", "low", "high"), [(0.0, 1e-7, 1e-4), (5.0, 0.0, 1e-8)])
def test_the_norm_drifts_without_stabilisation_and_not_with_it(rate_per_s, low, high):
    """Ten seconds at 4 ms: the project's system drifts as numpy's does."""
    free = replace(
        AIRBORNE,
        inertia_kg_m2=tuple(INERTIA.tolist()),
        rotor_drag_N_s2=0.0,
        body_drag_N_s_m=(0.0, 0.0, 0.0),
    )
    fleet = Fleet(
        free,
        WEIGHTLESS,
        physics=PhysicsParams(step_s=0.004, formalism="constraint", baumgarte_per_s=rate_per_s),
        period_ns=4_000_000,
    )
    fleet.set_motion(0, (0.0, 0.0, 100.0), w_B=(5.0, -3.0, 4.0))  # its rotors stand still
    fleet.step_to(10 * SECOND_NS)
    drift = float(np.linalg.norm(fleet.model(0)[0].x[Q : Q + 4])) - 1.0
    assert low <= abs(drift) < high
    # the same recurrence but for its rounding, which grows as t^2 without stabilisation
    assert drift == pytest.approx(spun(10.0, rate_per_s=rate_per_s) - 1.0, rel=1e-3, abs=1e-12)


def test_stabilisation_of_another_formalism_is_refused():
    with pytest.raises(InputError, match="baumgarte_per_s: 20 with formalism: quaternion"):
        PhysicsParams(baumgarte_per_s=20.0)


# ---- one flight, four formalisms -----------------------------------------------------------------


@pytest.fixture(scope="module")
def flights():
    """The first 20 s of the square with gusty wind, in each formalism.

    Flown on the truth: sensors count in whole steps, which would make a difference of the last bit
    one of a step.
    """
    found = {}
    for formalism in FORMALISMS:
        scenario = load_scenario("square", duration_s=20.0)
        world = replace(
            scenario.environment,
            wind_W_mps=(2.0, 1.0, 0.0),
            wind=replace(scenario.environment.wind, turbulence="dryden", w20_mps=7.7),
        )
        physics = PhysicsParams(formalism=formalism)
        file = replace(scenario.file, physics=physics, environment=world)
        loop = ClosedLoop(replace(scenario, file=file), use_truth=True)
        found[formalism] = loop.fly()
    return found


@pytest.mark.parametrize("formalism", FORMALISMS[1:])
def test_the_same_flight_in_every_formalism(flights, formalism):
    """Each is integrated to a few 1e-11 over a step's truncation; control keeps it from growing."""
    one, other = flights["quaternion"].truth, flights[formalism].truth
    assert len(one) == len(other) == 2000
    assert np.ptp(one.p_W[:, 0]) > 3.0  # it has gone somewhere
    assert np.abs(one.p_W - other.p_W).max() < 1e-8
    assert np.abs(one.v_W - other.v_W).max() < 1e-8
    assert np.abs(np.abs(np.sum(one.q_WB * other.q_WB, axis=1)) - 1.0).max() < 1e-8
    assert np.abs(one.w_B - other.w_B).max() < 1e-7


def through_the_vertical(formalism):
    """A loop: pitching up at 3 rad/s for longer than a quarter turn, weightless."""
    fleet = aloft(formalism, world=WEIGHTLESS, w_B=(0.0, -3.0, 0.0), rotors=(0.0,) * 4)
    fleet.step_to(SECOND_NS)
    return fleet.truth(0)


def test_euler_angles_stop_at_gimbal_lock_and_say_so():
    with pytest.raises(FlightError, match=r"gimbal lock.* at t = 0\.52.*physics\.formalism"):
        through_the_vertical("euler")


@pytest.mark.parametrize("formalism", ["quaternion", "constraint", "matrix"])
def test_the_others_fly_a_loop(formalism):
    truth = through_the_vertical(formalism)
    turned = Rotation.from_quat(truth.q_WB, scalar_first=True).as_rotvec()
    # drag of the turning hubs slows it a little: more than 2.5 rad and not beyond 3
    assert -3.0 < turned[1] < -2.5
    assert np.abs(turned[[0, 2]]).max() < 1e-9


# ---- integrators ---------------------------------------------------------------------------------

#: With turning rotors, tumbling, drag and wind: everything in the derivative moves.
TUMBLE = {"w_B": (3.0, 2.0, -4.0), "v_W": (5.0, -2.0, 1.0)}
ORDERS = {"rk4": 4.0, "semi_implicit_euler": 1.0, "explicit_euler": 1.0}


@pytest.fixture(scope="module")
def exact():
    """The adaptive solution by scipy."""
    return reference_state(aloft("quaternion", **TUMBLE), 0.32)[:13]


@pytest.mark.parametrize("formalism", FORMALISMS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_order_of_convergence(exact, formalism, integrator):
    """The slope of the error over the step, against the adaptive reference."""
    longest_s = 0.008 if integrator == "rk4" else 0.002
    steps_s = [longest_s, longest_s / 2, longest_s / 4]
    errors = []
    for step_s in steps_s:
        fleet = aloft(formalism, integrator, step_s, **TUMBLE)
        fleet.step_to(320_000_000)
        truth = fleet.truth(0)
        sign = math.copysign(1.0, float(np.dot(truth.q_WB, exact[6:10])))
        found = [*truth.p_W, *truth.v_W, *(sign * truth.q_WB), *truth.w_B]
        errors.append(np.linalg.norm(np.array(found) - exact))
    slope = np.polyfit(np.log(steps_s), np.log(errors), 1)[0]
    # the next term of the error bends the line by about the ratio of steps
    assert slope == pytest.approx(ORDERS[integrator], abs=0.25)


@pytest.mark.parametrize("formalism", FORMALISMS)
def test_a_free_body_keeps_energy_and_angular_momentum(formalism):
    """A minute of tumbling without torque; RK4 loses (w dt)^5 / 120 of the rates a step."""
    bare = replace(
        AIRBORNE,
        rotor_drag_N_s2=0.0,
        rolling_moment_N_s2=0.0,
        body_drag_N_s_m=(0.0, 0.0, 0.0),
        drag_area_m2=(0.0, 0.0, 0.0),
    )
    w0 = np.array([0.5, 0.3, 2.0])  # near the axis of largest inertia: pitch stays small
    fleet = aloft(formalism, vehicle=bare, world=WEIGHTLESS, w_B=w0, rotors=(0.0,) * 4)
    fleet.step_to(60 * SECOND_NS)
    truth, inertia = fleet.truth(0), np.array(bare.inertia_kg_m2)
    turn = Rotation.from_quat(truth.q_WB, scalar_first=True)
    momentum = turn.apply(inertia * truth.w_B)
    assert momentum == pytest.approx(inertia * w0, rel=1e-9, abs=1e-10)
    energy = 0.5 * np.sum(inertia * truth.w_B**2)
    assert energy == pytest.approx(0.5 * np.sum(inertia * w0**2), rel=1e-10)


def test_a_matrix_stays_a_rotation_for_a_minute():
    fleet = aloft("matrix", world=WEIGHTLESS, w_B=(5.0, -3.0, 4.0), rotors=(0.0,) * 4)
    fleet.step_to(60 * SECOND_NS)
    R = np.array(fleet._vehicles[0].R_WB).reshape(3, 3)
    # a random walk of rounding over 60 000 products
    assert np.abs(R @ R.T - np.eye(3)).max() < 1e-12


def test_the_constrained_norm_drifts_with_the_integrators_order_alone():
    """Its second derivative is zero in the dynamics: what is left shrinks as step^4."""

    def drift(step_s):
        motion = {"w_B": (5.0, -3.0, 4.0), "rotors": (0.0,) * 4}
        fleet = aloft("constraint", step_s=step_s, world=WEIGHTLESS, **motion)
        fleet.step_to(4 * SECOND_NS)
        return abs(np.linalg.norm(fleet._vehicles[0].x[Q : Q + 4]) - 1.0)

    steps_s = [0.008, 0.004, 0.002]
    slope = np.polyfit(np.log(steps_s), np.log([drift(step_s) for step_s in steps_s]), 1)[0]
    assert 3.75 < slope < 5.25  # fourth order, or one better where the leading term cancels


# ---- what cannot be ------------------------------------------------------------------------------


def test_a_flight_without_bound_is_named_with_state_and_cause():
    stiff = replace(AIRBORNE, body_drag_N_s_m=(100.0,) * 3, mass_kg=0.01)
    fleet = aloft("quaternion", vehicle=stiff, v_W=(1.0, 0.0, 0.0))
    with pytest.raises(
        FlightError, match=r"to infinity at t = .* v = \(.*cause is its drag.*step_s"
    ):
        fleet.step_to(10 * SECOND_NS)


def test_a_push_beyond_reason_is_named_as_the_cause():
    fleet = aloft("quaternion")
    fleet.set_external_wrench(0, (1e300, 0.0, 0.0), (0.0, 0.0, 1e300))
    with pytest.raises(FlightError, match="the likely cause is external_wrench"):
        fleet.step_to(SECOND_NS)
