"""The fixed-interval smoother against dense least squares, and on matched flights over seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.analysis.replay import Settings, replay
from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation import smoother as smoother_module
from quadsim.estimation.backward import ADJOINT, back_over_transition, difference
from quadsim.estimation.covariance import propagate
from quadsim.estimation.layout import (
    BA,
    BG,
    DRAG,
    ESKF,
    GNSS_BIAS,
    GNSS_POSITION,
    GNSS_VELOCITY,
    GRAVITY,
    PRESSURE,
    RANGE,
    STATIC_PRESSURE,
    TERRAIN,
    THETA,
    N,
    P,
    V,
)
from quadsim.estimation.parameters import FusionParams, NoiseParams
from quadsim.estimation.smoother import Smoothed, Smoother, smooth, smooth_events
from quadsim.estimation.timeline import EVENT, IMU, new_timeline
from quadsim.estimation.update import correct
from quadsim.geometry.geodesy import Datum
from quadsim.parameters import pack
from quadsim.world.atmosphere import pressure_at

Array = NDArray[np.float64]
Message = tuple[str, int, tuple[Any, ...]]
GRAVITY_W = np.array([0.0, 0.0, -9.80665])
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
DATUM = Datum()
START_NS = 10_000_000_000
CORE = slice(0, 15)


# --- the steps of the backward pass, each against its definition -------------------------------


def random_rotation(rng: np.random.Generator) -> Rotation:
    return Rotation.random(random_state=rng)


def tuples(matrix: Array) -> Any:
    return tuple(tuple(float(x) for x in row) for row in matrix)


def test_the_adjoint_of_a_prediction_is_the_transpose_of_the_filters_transition() -> None:
    """F is read off the filter's own propagation: F F^T and F (e_i + e_j)(e_i + e_j)^T F^T."""
    rng = np.random.default_rng(1)
    noise = pack(replace(EstimatorParams(), noise=WITHOUT_WALKS)).noise
    R, f_W, turn_W = tuples(random_rotation(rng).as_matrix()), (1.0, -2.0, 9.0), (0.1, 0.2, -0.3)

    def carried(covariance: Array) -> Array:
        covariance = covariance.copy()
        propagate(covariance, N, R, f_W, turn_W, 0.1, (0.0,) * 3, (0.0,) * 3, noise)
        return covariance

    vector, root = rng.normal(size=N), rng.normal(size=(N, N))
    matrix = root @ root.T
    adjoints = np.zeros(1, ADJOINT)
    adjoint = adjoints[0]
    adjoint.vector, adjoint.matrix = vector, matrix
    back_over_transition(adjoint, N, R, f_W, turn_W, 0.1)
    for _ in range(N):
        x = rng.normal(size=N)
        image = carried(np.outer(x, x))  # F x (F x)^T
        assert np.sum(matrix * image) == pytest.approx(x @ adjoint.matrix @ x, rel=1e-12)
        # (l . F x)^2 = (F^T l . x)^2
        assert vector @ image @ vector == pytest.approx((adjoint.vector @ x) ** 2, rel=1e-9)


def test_the_difference_undoes_a_correction() -> None:
    """All states, those too that the tests of flights do not use."""
    rng = np.random.default_rng(2)
    a, b = np.zeros(1, ESKF)[0], np.zeros(1, ESKF)[0]
    for state in (a, b):
        state.q_WS = 0.1, -0.7, 0.5, 0.5
    a.correction = error = rng.normal(0.0, 0.5, N)
    correct(a)
    out = np.zeros(N)
    difference(a, b, out)
    np.testing.assert_allclose(out, error, rtol=1e-12, atol=1e-14)


# --- dense least squares -----------------------------------------------------------------------

WITHOUT_WALKS = NoiseParams(
    accel_bias_walk=0.0,
    gyro_bias_walk=0.0,
    pressure_walk=0.0,
    field_bias_walk=0.0,
    wind_walk=0.0,
)
#: So small that the problem is linear: what is left is of the order of the deviations.
SMALL = 5e-5
#: Next to nothing is known of the pressure's offset, which the filter sets with the first pressure.
PRIOR_SIGMA = SMALL * np.repeat(
    [0.2, 0.3, 0.5, 0.05, 0.2, 100.0, 0.3, 0.2], [3, 3, 3, 3, 3, 1, 1, 3]
)
WALKS = NoiseParams(
    accel_bias_walk=SMALL * 0.2,
    gyro_bias_walk=SMALL * 0.05,
    pressure_walk=SMALL * 0.3,
    terrain_walk=SMALL * 0.3,
    gnss_correlated_share=0.4,
    gnss_correlation_s=0.5,
)
ACCEL_VARIANCE = SMALL**2 * np.array([0.04, 0.09, 0.01])
GYRO_VARIANCE = SMALL**2 * np.array([0.01, 0.0025, 0.0049])
STEP_NS = 50_000_000
#: What the filter takes for the biases at the start; forces and rates hold them.
GYRO_BIAS_S, ACCEL_BIAS_S = np.array([0.4, -0.3, 0.5]), np.array([2.0, -1.5, 3.0])
OFFSET_M = 488.0
R_START = Rotation.from_rotvec([0.2, -0.15, 1.0])
NOTHING = -1


