"""Worlds for Gazebo: what it shows is what our rays hit; its own parser reads what we write."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from scenery import hall, urban_canyon
from scipy.spatial.transform import Rotation
from sdformat import faults_of, library

from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world, known, known_worlds, share_dir
from quadsim.base.parameters import load
from quadsim.gazebo.sdf import model_sdf, vehicle_model
from quadsim.gazebo.sensors import CameraParams
from quadsim.gazebo.urdf import robot_description
from quadsim.gazebo.worlds import for_gazebo, world_sdf
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import from_euler
from quadsim.sensors.devices import load_suite
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.scene import cast_ray
from quadsim.world.sdf.world_file import load_world

WORLDS = share_dir() / "worlds"
MODELS = WORLDS / "models"
#: Models that stand in worlds.
SCENERY = ("tree", "tall_tree", "rock")
#: How far rays look: within what is drawn of the ground from wherever they start.
RANGE_M = 60.0

needs_parser = pytest.mark.skipif(
    library() is None,
    reason="libsdformat is not installed (export QUADSIM_SDFORMAT=$(.ci/sdformat))",
)


def vehicle_of(name: str) -> VehicleParams:
    return load(VehicleParams, find("vehicles", name))


# ---- what Gazebo shows, by a reader and by equations of this file alone -------------------------


def matrix_of(element: ET.Element | None) -> np.ndarray:
    """4 x 4 of an element's pose."""
    matrix = np.eye(4)
    pose = None if element is None else element.find("pose")
    if pose is not None and pose.text:
        values = np.array([float(word) for word in pose.text.split()])
        degrees = pose.get("degrees", "false") == "true"
        matrix[:3, :3] = Rotation.from_euler("xyz", values[3:], degrees=degrees).as_matrix()
        matrix[:3, 3] = values[:3]
    return matrix


def shown_in(parent: ET.Element, at: np.ndarray, folder: Path):
    """Geometry of every visual in a world or model, its 4 x 4 and the folder of its file."""
    for model in parent.findall("model"):
        yield from shown_in_model(model, at @ matrix_of(model), folder)
    for include in parent.findall("include"):
        there = MODELS / include.find("uri").text.removeprefix("model://")
        model = ET.parse(there / "model.sdf").getroot().find("model")
        placed = include if include.find("pose") is not None else model
        yield from shown_in_model(model, at @ matrix_of(placed), there)


def shown_in_model(model: ET.Element, at: np.ndarray, folder: Path):
    for link in model.findall("link"):
        for visual in link.findall("visual"):
            place = at @ matrix_of(link) @ matrix_of(visual)
            yield visual.find("geometry")[0], place, folder
    yield from shown_in(model, at, folder)


def of(geometry: ET.Element, tag: str) -> np.ndarray:
    return np.array([float(word) for word in geometry.find(tag).text.split()])


def triangles_of(geometry: ET.Element, folder: Path) -> np.ndarray:
    """(T, 3, 3) of a mesh or a heightmap."""
    uri = geometry.find("uri").text
    if geometry.tag == "mesh":
        path = MODELS / uri.removeprefix("model://")
        return np.array(trimesh.load_mesh(path, process=False).triangles)
    pixels = np.asarray(Image.open(folder / uri), dtype=float)
    size, position = of(geometry, "size"), of(geometry, "pos")
    x, y = (np.linspace(-0.5, 0.5, len(pixels)) * size[k] + position[k] for k in (0, 1))
    z = np.flipud(pixels) * size[2] / pixels.max() + position[2]  # the top row is north
    points = np.stack([*np.meshgrid(x, y), z], axis=2)
    sw, se, nw, ne = points[:-1, :-1], points[:-1, 1:], points[1:, :-1], points[1:, 1:]
    lower, upper = np.stack([sw, se, ne], axis=2), np.stack([sw, ne, nw], axis=2)
    return np.concatenate([lower.reshape(-1, 3, 3), upper.reshape(-1, 3, 3)])


