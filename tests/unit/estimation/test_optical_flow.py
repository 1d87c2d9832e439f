"""Flow without GNSS and compass: the start, what is known and what is not, and a real flight."""

import math
from typing import Any

import numpy as np
import pytest
from flown import FLIGHTS
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from quadsim.analysis.replay import Settings, replay
from quadsim.bag.logs.crazyflie_usd import read_tables
from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.layout import FLOW_SCALE, OPTICAL_FLOW, REASON_FLOW, THETA, P, V
from quadsim.estimation.eskf.parameters import AlignParams, NoiseParams
from quadsim.estimation.interface import LOCAL, NO_HEIGHT

Array = NDArray[np.float64]
G = 9.80665
STEP_NS, FLOW_EVERY = 4_000_000, 5  # 250 Hz; 50 Hz
DT, FLOW_S = STEP_NS * 1e-9, FLOW_EVERY * STEP_NS * 1e-9
STAND_S, RISE_S, CIRCLE_S = 2.0, 2.0, 6.0
RADIUS_M, HEIGHT_M = 1.0, 1.2
ACCEL_SIGMA, GYRO_SIGMA, FLOW_SIGMA, RANGE_SIGMA = 0.02, 0.002, 0.003, 0.01
PARAMS = EstimatorParams(
    start=AlignParams(local=True, flow_scale=0.02),
    noise=NoiseParams(range_correlation_s=0.0, range_offset_m=0.005),
)


def smooth(x: float) -> float:
    """0 to 1 with three derivatives at rest at both ends."""
    x = min(max(x, 0.0), 1.0)
    return x**4 * (35.0 - 84.0 * x + 70.0 * x * x - 20.0 * x**3)


def place(t: float) -> Array:
    """A rise, then circles whose angle starts and ends at rest."""
    height_m = HEIGHT_M * smooth((t - STAND_S) / RISE_S)
    angle = 4.0 * math.pi * smooth((t - STAND_S - RISE_S) / (2.0 * CIRCLE_S))
    return np.array([RADIUS_M * (1.0 - math.cos(angle)), RADIUS_M * math.sin(angle), height_m])


def derivatives(t: float, h: float = 1e-3) -> tuple[Array, Array]:
    """Velocity and acceleration by central differences of the closed form."""
    before, now, after = place(t - h), place(t), place(t + h)
    return (after - before) / (2.0 * h), (after - 2.0 * now + before) / (h * h)


def attitude(t: float) -> Rotation:
    """Level, turning slowly about the vertical once it flies."""
    return Rotation.from_euler("z", 0.3 * max(t - STAND_S - RISE_S, 0.0))


class Flown:
    """A level vehicle with flow, range and IMU, their noise drawn from a seed."""

    def __init__(self, params: EstimatorParams, seed: int = 1, scale: float = 1.0) -> None:
        self.ekf = ErrorStateEkf(params, None)
        self.rng = np.random.default_rng(seed)
        self.scale, self.k = scale, 0
        self.bias = self.rng.normal(0.0, 0.005, 3)
        self.lost = self.no_range = False

    def run(self, until_s: float) -> None:
        while self.k * DT < until_s:
            self.step()

    def step(self) -> None:
        self.k += 1
        t, stamp_ns = self.k * DT, self.k * STEP_NS + 1_000_000_000
        R, rng = attitude(t - 0.5 * DT), self.rng
        w_S = np.array([0.0, 0.0, 0.3 if t > STAND_S + RISE_S else 0.0]) + self.bias
        f_S = R.inv().apply(derivatives(t - 0.5 * DT)[1] + [0.0, 0.0, G])
        self.ekf.imu(
            stamp_ns,
            f_S + rng.normal(0.0, ACCEL_SIGMA, 3),
            w_S + rng.normal(0.0, GYRO_SIGMA, 3),
            ACCEL_SIGMA**2 * np.eye(3),
            GYRO_SIGMA**2 * np.eye(3),
        )
        height_m = place(t)[2]
        if self.k % 10 == 0 and height_m > 0.1 and not self.no_range:
            self.ekf.range(stamp_ns, height_m + rng.normal(0.0, RANGE_SIGMA), RANGE_SIGMA**2)
        if self.k % FLOW_EVERY == 0 and height_m > 0.1 and not self.lost:
            middle = t - 0.5 * FLOW_S
            v_S = attitude(middle).inv().apply(derivatives(middle)[0]) / place(middle)[2]
            flow = self.scale * FLOW_S * np.array([v_S[1], -v_S[0]])
            flow += rng.normal(0.0, FLOW_SIGMA, 2)
            self.ekf.optical_flow(stamp_ns, [*flow, FLOW_S], FLOW_SIGMA**2)

    @property
    def error(self) -> Array:
        """Position and velocity of the estimate less the truth's."""
        t, state = self.k * DT, self.ekf.state
        v_W, _ = derivatives(t)
        return np.concatenate([state.p_W - place(t), state.v_W - v_W])


