"""What DDS is told of discovery, and what somebody has chosen stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quadsim.nodes.discovery import PROFILES, set_discovery


def after(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment that begins as given."""
    monkeypatch.setattr(os, "environ", dict(given))
    set_discovery()
    return dict(os.environ)


def test_nodes_are_heard_here_and_have_a_file_of_profiles(monkeypatch):
    chosen = after({}, monkeypatch)
    assert chosen["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert all(Path(chosen[name]).is_file() for name in PROFILES)


def test_what_somebody_has_chosen_stays(monkeypatch):
    given = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", PROFILES[0]: "/etc/mine.xml"}
    assert after(given, monkeypatch) == given
