"""The measurements: GNSS position and velocity, magnetic heading, pressure height, range.

Each kernel takes the ESKF record first and the packed parameters second, fuses at the state's own
stamp, adds to the start's window while the filter aligns, and says REJECTED, ACCEPTED or IGNORED.
Rows of H are derivatives by the error state at zero error, R_true = exp([theta]x) R.
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.compiled import kernel
from quadsim.estimation.layout import (
    ACCEPTED,
    BG,
    GNSS_POSITION,
    GNSS_VELOCITY,
    IGNORED,
    MAGNETIC_FIELD,
    PRESSURE,
    RANGE,
    REASON_GNSS_POSITION,
    REASON_GNSS_VELOCITY,
    STATIC_PRESSURE,
    THETA,
    N,
    P,
    V,
)
from quadsim.estimation.update import (
    Sym3,
    recover,
    rejected_for_s,
    update_scalar,
    update_vector,
)
from quadsim.estimation.window import add_field, add_fix, add_velocity
from quadsim.geometry.rotation import Mat3, quat, rotate, to_matrix, unrotate, wrap
from quadsim.geometry.vector import add, cross, store, subtract, vec3
from quadsim.parameters import Vec3
from quadsim.world.atmosphere import (
    GAS_CONSTANT_J_PER_KG_K,
    LAPSE_RATE_K_PER_M,
    SEA_LEVEL_TEMPERATURE_K,
    STANDARD_GRAVITY_MPS2,
    height_of,
)


@kernel
def symmetric(covariance: Any, sigma: Any) -> Sym3:
    """Upper half of a (3, 3) covariance; where its diagonal is all zero (unknown), of sigma^2."""
    if covariance[0, 0] == 0.0 and covariance[1, 1] == 0.0 and covariance[2, 2] == 0.0:
        return (sigma[0] * sigma[0], 0.0, 0.0, sigma[1] * sigma[1], 0.0, sigma[2] * sigma[2])
    return (
        covariance[0, 0], covariance[0, 1], covariance[0, 2],
        covariance[1, 1], covariance[1, 2], covariance[2, 2],
    )  # fmt: skip


@kernel
def window_time_s(state: Any) -> float:
    """Time since the beginning of the start's window."""
    return float((state.stamp_ns - state.alignment.start_ns) * 1e-9)


@kernel
def position_rows(state: Any, lever_W: Vec3) -> None:
    """H of the position of a point beside the IMU: p + R l."""
    rows = state.rows
    rows[:, :] = 0.0
    for i in range(3):
        rows[i, P + i] = 1.0
    set_skew(rows, THETA, (-lever_W[0], -lever_W[1], -lever_W[2]))


@kernel
def set_skew(rows: Any, at: int, a: Vec3) -> None:
    """Write the matrix of a x into three rows."""
    rows[0, at + 1], rows[0, at + 2] = -a[2], a[1]
    rows[1, at], rows[1, at + 2] = a[2], -a[0]
    rows[2, at], rows[2, at + 1] = -a[1], a[0]


@kernel
def eskf_gnss_position(state: Any, params: Any, p_W: Vec3, covariance: Any) -> int:
    """Fuse the antenna's position.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_W: (3,) m.
        covariance: (3, 3) m^2, ENU; diagonal all zero: unknown.
    """
    noise = symmetric(covariance, params.noise.gnss_position_sigma_m)
    return fuse_gnss_position(state, params, p_W, noise)


@kernel
def fuse_gnss_position(state: Any, params: Any, p_W: Vec3, noise: Sym3) -> int:
    """The same, with the upper half of a covariance that is known."""
    if state.running == 0:
        if state.imu_count == 0:
            return IGNORED
        add_fix(state.alignment, window_time_s(state), p_W, (noise[0], noise[3], noise[5]))
        return ACCEPTED
    lever_W = rotate(quat(state.q_WS), vec3(state.antenna_S))
    position_rows(state, lever_W)
    innovation = subtract(p_W, add(vec3(state.p_W), lever_W))
    result = update_vector(state, GNSS_POSITION, innovation, noise, params.gate.chi2_3)
    if rejected_for_s(state, GNSS_POSITION) > params.gate.recovery_s:
        recover(state, params, p_W, noise, REASON_GNSS_POSITION)
    elif rejected_for_s(state, GNSS_VELOCITY) > params.gate.recovery_s:
        recover(state, params, p_W, noise, REASON_GNSS_VELOCITY)
    return result


