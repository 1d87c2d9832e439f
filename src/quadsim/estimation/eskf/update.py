"""What all measurements share: gate, bookkeeping, correction of the nominal state, recovery."""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import (
    fuse,
    left_jacobian,
    scaled,
    shear,
    skew,
    times_row,
    turn_errors,
    turn_fixed_errors,
)
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    ANTENNA,
    BA,
    BG,
    FIELD,
    FIELD_BIAS,
    FLOW_SCALE,
    FRAME,
    FRAME_SCALE,
    FRAME_YAW,
    GNSS_BIAS,
    GNSS_POSITION,
    GNSS_TIME,
    GNSS_VELOCITY,
    IGNORED,
    PRESSURE,
    PRESSURE_SCALE,
    REASON_GNSS_POSITION,
    REASON_GNSS_VELOCITY,
    REJECTED,
    TERRAIN,
    THETA,
    WIND,
    Eskf,
    N,
    P,
    V,
)
from quadsim.estimation.eskf.parameters import (
    FLIGHT_VELOCITY_SIGMA_MPS,
    RECOVERY_S,
    TILT_FLIGHT_DEG,
    EstimatorParams,
)
from quadsim.estimation.eskf.start_window import clear
from quadsim.geometry.rotation import (
    Mat3,
    exp,
    multiply,
    normalize,
    quat,
    rotate,
    to_matrix,
    unrotate,
)
from quadsim.geometry.vector import dot, scale, store, subtract, vec3

#: Upper half of a symmetric matrix: xx, xy, xz, yy, yz, zz.
Sym3 = tuple[float, float, float, float, float, float]

#: A correction of the tilt beyond this turns the attitude's error. A smaller one would turn it by
#: less than 3 degrees.
LARGE_TILT_RAD = 0.1
#: What is fixed in the IMU's axes is rotated back once corrections have moved the heading so far.
HEADING_MOVED_RAD = 0.003
#: The reference field's error follows once corrections have moved the field by so much of it.
FIELD_MOVED = 0.003
#: Farthest that a fix may have been taken before its stamp, or behind it.
GNSS_TIME_REACH_S = 0.4


@kernel
def correct_state(state: Eskf) -> None:
    """Move the nominal state by ``state.correction``, and the error state with it.

    After a large correction of the tilt the attitude's error is counted from the new attitude:
    exp(theta) = exp(theta') exp(x), so theta' = J (theta - x) with the left Jacobian J of x (Sola
    2017, section 6.3; the sign is that of a global error). It is left when the heading is
    corrected, as the errors of velocity and position are, and what is fixed in the IMU's axes is
    stored where it was in the world, as in a two-frame group (Barrau and Bonnabel, The geometry of
    navigation problems, 2022): there a tilt and a bias of the accelerometer look alike, and a
    filter that stands would learn both from the noise of its heading.
    """
    tilt = (state.correction[THETA], state.correction[THETA + 1], 0.0)
    if dot(tilt, tilt) > LARGE_TILT_RAD * LARGE_TILT_RAD:
        J = left_jacobian(tilt)
        turn_errors(state.covariance, state.n, THETA, J)
        compose_turns(state.turned, J)
    state.heading_moved_rad += state.correction[THETA + 2]
    if abs(state.heading_moved_rad) > HEADING_MOVED_RAD:
        up_S = unrotate(quat(state.q_WS), (0.0, 0.0, 1.0))
        R = to_matrix(exp(scale(-state.heading_moved_rad, up_S)))
        turn_fixed_errors(state.covariance, state.n, R)
        compose_turns(state.turned_S, R)
        state.heading_moved_rad = 0.0
    if state.n > FIELD:
        follow_field(state)
    move_state(state)


