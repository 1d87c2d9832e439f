"""What the filters share that fuse a message when it arrives: start, time, and their driver.

The filters of the source systems know position, velocity and at most the heading; the attitude
comes from elsewhere. They start where the error-state filter would: its own window finds the start
(``line.state``), which the originals were told. Late data are fused on arrival.

Attitude from gyroscope and accelerometer by a complementary filter, as FCND's.

The angles integrated from the rates, pulled towards those of the
accelerometer with the weight dt / (tau + dt). The rates are integrated as a quaternion, which is
the Euler-rate matrix' integral without its pole at 90 degrees of pitch.

Covariance, updates and output of the filters that fuse on arrival; none has a gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from quadsim.base.compiled import Array, Records, kernel, template
from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.base.records import Odometry
from quadsim.estimation.eskf.alignment import restart
from quadsim.estimation.eskf.covariance import skew
from quadsim.estimation.eskf.driver import fuse_event, imu_input, log_innovations, triple
from quadsim.estimation.eskf.input_validation import accept
from quadsim.estimation.eskf.layout import (
    MOTION_SIZE,
    POSITION,
    REASON_IMU_GAP,
    REASON_NONE,
    REASON_NOT_FINITE,
    VELOCITY,
    YAW,
    DirectState,
)
from quadsim.estimation.eskf.measurement_buffer import (
    CLOCK_JUMP,
    DROP_FROM,
    HORIZON_NS,
    IMU,
    IMU_1,
    OK,
    Buffer,
    Input,
    drop_events,
)
from quadsim.estimation.eskf.mechanisation import (
    first_sample,
    learn_period,
    or_default,
    predict_or_align,
)
from quadsim.estimation.eskf.parameters import GAP_MAX_S
from quadsim.estimation.eskf.update import Sym3, cholesky, judge_innovation, whiten
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    exp,
    from_euler,
    multiply,
    normalize,
    quat,
    rotate,
    to_euler,
    to_matrix,
    wrap,
)
from quadsim.geometry.vector import scale, store, vec3


@kernel
def integrate_angles(
    q_WB: Quat, f_B: Vec3, w_B: Vec3, dt_s: float, tau_s: float, gravity_mps2: float
) -> Vec3:
    """Roll, pitch and yaw after one IMU sample.

    The accelerometer's angles are those of a vehicle that does not accelerate:
    roll = atan2(f_y, f_z), pitch = atan2(-f_x, g).

    Args:
        q_WB: attitude before.
        f_B: (3,) specific force, m/s^2.
        w_B: (3,) angular velocity, rad/s.
        dt_s: length of the sample's interval.
        tau_s: time constant of the accelerometer's pull.
        gravity_mps2: g.

    Returns:
        rad; yaw has no accelerometer in it.
    """
    roll, pitch, yaw = to_euler(normalize(multiply(q_WB, exp(scale(dt_s, w_B)))))
    weight = dt_s / (tau_s + dt_s)
    roll += weight * wrap(atan2(f_B[1], f_B[2]) - roll)
    pitch += weight * (atan2(-f_B[0], gravity_mps2) - pitch)
    return (wrap(roll), pitch, yaw)


@kernel
def magnetic_yaw(m_B: Vec3, roll: float, pitch: float, reference_W: Vec3) -> tuple[float, bool]:
    """Yaw from the magnetic field, levelled by roll and pitch.

    Args:
        m_B: (3,) field, T.
        roll: rad.
        pitch: rad.
        reference_W: (3,) field in the world, T.

    Returns:
        Yaw in rad, and whether there is one: not where the field stands nearly upright.
    """
    level_x, level_y, level_z = rotate_level(m_B, roll, pitch)
    horizontal2 = level_x * level_x + level_y * level_y
    known = horizontal2 >= 0.01 * (horizontal2 + level_z * level_z) and horizontal2 > 0.0
    north = atan2(reference_W[1], reference_W[0])
    return wrap(north - atan2(level_y, level_x)), known


@kernel
def rotate_level(a_B: Vec3, roll: float, pitch: float) -> Vec3:
    """A vector in the level frame of the vehicle's own heading: Ry(pitch) Rx(roll) a."""
    cr, sr = cos(roll), sin(roll)
    cp, sp = cos(pitch), sin(pitch)
    y, across = cr * a_B[1] - sr * a_B[2], sr * a_B[1] + cr * a_B[2]
    return (cp * a_B[0] + sp * across, y, cp * across - sp * a_B[0])


