"""gazebo.launch.py against stand-ins of the launch packages, and against what Gazebo is given."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from defusedxml.ElementTree import fromstring, parse
from launch_stand_ins import actions, declared, plain

from quadsim.base.errors import InputError
from quadsim.base.files import share_dir
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.gazebo_graph import GazeboLaunch
from quadsim.ros.graph.gazebo_graph import describe_gazebo as describe_options
from quadsim.ros.graph.graph import SimLaunch
from quadsim.ros.runtime.topics import VEHICLE_TOPICS, full_name
from quadsim.sim.scenario import load_scenario
from quadsim.world.environment import EnvironmentParams
from quadsim.world.sdf.world_file import load_world

ARGUMENTS = launch_arguments(GazeboLaunch)
DEFAULTS = {name: default for name, (default, _) in ARGUMENTS.items()}
VIEW = {"gazebo": "view", "sensors": "lidar", "lent": "lidar,camera"}


@pytest.fixture(autouse=True)
def programs(monkeypatch, tmp_path_factory):
    """Gazebo's programs are on the path; the folder that has them."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("gz", "ign"):
        (folder / name).touch(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def describe_gazebo(texts):
    return describe_options(from_texts(GazeboLaunch, texts))


def bridged(name: str) -> list[dict[str, str]]:
    return yaml.safe_load((share_dir() / f"config/bridge/{name}.yaml").read_text())


def by_executable(values: dict[str, str]) -> dict[str, dict]:
    graph = describe_gazebo(DEFAULTS | {"scenario": "hover"} | values)
    return {spec.executable: dict(spec.parameters) for spec in graph.nodes}


def test_every_argument_is_declared_and_shared_ones_mean_the_same(launch_module):
    found = declared(launch_module("gazebo").generate_launch_description())
    assert found == DEFAULTS
    of_sim = launch_arguments(SimLaunch)
    shared = found.keys() & of_sim.keys()
    assert {"scenario", "vehicle", "sensors", "seed", "count", "record", "arm"} <= shared
    assert all(ARGUMENTS[name] == of_sim[name] for name in shared)


@pytest.mark.parametrize("values", [{}, VIEW, {"count": "2"}])
def test_its_actions_are_those_of_the_description(launch_module, tmp_path, values):
    world = tmp_path / "world.sdf"
    values = DEFAULTS | {"scenario": "hover", "world_file": str(world), "gui": "false"} | values
    gazebo, *nodes = actions(launch_module("gazebo").generate_launch_description(), values)
    graph = describe_gazebo(values)
    assert gazebo.kwargs["cmd"] == ["gz", "sim", "-r", "-s", "--headless-rendering", str(world)]
    models = gazebo.kwargs["additional_env"]["GZ_SIM_RESOURCE_PATH"].split(":")[0]
    assert (Path(models) / "x500" / "model.sdf").is_file()
    assert world.read_text() == graph.world
    for node, spec in zip(nodes, graph.nodes, strict=True):
        assert (node.kwargs["package"], node.kwargs["executable"], node.kwargs["namespace"]) == (
            spec.package, spec.executable, spec.namespace,
        )  # fmt: skip
        assert node.kwargs.get("arguments", []) == list(spec.arguments)
        (parameters,) = node.kwargs["parameters"]
        assert {k: plain(v) for k, v in parameters.items()} == dict(spec.parameters)
    # our nodes alone have what setup.py installs; names are taken once
    names = [spec.full_name for spec in graph.nodes]
    assert len(set(names)) == len(names)


def test_gazebo_that_runs_already_is_not_started(launch_module, tmp_path):
    values = DEFAULTS | {"start": "false", "world_file": str(tmp_path / "w.sdf")}
    found = actions(launch_module("gazebo").generate_launch_description(), values)
    assert all("cmd" not in action.kwargs for action in found)
    assert (tmp_path / "w.sdf").is_file()


def test_where_gazebo_flies_its_nodes_take_the_place_of_ours():
    nodes = by_executable({"record": "somewhere"})
    assert not {"dynamics", "imu", "gnss", "magnetometer", "barometer", "rangefinder"} & set(nodes)
    adapter = nodes["gazebo_adapter"]
    assert adapter["use_sim_time"] is True
    assert adapter["sensors"] == ["imu", "gnss", "magnetometer", "barometer", "rangefinder"]
    assert adapter["rotors"] == [f"rotor_{i}" for i in range(4)]
    # the recorder waits for what Gazebo gives, as for ours
    waited_for = set(nodes["recorder"]["nodes"].split())
    assert {"imu", "gnss", "gazebo_adapter", "mixer"} <= waited_for
    assert "dynamics" not in waited_for
    # dynamics would say what its vehicle looks like
    assert nodes["description"] == {"vehicle": "x500", "sensors": "default"}
    # estimator, autopilot and mixer are as they are without Gazebo
    sim = from_texts(SimLaunch, {"scenario": "hover"})
    ours = {spec.executable: dict(spec.parameters) for spec in sim.describe()}
    for name in ("estimator", "autopilot", "mixer"):
        assert nodes[name] == ours[name]


def test_sensors_that_are_not_lent_are_ours_on_gazebos_truth():
    nodes = by_executable({"lent": "imu, gnss,barometer"})
    assert nodes["gazebo_adapter"]["sensors"] == ["imu", "gnss", "barometer"]
    assert {"magnetometer", "rangefinder"} <= set(nodes)
    assert "imu" not in nodes
    assert "<magnetometer" not in describe_gazebo(DEFAULTS | {"lent": "imu"}).world


def test_a_fixed_field_is_not_gazebos(tmp_path):
    """Harmonic and later look the field up by the place, so the estimator does; Fortress obeys."""
    text = (share_dir() / "config/scenarios/hover.yaml").read_text()
    scenario = tmp_path / "fixed.yaml"
    fixed = "environment: {magnetic_field: fixed, magnetic_field_W_T: [1.0e-6, 2.0e-5, -4.0e-5]}\n"
    scenario.write_text(text + fixed)
    assert "environment:" not in text
    values = {"scenario": str(scenario)}
    at_datum = list(EnvironmentParams().field_W_T())
    assert by_executable(values)["estimator"]["magnetic_field_W_T"] == at_datum
    for others in ({"fortress": "true"}, {"lent": "imu"}, {"gazebo": "view"}):
        field = by_executable(values | others)["estimator"]["magnetic_field_W_T"]
        assert field == [1e-6, 2e-5, -4e-5]


def test_where_gazebo_shows_our_physics_fly_with_its_eyes(tmp_path):
    nodes = by_executable(VIEW)
    assert "lidar" not in nodes
    assert {"dynamics", "imu", "gnss", "gazebo_view"} <= set(nodes)
    assert nodes["gazebo_view"] == {"world": "flat", "lent": ["scan", "camera"]}
    graph = describe_gazebo(DEFAULTS | {"scenario": "hover"} | VIEW)
    pose, bridge = graph.nodes[:2]
    assert pose.arguments == (
        "/world/flat/set_pose@ros_gz_interfaces/srv/SetEntityPose@gz.msgs.Pose@gz.msgs.Boolean",
    )
    assert bridge.parameters["config_file"].endswith("config/bridge/view.yaml")
    # no bridge has Gazebo's clock: ours is the only one
    assert "clock" not in "".join(map(str, [*bridged("view"), *graph.nodes[:2]]))
    assert bridged("clock")[0]["ros_topic_name"] == "/clock"
    file = tmp_path / "world.sdf"
    file.write_text(graph.world)
    model = parse(file).find("world/model[@name='quad']")
    assert model.findtext("static") == "true"
    assert {sensor.get("type") for sensor in model.iter("sensor")} == {"gpu_lidar", "camera"}
    assert model.find("plugin") is None


@pytest.mark.parametrize("count", [1, 3])
def test_gazebos_topics_are_those_that_the_bridge_asks_for(count):
    """Each entry of the bridge has a publisher or subscriber in the world, and the other way."""
    values = {
        "sensors": "lidar",
        "lent": "imu,gnss,magnetometer,barometer,rangefinder,lidar,camera",
    }
    graph = describe_gazebo(DEFAULTS | {"scenario": "hover", "count": str(count)} | values)
    world = fromstring(graph.world).find("world")
    for bridge in (spec for spec in graph.nodes if spec.name == "gazebo_bridge"):
        assert bridge.parameters["expand_gz_topic_names"] is True
        model = world.find(f"model[@name='{bridge.namespace.strip('/')}']")
        offered = {topic.text for topic in model.iter("topic")}
        offered |= {topic.text for topic in model.iter("odom_topic")}
        offered |= {f"{t.text}/points" for t in model.iterfind(".//sensor[@name='lidar']/topic")}
        cameras = model.iterfind(".//sensor[@name='camera']/topic")
        offered |= {f"{topic.text.rpartition('/')[0]}/camera_info" for topic in cameras}
        (command,) = {
            f"{motor.findtext('robotNamespace')}/{motor.findtext('commandSubTopic')}"
            for motor in model.iterfind("plugin")
            if motor.find("commandSubTopic") is not None
        }
        wanted = {
            full_name(bridge.namespace, entry["gz_topic_name"]).strip("/"): entry["direction"]
            for entry in bridged("physics")
        }
        assert wanted == dict.fromkeys(offered, "GZ_TO_ROS") | {command: "ROS_TO_GZ"}


def test_bridged_types_are_those_of_the_nodes():
    from quadsim.ros.runtime import topics

    table = {
        topic.name: topic.type_name
        for topic in (*vars(topics).values(), *VEHICLE_TOPICS)
        if isinstance(topic, topics.Topic)
    }
    for name in ("physics", "view", "clock"):
        for entry in bridged(name):
            assert table[entry["ros_topic_name"]] == entry["ros_type_name"]


def test_the_vehicles_stand_where_ours_do_in_the_same_world(tmp_path):
    values = DEFAULTS | {"scenario": "forest", "count": "2"}
    path = tmp_path / "world.sdf"
    path.write_text(describe_gazebo(values).world)
    scenario = load_scenario("forest")
    world = parse(path).find("world")
    for i, (x_m, y_m, yaw_rad) in enumerate(scenario.file.start.poses(2)):
        pose = [float(v) for v in world.findtext(f"model[@name='quad{i + 1}']/pose").split()]
        assert pose[:2] + pose[3:] == pytest.approx([x_m, y_m, 0.0, 0.0, yaw_rad])
        feet = min(foot[2] for foot in scenario.vehicle.contact.points_B_m)
        # on the feet, which sink in by the sag under the weight
        sag_m = scenario.vehicle.contact.sag_m
        assert pose[2] == pytest.approx(scenario.environment.ground_height_m - feet - sag_m)
    # apart from the vehicles it is the scenario's world
    original = load_world(share_dir() / "worlds" / "forest.sdf")
    assert world.get("name") == original.name
    datum = scenario.environment.datum
    assert float(world.findtext("spherical_coordinates/elevation")) == datum.height_m


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"physics": "bullet"}, "physics: 'bullet'; allowed: gazebo, ours"),
        ({"gazebo": "watch"}, "gazebo: 'watch'; allowed: fly, view"),
        ({"physics": "gazebo", "gazebo": "view"}, "ours, with gazebo:=view"),
        ({"physics": "ours"}, "ours needs gazebo:=view"),
        ({"lent": "gps"}, "lent: 'gps'; allowed: imu"),
        ({"lent": "imu,lidar"}, "with suite default"),
        ({"lent": "gnss"}, "with imu"),
        ({"gazebo": "view", "lent": "imu"}, "lent: 'imu'; allowed: camera"),
        ({"pacing": "lockstep"}, "Gazebo does not wait"),
        ({"rate": "2"}, "real_time_factor"),
        ({"rate": "quick"}, "'quick' is not a number"),
        ({"count": "two"}, "'two' is not a number"),
        ({"gui": "yes"}, "gui: 'yes'; allowed: true, false"),
        ({"bridge": "none"}, "unknown bridge 'none'; known: clock, physics, view"),
        ({"vehicle": "thesis_helicopter"}, "multirotors"),
        ({"scenario": "disturbed"}, "disturbances: Gazebo does not know it"),
        ({"scenario": "windy_square"}, "environment.wind: Gazebo does not know it"),
        ({"scenario": "slung_load"}, "load: Gazebo does not know it"),
        ({"scenario": "hills_5m"}, "terrain: Gazebo does not know it"),
    ],
)
def test_what_cannot_be_is_one_line(values, words):
    with pytest.raises(InputError, match=words) as error:
        describe_gazebo(DEFAULTS | values)
    assert "\n" not in str(error.value)


