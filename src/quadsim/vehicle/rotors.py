"""Rotors: their force and torque on the body.

Thrust ``k w^2`` and drag torque ``k w^2 c`` of each rotor, with rotor drag and rolling moment
proportional to rotor speed and to the air speed in the disc (Furrer et al., *RotorS*, 2016, eqs. 6
to 9, as in Gazebo's MulticopterMotorModel).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel
from quadsim.geometry.vector import add, cross, vec3
from quadsim.parameters import Vec3
from quadsim.vehicle.state import ROTOR

Array = NDArray[np.float64]


@kernel
def rotor_wrench(x: Array, air_B: Vec3, w_B: Vec3, vehicle: Any, params: Any) -> tuple[Vec3, Vec3]:
    """Force and torque of the rotors about the centre of mass, body axes, in N and N m.

    Args:
        x: (STATE_SIZE,) state, for the rotor speeds.
        air_B: velocity of the centre of mass through the air in m/s.
        w_B: body rates in rad/s.
        vehicle: VEHICLE record, for what is held over the step.
        params: packed VehicleParams.
    """
    force, torque = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    ratio = vehicle.held.density_ratio
    for i in range(params.rotor_directions_count):
        speed = x[ROTOR + i]
        direction = params.rotor_directions[i]
        r_B = vec3(params.rotor_positions_B_m[i])
        gain = ratio * vehicle.held.thrust_gain[i]
        thrust = gain * params.thrust_coefficient_N_s2 * speed * speed
        hub = add(air_B, cross(w_B, r_B))
        drag = -ratio * params.rotor_drag_N_s2 * speed
        rolling = -ratio * params.rolling_moment_N_s2 * speed
        f = (drag * hub[0], drag * hub[1], thrust)
        force = add(force, f)
        own = (rolling * hub[0], rolling * hub[1], -direction * params.torque_ratio_m * thrust)
        torque = add(torque, add(own, cross(r_B, f)))
    return force, torque


@kernel
def rotor_momentum(x: Array, params: Any) -> float:
    """Angular momentum of the rotors about body z relative to the body, in kg m^2/s."""
    return 0.0


@kernel
def rotor_momentum_rate(x_dot: Array, params: Any) -> float:
    """Its derivative in N m, from the rotor accelerations in a derivative of the state."""
    return 0.0
