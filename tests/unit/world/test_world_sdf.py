"""Worlds from files: where things end up, and what is refused and how."""

from __future__ import annotations

import math

import numpy as np
import pytest
import trimesh
from heightmap_image import write_heightmap
from PIL import Image
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.files import find_world, known_worlds
from quadsim.geometry.geodesy import Datum
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Plane, Sphere
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import cast_ray
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.scene.terrain_files import read_heightmap
from quadsim.world.sdf.world_file import load_world

DOWN = (0.0, 0.0, -1.0)
ROUNDING = 1e-12


def model(geometry, name="m", pose="", link="", collision=""):
    return (
        f"<model name='{name}'>{pose}<link name='l'>{link}<collision name='c'>{collision}"
        f"<geometry>{geometry}</geometry></collision></link></model>"
    )


def globe(inside):
    return f"<spherical_coordinates>{inside}</spherical_coordinates>"


BALL = "<sphere><radius>1</radius></sphere>"


@pytest.fixture
def world(tmp_path):
    """Write the inside of a world and load it."""

    def load(content, name="w.sdf", version="1.9"):
        path = tmp_path / name
        path.write_text(f"<sdf version='{version}'><world name='w'>{content}</world></sdf>")
        return load_world(path)

    return load


@pytest.fixture
def refusal(world):
    """The message with which the inside of a world is refused; always one line."""

    def message(content, **options):
        with pytest.raises(InputError) as error:
            world(content, **options)
        text = str(error.value)
        assert "\n" not in text
        assert "w.sdf" in text
        return text

    return message


def test_every_shape(world, tmp_path):
    trimesh.creation.box((1.0, 1.0, 1.0)).export(tmp_path / "cube.stl")
    shapes = [
        ("<plane><normal>0 0 2</normal><size>1 1</size></plane>", Plane((0.0, 0.0, 1.0))),
        ("<plane/>", Plane((0.0, 0.0, 1.0))),
        ("<box><size>1 2 3</size></box>", Box((1.0, 2.0, 3.0))),
        ("<sphere><radius> 0.5 </radius></sphere>", Sphere(0.5)),
        (
            "<cylinder><radius>0.5</radius><length>2e0</length></cylinder>",
            Cylinder(0.5, 2.0),
        ),
    ]
    found = world("".join(model(text, name=f"m{k}") for k, (text, _) in enumerate(shapes)))
    assert [o.shape for o in found.obstacles] == [shape for _, shape in shapes]
    assert "model 'm2'" in found.obstacles[2].name
    cube = world(model("<mesh><uri>cube.stl</uri><scale>1 2 -3</scale></mesh>")).obstacles[0].shape
    assert isinstance(cube, Mesh)
    assert cube.closed
    assert np.ptp(cube.triangles_m.reshape(-1, 3), axis=0) == pytest.approx([1.0, 2.0, 3.0])
    a, b, c = np.moveaxis(cube.triangles_m, 1, 0)
    # Its volume by the divergence theorem is positive only if all triangles look outwards.
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0 == pytest.approx(6.0)


def test_no_geometry_is_none(world):
    assert world(model("<empty/>")).obstacles == ()


def test_poses_are_nested_and_fixed_axis(world):
    """SDF: rotation about the fixed x, then y, then z axis (roll, pitch, yaw)."""
    poses = {
        "pose": "<pose>1 2 3 0.1 0.2 0.3</pose>",
        "link": "<pose degrees='true'>4 5 6 10 20 30</pose>",
        "collision": "<pose rotation_format='quat_xyzw'>7 8 9 0.5 0.5 0.5 0.5</pose>",
    }
    turns = [
        Rotation.from_euler("xyz", [0.1, 0.2, 0.3]),
        Rotation.from_euler("xyz", [10, 20, 30], degrees=True),
        Rotation.from_quat([0.5, 0.5, 0.5, 0.5]),
    ]
    places = np.arange(1.0, 10.0).reshape(3, 3)
    (it,) = world(model(BALL, **poses)).obstacles
    expected = places[0] + turns[0].apply(places[1] + turns[1].apply(places[2]))
    assert it.pose_W.p_A == pytest.approx(expected, abs=ROUNDING)
    matrix = (turns[0] * turns[1] * turns[2]).as_matrix()
    np.testing.assert_allclose(it.pose_W.axes().T, matrix, rtol=0.0, atol=ROUNDING)


def test_models_in_models(world):
    inner = model(BALL, name="inner", pose="<pose>1 0 0 0 0 0</pose>")
    outer = f"<model name='o'><pose degrees='1'>0 0 5 0 0 90</pose>{inner}</model>"
    (it,) = world(outer).obstacles
    assert it.pose_W.p_A == pytest.approx((0.0, 1.0, 5.0), abs=ROUNDING)


@pytest.mark.parametrize(
    "pose", ["<pose/>", "<pose> </pose>", "<pose relative_to=''/>", "<pose relative_to='world'/>"]
)
def test_default_poses(world, pose):
    (it,) = world(model(BALL, pose=pose)).obstacles
    assert it.pose_W.p_A == (0.0, 0.0, 0.0)


