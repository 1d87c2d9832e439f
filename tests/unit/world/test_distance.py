"""Distances to surfaces against closed forms, all triangles one by one, and the rays' own world."""

import math
from itertools import pairwise

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from quadsim.geometry.rotation import from_euler
from quadsim.world.scene.distance import (
    SHEET_HALF_THICKNESS_M,
    obstacle_distance,
    obstacles_beyond,
    surface_distance,
)
from quadsim.world.scene.distance_ground import ground_distance, highest_ground
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import EMPTY_SCENE, cast_ray, scene_of
from quadsim.world.scene.terrain import Heightmap

# A few dozen operations on lengths of up to 20 m.
ROUNDING = 1e-12
UP = (0.0, 0.0, 1.0)


def scene_with(shape, p_W=(0.0, 0.0, 0.0), rpy=(0.0, 0.0, 0.0)):
    return scene_of([Obstacle("it", shape, Pose(p_W, from_euler(*rpy)))])


def found(scene, p_W, reach_m=50.0):
    return obstacle_distance(scene, p_W, reach_m)


def check(scene, p_W, distance, normal):
    got = found(scene, p_W)
    assert got[0] == pytest.approx(distance, abs=ROUNDING)
    assert got[1] == pytest.approx(normal, abs=ROUNDING)


def test_a_box():
    box = scene_with(Box((2.0, 4.0, 6.0)), (10.0, 0.0, 0.0))
    check(box, (8.0, 1.0, 1.0), 1.0, (-1.0, 0.0, 0.0))
    check(box, (10.2, 1.0, -1.0), -0.8, (1.0, 0.0, 0.0))
    check(box, (10.0, -1.9, 0.0), -0.1, (0.0, -1.0, 0.0))
    check(box, (10.0, 0.0, 3.0), 0.0, UP)
    check(box, (14.0, 6.0, 0.0), 5.0, (0.6, 0.8, 0.0))  # from an edge
    check(box, (12.0, 4.0, 5.0), 3.0, (1 / 3, 2 / 3, 2 / 3))  # from a corner
    assert found(box, (0.0, 0.0, 0.0), reach_m=8.9)[0] == math.inf


def test_a_sphere():
    ball = scene_with(Sphere(2.0), (0.0, 5.0, 0.0))
    check(ball, (0.0, 0.0, 0.0), 3.0, (0.0, -1.0, 0.0))
    check(ball, (0.6, 5.8, 0.0), -1.0, (0.6, 0.8, 0.0))
    assert found(ball, (0.0, 5.0, 0.0))[0] == -2.0  # every way is out


def test_a_cylinder():
    mast = scene_with(Cylinder(0.5, 4.0))
    check(mast, (3.0, 4.0, 1.0), 4.5, (0.6, 0.8, 0.0))
    check(mast, (0.3, 0.0, 3.0), 1.0, UP)
    check(mast, (0.0, 0.3, 1.0), -0.2, (0.0, 1.0, 0.0))
    check(mast, (0.1, 0.0, -1.9), -0.1, (0.0, 0.0, -1.0))
    check(mast, (0.5 + 3.0, 0.0, -6.0), 5.0, (0.6, 0.0, -0.8))  # from the rim
    lying = scene_with(Cylinder(0.5, 4.0), (0.0, 0.0, 0.0), (0.0, math.pi / 2, 0.0))
    check(lying, (1.0, 0.0, 2.0), 1.5, UP)


def test_a_plane():
    slope = scene_with(Plane(), (0.0, 0.0, 1.0), (0.0, 0.3, 0.0))
    normal = (math.sin(0.3), 0.0, math.cos(0.3))
    check(slope, (0.0, 7.0, 3.0), 2.0 * math.cos(0.3), normal)
    check(slope, (0.0, 7.0, 0.5), -0.5 * math.cos(0.3), normal)


def test_inside_several_the_deepest_counts():
    rng = np.random.default_rng(4)
    balls = [
        Obstacle(f"{k}", Sphere(rng.uniform(0.5, 2.0)), Pose(tuple(rng.uniform(-2.0, 2.0, 3))))
        for k in range(12)
    ]
    scene = scene_of(balls)
    several = 0
    for p in rng.uniform(-2.0, 2.0, (100, 3)):
        depths = [np.linalg.norm(p - ball.pose_W.p_A) - ball.shape.radius_m for ball in balls]
        several += np.count_nonzero(np.array(depths) < 0.0) > 1
        assert found(scene, tuple(p), reach_m=0.1)[0] == pytest.approx(
            min(depths) if min(depths) <= 0.1 else math.inf
        )
    assert several > 30


def rock():
    ball = trimesh.creation.icosphere(subdivisions=2, radius=1.5)
    dents = 1.0 + 0.3 * np.sin(5.0 * ball.vertices[:, :1]) * np.cos(4.0 * ball.vertices[:, 1:2])
    return trimesh.Trimesh(ball.vertices * dents, ball.faces)


