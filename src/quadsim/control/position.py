"""Position and velocity loops: a setpoint to desired roll, pitch, yaw rate and thrust.

P on position, PI on velocity, the reference's velocity and acceleration fed forward. The wanted
specific force F = a + g e_z gives the direction of body z, within the tilt limit, and with it roll
and pitch at the present heading; the collective thrust is what gives F's vertical part at the
present tilt, so that height does not suffer while the attitude follows.

A level descent that a wrong vertical velocity turns neither into a climb nor into a fall.

Beside the estimate, the descent keeps the vertical velocity that its own thrust commands would
give (``v_model``); the thrust may push that model neither above zero nor below twice the wanted
speed. Where there is no estimate, the model takes its place.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Record, Vector, kernel
from quadsim.base.elementary import atan2, cos, sin, tan
from quadsim.base.parameters import Vec3, dtype_of, new, pack
from quadsim.base.records import (
    MODE_ATTITUDE,
    MODE_DESCEND,
    MODE_IDLE,
    MODE_POSITION,
    MODE_STOP,
    MODE_VELOCITY,
    AttitudeCommand,
    Odometry,
    Setpoint,
)
from quadsim.control.airframe import Airframe
from quadsim.control.attitude import IDLE_THRUST, thrust_limits
from quadsim.control.inputs import is_attitude, is_within_limits, size
from quadsim.control.navigation import ACCELERATION, NOSE_ON, cyclic
from quadsim.control.parameters import AutopilotParams
from quadsim.control.pid import LEAST_STEP_S, MOST_STEP_S, clamp, integral_step, limit_horizontal
from quadsim.geometry.rotation import from_euler, quat, rotate, wrap, yaw_of
from quadsim.geometry.vector import add, store, subtract, vec3

#: Most vertical acceleration from the integral: a mass that is wrong by 30 % needs so much, m/s^2.
INTEGRAL_LIMIT_Z_MPS2 = 3.0
#: Least and most thrust of a descent without position, over hover's.
BLIND_THRUST_MIN = 0.8
BLIND_THRUST_MAX = 1.15
#: Speed of the level descent of a vehicle whose commands are lost, m/s.
DESCENT_MPS = 0.7


class Descent(Record):
    """The vertical velocity (upwards, m/s) by its own model."""

    v_model: float


#: Least tilt compensation: the cosine of 60 degrees.
LEAST_COSINE = 0.5


@kernel
def start_descent(descent: Descent, v_up: float) -> None:
    """Begin at a vertical velocity (upwards, m/s) that is still trusted."""
    descent.v_model = v_up if math.isfinite(v_up) else 0.0


@kernel
def descent_force(
    descent: Descent, params: AutopilotParams, wanted: float, v_up: float, hover: float, dt_s: float
) -> float:
    """Vertical specific force in m/s^2 of one step of a descent.

    Args:
        descent: a :class:`Descent`, advanced in place.
        params: packed AutopilotParams.
        wanted: vertical velocity, at most 0, in m/s.
        v_up: estimated vertical velocity in m/s; not finite means there is none.
        hover: vertical specific force that carries the vehicle, in m/s^2.
        dt_s: length of the step.
    """
    wanted = min(wanted, 0.0)
    v = v_up if math.isfinite(v_up) else descent.v_model
    gain = params.position.velocity_gain_z
    highest = hover - gain * descent.v_model
    lowest = min(hover + gain * (2.0 * wanted - descent.v_model), 0.95 * hover)
    force = clamp(hover + gain * (wanted - v), lowest, max(highest, lowest))
    force = clamp(force, BLIND_THRUST_MIN * hover, BLIND_THRUST_MAX * hover)
    descent.v_model = max(descent.v_model + (force - hover) * dt_s, 2.0 * wanted)
    return force


@kernel
def along_body_z(force_up: float, cosine: float, least: float, most: float) -> float:
    """Collective specific thrust whose vertical part is ``force_up``, within limits.

    Args:
        force_up: wanted vertical specific force in m/s^2.
        cosine: of the tilt, vertical part of body z; upside down, the least thrust is best.
        least: lowest thrust in m/s^2.
        most: highest thrust in m/s^2.
    """
    if cosine <= 0.0:
        return least
    return clamp(force_up / max(cosine, LEAST_COSINE), least, most)


class PositionControl(Record):
    """State of the position and velocity loops."""

    mode: int
    thrust_min: float  # what the airframe can do, m/s^2
    thrust_max: float
    integral: Vector  # m/s^2, world axes
    a_before: Vector  # the reference's acceleration a step ago
    v_wanted_up: float
    descent: Descent


POSITION_CONTROL = dtype_of(PositionControl)


def new_position_control(params: AutopilotParams, airframe: Airframe) -> PositionControl:
    """State before the first step.

    Args:
        params: parameters of the autopilot.
        airframe: AIRFRAME record, for the limits of the thrust.
    """
    state = new(PositionControl)
    limits = thrust_limits(pack(params).attitude.thrust_reserve, airframe)
    state.thrust_min, state.thrust_max = limits
    return state


@kernel
def _reset(state: PositionControl) -> None:
    state.v_wanted_up = 0.0
    for i in range(3):
        state.integral[i] = 0.0


@kernel
def approach_speed(distance: float, gain: float, braking: float) -> float:
    """Speed towards a point: in proportion to the distance near it, farther off by its braking.

    Beyond ``braking / gain^2`` it is the speed from which a steady ``braking`` leads into the
    proportional part: sqrt(2 braking (d - braking / (2 gain^2))), with no step in speed or slope.

    Args:
        distance: to the point in m.
        gain: of the proportional part in 1/s.
        braking: deceleration on the way in m/s^2.
    """
    if gain * gain * distance <= braking:
        return gain * distance
    return math.sqrt(2.0 * braking * (distance - 0.5 * braking / (gain * gain)))


@kernel
def _wanted_velocity(params: AutopilotParams, odometry: Odometry, setpoint: Setpoint) -> Vec3:
    """Velocity in W that follows the setpoint, within the limits of speed."""
    v = vec3(setpoint.v_W)
    if setpoint.mode == MODE_POSITION:
        error = subtract(vec3(setpoint.p_W), vec3(odometry.p_W))
        distance = math.sqrt(error[0] * error[0] + error[1] * error[1])
        gain_xy, gain_z = params.position.position_gain_xy, params.position.position_gain_z
        speed = approach_speed(distance, gain_xy, params.position.braking_mps2)
        factor = speed / distance if distance > 0.0 else 0.0
        v = add(v, (factor * error[0], factor * error[1], gain_z * error[2]))
    most = params.position.speed_max_mps
    if setpoint.speed_mps > 0.0:
        most = min(most, setpoint.speed_mps)
    x, y = limit_horizontal(v[0], v[1], most)
    return (x, y, clamp(v[2], -params.position.descent_max_mps, params.position.ascent_max_mps))


@kernel
def _fed_forward(
    state: PositionControl, params: AutopilotParams, setpoint: Setpoint, dt_s: float
) -> Vec3:
    """The reference's acceleration, ahead by the lag of the attitude loop."""
    a = vec3(setpoint.a_W)
    lead = params.position.attitude_lag_s / dt_s if state.mode == setpoint.mode else 0.0
    x = a[0] + lead * (a[0] - state.a_before[0])
    y = a[1] + lead * (a[1] - state.a_before[1])
    store(state.a_before, a)
    return (x, y, a[2])