def to_triangles(triangles: np.ndarray, start: np.ndarray, along: np.ndarray) -> float:
    """Moeller and Trumbore, 1997."""
    first = triangles[:, 0]
    one, two = triangles[:, 1] - first, triangles[:, 2] - first
    p = np.cross(along, two)
    det = np.einsum("ij,ij->i", one, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.einsum("ij,ij->i", start - first, p) / det
        q = np.cross(start - first, one)
        v, t = q @ along / det, np.einsum("ij,ij->i", two, q) / det
        met = (u >= 0.0) & (v >= 0.0) & (u + v <= 1.0) & (t > 0.0)
    return float(t[met].min(initial=np.inf))


def within(low: float, high: float) -> float:
    """First point of an interval ahead of the start."""
    return low if low <= high and low > 0.0 else math.inf


def to_shape(tag: str, sizes: dict, start: np.ndarray, along: np.ndarray) -> float:
    """Distance from outside to a plane, box, sphere or cylinder in its own axes."""
    if tag == "plane":
        normal = sizes["normal"]
        t = -(normal @ start) / (normal @ along)
        return t if t > 0.0 else math.inf
    with np.errstate(divide="ignore"):
        inverse = 1.0 / along
    if tag == "box":
        faces = np.stack([-0.5, 0.5])[:, None] * sizes["size"]
        crossed = np.sort((faces - start) * inverse, axis=0)
        return within(crossed[0].max(), crossed[1].min())
    axes = 2 if tag == "cylinder" else 3
    o, d, radius = start[:axes], along[:axes], sizes["radius"][0]
    middle, under = -(o @ d) / (d @ d), (o @ d) ** 2 - (d @ d) * (o @ o - radius**2)
    if under < 0.0:
        return math.inf
    reach = math.sqrt(under) / (d @ d)
    low, high = middle - reach, middle + reach
    if tag == "cylinder":
        half = 0.5 * sizes["length"][0]
        ends = np.sort((np.array([-half, half]) - start[2]) * inverse[2])
        low, high = max(low, ends[0]), min(high, ends[1])
    return within(low, high)


class Shown:
    """All visuals of a world file."""

    def __init__(self, path: Path) -> None:
        world = ET.parse(path).getroot().find("world")
        self.shapes, self.triangles = [], []
        for geometry, place, folder in shown_in(world, np.eye(4), path.parent):
            if geometry.tag in ("mesh", "heightmap"):
                triangles = triangles_of(geometry, folder)
                self.triangles.append(triangles @ place[:3, :3].T + place[:3, 3])
            else:
                sizes = {part.tag: of(geometry, part.tag) for part in geometry}
                self.shapes.append((geometry.tag, sizes, np.linalg.inv(place)))

    def distance(self, origin: np.ndarray, direction: np.ndarray) -> float:
        """To the first thing that is seen along a ray; beyond the range inf."""
        found = [
            to_shape(tag, sizes, at[:3, :3] @ origin + at[:3, 3], at[:3, :3] @ direction)
            for tag, sizes, at in self.shapes
        ]
        found += [to_triangles(triangles, origin, direction) for triangles in self.triangles]
        nearest = min(found, default=math.inf)
        return nearest if nearest <= RANGE_M else math.inf


def rays_of(name: str, shown: Shown) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """From three free places: all around, level or nearly; and at what stands there."""
    generator = np.random.Generator(np.random.PCG64(7))
    places = np.array([(0.5, 0.2, 1.5), (2.0, -1.0, 3.0), (-2.5, 3.5, 4.0)])
    if name == "slope":
        places += (90.0, 60.0, 10.5)  # a few metres above it
    for i in range(36):
        heading, climb = generator.uniform((-math.pi, -0.5), (math.pi, 0.4))
        level = math.cos(climb) * np.array([math.cos(heading), math.sin(heading)])
        yield places[i % 3], np.array([*level, math.sin(climb)])
    middles = [np.linalg.inv(at)[:3, 3] for tag, _, at in shown.shapes if tag != "plane"]
    nearest = sorted(middles, key=lambda middle: np.linalg.norm(middle - places[0]))[:40]
    for i, middle in enumerate(nearest):
        ahead = middle + generator.normal(0.0, 0.04, 3) - places[i % 3]
        yield places[i % 3], ahead / np.linalg.norm(ahead)


@pytest.mark.parametrize("name", known_worlds())
def test_rays_hit_what_gazebo_shows(name):
    path = find_world(name)
    shown, scene = Shown(path), load_world(path).scene()
    hits = 0
    for origin, direction in rays_of(name, shown):
        expected = shown.distance(origin, direction)
        # no flat ground of the scenario's: what the file does not show is not to be hit
        found, _ = cast_ray(scene, -1e6, tuple(origin), tuple(direction), RANGE_M)
        assert found == pytest.approx(expected, abs=1e-6), (origin, direction)
        hits += math.isfinite(found)
    assert hits >= 12


STANDING = [*WORLDS.glob("*.sdf"), *(MODELS / name / "model.sdf" for name in SCENERY)]


@pytest.mark.parametrize("path", STANDING, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_everything_that_is_touched_is_seen_and_the_other_way_round(path):
    """In each link, collisions and visuals have the same poses and shapes, in the same order."""
    for link in ET.parse(path).getroot().iter("link"):
        touched, seen = (
            [
                [
                    (e.tag, (e.text or "").strip())
                    for part in element
                    if part.tag in ("pose", "geometry")
                    for e in part.iter()
                ]
                for element in link.findall(kind)
            ]
            for kind in ("collision", "visual")
        )
        assert touched == seen
        assert touched


# ---- the worlds that come along ------------------------------------------------------------------

MACHINERY = ("physics", "plugin", "gravity", "magnetic_field", "light")


@pytest.mark.parametrize("name", known_worlds())
def test_every_world_has_what_gazebo_needs(name):
    """Physics, systems, gravity, field, sun: as they are generated."""

    def machinery(world: ET.Element) -> list[str]:
        found = (ET.tostring(e, encoding="unicode") for e in world if e.tag in MACHINERY)
        return [ET.canonicalize(text, strip_text=True) for text in found]

    shipped = ET.parse(find_world(name)).getroot().find("world")
    made = ET.fromstring(world_sdf(name)).find("world")
    assert machinery(shipped) == machinery(made)
    assert load_world(find_world(name)).datum == Datum()
    kinds = {plugin.get("name") for plugin in shipped.findall("plugin")}
    for kind in ("Physics", "Sensors", "Imu", "NavSat", "Magnetometer", "AirPressure"):
        assert f"gz::sim::systems::{kind}" in kinds


@pytest.mark.parametrize(
    ("name", "obstacles", "frames"),
    [("urban_canyon", urban_canyon, {}), ("hall", hall, {"mocap": Pose()})],
)
def test_the_worlds_by_rules_are_what_the_rules_make(name, obstacles, frames):
    made = ET.fromstring(world_sdf(name, obstacles(), frames=frames))
    shipped = ET.parse(find_world(name)).getroot()
    both = [
        ET.canonicalize(ET.tostring(e, encoding="unicode"), strip_text=True)
        for e in (made, shipped)
    ]
    assert both[0] == both[1]


def test_the_hall_and_its_frame():
    world = load_world(find_world("hall"))
    scene = world.scene()
    for direction, distance in (
        ((1, 0, 0), 8.0),
        ((-1, 0, 0), 8.0),
        ((0, 1, 0), 5.0),
        ((0, -1, 0), 5.0),
    ):
        found, _ = cast_ray(scene, 0.0, (0.0, 0.0, 1.5), tuple(map(float, direction)), 50.0)
        assert found == pytest.approx(distance)
    assert sum("camera" in o.name for o in world.obstacles) == 8
    assert world.frame("mocap") == world.frame("world") == Pose()


def thinned(path: Path, folder: Path) -> Path:
    """A world with the first eight of what stands in it: the parser takes 20 to 60 ms for each."""
    tree = ET.parse(path)
    world = tree.getroot().find("world")
    for tag in ("include", "model"):
        for thing in world.findall(tag)[8:]:
            world.remove(thing)
    tree.write(folder / path.name)
    return folder / path.name


@needs_parser
def test_gazebos_own_parser_reads_every_file(tmp_path):
    """Worlds and models that come along, and what is made of every vehicle for both releases."""
    large = ("forest", "urban_canyon")
    files = [path for path in WORLDS.glob("*.sdf") if path.stem not in large]
    files += [thinned(WORLDS / f"{name}.sdf", tmp_path) for name in large]
    files += MODELS.glob("*/model.sdf")
    suite, camera = load_suite("lidar"), CameraParams()
    for name in known("vehicles"):
        vehicle = vehicle_of(name)
        if name in ("x500", "thesis_helicopter"):  # by urdfdom, which RViz reads with too
            files.append(tmp_path / f"{name}.urdf")
            files[-1].write_text(robot_description(vehicle, suite, "quad1/"))
        if vehicle.kind != "multirotor":
            continue
        files.append(tmp_path / f"{name}.sdf")
        files[-1].write_text(model_sdf(vehicle, suite, camera=camera, fortress=len(name) % 2 == 0))
    eyes = vehicle_model(vehicle_of("x500"), suite, camera=camera, view=True)
    files.append(tmp_path / "flown.sdf")
    files[-1].write_text(for_gazebo(find_world("hills"), [eyes], fortress=True))
    assert faults_of(files, MODELS) == {}


@needs_parser
def test_the_parser_finds_what_is_wrong(tmp_path):
    """Two things of one name in a link, a body that cannot be, a joint to nothing."""
    text = model_sdf(vehicle_of("x500"), load_suite("default"))
    twice = tmp_path / "twice.sdf"
    twice.write_text(text.replace('"body_visual"', '"body"'))
    light = tmp_path / "light.sdf"
    light.write_text(text.replace("<mass>2.05", "<mass>-2.05"))
    torn = tmp_path / "torn.urdf"
    text = robot_description(vehicle_of("x500"), load_suite("default"))
    torn.write_text(text.replace('<child link="gps_link"', '<child link="nothing"'))
    faults = faults_of([twice, light, torn], MODELS)
    assert set(faults) == {twice, light, torn}
    assert "Non-unique names" in faults[twice]


# ---- writing -------------------------------------------------------------------------------------

THINGS = (
    Obstacle("post", Cylinder(0.3, 4.0), Pose((3.0, -2.0, 2.0))),
    Obstacle("post", Cylinder(0.3, 4.0), Pose((3.0, 2.0, 2.0))),
    Obstacle("ball", Sphere(0.8), Pose((6.0, 0.0, 1.0))),
    Obstacle("ramp", Box((4.0, 2.0, 0.2)), Pose((9.0, 1.0, 1.0), from_euler(0.1, -0.4, 2.0))),
    Obstacle("roof", Plane((0.0, 0.0, -1.0)), Pose((0.0, 0.0, 12.0))),
)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "things.sdf"
    environment = EnvironmentParams(
        datum=Datum(-33.9, 18.4, 42.0), gravity_mps2=9.796, ground_height_m=-1.5
    )
    frames = {"mocap": Pose((1.0, 2.0, 0.5), from_euler(0.0, 0.0, 1.2))}
    path.write_text(world_sdf("things", THINGS, environment=environment, frames=frames))
    world = load_world(path)
    ground, *found = world.obstacles
    assert ground.pose_W.p_A[2] == world.ground_height_m == -1.5
    for ours, theirs in zip(THINGS, found, strict=True):
        assert theirs.shape == ours.shape
        assert theirs.pose_W.p_A == pytest.approx(ours.pose_W.p_A)
        assert theirs.pose_W.q_AB == pytest.approx(ours.pose_W.q_AB, abs=1e-8)
    assert world.datum == environment.datum
    assert world.gravity_W_mps2 == (0.0, 0.0, -9.796)
    assert world.magnetic_field_W_T == pytest.approx(environment.field_W_T(), rel=1e-4)
    assert world.frame("mocap").p_A == frames["mocap"].p_A
    assert world.frame("mocap").q_AB == pytest.approx(frames["mocap"].q_AB, abs=1e-8)
    names = [m.get("name") for m in ET.parse(path).getroot().iter("model")]
    assert names == ["ground", "post", "post_2", "ball", "ramp", "roof"]


def test_a_mesh_of_numbers_cannot_be_written():
    mesh = Mesh(np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), False)
    with pytest.raises(InputError, match="mesh"):
        world_sdf("things", [Obstacle("sail", mesh)])


@cache
def plugins_of(text: str) -> dict[str, str]:
    return {p.get("name"): p.get("filename") for p in ET.fromstring(text).iter("plugin")}


FOREIGN = """<sdf version="1.9"><world name="other">
<plugin filename="ignition-gazebo-physics-system" name="ignition::gazebo::systems::Physics"/>
<plugin filename="TheirOwn" name="their::Own"/>
<model name="hills"><static>true</static><link name="link">
<collision name="c"><geometry><heightmap><uri>hills.png</uri><size>10 10 1</size></heightmap>
</geometry></collision></link></model>
</world></sdf>
"""


@pytest.mark.parametrize("fortress", [False, True])
def test_a_world_of_others_is_made_ready(tmp_path, fortress):
    path = tmp_path / "other.sdf"
    path.write_text(FOREIGN)
    Image.new("L", (3, 3), 200).save(tmp_path / "hills.png")
    start = Pose((1.0, 2.0, 0.5), from_euler(0.0, 0.0, 0.3))
    quad = vehicle_model(vehicle_of("x500"), load_suite("default"), ground_W=start)
    environment = EnvironmentParams(gravity_mps2=9.81)
    text = for_gazebo(path, [quad], environment=environment, fortress=fortress)
    plugins = plugins_of(text)
    assert plugins.pop("their::Own") == "TheirOwn"
    place = "ignition::gazebo::systems::" if fortress else "gz::sim::systems::"
    system = "ignition-gazebo-{}-system" if fortress else "gz-sim-{}-system"
    assert set(plugins) == {
        place + kind
        for kind in (
            "Physics", "UserCommands", "SceneBroadcaster", "Sensors", "Imu", "NavSat",
            "Magnetometer", "AirPressure", "MulticopterMotorModel", "OdometryPublisher",
        )
    }  # fmt: skip
    assert plugins[place + "Physics"] == system.format("physics")
    assert plugins[place + "MulticopterMotorModel"] == system.format("multicopter-motor-model")
    world = ET.fromstring(text).find("world")
    assert world.find(".//heightmap/uri").text == str((tmp_path / "hills.png").resolve())
    assert world.find("gravity").text == "0 0 -9.81"
    pose = [float(word) for word in world.find("model[@name='quad']/pose").text.split()]
    assert pose == pytest.approx([1.0, 2.0, 0.729, 0.0, 0.0, 0.3])


def test_what_rays_would_not_hit_is_refused(tmp_path):
    path = tmp_path / "other.sdf"
    path.write_text(FOREIGN.replace("heightmap", "polyline"))
    with pytest.raises(InputError, match="polyline"):
        for_gazebo(path)


# ---- frames --------------------------------------------------------------------------------------


def world_with(tmp_path: Path, frames: str):
    path = tmp_path / "frames.sdf"
    path.write_text(f'<sdf version="1.9"><world name="w">{frames}</world></sdf>')
    return load_world(path)


def test_frames_stand_on_each_other(tmp_path):
    """Checked with 4 x 4 matrices of scipy's rotations."""
    world = world_with(
        tmp_path,
        '<frame name="rig" attached_to="mocap"><pose>0 1 0 0.1 0 0</pose></frame>'
        '<frame name="mocap"><pose degrees="true">1 2 3 0 0 90</pose></frame>'
        '<frame name="tip"><pose relative_to="rig">0.5 0 0 0 0 0</pose></frame>',
    )
    turned = np.eye(4)
    turned[:3, :3] = Rotation.from_euler("z", 90.0, degrees=True).as_matrix()
    turned[:3, 3] = (1.0, 2.0, 3.0)
    rig = np.eye(4)
    rig[:3, :3] = Rotation.from_euler("x", 0.1).as_matrix()
    rig[:3, 3] = (0.0, 1.0, 0.0)
    for name, expected in (("mocap", turned), ("rig", turned @ rig)):
        pose = world.frame(name)
        assert pose.p_A == pytest.approx(expected[:3, 3])
        assert pytest.approx(expected[:3, :3]) == pose.axes().T
    assert world.frame("tip").p_A == pytest.approx((turned @ rig @ [0.5, 0.0, 0.0, 1.0])[:3])


@pytest.mark.parametrize(
    ("frames", "word"),
    [
        ('<frame name="a" attached_to="b"/><frame name="b" attached_to="a"/>', "stands on itself"),
        ('<frame name="a" attached_to="a"/>', "stands on itself"),
        ('<frame name="a" attached_to="wall"/>', "stands on 'wall'"),
        ('<frame name="a"/><frame name="a"/>', "name of its own"),
        ("<frame/>", "name of its own"),
        ('<frame name="world"/>', "name of its own"),
        ('<frame name="a"><pose>1 2</pose></frame>', "6 finite numbers"),
    ],
)
def test_frames_that_lead_nowhere_are_refused(tmp_path, frames, word):
    with pytest.raises(InputError, match=word) as refused:
        world_with(tmp_path, frames)
    assert "frames.sdf" in str(refused.value)


def test_a_world_without_the_frame_is_named(tmp_path):
    world = world_with(tmp_path, '<frame name="rig"/>')
    with pytest.raises(InputError, match=r"'mocap'.*known: world, rig"):
        world.frame("mocap")
