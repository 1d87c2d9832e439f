"""Depth cameras against trimesh's rays, closed forms and the distributions of their errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from scipy import stats
from scipy.spatial.transform import Rotation
from sensor_rig import ALPHA, chi2_bounds
from trimesh.ray.ray_triangle import ray_triangle_id

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.base.records import KINEMATICS
from quadsim.sensors.depth_camera import DepthCameraParams, SimulatedDepthCamera
from quadsim.sensors.faults import FaultParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.movers import MovingShape
from quadsim.world.scene.moving_scene import scene_with
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.scene import BESIDE_ID, FIRST_ID, GROUND_ID, NOTHING_ID, cast_ray, scene_of
from quadsim.world.scene.terrain_hills import HillsParams, hills

STEP_NS = 2_000_000
#: The least deviation of a float32 reading.
FLOAT32 = 2.0**-23
SMALL = DepthCameraParams(columns=64, rows=48, range_max_m=30.0)
#: A wall whose face is at x = 4.
WALL = scene_of([Obstacle("wall", Box((1.0, 60.0, 60.0)), Pose((4.5, 0.0, 0.0)))])


def camera(params, scene=WALL, seed=1, faults=(), ground_m=-100.0):
    environment = EnvironmentParams(ground_height_m=ground_m)
    return SimulatedDepthCamera(params, environment, seed, "quad", scene, faults)


def quaternion(rotation):
    x, y, z, w = rotation.as_quat()
    return w, x, y, z


def images(device, duration_s, motion=lambda _: ((0.0, 0.0, 2.0), Rotation.identity())):
    truth, found = new_record(KINEMATICS), []
    for stamp_ns in range(0, round(duration_s * 1e9) + 1, STEP_NS):
        p_W, attitude = motion(stamp_ns * 1e-9)
        truth.stamp_ns, truth.p_W, truth.q_WB = stamp_ns, p_W, quaternion(attitude)
        sample = device.measure(truth)
        while sample is not None:
            found.append((stamp_ns, sample))
            sample = device.published(stamp_ns)
    return found


def one_image(params, scene=WALL, **more):
    motion = {key: more.pop(key) for key in ("motion",) if key in more}
    return images(camera(params, scene, **more), 1.6 / params.rate_hz, **motion)[0][1]


def forest(rng, trees):
    """Trunks, and crowns that are spheres, cones or boxes at any attitude."""
    found = []
    for k in range(trees):
        x, y = rng.uniform(-25.0, 25.0, 2)
        if math.hypot(x, y) < 2.0:
            continue
        found.append(Obstacle(f"trunk_{k}", Cylinder(0.2, 3.0), Pose((x, y, 1.5))))
        crown = [Box((1.5, 2.0, 1.0)), CONE][k % 2]
        turn = quaternion(Rotation.random(rng=rng))
        found.append(Obstacle(f"crown_{k}", crown, Pose((x, y, 3.7), turn)))
    return found


CONE = Mesh(np.array(trimesh.creation.cone(1.0, 2.0, sections=24).triangles), closed=True)


class Boxes:
    """The boxes of triangles, as trimesh's tree is asked for them."""

    def __init__(self, triangles):
        self._low, self._high = triangles.min(axis=1), triangles.max(axis=1)
        self.bounds = [*self._low.min(axis=0), *self._high.max(axis=0)]

    def intersection(self, bounds):
        low, high = np.array(bounds[:3]), np.array(bounds[3:])
        return np.flatnonzero(((self._low <= high) & (self._high >= low)).all(axis=1))


def triangles_of(obstacle):
    """An obstacle by trimesh; cylinders of so many sides that they are 0.24 mm too thin."""
    shape = obstacle.shape
    if isinstance(shape, Cylinder):
        mesh = trimesh.creation.cylinder(shape.radius_m, shape.length_m, sections=64)
    elif isinstance(shape, Box):
        mesh = trimesh.creation.box(shape.size_m)
    else:
        mesh = trimesh.Trimesh(*trimesh.triangles.to_kwargs(shape.triangles_m).values())
    w, x, y, z = obstacle.pose_W.q_AB
    corners = Rotation.from_quat((x, y, z, w)).apply(mesh.triangles.reshape(-1, 3))
    return (corners + obstacle.pose_W.p_A).reshape(-1, 3, 3)


# ---- geometry ----------------------------------------------------------------------------------


