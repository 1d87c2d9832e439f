"""Vehicles as SDF and URDF: read back by other means, they have the figures of our files."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world, known, share_dir
from quadsim.base.parameters import load
from quadsim.cli.main import main
from quadsim.gazebo.inertia import SLOWDOWN
from quadsim.gazebo.sdf import model_sdf
from quadsim.gazebo.sensors import CameraParams
from quadsim.gazebo.urdf import robot_description
from quadsim.gazebo.worlds import for_gazebo
from quadsim.lab.vehicle_import.vehicle_file import read_figures
from quadsim.sensors.devices import load_suite
from quadsim.vehicle.contact.hull import hull_points
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.scene.obstacles import Pose

MULTIROTORS = [
    name
    for name in known("vehicles")
    if load(VehicleParams, find("vehicles", name)).kind == "multirotor"
]


@cache
def vehicle_of(name: str) -> VehicleParams:
    return load(VehicleParams, find("vehicles", name))


suite_of = cache(load_suite)


def model_of(name: str, sensors: str = "default", **options) -> ET.Element:
    text = model_sdf(vehicle_of(name), suite_of(sensors), **options)
    return ET.fromstring(text).find("model")


def numbers(element: ET.Element, path: str, count: int = 1) -> np.ndarray:
    found = element.find(path)
    text = "" if found is None else found.text
    return np.array([float(word) for word in text.split()]) if text else np.zeros(count)


def inertia_of(link: ET.Element) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia about it of an SDF link, both in the model's axes."""
    mass = numbers(link, "inertial/mass")[0]
    center = (numbers(link, "pose", 6) + numbers(link, "inertial/pose", 6))[:3]
    xx, xy, xz, yy, yz, zz = (
        numbers(link, f"inertial/inertia/i{axes}")[0]
        for axes in ("xx", "xy", "xz", "yy", "yz", "zz")
    )
    return mass, center, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


@pytest.mark.parametrize("name", MULTIROTORS)
def test_the_links_together_are_the_vehicle(name):
    """Mass, centre of mass in the origin, inertia (parallel axes, written out for points)."""
    params = vehicle_of(name)
    parts = [inertia_of(link) for link in model_of(name).findall("link")]
    assert len(parts) == 1 + len(params.rotor_directions)
    masses = np.array([mass for mass, _, _ in parts])
    centers = np.array([center for _, center, _ in parts])
    # nine digits are written
    assert masses.sum() == pytest.approx(params.mass_kg, rel=1e-8)
    size = np.abs(params.rotor_positions_B_m).max()
    assert masses @ centers / masses.sum() == pytest.approx(np.zeros(3), abs=1e-8 * size)
    whole = np.zeros((3, 3))
    for mass, center, inertia in parts:
        x, y, z = center
        far = [[y * y + z * z, -x * y, -x * z], [-x * y, x * x + z * z, -y * z]]
        whole += inertia + mass * np.array([*far, [-x * z, -y * z, x * x + y * y]])
    largest = max(params.inertia_kg_m2)
    # a body as flat as can be is made thicker by 2e-8, see models/inertia.py
    assert whole == pytest.approx(np.diag(params.inertia_kg_m2), abs=1e-7 * largest)


@pytest.mark.parametrize("name", MULTIROTORS)
def test_every_link_could_be_built(name):
    """Moments are positive and no two make less than the third: what any body keeps."""
    for link in model_of(name).findall("link"):
        mass, _, inertia = inertia_of(link)
        small, middle, large = np.linalg.eigvalsh(inertia)
        assert mass > 0.0
        assert small > 0.0
        assert small + middle >= large


