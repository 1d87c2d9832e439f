"""The crowd against scipy, the fleet, closed forms, and itself on other threads and lanes."""

from __future__ import annotations

import math
import os
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.vehicle.batched import vehicles as crowd_module
from quadsim.vehicle.batched.control import AttitudeLaw, gains_of
from quadsim.vehicle.batched.vehicles import Crowd, airframe_of, drag_model
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.propulsion.parameters import RotorParams
from quadsim.world.environment import EnvironmentParams

GRAVITY = 9.80665
X500 = drag_model(load(VehicleParams, find("vehicles", "x500")))
#: Every term of the model at once: the x500 with rotors that have inertia, off its centre of mass.
VEHICLE = replace(
    X500,
    rotor_positions_B_m=(
        (0.184, -0.174, 0.0581),
        (-0.164, 0.174, 0.05),
        (0.174, 0.18, 0.06),
        (-0.174, -0.174, 0.0581),
    ),
    rotor=RotorParams(inertia_kg_m2=4e-5),
    air_density_kg_m3=0.0,
)
WINDY = EnvironmentParams(
    wind_W_mps=(3.0, -1.0, 0.5), gravity_gradient_per_s2=3e-4, ground_height_m=-50.0
)
HOVER_RADPS = math.sqrt(VEHICLE.mass_kg * GRAVITY / (4 * VEHICLE.thrust_coefficient_N_s2))
LAW = AttitudeLaw(
    attitude_per_s2=(50.0, 60.0, 5.0),
    rate_per_s=(14.0, 15.0, 5.0),
    integral_per_s3=(10.0, 20.0, 3.0),
    acceleration=(0.1, 0.2, 0.05),
    integral_limit_s=(0.002, 0.01, 0.01),
    acceleration_limit_radps2=(60.0, 40.0, 3.0),
)

pytestmark = pytest.mark.many


def crowd_of(params=VEHICLE, count=1, step_ns=1_000_000, environment=WINDY, **options):
    """A crowd in the air, each vehicle with a motion and commands of its own."""
    crowd = Crowd(params, environment, count, step_ns=step_ns, **options)
    rng = np.random.default_rng(7)
    rotors = len(params.rotor_directions)
    crowd.p_W[:] = rng.normal(0.0, 3.0, (3, count))
    crowd.v_W[:] = rng.normal(0.0, 4.0, (3, count))
    crowd.q_WB[:] = np.roll(Rotation.random(count, rng=rng).as_quat().T, 1, axis=0)
    crowd.w_B[:] = rng.normal(0.0, 1.0, (3, count))
    crowd.rotor_speed_radps[:] = HOVER_RADPS + rng.normal(0.0, 50.0, (rotors, count))
    crowd.rotor_command_radps[:] = HOVER_RADPS + rng.normal(0.0, 50.0, (rotors, count))
    crowd.wanted_q_WB[:] = np.roll(Rotation.random(count, rng=rng).as_quat().T, 1, axis=0)
    crowd.wanted_thrust_N[:] = VEHICLE.mass_kg * GRAVITY * rng.uniform(0.5, 1.5, count)
    return crowd


def motion(crowd):
    """The state of all vehicles, one column each."""
    return np.vstack([crowd.p_W, crowd.v_W, crowd.q_WB, crowd.w_B, crowd.rotor_speed_radps])


