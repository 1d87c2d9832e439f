"""The arguments of the launch files, as users know them: none is lost, and none means another."""

from pathlib import Path

import pytest
from launch_stand_ins import Recorded, actions, declared, plain

from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.gazebo_graph import GazeboLaunch
from quadsim.ros.graph.graph import SimLaunch
from quadsim.ros.graph.hil_graph import HilLaunch
from quadsim.ros.graph.options import FirmwareFlight
from quadsim.ros.graph.replay_graph import ReplayLaunch
from quadsim.ros.graph.swarm_graph import FirmwareLaunch, SwarmLaunch

MEASURED = str(Path(__file__).parents[1] / "helpers" / "measured_guard.yaml")
#: Launch file: the class of its arguments.
OPTIONS = {
    "sim": SimLaunch,
    "swarm": SwarmLaunch,
    "firmware": FirmwareLaunch,
    "gazebo": GazeboLaunch,
    "hil": HilLaunch,
    "replay": ReplayLaunch,
}
#: Arguments of each, with their defaults, as documents and people's own launch files have them.
SCENARIO = {"vehicle": "", "sensors": "", "seed": ""}
BAG = {"record_profile": "all", "split_mb": "0"}
FLIGHT = {
    **SCENARIO, **BAG, "scenario": "square", "count": "1", "pacing": "realtime", "rate": "1",
    "record": "true", "split_s": "0", "compression": "none", "arm": "false", "beside": "",
    "joystick": "",
}  # fmt: skip
KNOWN = {
    "sim": {**FLIGHT, "drivers": "sim", "driver_namespace": "", "use_sim_time": ""},
    "swarm": {
        **SCENARIO, "scenario": "formation", "count": "", "rate": "1", "publish": "imu",
        "motion_rate_hz": "50", "steered": "true", "record": "false", "record_profile": "swarm",
        "arm": "false",
    },
    "firmware": {
        **SCENARIO, **BAG, "firmware": "ardupilot", "executable": "", "firmware_parameters": "",
        "port": "", "scenario": "square", "count": "", "rate": "1", "publish": "all",
        "motion_rate_hz": "50", "steered": "true", "record": "false", "arm": "false",
    },
    "gazebo": {
        **FLIGHT, "physics": "", "gazebo": "fly", "lent": "", "bridge": "", "gui": "true",
        "start": "true", "world_file": "", "fortress": "false",
    },
    "hil": {
        **BAG, "structure": "hil", "drivers": "", "driver_namespace": "/", "pose": "",
        "relay": "false", "pose_frame": "map", "world": "flat", "lidar": "virtual_lidar",
        "lidar_position": "", "lidar_rotation": "", "level": "true", "rangefinder": "",
        "guard": "default", "planner": "default", "vehicle": "", "dead_man_button": "-1",
        "others": "", "others_pose": "", "others_radius": "0.4", "others_height": "0.4",
        "rehearsal": "pillars", "seed": "1", "record": "true",
    },
    "replay": {
        "bag": "", "rate": "1", "paused": "false", "start": "0", "duration": "0",
        "topics": "", "exclude": "",
        "namespace": "/quad", "without": "", "live": "", "wait_for": "", "driver": "",
        "config": "", "scenario": "", "record": "false",
    },
}  # fmt: skip
#: Those that came later.
PARTS = {"controller", "estimator", "sensor", "planner", "wind"}
LATER = {
    "sim": {"autopilot", *PARTS},
    "swarm": {"autopilot", "split_mb", "split_s", "compression", "offer", "crazyflies", *PARTS},
    "firmware": {"autopilot", "split_s", "compression", "auto", *PARTS},
    "gazebo": {"autopilot", *PARTS},
    "hil": {
        "split_s", "compression", "firmware", "executable", "port", "firmware_parameters",
        "vehicles", "fleet", "setpoints", "lent", "depth_camera", "camera_position",
        "camera_rotation", "optical_flow", "visual_odometry",
    },
    "replay": set(),
}  # fmt: skip


def value(text: str) -> float | str:
    """A number, however it is written, or the text."""
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize("name", OPTIONS)
def test_every_argument_is_declared_with_its_default(launch_module, name):
    found = declared(launch_module(name).generate_launch_description())
    assert found == {key: text for key, (text, _) in launch_arguments(OPTIONS[name]).items()}
    assert found.keys() - KNOWN[name].keys() == LATER[name]
    assert {key: value(found[key]) for key in KNOWN[name]} == {
        key: value(text) for key, text in KNOWN[name].items()
    }


RECORDED = {"record": "somewhere"}
REAL = {"drivers": "mavros", "guard": MEASURED, **RECORDED}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sim", {}),
        ("sim", {"count": "3", **RECORDED}),
        ("swarm", {}),
        ("swarm", {"count": "7", "publish": "all", **RECORDED}),
        ("hil", {"structure": "sil"}),
        ("hil", {"structure": "basic", **RECORDED}),
        ("hil", {"structure": "hil", **REAL}),
        ("hil", {"structure": "target", **REAL}),
        ("replay", {"live": "estimator, mixer", **RECORDED}),
    ],
)
def test_its_nodes_are_those_of_the_description(launch_module, bag, name, values):
    """What a launch file declares is what its graph is described by."""
    values = KNOWN[name] | ({"bag": bag} if name == "replay" else {}) | values
    description = launch_module(name).generate_launch_description()
    nodes = actions(description, declared(description) | values)
    specs = from_texts(OPTIONS[name], values).describe()
    assert nodes
    assert [(n.kwargs["executable"], n.kwargs["namespace"], n.kwargs["name"]) for n in nodes] == [
        (spec.executable, spec.namespace, spec.name or spec.executable) for spec in specs
    ]
    for node, spec in zip(nodes, specs, strict=True):
        (parameters,) = node.kwargs["parameters"]
        assert {key: plain(each) for key, each in parameters.items()} == dict(spec.parameters)
        texts = [each.kwargs for each in parameters.values() if isinstance(each, Recorded)]
        assert texts == [{"value_type": str}] * len(texts)
        assert node.kwargs["remappings"] == list(spec.remappings)


@pytest.mark.parametrize("auto", [False, True])
def test_the_firmware_flies_its_own_mission_where_that_is_asked(auto):
    (swarm,) = FirmwareLaunch(FirmwareFlight("ardupilot", auto=auto)).describe()
    assert swarm.parameters["auto"] is auto
