"""Which parts of a graph are simulated, which a driver gives, and what goes out to a vehicle."""

import math
import re
import sys
import time
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.files import known
from quadsim.base.options import from_texts
from quadsim.drivers.driver import load_driver
from quadsim.drivers.outward import (
    DriverCommand,
    OutsidePose,
    ThrustCommand,
    VelocityCommand,
    relayed_as,
    sent_as,
    standing_command,
)
from quadsim.geometry.rotation import from_euler, to_euler
from quadsim.ros.graph import driver_choice as module
from quadsim.ros.graph.driver_choice import GIVEN_BY, REPLACEABLE, choose
from quadsim.ros.graph.graph import GraphOptions, SimLaunch, describe
from quadsim.ros.runtime import packages
from quadsim.ros.runtime.packages import is_installed, lost
from quadsim.sensors import SCANNERS
from quadsim.sim.scenario import load_scenario

EVERY = set(REPLACEABLE)
BOX = """
description: a box
namespace: /box
topics:
  - {ours: imu/data_raw, names: [imu], type: sensor_msgs/msg/Imu, frame: imu_link, reliability: reliable}
  - {ours: imu/mag, names: [mag], type: sensor_msgs/msg/MagneticField, frame: imu_link}
  - {ours: gps/fix, names: [fix, position], type: sensor_msgs/msg/NavSatFix, frame: gps_link, reliability: reliable}
  - {ours: gps/vel, names: ["*/vel"], type: geometry_msgs/msg/TwistWithCovarianceStamped, frame: map, reliability: reliable}
  - {ours: range/down, names: [range], type: sensor_msgs/msg/Range, frame: laser, reliability: reliable}
  - {ours: imu/static_pressure, names: [p], type: sensor_msgs/msg/FluidPressure, scale: 100.0, frame: base_link, reliability: reliable}
"""  # noqa: E501


@pytest.fixture
def px4(monkeypatch):
    """As if px4_msgs were installed."""
    monkeypatch.setattr(packages, "find_spec", lambda name: name == "px4_msgs" or None)


def own(tmp_path, text, name="mine.yaml"):
    file = tmp_path / name
    file.write_text(text)
    return str(file)


def given(chain):
    """Nodes of ours that run, and what a driver gives instead."""
    chosen = choose(chain)
    return set(chosen.nodes), dict(topic[::-1] for topic in chosen.passed)


# -- who gives what


@pytest.mark.parametrize(
    ("chain", "away", "passed"),
    [
        ("sim", set(), set()),
        ("sim:-gnss", {"gnss"}, set()),
        ("sim:-imu-mixer", {"imu", "mixer"}, set()),
        ("sim:-dynamics-lidar", {"dynamics", "lidar"}, set()),  # somebody else's truth
        # a real IMU and a simulated GPS: VectorNav has a fix but no velocity, so it gives no sensor
        # as a whole
        (
            "vectornav,sim",
            {"imu", "magnetometer", "barometer"},
            {"imu/data_raw", "imu/mag", "imu/static_pressure"},
        ),
        ("vectornav:imu,sim", {"imu"}, {"imu/data_raw"}),
        ("vectornav:-imu-gnss-barometer,sim", {"magnetometer"}, {"imu/mag"}),
        ("ublox,sim", {"gnss"}, {"gps/fix", "gps/vel"}),
        ("sim,ublox", set(), set()),
        ("sim,mocap", set(), {"external/pose_stamped"}),
        ("mocap:external/odom,sim", set(), {"external/odom"}),
    ],
)  # fmt: skip
def test_a_chain_says_what_is_simulated(chain, away, passed):
    nodes, topics = given(chain)
    assert nodes == EVERY - away
    assert set(topics) == passed


def test_without_sim_our_software_alone_runs():
    nodes, topics = given("mavros,mocap")
    assert nodes == {"estimator", "autopilot"}
    assert topics["gps/fix"] == "mavros"
    assert topics["ground_truth/odom"] == topics["external/pose_stamped"] == "mocap"
    assert "imu/data" not in topics  # our estimator's
    assert not choose("mavros").simulated
    assert choose("sim,mocap").simulated
    assert choose("gazebo").simulated  # which has a clock of its own


def test_who_gives_a_sensor_as_a_whole_comes_first():
    """VectorNav's fix is not mixed with another receiver's velocity."""
    _, topics = given("vectornav,ublox")
    assert topics["gps/fix"] == topics["gps/vel"] == "ublox"
    assert topics["imu/data_raw"] == "vectornav"
    assert given("vectornav")[1]["gps/fix"] == "vectornav"  # better than none


def test_a_sensor_that_the_scenario_lacks_is_the_drivers(tmp_path):
    text = "description: d\ntopics: [{ours: scan, names: [/s], type: sensor_msgs/msg/LaserScan}]\n"
    file = own(tmp_path, text)
    assert given(f"sim,{file}")[1] == {}
    chosen = choose(f"sim,{file}", EVERY - {"lidar"})
    assert chosen.passed == ((file, "scan"),)


def test_an_estimate_of_ones_own_takes_the_place_of_ours(tmp_path):
    topic = "{ours: odometry/filtered, names: [vio], type: nav_msgs/msg/Odometry}"
    text = f"description: vio\ntopics: [{topic}]"
    nodes, topics = given(f"{own(tmp_path, text)},sim")
    assert nodes == EVERY - {"estimator"}
    assert set(topics) == {"odometry/filtered"}


