"""Scores of a replay against closed forms, scipy and printed tables."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.transform import Rotation

from quadsim.analysis import consistency, metrics, trajectory
from quadsim.analysis.trajectory import NONE, SE3, SIM3, YAW, Span
from quadsim.base.errors import InputError
from quadsim.sim.log import Innovations, Track

T_S = np.arange(0.0, 20.0, 0.05)
RNG_SEED = 11


def wxyz(rotation: Rotation) -> np.ndarray:
    return np.roll(np.atleast_2d(rotation.as_quat()), 1, axis=1)


def track(p_W, rotation=None, t_s=T_S, v_W=None, sigma=None) -> Track:
    zero = np.zeros((len(t_s), 3))
    q_WB = wxyz(Rotation.identity(len(t_s)) if rotation is None else rotation)
    stamp_ns = np.round(np.asarray(t_s) * 1e9).astype(np.int64)
    return Track(stamp_ns, np.asarray(p_W), zero if v_W is None else v_W, q_WB, zero, sigma)


def spiral(t_s=T_S) -> np.ndarray:
    """A path that fixes every alignment."""
    return np.stack([3.0 * np.cos(0.7 * t_s), 2.0 * np.sin(0.7 * t_s), 0.3 * t_s], axis=1)


# --- absolute ------------------------------------------------------------------------------------


def test_a_known_motion_is_found():
    path = spiral()
    R = Rotation.from_rotvec([0.3, -0.8, 1.9]).as_matrix()
    true = 1.7 * path @ R.T + [5.0, -2.0, 8.0]
    found = trajectory.similarity(path, true, SIM3)
    np.testing.assert_allclose(found.R, R, atol=1e-12)
    np.testing.assert_allclose(found.p, [5.0, -2.0, 8.0], atol=1e-12)
    assert found.scale == pytest.approx(1.7, rel=1e-12)


def test_the_rotation_is_the_one_that_scipy_finds():
    """Wahba's problem, which scipy solves for the centred points, is that of Umeyama."""
    rng = np.random.default_rng(RNG_SEED)
    path = spiral()
    true = Rotation.from_rotvec([0.1, 0.2, 2.0]).apply(path) + rng.normal(0.0, 0.5, path.shape)
    found = trajectory.similarity(path, true, SE3)
    expected, _ = Rotation.align_vectors(true - true.mean(axis=0), path - path.mean(axis=0))
    np.testing.assert_allclose(found.R, expected.as_matrix(), atol=1e-9)


def test_points_that_are_mirrored_are_turned_not_mirrored():
    path = spiral()
    found = trajectory.similarity(path, path * [1.0, 1.0, -1.0], SE3)
    assert np.linalg.det(found.R) == pytest.approx(1.0)


def test_the_yaw_is_the_one_of_the_least_squares():
    rng = np.random.default_rng(RNG_SEED)
    path = spiral()
    true = Rotation.from_rotvec([0.1, -0.2, -2.5]).apply(path) + rng.normal(0.0, 0.5, path.shape)

    def cost(yaw: float) -> float:
        turned = Rotation.from_euler("z", yaw).apply(path - path.mean(axis=0))
        return float(np.sum((turned - (true - true.mean(axis=0))) ** 2))

    best = minimize_scalar(cost, bounds=(-np.pi, 0.0), method="bounded", options={"xatol": 1e-9})
    found = trajectory.similarity(path, true, YAW)
    assert Rotation.from_matrix(found.R).as_rotvec() == pytest.approx([0, 0, best.x], abs=1e-6)


@pytest.mark.parametrize(
    ("rotvec", "scale", "zero"),
    [
        ([0.0, 0.0, 0.6], 1.0, {YAW, SE3, SIM3}),
        ([0.3, 0.0, 0.6], 1.0, {SE3, SIM3}),
        ([0.3, 0.0, 0.6], 1.3, {SIM3}),
    ],
)
def test_each_alignment_takes_away_what_it_may(rotvec, scale, zero):
    true = spiral()
    guess = scale * Rotation.from_rotvec(rotvec).apply(true) + [4.0, 0.0, -3.0]
    figures = trajectory.absolute(track(guess), track(true))
    away = np.linalg.norm(guess - true, axis=1)
    assert figures[NONE]["rmse_m"] == pytest.approx(np.sqrt(np.mean(away**2)))
    assert figures[NONE]["max_m"] == pytest.approx(away.max())
    assert figures[NONE]["median_m"] == pytest.approx(np.median(away))
    for kind in (YAW, SE3, SIM3):
        if kind in zero:
            assert figures[kind]["max_m"] < 1e-9
        else:
            assert figures[kind]["rmse_m"] > 0.1
    if scale != 1.0:
        assert figures[SIM3]["scale"] == pytest.approx(1.0 / scale)


