"""GNSS lost for half a minute: what the filter claims meanwhile, its return, and theory."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matched_flights import Errors, Flight, MatchedRun, Motion, Sensors, flight, nees
from numpy.typing import NDArray
from scipy import stats

from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf.layout import BA, BG, GRAVITY, THETA, P, V
from quadsim.estimation.eskf.parameters import FusionParams, MountingParams, NoiseParams
from quadsim.sensors.devices import load_device

pytestmark = pytest.mark.many

Array = NDArray[np.float64]
G = 9.80665
SEEDS, FIRST_SEED = 100, 100
DT = 0.02
LOST_S, BACK_S, END_S = 10.0, 40.0, 45.0
PARAMS = replace(
    EstimatorParams(),
    noise=NoiseParams(accel_bias_walk=5e-3, gyro_bias_walk=1e-3, pressure_walk=0.05),
    # the flight's accelerations are sines; gravity's direction has a test of its own
    fusion=FusionParams(gravity_after_s=1e9),
    mount=MountingParams(
        imu_position_B_m=(0.05, -0.02, 0.03), antenna_position_B_m=(-0.05, 0.08, 0.13)
    ),
)
SENSORS = Sensors(
    every={"gnss_position": 10, "gnss_velocity": 10, "magnetic_field": 5, "pressure": 5},
    silent=dict.fromkeys(("gnss_position", "gnss_velocity"), (LOST_S, BACK_S)),
)
#: Once the filter has started, the field says nothing either.
WITHOUT_FIELD = replace(
    SENSORS,
    gyro_radps=(0.3, 0.3, 0.3),
    silent={**SENSORS.silent, "magnetic_field": (LOST_S, BACK_S)},
)
BEFORE_S = BACK_S + 0.2 - DT  # the sample before the first fix
STILL = Motion(0.0, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0, 0.0))
EPOCHS_S = np.concatenate([np.arange(10.0, 40.1, 2.5), [BEFORE_S, BACK_S + 0.2, 41.0, 42.5, 45.0]])


@pytest.fixture(scope="module")
def path() -> Flight:
    return flight(END_S, DT, PARAMS.mount)


@pytest.fixture(scope="module")
def runs(path: Flight) -> list[Errors]:
    return [
        MatchedRun(path, seed, PARAMS, SENSORS).errors(EPOCHS_S)
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)
    ]


def stacked(runs: list[Errors], part: slice) -> tuple[Array, Array]:
    """Errors (seeds, epochs, width) and their covariances."""
    errors = np.array([run.state[:, part] for run in runs])
    return errors, np.array([run.covariance[:, part, part] for run in runs])


@pytest.mark.parametrize("at", [THETA, V, P, BG, BA], ids=["theta", "v", "p", "bg", "ba"])
def test_the_covariance_grows_as_the_errors_do(runs: list[Errors], at: int) -> None:
    """In the gap and after it, inside bounds of 99.99 %: one in a hundred chances, all told."""
    total = nees(*stacked(runs, slice(at, at + 3))).sum(axis=0)
    low, high = stats.chi2.interval(0.9999, 3 * SEEDS)
    assert np.all((low <= total) & (total <= high))


def test_the_error_is_what_is_claimed_metre_by_metre(runs: list[Errors]) -> None:
    """Root mean square over the seeds of the horizontal position against the deviation stated."""
    errors, covariances = stacked(runs, slice(P, P + 2))
    measured = np.mean(errors**2, axis=0)
    stated = np.mean(np.diagonal(covariances, axis1=2, axis2=3), axis=0)
    low, high = stats.chi2.interval(0.9999, SEEDS)
    assert np.all((low / SEEDS <= measured / stated) & (measured / stated <= high / SEEDS))
    lost, end = list(EPOCHS_S).index(10.0), list(EPOCHS_S).index(40.0)
    assert np.all(np.sqrt(stated[end]) > 10.0 * np.sqrt(stated[lost]))  # there is something to grow


def test_velocity_does_not_jump_when_fixes_return(runs: list[Errors]) -> None:
    """The first fix moves the velocity by no more than it was uncertain, which is P - P'."""
    before, after = list(EPOCHS_S).index(BEFORE_S), list(EPOCHS_S).index(BACK_S + 0.2)
    errors, covariances = stacked(runs, slice(V, V + 3))
    # the flight goes on for one sample: less than its noise of 0.2 m/s^2 * 20 ms
    steps = errors[:, after] - errors[:, before]
    sigma = np.sqrt(np.diagonal(covariances[:, before], axis1=1, axis2=2))
    # of three hundred normal numbers none beyond 4.5, but for 2 in 1000 chances
    assert np.all(np.abs(steps) < 4.5 * sigma + 0.01)
    total = nees(steps, covariances[:, before] - covariances[:, after]).sum()
    low, high = stats.chi2.interval(0.999, 3 * SEEDS)
    # one sample of the accelerometer is in the step, not in the difference: 0.4 % of it at most
    assert 0.99 * low <= total <= 1.01 * high
    assert all(int(run.record["recoveries"]) == 0 for run in runs)


