"""What turns a described graph into launch actions."""

from __future__ import annotations

import sys

import pytest
from launch_stand_ins import Recorded, actions

from quadsim.errors import InputError
from quadsim.nodes.graph import NodeSpec
from quadsim.nodes.launching import launch_description


def test_a_node_of_another_package_is_started_from_there(launch_module):
    launch_module("sim")
    bridge = NodeSpec("parameter_bridge", "/", {"config_file": "1"}, package="ros_gz_bridge")
    description = launch_description(
        {"a": ("1", "first")}, lambda values: [bridge], also=lambda values: [Recorded(values["a"])]
    )
    other, node = actions(description, {"a": "seen"})
    assert other.args == ("seen",)
    assert (node.kwargs["package"], node.kwargs["name"]) == ("ros_gz_bridge", "parameter_bridge")


def test_missing_launch_packages_are_one_line(monkeypatch):
    for name in ("launch", "launch_ros"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match="need the ROS packages launch and launch_ros"):
        launch_description({}, lambda values: [])