class Part(NamedTuple):
    """A part of an IMU sample's interval, and what is measured at its end."""

    to_ns: int
    sample: int
    kind: int = NOTHING
    sigma: Array = np.zeros(0)
    value: Array = np.zeros(0)


def least_squares_problem(rng: np.random.Generator) -> tuple[Array, Array, list[Part]]:
    """Fifteen IMU samples; velocities come between two of them, some axes are better known."""
    f_S = rng.normal([0.5, -1.0, 9.0], 2.0, (15, 3)) + ACCEL_BIAS_S
    w_S = rng.normal(0.0, 0.8, (15, 3)) + GYRO_BIAS_S
    parts = []
    for k in range(15):
        to_ns = START_NS + (k + 1) * STEP_NS
        if k % 4 == 1:
            sigma = SMALL * rng.uniform(0.05, 0.4, 3)
            parts.append(Part(to_ns - 30_000_000, k, GNSS_VELOCITY, sigma))
        if k % 5 == 2:
            parts.append(Part(to_ns, k, GNSS_POSITION, SMALL * rng.uniform(0.1, 0.6, 3)))
        elif k % 5 == 4:
            parts.append(Part(to_ns, k, STATIC_PRESSURE, np.array([SMALL * 1.2])))  # Pa
        elif k % 3 == 0:
            parts.append(Part(to_ns, k, RANGE, np.array([SMALL * 0.05])))
        else:
            parts.append(Part(to_ns, k))
    return f_S, w_S, parts


def measured_by(
    kind: int, R: Rotation, p: Array, fix: Array, v: Array, offset: float, ground: float
) -> Array:
    if kind == GNSS_POSITION:
        return fix
    if kind == GNSS_VELOCITY:
        return v
    if kind == STATIC_PRESSURE:
        return np.array([pressure_at(p[2] + offset)])
    return np.array([(p[2] - ground) / R.as_matrix()[2, 2]])


def trajectory(
    unknowns: Array, f_S: Array, w_S: Array, parts: list[Part]
) -> tuple[list[tuple[Rotation, Array]], list[Array]]:
    """States at the IMU stamps from errors of the start and white noise of unit variance.

    The midpoint rule, in numpy; noise of the rotation enters before and after the force acts.

    Returns:
        (R, (12,) v p bg ba) at each stamp, and what would be measured.
    """
    e = PRIOR_SIGMA * unknowns[:20]
    R = Rotation.from_rotvec(e[:3]) * R_START
    v, p = np.add(e[3:6], (1.0, 2.0, 0.5)), np.add(e[6:9], (0.0, 0.0, 5.0))
    bg, ba, offset, ground = GYRO_BIAS_S + e[9:12], ACCEL_BIAS_S + e[12:15], OFFSET_M + e[15], e[16]
    common = e[17:20]
    share = WALKS.gnss_correlated_share
    states, measured = [], []
    now_ns = ranged_ns = fixed_ns = START_NS
    for part, noise in zip(parts, unknowns[20:].reshape(len(parts), 20), strict=True):
        n1, n2, nv, nbg, nba = noise[:15].reshape(5, 3)
        dt = (part.to_ns - now_ns) * 1e-9
        now_ns = part.to_ns
        white = STEP_NS * 1e-9 * dt
        w = (w_S[part.sample] - bg) * dt
        R = R * Rotation.from_rotvec(0.5 * w)
        n1, n2 = (np.sqrt(0.5 * GYRO_VARIANCE * white) * n for n in (n1, n2))
        middle = R * Rotation.from_rotvec(n1)
        step = (middle.apply(f_S[part.sample] - ba) + GRAVITY_W) * dt
        step += middle.apply(np.sqrt(ACCEL_VARIANCE * white) * nv)
        p = p + dt * (v + 0.5 * step)
        v = v + step
        R = middle * Rotation.from_rotvec(n2) * Rotation.from_rotvec(0.5 * w)
        bg = bg + WALKS.gyro_bias_walk * np.sqrt(dt) * nbg
        ba = ba + WALKS.accel_bias_walk * np.sqrt(dt) * nba
        offset = offset + WALKS.pressure_walk * np.sqrt(dt) * noise[15]
        if part.kind == RANGE:
            flown_m = np.hypot(v[0], v[1]) * (now_ns - ranged_ns) * 1e-9
            ground = ground + WALKS.terrain_walk * np.sqrt(flown_m) * noise[16]
            ranged_ns = now_ns
        if part.kind == GNSS_POSITION:
            a = np.exp(-(now_ns - fixed_ns) * 1e-9 / WALKS.gnss_correlation_s)
            common = a * common + np.sqrt((1.0 - a * a) * share) * part.sigma * noise[17:]
            fixed_ns = now_ns
        if part.kind != NOTHING:
            measured.append(measured_by(part.kind, R, p, p + common, v, offset, ground))
        if (part.to_ns - START_NS) % STEP_NS == 0:
            states.append((R, np.concatenate([v, p, bg, ba])))
    return states, measured


