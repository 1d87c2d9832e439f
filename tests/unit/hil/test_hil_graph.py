"""The graph of a real vehicle among virtual obstacles, in its four structures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.graph.hil_graph import HilLaunch
from quadsim.ros.nodes.composed import specs_from
from quadsim.ros.runtime import packages

MEASURED = str(Path(__file__).parents[2] / "helpers" / "measured_guard.yaml")
ARGUMENTS = launch_arguments(HilLaunch)
DEFAULTS = {name: default for name, (default, _) in ARGUMENTS.items()} | {"guard": MEASURED}


def described(**values):
    return from_texts(HilLaunch, DEFAULTS | {"record": "false"} | values).describe()


def by_name(specs):
    return {spec.executable: spec for spec in specs}


def heard(spec, ours):
    return dict(spec.remappings).get(ours, ours)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"structure": "sil"}, "stand_in driver lidar planner guard monitor"),
        ({"drivers": "mavros"}, "driver lidar planner guard monitor"),
        ({"drivers": "mavros", "rangefinder": "tf_luna", "planner": "", "vehicle": "iris",
          "record": "true"},
         "driver lidar rangefinder guard monitor description recorder"),
        ({"structure": "target", "drivers": "mavros"}, "driver planner guard monitor"),
        ({"structure": "basic"}, "composed"),
    ],
)  # fmt: skip
def test_more_and_more_is_real(values, names):
    assert [spec.executable for spec in described(**values)] == names.split()


def test_basic_is_sil_in_one_process():
    (one,) = described(structure="basic", seed="7")
    found, expected = specs_from(one.parameters["nodes"]), described(structure="sil", seed="7")
    assert [replace(spec, parameters={}) for spec in found] == [
        replace(spec, parameters={}) for spec in expected
    ]
    for one_of, other in zip(found, expected, strict=True):
        assert one_of.parameters == json.loads(json.dumps(dict(other.parameters)))


def test_mavros_is_heard_and_told_under_its_own_names():
    nodes = by_name(described(drivers="mavros", driver_namespace="/uav1", world="forest"))
    odometry = "/uav1/mavros/local_position/odom"
    assert heard(nodes["lidar"], "ground_truth/odom") == odometry
    for name in ("planner", "guard", "monitor"):
        assert heard(nodes[name], "odometry/filtered") == odometry
        assert nodes[name].parameters["pose_type"] == "odometry"
        assert nodes[name].parameters["use_sim_time"] is False
    monitor = nodes["monitor"].parameters
    assert monitor["pose"] == f"{odometry} nav_msgs/msg/Odometry"
    setpoint = "/uav1/mavros/setpoint_velocity/cmd_vel geometry_msgs/msg/TwistStamped"
    assert monitor["setpoint"] == setpoint
    # but for its mode nothing is to be converted
    assert nodes["driver"].parameters["topics"] == "vehicle/offboard_state"
    assert nodes["driver"].parameters["send"] is True
    assert nodes["lidar"].parameters["world"] == nodes["monitor"].parameters["world"] == "forest"
    assert nodes["lidar"].parameters["odometry_reliable"] is False


def test_a_depth_camera_is_lent_at_the_real_pose_and_guard_and_planner_know_its_place():
    nodes = by_name(
        described(
            drivers="mavros", driver_namespace="/uav1", lidar="", depth_camera="realsense_d455",
            camera_position="0.1,0,-0.02", camera_rotation="0,15,0", world="forest",
        )
    )  # fmt: skip
    assert "lidar" not in nodes
    camera = nodes["depth_camera"]
    assert heard(camera, "ground_truth/odom") == "/uav1/mavros/local_position/odom"
    assert (camera.parameters["columns"], camera.parameters["level"]) == (424, False)
    assert camera.parameters["position_B_m"] == [0.1, 0.0, -0.02]
    for name in ("planner", "guard", "monitor"):
        given = nodes[name].parameters
        assert given["camera.position_B_m"] == [0.1, 0.0, -0.02]
        assert given["camera.rotation_deg"] == [0.0, 15.0, 0.0]
        assert given["camera.range_m"] == 10.0
    with pytest.raises(
        InputError, match=r"^camera_position, camera_rotation: there is no depth_cam"
    ):
        described(drivers="mavros", camera_position="0.1,0,0")


def test_motion_capture_comes_by_the_driver_as_a_pose():
    """Its tracker's name is not known, and its frame is another."""
    nodes = by_name(described(drivers="mocap,mavros", pose="external/pose_stamped"))
    assert nodes["driver"].parameters["topics"] == "external/pose_stamped vehicle/offboard_state"
    for name in ("lidar", "planner", "guard", "monitor"):
        assert heard(nodes[name], "external/pose_stamped") == "external/pose_stamped"
        assert nodes[name].parameters["pose_type"] == "pose"


