"""Worlds as Gazebo reads them: its XML, its shapes and default sizes, its frames and its paths."""

import math

import numpy as np
import pytest
import trimesh
from PIL import Image

from quadsim.base.errors import InputError
from quadsim.base.xml import XmlError, parse
from quadsim.world.scene.distance import surface_distance
from quadsim.world.scene.obstacles import Box, Cylinder, Sphere
from quadsim.world.scene.scene import cast_ray
from quadsim.world.scene.solids import cone, ellipsoid, prism
from quadsim.world.sdf.world_file import load_world

DOWN = (0.0, 0.0, -1.0)
BALL = "<sphere><radius>1</radius></sphere>"
CUBE = "<box/>"


def model(geometry, name="m", pose="", inside=""):
    return (
        f"<model name='{name}'>{pose}{inside}<link name='l'><collision name='c'>"
        f"<geometry>{geometry}</geometry></collision></link></model>"
    )


@pytest.fixture
def world(tmp_path):
    def load(content, version="1.11", name="w.sdf"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<sdf version='{version}'><world name='w'>{content}</world></sdf>")
        return load_world(path)

    return load


def places(found):
    return {o.name.split("'")[1]: o.pose_W.p_A for o in found.obstacles}


@pytest.mark.parametrize(
    "text",
    [
        "<!-- --msgtype gz.msgs.Wind -- --><a b='1'>x</a>",
        "\n  <?xml version='1.0'?><a b='1'>x</a>",
        "<!-- first --><?xml version='1.0' encoding='no-such'?><a b='1'>x</a>",
        "<a b='1'c=\"2\">x</a>",
        "<a b='1' b='2'>x</a>",
        "<a  b =\n'1' >x</a ><second/>",
        "<a b='1'>x<!----></a> text",
        "<a b='&#49;'>&#x78;</a>",
        "<a b='1'><![CDATA[x]]></a>",
    ],
)
def test_xml_as_tinyxml2_reads_it(text):
    root = parse(text)
    assert (root.tag, root.get("b"), root.text) == ("a", "1", "x")


def test_xml_that_expat_refuses():
    root = parse("<a gz:b='1&2'><gz:c>&nobody; &amp; R&D < </gz:c></a>".replace("< <", "<"))
    assert root.get("gz:b") == "1&2"
    assert root.findtext("gz:c") == "&nobody; & R&D "
    assert parse(b"<a>\xff</a>").text == "\ufffd"
    assert parse(b"\xef\xbb\xbf<a>x</a>").text == "x"
    with pytest.raises(XmlError, match="line 3"):
        parse("<a>\n<b>\n</a>")


def test_default_sizes(world):
    tags = ("box", "sphere", "cylinder")
    found = world("".join(model(f"<{tag}/>", tag) for tag in tags))
    assert [o.shape for o in found.obstacles] == [
        Box((1.0, 1.0, 1.0)),
        Sphere(1.0),
        Cylinder(1.0, 1.0),
    ]
    assert world(model("<ellipsoid/>")).obstacles[0].shape == Sphere(1.0)
    assert {type(o.shape) for o in world(model("<capsule/>")).obstacles} == {Cylinder, Sphere}


def top_m(found, x, y):
    return 9.0 - cast_ray(found.scene(), -9.0, (x, y, 9.0), DOWN, 99.0)[0]


def test_a_capsule_is_exact(world):
    found = world(model("<capsule><radius>0.5</radius><length>2</length></capsule>"))
    for x in (0.0, 0.2, 0.49):
        assert top_m(found, x, 0.0) == pytest.approx(1.0 + math.sqrt(0.25 - x * x), abs=1e-12)
    side = cast_ray(found.scene(), -9.0, (3.0, 0.0, 0.7), (-1.0, 0.0, 0.0), 9.0)
    assert side == pytest.approx((2.5, 1.0))


def test_a_cone_and_an_ellipsoid(world):
    """64 sides: at most 1 - cos(pi / 64) = 0.12 % thinner."""
    thinner = 1.0 - math.cos(math.pi / 64)
    found = world(model("<cone><radius>1</radius><length>2</length></cone>"))
    assert top_m(found, 0.0, 0.0) == pytest.approx(1.0, abs=1e-9)
    for x, y in ((0.3, 0.4), (-0.6, 0.1)):
        r = math.hypot(x, y)
        assert 1.0 - 2.0 * r / (1.0 - thinner) - 1e-9 <= top_m(found, x, y) <= 1.0 - 2.0 * r + 1e-9
    found = world(model("<ellipsoid><radii>1 2 3</radii></ellipsoid>"))
    x, y = 0.3, -0.9
    exact = 3.0 * math.sqrt(1.0 - x**2 - (y / 2.0) ** 2)
    assert top_m(found, x, y) == pytest.approx(exact, abs=3.0 * 3.0 * thinner)


@pytest.mark.parametrize(
    ("mesh", "volume"),
    [
        (cone(2.0, 3.0), math.pi * 4.0),
        (ellipsoid((1.0, 2.0, 3.0)), 8.0 * math.pi),
        (prism([[(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)]], 2.0), 20.0),  # notched
        (prism([[(0, 0), (0, 4), (4, 4), (4, 0)], [(1, 1), (3, 1), (3, 3), (1, 3)]], 0.5), 6.0),
    ],
)
def test_volumes_of_solids(mesh, volume):
    """By the divergence theorem, which holds only where all triangles look outwards."""
    a, b, c = np.moveaxis(mesh.triangles_m, 1, 0)
    found = np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0
    assert mesh.closed
    assert found == pytest.approx(volume, rel=0.01)
    normals = np.cross(b - a, c - a)
    np.testing.assert_allclose(normals.sum(axis=0), 0.0, atol=1e-9)  # no hole


def test_outlines_with_a_hole(world):
    def outline(*points):
        corners = "".join(f"<point>{x} {y}</point>" for x, y in points)
        return f"<polyline>{corners}<height>2</height></polyline>"

    shape = outline((0, 0), (4, 0), (4, 4), (0, 4)) + outline((1, 1), (3, 1), (3, 3), (1, 3))
    found = world(model(shape))
    assert top_m(found, 0.5, 2.2) == pytest.approx(2.0)
    assert top_m(found, 2.0, 2.0) == pytest.approx(-9.0)
    inside = surface_distance(found.scene(), -9.0, (0.3, 2.2, 1.0), 1.0)
    assert inside[0] == pytest.approx(-0.3)
    assert inside[1] == pytest.approx((-1.0, 0.0, 0.0))


def test_poses_in_named_frames(world):
    """By hand: b stands on a, which is turned left by 90 degrees at (1, 0, 0)."""
    a = "<frame name='a'><pose degrees='true'>1 0 0 0 0 90</pose></frame>"
    b = "<frame name='b' attached_to='a'><pose>2 0 0 0 0 0</pose></frame>"
    on_b = model(BALL, "m", "<pose relative_to='b'>0 1 0 0 0 0</pose>")
    on_m = model(BALL, "n", "<pose relative_to='m::g'>1 0 0 0 0 0</pose>")
    g = "<frame name='g'><pose>0 0 5 0 0 0</pose></frame>"
    found = world(b + a + on_b.replace("<link", g + "<link", 1) + on_m)
    assert places(found)["m"] == pytest.approx((0.0, 2.0, 0.0), abs=1e-12)
    assert places(found)["n"] == pytest.approx((0.0, 3.0, 5.0), abs=1e-12)
    assert found.frame("b").p_A == pytest.approx((1.0, 2.0, 0.0), abs=1e-12)


def test_poses_in_a_model(world):
    links = (
        "<link name='k'><pose relative_to='j'>0 0 1 0 0 0</pose></link>"
        "<joint name='j' type='fixed'><parent>l</parent><child>i</child></joint>"
        "<link name='i'><pose>0 7 0 0 0 0</pose></link>"
    )
    text = model(BALL, "m", "<pose>1 0 0 0 0 0</pose>", links)
    text = text.replace("<collision name='c'>", "<collision name='c'><pose relative_to='k'/>")
    assert places(world(text))["m"] == pytest.approx((1.0, 7.0, 1.0))
    placed = model(BALL, "m", "<pose>5 0 0 0 0 0</pose>", links)
    placed = placed.replace("name='m'", "name='m' placement_frame='i'")
    assert places(world(placed))["m"] == pytest.approx((5.0, -7.0, 0.0))


def test_a_heading_turns_the_world(world):
    """The x axis of the file looks 90 degrees from east towards north: to the north."""
    globe = "<spherical_coordinates><heading_deg>{}</heading_deg></spherical_coordinates>"
    content = (
        model(BALL, "m", "<pose>10 0 1 0 0 0</pose>")
        + "<frame name='f'><pose>0 2 0 0 0 0</pose></frame>"
        + "<wind><linear_velocity>3 0 0</linear_velocity></wind>"
        + "<magnetic_field>2e-5 0 -4e-5</magnetic_field>"
    )
    found = world(content + globe.format(90))
    assert places(found)["m"] == pytest.approx((0.0, 10.0, 1.0), abs=1e-12)
    assert found.frame("f").p_A == pytest.approx((-2.0, 0.0, 0.0), abs=1e-12)
    assert found.wind_W_mps == pytest.approx((0.0, 3.0, 0.0), abs=1e-12)
    assert found.magnetic_field_W_T == pytest.approx((0.0, 2e-5, -4e-5), abs=1e-18)
    assert found.heading_deg == 90.0
    classic = world(content + globe.format(180), version="1.5")  # its GPS counted from the west
    assert places(classic)["m"] == (10.0, 0.0, 1.0)


def test_gravity_where_sdf_1_5_had_it(world):
    old = "<physics><gravity>0 0 -9.7</gravity></physics>"
    assert world(old, version="1.5").gravity_W_mps2 == (0.0, 0.0, -9.7)


def test_poses_that_gazebo_classic_saved(world):
    state = "<state world_name='w'><model name='m'><pose>4 5 6 0 0 0</pose></model></state>"
    assert places(world(model(BALL) + state))["m"] == (4.0, 5.0, 6.0)


def ball(folder, name="ball", file="model.sdf"):
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / file
    path.write_text(f"<sdf version='1.6'>{model(BALL, name)}</sdf>")
    return path


INCLUDE = "<include><uri>model://ball</uri><pose>1 2 3 0 0 0</pose></include>"


def test_models_are_found_where_gazebo_finds_them(world, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="GZ_SIM_RESOURCE_PATH"):
        world(INCLUDE)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-models"
    ball(elsewhere)
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", f"/nowhere:{elsewhere}")
    assert world(INCLUDE).obstacles[0].pose_W.p_A == (1.0, 2.0, 3.0)
    inside = f"<include><uri>file://{elsewhere / 'ball'}</uri></include>"
    assert len(world(inside).obstacles) == 1
    monkeypatch.delenv("GZ_SIM_RESOURCE_PATH")
    with pytest.raises(InputError, match="leads out"):
        world(inside)
    ball(tmp_path / "models")  # beside worlds, as packages have it
    assert len(world(INCLUDE, name="worlds/w.sdf").obstacles) == 1
    near = "<include><uri>../models/ball</uri></include>"
    assert len(world(near, name="worlds/w.sdf").obstacles) == 1


def test_a_models_config_names_its_file(world, tmp_path):
    ball(tmp_path / "models", file="model-1_5.sdf")
    (tmp_path / "models/ball/model.config").write_text(
        "<model><sdf version='1.4'>none.sdf</sdf><sdf version='1.5'>model-1_5.sdf</sdf></model>"
    )
    assert len(world(INCLUDE).obstacles) == 1


def test_what_gazebo_has_downloaded(world, tmp_path, monkeypatch):
    uri = "https://fuel.gazebosim.org/1.0/OpenRobotics/models/Red%20Ball"
    include = f"<include><uri>{uri}</uri></include>"
    monkeypatch.setenv("GZ_FUEL_CACHE_PATH", str(tmp_path / "fuel"))
    with pytest.raises(InputError, match="nothing is downloaded"):
        world(include)
    for version in ("2", "10"):
        ball(tmp_path / "fuel/fuel.gazebosim.org/openrobotics/models/red ball", version)
    found = world(include).obstacles
    assert len(found) == 1
    assert "red ball" not in found[0].name


def test_models_that_come_with_gazebo(world):
    found = world("<include><uri>model://sun</uri></include>")
    assert found.obstacles == ()
    found = world("<include><uri>model://ground_plane</uri><pose>0 0 2 0 0 0</pose></include>")
    assert found.ground_height_m == 2.0


def test_a_turned_heightmap_and_a_second_one(world, tmp_path):
    pixels = np.random.default_rng(3).integers(0, 255, (5, 5), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "h.png")
    text = "<heightmap><uri>h.png</uri><size>8 8 4</size></heightmap>"
    plain = world(model(text))
    turned = world(model(text, pose="<pose degrees='true'>0 0 0 0 0 90</pose>"))
    assert turned.terrain is None
    for x, y in ((1.1, 2.3), (-3.3, 0.7), (2.9, -1.6)):
        assert top_m(turned, -y, x) == pytest.approx(top_m(plain, x, y), abs=1e-9)
    two = world(model(text) + model(text, "n", "<pose>20 0 1 0 0 0</pose>"))
    assert top_m(two, 21.1, 2.3) == pytest.approx(top_m(plain, 1.1, 2.3) + 1.0, abs=1e-9)


DAE = """<?xml version="1.0"?><COLLADA xmlns="http://x" version="1.4.1">
<asset><unit meter="0.5"/><up_axis>Y_UP</up_axis></asset><library_geometries>
<geometry id="g" name="box"><mesh><source id="p"><float_array id="a" count="24">{points}
</float_array><technique_common><accessor source="#a" count="8" stride="3"/></technique_common>
</source><vertices id="v"><input semantic="POSITION" source="#p"/></vertices>{faces}</mesh>
</geometry></library_geometries><library_visual_scenes><visual_scene id="s"><node name="n">
<translate>1 0 0</translate><rotate>0 0 1 90</rotate><scale>1 1 2</scale>
<instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


@pytest.mark.parametrize("kind", ["triangles", "polylist"])
def test_collada(world, tmp_path, kind):
    """A box of 2 x 4 x 6 is turned, moved and scaled by its node, and halved by its unit."""
    box = trimesh.creation.box((2.0, 4.0, 6.0))
    corners = np.column_stack([box.faces.ravel(), np.zeros(36, int)]).ravel()
    counts = f"<vcount>{'3 ' * 12}</vcount>" if kind == "polylist" else ""
    faces = (
        f"<{kind} count='12'><input semantic='VERTEX' source='#v' offset='0'/>"
        f"<input semantic='NORMAL' source='#v' offset='1'/>{counts}"
        f"<p>{' '.join(map(str, corners))}</p></{kind}>"
    )
    points = " ".join(map(repr, box.vertices.ravel().tolist()))
    (tmp_path / "b.dae").write_text(DAE.format(points=points, faces=faces))
    (it,) = world(model("<mesh><uri>b.dae</uri></mesh>")).obstacles
    found = it.shape.triangles_m.reshape(-1, 3)
    assert it.shape.closed
    np.testing.assert_allclose(found.min(axis=0), [-0.5, -0.5, -3.0], atol=1e-12)
    np.testing.assert_allclose(found.max(axis=0), [1.5, 0.5, 3.0], atol=1e-12)
    part = "<mesh><uri>b.dae</uri><submesh><name>{}</name><center>true</center></submesh></mesh>"
    (it,) = world(model(part.format("box"))).obstacles
    assert np.abs(it.shape.triangles_m).max() == pytest.approx(3.0)
    with pytest.raises(InputError, match="no geometry 'other'"):
        world(model(part.format("other")))
