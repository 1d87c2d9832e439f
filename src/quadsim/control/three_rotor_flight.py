"""Flight of a quadrotor on three rotors: it spins about an axis that is held near the vertical.

Without one rotor, yaw cannot be held. The two rotors next to the lost one turn the body about its
vertical; the one opposite pushes one edge up all the time, which the spin turns into a steady
wobble: with body rates ``w`` that do not change, ``tau = w x (J w + h)`` (h: the rotors' angular
momentum), and the axis ``n = w / |w|`` stands still in the body and in the world. The thrust's mean
is along n, which is steered where it is wanted (M. W. Mueller and R. D'Andrea, *Stability and
control of a quadrocopter despite the complete loss of one, two, or three propellers*, ICRA 2014).

The paper linearises about one spin; here the steady motion and the gains follow the present one,
from none to full. With complex numbers x + i y for what is across body z, b the wanted direction
of the axis, w the rates, s the torque over J, r the spin, a = ((J_z - J) r + h) / J and T the
motors' lag, small deviations obey

    b' = -i r b + i w,    w' = i a w + s,    s' = (u - s) / T,

and the gains of u = -(k_b b + k_w w + k_s s) place the poles at ``-i r - AXIS_DAMPING``, ``i a -
NUTATION_DAMPING`` and ``-1/T``: each motion keeps the frequency it has by itself, which takes the
least thrust, and is damped.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.elementary import atan2, exp
from quadsim.base.parameters import Vec3
from quadsim.base.records import AttitudeCommand, Odometry
from quadsim.control.airframe import Airframe
from quadsim.control.parameters import AutopilotParams
from quadsim.control.pid import clamp, low_pass, low_pass_weight
from quadsim.control.records import AttitudeControl
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import quat, rotate, unrotate
from quadsim.geometry.vector import cross, dot, norm

#: Damping of the axis and of the body's nutation about it, 1/s.
AXIS_DAMPING, NUTATION_DAMPING = 6.0, 6.0
#: Shortest lag of motors, and the way from gyroscope to rotor, s.
LEAST_LAG_S, DELAY_S = 0.005, 0.006
#: Largest angle of the axis that is answered in proportion, rad.
MOST_ERROR = 1.5
#: Share of a rotor's range up to which it is loaded by plan.
LOAD = 0.95
#: Thrust of the rotor opposite over that of each next to the lost one: as planned, where those two
#: give what they can, and where it brakes the spin.
OPPOSITE_SHARE, LOADED_SHARE, BRAKING_SHARE = 0.3, 0.6, 2.5
#: Spin in rad/s from which on it is braked, and the growth of the share, s/rad.
BRAKED_SPIN, BRAKING_GAIN = 15.0, 0.1
#: Largest tangent of the angle between the axis and body z.
MOST_CONE = 0.4
#: Largest horizontal part of the wanted direction of the axis.
MOST_LEAN = 0.3


@kernel
def opposite_of(airframe: Airframe, lost: int) -> int:
    """The rotor across: the one farthest from the lost one."""
    found, farthest = -1, -1.0
    y, x = airframe.effectiveness[1], airframe.effectiveness[2]
    for i in range(airframe.rotors):
        apart = hypot(x[i] - x[lost], y[i] - y[lost])
        if apart > farthest:
            found, farthest = i, apart
    return found


@kernel
def _beside(airframe: Airframe, lost: int, opposite: int) -> tuple[int, int]:
    """The two rotors next to the lost one."""
    a, b = -1, -1
    for i in range(airframe.rotors):
        if i not in (lost, opposite):
            a, b = (i, b) if a < 0 else (a, i)
    return a, b


@kernel
def _arm(airframe: Airframe, i: int) -> complex:
    """Roll and pitch torque per thrust of a rotor, in m."""
    return complex(airframe.effectiveness[1, i], airframe.effectiveness[2, i])


@kernel
def planned_thrusts(airframe: Airframe, thrust_N: float, spin: float) -> tuple[float, float]:
    """What the rotor opposite, and each next to the lost one, give in N when nothing disturbs.

    Args:
        airframe: AIRFRAME record.
        thrust_N: collective thrust wanted.
        spin: present body rate about z in rad/s, from whose size on the opposite one brakes it.
    """
    most = LOAD * airframe.rotor_thrust_max_N
    share = OPPOSITE_SHARE + BRAKING_GAIN * (abs(spin) - BRAKED_SPIN)
    share = clamp(share, OPPOSITE_SHARE, BRAKING_SHARE)
    alongside = min(thrust_N / (2.0 + share), most)
    opposite = min(thrust_N - 2.0 * alongside, max(share, LOADED_SHARE) * alongside)
    return min(opposite, most), alongside


@kernel
def steady_spin(
    airframe: Airframe, lost: int, thrust_N: float, spin: float, h: float
) -> tuple[complex, complex]:
    """Steady roll and pitch rate in rad/s at a spin, and the torque in N m that they take.

    The torque t of the rotors is that of the wobble, ``t = -i ((J_z - J) spin + h) w``; while the
    spin is slow, the rotor opposite gives less than planned.

    Args:
        airframe: AIRFRAME record.
        lost: index of the lost rotor.
        thrust_N: collective thrust wanted.
        spin: present body rate about z in rad/s.
        h: angular momentum of the rotors about body z in N m s.
    """
    inertia = airframe.inertia_kg_m2
    stiffness = (inertia[2] - 0.5 * (inertia[0] + inertia[1])) * spin + h
    if stiffness * spin <= 0.0:
        return 0j, 0j
    opposite = opposite_of(airframe, lost)
    a, b = _beside(airframe, lost, opposite)
    f, alongside = planned_thrusts(airframe, thrust_N, spin)
    arm = _arm(airframe, opposite)
    carried_N = spin * stiffness / abs(arm)  # at a cone of 45 degrees
    # (2 F + f) cos(cone) is greatest at tan(cone) = carried / 2 F
    f = min(f, min(MOST_CONE, 0.5 * carried_N / airframe.rotor_thrust_max_N) * carried_N)
    torque = f * arm + alongside * (_arm(airframe, a) + _arm(airframe, b))
    w = 1j * torque / stiffness
    cut = min(1.0, MOST_CONE * abs(spin) / max(abs(w), 1e-9))
    return cut * w, cut * torque


@kernel
def spin_gains(
    spin: float, nutation: float, cosine: float, lag_s: float
) -> tuple[complex, complex, complex]:
    """Gains of the axis' direction, of the rates and of the torque that place the poles.

    By the characteristic polynomial of the three equations above, with ``b' = -i r b + i c w``.

    Args:
        spin: r in rad/s.
        nutation: a in rad/s.
        cosine: c of the angle between axis and body z, positive.
        lag_s: T.

    Returns:
        k_b in 1/s^2, k_w in 1/s and k_s.
    """
    turn, wobble = complex(0.0, -spin), complex(0.0, nutation)
    p, q, lag = turn - AXIS_DAMPING, wobble - NUTATION_DAMPING, complex(-1.0 / lag_s, 0.0)
    m = turn + wobble - (p + q + lag)
    k_w = p * q + (p + q) * lag - turn * wobble + m * (turn + wobble)
    k_b = (-p * q * lag - turn * wobble * m + turn * k_w) / complex(0.0, cosine)
    return k_b * lag_s, k_w * lag_s, m * lag_s - 1.0


@kernel
def _give(
    airframe: Airframe, lost: int, thrust_N: float, torque: complex, rotor_speeds: Array
) -> None:
    """Rotor speeds for a thrust, roll and pitch torque; the rotor opposite first, thrust last."""
    lowest, highest = airframe.rotor_thrust_min_N, airframe.rotor_thrust_max_N
    opposite = opposite_of(airframe, lost)
    a, b = _beside(airframe, lost, opposite)
    across = airframe.allocation_without[lost, opposite]
    f = clamp(
        across[0] * thrust_N + across[1] * torque.real + across[2] * torque.imag, lowest, highest
    )
    # the other two: their sum, and the torque about the line from the lost rotor across
    arm = _arm(airframe, opposite)
    along = 1j * arm / abs(arm)
    turn = (along.conjugate() * torque).real
    arm_a = (along.conjugate() * _arm(airframe, a)).real
    arm_b = (along.conjugate() * _arm(airframe, b)).real
    # f_a = (turn - arm_b S) / (arm_a - arm_b), f_b = (arm_a S - turn) / (arm_a - arm_b)
    span = arm_a - arm_b
    part_a, part_b, change = -arm_b / span, arm_a / span, turn / span
    change = clamp(change, -(highest - lowest) * 0.5, (highest - lowest) * 0.5)
    least = max((lowest - change) / part_a, (lowest + change) / part_b)
    most = min((highest - change) / part_a, (highest + change) / part_b)
    total = clamp(thrust_N - f, least, max(most, least))
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


@kernel
def _follow(
    state: AttitudeControl,
    params: AutopilotParams,
    airframe: Airframe,
    odometry: Odometry,
    speeds: Array,
    dt_s: float,
) -> None:
    """Advance the low-passed rates, and the rotor speeds by the commands of the last step."""
    lag_s = max(airframe.motor_lag_s, LEAST_LAG_S)
    rotated = 1.0 - exp(-dt_s / lag_s) if state.spinning != 0 else 1.0
    weight = low_pass_weight(params.attitude.gyro_cutoff_hz, dt_s) if state.running != 0 else 1.0
    state.running = state.spinning = 1
    for i in range(3):
        state.w_B[i] = low_pass(state.w_B[i], odometry.w_B[i], weight)
    for i in range(airframe.rotors):
        state.speeds[i] = low_pass(state.speeds[i], speeds[i], rotated)
    state.speeds[state.lost - 1] = 0.0


@kernel
def _off_axis(odometry: Odometry, command: AttitudeCommand, n_B: Vec3) -> complex:
    """Where the wanted direction is, seen from the axis ``n_B``: angle by direction across."""
    up = rotate(quat(command.q_WB), (0.0, 0.0, 1.0))
    lean = hypot(up[0], up[1])
    shorter = MOST_LEAN / lean if lean > MOST_LEAN else 1.0
    x, y = shorter * up[0], shorter * up[1]
    wanted_B = unrotate(quat(odometry.q_WB), (x, y, math.sqrt(1.0 - x * x - y * y)))
    turn = cross(n_B, wanted_B)
    sine = norm(turn)
    angle = atan2(sine, dot(n_B, wanted_B))
    factor = min(angle, MOST_ERROR) / sine if sine > 1e-9 else 1.0
    return complex(factor * turn[1], -factor * turn[0])


@kernel
def spin_control(
    state: AttitudeControl,
    params: AutopilotParams,
    airframe: Airframe,
    odometry: Odometry,
    command: AttitudeCommand,
    thrust_N: float,
    dt_s: float,
    rotor_speeds: Array,
) -> None:
    """One step of attitude control on three rotors; yaw is given up.

    Args:
        state: of the attitude loop, with a lost motor; its filters advance.
        params: packed AutopilotParams.
        airframe: AIRFRAME record of four rotors.
        odometry: ODOMETRY record.
        command: ATTITUDE_COMMAND record, of which the direction of the thrust counts.
        thrust_N: collective thrust wanted.
        dt_s: time since the last step.
        rotor_speeds: (MAX_ROTORS,) the commands of the last step in rad/s; the result.
    """
    lost = state.lost - 1
    _follow(state, params, airframe, odometry, rotor_speeds, dt_s)
    h, given = 0.0, 0j
    for i in range(airframe.rotors):
        sign = 1.0 if airframe.effectiveness[3, i] < 0.0 else -1.0
        h += sign * airframe.rotor_inertia_kg_m2 * state.speeds[i]
        thrust = airframe.thrust_coefficient_N_s2 * state.speeds[i] ** 2
        given += thrust * _arm(airframe, i)
    w, spin = complex(state.w_B[0], state.w_B[1]), state.w_B[2]
    steady, torque = steady_spin(airframe, lost, thrust_N, spin, h)
    n_B = (0.0, 0.0, 1.0)
    if spin != 0.0:
        tx, ty = steady.real / spin, steady.imag / spin
        size = math.sqrt(tx * tx + ty * ty + 1.0)
        n_B = (tx / size, ty / size, 1.0 / size)
    inertia = airframe.inertia_kg_m2
    across = 0.5 * (inertia[0] + inertia[1])
    nutation = ((inertia[2] - across) * spin + h) / across
    lag_s = max(airframe.motor_lag_s, LEAST_LAG_S) + DELAY_S
    k_b, k_w, k_s = spin_gains(spin, nutation, n_B[2], lag_s)
    off = _off_axis(odometry, command, n_B)
    u = k_b * off + k_w * (w - steady) + k_s * (given - torque) / across
    _give(airframe, lost, thrust_N, torque - across * u, rotor_speeds)
