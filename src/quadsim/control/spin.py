"""Flight of a quadrotor on three rotors: it spins about an axis that is kept near the vertical.

Without one rotor, yaw cannot be held. The two rotors beside the lost one turn the body about its
vertical; the one opposite pushes one edge up all the time, which the spin turns into a steady
wobble: with body rates ``w`` that do not change, ``tau = w x (J w + h)`` (h: the rotors' angular
momentum), and the axis ``n = w / |w|`` stands still in the body and in the world. The thrust's mean
is along n, which is steered where it is wanted (M. W. Mueller and R. D'Andrea, *Stability and
control of a quadrocopter despite the complete loss of one, two, or three propellers*, ICRA 2014).

Here the three rotors are solved for thrust, roll and pitch torque at each step, and n follows from
the present spin; the paper linearises about one spin instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel
from quadsim.control.pid import clamp, low_pass, low_pass_weight
from quadsim.geometry.rotation import quat, rotate, unrotate
from quadsim.geometry.vector import cross, vec3
from quadsim.parameters import Vec3

Array = NDArray[np.float64]

#: Rate wanted per tilt of the axis, and angular acceleration per rate error, 1/s.
AXIS_GAIN, SPIN_RATE_GAIN = 3.0, 20.0
#: Share of a rotor's range up to which the two beside the lost one are loaded by plan.
LOAD = 0.88
#: Thrust of the rotor opposite over that of each beside the lost one, where the weight allows it.
OPPOSITE_SHARE = 0.5
#: Largest tangent of the angle between the axis and body z.
MOST_CONE = 0.6
#: Largest horizontal part of the wanted direction of the axis.
MOST_LEAN = 0.15


@kernel
def opposite_of(airframe: Any, lost: int) -> int:
    """The rotor across: the one farthest from the lost one."""
    found, farthest = -1, -1.0
    y, x = airframe.effectiveness[1], airframe.effectiveness[2]
    for i in range(airframe.rotors):
        away = math.hypot(x[i] - x[lost], y[i] - y[lost])
        if away > farthest:
            found, farthest = i, away
    return found


@kernel
def _planned_thrust(airframe: Any, thrust_N: float) -> float:
    """What the rotor opposite gives in N when nothing disturbs."""
    share = OPPOSITE_SHARE / (2.0 + OPPOSITE_SHARE) * thrust_N
    return float(max(share, thrust_N - 2.0 * LOAD * airframe.rotor_thrust_max_N))


@kernel
def spin_axis(airframe: Any, opposite: int, planned_N: float, spin: float, h: float) -> Vec3:
    """Steady body rates in rad/s at a spin, at which the rotor opposite gives what is planned.

    The torque ``(y, -x) f`` of the rotor at (x, y) is that of the wobble, ``((J_z - J_xy) spin + h)
    (w_y, -w_x)``; while the spin is slow, less is planned.

    Args:
        airframe: AIRFRAME record.
        opposite: index of the rotor.
        planned_N: its thrust.
        spin: present body rate about z in rad/s.
        h: angular momentum of the rotors about body z in N m s.
    """
    inertia = airframe.inertia_kg_m2
    x, y = -airframe.effectiveness[2, opposite], airframe.effectiveness[1, opposite]
    stiffness = (inertia[2] - 0.5 * (inertia[0] + inertia[1])) * spin + h
    if stiffness * spin <= 0.0:
        return (0.0, 0.0, spin)
    carried_N = abs(spin * stiffness) / math.hypot(x, y)  # at a cone of 45 degrees
    # (2 F + f) cos(cone) is greatest at tan(cone) = carried / 2 F
    cone = min(MOST_CONE, 0.5 * carried_N / airframe.rotor_thrust_max_N)
    f = min(planned_N, cone * carried_N)
    return (f * x / stiffness, f * y / stiffness, spin)


@kernel
def _give(
    airframe: Any, lost: int, opposite: int, wrench: Vec3, rotor_speeds: Array
) -> tuple[float, float]:
    """Rotor speeds for a thrust, roll and pitch torque; the rotor opposite first, thrust last.

    Returns:
        Thrust and the part of the torque that the rotor opposite gives, both in N.
    """
    lowest, highest = airframe.rotor_thrust_min_N, airframe.rotor_thrust_max_N
    table, across = airframe.effectiveness, airframe.allocation_without[lost, opposite]
    f = clamp(
        across[0] * wrench[0] + across[1] * wrench[1] + across[2] * wrench[2], lowest, highest
    )
    # the other two: their sum, and the torque about the line from the lost rotor across
    reach = math.hypot(table[1, opposite], table[2, opposite])
    ux, uy = -table[2, opposite] / reach, table[1, opposite] / reach
    turn = ux * wrench[1] + uy * wrench[2]
    a, b = -1, -1
    for i in range(airframe.rotors):
        if i not in (lost, opposite):
            a, b = (i, b) if a < 0 else (a, i)
    arm_a = ux * table[1, a] + uy * table[2, a]
    arm_b = ux * table[1, b] + uy * table[2, b]
    # f_a = (turn - arm_b S) / (arm_a - arm_b), f_b = (arm_a S - turn) / (arm_a - arm_b)
    span = arm_a - arm_b
    part_a, part_b, change = -arm_b / span, arm_a / span, turn / span
    change = clamp(change, -(highest - lowest) * 0.5, (highest - lowest) * 0.5)
    least = max((lowest - change) / part_a, (lowest + change) / part_b)
    most = min((highest - change) / part_a, (highest + change) / part_b)
    total = clamp(wrench[0] - f, least, max(most, least))
    for i in range(len(rotor_speeds)):
        rotor_speeds[i] = 0.0
    k = airframe.thrust_coefficient_N_s2
    rotor_speeds[opposite] = math.sqrt(f / k)
    rotor_speeds[a] = math.sqrt(clamp(part_a * total + change, lowest, highest) / k)
    rotor_speeds[b] = math.sqrt(clamp(part_b * total - change, lowest, highest) / k)
    for i in (opposite, a, b):
        rotor_speeds[i] = clamp(
            rotor_speeds[i], airframe.rotor_speed_min_radps, airframe.rotor_speed_max_radps
        )
    return total + f, f


@kernel
def spin_control(
    state: Any,
    params: Any,
    airframe: Any,
    odometry: Any,
    command: Any,
    thrust_N: float,
    dt_s: float,
    rotor_speeds: Array,
) -> None:
    """One step of attitude control on three rotors; yaw is given up.

    Args:
        state: ATTITUDE_CONTROL record with a lost motor; its filter of the body rates advances.
        params: packed AutopilotParams.
        airframe: AIRFRAME record of four rotors.
        odometry: ODOMETRY record.
        command: ATTITUDE_COMMAND record, of which the direction of the thrust counts.
        thrust_N: collective thrust wanted.
        dt_s: time since the last step.
        rotor_speeds: (MAX_ROTORS,) the commands of the last step in rad/s; the result.
    """
    lost = state.lost - 1
    opposite = opposite_of(airframe, lost)
    weight = low_pass_weight(params.attitude.gyro_cutoff_hz, dt_s)
    for i in range(3):
        before = state.w_B[i] if state.running != 0 else odometry.w_B[i]
        state.w_B[i] = low_pass(before, odometry.w_B[i], weight)
    state.running = 1
    w = vec3(state.w_B)
    h = 0.0
    for i in range(airframe.rotors):
        if i != lost:
            sign = 1.0 if airframe.effectiveness[3, i] < 0.0 else -1.0
            h += sign * airframe.rotor_inertia_kg_m2 * rotor_speeds[i]
    steady = spin_axis(airframe, opposite, _planned_thrust(airframe, thrust_N), w[2], h)
    size = math.sqrt(steady[0] ** 2 + steady[1] ** 2 + steady[2] ** 2)
    n_B = (0.0, 0.0, 1.0)
    if size > 0.0 and steady[2] != 0.0:
        size = math.copysign(size, steady[2])
        n_B = (steady[0] / size, steady[1] / size, steady[2] / size)
    up = rotate(quat(command.q_WB), (0.0, 0.0, 1.0))
    lean = math.hypot(up[0], up[1])
    shorter = MOST_LEAN / lean if lean > MOST_LEAN else 1.0
    x, y = shorter * up[0], shorter * up[1]
    wanted_B = unrotate(quat(odometry.q_WB), (x, y, math.sqrt(1.0 - x * x - y * y)))
    error = cross(n_B, wanted_B)
    inertia = airframe.inertia_kg_m2
    momentum = (inertia[0] * w[0], inertia[1] * w[1], inertia[2] * w[2] + h)
    gyroscopic = cross(w, momentum)
    tx = inertia[0] * SPIN_RATE_GAIN * (steady[0] + AXIS_GAIN * error[0] - w[0]) + gyroscopic[0]
    ty = inertia[1] * SPIN_RATE_GAIN * (steady[1] + AXIS_GAIN * error[1] - w[1]) + gyroscopic[1]
    _give(airframe, lost, opposite, (thrust_N, tx, ty), rotor_speeds)
