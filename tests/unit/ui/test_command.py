"""``quadsim ui`` where it cannot serve: one line, and status 2."""

import importlib.util
import socket

import pytest
from click.testing import CliRunner

from quadsim.cli import main, ui


def refused(*arguments):
    """The one line that says why."""
    result = CliRunner().invoke(main.main, ["ui", "--no-browser", *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("quadsim: error: ")]
    assert len(lines) == 1
    return lines[0]


def test_a_missing_extra_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr(ui, "find_spec", lambda name: None)
    assert "pip install 'quadsim[ui]'" in refused()


def test_a_port_that_is_taken_is_named(monkeypatch):
    monkeypatch.setattr(ui, "find_spec", lambda name: object())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "--port" in refused("--port", str(taken.getsockname()[1]))


@pytest.mark.skipif(importlib.util.find_spec("nicegui") is None, reason="no extra [ui]")
def test_a_run_that_cannot_be_opened_is_named(tmp_path):
    assert "nothing.mcap" in refused("--port", "0", str(tmp_path / "nothing.mcap"))