@kernel
def follow_field(state: Eskf) -> None:
    """Move the reference field's error with the attitude's, as the field is about to move.

    A field sensor sees e = dm - theta x m alone, the error of the field m that the attitude turns
    into its axes (the right-invariant error of a vector that is fixed in the world). A rotation
    about the field leaves e zero, and no field tells it. Where m moves by d with the errors left as
    they are, what was such a rotation is one no more, and each field tells a little of it. So e
    stays and dm does not: dm' = dm + theta x d.
    """
    m_T, moved_T = state.field_W_T, state.field_moved_T
    for i in range(3):
        moved_T[i] += state.correction[FIELD + i]
    moved = vec3(moved_T)
    if dot(moved, moved) <= FIELD_MOVED * FIELD_MOVED * dot(vec3(m_T), vec3(m_T)):
        return
    shear(state.covariance, state.n, FIELD, THETA, scaled(-1.0, skew(moved)))
    for i in range(3):
        state.followed_T[i] += moved_T[i]
        moved_T[i] = 0.0


@kernel
def compose_turns(rotated: Array, R: Mat3) -> None:
    """Add a turn to those before."""
    for k in range(3):
        before = (rotated[0, k], rotated[1, k], rotated[2, k])
        for i in range(3):
            rotated[i, k] = dot(R[i], before)


@kernel
def move_state(state: Eskf) -> None:
    """Move the nominal state by ``state.correction``."""
    x = state.correction
    turn = exp((x[THETA], x[THETA + 1], x[THETA + 2]))
    store(state.q_WS, normalize(multiply(turn, quat(state.q_WS))))
    for i in range(3):
        state.v_W[i] += x[V + i]
        state.p_W[i] += x[P + i]
        state.gyro_bias_S[i] += x[BG + i]
        state.accel_bias_S[i] += x[BA + i]
        state.gnss_bias_W[i] += x[GNSS_BIAS + i]
        state.field_bias_S_T[i] += x[FIELD_BIAS + i]
        state.antenna_S[i] += x[ANTENNA + i]
        state.field_W_T[i] += x[FIELD + i]
    reach_s = GNSS_TIME_REACH_S
    state.gnss_time_s = min(max(state.gnss_time_s + x[GNSS_TIME], -reach_s), reach_s)
    state.pressure_offset_m += x[PRESSURE]
    state.pressure_scale += x[PRESSURE_SCALE]
    state.terrain_height_m += x[TERRAIN]
    state.wind_W_mps[0] += x[WIND]
    state.wind_W_mps[1] += x[WIND + 1]
    state.flow_scale += x[FLOW_SCALE]
    for i in range(3):
        state.frame_p_W[i] += x[FRAME + i]
    state.frame_yaw += x[FRAME_YAW]
    state.frame_scale += x[FRAME_SCALE]


@kernel
def judge_innovation(state: Eskf, sensor: int, nis: float, limit: float) -> bool:
    """Gate a measurement by its normalised innovation squared, and count it."""
    state.nis[sensor] = nis
    state.judged[sensor] = 2 if nis <= limit else 1
    if nis <= limit:
        state.accepted[sensor] += 1
        state.nis_sum[sensor] += nis
        state.rejected_in_row[sensor] = 0
        return True
    state.rejected[sensor] += 1
    if state.rejected_in_row[sensor] == 0:
        state.rejected_since_ns[sensor] = state.stamp_ns
    state.rejected_in_row[sensor] += 1
    return False


@kernel
def rejected_for_s(state: Eskf, sensor: int) -> float:
    """How long a sensor has been rejected without a break; 0 for less than three times."""
    if state.rejected_in_row[sensor] < 3:
        return 0.0
    return float((state.stamp_ns - state.rejected_since_ns[sensor]) * 1e-9)


@kernel
def update_scalar(
    state: Eskf, sensor: int, innovation: float, variance: float, limit: float
) -> int:
    """Gate and fuse one number; its row of H is ``state.h``.

    Returns:
        ACCEPTED, or REJECTED with nominal state and covariance untouched.
    """
    S = times_row(state.covariance, state.n, state.h, state.ph) + variance
    state.innovation[sensor, 0] = innovation
    state.innovation_variance[sensor, 0] = S
    if not judge_innovation(state, sensor, innovation * innovation / S, limit):
        return REJECTED
    state.correction[:] = 0.0
    fuse(state, innovation, variance, S)
    correct_state(state)
    return ACCEPTED


