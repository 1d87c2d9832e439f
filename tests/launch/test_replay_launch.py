"""replay.launch.py against stand-ins of the launch packages, which the wheels lack."""

import pytest
from launch_stand_ins import actions, ends_all, plain

from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.replay_graph import ReplayLaunch

DEFAULTS = {name: default for name, (default, _) in launch_arguments(ReplayLaunch).items()}


def describe_replay_launch(texts):
    return from_texts(ReplayLaunch, texts).describe()


@pytest.fixture
def bag(tmp_path):
    """A bag that says where it comes from; what its messages hold is not looked at."""
    custom = {"scenario": "hover", "seed": "7", "magnetic_field_W_T": "0.0 2e-5 -4e-5"}
    with BagWriter(tmp_path / "bag", custom) as writer:
        writer.add("/quad/imu/data_raw", "sensor_msgs/msg/Imu", None, 10**9, bytes(400))
    return str(tmp_path / "bag")


def test_its_nodes_are_those_of_the_description(launch_module, bag):
    values = DEFAULTS | {"bag": bag, "live": "estimator, mixer", "record": "somewhere"}
    nodes = actions(launch_module("replay").generate_launch_description(), values)
    specs = describe_replay_launch(values)
    names = [(n.kwargs["namespace"], n.kwargs["executable"]) for n in nodes]
    assert names == [
        ("/", "player"), ("/quad", "estimator"), ("/quad", "mixer"), ("/", "recorder"),
    ]  # fmt: skip
    for node, spec in zip(nodes, specs, strict=True):
        (parameters,) = node.kwargs["parameters"]
        assert {k: plain(v) for k, v in parameters.items()} == dict(spec.parameters)
    # the end of the bag is the end of all
    assert [ends_all(n, 0) for n in nodes] == [True, False, False, False]


def test_arguments_reach_the_nodes(bag):
    values = DEFAULTS | {
        "bag": bag, "rate": "0", "start": "1.5", "duration": "3", "topics": "/quad/*, /datum",
        "exclude": "/clock", "live": "estimator", "without": "autopilot",
        "config": "fcnd", "paused": "true",
    }  # fmt: skip
    player, estimator = describe_replay_launch(values)
    expected = {
        "bag": bag, "rate": 0.0, "start_s": 1.5, "duration_s": 3.0, "paused": True,
        "topics": ["/quad/*", "/datum"], "exclude": ["/clock"],
        "without": ["autopilot", "estimator"], "wait_for": ["/quad/estimator"], "reliable": True,
    }  # fmt: skip
    assert expected.items() <= dict(player.parameters).items()
    assert (estimator.namespace, estimator.parameters["config"]) == ("/quad", "fcnd")
    assert estimator.parameters["magnetic_field_W_T"] == [0.0, 2e-5, -4e-5]
    assert estimator.parameters["use_sim_time"] is True


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bag": ""}, "bag: must be given"),
        ({"rate": "fast"}, "'fast' is not a number"),
        ({"live": "imu"}, "live 'imu'"),
        ({"without": "gps"}, "without 'gps'"),
        ({"live": "estimator", "namespace": "/quad9"}, "no vehicle /quad9"),
    ],
)
def test_a_wrong_argument_is_named(bag, values, words):
    with pytest.raises(InputError, match=words):
        describe_replay_launch(DEFAULTS | {"bag": bag} | values)
