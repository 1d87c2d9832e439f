"""Two GNSS receivers, two range finders: which one fails is named, and nothing steps."""

from dataclasses import replace

import numpy as np
import pytest

from quadsim.analysis.replay import Settings, replay
from quadsim.bag.flight import write_flight
from quadsim.bag.origin import run_facts
from quadsim.bag.profiles import Recording
from quadsim.bag.writer import BagWriter
from quadsim.estimation.voting_words import LEFT_OUT, TAKEN_BACK
from quadsim.sensors import topics_of
from quadsim.sensors.faults import FaultParams
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario

AT_S = 8.0
#: Of each kind that a receiver, and that a range finder has, where it matters in half a second.
GNSS = {
    "stuck": {"fault": "stuck"},
    "frozen": {"fault": "frozen"},
    "noisier": {"fault": "noisier", "value": (10.0,)},
    "bias": {"fault": "bias", "channel": "position", "value": (0.3, 0.0, 0.0)},
    "velocity bias": {"fault": "bias", "channel": "velocity", "value": (0.0, 1.0, 0.0)},
    "dropout": {"fault": "dropout"},
    "delay": {"fault": "delay", "value": (0.6,)},
    "outage": {"fault": "outage"},
    "spoofing": {"fault": "spoofing", "value": (1.0, 0.0, 0.0)},
}
RANGE = {
    "stuck": {"fault": "stuck"},
    "noisier": {"fault": "noisier", "value": (50.0,)},
    "bias": {"fault": "bias", "value": (0.5,)},
    "dropout": {"fault": "dropout"},
    "delay": {"fault": "delay", "value": (0.6,)},
}
#: Those that a short run takes; the others are thorough.
QUICK = ("bias", "outage", "stuck")
FAULTS = [
    pytest.param(kind, name, k, marks=() if name in QUICK and k == 0 else pytest.mark.thorough)
    for kind, faults in (("gnss", GNSS), ("rangefinder", RANGE))
    for name in faults
    for k in range(2)
]


def flown(until_s: float, faults=None, seed: int = 1, sensors: str = "two_receivers"):
    """A flight in wind with two receivers and two range finders up to a time; some fail."""
    scenario = load_scenario(
        "hover", sensors=sensors, changes={"environment.wind_W_mps.0": 3.0}, seed=seed
    )
    acting = {
        device: (FaultParams(**{"at_s": AT_S, **fault}),)
        for device, fault in (faults or {}).items()
    }
    loop = RecordedLoop(replace(scenario, faults=acting), "quad")
    loop.fly(ends=lambda loop: loop.stamp_ns >= until_s * 1e9)
    return loop


def told(loop) -> list[tuple[float, str, str]]:
    """When what was left out, or taken back."""
    return [
        (event.stamp_ns * 1e-9, event.name, event.message)
        for event in loop.events
        if event.name in (LEFT_OUT, TAKEN_BACK)
    ]


def off_in_deviations(loop, from_s: float = 6.0) -> np.ndarray:
    """Errors of the position over the deviation that the filter states."""
    rows = loop.all_rows()
    rows = rows[rows["stamp_ns"] > from_s * 1e9]
    return (rows["estimate"]["p_W"] - rows["p_W"]) / np.sqrt(rows["estimate"]["p_variance"])


@pytest.mark.parametrize(("kind", "name", "k"), FAULTS)
def test_the_one_that_fails_is_named_in_half_a_second_and_nothing_steps(kind, name, k):
    device = (kind, f"{kind}_1")[k]
    loop = flown(AT_S + 1.5, {device: (GNSS if kind == "gnss" else RANGE)[name]})
    found = told(loop)
    assert found
    assert all(words.startswith(f"{device}: ") for _, _, words in found)
    # a delay takes away what would have come in the next 0.5 s, and is a silence of 0.25 s first
    assert AT_S < found[0][0] < AT_S + 0.5
    pair = loop.state["line"]["pairs"][0, int(kind != "gnss")]
    assert pair["used"] == 1 - k or k == 1
    # of two million normal numbers one is beyond five
    assert np.abs(off_in_deviations(loop)).max() < 5.0
    rows = loop.all_rows()
    estimate = rows["estimate"]["p_W"][rows["stamp_ns"] > 6_000_000_000]
    # it hovers: between two rows it moves by some mm, and a fault that is fused by its 0.3 m
    assert np.linalg.norm(np.diff(estimate, axis=0), axis=1).max() < 0.05


