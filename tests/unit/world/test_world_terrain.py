"""Rays against terrain: closed forms, and all its triangles one by one."""

import math

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from quadsim.base.errors import InputError
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import EMPTY_SCENE, cast_ray, scene_of
from quadsim.world.scene.terrain import Heightmap

RANGE_M = 200.0
DOWN, UP = (0.0, 0.0, -1.0), (0.0, 0.0, 1.0)
NONE = (math.inf, 0.0)
# Some ten operations on distances of up to 100 m.
ROUNDING = 1e-12


def rough(rows, columns, size=(20.0, 12.0), center=(3.0, -2.0), seed=1, height=3.0):
    rng = np.random.default_rng(seed)
    return Heightmap(rng.uniform(0.0, height, (rows, columns)), size, center)


def grid_of(terrain):
    rows, columns = terrain.heights_m.shape
    x = terrain.center_W_m[0] + np.linspace(-0.5, 0.5, columns) * terrain.size_m[0]
    y = terrain.center_W_m[1] + np.linspace(-0.5, 0.5, rows) * terrain.size_m[1]
    return x, y


def triangles_of(terrain):
    """Two triangles in each cell, which share the edge from south-west to north-east."""
    x, y = np.meshgrid(*grid_of(terrain))
    points = np.stack([x, y, terrain.heights_m], axis=-1)
    sw, se = points[:-1, :-1], points[:-1, 1:]
    nw, ne = points[1:, :-1], points[1:, 1:]
    both = [np.stack([sw, se, ne], axis=2), np.stack([sw, ne, nw], axis=2)]
    return np.concatenate([part.reshape(-1, 3, 3) for part in both])


def nearest_triangle(triangles, origin, direction):
    """Distance and cosine on the first triangle, found by trying all of them."""
    normals, _ = trimesh.triangles.normals(triangles)
    slant = normals @ direction
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.einsum("ij,ij->i", normals, triangles[:, 0] - origin) / slant
    t[~np.isfinite(t)] = -1.0
    weights = trimesh.triangles.points_to_barycentric(triangles, origin + t[:, None] * direction)
    hit = np.all(weights >= -1e-12, axis=1) & (t >= 0.0)
    if not np.any(hit):
        return NONE
    first = np.argmin(np.where(hit, t, math.inf))
    return t[first], abs(slant[first])


def unit(vector):
    return np.array(vector) / np.linalg.norm(vector)


def cast(scene, origin, direction, ground=-100.0, range_max_m=RANGE_M):
    return cast_ray(scene, ground, tuple(origin), tuple(direction), range_max_m)


@given(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.floats(-9.0, 9.0), st.floats(-5.0, 5.0))
def test_a_tilted_plane_is_met_exactly(east, north, x, y):
    terrain = rough(7, 10)
    xs, ys = np.meshgrid(*grid_of(terrain))
    scene = scene_of((), Heightmap(5.0 + east * xs + north * ys, terrain.size_m, (3.0, -2.0)))
    x, y = 3.0 + x, y - 2.0
    height = 5.0 + east * x + north * y
    assert terrain_height(scene.terrain, 0.0, x, y) == pytest.approx(height, abs=1e-12)
    normal = unit([-east, -north, 1.0])
    target, direction = np.array([x, y, height]), unit([-0.3, 0.2, -1.0])
    if normal @ direction > -1e-3:
        return  # from below, or so flat that rounding moves the hit
    origin = target - 0.7 * direction
    distance, cosine = cast(scene, origin, direction)
    along = origin + np.outer([0.0, 0.35, 0.7], direction)
    if np.all(np.abs(along[:, :2] - [3.0, -2.0]) <= [10.0, 6.0]):  # not through a border's wall
        assert distance == pytest.approx(0.7, abs=1e-11)
        assert cosine == pytest.approx(-normal @ direction, abs=1e-12)


