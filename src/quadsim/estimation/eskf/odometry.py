"""Odometry in a frame of its own, such as a visual one's, and velocities from outside.

An odometry adds up ways in a frame F, of which only z is known to point up. Where its newest pose
lies in the world, the frame's yaw and the odometry's error of scale are states. They begin as a
copy of the vehicle's own pose, errors included (stochastic cloning: Roumeliotis and Burdick, ICRA
2002). From pose to pose that place moves by the odometry, and drifts: with the way flown and the
rotation, or as the variances that messages state grow, if that is more. So stated variances that
are too small do no harm. What is measured is that the vehicle is at that place. So an
odometry alone fixes the velocity, and the position's deviation grows with the way.

A pose that does not fit is a jump (relocalisation, loop closure): the states begin anew from it,
and the vehicle's own pose stays. So they do after a silence, of which nothing is known.

As in :mod:`~quadsim.estimation.eskf.gnss`, each kernel fuses at the state's own stamp and
returns REJECTED, ACCEPTED or IGNORED.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import mirror, shear, skew
from quadsim.estimation.eskf.gnss import add_skew, position_rows, velocity_rows
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    EXTERNAL_ODOMETRY,
    EXTERNAL_VELOCITY,
    FRAME,
    FRAME_SCALE,
    FRAME_YAW,
    IGNORED,
    ODOMETRY_YAW,
    REASON_MOTION,
    REJECTED,
    THETA,
    Eskf,
    N,
    P,
    V,
)
from quadsim.estimation.eskf.parameters import (
    FLIGHT_VELOCITY_SIGMA_MPS,
    RECOVERY_S,
    EstimatorParams,
)
from quadsim.estimation.eskf.update import (
    Sym3,
    forget_links,
    judge_innovation,
    rejected_for_s,
    update_scalar,
    update_vector,
)
from quadsim.geometry.rotation import (
    Quat,
    apply,
    conjugate,
    multiply,
    quat,
    rotate,
    to_matrix,
    unrotate,
    wrap,
)
from quadsim.geometry.vector import add, dot, norm, scale, store, subtract, vec3

#: After such a silence the frame may be another, s.
SILENCE_S = 0.5
#: How well the z axis of an odometry's frame points up, rad.
LEVEL_SIGMA_RAD = 0.05
UNIT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@kernel
def shear_by(covariance: Array, n: int, to: int, source: int, a: Vec3) -> None:
    """Covariance after x[to:to+3] += a x[source]; of (N, N), ``n`` are carried."""
    for i in range(3):
        for k in range(n):
            covariance[to + i, k] += a[i] * covariance[source, k]
    for i in range(3):
        for k in range(3):
            covariance[to + i, to + k] += a[k] * covariance[to + i, source]
    mirror(covariance, n, to)


@kernel
def way_in_world(state: Eskf, p_F: Vec3) -> Vec3:
    """Way from the newest pose of the odometry to this one, m."""
    x, y, z = subtract(p_F, vec3(state.odometry_p_F))
    c, s = cos(state.frame_yaw), sin(state.frame_yaw)
    return scale(1.0 + state.frame_scale, (c * x - s * y, s * x + c * y, z))


@kernel
def move_frame(
    state: Eskf, params: EstimatorParams, p_F: Vec3, variance_m2: float, variance_rad2: float
) -> float:
    """Move the place that the odometry knows to its new pose, and let it drift on the way.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_F: (3,) of the new pose, m.
        variance_m2: of its position, as its message states it; 0: unknown.
        variance_rad2: of its yaw.

    Returns:
        1 where it moved; 0 where nothing is known of the frame.
    """
    stated, covariance, noise = state.odometry_variance, state.covariance, params.noise
    dt_s = (state.stamp_ns - state.odometry_ns) * 1e-9
    if state.odometry_ns > 0 and dt_s > SILENCE_S:
        state.odometry_ns = 0
        state.odometry_jumps += 1
    growth_m2 = max(variance_m2 - stated[0], 0.0) if stated[0] > 0.0 else 0.0
    growth_rad2 = max(variance_rad2 - stated[1], 0.0) if stated[1] > 0.0 else 0.0
    stated[0], stated[1] = variance_m2, variance_rad2
    if state.odometry_ns == 0 or state.running == 0:
        return 0.0
    store(state.frame_p_W, add(vec3(state.frame_p_W), way_in_world(state, p_F)))
    # by the filter's velocity: the odometry's way has the noise that is in the innovation, too, and
    # the scale would learn from their product
    way_W = scale(dt_s, vec3(state.v_W))
    shear_by(covariance, state.n, FRAME, FRAME_YAW, (-way_W[1], way_W[0], 0.0))
    shear_by(covariance, state.n, FRAME, FRAME_SCALE, way_W)
    way_m = norm(way_W)
    turned_rad = norm(subtract(vec3(state.w_S), vec3(state.gyro_bias_S))) * dt_s
    drift_m2 = max(noise.odometry_position_walk**2 * way_m, growth_m2)
    drift_rad2 = noise.odometry_yaw_walk**2 * way_m + noise.odometry_turn_walk**2 * turned_rad
    for i in range(3):
        covariance[FRAME + i, FRAME + i] += drift_m2
    covariance[FRAME_YAW, FRAME_YAW] += max(drift_rad2, growth_rad2)
    store(state.odometry_p_F, p_F)
    state.odometry_ns = state.stamp_ns
    return 1.0


@kernel
def begin_frame(
    state: Eskf, params: EstimatorParams, p_F: Vec3, lever_W: Vec3, yaw_rad: float
) -> None:
    """Let the place and yaw that the odometry knows begin as the vehicle's own, with its noise.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_F: (3,) the odometry's position, m.
        lever_W: from the IMU to ``base_link``.
        yaw_rad: of the frame, by the vehicle's attitude.
    """
    covariance, noise = state.covariance, params.noise
    for at in range(state.n, N):  # from the first odometry on all states are carried
        forget_links(covariance, at)
    state.n = N
    for at in range(FRAME, N):
        forget_links(covariance, at)
        state.set_anew[at] = 1
    shear(covariance, N, FRAME, P, UNIT)
    shear(covariance, N, FRAME, THETA, skew((-lever_W[0], -lever_W[1], -lever_W[2])))
    for k in range(N):
        if k != FRAME_YAW:
            covariance[FRAME_YAW, k] = covariance[k, FRAME_YAW] = covariance[THETA + 2, k]
    yaw_variance = noise.odometry_yaw_sigma_rad**2
    covariance[FRAME_YAW, FRAME_YAW] = covariance[THETA + 2, THETA + 2] + yaw_variance
    covariance[FRAME_SCALE, FRAME_SCALE] = noise.odometry_scale**2
    for i in range(3):
        covariance[FRAME + i, FRAME + i] += noise.odometry_position_sigma_m**2
    store(state.frame_p_W, add(vec3(state.p_W), lever_W))
    state.frame_yaw, state.frame_scale = yaw_rad, 0.0
    store(state.odometry_p_F, p_F)
    state.odometry_ns = state.stamp_ns


@kernel
def is_level(state: Eskf, q_WF: Quat, limit: float) -> bool:
    """Whether z of the odometry's frame points up; if not, that is counted as a rejection."""
    lean2 = 4.0 * (q_WF[1] * q_WF[1] + q_WF[2] * q_WF[2])
    covariance = state.covariance
    variance = covariance[THETA, THETA] + covariance[THETA + 1, THETA + 1]
    variance += LEVEL_SIGMA_RAD * LEVEL_SIGMA_RAD
    if lean2 <= limit * variance:
        return True
    store(state.innovation[EXTERNAL_ODOMETRY], (math.sqrt(lean2), 0.0, 0.0))
    store(state.innovation_variance[EXTERNAL_ODOMETRY], (variance, 0.0, 0.0))
    judge_innovation(state, EXTERNAL_ODOMETRY, lean2 / variance, limit)
    return False


