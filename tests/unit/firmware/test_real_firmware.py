"""The real thing, where ``QUADSIM_ARDUPILOT`` or ``QUADSIM_BETAFLIGHT`` names its executable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quadsim.analysis.summary import summarize_all
from quadsim.firmware.fly import BOOT_S, FirmwareChoice, flown_by
from quadsim.lab.rehearsals import run_rehearsal
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all


def executable_of(name):
    """The path that the environment names, or the test is skipped."""
    path = os.environ.get(f"QUADSIM_{name.upper()}")
    if path is None or not Path(path).is_file():
        pytest.skip(f"QUADSIM_{name.upper()} names no executable")
    return path


@pytest.mark.alone
@pytest.mark.parametrize("name", ["row", "dead_end"])
def test_guard_and_planner_fly_ardupilot_among_obstacles(name):
    firmware = FirmwareChoice("ardupilot", executable_of("ardupilot"))
    for flown in run_rehearsal(name, range(1, 6), firmware=firmware):
        assert (flown.arrived, flown.collided) == (True, False), flown.reason


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