@kernel
def _wanted_force(
    state: PositionControl,
    params: AutopilotParams,
    odometry: Odometry,
    setpoint: Setpoint,
    dt_s: float,
) -> Vec3:
    """Specific force in W within the limits; advances the integrals against those limits."""
    limits = params.position
    v_wanted = _wanted_velocity(params, odometry, setpoint)
    error = subtract(v_wanted, vec3(odometry.v_W))
    a = add(_fed_forward(state, params, setpoint, dt_s), vec3(state.integral))
    ax = a[0] + limits.velocity_gain_xy * error[0]
    ay = a[1] + limits.velocity_gain_xy * error[1]
    up = params.gravity_mps2 + a[2] + limits.velocity_gain_z * error[2]

    given_up = clamp(up, state.thrust_min, state.thrust_max)
    # the vertical part has the first claim on the thrust; what is left may tilt it
    left = math.sqrt(max(state.thrust_max * state.thrust_max - given_up * given_up, 0.0))
    most = min(limits.acceleration_max_mps2, given_up * tan(limits.tilt_max_rad), left)
    given_x, given_y = limit_horizontal(ax, ay, most)

    xy, xy_limit = limits.velocity_integral_xy, limits.integral_limit_xy_mps2
    cut_x, cut_y = ax - given_x, ay - given_y
    state.integral[0] = integral_step(state.integral[0], error[0], xy, cut_x, xy_limit, dt_s)
    state.integral[1] = integral_step(state.integral[1], error[1], xy, cut_y, xy_limit, dt_s)
    state.integral[2] = integral_step(
        state.integral[2],
        error[2],
        limits.velocity_integral_z,
        up - given_up,
        INTEGRAL_LIMIT_Z_MPS2,
        dt_s,
    )
    state.v_wanted_up = v_wanted[2]
    return (given_x, given_y, given_up)


@kernel
def _wanted_yaw_rate(params: AutopilotParams, yaw: float, setpoint: Setpoint) -> float:
    """Yaw rate about the vertical in rad/s; the shortest way to the wanted yaw."""
    rate = setpoint.yaw_rate
    if setpoint.mode == MODE_POSITION:
        rate += params.position.yaw_gain * wrap(setpoint.yaw - yaw)
    most = params.position.yaw_rate_max_radps
    return clamp(rate, -most, most)