def test_starts_without_a_fix_and_a_field_and_says_so() -> None:
    """Map is where it stood: position and heading are exact there, and nothing else tells them."""
    flown = Flown(PARAMS)
    flown.run(1.5)
    state, health = flown.ekf.state, flown.ekf.health()
    assert flown.ekf.running
    assert health["awaited"] == LOCAL
    sigma = np.sqrt(np.diag(state.covariance))
    assert sigma[THETA + 2] < 0.01
    assert (sigma[P : P + 2] < 0.05).all()
    assert sigma[P + 2] == pytest.approx(PARAMS.start.position_m, rel=0.1)
    # the gyroscope's mean at rest tells its bias, to the deviation of a vehicle that stands
    np.testing.assert_allclose(state.gyro_bias_S, flown.bias, atol=4e-3)


def test_without_the_key_it_waits_as_before() -> None:
    flown = Flown(EstimatorParams())
    flown.run(4.0)
    assert not flown.ekf.running
    assert "a GNSS fix" in str(flown.ekf.health()["awaited"])


def test_dead_reckoning_is_consistent_and_its_deviation_grows() -> None:
    """Mean NEES of 12 flights on each axis: chi-square of 12 over 12, its 99.9 % interval."""
    errors, growth = [], []
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        flown = Flown(PARAMS, seed, 1.0 + PARAMS.start.flow_scale * rng.normal())
        flown.run(STAND_S + RISE_S + 2.0)
        early = flown.ekf.state.covariance[P, P]
        flown.run(STAND_S + RISE_S + 9.0)
        state = flown.ekf.state
        variance = np.diag(state.covariance)
        errors.append(flown.error**2 / np.concatenate([variance[P : P + 3], variance[V : V + 3]]))
        growth.append(state.covariance[P, P] / early)
        assert np.abs(flown.error[:2]).max() < 0.5
    nees = np.mean(errors, axis=0)
    assert (nees > 0.14).all(), nees
    assert (nees < 2.8).all(), nees
    assert min(growth) > 1.0


def test_flow_scale_is_learned_from_accelerations() -> None:
    flown = Flown(PARAMS, 3, scale=1.04)
    flown.run(STAND_S + RISE_S + CIRCLE_S)
    state = flown.ekf.state
    sigma = math.sqrt(state.covariance[FLOW_SCALE, FLOW_SCALE])
    assert sigma < 0.7 * PARAMS.start.flow_scale
    assert abs(state.flow_scale - 0.04) < 4.0 * sigma


def test_flow_without_a_height_is_left_out_and_said() -> None:
    flown = Flown(PARAMS)
    flown.no_range = True
    flown.run(STAND_S + RISE_S + 1.0)
    assert flown.ekf.state.accepted[OPTICAL_FLOW] == 0
    assert flown.ekf.health()["flow"] == NO_HEIGHT
    flown.no_range = False
    flown.run(STAND_S + RISE_S + 3.0)
    assert flown.ekf.health()["flow"] == ""
    assert flown.ekf.state.accepted[OPTICAL_FLOW] > 50