@kernel
def cholesky(A: Sym3) -> Sym3:
    """Lower factor L of A = L L^T: l00, l10, l20, l11, l21, l22; not positive: NaN somewhere."""
    l00 = math.sqrt(A[0]) if A[0] > 0.0 else math.nan
    l10, l20 = A[1] / l00, A[2] / l00
    d = A[3] - l10 * l10
    l11 = math.sqrt(d) if d > 0.0 else math.nan
    l21 = (A[4] - l20 * l10) / l11
    e = A[5] - l20 * l20 - l21 * l21
    l22 = math.sqrt(e) if e > 0.0 else math.nan
    return (l00, l10, l20, l11, l21, l22)


@kernel
def whiten(L: Sym3, y: Vec3) -> Vec3:
    """Solution x of L x = y."""
    a = y[0] / L[0]
    b = (y[1] - L[1] * a) / L[3]
    return (a, b, (y[2] - L[2] * a - L[4] * b) / L[5])


@kernel
def take_row(state: Eskf, i: int) -> None:
    """Copy one of ``state.H`` into ``state.h``."""
    for k in range(N):
        state.h[k] = state.H[i, k]


@kernel
def update_vector(state: Eskf, sensor: int, innovation: Vec3, noise: Sym3, limit: float) -> int:
    """Gate three numbers together and fuse them as three uncorrelated scalars.

    Their rows of H are ``state.H``. The gate uses the full innovation covariance; fusion the
    H and innovations whitened by the Cholesky factor of the noise.

    Returns:
        ACCEPTED; REJECTED with nominal state and covariance untouched; or IGNORED where the noise
        is not positive definite.
    """
    L = cholesky(noise)
    H, h, ph = state.H, state.h, state.ph
    n = state.n
    take_row(state, 0)
    s00 = times_row(state.covariance, n, h, ph) + noise[0]
    s01, s02 = noise[1], noise[2]
    for k in range(n):
        s01 += H[1, k] * ph[k]
        s02 += H[2, k] * ph[k]
    take_row(state, 1)
    s11 = times_row(state.covariance, n, h, ph) + noise[3]
    s12 = noise[4]
    for k in range(n):
        s12 += H[2, k] * ph[k]
    take_row(state, 2)
    s22 = times_row(state.covariance, n, h, ph) + noise[5]
    a, b, c = whiten(cholesky((s00, s01, s02, s11, s12, s22)), innovation)
    nis = a * a + b * b + c * c
    if not (math.isfinite(nis) and math.isfinite(L[5])):
        return IGNORED
    store(state.innovation[sensor], innovation)
    store(state.innovation_variance[sensor], (s00, s11, s22))
    if not judge_innovation(state, sensor, nis, limit):
        return REJECTED
    y = whiten(L, innovation)
    for k in range(n):
        x = whiten(L, (H[0, k], H[1, k], H[2, k]))
        H[0, k], H[1, k], H[2, k] = x
    state.correction[:] = 0.0
    for i in range(3):
        take_row(state, i)
        S = times_row(state.covariance, n, h, ph) + 1.0
        fuse(state, y[i], 1.0, S)
    correct_state(state)
    return ACCEPTED


@kernel
def position_from_fixes(state: Eskf, params: EstimatorParams, variance: Vec3, count: float) -> None:
    """Covariance of a position that is the mean of fixes, and of their correlated error with it.

    Args:
        state: ESKF record, its covariance of the position and of that error zero.
        params: packed EstimatorParams.
        variance: of one fix, m^2.
        count: of fixes.
    """
    for i in range(3):
        axis_from_fixes(state, params, i, variance[i], count)