def test_what_does_not_fix_an_alignment_gives_none():
    line = np.outer(T_S, [1.0, 2.0, 0.5])
    figures = trajectory.absolute(track(line + 1.0), track(line))
    assert figures[SE3] is None
    assert figures[SIM3] is None
    assert figures[YAW]["rmse_m"] < 1e-9
    short = track(line[:2], t_s=T_S[:2])
    assert trajectory.absolute(short, short)[YAW] is None
    assert trajectory.absolute(short[:0], short[:0])[NONE] is None
    with pytest.raises(InputError, match="choose --align none"):
        trajectory.aligned(track(line + 1.0), track(line), SE3)


def test_an_aligned_track_is_turned_whole():
    attitude = Rotation.from_euler("z", 0.4 * T_S)
    turn = Rotation.from_rotvec([0.2, 0.5, -1.0])
    v_W = np.gradient(spiral(), T_S, axis=0)
    true = track(spiral(), attitude, v_W=v_W)
    guess = track(
        turn.apply(spiral()) + 3.0, turn * attitude, v_W=turn.apply(v_W), sigma=np.ones((400, 9))
    )
    error = metrics.errors(trajectory.aligned(guess, true, SE3), true)
    np.testing.assert_allclose(error.position_W, 0.0, atol=1e-9)
    np.testing.assert_allclose(error.velocity_W, 0.0, atol=1e-9)
    np.testing.assert_allclose(error.attitude_W, 0.0, atol=1e-9)
    assert error.sigma is None  # they spoke of other axes
    assert trajectory.aligned(guess, true, NONE) is guess


# --- relative ------------------------------------------------------------------------------------


def test_a_steady_drift_is_seen_over_seconds_and_metres():
    """At 2 m/s a drift of 0.05 m/s is 0.05 m a second, and 0.25 m in the 5 s of 10 m."""
    true = np.outer(T_S, [2.0, 0.0, 0.0])
    guess = track(true + np.outer(T_S, [0.0, 0.03, 0.04]))
    one = trajectory.relative(guess, track(true), Span(1.0, "s"))
    assert one["translation_rmse_m"] == pytest.approx(0.05, rel=1e-9)
    assert one["rotation_max_rad"] == pytest.approx(0.0, abs=1e-12)
    assert one["count"] == 190  # each 0.1 s from 0 to 18.9; the flight ends at 19.95
    assert "drift_share" not in one
    ten = trajectory.relative(guess, track(true), Span(10.0, "m"))
    assert ten["translation_mean_m"] == pytest.approx(0.25, rel=1e-9)
    assert ten["drift_share"] == pytest.approx(0.025, rel=1e-9)


def test_a_yaw_that_drifts_is_seen_whole():
    true = Rotation.from_euler("zyx", np.stack([0.3 * T_S, 0.2 * np.sin(T_S), 0 * T_S], axis=1))
    guess = Rotation.from_euler("z", 0.01 * T_S) * true
    found = trajectory.relative(track(spiral(), guess), track(spiral(), true), Span(5.0, "s"))
    # E = Q_j^-1 exp(0.05 z) Q_j up to the turn at the first pose: an angle of 0.05 rad
    assert found["rotation_rmse_rad"] == pytest.approx(0.05, rel=1e-9)


def test_a_motion_of_the_whole_changes_no_relative_error():
    rng = np.random.default_rng(RNG_SEED)
    attitude = Rotation.from_rotvec(rng.normal(0.0, 1.0, (len(T_S), 3)))
    path = spiral() + rng.normal(0.0, 0.1, (len(T_S), 3))
    true = track(spiral(), Rotation.from_euler("z", 0.4 * T_S))
    turn = Rotation.from_rotvec([0.4, -1.0, 2.0])
    for span in trajectory.SPANS:
        one = trajectory.relative(track(path, attitude), true, span)
        two = trajectory.relative(track(turn.apply(path) + 7.0, turn * attitude), true, span)
        assert two == pytest.approx(one, rel=1e-9)


def test_relative_errors_are_what_the_poses_matrices_say():
    """(Q_i^-1 Q_j)^-1 (P_i^-1 P_j), multiplied out as 4 x 4 matrices."""
    rng = np.random.default_rng(RNG_SEED)
    times = np.arange(0.0, 3.0, 0.5)
    turns = [Rotation.from_rotvec(rng.normal(0.0, 0.6, (6, 3))) for _ in range(2)]
    paths = [rng.normal(0.0, 2.0, (6, 3)) for _ in range(2)]
    found = trajectory.relative(
        track(paths[0], turns[0], times), track(paths[1], turns[1], times), Span(1.0, "s")
    )
    poses = np.tile(np.eye(4), (2, 6, 1, 1))
    for k in range(2):
        poses[k, :, :3, :3], poses[k, :, :3, 3] = turns[k].as_matrix(), paths[k]
    away, angles = [], []
    for i in range(4):
        moves = [np.linalg.inv(poses[k, i]) @ poses[k, i + 2] for k in range(2)]
        E = np.linalg.inv(moves[1]) @ moves[0]
        away.append(np.linalg.norm(E[:3, 3]))
        angles.append(np.arccos((np.trace(E[:3, :3]) - 1.0) / 2.0))
    assert found["count"] == 4
    assert found["translation_rmse_m"] == pytest.approx(np.sqrt(np.mean(np.square(away))))
    assert found["translation_max_m"] == pytest.approx(max(away))
    assert found["rotation_mean_rad"] == pytest.approx(np.mean(angles))


