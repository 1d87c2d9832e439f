"""Which motor gives no thrust: it does not turn, or the vehicle does not turn as it should.

With telemetry (``motor_speed``): a rotor that turns with less than :data:`LOST_SPEED` of the speed
that its command must have brought about. Without: the angular acceleration that the commanded
thrusts should give is compared with that of the body rates; the rotor whose absence explains the
difference is the lost one. Its thrust is missing too: ground that turns a vehicle bears it.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, Record, Vector, kernel
from quadsim.base.elementary import exp
from quadsim.base.parameters import Vec3
from quadsim.base.records import MAX_ROTORS, PerRotor
from quadsim.control.airframe import Airframe
from quadsim.control.pid import low_pass, low_pass_weight
from quadsim.geometry.length import hypot
from quadsim.geometry.vector import cross

#: Share of the expected speed below which a rotor is lost: a third of its thrust.
LOST_SPEED = 0.6
#: For how long: telemetry comes late, while a rotor that speeds up is looked for already.
LOST_SPEED_S = 0.02
#: A command may be on its way for so long, and the telemetry that answers it (a link, a node that
#: had to wait): what a rotor must have reached is judged by the least command of this time.
ON_THE_WAY_S = 0.1
#: Least lag that a motor is expected to have, s.
LEAST_LAG_S = 0.01

#: Share of a rotor's turning moment that must be missing, for how long, and what of the difference
#: may be left unexplained.
LOST_SHARE, LOST_SHARE_S, UNEXPLAINED = 0.6, 0.04, 0.5
#: Share of a rotor's thrust that the vehicle must lack.
LOST_LIFT = 0.3
#: Cut-off of the difference in angular acceleration, Hz.
DIFFERENCE_CUTOFF_HZ = 6.0


class MotorWatch(Record):
    """What is remembered of commands and rates."""

    recent: PerRotor  # least command of the present span, rad/s
    earlier: PerRotor  # and of the one before, rad/s
    span_s: float  # since the present one began
    least: PerRotor  # speed that each must have reached, rad/s
    likely: PerRotor  # speed by the mean lag, rad/s
    missing_s: PerRotor
    running: int
    w_B: Vector  # body rates a sample ago
    v_W: Vector  # and velocity, m/s
    difference: Vector  # low-passed: about x and y in rad/s^2, along z in m/s^2
    late_s: float  # how late messages come; commands are as late


@kernel
def reset_motor_watch(watch: MotorWatch) -> None:
    """Forget what the motors did."""
    watch.running = 0
    watch.span_s = 0.0
    for i in range(MAX_ROTORS):
        watch.least[i] = watch.likely[i] = watch.missing_s[i] = 0.0
        watch.recent[i] = watch.earlier[i] = 0.0


@kernel
def _follow(watch: MotorWatch, airframe: Airframe, commands: Array, dt_s: float) -> None:
    """Speeds that the commands of the last step bring about."""
    lag_s = max(airframe.motor_lag_s, LEAST_LAG_S)
    slow, mean = 1.0 - exp(-0.5 * dt_s / lag_s), 1.0 - exp(-dt_s / lag_s)
    watch.span_s += dt_s
    ended = watch.span_s > ON_THE_WAY_S
    if ended:
        watch.span_s = 0.0
    for i in range(airframe.rotors):
        if ended:
            watch.earlier[i], watch.recent[i] = watch.recent[i], commands[i]
        watch.recent[i] = min(watch.recent[i], commands[i])
        arrived = min(watch.earlier[i], watch.recent[i])
        rise = max(arrived - watch.least[i], 0.0)
        watch.least[i] = min(arrived, watch.least[i]) + slow * rise
        watch.likely[i] = low_pass(watch.likely[i], commands[i], mean)


@kernel
def expected_w_dot(watch: MotorWatch, airframe: Airframe, w_B: Vec3, axis: int) -> float:
    """Angular acceleration about an axis of the body that the commanded thrusts should give."""
    inertia = airframe.inertia_kg_m2
    gyroscopic = cross(w_B, (inertia[0] * w_B[0], inertia[1] * w_B[1], inertia[2] * w_B[2]))
    torque = -gyroscopic[axis]
    for i in range(airframe.rotors):
        thrust = airframe.thrust_coefficient_N_s2 * watch.likely[i] ** 2
        torque += airframe.effectiveness[1 + axis, i] * thrust
    return float(torque / inertia[axis])


@kernel
def _difference(
    watch: MotorWatch, airframe: Airframe, w_B: Vec3, lift_mps2: float, dt_s: float
) -> None:
    """Accelerations that there are, less what the thrusts should give, low-passed."""
    weight = low_pass_weight(DIFFERENCE_CUTOFF_HZ, dt_s)
    for axis in range(2):
        w_dot = (w_B[axis] - watch.w_B[axis]) / dt_s if watch.running != 0 else 0.0
        expected = expected_w_dot(watch, airframe, w_B, axis) if watch.running != 0 else 0.0
        watch.difference[axis] = low_pass(watch.difference[axis], w_dot - expected, weight)
    thrust = 0.0
    for i in range(airframe.rotors):
        pulls = airframe.thrust_coefficient_N_s2 * watch.likely[i] ** 2
        thrust += airframe.effectiveness[0, i] * pulls
    lacking = lift_mps2 - thrust / airframe.mass_kg
    if math.isfinite(lacking):
        watch.difference[2] = low_pass(watch.difference[2], lacking, weight)
    else:
        watch.difference[2] = -thrust / airframe.mass_kg
    for axis in range(3):
        watch.w_B[axis] = w_B[axis]
    watch.running = 1


@kernel
def _explains(watch: MotorWatch, airframe: Airframe, i: int) -> bool:
    """Whether the absence of a rotor's thrust, and little else, makes the difference."""
    thrust = airframe.thrust_coefficient_N_s2 * watch.likely[i] ** 2
    x = -airframe.effectiveness[1, i] * thrust / airframe.inertia_kg_m2[0]
    y = -airframe.effectiveness[2, i] * thrust / airframe.inertia_kg_m2[1]
    size = x * x + y * y
    dx, dy = watch.difference[0], watch.difference[1]
    if size <= 0.0 or watch.difference[2] > -LOST_LIFT * thrust / airframe.mass_kg:
        return False
    share = (x * dx + y * dy) / size
    left = hypot(dx - share * x, dy - share * y)
    return bool(share > LOST_SHARE and left < UNEXPLAINED * hypot(dx, dy))


