"""Two IMUs: which one fails is left out and named, the other is flown on, and nothing steps."""

from dataclasses import replace

import numpy as np
import pytest

from quadsim.analysis.replay import Settings, replay
from quadsim.bag.flight import write_flight
from quadsim.bag.origin import run_facts
from quadsim.bag.profiles import Recording
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.estimation.voting_words import LEFT_OUT, TAKEN_BACK, common_fault
from quadsim.sensors.devices import load_suite
from quadsim.sensors.faults import FaultParams
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario

AT_S = 8.0
#: Of each kind that an IMU has.
FAULTS = {
    "stuck": {"fault": "stuck"},
    "frozen": {"fault": "frozen", "channel": "gyro"},
    "noisier": {"fault": "noisier", "value": (20.0,)},
    "gyro bias": {"fault": "bias", "channel": "gyro", "value": (0.1, 0.0, 0.0)},
    "accel bias": {"fault": "bias", "channel": "accel", "value": (0.0, 0.0, -2.0)},
    "dropout": {"fault": "dropout"},
    "half dropped": {"fault": "dropout", "value": (0.5,)},
    "delay": {"fault": "delay", "value": (0.1,)},
}


def flown(until_s: float, device: str = "", changes=None, seed: int = 1, **fault) -> RecordedLoop:
    """A flight with two IMUs in wind up to a time, in which one fails."""
    changes = {"environment.wind_W_mps.0": 3.0, **(changes or {})}
    scenario = load_scenario("hover", sensors="two_imus", changes=changes, seed=seed)
    if fault:
        scenario = replace(scenario, faults={device: (FaultParams(at_s=AT_S, **fault),)})
    loop = RecordedLoop(scenario, "quad")
    loop.fly(ends=lambda loop: loop.stamp_ns >= until_s * 1e9)
    return loop


def left_out(loop: RecordedLoop) -> list[tuple[float, str]]:
    """When and why something was left out."""
    return [(event.stamp_ns * 1e-9, event.message) for event in loop.events
            if event.name == LEFT_OUT]  # fmt: skip


@pytest.mark.parametrize("device", ["imu", "imu_1"])
@pytest.mark.parametrize("name", FAULTS)
def test_the_one_that_fails_is_named_in_half_a_second_and_nothing_steps(name, device):
    loop = flown(AT_S + 1.5, device, **FAULTS[name])
    found = left_out(loop)
    when_s = found[0][0]
    assert all(words.startswith(f"{device}: ") for _, words in found)
    assert AT_S < when_s < AT_S + 0.5
    assert loop.state["line"]["vote"]["used"][0] == (device == "imu")
    rows = loop.all_rows()
    rows = rows[rows["stamp_ns"] > 6_000_000_000]
    estimate, true = rows["estimate"], rows
    error = np.linalg.norm(estimate["p_W"] - true["p_W"], axis=1)
    assert error.max() < 0.1  # RTK states 14 mm and 10 mm of the walls of its noise, 5 sigma
    steps = np.linalg.norm(np.diff(estimate["p_W"], axis=0), axis=1)
    assert steps.max() < 0.05
    sigma = np.sqrt(estimate["v_variance"][-1])
    assert (np.abs(estimate["v_W"][-1] - true["v_W"][-1]) < 5.0 * sigma).all()


def test_one_that_is_well_again_is_taken_back_and_can_take_over():
    """The first is stuck for a second; then the second fails, and the first is flown on."""
    scenario = load_scenario("hover", sensors="two_imus")
    faults = {
        "imu": (FaultParams("stuck", AT_S, 1.0),),
        "imu_1": (FaultParams("dropout", AT_S + 3.6),),
    }
    loop = RecordedLoop(replace(scenario, faults=faults), "quad")
    loop.fly(ends=lambda loop: loop.stamp_ns >= (AT_S + 4.0) * 1e9)
    told = [
        (e.name, e.message.split(":")[0]) for e in loop.events if e.name in (LEFT_OUT, TAKEN_BACK)
    ]
    assert told == [(LEFT_OUT, "imu"), (TAKEN_BACK, "imu"), (LEFT_OUT, "imu_1")]
    back_s = next(e.stamp_ns for e in loop.events if e.name == TAKEN_BACK) * 1e-9
    assert AT_S + 3.0 < back_s < AT_S + 3.6
    assert loop.state["line"]["vote"]["used"][0] == 0


def test_two_that_are_well_fly_as_one_does():
    """Without a fault the filter takes the first alone, and the flight has the bits of that."""
    two = flown(7.0)
    scenario = two.scenario
    alone = {kind: params for kind, params in scenario.sensors.items() if kind != "imu_1"}
    one = RecordedLoop(replace(scenario, sensors=alone), "quad")
    one.fly(ends=lambda loop: loop.stamp_ns >= 7_000_000_000)
    assert not left_out(two)
    assert two.digest() == one.digest()
    vote = two.state["line"]["vote"][0]
    first, second = (two.samples(name)["f_S"][3000:3490] for name in ("imu", "imu_1"))
    biases = first - second[:, [1, 0, 2]] * (-1.0, 1.0, 1.0)  # turned by 90 deg
    np.testing.assert_allclose(vote["difference"][:3], biases.mean(axis=0), atol=0.03)


def test_a_replay_of_the_bag_leaves_out_the_same(tmp_path):
    loop = flown(AT_S + 1.0, "imu", **FAULTS["gyro bias"])
    with BagWriter(tmp_path / "bag", run_facts(loop.scenario)) as writer:
        write_flight(writer, [loop], Recording("sensors"))
    found = replay(tmp_path / "bag", Settings(as_flown=True))
    (note,) = [note for note in found.log.notes if "left out" in note]
    assert note.startswith("eskf: imu left out at 8.")
    assert "gyroscope x off by 0.1 rad/s" in note
    then, now = loop.all_rows()[-1]["estimate"], found.log.estimates["eskf"]
    np.testing.assert_allclose(now.p_W[-1], then["p_W"], atol=1e-3)
    unaware = replay(tmp_path / "bag", Settings())
    assert any("imu_1/data_raw not used" in note for note in unaware.log.notes)


def test_a_common_fault_is_named_where_two_sources_contradict():
    vote = flown(1.5).state["line"]["vote"][0]
    assert common_fault(vote, ["gnss_position", "gnss_velocity"]) == ""
    assert "contradict gnss, pressure" in common_fault(vote, ["gnss_velocity", "pressure"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("imu: [adis16448, bmi088, bmi270]\n", "imu: 3 in a list; allowed: one or two"),
        (
            "imu: adis16448\nbarometer: [bmp390, bmp390]\n",
            "barometer: a list; two may be of imu, gnss, rangefinder alone",
        ),
        ("imu: [adis16448, bmi088]\nimu_1: bmi088\n", "imu_1: the second of the list imu is it"),
        ("imu_1: adis16448\n", "'imu' is missing"),
        ("imu: [adis16448, {device: bmi088, rate: 1.0}]\n", "imu_1: unknown key 'rate'"),
    ],
)
def test_a_suite_that_makes_no_sense_is_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        load_suite(str(path))
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_a_fault_of_a_second_one_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("faults: [{sensor: imu_1, fault: stuck}]\n")
    with pytest.raises(InputError, match="sensor: 'imu_1'; this vehicle has: imu, gnss"):
        load_scenario(str(path))