def test_a_mesh_against_all_its_triangles():
    """The sign is the winding number of Van Oosterom and Strackee's solid angles."""
    shape = rock()
    turn = Rotation.from_euler("xyz", [0.3, -0.5, 1.1])
    x, y, z, w = turn.as_quat()
    pose = Pose((1.0, -2.0, 0.5), (w, x, y, z))
    triangles = np.array(shape.vertices[shape.faces])
    scene = scene_of([Obstacle("rock", Mesh(triangles, closed=True), pose)])
    rng = np.random.default_rng(3)
    inside = 0
    for p in rng.uniform(-2.2, 2.2, (300, 3)):
        nearest = trimesh.triangles.closest_point(triangles, np.tile(p, (len(triangles), 1)))
        offsets = p - nearest
        wanted = np.linalg.norm(offsets, axis=1).min()
        a, b, c = (triangles[:, k] - p for k in range(3))
        la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
        below = la * lb * lc + (a * b).sum(1) * lc + (b * c).sum(1) * la + (c * a).sum(1) * lb
        angle = np.arctan2(np.einsum("ij,ij->i", a, np.cross(b, c)), below).sum()
        sign = -1.0 if angle > math.pi else 1.0  # 2 pi inside, 0 outside
        inside += sign < 0
        p_W = tuple(turn.apply(p) + pose.p_A)
        distance, normal = found(scene, p_W)
        assert distance == pytest.approx(sign * wanted, abs=1e-9)
        surface = turn.inv().apply(np.array(p_W) - distance * np.array(normal) - pose.p_A)
        gap = trimesh.triangles.closest_point(triangles, np.tile(surface, (len(triangles), 1)))
        assert np.linalg.norm(surface - gap, axis=1).min() < 1e-9
    assert 40 < inside < 260


def test_a_closed_mesh_is_solid_beyond_the_reach():
    ball = trimesh.creation.icosphere(subdivisions=3, radius=2.0)
    depth = found(scene_with(Mesh(np.array(ball.triangles), closed=True)), (0.0, 0.3, 0.4), 0.01)[0]
    assert depth == pytest.approx(-1.5, abs=0.02)  # the ball has facets
    corners = np.array(trimesh.creation.box((4.0, 4.0, 4.0)).triangles)
    scene = scene_with(Mesh(corners, closed=True))
    assert found(scene, (0.0, 0.3, 0.5), reach_m=0.01)[0] == pytest.approx(-1.5)
    check(scene, (0.2, 0.4, 2.0), 0.0, UP)  # on a face its own normal holds


def test_a_sheet_is_as_thick_as_said_on_both_sides():
    sheet = np.array([[[0.0, -9.0, -9.0], [0.0, 9.0, -9.0], [0.0, 0.0, 9.0]]])
    scene = scene_with(Mesh(sheet, closed=False))
    skin = SHEET_HALF_THICKNESS_M
    check(scene, (1.0, 0.0, 0.0), 1.0 - skin, (1.0, 0.0, 0.0))
    check(scene, (-0.004, 0.0, 0.0), 0.004 - skin, (-1.0, 0.0, 0.0))
    assert found(scene, (skin + 0.05, 0.0, 0.0), reach_m=0.051)[0] == pytest.approx(0.05)


SHAPES = (
    Box((1.0, 2.0, 3.0)),
    Sphere(1.2),
    Cylinder(0.7, 3.0),
    Mesh(np.array(rock().triangles), closed=True),
)


def random_scene(seed, count):
    rng = np.random.default_rng(seed)
    obstacles = []
    for k in range(count):
        x, y, z, w = Rotation.random(rng=rng).as_quat()
        obstacles.append(
            Obstacle(f"{k}", SHAPES[k % 4], Pose(tuple(rng.uniform(-9.0, 9.0, 3)), (w, x, y, z)))
        )
    heights = rng.uniform(-12.0, -6.0, (9, 13))
    return scene_of(obstacles, Heightmap(heights, (14.0, 10.0), (1.0, -1.0))), rng


