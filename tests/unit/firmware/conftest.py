"""Stand-ins for firmware as executables, and the loops that they fly."""

import fcntl
import json
import shlex
import sys
from pathlib import Path

import pytest

from quadsim.firmware.fly import Flown, make_firmware
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import Swarm

HELPERS = Path(__file__).parents[2] / "helpers"


@pytest.fixture
def stand_in(tmp_path):
    """Make the executable of a stand-in: its name, and what it does wrong."""

    def make(name: str, **faults: object) -> Path:
        words = [sys.executable, str(HELPERS / f"{name}_stand_in.py")]
        given = f" --faults {shlex.quote(json.dumps(faults))}" if faults else ""
        path = tmp_path / f"{name}.sh"
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"{given}\n')
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def fly():
    """Fly a scenario by a firmware: its loop's log, the loops and the firmware."""
    flown = []

    def run(name, executable, scenario="hover", rate=1.0, port="", auto=False, **keys):
        loaded = load_scenario(scenario, keys.pop("changes", None), **keys)
        made = Flown(lambda: make_firmware(name, executable, None, port, rate, auto))
        flown.append(made)
        swarm = Swarm(loaded, make=made, log_hz=loaded.imu.rate_hz, keep_samples=True)
        return swarm.fly(), swarm.loops, made.firmware

    yield run
    for made in flown:
        made.close()


@pytest.fixture(autouse=True)
def _one_at_a_time(tmp_path_factory):
    """Firmware has fixed ports: one test flies, others wait."""
    with (tmp_path_factory.getbasetemp().parent / "firmware.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
