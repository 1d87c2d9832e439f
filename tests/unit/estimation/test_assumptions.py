"""What is assumed of a vehicle that nobody has described: field, lever arm, errors that last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matched_flights import MatchedRun, Sensors, flight, nees
from numpy.typing import NDArray
from scipy import stats

from quadsim.analysis.replay import Settings, described, known_keys, replay
from quadsim.analysis.scoring import Scoring, judge_replay
from quadsim.bag.flight import write_flight
from quadsim.bag.measurements import heard_of
from quadsim.bag.profiles import Recording
from quadsim.bag.reading import open_bag
from quadsim.bag.writer import BagWriter
from quadsim.estimation.assumptions import ACCURATE_SHARE, Heard, Unknown, assumed, date_year_of
from quadsim.estimation.eskf.layout import ANTENNA, MAGNETIC_FIELD, P
from quadsim.estimation.eskf.parameters import AlignParams, EstimatorParams, MountingParams
from quadsim.estimation.interface import ErrorStateEkf
from quadsim.geometry.geodesy import Datum
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all

NOVEMBER_2026_NS = 1_795_385_045_000_000_000
ZURICH = Datum(47.397742, 8.545594, 488.0)
OTAGO = Datum(-45.0, 170.0, 0.0)
#: WMM2025's dipole at 2025, nT (its first three coefficients).
G10, G11, H11 = -29351.8, -1410.8, 4545.4


def dipole_W_T(place: Datum) -> NDArray[np.float64]:
    """East, north, up of the Earth's dipole at its radius, in closed form."""
    colatitude, longitude = np.radians([90.0 - place.latitude_deg, place.longitude_deg])
    equatorial = G11 * math.cos(longitude) + H11 * math.sin(longitude)
    north = -G10 * math.sin(colatitude) + equatorial * math.cos(colatitude)
    east = G11 * math.sin(longitude) - H11 * math.cos(longitude)
    up = 2.0 * (G10 * math.cos(colatitude) + equatorial * math.sin(colatitude))
    return np.array([east, north, up]) * 1e-9


@pytest.mark.parametrize("place", [ZURICH, OTAGO], ids=["north", "south"])
def test_field_is_that_of_the_place(place: Datum) -> None:
    heard = Heard(place=place, date_year=2026.9, has_field=True, field_strength_T=50e-6)
    params, notes = assumed(EstimatorParams(), (), heard)
    # the part that is no dipole has an rms of 10 uT at the surface (IGRF-13's spectrum)
    difference = np.subtract(params.magnetic_field_W_T, dipole_W_T(place))
    assert np.abs(difference).max() < 20e-6
    assert math.copysign(1.0, params.magnetic_field_W_T[2]) == -math.copysign(
        1.0, place.latitude_deg
    )
    assert any(f"{place.latitude_deg:.2f}" in words and "2026.9" in words for words in notes)


def test_field_that_somebody_set_stays() -> None:
    heard = Heard(place=OTAGO, date_year=2026.9, has_field=True)
    params, notes = assumed(
        EstimatorParams(), known_keys(None, ["magnetic_field_W_T=[0,0,1]"]), heard
    )
    assert params.magnetic_field_W_T == EstimatorParams().magnetic_field_W_T
    assert not any("Magnetic Model" in words for words in notes)


def test_field_without_a_date() -> None:
    """The model all the same, but where the strength is that of the parameters' field."""
    default = EstimatorParams().magnetic_field_W_T
    for strength_T, kept in ((math.hypot(*default), True), (57e-6, False)):
        heard = Heard(place=ZURICH, has_field=True, field_strength_T=strength_T)
        params, _ = assumed(EstimatorParams(), (), heard)
        assert (params.magnetic_field_W_T == default) is kept
        # a model's field has the deviations of a model: that of WMM2025 at least
        assert (params.start.field_T < 1.41e-7) is kept


def test_dates_of_stamps() -> None:
    # `date -u -d @1795385045`: 2026-11-22, day 326 of 365
    assert date_year_of(NOVEMBER_2026_NS) == pytest.approx(2026.0 + 325.9 / 365.0, abs=0.002)
    assert date_year_of(20_000_000) is None  # since the start of a simulation
    assert date_year_of(2**63 - 1) is None


