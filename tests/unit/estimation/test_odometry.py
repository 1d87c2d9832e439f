"""Odometry in a frame of its own: matched flights without GNSS, jumps, silences, foreign frames."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.layout import FRAME_YAW, N
from quadsim.estimation.eskf.parameters import NoiseParams
from quadsim.estimation.smoother.smoother import Smoother
from quadsim.geometry.geodesy import Datum

Array = NDArray[np.float64]
PERIOD_NS, START_NS = 10_000_000, 10_000_000_000
DT = PERIOD_NS * 1e-9
EVERY = 3  # IMU samples from one odometry to the next
GRAVITY_W = np.array([0.0, 0.0, -9.80665])
ACCEL_SIGMA, GYRO_SIGMA = 0.1, 0.01
NOISE = NoiseParams(
    accel_bias_walk=1e-3, gyro_bias_walk=1e-5, odometry_position_sigma_m=0.01,
    odometry_yaw_sigma_rad=0.005, odometry_position_walk=0.02, odometry_yaw_walk=0.003,
    odometry_turn_walk=0.002, odometry_scale=0.01,
)  # fmt: skip
PARAMS = EstimatorParams(noise=NOISE)
PLACE_SIGMA_M, TILT_SIGMA, YAW_SIGMA = 0.05, 0.01, 0.03
SEEDS = range(20)


class Flight(NamedTuple):
    t: Array
    R: Rotation
    p_W: Array
    v_W: Array


def flown(duration_s: float) -> Flight:
    """An oval of 8 m by 6 m, banked as the acceleration asks, with a heading that turns."""
    t = np.arange(round(duration_s / DT) + 1) * DT
    p_W = np.column_stack([4 * np.sin(0.5 * t), 3 * np.cos(0.5 * t), 2 + 0.5 * np.sin(0.3 * t)])
    v_W = np.column_stack([2 * np.cos(0.5 * t), -1.5 * np.sin(0.5 * t), 0.15 * np.cos(0.3 * t)])
    yaw = 0.7 + 0.8 * np.sin(0.2 * t)
    R = Rotation.from_euler("ZYX", np.column_stack([yaw, 0.1 * np.sin(t), 0.1 * np.cos(0.8 * t)]))
    return Flight(t, R, p_W, v_W)


def odometry_of(flight: Flight, rng: np.random.Generator, drift: float = 1.0) -> Array:
    """(n, 7) poses in a frame of any yaw and origin, drifting as ``NOISE`` says."""
    at = np.arange(0, len(flight.t), EVERY)
    p_W, R = flight.p_W[at], flight.R[at]
    frame = Rotation.from_euler("Z", rng.uniform(-np.pi, np.pi))
    way_W = np.diff(p_W, axis=0)
    way_m = np.linalg.norm(np.gradient(p_W, axis=0), axis=1)[1:]
    turned = (R[:-1].inv() * R[1:]).magnitude()
    step = np.sqrt(NOISE.odometry_yaw_walk**2 * way_m + NOISE.odometry_turn_walk**2 * turned)
    yaw = drift * np.concatenate([[0.0], np.cumsum(rng.normal(0.0, step))])
    scale = 1.0 + drift * rng.normal(0.0, NOISE.odometry_scale)
    walk = drift * NOISE.odometry_position_walk * np.sqrt(way_m)[:, None]
    turn = frame * Rotation.from_euler("Z", yaw)
    # the drift is counted in the world, as the filter does it
    ways_F = turn[1:].apply((way_W + rng.normal(0.0, 1.0, way_W.shape) * walk) / scale)
    p_F = rng.normal(0.0, 5.0, 3) + np.vstack([np.zeros(3), np.cumsum(ways_F, axis=0)])
    p_F += rng.normal(0.0, NOISE.odometry_position_sigma_m, p_F.shape)
    noise = rng.normal(0.0, NOISE.odometry_yaw_sigma_rad, len(at))
    q = (Rotation.from_euler("Z", noise) * turn * R).as_quat()
    return np.hstack([p_F, q[:, [3, 0, 1, 2]]])


def messages_of(flight: Flight, seed: int, drift: float = 1.0) -> list[tuple[str, int, Any]]:
    """A start from a pose that is known so so, then IMU and odometry alone."""
    rng = np.random.default_rng(seed)
    count = len(flight.t) - 1
    start = EstimatorParams().start
    f_W = np.diff(flight.v_W, axis=0) / DT - GRAVITY_W
    middle = flight.R[:-1] * Rotation.from_rotvec(
        0.5 * (flight.R[:-1].inv() * flight.R[1:]).as_rotvec()
    )
    w_S = (flight.R[:-1].inv() * flight.R[1:]).as_rotvec() / DT
    walks = np.repeat([NOISE.gyro_bias_walk, NOISE.accel_bias_walk], 3) * np.sqrt(DT)
    biases = rng.normal(0.0, np.repeat([start.gyro_bias_radps, start.accel_bias_mps2], 3))
    biases = biases + np.cumsum(rng.normal(0.0, walks, (count, 6)), axis=0)
    f_S = middle.inv().apply(f_W) + biases[:, 3:] + rng.normal(0.0, ACCEL_SIGMA, (count, 3))
    w_S = w_S + biases[:, :3] + rng.normal(0.0, GYRO_SIGMA, (count, 3))
    f_covariance, w_covariance = ACCEL_SIGMA**2 * np.eye(3), GYRO_SIGMA**2 * np.eye(3)
    sigma = np.array([PLACE_SIGMA_M] * 3 + [TILT_SIGMA, TILT_SIGMA, YAW_SIGMA])
    q = (Rotation.from_rotvec(rng.normal(0.0, sigma[3:])) * flight.R[1]).as_quat()
    pose = (flight.p_W[1] + rng.normal(0.0, sigma[:3]), q[[3, 0, 1, 2]], np.diag(sigma**2))
    odometry = odometry_of(flight, rng, drift)
    messages: list[tuple[str, int, Any]] = []
    for k in range(count):
        stamp_ns = START_NS + (k + 1) * PERIOD_NS
        messages.append(("imu", stamp_ns, (f_S[k], w_S[k], f_covariance, w_covariance)))
        if k == 0:
            messages.insert(0, ("imu", START_NS, messages[0][2]))
            messages.append(("external_pose", stamp_ns, pose))
        if k > 0 and (k + 1) % EVERY == 0:
            messages.append(("external_odometry", stamp_ns, (odometry[(k + 1) // EVERY],)))
    return messages


def run(messages: Any, params: EstimatorParams = PARAMS) -> tuple[ErrorStateEkf, NDArray[Any]]:
    """The filter after messages, and its odometry at each sample of the IMU."""
    ekf, rows = ErrorStateEkf(params, Datum()), []
    for kind, stamp_ns, values in messages:
        if kind == "imu" and ekf.running:
            rows.append(ekf.odometry().copy())
        assert getattr(ekf, kind)(stamp_ns, *values) == "ok"
    return ekf, np.array(rows)


def errors_of(rows: NDArray[Any], flight: Flight) -> tuple[Array, Array]:
    """Errors and variances (n, 7) of position, velocity and yaw."""
    at = (rows["stamp_ns"] - START_NS) // PERIOD_NS
    turn = flight.R[at] * Rotation.from_quat(rows["q_WB"][:, [1, 2, 3, 0]]).inv()
    errors = [flight.p_W[at] - rows["p_W"], flight.v_W[at] - rows["v_W"], turn.as_rotvec()[:, 2:]]
    variances = [rows["p_variance"], rows["v_variance"], rows["attitude_variance"][:, 2:]]
    return np.hstack(errors), np.hstack(variances)


def test_an_odometry_alone_holds_the_flight_with_honest_deviations():
    """NEES of each axis over seeds; the position's deviation grows with the way."""
    flight = flown(40.0)
    nees, sigmas = [], []
    for seed in SEEDS:
        _, rows = run(messages_of(flight, seed))
        errors, variances = errors_of(rows[200:], flight)
        nees.append((errors**2 / variances).mean(axis=0))
        sigmas.append(np.sqrt(variances[[1000, -1], :2].sum(axis=1)))
    mean = np.mean(nees, axis=0)
    # errors last as long as a flight: as a mean of 20 chi-square numbers, 0.5 to 1.6 is 2.6 sigma
    assert np.all((mean > 0.5) & (mean < 1.6)), mean
    assert np.mean(sigmas, axis=0)[1] > 1.2 * np.mean(sigmas, axis=0)[0]


