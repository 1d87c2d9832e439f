"""What turns a described graph into launch actions."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from launch_stand_ins import actions, declared, ends_all

from quadsim.base.errors import InputError
from quadsim.base.options import Option
from quadsim.ros.executables import LAUNCHER
from quadsim.ros.graph.gazebo_graph import GazeboProcess
from quadsim.ros.graph.graph import NodeSpec, SimLaunch
from quadsim.ros.graph.launching import launch_description


def test_a_node_of_another_package_is_started_from_there(launch_module):
    launch_module("sim")
    bridge = NodeSpec("parameter_bridge", "/", {"config_file": "1"}, package="ros_gz_bridge")

    @dataclass(frozen=True)
    class Options:
        a: Annotated[str, Option("first")] = "1"

        def describe(self):
            return [bridge]

        def processes(self):
            return [GazeboProcess((self.a,), {})]

    other, node = actions(launch_description(Options), {"a": "seen"})
    assert other.kwargs["cmd"] == ["seen"]
    assert (node.kwargs["package"], node.kwargs["name"]) == ("ros_gz_bridge", "parameter_bridge")


@pytest.mark.parametrize("name", ["hil", "sim", "swarm", "gazebo", "firmware"])
def test_a_refusal_and_the_end_of_the_world_end_the_launch(
    launch_module, monkeypatch, tmp_path, name
):
    monkeypatch.setenv("ROS_DOMAIN_ID", "78")
    description = launch_module(name).generate_launch_description()
    values = declared(description) | {"structure": "sil"}
    (tmp_path / "gz").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if name == "firmware":
        values["executable"] = str(tmp_path / "firmware")
        Path(values["executable"]).touch(mode=0o700)
    ours = [one for one in actions(description, values) if one.kwargs.get("package") == "quadsim"]
    assert ours
    for one in ours:
        assert ends_all(one, 2)
        assert ends_all(one, 0) == (one.kwargs["executable"] in ("dynamics", "swarm"))
        assert one.kwargs["additional_env"] == {LAUNCHER: str(os.getpid())}


def test_missing_launch_packages_are_one_line(monkeypatch):
    for name in ("launch", "launch_ros"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match="need the ROS packages launch and launch_ros"):
        launch_description(SimLaunch)


HOLDER = """
import os
import subprocess
import sys
from quadsim.ros.runtime.domain import hold_for_good
hold_for_good(int(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_launch_on_a_domain_is_refused(launch_module, monkeypatch, tmp_path):
    """The first one is another process, of the same user; it ends, and the domain is free."""
    monkeypatch.setenv("ROS_DOMAIN_ID", "77")
    description = launch_module("hil").generate_launch_description()
    values = declared(description) | {"structure": "sil"}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, "77"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as first:  # fmt: skip
        assert first.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="DDS domain 77 is in use by another graph") as caught:
            actions(description, values)
        assert str(first.pid) in str(caught.value)
        assert "(ROS_DOMAIN_ID)" in str(caught.value)
        first.stdin.close()
        first.wait(30.0)
    assert actions(description, values)
    assert actions(description, values)  # one process may launch several graphs
