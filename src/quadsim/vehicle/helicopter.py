"""A helicopter that turns as its stick commands: a parametric flight dynamics model.

The fourth and simplest flight dynamics model of A. Larsen's thesis on a helicopter simulator and
its autopilot (NTNU, 2010): the body rates are those of the stick, the lift along body z is
``F_L = 1.7 G h`` with ``h`` in [0, 1] the throttle and ``G`` the weight; the drag on its body,
``F_D = 1/2 rho u^2 A C_D``, is that of :mod:`quadsim.vehicle.aerodynamics`. Beyond the thesis, the
rates may follow the stick with a lag; then torques from outside turn the body too.

Its command is four numbers, in the first slots of a multirotor's rotor speeds: roll, pitch and yaw
rate in rad/s, and the throttle. The state keeps them, as they are obeyed, where a multirotor keeps
its rotor speeds.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import add, cross
from quadsim.vehicle.formalisms.formalisms import attitude_quaternion, set_attitude
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import ROTOR, Vehicle, three

#: Weight over mass, to which the lift is given: a fixed figure of the vehicle, m/s^2.
STANDARD_GRAVITY_MPS2 = 9.80665

#: Slot of the throttle in a command.
THROTTLE = 3


@kernel
def _within(value: float, least: float, most: float) -> float:
    """A command cut to its range; one that is not finite counts as zero."""
    return min(max(value, least), most) if math.isfinite(value) else 0.0


@kernel
def obey_stick(vehicle: Vehicle, params: VehicleParams, formalism: int) -> None:
    """Take over the command at the start of a step; without a lag, the body turns by it at once.

    Args:
        vehicle: VEHICLE record. Its state's slots of rotor speeds become the command, cut to its
            range, and zero after a crash.
        params: packed VehicleParams.
        formalism: in which the state is given.
    """
    command = vehicle.inputs.rotor_command_radps
    most = params.helicopter.stick_rate_max_radps
    alive = 1.0 if vehicle.crash == 0 else 0.0
    for i in range(3):
        vehicle.x[ROTOR + i] = alive * _within(command[i], -most[i], most[i])
    vehicle.x[ROTOR + THROTTLE] = alive * _within(command[THROTTLE], 0.0, 1.0)
    if params.helicopter.rate_time_constant_s == 0.0:
        q_WB = attitude_quaternion(vehicle.x[:], vehicle, formalism)
        set_attitude(vehicle.x[:], vehicle, formalism, q_WB, three(vehicle.x[:], ROTOR))


@kernel
def helicopter_wrench(
    x: Array, w_B: Vec3, density_ratio: float, params: VehicleParams
) -> tuple[Vec3, Vec3]:
    """Force of the rotor and the torque with which it turns the body, body axes, in N and N m.

    The torque is what lets the rates follow the stick as ``w_dot = (stick - w) / T``, whatever the
    inertia; torques from outside come on top. Without a lag it is zero: see
    :func:`helicopter_rates`.

    Args:
        x: (STATE_SIZE,) the vehicle's state, into which :func:`obey_stick` took the command.
        w_B: body rates in rad/s.
        density_ratio: of the air, over that at which the figures hold.
        params: packed VehicleParams.
    """
    weight_N = params.mass_kg * STANDARD_GRAVITY_MPS2
    throttle = x[ROTOR + THROTTLE]
    lift_N = density_ratio * params.helicopter.lift_ratio * weight_N * throttle
    lag_s = params.helicopter.rate_time_constant_s
    if lag_s == 0.0:
        return (0.0, 0.0, lift_N), (0.0, 0.0, 0.0)
    inertia = params.inertia_kg_m2
    stick = three(x, ROTOR)
    momentum = (inertia[0] * w_B[0], inertia[1] * w_B[1], inertia[2] * w_B[2])
    following = (
        inertia[0] * (stick[0] - w_B[0]) / lag_s,
        inertia[1] * (stick[1] - w_B[1]) / lag_s,
        inertia[2] * (stick[2] - w_B[2]) / lag_s,
    )
    return (0.0, 0.0, lift_N), add(following, cross(w_B, momentum))


@kernel
def helicopter_rates(w_dot_B: Vec3, params: VehicleParams) -> Vec3:
    """Angular acceleration in rad/s^2 of a helicopter on which torques would have this effect.

    Without a lag the rates are the stick's over the whole step, and no torque changes them.
    """
    if params.helicopter.rate_time_constant_s == 0.0:
        return (0.0, 0.0, 0.0)
    return w_dot_B
