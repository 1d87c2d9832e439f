"""Many obstacles: against other ways to find the same, and what no turn of the world may change."""

import math

import numba
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.raycast_tree import shape_hit
from quadsim.world.scene.scene import EMPTY_SCENE, cast_ray, scene_of
from quadsim.world.scene.terrain import Heightmap

DEEP = -1e6
RANGE_M = 15.0


def pose_of(place, turn):
    x, y, z, w = turn.as_quat()
    return Pose(tuple(place), (w, x, y, z))


def rock():
    """A closed mesh of 320 triangles with dents, so that a ray may cross it more than once."""
    ball = trimesh.creation.icosphere(subdivisions=2, radius=1.5)
    dents = 1.0 + 0.3 * np.sin(5.0 * ball.vertices[:, :1]) * np.cos(4.0 * ball.vertices[:, 1:2])
    return np.array((ball.vertices * dents)[ball.faces])


def wedge():
    """Another one, far from the origin of its frame."""
    corners = np.array([[2.0, 1.0, 0.0], [4.0, 1.0, 0.0], [2.0, 4.0, 0.0], [2.0, 1.0, 3.0]])
    return corners[[[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]]


ROCK, WEDGE = Mesh(rock(), closed=True), Mesh(wedge(), closed=True)
KINDS = (Box((1.0, 2.0, 3.0)), Sphere(1.2), Cylinder(0.7, 3.0), ROCK, WEDGE)


def random_obstacles(rng, count):
    return [
        Obstacle(
            f"{k}",
            KINDS[k % len(KINDS)],
            pose_of(rng.uniform(-8.0, 8.0, 3), Rotation.random(rng=rng)),
        )
        for k in range(count)
    ]


def random_rays(rng, count):
    """From around the obstacles and among them, to points among them."""
    origins = rng.uniform(-12.0, 12.0, (count, 3))
    directions = rng.uniform(-8.0, 8.0, (count, 3)) - origins
    return origins, directions / np.linalg.norm(directions, axis=1, keepdims=True)


def real_roots(*coefficients):
    return [root.real for root in np.roots(coefficients) if abs(root.imag) < 1e-12]


def hits_of(shape, o, d):
    """Every crossing of a line with a shape's surface: distance and outward normal, by algebra."""
    if isinstance(shape, Sphere):
        roots = real_roots(1.0, 2.0 * (o @ d), o @ o - shape.radius_m**2)
        return [(t, (o + t * d) / shape.radius_m) for t in roots]
    if isinstance(shape, Cylinder):
        level, axis = np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
        half, radius = shape.length_m / 2, shape.radius_m
        roots = real_roots(level * d @ d, 2.0 * (level * o @ d), level * o @ o - radius**2)
        side = [(t, level * (o + t * d) / radius) for t in roots if abs(o[2] + t * d[2]) <= half]
        caps = [((sign * half - o[2]) / d[2], sign * axis) for sign in (-1.0, 1.0)]
        return side + [(t, n) for t, n in caps if np.linalg.norm((o + t * d)[:2]) <= radius]
    triangles = shape.triangles_m if isinstance(shape, Mesh) else box_triangles(shape)
    normals, _ = trimesh.triangles.normals(triangles)
    t = np.einsum("ij,ij->i", normals, triangles[:, 0] - o) / (normals @ d)
    weights = trimesh.triangles.points_to_barycentric(triangles, o + t[:, None] * d)
    return [(t[k], normals[k]) for k in np.flatnonzero(np.all(weights >= 0.0, axis=1))]


def box_triangles(shape):
    return np.array(trimesh.creation.box(shape.size_m).triangles)


def expected(obstacles, origin, direction):
    """The nearest crossing ahead of all; (0, 1) where one leads out of a solid."""
    best, best_cos = math.inf, 0.0
    for obstacle in obstacles:
        axes = obstacle.pose_W.axes()
        o, d = axes @ (origin - obstacle.pose_W.p_A), axes @ direction
        ahead = [(t, normal @ d) for t, normal in hits_of(obstacle.shape, o, d) if t >= 0.0]
        if not ahead:
            continue
        distance, slant = min(ahead)
        if slant > 0.0:
            return 0.0, 1.0
        if distance < best:
            best, best_cos = distance, -slant
    return (best, best_cos) if best <= RANGE_M else (math.inf, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_random_scenes_agree_with_algebra(seed):
    rng = np.random.default_rng(seed)
    obstacles = random_obstacles(rng, 40)
    scene = scene_of(obstacles)
    found, wanted = [], []
    for origin, direction in zip(*random_rays(rng, 100), strict=True):
        found.append(cast_ray(scene, DEEP, tuple(origin), tuple(direction), RANGE_M))
        wanted.append(expected(obstacles, origin, direction))
    # Roots of a quadratic near a tangent, here no closer than 1e-4, keep half their digits.
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-8)
    distances = np.array(wanted)[:, 0]
    assert 20 < np.count_nonzero(np.isfinite(distances)) < 80
    assert 0 < np.count_nonzero(distances == 0.0) < 20  # some begin inside


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 33, 100])
def test_the_tree_finds_bit_for_bit_what_trying_all_finds(count):
    rng = np.random.default_rng(count)
    obstacles = random_obstacles(rng, count)
    scene = scene_of(obstacles)
    for origin, direction in zip(*random_rays(rng, 60), strict=True):
        ray = tuple(origin), tuple(direction), RANGE_M
        rows = range(len(scene.shapes.kinds))
        tried = min(
            (shape_hit(scene.shapes, scene.meshes, row, *ray) for row in rows), key=lambda h: h[0]
        )
        wanted = tried if tried[0] <= RANGE_M else (math.inf, 0.0)
        assert cast_ray(scene, DEEP, *ray) == wanted


