"""Start-up as ``quadsim bench`` measures it: whole commands, and their flight."""

import sys

import pytest
from quadsim_bench import startup

from quadsim.base.errors import QuadsimError
from quadsim.ros.runtime.domain import held
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario


def test_the_flight_takes_ten_seconds_to_its_end(tmp_path):
    log, _ = run(load_scenario(str(startup.hover_to_the_end(tmp_path))))
    assert startup.FLOWN_S - 1.0 < log.duration_s < startup.FLOWN_S
    assert log.events[-1].name == "disarmed"


def test_a_command_is_timed_as_a_shell_starts_it_and_has_to_end_well(monkeypatch):
    """The ROS wheels start Python again where this variable is not set."""
    monkeypatch.setenv("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "1")
    assert "_ROS_WHEELS_BOOTSTRAP_COMPLETE" not in startup.environment()
    assert startup.taken_s([sys.executable, "-c", "import time; time.sleep(0.05)"]) > 0.05
    with pytest.raises(QuadsimError, match="status 3: it broke"):
        startup.taken_s(
            [sys.executable, "-c", "import sys; sys.stderr.write('it broke'); sys.exit(3)"]
        )


def test_a_domain_that_somebody_holds_is_not_taken():
    first = startup.free_domain()
    with held(first):
        assert startup.free_domain() != first
