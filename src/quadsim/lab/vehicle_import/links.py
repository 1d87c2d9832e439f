"""SDF and URDF: the links of a vehicle as one body, its rotors and its sensors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from xml.etree.ElementTree import Element  # the type alone

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.files import read_limited
from quadsim.base.xml import DocumentTypeError, XmlError, parse
from quadsim.gazebo.inertia import shift
from quadsim.geometry.rotation import from_euler
from quadsim.lab.vehicle_import.figures import Figures, Mount
from quadsim.world.scene.obstacles import Pose
from quadsim.world.sdf.values import Place, number_of, numbers_in, pose_of

MAX_BYTES = 10_000_000
#: Depth of models in models.
MAX_DEPTH = 8
#: Elements of a motor's plugin: our key, and what the plugin takes where it is missing.
_MOTOR = {
    "motorConstant": ("thrust_coefficient_N_s2", 8.54858e-06),
    "momentConstant": ("torque_ratio_m", 0.016),
    "maxRotVelocity": ("rotor_speed_max_radps", 838.0),
    "timeConstantUp": ("time_constant_up_s", 1.0 / 80.0),
    "timeConstantDown": ("time_constant_down_s", 1.0 / 40.0),
    "rotorDragCoefficient": ("rotor_drag_N_s2", 1.0e-4),
    "rollingMomentCoefficient": ("rolling_moment_N_s2", 1.0e-6),
}
#: Words in the type of a sensor or the file of its plugin, and our kind.
_SENSORS = {
    "imu": "imu", "navsat": "gnss", "gps": "gnss", "magnet": "magnetometer",
    "air_pressure": "barometer", "baro": "barometer", "ray": "rangefinder", "lidar": "rangefinder",
    "sonar": "rangefinder",
}  # fmt: skip
#: Collision shapes so much above the lowest point are no feet, m.
FOOT_M = 0.02


@dataclass
class Link:
    """A link in the model's frame: pose, inertial, and the points of its collision shapes."""

    pose: Pose
    mass_kg: float = 0.0
    center_m: Array = field(default_factory=lambda: np.zeros(3))
    inertia_kg_m2: Array = field(default_factory=lambda: np.zeros((3, 3)))
    spin_kg_m2: float = 0.0
    radius_m: float = 0.0
    corners_m: list[Array] = field(default_factory=list)


@dataclass
class Body:
    """All links by name, the motors' plugins in order, and sensors: kind, name and place."""

    links: dict[str, Link] = field(default_factory=dict)
    motors: list[Element] = field(default_factory=list)
    sensors: list[tuple[str, str, Array]] = field(default_factory=list)


def read_xml(path: Path) -> Element:
    """Root element of an XML file without a DTD.

    Raises:
        InputError: the file is missing, too large, no XML, holds a DTD or is not expanded yet.
    """
    content = read_limited(path, MAX_BYTES)
    try:
        root = parse(content)
    except DocumentTypeError:
        raise InputError(f"{path}: it declares a document type or entities") from None
    except XmlError as error:
        jinja = "; expand it first, it is a template" if b"{{" in content else ""
        raise InputError(f"{path}: not valid XML ({error}){jinja}") from None
    if any("xacro" in str(element.tag) for element in root.iter()):
        raise InputError(f"{path}: expand it first: xacro {path.name} > {path.stem}.urdf")
    return root


def read_links(path: Path) -> Figures:
    """Figures of a vehicle in an SDF or URDF.

    Raises:
        InputError: it cannot be read, or has no model.
    """
    root, figures, body = read_xml(path), Figures(str(path)), Body()
    if root.tag == "sdf":
        model = next(root.iter("model"), None)
        if model is None:
            raise InputError(f"{path}: no <model> in it")
        _add_sdf(model, Pose(), Place(path).at(model), body, figures, 0)
    elif root.tag == "robot":
        model = root
        _add_urdf(root, Place(path).at(root), body, figures)
    else:
        raise InputError(f"{path}: <{root.tag}>; allowed: <sdf> or <robot>")
    figures.put("name", f"{model.get('name') or path.stem}, from {path.name}", "")
    _put_body(body, figures, Place(path))
    return figures


def _rotation(pose: Pose) -> Array:
    return pose.axes().T


def _moved(pose: Pose, point: Array) -> Array:
    return np.array(pose.p_A) + _rotation(pose) @ point