angles = st.floats(-math.pi, math.pi)
places = st.floats(-30.0, 30.0)


@settings(max_examples=40)
@given(angles, angles, angles, places, places, places, st.integers(0, 2**32 - 1))
def test_turning_and_moving_the_world_changes_nothing(roll, pitch, yaw, x, y, z, seed):
    rng = np.random.default_rng(seed)
    obstacles = [
        *random_obstacles(rng, 12),
        Obstacle("plane", Plane(), pose_of([0.0, 0.0, -22.0], Rotation.random(rng=rng))),
    ]
    turn, shift = Rotation.from_euler("xyz", [roll, pitch, yaw]), np.array([x, y, z])
    moved = [Obstacle(o.name, o.shape, pose_of(shift, turn) @ o.pose_W) for o in obstacles]
    here, there = scene_of(obstacles), scene_of(moved)
    for origin, direction in zip(*random_rays(rng, 10), strict=True):
        before = cast_ray(here, DEEP, tuple(origin), tuple(direction), RANGE_M)
        after = cast_ray(
            there, DEEP, tuple(turn.apply(origin) + shift), tuple(turn.apply(direction)), RANGE_M
        )
        # A ray that meets an edge within rounding may miss it after the turn: none here does.
        assert after == pytest.approx(before, abs=1e-9)


def test_any_world_is_of_the_type_that_kernels_are_compiled_for():
    """Else each world would compile the closed loop anew, for half a minute."""
    heights = np.asfortranarray(np.zeros((3, 4), np.float32)).astype(np.float64)
    worlds = [
        scene_of(),
        scene_of([Obstacle("a", Sphere(1.0))]),
        scene_of([Obstacle("a", Plane())]),
        scene_of([Obstacle("a", ROCK), Obstacle("b", ROCK, Pose((9.0, 0.0, 0.0)))]),
        scene_of((), Heightmap(heights, (4.0, 3.0))),
        scene_of(random_obstacles(np.random.default_rng(0), 9), Heightmap(heights, (4.0, 3.0))),
    ]
    types = {numba.typeof(world) for world in [EMPTY_SCENE, *worlds]}
    assert len(types) == 1


def test_inside_a_large_mesh_is_found_without_seeing_its_surface():
    cave = scene_of([Obstacle("cave", Mesh(100.0 * rock(), closed=True))])
    rng = np.random.default_rng(11)
    for origin, direction in zip(*random_rays(rng, 20), strict=True):
        assert cast_ray(cave, DEEP, tuple(origin), tuple(direction), 0.5) == (0.0, 1.0)


def test_a_mesh_in_many_places_is_kept_once():
    trees = [Obstacle(f"{k}", ROCK, Pose((4.0 * k, 0.0, 0.0))) for k in range(50)]
    scene = scene_of(trees)
    assert len(scene.meshes.rows) == 1
    # Leaves hold one or two triangles, and to fill them some come twice.
    assert 320 <= len(scene.meshes.triangles) < 2 * 320
