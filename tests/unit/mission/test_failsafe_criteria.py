"""Criteria on events, figures of a landing, and commands of a scenario."""

import math

import numpy as np
import pytest
from obedient import PARAMS, Flight

from quadsim.analysis.criteria import judge_signal
from quadsim.analysis.summary import landing, summarize
from quadsim.base.errors import InputError
from quadsim.mission.items import Takeoff
from quadsim.mission.script import Script, commands_from
from quadsim.sim import disk_arrays as kept
from quadsim.sim.criterion import EventCriterion, SignalCriterion
from quadsim.sim.log import Event, FlightLog, Track

START_NS = 3_000_000_000


def log_of(height_m, seconds=10.0, sink=None, tilt_rad=0.0, east_mps=0.0):
    """A flight of 100 Hz whose height is a function of time."""
    t = np.arange(0.0, seconds, 0.01)
    truth = Track.empty(len(t))
    truth.stamp_ns[:] = START_NS + np.round(t * 1e9).astype(np.int64)
    truth.p_W[:, 2] = [height_m(s) for s in t]
    truth.v_W[:-1, 2] = np.diff(truth.p_W[:, 2]) / 0.01
    moving = np.abs(truth.v_W[:, 2]) > 1e-9
    truth.v_W[moving, 0] = east_mps
    truth.p_W[:, 0] = np.cumsum(truth.v_W[:, 0]) * 0.01
    truth.q_WB[:, 0], truth.q_WB[:, 1] = math.cos(tilt_rad / 2), math.sin(tilt_rad / 2)
    return FlightLog(truth=truth)


@pytest.mark.parametrize("block_rows", [kept.BLOCK_ROWS, 64])  # the flight in one block, in 16
def test_figures_of_a_landing(monkeypatch, block_rows):
    """Up to 2 m, down at 0.8 m/s from second 5 on, drifting east at 0.3 m/s, on a slope."""
    monkeypatch.setattr(kept, "BLOCK_ROWS", block_rows)
    log = log_of(lambda s: min(s, 2.0, max(2.0 - 0.8 * (s - 5.0), 0.0)), 10.0, None, 0.1, 0.3)
    figures = landing(log)
    assert figures["speed_mps"] == pytest.approx(0.8)
    assert figures["slide_mps"] == pytest.approx(0.3)
    assert figures["tilt_rad"] == pytest.approx(0.1)
    assert figures["away_m"] == pytest.approx(0.3 * (2.0 + 2.5), abs=0.01)


def test_only_the_last_bit_of_the_descent_counts():
    log = log_of(lambda s: max(5.0 - 3.0 * s, 0.5 - 0.1 * (s - 1.5), 0.0) if s > 0 else 0.0, 9.0)
    assert landing(log)["speed_mps"] == pytest.approx(0.1)


@pytest.mark.parametrize("height", [lambda s: 0.0, lambda s: s])
def test_who_never_flew_or_still_flies_has_not_landed(height):
    assert landing(log_of(height)) is None


def test_true_signals_of_a_landing():
    log = log_of(lambda s: min(s, 2.0), tilt_rad=0.2)
    assert judge_signal(SignalCriterion("tilt_rad", limit=1.0), [log]).value == pytest.approx(0.2)
    assert judge_signal(SignalCriterion("height_m", limit=3.0), [log]).value == pytest.approx(2.0)
    assert judge_signal(SignalCriterion("sink_mps", limit=3.0), [log]).value == 0.0
    away = log_of(lambda s: min(s, 2.0), east_mps=0.5)
    assert judge_signal(SignalCriterion("away_m", limit=3.0), [away]).value == pytest.approx(
        1.0, abs=0.01
    )


def eventful(*events):
    log = log_of(lambda s: 0.0)
    log.events += [
        Event(START_NS + round(s * 1e9), level, name, words) for s, level, name, words in events
    ]
    return log


LOST = (4.0, 2, "failsafe_landing", "no fix of the position for 10 s")


def test_an_event_that_is_asked_for_is_no_error():
    wanted = EventCriterion("failsafe_landing", "no fix")
    summary = summarize(eventful(LOST), [wanted])
    assert summary["passed"]
    assert summary["errors"] == []
    [item] = summary["criteria"]
    assert (item["name"], item["value"]) == ("event failsafe_landing: no fix", pytest.approx(4.0))


@pytest.mark.parametrize(
    "wanted",
    [
        EventCriterion("hold"),
        EventCriterion("failsafe_landing", "motor"),
        EventCriterion("failsafe_landing", from_s=5.0),
        EventCriterion("failsafe_landing", to_s=3.0),
    ],
)
def test_an_event_that_does_not_come_as_asked_fails_and_the_other_is_an_error(wanted):
    summary = summarize(eventful(LOST), [wanted])
    assert not summary["passed"]
    assert summary["errors"] == [LOST[3]]
    assert summary["criteria"][0]["value"] is None


def test_one_error_beside_the_one_that_is_asked_for_fails():
    crash = (5.0, 2, "crash", "a rotor touched the ground")
    assert not summarize(eventful(LOST, crash), [EventCriterion("failsafe_landing")])["passed"]


# ---- commands of a scenario ----------------------------------------------------------------------


def flown(content, seconds=20.0):
    flight = Flight(PARAMS, (Takeoff(height_m=2.0),))
    script = Script(commands_from(content, "file"))
    for _ in range(round(seconds * 50)):
        script.give(flight.manager, flight.stamp_ns)
        flight.tick()
    return flight


def test_a_scenarios_commands_are_given_in_their_time():
    flight = flown(
        [
            {"at_s": 6.0, "until_s": 8.0, "velocity_W_mps": [1.0, 0.0, 0.0]},
            {"at_s": 9.0, "position_W_m": [1.0, 2.0, 2.0], "yaw_deg": 90.0},
            {"at_s": 14.0, "request": "land"},
        ]
    )
    came = {name: stamp_ns * 1e-9 for stamp_ns, _, name, _ in flight.events}
    assert came["velocity"] == pytest.approx(6.0, abs=0.03)
    assert came["guided"] == pytest.approx(9.0, abs=0.03)
    assert came["landing"] == pytest.approx(14.0, abs=0.03)
    np.testing.assert_allclose(flight.p, (1.0, 2.0, 0.0), atol=1e-6)
    assert flight.manager.state == "disarmed"


def test_commands_that_are_not_numbers_are_counted_and_told_once():
    flight = flown(
        [
            {"at_s": 6.0, "until_s": 8.0, "velocity_W_mps": [1.0, 0.0, 0.0]},
            {"at_s": 6.5, "until_s": 7.0, "velocity_W_mps": [1.0, 0.0, 0.0], "broken": True},
        ],
        seconds=9.0,
    )
    assert flight.manager.commands_refused == pytest.approx(6, abs=1)
    [(level, words)] = set(flight.named("command refused"))
    assert level == 1
    assert "not finite" in words
    assert flight.named("velocity")  # and the whole ones were flown
    assert 1.0 < flight.p[0] < 3.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "commands: expected a list"),
        ([{"at_s": 1.0}], r"commands\[0\]: expected one of the keys"),
        ([{"at_s": 1.0, "request": "dance"}], r"commands\[0\]: request: 'dance' is not known"),
        ([3], r"commands\[0\]: expected one of"),
    ],
)
def test_commands_that_cannot_be_are_refused_in_one_line(content, words):
    with pytest.raises(InputError, match=words) as caught:
        commands_from(content, "file")
    assert "\n" not in str(caught.value)
