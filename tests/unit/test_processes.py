"""Processes of a graph: which of them let others finish."""

from __future__ import annotations

import os

import pytest

processes = pytest.importorskip("quadsim.nodes.processes", exc_type=ImportError)
graph = pytest.importorskip("quadsim.nodes.graph", exc_type=ImportError)


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
    processes.give_way([graph.NodeSpec(name, "/quad", {}) for name in executables])
    assert policies == ([os.SCHED_BATCH] if gives_way else [])


def test_where_it_is_forbidden_nothing_is_lost(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    processes.give_way([graph.NodeSpec("recorder", "/", {})])