@kernel
def axis_from_fixes(
    state: Eskf, params: EstimatorParams, i: int, variance: float, count: float
) -> None:
    """The same of one axis."""
    covariance, share = state.covariance, params.noise.gnss_correlated_share
    white, common = (1.0 - share) * variance / count, share * variance
    covariance[P + i, P + i] += white + common
    state.gnss_bias_W[i] = 0.0
    if state.n > GNSS_BIAS:
        covariance[GNSS_BIAS + i, GNSS_BIAS + i] = common
        covariance[P + i, GNSS_BIAS + i] -= common
        covariance[GNSS_BIAS + i, P + i] -= common


@kernel
def forget_links(covariance: Array, at: int) -> None:
    """Forget the variance of one number of the error state, and what links it to others."""
    for k in range(N):
        covariance[at, k] = 0.0
        covariance[k, at] = 0.0


@kernel
def look_beside(state: Eskf) -> None:
    """Fill the window of a new start next to the estimate, from now on."""
    if state.realigning == 0:
        state.realigning = 1
        clear(state)
        state.alignment.start_ns = state.stamp_ns


@kernel
def velocity_holds(state: Eskf) -> bool:
    """Whether a GNSS velocity of the last second was accepted, and none was rejected since."""
    age_ns = state.stamp_ns - state.velocity_fix_ns
    known = state.velocity_fix_ns > 0 and age_ns < 1_000_000_000
    return bool(known and state.rejected_in_row[GNSS_VELOCITY] == 0)


@kernel
def has_positions(state: Eskf) -> bool:
    """Whether GNSS positions come, accepted or not."""
    return bool(state.fix_ns > 0 and state.stamp_ns - state.fix_ns < 1_000_000_000)


@kernel
def reset_position(state: Eskf, params: EstimatorParams, p_W: Vec3, noise: Sym3) -> None:
    """Take the position from a fix that has contradicted it for long, and leave the rest alone.

    Height and horizontal position are judged apart: what fits stays.

    Args:
        state: ESKF record, with the fix's innovation and its variance.
        params: packed EstimatorParams.
        p_W: (3,) GNSS position of the antenna.
        noise: its covariance.
    """
    state.recoveries += 1
    state.reason = REASON_GNSS_POSITION
    y, variance = state.innovation[GNSS_POSITION], state.innovation_variance[GNSS_POSITION]
    across = y[0] * y[0] / variance[0] + y[1] * y[1] / variance[1] > params.gate.chi2_3
    along = y[2] * y[2] / variance[2] > params.gate.chi2_1
    both = across == along
    state.odometry_ns = 0  # its frame goes with the position
    fix_W = subtract(p_W, rotate(quat(state.q_WS), vec3(state.antenna_S)))
    of_fix = (noise[0], noise[3], noise[5])
    for i in range(3):
        if both or (across if i < 2 else along):
            state.p_W[i] = fix_W[i]
            forget_links(state.covariance, P + i)
            if state.n > GNSS_BIAS:
                forget_links(state.covariance, GNSS_BIAS + i)
            axis_from_fixes(state, params, i, of_fix[i], 1.0)
    if both or along:
        forget_heights(state)
    state.rejected_in_row[GNSS_POSITION] = 0


@kernel
def forget_heights(state: Eskf) -> None:
    """What was set from a height that is none: the pressure's offset, the terrain."""
    forget_links(state.covariance, PRESSURE)
    state.covariance[PRESSURE, PRESSURE] = 1.0
    state.pressure_started = 0
    state.terrain_started = 0


@kernel
def follow_gnss(state: Eskf, params: EstimatorParams, p_W: Vec3, noise: Sym3) -> None:
    """Take position and velocity from GNSS: a heading that has just been set led them astray.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_W: (3,) GNSS position of the antenna.
        noise: its covariance.
    """
    reason = state.reason
    reset_position(state, params, p_W, noise)
    state.reason = reason
    adopt_velocity(state)


@kernel
def adopt_velocity(state: Eskf) -> None:
    """Take the velocity from the last GNSS velocity, if that is not older than a second."""
    if state.velocity_fix_ns == 0 or state.stamp_ns - state.velocity_fix_ns >= 1_000_000_000:
        return
    for i in range(3):
        state.v_W[i] = state.velocity_fix_W[i]
        forget_links(state.covariance, V + i)
        # up to a second old: a metre per second of change
        state.covariance[V + i, V + i] = state.velocity_fix_variance[i] + 1.0