def test_everything_is_in_the_bag():
    recorder = described(drivers="mavros", record="/tmp/it", others="/a/odom")[-1]
    assert recorder.parameters["also"] == [
        "/mavros/local_position/odom nav_msgs/msg/Odometry",
        "/mavros/setpoint_velocity/cmd_vel geometry_msgs/msg/TwistStamped",
        "/a/odom nav_msgs/msg/Odometry",
    ]
    facts = json.loads(recorder.parameters["metadata"])
    assert facts["structure"] == "hil"
    # quadsim identify --brakes reads the pose that the guard flew by
    assert facts["pose"] == "/mavros/local_position/odom"
    converted = described(drivers="mocap,mavros", pose="external/pose_stamped", record="/tmp/it")
    said = json.loads(converted[-1].parameters["metadata"])
    assert said["pose"] == "/quad/external/pose_stamped"
    assert json.loads(facts["guard"])["watch.dead_man"] is True


def test_px4_is_told_in_two_topics_and_timed_by_the_one_with_the_velocity(monkeypatch):
    """Its pose becomes ours before anybody hears it; the versions of its name are not known."""
    monkeypatch.setattr(packages, "find_spec", lambda name: name)  # as if px4_msgs were installed
    nodes = by_name(described(drivers="px4", record="/tmp/it"))
    told = [
        "/fmu/in/offboard_control_mode px4_msgs/msg/OffboardControlMode",
        "/fmu/in/trajectory_setpoint px4_msgs/msg/TrajectorySetpoint",
    ]
    ours = "/quad/odometry/autopilot nav_msgs/msg/Odometry"
    assert nodes["monitor"].parameters["setpoint"] == told[1]
    assert nodes["monitor"].parameters["pose"] == ours
    assert nodes["recorder"].parameters["also"] == [ours, *told]


