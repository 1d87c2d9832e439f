"""Start of the filter: standing and in flight, from synthetic windows with known answers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matched_flights import MatchedRun, Motion, Sensors, Turn, flight, nees
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.alignment import attitude_of, shortest_turn
from quadsim.estimation.eskf.layout import (
    BG,
    REASON_ACCELERATION,
    REASON_GNSS_POSITION,
    REASON_GNSS_VELOCITY,
    THETA,
    P,
    V,
)
from quadsim.estimation.eskf.parameters import AlignParams, FusionParams
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import rotate

Array = NDArray[np.float64]
G = 9.80665
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
DATUM = Datum()
STEP_NS = 5_000_000  # 200 Hz
DT = STEP_NS * 1e-9
START_NS = 3_000_000_000


def rotation(q: Any) -> Rotation:
    return Rotation.from_quat([q[1], q[2], q[3], q[0]])


def angle_deg(a: Rotation, b: Rotation) -> float:
    return float(np.degrees((a * b.inv()).magnitude()))


class Stand:
    """A vehicle that does not move, and its sensors."""

    def __init__(self, seed: int, R: Rotation, accel_sigma: float, gyro_sigma: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.R = R
        self.f_variance, self.w_variance = accel_sigma**2, gyro_sigma**2
        self.p_W = np.array([3.0, -4.0, 1.5])
        self.gyro_bias = np.array([0.01, -0.02, 0.015])
        self.accel_bias = np.zeros(3)
        self.k = 0

    def run(
        self,
        estimator: ErrorStateEkf,
        duration_s: float,
        fixes: bool = True,
        field: bool = True,
        velocity: bool = True,
    ) -> None:
        for _ in range(round(duration_s / DT)):
            stamp_ns = START_NS + self.k * STEP_NS
            f_S = self.R.inv().apply([0.0, 0.0, G])
            f_S = f_S + self.accel_bias + self.rng.normal(0.0, np.sqrt(self.f_variance), 3)
            w_S = self.gyro_bias + self.rng.normal(0.0, np.sqrt(self.w_variance), 3)
            estimator.imu(
                stamp_ns, f_S, w_S, self.f_variance * np.eye(3), self.w_variance * np.eye(3)
            )
            if field and self.k % 4 == 0:
                noise = Rotation.from_rotvec([0.0, 0.0, self.rng.normal(0.0, 0.05)])
                variance = (0.05 * FIELD_W[1]) ** 2 * np.eye(3)
                estimator.magnetic_field(
                    stamp_ns, self.R.inv().apply(noise.apply(FIELD_W)), variance
                )
            if fixes and self.k % 40 == 0:
                fix = DATUM.to_geodetic(self.p_W + self.rng.normal(0.0, 0.5, 3))
                estimator.gnss_position(stamp_ns, fix, 0.25 * np.eye(3))
                if velocity:
                    v_W = self.rng.normal(0.0, 0.05, 3)
                    estimator.gnss_velocity(stamp_ns, v_W, 0.0025 * np.eye(3))
            self.k += 1


def test_a_standing_vehicle_is_levelled() -> None:
    R = Rotation.from_euler("ZYX", [2.0, 0.05, -0.08])
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    stand = Stand(1, R, accel_sigma=0.05, gyro_sigma=0.005)
    stand.run(estimator, 1.1)
    state = estimator.state
    assert estimator.running
    assert state.started_standing == 1
    roll, pitch, yaw = (R * rotation(state.q_WS).inv()).as_rotvec()
    # tilt: 0.05 / sqrt(200) / g = 0.02 deg, and the floor; heading: 0.05 / sqrt(50)
    assert abs(roll) < 4.0 * 0.0009
    assert abs(pitch) < 4.0 * 0.0009
    assert abs(yaw) < 4.0 * 0.05 / np.sqrt(50)
    # bias: 0.005 / sqrt(200) and the 1 mrad/s by which a standing vehicle may turn
    np.testing.assert_allclose(state.gyro_bias_S, stand.gyro_bias, rtol=0.0, atol=4.0 * 0.0011)
    assert np.sqrt(state.covariance[BG, BG]) == pytest.approx(0.00106, rel=0.05)
    # five or six fixes of 0.5 m
    np.testing.assert_allclose(state.p_W, stand.p_W, rtol=0.0, atol=4.0 * 0.5 / np.sqrt(5))
    np.testing.assert_allclose(state.v_W, 0.0, atol=0.08)


def test_the_tilt_of_a_standing_start_knows_the_accelerometers_bias() -> None:
    """What of the tilt is the accelerometer's bias: theta = f x (R ba) / f^2, fully correlated."""
    params = EstimatorParams(fusion=FusionParams(magnetic_inclination=False))
    estimator = ErrorStateEkf(params, DATUM)
    Stand(2, Rotation.identity(), accel_sigma=0.01, gyro_sigma=0.001).run(estimator, 1.005)
    covariance = np.array(estimator.state.covariance)
    sigma = estimator.params.start.accel_bias_mps2
    # by 1 %: fixes and fields fused at the start's own stamp, and the bias' walk
    assert covariance[THETA, 13] == pytest.approx(-(sigma**2) / G, rel=0.01)
    assert covariance[THETA + 1, 12] == pytest.approx(sigma**2 / G, rel=0.01)
    assert covariance[THETA, THETA] == pytest.approx((sigma / G) ** 2, rel=0.02)