def _tensor(values: dict[str, float]) -> Array:
    xy, xz, yz = (values.get(key, 0.0) for key in ("ixy", "ixz", "iyz"))
    xx, yy, zz = (values.get(key, 0.0) for key in ("ixx", "iyy", "izz"))
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _weigh(link: Link, mass_kg: float, inertial: Pose, inertia: Array) -> None:
    """Give a link its mass, the inertial frame being in the link's."""
    rotated = _rotation(link.pose @ inertial)
    link.mass_kg = mass_kg
    link.center_m = np.array((link.pose @ inertial).p_A)
    link.inertia_kg_m2 = rotated @ inertia @ rotated.T
    link.spin_kg_m2 = float(inertia[2, 2])


def _add_shape(link: Link, pose: Pose, halves: Array, radius_m: float) -> None:
    """Corners of a shape's box, and the radius of a disc."""
    link.radius_m = max(link.radius_m, radius_m)
    placed = link.pose @ pose
    link.corners_m += [_moved(placed, halves * signs) for signs in product((-1.0, 1.0), repeat=3)]


def _add_sdf(
    model: Element, base: Pose, place: Place, body: Body, figures: Figures, depth: int
) -> None:
    """Links, motors and sensors of a model and those in it.

    Poses are in the model's frame, or in that of the link, joint or frame they name.
    """
    if depth > MAX_DEPTH:
        raise place.error(f"models nest too deep; allowed: {MAX_DEPTH} levels")
    frames = {
        element.get("name", ""): element
        for tag in ("link", "frame", "joint", "model")
        for element in model.findall(tag)
    }

    def pose_in_model(element: Element, before: tuple[str, ...] = ()) -> Pose:
        pose = element.find("pose")
        other = pose.get("relative_to", "") or pose.get("frame", "") if pose is not None else ""
        own = pose_of(element, place.at(element), other)
        default = element.get("attached_to", "") if element.tag == "frame" else ""
        if element.tag == "joint":
            default = (element.findtext("child") or "").strip()
        other = other or default
        if other in ("", "__model__"):
            return own
        if other in body.links and other not in frames and base == Pose():  # of a merged model
            return body.links[other].pose @ own
        if other not in frames or other in before:
            raise place.at(element).error(f"<pose> is in {other!r}, which is not to be found")
        return pose_in_model(frames[other], (*before, other)) @ own

    for element in model.findall("include"):
        uri = (element.findtext("uri") or "").strip()
        found = _find_model(uri, place.file)
        if found is None:
            figures.notes.append(
                f"{uri} is not found, and its mass is not in the vehicle's: put its folder next to"
                " this one, or into GZ_SIM_RESOURCE_PATH"
            )
            continue
        inner = next(read_xml(found).iter("model"), None)
        if inner is None:
            raise place.error(f"<uri> {uri!r}: {found} has no <model>")
        posed = element.find("pose") is not None
        at = pose_in_model(element) if posed else pose_of(inner, Place(found), "")
        _add_sdf(inner, base @ at, Place(found).at(inner), body, figures, depth + 1)
    for element in model.findall("link"):
        inside = place.at(element)
        link = Link(base @ pose_in_model(element))
        inertial = element.find("inertial")
        if inertial is not None:
            moments = inertial.find("inertia")
            _weigh(
                link,
                number_of(inertial, "mass", inside, "0"),
                pose_of(inertial, inside, ""),
                _tensor({m.tag: number_of(moments, m.tag, inside) for m in moments})
                if moments is not None
                else np.zeros((3, 3)),
            )
        if inertial is None or link.mass_kg == 0.0:
            figures.notes.append(f"link {element.get('name')}: without mass, taken as 0 kg")
        for collision in element.findall("collision"):
            _read_shape(link, collision, pose_of(collision, inside, ""), inside)
        for sensor in element.findall("sensor"):
            place_m = np.array((link.pose @ pose_of(sensor, inside, "")).p_A)
            _add_sensor(body, sensor.get("type", ""), sensor.get("name", ""), place_m)
        body.links[element.get("name", "")] = link
    for element in model.findall("model"):
        _add_sdf(
            element, base @ pose_in_model(element), place.at(element), body, figures, depth + 1
        )
    _add_plugins(model.findall("plugin"), body)


