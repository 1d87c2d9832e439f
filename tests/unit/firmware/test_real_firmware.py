"""The real thing, where ``QUADSIM_ARDUPILOT`` or ``QUADSIM_BETAFLIGHT`` names its executable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quadsim.analysis.summary import summarize_all
from quadsim.firmware.fly import BOOT_S, flown_by
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all


@pytest.mark.alone
@pytest.mark.parametrize(("name", "rate"), [("ardupilot", 1.0), ("betaflight", 0.8)])
def test_x500_flies_the_square_within_its_criteria(name, rate):
    executable = os.environ.get(f"QUADSIM_{name.upper()}")
    if executable is None or not Path(executable).is_file():
        pytest.skip(f"QUADSIM_{name.upper()} names no executable")
    scenario = load_scenario("square", duration_s=60.0 + BOOT_S[name])
    flown = flown_by(name, scenario, executable, rate=rate)
    try:
        logs, _ = run_all(scenario, None, flown, scenario.imu.rate_hz, keep_samples=True)
    finally:
        flown.close()
    summary = summarize_all({"quad": logs[0]}, scenario.criteria)
    assert summary["passed"], summary["criteria"]
    assert logs[0].events[-1].message == "motors stopped"