def test_px4_where_its_messages_are(px4):
    nodes, topics = given("px4")
    assert nodes == {"estimator", "autopilot"}
    # what others send to PX4 is no pose from PX4
    assert set(topics) == {
        "imu/data_raw", "imu/mag", "imu/static_pressure", "gps/fix", "gps/vel", "range/down",
        "odometry/autopilot", "vehicle/offboard_state",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("chain", "says"),
    [
        ("", "drivers: give a name, or several with commas"),
        (
            "nope",
            "unknown driver 'nope'; known: crazyswarm2, gazebo, mavros, mavros_ardupilot, mocap",
        ),
        ("./nope.yaml", "./nope.yaml: no such file"),
        ("vectornav:gps", "vectornav has no 'gps'; it has barometer, gnss, gps/fix, imu"),
        ("sim:gps", "sim has no 'gps'; it has imu, gnss, gnss_heading, magnetometer"),
        ("mocap:imu,sim", "mocap has no 'imu'; it has external/odom"),
        ("sim:imu-gnss", "either + between parts that count, or - before others"),
        ("sim:-imu+gnss", "either + between parts that count, or - before others"),
        ("sim:im u", "'sim:im u'; give a driver, or with some parts of it"),
        ("sim,sim", "'sim' is there twice"),
        ("mavros,sim:lidar", "lidar simulated without a truth"),
    ],
)
def test_a_wrong_chain_is_named(chain, says):
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        choose(chain)
    assert "\n" not in str(caught.value)


def test_a_missing_message_package_is_one_line(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    says = (
        "driver px4: the package px4_msgs is not installed, so there is no imu/data_raw, imu/mag,"
        " imu/static_pressure, gps/fix, gps/vel, range/down, odometry/autopilot,"
        " vehicle/offboard_state; install ros-$ROS_DISTRO-px4-msgs, or build it in your workspace,"
        " and source that"
    )
    with pytest.raises(InputError, match=f"^{re.escape(says)}$"):
        choose("px4")
    # of mavros the origin and the services go, and it is said once
    assert choose("mavros").gives("imu/data_raw")
    services = [(s.ours, s.type) for s in load_driver("mavros").services]
    (line,) = lost([("imu/data_raw", "sensor_msgs/msg/Imu"), *services])
    assert "mavros_msgs is not installed, so there is no arm, disarm, offboard, land" in line
    assert is_installed("sensor_msgs/msg/Imu")


def test_the_table_of_nodes_is_that_of_the_topics():
    topics = pytest.importorskip("quadsim.ros.runtime.topics")
    every = {topic.name: topic for topic in (*topics.WORLD_TOPICS, *topics.VEHICLE_TOPICS)}
    for node, names in GIVEN_BY.items():
        assert [name for name in names if node not in every[name].publishers] == (
            list(names) if node in SCANNERS else []
        )
    ours = {t.ours for name in known("drivers") for t in load_driver(name).topics}
    named = {topic for table in (GIVEN_BY, module.ALSO_BY) for t in table.values() for topic in t}
    published = {name for name in ours & every.keys() if every[name].publishers}
    assert published <= named


# -- the graph


def nodes_of(**values):
    given = {"scenario": "hover", "record": "false"} | values
    return {spec.executable: spec for spec in from_texts(SimLaunch, given).describe()}


def test_what_fits_is_remapped_and_the_rest_converted(tmp_path):
    file = own(tmp_path, BOX)
    nodes = nodes_of(drivers=f"{file},sim", record="somewhere")
    assert set(nodes) == {"dynamics", "estimator", "autopilot", "mixer", "driver", "recorder"}
    pairs = (("/quad/imu/data_raw", "/box/imu"),)
    assert all(nodes[name].remappings == pairs for name in ("estimator", "mixer", "recorder"))
    driver = nodes["driver"]
    assert driver.remappings == ()
    # best effort; two names; a pattern; another frame; another unit
    assert set(driver.parameters["topics"].split()) == {
        "imu/mag", "gps/fix", "gps/vel", "range/down", "imu/static_pressure"
    }  # fmt: skip
    assert (driver.parameters["drivers"], driver.parameters["send"]) == (file, False)


def test_a_relative_name_is_remapped_where_it_is_known(tmp_path):
    text = BOX.replace("/box", "box").replace("scale: 100.0, ", "")
    chain = f"{own(tmp_path, text)}:imu+barometer,sim"
    assert "topics" in nodes_of(drivers=chain)["driver"].parameters  # which may be at two places
    there = nodes_of(drivers=chain, driver_namespace="/uav1")
    assert "driver" not in there
    assert there["estimator"].remappings == (
        ("/quad/imu/data_raw", "/uav1/box/imu"), ("/quad/imu/static_pressure", "/uav1/box/p")
    )  # fmt: skip


def test_several_vehicles_have_frames_of_their_own(tmp_path):
    text = BOX.replace("/box", "box")
    options = GraphOptions(count=2, drivers=f"{own(tmp_path, text)}:imu,sim")
    specs = describe(load_scenario("hover"), options)
    found = [(s.namespace, s.parameters["topics"]) for s in specs if s.executable == "driver"]
    assert found == [("/quad1", "imu/data_raw"), ("/quad2", "imu/data_raw")]


def test_one_driver_is_not_that_of_several_vehicles():
    options = GraphOptions(count=2, drivers="mavros", driver_namespace="/uav1")
    says = "driver_namespace: '/uav1' with 2 vehicles, which would all have the same driver; give"
    with pytest.raises(InputError, match=f"^{says}"):
        describe(load_scenario("hover"), options)
    assert describe(load_scenario("hover"), GraphOptions(count=2, driver_namespace="/uav1"))


def test_a_real_vehicle_is_flown_by_the_systems_clock():
    nodes = nodes_of(drivers="mavros,mocap")
    assert set(nodes) == {"estimator", "autopilot", "driver"}
    estimator, driver = nodes["estimator"].parameters, nodes["driver"].parameters
    assert estimator["use_sim_time"] is False
    assert estimator["external_pose_type"] == "pose"
    assert "datum_source" not in estimator  # mavros gives the origin
    assert driver["send"] is True
    assert driver["drivers"] == "mavros,mocap"
    assert nodes_of(drivers="mavros", use_sim_time="true")["estimator"].parameters["use_sim_time"]
    # somebody else's simulation has a clock and an origin
    others = nodes_of(drivers="sim:-dynamics-imu")["estimator"].parameters
    assert others["use_sim_time"] is True
    assert "datum_source" not in others
    # nobody gives an origin here: it is the scenario's
    alone = nodes_of(drivers="vectornav,ublox")["estimator"].parameters
    assert alone["datum_source"] == "parameter"
    assert alone["datum.latitude_deg"] == load_scenario("hover").environment.datum.latitude_deg


# -- the way out

# a pose by another clock, motion capture's
COMMAND = VelocityCommand(77_000_000_000, 1_700_000_000_123_456_789, (1.0, 2.0, -0.5), 0.3)


def test_a_velocity_becomes_px4s():
    """North, east, down by a rotation of scipy's; what PX4 is not to hold is NaN."""
    said = load_driver("px4").commands_of("command_velocity/safe")
    mode, setpoint = (sent_as(command, COMMAND) for command in said)
    # half a turn about the axis between north and east takes ENU to NED
    half = Rotation.from_rotvec(math.pi * np.array([1.0, 1.0, 0.0]) / math.sqrt(2.0))
    np.testing.assert_allclose(setpoint["velocity"], half.apply(COMMAND.v_W), atol=1e-15)
    assert setpoint["yawspeed"] == pytest.approx(half.apply([0.0, 0.0, 0.3])[2])
    assert setpoint["timestamp"] == mode["timestamp"] == 1_700_000_000_123_456
    assert all(map(math.isnan, (*setpoint["position"], *setpoint["acceleration"], setpoint["yaw"])))
    assert mode == {"timestamp": mode["timestamp"], "velocity": True}


HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("q_WB", "q_NED"),
    [  # by hand: FLU in ENU, and the same body as FRD in NED, w first
        ((1.0, 0.0, 0.0, 0.0), (HALF, 0.0, 0.0, HALF)),  # looks east: 90 deg right of north
        ((HALF, 0.0, 0.0, HALF), (1.0, 0.0, 0.0, 0.0)),  # looks north
        # looks north and rolls to the right by 60 deg, about its nose in both
        ((HALF * math.cos(math.pi / 6), HALF * 0.5, HALF * 0.5, HALF * math.cos(math.pi / 6)),
         (math.cos(math.pi / 6), 0.5, 0.0, 0.0)),
    ],
)  # fmt: skip
def test_a_pose_is_relayed_to_px4(q_WB, q_NED):
    """EKF2's external vision: NED and FRD, the pose's own time, and nothing that is not known."""
    (said,) = load_driver("px4").relays
    fields = relayed_as(said, OutsidePose(9_000_000, 1_700_000_000_000_001_000, (1, 2, 3), q_WB))
    assert fields["position"] == [2.0, 1.0, -3.0]
    q = np.array(fields["q"])
    np.testing.assert_allclose(q * np.sign(q @ q_NED), q_NED, atol=1e-12)
    assert (fields["timestamp"], fields["timestamp_sample"]) == (1_700_000_000_000_001, 9_000)
    assert fields["pose_frame"] == 1
    for name in ("velocity", "angular_velocity", "position_variance", "orientation_variance"):
        assert all(map(math.isnan, fields[name]))


