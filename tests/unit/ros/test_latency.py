"""Times from messages to their answers."""

import numpy as np
import pytest

from quadsim.ros.runtime.latency import WAITING, Latency


def test_times_are_those_between_equal_stamps():
    rng = np.random.default_rng(3)
    times_ns = rng.integers(1_000_000, 9_000_000, 200).tolist()
    latency = Latency()
    for k, time_ns in enumerate(times_ns):
        latency.asked(k, 20_000_000 * k)
        latency.answered(k, 20_000_000 * k + time_ns)
        latency.answered(k, 20_000_000 * k + 19_000_000)  # the first counts
    values = latency.values("it", 200 * 20_000_000)
    assert values["it_ms"] == pytest.approx(np.median(times_ns) * 1e-6)
    assert values["it_max_ms"] == pytest.approx(max(times_ns) * 1e-6)
    assert values["it_99_ms"] == pytest.approx(np.percentile(times_ns, 99) * 1e-6)
    assert (values["it_count"], values["it_missed"]) == (200, 0)


def test_what_is_passed_over_is_counted_and_what_comes_before_all_answers_is_not():
    latency = Latency()
    for stamp in range(10):
        latency.asked(stamp, 0)
    latency.answered(9, 1)
    latency.answered(4, 1)  # too late: it was passed over
    for stamp in (10, 11, 12):
        latency.asked(stamp, 0)
    latency.answered(12, 1)
    latency.answered(99, 1)  # of nothing that was asked
    assert (latency.count, latency.missed) == (2, 2)


def test_nothing_is_kept_for_ever():
    latency = Latency()
    for stamp in range(WAITING + 5):
        latency.asked(stamp, 0)
    latency.answered(4, 1)
    assert latency.values("it", 1) == {"it_count": 0, "it_missed": 0}
    latency.answered(5, 1)
    assert latency.count == 1


def test_what_is_no_longer_answered_is_missed_and_forgotten_after_a_minute():
    """50 Hz; answers within 2 ms for 1 s, then none for 299 s."""
    latency = Latency()
    second_ns, period_ns = 10**9, 20_000_000
    for k in range(300 * 50):
        now_ns = second_ns + k * period_ns
        latency.asked(k, now_ns)
        if k < 50:
            latency.answered(k, now_ns + 2_000_000)
        if k == 40 * 50:
            assert latency.values("it", now_ns)["it_ms"] == pytest.approx(2.0)
    assert latency.values("it", now_ns) == {"it_count": 50, "it_missed": 299 * 50 - WAITING}
    # the last answer came 2 ms after the 49th question
    assert latency.silent_s(now_ns) == pytest.approx(299.0 - 0.002)
    assert latency.silent_s(now_ns + 2 * second_ns) == 0.0  # nobody asks


def test_what_was_never_answered_is_silent_too():
    latency = Latency()
    assert latency.silent_s(10**9) == 0.0
    for k in range(100):
        latency.asked(k, 10**9 + k * 20_000_000)
    assert latency.silent_s(10**9 + 99 * 20_000_000) == pytest.approx(0.02 * 99)
    assert latency.missed == 0