def test_an_image_of_a_forest_is_that_of_trimesh_to_a_millimetre():
    ground = Obstacle("ground", Box((400.0, 400.0, 1.0)), Pose((0.0, 0.0, -0.5)))
    obstacles = [ground, *forest(np.random.default_rng(3), 25)]
    attitude, place = Rotation.from_euler("ZYX", [0.7, 0.15, -0.2]), (0.3, -0.2, 2.0)
    params = replace(SMALL, columns=32, rows=24, field_of_view_deg=100.0, range_max_m=60.0)
    found = one_image(params, scene_of(obstacles), motion=lambda _: (place, attitude)).depth_m
    triangles = np.concatenate([triangles_of(obstacle) for obstacle in obstacles])
    directions = params.directions().reshape(-1, 3)
    _, rays, met = ray_triangle_id(
        triangles, np.tile(place, (len(directions), 1)), attitude.apply(directions),
        tree=Boxes(triangles),
    )  # fmt: skip
    distance = np.full(len(directions), np.inf)
    np.minimum.at(distance, rays, np.linalg.norm(met - np.array(place), axis=1))
    wanted = (distance * directions[:, 0]).reshape(found.shape)
    wanted[wanted > params.range_max_m] = np.inf
    # a ray that passes a silhouette within the trunks' 0.24 mm may miss one of them
    differ = ~np.isclose(found, wanted, rtol=0.0, atol=1e-3)
    assert np.isfinite(wanted).mean() > 0.5
    assert differ.sum() <= 1


@pytest.mark.parametrize("terrain", [None, hills(HillsParams(height_m=6.0, seed=4))])
@pytest.mark.parametrize("projection", ["pinhole", "equidistant"])
def test_every_pixel_is_the_ray_that_the_lidar_would_cast(terrain, projection):
    obstacles = [
        *forest(np.random.default_rng(5), 80),
        Obstacle("ball", Sphere(0.8), Pose((4.0, 1.0, 2.0))),
        Obstacle("slope", Plane((0.0, math.sin(0.2), math.cos(0.2))), Pose((0.0, 0.0, -3.0))),
    ]
    scene = scene_with(
        scene_of(obstacles, terrain), [MovingShape((3.0, -1.0, 2.0), (0, 0, 0), 0.4, 0.2).body]
    )
    attitude, place = (
        Rotation.from_euler("ZYX", [-0.4, 0.2, 0.5]),
        (0.0, 0.0, 9.0 if terrain else 2.0),
    )
    params = replace(
        SMALL,
        projection=projection,
        field_of_view_deg=120.0 if projection == "equidistant" else 87.0,
    )
    found = one_image(params, scene, motion=lambda _: (place, attitude), ground_m=0.0)
    directions = params.directions()
    for row, column in np.random.default_rng(6).integers((0, 0), found.depth_m.shape, (400, 2)):
        ray_W = tuple(attitude.apply(directions[row, column]))
        distance, _ = cast_ray(scene, 0.0, place, ray_W, 200.0)
        depth = distance * directions[row, column, 0]
        wanted = depth if depth <= params.range_max_m else np.inf
        assert found.depth_m[row, column] == pytest.approx(wanted, rel=FLOAT32)


def test_a_wall_has_one_depth_and_a_wide_angle_sees_it_at_its_angles():
    params = replace(SMALL, projection="equidistant", field_of_view_deg=128.0)
    assert one_image(params).depth_m == pytest.approx(4.0, rel=2 * FLOAT32)
    azimuth = np.degrees(np.arctan2(*params.directions()[24, :, 1::-1].T))
    row_deg = 0.5 * 128.0 / 64  # the middle row lies half a pixel below the middle
    assert azimuth == pytest.approx(64.0 - 2.0 * np.arange(64) - 1.0, abs=row_deg)


def test_a_camera_on_a_mount_sees_from_there():
    params = replace(SMALL, position_B_m=(0.2, 0.0, -0.1), rotation_deg=(0.0, 90.0, 0.0))
    depth = one_image(params, scene_of(), ground_m=0.0).depth_m
    assert depth == pytest.approx(1.9, rel=2 * FLOAT32)


def test_a_rolling_shutter_leans_what_the_camera_turns_past():
    """A pole's image moves by focal length times the angle turned until its row is read."""
    pole = scene_of([Obstacle("pole", Cylinder(0.1, 60.0), Pose((10.0, 0.0, 0.0)))])
    params = replace(
        SMALL, columns=200, rows=50, rate_hz=10.0, readout_s=0.05, field_of_view_deg=60.0
    )
    turn_radps = 1.0
    found = one_image(
        params,
        pole,
        motion=lambda t_s: ((0.0, 0.0, 2.0), Rotation.from_euler("Z", turn_radps * t_s - 0.1)),
    )  # the first row is cast at 0.1 s
    middles = [np.mean(np.flatnonzero(np.isfinite(row))) for row in found.depth_m]
    angles = np.arctan((np.array(middles) + 0.5 - 100.0) / params.focal_px)
    assert angles == pytest.approx(turn_radps * params.offsets_s(), abs=0.6 / params.focal_px)