def test_the_nearest_point_is_where_rays_say_the_surface_is():
    """A ray against the normal meets it at that distance, and no other ray meets anything sooner.

    Inside, points nearer than the surface are inside as well.
    """
    scene, rng = random_scene(11, 100)
    ground = -8.0
    outside = 0
    for p in rng.uniform(-9.0, 9.0, (150, 3)):
        distance, normal = surface_distance(scene, ground, tuple(p), 30.0)
        ways = rng.standard_normal((60, 3))
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        if distance > 0.0:
            outside += 1
            # rays a little beside, as an edge may be passed within rounding
            near = -np.array(normal) + 1e-6 * np.vstack([np.zeros(3), ways])
            near /= np.linalg.norm(near, axis=1, keepdims=True)
            hits = [cast_ray(scene, ground, tuple(p), tuple(way), 50.0)[0] for way in near]
            # 1e-6 rad over 20 m, on a slope of up to 87 degrees
            assert min(hits) == pytest.approx(distance, abs=4e-4)
            for way in ways:
                assert cast_ray(scene, ground, tuple(p), tuple(way), 50.0)[0] >= distance - 1e-9
        else:
            for way in ways[:20]:
                point = p + way * -distance * (1.0 - 1e-9)
                assert cast_ray(scene, ground, tuple(point), UP, 1.0)[0] == 0.0
            just_out = p + np.array(normal) * (-distance + 1e-6)
            solid = surface_distance(scene, ground, tuple(just_out), 30.0)[0]
            assert solid < 2e-6  # out of that one, at the surface of another at most
    assert 30 < outside < 130


@pytest.mark.parametrize("reach_m", [0.2, 3.0, 40.0])
def test_the_reach_changes_no_answer_within_it(reach_m):
    scene, rng = random_scene(12, 40)
    for p in rng.uniform(-9.0, 9.0, (200, 3)):
        everything = found(scene, tuple(p), 100.0)
        got = found(scene, tuple(p), reach_m)
        if everything[0] <= reach_m:
            assert got == everything
        else:
            assert got[0] == math.inf


@pytest.mark.parametrize("horizon_m", [1.0, 20.0])
def test_the_free_radius_is_free_and_no_more_than_asked(horizon_m):
    scene, rng = random_scene(13, 12)
    free = []
    for p in rng.uniform(-12.0, 12.0, (200, 3)):
        radius = obstacles_beyond(scene, tuple(p), horizon_m)
        distance = found(scene, tuple(p), 100.0)[0]
        assert 0.0 <= radius <= max(0.0, min(distance, horizon_m)) + ROUNDING
        free.append(radius / min(max(distance, 1e-9), horizon_m))
    assert np.median(free) > 0.5  # boxes are not much larger than what is in them
    assert obstacles_beyond(EMPTY_SCENE, (0.0, 0.0, 0.0), 7.0) == 7.0
    wall = scene_with(Plane((1.0, 0.0, 0.0)))
    assert obstacles_beyond(wall, (3.0, 0.0, 0.0), 7.0) == 3.0


def ground_triangles(terrain, ground):
    """The whole ground as triangles: heightmap, walls cut where they cross, flat ground around."""
    rows, columns = terrain.heights_m.shape
    x = terrain.center_W_m[0] + np.linspace(-0.5, 0.5, columns) * terrain.size_m[0]
    y = terrain.center_W_m[1] + np.linspace(-0.5, 0.5, rows) * terrain.size_m[1]
    gx, gy = np.meshgrid(x, y)
    points = np.stack([gx, gy, terrain.heights_m], axis=-1)
    sw, se, nw, ne = points[:-1, :-1], points[:-1, 1:], points[1:, :-1], points[1:, 1:]
    cells = ((sw, se, ne), (sw, ne, nw))
    parts = [np.stack(corners, axis=2).reshape(-1, 3, 3) for corners in cells]
    walls = []
    for border in (points[0], points[-1], points[:, 0], points[:, -1]):
        for a, b in pairwise(border):
            ends = [a, b]
            if (a[2] - ground) * (b[2] - ground) < 0.0:
                ends.insert(1, a + (ground - a[2]) / (b[2] - a[2]) * (b - a))
            for c, d in pairwise(ends):
                c0, d0 = np.array([*c[:2], ground]), np.array([*d[:2], ground])
                walls += [[c, d, d0], [c, d0, c0]]
    far = 1e3
    xs, ys = [x[0] - far, x[0], x[-1], x[-1] + far], [y[0] - far, y[0], y[-1], y[-1] + far]
    for i in range(3):
        for j in range(3):
            if (i, j) != (1, 1):
                a, b = [xs[i], ys[j], ground], [xs[i + 1], ys[j], ground]
                c, d = [xs[i + 1], ys[j + 1], ground], [xs[i], ys[j + 1], ground]
                walls += [np.array([a, b, c]), np.array([a, c, d])]
    walls = np.array(walls)
    area = np.linalg.norm(np.cross(walls[:, 1] - walls[:, 0], walls[:, 2] - walls[:, 0]), axis=1)
    return np.concatenate([*parts, walls[area > 1e-12]])


