"""Start of the filter: attitude, velocity and position from one window, standing or in flight.

Two directions give an attitude: specific force and magnetic field. In flight the specific force is
not gravity's; but its integral in the axes of the window's beginning (rotated by the gyroscope) is
the change of velocity less gravity's, which GNSS knows in the world. A line fitted through both
gives the pair of vectors (in-motion coarse alignment, e.g. Wu and Pan, *Velocity/position
integration formula, part I*, 2013). Standing is the case of no change of velocity.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.elementary import atan2
from quadsim.base.parameters import Vec3, new
from quadsim.base.records import Kinematics
from quadsim.estimation.eskf.covariance import add_rotated, scaled, shear, shear_scalar, skew
from quadsim.estimation.eskf.heading import (
    forget_accelerations,
    forget_heading,
    misfit,
    tells_heading,
    unusual,
)
from quadsim.estimation.eskf.inertial import start_inertial
from quadsim.estimation.eskf.layout import (
    ANTENNA,
    BA,
    BG,
    FIELD,
    FIELD_BIAS,
    FLOW_SCALE,
    FRAME,
    GNSS_BIAS,
    GNSS_TIME,
    PRESSURE,
    PRESSURE_SCALE,
    TERRAIN,
    THETA,
    WIND,
    Eskf,
    N,
    P,
    StartWindow,
    V,
)
from quadsim.estimation.eskf.parameters import (
    FLIGHT_VELOCITY_SIGMA_MPS,
    STILL_RATE_RADPS,
    TILT_FLIGHT_DEG,
    EstimatorParams,
)
from quadsim.estimation.eskf.start_window import clear, is_standing, scale_errors
from quadsim.estimation.eskf.update import Sym3, add_lever_arm, has_lever_arm, position_from_fixes
from quadsim.geometry.rotation import (
    Mat3,
    Quat,
    conjugate,
    exp,
    from_euler,
    multiply,
    normalize,
    quat,
    rotate,
    to_matrix,
    unrotate,
    wrap,
)
from quadsim.geometry.vector import add, cross, dot, norm, scale, store, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: Deviation of the velocity of a standing vehicle, m/s.
STILL_SPEED_MPS = 0.02
#: Least deviation of the tilt at the start, deg.
TILT_FLOOR_DEG = 0.05
#: Deviation of the terrain under the first range, m.
TERRAIN_SIGMA_M = 0.1
#: Height above terrain at which a range finder's offset counts as an error of the flow's scale, m.
FLOW_HEIGHT_M = 1.5
#: First deviation of the wind, m/s.
WIND_SIGMA_MPS = 5.0

#: What is added to the deviation of a heading that outlives a new start, rad.
OPEN_HEADING_RAD = 0.05
#: Deviation of a heading of which nothing is known: uniform over the circle.
UNKNOWN_HEADING_RAD = math.pi / math.sqrt(3.0)


@kernel
def mount(state: Eskf, params: EstimatorParams) -> None:
    """Take the mounting of the sensors over into the record, in the IMU's axes."""
    mounts = params.mount
    degree = math.pi / 180.0
    angles = mounts.imu_roll_pitch_yaw_deg
    q_BS = from_euler(degree * angles[0], degree * angles[1], degree * angles[2])
    imu_B = vec3(mounts.imu_position_B_m)
    store(state.q_BS, q_BS)
    store(state.antenna_S, unrotate(q_BS, subtract(vec3(mounts.antenna_position_B_m), imu_B)))
    range_B = subtract(vec3(mounts.rangefinder_position_B_m), imu_B)
    store(state.rangefinder_S, unrotate(q_BS, range_B))
    flow_B, angles = subtract(vec3(mounts.flow_position_B_m), imu_B), mounts.flow_roll_pitch_yaw_deg
    store(state.flow_S, unrotate(q_BS, flow_B))
    q_BF = from_euler(degree * angles[0], degree * angles[1], degree * angles[2])
    store(state.q_SF, multiply(conjugate(q_BS), q_BF))