def test_tilted_rotors_and_products_of_inertia_come_back(tmp_path):
    """Written for Gazebo and read by what imports its files: the figures of our file."""
    params = replace(
        vehicle_of("x500"),
        rotor_axes_B=((-0.2, 0.1, 1.0), (0.3, -0.1, 1.0), (0.1, 0.3, 1.0), (0.0, 0.0, 1.0)),
        inertia_products_kg_m2=(0.004, -0.002, 0.0015),
    )
    path = tmp_path / "model.sdf"
    path.write_text(model_sdf(params, suite_of("default")), encoding="utf-8")
    found = read_figures(path).values
    np.testing.assert_allclose(found["rotor_axes_B"], params.rotor_axes_B, atol=1e-8)
    np.testing.assert_allclose(found["rotor_positions_B_m"], params.rotor_positions_B_m, atol=1e-8)
    np.testing.assert_allclose(found["inertia_kg_m2"], params.inertia_kg_m2, atol=1e-8)
    products = found["inertia_products_kg_m2"]
    np.testing.assert_allclose(products, params.inertia_products_kg_m2, atol=1e-8)
    urdf = ET.fromstring(robot_description(params, {})).find("link/inertial/inertia")
    assert [float(urdf.get(key)) for key in ("ixy", "ixz", "iyz")] == [0.004, -0.002, 0.0015]


def test_rotors_on_slow_joints_keep_their_angular_momentum():
    """At the joint's tenth of the speed, ten times the inertia: I w, as in our equations."""
    params, model = vehicle_of("x500"), model_of("x500")
    slow = float(model.find("plugin/rotorVelocitySlowdownSim").text)
    assert slow == SLOWDOWN
    for link in model.findall("link")[1:]:
        _, _, inertia = inertia_of(link)
        assert inertia[2, 2] / slow == pytest.approx(params.rotor.inertia_kg_m2, rel=1e-8)
        assert inertia[0, 0] == inertia[1, 1]  # else the rotor would shake the body


@pytest.mark.parametrize("name", MULTIROTORS)
def test_thrust_and_torque_of_the_motors_are_ours(name):
    """Gazebo's equations of MulticopterMotorModel, with the figures of the file.

    thrust = motorConstant w^2 up the rotor's z; torque on the body = -direction thrust
    momentConstant. Summed over the rotors at the places of their links they are the wrench of our
    file's figures.
    """
    params, model = vehicle_of(name), model_of(name)
    speeds = np.linspace(0.4, 0.9, len(params.rotor_directions)) * params.rotor_speed_max_radps
    force, torque = 0.0, np.zeros(3)
    motors = [p for p in model.findall("plugin") if p.find("jointName") is not None]
    assert [int(motor.find("actuator_number").text) for motor in motors] == list(range(len(speeds)))
    for motor in motors:
        i = int(motor.find("actuator_number").text)
        joint = next(
            j for j in model.findall("joint") if j.get("name") == motor.find("jointName").text
        )
        assert joint.find("child").text == motor.find("linkName").text
        assert joint.find("axis/xyz").text == "0 0 1"
        (link,) = model.findall(f"link[@name='{joint.find('child').text}']")
        turning = {"ccw": 1.0, "cw": -1.0}[motor.find("turningDirection").text]
        thrust = numbers(motor, "motorConstant")[0] * speeds[i] ** 2
        force += thrust
        torque += np.cross(numbers(link, "pose", 6)[:3], [0.0, 0.0, thrust])
        torque[2] -= turning * thrust * numbers(motor, "momentConstant")[0]
        assert numbers(motor, "maxRotVelocity")[0] == pytest.approx(params.rotor_speed_max_radps)
        assert numbers(motor, "timeConstantUp")[0] == pytest.approx(params.time_constant_up_s)
        assert numbers(motor, "timeConstantDown")[0] == pytest.approx(params.time_constant_down_s)
        # of all drag in the disc: Gazebo has no flapping
        drag = params.rotor_drag_N_s2
        drag += params.thrust_coefficient_N_s2 * params.rotor.flapping_rad / params.rotor.radius_m
        assert numbers(motor, "rotorDragCoefficient")[0] == pytest.approx(drag)
        assert numbers(motor, "rollingMomentCoefficient")[0] == pytest.approx(
            params.rolling_moment_N_s2
        )
    lift = params.thrust_coefficient_N_s2 * speeds**2
    hubs, turn = np.array(params.rotor_positions_B_m), np.array(params.rotor_directions)
    ours = [lift @ hubs[:, 1], -lift @ hubs[:, 0], -params.torque_ratio_m * lift @ turn]
    assert force == pytest.approx(lift.sum(), rel=1e-8)
    assert torque == pytest.approx(ours, rel=1e-7, abs=1e-8 * lift.sum() * np.abs(hubs).max())