def test_noisy_sensors_start_standing_too() -> None:
    """The FCND figures: 0.5 to 1.5 m/s^2 and 0.5 rad/s per sample do not look like flight."""
    started = 0
    for seed in range(5):
        estimator = ErrorStateEkf(EstimatorParams(), DATUM)
        Stand(seed, Rotation.from_euler("z", -1.0), 1.0, 0.5).run(estimator, 1.1)
        assert estimator.running
        started += int(estimator.state.started_standing)
        # gyroscope: prior 0.02 and mean 0.5 / sqrt(200) = 0.035
        assert np.sqrt(estimator.state.covariance[BG, BG]) == pytest.approx(0.0174, rel=0.05)
    assert started == 5


def test_waits_for_a_fix_and_for_the_field() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    stand = Stand(3, Rotation.identity(), 0.05, 0.005)
    stand.run(estimator, 4.0, fixes=False)
    assert not estimator.running
    stand.run(estimator, 1.0, field=False)
    assert estimator.running == (estimator.state.alignment.field_count > 0)
    stand.run(estimator, 4.0)
    assert estimator.running
    assert estimator.state.started_standing == 1


@pytest.mark.parametrize("what", ["gnss", "heading"])
def test_may_start_without(what: str) -> None:
    start = AlignParams(require_gnss=what != "gnss", require_heading=what != "heading")
    estimator = ErrorStateEkf(replace(EstimatorParams(), start=start), DATUM)
    stand = Stand(4, Rotation.from_euler("x", 0.05), 0.02, 0.001)
    stand.run(estimator, 1.005, fixes=what != "gnss", field=what != "heading")
    assert estimator.running
    covariance = estimator.state.covariance
    if what == "gnss":
        np.testing.assert_array_equal(estimator.state.p_W, 0.0)
        assert covariance[P, P] == pytest.approx(start.position_m**2, rel=1e-3)
    else:
        assert np.sqrt(covariance[THETA + 2, THETA + 2]) == pytest.approx(np.pi / 3**0.5, rel=0.01)
    tilt = rotation(estimator.state.q_WS).as_euler("ZYX")[2]
    assert tilt == pytest.approx(0.05, abs=0.01)


