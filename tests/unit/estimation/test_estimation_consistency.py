"""Consistency over a hundred seeds: matched flights, made by numpy alone, and chi-square bounds.

All noise is white and of the variance that the messages state, and the biases are drawn from the
filter's own start, so errors squared over covariance are chi-square distributed.
"""

from dataclasses import replace

import numpy as np
import pytest
from matched_flights import Errors, Flight, MatchedRun, Sensors, flight, halved, nees
from numpy.typing import NDArray
from scipy import stats

from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf.layout import (
    ANTENNA,
    BA,
    BG,
    FIELD,
    FIELD_BIAS,
    GNSS_BIAS,
    SENSORS,
    TERRAIN,
    THETA,
    P,
    V,
)
from quadsim.estimation.eskf.parameters import (
    AlignParams,
    FusionParams,
    MountingParams,
    NoiseParams,
)

pytestmark = pytest.mark.many

Array = NDArray[np.float64]
#: Every state but wind and terrain: the fixes' correlated error, the field and its bias too.
PARAMS = replace(
    EstimatorParams(),
    noise=NoiseParams(
        accel_bias_walk=5e-3,
        gyro_bias_walk=1e-3,
        pressure_walk=0.05,
        field_bias_walk=1e-8,
        range_correlation_s=0.0,
        gnss_correlated_share=0.5,
        gnss_correlation_s=20.0,
    ),
    start=AlignParams(field_bias_T=5e-8, field_T=5e-8, gnss_time_s=0.0),
    mount=MountingParams(
        imu_position_B_m=(0.05, -0.02, 0.03),
        imu_roll_pitch_yaw_deg=(10.0, -20.0, 30.0),
        antenna_position_B_m=(-0.3, 0.2, 0.4),
        rangefinder_position_B_m=(0.1, 0.2, -0.15),
    ),
)
#: From right after the filter's start, which takes a second.
EPOCHS_S = np.arange(2.0, 20.01, 0.5)
SEEDS = 100
#: What is published and what is inside: name of the errors, of their covariance.
WHAT = {"state": "covariance", "pose": "pose_covariance", "twist": "twist_covariance"}


def ensemble(path: Flight, sensors: Sensors, seeds: int) -> list[Errors]:
    """Each seed from the filter's own start in flight, 20 s."""
    return [MatchedRun(path, seed, PARAMS, sensors).errors(EPOCHS_S) for seed in range(seeds)]


@pytest.fixture(scope="module")
def path() -> Flight:
    return flight(20.0, mount=PARAMS.mount)


@pytest.fixture(scope="module")
def runs(path: Flight) -> list[Errors]:
    return ensemble(path, Sensors(), SEEDS)


def of(runs: list[Errors], what: str) -> tuple[Array, Array]:
    """Errors (seeds, epochs, n) and covariances of what is in use: no terrain, no lever arm."""
    errors = np.array([getattr(run, what) for run in runs])
    covariances = np.array([getattr(run, WHAT[what]) for run in runs])
    if what == "state":
        used = np.flatnonzero(covariances[0, 0].diagonal() > 0.0)
        used = used[used != TERRAIN]
        return errors[..., used], covariances[..., used[:, None], used]
    return errors, covariances


def totals(runs: list[Errors], at: int, size: int) -> Array:
    """Sum over the seeds of a part's normalised errors squared, at each epoch."""
    part = slice(at, at + size)
    errors = np.array([run.state[:, part] for run in runs])
    covariances = np.array([run.covariance[:, part, part] for run in runs])
    return np.asarray(nees(errors, covariances).sum(axis=0))


def share_inside(runs: list[Errors], what: str) -> float:
    """Share of the epochs whose average is inside the 95 % bounds: the check that is asked for."""
    errors, covariances = of(runs, what)
    low, high = stats.chi2.interval(0.95, errors.shape[-1] * len(runs))
    total = nees(errors, covariances).sum(axis=0)
    return float(np.mean((low <= total) & (total <= high)))


@pytest.mark.parametrize("what", WHAT)
def test_average_nees_is_inside_its_bounds(runs: list[Errors], what: str) -> None:
    """Of the state, and of pose and twist of base_link in the frames they are published in."""
    assert runs[0].state.shape[1] == ANTENNA
    assert share_inside(runs, what) >= 0.9