def test_the_x500_is_that_of_px4():
    """PX4-gazebo-models, x500_base and x500 at 5577035: what our file was taken from."""
    motor = model_of("x500").find("plugin")
    published = {
        "timeConstantUp": 0.0125,
        "timeConstantDown": 0.025,
        "maxRotVelocity": 1000.0,
        "motorConstant": 8.54858e-06,
        "momentConstant": 0.016,
        "rotorDragCoefficient": 8.06428e-05,
        "rollingMomentCoefficient": 1e-06,
        "rotorVelocitySlowdownSim": 10,
    }
    assert {key: float(motor.find(key).text) for key in published} == published
    assert motor.find("turningDirection").text == "ccw"
    assert motor.get("filename") == "gz-sim-multicopter-motor-model-system"
    assert motor.get("name") == "gz::sim::systems::MulticopterMotorModel"


@pytest.mark.parametrize("name", MULTIROTORS)
def test_it_touches_where_ours_does(name):
    """Feet end at the file's points; nothing reaches beyond feet and hull by more than 5 %."""
    params, link = vehicle_of(name), model_of(name).find("link")
    lowest, reach, top = math.inf, 0.0, -math.inf
    for part in link.findall("collision"):
        x, y, z = numbers(part, "pose", 6)[:3]
        shape = part.find("geometry")[0]
        if shape.tag == "box":
            wide, deep, high = numbers(shape, "size")
            half, out = 0.5 * high, 0.5 * math.hypot(wide, deep)
        else:
            out = numbers(shape, "radius")[0]
            half = out if shape.tag == "sphere" else 0.5 * numbers(shape, "length")[0]
        lowest, top = min(lowest, z - half), max(top, z + half)
        reach = max(reach, math.hypot(x, y) + out)
    feet = np.array(params.contact.points_B_m)
    hull = np.array(hull_points(params.rotor_positions_B_m, params.rotor.radius_m))
    points = np.vstack([feet, hull])
    assert lowest == pytest.approx(feet[:, 2].min(), abs=1e-9)
    assert top == pytest.approx(hull[:, 2].max(), abs=1e-9)
    assert reach <= 1.05 * np.linalg.norm(points[:, :2], axis=1).max()
    model = model_of(name, ground_W=Pose((3.0, -2.0, 1.5)))
    assert numbers(model, "pose") == pytest.approx([3.0, -2.0, 1.5 - lowest, 0, 0, 0], abs=1e-8)