def differences(states: Any, reference: Any) -> Array:
    """(M, 15) errors between two lists of states."""
    rows = []
    for (R, x), (R_0, x_0) in zip(states, reference, strict=True):
        rows.append(np.concatenate([(R * R_0.inv()).as_rotvec(), x - x_0]))
    return np.array(rows)


def white_sigma(part: Part) -> Array:
    """Deviation of a measurement but for what its error has in common with others."""
    if part.kind != GNSS_POSITION:
        return part.sigma
    return np.sqrt(1.0 - WALKS.gnss_correlated_share) * part.sigma


def solve(f_S: Array, w_S: Array, parts: list[Part]) -> tuple[Any, Array]:
    """States and their covariances (M, 15, 15) by dense normal equations."""
    size = 20 + 20 * len(parts)
    values = np.concatenate([part.value for part in parts])
    sigma = np.concatenate([white_sigma(part) for part in parts])
    nothing = np.zeros(size)
    states, expected = trajectory(nothing, f_S, w_S, parts)
    H, J = np.zeros((len(values), size)), np.zeros((len(states), 15, size))
    for k in range(size):
        step = 0.1 * np.eye(size)[k]
        s_up, m_up = trajectory(step, f_S, w_S, parts)
        s_down, m_down = trajectory(-step, f_S, w_S, parts)
        H[:, k] = (np.concatenate(m_up) - np.concatenate(m_down)) / 0.2 / sigma
        J[:, :, k] = (differences(s_up, states) - differences(s_down, states)) / 0.2
    information = np.eye(size) + H.T @ H
    x = np.linalg.solve(information, H.T @ ((values - np.concatenate(expected)) / sigma))
    covariance = np.linalg.inv(information)
    return trajectory(x, f_S, w_S, parts)[0], J @ covariance @ J.transpose(0, 2, 1)


def known_start(params: EstimatorParams) -> NDArray[Any]:
    """A filter that runs from the problem's start on."""
    lines = new_timeline(params)
    state = lines[0].state
    state.running, state.starts, state.imu_count = 1, 1, 3
    state.terrain_started = 1
    state.stamp_ns = state.imu_stamp_ns = state.range_ns = START_NS
    state.fix_ns = state.aided_ns = START_NS
    state.period_s = STEP_NS * 1e-9
    x, y, z, w = R_START.as_quat()
    state.q_WS = w, x, y, z
    state.v_W, state.p_W = (1.0, 2.0, 0.5), (0.0, 0.0, 5.0)
    state.gyro_bias_S, state.accel_bias_S = GYRO_BIAS_S, ACCEL_BIAS_S
    assert (PRESSURE, TERRAIN, GNSS_BIAS) == (15, 16, 17)
    state.covariance[:20, :20] = np.diag(PRIOR_SIGMA**2)
    state.covariance[PRESSURE, PRESSURE] = 1.0
    return lines


def as_events(f_S: Array, w_S: Array, parts: list[Part]) -> NDArray[Any]:
    rows: list[tuple[int, int, Array]] = []
    for part in parts:
        if (part.to_ns - START_NS) % STEP_NS == 0:
            sample = [f_S[part.sample], w_S[part.sample], ACCEL_VARIANCE, GYRO_VARIANCE]
            rows.append((part.to_ns, IMU, np.concatenate(sample)))
        if part.kind in (GNSS_POSITION, GNSS_VELOCITY):
            upper = np.diag(part.sigma**2)[np.triu_indices(3)]
            rows.append((part.to_ns, part.kind, np.concatenate([part.value, upper])))
        elif part.kind != NOTHING:
            rows.append((part.to_ns, part.kind, np.concatenate([part.value, part.sigma**2])))
    events: NDArray[Any] = np.zeros(len(rows), EVENT)
    for event, (stamp_ns, kind, values) in zip(events, rows, strict=True):
        event["stamp_ns"], event["kind"] = stamp_ns, kind
        event["values"][: len(values)] = values
    return events