def moving_start(
    estimator: ErrorStateEkf, heading: float, seed: int, velocity: bool = True, extra_s: float = 0.0
) -> tuple[Rotation, Array, Array]:
    """A vehicle that accelerates, banked 35 degrees and turning; quiet sensors.

    Returns:
        Attitude, velocity and position at the end.
    """
    rng = np.random.default_rng(seed)
    R = Rotation.from_euler("ZYX", [heading, 0.3, 0.6])
    w_S = np.array([0.3, -0.2, 0.8])
    a_W = np.array([4.0, -3.0, 1.5])
    p_W, v_W = np.array([10.0, 20.0, 30.0]), np.array([6.0, 2.0, -1.0])
    steps = round((1.0 + extra_s) / DT)
    estimator.imu(START_NS, np.zeros(3), np.zeros(3), 1e-4 * np.eye(3), 1e-6 * np.eye(3))
    for k in range(1, steps + 1):
        middle = R * Rotation.from_rotvec(0.5 * DT * w_S)
        f_S = middle.inv().apply(a_W + np.array([0.0, 0.0, G])) + rng.normal(0.0, 0.01, 3)
        R = R * Rotation.from_rotvec(DT * w_S)
        p_W, v_W = p_W + DT * v_W + 0.5 * DT**2 * a_W, v_W + DT * a_W
        stamp_ns = START_NS + k * STEP_NS
        estimator.imu(
            stamp_ns, f_S, w_S + rng.normal(0.0, 0.001, 3), 1e-4 * np.eye(3), 1e-6 * np.eye(3)
        )
        estimator.magnetic_field(
            stamp_ns, R.inv().apply(FIELD_W), 1e-6 * FIELD_W[1] ** 2 * np.eye(3)
        )
        if k % 20 == 0:
            fix = DATUM.to_geodetic(p_W + rng.normal(0.0, 0.02, 3))
            estimator.gnss_position(stamp_ns, fix, 4e-4 * np.eye(3))
            if velocity:
                speed = v_W + rng.normal(0.0, 0.02, 3)
                estimator.gnss_velocity(stamp_ns, speed, 4e-4 * np.eye(3))
    return R, v_W, p_W


@pytest.mark.parametrize(("sigma", "standing"), [(0.098, 0), (0.5, 1)])
def test_an_accelerometer_may_be_off_as_far_as_its_file_says(sigma: float, standing: int) -> None:
    """By 1 m/s^2 along the vertical, which is 10 deviations, or two."""
    start = AlignParams(accel_bias_mps2=sigma)
    estimator = ErrorStateEkf(EstimatorParams(start=start), DATUM)
    stand = Stand(4, Rotation.identity(), accel_sigma=0.05, gyro_sigma=0.002)
    stand.accel_bias = np.array([0.0, 0.0, 1.0])
    stand.run(estimator, 2.0)
    assert estimator.running
    assert estimator.state.started_standing == standing


@pytest.mark.parametrize("heading", [0.0, 1.5, 3.0, -2.2])
def test_starts_in_flight_at_any_heading(heading: float) -> None:
    """Banked and accelerating: levelling by the accelerometer alone would be off by 30 degrees."""
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    R, v_W, p_W = moving_start(estimator, heading, seed=5)
    state = estimator.state
    assert estimator.running
    assert state.started_standing == 0
    error = np.concatenate(
        [(R * rotation(state.q_WS).inv()).as_rotvec(), v_W - state.v_W, p_W - state.p_W]
    )
    sigma = np.sqrt(np.diag(state.covariance)[THETA : P + 3])
    assert np.all(np.abs(error) < 4.0 * sigma)
    # 0.02 m/s over 0.9 s is 0.025 m/s^2, accelerometer bias and gyroscope bias the rest
    assert np.degrees(sigma[:3]).max() < 3.0
    assert angle_deg(R, rotation(state.q_WS)) < 3.0
    assert sigma[V : V + 3].max() < 0.1


def test_in_flight_without_velocity_the_tilt_is_wide_open() -> None:
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    moving_start(estimator, 0.5, seed=6, velocity=False, extra_s=2.005)
    assert estimator.running
    assert estimator.state.started_standing == 0
    sigma = np.degrees(np.sqrt(np.diag(estimator.state.covariance)[:2]))
    assert sigma.max() == pytest.approx(30.0, rel=0.1)


def test_shortest_turn() -> None:
    rng = np.random.default_rng(8)
    for _ in range(50):
        a, b = rng.normal(size=3), rng.normal(size=3)
        turned = rotate(shortest_turn(tuple(a), tuple(b)), tuple(a))
        np.testing.assert_allclose(
            np.array(turned) / np.linalg.norm(a), b / np.linalg.norm(b), rtol=0.0, atol=1e-12
        )
    for a in ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.3, -0.4, 0.5)):
        opposite = tuple(-x for x in a)
        np.testing.assert_allclose(
            rotate(shortest_turn(a, opposite), a), opposite, rtol=0.0, atol=1e-12
        )


def test_attitude_of_two_directions() -> None:
    rng = np.random.default_rng(9)
    for _ in range(50):
        R = Rotation.random(random_state=int(rng.integers(1 << 31)))
        f_W, m_W = rng.normal([0.0, 0.0, 9.8], 1.0), FIELD_W
        f_S, m_S = (tuple(R.inv().apply(each)) for each in (f_W, m_W))
        q = attitude_of((1.0, 0.0, 0.0, 0.0), f_S, tuple(f_W), m_S, tuple(m_W), True)
        assert angle_deg(R, rotation(q)) < 1e-5


