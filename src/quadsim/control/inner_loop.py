"""The inner loop with its watchdog: what the mixer node and the closed loop call.

A lost attitude command ends in a level descent on the odometry's vertical velocity; a lost
odometry ends in equal rotor speeds a little below hover and a stop after the time that a descent
from the last known height takes. A message with a NaN counts as not received. See docs/control.md.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, Record, Records, Vector, kernel
from quadsim.base.parameters import dtype_of, new
from quadsim.base.records import HELICOPTER, MAX_ROTORS, AttitudeCommand, Odometry, PerRotor
from quadsim.control.airframe import Airframe
from quadsim.control.attitude import (
    attitude_control,
    is_idle,
    reset_attitude_control,
    thrust_limits,
)
from quadsim.control.inputs import is_attitude, is_within_limits, size
from quadsim.control.mixer import equal_speeds
from quadsim.control.motor_loss import (
    MotorWatch,
    expected_w_dot,
    lost_motor,
    reset_motor_watch,
)
from quadsim.control.parameters import AutopilotParams
from quadsim.control.pid import LEAST_STEP_S, MOST_STEP_S, clamp
from quadsim.control.position import (
    DESCENT_MPS,
    Descent,
    along_body_z,
    descent_force,
    start_descent,
)
from quadsim.control.records import AttitudeControl
from quadsim.geometry.rotation import exp, multiply, normalize, quat, rotate, unrotate
from quadsim.geometry.vector import add, scale, store, subtract, vec3

#: Age of the odometry at which attitude feedback pauses, s.
ODOMETRY_HOLD_S = 0.05
#: Age of the odometry that means it is lost, s.
ODOMETRY_TIMEOUT_S = 0.5
#: Thrust without odometry over hover's: it sinks.
OPEN_LOOP_THRUST = 0.97
#: Low thrust and no motion this long mean landed, s.
LANDED_AFTER_S = 1.0
#: waiting: rotors stopped, nothing to fly. flying: commands are obeyed (idling included).
#: command lost: level descent. odometry lost: open loop. stopped: landed by the watchdog; a
#: command with thrust 0 ends it.
PHASES = ("waiting", "flying", "command lost", "odometry lost", "stopped")
WAITING, FLYING, COMMAND_LOST, ODOMETRY_LOST, STOPPED = range(5)

#: Share of the wanted descent below which the ground holds the vehicle.
STILL_SHARE = 0.35

#: Time constant with which the thrust that hovers is learned, s.
HOVER_LEARNING_S = 2.0


class InnerLoop(Record):
    """State of the inner loop and its watchdogs."""

    phase: int
    airborne: int  # the last command asked for more than idling
    attitude: AttitudeControl
    descent: Descent
    odometry: Odometry  # the last one that was whole
    odometry_age_s: float
    command: AttitudeCommand  # likewise
    command_age_s: float
    hover: float  # vertical specific force that carries the vehicle, m/s^2
    ground_m: float  # p_W z when it last stood
    still_s: float
    time_left_s: float  # of the open-loop descent
    motors: MotorWatch
    measured: PerRotor  # rotor speeds, rad/s; NaN without telemetry
    commanded: PerRotor  # in the last step
    gyro_B: Vector  # the newest rates without their bias, rad/s; NaN: none
    unseen: int  # whether the rates are foretold, as the odometry knows none
    trim: Vector  # angular acceleration that held level before, rad/s^2


INNER_LOOP = dtype_of(InnerLoop)


def new_inner_loop() -> InnerLoop:
    """State before anything was received."""
    state = new(InnerLoop)
    state.odometry_age_s = math.inf
    state.command_age_s = math.inf
    state.measured[:] = math.nan
    state.gyro_B[:] = math.nan
    return state


@kernel
def _coast(state: InnerLoop, dt_s: float) -> bool:
    """Carry the last attitude on by the gyroscope; whether there is one that measures."""
    w_B = vec3(state.gyro_B)
    if state.unseen == 1 or not (is_within_limits(size(w_B)) and is_attitude(state.odometry.q_WB)):
        return False
    turn = exp((w_B[0] * dt_s, w_B[1] * dt_s, w_B[2] * dt_s))
    store(state.odometry.q_WB, normalize(multiply(quat(state.odometry.q_WB), turn)))
    store(state.odometry.w_B, w_B)
    return True


@kernel
def _foretell_turn(state: InnerLoop, airframe: Airframe, dt_s: float) -> None:
    """Carry attitude and rates on by the turn that the commanded thrusts give.

    What the integrals of the rate loop held against before is held against still.
    """
    if state.unseen == 0:
        store(state.trim, vec3(state.attitude.integral))
        store(state.odometry.w_B, vec3(state.attitude.w_B))
    state.unseen = 1
    w_B = vec3(state.odometry.w_B)
    for i in range(3):
        w_dot = expected_w_dot(state.motors, airframe, w_B, i) - state.trim[i]
        state.odometry.w_B[i] += w_dot * dt_s
    turn = exp(scale(dt_s, vec3(state.odometry.w_B)))
    store(state.odometry.q_WB, normalize(multiply(quat(state.odometry.q_WB), turn)))


@kernel
def _receive_odometry(
    state: InnerLoop, airframe: Airframe, odometry: Odometry, age_s: float, dt_s: float
) -> None:
    """Keep a whole odometry; one with a NaN was not received, the last one grows older.

    Between two odometries the attitude goes on by the gyroscope, where there is one. Rates of zero
    to the bit with a deviation stated are guessed, as by an estimator whose gyroscope fails.
    Its attitude does not turn either: both are foretold in flight.
    """
    total = size(odometry.p_W) + size(odometry.v_W) + size(odometry.w_B)
    if not (is_attitude(odometry.q_WB) and is_within_limits(total) and math.isfinite(age_s)):
        state.odometry_age_s += dt_s
        _coast(state, dt_s)
        return
    if age_s > 0.0 and odometry.stamp_ns == state.odometry.stamp_ns and _coast(state, dt_s):
        state.odometry_age_s = age_s
        return
    state.odometry_age_s = age_s
    state.odometry.stamp_ns = odometry.stamp_ns
    for i in range(3):
        state.odometry.p_W[i] = odometry.p_W[i]
        state.odometry.v_W[i] = odometry.v_W[i]
    guessed = size(odometry.w_B) == 0.0 and odometry.w_variance > 0.0
    if guessed and state.airborne == 1 and airframe.kind != HELICOPTER:
        _foretell_turn(state, airframe, dt_s)
        return
    state.unseen = 0
    store(state.odometry.w_B, vec3(odometry.w_B))
    store(state.odometry.q_WB, normalize(quat(odometry.q_WB)))


@kernel
def _receive_command(state: InnerLoop, command: AttitudeCommand, age_s: float, dt_s: float) -> None:
    """Keep a whole command; see :func:`_receive_odometry`."""
    total = abs(command.thrust) + abs(command.yaw_rate) + size(command.w_B)
    if not (is_attitude(command.q_WB) and is_within_limits(total) and math.isfinite(age_s)):
        state.command_age_s += dt_s
        return
    state.command_age_s = age_s
    state.command.stamp_ns = command.stamp_ns
    state.command.thrust = command.thrust
    state.command.yaw_rate = command.yaw_rate
    state.command.by_rates = command.by_rates
    store(state.command.w_B, vec3(command.w_B))
    store(state.command.q_WB, normalize(quat(command.q_WB)))


@kernel
def _next_phase(state: InnerLoop, params: AutopilotParams) -> int:
    """Phase that the ages and the last command call for."""
    commanded = state.command_age_s <= params.watchdog.command_timeout_s
    located = state.odometry_age_s <= ODOMETRY_TIMEOUT_S
    if commanded and state.command.thrust <= 0.0:
        return WAITING
    if state.phase == STOPPED:
        return STOPPED
    if commanded and located:
        return FLYING
    if state.airborne == 0:
        return WAITING
    return COMMAND_LOST if located else ODOMETRY_LOST


@kernel
def _enter(state: InnerLoop, params: AutopilotParams, phase: int) -> None:
    """Start of a phase: what the descents need to know."""
    if phase == COMMAND_LOST:
        start_descent(state.descent, state.odometry.v_W[2])
        state.still_s = 0.0
    if phase == ODOMETRY_LOST:
        height = max(state.odometry.p_W[2] - state.ground_m, 0.0)
        falling = (1.0 - OPEN_LOOP_THRUST) * params.gravity_mps2
        state.time_left_s = math.sqrt(2.0 * height / falling) + 1.0
    if phase in (WAITING, STOPPED):
        state.airborne = 0
        state.attitude.lost = 0
    state.phase = phase


@kernel
def _watch_motors(
    state: InnerLoop, params: AutopilotParams, airframe: Airframe, dt_s: float
) -> None:
    """Find a motor that gives no thrust; the first one counts until the rotors are stopped."""
    if airframe.kind == HELICOPTER:
        return
    w_B, v_W = vec3(state.odometry.w_B), vec3(state.odometry.v_W)
    lift = math.nan
    if state.motors.running == 1 and state.odometry_age_s < dt_s:
        f_W = scale(1.0 / dt_s, subtract(v_W, vec3(state.motors.v_W)))
        f_W = add(f_W, (0.0, 0.0, params.gravity_mps2))
        lift = unrotate(quat(state.odometry.q_WB), f_W)[2] * state.hover / params.gravity_mps2
    store(state.motors.v_W, v_W)
    lost = lost_motor(state.motors, airframe, state.commanded, state.measured, w_B, lift, dt_s)
    if lost >= 0 and state.attitude.lost == 0:
        state.attitude.lost = lost + 1


@kernel
def _fly(
    state: InnerLoop, params: AutopilotParams, airframe: Airframe, dt_s: float, rotor_speeds: Array
) -> None:
    """Fly the last command; without a recent attitude or a gyroscope, only its thrust."""
    recent = state.odometry_age_s <= ODOMETRY_HOLD_S
    if recent or is_within_limits(size(state.gyro_B)):
        _watch_motors(state, params, airframe, dt_s)
        for i in range(MAX_ROTORS):
            rotor_speeds[i] = state.commanded[i]
        attitude_control(
            state.attitude, params, airframe, state.odometry, state.command, dt_s, rotor_speeds
        )
        return
    reset_attitude_control(state.attitude)
    reset_motor_watch(state.motors)
    least, most = thrust_limits(params.attitude.thrust_reserve, airframe)
    thrust_N = airframe.mass_kg * clamp(state.command.thrust, least, most)
    equal_speeds(airframe, thrust_N, rotor_speeds)


@kernel
def _obey(
    state: InnerLoop, params: AutopilotParams, airframe: Airframe, dt_s: float, rotor_speeds: Array
) -> None:
    """Follow the attitude command and learn what thrust hovers."""
    command, odometry = state.command, state.odometry
    gravity = params.gravity_mps2
    if is_idle(command.thrust, airframe):
        state.airborne = 0
        state.hover = gravity
        state.ground_m = odometry.p_W[2]
        reset_attitude_control(state.attitude)
        reset_motor_watch(state.motors)
        equal_speeds(airframe, command.thrust * airframe.mass_kg, rotor_speeds)
        return
    state.airborne = 1
    _fly(state, params, airframe, dt_s, rotor_speeds)
    up = command.thrust * rotate(quat(odometry.q_WB), (0.0, 0.0, 1.0))[2]
    learned = state.hover + min(dt_s / HOVER_LEARNING_S, 1.0) * (up - state.hover)
    state.hover = clamp(learned, 0.8 * gravity, 1.2 * gravity)


@kernel
def _descend(
    state: InnerLoop, params: AutopilotParams, airframe: Airframe, dt_s: float, rotor_speeds: Array
) -> bool:
    """Level descent on the odometry, yaw rate 0; tells whether the vehicle has landed."""
    odometry, command = state.odometry, state.command
    v_up = odometry.v_W[2]
    force = descent_force(state.descent, params, -DESCENT_MPS, v_up, state.hover, dt_s)
    body_z = rotate(quat(odometry.q_WB), (0.0, 0.0, 1.0))
    least, most = thrust_limits(params.attitude.thrust_reserve, airframe)
    command.thrust = along_body_z(force, body_z[2], least, most)
    command.yaw_rate, command.by_rates = 0.0, 0
    store(command.q_WB, (1.0, 0.0, 0.0, 0.0))
    _fly(state, params, airframe, dt_s, rotor_speeds)
    still = abs(v_up) < STILL_SHARE * DESCENT_MPS
    state.still_s = state.still_s + dt_s if still else 0.0
    return bool(state.still_s >= LANDED_AFTER_S)


@kernel
def _act(
    state: InnerLoop, params: AutopilotParams, airframe: Airframe, dt_s: float, rotor_speeds: Array
) -> int:
    """Rotor speeds of the phase that the inputs call for; the phase."""
    phase = _next_phase(state, params)
    if phase != state.phase:
        _enter(state, params, phase)
    if phase == FLYING:
        _obey(state, params, airframe, dt_s, rotor_speeds)
        return phase
    if phase == COMMAND_LOST:
        if not _descend(state, params, airframe, dt_s, rotor_speeds):
            return phase
        _enter(state, params, STOPPED)
    elif phase == ODOMETRY_LOST:
        state.time_left_s -= dt_s
        thrust = OPEN_LOOP_THRUST * state.hover
        if state.time_left_s > 0.0:
            cosine = rotate(quat(state.odometry.q_WB), (0.0, 0.0, 1.0))[2]
            coasts = is_within_limits(size(state.gyro_B))
            least, most = thrust_limits(params.attitude.thrust_reserve, airframe)
            state.command.thrust = along_body_z(thrust, cosine, least, most) if coasts else thrust
            state.command.yaw_rate, state.command.by_rates = 0.0, 0
            store(state.command.q_WB, (1.0, 0.0, 0.0, 0.0))
            _fly(state, params, airframe, dt_s, rotor_speeds)
            return phase
        _enter(state, params, STOPPED)
    reset_attitude_control(state.attitude)
    reset_motor_watch(state.motors)
    equal_speeds(airframe, 0.0, rotor_speeds)
    return int(state.phase)


@kernel
def inner_loop(
    state: InnerLoop,
    params: AutopilotParams,
    airframe: Airframe,
    odometry: Odometry,
    odometry_age_s: float,
    command: AttitudeCommand,
    command_age_s: float,
    dt_s: float,
    rotor_speeds: Array,
) -> int:
    """One step of attitude control under the watchdog; the rotor speeds are always finite.

    Args:
        state: INNER_LOOP record, advanced in place; its ``measured`` and ``motors.late_s`` are
            inputs too. A lost motor is in its ``attitude.lost``, counted from 1.
        params: packed AutopilotParams.
        airframe: AIRFRAME record.
        odometry: newest ODOMETRY record.
        odometry_age_s: its age; infinite if there was none yet.
        command: newest ATTITUDE_COMMAND record.
        command_age_s: its age; infinite if there was none yet.
        dt_s: time since the last step; taken to be at least LEAST_STEP_S, at most MOST_STEP_S.
        rotor_speeds: (MAX_ROTORS,) result in rad/s.

    Returns:
        The phase, an index of :data:`PHASES`.
    """
    dt_s = clamp(dt_s, LEAST_STEP_S, MOST_STEP_S)
    if state.hover == 0.0:
        state.hover = params.gravity_mps2
    _receive_odometry(state, airframe, odometry, odometry_age_s, dt_s)
    _receive_command(state, command, command_age_s, dt_s)
    phase = _act(state, params, airframe, dt_s, rotor_speeds)
    for i in range(MAX_ROTORS):
        state.commanded[i] = rotor_speeds[i]
    return phase


@kernel
def inner_loop_from_python(
    states: Records[InnerLoop],
    params: Records[AutopilotParams],
    airframes: Records[Airframe],
    odometries: Records[Odometry],
    odometry_age_s: float,
    commands: Records[AttitudeCommand],
    command_age_s: float,
    dt_s: float,
    rotor_speeds: Array,
) -> int:
    """:func:`inner_loop` with arrays of one record: a record alone takes microseconds to pass."""
    return inner_loop(
        states[0],
        params[0],
        airframes[0],
        odometries[0],
        odometry_age_s,
        commands[0],
        command_age_s,
        dt_s,
        rotor_speeds,
    )