def reference(params, environment, x, commands, duration_s):
    """The same flight by scipy, written with matrices: p, v, q (w first), w and rotors."""
    hubs, senses = np.array(params.rotor_positions_B_m), np.array(params.rotor_directions)
    inertia = np.diag(params.inertia_kg_m2)
    spin_kg_m2 = params.rotor.inertia_kg_m2

    def slope(_, x):
        v_W, w_B, speeds = x[3:6], x[10:13], x[13:]
        R_WB = Rotation.from_quat(np.roll(x[6:10], -1)).as_matrix()
        air_B = R_WB.T @ (v_W - environment.wind_W_mps)
        error = commands - speeds
        constants = (params.time_constant_up_s, params.time_constant_down_s)
        speeds_dot = error / np.where(error > 0, *constants)
        disc = np.diag([1.0, 1.0, 0.0])
        hub = (air_B + np.cross(w_B, hubs)) @ disc
        thrust = params.thrust_coefficient_N_s2 * speeds**2
        forces = thrust[:, None] * [0, 0, 1] - params.rotor_drag_N_s2 * speeds[:, None] * hub
        torque = np.cross(hubs, forces).sum(axis=0)
        rolling = params.rolling_moment_N_s2 * senses * speeds
        torque -= (rolling[:, None] * hub).sum(axis=0)
        torque[2] -= params.torque_ratio_m * senses @ thrust
        torque[2] -= spin_kg_m2 * senses @ speeds_dot
        momentum = inertia @ w_B + [0, 0, spin_kg_m2 * senses @ speeds]
        force_B = forces.sum(axis=0) - np.array(params.body_drag_N_s_m) * air_B
        gravity = GRAVITY - environment.gravity_gradient_per_s2 * x[2]
        rates = np.array(
            [[0, *-w_B], [w_B[0], 0, w_B[2], -w_B[1]], [w_B[1], -w_B[2], 0, w_B[0]],
             [w_B[2], w_B[1], -w_B[0], 0]]
        )  # fmt: skip
        return np.concatenate(
            [
                v_W,
                R_WB @ force_B / params.mass_kg - [0, 0, gravity],
                0.5 * rates @ x[6:10],
                np.linalg.solve(inertia, torque - np.cross(w_B, momentum)),
                speeds_dot,
            ]
        )

    found = solve_ivp(slope, (0.0, duration_s), x, method="DOP853", rtol=1e-12, atol=1e-12)
    end = found.y[:, -1]
    end[6:10] /= np.linalg.norm(end[6:10])
    return end


@pytest.mark.parametrize("rotors", [4, pytest.param(6, marks=pytest.mark.thorough)])
def test_flight_of_each_vehicle_is_scipys(rotors):
    params = VEHICLE
    if rotors == 6:
        angles = np.arange(6) * math.pi / 3
        params = replace(
            VEHICLE,
            rotor_positions_B_m=tuple((0.3 * math.cos(a), 0.3 * math.sin(a), 0.02) for a in angles),
            rotor_directions=(1.0, -1.0) * 3,
        )
    crowd = crowd_of(params, count=3, step_ns=200_000)
    start, commands = motion(crowd), crowd.rotor_command_radps.copy()
    crowd.step(1500)
    for k in range(3):
        expected = reference(params, WINDY, start[:, k], commands[:, k], 0.3)
        # rotor speeds of order 1e3 with local errors (dt/tau)^5/120 ~ 1e-11 of a change of 100
        np.testing.assert_allclose(motion(crowd)[:, k], expected, rtol=1e-9, atol=1e-8)
    assert np.allclose(np.linalg.norm(crowd.q_WB, axis=0), 1.0, rtol=0.0, atol=4e-16)


