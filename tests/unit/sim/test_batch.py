"""A batch against scipy, the fleet, the inner loop, and itself on other threads and lanes."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find
from quadsim.base.parameters import load, new, pack
from quadsim.base.records import MAX_ROTORS, AttitudeCommand, Odometry
from quadsim.control.airframe import known_airframe, pack_airframe
from quadsim.control.attitude import attitude_control
from quadsim.control.parameters import AutopilotParams
from quadsim.control.records import AttitudeControl
from quadsim.geometry.rotation import from_euler
from quadsim.sim.batched import vehicles as batch_module
from quadsim.sim.batched.vehicles import VehicleBatch, as_flown, drag_model, world_of
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
#: Rotors that pull inwards and sideways, on a body whose axes are not the principal ones.
SKEW = replace(
    VEHICLE,
    name="tilted rotors and products of inertia",
    rotor_axes_B=((-0.2, 0.1, 1.0), (0.3, -0.1, 1.0), (0.1, 0.3, 1.0), (0.0, 0.0, 1.0)),
    inertia_products_kg_m2=(0.004, -0.002, 0.0015),
)
WINDY = EnvironmentParams(
    wind_W_mps=(3.0, -1.0, 0.5), gravity_gradient_per_s2=3e-4, ground_height_m=-50.0
)
HOVER_RADPS = math.sqrt(VEHICLE.mass_kg * GRAVITY / (4 * VEHICLE.thrust_coefficient_N_s2))
LAW = AutopilotParams()

pytestmark = pytest.mark.many


def batch_of(params=VEHICLE, count=1, step_ns=1_000_000, environment=WINDY, **options):
    """A batch in the air, each vehicle with a motion and commands of its own."""
    batch = VehicleBatch(params, environment, count, step_ns=step_ns, **options)
    rng = np.random.default_rng(7)
    rotors = len(params.rotor_directions)
    batch.p_W[:] = rng.normal(0.0, 3.0, (3, count))
    batch.v_W[:] = rng.normal(0.0, 4.0, (3, count))
    batch.q_WB[:] = np.roll(Rotation.random(count, rng=rng).as_quat().T, 1, axis=0)
    batch.w_B[:] = rng.normal(0.0, 1.0, (3, count))
    batch.rotor_speed_radps[:] = HOVER_RADPS + rng.normal(0.0, 50.0, (rotors, count))
    batch.rotor_command_radps[:] = HOVER_RADPS + rng.normal(0.0, 50.0, (rotors, count))
    batch.wanted_q_WB[:] = np.roll(Rotation.random(count, rng=rng).as_quat().T, 1, axis=0)
    batch.wanted_thrust_mps2[:] = GRAVITY * rng.uniform(0.5, 1.5, count)
    return batch


def motion(batch):
    """The state of all vehicles, one column each."""
    return np.vstack([batch.p_W, batch.v_W, batch.q_WB, batch.w_B, batch.rotor_speed_radps])


def reference(params, environment, x, commands, duration_s):
    """The same flight by scipy, written with matrices: p, v, q (w first), w and rotors."""
    hubs, senses = np.array(params.rotor_positions_B_m), np.array(params.rotor_directions)
    inertia = np.diag(params.inertia_kg_m2)
    inertia[[0, 0, 1], [1, 2, 2]] = inertia[[1, 2, 2], [0, 0, 1]] = params.inertia_products_kg_m2
    spin_kg_m2 = params.rotor.inertia_kg_m2
    axes = np.array(params.rotor_axes_B or [(0.0, 0.0, 1.0)] * len(hubs))
    discs = np.eye(3) - axes[:, :, None] * axes[:, None, :]

    def slope(_, x):
        v_W, w_B, speeds = x[3:6], x[10:13], x[13:]
        R_WB = Rotation.from_quat(np.roll(x[6:10], -1)).as_matrix()
        air_B = R_WB.T @ (v_W - environment.wind_W_mps)
        error = commands - speeds
        constants = (params.time_constant_up_s, params.time_constant_down_s)
        speeds_dot = error / np.where(error > 0, *constants)
        hub = np.einsum("nij,nj->ni", discs, air_B + np.cross(w_B, hubs))
        thrust = params.thrust_coefficient_N_s2 * speeds**2
        forces = thrust[:, None] * axes - params.rotor_drag_N_s2 * speeds[:, None] * hub
        torque = np.cross(hubs, forces).sum(axis=0)
        rolling = params.rolling_moment_N_s2 * senses * speeds
        torque -= (rolling[:, None] * hub).sum(axis=0)
        torque -= params.torque_ratio_m * (senses * thrust) @ axes
        torque -= spin_kg_m2 * (senses * speeds_dot) @ axes
        momentum = inertia @ w_B + spin_kg_m2 * (senses * speeds) @ axes
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


@pytest.mark.parametrize("kind", [4, "skew"])
def test_flight_of_each_vehicle_is_scipys(kind):
    params = SKEW if kind == "skew" else VEHICLE
    batch = batch_of(params, count=3, step_ns=200_000)
    start, commands = motion(batch), batch.rotor_command_radps.copy()
    batch.step(1500)
    for k in range(3):
        expected = reference(params, WINDY, start[:, k], commands[:, k], 0.3)
        # rotor speeds of order 1e3 with local errors (dt/tau)^5/120 ~ 1e-11 of a change of 100
        np.testing.assert_allclose(motion(batch)[:, k], expected, rtol=1e-9, atol=1e-8)
    assert np.allclose(np.linalg.norm(batch.q_WB, axis=0), 1.0, rtol=0.0, atol=4e-16)


@pytest.mark.parametrize(("integrator", "order"), [("rk4", 4), ("explicit_euler", 1)])
def test_order_of_convergence(integrator, order):
    start = batch_of()
    exact = reference(VEHICLE, WINDY, motion(start)[:, 0], start.rotor_command_radps[:, 0], 0.096)
    lengths_ns = np.array([500_000, 1_000_000, 2_000_000])
    errors = []
    for step_ns in lengths_ns:
        batch = batch_of(step_ns=int(step_ns), integrator=integrator)
        batch.step(int(96_000_000 // step_ns))
        errors.append(np.linalg.norm(motion(batch)[:13, 0] - exact[:13]))
    slope = np.polyfit(np.log(lengths_ns), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15 * order)  # the next order is still felt at 2 ms


def file_of(name):
    """A vehicle of a file with the air of its figures everywhere, as a batch flies it."""
    return as_flown(replace(load(VehicleParams, find("vehicles", name)), air_density_kg_m3=0.0))


@pytest.mark.parametrize(
    ("params", "integrator"),
    [
        (VEHICLE, "rk4"),
        (SKEW, "rk4"),
        (VEHICLE, "explicit_euler"),
        (file_of("x500"), "rk4"),  # inflow, descent and flapping
    ],
    ids=lambda value: value if isinstance(value, str) else value.name[:12],
)
def test_a_batch_flies_as_a_fleet(params, integrator):
    count, rotors = 5, len(params.rotor_directions)
    batch = batch_of(params, count=count, integrator=integrator)
    hover = math.sqrt(params.mass_kg * GRAVITY / (rotors * params.thrust_coefficient_N_s2))
    batch.rotor_speed_radps[:] *= hover / HOVER_RADPS
    batch.rotor_command_radps[:] *= hover / HOVER_RADPS
    fleet = Fleet(
        params, WINDY, [(0.0, 0.0, 0.0)] * count, PhysicsParams(integrator=integrator),
        period_ns=1_000_000,
    )  # fmt: skip
    batch.p_W[0] += 1000.0 * np.arange(count)  # out of reach of each other's wakes
    for i in range(count):
        fleet.set_motion(
            i, batch.p_W[:, i], v_W=batch.v_W[:, i], q_WB=batch.q_WB[:, i],
            w_B=batch.w_B[:, i], rotor_speeds_radps=batch.rotor_speed_radps[:, i],
        )  # fmt: skip
        fleet.set_motor_command(i, batch.rotor_command_radps[:, i])
    batch.step(500)
    fleet.step_to(500_000_000)
    for i in range(count):
        truth = fleet.truth(i)
        for name in ("p_W", "v_W", "q_WB", "w_B"):
            found, expected = getattr(batch, name)[:, i], truth[name]
            # 500 steps, each rounded to 1e-16 of values up to 10 (positions: to 4000 m)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("autopilot", [None, LAW])
def test_threads_lanes_and_calls_change_no_bit(autopilot, monkeypatch):
    count = 130  # two blocks and two vehicles of a third
    monkeypatch.setattr(batch_module, "SMALL_CALL", 1)
    monkeypatch.setattr(batch_module, "LARGE_CALL", 0)
    one = batch_of(count=count, autopilot=autopilot, threads=1)
    two = batch_of(count=count, autopilot=autopilot, threads=min(2, len(os.sched_getaffinity(0))))
    alone = batch_of(count=1, autopilot=autopilot)
    alone._columns[:, 0] = one._columns[:, 129]
    one.step(20)
    alone.step(20)
    for _ in range(20):
        two.step()
    assert np.array_equal(one._columns, two._columns)
    assert np.array_equal(one._columns[:, 129], alone._columns[:, 0])
    assert one.stamp_ns == two.stamp_ns == 20_000_000


def test_rotors_turn_at_most_as_fast_as_they_can_and_never_backwards():
    asked, held = batch_of(), batch_of()
    asked.rotor_command_radps[:, 0] = (1e6, -500.0, 400.0, 400.0)
    held.rotor_command_radps[:, 0] = (VEHICLE.rotor_speed_max_radps, 0.0, 400.0, 400.0)
    asked.step(200)
    held.step(200)
    assert np.array_equal(motion(asked), motion(held))


def test_the_law_is_that_of_the_inner_loop():
    """Near hover, where rotors reach a limit, idling and stopped; each with its own memory."""
    count, rotors = 40, len(VEHICLE.rotor_directions)
    batch = batch_of(count=count, autopilot=LAW)
    batch.wanted_q_WB[:, ::2] = batch.q_WB[:, ::2]  # half of them near, where no limit acts
    batch.w_B[:, ::2] *= 0.1
    batch.wanted_yaw_rate_radps[:] = np.random.default_rng(3).normal(0.0, 0.5, count)
    batch.wanted_thrust_mps2[3], batch.wanted_thrust_mps2[4] = 0.0, 1e-3
    params, airframe = pack(LAW), pack_airframe(known_airframe(VEHICLE))
    states = [new(AttitudeControl) for _ in range(count)]
    limited = 0
    for step in range(8):
        if step == 5:
            batch.wanted_thrust_mps2[3:5] = GRAVITY, 0.0
        told, speeds = [], np.zeros(MAX_ROTORS)
        for i in range(count):
            odometry, command = new(Odometry), new(AttitudeCommand)
            odometry.q_WB[:], odometry.w_B[:] = batch.q_WB[:, i], batch.w_B[:, i]
            command.q_WB[:] = batch.wanted_q_WB[:, i]
            command.yaw_rate = batch.wanted_yaw_rate_radps[i]
            command.thrust = batch.wanted_thrust_mps2[i]
            attitude_control(states[i], params, airframe, odometry, command, 1e-3, speeds)
            limited += bool(np.any(np.isclose(speeds[:rotors], VEHICLE.rotor_speed_max_radps)))
            told.append(speeds[:rotors].copy())
        batch.step()
        # a derivative over 1e-3 s and the gains magnify the rounding of the heading's turn
        np.testing.assert_allclose(batch.rotor_command_radps, np.array(told).T, rtol=1e-9)
    assert 8 * 5 < limited < 8 * 35


def test_law_levels_and_turns_a_vehicle():
    free = replace(
        VEHICLE, rotor_drag_N_s2=0.0, rolling_moment_N_s2=0.0, body_drag_N_s_m=(0.0, 0.0, 0.0)
    )
    batch = batch_of(free, count=70, autopilot=LAW)
    angle = 0.3 * np.linspace(-1, 1, 70)
    batch.q_WB[:] = np.array([[1.0], [0.0], [0.0], [0.0]])
    batch.want(np.stack([-angle, 0.5 * angle]), angle, np.full(70, 10.0))
    batch.step(4000)
    flown = Rotation.from_quat(np.roll(batch.q_WB.T, -1, axis=1))
    level = Rotation.from_euler("YX", np.stack([0.5 * angle, -angle], axis=1))
    # where body z points, in a frame turned by the yaw: that of the wanted roll and pitch
    up_W = flown.as_matrix()[:, :, 2]
    yaw = np.unwrap(flown.as_euler("ZYX")[:, 0])
    seen = Rotation.from_euler("z", -yaw).apply(up_W)
    np.testing.assert_allclose(seen, level.as_matrix()[:, :, 2], atol=2e-2)
    np.testing.assert_allclose(batch.w_B[2], angle, atol=2e-2)


@pytest.mark.parametrize("largest_rad", [1e-9, 0.1, 1.5, 1.6, 1e3])
def test_wanted_attitudes_are_those_of_the_angles(largest_rad):
    count = 70
    batch = VehicleBatch(X500, WINDY, count, autopilot=LAW)
    angles = np.random.default_rng(5).uniform(-largest_rad, largest_rad, (2, count))
    angles[:, 3], angles[:, 40] = (0.0, -0.0), (-0.0, 0.5 * largest_rad)
    batch.want(angles, np.zeros(count), np.full(count, GRAVITY))
    told = np.array([from_euler(*pair, 0.0) for pair in angles.T]).T
    assert batch.wanted_q_WB.tobytes() == told.tobytes()
    expected = Rotation.from_euler("YX", angles[::-1].T).as_quat().T[[3, 0, 1, 2]]
    away = np.minimum(abs(told - expected).max(axis=0), abs(told + expected).max(axis=0))
    assert away.max() < 1e-12  # 1000 rad are known to 1e-13


def test_wanted_attitudes_of_another_shape_are_refused():
    batch = VehicleBatch(X500, WINDY, 3, autopilot=LAW)
    with pytest.raises(InputError, match=r"roll_pitch: of shape \(2, 4\); needed: \(2, 3\)"):
        batch.want(np.zeros((2, 4)), np.zeros(3), np.zeros(3))


def test_what_falls_stops_on_the_ground_and_lifts_off_again():
    level = EnvironmentParams(ground_height_m=2.0)
    batch = VehicleBatch(X500, level, 3)
    rest_m = 2.0 - min(foot[2] for foot in X500.contact.points_B_m)
    assert np.all(batch.p_W[2] == rest_m)
    batch.p_W[2, 0] = rest_m + 1.0
    batch.rotor_command_radps[:, 2] = 1.2 * HOVER_RADPS
    batch.step(300)
    fallen_m = 0.5 * GRAVITY * 0.3**2
    density_ratio = world_of(X500, level).density_ratio
    slowed_m = density_ratio * X500.body_drag_N_s_m[2] / X500.mass_kg * GRAVITY * 0.3**3 / 6.0
    assert batch.p_W[2, 0] == pytest.approx(rest_m + 1.0 - fallen_m + slowed_m, abs=2e-4)
    batch.step(700)
    assert np.all(batch.p_W[2, :2] == rest_m)
    assert np.all(batch.v_W[:, :2] == 0.0)
    assert batch.p_W[2, 2] > rest_m + 0.5
    batch.reset([2])
    assert batch.p_W[2, 2] == rest_m
    assert not np.any(batch.rotor_speed_radps[:, 2])


def test_figures_hold_at_their_density():
    thin = replace(VEHICLE, air_density_kg_m3=2.0)
    datum_m = EnvironmentParams().datum.height_m
    ratio = 1.225 * (1 - 0.0065 * datum_m / 288.15) ** 4.2559 / 2.0  # ISO 2533
    assert world_of(thin, EnvironmentParams()).density_ratio == pytest.approx(ratio, rel=1e-4)
    assert world_of(VEHICLE, EnvironmentParams()).density_ratio == 1.0


def test_a_motion_without_end_is_told_and_harms_no_other():
    batch, healthy = batch_of(count=100), batch_of(count=100)
    batch.rotor_command_radps[1, 70] = math.nan
    with pytest.raises(FlightError, match=r"column 70 of 100 .* between t = 0.000 s and 0.005 s"):
        batch.step(5)
    healthy.step(5)
    others = np.arange(100) != 70
    assert np.array_equal(motion(batch)[:, others], motion(healthy)[:, others])


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
        VehicleBatch(VEHICLE, WINDY, **{"count": 1, **options})


def test_helicopters_are_refused():
    with pytest.raises(InputError, match="kind: 'helicopter'; allowed: multirotor"):
        VehicleBatch(load(VehicleParams, find("vehicles", "thesis_helicopter")), WINDY, 1)
