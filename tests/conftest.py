"""Set-up of every test: the same examples each time, and a ROS graph of this run's own."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Tests of the graph start real nodes. What else runs on this machine must not hear them.
os.environ.setdefault("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

# Of a job in the background of a shell Ctrl-C is ignored, also by what it starts; not here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every random test has a seed; the first example of a kernel compiles it, which has no deadline.
settings.register_profile(
    "quadsim",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("quadsim")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden``: the figures of tests/golden become what they are now."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/expected")


@pytest.fixture
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether expected figures are to be rewritten."""
    return bool(pytestconfig.getoption("--update-golden"))