@pytest.mark.parametrize(("integrator", "order"), [("rk4", 4), ("explicit_euler", 1)])
def test_order_of_convergence(integrator, order):
    start = crowd_of()
    exact = reference(VEHICLE, WINDY, motion(start)[:, 0], start.rotor_command_radps[:, 0], 0.096)
    lengths_ns = np.array([500_000, 1_000_000, 2_000_000])
    errors = []
    for step_ns in lengths_ns:
        crowd = crowd_of(step_ns=int(step_ns), integrator=integrator)
        crowd.step(int(96_000_000 // step_ns))
        errors.append(np.linalg.norm(motion(crowd)[:13, 0] - exact[:13]))
    slope = np.polyfit(np.log(lengths_ns), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15 * order)  # the next order is still felt at 2 ms


@pytest.mark.parametrize("integrator", ["rk4", "explicit_euler"])
def test_a_crowd_flies_as_a_fleet(integrator):
    count = 5
    crowd = crowd_of(count=count, integrator=integrator)
    fleet = Fleet(
        VEHICLE, WINDY, [(0.0, 0.0, 0.0)] * count, PhysicsParams(integrator=integrator),
        period_ns=1_000_000,
    )  # fmt: skip
    crowd.p_W[0] += 1000.0 * np.arange(count)  # out of reach of each other's wakes
    for i in range(count):
        fleet.set_motion(
            i, crowd.p_W[:, i], v_W=crowd.v_W[:, i], q_WB=crowd.q_WB[:, i],
            w_B=crowd.w_B[:, i], rotor_speeds_radps=crowd.rotor_speed_radps[:, i],
        )  # fmt: skip
        fleet.set_motor_command(i, crowd.rotor_command_radps[:, i])
    crowd.step(1000)
    fleet.step_to(1_000_000_000)
    for i in range(count):
        truth = fleet.truth(i)
        for name in ("p_W", "v_W", "q_WB", "w_B"):
            found, expected = getattr(crowd, name)[:, i], truth[name]
            # 1000 steps, each rounded to 1e-16 of values up to 10 (positions: to 4000 m)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("law", [None, LAW])
def test_threads_lanes_and_calls_change_no_bit(law, monkeypatch):
    count = 130  # two blocks and two vehicles of a third
    monkeypatch.setattr(crowd_module, "SMALL_CALL", 0)
    one = crowd_of(count=count, law=law, threads=1)
    two = crowd_of(count=count, law=law, threads=min(2, len(os.sched_getaffinity(0))))
    alone = crowd_of(count=1, law=law)
    alone._columns[:, 0] = one._columns[:, 129]
    one.step(20)
    alone.step(20)
    for _ in range(20):
        two.step()
    assert np.array_equal(one._columns, two._columns)
    assert np.array_equal(one._columns[:, 129], alone._columns[:, 0])
    assert one.stamp_ns == two.stamp_ns == 20_000_000


def test_rotors_turn_at_most_as_fast_as_they_can_and_never_backwards():
    asked, held = crowd_of(), crowd_of()
    asked.rotor_command_radps[:, 0] = (1e6, -500.0, 400.0, 400.0)
    held.rotor_command_radps[:, 0] = (VEHICLE.rotor_speed_max_radps, 0.0, 400.0, 400.0)
    asked.step(200)
    held.step(200)
    assert np.array_equal(motion(asked), motion(held))


def law_of_paper(law, params, q_WB, q_WC, w_B, last_w, integral, thrust_N, dt_s):
    """Rotor speeds by the published form, with matrices; and the new integral."""
    R_WB, R_WC = (Rotation.from_quat(np.roll(q, -1)).as_matrix() for q in (q_WB, q_WC))
    difference = R_WC.T @ R_WB - R_WB.T @ R_WC
    error = np.array([difference[2, 1], difference[0, 2], difference[1, 0]])
    integral = np.clip(
        integral - error * dt_s, -np.array(law.integral_limit_s), law.integral_limit_s
    )
    wanted = (
        -np.array(law.attitude_per_s2) * error
        - np.array(law.rate_per_s) * w_B
        + np.array(law.integral_per_s3) * integral
        - np.array(law.acceleration) * (w_B - last_w) / dt_s
    )
    limit = np.array(law.acceleration_limit_radps2)
    torque = np.array(params.inertia_kg_m2) * np.clip(wanted, -limit, limit)
    hubs, senses = np.array(params.rotor_positions_B_m), np.array(params.rotor_directions)
    wrench = np.array([np.ones(4), hubs[:, 1], -hubs[:, 0], -params.torque_ratio_m * senses])
    thrusts = np.linalg.solve(wrench, [thrust_N, *torque])
    speeds = np.sqrt(np.maximum(thrusts, 0.0) / params.thrust_coefficient_N_s2)
    speeds = np.clip(speeds, params.rotor_speed_min_radps, params.rotor_speed_max_radps)
    return (speeds if thrust_N > 0 else np.zeros(4)), integral


def test_law_is_the_published_one():
    count = 40
    crowd = crowd_of(count=count, law=LAW)
    crowd.wanted_thrust_N[3] = 0.0
    crowd.wanted_q_WB[:, ::2] = crowd.q_WB[:, ::2]  # half of them near, where no limit acts
    crowd.w_B[:, ::2] *= 0.1
    crowd.wanted_q_WB[:, 5] *= 3.0  # any norm is one attitude
    last_w, integral = np.zeros((3, count)), np.zeros((3, count))
    for _ in range(8):
        q_WB, w_B = crowd.q_WB.copy(), crowd.w_B.copy()
        crowd.step()
        for i in range(count):
            expected, integral[:, i] = law_of_paper(
                LAW, VEHICLE, q_WB[:, i], crowd.wanted_q_WB[:, i], w_B[:, i], last_w[:, i],
                integral[:, i], crowd.wanted_thrust_N[i], 1e-3,
            )  # fmt: skip
            # speeds of order 1e3; a derivative over 1e-3 s magnifies rounding a thousandfold
            np.testing.assert_allclose(crowd.rotor_command_radps[:, i], expected, rtol=1e-10)
        last_w = w_B


@pytest.mark.parametrize("field", [field.name for field in fields(AttitudeLaw)])
def test_each_gain_acts(field):
    one, other = crowd_of(law=LAW), crowd_of(law=replace(LAW, **{field: (0.001, 0.001, 0.001)}))
    one.step(10)
    other.step(10)
    assert not np.allclose(one.rotor_command_radps, other.rotor_command_radps, rtol=1e-6)


def test_shares_give_the_wrench_back():
    wrench = np.array(gains_of(LAW, VEHICLE).shares)
    hubs, senses = np.array(VEHICLE.rotor_positions_B_m), np.array(VEHICLE.rotor_directions)
    rows = [np.ones(4), hubs[:, 1], -hubs[:, 0], -VEHICLE.torque_ratio_m * senses]
    np.testing.assert_allclose(np.array(rows) @ wrench, np.eye(4), atol=1e-12)


def test_law_levels_and_turns_a_vehicle():
    free = replace(
        VEHICLE, rotor_drag_N_s2=0.0, rolling_moment_N_s2=0.0, body_drag_N_s_m=(0.0, 0.0, 0.0)
    )
    crowd = crowd_of(free, count=70, law=AttitudeLaw())
    angle = 0.3 * np.linspace(-1, 1, 70)
    wanted = Rotation.from_euler("ZYX", np.stack([angle, 0.5 * angle, -angle], axis=1))
    crowd.want(np.stack([-angle, 0.5 * angle, angle]), np.full(70, 20.0))
    crowd.q_WB[:] = np.array([[1.0], [0.0], [0.0], [0.0]])
    crowd.step(4000)
    turned = Rotation.from_quat(np.roll(crowd.q_WB.T, -1, axis=1))
    # yaw, the slowest, has poles of real part -2.5/s: exp(-10) of a start of 0.4 rad and 2 rad/s
    assert np.max((wanted.inv() * turned).magnitude()) < 1e-3


def test_what_falls_stops_on_the_ground_and_lifts_off_again():
    level = EnvironmentParams(ground_height_m=2.0)
    crowd = Crowd(X500, level, 3)
    rest_m = 2.0 - min(foot[2] for foot in X500.contact.points_B_m)
    assert np.all(crowd.p_W[2] == rest_m)
    crowd.p_W[2, 0] = rest_m + 1.0
    crowd.rotor_command_radps[:, 2] = 1.2 * HOVER_RADPS
    crowd.step(300)
    fallen_m = 0.5 * GRAVITY * 0.3**2
    body = airframe_of(X500, level)
    slowed_m = body.body_drag_N_s_m[2] / X500.mass_kg * GRAVITY * 0.3**3 / 6.0
    assert crowd.p_W[2, 0] == pytest.approx(rest_m + 1.0 - fallen_m + slowed_m, abs=2e-4)
    crowd.step(700)
    assert np.all(crowd.p_W[2, :2] == rest_m)
    assert np.all(crowd.v_W[:, :2] == 0.0)
    assert crowd.p_W[2, 2] > rest_m + 0.5
    crowd.reset([2])
    assert crowd.p_W[2, 2] == rest_m
    assert not np.any(crowd.rotor_speed_radps[:, 2])


def test_figures_hold_at_their_density():
    thin = airframe_of(replace(VEHICLE, air_density_kg_m3=2.0), EnvironmentParams())
    full = airframe_of(VEHICLE, EnvironmentParams())
    datum_m = EnvironmentParams().datum.height_m
    ratio = 1.225 * (1 - 0.0065 * datum_m / 288.15) ** 4.2559 / 2.0  # ISO 2533
    for name in ("thrust_N_s2", "drag_N_s2", "rolling_N_s2"):
        assert getattr(thin, name) / getattr(full, name) == pytest.approx(ratio, rel=1e-4)
    assert thin.body_drag_N_s_m[2] / full.body_drag_N_s_m[2] == pytest.approx(ratio, rel=1e-4)


def test_a_motion_without_end_is_told_and_harms_no_other():
    crowd, healthy = crowd_of(count=100), crowd_of(count=100)
    crowd.rotor_command_radps[1, 70] = math.nan
    with pytest.raises(FlightError, match=r"column 70 of 100 .* between t = 0.000 s and 0.005 s"):
        crowd.step(5)
    healthy.step(5)
    others = np.arange(100) != 70
    assert np.array_equal(motion(crowd)[:, others], motion(healthy)[:, others])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "count: 0; allowed: 1"),
        ({"step_ns": 0}, "step_ns: 0; allowed: 1"),
        ({"threads": 1000}, "threads: 1000; allowed: 0 to"),
        ({"integrator": "heun"}, "integrator: 'heun'; allowed: rk4 or explicit_euler"),
    ],
)
def test_wrong_arguments_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Crowd(VEHICLE, WINDY, **{"count": 1, **options})


def test_helicopters_are_refused():
    with pytest.raises(InputError, match="kind: 'helicopter'; allowed: multirotor"):
        Crowd(load(VehicleParams, find("vehicles", "thesis_helicopter")), WINDY, 1)
