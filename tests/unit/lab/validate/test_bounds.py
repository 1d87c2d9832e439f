"""Bounds on errors of predictions hold where they are stated, and are stated nowhere else."""

import numpy as np
import pytest

from quadsim.lab.validate.bounds import (
    CONDITIONS,
    WindowErrors,
    bound_rows,
    conformal_bound,
    coverage_of,
    error_bounds,
    judge_bounds,
    limits_of,
)


def windows(error, regime=None, top=1.0):
    """A flight whose windows were all flown alike."""
    count = len(error)
    regime = np.zeros(count, np.int64) if regime is None else regime
    return WindowErrors(np.asarray(error, float), regime, np.full((count, 4), top))


def flown(rng, speed, growth=0.0):
    """A flight whose body rates reach further and whose errors grow with them, as real ones do.

    ``growth``: how much larger errors at the same rates are per m/s of the flight's top speed.
    """
    rate = speed * rng.uniform(0.1, 1.0, 60)
    scale = (0.2 + rate**2) * (1.0 + growth * speed)
    conditions = np.column_stack([np.full(60, 0.1) + 0.9 * rate, rate, rate, 0.5 * rate])
    conditions[0, 0] = speed
    error = scale * np.abs(rng.normal(size=60))
    return WindowErrors(error, np.digitize(rate, EDGES[1:-1]), conditions)


EDGES = np.array([0.0, 0.5, 0.9, 1.4])


def test_a_conformal_bound_covers_as_it_says():
    rng = np.random.default_rng(3)
    bounds = [conformal_bound(rng.exponential(1.0, 99), 0.9) for _ in range(2000)]
    # coverage of a bound b is 1 - exp(-b); its mean over calibrations is exactly the level
    assert np.mean(1.0 - np.exp(-np.array(bounds))) == pytest.approx(0.9, abs=0.003)
    assert conformal_bound(np.arange(19.0), 0.9) == np.inf


def test_coverage_is_of_flights_left_out():
    alike = [windows(np.linspace(0, 1, 100)) for _ in range(4)]
    assert coverage_of(alike, 1, 0.9) == pytest.approx(0.9, abs=0.02)
    far = [*alike, windows(np.full(100, 5.0))]
    assert coverage_of(far, 1, 0.9) < 0.8
    assert coverage_of(alike[:3], 1, 0.9) is None


def test_bounds_hold_on_another_flight_however_flights_differ():
    rng = np.random.default_rng(5)

    def flight():
        error = rng.lognormal(0.0, 0.5) * np.abs(rng.normal(size=60))
        return windows(error, rng.integers(0, 2, 60))

    shares = []
    for _ in range(40):
        bounds = error_bounds([flight() for _ in range(10)], 2, 0.9)
        new = [flight() for _ in range(20)]
        shares += [float((each.error <= bounds[each.regime]).mean()) for each in new]
    # flights' shares deviate by 0.15, those with the same bounds together: 0.01 of the mean
    assert np.mean(shares) == pytest.approx(0.9, abs=0.03)


def test_two_flights_tell_of_their_own_windows_alone():
    flights = [windows(np.linspace(0, 1, 100))] * 2
    row = bound_rows(np.array([0.5]), [flights], np.array([[0.0, 9.0, 9.0, 9.0]]), 0.9)[0]
    assert row["position_m"] == pytest.approx(0.9, abs=0.02)
    assert row["another_flight"] is False
    assert row["coverage"] is None
    assert row["up_to"] == dict.fromkeys(CONDITIONS, 1.0)


def test_bounds_of_slow_flights_hold_on_faster_ones_up_to_their_limits():
    rng = np.random.default_rng(11)
    bounded, held, without = 0, 0.0, []
    for _ in range(6):
        slow = [flown(rng, speed) for speed in np.repeat([1.0, 1.2, 1.4], 4)]
        fast = [flown(rng, 1.8) for _ in range(4)]
        rows = bound_rows(np.array([0.5]), [slow], EDGES[None], 0.9)
        assert all(row["another_flight"] for row in rows)
        found = judge_bounds(rows, [0.5], [fast])[0]
        bounded += found["bounded"]
        held += found["bounded"] * found["coverage"]
        assert found["bounded"] < 0.85 * found["windows"]
        bounds = error_bounds(slow, 3, 0.9)
        without += [float((each.error <= bounds[each.regime]).mean()) for each in fast]
        assert limits_of(slow)[2] < 1.4
    # 1000 windows, of bounds that deviate by 0.02 from one calibration to the next
    assert held / bounded == pytest.approx(0.9, abs=0.03)
    assert np.mean(without) < 0.85


def test_no_bound_is_stated_that_does_not_hold_on_faster_flights():
    rng = np.random.default_rng(12)
    flights = [flown(rng, speed, 3.0) for speed in np.repeat([0.4, 0.6, 1.0, 1.4], 4)]
    row = bound_rows(np.array([0.5]), [flights], EDGES[None], 0.9)[0]
    assert row["coverage_of_faster"] < 0.87
    assert row["another_flight"] is False


def test_no_bound_is_stated_that_no_faster_flight_could_try():
    rng = np.random.default_rng(13)
    flights = [flown(rng, 1.4) for _ in range(12)]
    row = bound_rows(np.array([0.5]), [flights], EDGES[None], 0.9)[0]
    assert row["coverage_of_faster"] is None
    assert row["another_flight"] is False