def new_eskf(params: EstimatorParams) -> Eskf:
    """A filter that has seen nothing yet.

    Args:
        params: packed :class:`~quadsim.estimation.eskf.parameters.EstimatorParams`.
    """
    state = new(Eskf)
    state.q_WS[0] = 1.0
    state.alignment.q_0S[0] = 1.0
    state.inertial.q_FS[0] = 1.0
    state.n = carried(params)
    store(state.field_W_T, vec3(params.magnetic_field_W_T))
    mount(state, params)
    return state


@kernel
def restart(state: Eskf, reason: int) -> None:
    """Forget everything but the counters, and align anew."""
    state.running = 0
    state.realigning = 0
    state.inertial.started = 0
    state.imu_count = 0
    state.period_s = 0.0
    state.reason = reason
    state.pressure_started = 0
    state.pressure_offset_m = 0.0
    state.terrain_started = 0
    state.fix_ns = 0
    state.range_ns = 0
    state.flow_ns = 0
    state.field_ns = 0
    state.field_count = 0
    state.heading_count = 0
    state.strength_error_T = 0.0
    state.pose_ns = 0
    state.rejected_in_row[:] = 0
    state.velocity_fix_ns = 0
    clear(state)


@kernel
def shortest_turn(a: Vec3, b: Vec3) -> Quat:
    """Quaternion that turns direction a into direction b on the shortest way."""
    a = scale(1.0 / norm(a), a)
    b = scale(1.0 / norm(b), b)
    cosine = dot(a, b)
    if cosine < -0.999999:  # opposite: half a turn about anything across
        across = cross(a, (1.0, 0.0, 0.0)) if abs(a[0]) < 0.7 else cross(a, (0.0, 1.0, 0.0))
        return normalize((0.0, across[0], across[1], across[2]))
    axis = cross(a, b)
    return normalize((1.0 + cosine, axis[0], axis[1], axis[2]))


@kernel
def attitude_of(q_BA: Quat, f_A: Vec3, f_W: Vec3, m_A: Vec3, m_W: Vec3, has_field: bool) -> Quat:
    """Attitude q_WA that maps f_A onto f_W, and m_A onto m_W as far as the turn about f_W can.

    Without a field the heading is that of the vehicle's nose, 0, however A sits in it.
    """
    q_WA = multiply(shortest_turn(rotate(q_BA, f_A), f_W), q_BA)
    if not has_field:
        return q_WA
    axis = scale(1.0 / norm(f_W), f_W)
    now_W = rotate(q_WA, m_A)
    side = cross(axis, now_W)
    angle = atan2(dot(side, m_W), dot(cross(side, axis), m_W))
    return multiply(exp(scale(angle, axis)), q_WA)


@kernel
def set_start_attitude(
    state: Eskf,
    params: EstimatorParams,
    q_WS: Quat,
    f_W: Vec3,
    f_variance_W: Vec3,
    turn_variance: float,
    has_field: bool,
) -> None:
    """Attitude and its covariance, from directions of the specific force and of the field.

    The tilt's error about the axes across f_W comes from the specific force, f x df / f^2: from
    its noise, and from the accelerometer's bias, with which it is correlated; and from the turn
    since. The error about f_W is what keeps the field's direction: dtheta . (m x u) = noise with
    u = f x m / |f x m|.
    """
    window, covariance = state.alignment, state.covariance
    store(state.q_WS, q_WS)
    R = to_matrix(q_WS)
    size = norm(f_W)
    axis = scale(1.0 / size, f_W)
    x, y, z = axis
    across = (
        (1.0 - x * x, -x * y, -x * z),
        (-x * y, 1.0 - y * y, -y * z),
        (-x * z, -y * z, 1.0 - z * z),
    )
    add_rotated(covariance, THETA, across, (turn_variance, turn_variance, turn_variance))
    lean = scaled(1.0 / (size * size), skew(f_W))
    add_rotated(covariance, THETA, lean, f_variance_W)
    shear(covariance, state.n, THETA, BA, matrix_product(lean, R))
    heading_variance = 0.0 if is_new_map(state) else UNKNOWN_HEADING_RAD * UNKNOWN_HEADING_RAD
    if window.baseline_variance > 0.0:
        heading_variance = window.baseline_variance
    if has_field:
        m_W = vec3(params.magnetic_field_W_T)
        part = dot(m_W, axis)
        m_across = subtract(m_W, scale(part, axis))
        k2 = dot(m_across, m_across)
        c = scale(part / k2, m_across)
        # theta += axis (c . theta): the parts across f_W stay, so a shear of theta by itself
        turn_theta(covariance, axis, c)
        # and what of the field's own error is across: axis (u . (dm + R db)) / k, u = axis x m / k
        u = scale(1.0 / k2, cross(axis, m_across))
        of_field = (scale(x, u), scale(y, u), scale(z, u))
        shear(covariance, state.n, THETA, FIELD, of_field)
        shear(covariance, state.n, THETA, FIELD_BIAS, matrix_product(of_field, R))
        count = float(window.field_count)
        horizontal2 = m_W[0] * m_W[0] + m_W[1] * m_W[1]
        heading_variance = window.heading_variance_sum / (count * count) * horizontal2 / k2
    columns = ((axis[0], 0.0, 0.0), (axis[1], 0.0, 0.0), (axis[2], 0.0, 0.0))
    add_rotated(covariance, THETA, columns, (heading_variance, 0.0, 0.0))
    floor = TILT_FLOOR_DEG * math.pi / 180.0
    for i in range(3):
        covariance[THETA + i, THETA + i] += floor * floor


