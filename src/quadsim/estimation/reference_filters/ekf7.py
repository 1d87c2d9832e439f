"""The FCND estimation project's estimator: a complementary filter and an EKF of seven states.

Roll and pitch come from ``complementary``; position, velocity and yaw from an
EKF. After Udacity's *Estimation for Quadrotors* (Tellex, Brown and Lupashin, 2018), whose frames
are NED and FRD; here ENU and FLU, in which every equation keeps its form but for gravity's sign.
"""

from __future__ import annotations

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.driver import triple
from quadsim.estimation.eskf.layout import (
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    POSITION,
    VELOCITY,
    YAW,
)
from quadsim.estimation.eskf.measurement_buffer import Buffer, Input
from quadsim.estimation.eskf.parameters import FLIGHT_VELOCITY_SIGMA_MPS
from quadsim.estimation.reference_filters.fusion import (
    correct_motion,
    fuse_vector,
    fuse_yaw,
    integrate_angles,
    magnetic_yaw,
    move_covariance,
    on_arrival,
    turn_covariance,
    turn_to,
)
from quadsim.geometry.rotation import from_euler, quat, rotate
from quadsim.geometry.vector import vec3

#: Figures of its QuadEstimatorEKF.txt. QPosXYStd and QPosZStd: walk of the position, m/sqrt(s).
POSITION_WALK_XY = 0.01
POSITION_WALK_Z = 0.05
#: QVelXYStd and QVelZStd: walk of the velocity, m/s/sqrt(s).
VELOCITY_WALK_XY = 0.2
VELOCITY_WALK_Z = 0.5
#: QYawStd: walk of the yaw, rad/sqrt(s).
YAW_WALK = 0.15
#: GPSPosXYStd, GPSPosZStd, GPSVelXYStd and GPSVelZStd: deviations of GPS, m.
GPS_POSITION_XY_M = 1.0
GPS_POSITION_Z_M = 15.0
GPS_VELOCITY_XY_MPS = 0.4
GPS_VELOCITY_Z_MPS = 0.3
#: MagYawStd: deviation of the magnetic heading, rad.
MAG_YAW_RAD = 0.1
#: Time constant with which roll and pitch follow the accelerometer (attitudeTau), s.
ATTITUDE_TAU_S = 100.0
#: Deviation of roll and pitch as published, as they have no covariance, rad.
ATTITUDE_SIGMA_RAD = 0.1


@kernel
def ekf7_predict(line: Buffer, sample: Input, dt_s: float) -> None:
    """Prediction with one IMU sample: first the attitude, then the EKF with it.

    p += v dt, v += (R f - g e_z) dt; P = G P G^T + Q dt, G the identity but for dt in the rows of
    the position and d(R f)/d(yaw) dt = (e_z x R f) dt, called R_bg' f dt, in those of the velocity.

    Args:
        line: TIMELINE record.
        sample: the IMU's.
        dt_s: since the sample before.
    """
    motion, params, q_BS = line.motion, line.params, quat(line.state.q_BS)
    f_S, w_S = triple(sample.values, 0), triple(sample.values, 3)
    gravity_mps2 = params.gravity_mps2
    f_B, w_B = rotate(q_BS, f_S), rotate(q_BS, w_S)
    roll, pitch, yaw = integrate_angles(
        quat(motion.q_WB), f_B, w_B, dt_s, ATTITUDE_TAU_S, gravity_mps2
    )
    q_WB = from_euler(roll, pitch, yaw)
    turn_to(motion, q_WB, q_BS)
    f_W = rotate(q_WB, f_B)
    for i in range(3):
        motion.p_W[i] += dt_s * motion.v_W[i]
        motion.v_W[i] += dt_s * f_W[i]
    motion.v_W[2] -= dt_s * gravity_mps2
    P = motion.covariance
    move_covariance(P, dt_s)
    turn_covariance(P, (-dt_s * f_W[1], dt_s * f_W[0], 0.0))
    walks = (POSITION_WALK_XY, POSITION_WALK_XY, POSITION_WALK_Z)
    for i in range(3):
        P[POSITION + i, POSITION + i] += dt_s * walks[i] * walks[i]
    walks = (VELOCITY_WALK_XY, VELOCITY_WALK_XY, VELOCITY_WALK_Z)
    for i in range(3):
        P[VELOCITY + i, VELOCITY + i] += dt_s * walks[i] * walks[i]
    P[YAW, YAW] += dt_s * YAW_WALK * YAW_WALK


@kernel
def sigmas_of(sensor: int) -> Vec3:
    """What the filter believes of GPS, whatever the messages say: m, or m/s."""
    if sensor == GNSS_POSITION:
        return (GPS_POSITION_XY_M, GPS_POSITION_XY_M, GPS_POSITION_Z_M)
    return (GPS_VELOCITY_XY_MPS, GPS_VELOCITY_XY_MPS, GPS_VELOCITY_Z_MPS)


@kernel
def ekf7_begin(line: Buffer) -> None:
    """First covariance: the filter's own variances over the number of what the start averaged."""
    motion, params, window = line.motion, line.params, line.state.alignment
    P = motion.covariance
    p_sigma, v_sigma = sigmas_of(GNSS_POSITION), sigmas_of(GNSS_VELOCITY)
    for i in range(3):
        P[POSITION + i, POSITION + i] = params.start.position_m**2
        if window.fix_count > 0:
            P[POSITION + i, POSITION + i] = p_sigma[i] ** 2 / window.fix_count
        P[VELOCITY + i, VELOCITY + i] = FLIGHT_VELOCITY_SIGMA_MPS**2
        if window.velocity_count > 0:
            P[VELOCITY + i, VELOCITY + i] = v_sigma[i] ** 2 / window.velocity_count
    P[YAW, YAW] = MAG_YAW_RAD**2 / max(window.field_count, 1)
    motion.tilt_variance = ATTITUDE_SIGMA_RAD**2


@kernel
def ekf7_fuse(line: Buffer, event: Input) -> None:
    """Fuse an event, now; only GPS and the field have a place in this filter."""
    motion, params = line.motion, line.params
    kind, values = event.kind, event.values
    q_BS = quat(line.state.q_BS)
    if kind == GNSS_POSITION or kind == GNSS_VELOCITY:
        x, y, z = sigmas_of(kind)
        noise = (x * x, 0.0, 0.0, y * y, 0.0, z * z)
        if kind == GNSS_POSITION:
            predicted, at = vec3(motion.p_W), POSITION
        else:
            predicted, at = vec3(motion.v_W), VELOCITY
        fuse_vector(line, kind, at, triple(values, 0), predicted, noise)
        correct_motion(motion, q_BS)
    elif kind == MAGNETIC_FIELD:
        m_B = rotate(q_BS, triple(values, 0))
        roll, pitch, _ = vec3(motion.angles)
        yaw, known = magnetic_yaw(m_B, roll, pitch, vec3(params.magnetic_field_W_T))
        if known:
            fuse_yaw(line, kind, yaw, MAG_YAW_RAD**2)
            correct_motion(motion, q_BS)


@kernel
def ekf7_offer(
    lines: Records[Buffer], kind: int, stamp_ns: int, values: Array, covariance: Array
) -> int:
    """Take a message as it comes; see ``estimation.eskf.input_validation.accept``."""
    return on_arrival(
        ekf7_begin, ekf7_predict, ekf7_fuse, lines, kind, stamp_ns, values, covariance
    )