@kernel
def _usable(odometry: Odometry, setpoint: Setpoint) -> bool:
    """Whether everything that following a setpoint needs is a number."""
    total = size(odometry.v_W) + size(setpoint.v_W) + size(setpoint.a_W) + abs(setpoint.yaw_rate)
    if setpoint.mode == MODE_POSITION:
        total += size(odometry.p_W) + size(setpoint.p_W) + abs(setpoint.yaw)
    return is_attitude(odometry.q_WB) and is_within_limits(total)


@kernel
def _descend(
    state: PositionControl,
    params: AutopilotParams,
    odometry: Odometry,
    v_wanted: float,
    dt_s: float,
) -> float:
    """Thrust of a level descent; the integral tells what carries the vehicle."""
    if state.mode != MODE_DESCEND:
        start_descent(state.descent, state.v_wanted_up)
    hover = params.gravity_mps2 + state.integral[2]
    wanted = v_wanted if math.isfinite(v_wanted) else -DESCENT_MPS
    force = descent_force(state.descent, params, wanted, odometry.v_W[2], hover, dt_s)
    cosine = 1.0
    if is_attitude(odometry.q_WB):
        cosine = rotate(quat(odometry.q_WB), (0.0, 0.0, 1.0))[2]
    return along_body_z(force, cosine, state.thrust_min, state.thrust_max)


@kernel
def _pass_on(
    state: PositionControl,
    params: AutopilotParams,
    odometry: Odometry,
    setpoint: Setpoint,
    command: AttitudeCommand,
) -> None:
    """Yaw rate and thrust of an attitude setpoint, within the limits."""
    most = params.position.yaw_rate_max_radps
    command.yaw_rate = clamp(setpoint.yaw_rate, -most, most)
    command.thrust = clamp(setpoint.thrust, state.thrust_min, state.thrust_max)
    state.v_wanted_up = odometry.v_W[2]


@kernel
def position_control(
    state: PositionControl,
    params: AutopilotParams,
    odometry: Odometry,
    setpoint: Setpoint,
    dt_s: float,
    command: AttitudeCommand,
) -> None:
    """One step of the outer loop; its command is finite whatever the inputs are.

    An odometry or a setpoint with a number missing is answered by a level descent.

    Args:
        state: POSITION_CONTROL record, advanced in place.
        params: packed AutopilotParams.
        odometry: ODOMETRY record.
        setpoint: SETPOINT record; modes as in :data:`quadsim.base.records.SETPOINT_MODES`.
        dt_s: time since the last step; taken to be at least LEAST_STEP_S, at most MOST_STEP_S.
        command: ATTITUDE_COMMAND record, the result; it carries the odometry's stamp.
    """
    dt_s = clamp(dt_s, LEAST_STEP_S, MOST_STEP_S)
    command.stamp_ns = odometry.stamp_ns
    yaw = yaw_of(quat(odometry.q_WB)) if is_attitude(odometry.q_WB) else 0.0
    roll, pitch, command.yaw_rate = 0.0, 0.0, 0.0
    mode = setpoint.mode
    if mode in (MODE_STOP, MODE_IDLE):
        _reset(state)
        command.thrust = 0.0 if mode == MODE_STOP else IDLE_THRUST
    elif mode in (MODE_POSITION, MODE_VELOCITY) and _usable(odometry, setpoint):
        force = _wanted_force(state, params, odometry, setpoint, dt_s)
        command.yaw_rate = _wanted_yaw_rate(params, yaw, setpoint)
        # the attitude loop turns the tilt with the heading, and corrects it after its lag alone
        ahead = yaw + params.position.attitude_lag_s * command.yaw_rate
        c, s = cos(ahead), sin(ahead)
        forward, left = c * force[0] + s * force[1], -s * force[0] + c * force[1]
        if mode == MODE_POSITION and params.position.navigation in (NOSE_ON, ACCELERATION):
            forward, left, yaw_rate, turning = cyclic(params, odometry, setpoint, yaw)
            state.integral[0], state.integral[1] = 0.0, 0.0  # a PD has none
            if turning:
                command.yaw_rate = yaw_rate
        pitch = atan2(forward, force[2])
        roll = atan2(-left, math.sqrt(forward * forward + force[2] * force[2]))
        body_z = rotate(quat(odometry.q_WB), (0.0, 0.0, 1.0))
        command.thrust = along_body_z(force[2], body_z[2], state.thrust_min, state.thrust_max)
    elif mode == MODE_ATTITUDE and is_within_limits(
        size((setpoint.roll, setpoint.pitch, setpoint.thrust)) + abs(setpoint.yaw_rate)
    ):
        roll = clamp(setpoint.roll, -params.position.tilt_max_rad, params.position.tilt_max_rad)
        pitch = clamp(setpoint.pitch, -params.position.tilt_max_rad, params.position.tilt_max_rad)
        _pass_on(state, params, odometry, setpoint, command)
    else:
        mode = MODE_DESCEND
        command.thrust = _descend(state, params, odometry, setpoint.v_W[2], dt_s)
    store(command.q_WB, from_euler(roll, pitch, yaw))
    state.mode = mode