@kernel
def along_baseline(window: StartWindow, q_W: Quat, baseline: Vec3, f_W: Vec3) -> Quat:
    """The attitude rotated about f_W, until the baseline of two antennas points as measured.

    Args:
        q_W: attitude of the axes in which the baseline is given.
    """
    b_W = rotate(q_W, baseline)
    off = wrap(window.baseline_rad - atan2(b_W[1], b_W[0]))
    return multiply(exp(scale(off / norm(f_W), f_W)), q_W)


@kernel
def is_new_map(state: Eskf) -> bool:
    """Whether position and heading are those of the start by definition."""
    return bool(state.local == 1 and state.starts == 1)


@kernel
def matrix_product(A: Mat3, B: Mat3) -> Mat3:
    """Matrix product."""
    c0 = (B[0][0], B[1][0], B[2][0])
    c1 = (B[0][1], B[1][1], B[2][1])
    c2 = (B[0][2], B[1][2], B[2][2])
    return (
        (dot(A[0], c0), dot(A[0], c1), dot(A[0], c2)),
        (dot(A[1], c0), dot(A[1], c1), dot(A[1], c2)),
        (dot(A[2], c0), dot(A[2], c1), dot(A[2], c2)),
    )


@kernel
def turn_theta(covariance: Array, axis: Vec3, c: Vec3) -> None:
    """Covariance after theta += axis (c . theta)."""
    for k in range(N):
        total = c[0] * covariance[0, k] + c[1] * covariance[1, k] + c[2] * covariance[2, k]
        for i in range(3):
            covariance[THETA + i, k] += axis[i] * total
    for k in range(N):
        total = c[0] * covariance[k, 0] + c[1] * covariance[k, 1] + c[2] * covariance[k, 2]
        for i in range(3):
            covariance[k, THETA + i] += axis[i] * total


@kernel
def try_start(state: Eskf, params: EstimatorParams) -> bool:
    """Start the filter when the window is full and holds what is needed.

    A window that lacks something is stretched up to three times (a moving vehicle needs two GNSS
    velocities) and then begun anew.

    Returns:
        Whether the filter runs now.
    """
    window, start = state.alignment, params.start
    t_s = (state.stamp_ns - window.start_ns) * 1e-9
    if t_s < start.window_s - 0.5 * state.period_s or window.imu_count < 2:
        return False
    again = state.realigning == 1
    if again and (window.field_count == 0 or state.heading.distrusted == 1):
        keep_heading(state, params)
    points = tells_heading(vec3(params.magnetic_field_W_T))
    has_field = points and window.field_count > 0
    pointed = has_field or window.baseline_variance > 0.0
    complete = (pointed or start.require_heading == 0 or not points) and (
        window.fix_count > 0 or start.require_gnss == 0 or again
    )
    complete = complete or start.local == 1
    # who starts again may be in the air: a slow hover looks like standing
    if complete and state.starts == 0 and is_standing(window, params):
        start_standing(state, params, has_field)
        return True
    count = float(window.velocity_count)
    t_sum = window.velocity_t_sum
    spread = window.velocity_t2_sum - t_sum * t_sum / max(count, 1.0)
    has_slope = spread > 0.05 * start.window_s * start.window_s
    if complete and (has_slope or t_s > 3.0 * start.window_s or start.require_gnss == 0):
        if start_in_flight(state, params, has_field, t_s, spread, has_slope):
            return True
    elif t_s <= 3.0 * start.window_s:
        return False
    clear(state)
    window.start_ns = state.stamp_ns
    return False