@kernel
def restart_direct(line: Buffer, reason: int) -> None:
    """Stop, and align with the next samples."""
    restart(line.state, reason)
    line.motion.running = 0


@kernel
def reach_sample(line: Buffer, sample: Input) -> float:
    """Let the time go on to an IMU sample; before the start, align with it.

    Returns:
        Length of its interval in s, if the filter is to be predicted over it, else 0; -1 where it
        has just been started.
    """
    state, motion, values = line.state, line.motion, sample.values
    w_S, w_variance = triple(values, 3), triple(values, 9)
    if motion.running == 0:
        imu = imu_input(state, line.params, values)
        if predict_or_align(state, line.params, sample.stamp_ns, imu):
            start_direct(line)
            return -1.0
        return 0.0
    interval_s = (sample.stamp_ns - state.imu_stamp_ns) * 1e-9
    if interval_s > GAP_MAX_S:
        restart_direct(line, REASON_IMU_GAP)
        first_sample(state, sample.stamp_ns)
        return 0.0
    learn_period(state, interval_s)
    state.imu_stamp_ns = sample.stamp_ns
    state.imu_count += 1
    motion.stamp_ns = sample.stamp_ns
    store(motion.w_B, rotate(quat(state.q_BS), w_S))
    store(motion.w_variance, or_default(w_variance, line.params.noise.gyro_density, state.period_s))
    return interval_s


@kernel
def start_direct(line: Buffer) -> None:
    """Take over what the alignment found; each filter states how far it trusts that."""
    state, motion = line.state, line.motion
    motion.running = 1
    motion.starts = state.starts
    motion.stamp_ns = state.stamp_ns
    motion.field_ns = state.stamp_ns
    q_BS = quat(state.q_BS)
    store(motion.p_W, vec3(state.p_W))
    store(motion.v_W, vec3(state.v_W))
    turn_to(motion, multiply(quat(state.q_WS), conjugate(q_BS)), q_BS)
    store(motion.w_B, rotate(q_BS, vec3(state.w_S)))
    store(motion.w_variance, vec3(state.w_variance))
    motion.covariance[:, :] = 0.0


@kernel
def turn_to(motion: DirectState, q_WB: Quat, q_BS: Quat) -> None:
    """Set the attitude."""
    store(motion.q_WB, q_WB)
    store(motion.q_WS, multiply(q_WB, q_BS))
    store(motion.angles, to_euler(q_WB))


@kernel
def check_finite(line: Buffer) -> None:
    """Start anew where a number has left the finite."""
    motion = line.motion
    total = motion.covariance[YAW, YAW] + motion.q_WB[0]
    for i in range(3):
        total += motion.p_W[i] + motion.v_W[i] + motion.angles[i]
        total += motion.covariance[POSITION + i, POSITION + i]
    if not math.isfinite(total):
        restart_direct(line, REASON_NOT_FINITE)


@kernel
def make_room(line: Buffer) -> None:
    """Drop events that no other can repeat any more."""
    if line.count >= DROP_FROM:
        line.done = line.count
        drop_events(line, line.newest_imu_ns - HORIZON_NS)
        line.done = 0


