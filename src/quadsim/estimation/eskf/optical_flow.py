"""Optical flow: the turn that the ground beneath seems to make, as velocity over height.

The flow over an interval T is the turn of the sensor that would move the picture as much. Of a
sensor that looks along its -z, with the velocity v and the rate w in its axes and the distance d
to the ground along its view, it is (T (w_x + v_y / d), T (w_y - v_x / d)). These are the signs of
MAVLink's OPTICAL_FLOW_RAD, rotated from forward, right, down to forward, left, up.

The part of w is the filter's own rotation over the interval. The height is that over the flat
ground, or over the terrain's height, which ranges set. Without a height a flow tells nothing.
"""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import times_row
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    BA,
    BG,
    FLOW_SCALE,
    IGNORED,
    OPTICAL_FLOW,
    REASON_FLOW,
    TERRAIN,
    THETA,
    Eskf,
    P,
    V,
)
from quadsim.estimation.eskf.parameters import (
    FLIGHT_VELOCITY_SIGMA_MPS,
    RECOVERY_S,
    EstimatorParams,
)
from quadsim.estimation.eskf.update import forget_links, rejected_for_s, update_scalar
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import exp, multiply, quat, rotate, to_matrix, unrotate
from quadsim.geometry.vector import add, cross, dot, scale, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: Least height above the ground, m, and least cosine of the tilt, at which a flow counts.
LEAST_HEIGHT_M, LEAST_COSINE = 0.05, 0.8
#: A height is known whose deviation is less than this part of it.
KNOWN_SHARE = 0.25
#: How long an error of the flow in proportion to itself stays, s: as over one patch of the ground.
LASTING_S = 1.0
#: The rotation since the last flow is the interval's, if both times differ by no more than this.
SAME_INTERVAL = 0.25


@kernel
def is_over_terrain(state: Eskf, params: EstimatorParams) -> bool:
    """Whether the ground's height is a state."""
    return bool(params.flat_ground == 0 and state.n > TERRAIN)


@kernel
def height_row(state: Eskf, params: EstimatorParams) -> float:
    """Height of the sensor above the ground in m, and in ``h`` what it depends on."""
    lever_W, h = rotate(quat(state.q_WS), vec3(state.flow_S)), state.h
    h[:] = 0.0
    h[P + 2] = 1.0
    h[THETA], h[THETA + 1] = lever_W[1], -lever_W[0]
    ground_m = params.ground_height_m
    if is_over_terrain(state, params):
        h[TERRAIN] = -1.0
        ground_m = state.terrain_height_m
    return float(state.p_W[2] + lever_W[2] - ground_m)


@kernel
def is_height_known(state: Eskf, params: EstimatorParams) -> bool:
    """Whether the height above the ground is good enough for a flow to tell a velocity.

    Terrain that was last seen some way back has changed since.
    """
    height_m = height_row(state, params)
    variance = times_row(state.covariance, state.n, state.h, state.ph)
    if is_over_terrain(state, params):
        if state.terrain_started == 0:
            return False
        since_s = max(state.stamp_ns - state.range_ns, 0) * 1e-9
        walked_m = hypot(state.v_W[0], state.v_W[1]) * since_s
        variance += params.noise.terrain_walk * params.noise.terrain_walk * walked_m
    known_m = KNOWN_SHARE * height_m
    return bool(height_m > LEAST_HEIGHT_M and variance < known_m * known_m)


@kernel
def turn_of_interval(state: Eskf, dt_s: float) -> Vec3:
    """Rotation in the IMU's axes over the interval, less the gyroscope's bias, in rad."""
    elapsed_s = (state.stamp_ns - state.flow_ns) * 1e-9
    if state.flow_ns > 0 and abs(elapsed_s - dt_s) < SAME_INTERVAL * dt_s:
        return scale(dt_s / elapsed_s, vec3(state.flow_turn_S))
    return scale(dt_s, subtract(vec3(state.w_S), vec3(state.gyro_bias_S)))