@pytest.mark.parametrize("driver", ["mavros", "mavros_ardupilot"])
def test_a_pose_is_relayed_to_mavros_as_it_is(driver):
    """vision_pose/pose takes ENU and FLU, with the header's stamp."""
    (said,) = load_driver(driver).relays
    assert (said.name, said.type) == ("vision_pose/pose", "geometry_msgs/msg/PoseStamped")
    fields = relayed_as(said, OutsidePose(9_000_000, 7, (1.0, 2.0, 3.0), (0.5, 0.5, -0.5, 0.5)))
    assert fields == {
        "header.stamp": 9_000_000, "header.frame_id": "map", "pose.position": [1.0, 2.0, 3.0],
        "pose.orientation": [0.5, -0.5, 0.5, 0.5],
    }  # fmt: skip


def test_ardupilot_is_asked_in_its_own_words():
    ours, px4 = load_driver("mavros_ardupilot"), load_driver("mavros")
    assert [ours.service(name).mode for name in ("offboard", "land")] == ["GUIDED", "LAND"]
    assert [p.name for p in ours.parameters] == ["GUID_TIMEOUT", "GUID_OPTIONS"]
    assert [p.name for p in px4.parameters] == ["COM_OF_LOSS_T"]
    (field,) = (topic for topic in ours.topics if topic.ours == "imu/mag")
    assert field.scale == 1e-10  # milligauss times 1000 where it is to be times 1e-7
    others = {topic.ours for topic in ours.topics if topic not in px4.topics}
    assert others == {"imu/mag"}


