"""Two IMUs, receivers or range finders: which one fails is named, and nothing steps."""

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
from quadsim.sensors import topics_of
from quadsim.sensors.devices import load_suite
from quadsim.sensors.faults import FaultParams
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario

AT_S = 8.0
#: Of each kind that an IMU has.
IMU = {
    "stuck": {"fault": "stuck"},
    "frozen": {"fault": "frozen", "channel": "gyro"},
    "noisier": {"fault": "noisier", "value": (20.0,)},
    "gyro bias": {"fault": "bias", "channel": "gyro", "value": (0.1, 0.0, 0.0)},
    "accel bias": {"fault": "bias", "channel": "accel", "value": (0.0, 0.0, -2.0)},
    "dropout": {"fault": "dropout"},
    "half dropped": {"fault": "dropout", "value": (0.5,)},
    "delay": {"fault": "delay", "value": (0.1,)},
}
#: And that a receiver, and that a range finder has, where it matters in half a second.
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
IMUS, RECEIVERS = "two_imus", "two_receivers"


def flown(sensors: str, until_s: float, faults=None) -> RecordedLoop:
    """A flight in wind with two of some sensors up to a time; some fail."""
    scenario = load_scenario("hover", sensors=sensors, changes={"environment.wind_W_mps.0": 3.0})
    acting = {
        device: (FaultParams(**{"at_s": AT_S, **fault}),)
        for device, fault in (faults or {}).items()
    }
    return fly(replace(scenario, faults=acting), until_s)


def fly(scenario, until_s: float) -> RecordedLoop:
    loop = RecordedLoop(scenario, "quad")
    loop.fly(ends=lambda loop: loop.stamp_ns >= until_s * 1e9)
    return loop


def told(loop) -> list[tuple[float, str, str]]:
    """When what was left out, or taken back."""
    return [
        (event.stamp_ns * 1e-9, event.name, event.message)
        for event in loop.events
        if event.name in (LEFT_OUT, TAKEN_BACK)
    ]


def in_flight(loop, from_s: float = 6.0) -> np.ndarray:
    rows = loop.all_rows()
    return rows[rows["stamp_ns"] > from_s * 1e9]


def off_in_deviations(loop, from_s: float = 6.0) -> np.ndarray:
    """Errors of the position over the deviation that the filter states."""
    rows = in_flight(loop, from_s)
    return (rows["estimate"]["p_W"] - rows["p_W"]) / np.sqrt(rows["estimate"]["p_variance"])


def assert_named_without_a_step(loop, device: str) -> None:
    """At once, and no other; a fault that is fused moves the estimate by more in a row."""
    found = told(loop)
    assert found
    assert all(words.startswith(f"{device}: ") for _, _, words in found)
    # a delay takes away what would have come in the next 0.5 s, and is a silence of 0.25 s first
    assert AT_S < found[0][0] < AT_S + 0.5
    estimate = in_flight(loop)["estimate"]["p_W"]
    assert np.linalg.norm(np.diff(estimate, axis=0), axis=1).max() < 0.05


@pytest.mark.parametrize("device", ["imu", "imu_1"])
@pytest.mark.parametrize("name", IMU)
def test_an_imu_that_fails_is_named_in_half_a_second_and_nothing_steps(name, device):
    loop = flown(IMUS, AT_S + 1.5, {device: IMU[name]})
    assert_named_without_a_step(loop, device)
    assert loop.state["line"]["vote"]["used"][0] == (device == "imu")
    rows = in_flight(loop)
    error = np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1)
    assert error.max() < 0.1  # RTK states 14 mm and 10 mm of the walls of its noise, 5 sigma
    last = rows[-1]
    sigma = np.sqrt(last["estimate"]["v_variance"])
    assert (np.abs(last["estimate"]["v_W"] - last["v_W"]) < 5.0 * sigma).all()


@pytest.mark.parametrize(("kind", "name", "k"), FAULTS)
def test_another_that_fails_is_named_in_half_a_second_and_nothing_steps(kind, name, k):
    device = (kind, f"{kind}_1")[k]
    loop = flown(RECEIVERS, AT_S + 1.5, {device: (GNSS if kind == "gnss" else RANGE)[name]})
    assert_named_without_a_step(loop, device)
    pair = loop.state["line"]["pairs"][0, int(kind != "gnss")]
    assert pair["used"] == 1 - k or k == 1
    # of two million normal numbers one is beyond five
    assert np.abs(off_in_deviations(loop)).max() < 5.0


def test_one_that_is_well_again_is_taken_back_and_can_take_over():
    """The first is stuck for a second; then the second fails, and the first is flown on."""
    faults = {
        "imu": {"fault": "stuck", "duration_s": 1.0},
        "imu_1": {"fault": "dropout", "at_s": AT_S + 3.6},
    }
    loop = flown(IMUS, AT_S + 4.0, faults)
    assert [(name, words.split(":")[0]) for _, name, words in told(loop)] == [
        (LEFT_OUT, "imu"), (TAKEN_BACK, "imu"), (LEFT_OUT, "imu_1"),
    ]  # fmt: skip
    assert AT_S + 3.0 < told(loop)[1][0] < AT_S + 3.6
    assert loop.state["line"]["vote"]["used"][0] == 0