WINDY = """<sdf version="1.9"><world name="windy">
<wind><linear_velocity>5 2 0</linear_velocity></wind>
<model name="ground"><static>true</static><link name="l"><collision name="c"><geometry><plane/>
</geometry></collision></link></model></world></sdf>
"""


@pytest.mark.parametrize(
    ("own", "wind"),
    [("", "5 2 0"), ("environment: {wind_W_mps: [0.0, -3.0, 0.0]}", "0 -3 0")],
)
def test_the_mean_wind_is_gazebos_and_said(launch_module, tmp_path, own, wind):
    """That of the world, or what the scenario sets instead."""
    (tmp_path / "windy.sdf").write_text(WINDY)
    hover = (share_dir() / "config/scenarios/hover.yaml").read_text()
    path = tmp_path / "windy.yaml"
    path.write_text(f"{hover}\nworld: windy.sdf\n{own}\n")
    values = DEFAULTS | {"scenario": str(path), "world_file": str(tmp_path / "w.sdf")}
    (given,) = fromstring(describe_gazebo(values).world).findall("world/wind")
    assert given.findtext("linear_velocity") == wind
    description = launch_module("gazebo").generate_launch_description()
    told = [each.kwargs.get("msg", "") for each in actions(description, values)]
    words = f"wind ({wind.replace(' ', ', ')}) m/s: in Gazebo it drags the rotors alone"
    assert sum(words in line for line in told) == 1