def test_a_velocity_becomes_crazyswarm2s():
    """As it is, but for the yaw rate: clockwise in deg/s (velocityDecoder of the firmware)."""
    (said,) = load_driver("crazyswarm2").commands_of("command_velocity/safe")
    fields = sent_as(said, COMMAND)
    assert (said.name, fields["vel"]) == ("cmd_velocity_world", [1.0, 2.0, -0.5])
    assert fields["yaw_rate"] == pytest.approx(-17.188733853924695)
    assert (fields["header.frame_id"], fields["header.stamp"]) == ("world", 77_000_000_000)
    assert said.warning == ""


def test_the_legacy_topic_of_crazyswarm2_is_warned_of():
    twist = "geometry_msgs/msg/Twist"
    said = DriverCommand(ours="command_velocity/safe", name="cf1/cmd_vel_legacy", type=twist)
    assert "degrees" in said.warning
    assert "PWM" in said.warning
    assert DriverCommand(ours="command_velocity/safe", name="cmd_vel", type=twist).warning == ""


def test_a_crazyflie_is_told_that_setpoints_stop_and_then_to_land(monkeypatch):
    """The firmware ignores a landing while setpoints are valid; the answers are empty."""
    pytest.importorskip("rclpy")
    from rclpy.task import Future

    from quadsim.ros.drivers import services as driver_services

    asked = []

    def client_of(kind, name):
        def call(request):
            asked.append((name, vars(request)))
            future = Future()
            future.set_result(SimpleNamespace())
            return future

        duration = SimpleNamespace(sec=0, nanosec=0)
        fields = dict.fromkeys(("group_mask", "height", "arm"), 0) | {"duration": duration}
        made = SimpleNamespace(Request=lambda: SimpleNamespace(**fields))
        return SimpleNamespace(
            srv_type=made, call_async=call, service_is_ready=lambda: True,
            remove_pending_request=lambda _: None,
        )  # fmt: skip

    monkeypatch.setattr(driver_services, "is_installed", lambda _: True)
    monkeypatch.setattr(driver_services, "message_class", lambda name: name)
    node = outputs_node()
    node.create_client = client_of
    driver_services.Services(node, [load_driver("crazyswarm2")], lambda _, name: f"/cf231/{name}")

    def run(name, **request):
        answer = SimpleNamespace()
        waiting = service_of(node, name)(SimpleNamespace(**request), answer)
        with pytest.raises(StopIteration):  # every answer is there: it does not wait
            waiting.send(None)
        return answer

    answer = run("vehicle/land")
    assert answer.success
    assert [name for name, _ in asked] == ["/cf231/notify_setpoints_stop", "/cf231/land"]
    assert (asked[1][1]["height"], asked[1][1]["duration"].sec) == (0.02, 4)
    asked.clear()
    assert run("vehicle/arm", data=True).success
    assert asked[0][0] == "/cf231/arm"
    assert asked[0][1]["arm"] is True


