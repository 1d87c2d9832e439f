"""Prediction from the IMU: strapdown mechanisation and covariance, over whole or split samples."""

from __future__ import annotations

import math
from typing import NamedTuple

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.alignment import restart, try_start
from quadsim.estimation.eskf.inertial import frame_turn, integrate_inertial, remember
from quadsim.estimation.eskf.layout import BA, REASON_IMU_GAP, REASON_NOT_FINITE, THETA, Eskf, P
from quadsim.estimation.eskf.parameters import (
    GAP_ACCEL_MPS2,
    GAP_MAX_S,
    GAP_RATE_RADPS,
    EstimatorParams,
)
from quadsim.estimation.eskf.propagation import propagate
from quadsim.estimation.eskf.start_window import add_sample, clear, integrate_window, scale_errors
from quadsim.geometry.rotation import exp, multiply, normalize, quat, rotate, to_matrix, unrotate
from quadsim.geometry.vector import add, dot, norm, scale, store, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: How long a rotation or an acceleration lasts, and with it what an error of scale makes of it; and
#: a rotation that goes on, as in a circle or a spin.
SCALE_ERROR_S, STEADY_S = 1.0, 10.0
#: A change of the force's mean over SCALE_ERROR_S that counts as one: less is unrest.
LEAST_PUSH_MPS2 = 0.3
#: Time over which rate and acceleration are averaged for that: noise is no rotation.
SCALE_MEAN_S = 0.1
#: A mean force that is beyond hover's by more than so many variances of its noise is motion.
MOVING_SIGMAS2 = 3.0
#: Thrust and drag do not change the specific force by so much between samples; an impact does.
IMPACT_MPS2 = 80.0


class ImuInput(NamedTuple):
    """An IMU sample.

    Attributes:
        f_S: (3,) mean specific force of the interval, m/s^2.
        w_S: (3,) mean angular velocity, rad/s.
        f_variance: (3,) white noise of the sample, (m/s^2)^2; all zero: unknown.
        w_variance: (3,) the same of the rate, (rad/s)^2.
    """

    f_S: Vec3
    w_S: Vec3
    f_variance: Vec3
    w_variance: Vec3


@kernel
def or_default(variance: Vec3, density: float, period_s: float) -> Vec3:
    """The message's variances, or those of a density where all are zero or less (unknown)."""
    if variance[0] <= 0.0 and variance[1] <= 0.0 and variance[2] <= 0.0:
        default = density * density / period_s
        return (default, default, default)
    return variance


@kernel
def known_noise(
    state: Eskf, params: EstimatorParams, f_variance: Vec3, w_variance: Vec3
) -> tuple[Vec3, Vec3]:
    """Variances of a sample: the message's; where unknown the defaults'."""
    noise = params.noise
    return (
        or_default(f_variance, noise.accel_density, state.period_s),
        or_default(w_variance, noise.gyro_density, state.period_s),
    )


@kernel
def mechanise(
    p_W: Vec3,
    v_W: Vec3,
    q_WS: tuple[float, float, float, float],
    f_S: Vec3,
    w_S: Vec3,
    gravity_mps2: float,
    dt_s: float,
) -> tuple[Vec3, Vec3, tuple[float, float, float, float], tuple[float, float, float, float], Vec3]:
    """Motion over one step from the interval's averages, by the midpoint rule.

    Returns:
        p_W, v_W, q_WS after the step; the attitude in its middle; the specific force in W.
    """
    q_mid = multiply(q_WS, exp(scale(0.5 * dt_s, w_S)))
    f_W = rotate(q_mid, f_S)
    step = scale(dt_s, (f_W[0], f_W[1], f_W[2] - gravity_mps2))
    p_after = add(p_W, scale(dt_s, add(v_W, scale(0.5, step))))
    q_after = normalize(multiply(q_WS, exp(scale(dt_s, w_S))))
    return p_after, add(v_W, step), q_after, q_mid, f_W


@kernel
def without_noise(f_W: Vec3, mean_W: Vec3, noise2: float, gravity_mps2: float) -> Vec3:
    """The specific force by which an error of the attitude becomes one of the velocity.

    Noise of a sample moves the velocity, and turns with no attitude: a filter that takes it for
    motion learns a heading from it. So what a force is beyond hover's counts as far as the mean
    over SCALE_MEAN_S is more than noise (the positive part of James and Stein's estimator, 1961).

    Args:
        f_W: of the sample, m/s^2.
        mean_W: that mean.
        noise2: variance of its noise, the sum of three axes, (m/s^2)^2.
        gravity_mps2: hover's, along the vertical.
    """
    hover_W = (0.0, 0.0, gravity_mps2)
    moving = subtract(mean_W, hover_W)
    part = 1.0 - MOVING_SIGMAS2 * noise2 / max(dot(moving, moving), 1e-9)
    return add(hover_W, scale(max(part, 0.0), subtract(f_W, hover_W)))