@kernel
def velocity_rows(state: Any, R: Mat3, w_S: Vec3, lever_S: Vec3) -> Vec3:
    """H of the velocity of a point beside the IMU, v + R (w x l); returns R (w x l)."""
    rows = state.rows
    rows[:, :] = 0.0
    for i in range(3):
        rows[i, V + i] = 1.0
    swing = cross(w_S, lever_S)
    swing_W = rotate(quat(state.q_WS), swing)
    set_skew(rows, THETA, (-swing_W[0], -swing_W[1], -swing_W[2]))
    # the bias turns w by -bg: R (-bg x l) = R (l x bg)
    x, y, z = lever_S
    for i in range(3):
        r = R[i]
        rows[i, BG] = r[1] * z - r[2] * y
        rows[i, BG + 1] = r[2] * x - r[0] * z
        rows[i, BG + 2] = r[0] * y - r[1] * x
    return swing_W


@kernel
def eskf_gnss_velocity(state: Any, params: Any, v_W: Vec3, covariance: Any) -> int:
    """Fuse the antenna's velocity.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        v_W: (3,) m/s, ENU.
        covariance: (3, 3) (m/s)^2; diagonal all zero: unknown.
    """
    noise = symmetric(covariance, params.noise.gnss_velocity_sigma_mps)
    return fuse_gnss_velocity(state, params, v_W, noise)


@kernel
def fuse_gnss_velocity(state: Any, params: Any, v_W: Vec3, noise: Sym3) -> int:
    """The same, with the upper half of a covariance that is known."""
    if state.running == 0:
        if state.imu_count == 0:
            return IGNORED
        add_velocity(state.alignment, window_time_s(state), v_W, (noise[0], noise[3], noise[5]))
        return ACCEPTED
    state.velocity_fix_ns = state.stamp_ns
    store(state.velocity_fix_W, v_W)
    store(state.velocity_fix_variance, (noise[0], noise[3], noise[5]))
    w_S = subtract(vec3(state.w_S), vec3(state.gyro_bias_S))
    R = to_matrix(quat(state.q_WS))
    swing_W = velocity_rows(state, R, w_S, vec3(state.antenna_S))
    innovation = subtract(v_W, add(vec3(state.v_W), swing_W))
    return update_vector(state, GNSS_VELOCITY, innovation, noise, params.gate.chi2_3)


@kernel
def eskf_magnetic_field(state: Any, params: Any, m_S: Vec3, heading_variance: float) -> int:
    """Fuse the field's horizontal direction as heading, levelled by the estimated tilt.

    The heading so levelled depends on the tilt too; both columns are kept, else a tilt error
    becomes a heading error the filter knows nothing of. They are taken at the reference field, not
    at the measured one: a row of H that carries the same noise as the innovation gives the tilt a
    bias of the noise's variance.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        m_S: (3,) T.
        heading_variance: rad^2; zero: unknown.
    """
    if heading_variance == 0.0:
        sigma = params.noise.heading_sigma_rad
        heading_variance = sigma * sigma
    if state.running == 0:
        if state.imu_count == 0:
            return IGNORED
        add_field(state.alignment, m_S, heading_variance)
        return ACCEPTED
    x, y, z = rotate(quat(state.q_WS), m_S)
    if x * x + y * y < 0.01 * (x * x + y * y + z * z):
        return IGNORED  # nearly vertical: no heading in it
    east, north, up = vec3(params.magnetic_field_W_T)
    innovation = wrap(math.atan2(north, east) - math.atan2(y, x))
    horizontal2 = east * east + north * north
    row = state.row
    row[:] = 0.0
    row[THETA] = -up * east / horizontal2
    row[THETA + 1] = -up * north / horizontal2
    row[THETA + 2] = 1.0
    return update_scalar(state, MAGNETIC_FIELD, innovation, heading_variance, params.gate.chi2_1)


@kernel
def pressure_slope(pressure_pa: float, height_m: float) -> float:
    """Derivative of the standard atmosphere's height by pressure, m/Pa (hydrostatic balance)."""
    temperature_K = SEA_LEVEL_TEMPERATURE_K - LAPSE_RATE_K_PER_M * height_m
    return -GAS_CONSTANT_J_PER_KG_K * temperature_K / (STANDARD_GRAVITY_MPS2 * pressure_pa)