@pytest.mark.parametrize(
    "at",
    [THETA, V, P, BG, BA, GNSS_BIAS, FIELD_BIAS, FIELD],
    ids=["theta", "v", "p", "bg", "ba", "gnss-bias", "field-bias", "field"],
)
def test_average_nees_of_each_part(runs: list[Errors], at: int) -> None:
    """Inside bounds of 99.99 % at every epoch: two in a hundred chances to miss, all told."""
    low, high = stats.chi2.interval(0.9999, 3 * len(runs))
    total = totals(runs, at, 3)
    assert np.all((low <= total) & (total <= high))


@pytest.mark.parametrize(
    ("names", "caught"),
    [
        (("gyro",), ("state", "twist")),
        (("gnss_position", "gnss_velocity"), ("state", "pose", "twist")),
    ],
    ids=["gyro", "gnss"],
)
def test_an_over_confident_filter_fails_the_same_check(
    path: Flight, names: tuple[str, ...], caught: tuple[str, ...]
) -> None:
    """Told half the deviation of one sensor, it is caught, with three quarters of the seeds."""
    runs = ensemble(path, halved(Sensors(), *names), 3 * SEEDS // 4)
    for what in caught:
        assert share_inside(runs, what) < 0.9


@pytest.mark.parametrize(
    ("sensor", "size"),
    [
        ("gnss_position", 3),
        ("gnss_velocity", 3),
        ("magnetic_field", 1),
        ("pressure", 1),
        ("range", 1),
        ("inclination", 1),
    ],
)
def test_innovations_have_their_variance(runs: list[Errors], sensor: str, size: int) -> None:
    """Innovations are white, so their normalised squares add up to one chi-square number."""
    i = SENSORS.index(sensor)
    total = sum(float(run.record["nis_sum"][i]) for run in runs)
    count = sum(int(run.record["accepted"][i]) for run in runs)
    low, high = stats.chi2.interval(0.999, size * count)
    assert low <= total <= high
    # the gate's limit is one in ten thousand; four of a Poisson's deviations on top
    rejected = sum(int(run.record["rejected"][i]) for run in runs)
    expected = 1e-4 * count
    assert rejected <= expected + 4.0 * np.sqrt(expected) + 1.0


def test_innovations_of_an_over_confident_filter_do_not(path: Flight) -> None:
    """Half the deviation of the fixes: squares four times as large, but for what P adds."""
    runs = ensemble(path, halved(Sensors(), "gnss_position"), 10)
    i = SENSORS.index("gnss_position")
    total = sum(float(run.record["nis_sum"][i]) for run in runs)
    count = sum(int(run.record["accepted"][i]) for run in runs)
    assert total > 2.0 * stats.chi2.interval(0.999, 3 * count)[1]


#: Without gravity's direction, which is no measurement of an accelerating vehicle.
PERFECT = EstimatorParams(fusion=FusionParams(gravity_after_s=1e9))

#: Largest rate and specific force of the flight.
RATE_RADPS, FORCE_MPS2 = 0.45, 11.5


@pytest.mark.parametrize("rate_hz", [100, 500])
def test_a_noise_free_flight_is_followed_to_a_centimetre(rate_hz: int) -> None:
    """60 s with perfect fixes at 5 Hz, started by the filter itself; and on the IMU alone."""
    dt = 1.0 / rate_hz
    path = flight(60.0, dt)
    fixes = {"gnss_position": rate_hz // 5, "gnss_velocity": rate_hz // 5,
             "magnetic_field": rate_hz // 10}  # fmt: skip
    sensors = Sensors(every=fixes, silence=True)
    run = MatchedRun(path, 0, PERFECT, sensors)
    run.fly(2.0)
    worst_m = 0.0
    while run.k < len(path.f_S):
        run.fly(0.5)
        worst_m = max(worst_m, float(np.linalg.norm(run.state_error()[P : P + 3])))
    assert worst_m < 0.01

    blind = MatchedRun(path, 0, PERFECT, replace(sensors, every={}))
    blind.put_on_truth()
    blind.fly(60.0)
    error = blind.state_error()
    # the attitude takes no approximation: what is left is rounding of as many products
    assert np.linalg.norm(error[THETA : THETA + 3]) < 1e-9
    # turning takes so much of the force from the midpoint rule, at most and in one direction
    residual_mps2 = FORCE_MPS2 * (RATE_RADPS * dt) ** 2 / 24.0
    assert np.linalg.norm(error[P : P + 3]) < min(0.01, 0.5 * residual_mps2 * 60.0**2)
