"""Steps of the smoother against their definition, and the whole against dense least squares."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import pack
from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf.layout import (
    ESKF,
    GNSS_BIAS,
    GNSS_POSITION,
    GNSS_VELOCITY,
    PRESSURE,
    RANGE,
    STATIC_PRESSURE,
    TERRAIN,
    N,
)
from quadsim.estimation.eskf.measurement_buffer import EVENT, IMU, new_timeline
from quadsim.estimation.eskf.parameters import NoiseParams
from quadsim.estimation.eskf.propagation import propagate
from quadsim.estimation.eskf.update import correct_state
from quadsim.estimation.smoother.backward import ADJOINT, back_over_transition, difference
from quadsim.estimation.smoother.smoother import smooth_events
from quadsim.world.air.atmosphere import pressure_at

Array = NDArray[np.float64]
GRAVITY_W = np.array([0.0, 0.0, -9.80665])
START_NS = 10_000_000_000


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
    correct_state(a)
    out = np.zeros(N)
    difference(a, b, out)
    np.testing.assert_allclose(out, error, rtol=1e-12, atol=1e-14)


# --- dense least squares -----------------------------------------------------------------------

WITHOUT_WALKS = NoiseParams(
    accel_bias_walk=0.0, gyro_bias_walk=0.0, pressure_walk=0.0, field_bias_walk=0.0, wind_walk=0.0
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
    # the problem's order: the offset of the pressure, terrain, the fixes' error
    at = [*range(PRESSURE + 1), TERRAIN, *range(GNSS_BIAS, GNSS_BIAS + 3)]
    state.covariance[at, at] = PRIOR_SIGMA**2
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