def test_sensors_sit_where_they_sit_and_tell_what_ours_tell():
    model = model_of("x500", "lidar", camera=CameraParams(), namespace="/quad2/", prefix="quad2/")
    assert model.get("name") == "quad2"
    found = {
        sensor.get("name"): (
            sensor.get("type"),
            sensor.find("topic").text,
            sensor.find("gz_frame_id").text,
            numbers(sensor, "update_rate")[0],
        )
        for sensor in model.find("link").findall("sensor")
    }
    assert found == {
        "imu": ("imu", "quad2/imu/data_raw", "quad2/imu_link", 500.0),
        "gnss": ("navsat", "quad2/gps/fix", "quad2/gps_link", 10.0),
        "magnetometer": ("magnetometer", "quad2/imu/mag", "quad2/imu_link", 100.0),
        "barometer": ("air_pressure", "quad2/imu/static_pressure", "quad2/base_link", 50.0),
        "rangefinder": ("gpu_lidar", "quad2/range/down", "quad2/range_link", 50.0),
        "lidar": ("gpu_lidar", "quad2/scan", "quad2/lidar_link", 40.0),
        "camera": ("camera", "quad2/camera/image", "quad2/camera_link", 30.0),
    }
    sensors = {sensor.get("name"): sensor for sensor in model.find("link").findall("sensor")}
    assert numbers(sensors["lidar"], "pose") == pytest.approx([0, 0, 0.08, 0, 0, 0])
    # down is where its x axis looks
    pose = numbers(sensors["rangefinder"], "pose")
    beam = Rotation.from_euler("xyz", pose[3:]).apply([1.0, 0.0, 0.0])
    assert beam == pytest.approx([0.0, 0.0, -1.0], abs=1e-8)
    horizontal = sensors["lidar"].find("lidar/scan/horizontal")
    assert int(horizontal.find("samples").text) == 1081
    assert numbers(horizontal, "max_angle")[0] == pytest.approx(math.radians(135.0))
    odometry = model.findall("plugin")[-1]
    assert odometry.find("odom_topic").text == "quad2/ground_truth/odom"
    assert odometry.find("robot_base_frame").text == "quad2/base_link"
    assert float(odometry.find("odom_publish_frequency").text) == 500.0


def test_a_vehicle_that_others_move_has_eyes_alone():
    model = model_of("x500", "lidar", camera=CameraParams(), view=True)
    assert model.find("static").text == "true"
    assert model.find("plugin") is None
    assert {s.get("name") for s in model.iter("sensor")} == {"lidar", "camera"}
    assert model_of("x500").find("static").text == "false"


def test_fortress_has_its_own_names():
    model = model_of("x500", fortress=True)
    plugins = {(p.get("filename"), p.get("name")) for p in model.findall("plugin")}
    system, place = "ignition-gazebo-{}-system", "ignition::gazebo::systems::{}"
    assert plugins == {
        (system.format("multicopter-motor-model"), place.format("MulticopterMotorModel")),
        (system.format("odometry-publisher"), place.format("OdometryPublisher")),
    }
    numbered = [p.find("motorNumber").text for p in model.findall("plugin")[:4]]
    assert numbered == ["0", "1", "2", "3"]
    assert model.find("plugin/actuator_number") is None
    assert model.find("link/sensor/ignition_frame_id").text == "imu_link"
    assert model.find("link/sensor/gz_frame_id") is None


@pytest.mark.parametrize(
    ("folder", "sensors", "camera"), [("x500", "default", False), ("x500_lidar", "lidar", True)]
)
def test_the_models_that_come_along_are_what_is_generated(folder, sensors, camera):
    """``quadsim model sdf --output worlds/models/...`` after a change of figures."""
    text = (share_dir() / "worlds/models" / folder / "model.sdf").read_text(encoding="utf-8")
    made = model_of("x500", sensors, camera=CameraParams() if camera else None)
    assert (
        ET.canonicalize(text, strip_text=True).partition("<model ")[2]
        == ET.canonicalize(ET.tostring(made, encoding="unicode"), strip_text=True).partition(
            "<model "
        )[2]
        + "</sdf>"
    )


