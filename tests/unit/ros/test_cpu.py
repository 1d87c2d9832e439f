"""CPU time of processes: against what the process itself counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from quadsim.ros.runtime.cpu import CpuUse


def test_cpu_time_is_what_the_process_counts():
    use = CpuUse({"me": os.getpid()})
    begin_s, wall_s = time.process_time(), time.monotonic()
    while time.process_time() - begin_s < 0.2:
        sum(range(1000))
    share = use.shares()["me"]
    # the system counts in hundredths, at both ends
    assert share.cpu_s == pytest.approx(time.process_time() - begin_s, abs=0.025)
    assert share.cpu_cores == pytest.approx(share.cpu_s / (time.monotonic() - wall_s), rel=0.1)


def test_who_has_ended_is_not_there():
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        use = CpuUse({"child": child.pid, "me": os.getpid()})
        assert set(use.shares()) == {"child", "me"}
        child.communicate(b"\n")
        assert set(use.shares()) == {"me"}
    assert set(CpuUse({"child": child.pid}).shares()) == set()
