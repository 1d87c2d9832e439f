"""swarm.launch.py against stand-ins of the launch packages, which the wheels lack."""

import pytest

from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.graph import GraphOptions, describe
from quadsim.ros.graph.swarm_graph import SwarmLaunch, describe_swarm, flies_as_swarm
from quadsim.sim.scenario import load_scenario

DEFAULTS = {name: default for name, (default, _) in launch_arguments(SwarmLaunch).items()}


def test_arguments_reach_the_nodes():
    values = DEFAULTS | {"count": "7", "record": "somewhere", "publish": "all"}
    swarm, recorder = (spec.parameters for spec in from_texts(SwarmLaunch, values).describe())
    assert (swarm["count"], swarm["publish"], swarm["auto_start"]) == (7, "all", False)
    assert "vehicles: 7" in swarm["overrides"]
    assert (recorder["record_profile"], recorder["nodes"]) == ("swarm", "recorder swarm")


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", "two"), ("publish", "much"), ("arm", "yes"), ("rate", "x"), ("count", "0")],
)
def test_a_wrong_argument_is_named(name, value):
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        from_texts(SwarmLaunch, DEFAULTS | {name: value})


def test_many_fly_as_a_swarm_and_few_with_nodes_of_their_own():
    square, formation = load_scenario("square"), load_scenario("formation")
    assert not flies_as_swarm(square, 4, None)
    assert flies_as_swarm(square, 5, None)
    assert flies_as_swarm(formation, 2, None)
    assert not flies_as_swarm(formation, 1, None)
    assert flies_as_swarm(square, 1, True)
    assert not flies_as_swarm(square, 50, False)


def test_what_a_swarm_cannot_do_is_refused():
    for options in (GraphOptions(drivers="mavros"), GraphOptions(joystick="xbox")):
        with pytest.raises(InputError, match=r"not with a swarm.*--no-swarm"):
            describe_swarm(load_scenario("square"), options)
    with pytest.raises(InputError, match=r"crossing.yaml: 2 vehicles .* flown by the node swarm"):
        describe(load_scenario("crossing"), GraphOptions(count=2))


def test_each_with_nodes_of_its_own_flies_the_mission_where_it_stands():
    specs = describe(load_scenario("square"), GraphOptions(count=2))
    offsets = [s.parameters["mission_offset_W_m"] for s in specs if s.executable == "autopilot"]
    assert offsets == [[0.0, 0.0, 0.0], [0.0, -5.0, 0.0]]
