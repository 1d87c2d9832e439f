"""The launch files under launch_ros itself, where it is installed: what they start, word for word.

Nothing is started: launch_ros writes each node's parameters into a file, as for ``ros2 launch``
(``Node._perform_substitutions``), and that file is compared with the description.
"""

import importlib.util
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("launch_ros.actions", reason="launch_ros is in no Python registry")

from launch.actions import ExecuteProcess, OpaqueFunction
from launch.substitutions import TextSubstitution

from launch import LaunchContext
from quadsim.base.options import from_texts
from quadsim.ros.graph.gazebo_graph import GazeboLaunch
from quadsim.ros.graph.graph import NodeSpec, SimLaunch
from quadsim.ros.graph.hil_graph import HilLaunch

FOLDER = Path(__file__).parents[2] / "launch"
MEASURED = str(Path(__file__).parents[1] / "helpers" / "measured_guard.yaml")
Values = dict[str, str]
GRAPHS: dict[str, Any] = {"sim": SimLaunch, "hil": HilLaunch, "gazebo": GazeboLaunch}


def started(name: str, values: Values) -> list[Any]:
    """Actions of a launch file for some of its arguments, in launch's own context."""
    spec = importlib.util.spec_from_file_location(f"{name}_launch", FOLDER / f"{name}.launch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = LaunchContext()
    context.launch_configurations.update(values)
    found = []
    for entity in module.generate_launch_description().entities:
        actions = entity.visit(context) or []
        if isinstance(entity, OpaqueFunction):
            found += actions
    for action in found:
        if not isinstance(action, ExecuteProcess) or hasattr(action, "node_package"):
            action._perform_substitutions(context)
    return found


def words(action: Any) -> Iterator[str]:
    """Words of a command; empty: is looked up when it is started."""
    for parts in action.cmd:
        known = len(parts) == 1 and isinstance(parts[0], TextSubstitution)
        yield parts[0].text if known else ""


def options(action: Any, option: str) -> list[str]:
    """What stands behind each of some options."""
    return [after for before, after in pairwise(words(action)) if before == option]


class RosLoader(yaml.SafeLoader):
    """Takes lists of launch_ros, which have a tag that rcl's own reader ignores."""


RosLoader.add_constructor("tag:yaml.org,2002:python/tuple", RosLoader.construct_sequence)


def parameters(action: Any) -> dict[str, Any]:
    """Parameters as the node reads them."""
    found: dict[str, Any] = {}
    for file in options(action, "--params-file"):
        # a SafeLoader with one more kind of list
        for content in yaml.load(Path(file).read_text(), RosLoader).values():
            found |= content["ros__parameters"]
    return found


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sim", {"scenario": "hover", "seed": "7", "count": "2"}),
        ("sim", {"scenario": "forest", "sensors": "lidar", "record": "false"}),
        ("hil", {"drivers": "mavros", "guard": MEASURED}),
        ("gazebo", {"scenario": "hover", "count": "2"}),
        ("gazebo", {"gazebo": "view", "sensors": "lidar", "lent": "lidar,camera"}),
    ],
)
def test_the_graph_under_launch_ros_is_that_of_the_description(name, values, tmp_path):
    if name == "gazebo":
        values = values | {"world_file": str(tmp_path / "world.sdf")}
    actions = started(name, values)
    nodes = [action for action in actions if hasattr(action, "node_package")]
    specs: list[NodeSpec] = from_texts(GRAPHS[name], values).describe()
    assert [(n.node_package, n.node_executable, n.node_name) for n in nodes] == [
        (spec.package, spec.executable, spec.full_name) for spec in specs
    ]
    for node, spec in zip(nodes, specs, strict=True):
        found = parameters(node)
        assert found == dict(spec.parameters)
        assert {key: type(value) for key, value in found.items()} == {
            key: type(value) for key, value in spec.parameters.items()
        }
        pairs = [f"{ours}:={theirs}" for ours, theirs in spec.remappings]
        assert [pair for pair in options(node, "-r") if pair] == pairs
        assert set(spec.arguments) <= set(words(node))
    others = [list(words(action)) for action in actions if action not in nodes]
    if name == "gazebo":
        assert others == [["gz", "sim", "-r", str(tmp_path / "world.sdf")]]
    else:
        assert not others