def test_fields_are_set_by_their_names():
    """On classes as rosidl makes them, with vectors, times and nested messages."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers.services import set_fields

    whole = ("command", "timestamp", "target_system", "target_component", "source_system")
    request = SimpleNamespace(
        request=SimpleNamespace(
            **dict.fromkeys((*whole, "source_component"), 255),
            param1=0.0,
            param2=0.0,
            from_external=False,
        )
    )
    service = load_driver("px4").service("offboard")
    set_fields(request, service.request(5_000))
    asked = request.request
    # MAV_CMD_DO_SET_MODE, custom mode 6: offboard (docs.px4.io, "Offboard Mode")
    assert (asked.command, asked.param1, asked.param2, asked.timestamp) == (176, 1.0, 6.0, 5)
    # PX4 hears a target of 0 whatever its MAV_SYS_ID is (Commander.cpp, handle_command)
    assert (asked.target_system, asked.target_component) == (0, 0)
    with pytest.raises(AttributeError):
        set_fields(SimpleNamespace(), {"twist.linear": [0.0, 0.0, 0.0]})


@pytest.mark.parametrize("name", known("drivers"))
def test_what_is_asked_has_a_definite_name(name):
    driver = load_driver(name)
    for command in driver.commands:
        assert sent_as(command, standing_command(command.ours))
    if driver.services:
        assert {service.ours for service in driver.services} >= {"arm", "disarm", "land"}


VELOCITY = "commands: [{ours: command_velocity/safe, name: a, type: TYPE}]".replace
SERVICE = "services: [{ours: land, name: a, type: TYPE}]".replace


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            VELOCITY("TYPE", "std_msgs/msg/Bool"),
            "command_velocity/safe cannot become std_msgs/msg/Bool; what can, of commands",
        ),
        (
            "commands: [{ours: command_pose, name: a, type: geometry_msgs/msg/PoseStamped}]",
            "command_pose cannot become geometry_msgs/msg/PoseStamped",
        ),
        (
            VELOCITY("name: a, type: TYPE", "name: 'a*', type: geometry_msgs/msg/Twist"),
            "'a*' is not a name that can be sent to",
        ),
        (
            VELOCITY("TYPE", "geometry_msgs/msg/Twist, world: eun"),
            "world: 'eun' is not known; allowed: one of enu, ned",
        ),
        (
            VELOCITY("TYPE", "px4_msgs/msg/TrajectorySetpoint"),
            "px4_msgs/msg/TrajectorySetpoint is NED; give world: ned",
        ),
        (VELOCITY("name: a", "nam: a"), "unknown key 'nam'"),
        (SERVICE("land", "dance"), "'dance' is not known; allowed"),
        (SERVICE("TYPE", "my_msgs/srv/Land"), "'my_msgs/srv/Land' is not known"),
        (SERVICE("TYPE", "mavros_msgs/srv/SetMode"), "needs the key 'mode'"),
        (
            "namespace: a*\n" + VELOCITY("TYPE", "geometry_msgs/msg/Twist"),
            "commands and services need one without *",
        ),
        (
            "topics: [{ours: imu/mag, names: [a], type: std_msgs/msg/Bool}]",
            "what can, apart from itself: px4_msgs/msg/VehicleMagnetometer",
        ),
        (
            "topics: [{ours: mine, names: [a], type: sensor_msgs/msg/Imus}]",
            "'sensor_msgs/msg/Imus' is none of sensor_msgs; it has BatteryState, CameraInfo",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(tmp_path, text, says):
    file = own(
        tmp_path, f"description: mine\n{text}\n" + ("" if "topics" in text else "topics: []\n")
    )
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        choose(f"{file},sim")
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


# -- live: which topic is which


def test_topics_are_found_where_the_vehicle_is():
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers.inputs import DriverPlace, find_source

    mavros, mocap = load_driver("mavros"), load_driver("mocap")
    imu = [topic for topic in mavros.topics if topic.ours == "imu/data_raw"]
    pose = [topic for topic in mocap.topics if topic.ours == "external/pose_stamped"]
    kind, stamped = ["sensor_msgs/msg/Imu"], ["geometry_msgs/msg/PoseStamped"]

    def found(driver, topics, types, place):
        notes: list[str] = []
        source = find_source(driver, topics, types, place, notes)
        return (source and (source.full, source.before)), notes

    alone, one = DriverPlace("/quad", "", True), DriverPlace("/quad1", "", False)
    root, mine, other = (
        "/mavros/imu/data_raw",
        "/quad/mavros/imu/data_raw",
        "/uav7/mavros/imu/data_raw",
    )
    assert found(mavros, imu, {root: kind, other: kind}, alone) == ((root, ""), [])
    assert found(mavros, imu, {root: kind, mine: kind}, alone) == ((mine, "/quad"), [])
    assert found(mavros, imu, {root: kind, other: kind}, DriverPlace("/quad", "/uav7", True)) == (
        (other, "/uav7"), [],
    )  # fmt: skip
    assert found(mavros, imu, {root: kind}, one) == (None, [])  # it may be anybody's
    nothing, notes = found(mavros, imu, {root: ["sensor_msgs/msg/Range"]}, alone)
    assert nothing is None
    assert notes == [f"{root} is sensor_msgs/msg/Range, not sensor_msgs/msg/Imu: left out"]
    trackers = {f"/vrpn_mocap/{name}/pose": stamped for name in ("quad1", "quad2", "wand")}
    assert found(mocap, pose, trackers, one) == (("/vrpn_mocap/quad1/pose", ""), [])
    nothing, (note,) = found(mocap, pose, trackers, alone)
    assert nothing is None
    assert "may be external/pose_stamped, but without the vehicle's name, quad: left out" in note


def test_a_pose_is_the_vehicles_by_its_name(tmp_path):
    """Whatever is discovered first: a box in the hall is no vehicle."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers.inputs import DriverPlace, find_source

    def found(driver, ours, place, **types):
        topics = [topic for topic in driver.topics if topic.ours == ours]
        there = {name: [kind] for name, kind in types.items()}
        return find_source(driver, topics, there, place, [])

    mocap, pose = load_driver("mocap"), "external/pose_stamped"
    stamped, odometry = "geometry_msgs/msg/PoseStamped", "nav_msgs/msg/Odometry"
    quad = DriverPlace("/quad", "", True)
    assert found(mocap, pose, quad, **{"/vrpn_mocap/box/pose": stamped}) is None
    its = found(
        mocap, pose, quad, **{"/vrpn_mocap/box/pose": stamped, "/vrpn_mocap/quad/pose": stamped}
    )
    assert (its.full, its.certain) == ("/vrpn_mocap/quad/pose", True)
    # of the second name: the first may still come
    its = found(mocap, pose, quad, **{"/mocap/pose": stamped})
    assert (its.full, its.certain) == ("/mocap/pose", False)
    # a namespace that is the vehicle's own holds no other's poses, or they are named as ambiguous
    its = found(mocap, pose, quad, **{"/quad/mocap/rigid/pose": stamped})
    assert (its.full, its.certain) == ("/quad/mocap/rigid/pose", False)
    truth = {"/model/x500_0/odometry": odometry}
    assert found(load_driver("gazebo"), "ground_truth/odom", quad, **truth) is None
    # a version behind a name is none of a vehicle
    versions = {"/fmu/out/vehicle_odometry_v1": "px4_msgs/msg/VehicleOdometry"}
    its = found(load_driver("px4"), "odometry/autopilot", quad, **versions)
    assert (its.full, its.certain) == ("/fmu/out/vehicle_odometry_v1", False)
    # the first range finder that is heard need not be the one that looks down
    ranges = {"/mavros/distance_sensor/forward": "sensor_msgs/msg/Range"}
    mavros = load_driver("mavros")
    assert not found(mavros, "range/down", quad, **ranges).certain
    ranges = dict.fromkeys((*ranges, "/mavros/distance_sensor/hrlv_ez4_pub"), *ranges.values())
    its = found(mavros, "range/down", quad, **ranges)
    assert (its.full, its.certain) == ("/mavros/distance_sensor/hrlv_ez4_pub", True)


