"""Linear GPS/INS Kalman filter: position and velocity, with an attitude from elsewhere.

After A. Larsen, *Helicopter simulator and autopilot*, MSc thesis, NTNU, 2010: the control input is
the measured acceleration, rotated to the navigation frame by an attitude that the filter is given;
GPS position and velocity are the observation, and between two fixes nothing corrects it. With
``precision: single`` the measured acceleration, position and velocity are held in single precision,
as in the thesis, whose appendix D.2 traces an error of 3 cm in 30 s to it.
"""

from __future__ import annotations

import numpy as np

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import Kinematics
from quadsim.estimation.eskf.covariance import add_rotated
from quadsim.estimation.eskf.driver import triple, upper_half
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ATTITUDE,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    POSITION,
    VELOCITY,
    YAW,
)
from quadsim.estimation.eskf.measurement_buffer import Buffer, Input
from quadsim.estimation.eskf.mechanisation import mechanise, or_default
from quadsim.estimation.eskf.parameters import (
    COMPLEMENTARY,
    EXTERNAL,
    FLIGHT_VELOCITY_SIGMA_MPS,
    SINGLE,
)
from quadsim.estimation.reference_filters.fusion import (
    correct_motion,
    fuse_vector,
    integrate_angles,
    magnetic_yaw,
    move_covariance,
    on_arrival,
    turn_to,
)
from quadsim.geometry.rotation import from_euler, normalize, quat, rotate, to_matrix, wrap
from quadsim.geometry.vector import store, vec3

#: Time constant with which roll and pitch follow the accelerometer, s.
ATTITUDE_TAU_S = 2.0
#: Time constant with which yaw follows the magnetic heading, s.
HEADING_TAU_S = 2.0


@kernel
def _stored(precision: int, vector: Vec3) -> Vec3:
    """A vector as a variable of that precision holds it."""
    if precision != SINGLE:
        return vector
    x, y, z = np.float32(vector[0]), np.float32(vector[1]), np.float32(vector[2])
    return float(x), float(y), float(z)


@kernel
def gps_ins_predict(line: Buffer, sample: Input, dt_s: float) -> None:
    """Prediction with one IMU sample: x = F x + B u, u = R f + g, P = F P F^T + Q.

    The acceleration is rotated by the attitude in the middle of the interval. Q is the
    accelerometer's noise, and that of the attitude, which leans gravity by its error: white with
    the density of an error that stays for its correlation time, 2 T (g sigma)^2.

    Args:
        line: TIMELINE record.
        sample: the IMU's.
        dt_s: since the sample before.
    """
    motion, params, q_BS = line.motion, line.params, quat(line.state.q_BS)
    f_S, w_S = triple(sample.values, 0), triple(sample.values, 3)
    density, period_s = params.noise.accel_density, line.state.period_s
    f_variance = or_default(triple(sample.values, 6), density, period_s)
    own, gravity_mps2 = params.gps_ins, params.gravity_mps2
    f_S = _stored(own.precision, f_S)
    f_B, w_B = _stored(own.precision, rotate(q_BS, f_S)), rotate(q_BS, w_S)
    q_WB = quat(motion.q_WB)
    p_W, v_W, q_after, q_mid, _ = mechanise(
        vec3(motion.p_W), vec3(motion.v_W), q_WB, f_B, w_B, gravity_mps2, dt_s
    )
    store(motion.p_W, _stored(own.precision, p_W))
    store(motion.v_W, _stored(own.precision, v_W))
    if own.attitude == COMPLEMENTARY:
        roll, pitch, yaw = integrate_angles(q_WB, f_B, w_B, dt_s, ATTITUDE_TAU_S, gravity_mps2)
        q_after = from_euler(roll, pitch, yaw)
    turn_to(motion, q_after, q_BS)
    P = motion.covariance
    move_covariance(P, dt_s)
    share = dt_s * dt_s
    white = (f_variance[0] * share, f_variance[1] * share, f_variance[2] * share)
    add_rotated(P, VELOCITY, to_matrix(q_mid), white)
    lean = gravity_mps2 * own.attitude_sigma_rad
    for i in range(2):
        P[VELOCITY + i, VELOCITY + i] += 2.0 * own.attitude_correlation_s * lean * lean * dt_s


