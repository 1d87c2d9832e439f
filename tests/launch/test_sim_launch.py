"""sim.launch.py against stand-ins of the launch packages, which the wheels lack."""

import pytest
from launch_stand_ins import Recorded, actions, plain

from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.graph import GraphOptions, SimLaunch, describe
from quadsim.sim.scenario import load_scenario

DEFAULTS = {name: default for name, (default, _) in launch_arguments(SimLaunch).items()}


def describe_launch(texts):
    return from_texts(SimLaunch, texts).describe()


@pytest.fixture
def launch_file(launch_module):
    return launch_module("sim")


@pytest.mark.parametrize("count", ["1", "3"])
def test_its_nodes_are_those_of_the_description(launch_file, count):
    values = DEFAULTS | {"scenario": "hover", "count": count, "record": "somewhere"}
    nodes = actions(launch_file.generate_launch_description(), values)
    options = GraphOptions(count=int(count), bag="somewhere")
    specs = describe(load_scenario("hover"), options)
    assert [(n.kwargs["executable"], n.kwargs["namespace"], n.kwargs["name"]) for n in nodes] == [
        (s.executable, s.namespace, s.executable) for s in specs
    ]
    for node, spec in zip(nodes, specs, strict=True):
        (parameters,) = node.kwargs["parameters"]
        assert {k: plain(v) for k, v in parameters.items()} == dict(spec.parameters)
    texts = [
        p for n in nodes for p in n.kwargs["parameters"][0].values() if isinstance(p, Recorded)
    ]
    assert all(text.kwargs == {"value_type": str} for text in texts)


def test_arguments_reach_the_nodes():
    specs = describe_launch(
        DEFAULTS
        | {
            "sensors": "fcnd", "vehicle": "fcnd", "seed": "7", "pacing": "lockstep", "rate": "0",
            "arm": "true", "use_sim_time": "false", "record": "false",
        }
    )  # fmt: skip
    by_name = {spec.executable: spec.parameters for spec in specs}
    assert "recorder" not in by_name
    assert "rangefinder" not in by_name  # the FCND suite has none
    assert by_name["dynamics"]["vehicle"] == "fcnd"
    assert by_name["dynamics"]["mass_kg"] == 0.5
    assert (by_name["dynamics"]["pacing"], by_name["dynamics"]["rate"]) == ("lockstep", 0.0)
    assert by_name["imu"]["seed"] == 7
    assert by_name["autopilot"]["auto_start"] is True
    assert by_name["mixer"]["use_sim_time"] is False


def test_a_driver_of_ones_own_takes_the_place_of_a_node():
    every = [spec.executable for spec in describe_launch(DEFAULTS)]
    left = [spec.executable for spec in describe_launch(DEFAULTS | {"drivers": "sim:-gnss-imu"})]
    assert left == [name for name in every if name not in ("gnss", "imu")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", "two"),
        ("arm", "yes"),
        ("pacing", "fast"),
        ("seed", "x"),
        ("scenario", "nowhere"),
        ("drivers", "gps"),
    ],
)
def test_a_wrong_argument_is_named(name, value):
    with pytest.raises(InputError, match=value):
        describe_launch(DEFAULTS | {name: value})
