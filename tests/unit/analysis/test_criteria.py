"""Criteria on signals, against flights made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import chi2

from quadsim.analysis.criteria import judge_signal
from quadsim.analysis.signals import SIGNALS, euler_angles
from quadsim.analysis.summary import summarize
from quadsim.sim.criterion import Criterion, SignalCriterion
from quadsim.sim.log import FlightLog, ImuSamples, Track

HZ = 100
SECONDS = 10


def flight(east_m=None, yaw_rad=None, sigma=0.1):
    """A vehicle at rest for 10 s, and an estimate that is off by what is given."""
    count = SECONDS * HZ + 1
    truth = Track.empty(count)
    truth.stamp_ns[:] = np.arange(count) * (10**9 // HZ) + 7_000_000_000
    estimate = replace(
        Track.empty(count, with_sigma=True), stamp_ns=truth.stamp_ns, v_W=truth.v_W.copy()
    )
    estimate.sigma[:] = sigma
    if east_m is not None:
        estimate.p_W[:, 0] = east_m
    if yaw_rad is not None:
        estimate.q_WB[:, 0] = np.cos(np.asarray(yaw_rad) / 2)
        estimate.q_WB[:, 3] = np.sin(np.asarray(yaw_rad) / 2)
    return FlightLog(truth=truth, estimates={"eskf": estimate})


def judged(log, signal="position_error_m", **keys):
    return judge_signal(SignalCriterion(signal, **keys), [log])


def test_a_break_ends_what_was_held():
    """One sample above the limit at 4 s: what follows lasts from 4.01 s to 10 s."""
    east_m = np.full(SECONDS * HZ + 1, 0.5)
    east_m[4 * HZ] = 1.01
    log = flight(east_m)
    assert judged(log, limit=1.0, hold_s=5.99).passed
    failed = judged(log, limit=1.0, hold_s=6.0)
    assert not failed.passed
    assert failed.held_s == pytest.approx(5.99)
    assert failed.value == pytest.approx(1.01)  # the limit that would have passed


def test_the_limit_itself_passes():
    log = flight(np.full(SECONDS * HZ + 1, 1.0))
    assert judged(log, limit=1.0, hold_s=10.0).passed
    assert not judged(log, limit=np.nextafter(1.0, 0.0), hold_s=1.0).passed
    assert judged(log, limit=2.0, least=1.0).passed
    assert not judged(log, limit=2.0, least=np.nextafter(1.0, 2.0)).passed


def test_the_value_is_the_least_of_the_largest_over_all_windows():
    east_m = np.abs(np.random.default_rng(3).normal(size=SECONDS * HZ + 1))
    found = judged(flight(east_m), limit=1.0, hold_s=0.5)
    windows = np.lib.stride_tricks.sliding_window_view(east_m, HZ // 2 + 1)
    assert found.value == windows.max(axis=1).min()
    assert found.passed == (found.value <= 1.0)


def test_without_a_time_the_whole_span_counts():
    east_m = np.full(SECONDS * HZ + 1, 0.5)
    east_m[2 * HZ] = 3.0
    log = flight(east_m)
    assert not judged(log, limit=1.0).passed
    assert judged(log, limit=1.0, from_s=2.005).passed
    assert judged(log, limit=1.0, to_s=1.995).passed
    assert judged(log, limit=1.0).value == 3.0


def test_what_is_not_a_number_and_what_is_missing_break_it():
    east_m = np.full(SECONDS * HZ + 1, 0.5)
    east_m[5 * HZ] = np.nan
    assert judged(flight(east_m), limit=1.0, hold_s=4.9).passed
    assert not judged(flight(east_m), limit=1.0, hold_s=5.1).passed
    log = flight(np.full(SECONDS * HZ + 1, 0.5))
    rows = np.arange(SECONDS * HZ + 1)
    kept = log.estimates["eskf"][(rows < 4 * HZ) | (rows > 5 * HZ)]  # a second without estimates
    log.estimates["eskf"] = kept
    assert judged(log, limit=1.0, hold_s=4.9).passed
    assert not judged(log, limit=1.0, hold_s=5.1).passed
    of_truth = {"tilt_rad", "sink_mps", "away_m", "height_m"}
    for nothing, signals in (
        (FlightLog(), set(SIGNALS)),
        (FlightLog(truth=log.truth), set(SIGNALS) - of_truth),
    ):
        for signal in signals:
            found = judge_signal(SignalCriterion(signal, limit=1.0), [nothing])
            assert not found.passed
            assert found.value is None


def test_a_share_is_counted_from_the_beginning_and_holds_at_the_end():
    """Two of three inside: 2/3. All of the last second outside: 0.6, and no more in the band."""
    yaw_rad = np.where(np.arange(SECONDS * HZ + 1) % 3 == 2, 0.11, 0.09)
    found = judged(flight(yaw_rad=yaw_rad), "heading_in_sigma", least=0.64, limit=0.73, hold_s=2.0)
    assert found.value == pytest.approx(2 / 3, abs=1e-3)
    assert found.passed
    yaw_rad[-HZ:] = 0.11
    found = judged(flight(yaw_rad=yaw_rad), "heading_in_sigma", least=0.64, limit=0.73, hold_s=2.0)
    assert found.value == pytest.approx(0.6, abs=1e-3)
    assert (found.passed, found.held_s) == (False, 0.0)
    late = judged(
        flight(yaw_rad=yaw_rad), "heading_in_sigma", least=0.64, limit=0.73, hold_s=2.0, to_s=8.9
    )
    assert late.passed  # the last second does not count


def test_euler_angles_are_those_of_scipy():
    rotations = Rotation.random(200, random_state=5)
    expected = rotations.as_euler("ZYX")[:, ::-1]
    q_WB = np.roll(rotations.as_quat(), 1, axis=1)
    np.testing.assert_allclose(euler_angles(q_WB), expected, atol=1e-9)


def test_the_largest_euler_angle_error():
    log = flight()
    log.estimates["eskf"].q_WB[:] = np.roll(
        Rotation.from_euler("ZYX", [-0.03, 0.02, 0.01]).as_quat(), 1
    )
    found = judged(log, "euler_error_max_rad", limit=0.1, hold_s=3.0)
    assert found.value == pytest.approx(0.03, abs=1e-12)
    assert judged(log, "yaw_error_rad", limit=0.1).value == pytest.approx(0.03, abs=1e-12)


def test_the_probability_of_several_vehicles_is_that_of_chi_square():
    """Of n errors of z deviations each: chi-square of n z^2 with n degrees of freedom."""
    logs = [flight(np.full(SECONDS * HZ + 1, z * 0.1), sigma=0.1) for z in (0.5, -1.5, 1.0)]
    criterion = SignalCriterion("x_error_probability", limit=0.995, least=0.005)
    found = judge_signal(criterion, logs)
    assert found.value == pytest.approx(chi2.cdf(0.25 + 2.25 + 1.0, 3), abs=1e-12)
    assert found.passed
    for log in logs:
        log.estimates["eskf"].sigma[:] = 0.02
    found = judge_signal(criterion, logs)
    assert not found.passed  # the filter is far too sure
    for log in logs:
        log.estimates["eskf"].v_W[:, 0] = 0.02
    speed = judge_signal(replace(criterion, signal="v_x_error_probability"), logs)
    assert speed.value == pytest.approx(chi2.cdf(3.0, 3), abs=1e-12)


def test_shares_of_fixes_and_of_specific_forces():
    log = flight()
    fixes = Track.empty(4, with_sigma=True)
    fixes.stamp_ns[:] = log.truth.stamp_ns[100:500:100]
    fixes.p_W[:, 0] = (0.0, 0.6, -0.71, 0.7)
    fixes.sigma[:, 0] = 0.7
    log.gnss = fixes
    assert judged(log, "gnss_x_in_sigma", limit=1.0).value == 0.75
    f_S = np.array([[0.4, 9.0, 9.8], [-0.6, 0.0, 9.8]])
    log.imu = ImuSamples(fixes.stamp_ns[:2], f_S, f_S, np.full((2, 3), 0.5))
    assert judged(log, "accel_x_in_sigma", limit=1.0).value == 0.5


def test_a_summary_judges_signals_beside_its_values():
    log = flight(np.full(SECONDS * HZ + 1, 0.5))
    criteria = [
        Criterion("estimator.position_rmse_m", 0.6),
        SignalCriterion("position_error_m", limit=0.6, hold_s=9.0),
    ]
    summary = summarize(log, criteria)
    assert summary["passed"]
    assert summary["criteria"][1] == {
        "name": "position_error_m",
        "value": 0.5,
        "least": 0.0,
        "limit": 0.6,
        "hold_s": 9.0,
        "held_s": 10.0,
        "from_s": 0.0,
        "to_s": 86400.0,
        "passed": True,
    }
    assert not summarize(log, [replace(criteria[1], limit=0.4)])["passed"]