@kernel
def gps_ins_begin(line: Buffer) -> None:
    """First covariance: that of the fixes that the start averaged."""
    motion, params, window = line.motion, line.params, line.state.alignment
    P, own = motion.covariance, params.gps_ins
    for i in range(3):
        P[POSITION + i, POSITION + i] = params.start.position_m**2
        if window.fix_count > 0:
            P[POSITION + i, POSITION + i] = window.fix_variance_sum[i] / window.fix_count**2
        P[VELOCITY + i, VELOCITY + i] = FLIGHT_VELOCITY_SIGMA_MPS**2
        if window.velocity_count > 0:
            variance = window.velocity_variance_sum[i] / window.velocity_count**2
            P[VELOCITY + i, VELOCITY + i] = variance
    motion.tilt_variance = own.attitude_sigma_rad**2
    P[YAW, YAW] = own.attitude_sigma_rad**2


@kernel
def gps_ins_begin_at(lines: Records[Buffer], truths: Records[Kinematics], period_ns: int) -> None:
    """Begin with what the filter is told, as the thesis's is: the true motion, without any error.

    Args:
        lines: (1,) TIMELINE.
        truths: (1,) KINEMATICS record; its stamp is that of the newest IMU sample.
        period_ns: of the IMU.
    """
    line, true = lines[0], truths[0]
    state, motion = line.state, line.motion
    state.imu_stamp_ns = true.stamp_ns
    state.imu_count = max(state.imu_count, 1)
    state.period_s = period_ns * 1e-9
    line.newest_imu_ns = true.stamp_ns
    motion.running = 1
    motion.starts += 1
    motion.stamp_ns = true.stamp_ns
    motion.field_ns = true.stamp_ns
    store(motion.p_W, vec3(true.p_W))
    store(motion.v_W, vec3(true.v_W))
    store(motion.w_B, vec3(true.w_B))
    turn_to(motion, quat(true.q_WB), quat(state.q_BS))
    motion.covariance[:, :] = 0.0
    sigma = line.params.gps_ins.attitude_sigma_rad
    motion.tilt_variance = sigma * sigma
    motion.covariance[YAW, YAW] = sigma * sigma


@kernel
def follow_heading(line: Buffer, stamp_ns: int, m_S: Vec3) -> None:
    """Pull the yaw of the complementary attitude towards the magnetic heading."""
    motion, params = line.motion, line.params
    q_BS = quat(line.state.q_BS)
    roll, pitch, yaw = vec3(motion.angles)
    measured, known = magnetic_yaw(rotate(q_BS, m_S), roll, pitch, vec3(params.magnetic_field_W_T))
    dt_s = (stamp_ns - motion.field_ns) * 1e-9
    if not known or dt_s <= 0.0:
        return
    motion.field_ns = stamp_ns
    yaw += dt_s / (HEADING_TAU_S + dt_s) * wrap(measured - yaw)
    turn_to(motion, from_euler(roll, pitch, wrap(yaw)), q_BS)


@kernel
def gps_ins_fuse(line: Buffer, event: Input) -> None:
    """Fuse an event, now; pressure, range and external position have no place in this filter."""
    motion, accepted = line.motion, line.state.accepted
    kind, values = event.kind, event.values
    if kind == GNSS_POSITION or kind == GNSS_VELOCITY:
        if line.blind == 1:
            return
        noise = upper_half(values, 3)
        if kind == GNSS_POSITION:
            predicted, at = vec3(motion.p_W), POSITION
        else:
            predicted, at = vec3(motion.v_W), VELOCITY
        fuse_vector(line, kind, at, triple(values, 0), predicted, noise)
        correct_motion(motion, quat(line.state.q_BS))
    elif kind == MAGNETIC_FIELD and line.params.gps_ins.attitude == COMPLEMENTARY:
        follow_heading(line, event.stamp_ns, triple(values, 0))
        accepted[kind] += 1
    elif kind == EXTERNAL_ATTITUDE and line.params.gps_ins.attitude == EXTERNAL:
        q_WB = normalize((values[0], values[1], values[2], values[3]))
        turn_to(motion, q_WB, quat(line.state.q_BS))
        accepted[kind] += 1


@kernel
def gps_ins_offer(
    lines: Records[Buffer], kind: int, stamp_ns: int, values: Array, covariance: Array
) -> int:
    """Take a message as it comes; see ``estimation.eskf.input_validation.accept``."""
    return on_arrival(
        gps_ins_begin, gps_ins_predict, gps_ins_fuse, lines, kind, stamp_ns, values, covariance
    )
