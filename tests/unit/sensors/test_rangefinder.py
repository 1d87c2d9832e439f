"""Range finder against closed forms; its noise and misses against their distributions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation
from sensor_rig import ALPHA, chi2_bounds, published

from quadsim.geometry.rotation import from_euler
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.faults import FaultParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.rangefinder import RangefinderParams, cone
from quadsim.wire.decode import decode
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Box, Obstacle, Plane, Pose
from quadsim.world.scene.scene import EMPTY_SCENE, scene_of


def device(params, seed=1, scene=EMPTY_SCENE, ground_m=0.0, faults=()):
    world = EnvironmentParams(ground_height_m=ground_m)
    return SimulatedSensor(SENSORS["rangefinder"], params, world, seed, "quad", scene, faults)


def readings(sensor, count, **pose):
    pose = {"p_W": (0.0, 0.0, 3.0), **pose}
    return np.array([sample.range_m for _, sample in published(sensor, count, **pose)])


def reading(params, scene=EMPTY_SCENE, ground_m=0.0, **pose):
    return readings(device(params, scene=scene, ground_m=ground_m), 1, **pose)[0]


def binomial_bounds(count, probability):
    return stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], count, probability)


# ---- one ray -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tilt", [0.0, 0.3, -0.6])
def test_range_is_height_over_the_cosine_of_the_tilt(tilt):
    params = RangefinderParams(position_B_m=(0.0, 0.0, -0.1))
    found = reading(params, ground_m=0.5, p_W=(4.0, 2.0, 3.5), q_WB=from_euler(tilt, 0.0, 1.0))
    height_m = 3.0 - 0.1 * math.cos(tilt)
    assert found == pytest.approx(height_m / math.cos(tilt), abs=1e-12)


def test_a_mount_that_looks_ahead_sees_the_wall():
    wall = Obstacle("wall", Plane((-1.0, 0.0, 0.0)), Pose((5.0, 0.0, 0.0)))
    params = RangefinderParams(rotation_deg=(0.0, 0.0, 0.0), position_B_m=(0.2, 0.0, 0.0))
    found = reading(params, scene_of([wall]), q_WB=from_euler(0.0, 0.0, 0.4))
    # along a heading of 0.4 rad to the plane x = 5, from a sensor 0.2 m ahead
    assert found == pytest.approx(5.0 / math.cos(0.4) - 0.2, abs=1e-12)


@pytest.mark.parametrize(
    ("height_m", "expected"),
    [(-0.2, -math.inf), (0.05, -math.inf), (0.5, 0.5), (7.99, 7.99), (8.01, math.inf)],
)
def test_limits_follow_rep_117(height_m, expected):
    assert reading(RangefinderParams(), p_W=(0.0, 0.0, height_m)) == pytest.approx(expected)


def test_a_vehicle_on_its_back_sees_nothing():
    on_its_back = from_euler(math.pi, 0.0, 0.0)
    assert reading(RangefinderParams(), q_WB=on_its_back) == math.inf


@pytest.mark.parametrize(("tilt_deg", "heard"), [(0.0, True), (44.9, True), (45.1, False)])
def test_no_echo_beyond_the_largest_incidence(tilt_deg, heard):
    params = RangefinderParams(incidence_max_deg=45.0)
    found = reading(params, q_WB=from_euler(math.radians(tilt_deg), 0.0, 0.0))
    assert math.isfinite(found) == heard


# ---- a cone of rays ----------------------------------------------------------------------------


def angles_to_axis(rays):
    return np.arccos(np.clip(rays[:, 0], -1.0, 1.0))


def covering_rad(rays, half_rad):
    """Largest angle from a direction in the cone to its nearest ray, by a fine grid."""
    axis_rad, turn = np.meshgrid(np.linspace(0.0, half_rad, 60), np.linspace(0.0, 2 * np.pi, 120))
    aside = np.sin(axis_rad)
    grid = np.stack([np.cos(axis_rad), aside * np.cos(turn), aside * np.sin(turn)], axis=-1)
    return np.arccos(np.clip(grid.reshape(-1, 3) @ rays.T, -1.0, 1.0)).min(axis=1).max()


@pytest.mark.parametrize("rays", [2, 17, 33, 64])
@pytest.mark.parametrize("width_deg", [2.0, 40.0, 90.0])
def test_rays_fill_the_cone_evenly_with_axis_and_edge(rays, width_deg):
    half_rad = math.radians(0.5 * width_deg)
    found = cone(rays, 2.0 * half_rad)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-12)
    assert found[0] == pytest.approx([1.0, 0.0, 0.0])
    off_axis = angles_to_axis(found)
    assert off_axis.max() == pytest.approx(half_rad, rel=1e-6)
    # the part of the rays in a narrower cone is its part of the solid angle, to one ray
    for narrower in np.linspace(0.0, half_rad, 20):
        part = (1.0 - math.cos(narrower)) / (1.0 - math.cos(half_rad))
        assert np.sum(off_axis <= narrower + 1e-9) == pytest.approx(
            part * (rays - 1) + 1, abs=1.001
        )
    if rays >= 17:
        # a disc about each ray, of twice the area of its share, leaves nothing uncovered
        share_sr = 2.0 * math.pi * (1.0 - math.cos(half_rad)) / rays
        assert covering_rad(found, half_rad) < math.sqrt(2.0 * share_sr)


def test_one_ray_is_the_axis():
    assert cone(1, 1.0).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("tilt_deg", [0.0, 10.0, 20.0, 35.0])
def test_a_cone_sees_the_nearest_point_of_flat_ground(tilt_deg):
    height_m, half_rad = 3.0, math.radians(20.0)
    params = RangefinderParams(field_of_view_deg=40.0, rays=64)
    tilt_rad = math.radians(tilt_deg)
    found = reading(params, q_WB=from_euler(tilt_rad, 0.0, 0.3))
    nearest_rad = max(0.0, tilt_rad - half_rad)
    # the nearest ray is as far from the nearest direction as rays are apart
    slack_rad = covering_rad(cone(64, 2.0 * half_rad), half_rad)
    assert found >= height_m / math.cos(nearest_rad) - 1e-12
    assert found <= height_m / math.cos(nearest_rad + slack_rad)


def test_a_wide_cone_sees_the_edge_of_a_box_that_a_ray_passes_by():
    # top 1 m high, its edge 0.3 m beside the axis: 2 m below, 8.5 degrees aside
    box = Obstacle("box", Box((2.0, 2.0, 1.0)), Pose((1.3, 0.0, 0.5)))
    scene = scene_of([box])
    assert reading(RangefinderParams(), scene) == pytest.approx(3.0)
    slack_rad = covering_rad(cone(64, math.radians(40.0)), math.radians(20.0))
    edge_rad = math.atan2(0.3, 2.0)
    found = reading(RangefinderParams(field_of_view_deg=40.0, rays=64), scene)
    assert math.hypot(2.0, 0.3) - 1e-12 <= found <= 2.0 / math.cos(edge_rad + 2.0 * slack_rad)


def test_a_wall_hit_too_flat_hides_the_ground_behind_it_but_not_from_other_rays():
    # 0.3 m beside a wall, looking down: the cone's edge meets it 60 degrees off its normal
    wall = Obstacle("wall", Plane((-1.0, 0.0, 0.0)), Pose((0.3, 0.0, 0.0)))
    scene = scene_of([wall])
    wide = RangefinderParams(field_of_view_deg=60.0, rays=64)
    half_rad = math.radians(30.0)
    slack_rad = covering_rad(cone(64, 2.0 * half_rad), half_rad)
    assert 0.6 - 1e-12 <= reading(wide, scene) <= 0.3 / math.sin(half_rad - slack_rad)
    assert reading(replace(wide, incidence_max_deg=55.0), scene) == pytest.approx(3.0)
    tilted = RangefinderParams(rotation_deg=(0.0, 65.0, 0.0))  # 25 degrees towards the wall
    wall_m = 0.3 / math.sin(math.radians(25.0))
    assert reading(tilted, scene) == pytest.approx(wall_m, abs=1e-12)
    assert reading(replace(tilted, incidence_max_deg=55.0), scene) == math.inf


def test_turning_the_world_turns_nothing():
    turn = Rotation.from_euler("z", 1.1)
    params = RangefinderParams(field_of_view_deg=60.0, rays=40)
    tilted = Rotation.from_euler("yx", [0.3, -0.2])
    found = []
    for turned in (Rotation.identity(), turn):
        x, y, z, w = (turned * tilted).as_quat()
        box_x, box_y, box_z, box_w = turned.as_quat()
        box = Obstacle(
            "box",
            Box((1.0, 3.0, 1.0)),
            Pose(tuple(turned.apply([0.8, 0.2, 0.5])), (box_w, box_x, box_y, box_z)),
        )
        found.append(reading(params, scene_of([box]), q_WB=(w, x, y, z)))
    assert found[0] == pytest.approx(found[1], abs=1e-12)
    assert found[0] < 2.5  # it is the box


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.many
def test_tf_luna_repeats_as_its_data_sheet_says():
    params = replace(
        load_device("rangefinder", "tf_luna"),
        turn_on_sigma_m=0.0, scale_sigma=0.0, step_m=0.0, range_max_m=10.0,
    )  # fmt: skip
    count = 4_000
    low, high = chi2_bounds(count)
    for height_m, sigma_m in ((2.0, 0.005), (4.0, 0.01), (6.0, 0.015), (8.0, 0.02)):
        found = readings(device(params), count, p_W=(0.0, 0.0, height_m))
        assert low < found.std() / sigma_m < high


@pytest.mark.many
def test_stated_variance_is_that_of_the_errors_of_many_devices():
    params = RangefinderParams(
        noise_sigma_m=0.01, noise_share=0.005, turn_on_sigma_m=0.02, scale_sigma=0.01, step_m=0.05
    )
    # heights spread evenly over a count, so that its error is uniform
    heights_m = 3.0 + 0.05 * np.arange(2000) / 2000
    errors, stated = [], []
    for seed, height_m in enumerate(heights_m):
        _, sample = published(device(params, seed), 1, p_W=(0.0, 0.0, height_m))[0]
        errors.append(sample.range_m - height_m)
        stated.append(sample.variance_m2)
    low, high = chi2_bounds(len(errors))
    assert low < math.sqrt(np.mean(np.square(errors) / stated)) < high


def test_an_infinite_reading_states_no_variance():
    params = RangefinderParams(noise_sigma_m=0.01)
    for height_m in (0.05, 20.0):
        _, sample = published(device(params), 1, p_W=(0.0, 0.0, height_m))[0]
        assert sample.variance_m2 == 0.0


def test_readings_are_multiples_of_the_step():
    params = RangefinderParams(noise_sigma_m=0.1, step_m=0.0254)
    counts = readings(device(params), 300) / 0.0254
    assert counts == pytest.approx(np.round(counts), abs=1e-9)
    assert len(np.unique(np.round(counts))) > 10
    exact = reading(replace(params, noise_sigma_m=0.0))
    assert exact == pytest.approx(118 * 0.0254)  # 3 m are 118.1 inches


@pytest.mark.many
@pytest.mark.parametrize("tilt_deg", [0.0, 30.0, 59.0])
@pytest.mark.parametrize("loud", [None, 5.0])
def test_echoes_are_missed_with_their_probability_however_loud_the_noise(tilt_deg, loud):
    params = RangefinderParams(
        incidence_max_deg=60.0,
        dropout_probability=0.05,
        grazing_dropout_probability=0.4,
        noise_sigma_m=0.01,
        range_max_m=20.0,
    )
    faults = [] if loud is None else [FaultParams("noisier", value=(loud,))]
    tilt_rad = math.radians(tilt_deg)
    count = 4_000
    found = readings(device(params, faults=faults), count, q_WB=from_euler(tilt_rad, 0.0, 0.0))
    # Lambert: what a tilted surface lacks of the echo, over what it lacks at 60 degrees
    probability = 0.05 + 0.4 * (1.0 - math.cos(tilt_rad)) / 0.5
    low, high = binomial_bounds(count, probability)
    assert low <= np.isinf(found).sum() <= high
    assert np.all(found > 0.0)  # a missed echo is +inf


def test_silenced_noise_misses_nothing():
    faults = [FaultParams("noisier", value=(0.0,))]
    params = RangefinderParams(dropout_probability=0.3, noise_sigma_m=0.01)
    assert np.all(readings(device(params, faults=faults), 50) == 3.0)


# ---- parameters --------------------------------------------------------------------------------


@pytest.mark.parametrize(("radiation", "number"), [("ultrasound", 0), ("infrared", 1)])
def test_radiation_is_told(radiation, number):
    pytest.importorskip("rclpy")
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import Range

    from quadsim.wire.samples import range_messages

    params = RangefinderParams(radiation=radiation, noise_sigma_m=0.1)
    _, sample = published(device(params), 1, p_W=(0.0, 0.0, 3.0))[0]
    message = deserialize_message(range_messages("range_link", params).payload(sample), Range)
    assert message.radiation_type == number
    assert message.range == pytest.approx(sample.range_m, rel=1e-7)  # a float32
    assert message.variance == pytest.approx(0.01, rel=1e-7)


def test_a_message_of_an_older_kind_has_no_variance():
    pytest.importorskip("rclpy")
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import Range

    payload = bytes(serialize_message(Range(range=2.0, max_range=8.0, variance=0.25)))
    assert decode("sensor_msgs/msg/Range", [payload, payload])["variance"].tolist() == [0.25] * 2
    old = decode("sensor_msgs/msg/Range", [payload[:-4]])  # it was the last field that came
    assert "variance" not in old.names
    assert old["range"].tolist() == [2.0]
    both = decode("sensor_msgs/msg/Range", [payload, payload[:-4]])
    assert "variance" not in both.names


def test_an_ideal_device_reads_the_distance():
    assert reading(load_device("rangefinder", "ideal_rangefinder")) == 3.0