@pytest.mark.parametrize("shape", [(2, 2), (2, 9), (5, 3), (17, 17), (30, 41)])
def test_random_rays_meet_what_trying_all_triangles_finds(shape):
    terrain = rough(*shape, seed=shape[0])
    scene, triangles = scene_of((), terrain), triangles_of(terrain)
    rng = np.random.default_rng(shape[1])
    low, high = np.array([-7.0, -8.0, 3.0]), np.array([13.0, 4.0, 12.0])
    found, wanted = [], []
    for _ in range(120):
        origin = rng.uniform(low, high)
        target = rng.uniform(low, high) * [1.0, 1.0, 0.2]
        direction = unit(target - origin)
        found.append(cast(scene, origin, direction, ground=-1e6))
        wanted.append(nearest_triangle(triangles, origin, direction))
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-10)
    assert np.count_nonzero(np.isfinite(np.array(wanted)[:, 0])) > 60


def test_rays_that_climb_meet_steeper_slopes():
    terrain = rough(33, 33, seed=4)
    scene, triangles = scene_of((), terrain), triangles_of(terrain)
    rng = np.random.default_rng(12)
    found, wanted = [], []
    for _ in range(100):
        x, y = rng.uniform([-6.0, -7.0], [12.0, 3.0])
        origin = np.array([x, y, terrain_height(scene.terrain, 0.0, x, y) + 0.05])
        direction = unit([*rng.standard_normal(2), rng.uniform(0.05, 1.0)])
        found.append(cast(scene, origin, direction, ground=-1e6))
        wanted.append(nearest_triangle(triangles, origin, direction))
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-10)
    assert np.count_nonzero(np.isfinite(np.array(wanted)[:, 0])) > 40


def test_level_and_upright_rays_along_the_grid_lines():
    terrain = rough(9, 17, seed=5)
    scene, triangles = scene_of((), terrain), triangles_of(terrain)
    x, y = grid_of(terrain)
    for k in range(9):
        for origin, direction in (
            ([x[k], y[k], 9.0], [0.0, 0.0, -1.0]),
            ([x[0], y[k], 2.5], [1.0, 0.0, 0.0]),
            ([x[k], y[0], 2.5], [0.0, 1.0, 0.0]),
            ([x[-1], y[k], 2.5], [-1.0, 0.0, 0.0]),
        ):
            if origin[2] < terrain_height(scene.terrain, 0.0, *origin[:2]):
                continue
            wanted = nearest_triangle(triangles, np.array(origin), np.array(direction))[0]
            # On a grid line two triangles are met at once, so that the normal may be either's.
            found = cast(scene, origin, direction, ground=-1e6)[0]
            assert found == pytest.approx(wanted, abs=1e-10)


def test_height_and_normal_against_the_triangles():
    terrain = rough(6, 8, seed=3)
    scene, triangles = scene_of((), terrain), triangles_of(terrain)
    normals, _ = trimesh.triangles.normals(triangles)
    rng = np.random.default_rng(3)
    for _ in range(100):
        weights = rng.dirichlet([1.0, 1.0, 1.0])
        k = rng.integers(len(triangles))
        x, y, z = weights @ triangles[k]
        assert terrain_height(scene.terrain, 0.0, x, y) == pytest.approx(z, abs=ROUNDING)
        distance, cosine = cast(scene, (x, y, z + 5.0), DOWN)
        assert (distance, cosine) == pytest.approx((5.0, normals[k][2]), abs=ROUNDING)
    for x, y in ((-7.1, 0.0), (13.1, 0.0), (3.0, 4.1), (3.0, -8.1), (math.nan, 0.0)):
        assert terrain_height(scene.terrain, 0.7, x, y) == 0.7
    assert terrain_height(EMPTY_SCENE.terrain, -3.0, 1.0, 2.0) == -3.0
    corners = [(-7.0, -8.0), (13.0, -8.0), (-7.0, 4.0), (13.0, 4.0)]
    found = [terrain_height(scene.terrain, 9.0, x, y) for x, y in corners]
    assert found == pytest.approx(terrain.heights_m[[0, 0, -1, -1], [0, -1, 0, -1]], abs=ROUNDING)


def plateau(height):
    return scene_of((), Heightmap(np.full((5, 5), height), (10.0, 10.0)))