def sent(messages: Any, change: Any) -> list[tuple[str, int, Any]]:
    """Messages with the odometry's pose as ``change(t_s, pose)`` makes it; None: it is not sent."""
    result = []
    for kind, stamp_ns, values in messages:
        if kind == "external_odometry":
            pose = change((stamp_ns - START_NS) * 1e-9, values[0])
            if pose is not None:
                result.append((kind, stamp_ns, (pose, *values[1:])))
        else:
            result.append((kind, stamp_ns, values))
    return result


def moved(pose: Array, p: Any, turn: Rotation) -> Array:
    """A pose in a frame that is turned, then moved."""
    q = (turn * Rotation.from_quat(pose[[4, 5, 6, 3]])).as_quat()
    return np.concatenate([turn.apply(pose[:3]) + p, q[[3, 0, 1, 2]]])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("yaw_deg", [0.0, 20.0])
def test_a_jump_of_the_odometry_moves_nothing(seed: int, yaw_deg: float) -> None:
    """A relocalisation by 1 m is found, and the estimate goes on from where it was."""
    flight, turn = flown(30.0), Rotation.from_euler("Z", yaw_deg, degrees=True)
    messages = messages_of(flight, seed)
    before, plain = run(messages)
    jumped, rows = run(
        sent(messages, lambda t, pose: moved(pose, [1.0, 0.0, 0.0], turn) if t > 20 else pose)
    )
    assert jumped.state.odometry_jumps - before.state.odometry_jumps == 1
    apart = np.linalg.norm(rows["p_W"] - plain["p_W"], axis=1)
    assert apart[:2000].max() < 1e-12
    assert apart[2000:2100].max() < 0.03  # its noise, and that of the velocity for a second
    errors, variances = errors_of(rows[2000:], flight)
    assert np.abs(errors / np.sqrt(variances)).max() < 4.5


