"""Metrics against closed forms; attitude against scipy."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from quadsim.analysis import metrics
from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag
from quadsim.sim.log import FlightLog, Track
from quadsim.wire.axes import rotation_matrices


def wxyz(rotation: Rotation) -> np.ndarray:
    return np.roll(np.atleast_2d(rotation.as_quat()), 1, axis=1)


def track(stamps_s, p_W=None, rotation=None, v_W=None, sigma=None) -> Track:
    count = len(stamps_s)
    zero = np.zeros((count, 3))
    q_WB = wxyz(Rotation.identity(count) if rotation is None else rotation)
    return Track(
        np.round(np.asarray(stamps_s) * 1e9).astype(np.int64),
        zero if p_W is None else np.asarray(p_W, float),
        zero if v_W is None else np.asarray(v_W, float),
        q_WB,
        zero,
        sigma,
    )


def test_the_known_errors_of_the_circle(circle_bag):
    """Constant offsets of the bag in conftest: 0.5 m, 0.1 rad of yaw, no tilt."""
    with open_bag(circle_bag) as bag:
        log = read_log(bag, "/quad")
    score = metrics.score(log.estimates["filtered"], log.truth)
    assert score.count == 1200
    assert score.position_rmse_m == pytest.approx(0.5, rel=1e-9)
    assert score.position_max_m == pytest.approx(0.5, rel=1e-9)
    assert score.yaw_rmse_rad == pytest.approx(0.1, rel=1e-9)
    assert score.tilt_rmse_rad == pytest.approx(0.0, abs=1e-9)
    # the nose is off by 0.1 rad at 2.5 m/s: a chord of 2 v sin(0.05)
    assert score.velocity_rmse_mps == pytest.approx(5.0 * np.sin(0.05), rel=1e-9)
    # offsets (0.3, 0, -0.4) over deviations (0.1, 0.2, 0.4)
    assert score.nees_mean == pytest.approx(9.0 + 0.0 + 1.0, rel=1e-9)
    # the reference at 50 Hz is a chord of the circle: at most R (0.01 s w)^2 / 2 = 6e-5 m inside
    assert metrics.tracking_rmse_m(log) == pytest.approx(0.2, abs=1e-7)


def test_a_stamp_counts_from_the_given_one_on():
    p_W = np.zeros((100, 3))
    p_W[:50, 0] = 7.0
    truth = track(np.arange(100) * 0.01)
    estimate = track(np.arange(100) * 0.01, p_W)
    assert metrics.score(estimate, truth).position_rmse_m == pytest.approx(7.0 / np.sqrt(2))
    assert metrics.score(estimate, truth, 500_000_000).position_rmse_m == 0.0


def test_interpolation_is_linear_and_exact_at_the_stamps():
    times = np.array([0.0, 0.1, 0.25, 0.5])
    p_W = np.array([[0, 0, 0], [1, 2, 3], [4, 2, 0], [0, 0, 1]], float)
    truth = track(times, p_W, v_W=2 * p_W)
    wanted = np.array([0.0, 0.05, 0.1, 0.2, 0.375, 0.5])
    known, found = metrics.at_stamps(truth, np.round(wanted * 1e9).astype(np.int64))
    assert known.all()
    expected = np.stack([np.interp(wanted, times, p_W[:, i]) for i in range(3)], axis=1)
    np.testing.assert_allclose(found.p_W, expected, atol=1e-12)
    np.testing.assert_allclose(found.v_W, 2 * expected, atol=1e-12)


def test_attitude_is_interpolated_as_scipy_does():
    rng = np.random.default_rng(1)
    times = np.arange(8) * 0.1
    rotations = Rotation.random(8, random_state=2)
    quaternions = wxyz(rotations) * rng.choice([-1.0, 1.0], (8, 1))  # q and -q are the same
    truth = track(times)
    truth = Track(truth.stamp_ns, truth.p_W, truth.v_W, quaternions, truth.w_B)
    wanted = np.sort(rng.uniform(0, 0.7, 200))
    known, found = metrics.at_stamps(truth, np.round(wanted * 1e9).astype(np.int64))
    expected = Slerp(times, rotations)(np.round(wanted * 1e9) * 1e-9)
    difference = Rotation.from_quat(np.roll(found.q_WB, -1, axis=1)) * expected.inv()
    assert known.all()
    # arccos loses half the digits close to 1
    assert difference.magnitude().max() < 1e-7


def test_nothing_is_extrapolated_and_no_gap_is_bridged():
    truth = track([1.0, 1.1, 1.2, 5.0, 5.1])
    wanted = np.array([0.9, 1.0, 1.15, 1.2, 3.0, 5.0, 5.05, 5.1, 5.2])
    known, found = metrics.at_stamps(truth, np.round(wanted * 1e9).astype(np.int64))
    assert known.tolist() == [False, True, True, True, False, True, True, True, False]
    assert len(found) == 6


def test_attitude_errors_are_about_the_worlds_axes():
    """q_est = exp(theta_W) q_true: scipy composes the same from the left."""
    true = Rotation.random(50, random_state=3)
    theta_W = np.random.default_rng(4).normal(0.0, 0.3, (50, 3))
    guess = Rotation.from_rotvec(theta_W) * true
    times = np.arange(50) * 0.01
    error = metrics.errors(track(times, rotation=guess), track(times, rotation=true))
    np.testing.assert_allclose(error.attitude_W, theta_W, atol=1e-9)
    z, z_true = guess.apply([0, 0, 1]), true.apply([0, 0, 1])
    np.testing.assert_allclose(np.cos(error.tilt), np.sum(z * z_true, axis=1), atol=1e-12)
    yaws = guess.as_euler("ZYX")[:, 0] - true.as_euler("ZYX")[:, 0]
    np.testing.assert_allclose(np.exp(1j * error.yaw), np.exp(1j * yaws), atol=1e-9)
    matrices = rotation_matrices(wxyz(true))
    np.testing.assert_allclose(matrices, true.as_matrix(), atol=1e-12)


def test_yaw_errors_wrap():
    times = [0.0, 0.1]
    true = Rotation.from_rotvec([[0, 0, 3.1]] * 2)
    guess = Rotation.from_rotvec([[0, 0, -3.1]] * 2)
    error = metrics.errors(track(times, rotation=guess), track(times, rotation=true))
    np.testing.assert_allclose(error.yaw, 2 * np.pi - 6.2)


def test_a_consistent_filter_has_a_nees_of_three():
    """Sum of three squared unit normals; its mean over n has a deviation of sqrt(6 / n)."""
    count = 20_000
    rng = np.random.default_rng(5)
    sigma = np.abs(rng.normal(1.0, 0.3, (count, 9))) + 0.1
    estimate = track(np.arange(count) * 0.01, rng.normal(0, sigma[:, :3]), sigma=sigma)
    score = metrics.score(estimate, track(np.arange(count) * 0.01))
    assert score.nees_mean == pytest.approx(3.0, abs=4 * np.sqrt(6 / count))


def test_tracking_counts_only_where_there_is_a_reference():
    times = np.arange(101) * 0.1
    truth = track(times, np.full((101, 3), 100.0))
    part = slice(20, 41)
    reference = track(times[part], np.full((21, 3), [100.0, 100.3, 100.4]))
    log = FlightLog(truth=truth, reference=reference)
    assert metrics.tracking_rmse_m(log) == pytest.approx(0.5)
    assert metrics.tracking_rmse_m(FlightLog(truth=truth)) is None


@pytest.mark.parametrize("unknown", [0, 20_000])
def test_the_largest_error_is_that_of_what_is_known(unknown):
    """Where a position is no number, in whichever of two blocks, neither figure counts it."""
    p_W = np.zeros((40_000, 3))
    p_W[[10_000, 30_000], 0] = 3.0, 4.0
    p_W[unknown : unknown + 5] = np.nan
    times = np.arange(len(p_W)) * 0.01
    score = metrics.score(track(times, p_W), track(times))
    assert score.position_max_m == 4.0
    assert score.position_rmse_m == pytest.approx(5.0 / np.sqrt(len(p_W) - 5))
    nothing = metrics.score(track(times[:9], np.full((9, 3), np.nan)), track(times[:9]))
    assert (nothing.position_max_m, nothing.position_rmse_m) == (None, None)


def test_an_unknown_velocity_of_the_truth_is_not_an_error():
    times = np.arange(4) * 0.1
    v_W = np.array([[1.0, 0, 0], [np.nan] * 3, [np.nan] * 3, [1.0, 0, 0]])
    score = metrics.score(track(times), track(times, v_W=v_W))
    assert score.velocity_rmse_mps == pytest.approx(1.0)
