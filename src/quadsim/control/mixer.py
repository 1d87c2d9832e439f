"""The mixer: thrust and torques to rotor speeds within their limits.

What the rotors cannot give is given up in this order: yaw torque first, then collective thrust,
roll and pitch torque last (both by the same factor, so that the axis of the turn stays). A
vehicle that keeps its attitude can win its height back; the other way round it cannot.

A helicopter has a rate loop of its own: it is given body rates and a throttle.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import HELICOPTER
from quadsim.control.airframe import Airframe


@kernel
def _room(value: float, change: float, lowest: float, highest: float) -> float:
    """Largest share in [0, 1] of ``change`` that keeps a rotor's thrust within its limits."""
    if change > 0.0 and change > highest - value:
        return max(0.0, (highest - value) / change)
    if change < 0.0 and change < lowest - value:
        return max(0.0, (lowest - value) / change)
    return 1.0


@kernel
def _tilt_share(
    allocation: Array, rotors: int, tx: float, ty: float, limits: tuple[float, float]
) -> float:
    """Largest share in [0, 1] of a roll and pitch torque that some collective thrust allows.

    Rotor i gives ``b_i T + s d_i``; a thrust T suits rotors i and j if ``(lowest - s d_i) / b_i <=
    (highest - s d_j) / b_j``.
    """
    lowest, highest = limits
    share = 1.0
    for i in range(rotors):
        for j in range(rotors):
            b, c = allocation[i], allocation[j]
            if b[0] <= 0.0 or c[0] <= 0.0:
                continue
            apart = (c[1] * tx + c[2] * ty) / c[0] - (b[1] * tx + b[2] * ty) / b[0]
            room = max(highest / c[0] - lowest / b[0], 0.0)
            if apart > room:
                share = min(share, room / apart)
    return share


@kernel
def mix_by(
    airframe: Airframe, allocation: Array, thrust_N: float, torque_B: Vec3, rotor_speeds: Array
) -> tuple[float, float, float]:
    """What :func:`mix` does, by another allocation; rotors without a share of the thrust stop.

    Args:
        airframe: AIRFRAME record.
        allocation: (MAX_ROTORS, 4) rotor thrusts in N from a wrench.
        thrust_N, torque_B, rotor_speeds: as of :func:`mix`.
    """
    lowest, highest = airframe.rotor_thrust_min_N, airframe.rotor_thrust_max_N
    tx = torque_B[0] if math.isfinite(torque_B[0]) else 0.0
    ty = torque_B[1] if math.isfinite(torque_B[1]) else 0.0
    tz = torque_B[2] if math.isfinite(torque_B[2]) else 0.0

    tilt_share = _tilt_share(allocation, airframe.rotors, tx, ty, (lowest, highest))
    least, most = -math.inf, math.inf
    for i in range(airframe.rotors):
        b = allocation[i]
        if b[0] > 0.0:
            turn = tilt_share * (b[1] * tx + b[2] * ty)
            least = max(least, (lowest - turn) / b[0])
            most = min(most, (highest - turn) / b[0])
    most = max(most, least)  # equal but for rounding where the torque takes all
    given = min(max(thrust_N, least), most) if math.isfinite(thrust_N) else least
    yaw_share = 1.0
    for i in range(airframe.rotors):
        b = allocation[i]
        if b[0] > 0.0:
            level = b[0] * given + tilt_share * (b[1] * tx + b[2] * ty)
            yaw_share = min(yaw_share, _room(level, b[3] * tz, lowest, highest))
    for i in range(len(rotor_speeds)):
        rotor_speeds[i] = 0.0
        if i >= airframe.rotors or allocation[i, 0] <= 0.0:
            continue
        b = allocation[i]
        f = b[0] * given + tilt_share * (b[1] * tx + b[2] * ty) + yaw_share * (b[3] * tz)
        speed = math.sqrt(max(f, 0.0) / airframe.thrust_coefficient_N_s2)
        rotor_speeds[i] = min(
            max(speed, airframe.rotor_speed_min_radps), airframe.rotor_speed_max_radps
        )
    return (given, tilt_share, yaw_share)


@kernel
def mix(
    airframe: Airframe, thrust_N: float, torque_B: Vec3, rotor_speeds: Array
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
    return mix_by(airframe, airframe.allocation, thrust_N, torque_B, rotor_speeds)


@kernel
def stick(airframe: Airframe, thrust_N: float, w_B: Vec3, command: Array) -> None:
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
def equal_speeds(airframe: Airframe, thrust_N: float, rotor_speeds: Array) -> None:
    """Command of a collective thrust without torque or turn; zero thrust stops the rotors."""
    if airframe.kind == HELICOPTER:
        stick(airframe, thrust_N, (0.0, 0.0, 0.0), rotor_speeds)
        return
    if thrust_N == 0.0:
        for i in range(len(rotor_speeds)):
            rotor_speeds[i] = 0.0
        return
    mix(airframe, thrust_N, (0.0, 0.0, 0.0), rotor_speeds)