@pytest.mark.parametrize(
    ("sigma_m", "has_state", "share"), [(0.01, True, ACCURATE_SHARE), (1.5, False, 0.0)]
)
def test_accurate_fixes_tell_a_lever_arm(sigma_m: float, has_state: bool, share: float) -> None:
    params, _ = assumed(EstimatorParams(), (), Heard(fix_sigma_m=sigma_m))
    assert (params.start.lever_arm_m > 0.0) is has_state
    assert params.noise.gnss_correlated_share == share
    known = {"mount.antenna_position_B_m", "noise.gnss_correlated_share"}
    params, _ = assumed(EstimatorParams(), known, Heard(fix_sigma_m=sigma_m))
    assert params.start.lever_arm_m == params.noise.gnss_correlated_share == 0.0


def test_fixes_that_state_no_deviation_are_said_so() -> None:
    _, notes = assumed(EstimatorParams(), (), Heard(fix_sigma_m=math.inf))
    (words,) = (words for words in notes if "lever arm" in words)
    assert words.endswith("as the fixes do not state how good they are")


def test_a_suite_says_what_is_installed() -> None:
    """Mounts and errors of its devices; nothing is assumed of them."""
    params, known = described(EstimatorParams(), (), "default")
    told, notes = assumed(params, known, Heard(fix_sigma_m=0.01, has_field=True))
    scenario = load_scenario("hover").estimator
    assert told.mount == scenario.mount
    assert told.noise.gyro_scale == scenario.noise.gyro_scale > 0.0
    assert told.noise.gnss_correlated_share == scenario.noise.gnss_correlated_share
    assert told.start.lever_arm_m == 0.0
    assert not any("lever arm" in words or "scale" in words for words in notes)


def test_live_estimator_assumes_once_it_has_heard() -> None:
    unknown = Unknown(EstimatorParams(gravity_mps2=9.8))
    assert not unknown.is_ready
    unknown.hear("imu", np.zeros(9))
    unknown.hear_field(np.array([2e-5, 0.0, 5e-5]), np.full(9, 1e-14))
    unknown.hear_fix(np.diag([1e-4, 1e-4, 4e-4]))
    assert not unknown.is_ready
    unknown.hear_place(OTAGO, NOVEMBER_2026_NS)
    assert unknown.is_ready
    params = unknown.assume()
    assert params.magnetic_field_W_T[2] > 0.0
    assert params.start.lever_arm_m > 0.0
    assert not unknown.is_ready
    assert any("imu" in words and "no covariance" in words for words in unknown.notes)
    # a parameter that changes in flight leaves what is assumed
    again = unknown.update(EstimatorParams(gravity_mps2=9.81))
    assert again == replace(params, gravity_mps2=9.81)


# ---- the lever arm as a state ------------------------------------------------------------------

LEVER_ARM_M = 0.1
SEEDS = 30


def test_lever_arm_is_consistent() -> None:
    """Believed elsewhere by a draw of its prior: its error squared over covariance, 99.99 %."""
    mount = MountingParams(antenna_position_B_m=(0.05, -0.1, 0.15))
    path = flight(15.0, mount=mount)
    sensors = Sensors(fix_m=(0.02, 0.02, 0.02), speed_mps=(0.05, 0.05, 0.05))
    errors, covariances, positions, stated = [], [], [], []
    for seed in range(SEEDS):
        draw = LEVER_ARM_M * np.random.default_rng([7, seed]).standard_normal(3)
        believed = replace(mount, antenna_position_B_m=tuple(mount.antenna_position_B_m - draw))
        params = replace(
            EstimatorParams(), mount=believed, start=AlignParams(lever_arm_m=LEVER_ARM_M)
        )
        run = MatchedRun(path, seed, params, sensors)
        found = run.errors(np.array([14.0]))
        part = slice(ANTENNA, ANTENNA + 3)
        errors.append(mount.antenna_position_B_m - np.reshape(found.record["antenna_S"], 3))
        covariances.append(found.covariance[-1, part, part])
        positions.append(found.state[-1, P : P + 3])
        stated.append(found.covariance[-1, P : P + 3, P : P + 3])
    low, high = stats.chi2.interval(0.9999, 3 * SEEDS)
    for error, covariance in ((errors, covariances), (positions, stated)):
        assert low < nees(np.array(error), np.array(covariance)).sum() < high
    # and the flight tells it: half of the prior is left on average, less on the axes it turns about
    assert np.sqrt(np.mean(np.square(errors))) < 0.6 * LEVER_ARM_M