@kernel
def open_accel_bias(state: Eskf, params: EstimatorParams) -> None:
    """What errors of the accelerometer's scale and axes make of its bias, as they are no states.

    At one force they are a bias, which the bias's state knows: in a vehicle that leans against the
    wind another one than on the ground. What the force's mean over a second changes opens the bias
    by the variance of that change; never beyond twice the variance of such an error, which is the
    mean square of two that differ.
    """
    lean, before = vec3(state.leaning_S), vec3(state.leant_S)
    if norm(subtract(lean, before)) < LEAST_PUSH_MPS2:
        return
    x, y, z = lean
    a, b, c = before
    change = (
        math.sqrt(abs(x * x - a * a)), math.sqrt(abs(y * y - b * b)), math.sqrt(abs(z * z - c * c))
    )  # fmt: skip
    larger = (max(abs(x), abs(a)), max(abs(y), abs(b)), max(abs(z), abs(c)))
    noise = params.noise
    added = scale_errors(change, noise.accel_scale, noise.accel_axes)
    most = scale_errors(larger, noise.accel_scale, noise.accel_axes)
    for i in range(BA, BA + 3):
        room = 2.0 * most[i - BA] - state.covariance[i, i]
        state.covariance[i, i] += max(min(added[i - BA], room), 0.0)
    store(state.leant_S, lean)


@kernel
def advance_filter(
    state: Eskf, params: EstimatorParams, to_ns: int, sample_ns: int, imu: ImuInput
) -> None:
    """Bring the state to ``to_ns`` with a sample that averages up to ``sample_ns``.

    A measurement between two IMU samples splits the later one; its white noise is shared out so
    that the parts together have the variance of the whole.
    """
    f_S, w_S, f_variance, w_variance = imu
    dt_s = (to_ns - state.stamp_ns) * 1e-9
    if dt_s <= 0.0:
        return
    interval_s = (sample_ns - state.imu_stamp_ns) * 1e-9
    state.stamp_ns = to_ns
    if state.running == 0 or state.realigning == 1:
        integrate_window(state.alignment, f_S, w_S, dt_s)
    if state.running == 0:
        return
    f_variance, w_variance = known_noise(state, params, f_variance, w_variance)
    share = interval_s * dt_s
    angle_more, velocity_more = 0.0, 0.0
    if interval_s > 1.5 * state.period_s:  # samples are missing: the last one stands for them
        lost_s = interval_s - state.period_s
        angle = GAP_RATE_RADPS * lost_s
        velocity = GAP_ACCEL_MPS2 * lost_s
        angle_more = angle * angle * dt_s / interval_s
        velocity_more = velocity * velocity * dt_s / interval_s
    jump_mps2 = norm(subtract(f_S, vec3(state.f_S)))
    if jump_mps2 > IMPACT_MPS2:  # an impact ends within a sample, is cut off or counted twice
        velocity_more += jump_mps2 * jump_mps2 * share
    f_S = subtract(f_S, vec3(state.accel_bias_S))
    w_S = subtract(w_S, vec3(state.gyro_bias_S))
    gravity_mps2 = gravity_at(params, state.p_W[2] + 0.5 * dt_s * state.v_W[2])
    q_FW = frame_turn(state)
    p_W, v_W, q_WS, q_mid, f_W = mechanise(
        vec3(state.p_W), vec3(state.v_W), quat(state.q_WS), f_S, w_S, gravity_mps2, dt_s
    )
    store(state.p_W, p_W)
    store(state.v_W, v_W)
    store(state.q_WS, q_WS)
    integrate_inertial(state, q_FW, q_WS, f_W, dt_s)
    for i in range(3):
        state.f_mean_W[i] += f_W[i] * dt_s
    if state.flow_ns > 0:
        for i in range(3):
            state.flow_turn_S[i] += w_S[i] * dt_s
    # errors of scale and axes are no states: white noise of the density of an error that lasts
    noise = params.noise
    lasting_s = dt_s * SCALE_ERROR_S
    # a multirotor's force lies along its z: in hover the accelerometer's error is a bias
    hover_S = scale(gravity_mps2, unrotate(quat(state.q_BS), (0.0, 0.0, 1.0)))
    part, steady = min(dt_s / SCALE_MEAN_S, 1.0), min(dt_s / STEADY_S, 1.0)
    mean = min(dt_s / SCALE_ERROR_S, 1.0)
    for i in range(3):
        state.turning_S[i] += part * (w_S[i] - state.turning_S[i])
        state.steady_S[i] += steady * (w_S[i] - state.steady_S[i])
        state.pushing_S[i] += part * (f_S[i] - hover_S[i] - state.pushing_S[i])
        state.leaning_S[i] += mean * (f_S[i] - hover_S[i] - state.leaning_S[i])
        state.across_W[i] += part * (f_W[i] - state.across_W[i])
    # the lag of a tilt behind a rotation that goes on is the same in the IMU's axes, as a bias is
    steady_S = scale(math.sqrt(STEADY_S / SCALE_ERROR_S), vec3(state.steady_S))
    angle2 = add(
        scale_errors(vec3(state.turning_S), noise.gyro_scale, noise.gyro_axes),
        scale_errors(steady_S, noise.gyro_scale, noise.gyro_axes),
    )
    velocity2 = scale_errors(vec3(state.pushing_S), noise.accel_scale, noise.accel_axes)
    # axes that are off turn each acceleration the same way: many say little more than one
    across = norm((state.across_W[0], state.across_W[1], 0.0)) * noise.gyro_axes
    velocity_more += across * across * lasting_s
    # the term of second order: an open heading turns the open part of the accelerometer's bias
    C = state.covariance
    turned2 = C[THETA + 2, THETA + 2] * max(C[BA, BA], C[BA + 1, BA + 1])
    velocity_more += turned2 * lasting_s
    open_accel_bias(state, params)
    angle_variance = (
        w_variance[0] * share + angle_more + angle2[0] * lasting_s,
        w_variance[1] * share + angle_more + angle2[1] * lasting_s,
        w_variance[2] * share + angle_more + angle2[2] * lasting_s,
    )
    velocity_variance = (
        f_variance[0] * share + velocity_more + velocity2[0] * lasting_s,
        f_variance[1] * share + velocity_more + velocity2[1] * lasting_s,
        f_variance[2] * share + velocity_more + velocity2[2] * lasting_s,
    )
    noise2 = 0.5 * part * (f_variance[0] + f_variance[1] + f_variance[2])
    f_W = without_noise(f_W, vec3(state.across_W), noise2, gravity_mps2)
    propagate(
        state.covariance, state.n, to_matrix(q_mid), f_W, rotate(q_mid, scale(dt_s, w_S)), dt_s,
        angle_variance, velocity_variance, params.noise,
    )  # fmt: skip


