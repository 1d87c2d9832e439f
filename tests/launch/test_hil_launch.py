"""hil.launch.py against stand-ins of the launch packages, which the wheels lack."""

from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from launch_stand_ins import actions, plain

from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.hil_graph import HilLaunch

MEASURED = str(Path(__file__).parents[1] / "helpers" / "measured_guard.yaml")
DEFAULTS = {name: default for name, (default, _) in launch_arguments(HilLaunch).items()}


@pytest.mark.parametrize("structure", ["sil", "hil", "target", "basic"])
def test_its_nodes_are_those_of_the_description(launch_module, structure):
    drivers = "mavros" if structure in ("hil", "target") else ""
    values = DEFAULTS | {"structure": structure, "drivers": drivers, "record": "somewhere"}
    values["guard"] = MEASURED
    nodes = actions(launch_module("hil").generate_launch_description(), values)
    specs = from_texts(HilLaunch, values).describe()
    assert [(n.kwargs["executable"], n.kwargs["namespace"]) for n in nodes] == [
        (s.executable, s.namespace) for s in specs
    ]
    for node, spec in zip(nodes, specs, strict=True):
        (parameters,) = node.kwargs["parameters"]
        assert {k: plain(v) for k, v in parameters.items()} == dict(spec.parameters)
        assert node.kwargs["remappings"] == list(spec.remappings)
