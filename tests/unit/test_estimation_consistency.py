"""Consistency over seeds: a matched flight, made by numpy alone, and its chi-square bounds.

The flight is prescribed in closed form; the IMU samples are its averages over each interval. All
noise is white and of the variance that the messages state, so errors squared over covariance are
chi-square distributed, and the bounds come from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.layout import BA, BG, PRESSURE, SENSORS, THETA, N, P, V
from quadsim.estimation.parameters import FusionParams, NoiseParams
from quadsim.geometry.geodesy import Datum
from quadsim.world.atmosphere import pressure_at

Array = NDArray[np.float64]
GRAVITY_W = np.array([0.0, 0.0, -9.80665])
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
DATUM = Datum()
START_NS = 10_000_000_000
PERIOD_NS = 10_000_000  # 100 Hz
DT = PERIOD_NS * 1e-9

ACCEL_SIGMA, GYRO_SIGMA = np.array([0.1, 0.15, 0.2]), np.array([0.01, 0.02, 0.015])
FIX_SIGMA, SPEED_SIGMA = np.array([0.5, 0.7, 1.5]), np.array([0.1, 0.15, 0.2])
HEADING_SIGMA, PRESSURE_SIGMA = 0.05, 6.0
NOISE = NoiseParams(accel_bias_walk=5e-3, gyro_bias_walk=1e-3, pressure_walk=0.05)


def attitude(t: Array) -> Rotation:
    """Attitude of the flight: yaw, pitch and roll swing by up to 0.5 rad."""
    yaw = 0.8 + 0.5 * np.sin(0.4 * t)
    pitch = 0.25 * np.sin(0.9 * t + 0.3)
    roll = 0.3 * np.sin(1.1 * t)
    return Rotation.from_euler("ZYX", np.column_stack([yaw, pitch, roll]))


def position(t: Array) -> Array:
    return np.column_stack(
        [4.0 * np.sin(0.5 * t), 3.0 * np.cos(0.7 * t), 5.0 + 1.5 * np.sin(0.6 * t)]
    )


def velocity(t: Array) -> Array:
    return np.column_stack([2.0 * np.cos(0.5 * t), -2.1 * np.sin(0.7 * t), 0.9 * np.cos(0.6 * t)])


def acceleration(t: Array) -> Array:
    return np.column_stack(
        [-1.0 * np.sin(0.5 * t), -1.47 * np.cos(0.7 * t), -0.54 * np.sin(0.6 * t)]
    )


@dataclass(frozen=True)
class Flight:
    """Noise-free samples of the whole flight, shared by all seeds."""

    t: Array
    f_S: Array
    w_S: Array
    R: Rotation
    p_W: Array
    v_W: Array


def flight(duration_s: float, dt: float = DT) -> Flight:
    t = np.arange(round(duration_s / dt) + 1) * dt
    R = attitude(t)
    w_S = (R[:-1].inv() * R[1:]).as_rotvec() / dt
    nodes, weights = np.polynomial.legendre.leggauss(5)
    f_S = np.zeros((len(t) - 1, 3))
    for node, weight in zip(nodes, weights, strict=True):
        at = t[:-1] + 0.5 * dt * (1.0 + node)
        f_S += 0.5 * weight * attitude(at).inv().apply(acceleration(at) - GRAVITY_W)
    return Flight(t, f_S, w_S, R, position(t), velocity(t))


def error_of(state: object, R: Rotation, p_W: Array, v_W: Array, biases: Array) -> Array:
    """Truth less estimate, as the error state has it."""
    q = state.q_WS  # type: ignore[attr-defined]
    error = np.zeros(N)
    error[THETA : THETA + 3] = (R * Rotation.from_quat([q[1], q[2], q[3], q[0]]).inv()).as_rotvec()
    error[V : V + 3] = v_W - state.v_W  # type: ignore[attr-defined]
    error[P : P + 3] = p_W - state.p_W  # type: ignore[attr-defined]
    error[BG : BG + 3] = biases[:3] - state.gyro_bias_S  # type: ignore[attr-defined]
    error[BA : BA + 3] = biases[3:6] - state.accel_bias_S  # type: ignore[attr-defined]
    error[PRESSURE] = biases[6] - state.pressure_offset_m  # type: ignore[attr-defined]
    return error


def fly(
    path: Flight, seed: int, params: EstimatorParams, every: int
) -> tuple[ErrorStateEkf, list[Array], list[Array]]:
    """One seed of the flight through the estimator.

    Returns:
        The estimator, and errors (N,) with their covariances (N, N) each ``every`` samples.
    """
    rng = np.random.default_rng(seed)
    estimator = ErrorStateEkf(params, DATUM)
    biases = np.zeros(7)
    biases[:3] = rng.normal(0.0, params.start.gyro_bias_radps, 3)
    biases[3:6] = rng.normal(0.0, params.start.accel_bias_mps2, 3)
    biases[6] = 500.0  # height of the origin in the standard atmosphere
    walk = np.array(
        [NOISE.gyro_bias_walk] * 3 + [NOISE.accel_bias_walk] * 3 + [NOISE.pressure_walk]
    ) * np.sqrt(DT)
    errors, covariances = [], []
    f_covariance, w_covariance = np.diag(ACCEL_SIGMA**2), np.diag(GYRO_SIGMA**2)
    estimator.imu(START_NS, np.zeros(3), np.zeros(3), f_covariance, w_covariance)
    for k in range(len(path.f_S)):
        stamp_ns = START_NS + (k + 1) * PERIOD_NS
        f_S = path.f_S[k] + biases[3:6] + rng.normal(0.0, ACCEL_SIGMA)
        w_S = path.w_S[k] + biases[:3] + rng.normal(0.0, GYRO_SIGMA)
        estimator.imu(stamp_ns, f_S, w_S, f_covariance, w_covariance)
        biases = biases + rng.normal(0.0, walk)
        if (k + 1) % 20 == 0:  # 5 Hz
            p_W = path.p_W[k + 1] + rng.normal(0.0, FIX_SIGMA)
            estimator.gnss_position(stamp_ns, DATUM.to_geodetic(p_W), np.diag(FIX_SIGMA**2))
            v_W = path.v_W[k + 1] + rng.normal(0.0, SPEED_SIGMA)
            estimator.gnss_velocity(stamp_ns, v_W, np.diag(SPEED_SIGMA**2))
        if (k + 1) % 5 == 0:  # 20 Hz
            sigma = HEADING_SIGMA * FIELD_W[1]
            m_S = path.R[k + 1].inv().apply(FIELD_W) + rng.normal(0.0, sigma, 3)
            estimator.magnetic_field(stamp_ns, m_S, sigma**2 * np.eye(3))
        if (k + 1) % 10 == 5:
            height_m = path.p_W[k + 1, 2] + biases[6]
            pressure_pa = pressure_at(float(height_m)) + rng.normal(0.0, PRESSURE_SIGMA)
            estimator.pressure(stamp_ns, pressure_pa, PRESSURE_SIGMA**2)
        if (k + 1) % every == 0 and estimator.running and estimator.state.pressure_started:
            state = estimator.state
            errors.append(error_of(state, path.R[k + 1], path.p_W[k + 1], path.v_W[k + 1], biases))
            covariances.append(np.array(state.covariance))
    return estimator, errors, covariances


@pytest.fixture(scope="module")
def runs() -> list[tuple[ErrorStateEkf, list[Array], list[Array]]]:
    """Thirty seeds of 20 s, started in flight by the filter itself."""
    params = replace(EstimatorParams(), noise=NOISE)
    path = flight(20.0)
    return [fly(path, seed, params, every=100) for seed in range(30)]


def nees(error: Array, covariance: Array, part: slice) -> float:
    return float(error[part] @ np.linalg.solve(covariance[part, part], error[part]))


def average_nees(
    runs: list[tuple[ErrorStateEkf, list[Array], list[Array]]], part: slice
) -> list[float]:
    """Sum over the seeds at each epoch, those right after the start among them."""
    epochs = min(len(errors) for _, errors, _ in runs)
    assert epochs >= 18
    return [
        sum(nees(errors[k], covariances[k], part) for _, errors, covariances in runs)
        for k in range(epochs)
    ]


def test_average_nees_is_inside_its_bounds(
    runs: list[tuple[ErrorStateEkf, list[Array], list[Array]]],
) -> None:
    """The whole state's, inside the bounds of 95 % at 90 % of the epochs."""
    started = slice(0, PRESSURE + 1)  # no range, so no terrain; no bias of the field is carried
    low, high = stats.chi2.interval(0.95, started.stop * len(runs))
    assert np.mean([low <= total <= high for total in average_nees(runs, started)]) >= 0.9


