"""A vehicle as a model of Gazebo (SDF 1.9).

The figures are those of the vehicle's and the devices' files. One link is the body, with its origin
in the centre of mass as our ``base_link``; each rotor is a link on a joint of its own, driven by
Gazebo's MulticopterMotorModel, whose equations are those of RotorS, as ours are
(:mod:`quadsim.vehicle.propulsion.rotors`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element  # to write; base.xml reads

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.gazebo.inertia import SLOWDOWN, Mass, body_mass, rotor_mass
from quadsim.gazebo.sensors import CameraParams, Device, add_sensor
from quadsim.gazebo.shapes import (
    BLADE,
    DARK,
    DISC,
    Color,
    Part,
    height_over_ground_m,
    rotor_pose,
    shape_parts,
)
from quadsim.gazebo.systems import add_system
from quadsim.gazebo.xml import add_child, add_pose, document
from quadsim.geometry.geodesy import Datum
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.scene.obstacles import Box, Plane, Pose, Shape, Sphere

SDF_VERSION = "1.9"

#: Where rotor speeds are taken and the truth is told, in the vehicle's namespace.
MOTOR_TOPIC, ODOMETRY_TOPIC = "command/motor_speed", "ground_truth/odom"

#: How wide a plane is drawn; it has no end.
PLANE_M = 200.0

#: How far a rotor's joint may turn, rad: as far as it likes.
ENDLESS = 1e16

#: What only a picture needs.
DRAWN = ("lidar", "camera")


def add_shape(parent: Element, shape: Shape) -> None:
    """Append ``<geometry>`` of a box, sphere, cylinder or plane.

    Raises:
        InputError: another shape.
    """
    geometry = add_child(parent, "geometry")
    kind = type(shape).__name__.lower()
    if kind == "mesh":
        raise InputError("a mesh has no file of its own any more; allowed: other shapes")
    names = {"size_m": "size", "radius_m": "radius", "length_m": "length", "normal": "normal"}
    values = {names[key]: getattr(shape, key) for key in shape.__dataclass_fields__}
    if isinstance(shape, Plane):
        values["size"] = (PLANE_M, PLANE_M)
    add_child(geometry, kind, values)


def add_material(visual: Element, color: Color) -> None:
    """Append ``<material>`` of one colour."""
    add_child(visual, "material", {"ambient": color, "diffuse": color})


def _add_inertial(link: Element, mass: Mass) -> None:
    inertial = add_child(link, "inertial")
    center: Vec3 = (float(mass.center_m[0]), float(mass.center_m[1]), float(mass.center_m[2]))
    add_pose(inertial, Pose(center))
    add_child(inertial, "mass", mass.mass_kg)
    add_child(inertial, "inertia", inertia_entries(mass))


def inertia_entries(mass: Mass) -> dict[str, float]:
    """The six numbers of an inertia by their names."""
    names = "xyz"
    return {
        f"i{names[i]}{names[j]}": float(mass.inertia_kg_m2[i, j])
        for i in range(3)
        for j in range(i, 3)
    }


def _add_part(link: Element, part: Part, friction: float) -> None:
    if part.touches:
        collision = add_child(link, "collision", name=part.name)
        add_pose(collision, part.pose_B)
        add_shape(collision, part.shape)
        if isinstance(part.shape, Sphere):  # a foot
            grip = {"mu": friction, "mu2": friction}
            add_child(collision, "surface", {"friction": {"ode": grip}})
    if part.seen:
        visual = add_child(link, "visual", name=f"{part.name}_visual")  # names differ within a link
        add_pose(visual, part.pose_B)
        add_shape(visual, part.shape)
        add_material(visual, part.color)


def _add_rotor(model: Element, vehicle: VehicleParams, i: int) -> None:
    """A rotor's link, with its hub as origin, and its joint."""
    link = add_child(model, "link", name=f"rotor_{i}")
    add_pose(link, rotor_pose(vehicle, i))
    _add_inertial(link, rotor_mass(vehicle))
    radius = vehicle.rotor.radius_m
    visual = add_child(link, "visual", name="blade")
    add_shape(visual, Box((2.0 * radius, BLADE * radius, 0.5 * DISC * radius)))
    add_material(visual, DARK)
    joint = add_child(model, "joint", name=f"rotor_{i}_joint", type="revolute")
    limit = {"lower": -ENDLESS, "upper": ENDLESS}
    axis = {"xyz": (0.0, 0.0, 1.0), "limit": limit}
    for tag, content in (("parent", "base_link"), ("child", f"rotor_{i}"), ("axis", axis)):
        add_child(joint, tag, content)


