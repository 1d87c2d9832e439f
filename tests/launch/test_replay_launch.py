"""replay.launch.py against stand-ins of the launch packages, which the wheels lack."""

import pytest
from launch_stand_ins import actions, ends_all

from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.replay_graph import ReplayLaunch

DEFAULTS = {name: default for name, (default, _) in launch_arguments(ReplayLaunch).items()}


def describe_replay_launch(texts):
    return from_texts(ReplayLaunch, texts).describe()


def test_the_end_of_the_bag_is_the_end_of_all(launch_module, bag):
    values = DEFAULTS | {"bag": bag, "live": "estimator, mixer", "record": "somewhere"}
    nodes = actions(launch_module("replay").generate_launch_description(), values)
    names = [(n.kwargs["namespace"], n.kwargs["executable"], ends_all(n, 0)) for n in nodes]
    assert names == [
        ("/", "player", True), ("/quad", "estimator", False), ("/quad", "mixer", False),
        ("/", "recorder", False),
    ]  # fmt: skip


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
