"""The smooth part of a multirotor as CasADi expressions, with exact slopes, for planners and MPC.

It holds what :mod:`quadsim.vehicle` computes in free air without wind at the density of the
vehicle's file: thrust with its line over the axial flow, drag in the disc with flapping, rolling
and hub moments, drag of the body, motors of first order, and the rotors' angular momentum. Ground
effect, vortex ring in a descent and battery are not in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim.base.compiled import plain
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.vehicle.aerodynamics import STANDARD_DENSITY_KG_M3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.rotors import disc_axes
from quadsim.world.environment import EnvironmentParams

#: Parameters by which there are slopes, in this order; inertia is three.
PARAMETERS = ("mass_kg", "inertia_kg_m2", "thrust_coefficient_N_s2", "torque_ratio_m")


def _check(vehicle: VehicleParams) -> None:
    """Refuse what is not in the model, by name."""
    rotor = vehicle.rotor
    for there, what in (
        (vehicle.kind != "multirotor", f"kind: {vehicle.kind}"),
        (rotor.inflow_model == "momentum", "rotor.inflow_model: momentum"),
        (bool(rotor.thrust_residual), "rotor.thrust_residual"),
        (bool(rotor.torque_residual), "rotor.torque_residual"),
        (vehicle.motor.model != "first_order", f"motor.model: {vehicle.motor.model}"),
        (vehicle.load.rope_length_m > 0.0, "load"),
        (vehicle.tether.length_m > 0.0, "tether"),
    ):
        if there:
            raise InputError(f"{vehicle.name}: {what}: is not in the smooth model")


def casadi_model(vehicle: VehicleParams, environment: EnvironmentParams | None = None) -> Any:
    """The time derivative of the state, a ``casadi.Function`` of x, u and theta.

    ``x`` is p_W (3) in m, v_W (3) in m/s, q_WB (4, w first), w_B (3) in rad/s and the speeds of the
    rotors (n) in rad/s; ``u`` the commanded speeds (n); ``theta`` the six numbers of PARAMETERS.
    Gravity, which falls with the height, is that of the environment (of its defaults without one).

    Raises:
        InputError: CasADi is not installed, or the vehicle has effects that the model has not.
    """
    ca = need("casadi", "casadi_model")
    _check(vehicle)
    n, rotor = len(vehicle.rotor_directions), vehicle.rotor
    x, u, theta = ca.SX.sym("x", 13 + n), ca.SX.sym("u", n), ca.SX.sym("theta", 6)
    v_W, q, w_B, speeds = x[3:6], x[6:10], x[10:13], x[13:]
    mass, inertia, k, torque_ratio = theta[0], theta[1:4], theta[4], theta[5]
    w, r = q[0], q[1:4]
    R_WB = (w * w - ca.dot(r, r)) * ca.SX.eye(3) + 2.0 * r @ r.T + 2.0 * w * ca.skew(r)
    air_B = R_WB.T @ v_W
    force_B, torque_B = ca.SX.zeros(3), ca.SX.zeros(3)
    idle = max(vehicle.rotor_speed_min_radps, 1.0)
    axes = vehicle.rotor_axes_B or ((0.0, 0.0, 1.0),) * n
    for i, (r_B, direction) in enumerate(
        zip(vehicle.rotor_positions_B_m, vehicle.rotor_directions, strict=True)
    ):
        speed, at, disc = speeds[i], ca.DM(r_B), ca.DM(plain(disc_axes)(axes[i]))
        hub = disc.T @ (air_B + ca.cross(w_B, at))
        side_speed2 = hub[0] ** 2 + hub[1] ** 2
        static = k * speed**2
        gained = ca.fmin(rotor.translational_lift_N_s2_m2 * side_speed2, static)
        thrust = static - rotor.inflow_N_s2 * speed * hub[2] + gained
        tilt = 0.0
        if rotor.flapping_rad > 0.0:
            tilt = rotor.flapping_rad / rotor.radius_m * speed / ca.fmax(speed**2, idle**2)
        side = vehicle.rotor_drag_N_s2 * speed + tilt * thrust
        push = disc @ ca.vertcat(-side * hub[0], -side * hub[1], thrust)
        rolling = direction * vehicle.rolling_moment_N_s2 * speed
        bend = rotor.hinge_stiffness_N_m * tilt + rotor.hub_moment_N_s2 * speed
        force_B += push
        torque_B += ca.cross(at, push) + disc @ ca.vertcat(
            bend * hub[1] - rolling * hub[0],
            -bend * hub[0] - rolling * hub[1],
            -direction * torque_ratio * static,
        )
    density = vehicle.air_density_kg_m3 or STANDARD_DENSITY_KG_M3
    fast = 0.5 * density * ca.sqrt(ca.dot(air_B, air_B) + 1e-12)
    drag, area = ca.DM(vehicle.body_drag_N_s_m), ca.DM(vehicle.drag_area_m2)
    force_B -= (drag + fast * area) * air_B
    late_s = ca.if_else(u > speeds, vehicle.time_constant_up_s, vehicle.time_constant_down_s)
    spin = (u - speeds) / late_s
    turning = ca.DM(rotor.inertia_kg_m2 * np.array(axes).T * vehicle.rotor_directions)
    tensor = ca.diag(inertia) + ca.DM(vehicle.inertia_tensor_kg_m2 - np.diag(vehicle.inertia_kg_m2))
    momentum = tensor @ w_B + turning @ speeds
    net = torque_B - ca.cross(w_B, momentum) - turning @ spin
    q_dot = 0.5 * ca.vertcat(-ca.dot(r, w_B), w * w_B + ca.cross(r, w_B))
    gravity, gradient = (environment or EnvironmentParams()).gravity_and_gradient()
    a_W = R_WB @ force_B / mass - ca.vertcat(0.0, 0.0, gravity - gradient * x[2])
    x_dot = ca.vertcat(v_W, a_W, q_dot, ca.solve(tensor, net), spin)
    return ca.Function("vehicle", [x, u, theta], [x_dot], ["x", "u", "theta"], ["x_dot"])


def casadi_step(model: Any, step_s: float) -> Any:
    """A step of Runge and Kutta of fourth order of a model; ``.jacobian()`` has its exact slopes.

    Args:
        model: of :func:`casadi_model`.
        step_s: of the step, up to 1 s.

    Raises:
        InputError: the step is no such number.
    """
    ca = need("casadi", "casadi_step")
    if isinstance(step_s, bool) or not isinstance(step_s, int | float) or not 0.0 < step_s <= 1.0:
        raise InputError(f"step_s: {step_s!r}; allowed: > 0 and <= 1 s")
    x, u, theta = (ca.SX.sym(model.name_in(i), model.size1_in(i)) for i in range(3))
    k1 = model(x, u, theta)
    k2 = model(x + 0.5 * step_s * k1, u, theta)
    k3 = model(x + 0.5 * step_s * k2, u, theta)
    k4 = model(x + step_s * k3, u, theta)
    after = x + step_s / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return ca.Function("step", [x, u, theta], [after], ["x", "u", "theta"], ["after"])


def parameters_of(vehicle: VehicleParams) -> list[float]:
    """The numbers of PARAMETERS of a vehicle."""
    return [
        vehicle.mass_kg, *vehicle.inertia_kg_m2, vehicle.thrust_coefficient_N_s2,
        vehicle.torque_ratio_m,
    ]  # fmt: skip