@kernel
def lost_motor(
    watch: MotorWatch,
    airframe: Airframe,
    commands: Array,
    measured: Array,
    w_B: Vec3,
    lift_mps2: float,
    dt_s: float,
) -> int:
    """Index of a motor that gives no thrust, or -1; to be called at each step in flight.

    Args:
        watch: a :class:`MotorWatch`, advanced in place; its ``late_s`` is an input.
        airframe: AIRFRAME record.
        commands: (MAX_ROTORS,) rotor speeds commanded in the last step, rad/s.
        measured: (MAX_ROTORS,) speeds of the rotors in rad/s; NaN where there is no telemetry.
        w_B: body rates in rad/s.
        lift_mps2: specific thrust for the specific force along z of the body; NaN: unknown, and
            taken to be lacking.
        dt_s: time since the last step.
    """
    _follow(watch, airframe, commands, dt_s)
    _difference(watch, airframe, w_B, lift_mps2, dt_s)
    for i in range(airframe.rotors):
        told = math.isfinite(measured[i])
        if told:
            missing = measured[i] < LOST_SPEED * watch.least[i]
        else:
            missing = _explains(watch, airframe, i)
        watch.missing_s[i] = watch.missing_s[i] + dt_s if missing else 0.0
        if watch.missing_s[i] > (LOST_SPEED_S if told else LOST_SHARE_S + watch.late_s):
            return i
    return -1