@pytest.mark.parametrize(
    ("low", "high", "ground"), [(1.0, 4.0, 0.0), (-4.0, -1.0, 0.0), (-2.0, 2.0, 0.3)]
)
def test_the_ground_against_all_its_triangles(low, high, ground):
    rng = np.random.default_rng(5)
    terrain = Heightmap(rng.uniform(low, high, (6, 8)), (7.0, 4.0), (0.5, 1.0))
    arrays, triangles = scene_of((), terrain).terrain, ground_triangles(terrain, ground)
    sides = [0, 0]
    for p in rng.uniform([-5.0, -3.0, -5.0], [6.0, 5.0, 5.0], (400, 3)):
        nearest = trimesh.triangles.closest_point(triangles, np.tile(p, (len(triangles), 1)))
        wanted = np.linalg.norm(p - nearest, axis=1).min()
        above = p[2] > terrain_height(arrays, ground, p[0], p[1])
        distance, normal = ground_distance(arrays, ground, tuple(p), 50.0)
        assert distance == pytest.approx(wanted if above else -wanted, abs=1e-10)
        foot = p - distance * np.array(normal)
        gap = trimesh.triangles.closest_point(triangles, np.tile(foot, (len(triangles), 1)))
        assert np.linalg.norm(foot - gap, axis=1).min() < 1e-9
        sides[int(above)] += 1
        height = p[2] - terrain_height(arrays, ground, p[0], p[1])
        reach = 0.5 * (wanted + abs(height))
        assert ground_distance(arrays, ground, tuple(p), reach)[0] == pytest.approx(distance)
        beyond = ground_distance(arrays, ground, tuple(p), 0.4 * wanted)
        assert beyond == (pytest.approx(height), UP)
    assert min(sides) > 50


def test_on_the_ground_its_own_normal_holds():
    """Where the direction to the nearest point is rounding."""
    rng = np.random.default_rng(8)
    terrain = Heightmap(rng.uniform(1.0, 4.0, (6, 8)), (7.0, 4.0), (0.5, 1.0))
    arrays = scene_of((), terrain).terrain
    triangles = ground_triangles(terrain, 0.0)[: 2 * 5 * 7]  # those of the heightmap
    normals, _ = trimesh.triangles.normals(triangles)
    for k in rng.integers(len(triangles), size=50):
        x, y, _ = rng.dirichlet([1.0, 1.0, 1.0]) @ triangles[k]
        p = (x, y, terrain_height(arrays, 0.0, x, y))
        distance, normal = ground_distance(arrays, 0.0, p, 1.0)
        assert abs(distance) < 1e-7
        assert normal == pytest.approx(normals[k], abs=1e-12)
    plateau = scene_of((), Heightmap(np.full((3, 3), 2.0), (4.0, 6.0))).terrain
    for p, outward in (
        ((2.0, 0.3, 1.0), (1.0, 0.0, 0.0)),
        ((-2.0, 0.3, 1.0), (-1.0, 0.0, 0.0)),
        ((0.3, 3.0, 1.0), (0.0, 1.0, 0.0)),
        ((0.3, -3.0, 1.0), (0.0, -1.0, 0.0)),
    ):
        assert ground_distance(plateau, 0.0, p, 1.0)[1] == outward
        beyond = ground_distance(plateau, 5.0, (p[0], p[1], 3.0), 1.0)  # now the walls of a pit
        assert beyond[1] == (-outward[0], -outward[1], 0.0)


@pytest.mark.parametrize("high", [3.0, 0.0])
def test_no_ground_in_the_square_is_higher_than_said(high):
    rng = np.random.default_rng(6)
    terrain = Heightmap(rng.uniform(-3.0, high, (14, 23)), (22.0, 13.0), (2.0, 0.0))
    arrays = scene_of((), terrain).terrain
    for x, y, reach in rng.uniform([-12.0, -9.0, 0.0], [16.0, 9.0, 6.0], (300, 3)):
        said = highest_ground(arrays, 0.5, x, y, reach)
        square = np.array([x, y]) + rng.uniform(-reach, reach, (40, 2))
        assert said >= max(terrain_height(arrays, 0.5, u, v) for u, v in square)
        assert said == 0.5 or said in terrain.heights_m
    at = highest_ground(arrays, 0.5, 2.5, 0.5, 0.0)  # one cell: its highest corner
    assert at == terrain.heights_m[7:9, 11:13].max()
    assert highest_ground(arrays, 0.5, 99.0, 0.0, 1.0) == 0.5
    assert highest_ground(EMPTY_SCENE.terrain, 0.5, 0.0, 0.0, 1.0) == 0.5


def test_flat_ground_and_what_is_not_finite():
    assert ground_distance(EMPTY_SCENE.terrain, 1.0, (3.0, 4.0, 0.25), 1.0) == (-0.75, UP)
    assert surface_distance(EMPTY_SCENE, 1.0, (3.0, 4.0, 9.0), 1.0) == (8.0, UP)
    scene, _ = random_scene(1, 8)
    for bad in (math.nan, math.inf):
        distance, _ = surface_distance(scene, 0.0, (bad, 0.0, 0.0), 10.0)
        assert not distance < 0.0
