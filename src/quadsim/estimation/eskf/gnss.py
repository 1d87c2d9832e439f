"""The measurements of GNSS, position and velocity; and what all measurements share.

Each kernel takes the ESKF record first and the packed parameters second, fuses at the state's own
stamp, adds to the start's window while the filter aligns, and returns REJECTED, ACCEPTED or
IGNORED. Rows of H are derivatives by the error state at zero error, R_true = exp([theta]x) R.

How late GNSS stamps are: a state of the filter, and whether the estimate given out rests on it.

A receiver without a time pulse stamps a fix when it arrives, 0.05 to 0.2 s late; others are exact.
The offset is estimated all along. What is given out is the estimate for exact stamps until the data
contradict them: the mean and covariance under the condition that the offset is zero, which the
joint estimate holds, x - P_xt t / P_tt and P - P_xt P_tx / P_tt. So a receiver with exact stamps
costs nothing, and small offsets of an IMU's own clock do not move the position.
"""

from __future__ import annotations

from quadsim.base.compiled import Array, kernel
from quadsim.base.elementary import exp
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import less, scaled, skew
from quadsim.estimation.eskf.heading import see_position, see_velocity
from quadsim.estimation.eskf.inertial import SLOPE_S, motion_before
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    ANTENNA,
    BA,
    BG,
    GNSS_BIAS,
    GNSS_POSITION,
    GNSS_TIME,
    GNSS_VELOCITY,
    IGNORED,
    REASON_GNSS_POSITION,
    REJECTED,
    THETA,
    Eskf,
    P,
    Scatter,
    V,
)
from quadsim.estimation.eskf.parameters import RECOVERY_S, EstimatorParams
from quadsim.estimation.eskf.start_window import add_fix, add_velocity
from quadsim.estimation.eskf.update import (
    Sym3,
    adopt_velocity,
    follow_gnss,
    has_positions,
    recover,
    rejected_for_s,
    reset_position,
    reset_velocity,
    update_vector,
    velocity_holds,
)
from quadsim.geometry.rotation import Mat3, apply, compose, quat, rotate, to_matrix
from quadsim.geometry.vector import add, cross, scale, store, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: GNSS position rejected for so long while its velocity fits: it is reset, s.
POSITION_RECOVERY_S = 7.0

#: A stamp that is later than its fix counts beyond so many deviations (one chance in four thousand)
#: and this time, and no more below the half.
COUNTS_SIGMAS, COUNTS_S = 3.5, 0.03

#: Measurements are noisy whose white noise is so many times what they state, in so many more of the
#: last ones than not; of these at most MOST_NOISY count. Share of a new one in its variance.
NOISIER, MANY_NOISY, MOST_NOISY, SCATTER_SHARE = 5.0, 4, 10, 0.1


@kernel
def judge_time(state: Eskf) -> None:
    """Decide whether the offset counts; one before zero, of an IMU's clock, is noted alone (-1)."""
    off, variance = state.gnss_time_s, state.covariance[GNSS_TIME, GNSS_TIME]
    part = 0.5 if state.gnss_time_counts != 0 else 1.0
    decided = off * off > part * part * COUNTS_SIGMAS * COUNTS_SIGMAS * variance
    if decided and abs(off) > part * COUNTS_S:
        state.gnss_time_counts = 1 if off > 0.0 else -1
    else:
        state.gnss_time_counts = 0


@kernel
def column(covariance: Array, at: int) -> Vec3:
    """Covariance of three numbers of the error state with the time offset."""
    return (
        covariance[at, GNSS_TIME], covariance[at + 1, GNSS_TIME], covariance[at + 2, GNSS_TIME]
    )  # fmt: skip


@kernel
def without_time(state: Eskf) -> tuple[float, float]:
    """Factors of the covariance with the offset, for the estimate that is given out.

    Returns:
        That which the mean moves by, and that which its product is taken off the covariance by; 0
        where the offset counts or is no state.
    """
    off, variance = state.gnss_time_s, state.covariance[GNSS_TIME, GNSS_TIME]
    if state.gnss_time_counts == 1 or variance <= 0.0:
        return 0.0, 0.0
    share, certain = -off / variance, 1.0 / variance
    if off * off > COUNTS_SIGMAS * COUNTS_SIGMAS * variance:
        certain -= share * share  # what is given out is off by as much
    return share, certain


@kernel
def window_time_s(state: Eskf) -> float:
    """Time since the beginning of the start's window."""
    return float((state.stamp_ns - state.alignment.start_ns) * 1e-9)