def test_the_command_writes_what_the_functions_make(tmp_path):
    """Printed, or into a file; a world from anywhere; bad input is one line and status 2."""

    def run(*arguments: str):
        return CliRunner().invoke(main, ["model", *arguments])

    path = tmp_path / "model.sdf"
    options = ["--vehicle", "iris", "--sensors", "lidar", "--name", "quad2", "--prefix", "quad2/"]
    assert run("sdf", *options, "--camera", "--fortress", "--output", str(path)).exit_code == 0
    made = model_sdf(
        vehicle_of("iris"), suite_of("lidar"), "quad2",
        prefix="quad2/", camera=CameraParams(), fortress=True,
    )  # fmt: skip
    assert path.read_text().partition("<sdf")[2] == made.partition("<sdf")[2]
    printed = run("urdf", "--vehicle", "iris", "--prefix", "quad2/").stdout
    assert printed == robot_description(vehicle_of("iris"), suite_of("default"), "quad2/")
    assert run("world", "hills").stdout == for_gazebo(find_world("hills"))
    for arguments, word in (
        (("sdf", "--vehicle", "nothing"), "nothing"),
        (("sdf", "--output", str(tmp_path / "no" / "file")), "cannot be written"),
        (("world", "nowhere"), "unknown world"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == 2
        assert word in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "options", "word"),
    [
        ({}, {"namespace": "a b"}, "topics begin with it"),
        ({"rotor": {"inertia_kg_m2": 0.01, "radius_m": 0.05}}, {}, "weigh more"),
        ({"rotor": {"inertia_kg_m2": 1e-3, "radius_m": 0.1}}, {}, "no body has"),
    ],
)
def test_what_gazebo_cannot_fly_is_refused(change, options, word):
    params = vehicle_of("x500")
    for key, values in change.items():
        params = replace(params, **{key: replace(getattr(params, key), **values)})
    with pytest.raises(InputError, match=word):
        model_sdf(params, suite_of("default"), **options)


def test_a_helicopter_has_no_model_but_a_description():
    params = vehicle_of("thesis_helicopter")
    with pytest.raises(InputError, match="no rotors"):
        model_sdf(params, suite_of("default"))
    assert ET.fromstring(robot_description(params, {})).find("link/visual") is not None


@pytest.mark.parametrize("name", known("vehicles"))
@pytest.mark.parametrize("prefix", ["", "quad2/"])
def test_the_description_is_a_tree_of_links_with_the_figures_of_the_file(name, prefix):
    params, suite = vehicle_of(name), suite_of("lidar")
    robot = ET.fromstring(robot_description(params, suite, prefix))
    links = [link.get("name") for link in robot.findall("link")]
    frames = ["base_link", "imu_link", "gps_link", "range_link", "lidar_link"]
    assert links == [prefix + frame for frame in frames]
    for joint in robot.findall("joint"):
        assert joint.get("type") == "fixed"
        assert joint.find("parent").get("link") == f"{prefix}base_link"
    assert [j.find("child").get("link") for j in robot.findall("joint")] == links[1:]
    inertial = robot.find("link/inertial")
    assert float(inertial.find("mass").get("value")) == pytest.approx(params.mass_kg, rel=1e-8)
    moments = [float(inertial.find("inertia").get(f"i{a}{a}")) for a in "xyz"]
    assert moments == pytest.approx(params.inertia_kg_m2, rel=1e-8)
    lidar = robot.findall("joint")[3].find("origin")
    assert lidar.get("xyz") == "0 0 0.08"
    names = [v.get("name") for v in robot.findall("link/visual")]
    assert len(set(names)) == len(names)
    discs = [v for v in robot.findall("link/visual") if v.get("name").startswith("disc_")]
    assert len(discs) == len(params.rotor_directions)


def test_arms_lead_from_the_middle_to_the_hubs():
    """Seen from above, the far end of each arm is the hub."""
    params = vehicle_of("hexacopter")
    robot = ET.fromstring(robot_description(params, {}))
    arms = [v for v in robot.findall("link/visual") if v.get("name").startswith("arm_")]
    for arm, hub in zip(arms, params.rotor_positions_B_m, strict=True):
        origin = arm.find("origin")
        middle = np.array([float(word) for word in origin.get("xyz").split()])
        angles = [float(word) for word in origin.get("rpy").split()]
        length = float(arm.find("geometry/box").get("size").split()[0])
        half = Rotation.from_euler("xyz", angles).apply([0.5 * length, 0.0, 0.0])
        assert (middle + half)[:2] == pytest.approx(hub[:2], abs=1e-8)
        assert (middle - half)[:2] == pytest.approx([0.0, 0.0], abs=1e-8)