@kernel
def keep_heading(state: Eskf, params: EstimatorParams) -> None:
    """Put a field into the window of a new start that gives the estimate's own heading."""
    window = state.alignment
    q_W0 = multiply(quat(state.q_WS), conjugate(quat(window.q_0S)))
    window.field_count = 1
    store(window.field_sum_0, unrotate(q_W0, vec3(params.magnetic_field_W_T)))
    open_rad = OPEN_HEADING_RAD
    window.heading_variance_sum = state.covariance[THETA + 2, THETA + 2] + open_rad * open_rad


@kernel
def begin_estimate(state: Eskf, params: EstimatorParams, standing: bool) -> None:
    """Nominal state and covariance but for attitude, velocity and position."""
    start = params.start
    if state.realigning == 1:
        state.pressure_started = 0
        state.terrain_started = 0
    time_variance = start.gnss_time_s * start.gnss_time_s
    scale_variance = start.pressure_scale * start.pressure_scale
    if state.running == 1:  # receiver and air are the same
        time_variance = state.covariance[GNSS_TIME, GNSS_TIME]
        scale_variance = state.covariance[PRESSURE_SCALE, PRESSURE_SCALE]
    else:
        state.pressure_scale = 0.0
        state.gnss_time_s = 0.0
        state.gnss_time_counts = 0
    state.running = 1
    state.realigning = 0
    state.starts += 1
    state.aided_ns = state.stamp_ns
    state.mean_ns = state.stamp_ns
    state.f_mean_W[:] = 0.0
    state.started_standing = 1 if standing else 0
    seen = state.alignment.fix_count > 0 or state.alignment.baseline_variance > 0.0
    state.local = int(params.start.local == 1 and not seen)
    state.covariance[:, :] = 0.0
    state.covariance[GNSS_TIME, GNSS_TIME] = time_variance
    state.rejected_in_row[:] = 0
    state.gyro_bias_S[:] = 0.0
    state.accel_bias_S[:] = 0.0
    for i in range(3):
        state.covariance[BG + i, BG + i] = start.gyro_bias_radps * start.gyro_bias_radps
        state.covariance[BA + i, BA + i] = start.accel_bias_mps2 * start.accel_bias_mps2
    state.covariance[PRESSURE, PRESSURE] = 1.0  # set with the first pressure
    state.covariance[PRESSURE_SCALE, PRESSURE_SCALE] = scale_variance
    state.covariance[TERRAIN, TERRAIN] = TERRAIN_SIGMA_M * TERRAIN_SIGMA_M  # with the first range
    if params.flat_ground == 1:  # the range finder's offset
        state.covariance[TERRAIN, TERRAIN] = params.noise.range_offset_m**2
        state.terrain_height_m = params.ground_height_m
    state.range_m = 0.0
    begin_options(state, params)


@kernel
def carried(params: EstimatorParams) -> int:
    """Size of the error state that the parameters ask for: up to the last part that is wanted."""
    noise = params.noise
    if params.start.flow_scale > 0.0:
        return FRAME
    if params.fusion.drag_per_s > 0.0:
        return FLOW_SCALE
    if params.start.lever_arm_m > 0.0:
        return WIND
    if params.start.field_T > 0.0:
        return ANTENNA
    if params.start.field_bias_T > 0.0 or noise.field_scale > 0.0 or noise.field_axes > 0.0:
        return FIELD
    if params.flat_ground == 0 or noise.range_offset_m > 0.0 or noise.range_scale > 0.0:
        return FIELD_BIAS
    return TERRAIN if noise.gnss_correlated_share > 0.0 else GNSS_BIAS