@kernel
def fuse_optical_flow(
    state: Eskf, params: EstimatorParams, flow: Vec3, variance_rad2: float
) -> int:
    """Fuse the flow over an interval that ends at the state's stamp.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        flow: about the sensor's x and y in rad, and the interval in s.
        variance_rad2: of each; zero: unknown.

    Returns:
        ACCEPTED; REJECTED; or IGNORED where height or tilt tell nothing.
    """
    turn_S = turn_of_interval(state, flow[2])
    state.flow_ns = state.stamp_ns
    state.flow_turn_S[:] = 0.0
    if state.running == 0:
        return IGNORED
    if not is_height_known(state, params):
        state.flow_low_ns = state.stamp_ns
        return IGNORED
    if rotate(multiply(quat(state.q_WS), quat(state.q_SF)), (0.0, 0.0, 1.0))[2] < LEAST_COSINE:
        return IGNORED
    noise = params.noise
    if variance_rad2 == 0.0:
        variance_rad2 = noise.flow_sigma_rad * noise.flow_sigma_rad
    lasting = noise.flow_share * noise.flow_share * (flow[0] * flow[0] + flow[1] * flow[1])
    variance_rad2 += lasting * max(2.0 * LASTING_S / flow[2], 1.0)
    result = ACCEPTED
    for i in range(2):
        seen = flow_row(state, params, i, turn_S, flow[2])
        limit = params.gate.chi2_1
        found = update_scalar(state, OPTICAL_FLOW, flow[i] - seen, variance_rad2, limit)
        result = min(result, found)
    if result == ACCEPTED:
        state.aided_ns = state.stamp_ns
    elif rejected_for_s(state, OPTICAL_FLOW) > RECOVERY_S:
        forget_level_velocity(state)
    return result


@kernel
def flow_row(state: Eskf, params: EstimatorParams, i: int, turn_S: Vec3, dt_s: float) -> float:
    """The flow about an axis that the state predicts, and in ``h`` what it depends on.

    It is that of the interval's middle: the state is taken back by half of it.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        i: 0 about the sensor's x, 1 about its y.
        turn_S: rotation over the interval, rad.
        dt_s: the interval.
    """
    q_WS = multiply(quat(state.q_WS), exp(scale(-0.5, turn_S)))
    f_W = rotate(q_WS, subtract(vec3(state.f_S), vec3(state.accel_bias_S)))
    a_W = (f_W[0], f_W[1], f_W[2] - gravity_at(params, state.p_W[2]))
    half_s = 0.5 * dt_s
    v_W = subtract(vec3(state.v_W), scale(half_s, a_W))
    height_m = height_row(state, params) - half_s * v_W[2]
    R = to_matrix(multiply(q_WS, quat(state.q_SF)))
    # about x counts the way along y, about y the one against x
    sign, k = (dt_s, 1) if i == 0 else (-dt_s, 0)
    axis_W, along_W = (R[0][i], R[1][i], R[2][i]), (R[0][k], R[1][k], R[2][k])
    axis_S, along_S = unrotate(q_WS, axis_W), unrotate(q_WS, along_W)
    lever_S, near = vec3(state.flow_S), R[2][2] / height_m  # one over the distance
    speed = dot(along_W, v_W) + dot(turn_S, cross(lever_S, along_S)) / dt_s
    seen = dot(turn_S, axis_S) + sign * near * speed
    factor = 1.0 + state.flow_scale
    by_height = -factor * sign * speed * near / height_m
    # the axes turn, and so does the way back: a turn about the vertical changes nothing
    turns = scale(near, cross(along_W, add(v_W, scale(half_s, f_W))))
    # a turn leans the view: the distance is the height over the cosine of its tilt
    leans = scale(speed / height_m, (R[1][2], -R[0][2], 0.0))
    by_rate = add(scale(dt_s, axis_S), scale(sign * near, cross(lever_S, along_S)))
    h = state.h
    for j in range(state.n):
        h[j] *= by_height
    for j in range(3):
        h[V + j] = factor * sign * near * along_W[j]
        h[THETA + j] += factor * sign * (turns[j] + leans[j])
        h[BG + j] = -factor * by_rate[j]
        h[BA + j] = factor * sign * near * half_s * along_S[j]
    h[V + 2] -= by_height * half_s
    if state.n > FLOW_SCALE:
        h[FLOW_SCALE] = seen
    return float(factor * seen)


@kernel
def forget_level_velocity(state: Eskf) -> None:
    """Flow has contradicted the velocity for long: the next one sets it."""
    state.recoveries += 1
    state.reason = REASON_FLOW
    state.rejected_in_row[OPTICAL_FLOW] = 0
    for i in range(2):
        forget_links(state.covariance, V + i)
        sigma = FLIGHT_VELOCITY_SIGMA_MPS
        state.covariance[V + i, V + i] = sigma * sigma
        state.covariance[P + i, P + i] += (sigma * RECOVERY_S) ** 2
