"""A simulation in a thread: the same flight, at the asked rate, watched and disturbed."""

import math
import time

import numpy as np
import pytest

from quadsim.api.simulation import Simulation
from quadsim.base.errors import InputError
from quadsim.ui.live_flight import LiveFlight

PATIENCE_S = 60.0


def simulation(**options):
    return Simulation("hover", seed=7, **({"duration_s": 20.0} | options))


def wait(condition, what):
    """Until a condition holds."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def digest():
    return simulation().run().summary["digest"]


def test_an_undisturbed_flight_is_that_of_the_command(digest):
    ended = []
    live = LiveFlight(simulation(), math.inf, ended.append)
    wait(lambda: live.over, "the end of the flight")
    assert not live.error
    assert ended == [live]
    assert live.flight.summary["digest"] == digest


def test_a_pause_changes_nothing_but_the_time_it_takes(digest):
    live = LiveFlight(simulation(), 20.0)
    wait(lambda: live.call(lambda flown: flown.time_s) > 2.0, "two seconds of flight")
    live.pause()
    wait(lambda: live.paused, "a pause")
    before_s = live.call(lambda flown: flown.time_s)
    time.sleep(0.2)  # what is shown is that nothing happens: there is no condition to wait for
    after_s = live.call(lambda flown: flown.time_s)
    assert after_s - before_s <= 20.0 * 0.02 + 1e-9  # the chunk that was under way
    live.rate = math.inf
    live.resume()
    wait(lambda: live.over, "the end of the flight")
    assert live.flight.summary["digest"] == digest


@pytest.mark.alone
@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_the_rate_is_kept(rate):
    live = LiveFlight(simulation(), rate)
    wait(lambda: live.call(lambda flown: flown.time_s) > 0.1, "the first steps")
    begin_s, flown_s = time.perf_counter(), live.call(lambda flown: flown.time_s)
    wait(lambda: time.perf_counter() - begin_s > 2.0, "two seconds")
    flown_s = live.call(lambda flown: flown.time_s) - flown_s
    assert flown_s / (time.perf_counter() - begin_s) == pytest.approx(rate, rel=0.1)
    assert live.real_time_factor == pytest.approx(rate, rel=0.25)
    live.end()


def test_the_end_on_demand_scores_what_was_flown():
    live = LiveFlight(simulation(), 50.0)
    wait(lambda: live.call(lambda flown: flown.time_s) > 8.0, "eight seconds of flight")
    live.end()
    assert live.over
    assert not live.paused
    flown_s = live.flight.log.duration_s
    assert 8.0 < flown_s < 20.0
    assert live.flight.summary["estimator"]["position_rmse_m"] < 0.2
    np.testing.assert_array_equal(live.log().truth.p_W, live.flight.truth.p_W)


def test_a_command_between_chunks_is_obeyed_or_refused():
    live = LiveFlight(simulation(duration_s=60.0), 20.0)
    wait(lambda: live.call(lambda flown: flown.mode) == "mission", "the mission")
    live.call(lambda flown: flown.push((2.0, 0.0, 0.0), duration_s=0.1))
    wait(lambda: any(event.name == "disturbance" for event in live.events), "the push")
    with pytest.raises(InputError, match="motor"):
        live.call(lambda flown: flown.fail_motor(7))
    live.call(lambda flown: flown.land())
    wait(lambda: live.over, "the landing")
    assert live.flight.log.duration_s < 55.0


def test_what_breaks_is_told():
    class Nobody:
        def update(self, flown):
            return [math.nan] * 4

    live = LiveFlight(simulation(controller=Nobody()), math.inf)
    wait(lambda: live.over, "the end")
    assert live.flight is None
    assert "Nobody" in live.error