def test_lost_flow_widens_the_velocity_and_its_return_closes_it() -> None:
    flown = Flown(PARAMS, 5)
    flown.run(STAND_S + RISE_S + 3.0)
    held = flown.ekf.state.covariance[V, V]
    flown.lost = True
    flown.run(STAND_S + RISE_S + 7.0)
    assert flown.ekf.state.covariance[V, V] > 4.0 * held
    flown.lost = False
    flown.run(STAND_S + RISE_S + 8.0)
    assert flown.ekf.state.covariance[V, V] < 2.0 * held
    assert np.abs(flown.error[3:5]).max() < 0.1


def test_flow_that_contradicts_for_long_sets_the_velocity() -> None:
    flown = Flown(PARAMS, 6)
    flown.run(STAND_S + RISE_S + 1.0)
    flown.ekf.state.v_W[0] += 3.0
    flown.run(STAND_S + RISE_S + 6.0)
    assert flown.ekf.state.reason == REASON_FLOW
    assert np.abs(flown.error[3:5]).max() < 0.2


@pytest.mark.parametrize(
    ("flow", "variance", "verdict"),
    [
        ((math.nan, 0.0, 0.02), 0.0, "not_finite"),
        ((0.0, math.inf, 0.02), 0.0, "not_finite"),
        ((0.01, 0.0, 0.0), 0.0, "out_of_range"),
        ((0.01, 0.0, -0.02), 0.0, "out_of_range"),
        ((0.01, 0.0, 3.0), 0.0, "out_of_range"),
        ((100.0, 0.0, 0.02), 0.0, "out_of_range"),
        ((0.01, 0.0, 0.02), -1.0, "bad_variance"),
        ((0.01, 0.0, 0.02), math.nan, "not_finite"),
    ],
)
def test_bad_flow_is_refused_and_changes_nothing(flow: Any, variance: float, verdict: str) -> None:
    flown = Flown(PARAMS)
    flown.run(STAND_S + RISE_S)
    before = flown.ekf.state.copy()
    stamp_ns = flown.k * STEP_NS + 1_000_000_000 - 1_000_000
    assert flown.ekf.optical_flow(stamp_ns, flow, variance) == verdict
    assert flown.ekf.state == before
    assert flown.ekf.counts[f"optical_flow_{verdict}"] == 1


LOG = FLIGHTS / "bitcraze_flow" / "log01"


@pytest.mark.skipif(not LOG.is_file(), reason="the flight is not here")
def test_a_real_crazyflie_drifts_no_more_than_its_own_estimate() -> None:
    """Against motion capture beside it: both aligned by a turn about the vertical and a shift.

    Both clocks are aligned by the vehicle's own estimate, as the makers of the data set do.
    """
    found = replay(LOG, Settings(("eskf",))).log.estimates["eskf"]
    table = read_tables(LOG, [])["fixedFrequency"]
    assert table.stamp_ns is not None
    names = [f"stateEstimate.{axis}" for axis in "xyz"]
    own = (table.stamp_ns * 1e-9, np.array([table.columns[name] for name in names]).T)
    ours = (found.stamp_ns * 1e-9, found.p_W)
    mocap = np.load(LOG.with_name("mocap01.npy"))
    mocap = mocap[np.isfinite(mocap).all(axis=1)]
    time_s = 1e-3 * (mocap[:, 0] - mocap[0, 0])

    def error_m(track: tuple[Array, Array], offset_s: float, rate: float) -> float:
        t = offset_s + rate * time_s[300:-300:20]
        a = np.array([np.interp(t, track[0], column) for column in track[1].T]).T
        a, b = a - a.mean(axis=0), mocap[300:-300:20, 1:4]
        b = b - b.mean(axis=0)
        R, _ = Rotation.align_vectors(
            np.column_stack([b[:, :2], np.zeros(len(b))]),
            np.column_stack([a[:, :2], np.zeros(len(a))]),
        )
        return float(np.sqrt(np.mean(np.sum((R.apply(a) - b) ** 2, axis=1))))

    start = [13.05, -0.01]
    clock = minimize(lambda x: error_m(own, x[0], 1.0 + x[1]), start, method="Nelder-Mead").x
    ours_m, own_m = (error_m(track, clock[0], 1.0 + clock[1]) for track in (ours, own))
    assert ours_m < own_m < 0.15, (ours_m, own_m)
