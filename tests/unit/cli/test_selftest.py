"""The self test tries what it says, and says what does not work."""

from pathlib import Path

import pytest

from quadsim.cli import selftest


def test_the_core_flies_here_as_everywhere(tmp_path):
    assert "as on every machine" in selftest.fly_without_ros(tmp_path)
    assert "position within 0.0" in selftest.replay_a_bag(tmp_path)


def test_what_fails_is_said_and_the_rest_is_tried(monkeypatch, tmp_path):
    tried = []

    def fails(folder: Path) -> str:
        return selftest.quadsim("sim", "--scenario", "nowhere")["digest"]

    monkeypatch.setattr(selftest, "TRIALS", {"one": fails, "two": lambda folder: tried or "fine"})
    found = selftest.run_trials()
    assert not found["passed"]
    assert [trial["works"] for trial in found["trials"]] == [False, True]
    assert "nowhere" in found["trials"][0]["said"]


def test_a_machine_without_ros(monkeypatch, tmp_path):
    monkeypatch.setattr(selftest.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(selftest.TrialError, match=r"quadsim\[ros\]"):
        selftest.fly_as_a_graph(tmp_path)