@kernel
def begin_options(state: Eskf, params: EstimatorParams) -> None:
    """Which of the last error states are carried, and their start."""
    start, covariance = params.start, state.covariance
    state.n = carried(params)
    state.odometry_ns = 0
    state.field_q_WS[:] = 0.0
    store(state.field_W_T, vec3(params.magnetic_field_W_T))
    state.gnss_bias_W[:] = 0.0
    state.field_bias_S_T[:] = 0.0
    state.wind_W_mps[:] = 0.0
    # at one attitude the field sensor's errors of scale and axes are a bias
    seen_S = vec3(state.alignment.field_sum_S)
    factor = norm(vec3(params.magnetic_field_W_T)) / max(norm(seen_S), 1e-12)
    noise = params.noise
    constant = scale_errors(scale(factor, seen_S), noise.field_scale, noise.field_axes)
    for i in range(3):
        bias2 = start.field_bias_T * start.field_bias_T
        covariance[FIELD_BIAS + i, FIELD_BIAS + i] = bias2 + constant[i]
        covariance[FIELD + i, FIELD + i] = start.field_T * start.field_T
        covariance[ANTENNA + i, ANTENNA + i] = start.lever_arm_m * start.lever_arm_m
    if params.fusion.drag_per_s > 0.0:
        for i in range(2):
            covariance[WIND + i, WIND + i] = WIND_SIGMA_MPS * WIND_SIGMA_MPS
    state.flow_scale = 0.0
    covariance[FLOW_SCALE, FLOW_SCALE] = start.flow_scale * start.flow_scale
    if params.flat_ground == 0:  # a range finder's errors make a terrain, and a distance of a flow
        near = noise.range_offset_m / FLOW_HEIGHT_M
        covariance[FLOW_SCALE, FLOW_SCALE] += near * near + noise.range_scale * noise.range_scale


@kernel
def gravity_here(window: StartWindow, params: EstimatorParams) -> float:
    """Gravity at the mean height of the fixes, or at z = 0 without any, in m/s^2."""
    fixes = max(float(window.fix_count), 1.0)
    return gravity_at(params, window.fix_sum_W[2] / fixes)


@kernel
def start_standing(state: Eskf, params: EstimatorParams, has_field: bool) -> None:
    """Level, heading, gyroscope bias and position of a vehicle at rest."""
    window, start, covariance = state.alignment, params.start, state.covariance
    begin_estimate(state, params, True)
    n = float(window.imu_count)
    prior = start.gyro_bias_radps * start.gyro_bias_radps
    for i in range(3):
        noise = window.w_variance_sum[i] / (n * n) + STILL_RATE_RADPS * STILL_RATE_RADPS
        gain = prior / (prior + noise)
        state.gyro_bias_S[i] = gain * window.w_sum_S[i] / n
        covariance[BG + i, BG + i] = (1.0 - gain) * prior
    f_variance = (
        window.f_variance_sum[0] + window.f_variance_sum[1] + window.f_variance_sum[2]
    ) / (3.0 * n * n)
    up_W = (0.0, 0.0, gravity_here(window, params))
    q_WS = attitude_of(
        quat(state.q_BS),
        vec3(window.f_sum_S),
        up_W,
        vec3(window.field_sum_S),
        vec3(params.magnetic_field_W_T),
        has_field,
    )
    if window.baseline_variance > 0.0 and not has_field:
        # by the gyroscope it has turned since the window's beginning, by as much as its bias
        baseline_S = unrotate(quat(state.q_BS), vec3(params.mount.baseline_B_m))
        q_WS = along_baseline(window, q_WS, baseline_S, up_W)
    set_start_attitude(
        state, params, q_WS, up_W, (f_variance, f_variance, f_variance), 0.0, has_field
    )
    if has_field:
        # a field of another strength or inclination carries iron: as much of it turns the heading
        m_W = vec3(params.magnetic_field_W_T)
        mean_S = scale(1.0 / float(window.field_count), vec3(window.field_sum_S))
        level_T, up_T = misfit(m_W, rotate(q_WS, mean_S))
        turn_rad = unusual(level_T, up_T) / norm((m_W[0], m_W[1], 0.0))
        covariance[THETA + 2, THETA + 2] += turn_rad * turn_rad
    state.v_W[:] = 0.0
    count = max(float(window.velocity_count), 1.0)
    for i in range(3):
        # what it may move by as far as GNSS tells
        mean = window.velocity_sum_W[i] / count
        spread = window.velocity_variance_sum[i] / (count * count)
        still = STILL_SPEED_MPS * STILL_SPEED_MPS
        covariance[V + i, V + i] = still + mean * mean + spread
    lever_W = rotate(q_WS, vec3(state.antenna_S))
    if window.fix_count > 0:
        shear(covariance, state.n, P, THETA, skew(lever_W))
        add_lever_arm(state, params, P)
    of_start = start.position_m * start.position_m
    level = 0.0 if is_new_map(state) else of_start
    none, unknown = (0.0, 0.0, 0.0), (level, level, of_start)
    set_position(state, params, scale(-1.0, lever_W), none, unknown)
    watch_from_here(state, params)


