"""CPU time of processes: against what the process itself counts."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadsim.ros.graph.supervisor import CpuUse, queued_s


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


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not say")
def test_two_on_one_processor_wait_for_it_half_of_the_time():
    """While both want it, what one did not use it has waited for."""
    code = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "print(flush=True)\nwhile True: pass"
    children = [
        subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        use = CpuUse({"child": children[0].pid})
        before_s, begin_s = queued_s(children[0].pid), time.monotonic()
        time.sleep(0.5)
        waited_s, wall_s = queued_s(children[0].pid) - before_s, time.monotonic() - begin_s
        used_s = use.shares()["child"].cpu_s
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert waited_s > 0.3 * wall_s
    assert waited_s + used_s == pytest.approx(wall_s, abs=0.1)
    assert queued_s(children[0].pid) == 0.0  # gone
