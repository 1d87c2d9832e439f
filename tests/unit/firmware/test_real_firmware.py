"""The real thing, where ``QUADSIM_ARDUPILOT`` or ``QUADSIM_BETAFLIGHT`` names its executable."""

import os
from pathlib import Path

import numpy as np
import pytest

from quadsim.analysis.summary import summarize_all
from quadsim.firmware.fly import BOOT_S, FirmwareChoice, flown_by
from quadsim.lab.rehearsals import run_rehearsal
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import Swarm, run_all


def executable_of(name):
    """The path that the environment names, or the test is skipped."""
    path = os.environ.get(f"QUADSIM_{name.upper()}")
    if path is None or not Path(path).is_file():
        pytest.skip(f"QUADSIM_{name.upper()} names no executable")
    return path


def flown_ardupilot(scenario, auto=False, **keys):
    """The loop of a scenario that ArduPilot has flown."""
    loaded = load_scenario(scenario, **keys)
    flown = flown_by("ardupilot", loaded, executable_of("ardupilot"), auto=auto)
    try:
        swarm = Swarm(loaded, make=flown, log_hz=loaded.imu.rate_hz)
        swarm.fly()
    finally:
        flown.close()
    return swarm.loops[0]


@pytest.mark.alone
@pytest.mark.parametrize("name", ["row", "dead_end"])
def test_guard_and_planner_fly_ardupilot_among_obstacles(name):
    firmware = FirmwareChoice("ardupilot", executable_of("ardupilot"))
    for flown in run_rehearsal(name, range(1, 6), firmware=firmware):
        assert (flown.arrived, flown.collided) == (True, False), flown.reason


@pytest.mark.alone
def test_ardupilot_flies_the_same_flight_to_the_last_bit():
    digests = {flown_ardupilot("hover", duration_s=75.0).digest() for _ in range(3)}
    assert len(digests) == 1


@pytest.mark.alone
def test_ardupilot_flies_a_square_on_flow_alone():
    """No receiver; the heading is its compass's. Within 1 % of 16 m and 0.5 m of each corner."""
    loaded = load_scenario("square", {"sensors": "indoor_flow"}, duration_s=120.0)
    flown = flown_by("ardupilot", loaded, executable_of("ardupilot"))
    try:
        swarm = Swarm(loaded, make=flown, log_hz=loaded.imu.rate_hz)
        log, loop = swarm.fly()[0], swarm.loops[0]
    finally:
        flown.close()
    assert loop.events[-1].message == "motors stopped"
    assert not loop.crashed
    for corner in ((4, 0), (4, 4), (0, 4), (0, 0)):
        assert np.linalg.norm(log.truth.p_W[:, :2] - corner, axis=1).min() < 0.66


@pytest.mark.alone
def test_ardupilot_flies_an_uploaded_mission():
    loop = flown_ardupilot("square", auto=True, duration_s=105.0)
    assert loop.events[-1].message == "motors stopped"
    assert "Mission: 19 Land" in [event.message for event in loop.events]


#: What befalls a hover, and what ArduPilot's documentation says of it; docs/firmware.md.
FAILURES = {
    "faults: [{sensor: gnss, fault: outage, at_s: 57.0}]": (
        "EKF Failsafe: changed to LAND Mode", "Disarming motors",
    ),
    "events: [{kind: motor, at_s: 57.0, index: 1, effectiveness: 0.6}]": (
        "Potential Thrust Loss (2)",
    ),
}  # fmt: skip


@pytest.mark.alone
@pytest.mark.parametrize(("failure", "words"), FAILURES.items())
def test_ardupilot_does_in_a_failure_what_its_documentation_says(failure, words, tmp_path):
    path = tmp_path / "failure.yaml"
    path.write_text(
        "vehicle: x500\nsensors: default\nduration_s: 100.0\nmission: [{takeoff: {height_m: 4.0}},"
        f" {{hover: {{duration_s: 30.0}}}}, {{land: {{}}}}]\n{failure}\n"
    )
    said = [e.message for e in flown_ardupilot(str(path)).events if e.name == "ardupilot"]
    assert set(words) <= set(said)


@pytest.mark.alone
@pytest.mark.parametrize(("name", "rate"), [("ardupilot", 1.0), ("betaflight", 0.8)])
def test_x500_flies_the_square_within_its_criteria(name, rate):
    executable = executable_of(name)
    scenario = load_scenario("square", duration_s=60.0 + BOOT_S[name])
    flown = flown_by(name, scenario, executable, rate=rate)
    try:
        logs, _ = run_all(scenario, None, flown, scenario.imu.rate_hz, keep_samples=True)
    finally:
        flown.close()
    summary = summarize_all({"quad": logs[0]}, scenario.criteria)
    assert summary["passed"], summary["criteria"]
    assert logs[0].events[-1].message == "motors stopped"