@kernel
def start_from_pose(state: Eskf, params: EstimatorParams, q_WS: Quat, noise: Sym3) -> None:
    """Start at once from an external pose: what it does not say, the velocity, is unknown.

    Args:
        state: ESKF record, with the position of ``base_link`` in ``pose_p_W``.
        params: packed EstimatorParams.
        q_WS: attitude of the IMU.
        noise: upper half of its covariance, rad^2.
    """
    begin_estimate(state, params, False)
    state.local = 0
    covariance = state.covariance
    store(state.q_WS, normalize(q_WS))
    lever_W = rotate(q_WS, unrotate(quat(state.q_BS), vec3(params.mount.imu_position_B_m)))
    at = 0
    for r in range(3):
        for c in range(r, 3):
            covariance[THETA + r, THETA + c] = noise[at]
            covariance[THETA + c, THETA + r] = noise[at]
            at += 1
    for i in range(3):
        state.p_W[i] = state.pose_p_W[i] + lever_W[i]
        state.v_W[i] = 0.0
        covariance[V + i, V + i] = FLIGHT_VELOCITY_SIGMA_MPS * FLIGHT_VELOCITY_SIGMA_MPS
        covariance[P + i, P + i] = state.pose_variance[i]
    shear(covariance, state.n, P, THETA, skew((-lever_W[0], -lever_W[1], -lever_W[2])))
    watch_from_here(state, params)
    state.heading.confirmed = 1


#: Normal numbers of a start about a known motion: of position, velocity and attitude.
KNOWN_WHITE = 9


@kernel
def start_known(
    state: Eskf,
    params: EstimatorParams,
    stamp_ns: int,
    motion: Kinematics,
    deviations: tuple[float, float, float, float],
    white: Array,
) -> None:
    """Start at once in a motion that somebody knows, or that is drawn about the one he knows.

    Nothing is known of the sensors' biases beyond their deviations at switch-on.

    Args:
        state: ESKF record that has seen nothing yet.
        params: packed EstimatorParams.
        stamp_ns: of the motion.
        motion: KINEMATICS of ``base_link``, of which p_W, v_W, q_WB and w_B count.
        deviations: of position in m, velocity in m/s, tilt and heading in rad, of each axis.
        white: (KNOWN_WHITE,) standard normal numbers; zero: the motion itself.
    """
    first_known(state, params, stamp_ns, motion)
    of_p, of_v, of_tilt, of_yaw = deviations
    turn = (of_tilt * white[6], of_tilt * white[7], of_yaw * white[8])
    q_WB, w_B = multiply(exp(turn), quat(motion.q_WB)), vec3(motion.w_B)
    q_WS = normalize(multiply(q_WB, quat(state.q_BS)))
    store(state.q_WS, q_WS)
    store(state.w_S, unrotate(quat(state.q_BS), w_B))
    imu_B = vec3(params.mount.imu_position_B_m)
    lever_W, swing_W = rotate(q_WB, imu_B), rotate(q_WB, cross(w_B, imu_B))
    floor = TILT_FLOOR_DEG * math.pi / 180.0
    covariance = state.covariance
    for i in range(3):
        state.p_W[i] = motion.p_W[i] + lever_W[i] + of_p * white[i]
        state.v_W[i] = motion.v_W[i] + swing_W[i] + of_v * white[3 + i]
        covariance[P + i, P + i] = of_p * of_p
        covariance[V + i, V + i] = of_v * of_v
        of_axis = of_yaw if i == 2 else of_tilt
        covariance[THETA + i, THETA + i] = of_axis * of_axis + floor * floor
    watch_from_here(state, params)
    state.heading.confirmed = 1