# ---- a heading of unknown noise ----------------------------------------------------------------


@pytest.mark.parametrize("sigma_rad", [0.05, 0.2])
def test_unknown_heading_noise_is_learned(sigma_rad: float) -> None:
    """From the innovations of a vehicle at rest whose gyroscope holds the heading."""
    rng = np.random.default_rng(4)
    params = EstimatorParams(start=AlignParams(require_gnss=False))
    ekf = ErrorStateEkf(params, None)
    known = np.full(9, 1e-8)
    for k in range(6000):
        ekf.imu(k * 10_000_000 + 1, (0.0, 0.0, 9.80665), (0.0,) * 3, known, known)
        if k % 10 == 0:
            turn = sigma_rad * rng.standard_normal()
            field = (2.15e-5 * math.sin(turn), 2.15e-5 * math.cos(turn), -4.3e-5)
            ekf.magnetic_field(k * 10_000_000 + 1, field)
    # mean over 10 s of 100 squares of 1 +- sqrt(2), a first-order lag: 10 % of sigma^2 is one
    # deviation, four are allowed
    found = math.sqrt(ekf.state["heading_variance"])
    assert found == pytest.approx(sigma_rad, rel=0.2)
    assert ekf.state["accepted"][MAGNETIC_FIELD] > 500


# ---- bags --------------------------------------------------------------------------------------


def plain_bag(path: Path, changes: Sequence[str], **overrides: object) -> Path:
    """Messages of a closed loop and nothing of ours, as ``ros2 bag record`` leaves them."""
    pairs = dict(change.split("=", 1) for change in changes)
    values = {key: float(value) for key, value in pairs.items()}
    loops: list[RecordedLoop] = []

    def make(*arguments: object) -> RecordedLoop:
        loops.append(RecordedLoop(*arguments))
        return loops[-1]

    scenario = load_scenario("square", values, **overrides)
    run_all(scenario, None, make, scenario.imu.rate_hz, keep_samples=True)
    with BagWriter(path, {}) as writer:
        write_flight(writer, loops, Recording())
    return path


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (
            "environment.datum.latitude_deg=-33.86",
            "environment.datum.longitude_deg=151.21",
            "environment.datum.height_m=50.0",
        ),
    ],
    ids=["zurich", "sydney"],
)
def test_plain_bag_replays_as_it_flew(changes: Sequence[str], tmp_path: Path) -> None:
    path = plain_bag(tmp_path / "bag", changes, seed=3, duration_s=25.0)
    result = replay(path, Settings())
    figures = judge_replay("plain", path, ("eskf",), result, Scoring()).summary["estimator"]
    assert figures["position_rmse_m"] < 0.04
    assert math.degrees(figures["yaw_rmse_rad"]) < 0.9
    low, high = figures["nees"]["position"]["interval"]
    assert low < figures["nees_mean"] < high
    assert all(part["refused_share"] < 0.01 for part in figures["nis"].values())
    words = " ".join(result.log.notes)
    assert all(name in words for name in ("Magnetic Model", "lever arm", "offset", "variance"))
    with open_bag(path) as bag:
        heard = heard_of(bag, "/quad", None)
    # the receiver's file says a half; some of 250 fixes' squares tell it to a quarter
    assert heard.correlated_share == pytest.approx(0.5, abs=0.25)
    assert heard.fix_sigma_m == pytest.approx(0.0085, rel=0.5)