def drawn_motion(kind: str, seed: int) -> Motion | Turn:
    """A flight of any heading, banked by up to 35 degrees while it swings, or by 40 in a turn."""
    rng = np.random.default_rng(seed)
    heading = rng.uniform(-np.pi, np.pi)
    if kind == "turn":
        return Turn(heading_rad=heading, bank_rad=rng.uniform(0.3, 0.7))
    return Motion(heading_rad=heading, roll_mean_rad=rng.uniform(-0.6, 0.6))


def attitude_error(run: MatchedRun) -> tuple[Array, Array]:
    """(3,) rad, truth less estimate in the world, and its covariance."""
    covariance = np.array(run.record[0]["covariance"])[THETA : THETA + 3, THETA : THETA + 3]
    return run.state_error()[THETA : THETA + 3], covariance


@pytest.mark.many
@pytest.mark.parametrize("kind", ["swing", "turn"])
def test_coarse_alignment_in_flight_is_honest_and_converges(kind: str) -> None:
    """Forty seeds of any heading: what the start claims is so, and ten seconds make it good.

    In a coordinated turn the accelerometer says "level" at any bank.
    """
    seeds = 40
    total = 0.0
    for seed in range(seeds):
        run = MatchedRun(
            flight(10.0, motion=drawn_motion(kind, seed)), seed, EstimatorParams(), Sensors()
        )
        run.fly(1.2)
        if not run.record[0]["running"]:  # force along the field: the next window
            run.fly(1.0)
        assert run.record[0]["running"]
        assert not run.record[0]["started_standing"]
        error, covariance = attitude_error(run)
        total += float(nees(error, covariance))
        run.fly(10.0 - run.path.t[run.k])
        error, covariance = attitude_error(run)
        # of 240 normal numbers none beyond 4.5, but for 2 in 1000 chances
        assert np.all(np.abs(error) < 4.5 * np.sqrt(np.diag(covariance)))
        assert np.degrees(np.hypot(error[0], error[1])) < 2.0
        assert np.degrees(abs(error[2])) < 4.0
        assert run.record[0]["recoveries"] == 0
    low, high = stats.chi2.interval(0.999, 3 * seeds)
    assert low <= total <= high


@pytest.mark.many
@pytest.mark.parametrize("kind", ["swing", "hover"])
def test_comes_back_from_a_wrong_attitude_at_any_heading(kind: str) -> None:
    """Thirty degrees of tilt and any heading off, with the covariance of a filter that is right.

    GNSS does not fit for two seconds, then the filter aligns anew; ten seconds later all is well.
    Where the vehicle accelerates enough, its heading has been set by that at last.
    """
    for seed in range(40):
        rng = np.random.default_rng(seed)
        motion = drawn_motion("swing", seed)
        if kind == "hover":
            motion = Motion(motion.heading_rad, 0.05, 0.03, 0.03, 0.0, (0.5, 0.5, 0.2))
        run = MatchedRun(flight(13.5, motion=motion), seed, EstimatorParams(), Sensors())
        run.fly(3.0)
        state = run.lines[0]["state"]
        about = rng.uniform(-np.pi, np.pi)
        tilt = np.radians(30.0) * np.array([np.cos(about), np.sin(about), 0.0])
        turn = Rotation.from_rotvec([0.0, 0.0, rng.uniform(-np.pi, np.pi)])
        x, y, z, w = (Rotation.from_rotvec(tilt) * turn * rotation(state["q_WS"])).as_quat()
        state["q_WS"] = w, x, y, z
        run.fly(10.0)
        error, covariance = attitude_error(run)
        assert np.all(np.abs(error) < 4.5 * np.sqrt(np.diag(covariance)))
        assert np.degrees(np.hypot(error[0], error[1])) < 3.0
        assert np.degrees(abs(error[2])) < 5.0
        assert state["recoveries"] >= 1
        by_gnss = (REASON_GNSS_POSITION, REASON_GNSS_VELOCITY)
        assert state["reason"] in (by_gnss if kind == "hover" else (*by_gnss, REASON_ACCELERATION))