@kernel
def first_known(state: Eskf, params: EstimatorParams, stamp_ns: int, motion: Kinematics) -> None:
    """Begin the estimate at a stamp that counts as that of an IMU sample, with the field there."""
    state.stamp_ns = state.imu_stamp_ns = stamp_ns
    state.imu_count = 1
    clear(state)
    q_WS = multiply(quat(motion.q_WB), quat(state.q_BS))
    store(state.alignment.field_sum_S, unrotate(q_WS, vec3(params.magnetic_field_W_T)))
    begin_estimate(state, params, False)
    state.local = 0
    clear(state)


@kernel
def watch_from_here(state: Eskf, params: EstimatorParams) -> None:
    """A new attitude: nothing has confirmed its heading yet."""
    forget_heading(state)
    bias = params.start.accel_bias_mps2
    state.heading.accel_bias_variance = bias * bias
    if state.inertial.started == 0:
        start_inertial(state)
        forget_accelerations(state.heading)


@kernel
def set_position(
    state: Eskf, params: EstimatorParams, motion_W: Vec3, p_W: Vec3, p_variance: Vec3
) -> None:
    """Mean of the fixes, moved on: by the motion since, and from the antenna to the IMU.

    Without a fix it is ``p_W``, of that variance.
    """
    window, covariance = state.alignment, state.covariance
    if window.fix_count == 0:
        store(state.p_W, p_W)
        for i in range(3):
            covariance[P + i, P + i] += p_variance[i]
        return
    count = float(window.fix_count)
    for i in range(3):
        state.p_W[i] = window.fix_sum_W[i] / count + motion_W[i]
    variance = scale(1.0 / count, vec3(window.fix_variance_sum))
    position_from_fixes(state, params, variance, count)


