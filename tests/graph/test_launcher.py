"""Nodes end with whoever launched them, and without a word when told so while they import."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from quadsim.ros.executables import LAUNCHER

#: Starts nodes as a launch file does, says who they are, and stays.
LAUNCH = f"""
import os, subprocess, sys
os.environ["{LAUNCHER}"] = str(os.getpid())
for node in sys.argv[1:]:
    started = subprocess.Popen([sys.executable, "-m", "quadsim.ros", node], start_new_session=True)
    print(started.pid, flush=True)
sys.stdin.read()
"""
NODES = ("dynamics", "imu", "estimator")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("up", [False, True], ids=["while they import", "while they run"])
def test_nodes_end_with_their_launcher(bench, domain, number, up):
    environment = os.environ | {"ROS_DOMAIN_ID": str(domain)}
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *NODES], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=environment,
    ) as launcher:  # fmt: skip
        ends = [os.pidfd_open(int(launcher.stdout.readline())) for _ in NODES]
        try:
            if up:
                names = [f"/{node}" for node in NODES]
                bench.until(lambda: all(name in bench.reports for name in names))
            launcher.send_signal(number)
            launcher.wait(10.0)
            deadline = time.monotonic() + 20.0
            for end in ends:
                assert select.select([end], [], [], max(0.0, deadline - time.monotonic()))[0]
        finally:
            for end in ends:
                if not select.select([end], [], [], 0.0)[0]:
                    signal.pidfd_send_signal(end, signal.SIGKILL)
                os.close(end)


@pytest.mark.parametrize("after_s", [0.15, 0.6])
def test_ctrl_c_during_imports_prints_no_traceback(domain, after_s):
    environment = os.environ | {"ROS_DOMAIN_ID": str(domain)}
    with subprocess.Popen(
        [sys.executable, "-m", "quadsim.ros", "estimator"], stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True,
    ) as node:  # fmt: skip
        time.sleep(after_s)
        node.send_signal(signal.SIGINT)
        said = node.communicate(timeout=30.0)[1]
    assert "Traceback" not in said
    assert said.count("\n") <= 2
