"""A vehicle as ``robot_description`` (URDF), for RViz and ``robot_state_publisher``."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element  # to write; base.xml reads

import numpy as np

from quadsim.gazebo.inertia import Mass
from quadsim.gazebo.sdf import inertia_entries
from quadsim.gazebo.sensors import Device, sensor_frames
from quadsim.gazebo.shapes import Color, shape_parts
from quadsim.gazebo.xml import add_child, angles_of, document, xml_text
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.scene.obstacles import Box, Cylinder, Pose, Shape, Sphere

#: Edge of the cube that stands for a sensor, m, and its colour.
SENSOR_M = 0.012
SENSOR_COLOR: Color = (0.1, 0.4, 0.7, 1.0)


def _add_origin(parent: Element, pose: Pose) -> None:
    if pose != Pose():
        add_child(parent, "origin", xyz=pose.p_A, rpy=angles_of(pose))


def _add_geometry(parent: Element, shape: Shape) -> None:
    geometry = add_child(parent, "geometry")
    if isinstance(shape, Box):
        add_child(geometry, "box", size=shape.size_m)
    elif isinstance(shape, Cylinder):
        add_child(geometry, "cylinder", radius=shape.radius_m, length=shape.length_m)
    elif isinstance(shape, Sphere):
        add_child(geometry, "sphere", radius=shape.radius_m)


def _add_visual(link: Element, name: str, shape: Shape, pose: Pose, color: Color) -> None:
    visual = add_child(link, "visual", name=name)
    _add_origin(visual, pose)
    _add_geometry(visual, shape)
    material = add_child(visual, "material", name="color " + xml_text(color))
    add_child(material, "color", rgba=color)


def robot_description(
    vehicle: VehicleParams, devices: Mapping[str, Device], prefix: str = ""
) -> str:
    """URDF of a vehicle and the places of its devices.

    One link, ``base_link``, has mass, inertia and all that is seen, rotors as discs; the devices'
    frames are links fixed to it. So the transforms that a graph publishes are all that RViz needs.

    Args:
        vehicle: of any kind.
        devices: kind to parameters, as of :func:`quadsim.sensors.devices.load_suite`.
        prefix: before the names of the links, such as ``quad1/``.
    """
    robot = Element("robot", {"name": f"{prefix.strip('/')}" or "quad"})
    body = add_child(robot, "link", name=f"{prefix}base_link")
    inertial = add_child(body, "inertial")
    add_child(inertial, "mass", value=vehicle.mass_kg)
    whole = Mass(vehicle.mass_kg, np.zeros(3), vehicle.inertia_tensor_kg_m2)
    add_child(inertial, "inertia", **inertia_entries(whole))
    for part in shape_parts(vehicle):
        if part.seen:
            _add_visual(body, part.name, part.shape, part.pose_B, part.color)
        if part.touches:
            collision = add_child(body, "collision", name=part.name)
            _add_origin(collision, part.pose_B)
            _add_geometry(collision, part.shape)
    for frame, pose in sensor_frames(devices).items():
        link = add_child(robot, "link", name=prefix + frame)
        cube = Box((SENSOR_M, SENSOR_M, SENSOR_M))
        _add_visual(link, frame, cube, Pose(), SENSOR_COLOR)
        joint = add_child(robot, "joint", name=f"{prefix}{frame}_joint", type="fixed")
        add_child(joint, "parent", link=f"{prefix}base_link")
        add_child(joint, "child", link=prefix + frame)
        _add_origin(joint, pose)
    return document(robot)
