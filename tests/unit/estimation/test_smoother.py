"""The fixed-interval smoother on matched flights over seeds, and in replay."""

from dataclasses import replace
from itertools import product
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.analysis.replay import Settings, replay
from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.layout import BA, BG, DRAG, GRAVITY, THETA, P, V
from quadsim.estimation.eskf.parameters import AlignParams, FusionParams, NoiseParams
from quadsim.estimation.smoother import smoother as smoother_module
from quadsim.estimation.smoother.smoother import Smoothed, Smoother
from quadsim.geometry.geodesy import Datum
from quadsim.world.air.atmosphere import pressure_at

Array = NDArray[np.float64]
Message = tuple[str, int, tuple[Any, ...]]
GRAVITY_W = np.array([0.0, 0.0, -9.80665])
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
DATUM = Datum()
START_NS = 10_000_000_000
CORE = slice(0, 15)


def smooth(messages, params, datum, with_covariance=False):
    """A whole flight's messages, in any order: method of the filter, stamp in ns, arguments."""
    smoother = Smoother(params, datum)
    for kind, stamp_ns, values in messages:
        getattr(smoother, kind)(stamp_ns, *values)
    return smoother.smooth(with_covariance)


# --- matched flights ---------------------------------------------------------------------------

PERIOD_NS = 10_000_000
OFFSET_M = 488.0
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


#: The noise of the heading turns the field about the vertical, and so has no vertical part; the
#: stamps of GNSS are exact.
PARAMS = replace(
    EstimatorParams(),
    noise=MATCHED,
    fusion=FusionParams(magnetic_inclination=False),
    start=AlignParams(gnss_time_s=0.0),
)


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


def test_average_nees_is_inside_its_bounds(runs: list[Run], flown: Path) -> None:
    """Of all fifteen states, inside the bounds of 95 % at 90 % of the epochs from the start on.

    Of each part inside bounds of 99.99 %; before the start, where all is on the safe side, not
    above them.
    """
    for run in runs:
        assert len(run.errors) == len(flown.t)
        assert run.first == 100  # the window of the start is a second
    low, high = stats.chi2.interval(0.95, 15 * len(runs))
    inside = []
    for k in range(runs[0].first, len(runs[0].errors), 20):
        total = sum(
            float(run.errors[k] @ np.linalg.solve(run.covariances[k], run.errors[k]))
            for run in runs
        )
        inside.append(low <= total <= high)
    assert np.mean(inside) >= 0.9
    low, high = stats.chi2.interval(0.9999, 3 * len(runs))
    for at, k in product((THETA, V, P, BG, BA), range(0, len(runs[0].errors), 50)):
        part = slice(at, at + 3)
        total = sum(
            float(
                run.errors[k, part]
                @ np.linalg.solve(run.covariances[k, part, part], run.errors[k, part])
            )
            for run in runs
        )
        assert total <= high, (at, k)
        assert total >= low or k < runs[0].first, (at, k)


def test_the_future_never_makes_an_estimate_worse(runs: list[Run]) -> None:
    """Filter's covariance less smoothed is positive semi-definite; the end is the filter's."""
    for run in runs[:5]:
        smoothed, filtered = run.covariances[run.first :], run.filter_covariances
        size = np.sqrt(np.diagonal(filtered, axis1=1, axis2=2))
        less = (filtered - smoothed) / (size[:, :, None] * size[:, None, :])
        # the accumulated corrections of the attitude turn the errors' axes by so much
        assert np.min(np.linalg.eigvalsh(less[:, :BG, :BG])) > -1e-9
        # smoothed errors of the biases have the IMU's axes as they were before the measurements of
        # the same stamp, which turn them by 0.003 and a correction's 0.01 rad at most
        assert np.min(np.linalg.eigvalsh(less)) > -0.013
        assert np.min(np.linalg.eigvalsh(smoothed)) > 0.0
        np.testing.assert_allclose(less[-1, :BG, :BG], 0.0, atol=1e-12)
        np.testing.assert_allclose(less[-1], 0.0, atol=0.013)
        np.testing.assert_allclose(run.errors[-1], run.filter_errors[-1], atol=1e-12)
    # and it lessens the error of every part
    for at in (THETA, V, P, BG, BA):
        smoothed = np.concatenate([run.errors[run.first :, at : at + 3] for run in runs])
        filtered = np.concatenate([run.filter_errors[:, at : at + 3] for run in runs])
        assert np.sqrt(np.mean(smoothed**2)) < 0.9 * np.sqrt(np.mean(filtered**2))


def test_late_stamps_of_gnss_are_smoothed(flown: Path) -> None:
    """GNSS is stamped 0.12 s late, which the filter finds out in flight; the smoother knows it."""
    messages, biases = messages_of(flown, 12)
    late_ns = 120_000_000
    late = [(kind, t + late_ns if "gnss" in kind else t, values) for kind, t, values in messages]
    late = [m for m in late if m[1] <= messages[-1][1]]
    smoother = Smoother(replace(PARAMS, start=AlignParams()), DATUM)
    for kind, stamp_ns, values in late:
        getattr(smoother, kind)(stamp_ns, *values)
    smoothed = smoother.smooth(with_covariance=True)
    assert smoother.health()["gnss_time_counts"] == 1.0
    errors = errors_of(smoothed, flown, biases)
    assert smoothed.covariance is not None
    deviation = np.sqrt(np.diagonal(smoothed.covariance, axis1=1, axis2=2))
    assert np.max(np.abs(errors) / deviation) < 4.5
    # no jump where the filter found out
    q = smoothed.rows["odometry"]["q_WB"][:, [1, 2, 3, 0]]
    turn = (Rotation.from_quat(q[:-1]).inv() * Rotation.from_quat(q[1:])).as_rotvec() / DT
    rates = np.array([m[2][1] for m in late if m[0] == "imu"][1:])
    noise = rates - smoothed.rows["gyro_bias_S"][:-1] - turn
    assert np.max(np.abs(noise) / GYRO_SIGMA) < 0.3


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
    first = rows["piece"] == 1
    second = rows["piece"] >= 2  # and a third from the new alignment on
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
    # the ends are of two filters: without the offset of GNSS stamps, and linear at one near zero
    near = 1.0 + 2e-5
    assert (smoothed.sigma[-len(filtered) :, :3] <= near * filtered.sigma[:, :3]).all()
    distance = np.linalg.norm(smoothed.p_W - result.log.truth.p_W, axis=1)
    assert np.max(distance) < 0.01  # the heading's own second order, over the first second


def test_replay_says_that_it_never_started(circle_rows: Any, write_rows: Any) -> None:
    """Without a magnetic field the filter waits for one."""
    rows = [row for row in circle_rows if not row.topic.endswith("imu/mag")]
    result = replay(write_rows(rows), Settings(("smoother",)))
    assert not result.log.estimates
    assert "smoother: never started" in str(result.log.notes)
