"""The estimator's border: order, gaps, bad messages; its outputs moved from IMU to base_link."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.estimation import BlindIns, ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.layout import BG, THETA, N, P, V
from quadsim.estimation.eskf.parameters import MountingParams
from quadsim.geometry.geodesy import Datum

Array = NDArray[np.float64]
G = 9.80665
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
DATUM = Datum()
STEP_NS = 5_000_000
Message = tuple[int, str, tuple[Any, ...]]


def hover(duration_s: float = 6.0, seed: int = 1) -> list[Message]:
    """Messages of a vehicle that slowly circles, in the order of their stamps."""
    rng = np.random.default_rng(seed)
    messages: list[Message] = []
    for k in range(round(duration_s / 0.005)):
        stamp_ns = 1_000_000_000 + k * STEP_NS
        t = k * 0.005
        f_S = np.array([-np.sin(t), -np.cos(t), G]) + rng.normal(0.0, 0.05, 3)
        w_S = rng.normal(0.0, 0.01, 3)
        messages.append(
            (stamp_ns, "imu", (f_S, w_S, 0.0025 * np.eye(3).ravel(), 1e-4 * np.eye(3).ravel()))
        )
        if k % 20 == 7:
            noise = Rotation.from_rotvec([0.0, 0.0, rng.normal(0.0, 0.05)])
            messages.append((stamp_ns + 1_234_567, "magnetic_field", (noise.apply(FIELD_W),)))
        if k % 40 == 3:
            p_W = np.array([np.sin(t), np.cos(t), 5.0]) + rng.normal(0.0, 0.3, 3)
            v_W = np.array([np.cos(t), -np.sin(t), 0.0]) + rng.normal(0.0, 0.05, 3)
            fix_ns = stamp_ns + 2_000_000
            messages.append(
                (fix_ns, "gnss_position", (DATUM.to_geodetic(p_W), 0.09 * np.eye(3).ravel()))
            )
            twist = np.zeros((6, 6))
            twist[:3, :3] = 0.0025 * np.eye(3)
            messages.append((fix_ns, "gnss_velocity", (v_W, twist.ravel())))
        if k % 20 == 11:
            pressure_pa = 94000.0 + rng.normal(0.0, 3.0)
            messages.append((stamp_ns, "pressure", (pressure_pa, 9.0)))
    return messages


def feed(estimator: ErrorStateEkf, messages: list[Message]) -> list[str]:
    return [getattr(estimator, kind)(stamp, *values) for stamp, kind, values in messages]


def delayed(messages: list[Message], delay_ns: dict[str, int]) -> list[Message]:
    """The same messages in the order of arrival."""
    return sorted(messages, key=lambda m: m[0] + delay_ns.get(m[1], 0))


@pytest.fixture(scope="module")
def in_order() -> ErrorStateEkf:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    assert set(feed(estimator, hover())) == {"ok"}
    assert estimator.running
    return estimator


@pytest.mark.parametrize(
    "delay_ns",
    [
        {"gnss_position": 200_000_000, "gnss_velocity": 350_000_000},
        {"magnetic_field": 490_000_000},
        {"imu": 30_000_000},  # measurements before the samples they belong to
        {"gnss_position": 480_000_000, "magnetic_field": 77_000_000, "pressure": 133_000_000},
    ],
)
def test_late_data_give_the_result_of_data_in_order(
    in_order: ErrorStateEkf, delay_ns: dict[str, int]
) -> None:
    """Half a second after the last delayed message has come, to the bit."""
    messages = hover()
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    verdicts = feed(estimator, delayed(messages, delay_ns))
    assert set(verdicts) == {"ok"}
    for name in ("p_W", "v_W", "q_WS", "covariance", "accepted", "stamp_ns"):
        np.testing.assert_array_equal(estimator.state[name], in_order.state[name], err_msg=name)


def test_too_late_and_too_early_are_refused() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    feed(estimator, hover(3.0))
    before = np.array(estimator.state.p_W)
    newest_ns = 1_000_000_000 + 599 * STEP_NS
    assert estimator.pressure(newest_ns - 600_000_000, 94000.0, 9.0) == "too_late"
    assert estimator.pressure(newest_ns + 600_000_000, 94000.0, 9.0) == "too_early"
    np.testing.assert_array_equal(estimator.state.p_W, before)
    assert estimator.counts["pressure_too_late"] == 1
    assert estimator.counts["pressure_too_early"] == 1


def test_repeats_and_jumps_back_are_refused_and_counted() -> None:
    messages = hover(3.0)
    once, twice = (ErrorStateEkf(EstimatorParams(), DATUM) for _ in range(2))
    feed(once, messages)
    for message in messages:
        feed(twice, [message])
        assert feed(twice, [message]) == ["repeated"]
    np.testing.assert_array_equal(once.state.covariance, twice.state.covariance)
    assert twice.counts["imu_repeated"] == twice.counts["imu_received"] // 2
    newest_ns = 1_000_000_000 + 599 * STEP_NS
    assert twice.imu(newest_ns - 1, np.zeros(3), np.zeros(3)) == "backward"
    assert twice.counts["imu_backward"] == 1


def test_a_clock_set_back_starts_anew() -> None:
    """Fifty samples in a row with stamps of the past are a new time, not an error."""
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    messages = hover(3.0)
    later = [(stamp + 100_000_000_000, kind, values) for stamp, kind, values in messages]
    feed(estimator, later)
    assert estimator.running
    feed(estimator, messages)
    assert estimator.counts["imu_clock_jump"] == 1
    assert estimator.running
    assert estimator.state.stamp_ns == messages[-1][0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_never_reach_the_filter(bad: float) -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    feed(estimator, hover(3.0))
    before = estimator.state.copy()
    t = 1_000_000_000 + 600 * STEP_NS
    f, w, nine = np.array([0.0, 0.0, G]), np.zeros(3), np.full(9, bad)
    good = np.eye(3).ravel()
    for verdict in (
        estimator.imu(t, np.array([0.0, bad, G]), w),
        estimator.imu(t, f, np.array([bad, 0.0, 0.0])),
        estimator.imu(t, f, w, nine, good),
        estimator.imu(t, f, w, good, nine),
        estimator.gnss_position(t, (47.0, 8.0, bad), good),
        estimator.gnss_position(t, (bad, 8.0, 400.0), good),
        estimator.gnss_position(t, (47.0, 8.0, 400.0), nine),
        estimator.gnss_velocity(t, np.array([bad, 0.0, 0.0]), good),
        estimator.gnss_velocity(t, w, nine),
        estimator.magnetic_field(t, np.array([0.0, bad, 0.0]), good),
        estimator.pressure(t, bad, 1.0),
        estimator.pressure(t, 1e5, bad),
        estimator.range(t, 2.0, bad),
    ):
        assert verdict == "not_finite"
    assert estimator.range(t, math.nan, 1.0) == "not_finite"
    assert estimator.range(t, math.inf, 1.0) == "ok"  # REP 117: nothing in range
    assert estimator.state.tobytes() == before.tobytes()
    assert estimator.counts["imu_not_finite"] == 4
    assert estimator.counts["gnss_position_not_finite"] == 3


def test_variances_that_cannot_be_are_refused() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    feed(estimator, hover(3.0))
    before = estimator.state.copy()
    t = 1_000_000_000 + 599 * STEP_NS
    absent = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # REP 145: no such data
    half = np.diag([1.0, 1.0, 0.0]).ravel()
    v, good = np.zeros(3), np.eye(3).ravel()
    for verdict in (
        estimator.imu(t + STEP_NS, np.array([0.0, 0.0, G]), v, absent, good),
        estimator.imu(t + STEP_NS, np.array([0.0, 0.0, G]), v, good, absent),
        estimator.gnss_velocity(t, v, absent),
        estimator.gnss_velocity(t, v, half),
        estimator.pressure(t, 94000.0, -1.0),
        estimator.magnetic_field(t, FIELD_W, absent),
    ):
        assert verdict == "bad_variance"
    assert estimator.state.tobytes() == before.tobytes()


def test_without_a_datum_fixes_wait() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), None)
    feed(estimator, hover(2.0))
    assert not estimator.running
    assert estimator.counts["gnss_position_no_datum"] > 0
    estimator.datum = DATUM
    feed(estimator, [m for m in hover(6.0) if m[0] > 3_000_000_000])
    assert estimator.running


def test_stamps_may_begin_at_zero() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    messages = [(stamp - 1_000_000_000, kind, values) for stamp, kind, values in hover(3.0)]
    assert set(feed(estimator, messages)) == {"ok"}
    assert estimator.running


def test_arrays_of_the_wrong_size_raise() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    with pytest.raises(ValueError, match="3 numbers where 9 are due"):
        estimator.imu(1, np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(9))
    with pytest.raises(ValueError, match="2 numbers where 3 are due"):
        estimator.magnetic_field(1, np.zeros(2))


def test_reset_forgets_everything() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    feed(estimator, hover(3.0))
    estimator.reset()
    assert not estimator.running
    assert estimator.counts["imu_received"] == 0
    assert set(feed(estimator, hover(3.0))) == {"ok"}
    assert estimator.running


MOUNTED = replace(
    EstimatorParams(),
    mount=MountingParams(
        imu_position_B_m=(0.2, -0.1, 0.3), imu_roll_pitch_yaw_deg=(15.0, -10.0, 40.0)
    ),
)


def lively(seed: int) -> ErrorStateEkf:
    """A filter with a mounted IMU, put into some state."""
    rng = np.random.default_rng(seed)
    estimator = ErrorStateEkf(MOUNTED, DATUM)
    state = estimator.state
    state.running = 1
    state.stamp_ns = 7
    state.p_W, state.v_W = rng.normal(size=3), rng.normal(size=3)
    x, y, z, w = Rotation.random(random_state=seed).as_quat()
    state.q_WS = w, x, y, z
    state.w_S = rng.normal(size=3)
    state.gyro_bias_S = 0.1 * rng.normal(size=3)
    state.w_variance = 1e-4, 2e-4, 3e-4
    A = 0.03 * rng.normal(size=(N, N))
    state.covariance[:] = A @ A.T
    state.gnss_time_counts = 1  # else what is given out is that of exact stamps
    return estimator


def base_motion(state: Any, x: Array, rate_error: Array) -> tuple[Rotation, Array, Array, Array]:
    """R_WB, p_W, v_W and w_B of base_link where the error state is x; by scipy."""
    roll, pitch, yaw = MOUNTED.mount.imu_roll_pitch_yaw_deg
    R_BS = Rotation.from_euler("ZYX", [yaw, pitch, roll], degrees=True)
    R_WS = Rotation.from_quat([*state.q_WS[1:], state.q_WS[0]])
    R_WB = Rotation.from_rotvec(x[THETA : THETA + 3]) * R_WS * R_BS.inv()
    r_B = np.array(MOUNTED.mount.imu_position_B_m)
    w_B = R_BS.apply(state.w_S - state.gyro_bias_S - x[BG : BG + 3] - rate_error)
    p_W = state.p_W + x[P : P + 3] - R_WB.apply(r_B)
    v_W = state.v_W + x[V : V + 3] - R_WB.apply(np.cross(w_B, r_B))
    return R_WB, p_W, v_W, w_B


def test_odometry_is_that_of_base_link() -> None:
    for seed in range(5):
        estimator = lively(seed)
        R_WB, p_W, v_W, w_B = base_motion(estimator.state, np.zeros(N), np.zeros(3))
        odometry = estimator.odometry()
        assert odometry.stamp_ns == 7
        q = odometry.q_WB
        assert (Rotation.from_quat([q[1], q[2], q[3], q[0]]) * R_WB.inv()).magnitude() < 1e-12
        np.testing.assert_allclose(odometry.p_W, p_W, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(odometry.v_W, v_W, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(odometry.w_B, w_B, rtol=0.0, atol=1e-12)


def test_covariances_are_those_of_the_published_frames() -> None:
    """Against J P J^T with J by central differences of the moved motion."""
    h = 1e-6
    for seed in range(3):
        estimator = lively(seed)
        state = estimator.state
        R_0 = base_motion(state, np.zeros(N), np.zeros(3))[0]
        pose_J, twist_J, world_J = np.zeros((6, N)), np.zeros((6, N + 3)), np.zeros((3, N + 3))
        for k in range(N + 3):
            e = np.zeros(N + 3)
            e[k] = h
            ends = [base_motion(state, s * e[:N], s * e[N:]) for s in (1.0, -1.0)]
            (R_1, p_1, v_1, w_1), (R_2, p_2, v_2, w_2) = ends
            if k < N:
                pose_J[:3, k] = (p_1 - p_2) / (2 * h)
                pose_J[3:, k] = ((R_1 * R_0.inv()).as_rotvec() - (R_2 * R_0.inv()).as_rotvec()) / (
                    2 * h
                )
            twist_J[:3, k] = (R_1.inv().apply(v_1) - R_2.inv().apply(v_2)) / (2 * h)
            twist_J[3:, k] = (w_1 - w_2) / (2 * h)
            world_J[:, k] = (v_1 - v_2) / (2 * h)
        covariance = np.array(state.covariance)
        full = np.zeros((N + 3, N + 3))
        full[:N, :N] = covariance
        full[N:, N:] = np.diag(state.w_variance)
        pose, twist = estimator.pose_covariance(), estimator.twist_covariance()
        # J is good to 1e-9 of entries up to one, P is below one
        np.testing.assert_allclose(pose, pose_J @ covariance @ pose_J.T, rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(twist, twist_J @ full @ twist_J.T, rtol=0.0, atol=1e-8)
        odometry = estimator.odometry()
        np.testing.assert_allclose(odometry.p_variance, np.diag(pose)[:3], rtol=1e-9)
        np.testing.assert_allclose(odometry.attitude_variance, np.diag(pose)[3:], rtol=1e-9)
        world = np.diag(world_J @ full @ world_J.T)
        np.testing.assert_allclose(odometry.v_variance, world, rtol=0.0, atol=1e-8)


def test_a_mount_that_is_known_to_a_degree_turns_pose_and_twist(in_order: ErrorStateEkf) -> None:
    """R_WB D for a small turn D about the body: J of attitude is R, of velocity in B is [v_B]x."""
    exact = [in_order.pose_covariance(), in_order.twist_covariance()]
    sigma_rad = math.radians(1.0)
    lines = in_order.lines.copy()
    lines["params"]["mount"]["imu_sigma_deg"] = 1.0
    lines["params"]["mount"]["imu_sigma_m"] = 0.02
    lines["state"]["v_W"] = (3.0, -2.0, 1.0)
    moving = in_order.lines.copy()
    moving["state"]["v_W"] = (3.0, -2.0, 1.0)
    pose = in_order.covariance_of_pose(lines) - exact[0]
    twist = in_order.covariance_of_twist(lines) - in_order.covariance_of_twist(moving)
    R_WS, R_BS = (
        Rotation.from_quat(np.roll(in_order.state[name], -1)) for name in ("q_WS", "q_BS")
    )
    v_B = (R_BS * R_WS.inv()).apply((3.0, -2.0, 1.0))
    J = np.array([[0, -v_B[2], v_B[1]], [v_B[2], 0, -v_B[0]], [-v_B[1], v_B[0], 0]])
    expected = np.diag([0.02**2] * 3 + [sigma_rad**2] * 3)
    np.testing.assert_allclose(pose, expected, atol=1e-15)
    np.testing.assert_allclose(twist[:3, :3], sigma_rad**2 * J @ J.T, atol=1e-12)
    np.testing.assert_allclose(twist[3:], 0.0, atol=1e-15)


def test_blind_navigation_starts_alike_and_drifts_with_its_covariance(
    in_order: ErrorStateEkf,
) -> None:
    blind = BlindIns(EstimatorParams(), DATUM)
    feed(blind, hover())
    assert blind.running
    assert blind.state.accepted.sum() == 0
    sigma = np.sqrt(np.diag(blind.state.covariance)[P : P + 3])
    assert np.all(sigma[:2] > 3.0 * np.sqrt(np.diag(in_order.state.covariance)[P : P + 2]))
    t = (hover()[-1][0] - 1_000_000_000) * 1e-9
    truth = np.array([np.sin(t), np.cos(t), 5.0])
    assert np.all(np.abs(blind.state.p_W - truth) < 4.0 * sigma)


def test_blind_navigation_may_take_over(in_order: ErrorStateEkf) -> None:
    blind = BlindIns(EstimatorParams(), DATUM)
    blind.start_from(in_order)
    assert blind.running
    np.testing.assert_array_equal(blind.state.p_W, in_order.state.p_W)
    stamp_ns = int(in_order.state.stamp_ns) + STEP_NS
    assert blind.imu(stamp_ns, np.array([0.0, 0.0, G]), np.zeros(3)) == "ok"
    assert blind.odometry().stamp_ns == stamp_ns


def test_health_is_plain_and_complete(in_order: ErrorStateEkf) -> None:
    health = in_order.health()
    assert health["status"] == "running"
    assert health["started"] == "in flight"
    for value in health.values():
        assert isinstance(value, str) or math.isfinite(value)
    assert health["gnss_position_accepted"] > 0
    # the mean of chi-square numbers of three degrees, 24 fixes: four of its deviations
    assert abs(health["gnss_position_nis_mean"] - 3.0) < 4.0 * math.sqrt(6.0 / 24)


def test_the_parameter_file_holds_the_defaults() -> None:
    assert load(EstimatorParams, find("estimators", "eskf")) == EstimatorParams()
