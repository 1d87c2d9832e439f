"""Attitude and rate loops: desired roll, pitch, yaw rate and thrust to rotor speeds.

Attitude: the shortest rotation that brings body z to where the command wants it (the reduced
attitude of Brescianini and D'Andrea, *Tilt-prioritized quadrocopter attitude control*, 2018), times
a gain, is the wanted roll and pitch rate; yaw is commanded as a rate about the vertical. Rates: PID
on the low-passed body rates; gains are angular accelerations, so the inertia scales them. A
helicopter turns as it is told, so the wanted rates are its command.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.elementary import atan2, cos, power, sin
from quadsim.base.parameters import Vec3
from quadsim.base.records import HELICOPTER, AttitudeCommand, Odometry
from quadsim.control.airframe import NO_SURVIVAL, SPIN, WITHOUT_YAW, Airframe
from quadsim.control.mixer import equal_speeds, mix, mix_by, stick
from quadsim.control.parameters import AttitudeParams, AutopilotParams
from quadsim.control.pid import integral_step, low_pass, low_pass_weight, rate_of_change
from quadsim.control.records import AttitudeControl
from quadsim.control.three_rotor_flight import spin_control
from quadsim.geometry.inertia import has_products, over_tensor, times_tensor
from quadsim.geometry.rotation import Quat, quat, rotate, unrotate, yaw_of
from quadsim.geometry.vector import add, cross, store, vec3

#: Most angular acceleration from the integral, body axes, rad/s^2.
RATE_INTEGRAL_LIMIT_RADPS2 = (20.0, 20.0, 4.0)
#: Specific thrust that means "armed, motors at their lowest speed", in m/s^2.
IDLE_THRUST = 1e-3


@kernel
def thrust_limits(reserve: float, airframe: Airframe) -> tuple[float, float]:
    """Least and most collective specific thrust in m/s^2 that leave room for roll and pitch."""
    least, most = airframe.thrust_min_mps2, airframe.thrust_max_mps2
    room = reserve * (most - least)
    return (least + room, most - room)


@kernel
def is_idle(thrust: float, airframe: Airframe) -> bool:
    """Whether a commanded specific thrust asks for no more than the lowest rotor speeds."""
    return bool(thrust <= max(airframe.thrust_min_mps2, 2.0 * IDLE_THRUST))


@kernel
def tilt_error(q_WB: Quat, q_command: Quat) -> Vec3:
    """Rotation vector in B that brings body z to the commanded direction, at the heading flown.

    Args:
        q_WB: attitude.
        q_command: commanded attitude; its yaw is ignored (replaced by that of ``q_WB``).

    Returns:
        Angle (at most pi) times axis in rad; its z component is 0.
    """
    turn = yaw_of(q_WB) - yaw_of(q_command)
    return tilt_from_up(up_commanded(q_WB, q_command, cos(turn), sin(turn)))


@inline
def up_commanded(q_WB: Quat, q_command: Quat, c: float, s: float) -> Vec3:
    """Commanded body z in B, at the heading flown.

    Args:
        q_WB: attitude.
        q_command: commanded attitude.
        c, s: cosine and sine of the yaw flown less the yaw commanded.
    """
    z_command = rotate(q_command, (0.0, 0.0, 1.0))
    wanted_W = (
        c * z_command[0] - s * z_command[1],
        s * z_command[0] + c * z_command[1],
        z_command[2],
    )
    return unrotate(q_WB, wanted_W)


@inline
def tilt_from_up(wanted_B: Vec3) -> Vec3:
    """Rotation vector that brings body z to a direction, in rad."""
    sine = math.sqrt(wanted_B[0] * wanted_B[0] + wanted_B[1] * wanted_B[1])
    angle = atan2(sine, wanted_B[2])
    if sine < 1e-9:
        return (angle, 0.0, 0.0)  # straight up, or straight down: any axis will do
    return (-wanted_B[1] * angle / sine, wanted_B[0] * angle / sine, 0.0)


@kernel
def wanted_rates(params: AutopilotParams, q_WB: Quat, q_command: Quat, yaw_rate: float) -> Vec3:
    """Body rates in rad/s that reduce the tilt error and turn about the vertical."""
    return rates_against(tilt_error(q_WB, q_command), params.attitude, q_WB, yaw_rate)


@inline
def rates_against(error: Vec3, attitude: AttitudeParams, q_WB: Quat, yaw_rate: float) -> Vec3:
    """:func:`wanted_rates` by the tilt error."""
    size = math.sqrt(error[0] * error[0] + error[1] * error[1])
    gain = attitude.tilt_gain
    if gain * size > attitude.tilt_rate_max_radps:
        gain = attitude.tilt_rate_max_radps / size
    turn_B = unrotate(q_WB, (0.0, 0.0, yaw_rate))
    return (gain * error[0] + turn_B[0], gain * error[1] + turn_B[1], turn_B[2])


@kernel
def reset_attitude_control(state: AttitudeControl) -> None:
    """Forget the integrals and the filter, as when the motors idle."""
    state.running = state.spinning = 0
    for i in range(3):
        state.integral[i] = 0.0
        state.cut[i] = 0.0


@kernel
def rate_gain_and_lead(attitude: AttitudeParams, motor_lag_s: float) -> tuple[float, float]:
    """What the gain and the lead of roll and pitch rate are multiplied by for slower motors.

    The lead is against the motors' lag, so it grows with that, and the gain with its root, which
    keeps every loop's margins (docs/control.md). Gains without a lead stay as they are.

    Args:
        attitude: attitude group of packed AutopilotParams.
        motor_lag_s: mean lag of the vehicle's motors.
    """
    if attitude.rate_lead_s <= 0.0 or attitude.motor_lag_s <= 0.0:
        return (1.0, 1.0)
    slower = max(motor_lag_s / attitude.motor_lag_s, 1.0)
    return (math.sqrt(slower), power(slower, 0.8))


@kernel
def wanted_w_dot(
    state: AttitudeControl,
    params: AutopilotParams,
    airframe: Airframe,
    w_B: Vec3,
    w_wanted: Vec3,
    dt_s: float,
) -> Vec3:
    """Angular acceleration in rad/s^2 by the rate loop's PID; advances its state.

    Yaw has no lead: the reaction of rotors that speed up turns the body before their drag does.
    """
    slower = rate_gain_and_lead(params.attitude, airframe.motor_lag_s)
    if state.running == 0:
        for i in range(3):
            state.w_B[i] = w_B[i]
        state.running = 1
    weight = low_pass_weight(params.attitude.gyro_cutoff_hz, dt_s)
    x, y, z = 0.0, 0.0, 0.0
    for i in range(3):
        state.w_B[i], state.integral[i], value = control_rate(
            i, state.w_B[i], w_B[i], w_wanted[i], state.integral[i], state.cut[i],
            params.attitude, slower, weight, dt_s,
        )  # fmt: skip
        if i == 0:
            x = value
        elif i == 1:
            y = value
        else:
            z = value
    return (x, y, z)


@inline
def control_rate(
    i: int,
    before: float,
    rate: float,
    wanted: float,
    integral: float,
    cut: float,
    attitude: AttitudeParams,
    slower: tuple[float, float],
    weight: float,
    dt_s: float,
) -> tuple[float, float, float]:
    """The rate loop's PID about one axis.

    Args:
        i: the axis, 0, 1 or 2.
        before: low-passed body rate of the last step in rad/s.
        rate: body rate.
        wanted: body rate that is wanted.
        integral: of the last step in rad/s^2.
        cut: angular acceleration that the rotors did not give.
        attitude: attitude group of packed AutopilotParams.
        slower: of :func:`rate_gain_and_lead`.
        weight: of the low-pass.
        dt_s: length of the step.

    Returns:
        The low-passed body rate, the integral, and the angular acceleration in rad/s^2.
    """
    filtered = low_pass(before, rate, weight)
    error = wanted - filtered
    limit = RATE_INTEGRAL_LIMIT_RADPS2[i]
    integral = integral_step(integral, error, attitude.rate_integral[i], cut, limit, dt_s)
    lead, gain = 0.0, attitude.rate_gain[i]
    if i < 2:
        lead, gain = slower[1] * attitude.rate_lead_s, slower[0] * gain
    change = rate_of_change(before, filtered, dt_s)
    return filtered, integral, gain * (error - lead * change) + integral


@inline
def torque_of(w_dot: Vec3, w_B: Vec3, inertia: Vec3) -> Vec3:
    """Torque in N m for an angular acceleration, with what the turning body needs."""
    gyroscopic = cross(w_B, (inertia[0] * w_B[0], inertia[1] * w_B[1], inertia[2] * w_B[2]))
    return (
        inertia[0] * w_dot[0] + gyroscopic[0],
        inertia[1] * w_dot[1] + gyroscopic[1],
        inertia[2] * w_dot[2] + gyroscopic[2],
    )


@inline
def skew_torque(w_dot: Vec3, w_B: Vec3, moments: Vec3, products: Vec3) -> Vec3:
    """The same as :func:`torque_of` with a full inertia matrix."""
    momentum = times_tensor(moments, products, w_B)
    return add(times_tensor(moments, products, w_dot), cross(w_B, momentum))


@kernel
def _account(state: AttitudeControl, missing: tuple[float, float, float, float]) -> None:
    """Note what of a wrench the rotors did not give."""
    state.mixed += 1
    if missing[0] != 0.0 or missing[1] != 0.0 or missing[2] != 0.0 or missing[3] != 0.0:
        state.short += 1
    for i in range(4):
        state.missing[i] = max(state.missing[i], abs(missing[i]))


@kernel
def attitude_control(
    state: AttitudeControl,
    params: AutopilotParams,
    airframe: Airframe,
    odometry: Odometry,
    command: AttitudeCommand,
    dt_s: float,
    rotor_speeds: Array,
) -> None:
    """One step of the inner loop, at the odometry's rate.

    Inputs must be finite: :func:`quadsim.control.inner_loop.inner_loop` sees to it.

    Args:
        state: an :class:`AttitudeControl`, advanced in place.
        params: packed AutopilotParams.
        airframe: AIRFRAME record.
        odometry: ODOMETRY record; its attitude and body rates count.
        command: ATTITUDE_COMMAND record; thrust 0 stops the rotors, a thrust below that of the
            lowest speeds idles.
        dt_s: time since the last step.
        rotor_speeds: (MAX_ROTORS,) result in rad/s, before that the commands of the last step; a
            helicopter's are body rates and throttle.
    """
    if command.thrust <= 0.0:
        reset_attitude_control(state)
        equal_speeds(airframe, 0.0, rotor_speeds)
        return
    if is_idle(command.thrust, airframe):
        reset_attitude_control(state)
        equal_speeds(airframe, command.thrust * airframe.mass_kg, rotor_speeds)
        return
    w_wanted = vec3(command.w_B)
    if command.by_rates == 0:
        w_wanted = wanted_rates(params, quat(odometry.q_WB), quat(command.q_WB), command.yaw_rate)
    least, most = thrust_limits(params.attitude.thrust_reserve, airframe)
    thrust_N = airframe.mass_kg * min(max(command.thrust, least), most)
    if airframe.kind == HELICOPTER:
        stick(airframe, thrust_N, w_wanted, rotor_speeds)
        return
    survival = airframe.survival[state.lost - 1] if state.lost > 0 else NO_SURVIVAL
    if survival == SPIN:
        spin_control(state, params, airframe, odometry, command, thrust_N, dt_s, rotor_speeds)
        return
    w_dot = wanted_w_dot(state, params, airframe, vec3(odometry.w_B), w_wanted, dt_s)
    inertia = airframe.inertia_kg_m2
    torque = torque_of(w_dot, vec3(state.w_B), vec3(inertia))
    products = vec3(airframe.inertia_products_kg_m2)
    if has_products(products):
        torque = skew_torque(w_dot, vec3(state.w_B), vec3(inertia), products)
    if survival == NO_SURVIVAL:
        given, tilt_share, yaw_share = mix(airframe, thrust_N, torque, rotor_speeds)
    else:
        left = airframe.allocation_without[state.lost - 1]
        given, tilt_share, yaw_share = mix_by(airframe, left, thrust_N, torque, rotor_speeds)
        if survival == WITHOUT_YAW:
            yaw_share = 0.0
    tilt, yaw = 1.0 - tilt_share, 1.0 - yaw_share
    _account(state, (thrust_N - given, tilt * torque[0], tilt * torque[1], yaw * torque[2]))
    state.cut[0] = tilt * torque[0] / inertia[0]
    state.cut[1] = tilt * torque[1] / inertia[1]
    state.cut[2] = yaw * torque[2] / inertia[2]
    if has_products(products):
        missing = (tilt * torque[0], tilt * torque[1], yaw * torque[2])
        store(state.cut, over_tensor(vec3(inertia), products, missing))
