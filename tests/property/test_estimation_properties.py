"""Properties of the estimator that hold for any motion and any measurements."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import pack
from quadsim.estimation.eskf.alignment import new_eskf
from quadsim.estimation.eskf.gnss import fuse_gnss_position, fuse_gnss_velocity
from quadsim.estimation.eskf.heights import fuse_pressure, fuse_range
from quadsim.estimation.eskf.layout import BA, BG, THETA, N, P, V
from quadsim.estimation.eskf.magnetic_field import fuse_magnetic_field
from quadsim.estimation.eskf.mechanisation import ImuInput, predict_or_align
from quadsim.estimation.eskf.parameters import EstimatorParams, MountingParams

FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
PARAMS = replace(
    EstimatorParams(),
    mount=MountingParams(imu_position_B_m=(0.1, 0.0, 0.05), antenna_position_B_m=(-0.2, 0.1, 0.3)),
)

seeds = st.integers(0, 2**31 - 1)
steps = st.lists(
    st.sampled_from(["imu", "position", "velocity", "field", "pressure", "range"]),
    min_size=5,
    max_size=60,
)


def running(params: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    state = new_eskf(params)
    state.running = 1
    state.imu_count = 10
    state.period_s = 0.01
    state.stamp_ns = state.imu_stamp_ns = 1_000_000_000
    state.p_W, state.v_W = rng.normal(0.0, 5.0, 3), rng.normal(0.0, 3.0, 3)
    x, y, z, w = Rotation.random(random_state=seed).as_quat()
    state.q_WS = w, x, y, z
    A = 0.1 * rng.normal(size=(N, N))
    state.covariance[:] = A @ A.T
    return state


def apply(state: Any, params: Any, kinds: list[str], seed: int, turn: Rotation) -> None:
    """The same messages, in a world turned about its vertical."""
    rng = np.random.default_rng(seed + 1)
    for kind in kinds:
        if kind == "imu":
            f, w = rng.normal([0.0, 0.0, 9.8], 2.0), rng.normal(0.0, 1.0, 3)
            stamp_ns = int(state.imu_stamp_ns) + 10_000_000
            noise = (0.01, 0.02, 0.03)
            predict_or_align(state, params, stamp_ns, ImuInput(tuple(f), tuple(w), noise, noise))
        elif kind in ("position", "velocity"):
            at = state.p_W if kind == "position" else state.v_W
            A = rng.normal(size=(3, 3))
            R = turn.as_matrix()
            covariance = R @ (A @ A.T + 0.1 * np.eye(3)) @ R.T
            value = np.array(at) + turn.apply(rng.normal(0.0, 0.3, 3))
            fuse = fuse_gnss_position if kind == "position" else fuse_gnss_velocity
            fuse(state, params, tuple(value), tuple(covariance[np.triu_indices(3)]))
        elif kind == "field":
            R_WS = Rotation.from_quat([*state.q_WS[1:], state.q_WS[0]])
            error = Rotation.from_rotvec([0.0, 0.0, rng.normal(0.0, 0.1)])
            field = error.apply(turn.apply(FIELD_W))
            fuse_magnetic_field(state, params, tuple(R_WS.inv().apply(field)), 0.01, 1e-14)
        elif kind == "pressure":
            fuse_pressure(state, params, 95000.0 + rng.normal(0.0, 5.0), 25.0)
        else:
            fuse_range(state, params, abs(float(state.p_W[2]) + rng.normal(0.0, 0.1)), 0.01)


@settings(max_examples=60)
@given(seed=seeds, kinds=steps)
def test_covariance_stays_symmetric_and_positive(seed: int, kinds: list[str]) -> None:
    params = pack(PARAMS)
    state = running(params, seed)
    apply(state, params, kinds, seed, Rotation.identity())
    covariance = np.array(state.covariance)[: state.n, : state.n]
    assert np.all(np.isfinite(covariance))
    np.testing.assert_array_equal(covariance, covariance.T)
    # rounding: 1e-16 of the largest, times the size and the number of steps
    assert np.linalg.eigvalsh(covariance).min() > -1e-13 * np.abs(covariance).max()
    assert abs(np.linalg.norm(state.q_WS) - 1.0) < 1e-14


@settings(max_examples=40)
@given(seed=seeds, kinds=steps, yaw=st.floats(-3.0, 3.0))
def test_turning_the_world_changes_nothing(seed: int, kinds: list[str], yaw: float) -> None:
    """A world turned about its vertical, field and covariances with it: the same flight, turned."""
    turn = Rotation.from_rotvec([0.0, 0.0, yaw])
    field = tuple(float(x) for x in turn.apply(FIELD_W))
    here, there = pack(PARAMS), pack(replace(PARAMS, magnetic_field_W_T=field))
    first = running(here, seed)
    second = running(there, seed)
    second.p_W, second.v_W = turn.apply(first.p_W), turn.apply(first.v_W)
    q = (turn * Rotation.from_quat([*first.q_WS[1:], first.q_WS[0]])).as_quat()
    second.q_WS = q[3], q[0], q[1], q[2]
    T = np.eye(N)
    for at in (THETA, V, P):
        T[at : at + 3, at : at + 3] = turn.as_matrix()
    second.covariance[:] = T @ first.covariance @ T.T
    apply(first, here, kinds, seed, Rotation.identity())
    apply(second, there, kinds, seed, turn)
    # rounding, amplified by the gains of up to sixty updates
    np.testing.assert_allclose(second.p_W, turn.apply(first.p_W), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(second.v_W, turn.apply(first.v_W), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(second.covariance, T @ first.covariance @ T.T, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(second.accepted, first.accepted)


@settings(max_examples=30)
@given(seed=seeds, kinds=steps)
def test_q_and_minus_q_are_one_attitude(seed: int, kinds: list[str]) -> None:
    params = pack(PARAMS)
    first, second = running(params, seed), running(params, seed)
    second.q_WS = -np.array(first.q_WS)
    apply(first, params, kinds, seed, Rotation.identity())
    apply(second, params, kinds, seed, Rotation.identity())
    np.testing.assert_allclose(second.p_W, first.p_W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(second.covariance, first.covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(second.q_WS, -np.array(first.q_WS), rtol=0.0, atol=1e-9)


@settings(max_examples=30)
@given(seed=seeds)
def test_a_measurement_never_makes_the_filter_less_sure(seed: int) -> None:
    """In the axes of the errors afterwards, which corrections turn."""
    params = pack(PARAMS)
    state = running(params, seed)
    n = state.n
    for kind in ("position", "velocity", "field", "pressure"):
        state.turned[:] = state.turned_S[:] = np.eye(3)
        before = np.array(state.covariance)[:n, :n]
        apply(state, params, [kind], seed, Rotation.identity())
        T = np.eye(n)
        T[THETA : THETA + 3, THETA : THETA + 3] = state.turned
        for at in (BG, BA):
            T[at : at + 3, at : at + 3] = state.turned_S
        before = T @ before @ T.T
        if kind == "pressure" and state.accepted[3] == 0:
            continue  # the first one sets the offset
        less = before - state.covariance[:n, :n]
        assert np.linalg.eigvalsh(less).min() > -1e-12 * np.abs(before).max()
    assert state.covariance[BG, BG] > 0.0