def test_included_models(world, tmp_path):
    folder = tmp_path / "models" / "ball"
    (folder / "meshes").mkdir(parents=True)
    trimesh.creation.icosphere(1).export(folder / "meshes/ball.ply")
    mesh = "<mesh><uri>model://ball/meshes/ball.ply</uri></mesh>"
    near = "<mesh><uri>meshes/ball.ply</uri></mesh>"
    two = model(mesh).replace(
        "</link>",
        f"</link><link name='k'><collision name='c'><geometry>{near}</geometry></collision></link>",
    )
    content = two.replace("<link name='l'>", "<pose>0 0 9 0 0 0</pose><link name='l'>")
    (folder / "model.sdf").write_text(f"<sdf version='1.8'>{content}</sdf>")
    found = world(
        "<include><uri>model://ball</uri></include>"
        "<include><uri>models/ball</uri><name>b</name><static>true</static>"
        "<pose>1 2 3 0 0 0</pose></include>"
        "<model name='m'><pose>10 0 0 0 0 0</pose>"
        "<include><uri>model://ball</uri></include></model>"
    )
    places = [o.pose_W.p_A for o in found.obstacles]
    # The pose of an include stands instead of the model's own, as in Gazebo.
    assert places[::2] == [(0.0, 0.0, 9.0), (1.0, 2.0, 3.0), (10.0, 0.0, 9.0)]
    assert len({id(o.shape) for o in found.obstacles}) == 1  # one file, one mesh


def test_what_is_said_about_the_world(world):
    found = world(
        "<gravity>0 0 -9.81</gravity><magnetic_field>1e-6 2e-5 -4e-5</magnetic_field>"
        "<spherical_coordinates><latitude_deg>47.4</latitude_deg><elevation>500</elevation>"
        "<longitude_deg>8.5</longitude_deg></spherical_coordinates>"
    )
    assert found.gravity_W_mps2 == (0.0, 0.0, -9.81)
    assert found.magnetic_field_W_T == (1e-6, 2e-5, -4e-5)
    assert found.datum == Datum(47.4, 8.5, 500.0)
    bare = world("<light name='sun' type='directional'/><physics/><gui/><plugin filename='x'/>")
    assert (bare.gravity_W_mps2, bare.magnetic_field_W_T, bare.datum) == (None, None, None)
    assert (bare.obstacles, bare.terrain, bare.name) == ((), None, "w")


def test_level_planes_are_ground(world):
    plane = "<plane><normal>0 0 1</normal></plane>"
    assert world("").ground_height_m is None
    assert world(model(plane, pose="<pose>0 0 2 0 0 1</pose>")).ground_height_m == 2.0
    tilted = model(plane, pose="<pose>0 0 2 0.1 0 0</pose>")
    assert world(tilted).ground_height_m is None
    assert world(tilted + model(plane, "n") + model(BALL, "k")).ground_height_m == 0.0


def grey(path, pixels, bits=8):
    Image.fromarray(np.asarray(pixels, np.uint16 if bits == 16 else np.uint8)).save(path)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_heightmap_as_gazebo_reads_it(world, tmp_path, bits):
    """Top row north, black at 0, the brightest pixel at the full height."""
    pixels = np.array([[0, 10, 20], [30, 40, 50], [60, 70, 100]]) * (1 if bits == 8 else 257)
    grey(tmp_path / "h.png", pixels, bits)
    text = "<heightmap><uri>h.png</uri><size>8 4 50</size><pos>1 2 3</pos></heightmap>"
    found = world(
        model(text, pose="<pose>10 0 0 0 0 0</pose>", collision="<pose>0 0 1 0 0 0</pose>")
    )
    arrays = found.scene().terrain
    for x, y, height in (
        (7.0, 4.0, 4.0),  # north-west corner
        (15.0, 4.0, 14.0),
        (11.0, 2.0, 24.0),
        (7.0, 0.0, 34.0),
        (15.0, 0.0, 54.0),
    ):
        assert terrain_height(arrays, -1.0, x, y) == pytest.approx(height, abs=1e-9)
    assert terrain_height(arrays, -1.0, 6.9, 2.0) == -1.0
    assert cast_ray(found.scene(), 0.0, (11.0, 2.0, 30.0), DOWN, 99.0)[0] == pytest.approx(6.0)


def test_a_black_image_is_flat(tmp_path):
    grey(tmp_path / "h.png", np.zeros((5, 5)))
    found = read_heightmap(tmp_path / "h.png", (4.0, 4.0, 9.0), (0.0, 0.0, 2.0))
    assert np.all(found.heights_m == 2.0)