@pytest.mark.timeout(300)  # both passes are compiled here, if they were not before
def test_smoothing_is_least_squares_over_the_whole_interval() -> None:
    """States within a thousandth of their deviation, covariances to a thousandth.

    Both solve the same problem up to its curvature, a share of the deviations' size, 1e-5.
    """
    rng = np.random.default_rng(3)
    f_S, w_S, parts = least_squares_problem(rng)
    unknowns = rng.normal(size=20 + 20 * len(parts))
    unknowns[15] = 0.0  # a prior that the filter has not would pull at the offset
    rest = iter(trajectory(unknowns, f_S, w_S, parts)[1])
    parts = [
        part._replace(value=next(rest) + rng.normal(0.0, white_sigma(part)))
        if len(part.sigma)
        else part
        for part in parts
    ]
    states, covariances = solve(f_S, w_S, parts)

    params = replace(EstimatorParams(), noise=WALKS, flat_ground=False)
    lines = known_start(params)
    smoothed = smooth_events(lines, as_events(f_S, w_S, parts), True)
    fused = len([part for part in parts if part.kind != NOTHING])
    assert lines[0].state.accepted.sum() == fused - 1  # one set a state
    assert smoothed.covariance is not None
    own = [
        (Rotation.from_quat(o["q_WB"][[1, 2, 3, 0]]), np.concatenate([o["v_W"], o["p_W"], bg, ba]))
        for o, bg, ba in zip(
            smoothed.rows["odometry"],
            smoothed.rows["gyro_bias_S"],
            smoothed.rows["accel_bias_S"],
            strict=True,
        )
    ]
    deviation = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    assert np.max(np.abs(differences(own, states)) / deviation) < 1e-3
    relative = (smoothed.covariance - covariances) / (deviation[:, :, None] * deviation[:, None, :])
    assert np.max(np.abs(relative)) < 1e-3


# --- matched flights ---------------------------------------------------------------------------

PERIOD_NS = 10_000_000
DT = PERIOD_NS * 1e-9
ACCEL_SIGMA, GYRO_SIGMA = np.array([0.1, 0.15, 0.2]), np.array([0.01, 0.02, 0.015])
FIX_SIGMA, SPEED_SIGMA, HEADING_SIGMA = np.array([0.5, 0.7, 1.5]), np.array([0.1, 0.15, 0.2]), 0.05
MATCHED = NoiseParams(accel_bias_walk=5e-3, gyro_bias_walk=1e-3)
SEEDS = range(16)


def attitude(t: Array) -> Rotation:
    yaw, pitch, roll = 0.8 + 0.6 * np.sin(0.5 * t), 0.3 * np.sin(0.8 * t), 0.25 * np.cos(t)
    return Rotation.from_euler("ZYX", np.column_stack([yaw, pitch, roll]))


def position(t: Array) -> Array:
    return np.column_stack([5.0 * np.sin(0.6 * t), 4.0 * np.cos(0.5 * t), 5 + np.sin(0.7 * t)])


def velocity(t: Array) -> Array:
    return np.column_stack([3.0 * np.cos(0.6 * t), -2.0 * np.sin(0.5 * t), 0.7 * np.cos(0.7 * t)])


def acceleration(t: Array) -> Array:
    return np.column_stack([-1.8 * np.sin(0.6 * t), -np.cos(0.5 * t), -0.49 * np.sin(0.7 * t)])


class Path(NamedTuple):
    """Truth, and the mean force and rate of each interval."""

    t: Array
    R: Rotation
    p_W: Array
    v_W: Array
    f_S: Array
    w_S: Array


def path(duration_s: float, dt: float = DT) -> Path:
    t = np.arange(round(duration_s / dt) + 1) * dt
    R = attitude(t)
    nodes, weights = np.polynomial.legendre.leggauss(5)
    f_S = np.zeros((len(t) - 1, 3))
    for node, weight in zip(nodes, weights, strict=True):
        at = t[:-1] + 0.5 * dt * (1.0 + node)
        f_S += 0.5 * weight * attitude(at).inv().apply(acceleration(at) - GRAVITY_W)
    w_S = (R[:-1].inv() * R[1:]).as_rotvec() / dt
    return Path(t, R, position(t), velocity(t), f_S, w_S)


def messages_of(flown: Path, seed: int, scale: float = 1.0) -> tuple[list[Message], Array]:
    """Noisy messages in order, and the biases (n, 6) at the IMU's stamps.

    Args:
        flown: truth.
        seed: of noise and biases.
        scale: of the noise that is made, not of that which the messages state.
    """
    rng = np.random.default_rng(seed)
    count = len(flown.t) - 1
    start = EstimatorParams().start
    first = np.repeat([start.gyro_bias_radps, start.accel_bias_mps2], 3)
    walk = np.repeat([MATCHED.gyro_bias_walk, MATCHED.accel_bias_walk], 3) * np.sqrt(DT)
    steps = np.vstack([rng.normal(0.0, first), rng.normal(0.0, walk, (count, 6))])
    biases = scale * np.cumsum(steps, axis=0)
    f_S = flown.f_S + biases[:-1, 3:] + scale * rng.normal(0.0, ACCEL_SIGMA, (count, 3))
    w_S = flown.w_S + biases[:-1, :3] + scale * rng.normal(0.0, GYRO_SIGMA, (count, 3))
    f_covariance, w_covariance = np.diag(ACCEL_SIGMA**2).ravel(), np.diag(GYRO_SIGMA**2).ravel()
    fix_covariance, speed_covariance = np.diag(FIX_SIGMA**2), np.diag(SPEED_SIGMA**2)
    heading_covariance = (HEADING_SIGMA * FIELD_W[1]) ** 2 * np.eye(3)
    none = np.zeros(3)
    messages: list[Message] = [("imu", START_NS, (none, none, f_covariance, w_covariance))]
    for k in range(count):
        stamp_ns = START_NS + (k + 1) * PERIOD_NS
        messages.append(("imu", stamp_ns, (f_S[k], w_S[k], f_covariance, w_covariance)))
        if (k + 1) % 20 == 0:
            p_W = flown.p_W[k + 1] + scale * rng.normal(0.0, FIX_SIGMA)
            v_W = flown.v_W[k + 1] + scale * rng.normal(0.0, SPEED_SIGMA)
            messages.append(("gnss_position", stamp_ns, (DATUM.to_geodetic(p_W), fix_covariance)))
            messages.append(("gnss_velocity", stamp_ns, (v_W, speed_covariance)))
        if (k + 1) % 5 == 0:  # the noise turns the field about the vertical
            turned = Rotation.from_rotvec([0.0, 0.0, scale * rng.normal(0.0, HEADING_SIGMA)])
            m_S = flown.R[k + 1].inv().apply(turned.apply(FIELD_W))
            messages.append(("magnetic_field", stamp_ns, (m_S, heading_covariance)))
    return messages, biases