@kernel
def learn_period(state: Eskf, interval_s: float) -> None:
    """Follow the IMU's period.

    A shorter interval is taken at once; a longer one, which is a gap for all one knows, counts as
    two periods at most and little. The first interval may have begun with a measurement.
    """
    if state.imu_count <= 2 or interval_s < 0.67 * state.period_s:
        state.period_s = interval_s
    else:
        state.period_s += 0.02 * (min(interval_s, 2.0 * state.period_s) - state.period_s)


@kernel
def first_sample(state: Eskf, stamp_ns: int) -> None:
    """The first sample only tells the time: its interval's beginning is unknown."""
    state.stamp_ns = stamp_ns
    state.imu_stamp_ns = stamp_ns
    state.imu_count = 1
    clear(state)
    state.alignment.start_ns = stamp_ns


@kernel
def take_stamp(state: Eskf, params: EstimatorParams, stamp_ns: int) -> bool:
    """Whether a sample ends an interval over which the filter can be predicted.

    The first sample, and the first one after a gap, only tell the time.
    """
    if state.imu_count == 0:
        first_sample(state, stamp_ns)
        return False
    interval_s = (stamp_ns - state.imu_stamp_ns) * 1e-9
    if interval_s > GAP_MAX_S:
        restart(state, REASON_IMU_GAP)
        first_sample(state, stamp_ns)
        return False
    return interval_s > 0.0


@kernel
def predict(state: Eskf, params: EstimatorParams, stamp_ns: int, imu: ImuInput) -> None:
    """Predict to an IMU sample, and add it to a window that is being filled.

    Arguments as of :func:`predict_or_align`.
    """
    f_S, w_S, f_variance, w_variance = imu
    interval_s = (stamp_ns - state.imu_stamp_ns) * 1e-9
    learn_period(state, interval_s)
    advance_filter(state, params, stamp_ns, stamp_ns, imu)
    state.imu_stamp_ns = stamp_ns
    state.imu_count += 1
    store(state.f_S, f_S)
    store(state.w_S, w_S)
    f_known, w_known = known_noise(state, params, f_variance, w_variance)
    if state.turns_unseen == 1:  # that of one moment
        rate = GAP_RATE_RADPS
        w_known = (rate * rate, rate * rate, rate * rate)
    store(state.w_variance, w_known)
    if state.running == 0 or state.realigning == 1:
        add_sample(state.alignment, f_S, w_S, f_known, w_known, interval_s)


@kernel
def predict_or_align(state: Eskf, params: EstimatorParams, stamp_ns: int, imu: ImuInput) -> bool:
    """Predict to an IMU sample, or start the filter from the window that it fills.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        stamp_ns: end of the sample's interval; not after the state's: nothing happens.
        imu: the sample.

    Returns:
        Whether there is an estimate at that stamp.
    """
    if not take_stamp(state, params, stamp_ns):
        return False
    predict(state, params, stamp_ns, imu)
    if state.running == 0 or state.realigning == 1:
        try_start(state, params)
    if state.running == 0:
        return False
    total = 0.0
    for i in range(3):
        total += state.p_W[i] + state.v_W[i] + state.q_WS[i] + state.covariance[P + i, P + i]
    if not math.isfinite(total):
        restart(state, REASON_NOT_FINITE)
        return False
    remember(state)
    return True
