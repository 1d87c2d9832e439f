"""``quadsim replay --publish`` without a graph: its options, and a record that is not complete."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from quadsim.bag.writer import BagWriter
from quadsim.cli import replay as command
from quadsim.cli.main import main

pytest.importorskip("rclpy")

from quadsim.base.errors import FlightError
from quadsim.ros.nodes.recorder import RecorderNode
from quadsim.ros.runtime.runtime import PASSED


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