def test_a_heightmap_comes_back_from_its_image(tmp_path):
    rng = np.random.default_rng(6)
    terrain = Heightmap(rng.uniform(-5.0, 25.0, (33, 33)), (64.0, 64.0), (3.0, -4.0))
    size, pos = write_heightmap(terrain, tmp_path / "h.png")
    back = read_heightmap(tmp_path / "h.png", size, pos)
    assert back.heights_m == pytest.approx(terrain.heights_m, abs=0.5 * 30.0 / 65535)  # half a step
    assert (back.size_m, back.center_W_m) == (terrain.size_m, terrain.center_W_m)
    flat = Heightmap(np.full((3, 3), 2.5), (4.0, 4.0))
    size, pos = write_heightmap(flat, tmp_path / "flat.png")
    assert (size, pos) == ((4.0, 4.0, 0.0), (0.0, 0.0, 2.5))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (model("<torus/>"), ["collision 'c'", "<torus> is not known", "box"]),
        (model("<polyline/>"), ["<point>", "at least 3"]),
        (model("<polyline>" + "<point>1 1</point>" * 3 + "</polyline>"), ["no area"]),
        (model("<capsule><radius>0</radius></capsule>"), ["radius", "> 0"]),
        (model("<cone><length>-1</length></cone>"), ["length", "> 0"]),
        (model("<ellipsoid><radii>1 2 0</radii></ellipsoid>"), ["> 0"]),
        (model(""), ["<geometry>"]),
        (model(BALL + BALL), ["<geometry>"]),
        ("<model name='m'><link name='l'><collision name='c'/></link></model>", ["<geometry>"]),
        (model("<sphere><radius>-1</radius></sphere>"), ["model 'm'", "-1.0", "> 0"]),
        (model("<sphere><radius>nan</radius></sphere>"), ["'nan'", "finite"]),
        (model("<sphere><radius>one</radius></sphere>"), ["'one'"]),
        (model("<sphere><radius>1</radius><radius>2</radius></sphere>"), ["2 times"]),
        (model("<box><size>1 2</size></box>"), ["'1 2'", "3 finite numbers"]),
        (model("<box><size>1 2 0</size></box>"), ["size", "> 0"]),
        (model("<plane><normal>0 0 0</normal></plane>"), ["<normal>", "no direction"]),
        (model(BALL, pose="<pose>1 2 3</pose>"), ["<pose>", "6 finite numbers"]),
        (model(BALL, pose="<pose relative_to='other'/>"), ["'other'", "allowed: world, m"]),
        (model(BALL, link="<pose relative_to='world'/>"), ["'world'", "__model__, l"]),
        (model(BALL, collision="<pose frame='x'/>"), ["'x'", "__model__, l"]),
        (model(BALL, pose="<pose/><pose/>"), ["<pose>", "2 times"]),
        (model(BALL, pose="<pose rotation_format='axis'/>"), ["rotation_format"]),
        (
            model(BALL, pose="<pose rotation_format='quat_xyzw'>0 0 0 1 1 0 0</pose>"),
            ["unit length"],
        ),
        ("<model name='m' placement_frame='f'/>", ["'f'", "__model__"]),
        ("<frame name='a' attached_to='b'/><frame name='b' attached_to='a'/>", ["on itself"]),
        ("<population name='p'/>", ["<population> is not known"]),
        ("<include/>", ["<uri> is missing"]),
        ("<include><uri>model://no</uri></include>", ["'model://no'", "no such file", "models"]),
        ("<gravity>9.81</gravity>", ["<gravity>", "3 finite numbers"]),
        (
            globe("<latitude_deg>99</latitude_deg><longitude_deg>0</longitude_deg>"),
            ["latitude_deg", "99"],
        ),
        (
            globe("<world_frame_orientation>NED</world_frame_orientation>"),
            ["NED", "ENU"],
        ),
        ("</world><world name='v'>", ["<world>", "2 times"]),
    ],
)
def test_what_is_wrong_is_named(refusal, content, words):
    message = refusal(content)
    for word in words:
        assert word in message


def test_a_world_is_an_sdf_of_a_known_version(tmp_path, refusal):
    assert "version='1.2'" in refusal("", version="1.2")
    assert "version='2.0'" in refusal("", version="2.0")
    path = tmp_path / "w.sdf"
    path.write_text("<robot name='r'/>")
    with pytest.raises(InputError, match="<robot"):
        load_world(path)
    path.write_text("<sdf version='1.9'/>")
    with pytest.raises(InputError, match="<world> is missing"):
        load_world(path)


def test_worlds_are_found_by_name_or_path(tmp_path):
    assert "flat" in known_worlds()
    assert find_world("flat").name == "flat.sdf"
    with pytest.raises(InputError, match=r"unknown world 'mars'; known: .*flat"):
        find_world("mars")
    with pytest.raises(InputError, match="no such file"):
        find_world(str(tmp_path / "mars.sdf"))
    path = tmp_path / "mine.sdf"
    path.write_text("<sdf version='1.9'><world name='w'/></sdf>")
    assert find_world(str(path)) == path
    assert math.isinf(cast_ray(load_world(path).scene(), 0.0, (0.0, 0.0, 9.0), DOWN, 5.0)[0])