def closed_form_m2(t_s: float, covariance: Array, params: EstimatorParams, q: Array) -> float:
    """Variance of the eastern position of a level vehicle without fixes for ``t_s``.

    The error of the acceleration is a constant, g times the tilt less the bias; and a ramp, g times
    the gyroscope's bias about north; white noise and walks are integrated two to four times (e.g.
    Groves, *Principles of GNSS, inertial and multisensor integrated navigation systems*, 2013, ch.
    5.7).

    Args:
        t_s: time since the loss.
        covariance: (N, N) then.
        params: of the filter, for the walks.
        q: spectral densities of accelerometer and gyroscope, (m/s^2)^2/Hz and (rad/s)^2/Hz.
    """
    row = np.zeros(covariance.shape[0])
    row[P], row[V] = 1.0, t_s
    row[THETA + 1], row[BA] = 0.5 * G * t_s**2, -0.5 * t_s**2
    row[BG + 1] = -G * t_s**3 / 6.0
    noise = params.noise
    return float(
        row @ covariance @ row
        + q[0] * t_s**3 / 3.0
        + noise.accel_bias_walk**2 * t_s**5 / 20.0
        + q[1] * G**2 * t_s**5 / 20.0
        + noise.gyro_bias_walk**2 * G**2 * t_s**7 / 252.0
    )


@pytest.mark.parametrize("device", ["adis16448", "icm42688p", "mpu6000"])
def test_drift_of_three_imus_is_that_of_theory(device: str) -> None:
    """Half a minute on the IMU alone, with the noise and the errors at switch-on of its file."""
    imu = load_device("imu", device)
    dt = 0.01
    density = np.array([imu.accel_noise_density[0] ** 2, imu.gyro_noise_density[0] ** 2])
    quiet = Sensors(
        accel_mps2=(math.sqrt(density[0] / dt),) * 3,
        gyro_radps=(math.sqrt(density[1] / dt),) * 3,
        every={},
        silence=True,
    )
    params = EstimatorParams(fusion=FusionParams(gravity_after_s=1e9))
    run = MatchedRun(flight(30.0, dt, motion=STILL), 0, params, quiet)
    run.put_on_truth()
    covariance = run.lines[0]["state"]["covariance"]
    sigma = np.zeros(len(covariance))
    sigma[P : P + 3], sigma[V : V + 3] = 0.5, 0.05
    sigma[THETA : THETA + 3] = imu.accel_turn_on_sigma / G
    sigma[BA : BA + 3], sigma[BG : BG + 3] = imu.accel_turn_on_sigma, imu.gyro_turn_on_sigma
    covariance[:] = np.diag(sigma**2)
    start = covariance.copy()
    for t_s in (10.0, 20.0, 30.0):
        run.fly(10.0)
        stated = run.lines[0]["state"]["covariance"][P, P]
        # the steps' sums for integrals: 3/2 dt / t
        assert stated == pytest.approx(closed_form_m2(t_s, start, params, density), rel=3e-3)


def test_gravity_does_not_make_the_filter_too_sure() -> None:
    """A vehicle that swings about a place, its gyroscope as noisy as that of FCND.

    The swing is a sine, no noise, so the upper bound alone holds.
    """
    params = replace(PARAMS, fusion=FusionParams(gravity_after_s=1.0))
    path = flight(BACK_S, DT, PARAMS.mount)
    total = 0.0
    for seed in range(FIRST_SEED, FIRST_SEED + 20):
        run = MatchedRun(path, seed, params, WITHOUT_FIELD)
        run.fly(BACK_S)
        assert run.record[0]["accepted"][GRAVITY] > 0
        covariance = np.array(run.record[0]["covariance"])[THETA : THETA + 2, THETA : THETA + 2]
        total += float(nees(run.state_error()[THETA : THETA + 2], covariance))
    assert total < stats.chi2.ppf(0.999, 2 * 20)