@kernel
def fuse_odometry(state: Eskf, params: EstimatorParams, p_F: Vec3, q_FB: Quat) -> int:
    """Fuse that ``base_link`` has moved and rotated as the odometry.

    Args:
        state: ESKF record, after :func:`move_frame`.
        params: packed EstimatorParams.
        p_F: (3,) position of ``base_link`` in F, m.
        q_FB: (4,) its attitude.
    """
    if state.running == 0:
        return IGNORED
    imu_B = vec3(params.mount.imu_position_B_m)
    q_BS = quat(state.q_BS)
    q_WB = multiply(quat(state.q_WS), conjugate(q_BS))
    q_WF = multiply(q_WB, conjugate(q_FB))
    if not is_level(state, q_WF, params.gate.chi2_1):
        state.odometry_ns = 0
        return REJECTED
    lever_W = rotate(q_WB, scale(-1.0, imu_B))
    yaw_rad = 2.0 * atan2(q_WF[3], q_WF[0])
    if state.odometry_ns == 0:
        begin_frame(state, params, p_F, lever_W, yaw_rad)
        return ACCEPTED
    position_rows(state, lever_W)
    for i in range(3):
        state.H[i, FRAME + i] = -1.0
    variance = params.noise.odometry_position_sigma_m**2
    innovation = subtract(vec3(state.frame_p_W), add(vec3(state.p_W), lever_W))
    result = update_vector(
        state, EXTERNAL_ODOMETRY, innovation, (variance, 0.0, 0.0, variance, 0.0, variance),
        params.gate.chi2_3,
    )  # fmt: skip
    if result == ACCEPTED:
        q_WF = multiply(multiply(quat(state.q_WS), conjugate(q_BS)), conjugate(q_FB))
        off_rad = wrap(state.frame_yaw - 2.0 * atan2(q_WF[3], q_WF[0]))
        state.h[:] = 0.0
        state.h[THETA + 2], state.h[FRAME_YAW] = 1.0, -1.0
        variance = params.noise.odometry_yaw_sigma_rad**2
        result = update_scalar(state, ODOMETRY_YAW, off_rad, variance, params.gate.chi2_1)
    if result == ACCEPTED:
        state.aided_ns = state.stamp_ns
        return result
    state.odometry_jumps += 1
    if rejected_for_s(state, EXTERNAL_ODOMETRY) > RECOVERY_S:
        doubt_velocity(state)
    begin_frame(state, params, p_F, lever_W, yaw_rad)
    return result


