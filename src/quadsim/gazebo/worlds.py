"""Worlds for Gazebo: written from obstacles, or read and made ready for a release of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element  # to write; base.xml reads

from quadsim.base.errors import InputError
from quadsim.gazebo.sdf import SDF_VERSION, add_material, add_shape
from quadsim.gazebo.shapes import Color
from quadsim.gazebo.systems import WORLD_SYSTEMS, add_system, plugin_name
from quadsim.gazebo.xml import add_child, add_pose, angles_of, document
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Obstacle, Plane, Pose
from quadsim.world.sdf.files import read_sdf
from quadsim.world.sdf.world_file import load_world

#: Step of Gazebo's physics, s.
STEP_S = 0.001

#: Colours of things by the first word of their names.
COLORS: Mapping[str, Color] = {
    "ground": (0.55, 0.58, 0.5, 1.0),
    "building": (0.62, 0.57, 0.52, 1.0),
    "wall": (0.75, 0.75, 0.72, 1.0),
    "post": (0.3, 0.3, 0.33, 1.0),
    "bridge": (0.45, 0.45, 0.5, 1.0),
    "camera": (0.1, 0.1, 0.12, 1.0),
}
GREY: Color = (0.6, 0.6, 0.6, 1.0)


def _add_ambience(world: Element, environment: EnvironmentParams) -> None:
    """Gravity, magnetic field, mean wind and where on the Earth the world is.

    Gazebo's motor model takes the wind for the drag of its rotors; nothing else of a vehicle feels
    it.
    """
    gravity_mps2, _ = environment.gravity_and_gradient()
    datum = environment.datum
    add_child(world, "gravity", (0.0, 0.0, -gravity_mps2))
    add_child(world, "magnetic_field", tuple(f"{value:.5g}" for value in environment.field_W_T()))
    if any(environment.wind_W_mps):
        add_child(world, "wind", {"linear_velocity": environment.wind_W_mps})
    content = {
        "surface_model": "EARTH_WGS84",
        "world_frame_orientation": "ENU",
        "latitude_deg": datum.latitude_deg,
        "longitude_deg": datum.longitude_deg,
        "elevation": datum.height_m,
        "heading_deg": 0.0,
    }
    add_child(world, "spherical_coordinates", content)


def _add_obstacle(world: Element, name: str, obstacle: Obstacle) -> None:
    """A model that stands still; what is seen is what is touched."""
    model = add_child(world, "model", name=name)
    add_child(model, "static", True)
    add_pose(model, obstacle.pose_W)
    link = add_child(model, "link", name="link")
    color = COLORS.get(name.partition("_")[0], GREY)
    for tag in ("collision", "visual"):
        element = add_child(link, tag, name=tag)
        add_shape(element, obstacle.shape)
        if tag == "visual":
            add_material(element, color)


def world_sdf(
    name: str,
    obstacles: Sequence[Obstacle] = (),
    *,
    environment: EnvironmentParams | None = None,
    frames: Mapping[str, Pose] | None = None,
    comment: str = "",
) -> str:
    """A world file of Gazebo, which ``world.sdf.world_file.load_world`` reads as the same world.

    Level ground is added at the environment's height, unless an obstacle is level ground.

    Args:
        name: of the world.
        obstacles: boxes, spheres, cylinders and planes; equal names get numbers.
        environment: gravity, magnetic field, wind, datum and ground; None: the default one.
        frames: named places in it.
        comment: the file's first words.

    Raises:
        InputError: an obstacle is a mesh.
    """
    environment = environment or EnvironmentParams()
    root = Element("sdf", {"version": SDF_VERSION})
    world = add_child(root, "world", name=name)
    physics = {"max_step_size": STEP_S, "real_time_factor": 1.0}
    add_child(world, "physics", physics, name="step", type="ignored")
    for library, system, settings in WORLD_SYSTEMS:
        add_system(world, library, system, settings)
    _add_ambience(world, environment)
    light = add_child(world, "light", name="sun", type="directional")
    add_child(light, "pose", (0.0, 0.0, 10.0, 0.0, 0.0, 0.0))
    add_child(light, "direction", (-0.5, 0.1, -0.9))
    for frame, pose in (frames or {}).items():
        add_child(add_child(world, "frame", name=frame), "pose", (*pose.p_A, *angles_of(pose)))
    every = list(obstacles)
    if not any(obstacle.is_level_ground() for obstacle in every):
        height = Pose((0.0, 0.0, environment.ground_height_m))
        every.insert(0, Obstacle("ground", Plane(), height))
    taken: dict[str, int] = {}
    for obstacle in every:
        count = taken[obstacle.name] = taken.get(obstacle.name, 0) + 1
        _add_obstacle(world, obstacle.name + (f"_{count}" if count > 1 else ""), obstacle)
    return document(root, comment)


def for_gazebo(
    path: Path,
    models: Sequence[Element] = (),
    *,
    environment: EnvironmentParams | None = None,
    fortress: bool = False,
    step_s: float | None = None,
) -> str:
    """A world file, made ready for Gazebo: to be written anywhere, with vehicles in it.

    The systems that our vehicles need are added where they are missing, plugins are called as the
    release calls them, and meshes and images are named by their full paths; ``model://`` still
    needs ``worlds/models`` in ``GZ_SIM_RESOURCE_PATH`` (Fortress: ``IGN_GAZEBO_RESOURCE_PATH``).

    Args:
        path: of a world file that our reader reads.
        models: of vehicles, see :func:`quadsim.gazebo.sdf.vehicle_model`.
        environment: whose gravity, magnetic field, mean wind and datum replace the file's; None:
            the file's.
        fortress: with the names of Gazebo Fortress.
        step_s: of its physics; None: the file's.

    Raises:
        InputError: the world cannot be read, or has something that our rays would not hit.
    """
    heading_deg = load_world(path).heading_deg
    if environment is not None and heading_deg:
        raise InputError(
            f"{path}: <heading_deg> {heading_deg:g}; allowed: 0 where Gazebo flies, whose x would"
            " not be east as that of map is"
        )
    root = read_sdf(path)
    world = root.find("world")
    assert world is not None
    if environment is not None:
        for tag in ("gravity", "magnetic_field", "wind", "spherical_coordinates"):
            for element in world.findall(tag):
                world.remove(element)
        _add_ambience(world, environment)
    if step_s is not None:
        for physics in world.findall("physics") or [add_child(world, "physics", type="ignored")]:
            for element in physics.findall("max_step_size"):
                physics.remove(element)
            add_child(physics, "max_step_size", step_s)
    there = {plugin.get("name", "").rpartition("::")[2] for plugin in world.findall("plugin")}
    for library, kind, settings in WORLD_SYSTEMS:
        if kind not in there:
            add_system(world, library, kind, settings)
    world.extend(models)
    _rename_plugins(root, fortress)
    for uri in root.iter("uri"):
        text = (uri.text or "").strip()
        if "://" not in text:
            uri.text = str(path.resolve().parent / text)
    return document(root)


def _rename_plugins(root: Element, fortress: bool) -> None:
    """Call the plugins of Gazebo itself as a release calls them; leave all others."""
    of_file, of_name = plugin_name("", "", fortress)
    for plugin in root.iter("plugin"):
        filename, name = plugin.get("filename", ""), plugin.get("name", "")
        for old_fortress in (False, True):
            old_file, old_name = plugin_name("", "", old_fortress)
            start, end = old_file.split("--")
            if filename.startswith(f"{start}-") and name.startswith(old_name):
                library = filename.removeprefix(f"{start}-").removesuffix(f"-{end}")
                plugin.set("filename", of_file.replace("--", f"-{library}-"))
                plugin.set("name", of_name + name.removeprefix(old_name))
                break