def test_a_definition_comes_from_the_installed_class(monkeypatch):
    """As rosidl's classes describe themselves; rosbags reads the same fields from the text."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import inputs as driver_inputs

    fields = {"timestamp": "uint64", "gyro_rad": "float[3]", "big": "double", "ok": "boolean"}
    made = SimpleNamespace(get_fields_and_field_types=lambda: fields)
    monkeypatch.setattr(driver_inputs, "message_class", lambda _: made)
    types = driver_inputs.defined_by_class("px4_msgs/msg/Any")
    definition, _ = types.generate_msgdef("px4_msgs/msg/Any", ros_version=2)
    assert definition.splitlines() == [
        "uint64 timestamp", "float32[3] gyro_rad", "float64 big", "bool ok"
    ]  # fmt: skip


# -- PX4 live, by stand-ins of the classes of px4_msgs, which the wheels lack


#: Fields that State of mavros_msgs has, and VehicleStatus of px4_msgs 1.16 and 1.13 begins with.
MODES = {
    "State": "std_msgs/Header header\nbool connected\nbool armed\nbool guided\nbool manual_input\n"
    "string mode\nuint8 system_status",
    "1.16": "uint64 timestamp\nuint64 armed_time\nuint64 takeoff_time\nuint8 arming_state\n"
    "uint8 latest_arming_reason\nuint8 latest_disarming_reason\nuint64 nav_state_timestamp\n"
    "uint8 nav_state_user_intention\nuint8 nav_state\nuint32 valid_nav_states_mask",
    "1.13": "uint64 timestamp\nuint8 nav_state\nuint64 nav_state_timestamp\nuint8 arming_state",
}


def fields_of(text: str) -> dict[str, str]:
    """Field to type of a definition, as a message class has them."""
    return {name: kind for kind, name in map(str.split, text.splitlines())}


class Px4Class:
    """As rosidl makes a message class: fields, and what they are."""

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    def get_fields_and_field_types(self) -> dict[str, str]:
        return self._fields

    def __call__(self) -> SimpleNamespace:
        return SimpleNamespace(**dict.fromkeys(self._fields, 0))


def test_px4s_messages_are_read_by_the_installed_definition(monkeypatch):
    """One more field in front than any release has had: bytes by rosbags, layout by the class."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import inputs as driver_inputs

    text = "uint64 timestamp\nuint8 new\nfloat32[3] magnetometer_ga\nuint64 timestamp_sample"
    kind = "px4_msgs/msg/VehicleMagnetometer"
    types = get_typestore(Stores.EMPTY)
    types.register(get_types_from_msg(text, kind))
    field = np.array([0.2, -0.1, 0.4], np.float32)  # gauss; forward, right, down
    message = types.types[kind](
        timestamp=9_000, new=1, magnetometer_ga=field, timestamp_sample=5_000
    )
    payload = bytes(types.serialize_cdr(message, kind))
    made = Px4Class(
        timestamp="uint64", new="uint8", magnetometer_ga="float[3]", timestamp_sample="uint64"
    )
    monkeypatch.setattr(driver_inputs, "message_class", lambda _: made)
    (topic,) = (t for t in load_driver("px4").topics if t.ours == "imu/mag")
    ours = driver_inputs.converter(topic, "quad2/")(payload)
    read = get_typestore(Stores.ROS2_KILTED).deserialize_cdr(ours, topic.our_type)
    assert read.header.frame_id == "quad2/imu_link"
    assert (read.header.stamp.sec, read.header.stamp.nanosec) == (0, 5_000_000)
    found = [getattr(read.magnetic_field, axis) for axis in "xyz"]
    np.testing.assert_allclose(found, 1e-4 * field * [1, -1, -1], rtol=1e-7)


SETPOINT = {
    "timestamp": "uint64", "position": "float[3]", "velocity": "float[3]",
    "acceleration": "float[3]", "jerk": "float[3]", "yaw": "float", "yawspeed": "float",
}  # fmt: skip


def px4_classes(setpoint, **others):
    """The classes that the driver's commands need."""
    mode = Px4Class(timestamp="uint64", velocity="boolean")
    return {
        "px4_msgs/msg/OffboardControlMode": mode,
        "px4_msgs/msg/TrajectorySetpoint": Px4Class(**setpoint),
        **others,
    }