def test_two_that_are_well_fly_as_one_does():
    """Without a fault the first ones alone are fused, and the flight has the bits of that."""
    two = flown(7.0)
    second = ("gnss_1", "rangefinder_1")
    alone = {kind: params for kind, params in two.scenario.sensors.items() if kind not in second}
    one = RecordedLoop(replace(two.scenario, sensors=alone), "quad")
    one.fly(ends=lambda loop: loop.stamp_ns >= 7_000_000_000)
    assert not told(two)
    assert two.digest() == one.digest()


def test_a_common_fault_is_named_as_one_and_one_that_is_well_is_taken_back():
    """Both receivers jump alike; later one of them loses its fix for a second."""
    jump = {"fault": "bias", "channel": "position", "value": (3.0, 0.0, 0.0), "duration_s": 1.5}
    loop = flown(AT_S + 1.5, {"gnss": jump, "gnss_1": jump})
    (_, name, words) = told(loop)[0]
    assert name == LEFT_OUT
    assert words.startswith("both of gnss: agree, and contradict the rest")
    loop = flown(AT_S + 3.5, {"gnss": {"fault": "outage", "duration_s": 1.0}})
    assert [(name, words.split(":")[0]) for _, name, words in told(loop)] == [
        (LEFT_OUT, "gnss"), (TAKEN_BACK, "gnss"),
    ]  # fmt: skip


def test_a_slow_drift_is_doubted_and_the_deviation_holds_it():
    """Which of two drifts slowly nothing tells: the filter follows the one that it fuses."""
    loop = flown(AT_S + 6.0, {"gnss": {"fault": "spoofing", "value": (0.05, 0.0, 0.0)}})
    words = [words for _, _, words in told(loop)]
    assert "gnss and gnss_1: the two disagree, not told yet which is wrong" in words
    assert not any(each.startswith("gnss_1: ") for each in words)
    assert np.abs(off_in_deviations(loop, AT_S + 4.0)[:, 0]).max() < 4.0


def test_a_replay_of_the_bag_leaves_out_the_same(tmp_path):
    loop = flown(AT_S + 1.0, {"gnss": GNSS["bias"], "rangefinder": RANGE["bias"]})
    with BagWriter(tmp_path / "bag", run_facts(loop.scenario)) as writer:
        write_flight(writer, [loop], Recording("sensors"))
    found = replay(tmp_path / "bag", Settings(as_flown=True))
    notes = [note for note in found.log.notes if "left out" in note]
    assert [note.split(" at ")[0] for note in notes] == [
        "eskf: gnss left out", "eskf: rangefinder left out",
    ]  # fmt: skip
    then, now = loop.all_rows()[-1]["estimate"], found.log.estimates["eskf"]
    np.testing.assert_allclose(now.p_W[-1], then["p_W"], atol=1e-3)
    unaware = replay(tmp_path / "bag", Settings())
    assert sum("not used: --set second." in note for note in unaware.log.notes) == 2


def test_each_has_topics_and_frames_of_its_own():
    assert [(topic.name, topic.frame) for topic in topics_of("gnss_1")] == [
        ("gps_1/fix", "gps_1_link"), ("gps_1/vel", "map"),
    ]  # fmt: skip
    (topic,) = topics_of("rangefinder_1")
    assert (topic.name, topic.frame) == ("range_1/down", "range_1_link")