@kernel
def repetition(stamp_ns: int, before_ns: int, correlation_s: float) -> float:
    """How many measurements say as much as one, as their errors are mostly the same.

    An error of correlation time T, sampled each dt, averages like white noise of (1 + a) / (1 - a)
    times its variance, a = exp(-dt / T) (Bartlett 1946, of the variance of a mean). Taken as white,
    an offset of 2 cm at 50 Hz would outweigh every fix.

    Args:
        stamp_ns: of this measurement.
        before_ns: of the one before; 0 without any.
        correlation_s: T.
    """
    if correlation_s == 0.0 or before_ns == 0:
        return 1.0
    a = exp(-(stamp_ns - before_ns) * 1e-9 / correlation_s)
    return (1.0 + a) / max(1.0 - a, 1e-6)


@kernel
def age_gnss_bias(state: Eskf, params: EstimatorParams, noise: Sym3) -> float:
    """Correlated part of a GNSS position's error since the last fix: a Gauss-Markov process.

    It decays with its correlation time towards zero, and its variance towards its share of the
    fix's.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        noise: upper half of the fix's covariance.

    Returns:
        The factor by which it decayed; 0 where it is no state.
    """
    covariance, share = state.covariance, params.noise.gnss_correlated_share
    if share == 0.0 or state.n <= GNSS_BIAS:
        return 0.0
    elapsed_s = (state.stamp_ns - state.fix_ns) * 1e-9 if state.fix_ns > 0 else 0.0
    a = exp(-elapsed_s / max(params.noise.gnss_correlation_s, 1e-3))
    variance = (share * noise[0], share * noise[3], share * noise[5])
    for i in range(3):
        at = GNSS_BIAS + i
        state.gnss_bias_W[i] *= a
        for k in range(state.n):
            covariance[at, k] *= a
        for k in range(state.n):
            covariance[k, at] *= a
        covariance[at, at] += (1.0 - a * a) * variance[i]
    return a


@kernel
def scaled_noise(factor: float, noise: Sym3) -> Sym3:
    """A covariance times a number."""
    return (
        factor * noise[0], factor * noise[1], factor * noise[2],
        factor * noise[3], factor * noise[4], factor * noise[5],
    )  # fmt: skip


@kernel
def position_rows(state: Eskf, lever_W: Vec3) -> None:
    """H of the position of a point next to the IMU: p + R l."""
    H = state.H
    H[:, :] = 0.0
    for i in range(3):
        H[i, P + i] = 1.0
    set_skew(H, THETA, (-lever_W[0], -lever_W[1], -lever_W[2]))


@kernel
def set_skew(H: Array, at: int, a: Vec3) -> None:
    """Write the matrix of a x into three rows."""
    H[0, at + 1], H[0, at + 2] = -a[2], a[1]
    H[1, at], H[1, at + 2] = a[2], -a[0]
    H[2, at], H[2, at + 1] = -a[1], a[0]


@kernel
def add_skew(H: Array, at: int, a: Vec3) -> None:
    """Add the matrix of a x to three rows."""
    x, y, z = skew(a)
    for k in range(3):
        H[0, at + k] += x[k]
        H[1, at + k] += y[k]
        H[2, at + k] += z[k]


@kernel
def set_block(H: Array, at: int, A: Mat3) -> None:
    """Write a matrix into three rows."""
    for i in range(3):
        a = A[i]
        H[i, at], H[i, at + 1], H[i, at + 2] = a[0], a[1], a[2]


@kernel
def look_back_rows(state: Eskf, params: EstimatorParams) -> Vec3:
    """Turn the rows of a position into those of a moment ago; returns the antenna's way since.

    p(t - T) = p - v T + R U - g T^2/2, U the second integral of the specific force over T: what is
    wrong with velocity, attitude and accelerometer bias now was wrong all that time.
    """
    H, back_s = state.H, state.gnss_time_s
    R = to_matrix(quat(state.q_WS))
    w_S = subtract(vec3(state.w_S), vec3(state.gyro_bias_S))
    swing_W = apply(R, cross(w_S, vec3(state.antenna_S)))
    moved_W, gained_W, _ = motion_before(state, params, back_s)
    fell_m = 0.5 * gravity_at(params, state.p_W[2]) * back_s * back_s
    pushed_W = subtract(scale(back_s, vec3(state.v_W)), moved_W)  # R U - g T^2/2
    held_W = subtract(scale(back_s, swing_W), (pushed_W[0], pushed_W[1], pushed_W[2] + fell_m))
    add_skew(H, THETA, held_W)
    set_block(H, BA, scaled(-0.5 * back_s * back_s, R))
    if state.n > ANTENNA:
        set_block(H, ANTENNA, less(R, compose(R, skew(scale(back_s, w_S)))))
    for i in range(3):
        H[i, V + i] = -back_s
        H[i, GNSS_TIME] = gained_W[i] - state.v_W[i] - swing_W[i]
    return add(moved_W, scale(back_s, swing_W))