@pytest.mark.parametrize("at", [THETA, V, P, BG, BA], ids=["theta", "v", "p", "bg", "ba"])
def test_average_nees_of_each_part(
    runs: list[tuple[ErrorStateEkf, list[Array], list[Array]]], at: int
) -> None:
    """Inside bounds of 99.99 % at every epoch: one in a hundred chances to miss, all told."""
    low, high = stats.chi2.interval(0.9999, 3 * len(runs))
    for total in average_nees(runs, slice(at, at + 3)):
        assert low <= total <= high


@pytest.mark.parametrize(
    ("sensor", "size"),
    [("gnss_position", 3), ("gnss_velocity", 3), ("magnetic_field", 1), ("pressure", 1)],
)
def test_innovations_have_their_variance(
    runs: list[tuple[ErrorStateEkf, list[Array], list[Array]]], sensor: str, size: int
) -> None:
    """Innovations are white, so their normalised squares add up to one chi-square number."""
    i = SENSORS.index(sensor)
    total = sum(float(estimator.state.nis_sum[i]) for estimator, _, _ in runs)
    count = sum(int(estimator.state.accepted[i]) for estimator, _, _ in runs)
    low, high = stats.chi2.interval(0.999, size * count)
    assert low <= total <= high
    # the gate's limit is one in ten thousand; four of a Poisson's deviations on top
    rejected = sum(int(estimator.state.rejected[i]) for estimator, _, _ in runs)
    expected = 1e-4 * count
    assert rejected <= expected + 4.0 * np.sqrt(expected) + 1.0


def test_a_noise_free_flight_is_followed_to_a_centimetre() -> None:
    """60 s on the IMU alone from the true start, 2 ms samples that average their interval."""
    dt = 0.002
    path = flight(60.0, dt)
    params = EstimatorParams(fusion=FusionParams(gravity_after_s=1e6))
    estimator = ErrorStateEkf(params, DATUM)
    tiny = 1e-12 * np.eye(3)
    estimator.imu(START_NS, np.zeros(3), np.zeros(3), tiny, tiny)
    state = estimator.state
    state.running = 1
    state.p_W, state.v_W = path.p_W[0], path.v_W[0]
    x, y, z, w = path.R[0].as_quat()
    state.q_WS = w, x, y, z
    for k in range(len(path.f_S)):
        estimator.imu(START_NS + (k + 1) * 2_000_000, path.f_S[k], path.w_S[k], tiny, tiny)
    error = error_of(state, path.R[-1], path.p_W[-1], path.v_W[-1], np.zeros(7))
    assert np.linalg.norm(error[P : P + 3]) < 0.01
    # The attitude takes no approximation: what is left is rounding of 30000 products.
    assert np.linalg.norm(error[THETA : THETA + 3]) < 1e-9
