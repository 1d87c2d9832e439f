"""The mixer: thrust and torques to rotor speeds within their limits.

What the rotors cannot give is given up in this order: yaw torque first, then roll and pitch
torque (both by the same factor, so that the axis of the turn is kept), collective thrust last.

A helicopter has a rate loop of its own: it is given body rates and a throttle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel
from quadsim.parameters import Vec3
from quadsim.records import HELICOPTER

Array = NDArray[np.float64]


@kernel
def _room(value: float, change: float, lowest: float, highest: float) -> float:
    """Largest share in [0, 1] of ``change`` that keeps a rotor's thrust within its limits."""
    if change > 0.0 and change > highest - value:
        return max(0.0, (highest - value) / change)
    if change < 0.0 and change < lowest - value:
        return max(0.0, (lowest - value) / change)
    return 1.0


@kernel
def mix(
    airframe: Any, thrust_N: float, torque_B: Vec3, rotor_speeds: Array
) -> tuple[float, float, float]:
    """Rotor speeds that give a wrench, or the nearest to it by the order above.

    The wrench reached is ``(given, tilt_share * torque_x, tilt_share * torque_y, yaw_share *
    torque_z)``. An input that is not finite counts as zero.

    Args:
        airframe: AIRFRAME record.
        thrust_N: collective thrust along body z.
        torque_B: torque about the body axes in N m.
        rotor_speeds: (MAX_ROTORS,) result in rad/s; zero beyond the airframe's rotors.

    Returns:
        (given, tilt_share, yaw_share): collective thrust reached in N, and the shares in [0, 1]
        of roll and pitch torque and of yaw torque that were reached.
    """
    lowest, highest = airframe.rotor_thrust_min_N, airframe.rotor_thrust_max_N
    least = airframe.thrust_min_mps2 * airframe.mass_kg
    most = airframe.thrust_max_mps2 * airframe.mass_kg
    given = min(max(thrust_N, least), most) if math.isfinite(thrust_N) else least
    tx = torque_B[0] if math.isfinite(torque_B[0]) else 0.0
    ty = torque_B[1] if math.isfinite(torque_B[1]) else 0.0
    tz = torque_B[2] if math.isfinite(torque_B[2]) else 0.0

    tilt_share = 1.0
    for i in range(airframe.rotors):
        b = airframe.allocation[i]
        tilt_share = min(tilt_share, _room(b[0] * given, b[1] * tx + b[2] * ty, lowest, highest))
    yaw_share = 1.0
    for i in range(airframe.rotors):
        b = airframe.allocation[i]
        level = b[0] * given + tilt_share * (b[1] * tx + b[2] * ty)
        yaw_share = min(yaw_share, _room(level, b[3] * tz, lowest, highest))
    for i in range(len(rotor_speeds)):
        if i >= airframe.rotors:
            rotor_speeds[i] = 0.0
            continue
        b = airframe.allocation[i]
        f = b[0] * given + tilt_share * (b[1] * tx + b[2] * ty) + yaw_share * (b[3] * tz)
        speed = math.sqrt(max(f, 0.0) / airframe.thrust_coefficient_N_s2)
        rotor_speeds[i] = min(
            max(speed, airframe.rotor_speed_min_radps), airframe.rotor_speed_max_radps
        )
    return (given, tilt_share, yaw_share)


@kernel
def stick(airframe: Any, thrust_N: float, w_B: Vec3, command: Array) -> None:
    """A helicopter's command: body rates and throttle within their limits.

    Args:
        airframe: AIRFRAME record.
        thrust_N: collective thrust along body z.
        w_B: wanted body rates in rad/s.
        command: (MAX_ROTORS,) result: three rates in rad/s, the throttle in [0, 1], zeros. An
            input that is not finite counts as zero.
    """
    for i in range(len(command)):
        command[i] = 0.0
    for i in range(3):
        most = airframe.stick_rate_max_radps[i]
        if math.isfinite(w_B[i]):
            command[i] = min(max(w_B[i], -most), most)
    if math.isfinite(thrust_N):
        share = thrust_N / (airframe.mass_kg * airframe.thrust_max_mps2)
        command[3] = min(max(share, 0.0), 1.0)


@kernel
def equal_speeds(airframe: Any, thrust_N: float, rotor_speeds: Array) -> None:
    """Command of a collective thrust without torque or turn; zero thrust stops the rotors."""
    if airframe.kind == HELICOPTER:
        stick(airframe, thrust_N, (0.0, 0.0, 0.0), rotor_speeds)
        return
    if thrust_N == 0.0:
        for i in range(len(rotor_speeds)):
            rotor_speeds[i] = 0.0
        return
    mix(airframe, thrust_N, (0.0, 0.0, 0.0), rotor_speeds)