def _find_model(uri: str, file: Path) -> Path | None:
    """The file of ``model://NAME`` next to the folder of a file, or on GZ_SIM_RESOURCE_PATH."""
    name = uri.removeprefix("model://").strip("/")
    if "://" in name or name in ("", ".", "..") or "/" in name:
        return None
    more = os.environ.get("GZ_SIM_RESOURCE_PATH", "").split(os.pathsep)
    folders = [file.parent, file.resolve().parent.parent, *(Path(each) for each in more if each)]
    names = ("model.sdf", f"{name}.sdf")
    paths = (folder / name / each for folder in folders for each in names)
    return next((path for path in paths if path.is_file()), None)


def _read_shape(link: Link, collision: Element, pose: Pose, place: Place) -> None:
    """Points of a box, cylinder or sphere; of SDF as children, of URDF as attributes."""
    geometry = collision.find("geometry")
    for shape in geometry if geometry is not None else ():

        def word(name: str, shape: Element = shape) -> str:
            return shape.get(name) or (shape.findtext(name) or "").strip()

        if shape.tag == "box":
            size = np.array(numbers_in(word("size") or "1 1 1", 3, "size", place))
            _add_shape(link, pose, size / 2.0, float(np.sort(size)[-1]) / 2.0)
        elif shape.tag in ("cylinder", "sphere"):
            radius = numbers_in(word("radius") or "0.5", 1, "radius", place)[0]
            length = 2.0 * radius
            if shape.tag == "cylinder":
                length = numbers_in(word("length") or "1", 1, "length", place)[0]
            _add_shape(link, pose, np.array([radius, radius, length / 2.0]), radius)


def _origin(element: Element | None, place: Place) -> Pose:
    """Pose of URDF's ``<origin>``."""
    origin = element.find("origin") if element is not None else None
    if origin is None:
        return Pose()
    x, y, z = numbers_in(origin.get("xyz", "0 0 0"), 3, "xyz", place)
    roll, pitch, yaw = numbers_in(origin.get("rpy", "0 0 0"), 3, "rpy", place)
    return Pose((x, y, z), from_euler(roll, pitch, yaw))


def _attributes(element: Element, place: Place) -> dict[str, float]:
    return {key: numbers_in(text, 1, key, place)[0] for key, text in element.attrib.items()}


