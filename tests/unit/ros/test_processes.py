"""Processes of a graph: which of them let others finish."""

import math
import os

import pytest

processes = pytest.importorskip("quadsim.ros.runtime.processes", exc_type=ImportError)
graph = pytest.importorskip("quadsim.ros.graph.graph", exc_type=ImportError)


@pytest.mark.parametrize(
    ("executables", "gives_way"),
    [
        (["recorder"], True),
        (["gnss", "barometer"], True),
        (["dynamics"], False),
        (["dynamics", "imu", "gnss", "recorder"], False),  # all in one process
    ],
)
def test_only_what_is_outside_of_the_loop_of_control_gives_way(monkeypatch, executables, gives_way):
    policies = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, policy, _: policies.append(policy))
    processes.lower_priority([graph.NodeSpec(name, "/quad", {}) for name in executables])
    assert policies == ([os.SCHED_BATCH] if gives_way else [])


def test_where_it_is_forbidden_nothing_is_lost(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    processes.lower_priority([graph.NodeSpec("recorder", "/", {})])


class Leaving:
    """A process that leaves at some time of its own, or never."""

    alive, failed = True, False

    def __init__(self, label, at_s):
        self.label, self.at_s, self.sentinel = label, at_s, label
        self.did = []

    def tell_to_stop(self):
        self.did.append("told")

    def kill(self):
        self.did.append("killed")


@pytest.mark.parametrize(
    ("leaves_s", "killed"),
    [
        ((4.0, 8.0, 12.0), []),  # one after another, each within five seconds of the last
        ((4.0, 9.5, 12.0), ["b", "c"]),
        ((1.0, math.inf, 3.0), ["b"]),
    ],
)
def test_processes_have_their_time_from_the_last_that_left(monkeypatch, leaves_s, killed):
    """On a clock of its own, which goes on only while somebody waits."""
    now_s = [0.0]
    all_of_them = [Leaving(label, at_s) for label, at_s in zip("abc", leaves_s, strict=True)]
    by_sentinel = {each.sentinel: each for each in all_of_them}

    def wait(sentinels, timeout_s):
        first_s = min(by_sentinel[sentinel].at_s for sentinel in sentinels)
        now_s[0] = min(first_s, now_s[0] + timeout_s)
        return [sentinel for sentinel in sentinels if by_sentinel[sentinel].at_s <= now_s[0]]

    monkeypatch.setattr(processes, "wait", wait)
    monkeypatch.setattr(processes.time, "monotonic", lambda: now_s[0])
    assert processes.stop_all(all_of_them, within_s=5.0) == killed
    for each in all_of_them:
        assert each.did == ["told", "killed"][: 1 + (each.label in killed)]
