"""Prediction of the error-state filter against finite differences, dense algebra and scipy."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import pack
from quadsim.estimation.eskf.alignment import new_eskf
from quadsim.estimation.eskf.layout import BA, BG, FIELD_BIAS, PRESSURE, THETA, WIND, N, P, V
from quadsim.estimation.eskf.mechanisation import (
    ImuInput,
    advance_filter,
    mechanise,
    predict_or_align,
)
from quadsim.estimation.eskf.parameters import (
    GAP_ACCEL_MPS2,
    GAP_RATE_RADPS,
    EstimatorParams,
    NoiseParams,
)
from quadsim.estimation.eskf.propagation import propagate
from quadsim.geometry.rotation import to_matrix

Array = NDArray[np.float64]
G = 9.80665
NO_WALK = NoiseParams(
    accel_bias_walk=0.0, gyro_bias_walk=0.0, pressure_walk=0.0, field_bias_walk=0.0, wind_walk=0.0
)
ZERO = (0.0, 0.0, 0.0)


def quaternion(R: Rotation) -> tuple[float, float, float, float]:
    x, y, z, w = (float(v) for v in R.as_quat())
    return (w, x, y, z)


def rotation(q: Any) -> Rotation:
    return Rotation.from_quat([q[1], q[2], q[3], q[0]])


def random_motion(rng: np.random.Generator) -> tuple[Rotation, Array, Array, Array, Array]:
    """Attitude, velocity, position, specific force and rate of a lively flight."""
    return (
        Rotation.random(random_state=int(rng.integers(1 << 31))),
        rng.normal(0.0, 5.0, 3),
        rng.normal(0.0, 20.0, 3),
        rng.normal(0.0, 8.0, 3),
        rng.normal(0.0, 2.0, 3),
    )


def step(
    R: Rotation, v: Array, p: Array, f: Array, w: Array, dt: float
) -> tuple[Rotation, Array, Array]:
    p_after, v_after, q_after, _, _ = mechanise(
        tuple(p), tuple(v), quaternion(R), tuple(f), tuple(w), G, dt
    )
    return rotation(q_after), np.array(v_after), np.array(p_after)


def perturbed_step(
    motion: tuple[Rotation, Array, Array, Array, Array], x: Array, dt: float
) -> Array:
    """Error after the step of a state that is off by ``x`` before it."""
    R, v, p, f, w = motion
    R_0, v_0, p_0 = step(R, v, p, f, w, dt)
    R_1, v_1, p_1 = step(
        Rotation.from_rotvec(x[THETA : THETA + 3]) * R,
        v + x[V : V + 3],
        p + x[P : P + 3],
        f - x[BA : BA + 3],
        w - x[BG : BG + 3],
        dt,
    )
    after = x.copy()
    after[THETA : THETA + 3] = (R_1 * R_0.inv()).as_rotvec()
    after[V : V + 3] = v_1 - v_0
    after[P : P + 3] = p_1 - p_0
    return after


def numeric_transition(motion: tuple[Rotation, Array, Array, Array, Array], dt: float) -> Array:
    h = 1e-5
    columns = []
    for k in range(N):
        x = np.zeros(N)
        x[k] = h
        columns.append((perturbed_step(motion, x, dt) - perturbed_step(motion, -x, dt)) / (2.0 * h))
    return np.column_stack(columns)


def propagated(
    covariance: Array,
    motion: tuple[Rotation, Array, Array, Array, Array],
    dt: float,
    angle_variance: tuple[float, float, float] = ZERO,
    velocity_variance: tuple[float, float, float] = ZERO,
    noise: NoiseParams = NO_WALK,
) -> Array:
    R, v, p, f, w = motion
    q_mid, f_W = mechanise(tuple(p), tuple(v), quaternion(R), tuple(f), tuple(w), G, dt)[3:]
    result = covariance.copy()
    turn_W = tuple(float(x) for x in rotation(q_mid).apply(w * dt))
    propagate(
        result, N, to_matrix(q_mid), f_W, turn_W, dt, angle_variance, velocity_variance,
        pack(noise),
    )  # fmt: skip
    return result


def implied_transition(motion: tuple[Rotation, Array, Array, Array, Array], dt: float) -> Array:
    """F of the kernel, from F A F^T of a few symmetric A: F e_i e_k^T + transposed.

    With M_ik = F (e_i e_k^T + e_k e_i^T) F^T and F's column of the pressure's offset known (it
    stays), M_i,last = F e_i e_last^T + e_last (F e_i)^T holds column i of F.
    """
    F = np.zeros((N, N))
    F[PRESSURE, PRESSURE] = 1.0
    for i in range(N):
        if i == PRESSURE:
            continue
        A = np.zeros((N, N))
        A[i, PRESSURE] = A[PRESSURE, i] = 1.0
        F[:, i] = propagated(A, motion, dt)[:, PRESSURE]
    return F


@pytest.mark.parametrize("dt", [0.001, 0.002, 0.005])
def test_transition_equals_central_differences(dt: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        motion = random_motion(rng)
        # 1e-6 absolute; entries are up to 1, and their own truncation is h^2 = 1e-10
        np.testing.assert_allclose(
            implied_transition(motion, dt), numeric_transition(motion, dt), rtol=0.0, atol=1e-6
        )


def test_covariance_equals_the_dense_product() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        motion = random_motion(rng)
        A = rng.normal(size=(N, N))
        covariance = A @ A.T
        F = implied_transition(motion, 0.002)
        result = propagated(covariance, motion, 0.002)
        np.testing.assert_allclose(result, F @ covariance @ F.T, rtol=0.0, atol=1e-12 * 100.0)
        np.testing.assert_array_equal(result, result.T)


def test_white_noise_enters_as_the_samples_error_does() -> None:
    """The noise of one sample acts like a bias of that sample: Q = G S G^T, G from differences."""
    rng = np.random.default_rng(3)
    dt = 0.004
    for _ in range(10):
        motion = random_motion(rng)
        f_variance, w_variance = rng.uniform(0.1, 2.0, 3), rng.uniform(0.01, 0.3, 3)
        F = numeric_transition(motion, dt)
        G_w, G_f = F[:, BG : BG + 3].copy(), F[:, BA : BA + 3].copy()
        G_w[BG : BG + 3] = 0.0
        G_f[BA : BA + 3] = 0.0
        expected = G_w @ np.diag(w_variance) @ G_w.T + G_f @ np.diag(f_variance) @ G_f.T
        result = propagated(
            np.zeros((N, N)), motion, dt, tuple(w_variance * dt**2), tuple(f_variance * dt**2)
        )
        # The kernel halves the rotation's variance, not its deviation, about the velocity's step:
        # of second order (f dt)^2 in the velocity's own variance, below 1 % here.
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        np.testing.assert_array_less(np.abs(result - expected), 0.01 * scale + 1e-18)


def test_constant_motion_equals_the_matrix_exponential() -> None:
    """Half a second without rotation, against expm of the continuous model and its noise."""
    rng = np.random.default_rng(4)
    R, v, p, f, _ = random_motion(rng)
    motion = (R, v, p, f, np.zeros(3))
    dt, steps = 0.002, 250
    walk = NoiseParams(
        accel_bias_walk=0.05, gyro_bias_walk=0.02, pressure_walk=0.3, field_bias_walk=1e-5
    )
    accel_density, gyro_density = 0.1, 0.03
    A = rng.normal(size=(N, N))
    covariance = A @ A.T
    result = covariance
    angle, speed = gyro_density**2 * dt, accel_density**2 * dt
    for _ in range(steps):
        result = propagated(result, motion, dt, (angle,) * 3, (speed,) * 3, walk)

    matrix = R.as_matrix()
    f_W = matrix @ f
    F = np.zeros((N, N))
    F[THETA : THETA + 3, BG : BG + 3] = -matrix
    F[V : V + 3, THETA : THETA + 3] = np.cross(np.eye(3), f_W).T
    F[V : V + 3, BA : BA + 3] = -matrix
    F[P : P + 3, V : V + 3] = np.eye(3)
    spectrum = np.zeros(N)
    spectrum[THETA : THETA + 3] = gyro_density**2
    spectrum[V : V + 3] = accel_density**2
    spectrum[BG : BG + 3] = walk.gyro_bias_walk**2
    spectrum[BA : BA + 3] = walk.accel_bias_walk**2
    spectrum[PRESSURE] = walk.pressure_walk**2
    spectrum[FIELD_BIAS : FIELD_BIAS + 3] = walk.field_bias_walk**2
    spectrum[WIND : WIND + 2] = walk.wind_walk**2
    block = np.zeros((2 * N, 2 * N))  # Van Loan 1978
    block[:N, :N], block[:N, N:], block[N:, N:] = -F, np.diag(spectrum), F.T
    exponential = expm(block * dt * steps)
    transition = exponential[N:, N:].T
    expected = transition @ covariance @ transition.T + transition @ exponential[:N, N:]
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # The walks act at the end of each step, the exponential's all along it: dt / T = 0.4 %.
    np.testing.assert_array_less(np.abs(result - expected), 0.004 * scale)


def test_velocity_error_turns_with_a_tilt() -> None:
    """A hovering vehicle tilted too far to the right (about x) believes to accelerate to +y."""
    motion = (Rotation.identity(), np.zeros(3), np.zeros(3), np.array([0.0, 0.0, G]), np.zeros(3))
    F = implied_transition(motion, 0.01)
    assert F[V + 1, THETA] == pytest.approx(-0.01 * G)
    assert F[V, THETA + 1] == pytest.approx(0.01 * G)
    assert F[V + 2, THETA + 2] == 0.0


def new_running(params: Any) -> Any:
    state = new_eskf(params)
    state.running = 1
    state.imu_count = 3
    state.period_s = 0.01
    state.stamp_ns = state.imu_stamp_ns = 1_000_000_000
    state.covariance[:] = np.diag(np.linspace(0.01, 0.16, N))
    return state


def test_a_sample_split_by_a_measurement_is_the_whole_sample() -> None:
    params = pack(EstimatorParams())
    whole, split = new_running(params), new_running(params)
    f, w = (1.0, -2.0, 9.0), (0.3, -0.2, 0.5)
    f_variance, w_variance = (0.3, 0.2, 0.1), (0.02, 0.01, 0.03)
    predict_or_align(whole, params, 1_010_000_000, ImuInput(f, w, f_variance, w_variance))
    advance_filter(
        split, params, 1_004_000_000, 1_010_000_000, ImuInput(f, w, f_variance, w_variance)
    )
    predict_or_align(split, params, 1_010_000_000, ImuInput(f, w, f_variance, w_variance))
    assert split.stamp_ns == whole.stamp_ns == 1_010_000_000
    np.testing.assert_allclose(split.q_WS, whole.q_WS, rtol=0.0, atol=1e-15)
    # the midpoint rule's error is f (w dt)^2 dt / 24 in velocity
    np.testing.assert_allclose(split.v_W, whole.v_W, rtol=0.0, atol=10.0 * 0.006**2 * 0.01 / 24)
    # and half of |f| |w| dt^3 / 6 in position, where the halves see the force turned
    np.testing.assert_allclose(split.p_W, whole.p_W, rtol=0.0, atol=9.3 * 0.62 * 0.01**3 / 12)
    np.testing.assert_allclose(
        np.diag(split.covariance), np.diag(whole.covariance), rtol=1e-5, atol=0.0
    )


def test_first_sample_and_repeats_change_nothing() -> None:
    params = pack(EstimatorParams())
    state = new_running(params)
    before = state.copy()
    predict_or_align(
        state, params, 1_000_000_000, ImuInput((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ZERO, ZERO)
    )
    predict_or_align(
        state, params, 999_000_000, ImuInput((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ZERO, ZERO)
    )
    assert state.tobytes() == before.tobytes()


def test_unknown_variance_takes_the_default_density() -> None:
    params = pack(EstimatorParams())
    unknown, stated = new_running(params), new_running(params)
    f, w = (0.0, 0.0, G), ZERO
    accel = params.noise.accel_density**2 / 0.01
    gyro = params.noise.gyro_density**2 / 0.01
    predict_or_align(unknown, params, 1_010_000_000, ImuInput(f, w, ZERO, ZERO))
    predict_or_align(stated, params, 1_010_000_000, ImuInput(f, w, (accel,) * 3, (gyro,) * 3))
    np.testing.assert_allclose(unknown.covariance, stated.covariance, rtol=1e-12, atol=1e-18)


def test_a_gap_widens_the_covariance() -> None:
    """In a gap of 200 ms the last sample stands for twenty; what it may have missed is added."""
    params = pack(EstimatorParams())
    gap, steady = new_running(params), new_running(params)
    f, w, small = (0.0, 0.0, G), ZERO, (1e-6, 1e-6, 1e-6)
    predict_or_align(gap, params, 1_200_000_000, ImuInput(f, w, small, small))
    for k in range(1, 21):
        predict_or_align(
            steady, params, 1_000_000_000 + k * 10_000_000, ImuInput(f, w, small, small)
        )
    more = np.diag(gap.covariance) - np.diag(steady.covariance)
    lost_s = 0.19
    accel, rate = GAP_ACCEL_MPS2, GAP_RATE_RADPS
    # within 10 %: the period follows a long interval a little, one step instead of twenty
    assert more[THETA] == pytest.approx((rate * lost_s) ** 2, rel=0.1)
    assert more[V + 2] == pytest.approx((accel * lost_s) ** 2, rel=0.1)


@pytest.mark.parametrize("seen", [0.0, 0.5, 2.0], ids=["missed", "cut off", "counted twice"])
def test_an_impact_leaves_the_velocity_as_open_as_its_jump(seen: float) -> None:
    """A descent of 0.6 m/s ends within a sample, of which a share of the stop is measured.

    With no jump in the samples nothing tells of it; else the velocity is as open as the jump.
    """
    params = pack(EstimatorParams())
    state = new_running(params)
    state.v_W[2] = -0.6
    small, dt_ns = (1e-4, 1e-4, 1e-4), 2_000_000
    stamp_ns = 1_000_000_000
    for force in (G, G, G + seen * 0.6 / 0.002, G):
        stamp_ns += dt_ns
        predict_or_align(state, params, stamp_ns, ImuInput((0.0, 0.0, force), ZERO, small, small))
    error_mps = abs(state.v_W[2] - 0.0)
    sigma_mps = np.sqrt(state.covariance[V + 2, V + 2])
    assert error_mps == pytest.approx(0.6 * abs(seen - 1.0), abs=0.01)
    assert (error_mps < 3.0 * sigma_mps) == (seen > 0.0)


def test_a_long_gap_starts_anew() -> None:
    params = pack(EstimatorParams())
    state = new_running(params)
    predict_or_align(state, params, 2_500_000_000, ImuInput((0.0, 0.0, G), ZERO, ZERO, ZERO))
    assert state.running == 0
    assert state.imu_count == 1
    assert state.stamp_ns == 2_500_000_000