def test_a_world_that_cannot_be_written_is_named(tmp_path):
    graph = describe_gazebo(DEFAULTS | {"world_file": str(tmp_path / "none" / "w.sdf")})
    with pytest.raises(InputError, match="world_file"):
        graph.write_world()


def test_the_same_world_is_one_file_of_the_cache(tmp_path, monkeypatch):
    """As often as it is launched; another world is another file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = describe_gazebo(DEFAULTS | {"scenario": "hover"})
    first = graph.write_world()
    assert first.read_text(encoding="utf-8") == graph.world
    assert graph.write_world() == first
    other = replace(graph, world=graph.world + "\n").write_world()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {first, other}


@pytest.mark.parametrize(
    ("missing", "values", "remedy"),
    [("gz", {}, "fortress:=true"), ("ign", {"fortress": "true"}, "fortress:=false")],
)
def test_without_gazebo_one_line_names_the_remedy_and_nothing_starts(
    launch_module, programs, tmp_path, missing, values, remedy
):
    (programs / missing).unlink()
    world = tmp_path / "world.sdf"
    values = DEFAULTS | {"scenario": "hover", "world_file": str(world)} | values
    description = launch_module("gazebo").generate_launch_description()
    with pytest.raises(InputError, match=f"{missing} is not on the path.*{remedy}") as refusal:
        actions(description, values)
    assert "\n" not in str(refusal.value)
    assert not world.exists()
    assert actions(description, values | {"start": "false"})


@pytest.mark.parametrize(
    ("rate_hz", "step_s"), [(1000.0, 0.001), (500.0, 0.002), (250.0, 0.004), (100.0, 0.01 / 3.0)]
)
def test_gazebos_step_is_the_period_of_the_imu(tmp_path, rate_hz, step_s):
    """Else the sample at an impact, which ends in a step, is held and counted several times."""
    suite = yaml.safe_load((share_dir() / "config/sensors/suites/default.yaml").read_text())
    suite["imu"] = {"device": suite["imu"], "rate_hz": rate_hz}
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(suite))
    graph = describe_gazebo(DEFAULTS | {"scenario": "hover", "sensors": str(path)})
    (step,) = fromstring(graph.world).iter("max_step_size")
    assert float(step.text) == pytest.approx(step_s, rel=1e-4)
    if rate_hz == 1000.0:
        view = describe_gazebo(DEFAULTS | VIEW | {"scenario": "hover"})
        assert next(fromstring(view.world).iter("max_step_size")).text == "0.001"