@kernel
def ahead_noise(params: EstimatorParams, noise: Sym3, back_s: float, factor: float) -> Sym3:
    """Noise of a fix that the IMU has yet to reach: how the acceleration may change until then.

    That of a vehicle is a Gauss-Markov process, of which the mean of the last moments is known.

    Args:
        params: packed EstimatorParams.
        noise: upper half of the fix's covariance.
        back_s: how long ago it was taken; from zero on nothing is added.
        factor: what such a change makes of the measurement, over it.
    """
    if back_s >= 0.0:
        return noise
    ahead_s = 0.5 * SLOPE_S - back_s
    change = params.noise.maneuver_mps2 * factor
    more = 2.0 * change * change * (1.0 - exp(-ahead_s / params.noise.maneuver_correlation_s))
    return (noise[0] + more, noise[1], noise[2], noise[3] + more, noise[4], noise[5] + more)


@kernel
def scattered(scatter: Scatter, innovation: Vec3, noise: Sym3) -> Sym3:
    """Noise of a measurement: as stated, or as it is where they scatter far beyond that.

    Refused for long, one of them alone would move the estimate to where it happens to be. Of white
    noise the mean of the product of two changes in a row is its variance, below zero. A step, a
    drift and an outlier have no such pairs. The worst axis counts for all.

    Args:
        scatter: of the measurements of this kind so far.
        innovation: of this one.
        noise: upper half of its covariance.
    """
    stated = (noise[0], noise[3], noise[5])
    change, beyond, most = subtract(innovation, vec3(scatter.innovation)), 0, 0.0
    for i in range(3):
        product = -change[i] * scatter.change[i]
        scatter.variance[i] += SCATTER_SHARE * (product - scatter.variance[i])
        beyond |= int(product > NOISIER * NOISIER * stated[i])
        most = max(most, scatter.variance[i] / max(stated[i], 1e-12))
    store(scatter.innovation, innovation)
    store(scatter.change, change)
    scatter.count = min(max(scatter.count + 2 * beyond - 1, 0), MOST_NOISY)
    if scatter.count == 0 or (scatter.count >= MANY_NOISY and most > NOISIER * NOISIER):
        scatter.noisy = int(scatter.count > 0)
    return scaled_noise(max(most, 1.0), noise) if scatter.noisy == 1 else noise


@kernel
def fuse_gnss_position(state: Eskf, params: EstimatorParams, p_W: Vec3, noise: Sym3) -> int:
    """Fuse the antenna's position.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_W: (3,) m.
        noise: upper half of its covariance, m^2, ENU.
    """
    if state.running == 0 and state.imu_count == 0:
        return IGNORED
    if state.running == 0 or state.realigning == 1:
        add_fix(
            state.alignment, window_time_s(state), p_W, (noise[0], noise[3], noise[5]),
            vec3(state.antenna_S),
        )  # fmt: skip
    if state.running == 0:
        return ACCEPTED
    lever_W = rotate(quat(state.q_WS), vec3(state.antenna_S))
    position_rows(state, lever_W)
    if state.n > ANTENNA:
        set_block(state.H, ANTENNA, to_matrix(quat(state.q_WS)))
        # the term of second order: an open heading turns the open part of the lever
        P = state.covariance
        turned2 = P[THETA + 2, THETA + 2] * max(P[ANTENNA, ANTENNA], P[ANTENNA + 1, ANTENNA + 1])
        xx, xy, xz, yy, yz, zz = noise
        noise = (xx + turned2, xy, xz, yy + turned2, yz, zz)
    predicted_W, back_s = add(vec3(state.p_W), lever_W), 0.0
    if state.covariance[GNSS_TIME, GNSS_TIME] > 0.0:
        predicted_W = subtract(predicted_W, look_back_rows(state, params))
        back_s = state.gnss_time_s
    share = params.noise.gnss_correlated_share
    if share > 0.0 and state.n > GNSS_BIAS:
        noise = scaled_noise(1.0 - share, noise)
        predicted_W = add(predicted_W, vec3(state.gnss_bias_W))
        for i in range(3):
            state.H[i, GNSS_BIAS + i] = 1.0
    noise = ahead_noise(params, noise, back_s, 0.5 * back_s * back_s)
    state.fix_ns = state.stamp_ns
    innovation = subtract(p_W, predicted_W)
    noise = scattered(state.scatter[0], innovation, noise)
    result = update_vector(state, GNSS_POSITION, innovation, noise, params.gate.chi2_3)
    if result == ACCEPTED:
        state.aided_ns = state.stamp_ns
    rotated = see_position(state, params, subtract(p_W, lever_W), max(noise[0], noise[3]))
    if rotated and result == REJECTED:
        follow_gnss(state, params, p_W, noise)
    rejected_s = rejected_for_s(state, GNSS_POSITION)
    # a heading that is about to be rotated explains it
    turns = state.heading.doubt > 0.0
    if rejected_s > RECOVERY_S and not velocity_holds(state) and not turns:
        recover(state, params, p_W, noise, REASON_GNSS_POSITION)
    elif rejected_s > POSITION_RECOVERY_S:
        reset_position(state, params, p_W, noise)
    return result