def errors_of(smoothed: Smoothed, flown: Path, biases: Array) -> Array:
    """(M, 15) truth less estimate, at the stamps of the estimate."""
    o = smoothed.rows["odometry"]
    at = (o["stamp_ns"] - START_NS) // PERIOD_NS
    estimated = Rotation.from_quat(o["q_WB"][:, [1, 2, 3, 0]])
    return np.hstack(
        [
            (flown.R[at] * estimated.inv()).as_rotvec(),
            flown.v_W[at] - o["v_W"],
            flown.p_W[at] - o["p_W"],
            biases[at, :3] - smoothed.rows["gyro_bias_S"],
            biases[at, 3:] - smoothed.rows["accel_bias_S"],
        ]
    )


class Run(NamedTuple):
    """One seed: errors and covariances of the smoother, and of the filter from ``first`` on."""

    errors: Array
    covariances: Array
    first: int
    filter_errors: Array
    filter_covariances: Array


#: The noise of the heading turns the field about the vertical, and so has no vertical part.
PARAMS = replace(EstimatorParams(), noise=MATCHED, fusion=FusionParams(magnetic_inclination=False))


@pytest.fixture(scope="module")
def flown() -> Path:
    return path(20.0)


@pytest.fixture(scope="module")
def runs(flown: Path) -> list[Run]:
    """Sixteen seeds of 20 s, started in flight by the filter itself."""
    result = []
    for seed in SEEDS:
        messages, biases = messages_of(flown, seed)
        smoothed = smooth(messages, PARAMS, DATUM, with_covariance=True)
        assert smoothed.covariance is not None
        estimator = ErrorStateEkf(PARAMS, DATUM)
        errors, covariances = [], []
        for i, (kind, stamp_ns, values) in enumerate(messages):
            getattr(estimator, kind)(stamp_ns, *values)
            last = i + 1 == len(messages) or messages[i + 1][0] == "imu"
            if last and estimator.running:
                state = estimator.state
                k = (stamp_ns - START_NS) // PERIOD_NS
                R = Rotation.from_quat(state.q_WS[[1, 2, 3, 0]])
                errors.append(
                    np.concatenate(
                        [
                            (flown.R[k] * R.inv()).as_rotvec(),
                            flown.v_W[k] - state.v_W,
                            flown.p_W[k] - state.p_W,
                            biases[k, :3] - state.gyro_bias_S,
                            biases[k, 3:] - state.accel_bias_S,
                        ]
                    )
                )
                covariances.append(np.array(state.covariance[CORE, CORE]))
        own = errors_of(smoothed, flown, biases)
        first = len(own) - len(errors)
        result.append(Run(own, smoothed.covariance, first, np.array(errors), np.array(covariances)))
    return result


def test_the_flight_is_covered_from_its_first_sample(runs: list[Run], flown: Path) -> None:
    for run in runs:
        assert len(run.errors) == len(flown.t)
        assert run.first == 100  # the window of the start is a second


def test_average_nees_is_inside_its_bounds(runs: list[Run]) -> None:
    """Of all fifteen states, inside the bounds of 95 % at 90 % of the epochs from the start on."""
    low, high = stats.chi2.interval(0.95, 15 * len(runs))
    inside = []
    for k in range(runs[0].first, len(runs[0].errors), 20):
        total = sum(
            float(run.errors[k] @ np.linalg.solve(run.covariances[k], run.errors[k]))
            for run in runs
        )
        inside.append(low <= total <= high)
    assert np.mean(inside) >= 0.9