def _add_urdf(robot: Element, place: Place, body: Body, figures: Figures) -> None:
    """Links, motors and sensors of a robot; its first link that hangs on no joint is B."""
    joints = {}
    for joint in robot.findall("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if parent is not None and child is not None:
            joints[child.get("link", "")] = (joint, parent.get("link", ""))

    def pose_of_link(name: str, before: tuple[str, ...] = ()) -> Pose:
        if name not in joints:
            return Pose()
        if name in before:
            raise place.error(f"link {name!r} hangs on itself")
        joint, parent = joints[name]
        own = Pose() if joint.get("type") == "floating" else _origin(joint, place.at(joint))
        return pose_of_link(parent, (*before, name)) @ own

    for element in robot.findall("link"):
        inside, name = place.at(element), element.get("name", "")
        link = Link(pose_of_link(name))
        inertial = element.find("inertial")
        mass, moments = (
            inertial.find(tag) if inertial is not None else None for tag in ("mass", "inertia")
        )
        if mass is not None and moments is not None:
            mass_kg = _attributes(mass, inside).get("value", 0.0)
            _weigh(link, mass_kg, _origin(inertial, inside), _tensor(_attributes(moments, inside)))
        for collision in element.findall("collision"):
            _read_shape(link, collision, _origin(collision, inside), inside)
        body.links[name] = link
    for element in robot.findall("gazebo"):
        _add_plugins(element.findall("plugin"), body)
        held = body.links.get(element.get("reference", ""))
        for sensor in element.findall("sensor"):
            if held is not None:
                at = (held.pose @ pose_of(sensor, place, "")).p_A
                _add_sensor(body, sensor.get("type", ""), sensor.get("name", ""), np.array(at))


def _add_plugins(plugins: list[Element], body: Body) -> None:
    for plugin in plugins:
        if plugin.find("turningDirection") is not None:
            body.motors.append(plugin)
            continue
        name = (plugin.findtext("linkName") or plugin.findtext("bodyName") or "").strip()
        link = _link_of(name, body)
        if link is not None:
            at = np.array(link.pose.p_A)
            _add_sensor(body, plugin.get("filename", ""), plugin.get("name", ""), at)


def _link_of(name: str, body: Body) -> Link | None:
    return body.links.get(name) or body.links.get(name.split("::")[-1])


def _add_sensor(body: Body, words: str, name: str, at: Array) -> None:
    kind = next((kind for word, kind in _SENSORS.items() if word in words.lower()), None)
    if kind is not None:
        body.sensors.append((kind, name, at))


def _motor_numbers(figures: Figures, motors: list[Element], place: Place) -> Iterator[str]:
    """Set the figures that all motors share; those of which the mean is taken."""
    for tag, (key, default) in _MOTOR.items():
        values = [number_of(motor, tag, place.at(motor), repr(default)) for motor in motors]
        missing = any(motor.find(tag) is None for motor in motors)
        figures.put(key, float(np.mean(values)), f"the plugin's own {tag}" if missing else tag)
        if max(values) - min(values) > 1e-9 * max(map(abs, values)):
            yield tag


def _put_body(body: Body, figures: Figures, place: Place) -> None:
    """The composite of all links about their common centre of mass, and the rotors on it."""
    mass_kg = sum(link.mass_kg for link in body.links.values())
    center: Array = np.zeros(3)
    if mass_kg > 0.0:
        center = sum((k.mass_kg * k.center_m for k in body.links.values()), center) / mass_kg
        inertia = sum(
            (k.inertia_kg_m2 + k.mass_kg * shift(k.center_m - center) for k in body.links.values()),
            np.zeros((3, 3)),
        )
        heavy = sum(link.mass_kg > 0.0 for link in body.links.values())
        figures.put("mass_kg", mass_kg, f"sum of {heavy} links")
        figures.put_inertia(inertia, f"composite of {heavy} links about their centre of mass")
        if np.abs(center).max() > 1e-6:
            x, y, z = np.round(center, 9)
            figures.notes.append(
                f"the centre of mass is at ({x:.5g}, {y:.5g}, {z:.5g}) m of the file's frame; all"
                " places are from it"
            )
    rotors = _put_rotors(body, figures, center, place)
    corners = [
        corner - center
        for link in body.links.values()
        if link not in rotors
        for corner in link.corners_m
    ]
    if corners:
        lowest = min(corner[2] for corner in corners)
        feet = np.array([corner for corner in corners if corner[2] < lowest + FOOT_M])
        (x0, y0), (x1, y1) = feet[:, :2].min(axis=0), feet[:, :2].max(axis=0)
        points = [[x1, y1, lowest], [x0, y1, lowest], [x0, y0, lowest], [x1, y0, lowest]]
        points = [[float(value) for value in point] for point in points]
        figures.put("contact.points_B_m", points, "lowest collision shapes")
    figures.mounts = [
        Mount(kind, name, tuple((at - center).tolist())) for kind, name, at in body.sensors
    ]


def _put_rotors(body: Body, figures: Figures, center: Array, place: Place) -> list[Link]:
    """Rotors by the motors' plugins; they pull along the z axis of their links.

    Returns:
        The links that are rotors.
    """
    motors, links = [], []
    for motor in body.motors:
        name = (motor.findtext("linkName") or "").strip()
        link = _link_of(name, body)
        if link is None:
            raise place.error(f"a motor turns the link {name!r}, which is not there")
        motors.append(motor)
        links.append(link)
    order = sorted(
        range(len(motors)), key=lambda i: number_of(motors[i], "motorNumber", place, str(i))
    )
    axes = [_rotation(links[i].pose)[:, 2] for i in order]
    lifting = figures.stand_up(axes)
    used = [order[i] for i in lifting]
    if not used:
        return links
    turns = {"ccw": 1.0, "cw": -1.0}
    words = [(motors[i].findtext("turningDirection") or "").strip() for i in used]
    if unknown := [word for word in words if word not in turns]:
        raise place.error(f"<turningDirection> {unknown[0]!r}; allowed: cw, ccw")
    hubs = [(np.array(links[i].pose.p_A) - center).tolist() for i in used]
    figures.put_rotors(hubs, [turns[word] for word in words], "links of the motors")
    uneven = list(_motor_numbers(figures, [motors[i] for i in used], place))
    if uneven:
        figures.notes.append(f"the rotors differ in {', '.join(uneven)}: the mean is taken")
    radius_m = max(links[i].radius_m for i in used)
    if radius_m > 0.0:
        figures.put("rotor.radius_m", radius_m, "collision shape of a rotor")
    slow = number_of(motors[used[0]], "rotorVelocitySlowdownSim", place, "10")
    spin = links[used[0]].spin_kg_m2 / max(slow, 1.0)
    if spin > 0.0:
        figures.put("rotor.inertia_kg_m2", spin, f"izz of a rotor over its slowdown {slow:g}")
    return links
