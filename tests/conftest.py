"""Set-up of every test: the same examples each time, and a ROS graph of this run's own."""

import os
import signal
from collections.abc import Iterator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings
from time_limits import WATCH

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch a test."""
    marker, option = item.get_closest_marker("timeout"), item.config.getoption("timeout")
    limit_s = float(marker.args[0] if marker else option or item.config.getini("timeout"))
    if option != 0.0 and not item.config.getoption("usepdb"):  # who looks into a test takes time
        WATCH.start(limit_s, item.config.stash[fault_handler_stderr_fd_key])
    try:
        return (yield)
    finally:
        WATCH.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden``: the figures of tests/golden become what they are now."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/expected")


@pytest.fixture
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether expected figures are to be rewritten."""
    return bool(pytestconfig.getoption("--update-golden"))
