"""The search finds what is there, says nothing of what is not, and shrinks to what matters."""

import subprocess
import sys
from pathlib import Path

import finding_shrinking
import numpy as np
import pytest
from finding_shrinking import shrink
from flight_findings import Findings, fly, judge_estimate
from scenario_drawing import CLASSES, draw_scenario, held_wind_mps, scenario_of, vehicle_of

from quadsim.sim.log import Event, FlightLog, Track

SIGMA_M, RATE_HZ = 0.5, 100


def _log(offset_m: float, from_s: float, to_s: float, events: tuple[Event, ...] = ()) -> FlightLog:
    """Ten seconds at rest; the height of the estimate is off for a while."""
    rows = 10 * RATE_HZ
    truth, estimate = Track.empty(rows), Track.empty(rows, with_sigma=True)
    stamps = np.arange(rows) * (1_000_000_000 // RATE_HZ)
    truth.stamp_ns[:], estimate.stamp_ns[:] = stamps, stamps
    estimate.sigma[:] = SIGMA_M
    off = (stamps >= from_s * 1e9) & (stamps < to_s * 1e9)
    estimate.p_W[off, 2] = offset_m
    return FlightLog(truth=truth, estimates={"eskf": estimate}, events=list(events))


FINE = [(0, True)]


def test_an_error_of_seven_sigma_is_found_once_it_lasts_two_seconds():
    assert judge_estimate(_log(7.0 * SIGMA_M, 3.0, 5.1), FINE).keys() == {
        "wrong height",
        "material height",
    }
    assert not judge_estimate(_log(7.0 * SIGMA_M, 3.0, 4.9), FINE)
    assert not judge_estimate(_log(5.9 * SIGMA_M, 3.0, 9.0), FINE)


def test_an_error_that_the_status_tells_of_is_none():
    told = [(0, True), (4_000_000_000, False), (6_000_000_000, True)]
    assert not judge_estimate(_log(7.0 * SIGMA_M, 3.0, 7.5), told)
    assert judge_estimate(_log(7.0 * SIGMA_M, 3.0, 8.5), told)


def test_what_comes_after_a_crash_is_not_judged():
    crash = Event(4_000_000_000, 2, "crash", "the hull struck the ground")
    assert not judge_estimate(_log(7.0 * SIGMA_M, 3.0, 9.0, (crash,)), FINE)


def test_a_finding_shrinks_to_the_factors_that_it_needs(monkeypatch):
    """Of a drawn flight with two faults the temperature and a fault of the barometer are needed."""

    def needs_two(content):
        cold = "temperature_offset_K" in content.get("environment", {})
        faulty = any(fault["sensor"] == "barometer" for fault in content.get("faults", []))
        return Findings({"wrong height": ""} if cold and faulty else {})

    monkeypatch.setattr(finding_shrinking, "fly", needs_two)
    content = draw_scenario("faults", 1, 0)
    fault = {"sensor": "barometer", "fault": "frozen", "at_s": 5.0}
    content["faults"] = [{"sensor": "imu", "fault": "delay", "at_s": 3.0, "value": [0.01]}, fault]
    small = shrink(content, "wrong height")
    assert small["faults"] == [fault]
    assert small["environment"].keys() == {"temperature_offset_K"}
    assert small.keys() == {
        "vehicle", "sensors", "seed", "duration_s", "environment", "mission", "faults",
    }  # fmt: skip
    assert [next(iter(item)) for item in small["mission"]] == ["takeoff", "land"]
    assert (small["vehicle"], small["sensors"]) == ("x500", "default")


@pytest.mark.parametrize("kind", CLASSES)
def test_a_draw_is_the_same_again_and_is_read(kind):
    contents = [draw_scenario(kind, 3, number) for number in range(5)]
    assert contents == [draw_scenario(kind, 3, number) for number in range(5)]
    assert len({str(content) for content in contents}) == 5
    for content in contents:
        scenario_of(content)
        assert bool(content.get("faults") or content.get("events")) == (kind == "faults")
        assert ("believed" in content) == (kind == "small")


def test_the_wind_is_one_that_the_vehicle_holds():
    """By hand of the x500: 0.289 N s/m of rotors and body in hover, 2.0643 kg, 2 m/s^2."""
    rotors = 4 * 6.09920885e-05 * np.sqrt(2.0643 * 9.81 / 4 / 8.54858e-06)
    expected = min(2.0 * 2.0643 / (rotors + 0.15), 12.0)
    assert held_wind_mps(vehicle_of("x500")) == pytest.approx(expected, rel=0.01)


def test_the_command_flies_in_processes_of_its_own():
    folder = Path(__file__).parent
    words = [sys.executable, str(folder), "--class", "none", "--flights", "2", "--processes", "1"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[0].startswith("none: 2 flights, ")


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_few_flights_end_as_planned_or_with_a_cause(kind):
    """Rates take a thousand flights: ``python tests/search``."""
    for number in range(10):
        findings = fly(draw_scenario(kind, 7, number))
        if {"crash", "failsafe"} & findings.kinds.keys():
            assert findings.cause
        if kind == "none":
            assert "crash" not in findings.kinds
            assert not any(name.startswith("material") for name in findings.kinds)
