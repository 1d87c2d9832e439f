"""Launch files without the launch packages."""

import tempfile
from functools import partial

import pytest
from launch_stand_ins import load

from quadsim.bag.writer import BagWriter
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


@pytest.fixture
def bag(tmp_path):
    """A bag that says where it comes from; what its messages hold is not looked at."""
    custom = {"scenario": "hover", "seed": "7", "magnetic_field_W_T": "0.0 2e-5 -4e-5"}
    with BagWriter(tmp_path / "bag", custom) as writer:
        writer.add("/quad/imu/data_raw", "sensor_msgs/msg/Imu", None, 10**9, bytes(400))
    return str(tmp_path / "bag")