@kernel
def start_in_flight(
    state: Eskf,
    params: EstimatorParams,
    has_field: bool,
    t_s: float,
    spread: float,
    has_slope: bool,
) -> bool:
    """Attitude, velocity and position at the window's end of a vehicle in motion.

    With R the attitude at the window's beginning, S and U the first and second integral of the
    specific force in its axes: v(t) = v(0) + R S(t) + g t, p(t) = p(0) + v(0) t + R U(t) + g t^2/2.
    The slopes over t of the fixes' v - g t and of S are the pair of vectors.

    Returns:
        False where specific force and field are too parallel to tell the attitude.
    """
    window, start, covariance = state.alignment, params.start, state.covariance
    g_W = (0.0, 0.0, -gravity_here(window, params))
    n = float(window.imu_count)
    count = max(float(window.velocity_count), 1.0)
    v_mean_W = scale(1.0 / count, vec3(window.velocity_sum_W))
    t_mean = window.velocity_t_sum / count if window.velocity_count > 0 else t_s
    s_mean_0 = scale(1.0 / count, vec3(window.velocity_f_integral_sum_0))
    s_end_0 = vec3(window.f_integral_0)
    total = window.f_variance_sum[0] + window.f_variance_sum[1] + window.f_variance_sum[2]
    noise = total / (3.0 * n * n)
    f_variance_W = (noise, noise, noise)
    if has_slope:
        product = subtract(vec3(window.velocity_t_product_W), scale(count * t_mean, v_mean_W))
        a_W = scale(1.0 / spread, product)
        product = subtract(
            vec3(window.velocity_f_integral_t_product_0), scale(count * t_mean, s_mean_0)
        )
        f_0 = scale(1.0 / spread, product)
        slope = scale(1.0 / (count * spread), vec3(window.velocity_variance_sum))
        f_variance_W = add(f_variance_W, slope)
        # an antenna that is elsewhere by d swings by w x d, which changes within the window
        rate, lever_m = vec3(state.w_S), start.lever_arm_m
        swung = 2.0 * lever_m * lever_m * dot(rate, rate) / (t_s * t_s)
        f_variance_W = add(f_variance_W, (swung, swung, swung))
    else:
        a_W = (0.0, 0.0, 0.0)
        f_0 = scale(1.0 / t_s, s_end_0)
    f_W = subtract(a_W, g_W)
    m_W = vec3(params.magnetic_field_W_T)
    if norm(f_W) < 1.0 or norm(f_0) < 1.0:
        return False
    if has_field and norm(cross(f_W, m_W)) < 0.15 * norm(f_W) * norm(m_W):
        return False
    q_W0 = attitude_of(quat(state.q_BS), f_0, f_W, vec3(window.field_sum_0), m_W, has_field)
    if window.baseline_variance > 0.0 and not has_field:
        q_W0 = along_baseline(window, q_W0, vec3(window.baseline_0), f_W)
    q_WS = normalize(multiply(q_W0, quat(window.q_0S)))
    turn_variance = window.angle_variance / 3.0  # of a random walk's end about its mean
    p_W, of_start = (0.0, 0.0, 0.0), start.position_m * start.position_m
    p_variance = (of_start, of_start, of_start)
    if state.realigning == 1:
        p_W = vec3(state.p_W)
        p_variance = (covariance[P, P], covariance[P + 1, P + 1], covariance[P + 2, P + 2])
    begin_estimate(state, params, False)
    if not has_slope:
        tilt = TILT_FLIGHT_DEG * math.pi / 180.0
        turn_variance += tilt * tilt
    set_start_attitude(state, params, q_WS, f_W, f_variance_W, turn_variance, has_field)
    # the directions are those of the window's middle; half a window of gyroscope bias since
    R_WS = to_matrix(q_WS)
    shear(covariance, state.n, THETA, BG, scaled(-0.5 * t_s, R_WS))

    since_W = rotate(q_W0, subtract(s_end_0, s_mean_0))
    v_0_W = (0.0, 0.0, 0.0)
    if window.velocity_count > 0:
        v_end_W = add(add(v_mean_W, since_W), scale(t_s - t_mean, g_W))
        store(state.v_W, v_end_W)
        v_0_W = subtract(v_end_W, add(rotate(q_W0, s_end_0), scale(t_s, g_W)))
        for i in range(3):
            covariance[V + i, V + i] = window.velocity_variance_sum[i] / (count * count)
        shear(covariance, state.n, V, THETA, skew((-since_W[0], -since_W[1], -since_W[2])))
        shear(covariance, state.n, V, BA, scaled(t_mean - t_s, R_WS))
        if has_lever_arm(state, params):  # the antenna's swing about the IMU in the window
            swing = matrix_product(R_WS, skew(scale(-1.0 / n, vec3(window.w_sum_S))))
            shear(covariance, state.n, V, ANTENNA, swing)
    else:
        state.v_W[:] = 0.0
        for i in range(3):
            covariance[V + i, V + i] = FLIGHT_VELOCITY_SIGMA_MPS * FLIGHT_VELOCITY_SIGMA_MPS
    fixes = max(float(window.fix_count), 1.0)
    t_fix = window.fix_t_sum / fixes if window.fix_count > 0 else t_s
    t2_fix = window.fix_t2_sum / fixes if window.fix_count > 0 else t_s * t_s
    u_0 = subtract(
        vec3(window.f_integral2_0), scale(1.0 / fixes, vec3(window.fix_f_integral2_sum_0))
    )
    motion_W = scale(-1.0, rotate(q_WS, vec3(state.antenna_S)))
    if window.velocity_count > 0 and window.fix_count > 0:
        motion_W = add(
            add(scale(t_s - t_fix, v_0_W), rotate(q_W0, u_0)),
            scale(0.5 * (t_s * t_s - t2_fix), g_W),
        )
    shear_scalar(covariance, state.n, P, V, t_s - t_fix)
    lean_W = rotate(q_W0, subtract(u_0, scale(t_s - t_fix, s_end_0)))
    shear(covariance, state.n, P, THETA, skew((-lean_W[0], -lean_W[1], -lean_W[2])))
    of_bias = (t_s - t_fix) * t_s - 0.5 * (t_s * t_s - t2_fix)
    shear(covariance, state.n, P, BA, scaled(of_bias, R_WS))
    add_lever_arm(state, params, P)
    set_position(state, params, motion_W, p_W, p_variance)
    watch_from_here(state, params)
    return True
