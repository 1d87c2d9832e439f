"""What holds a filter where GNSS does not: an external pose, standing still, gravity, rotor drag.

As in :mod:`~quadsim.estimation.eskf.gnss`, each kernel fuses at the state's own stamp and reports
REJECTED, ACCEPTED or IGNORED.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.elementary import exp
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.alignment import start_from_pose
from quadsim.estimation.eskf.gnss import position_rows
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    BA,
    BG,
    DRAG,
    EXTERNAL_ATTITUDE,
    EXTERNAL_POSITION,
    GRAVITY,
    IGNORED,
    REASON_EXTERNAL,
    REJECTED,
    THETA,
    WIND,
    ZERO_VELOCITY,
    Eskf,
    V,
)
from quadsim.estimation.eskf.parameters import RECOVERY_S, STILL_RATE_RADPS, EstimatorParams
from quadsim.estimation.eskf.update import Sym3, rejected_for_s, update_scalar, update_vector
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    log,
    multiply,
    quat,
    rotate,
    to_matrix,
    unrotate,
)
from quadsim.geometry.vector import add, cross, scale, store, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: Deviation of the rotor-drag model over a mean of 20 ms, m/s^2.
DRAG_SIGMA_MPS2 = 0.5
#: Deviation of the velocity of a vehicle that stands, m/s.
ZERO_VELOCITY_SIGMA_MPS = 0.05

#: Time over which the gyroscope of a vehicle at rest is averaged.
REST_PERIOD_NS = 500_000_000
#: Time over which the specific force is averaged for gravity's direction, and for the drag.
GRAVITY_PERIOD_NS = 100_000_000
DRAG_PERIOD_NS = 20_000_000


@kernel
def fuse_external_position(state: Eskf, params: EstimatorParams, p_W: Vec3, noise: Sym3) -> int:
    """Fuse the position of ``base_link`` as a motion capture system or the like sees it.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_W: (3,) m.
        noise: upper half of its covariance, m^2.
    """
    state.pose_ns = state.stamp_ns
    store(state.pose_p_W, p_W)
    store(state.pose_variance, (noise[0], noise[3], noise[5]))
    if state.running == 0:
        return ACCEPTED if state.imu_count > 0 else IGNORED
    imu_B = vec3(params.mount.imu_position_B_m)
    lever_W = rotate(quat(state.q_WS), unrotate(quat(state.q_BS), scale(-1.0, imu_B)))
    position_rows(state, lever_W)
    innovation = subtract(p_W, add(vec3(state.p_W), lever_W))
    result = update_vector(state, EXTERNAL_POSITION, innovation, noise, params.gate.chi2_3)
    if result == ACCEPTED:
        state.aided_ns = state.stamp_ns
    return result


@kernel
def fuse_external_attitude(state: Eskf, params: EstimatorParams, q_WB: Quat, noise: Sym3) -> int:
    """Fuse the attitude of ``base_link``; with the position of the same stamp it starts the filter.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        q_WB: (4,) unit quaternion.
        noise: upper half of its covariance about the fixed axes of ``map``, rad^2.
    """
    q_WS = multiply(q_WB, quat(state.q_BS))
    has_position = state.pose_ns == state.stamp_ns
    if state.running == 0:
        if state.imu_count < 2 or not has_position:
            return IGNORED
        start_from_pose(state, params, q_WS, noise)
        return ACCEPTED
    innovation = log(multiply(q_WS, conjugate(quat(state.q_WS))))
    H = state.H
    H[:, :] = 0.0
    for i in range(3):
        H[i, THETA + i] = 1.0
    result = update_vector(state, EXTERNAL_ATTITUDE, innovation, noise, params.gate.chi2_3)
    rejected_s = max(
        rejected_for_s(state, EXTERNAL_POSITION), rejected_for_s(state, EXTERNAL_ATTITUDE)
    )
    if has_position and rejected_s > RECOVERY_S:
        state.recoveries += 1
        state.reason = REASON_EXTERNAL
        state.rejected_in_row[:] = 0
        start_from_pose(state, params, q_WS, noise)
    elif result == ACCEPTED:
        state.aided_ns = state.stamp_ns
        state.heading.confirmed = 1
    return result


@kernel
def fuse_zero_velocity(
    state: Eskf, params: EstimatorParams, rate_S: Vec3, rate_variance: Vec3
) -> int:
    """Fuse that the vehicle stands: no velocity, and a gyroscope that reads its bias.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        rate_S: what it reads, rad/s.
        rate_variance: of that, by the noise.
    """
    if state.running == 0:
        return IGNORED
    sigma = ZERO_VELOCITY_SIGMA_MPS
    variance = sigma * sigma
    H = state.H
    H[:, :] = 0.0
    for i in range(3):
        H[i, V + i] = 1.0
    noise = (variance, 0.0, 0.0, variance, 0.0, variance)
    limit = params.gate.chi2_3
    innovation = scale(-1.0, vec3(state.v_W))
    result = update_vector(state, ZERO_VELOCITY, innovation, noise, limit)
    if result != ACCEPTED:
        return result
    H[:, :] = 0.0
    for i in range(3):
        H[i, BG + i] = 1.0
    still = STILL_RATE_RADPS
    rate = add(rate_variance, (still * still, still * still, still * still))
    innovation = subtract(rate_S, vec3(state.gyro_bias_S))
    return update_vector(
        state, ZERO_VELOCITY, innovation, (rate[0], 0.0, 0.0, rate[1], 0.0, rate[2]), limit
    )


@kernel
def hold_rest(state: Eskf, params: EstimatorParams) -> None:
    """After a prediction of a vehicle that has not moved since its start: fuse that, when due.

    Without propellers a gyroscope of any make is so quiet that its mean tells the bias.
    """
    if state.rest_ns == 0 or state.stamp_ns - state.rest_ns > 2 * REST_PERIOD_NS:
        state.rest_ns, state.rest_count = state.stamp_ns, 0
        state.rest_w_S[:] = 0.0
        return
    state.rest_count += 1
    for i in range(3):
        state.rest_w_S[i] += state.w_S[i]
    if state.stamp_ns - state.rest_ns >= REST_PERIOD_NS:
        mean_S = scale(1.0 / state.rest_count, vec3(state.rest_w_S))
        fuse_zero_velocity(state, params, mean_S, (0.0, 0.0, 0.0))
        state.rest_ns = 0


@kernel
def hold_attitude(state: Eskf, params: EstimatorParams) -> None:
    """After a prediction: fuse the rotor drag, or else gravity's direction, when it is time.

    Gravity's only where nothing has held the attitude for a while.

    Args:
        state: ESKF record, whose ``f_mean_W`` is integrated since ``mean_ns``.
        params: packed EstimatorParams.
    """
    with_drag = params.fusion.drag_per_s > 0.0 and state.n > WIND
    elapsed_ns = state.stamp_ns - state.mean_ns
    period_ns = DRAG_PERIOD_NS if with_drag else GRAVITY_PERIOD_NS
    if elapsed_ns < period_ns:
        return
    if elapsed_ns < 2 * period_ns:
        f_W = scale(1e9 / elapsed_ns, vec3(state.f_mean_W))
        if with_drag:
            fuse_drag(state, params, f_W)
        elif state.stamp_ns - state.aided_ns >= round(params.fusion.gravity_after_s * 1e9):
            fuse_gravity(state, params, f_W, elapsed_ns * 1e-9)
    state.mean_ns = state.stamp_ns
    state.f_mean_W[:] = 0.0


@kernel
def fuse_gravity(state: Eskf, params: EstimatorParams, f_W: Vec3, dt_s: float) -> int:
    """Fuse that the horizontal acceleration is zero on average: specific force points up.

    Its deviation is that of a vehicle's acceleration, and grows with the distance of the specific
    force from g; an acceleration that lasts T counts once in T (see
    :func:`~quadsim.estimation.eskf.gnss.repetition`). In the world's axes the acceleration of a
    steady turn averages out, which in the body's axes it would not.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        f_W: mean specific force, less its bias, m/s^2.
        dt_s: time over which it is the mean.
    """
    noise = params.noise
    size = math.sqrt(f_W[0] * f_W[0] + f_W[1] * f_W[1] + f_W[2] * f_W[2])
    off = abs(size - gravity_at(params, state.p_W[2]))
    a = exp(-dt_s / noise.maneuver_correlation_s)
    variance = (noise.maneuver_mps2 * noise.maneuver_mps2 + off * off) * (1.0 + a) / (1.0 - a)
    R = to_matrix(quat(state.q_WS))
    h = state.h
    result = ACCEPTED
    for i in range(2):
        h[:] = 0.0
        for k in range(3):
            h[BA + k] = -R[i][k]
        if i == 0:
            h[THETA + 1] = f_W[2]
            h[THETA + 2] = -f_W[1]
        else:
            h[THETA] = -f_W[2]
            h[THETA + 2] = f_W[0]
        if update_scalar(state, GRAVITY, -f_W[i], variance, params.gate.chi2_1) == REJECTED:
            result = REJECTED
    return result


@kernel
def fuse_drag(state: Eskf, params: EstimatorParams, f_W: Vec3) -> int:
    """Fuse the specific force across the rotors' axis as drag, -k (v - wind).

    Rotor drag is proportional to the velocity in the air across the rotors' axis (Martin and
    Salaun, *The true role of accelerometer feedback in quadrotor control*, ICRA 2010).

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        f_W: mean specific force, less its bias, m/s^2.
    """
    k_per_s = params.fusion.drag_per_s
    q_BS = quat(state.q_BS)
    q_WB = multiply(quat(state.q_WS), conjugate(q_BS))
    air_W = subtract(vec3(state.v_W), (state.wind_W_mps[0], state.wind_W_mps[1], 0.0))
    air_B, f_B = unrotate(q_WB, air_W), unrotate(q_WB, f_W)
    R_WB, R_BS = to_matrix(q_WB), to_matrix(q_BS)
    sigma = DRAG_SIGMA_MPS2
    h = state.h
    result = ACCEPTED
    for i in range(2):
        axis_W = (R_WB[0][i], R_WB[1][i], R_WB[2][i])
        turn = cross(axis_W, air_W)
        h[:] = 0.0
        for j in range(3):
            h[V + j] = -k_per_s * axis_W[j]
            h[THETA + j] = -k_per_s * turn[j]
            h[BA + j] = R_BS[i][j]
        h[WIND] = k_per_s * axis_W[0]
        h[WIND + 1] = k_per_s * axis_W[1]
        innovation = f_B[i] + k_per_s * air_B[i]
        if update_scalar(state, DRAG, innovation, sigma * sigma, params.gate.chi2_1) == REJECTED:
            result = REJECTED
    return result
