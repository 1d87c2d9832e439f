"""``quadsim replay --publish`` without a graph: its options, and a record that is not complete."""

import json
import math
import os
import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from quadsim.bag.writer import BagWriter
from quadsim.cli import replay as command
from quadsim.cli.main import main

pytest.importorskip("rclpy")

from quadsim.base.errors import FlightError
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.nodes.recorder import RecorderNode
from quadsim.ros.runtime import processes
from quadsim.ros.runtime.runtime import FAILED, PASSED


def run(*arguments):
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


@pytest.fixture
def bag(tmp_path):
    path = tmp_path / "bag"
    with BagWriter(path) as writer:
        writer.add(
            "/chatter", "std_msgs/msg/String", None, 1, b"\x00\x01\x00\x00\x01\x00\x00\x00\x00"
        )
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "2"], "--rate: only with --publish"),
        (["--duration", "1"], "--duration: only with --publish"),
        (["--wait-for", "/a"], "--wait-for: only with --publish"),
        (["--publish", "--rate", "-1"], "-1.0 is not in the range"),
        (["--publish", "--config", "a", "--config", "b"], "plays one bag, with one --config"),
        (["--publish", "more"], "plays one bag, with one --config"),
        (["--publish", "--without", "estimater"], "without 'estimater'; nodes: "),
        (["--publish", "--live", "imu"], "live 'imu'; nodes that can run live: estimator"),
        (["--publish", "--live", "estimator"], "no vehicle /quad for live nodes"),
        (["--publish", "--record", "{bag}"], "exists already; name a new folder with --record"),
        (["--publish", "--domain", "233"], "233"),
    ],
)
def test_bad_input_is_one_line(bag, tmp_path, arguments, words):
    result = run(bag, *(text.format(bag=bag) for text in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["bag"]


def test_options_reach_the_player(bag, monkeypatch):
    """Names with commas and in several options are one list."""
    seen = []

    def play(bag, specs, domain):
        seen.append(specs[0].parameters)
        return PASSED, {}

    monkeypatch.setattr(command, "_play", play)
    options = ("--rate", "0", "--start", "1.5", "--exclude", "/chatter,/chatter")
    assert run(bag, "--publish", *options, "--exclude", "/c*").exit_code == 0
    (parameters,) = seen
    assert parameters["rate"] == 0.0
    assert parameters["start_s"] == 1.5
    assert parameters["exclude"] == ["/chatter", "/chatter", "/c*"]


# ---- a disk that is full -----------------------------------------------------------------------


def test_a_recorder_whose_disk_was_full_says_so_in_its_status(monkeypatch):
    monkeypatch.setattr("rclpy.node.Node.destroy_node", lambda _: None)
    node = RecorderNode.__new__(RecorderNode)
    node._heard = []
    node._bag = SimpleNamespace(close=lambda: None, path="bag", stopped="")
    node._simulated = False
    node._time_ns = node._flushed_ns = 0
    node._held = ExitStack()
    node.when_destroyed(node._end)
    node.destroy_node()
    node._bag.stopped = "No space left on device; recording has stopped"
    node.when_destroyed(node._end)
    with pytest.raises(FlightError, match="bag: No space left on device"):
        node.destroy_node()


class Process:
    """A process that ends when it is told to, with a status."""

    status = 0

    def __init__(self, label, specs, domain):
        self.label, self.specs = label, specs
        self.sentinel, self._other = os.pipe()

    @property
    def failed(self):
        return self.status > 0

    def cause(self):
        return f"ended with status {self.status}"

    def close(self):
        os.close(self.sentinel)
        os.close(self._other)


@pytest.mark.parametrize("status", [0, 1])
def test_a_record_that_is_not_complete_fails_the_replay(bag, tmp_path, monkeypatch, status):
    monkeypatch.setattr(Process, "status", status)
    monkeypatch.setattr(processes, "GraphProcess", Process)
    monkeypatch.setattr(processes, "stop_all", lambda _: [])
    with processes.child_nodes([NodeSpec("recorder", "/", {})], 0, threading.Event()) as failures:
        assert not failures
    assert len(failures) == status

    late = SimpleNamespace(percentile_ms=lambda _: math.nan)
    player = SimpleNamespace(
        finished=True, pace=SimpleNamespace(lateness=late, rate=1.0), played_s=1.0, wall_s=1.0,
        outputs=SimpleNamespace(counts={}, skipped={}),
    )  # fmt: skip

    @contextmanager
    def around(*_):
        yield failures

    monkeypatch.setattr(processes, "child_nodes", around)
    monkeypatch.setattr(processes, "maker", lambda _: lambda **_: player)
    monkeypatch.setattr(processes, "prepare", lambda: None)
    monkeypatch.setattr("quadsim.ros.graph.replay_graph._recorder", lambda *_: [])
    monkeypatch.setattr(
        "quadsim.ros.runtime.runtime.run", lambda makers, **_: makers[0](None) and PASSED
    )
    result = run(bag, "--publish", "--record", tmp_path / "new", "--domain", "99", "--json")
    assert result.exit_code == (FAILED if status else PASSED), result.stderr
    summary = json.loads(result.stdout)
    assert summary["passed"] is not bool(status)
    words = "node recorder ended with status 1: the bag is not complete"
    assert summary["errors"] == ([words] if status else [])
    assert (words in result.stderr) is bool(status)