@template
def on_arrival(
    begin: Callable[[Buffer], None],
    predict: Callable[[Buffer, Input, float], None],
    fuse: Callable[[Buffer, Input], None],
    lines: Records[Buffer],
    kind: int,
    stamp_ns: int,
    values: Array,
    covariance: Array,
) -> int:
    """Take a message as it comes; see ``estimation.eskf.input_validation.accept``.

    Args:
        begin: sets the filter's first covariance.
        predict: takes it over an IMU sample's interval, of so many seconds.
        fuse: fuses a measurement with the filter, which runs.
        lines, kind, stamp_ns, values, covariance: as of that.
    """
    line = lines[0]
    line.newest = -1
    if kind > IMU_1:  # of two receivers and range finders the first ones alone
        return OK
    verdict = accept(lines, kind, stamp_ns, values, covariance)
    if line.newest < 0:
        return verdict
    event = line.events[line.newest]
    if kind >= IMU:
        if verdict == CLOCK_JUMP:
            restart_direct(line, REASON_NONE)
        dt_s = reach_sample(line, event)
        if dt_s > 0.0:
            predict(line, event, dt_s)
            check_finite(line)
        elif dt_s < 0.0:
            begin(line)
    elif line.motion.running == 1:
        fuse(line, event)
        log_innovations(line, event.stamp_ns)
    else:
        fuse_event(line.state, line.params, event)
    make_room(line)
    return verdict


#: Rotation about the world's axes, in the covariances that are put together for output.
ROTATION = 6


@kernel
def move_covariance(covariance: Array, dt_s: float) -> None:
    """Covariance after p += dt v, in place."""
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[POSITION + i, k] += dt_s * covariance[VELOCITY + i, k]
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[k, POSITION + i] += dt_s * covariance[k, VELOCITY + i]


@kernel
def turn_covariance(covariance: Array, column: Vec3) -> None:
    """Covariance after v += column yaw, in place."""
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[VELOCITY + i, k] += column[i] * covariance[YAW, k]
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[k, VELOCITY + i] += column[i] * covariance[k, YAW]


@kernel
def fuse_number(motion: DirectState, innovation: float, variance: float) -> None:
    """Kalman update by one number that sees ``motion.h``; adds to ``motion.correction``.

    x += K (z - h(x)), P = (1 - K H) P, which for one number is symmetric as it stands.
    """
    P, h, ph, correction = motion.covariance, motion.h, motion.ph, motion.correction
    S = variance
    for i in range(MOTION_SIZE):
        ph[i] = 0.0
        for k in range(MOTION_SIZE):
            ph[i] += P[i, k] * h[k]
    for i in range(MOTION_SIZE):
        S += h[i] * ph[i]
        innovation -= h[i] * correction[i]
    for i in range(MOTION_SIZE):
        gain = ph[i] / S
        correction[i] += gain * innovation
        for k in range(MOTION_SIZE):
            P[i, k] -= gain * ph[k]


@kernel
def fuse_vector(line: Buffer, sensor: int, at: int, z: Vec3, predicted: Vec3, noise: Sym3) -> None:
    """Fuse a position or a velocity; nothing happens where its noise is not positive definite."""
    state, motion = line.state, line.motion
    P = motion.covariance
    y = (z[0] - predicted[0], z[1] - predicted[1], z[2] - predicted[2])
    S = (
        P[at, at] + noise[0],
        P[at, at + 1] + noise[1],
        P[at, at + 2] + noise[2],
        P[at + 1, at + 1] + noise[3],
        P[at + 1, at + 2] + noise[4],
        P[at + 2, at + 2] + noise[5],
    )
    L = cholesky(noise)
    a, b, c = whiten(cholesky(S), y)
    nis = a * a + b * b + c * c
    if not (math.isfinite(nis) and math.isfinite(L[5])):
        return
    store(state.innovation[sensor], y)
    store(state.innovation_variance[sensor], (S[0], S[3], S[5]))
    judge_innovation(state, sensor, nis, math.inf)
    first = whiten(L, (1.0, 0.0, 0.0))  # columns of the inverse of L: the whitened rows of H
    second = whiten(L, (0.0, 1.0, 0.0))
    third = whiten(L, (0.0, 0.0, 1.0))
    white = whiten(L, y)
    motion.correction[:] = 0.0
    for i in range(3):
        motion.h[:] = 0.0
        motion.h[at] = first[i]
        motion.h[at + 1] = second[i]
        motion.h[at + 2] = third[i]
        fuse_number(motion, white[i], 1.0)