@kernel
def eskf_pressure(state: Any, params: Any, pressure_pa: float, variance_pa2: float) -> int:
    """Fuse static pressure as height in the standard atmosphere, less an offset that is a state.

    The offset is that height at the origin of ``map``. The first pressure sets it from the
    position known then, and does so anew after the pressure was rejected for too long.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        pressure_pa: static pressure.
        variance_pa2: Pa^2; zero: unknown.
    """
    if state.running == 0:
        return IGNORED
    if variance_pa2 == 0.0:
        variance_pa2 = params.noise.pressure_sigma_pa * params.noise.pressure_sigma_pa
    height_m = height_of(pressure_pa)
    slope = pressure_slope(pressure_pa, height_m)
    variance = variance_pa2 * slope * slope
    if state.pressure_started == 0:
        start_pressure(state, height_m, variance)
        return ACCEPTED
    row = state.row
    row[:] = 0.0
    row[P + 2] = 1.0
    row[PRESSURE] = 1.0
    innovation = height_m - (state.p_W[2] + state.pressure_offset_m)
    result = update_scalar(state, STATIC_PRESSURE, innovation, variance, params.gate.chi2_1)
    if rejected_for_s(state, STATIC_PRESSURE) > params.gate.recovery_s:
        start_pressure(state, height_m, variance)
        state.rejected_in_row[STATIC_PRESSURE] = 0
    return result


@kernel
def start_pressure(state: Any, height_m: float, variance: float) -> None:
    """Offset from the height known: its error is that height's, with the other sign."""
    covariance = state.covariance
    state.pressure_started = 1
    state.pressure_offset_m = height_m - state.p_W[2]
    for k in range(N - 1):
        covariance[PRESSURE, k] = -covariance[P + 2, k]
        covariance[k, PRESSURE] = -covariance[P + 2, k]
    covariance[PRESSURE, PRESSURE] = covariance[P + 2, P + 2] + variance


@kernel
def repetition(state: Any, params: Any) -> float:
    """How many ranges say as much as one, as their errors are mostly the same.

    An error of correlation time T, sampled each dt, averages like white noise of (1 + a) / (1 - a)
    times its variance, a = exp(-dt / T) (Bartlett 1946, of the variance of a mean). Taken as white,
    an offset of 2 cm at 50 Hz would outweigh every fix.
    """
    correlation_s = params.noise.range_correlation_s
    if correlation_s == 0.0 or state.range_ns == 0:
        return 1.0
    a = math.exp(-(state.stamp_ns - state.range_ns) * 1e-9 / correlation_s)
    return (1.0 + a) / max(1.0 - a, 1e-6)


@kernel
def eskf_range(state: Any, params: Any, range_m: float, variance_m2: float) -> int:
    """Fuse the height above flat ground, seen along -z of ``base_link``.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        range_m: slant range; outside its limits (inf, -inf and NaN too) it is ignored, and so it
            is beyond the largest tilt, and everywhere where the ground is not flat.
        variance_m2: m^2; zero: unknown.
    """
    gate = params.gate
    if state.running == 0 or not (gate.range_min_m <= range_m <= gate.range_max_m):
        return IGNORED
    if params.flat_ground == 0:
        return IGNORED
    if variance_m2 == 0.0:
        variance_m2 = params.noise.range_sigma_m * params.noise.range_sigma_m
    q_WS = quat(state.q_WS)
    up_W = rotate(q_WS, unrotate(quat(state.q_BS), (0.0, 0.0, 1.0)))
    cosine = up_W[2]
    if cosine < math.cos(gate.tilt_max_deg * math.pi / 180.0):
        return IGNORED
    lever_W = rotate(q_WS, vec3(state.rangefinder_S))
    innovation = range_m * cosine - (state.p_W[2] + lever_W[2] - params.ground_height_m)
    # (theta x c)_z with c the beam's foot as seen from the IMU
    row = state.row
    row[:] = 0.0
    row[P + 2] = 1.0
    row[THETA] = lever_W[1] - range_m * up_W[1]
    row[THETA + 1] = -(lever_W[0] - range_m * up_W[0])
    variance = variance_m2 * cosine * cosine * repetition(state, params)
    state.range_ns = state.stamp_ns
    return update_scalar(state, RANGE, innovation, variance, gate.chi2_1)
