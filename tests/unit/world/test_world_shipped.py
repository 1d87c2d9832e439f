"""The worlds that come along: what is where, and that they are what their words say."""

import math

import numpy as np
import pytest
from heightmap_image import write_heightmap

from quadsim.base.files import find_world, known_worlds
from quadsim.geometry.geodesy import Datum
from quadsim.world.scene.obstacles import Mesh, Plane
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import cast_ray
from quadsim.world.scene.terrain_hills import HillsParams, hills
from quadsim.world.sdf.world_file import load_world

EAST, DOWN = (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)


def cast(world, origin, direction, range_max_m=100.0):
    return cast_ray(world.scene(), 0.0, origin, direction, range_max_m)


@pytest.mark.parametrize("name", sorted(set(known_worlds()) - {"slope"}))
def test_every_world_can_be_flown_from_the_origin(name):
    assert name in known_worlds()
    world = load_world(find_world(name))
    assert world.name == name
    assert world.datum == Datum()
    assert world.gravity_W_mps2 == (0.0, 0.0, -9.80665)
    scene = world.scene()
    assert terrain_height(scene.terrain, 0.0, 0.0, 0.0) == pytest.approx(0.0, abs=1e-3)
    assert world.ground_height_m == (None if name == "hills" else 0.0)
    for height in (0.2, 2.0, 10.0):
        for angle in np.linspace(0.0, 2.0 * np.pi, 100):
            level = (math.cos(angle), math.sin(angle), 0.0)
            assert math.isinf(cast_ray(scene, 0.0, (0.0, 0.0, height), level, 3.0)[0])


def test_the_course():
    world = load_world(find_world("obstacle_course"))
    assert {type(o.shape).__name__ for o in world.obstacles} == {
        "Plane",
        "Box",
        "Cylinder",
        "Sphere",
        "Mesh",
    }
    assert cast(world, (0.0, -4.0, 1.0), EAST) == pytest.approx((7.85, 1.0))
    assert cast(world, (0.0, -1.5, 3.5), EAST) == pytest.approx((13.9, 1.0))
    assert cast(world, (29.0, 1.0, 9.0), DOWN) == pytest.approx((5.5, 1.0))
    rocks = [o for o in world.obstacles if isinstance(o.shape, Mesh)]
    assert all(rock.shape.closed for rock in rocks)
    for rock in rocks:
        x, y, _ = rock.pose_W.p_A
        height = 9.0 - cast(world, (x, y, 9.0), DOWN)[0]
        assert 0.5 < height < 1.5
        assert cast(world, (x, y, 0.1), EAST) == (0.0, 1.0)


def test_the_forest():
    world = load_world(find_world("forest"))
    trees = np.array([o.pose_W.p_A for o in world.obstacles if not isinstance(o.shape, Plane)])
    trunks = np.unique(np.round(trees[:, :2], 6), axis=0)
    assert len(trunks) == 80
    apart = np.linalg.norm(trunks[:, None] - trunks, axis=2) + 99.0 * np.eye(80)
    assert apart.min() > 3.49  # positions are written in centimetres
    assert np.linalg.norm(trunks, axis=1).min() > 4.99
    for x, y in trunks:
        distance, _ = cast(world, (x - 1.0, y, 1.5), EAST)
        assert min(abs(1.0 - distance - radius) for radius in (0.15, 0.25)) < 1e-9


def test_the_hills_are_made_by_the_generator(tmp_path):
    """As docs/world.md says."""
    terrain = hills(
        HillsParams(height_m=30.0, wavelength_m=400.0, seed=26, cells=128, pad_radius_m=8.0)
    )
    size, pos = write_heightmap(terrain, tmp_path / "hills.png")
    step_m = size[2] / 65535
    found = load_world(find_world("hills")).terrain
    assert found.heights_m == pytest.approx(terrain.heights_m, abs=step_m)
    assert found.size_m == size[:2]
    assert found.center_W_m == pos[:2]
