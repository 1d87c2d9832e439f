"""Launch files without the launch packages."""

import tempfile
from functools import partial

import pytest
from launch_stand_ins import load

from quadsim.ros.runtime import domain


@pytest.fixture(autouse=True)
def _own_locks(monkeypatch, tmp_path):
    """Launching holds the domain until the process ends, which tests of other processes mind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(domain, "_for_good", {})


@pytest.fixture
def launch_module(monkeypatch):
    """Loads a launch file by its name."""
    return partial(load, monkeypatch=monkeypatch)
