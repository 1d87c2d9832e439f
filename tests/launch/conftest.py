"""Launch files without the launch packages."""

from __future__ import annotations

from functools import partial

import pytest
from launch_stand_ins import load


@pytest.fixture
def launch_module(monkeypatch):
    """Loads a launch file by its name."""
    return partial(load, monkeypatch=monkeypatch)