def _add_motor(
    model: Element, vehicle: VehicleParams, i: int, namespace: str, fortress: bool
) -> None:
    settings: dict[str, Any] = {
        "robotNamespace": namespace,
        "jointName": f"rotor_{i}_joint",
        "linkName": f"rotor_{i}",
        "turningDirection": "ccw" if vehicle.rotor_directions[i] > 0.0 else "cw",
        "timeConstantUp": vehicle.time_constant_up_s,
        "timeConstantDown": vehicle.time_constant_down_s,
        "maxRotVelocity": vehicle.rotor_speed_max_radps,
        "motorConstant": vehicle.thrust_coefficient_N_s2,
        "momentConstant": vehicle.torque_ratio_m,
        "commandSubTopic": MOTOR_TOPIC,
        "motorNumber" if fortress else "actuator_number": i,
        "rotorDragCoefficient": vehicle.disc_drag_N_s2,
        "rollingMomentCoefficient": vehicle.rolling_moment_N_s2,
        "rotorVelocitySlowdownSim": SLOWDOWN,
        "motorType": "velocity",
    }
    add_system(model, "multicopter-motor-model", "MulticopterMotorModel", settings, fortress)


def _add_odometry(
    model: Element, rate_hz: float, namespace: str, prefix: str, fortress: bool
) -> None:
    settings = {
        "odom_frame": "map",
        "robot_base_frame": f"{prefix}base_link",
        "dimensions": 3,
        "odom_publish_frequency": rate_hz,
        "odom_topic": f"{namespace}/{ODOMETRY_TOPIC}",
        "odom_covariance_topic": f"{namespace}/{ODOMETRY_TOPIC}_with_covariance",
        "tf_topic": f"{namespace}/pose",
    }
    add_system(model, "odometry-publisher", "OdometryPublisher", settings, fortress)


def vehicle_model(
    vehicle: VehicleParams,
    devices: Mapping[str, Device],
    namespace: str = "quad",
    *,
    prefix: str = "",
    camera: CameraParams | None = None,
    datum: Datum | None = None,
    view: bool = False,
    fortress: bool = False,
    ground_W: Pose | None = None,
) -> Element:
    """The ``<model>`` of :func:`model_sdf`, which a world can hold as well."""
    if not vehicle.rotor_directions:
        raise InputError(f"vehicle {vehicle.name!r}: Gazebo flies multirotors; it has no rotors")
    namespace = namespace.strip("/")
    if not re.fullmatch(r"[A-Za-z]\w*(/\w+)*", namespace, re.ASCII):
        raise InputError(
            f"model {namespace!r}: its topics begin with it; allowed: letters, digits, _ and /"
        )
    rotors = range(len(vehicle.rotor_directions))
    carried: dict[str, Device] = {**devices, **({"camera": camera} if camera else {})}
    if view:
        carried = {kind: params for kind, params in carried.items() if kind in DRAWN}
    model = Element("model", {"name": namespace})
    add_pose(model, (ground_W or Pose()) @ Pose((0.0, 0.0, height_over_ground_m(vehicle))))
    add_child(model, "static", view)
    link = add_child(model, "link", name="base_link")
    _add_inertial(link, body_mass(vehicle))
    for part in shape_parts(vehicle):
        _add_part(link, part, vehicle.contact.friction)
    for kind, params in carried.items():
        add_sensor(link, kind, params, datum or Datum(), namespace, prefix, fortress)
    for i in rotors:
        _add_rotor(model, vehicle, i)
    if view:
        return model
    for i in rotors:
        _add_motor(model, vehicle, i, namespace, fortress)
    rate_hz = devices["imu"].rate_hz if "imu" in devices else 100.0
    _add_odometry(model, rate_hz, namespace, prefix, fortress)
    return model


def model_sdf(
    vehicle: VehicleParams,
    devices: Mapping[str, Device],
    namespace: str = "quad",
    *,
    prefix: str = "",
    camera: CameraParams | None = None,
    datum: Datum | None = None,
    view: bool = False,
    fortress: bool = False,
    ground_W: Pose | None = None,
    comment: str = "",
) -> str:
    """A model file of Gazebo for a vehicle with its devices.

    Topics are ``<namespace>/`` and :data:`quadsim.gazebo.sensors.TOPICS`, :data:`MOTOR_TOPIC` (in)
    and :data:`ODOMETRY_TOPIC`.

    Args:
        vehicle: a multirotor.
        devices: kind to parameters, as of :func:`quadsim.sensors.devices.load_suite`.
        namespace: the model's name, and what its topics begin with.
        prefix: before the names of frames in messages, such as ``quad1/``.
        camera: one, if wanted.
        datum: origin of the world in which it flies; None: the default one.
        view: for a vehicle that somebody else moves: it stands still by itself, and has lidar and
            camera alone.
        fortress: with the names of Gazebo Fortress.
        ground_W: where its feet stand, and which way it looks; None: at the origin, to the east.
        comment: the file's first words.

    Raises:
        InputError: a vehicle without rotors, or with rotors that Gazebo cannot turn.
    """
    model = vehicle_model(
        vehicle,
        devices,
        namespace,
        prefix=prefix,
        camera=camera,
        datum=datum,
        view=view,
        fortress=fortress,
        ground_W=ground_W,
    )
    root = Element("sdf", {"version": SDF_VERSION})
    root.append(model)
    return document(root, comment)