def test_what_each_pixel_sees_has_an_id():
    obstacles = [
        Obstacle("box", Box((1.0, 1.0, 40.0)), Pose((5.0, 2.0, 0.0))),
        Obstacle("ball", Sphere(0.5), Pose((5.0, -2.0, 2.0))),
    ]
    other = MovingShape((4.0, 0.0, 2.0), (0.0, 0.0, 0.0), 0.4, 0.2).body
    ids = one_image(SMALL, scene_with(scene_of(obstacles), [other]), ground_m=0.0).ids
    middle = ids[24]
    assert set(np.unique(ids)) == {NOTHING_ID, GROUND_ID, FIRST_ID, FIRST_ID + 1, BESIDE_ID}
    order = middle[np.insert(np.diff(middle) != 0, 0, True)]  # from left to right
    assert [x for x in order if x > GROUND_ID] == [FIRST_ID, BESIDE_ID, FIRST_ID + 1]


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth_m", [1.5, 4.0, 8.0])
def test_a_stereo_pairs_noise_grows_with_the_square_of_the_depth(depth_m):
    params = replace(SMALL, baseline_m=0.05, matching_focal_px=450.0, disparity_sigma_px=0.08)
    place = ((4.0 - depth_m, 0.0, 0.0), Rotation.identity())
    errors = one_image(params, motion=lambda _: place).depth_m.ravel().astype(float) - depth_m
    sigma_m = depth_m**2 * 0.08 / (450.0 * 0.05)
    low, high = chi2_bounds(errors.size)
    # x = sigma / depth: the reciprocal of 1 + x n is off by x n (1 - x n + x^2 n^2 ...), whose
    # mean square is x^2 (1 + 9 x^2 + ...)
    assert (
        low
        <= np.sqrt(np.mean(errors**2)) / sigma_m
        <= high * (1.0 + 8.0 * (sigma_m / depth_m) ** 2)
    )


def test_a_disparity_is_counted_in_steps():
    params = replace(SMALL, baseline_m=0.05, matching_focal_px=450.0, disparity_sigma_px=0.3,
                     disparity_step_px=0.125)  # fmt: skip
    steps = 450.0 * 0.05 / one_image(params).depth_m.astype(float) / 0.125
    assert steps == pytest.approx(np.round(steps), abs=1e-4)
    assert len(np.unique(np.round(steps))) > 5


def test_time_of_flight_noise_grows_with_the_depth():
    errors = one_image(replace(SMALL, noise_share=0.02)).depth_m.ravel().astype(float) - 4.0
    low, high = chi2_bounds(errors.size)
    assert low <= np.sqrt(np.mean(errors**2)) / 0.08 <= high


def test_an_edge_reads_something_between():
    near = Obstacle("near", Box((0.2, 4.0, 400.0)), Pose((2.1, -2.0, 0.0)))  # its left edge: y = 0
    far = Obstacle("far", Box((1.0, 60.0, 400.0)), Pose((6.5, 0.0, 0.0)))
    params = replace(SMALL, rows=400, edge_probability=0.3)
    depth = one_image(params, scene_of([near, far])).depth_m.astype(float)
    mixed = (np.abs(depth - 2.0) > 1e-3) & (np.abs(depth - 6.0) > 1e-3)
    assert np.flatnonzero(mixed.any(axis=0)).tolist() == [31, 32]
    test = stats.binomtest(int(mixed[:, 31:33].sum()), 800, 0.3)
    assert test.pvalue > ALPHA
    assert stats.kstest((depth[mixed] - 2.0) / 4.0, "uniform").pvalue > ALPHA


def test_a_turn_smears_edges_over_the_exposure():
    near = Obstacle("near", Box((0.2, 4.0, 60.0)), Pose((2.1, -2.0, 0.0)))
    far = Obstacle("far", Box((1.0, 200.0, 60.0)), Pose((16.5, 0.0, 0.0)))
    params = replace(SMALL, columns=320, edge_probability=1.0, exposure_s=0.02)
    widths = {}
    for turn_radps in (0.0, 2.0):
        depth = one_image(
            params, scene_of([near, far]),
            motion=lambda t_s, w=turn_radps: (
                (0.0, 0.0, 2.0), Rotation.from_euler("Z", w * (t_s - 1 / 30))
            ),
        ).depth_m  # fmt: skip
        mixed = ~np.isclose(depth, 2.0, atol=2e-2) & ~np.isclose(depth, 16.0, atol=2e-2)
        widths[turn_radps] = mixed.sum(axis=1).mean()
    assert widths[0.0] == pytest.approx(2.0, abs=0.2)
    smear_px = params.focal_px * 2.0 * 0.02
    assert widths[2.0] == pytest.approx(2.0 + smear_px, abs=2.0)


