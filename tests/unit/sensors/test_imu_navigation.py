"""True observer condition: navigation on the samples of an ideal IMU follows the truth.

One minute of the vehicle model under sines of motor commands that turn it upside down, with more
than three g and several hundred degrees a second.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quadsim.base.compiled import kernel, owning_kernel
from quadsim.base.files import find
from quadsim.base.noise import stream
from quadsim.base.parameters import dtype_of, load, pack
from quadsim.base.records import KINEMATICS
from quadsim.estimation.eskf.mechanisation import mechanise
from quadsim.geometry import rotation
from quadsim.geometry.rotation import multiply, normalize, quat, rotate
from quadsim.geometry.vector import vec3
from quadsim.sensors.imu import MODEL, ImuParams, imu_step
from quadsim.sensors.model import SimulatedSensor, start_slot
from quadsim.sensors.slot import SensorWorld
from quadsim.vehicle.disturbances import DISTURBANCES
from quadsim.vehicle.multirotor import advance_vehicle, derivative, write_kinematics
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import ROTOR, STATE_SIZE, VEHICLE, WORKSPACE, P, Q, V, W
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE

pytestmark = pytest.mark.many

GRAVITY = 9.80665
STEP_NS, SECONDS = 1_000_000, 60
WORLD = EnvironmentParams()
#: As strong as a racing quadrotor: five times its weight.
RACER = replace(load(VehicleParams, find("vehicles", "x500")), thrust_coefficient_N_s2=2.6e-5)


@kernel
def command(vehicle: Any, t: float) -> None:
    """Thrust by a sine, and a rate controller after sines, each of its own period."""
    thrust = 700.0 + 250.0 * math.sin(1.7 * t)
    roll = 10.0 * (6.0 * math.sin(1.3 * t) - vehicle.x[W])
    pitch = 10.0 * (5.0 * math.cos(1.1 * t) - vehicle.x[W + 1])
    yaw = 30.0 * (4.0 * math.sin(0.9 * t) - vehicle.x[W + 2])
    speeds = vehicle.inputs.rotor_command_radps
    speeds[0] = thrust - roll - pitch - yaw
    speeds[1] = thrust + roll + pitch - yaw
    speeds[2] = thrust + roll - pitch + yaw
    speeds[3] = thrust - roll + pitch + yaw
    for i in range(4):
        speeds[i] = min(max(speeds[i], 100.0), 950.0)


def one_of(params):
    """Packed parameters as an array of one."""
    packed = np.zeros(1, pack(params).dtype)
    packed[0] = pack(params)
    return packed


def arrays():
    """Vehicle in the air; parameters, world, scene, physics and working memory; no disturbance."""
    vehicles = np.zeros(1, VEHICLE)
    vehicles["x"][0, P + 2], vehicles["x"][0, Q] = 30_000.0, 1.0
    vehicles["x"][0, ROTOR : ROTOR + 4] = 650.0
    vehicles["held"]["mass_kg"] = RACER.mass_kg
    vehicles["held"]["density_ratio"] = 1.0
    vehicles["held"]["effectiveness"] = 1.0
    vehicles["held"]["thrust_gain"] = 1.0
    physics, work = one_of(PhysicsParams()), np.zeros(1, WORKSPACE)
    world = (one_of(RACER), one_of(WORLD), EMPTY_SCENE, physics, work)
    return vehicles, world, np.zeros(1, DISTURBANCES)


@kernel
def stage(
    x: Any, x_dot: Any, y: Any, y_dot: Any, stamp_ns: int, imu: Any, scene: Any, truths: Any,
    white: Any,
) -> None:  # fmt: skip
    """What the INS makes of a point sample taken where the integrator is now.

    Args:
        x, x_dot: state of the vehicle and its derivative.
        y: (10,) position, velocity and attitude of the INS; y_dot: its derivative.
        stamp_ns: time of the stage.
        imu: slot and world.
        scene, white: as of the sensor's step.
        truths: (1,) KINEMATICS record.
    """
    now, q = truths[0], normalize(quat(x[Q:]))
    for i in range(3):
        now.v_W[i], now.a_W[i] = x[V + i], x_dot[V + i]
        now.w_B[i], now.w_dot_B[i] = x[W + i], x_dot[W + i]
    for i in range(4):
        now.q_WB[i] = q[i]
    slot = imu[0][0]
    now.stamp_ns, slot.previous.stamp_ns = stamp_ns, stamp_ns - STEP_NS
    imu_step(imu[0], SensorWorld(imu[1], scene), truths, white)
    f_W = rotate(normalize(quat(y[6:])), vec3(slot.sample.f_S))
    w_S = vec3(slot.sample.w_S)
    turn = multiply(quat(y[6:]), (0.0, 0.5 * w_S[0], 0.5 * w_S[1], 0.5 * w_S[2]))
    for i in range(3):
        y_dot[i], y_dot[3 + i] = y[3 + i], f_W[i]
    y_dot[5] -= imu[1][0].gravity_mps2
    for i in range(4):
        y_dot[6 + i] = turn[i]


@owning_kernel
def navigate(
    vehicles: Any, world: Any, tables: Any, imu: Any, truths: Any, white: Any, y: Any,
    path: Any,
) -> tuple[float, float]:  # fmt: skip
    """Vehicle and INS through the same stages of RK4; the path gets the truth at each step.

    Returns:
        The largest distance between the two positions; between the vehicle and its stages here.
    """
    vehicle, dt, scene = vehicles[0], STEP_NS * 1e-9, world[2]
    model = (vehicle, world[0][0], world[1][0], world[3][0], world[4][0])
    x, y_sum = np.zeros(STATE_SIZE), np.zeros(10)
    x_dot, x_sum, y_dot = np.zeros(STATE_SIZE), np.zeros(STATE_SIZE), np.zeros(10)
    worst, doubt = 0.0, 0.0
    for k in range(path.shape[0]):
        start_ns = k * STEP_NS
        write_kinematics(model, start_ns, path[k])
        command(vehicle, start_ns * 1e-9)
        x0, y0 = vehicle.x.copy(), y.copy()
        x_sum[:], y_sum[:], x[:] = 0.0, 0.0, x0
        for s in range(4):
            part = 0.0 if s == 0 else (1.0 if s == 3 else 0.5)
            weight = 1.0 if s == 0 or s == 3 else 2.0
            x[:] = x0 + part * dt * x_dot
            y[:] = y0 + part * dt * y_dot
            derivative(x, model, x_dot)
            stamp_ns = start_ns + int(part * STEP_NS) + STEP_NS
            stage(x, x_dot, y, y_dot, stamp_ns, imu, scene, truths, white)
            x_sum += weight / 6.0 * dt * x_dot
            y_sum += weight / 6.0 * dt * y_dot
        y[:] = y0 + y_sum
        q = normalize(quat(y[6:]))
        for i in range(4):
            y[6 + i] = q[i]
        advance_vehicle(model, tables[0], start_ns, dt, 0.5)
        for i in range(3):
            worst = max(worst, abs(y[i] - vehicle.x[P + i]))
            doubt = max(doubt, abs(x0[P + i] + x_sum[P + i] - vehicle.x[P + i]))
    return worst, doubt


@pytest.fixture(scope="module")
def flown():
    """One minute of truths, 1 ms apart, and what ``navigate`` returns."""
    vehicles, world, tables = arrays()
    device = ImuParams(rate_hz=1000.0, sampling="point")
    slots, path = np.zeros(1, dtype_of(MODEL.slot)), np.zeros(SECONDS * 1000 + 1, KINEMATICS)
    start_slot(slots, MODEL, device, stream(1, "quad", "imu"))
    y = np.concatenate([vehicles["x"][0, P : P + 6], vehicles["x"][0, Q : Q + 4]])
    found = navigate(
        vehicles, world, tables, (slots, world[1]), np.zeros(1, KINEMATICS),
        np.zeros(MODEL.white_count), y, path,
    )  # fmt: skip
    return path, found


@pytest.fixture
def flight(flown):
    """The truths."""
    return flown[0]


def test_the_flight_is_aggressive(flight):
    load_mps2 = np.linalg.norm(flight["a_W"] + np.array([0.0, 0.0, GRAVITY]), axis=1)
    rate_dps = np.degrees(np.linalg.norm(flight["w_B"], axis=1))
    up = 1.0 - 2.0 * np.sum(flight["q_WB"][:, 1:3] ** 2, axis=1)
    for second in range(0, SECONDS, 10):  # to the end
        part = slice(1000 * second, 1000 * (second + 10))
        assert np.max(load_mps2[part]) > 3.0 * GRAVITY
        assert np.max(rate_dps[part]) > 300.0
        assert np.min(up[part]) < -0.7
    assert np.min(flight["p_W"][:, 2]) > 1000.0


@pytest.mark.parametrize("rate_hz", [1000.0, 200.0])
def test_blind_navigation_on_delta_angles_stays_within_5_mm_for_a_minute(flight, rate_hz):
    stride = round(1000.0 / rate_hz)
    device = ImuParams(rate_hz=rate_hz, sampling="compensated")
    sensor = SimulatedSensor(MODEL, device, WORLD, 1, "quad")
    start = flight[0]
    p_W, v_W, q_WB = tuple(start["p_W"]), tuple(start["v_W"]), tuple(start["q_WB"])
    sensor.measure(start)
    worst_m = 0.0
    for now in flight[stride::stride]:
        sample = sensor.measure(now)
        p_W, v_W, q_WB, _, _ = mechanise(
            p_W, v_W, q_WB, vec3(sample.f_S), vec3(sample.w_S), GRAVITY, 1.0 / rate_hz
        )
        worst_m = max(worst_m, math.dist(p_W, now["p_W"]))
    # the mean of the velocity by the trapezoid is off by dt^2/12 of its change of slope,
    # 0.2 mm with 5 ms and 100 m/s^2; rounding 30 km up adds 1e-12 m a step
    assert worst_m < 0.005
    assert v_W == pytest.approx(now["v_W"], abs=1e-8)
    assert abs(np.dot(q_WB, now["q_WB"])) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("rate_hz", "most_m"), [(500.0, 0.4), (200.0, 2.5)])
def test_what_averages_cost_who_does_not_compensate(flight, rate_hz, most_m):
    """Coning and sculling of the wildest minute: far below any device's bias, and as 1/rate^2.

    A bias of 1 mm/s^2 would be 1.8 m off. Measured: 0.24 and 1.48 m.
    """
    stride = round(1000.0 / rate_hz)
    sensor = SimulatedSensor(MODEL, ImuParams(rate_hz=rate_hz), WORLD, 1, "quad")
    start = flight[0]
    p_W, v_W, q_WB = tuple(start["p_W"]), tuple(start["v_W"]), tuple(start["q_WB"])
    sensor.measure(start)
    for now in flight[stride::stride]:
        sample = sensor.measure(now)
        p_W, v_W, q_WB, _, _ = mechanise(
            p_W, v_W, q_WB, vec3(sample.f_S), vec3(sample.w_S), GRAVITY, 1.0 / rate_hz
        )
    assert 0.05 * most_m < math.dist(p_W, now["p_W"]) < most_m


def test_blind_navigation_on_delta_angles_of_a_displaced_sensor(flight):
    r_B, rate_hz = (0.1, -0.05, 0.03), 500.0
    device = ImuParams(position_B_m=r_B, sampling="compensated")
    sensor = SimulatedSensor(MODEL, device, WORLD, 1, "quad")

    def displaced(now):
        """Position and velocity of the sensor."""
        q_WB = tuple(now["q_WB"])
        return (
            now["p_W"] + rotation.rotate(q_WB, r_B),
            now["v_W"] + rotation.rotate(q_WB, tuple(np.cross(now["w_B"], r_B))),
        )

    p_W, v_W = (tuple(x) for x in displaced(flight[0]))
    q_WB = tuple(flight[0]["q_WB"])
    sensor.measure(flight[0])
    worst_m = 0.0
    for k in range(2, len(flight), 2):
        sample = sensor.measure(flight[k])
        p_W, v_W, q_WB, _, _ = mechanise(
            p_W, v_W, q_WB, vec3(sample.f_S), vec3(sample.w_S), GRAVITY, 1.0 / rate_hz
        )
        if k % 100 == 0:
            worst_m = max(worst_m, math.dist(p_W, displaced(flight[k])[0]))
    assert worst_m < 0.005


def test_point_samples_at_the_integrators_stages_give_the_truth_back(flown):
    worst_m, doubt_m = flown[1]
    assert doubt_m < 1e-10  # these are the vehicle's own stages; rounding 30 km up
    assert worst_m < 1e-6