@pytest.mark.parametrize(
    ("sensors", "second"), [(IMUS, {"imu_1"}), (RECEIVERS, {"gnss_1", "rangefinder_1"})]
)
def test_two_that_are_well_fly_as_one_does(sensors, second):
    """Without a fault the filter takes the first alone, and the flight has the bits of that."""
    two = flown(sensors, 7.0)
    alone = {kind: params for kind, params in two.scenario.sensors.items() if kind not in second}
    one = fly(replace(two.scenario, sensors=alone), 7.0)
    assert len(one.scenario.sensors) == len(two.scenario.sensors) - len(second)
    assert not told(two)
    assert two.digest() == one.digest()
    if sensors == IMUS:
        vote = two.state["line"]["vote"][0]
        first, second = (two.samples(name)["f_S"][3000:3490] for name in ("imu", "imu_1"))
        biases = first - second[:, [1, 0, 2]] * (-1.0, 1.0, 1.0)  # turned by 90 deg
        np.testing.assert_allclose(vote["difference"][:3], biases.mean(axis=0), atol=0.03)


@pytest.mark.parametrize(
    ("sensors", "faults", "said", "unused"),
    [
        (
            IMUS,
            {"imu": IMU["gyro bias"]},
            [("eskf: imu left out at 8.", "gyroscope x off by 0.1 rad/s")],
            ("imu_1/data_raw not used", 1),
        ),
        (
            RECEIVERS,
            {"gnss": GNSS["bias"], "rangefinder": RANGE["bias"]},
            [("eskf: gnss left out at ", ""), ("eskf: rangefinder left out at ", "")],
            ("not used: --set second.", 2),
        ),
    ],
)
def test_a_replay_of_the_bag_leaves_out_the_same(tmp_path, sensors, faults, said, unused):
    loop = flown(sensors, AT_S + 1.0, faults)
    with BagWriter(tmp_path / "bag", run_facts(loop.scenario)) as writer:
        write_flight(writer, [loop], Recording("sensors"))
    found = replay(tmp_path / "bag", Settings(as_flown=True))
    notes = [note for note in found.log.notes if "left out" in note]
    for note, (begin, within) in zip(notes, said, strict=True):
        assert note.startswith(begin)
        assert within in note
    then, now = loop.all_rows()[-1]["estimate"], found.log.estimates["eskf"]
    np.testing.assert_allclose(now.p_W[-1], then["p_W"], atol=1e-3)
    unaware = replay(tmp_path / "bag", Settings())
    assert sum(unused[0] in note for note in unaware.log.notes) == unused[1]


def test_a_common_fault_of_imus_is_named_where_two_sources_contradict():
    vote = flown(IMUS, 1.5).state["line"]["vote"][0]
    assert common_fault(vote, ["gnss_position", "gnss_velocity"]) == ""
    assert "contradict gnss, pressure" in common_fault(vote, ["gnss_velocity", "pressure"])


def test_a_common_fault_is_named_as_one_and_one_that_is_well_is_taken_back():
    """Both receivers jump alike; later one of them loses its fix for a second."""
    jump = {"fault": "bias", "channel": "position", "value": (3.0, 0.0, 0.0), "duration_s": 1.5}
    loop = flown(RECEIVERS, AT_S + 1.5, {"gnss": jump, "gnss_1": jump})
    (_, name, words) = told(loop)[0]
    assert name == LEFT_OUT
    assert words.startswith("both of gnss: agree, and contradict the rest")
    loop = flown(RECEIVERS, AT_S + 3.5, {"gnss": {"fault": "outage", "duration_s": 1.0}})
    assert [(name, words.split(":")[0]) for _, name, words in told(loop)] == [
        (LEFT_OUT, "gnss"), (TAKEN_BACK, "gnss"),
    ]  # fmt: skip


def test_a_slow_drift_is_doubted_and_the_deviation_holds_it():
    """Which of two drifts slowly nothing tells: the filter follows the one that it fuses."""
    drift = {"fault": "spoofing", "value": (0.05, 0.0, 0.0)}
    loop = flown(RECEIVERS, AT_S + 6.0, {"gnss": drift})
    words = [words for _, _, words in told(loop)]
    assert "gnss and gnss_1: the two disagree, not told yet which is wrong" in words
    assert not any(each.startswith("gnss_1: ") for each in words)
    assert np.abs(off_in_deviations(loop, AT_S + 4.0)[:, 0]).max() < 4.0


def test_each_has_topics_and_frames_of_its_own():
    assert [(topic.name, topic.frame) for topic in topics_of("gnss_1")] == [
        ("gps_1/fix", "gps_1_link"), ("gps_1/vel", "map"),
    ]  # fmt: skip
    (topic,) = topics_of("rangefinder_1")
    assert (topic.name, topic.frame) == ("range_1/down", "range_1_link")


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