def test_no_reading_has_its_reason():
    """Sky and beyond the range +inf, grazed NaN, too near -inf (REP-117, REP-118)."""
    params = replace(SMALL, range_min_m=0.5, range_max_m=20.0, incidence_max_deg=80.0)
    depth = one_image(params, scene_of(), ground_m=0.0).depth_m[:, 32]
    down = np.degrees(np.arctan((np.arange(48) + 0.5 - 24.0) / params.focal_px))
    assert np.isposinf(depth[down < 2.0 / 20.0]).all()
    grazed = (down > 6.0) & (down < 10.0)  # within the range, and flatter than 10 degrees
    assert np.isnan(depth[grazed]).all()
    assert np.isfinite(depth[down > 10.3]).all()
    near = one_image(params, motion=lambda _: ((3.7, 0.0, 2.0), Rotation.identity()))
    assert np.isneginf(near.depth_m).all()


def test_a_miss_has_its_probability():
    depth = one_image(replace(SMALL, dropout_probability=0.1)).depth_m
    assert stats.binomtest(int(np.isnan(depth).sum()), depth.size, 0.1).pvalue > ALPHA


def test_a_zone_of_many_rays_reads_its_nearest():
    pole = Obstacle("pole", Cylinder(0.05, 60.0), Pose((2.05, 0.0, 0.0)))
    wall = Obstacle("wall", Box((1.0, 60.0, 60.0)), Pose((3.5, 0.0, 0.0)))
    params = DepthCameraParams(
        columns=7, rows=8, field_of_view_deg=45.0, samples=8, separation_m=0.6, range_max_m=4.0
    )
    depth = one_image(params, scene_of([pole, wall])).depth_m
    assert depth[:, 3] == pytest.approx(2.01, abs=0.02)  # the pole's front, a little round
    assert depth[:, [0, 1, 2, 4, 5, 6]] == pytest.approx(3.0, rel=1e-6)


def test_a_seed_gives_the_same_bits_again_and_another_one_others():
    params = replace(SMALL, noise_sigma_m=0.01, dropout_probability=0.1, edge_probability=0.2)
    device = camera(params)
    first = images(device, 0.12)[1][1].depth_m.tobytes()
    device.reset()
    assert images(device, 0.12)[1][1].depth_m.tobytes() == first
    assert images(camera(params, seed=2), 0.12)[1][1].depth_m.tobytes() != first


def test_images_come_at_their_rate_and_so_much_later():
    params = replace(SMALL, rate_hz=25.0, latency_s=0.03, readout_s=0.01)
    found = images(camera(params), 0.3)
    assert [image.stamp_ns for _, image in found] == [40_000_000 * k for k in range(1, 7)]
    assert [came - image.stamp_ns for came, image in found] == [40_000_000] * 6


def test_faults_act_on_depths():
    faults = [FaultParams(at_s=0.05, fault="bias", value=(0.25,))]
    first, second = (image.depth_m for _, image in images(camera(SMALL, faults=faults), 0.08))
    assert (second - first) == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"field_of_view_deg": 0.0}, "field_of_view_deg: 0.0 is out of range; allowed: > 0"),
        ({"field_of_view_deg": 180.0}, "field_of_view_deg: 180.0 is out of range"),
        ({"columns": 4096, "rows": 4096}, "16777216 rays an image; allowed: 4000000"),
        ({"encoding": "rgb8"}, "encoding: 'rgb8'"),
        ({"disparity_sigma_px": 0.1}, "baseline_m: 0, but a disparity is given"),
        ({"baseline_m": 0.05, "noise_share": 0.1}, "of a stereo pair; allowed: disparity_sigma_px"),
        ({"readout_s": 0.1}, "readout_s: 0.1 is longer than a period"),
        ({"projection": "equidistant", "field_of_view_deg": 170.0}, "turns the corners by 106 deg"),
    ],
)
def test_what_no_camera_can_be_is_refused_in_a_line(keys, said):
    with pytest.raises(InputError, match=r"^device\.yaml: ") as refused:
        from_mapping(DepthCameraParams, keys, "device.yaml")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
