"""A flight goes on from a snapshot as if nothing had been in between, to the last bit."""

import gc
import threading

import numpy as np
import psutil
import pytest

from quadsim import InputError, Simulation

#: What lasts over a moment: turbulence, a receiver that is late, samples that are lost.
EVENTFUL = {
    "environment.wind": {"turbulence": "dryden", "w20_mps": 4.0},
    "sensors.gnss.latency_s": 0.15,
    "sensors.imu.loss_probability": 0.01,
}


def digest_of(simulation):
    return simulation._loop.digest(), [str(event) for event in simulation.events]


@pytest.mark.parametrize("at_s", [1.0, 5.013, 7.5])
def test_it_goes_on_to_the_same_bits(at_s):
    simulation, straight = (Simulation("square", changes=EVENTFUL, seed=4) for _ in range(2))
    for each in (simulation, straight):
        each.step(round(at_s * 500))
    kept = simulation.snapshot()
    straight.fail_sensor("gnss", "outage", duration_s=2.0)
    straight.step(3000)
    wanted = digest_of(straight)
    for _ in range(2):  # as often as is wanted
        simulation.push([3.0, 0.0, 0.0])  # another future before
        simulation.set_gains({"position.position_gain_xy": 0.7})
        simulation.step(1700)
        simulation.restore(kept)
        simulation.fail_sensor("gnss", "outage", duration_s=2.0)
        simulation.step(3000)
        assert digest_of(simulation) == wanted
        np.testing.assert_array_equal(simulation.samples("imu"), straight.samples("imu"))


def test_it_goes_on_behind_a_reset_and_to_the_end():
    simulation = Simulation("hover", seed=2)
    whole = Simulation("hover", seed=2)
    whole.run()
    simulation.step(2000)
    kept = simulation.snapshot()
    simulation.reset(seed=9)
    simulation.step(1000)
    simulation.restore(kept)
    simulation.run()
    assert digest_of(simulation) == digest_of(whole)


def test_branches_from_one_moment_differ_by_what_is_done_in_them():
    simulation = Simulation("hover", seed=2, start={"z_m": 8.0, "estimate": "drawn"})
    simulation.step(500)
    kept = simulation.snapshot()
    ends = []
    for force in ([2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]):
        simulation.restore(kept)
        simulation.push(force, duration_s=1.0)
        ends.append(simulation.step(500).p_W[0])
    assert ends[0] > ends[1] + 0.1


class Remembers:
    """An own controller with a memory."""

    def __init__(self):
        self.calls = 0

    def update(self, now):
        self.calls += 1
        wobble = 1.0 + 0.01 * np.sin(0.01 * self.calls)
        return np.full(4, 560.0 * wobble)


def test_an_own_part_remembers_too():
    simulation = Simulation("hover", controller=Remembers(), start={"z_m": 20.0})
    simulation.step(100)
    kept = simulation.snapshot()
    first = simulation.step(300).p_W
    simulation.restore(kept)
    np.testing.assert_array_equal(simulation.step(300).p_W, first)


class CannotBeCopied(Remembers):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_what_cannot_be_restored_is_said_in_a_line():
    simulation = Simulation("hover", controller=CannotBeCopied())
    with pytest.raises(InputError, match="own part cannot be copied"):
        simulation.snapshot()
    one, other = Simulation("hover"), Simulation("hover")
    with pytest.raises(InputError, match="another simulation"):
        other.restore(one.snapshot())


def test_snapshots_and_resets_hold_no_memory():
    simulation = Simulation("hover", duration_s=5.0)
    process = psutil.Process()

    def use():
        for seed in range(15):
            simulation.reset(seed=seed)
            simulation.step(20)
            simulation.restore(simulation.snapshot())
        gc.collect()
        return process.memory_info().rss

    use()
    # a leak would add fifteen flights' records, 30 MB, each time; the process's own memory moves
    assert np.diff([use() for _ in range(4)]).min() < 4e6
