"""A multirotor as one rigid body with first-order motors, in quaternion form.

State x (STATE_SIZE,): p_W, v_W, q_WB, w_B and the rotor speeds. Forces: gravity; thrust
``k w^2`` and drag torque ``k w^2 c`` of each rotor with rotor drag and rolling moment proportional
to rotor speed and to the air speed in the disc (Furrer et al., *RotorS*, 2016, eqs. 6 to 9, as in
Gazebo's MulticopterMotorModel); linear body drag; ground contact; an external wrench.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.geometry.rotation import multiply, normalize, quat, rotate, unrotate
from quadsim.geometry.vector import add, cross, scale, store, subtract, vec3
from quadsim.parameters import Vec3
from quadsim.records import MAX_ROTORS
from quadsim.vehicle.contact import ground_wrench
from quadsim.vehicle.integrators import rk4_step

Array = NDArray[np.float64]

P, V, Q, W, ROTOR = 0, 3, 6, 10, 13
STATE_SIZE = ROTOR + MAX_ROTORS

#: What acts on a vehicle from outside, held over a step.
INPUTS = record_dtype(
    [
        ("rotor_command_radps", np.float64, (MAX_ROTORS,)),
        ("external_force_W_N", np.float64, (3,)),
        ("external_torque_B_Nm", np.float64, (3,)),
    ]
)

#: One vehicle of a fleet.
VEHICLE = record_dtype(
    [
        ("x", np.float64, (STATE_SIZE,)),
        ("scratch", np.float64, (5, STATE_SIZE)),
        ("inputs", INPUTS),
        ("charge_C", np.float64),
        ("contact", np.int64),
        ("fault_ns", np.int64),
    ]
)


@kernel
def rotor_wrench(x: Array, params: Any, wind_W: Vec3) -> tuple[Vec3, Vec3]:
    """Force and torque of the rotors about the centre of mass, body axes, in N and N m.

    Args:
        x: (STATE_SIZE,) state.
        params: packed VehicleParams.
        wind_W: velocity of the air in m/s.
    """
    q_WB = quat(x[Q:])
    w_B = vec3(x[W:])
    air_B = unrotate(q_WB, subtract(vec3(x[V:]), wind_W))
    force, torque = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for i in range(params.rotor_directions_count):
        speed = x[ROTOR + i]
        direction = params.rotor_directions[i]
        r_B = vec3(params.rotor_positions_B_m[i])
        thrust = params.thrust_coefficient_N_s2 * speed * speed
        hub = add(air_B, cross(w_B, r_B))
        drag = -params.rotor_drag_N_s2 * speed
        rolling = -params.rolling_moment_N_s2 * speed
        f = (drag * hub[0], drag * hub[1], thrust)
        force = add(force, f)
        own = (rolling * hub[0], rolling * hub[1], -direction * params.torque_ratio_m * thrust)
        torque = add(torque, add(own, cross(r_B, f)))
    return force, torque


@kernel
def derivative(x: Array, inputs: Any, params: Any, environment: Any, x_dot: Array) -> None:
    """Time derivative of the state (Newton-Euler; motors of first order).

    Args:
        x: (STATE_SIZE,) state; its quaternion is normalised here, so that a stage that is a
            little off the unit sphere has the same forces.
        inputs: INPUTS record.
        params: packed VehicleParams.
        environment: packed EnvironmentParams.
        x_dot: (STATE_SIZE,) result.
    """
    q_WB = normalize(quat(x[Q:]))
    v_W, w_B = vec3(x[V:]), vec3(x[W:])
    wind_W = vec3(environment.wind_W_mps)
    force_B, torque_B = rotor_wrench(x, params, wind_W)
    air_B = unrotate(q_WB, subtract(v_W, wind_W))
    drag = params.body_drag_N_s_m
    force_B = subtract(force_B, (drag[0] * air_B[0], drag[1] * air_B[1], drag[2] * air_B[2]))
    ground_W, ground_torque_B, _ = ground_wrench(vec3(x[P:]), v_W, q_WB, w_B, params, environment)
    force_W = add(rotate(q_WB, force_B), add(ground_W, vec3(inputs.external_force_W_N)))
    torque_B = add(torque_B, add(ground_torque_B, vec3(inputs.external_torque_B_Nm)))

    a_W = scale(1.0 / params.mass_kg, force_W)
    store(x_dot[P:], v_W)
    store(x_dot[V:], (a_W[0], a_W[1], a_W[2] - environment.gravity_mps2))
    store(x_dot[Q:], multiply(quat(x[Q:]), (0.0, 0.5 * w_B[0], 0.5 * w_B[1], 0.5 * w_B[2])))
    inertia = params.inertia_kg_m2
    momentum = (inertia[0] * w_B[0], inertia[1] * w_B[1], inertia[2] * w_B[2])
    net = subtract(torque_B, cross(w_B, momentum))
    store(x_dot[W:], (net[0] / inertia[0], net[1] / inertia[1], net[2] / inertia[2]))
    for i in range(params.rotor_directions_count):
        error = inputs.rotor_command_radps[i] - x[ROTOR + i]
        constant = params.time_constant_up_s if error > 0.0 else params.time_constant_down_s
        x_dot[ROTOR + i] = error / constant


@kernel
def rotor_current_A(speed_radps: float, params: Any) -> float:
    """Electric current of one motor in A: shaft power over efficiency and voltage."""
    shaft_W = params.thrust_coefficient_N_s2 * params.torque_ratio_m * abs(speed_radps) ** 3
    return float(shaft_W / (params.battery.efficiency * params.battery.voltage_V))


@kernel
def step(vehicle: Any, params: Any, environment: Any, stamp_ns: int, dt_s: float) -> None:
    """Advance one vehicle by one step of RK4; a step that is not finite is kept as a fault.

    Args:
        vehicle: VEHICLE record, changed in place; after a fault it stands still.
        params: packed VehicleParams.
        environment: packed EnvironmentParams.
        stamp_ns: time at the start of the step.
        dt_s: length of the step.
    """
    if vehicle.fault_ns != 0:
        return
    x = vehicle.x
    for i in range(params.rotor_directions_count):
        command = vehicle.inputs.rotor_command_radps[i]
        vehicle.inputs.rotor_command_radps[i] = min(max(command, 0.0), params.rotor_speed_max_radps)
        vehicle.charge_C -= rotor_current_A(x[ROTOR + i], params) * dt_s
    rk4_step(derivative, x, vehicle.inputs, params, environment, dt_s, vehicle.scratch)
    store(x[Q:], normalize(quat(x[Q:])))
    total = 0.0
    for i in range(STATE_SIZE):
        total += x[i]
    if not np.isfinite(total):
        vehicle.fault_ns = max(stamp_ns, 1)


@kernel
def truth(vehicle: Any, params: Any, environment: Any, stamp_ns: int, kinematics: Any) -> None:
    """Write the motion at this instant, accelerations and rotors included, into a KINEMATICS."""
    x = vehicle.x
    x_dot = vehicle.scratch[0]
    derivative(x, vehicle.inputs, params, environment, x_dot)
    kinematics.stamp_ns = stamp_ns
    for i in range(3):
        kinematics.p_W[i] = x[P + i]
        kinematics.v_W[i] = x[V + i]
        kinematics.w_B[i] = x[W + i]
        kinematics.a_W[i] = x_dot[V + i]
        kinematics.w_dot_B[i] = x_dot[W + i]
        kinematics.wind_W[i] = environment.wind_W_mps[i]
    for i in range(4):
        kinematics.q_WB[i] = x[Q + i]
    kinematics.motor_current_A = 0.0
    for i in range(params.rotor_directions_count):
        kinematics.rotor_speed_radps[i] = x[ROTOR + i]
        kinematics.motor_current_A += rotor_current_A(x[ROTOR + i], params)
    vehicle.contact = ground_wrench(
        vec3(x[P:]), vec3(x[V:]), quat(x[Q:]), vec3(x[W:]), params, environment
    )[2]
