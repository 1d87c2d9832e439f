"""How late messages come, by their stamps and the clock."""

import numpy as np
import pytest

from quadsim.ros.runtime.reset_times import LATE_MEMORY_S, Lateness


def test_the_latest_of_the_last_seconds_counts_both_ways():
    """Lags of a Gazebo at 0.3 of real time: 10 ms in the middle, 54 ms once in a hundred."""
    lateness, random = Lateness(), np.random.default_rng(4)
    lags_ns = np.where(random.uniform(size=2000) < 0.01, 54e6, 10e6).astype(int)
    for k, lag_ns in enumerate(lags_ns):
        lateness.take(2_000_000 * k, 2_000_000 * k + int(lag_ns))
        if lag_ns == 54_000_000:
            assert lateness.round_trip_s == pytest.approx(0.108)
    start_ns = 4_000_000_000
    for k in range(round(LATE_MEMORY_S * 500)):
        lateness.take(start_ns + 2_000_000 * k, start_ns + 2_000_000 * k)
    assert lateness.round_trip_s < 0.108 * 0.4


def test_a_stamp_ahead_of_a_coarse_clock_is_not_late():
    lateness = Lateness()
    for k in range(100):
        lateness.take(2_000_000 * k, 0)
    assert lateness.round_trip_s == 0.0