@pytest.mark.parametrize(
    ("values", "position_B_m", "rotation_deg"),
    [
        ({}, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        ({"lidar_position": "0.1, 0, -0.2"}, [0.1, 0.0, -0.2], [0.0, 0.0, 0.0]),
        ({"lidar": "", "lidar_rotation": "180,0,90"}, [0.0, 0.0, 0.0], [180.0, 0.0, 90.0]),
        ({"lidar": "FILE"}, [0.0, 0.0, 0.08], [0.0, 0.0, 180.0]),
        ({"lidar": "FILE", "lidar_position": "0,0,1"}, [0.0, 0.0, 1.0], [0.0, 0.0, 180.0]),
    ],
)
@pytest.mark.parametrize("structure", ["hil", "target"])
def test_where_the_lidar_sits_is_known_to_all_that_read_it(
    structure, values, position_B_m, rotation_deg, tmp_path
):
    """The device's file, or the arguments; the same of a virtual one and of a real one."""
    path = tmp_path / "turned.yaml"
    path.write_text("sensor: lidar\nposition_B_m: [0, 0, 0.08]\nrotation_deg: [0, 0, 180]\n")
    values = {name: text.replace("FILE", str(path)) for name, text in values.items()}
    nodes = by_name(described(drivers="mavros", structure=structure, **values))
    for name in ("planner", "guard", "monitor"):
        given = nodes[name].parameters
        assert (given["lidar.position_B_m"], given["lidar.rotation_deg"]) == (
            position_B_m,
            rotation_deg,
        )
    if structure == "hil" and values.get("lidar", "some"):
        cast = nodes["lidar"].parameters
        assert (list(cast["position_B_m"]), list(cast["rotation_deg"])) == (
            position_B_m,
            rotation_deg,
        )


def test_others_are_known_to_whoever_must_not_meet_them():
    nodes = by_name(described(drivers="mavros", others="/a/odom,/b/odom", others_radius="0.6"))
    for name in ("lidar", "planner", "guard", "monitor"):
        assert nodes[name].parameters["others.odometry"] == ["/a/odom", "/b/odom"]
        assert nodes[name].parameters["others.radius_m"] == [0.6]


@pytest.mark.parametrize("structure", ["hil", "target"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "guard: its brake_mps2 and latency_s are those of the rehearsals' stand-in"),
        ("vehicle: {brake_mps2: 2.0}", "those of the rehearsals' stand-in, .* identify --brakes"),
        ("vehicle: {brake_mps2: 2.0, latency_s: 0.4, measured_on: ''}", "are of no flight"),
    ],
)
def test_a_real_vehicle_needs_brakes_of_its_own(structure, text, words, tmp_path):
    """Also where a file of one's own does not say how its figures are known."""
    path = tmp_path / "guard.yaml"
    if text:
        path.write_text(text)
    guard = str(path) if text else "default"
    with pytest.raises(InputError, match=words) as refused:
        described(structure=structure, drivers="mavros", guard=guard)
    assert "\n" not in str(refused.value)
    assert described(structure="sil", guard=guard)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"structure": "real"}, "structure: 'real'; allowed: basic, sil, hil, target"),
        ({}, "drivers: none with structure hil; give those of the vehicle"),
        ({"drivers": "vectornav"}, "pose: none from drivers vectornav"),
        ({"drivers": "mavros", "pose": "external/odom"}, "what they give"),
        (
            {"drivers": "mocap,mavros", "pose": "external/odom"},
            "ground_truth/odom; for external/odom: drivers:=mocap:external/odom,mavros$",
        ),
        ({"drivers": "mocap"}, "drivers: mocap: none of them takes command_velocity/safe"),
        ({"drivers": "mavros", "lidar_position": "1,2"}, "lidar_position: '1,2'; allowed: 3 num"),
        ({"drivers": "mavros", "level": "yes"}, "level: 'yes'; allowed: true, false"),
        (
            {"structure": "sil", "setpoints": "rates"},
            "setpoints: the stand-in has attitudes and rates with firmware alone",
        ),
        ({"structure": "sil", "setpoints": "thrust"}, "setpoints: 'thrust'; allowed: position"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(values, words):
    with pytest.raises(InputError, match=words):
        described(**values)


def test_the_guard_compares_the_pose_with_the_autopilots_own():
    """Where both are there; the pose may be the autopilot's own, or nobody gives that."""
    nodes = by_name(described(drivers="mocap,mavros", pose="external/pose_stamped"))
    assert nodes["guard"].parameters["autopilot.odometry"] == "beside"
    assert heard(nodes["guard"], "odometry/autopilot") == "/mavros/local_position/odom"
    own = by_name(described(drivers="mavros"))["guard"]
    assert own.parameters["autopilot.odometry"] == "own"


def test_the_driver_holds_commands_to_the_guards_file(tmp_path):
    (tmp_path / "slow.yaml").write_text(
        "limits: {speed_max_mps: 0.5}\nwatch: {late_s: 0.05}\nvehicle: {measured_on: a flight}\n"
    )
    nodes = by_name(described(drivers="mavros", guard=str(tmp_path / "slow.yaml")))
    for name in ("guard", "driver"):
        assert nodes[name].parameters["limits.speed_max_mps"] == 0.5
        assert nodes[name].parameters["watch.late_s"] == 0.05


def test_the_stand_in_with_firmware_takes_attitudes():
    specs = described(structure="sil", setpoints="attitude,position", firmware="ardupilot")
    given = {spec.executable: spec.parameters.get("setpoints") for spec in specs}
    assert given["driver"] == ["attitude"]
    assert given["guard"] == ["attitude", "position"]


def test_motion_capture_goes_into_the_autopilot_where_that_is_asked():
    values = {"drivers": "mocap,mavros", "pose": "external/pose_stamped"}
    assert by_name(described(**values))["driver"].parameters["relay"] == ""
    driver = by_name(described(**values, relay="true"))["driver"]
    assert driver.parameters["relay"] == "pose"
    with pytest.raises(InputError, match="relay: the pose is odometry/autopilot"):
        described(drivers="mavros", relay="true")


def test_a_real_lidar_leaves_out_the_vehicle_that_it_sits_on():
    """In target, where the vehicle is known; as large as its rotors, within the guard's radius."""
    given = {"structure": "target", "drivers": "mavros"}
    nodes = by_name(described(**given, vehicle="x500"))
    for name in ("guard", "planner", "monitor"):
        parameters = nodes[name].parameters
        assert 0.35 < parameters["lidar.self_radius_m"] <= 0.4
        assert parameters["lidar.self_half_height_m"] == 0.2
    assert "lidar.self_radius_m" not in by_name(described(**given))["guard"].parameters
    virtual = by_name(described(drivers="mavros", vehicle="x500"))
    assert "lidar.self_radius_m" not in virtual["guard"].parameters


# ---- several vehicles --------------------------------------------------------------------------


def of_vehicle(specs, name):
    return by_name(spec for spec in specs if spec.namespace == name)


def test_each_of_several_vehicles_has_nodes_of_its_own_and_knows_the_other_guards():
    specs = described(drivers="mavros", vehicles="3")
    one = ["driver", "lidar", "planner", "guard", "monitor"]
    assert [spec.executable for spec in specs] == 3 * one
    for k in (1, 2, 3):
        nodes = of_vehicle(specs, f"/quad{k}")
        odometry = f"/quad{k}/mavros/local_position/odom"
        assert heard(nodes["guard"], "odometry/filtered") == odometry
        assert nodes["driver"].parameters["driver_namespace"] == f"/quad{k}"
        assert nodes["driver"].parameters["alone"] is False
        given = nodes["guard"].parameters
        assert given["neighbours.names"] == [f"quad{i}" for i in (1, 2, 3) if i != k]
        assert given["neighbours.keep_out_m"] == [0.5, 0.5]  # 0.4 m and 0.1 m of the file
        # one person holds one button for all
        assert heard(nodes["guard"], "dead_man") == "/dead_man"
        assert heard(nodes["guard"], "joy") == "/joy"


def test_a_vehicle_alone_has_its_own_button_and_no_neighbours():
    nodes = by_name(described(drivers="mavros"))
    assert heard(nodes["guard"], "dead_man") == "dead_man"
    assert "neighbours.names" not in nodes["guard"].parameters
    assert nodes["driver"].parameters["alone"] is True
    assert "origin_W_m" not in nodes["driver"].parameters


OWN = ["driver", "lidar", "planner", "guard", "monitor"]

FLEET = """vehicles:
  - {name: cf1, drivers: crazyswarm2, driver_namespace: /cf231, pose_frame: world, guard: SMALL}
  - {name: uav2, drivers: mavros, origin_W_m: [3, -1, 0.5], planner: SLOW, vehicle: x500}
"""


@pytest.fixture
def fleet(tmp_path):
    """A fleet's file, and the files that it names."""
    small, slow, path = (tmp_path / f"{name}.yaml" for name in ("small", "slow", "fleet"))
    small.write_text(
        "limits: {speed_max_mps: 1.0}\n"
        "vehicle: {radius_m: 0.1, half_height_m: 0.05, measured_on: a flight}\n"
    )
    slow.write_text("speed: {speed_mps: 0.7}\n")
    path.write_text(FLEET.replace("SMALL", str(small)).replace("SLOW", str(slow)))
    return path


def test_a_file_says_of_each_vehicle_what_it_is(fleet):
    specs = described(fleet=str(fleet), record="/tmp/it")
    first, second = of_vehicle(specs, "/cf1"), of_vehicle(specs, "/uav2")
    assert [spec.namespace for spec in specs] == ["/cf1"] * 5 + ["/uav2"] * 6 + ["/"]
    assert list(second) == [*OWN, "description"]
    setpoint = first["monitor"].parameters["setpoint"]
    assert setpoint == "/cf231/cmd_velocity_world crazyflie_interfaces/msg/VelocityWorld"
    # its driver shifts the pose, so that it is heard behind that
    assert heard(second["guard"], "odometry/filtered") == "odometry/autopilot"
    assert "odometry/autopilot" in second["driver"].parameters["topics"].split()
    recorder = specs[-1].parameters
    assert recorder["namespaces"] == ["/cf1", "/uav2"]
    told = "/uav2/mavros/setpoint_velocity/cmd_vel geometry_msgs/msg/TwistStamped"
    assert told in recorder["also"]
    assert first["driver"].parameters["driver_namespace"] == "/cf231"
    assert first["guard"].parameters["frames.pose"] == "world"
    assert second["guard"].parameters["frames.pose"] == "map"
    assert second["driver"].parameters["origin_W_m"] == [3.0, -1.0, 0.5]
    speeds = [nodes["planner"].parameters["speed.speed_mps"] for nodes in (first, second)]
    assert speeds == [4.0, 0.7]
    # each guard keeps from the other by that one's size, and by how fast that one comes
    assert first["guard"].parameters["limits.speed_max_mps"] == 1.0
    assert second["guard"].parameters["neighbours.keep_out_m"] == pytest.approx([0.2])
    (theirs,) = first["guard"].parameters["neighbours.growth_mps"]
    (slower,) = second["guard"].parameters["neighbours.growth_mps"]
    assert slower < 0.5 * theirs


@pytest.mark.parametrize(
    ("vehicles", "words"),
    [
        ("[]", "vehicles: none; allowed: one or more"),
        ("[{name: 2a, drivers: mavros}]", "name: '2a'; allowed: letters, digits and _"),
        ("[{name: a, drivers: mavros}, {name: a, drivers: px4}]", "'a' is there twice"),
        ("[{name: a, drivers: crazyswarm2, origin_W_m: [1, 0, 0]}]", "give no odometry/autopilot"),
        (
            "[{name: a, drivers: mavros, driver_namespace: /b}, {name: b, drivers: mavros}]",
            "is of more than one; give each a driver_namespace",
        ),
    ],
)
def test_a_file_of_vehicles_that_do_not_fit_is_refused(tmp_path, vehicles, words):
    (tmp_path / "fleet.yaml").write_text(f"vehicles: {vehicles}\n")
    with pytest.raises(InputError, match=words):
        described(fleet=str(tmp_path / "fleet.yaml"))


def test_lidar_and_planner_know_the_other_vehicles_by_their_poses(fleet):
    specs = described(fleet=str(fleet))
    first, second = of_vehicle(specs, "/cf1"), of_vehicle(specs, "/uav2")
    for name in ("lidar", "planner", "monitor"):
        given = first[name].parameters
        assert given["others.odometry"] == ["/uav2/odometry/autopilot"]  # shifted by its driver
        assert (given["others.radius_m"], given["others.height_m"]) == ([0.4], [0.4])
        assert given["others.frame"] == ["map"]
        given = second[name].parameters
        assert given["others.pose"] == ["/cf1/external/pose_stamped"]
        assert (given["others.radius_m"], given["others.height_m"]) == ([0.1], [0.1])
        assert given["others.frame"] == ["world"]
    for nodes in (first, second):  # these know the reach
        assert not any(key.startswith("others") for key in nodes["guard"].parameters)


def test_neighbours_come_after_the_others_that_are_given():
    specs = described(
        drivers="mavros", vehicles="2", others="/a/odom", others_pose="/b/pose",
        others_radius="0.7,0.9", others_height="2",
    )  # fmt: skip
    given = of_vehicle(specs, "/quad1")["planner"].parameters
    assert given["others.odometry"] == ["/a/odom", "/quad2/mavros/local_position/odom"]
    assert given["others.pose"] == ["/b/pose"]
    assert given["others.radius_m"] == [0.7, 0.4, 0.9]
    assert given["others.height_m"] == [2.0, 0.4, 2.0]
    guard = of_vehicle(specs, "/quad1")["guard"].parameters
    assert (guard["others.odometry"], guard["others.pose"]) == (["/a/odom"], ["/b/pose"])
    assert guard["others.radius_m"] == [0.7, 0.9]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"driver_namespace": "/a"}, "driver_namespace: /a of 2 vehicles; allowed: of one, or in"),
        ({"fleet": "none.yaml"}, "drivers: with fleet:=none.yaml; allowed: in that file, of each"),
        ({"drivers": "", "vehicles": "1", "fleet": "none.yaml"}, "fleet: none.yaml: no such file"),
        ({"drivers": "", "vehicles": "1", "structure": "sil", "fleet": "x"}, "fleet: 'x' with"),
        ({"structure": "sil", "drivers": ""}, "vehicles: 2 with structure sil"),
    ],
)
def test_several_vehicles_that_do_not_fit_are_named(values, words):
    with pytest.raises(InputError, match=words):
        described(**{"drivers": "mavros", "vehicles": "2"} | values)