@kernel
def reset_velocity(state: Eskf, params: EstimatorParams, v_W: Vec3, noise: Sym3) -> None:
    """Take the velocity from GNSS, which has contradicted it for long while no positions came.

    The wrong attitude drove the velocity off. The window of a new start, which fills from now on,
    finds that by itself, and the filter starts from it.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        v_W: (3,) GNSS velocity of the IMU.
        noise: its covariance.
    """
    state.recoveries += 1
    state.reason = REASON_GNSS_VELOCITY
    of_velocity = (noise[0], noise[3], noise[5])
    for i in range(3):
        # the position has gone with the wrong velocity
        way_m = (v_W[i] - state.v_W[i]) * RECOVERY_S
        state.covariance[P + i, P + i] += way_m * way_m
        state.v_W[i] = v_W[i]
        forget_links(state.covariance, V + i)
        state.covariance[V + i, V + i] = of_velocity[i]
    state.rejected_in_row[GNSS_VELOCITY] = 0
    look_beside(state)


@kernel
def has_lever_arm(state: Eskf, params: EstimatorParams) -> bool:
    """Whether the lever arm from IMU to antenna is a state that is not known."""
    return bool(state.n > ANTENNA and params.start.lever_arm_m > 0.0)


@kernel
def add_lever_arm(state: Eskf, params: EstimatorParams, at: int) -> None:
    """Covariance of a position that was found from the antenna's: it holds its place's error."""
    if has_lever_arm(state, params):
        R = to_matrix(quat(state.q_WS))
        shear(state.covariance, state.n, at, ANTENNA, scaled(-1.0, R))


@kernel
def recover(state: Eskf, params: EstimatorParams, p_W: Vec3, noise: Sym3, reason: int) -> None:
    """Begin again in place from a fix: the estimate had left all that GNSS reports for too long.

    Attitude and biases stay as a guess, with the covariance of a start in flight: what drove
    position and velocity off is not known. They hold until the window of a new start is full,
    which is filled next to the estimate from now on; a filter that is off by more than its linear
    equations reach would not find back by itself.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_W: (3,) GNSS position of the antenna.
        noise: its covariance.
        reason: one of the REASONs.
    """
    start, covariance = params.start, state.covariance
    state.recoveries += 1
    look_beside(state)
    state.reason = reason
    tilt = TILT_FLIGHT_DEG * math.pi / 180.0
    for i in range(N):
        for k in range(N):
            if i != k or i < PRESSURE:  # the others' variances stay
                covariance[i, k] = 0.0
    for i in range(3):
        covariance[THETA + i, THETA + i] = tilt * tilt
        covariance[BG + i, BG + i] = start.gyro_bias_radps * start.gyro_bias_radps
        covariance[BA + i, BA + i] = start.accel_bias_mps2 * start.accel_bias_mps2
        covariance[V + i, V + i] = FLIGHT_VELOCITY_SIGMA_MPS * FLIGHT_VELOCITY_SIGMA_MPS
    adopt_velocity(state)
    lever_W = rotate(quat(state.q_WS), vec3(state.antenna_S))
    store(state.p_W, subtract(p_W, lever_W))
    position_from_fixes(state, params, (noise[0], noise[3], noise[5]), 1.0)
    add_lever_arm(state, params, P)
    # the time offset has taken up what it could of the error
    if state.gnss_time_counts != 1:
        state.gnss_time_s = 0.0
        covariance[GNSS_TIME, GNSS_TIME] = start.gnss_time_s * start.gnss_time_s
    covariance[PRESSURE, PRESSURE] = 1.0
    state.pressure_started = 0
    state.terrain_started = 0
    state.aided_ns = state.stamp_ns
    state.rejected_in_row[:] = 0
    state.nis[GNSS_POSITION] = 0.0
