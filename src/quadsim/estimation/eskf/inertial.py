"""The motion of the last moments by the IMU alone, in a frame that no measurement turns.

The filter's own velocity is corrected all the time. Here the specific force is integrated with an
attitude that only the gyroscope turns, so that differences over time are the vehicle's motion: to
look back to where a fix was taken, and to see the acceleration that GNSS must see too.
"""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.layout import PAST, PAST_STEP_NS, Eskf
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.geometry.rotation import Quat, conjugate, multiply, normalize, quat, rotate, unrotate
from quadsim.geometry.vector import add, scale, store, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: Time over which an acceleration is taken, s.
SLOPE_S = 0.1


@kernel
def start_inertial(state: Eskf) -> None:
    """Let the frame F be the world as the filter sees it now."""
    inertial = state.inertial
    inertial.started = 1
    store(inertial.q_FS, quat(state.q_WS))
    inertial.f_integral_F[:] = 0.0
    inertial.way_F[:] = 0.0
    inertial.past_count = 0
    remember(state)


@kernel
def frame_turn(state: Eskf) -> Quat:
    """Quaternion q_FW of the filter's world in the frame F."""
    return multiply(quat(state.inertial.q_FS), conjugate(quat(state.q_WS)))


@kernel
def integrate_inertial(state: Eskf, q_FW: Quat, q_WS: Quat, f_W: Vec3, dt_s: float) -> None:
    """Go on by one step of the mechanisation.

    Args:
        state: ESKF record.
        q_FW: before the step, see :func:`frame_turn`.
        q_WS: attitude after the step.
        f_W: specific force, less its bias, in the step's middle.
        dt_s: the step.
    """
    inertial = state.inertial
    f_F = rotate(q_FW, f_W)
    for i in range(3):
        step = f_F[i] * dt_s
        inertial.way_F[i] += (inertial.f_integral_F[i] + 0.5 * step) * dt_s
        inertial.f_integral_F[i] += step
    store(inertial.q_FS, normalize(multiply(q_FW, q_WS)))


@kernel
def remember(state: Eskf) -> None:
    """Keep a copy of the integral, if one is due."""
    inertial = state.inertial
    last = (inertial.past_count - 1) % PAST
    if inertial.past_count > 0 and state.stamp_ns - inertial.past_ns[last] < PAST_STEP_NS:
        return
    at = inertial.past_count % PAST
    inertial.past_ns[at] = state.stamp_ns
    store(inertial.past_F[at], vec3(inertial.f_integral_F))
    inertial.past_count += 1


@kernel
def look_back(state: Eskf, back_s: float) -> tuple[Vec3, Vec3, float]:
    """Integrals of the specific force over the last moments, in F.

    Args:
        state: ESKF record.
        back_s: how far to look back. Within :data:`SLOPE_S`, and below zero, the mean acceleration
            of that time is taken: what shakes the IMU is faster.

    Returns:
        S(t) - S(t - back) in m/s, the integral of S(t) - S(t') over that time in m, and how much of
        it the copies reach over, in s.
    """
    inertial = state.inertial
    now_F, now_ns = vec3(inertial.f_integral_F), state.stamp_ns
    reached_s, since_F, way_F = 0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    stored = min(inertial.past_count, PAST)
    wanted_s = max(back_s, SLOPE_S)
    for k in range(stored):
        at = (inertial.past_count - 1 - k) % PAST
        age_s = (now_ns - inertial.past_ns[at]) * 1e-9
        if reached_s >= wanted_s:
            break
        if age_s <= reached_s:
            continue
        older_F = subtract(now_F, vec3(inertial.past_F[at]))
        part = min((wanted_s - reached_s) / (age_s - reached_s), 1.0)
        older_F = add(scale(1.0 - part, since_F), scale(part, older_F))
        step_s = part * (age_s - reached_s)
        way_F = add(way_F, scale(0.5 * step_s, add(since_F, older_F)))
        since_F = older_F
        reached_s += step_s
    if back_s < SLOPE_S and reached_s > 0.0:
        f_F = scale(1.0 / reached_s, since_F)
        return scale(back_s, f_F), scale(0.5 * back_s * back_s, f_F), back_s
    return since_F, way_F, reached_s


@kernel
def motion_before(state: Eskf, params: EstimatorParams, back_s: float) -> tuple[Vec3, Vec3, Vec3]:
    """Where the IMU was a moment ago, as seen from where the filter has it now.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        back_s: how long ago; below zero it is ahead.

    Returns:
        p(t) - p(t - back) in m, v(t) - v(t - back) in m/s, and the acceleration at t - back in
        m/s^2, all in the world.
    """
    q_FW = frame_turn(state)
    g_mps2 = gravity_at(params, state.p_W[2])
    since_F, way_F, reached_s = look_back(state, back_s)
    dv_W = unrotate(q_FW, since_F)
    dv_W = (dv_W[0], dv_W[1], dv_W[2] - g_mps2 * reached_s)
    lag_W = unrotate(q_FW, way_F)
    lag_W = (lag_W[0], lag_W[1], lag_W[2] - 0.5 * g_mps2 * reached_s * reached_s)
    # p(t) - p(t - back) = v(t) back - integral of v(t) - v(t'); what is not reached: as before
    dp_W = subtract(scale(back_s, vec3(state.v_W)), lag_W)
    rest_s = back_s - reached_s
    dp_W = subtract(dp_W, scale(rest_s, dv_W))
    middle_s = max(back_s, 0.5 * SLOPE_S)
    older_F, _, older_s = look_back(state, middle_s + 0.5 * SLOPE_S)
    newer_F, _, newer_s = look_back(state, middle_s - 0.5 * SLOPE_S)
    over_s = older_s - newer_s
    a_W = (0.0, 0.0, 0.0)
    if over_s > 0.2 * SLOPE_S:
        f_W = unrotate(q_FW, scale(1.0 / over_s, subtract(older_F, newer_F)))
        a_W = (f_W[0], f_W[1], f_W[2] - g_mps2)
    return dp_W, dv_W, a_W