@pytest.mark.parametrize(
    ("driver", "kind", "release", "fields", "inside"),
    [
        ("mavros", "State", "State", {"mode": "OFFBOARD"}, True),
        ("mavros", "State", "State", {"mode": "GUIDED"}, True),
        ("mavros", "State", "State", {"mode": "POSCTL"}, False),
        ("mavros", "State", "State", {"mode": "AUTO.LAND"}, False),
        ("px4", "VehicleStatus", "1.16", {"nav_state": 14}, True),
        ("px4", "VehicleStatus", "1.16", {"nav_state": 2}, False),
        ("px4", "VehicleStatus", "1.13", {"nav_state": 14}, True),
    ],
)
@pytest.mark.parametrize("frame", ["", "m", "map"])
def test_the_mode_says_whether_setpoints_are_obeyed(
    monkeypatch, driver, kind, release, fields, inside, frame
):
    """Bytes by rosbags."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import inputs as driver_inputs

    types = get_typestore(Stores.ROS2_KILTED)
    (topic,) = (t for t in load_driver(driver).topics if t.ours == "vehicle/offboard_state")
    name = f"{driver}_msgs/msg/{kind}"
    assert (topic.type, topic.our_type) == (name, "std_msgs/msg/Bool")
    definition = MODES[release]
    types.register(get_types_from_msg(definition, name))
    given = dict.fromkeys((field for field, _ in types.get_msgdef(name).fields), 1) | fields
    if "header" in given:
        made = types.types
        stamp = made["builtin_interfaces/msg/Time"](sec=7, nanosec=8)
        given["header"] = made["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)
    payload = bytes(types.serialize_cdr(types.types[name](**given), name))
    monkeypatch.setattr(driver_inputs, "message_class", lambda _: Px4Class(**fields_of(definition)))
    ours = driver_inputs.converter(topic, "")(payload)
    assert types.deserialize_cdr(ours, "std_msgs/msg/Bool").data is inside
    with pytest.raises(ValueError, match=r"bytes|no mavros_msgs/msg/State"):
        driver_inputs.converter(topic, "")(payload[:12])


def outputs_node():
    """A node whose commands come from the guard alone."""
    node = MagicMock()
    node.get_namespace.return_value = "/quad"
    node.get_clock().now().nanoseconds = 0
    node.count_publishers.return_value = 1
    guard = SimpleNamespace(node_name="guard", node_namespace="/quad")
    node.get_publishers_info_by_topic.return_value = [guard]
    return node


def test_a_velocity_reaches_px4(monkeypatch):
    """Both topics of the offboard interface, under the vehicle's namespace."""
    pytest.importorskip("rclpy")
    from geometry_msgs.msg import TwistStamped

    from quadsim.ros.drivers import outlet as driver_outlet
    from quadsim.ros.drivers import outputs as driver_outputs
    from quadsim.ros.drivers import services as driver_services

    classes = px4_classes(SETPOINT, **{"px4_msgs/srv/VehicleCommand": object})
    for where in (driver_outputs, driver_services, driver_outlet):
        monkeypatch.setattr(where, "message_class", classes.__getitem__)
    for where in (driver_outputs, driver_services):
        monkeypatch.setattr(where, "is_installed", lambda _: True)
        monkeypatch.setattr(where, "lost", lambda _: iter(()))
    sent: dict[str, list[SimpleNamespace]] = {}
    node = outputs_node()
    node.create_publisher = lambda kind, name, *_, **__: SimpleNamespace(
        publish=sent.setdefault(name, []).append
    )
    driver_outputs.Outputs(node, [load_driver("px4")], "/px4_1")
    ((_, _, on_command, _), _) = node.create_subscription.call_args
    message = TwistStamped()
    message.header.frame_id, message.header.stamp.nanosec = "map", 8_000
    message.twist.linear.x, message.twist.angular.z = 2.0, 0.25
    began_us = time.time_ns() // 1000
    on_command(message)
    (mode,) = sent["/px4_1/fmu/in/offboard_control_mode"]
    (setpoint,) = sent["/px4_1/fmu/in/trajectory_setpoint"]
    # by this computer's clock, with which PX4 is synchronised, whatever the pose's stamp is
    assert began_us <= mode.timestamp <= time.time_ns() // 1000
    assert (setpoint.timestamp, mode.velocity) == (mode.timestamp, True)
    assert (setpoint.velocity, setpoint.yawspeed) == ([0.0, 2.0, 0.0], -0.25)
    (client, *_) = (call.args[1] for call in node.create_client.call_args_list)
    assert client == "/px4_1/fmu/vehicle_command"


