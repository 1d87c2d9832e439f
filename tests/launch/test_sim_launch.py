"""sim.launch.py against stand-ins of the launch packages, which the wheels lack."""

import pytest

from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.graph import SimLaunch

DEFAULTS = {name: default for name, (default, _) in launch_arguments(SimLaunch).items()}


def describe_launch(texts):
    return from_texts(SimLaunch, texts).describe()


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