@pytest.mark.parametrize("at", [THETA, V, P, BG, BA], ids=["theta", "v", "p", "bg", "ba"])
def test_average_nees_of_each_part(runs: list[Run], at: int) -> None:
    """Inside bounds of 99.99 %; before the start, where all is on the safe side, not above them."""
    low, high = stats.chi2.interval(0.9999, 3 * len(runs))
    part = slice(at, at + 3)
    for k in range(0, len(runs[0].errors), 50):
        total = sum(
            float(
                run.errors[k, part]
                @ np.linalg.solve(run.covariances[k, part, part], run.errors[k, part])
            )
            for run in runs
        )
        assert total <= high
        assert total >= low or k < runs[0].first


def test_the_future_never_makes_an_estimate_worse(runs: list[Run]) -> None:
    """Filter's covariance less smoothed is positive semi-definite; the end is the filter's."""
    for run in runs[:5]:
        smoothed, filtered = run.covariances[run.first :], run.filter_covariances
        size = np.sqrt(np.diagonal(filtered, axis1=1, axis2=2))
        less = (filtered - smoothed) / (size[:, :, None] * size[:, None, :])
        # the accumulated corrections of the attitude turn the errors' axes by so much
        assert np.min(np.linalg.eigvalsh(less)) > -1e-9
        assert np.min(np.linalg.eigvalsh(smoothed)) > 0.0
        np.testing.assert_allclose(smoothed[-1], filtered[-1], rtol=1e-12, atol=1e-18)
        np.testing.assert_allclose(run.errors[-1], run.filter_errors[-1], atol=1e-12)


def test_smoothing_lessens_the_error_of_every_part(runs: list[Run]) -> None:
    for at in (THETA, V, P, BG, BA):
        smoothed = np.concatenate([run.errors[run.first :, at : at + 3] for run in runs])
        filtered = np.concatenate([run.filter_errors[:, at : at + 3] for run in runs])
        assert np.sqrt(np.mean(smoothed**2)) < 0.9 * np.sqrt(np.mean(filtered**2))


def test_a_noise_free_flight_is_followed_to_a_millimetre(flown: Path) -> None:
    """Messages state the noise of the matched flight, and have none."""
    messages, biases = messages_of(flown, 0, scale=0.0)
    errors = errors_of(smooth(messages, PARAMS, DATUM), flown, biases)
    assert np.max(np.linalg.norm(errors[:, P : P + 3], axis=1)) < 1e-3
    assert np.max(np.linalg.norm(errors[:, V : V + 3], axis=1)) < 1e-3
    assert np.max(np.linalg.norm(errors[:, THETA : THETA + 3], axis=1)) < 1e-4


@pytest.mark.parametrize(
    "fusion", [FusionParams(), FusionParams(drag_per_s=0.3)], ids=["gravity", "drag"]
)
def test_what_holds_the_attitude_without_gnss_is_smoothed(
    flown: Path, fusion: FusionParams
) -> None:
    """For six seconds there is no GNSS; the filter fuses gravity, or rotor drag, with the samples.

    The smoothed attitude turns as the gyroscope says, but for what noise a sample may hold: a step
    of the filter's that is not led back over would show as a jump.
    """
    messages, biases = messages_of(flown, 3)
    lost = [
        m for m in messages if m[0] == "imu" or not 7_000_000_000 < m[1] - START_NS < 13_000_000_000
    ]
    params = replace(PARAMS, fusion=fusion)
    smoother = Smoother(params, DATUM)
    for kind, stamp_ns, values in lost:
        getattr(smoother, kind)(stamp_ns, *values)
    smoothed = smoother.smooth()
    held = smoother.state.accepted[DRAG if fusion.drag_per_s > 0.0 else GRAVITY]
    assert held > 50
    q = smoothed.rows["odometry"]["q_WB"][:, [1, 2, 3, 0]]
    turn = (Rotation.from_quat(q[:-1]).inv() * Rotation.from_quat(q[1:])).as_rotvec() / DT
    rates = np.array([m[2][1] for m in lost if m[0] == "imu"][1:])
    noise = rates - smoothed.rows["gyro_bias_S"][:-1] - turn
    # what a sample's noise is estimated to be is a small part of its deviation
    assert np.max(np.abs(noise) / GYRO_SIGMA) < 0.3
    if fusion.drag_per_s == 0.0:  # there is no drag in the flight
        errors = errors_of(smoothed, flown, biases)
        assert np.max(np.linalg.norm(errors[:, P : P + 3], axis=1)) < 6.0


# --- order, gaps, what is refused --------------------------------------------------------------


def same(a: Smoothed, b: Smoothed) -> bool:
    return a.rows.tobytes() == b.rows.tobytes()