@kernel
def velocity_rows(state: Eskf, R: Mat3, w_S: Vec3, lever_S: Vec3) -> Vec3:
    """H of the velocity of a point next to the IMU, v + R (w x l); returns R (w x l)."""
    H = state.H
    H[:, :] = 0.0
    for i in range(3):
        H[i, V + i] = 1.0
    swing = cross(w_S, lever_S)
    swing_W = rotate(quat(state.q_WS), swing)
    set_skew(H, THETA, (-swing_W[0], -swing_W[1], -swing_W[2]))
    # the bias turns w by -bg: R (-bg x l) = R (l x bg)
    x, y, z = lever_S
    for i in range(3):
        r = R[i]
        H[i, BG] = r[1] * z - r[2] * y
        H[i, BG + 1] = r[2] * x - r[0] * z
        H[i, BG + 2] = r[0] * y - r[1] * x
    return swing_W


@kernel
def fuse_gnss_velocity(state: Eskf, params: EstimatorParams, v_W: Vec3, noise: Sym3) -> int:
    """Fuse the antenna's velocity.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        v_W: (3,) m/s, ENU.
        noise: upper half of its covariance, (m/s)^2, ENU.
    """
    if state.running == 0 and state.imu_count == 0:
        return IGNORED
    if state.running == 0 or state.realigning == 1:
        add_velocity(
            state.alignment, window_time_s(state), v_W, (noise[0], noise[3], noise[5]),
            cross(vec3(state.w_S), vec3(state.antenna_S)),
        )  # fmt: skip
    if state.running == 0:
        return ACCEPTED
    state.velocity_fix_ns = state.stamp_ns
    store(state.velocity_fix_W, v_W)
    store(state.velocity_fix_variance, (noise[0], noise[3], noise[5]))
    w_S = subtract(vec3(state.w_S), vec3(state.gyro_bias_S))
    R = to_matrix(quat(state.q_WS))
    swing_W = velocity_rows(state, R, w_S, vec3(state.antenna_S))
    if state.n > ANTENNA:  # R (w x l)
        set_block(state.H, ANTENNA, compose(R, skew(w_S)))
    innovation = subtract(v_W, add(vec3(state.v_W), swing_W))
    if state.covariance[GNSS_TIME, GNSS_TIME] > 0.0:
        back_s = state.gnss_time_s
        _, gained_W, a_W = motion_before(state, params, back_s)
        innovation = add(innovation, gained_W)
        # v(t - T) = v - R S + g T, S the integral of the specific force over T
        fell_mps = gravity_at(params, state.p_W[2]) * back_s
        add_skew(state.H, THETA, (gained_W[0], gained_W[1], gained_W[2] + fell_mps))
        set_block(state.H, BA, scaled(back_s, R))
        noise = ahead_noise(params, noise, back_s, back_s)
        for i in range(3):
            state.H[i, GNSS_TIME] = -a_W[i]
    noise = scattered(state.scatter[1], innovation, noise)
    if state.scatter[1].noisy == 1:
        store(state.velocity_fix_variance, (noise[0], noise[3], noise[5]))
    result = update_vector(state, GNSS_VELOCITY, innovation, noise, params.gate.chi2_3)
    if result == ACCEPTED:
        state.aided_ns = state.stamp_ns
        judge_time(state)
    if see_velocity(state, params, subtract(v_W, swing_W)) and result == REJECTED:
        adopt_velocity(state)
    # with positions it is theirs to say: where they fit, the velocity lies
    if rejected_for_s(state, GNSS_VELOCITY) > RECOVERY_S and not has_positions(state):
        reset_velocity(state, params, subtract(v_W, swing_W), noise)
    return result
