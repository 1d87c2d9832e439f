"""A scene with other vehicles in it, against the same scene made as a whole."""

import numpy as np
import pytest
from ray_casts import cast_rays

from quadsim.base.compiled import new_record
from quadsim.base.records import KINEMATICS
from quadsim.sensors.devices import load_device, simulate
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.distance import obstacle_distance
from quadsim.world.scene.moving_scene import scene_with
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Pose, Sphere
from quadsim.world.scene.scene import EMPTY_SCENE, scene_of


def some(count, rng):
    obstacles = []
    for i in range(count):
        shape = (
            Box(tuple(rng.uniform(0.2, 2.0, 3))),
            Sphere(rng.uniform(0.1, 1.0)),
            Cylinder(rng.uniform(0.1, 1.0), rng.uniform(0.3, 4.0)),
        )[i % 3]
        turn = rng.normal(size=4)
        pose = Pose(tuple(rng.uniform(-10.0, 10.0, 3)), tuple(turn / np.linalg.norm(turn)))
        obstacles.append(Obstacle(str(i), shape, pose))
    return obstacles


@pytest.mark.parametrize(
    ("still", "moving"), [(0, 1), (1, 1), (1, 5), (3, 2), (5, 9), (60, 3), (2, 33)]
)
def test_rays_meet_what_they_meet_in_the_scene_made_as_a_whole(still, moving):
    """The same shapes in another tree: not one bit differs."""
    rng = np.random.default_rng(100 * still + moving)
    standing, others = some(still, rng), some(moving, rng)
    count = 500
    origins = rng.uniform(-12.0, 12.0, (count, 3))
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    found = [
        cast_rays(scene, -50.0, origins, directions, 60.0)
        for scene in (scene_of(standing + others), scene_with(scene_of(standing), others))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.isfinite(found[0][0]).any()


def test_meshes_come_beside_meshes():
    """Tetrahedra of either scene; the same rays and distances as in one scene."""
    rng = np.random.default_rng(5)
    corners = np.array([(0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 2.0)])
    faces = corners[[(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]]
    meshes = [Mesh(faces * size, closed=True) for size in (1.0, 1.5, 2.0)]
    every = [
        Obstacle(str(i), mesh, Pose(tuple(rng.uniform(-6.0, 6.0, 3))))
        for i, mesh in enumerate([*meshes, meshes[0]])
    ]
    every += some(3, rng)
    for split in range(1, len(every)):
        whole, joined = scene_of(every), scene_with(scene_of(every[:split]), every[split:])
        origins = rng.uniform(-9.0, 9.0, (200, 3))
        directions = -origins / np.linalg.norm(origins, axis=1)[:, None]
        found = [cast_rays(scene, -50.0, origins, directions, 60.0) for scene in (whole, joined)]
        np.testing.assert_array_equal(found[0], found[1])
        points = [tuple(point) for point in origins[:50].tolist()]
        assert [obstacle_distance(whole, point, 20.0) for point in points] == [
            obstacle_distance(joined, point, 20.0) for point in points
        ]


def test_nothing_else_there_is_the_scene_itself():
    assert scene_with(EMPTY_SCENE, []) is EMPTY_SCENE


def test_a_range_finder_sees_what_passes_beneath():
    params = load_device("rangefinder", "ideal_rangefinder")
    device = simulate("rangefinder", params, EnvironmentParams(), 1, "quad", EMPTY_SCENE)
    passes = [Obstacle("other", Cylinder(0.3, 0.2), Pose((0.0, 0.0, 1.0)))]
    truth = new_record(KINEMATICS)
    truth.p_W[2], truth.q_WB[0] = 3.0, 1.0
    readings = []
    for k, others in enumerate(([], passes, [])):
        device.see(scene_with(EMPTY_SCENE, others))
        truth.stamp_ns = k * device.period_ns
        sample = device.measure(truth)
        readings += [] if sample is None else [float(sample.range_m)]
    assert readings == pytest.approx([3.0 - 1.1, 3.0], abs=1e-9)