def test_no_pair_reaches_over_a_hole():
    times = np.concatenate([np.arange(0.0, 5.0, 0.1), np.arange(8.0, 13.0, 0.1)])
    path = np.outer(times, [1.0, 0.0, 0.0])
    first, second = trajectory.pairs(track(path, t_s=times), Span(1.0, "s"))
    assert np.allclose(times[second] - times[first], 1.0)
    assert len(first) == 2 * 40
    standing = track(np.zeros((100, 3)), t_s=times)
    assert trajectory.relative(standing, standing, Span(10.0, "m"))["translation_rmse_m"] is None


# --- consistency ---------------------------------------------------------------------------------


def test_intervals_are_those_of_the_tables():
    """Printed chi-square tables: 2.5 and 97.5 % of 3 and 9; Bar-Shalom's 50 runs of two numbers."""
    assert consistency.interval(3) == pytest.approx([0.216, 9.348], abs=5e-4)
    assert consistency.interval(9) == pytest.approx([2.700, 19.023], abs=5e-4)
    assert consistency.interval(2, 50) == pytest.approx([1.484, 2.591], abs=5e-4)


def test_honest_errors_lie_in_the_interval_as_often_as_they_should():
    """The share in a 95 % interval of n samples has a deviation of sqrt(0.95 0.05 / n)."""
    count = 20_000
    rng = np.random.default_rng(RNG_SEED)
    sigma = rng.uniform(0.1, 2.0, (count, 9))
    times = np.arange(count) * 0.01
    drawn = rng.normal(0.0, sigma)
    turned = Rotation.from_rotvec(1e-3 * drawn[:, 6:])
    sigma[:, 6:] *= 1e-3
    guess = track(drawn[:, :3], turned, times, drawn[:, 3:6], sigma)
    found = consistency.Consistency(
        [metrics.errors(guess, track(np.zeros((count, 3)), t_s=times))]
    ).nees()
    share = 4.0 * np.sqrt(0.95 * 0.05 / count)
    for name, dof in (("position", 3), ("whole", 9)):
        assert found[name]["dof"] == dof
        assert found[name]["count"] == count
        assert found[name]["mean"] == pytest.approx(dof, abs=4.0 * np.sqrt(2.0 * dof / count))
        assert found[name]["inside"] == pytest.approx(0.95, abs=share)


def test_an_unknown_velocity_leaves_the_position_judged():
    v_W = np.full((len(T_S), 3), np.nan)
    guess = track(spiral() + 0.1, sigma=np.full((len(T_S), 9), 0.1))
    found = consistency.Consistency([metrics.errors(guess, track(spiral(), v_W=v_W))]).nees()
    assert found["position"]["mean"] == pytest.approx(3.0)
    assert found["whole"]["mean"] is None


def test_nis_counts_what_was_refused_apart():
    count = 1000
    rng = np.random.default_rng(RNG_SEED)
    value = rng.normal(0.0, 2.0, (count, 3))
    nis = np.sum((value / 2.0) ** 2, axis=1)
    accepted = np.ones(count, bool)
    accepted[::10] = False
    nis[::10] = 100.0
    stamp_ns = np.arange(count) * 1_000_000
    innovations = Innovations(stamp_ns, value, np.full((count, 3), 2.0), nis, accepted)
    found = consistency.nis(innovations, 500_000_000)
    assert found["refused"] == 50
    assert found["refused_share"] == pytest.approx(0.1)
    assert found["count"] == 450
    assert found["mean"] == pytest.approx(3.0, abs=4.0 * np.sqrt(6.0 / 450))
    low, high = found["mean_interval"]
    assert low == pytest.approx(3.0 - 1.96 * np.sqrt(6.0 / 450), abs=0.01)  # chi2 is near a normal
    assert high == pytest.approx(3.0 + 1.96 * np.sqrt(6.0 / 450), abs=0.01)


def test_availability_is_time_with_an_estimate_and_stamps_with_an_honest_one():
    """There from 2 s to 5 s and from 6 s to 10 s of a flight of 10 s; every fourth error is 4 s."""
    times = np.concatenate([np.arange(2.0, 5.001, 0.1), np.arange(6.0, 10.001, 0.1)])
    path = np.zeros((len(times), 3))
    path[::4, 1] = 0.4
    guess = track(path, t_s=times, sigma=np.full((len(times), 9), 0.1))
    error = metrics.errors(guess, track(np.zeros((101, 3)), t_s=np.arange(101) * 0.1))
    found = consistency.availability(
        guess.stamp_ns, 0, 10_000_000_000, consistency.Consistency([error])
    )
    assert found["share"] == pytest.approx(0.7)
    assert found["within_3_sigma"] == pytest.approx(0.75, abs=1.0 / len(times))