def test_outside_the_heightmap_the_flat_ground_holds():
    hill = plateau(2.0)
    assert cast(hill, (20.0, 0.0, 5.0), DOWN, ground=1.0) == (4.0, 1.0)
    assert cast(hill, (0.0, 0.0, 5.0), DOWN, ground=1.0) == (3.0, 1.0)
    slant = unit([1.0, 0.0, -0.1])
    distance, cosine = cast(hill, (0.0, 0.0, 2.6), slant, ground=1.0)  # over the border, then down
    assert distance * -slant[2] == pytest.approx(1.6, abs=ROUNDING)
    assert cosine == pytest.approx(-slant[2], abs=ROUNDING)
    assert cast(hill, (0.0, 0.0, 2.4), slant, ground=1.0)[0] * -slant[2] == pytest.approx(0.4)


def test_borders_are_walls():
    hill, pit = plateau(2.0), plateau(-2.0)
    level = (1.0, 0.0, 0.0)
    assert cast(hill, (-9.0, 0.0, 1.5), level, ground=0.0) == (4.0, 1.0)
    oblique = (0.8, 0.6, 0.0)
    assert cast(hill, (-9.0, 0.0, 1.5), oblique, ground=0.0) == pytest.approx((5.0, 0.8))
    assert cast(hill, (-9.0, 0.0, 2.5), level, ground=0.0) == NONE
    assert cast(pit, (1.0, 0.0, -1.0), level, ground=0.0) == (4.0, 1.0)
    assert cast(pit, (1.0, 0.0, 1.0), level, ground=0.0) == NONE
    climbing = (0.8, 0.0, 0.6)
    assert cast(pit, (4.5, 0.0, -0.1), climbing, ground=0.0) == NONE  # out of the pit, and away
    assert cast(pit, (4.5, 0.0, -1.0), climbing, ground=0.0) == pytest.approx((0.625, 0.8))
    assert cast(pit, (0.0, 0.0, -1.0), UP, ground=0.0) == NONE
    into_it = unit([1.0, 0.0, -0.2])  # over the near border, against the far one
    assert cast(pit, (-9.0, 0.0, 1.0), into_it, ground=0.0) == pytest.approx(
        (14.0 / into_it[0], into_it[0])
    )


def test_under_the_ground_everything_is_near():
    hill, pit = plateau(2.0), plateau(-2.0)
    for direction in (UP, DOWN, (1.0, 0.0, 0.0)):
        assert cast(hill, (0.0, 0.0, 1.9), direction, ground=0.0) == (0.0, 1.0)
        assert cast(pit, (9.0, 0.0, -0.1), direction, ground=0.0) == (0.0, 1.0)
    assert cast(hill, (0.0, 0.0, 2.0), UP, ground=0.0) == NONE  # it stands on it


def test_range():
    hill = plateau(2.0)
    assert cast(hill, (0.0, 0.0, 9.0), DOWN, range_max_m=7.001) == (7.0, 1.0)
    assert cast(hill, (0.0, 0.0, 9.0), DOWN, range_max_m=6.999) == NONE
    assert cast(hill, (0.0, 0.0, 9.0), DOWN, range_max_m=math.inf) == (7.0, 1.0)
    assert cast(hill, (0.0, 0.0, 9.0), UP, range_max_m=math.inf) == NONE
    assert cast(hill, (-20.0, 0.0, 1.5), (1.0, 0.0, 0.0), range_max_m=14.9, ground=0.0) == NONE


@pytest.mark.parametrize(
    ("heights", "size", "word"),
    [
        (np.zeros((1, 5)), (1.0, 1.0), "points"),
        (np.zeros((5, 4098)), (1.0, 1.0), "points"),
        (np.zeros(4), (1.0, 1.0), "points"),
        (np.full((2, 2), math.nan), (1.0, 1.0), "finite"),
        (np.zeros((2, 2)), (1.0, 0.0), "size"),
        (np.zeros((2, 2)), (math.nan, 1.0), "size"),
    ],
)
def test_impossible_terrain_is_refused(heights, size, word):
    with pytest.raises(InputError, match=word):
        Heightmap(heights, size)