@kernel
def doubt_velocity(state: Eskf) -> None:
    """Nothing is known of the velocity: what measures the motion has contradicted it for long."""
    state.recoveries += 1
    state.reason = REASON_MOTION
    for i in range(3):
        forget_links(state.covariance, V + i)
        state.covariance[V + i, V + i] = FLIGHT_VELOCITY_SIGMA_MPS * FLIGHT_VELOCITY_SIGMA_MPS
    state.rejected_in_row[EXTERNAL_ODOMETRY] = 0
    state.rejected_in_row[EXTERNAL_VELOCITY] = 0


@kernel
def fuse_external_velocity(state: Eskf, params: EstimatorParams, v_B: Vec3, noise: Sym3) -> int:
    """Fuse the velocity of ``base_link`` in its own axes, as an odometry or a DVL measures it.

    A stated variance counts as at least that of the parameters.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        v_B: (3,) m/s.
        noise: upper half of its covariance, (m/s)^2.
    """
    if state.running == 0:
        return IGNORED
    q_BS = quat(state.q_BS)
    q_WB = multiply(quat(state.q_WS), conjugate(q_BS))
    lever_S = unrotate(q_BS, scale(-1.0, vec3(params.mount.imu_position_B_m)))
    w_S = subtract(vec3(state.w_S), vec3(state.gyro_bias_S))
    swing_W = velocity_rows(state, to_matrix(quat(state.q_WS)), w_S, lever_S)
    v_W = add(vec3(state.v_W), swing_W)
    innovation = subtract(rotate(q_WB, v_B), v_W)
    least = params.noise.external_velocity_sigma_mps**2
    xx, xy, xz, yy, yz, zz = noise
    N_B = ((max(xx, least), xy, xz), (xy, max(yy, least), yz), (xz, yz, max(zz, least)))
    R = to_matrix(q_WB)
    a = (apply(N_B, R[0]), apply(N_B, R[1]), apply(N_B, R[2]))
    noise_W = (
        dot(R[0], a[0]), dot(R[0], a[1]), dot(R[0], a[2]),
        dot(R[1], a[1]), dot(R[1], a[2]), dot(R[2], a[2]),
    )  # fmt: skip
    # as it is measured along the axes of the body, an error of the attitude turns it
    add_skew(state.H, THETA, v_W)
    result = update_vector(state, EXTERNAL_VELOCITY, innovation, noise_W, params.gate.chi2_3)
    if result == ACCEPTED:
        state.aided_ns = state.stamp_ns
        # what the velocity was corrected by turns with the attitude, too. Else each correction
        # would seem to tell something of the heading, of which this velocity tells nothing (Barrau
        # and Bonnabel, The invariant extended Kalman filter as a stable observer, 2017)
        gained_W = subtract(vec3(state.v_W), subtract(v_W, swing_W))
        shear(state.covariance, state.n, V, THETA, skew(scale(-1.0, gained_W)))
    elif rejected_for_s(state, EXTERNAL_VELOCITY) > RECOVERY_S:
        doubt_velocity(state)
    return result