def test_the_order_of_arrival_does_not_matter(flown: Path) -> None:
    messages, _ = messages_of(flown, 4)
    ordered = smooth(messages, PARAMS, DATUM)
    late = sorted(messages, key=lambda m: m[1] + (m[0] == "gnss_position") * 3_000_000_000)
    assert same(smooth(late, PARAMS, DATUM), ordered)
    rng = np.random.default_rng(5)
    arrival = [m[1] + rng.integers(0, 400_000_000) for m in messages]
    shuffled = [messages[i] for i in np.argsort(arrival, kind="stable")]
    assert shuffled != messages
    smoother = Smoother(PARAMS, DATUM)
    assert {getattr(smoother, kind)(stamp, *values) for kind, stamp, values in shuffled} == {"ok"}
    assert not smoother.running
    assert same(smoother.smooth(), ordered)
    assert smoother.running
    assert smoother.health()["status"] == "running"
    assert smoother.counts["imu_received"] == len(flown.t)


def test_the_length_of_the_parts_does_not_matter(
    flown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of the forward pass, and what is run again, is a matter of memory alone."""
    messages, _ = messages_of(flown, 5)
    whole = smooth(messages[:800], PARAMS, DATUM)
    monkeypatch.setattr(smoother_module, "SEGMENT", 7)
    assert same(smooth(messages[:800], PARAMS, DATUM), whole)


def test_a_gap_splits_the_flight(flown: Path) -> None:
    """Three seconds are missing: what is before is smoothed as if the flight ended there."""
    messages, biases = messages_of(flown, 6)
    gap_ns = START_NS + 9_000_000_000
    before = [m for m in messages if m[1] <= gap_ns]
    after = [m for m in messages if m[1] > gap_ns + 3_000_000_000]
    smoother = Smoother(PARAMS, DATUM)
    for kind, stamp_ns, values in before + after:
        getattr(smoother, kind)(stamp_ns, *values)
    both = smoother.smooth()
    assert smoother.health()["reason"] == "imu gap too long"
    assert smoother.counts["imu_gap"] == 1
    stamp_ns = both.rows["odometry"]["stamp_ns"]
    assert len(stamp_ns) == 901 + 800  # the second start too is followed back to its first sample
    assert same(Smoothed(both.rows[stamp_ns <= gap_ns]), smooth(before, PARAMS, DATUM))
    assert set(np.unique(both.rows["piece"])) == {1, 2}
    errors = errors_of(both, flown, biases)
    deviation = np.sqrt(both.rows["odometry"]["p_variance"])
    assert np.max(np.abs(errors[:, P : P + 3]) / deviation) < 4.5


def test_a_recovery_splits_the_flight(flown: Path) -> None:
    """The vehicle is moved by 100 m with nothing that tells: before it all is as it was."""
    messages, _ = messages_of(flown, 7)
    moved: list[Message] = []
    at_ns = START_NS + 10_000_000_000
    for kind, stamp_ns, values in messages:
        if kind == "gnss_position" and stamp_ns > at_ns:
            p_W = np.add(DATUM.to_enu(*values[0]), (100.0, 0.0, 0.0))
            values = (DATUM.to_geodetic(p_W), values[1])
        moved.append((kind, stamp_ns, values))
    smoother = Smoother(PARAMS, DATUM)
    for kind, stamp_ns, values in moved:
        getattr(smoother, kind)(stamp_ns, *values)
    rows = smoother.smooth().rows
    assert smoother.health()["recoveries"] == 1
    o = rows["odometry"]
    at = (o["stamp_ns"] - START_NS) // PERIOD_NS
    error = o["p_W"] - flown.p_W[at]
    first, second = rows["piece"] == 1, rows["piece"] == 2
    # what the start's bad data of two seconds before may pull: nothing, they were rejected
    assert np.max(np.linalg.norm(error[first], axis=1)) < 2.5
    assert np.max(np.linalg.norm(error[second] - [100.0, 0.0, 0.0], axis=1)) < 2.5
    assert first.sum() + second.sum() == len(flown.t)


def test_a_start_by_an_external_pose_is_followed_back(flown: Path) -> None:
    """Poses alone, from half a second on and between the IMU's stamps."""
    messages, biases = messages_of(flown, 11)
    messages = [m for m in messages[:900] if m[0] == "imu"]
    rng = np.random.default_rng(11)
    covariance = np.diag(np.repeat([0.05**2, 0.01**2], 3)).ravel()
    between = path(10.0, 0.5 * DT)
    for k in range(101, 2 * len(messages) - 2, 20):
        x, y, z, w = (Rotation.from_rotvec(rng.normal(0.0, 0.01, 3)) * between.R[k]).as_quat()
        p_W = between.p_W[k] + rng.normal(0.0, 0.05, 3)
        stamp_ns = START_NS + k * PERIOD_NS // 2
        messages.append(("external_pose", stamp_ns, (p_W, (w, x, y, z), covariance)))
    smoothed = smooth(messages, PARAMS, DATUM, with_covariance=True)
    assert len(smoothed.rows) == sum(m[0] == "imu" for m in messages)
    errors = errors_of(smoothed, flown, biases)
    assert smoothed.covariance is not None
    deviation = np.sqrt(np.diagonal(smoothed.covariance, axis1=1, axis2=2))
    assert np.max(np.abs(errors) / deviation) < 4.5
    assert np.max(np.linalg.norm(errors[:, P : P + 3], axis=1)) < 0.15


def test_an_offset_that_is_set_anew_says_nothing_of_the_old_one(flown: Path) -> None:
    """The pressure jumps by 30 m of height; the filter refuses it, then sets its offset anew."""
    messages, biases = messages_of(flown, 10)
    rng = np.random.default_rng(10)
    for k in range(0, len(flown.t), 10):
        height_m = flown.p_W[k, 2] + OFFSET_M + (30.0 if flown.t[k] > 10.0 else 0.0)
        pressure_pa = pressure_at(float(height_m)) + rng.normal(0.0, 3.0)
        messages.append(("pressure", START_NS + k * PERIOD_NS, (pressure_pa, 9.0)))
    smoother = Smoother(PARAMS, DATUM)
    for kind, stamp_ns, values in messages:
        getattr(smoother, kind)(stamp_ns, *values)
    smoothed = smoother.smooth()
    health = smoother.health()
    assert health["pressure_rejected"] > 15
    assert health["pressure_accepted"] > 150
    errors = errors_of(smoothed, flown, biases)
    height = errors[:, P + 2] / np.sqrt(smoothed.rows["odometry"]["p_variance"][:, 2])
    assert np.max(np.abs(height)) < 4.5


def test_what_is_refused(flown: Path) -> None:
    messages, _ = messages_of(flown, 8)
    messages = messages[:400]
    clean = smooth(messages, PARAMS, DATUM)
    smoother = Smoother(PARAMS, DATUM)
    for kind, stamp_ns, values in messages:
        getattr(smoother, kind)(stamp_ns, *values)
    end_ns = messages[-1][1]
    bad = np.full(3, np.nan)
    assert smoother.imu(end_ns + 1, bad, bad) == "not_finite"
    assert smoother.gnss_velocity(end_ns, bad) == "not_finite"
    assert smoother.pressure(end_ns, 1e5, -1.0) == "bad_variance"
    assert smoother.imu(START_NS, np.zeros(3), np.zeros(3)) == "backward"
    smoother.gnss_position(START_NS + 200_000_000, (0.0, 0.0, 0.0))  # the stamp is there already
    assert same(smoother.smooth(), clean)
    counts = smoother.counts
    assert counts["imu_not_finite"] == counts["gnss_velocity_not_finite"] == 1
    assert counts["pressure_bad_variance"] == counts["imu_backward"] == 1
    assert counts["gnss_position_repeated"] == 1


def test_a_clock_that_is_set_back_starts_anew(flown: Path) -> None:
    """Stamps of the second part are an hour older: it is lost, as stamps must rise; not mixed."""
    messages, _ = messages_of(flown, 9)
    half = len(messages) // 2
    first = messages[:half]
    second = [(kind, stamp_ns - 3600 * 10**9, values) for kind, stamp_ns, values in messages[half:]]
    smoother = Smoother(PARAMS, DATUM)
    for kind, stamp_ns, values in first + second:
        getattr(smoother, kind)(stamp_ns, *values)
    assert same(smoother.smooth(), smooth(first, PARAMS, DATUM))
    assert smoother.counts["imu_clock_jump"] == 1


def test_without_data_there_is_nothing() -> None:
    smoother = Smoother(PARAMS, DATUM)
    assert len(smoother.smooth().rows) == 0
    smoother.gnss_velocity(5, (0.0, 0.0, 0.0))
    assert len(smoother.smooth(with_covariance=True).rows) == 0


# --- in replay ---------------------------------------------------------------------------------


def test_replay_smooths_beside_others(circle_bag: FilePath) -> None:
    """Its track begins with the first IMU sample; without noise it is as good as the truth."""
    result = replay(circle_bag, Settings(("smoother", "eskf")))
    assert list(result.log.estimates) == ["smoother", "eskf"]
    assert result.counts["smoother"] == result.counts["eskf"]
    smoothed, filtered = result.log.estimates["smoother"], result.log.estimates["eskf"]
    assert smoothed.stamp_ns[0] == result.log.truth.stamp_ns[0] < filtered.stamp_ns[0]
    assert smoothed.stamp_ns[-1] == filtered.stamp_ns[-1]
    assert smoothed.sigma is not None
    assert filtered.sigma is not None
    assert (smoothed.sigma[-len(filtered) :, :3] <= filtered.sigma[:, :3]).all()
    distance = np.linalg.norm(smoothed.p_W - result.log.truth.p_W, axis=1)
    assert np.max(distance) < 0.01  # the heading's own second order, over the first second


def test_replay_says_that_it_never_started(circle_rows: Any, write_rows: Any) -> None:
    """Without a magnetic field the filter waits for one."""
    rows = [row for row in circle_rows if not row.topic.endswith("imu/mag")]
    result = replay(write_rows(rows), Settings(("smoother",)))
    assert not result.log.estimates
    assert "smoother: never started" in result.log.notes