# ---- Gazebo shows the vehicle ------------------------------------------------------------------


def test_gazebo_shows_a_real_vehicle_and_lends_it_lidar_and_camera():
    specs = described(drivers="mavros", world="hall", lent="lidar,camera")
    nodes = by_name(specs)
    assert "lidar" not in nodes  # the scan is Gazebo's
    view = nodes["gazebo_view"]
    assert view.namespace == "/quad"
    assert (view.parameters["world"], view.parameters["lent"]) == ("hall", ["scan", "camera"])
    assert heard(view, "ground_truth/odom") == "/mavros/local_position/odom"
    bridges = {spec.name: spec for spec in specs if spec.package == "ros_gz_bridge"}
    assert "/world/hall/set_pose" in bridges["pose_bridge"].arguments[0]
    assert bridges["gazebo_bridge"].namespace == "/quad"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lent": "imu"}, "lent: 'imu' with structure hil; allowed: lidar, camera"),
        ({"lent": "lidar", "structure": "target"}, "structure target; allowed: none"),
        ({"lent": "lidar", "drivers": "crazyswarm2"}, "external/pose_stamped is no odometry"),
    ],
)
def test_what_gazebo_cannot_lend_is_named(values, words):
    with pytest.raises(InputError, match=words):
        described(**{"drivers": "mavros"} | values)


def test_flow_range_and_odometry_are_lent_to_the_vehicle():
    values = {"drivers": "mocap,mavros", "pose": "external/pose_stamped"}
    devices = {"optical_flow": "px4flow", "rangefinder": "tf_luna", "visual_odometry": "vio_euroc"}
    nodes = by_name(described(**values, **devices))
    lent = ["odometry/visual", "flow/down", "range/down"]
    assert nodes["driver"].parameters["lend"] == lent
    for kind in devices:
        assert nodes[kind].parameters["pose_type"] == "pose"
    assert "lend" not in by_name(described(**values, rangefinder="tf_luna"))["driver"].parameters


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"drivers": "mavros", "visual_odometry": "vio_euroc"},
            "it would confirm the estimate by itself",
        ),
        ({"drivers": "crazyswarm2", "optical_flow": "px4flow"}, "none of them takes flow/down"),
        ({"drivers": "mavros", "structure": "target", "optical_flow": "px4flow"}, "leave it out"),
    ],
)
def test_what_cannot_be_lent_is_named(values, words):
    with pytest.raises(InputError, match=words):
        described(**values)