def test_px4_without_services_takes_commands(monkeypatch):
    """px4_msgs 1.14 has no folder srv."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import outputs as driver_outputs
    from quadsim.ros.runtime import topics

    package = ModuleType("px4_msgs")
    package.__path__ = []
    messages = ModuleType("px4_msgs.msg")
    for type_name, made in px4_classes(SETPOINT).items():
        setattr(messages, type_name.rpartition("/")[2], made)
    monkeypatch.setitem(sys.modules, "px4_msgs", package)
    monkeypatch.setitem(sys.modules, "px4_msgs.msg", messages)
    says = "px4_msgs as it is installed here has no srv/VehicleCommand"
    with pytest.raises(ImportError, match=f"^{says}$"):
        topics.message_class("px4_msgs/srv/VehicleCommand")
    driver_outputs.check_commands([load_driver("px4")])
    node = outputs_node()
    outputs = driver_outputs.Outputs(node, [load_driver("px4")], "")
    assert node.create_publisher.call_count == 2
    node.get_logger().error.assert_called_once_with(f"{says}, so the vehicle cannot be asked")
    answer = SimpleNamespace()
    with pytest.raises(StopIteration):  # a coroutine that has nothing to wait for
        service_of(node, "vehicle/land")(None, answer).send(None)
    assert outputs.services.land() == f"{says}, so the vehicle cannot be asked"
    assert (answer.success, answer.message) == (False, f"{says}, so the vehicle cannot be asked")


def service_of(node, name):
    """The coroutine that a service of a node is."""
    return next(c.args[2] for c in node.create_service.call_args_list if c.args[1] == name)


def test_px4_whose_setpoints_are_others_is_refused(monkeypatch):
    """Of 1.13: x, y, z, vx, vy, vz, and no position."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import outputs as driver_outputs

    old = dict.fromkeys(("x", "y", "z", "yaw", "yawspeed", "vx", "vy", "vz"), "float")
    classes = px4_classes({"timestamp": "uint64", **old})
    monkeypatch.setattr(driver_outputs, "message_class", classes.__getitem__)
    monkeypatch.setattr(driver_outputs, "is_installed", lambda _: True)
    says = "px4_msgs/msg/TrajectorySetpoint as it is installed here cannot carry command_velocity"
    with pytest.raises(InputError, match=says) as caught:
        driver_outputs.check_commands([load_driver("px4")])
    assert "'position'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_commands_follow_px4_to_another_version_of_a_name(monkeypatch):
    """PX4 has raised a MESSAGE_VERSION: nobody listens to the name without one."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import outlet as driver_outlet

    monkeypatch.setattr(driver_outlet, "message_class", px4_classes(SETPOINT).__getitem__)
    (said,) = (c for c in load_driver("px4").commands if c.name == "in/trajectory_setpoint")
    node, listening = outputs_node(), {"/fmu/in/trajectory_setpoint_v1": 1}
    node.count_subscribers = lambda name: listening.get(name, 0)
    node.get_topic_names_and_types.return_value = [
        ("/fmu/in/trajectory_setpoint_status", [said.type]),
        ("/other/in/trajectory_setpoint_v1", [said.type]),
        ("/fmu/in/trajectory_setpoint_v1", [said.type]),
    ]
    node.get_publishers_info_by_topic.return_value = []
    outlet = driver_outlet.Outlet(node, said, "/fmu/in/trajectory_setpoint")
    assert outlet.look() == ""
    assert outlet.name == "/fmu/in/trajectory_setpoint_v1"
    listening.clear()
    assert outlet.look().startswith("nobody listens to /fmu/in/trajectory_setpoint_v1")


def test_an_answer_that_does_not_come_is_forgotten(monkeypatch):
    """Its future would stay with the client for good."""
    pytest.importorskip("rclpy")
    from rclpy.task import Future

    from quadsim.ros.drivers import outputs as driver_outputs
    from quadsim.ros.drivers import services as driver_services

    node, client, asked = outputs_node(), MagicMock(), Future()
    client.call_async.return_value = asked
    node.create_client.return_value = client
    client.srv_type.Request = SimpleNamespace
    driver_outputs.Outputs(node, [load_driver("sim")], "/rover")
    answer = SimpleNamespace()
    waiting = service_of(node, "vehicle/land")(None, answer)
    waiting.send(None)
    client.remove_pending_request.assert_not_called()
    ((period_s, expire), _) = node.wall_timer.call_args
    assert period_s == driver_services.ANSWER_S
    expire()
    with pytest.raises(StopIteration):
        waiting.send(None)
    client.remove_pending_request.assert_called_once_with(asked)
    assert (answer.success, answer.message) == (
        False, "/rover/land has not answered within 3 s"
    )  # fmt: skip


# ---- attitudes and rates -----------------------------------------------------------------------

#: Nose 0.2 rad up (pitch is left about left), 0.5 rad/s to the left, a tenth more than weight.
THRUST = ThrustCommand(
    77_000_000_000, 1_700_000_000_123_456_789, from_euler(0.1, -0.2, 0.3), (0.4, -0.3, 0.5),
    1.1 * 9.80665,
)  # fmt: skip


def test_an_attitude_becomes_px4s_in_ned_and_frd():
    """Roll stays, pitch changes its sign, and north is 90 degrees less than east's heading."""
    mode, setpoint = (
        sent_as(command, THRUST)
        for command in load_driver("px4").commands_of("command_attitude/safe")
    )
    assert mode == {"timestamp": 1_700_000_000_123_456, "attitude": True}
    roll, pitch, yaw = to_euler(tuple(setpoint["q_d"]))
    assert (roll, pitch, yaw) == pytest.approx((0.1, 0.2, 0.5 * math.pi - 0.3))
    assert setpoint["yaw_sp_move_rate"] == -0.5
    assert setpoint["thrust_body"] == pytest.approx([0.0, 0.0, -0.55])  # half hovers


def test_rates_become_px4s_in_frd():
    mode, setpoint = (
        sent_as(command, THRUST) for command in load_driver("px4").commands_of("command_rates/safe")
    )
    assert mode["body_rate"] is True
    assert [setpoint[name] for name in ("roll", "pitch", "yaw")] == [0.4, 0.3, -0.5]
    assert setpoint["thrust_body"][2] == pytest.approx(-0.55)


def test_mavros_gets_attitude_or_rates_as_they_are_with_the_rest_masked():
    driver = load_driver("mavros")
    (attitude,), (rates,) = (
        driver.commands_of(f"command_{kind}/safe") for kind in ("attitude", "rates")
    )
    said = sent_as(attitude, THRUST)
    w, x, y, z = THRUST.q_WB
    assert said["orientation"] == [x, y, z, w]
    assert said["type_mask"] == 0  # ArduPilot stops where one rate alone is masked
    assert said["thrust"] == pytest.approx(0.55)
    said = sent_as(rates, THRUST)
    assert said["type_mask"] == 128  # IGNORE_ATTITUDE
    assert said["body_rate"] == [0.4, -0.3, 0.5]


@pytest.mark.parametrize(("thrust", "throttle"), [(0.0, 0.0), (9.80665, 0.5), (30.0, 1.0)])
def test_thrust_is_proportional_through_what_hovers_and_at_most_one(thrust, throttle):
    (attitude,) = load_driver("mavros").commands_of("command_attitude/safe")
    said = sent_as(attitude, replace(THRUST, thrust_mps2=thrust))
    assert said["thrust"] == pytest.approx(throttle)
