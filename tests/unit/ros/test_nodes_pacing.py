"""When physics may go on: hand-made sequences of times and commands."""

import numpy as np
import pytest

from quadsim.ros.runtime.latency import Latencies
from quadsim.ros.runtime.pacing import MAX_LAG_NS, Forbearance, Lockstep, WallClock

STEP = 2_000_000


def test_steps_follow_the_wall_clock_at_its_rate():
    clock = WallClock(STEP, rate=2.0)
    clock.tie(sim_ns=10 * STEP, wall_ns=1_000_000_000)
    assert clock.wall_period_s == pytest.approx(0.001)
    # 5 ms of wall time are 10 ms of simulated time: five steps
    assert clock.steps_due(10 * STEP, 1_005_000_000) == 5
    assert clock.steps_due(14 * STEP, 1_005_000_000) == 1
    assert clock.steps_due(15 * STEP, 1_005_000_000) == 0
    assert clock.wall_of(15 * STEP) == 1_005_000_000


@pytest.mark.parametrize(("jitter_ns", "steps"), [(-900_000, 1), (900_000, 1), (-1_100_000, 0)])
def test_jitter_of_half_a_step_neither_skips_nor_doubles(jitter_ns, steps):
    clock = WallClock(STEP, rate=1.0)
    clock.tie(0, 0)
    assert clock.steps_due(0, STEP + jitter_ns) == steps


def test_a_long_stall_is_not_caught_up_but_counted():
    clock = WallClock(STEP, rate=1.0)
    clock.tie(0, 0)
    assert clock.steps_due(0, MAX_LAG_NS) == MAX_LAG_NS // STEP
    assert clock.slips == 0
    late_ns = MAX_LAG_NS + 1
    assert clock.steps_due(0, late_ns) == 1
    assert (clock.slips, clock.slipped_ns) == (1, late_ns)
    assert clock.steps_due(STEP, late_ns + STEP) == 1  # in step again


def test_a_late_command_is_waited_for_and_a_silent_one_once():
    forbearance = Forbearance(vehicles=2, max_age_ns=3 * STEP, patience_ns=100)
    assert not forbearance.waits_for(50 * STEP, 0)  # nobody has spoken yet
    forbearance.add(0, 50 * STEP)
    forbearance.add(1, 51 * STEP)
    assert not forbearance.waits_for(53 * STEP, 1_000)
    assert forbearance.waits_for(54 * STEP, 2_000)
    assert forbearance.waits_for(54 * STEP, 2_099)
    assert not forbearance.waits_for(54 * STEP, 2_100)  # patience is over: it may be dead
    assert not forbearance.waits_for(54 * STEP, 9_000)
    assert forbearance.waits_for(55 * STEP, 9_000)  # the other one, anew
    assert forbearance.waits == 2
    forbearance.add(0, 55 * STEP)
    forbearance.add(1, 55 * STEP)
    assert not forbearance.waits_for(58 * STEP, 9_001)
    assert forbearance.waits_for(59 * STEP, 9_002)


def test_a_strict_clock_waits_for_nobody():
    forbearance = Forbearance(vehicles=1, max_age_ns=0, patience_ns=100)
    forbearance.add(0, STEP)
    assert not forbearance.waits_for(100 * STEP, 0)


def test_a_step_takes_the_command_of_its_delay():
    lockstep = Lockstep(vehicles=1, delay_ns=STEP)
    assert not lockstep.started
    for k in range(3):
        lockstep.add(0, k * STEP, np.array([float(k)]))
    assert lockstep.started
    for k in range(3):
        assert not lockstep.missing((k + 1) * STEP)
        (speed,) = lockstep.take(0, (k + 1) * STEP)
        assert speed == k
    assert lockstep.missing(4 * STEP) == [0]
    assert lockstep.skipped == 0


def test_a_command_that_never_came_is_replaced_and_counted():
    lockstep = Lockstep(vehicles=1, delay_ns=0)
    lockstep.add(0, 0, np.array([1.0]))
    lockstep.add(0, 2 * STEP, np.array([3.0]))
    assert lockstep.take(0, 0) == [1.0]
    assert not lockstep.missing(STEP)
    assert lockstep.take(0, STEP) is None  # the last one stays
    assert lockstep.take(0, 2 * STEP) == [3.0]
    lockstep.add(0, 3 * STEP, np.array([4.0]))
    assert lockstep.take(0, 4 * STEP) == [4.0]
    assert lockstep.skipped == 1


def test_every_vehicle_is_waited_for():
    lockstep = Lockstep(vehicles=3, delay_ns=STEP)
    lockstep.add(0, STEP, np.zeros(1))
    lockstep.add(2, STEP, np.zeros(1))
    assert not lockstep.started
    assert lockstep.missing(2 * STEP) == [1]
    lockstep.add(1, STEP, np.zeros(1))
    assert lockstep.missing(2 * STEP) == []


def test_percentiles_are_of_the_last_ones():
    latencies = Latencies(size=100)
    assert np.isnan(latencies.percentile_ms(50.0))
    for k in range(150):
        latencies.add(1.0 if k < 50 else 0.002)
    assert latencies.percentile_ms(99.0) == pytest.approx(2.0)