@pytest.mark.parametrize("seed", range(2))
def test_after_a_silence_the_frame_is_another(seed: int) -> None:
    """Three seconds by the IMU alone, then a frame that has nothing to do with the old one."""
    flight, turn = flown(30.0), Rotation.from_euler("Z", 2.0)
    _, rows = run(
        sent(
            messages_of(flight, seed),
            lambda t, pose: pose if t < 15 else moved(pose, 7.0, turn) if t > 18 else None,
        )
    )
    errors, variances = errors_of(rows, flight)
    assert np.abs(errors[1500:] / np.sqrt(variances[1500:])).max() < 4.5
    assert variances[1795, 5] > 2 * variances[1400, 5]
    assert variances[2500, 5] < 2 * variances[1400, 5]


def test_a_frame_that_is_not_level_moves_nothing() -> None:
    """Odometry in north, east, down: rejected and named; the estimate is that without it."""
    flight, ned = flown(10.0), Rotation.from_matrix([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
    messages = messages_of(flight, 0)
    without, rows = run(sent(messages, lambda t, pose: None))
    ekf, foreign = run(sent(messages, lambda t, pose: moved(pose, 0.0, ned)))
    assert foreign.tobytes() == rows.tobytes()
    health = ekf.health()
    assert "z of its frame does not point up" in str(health["status"])
    assert health["rejected"] == "external_odometry"
    assert health["external_odometry_accepted"] == 0.0
    assert without.health()["status"] == "running"


def test_a_stated_variance_is_not_believed_where_it_is_too_small() -> None:
    """Constant tiny ones change nothing; one that grows by much lets the position drift."""
    messages = messages_of(flown(15.0), 0)

    def with_covariance(grows_m2: float) -> NDArray[Any]:
        def stated(stamp_ns: int) -> Array:
            t_s = (stamp_ns - START_NS) * 1e-9
            return np.diag([1e-12 + grows_m2 * t_s] * 3 + [1e-12] * 3).ravel()

        return run(
            (kind, stamp_ns, (*values, stated(stamp_ns)) if kind.endswith("odometry") else values)
            for kind, stamp_ns, values in messages
        )[1]

    plain = run(messages)[1]
    assert with_covariance(0.0).tobytes() == plain.tobytes()
    added = with_covariance(0.1)["p_variance"][-1] - plain["p_variance"][-1]
    assert np.all((added > 0.7) & (added < 1.5))  # 0.1 m^2/s for 15 s, less what was due anyway


def test_a_velocity_alone_holds_the_flight() -> None:
    """Body velocities that state a hundredth of their deviation: the least is the parameters'."""
    least_mps = 0.1
    noise = replace(NOISE, external_velocity_sigma_mps=least_mps)
    flight, nees = flown(20.0), []
    for seed in SEEDS:
        rng, messages = np.random.default_rng(100 + seed), []
        for kind, stamp_ns, values in messages_of(flight, seed):
            if kind == "external_odometry":
                at = (stamp_ns - START_NS) // PERIOD_NS
                v_B = flight.R[at].inv().apply(flight.v_W[at]) + rng.normal(0.0, least_mps, 3)
                stated = np.eye(3) * (0.01 * least_mps) ** 2
                messages.append(("external_velocity", stamp_ns, (v_B, stated)))
            else:
                messages.append((kind, stamp_ns, values))
        ekf, rows = run(messages, EstimatorParams(noise=noise))
        assert ekf.state.recoveries == 0
        errors, variances = errors_of(rows[200:], flight)
        nees.append((errors**2 / variances).mean(axis=0))
    mean = np.mean(nees, axis=0)
    assert np.all((mean > 0.5) & (mean < 1.6)), mean


def test_poses_that_are_none_are_refused() -> None:
    messages = messages_of(flown(2.0), 0)
    ekf, _ = run(messages)
    stamp_ns = messages[-1][1] + PERIOD_NS
    pose = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    assert ekf.external_odometry(stamp_ns, pose * np.nan) == "not_finite"
    assert ekf.external_odometry(stamp_ns, 0.5 * pose) == "not_finite"
    assert ekf.external_odometry(stamp_ns, pose, -np.eye(6)) == "bad_variance"
    assert ekf.external_velocity(stamp_ns, [np.inf, 0.0, 0.0]) == "not_finite"


def test_states_of_the_frame_are_there_from_the_first_odometry_on() -> None:
    """Until then the filter is that of a vehicle without any."""
    messages = messages_of(flown(1.0), 0)
    ekf, _ = run(messages[:2])
    assert ekf.state.n < FRAME_YAW
    ekf, _ = run(messages)
    assert ekf.state.n == N


def test_a_fix_at_the_end_smooths_the_drift_of_an_odometry() -> None:
    """Backwards over the frame's moves: in the middle of the flight less error, and honest."""
    flight, nees, ratio = flown(20.0), [], []
    for seed in range(6):
        messages = messages_of(flight, seed)
        rng = np.random.default_rng(200 + seed)
        sigma = np.array([0.01] * 3 + [0.005] * 3)
        q = (Rotation.from_rotvec(rng.normal(0.0, sigma[3:])) * flight.R[-1]).as_quat()
        pose = (flight.p_W[-1] + rng.normal(0, sigma[:3]), q[[3, 0, 1, 2]], np.diag(sigma**2))
        messages.append(("external_pose", messages[-1][1], pose))
        smoother = Smoother(PARAMS, Datum())
        for kind, stamp_ns, values in messages:
            getattr(smoother, kind)(stamp_ns, *values)
        errors, variances = errors_of(smoother.smooth().rows["odometry"], flight)
        filtered, _ = errors_of(run(messages)[1], flight)
        nees.append((errors[500:] ** 2 / variances[500:]).mean(axis=0))
        ratio.append((errors[1500:1900, :2] ** 2).mean() / (filtered[1500:1900, :2] ** 2).mean())
    # the mean of 6 numbers that last for a flight has a deviation of 0.6
    assert np.all((np.mean(nees, axis=0) > 0.2) & (np.mean(nees, axis=0) < 2.5))
    assert np.median(ratio) < 0.3