@kernel
def fuse_yaw(line: Buffer, sensor: int, yaw: float, variance: float) -> None:
    """Fuse a heading; the difference goes the short way round."""
    state, motion = line.state, line.motion
    innovation = wrap(yaw - motion.angles[2])
    S = motion.covariance[YAW, YAW] + variance
    state.innovation[sensor, 0], state.innovation_variance[sensor, 0] = innovation, S
    judge_innovation(state, sensor, innovation * innovation / S, math.inf)
    motion.h[:] = 0.0
    motion.h[YAW] = 1.0
    motion.correction[:] = 0.0
    fuse_number(motion, innovation, variance)


@kernel
def correct_motion(motion: DirectState, q_BS: Quat) -> None:
    """Move the state by ``motion.correction``."""
    x = motion.correction
    for i in range(3):
        motion.p_W[i] += x[POSITION + i]
        motion.v_W[i] += x[VELOCITY + i]
    if x[YAW] != 0.0:
        roll, pitch, yaw = vec3(motion.angles)
        turn_to(motion, from_euler(roll, pitch, wrap(yaw + x[YAW])), q_BS)


@kernel
def motion_odometry(motion: DirectState, out: Odometry) -> None:
    """The filter's output: from a MOTION into an ODOMETRY record."""
    P = motion.covariance
    out.stamp_ns = motion.stamp_ns
    store(out.p_W, vec3(motion.p_W))
    store(out.v_W, vec3(motion.v_W))
    store(out.q_WB, quat(motion.q_WB))
    store(out.w_B, vec3(motion.w_B))
    for i in range(3):
        out.p_variance[i] = P[POSITION + i, POSITION + i]
        out.v_variance[i] = P[VELOCITY + i, VELOCITY + i]
        out.attitude_variance[i] = motion.tilt_variance
    out.attitude_variance[2] = P[YAW, YAW]


@kernel
def direct_odometry(lines: Records[Buffer], odometry: Records[Odometry]) -> bool:
    """The filter's output, from and into arrays of one record; False: there is none yet."""
    motion_odometry(lines[0].motion, odometry[0])
    return lines[0].motion.running == 1


def whole_covariance(motion: DirectState) -> Array:
    """(9, 9) of position, velocity and rotation about the world's axes."""
    out = np.zeros((9, 9))
    at = [*range(6), ROTATION + 2]  # of the yaw
    out[np.ix_(at, at)] = motion.covariance
    out[[ROTATION, ROTATION + 1], [ROTATION, ROTATION + 1]] = motion.tilt_variance
    return out


def direct_pose_covariance(lines: Records[Buffer]) -> Array:
    """Covariance (6, 6) of the pose in ``map``: position, then rotation about its fixed axes."""
    at = [0, 1, 2, ROTATION, ROTATION + 1, ROTATION + 2]
    return whole_covariance(lines[0].motion)[np.ix_(at, at)]


def direct_twist_covariance(lines: Records[Buffer]) -> Array:
    """Covariance (6, 6) of the twist in ``base_link``: linear, then angular velocity.

    u = R^T v, so du = R^T (dv + v x theta); the rate is the gyroscope's, with its noise.
    """
    motion = lines[0].motion
    R_BW = np.array(to_matrix(conjugate(quat(motion.q_WB))))
    J = np.hstack([np.zeros((3, 3)), R_BW, R_BW @ np.array(skew(vec3(motion.v_W)))])
    out = np.diag(np.concatenate([np.zeros(3), motion.w_variance]))
    out[:3, :3] = J @ whole_covariance(motion) @ J.T
    return out
