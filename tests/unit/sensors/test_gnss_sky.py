"""The receiver's sky: dilution of precision by linear algebra, satellites that the world hides."""

import math

import numpy as np
import pytest
from scipy import stats
from sensor_rig import ALPHA

from quadsim.base.compiled import new_record
from quadsim.base.parameters import new
from quadsim.base.records import KINEMATICS
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.gnss import (
    MAX_SATELLITES,
    NO_DOP,
    WORST_PDOP,
    GnssParams,
    Sky,
    dilute,
    draw_sky,
    has_position,
    look_up,
)
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Box, Obstacle, Pose
from quadsim.world.scene.scene import EMPTY_SCENE, scene_of
from quadsim.world.scene.terrain import Heightmap


def sky_of(directions, hidden=0):
    sky = new(Sky)
    sky.count = len(directions)
    sky.direction_W[: len(directions)] = directions
    dilute(sky, hidden)
    return sky


def drawn(count, mask_deg=10.0, seed=1):
    sky = new(Sky)
    draw_sky(sky, count, mask_deg, np.random.default_rng(seed))
    return sky


def directions_of(sky):
    return sky.direction_W[: sky.count]


def dilutions(directions):
    """Horizontal and vertical, from the (n, 4) geometry matrix."""
    rows = np.column_stack([directions, np.ones(len(directions))])
    variances = np.diag(np.linalg.inv(rows.T @ rows))
    return math.sqrt(variances[0] + variances[1]), math.sqrt(variances[2])


def test_one_overhead_and_three_on_the_horizon():
    angles = np.radians([0.0, 120.0, 240.0])
    level = np.column_stack([np.sin(angles), np.cos(angles), np.zeros(3)])
    sky = sky_of(np.vstack([[0.0, 0.0, 1.0], level]))
    # the least that four can have: each axis 2/3, 2/3 and 4/3 of the ranges' variance
    assert (sky.hdop, sky.vdop) == pytest.approx((math.sqrt(4 / 3), math.sqrt(4 / 3)), rel=1e-12)


@pytest.mark.parametrize("count", [4, 5, 8, 22, MAX_SATELLITES])
def test_dilution_is_that_of_the_geometry_matrix(count):
    for seed in range(20):
        sky = drawn(count, seed=seed)
        expected = dilutions(directions_of(sky))
        if max(expected) < NO_DOP:
            # the inverse loses as many figures as its condition number has
            assert (sky.hdop, sky.vdop) == pytest.approx(expected, rel=1e-8)


def test_three_or_a_bad_geometry_give_no_fix():
    assert has_position(drawn(4, seed=3))
    few = drawn(3)
    assert not has_position(few)
    assert (few.hdop, few.vdop) == (NO_DOP, NO_DOP)
    # all at one elevation: height cannot be told from the clock
    angles = np.radians([0.0, 80.0, 170.0, 250.0, 300.0])
    ring = np.column_stack([np.sin(angles), np.cos(angles), np.ones(5)]) / math.sqrt(2.0)
    assert not has_position(sky_of(ring))
    # nearly so: a dilution that is known, and too large
    ring[0] = np.array([0.0, 1.0, 1.1]) / math.hypot(1.0, 1.1)
    bad = sky_of(ring)
    assert WORST_PDOP < bad.vdop < NO_DOP
    assert bad.vdop == pytest.approx(dilutions(ring)[1], rel=1e-6)
    assert not has_position(bad)


def test_satellites_are_spread_evenly_over_the_sky_above_the_mask():
    found = np.concatenate([directions_of(drawn(20, 15.0, seed)) for seed in range(200)])
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-12)
    least = math.sin(math.radians(15.0))
    up = stats.uniform(least, 1.0 - least)
    azimuth = stats.uniform(-math.pi, 2.0 * math.pi)
    assert stats.kstest(found[:, 2], up.cdf).pvalue > ALPHA
    assert stats.kstest(np.arctan2(found[:, 0], found[:, 1]), azimuth.cdf).pvalue > ALPHA


@pytest.mark.parametrize("name", ["ublox_f9p_rtk", "ublox_m8", "fv_m8"])
def test_the_stated_dilution_of_a_device_is_the_median_of_its_skies(name):
    params = load_device("gnss", name)
    skies = [drawn(params.satellites, params.elevation_mask_deg, seed) for seed in range(1000)]
    for found, stated in (
        ([sky.hdop for sky in skies], params.hdop),
        ([sky.vdop for sky in skies], params.vdop),
    ):
        # the interval of order statistics that holds the median, and the file's two figures
        ranks = stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], len(found), 0.5).astype(int)
        low, high = np.sort(found)[ranks]
        assert low - 0.01 < stated < high + 0.01


# ---- what the world hides ----------------------------------------------------------------------

ANTENNA_W = (0.0, 0.0, 2.0)


def wall_east(height_m, x_m=5.0):
    """A wall along the y axis, 4 km long, from the ground up; its face is at x."""
    box = Box((1.0, 4000.0, height_m))
    return Obstacle("wall", box, Pose((x_m + 0.5, 0.0, 0.5 * height_m)))


def behind_wall(directions, height_m, x_m=5.0):
    """Whether a ray from the antenna passes x below the wall's top: one line of geometry."""
    east, _, up = directions.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return (east > 0.0) & (ANTENNA_W[2] + x_m * up / east < height_m)


@pytest.mark.parametrize("height_m", [3.0, 8.0, 30.0])
def test_a_wall_hides_the_satellites_behind_it(height_m):
    for seed in range(5):
        sky = drawn(22, seed=seed)
        behind = behind_wall(directions_of(sky), height_m)
        look_up(sky, scene_of([wall_east(height_m)]), 0.0, ANTENNA_W)
        assert sky.visible == np.sum(~behind)
        assert (sky.hdop, sky.vdop) == pytest.approx(dilutions(directions_of(sky)[~behind]))
        look_up(sky, EMPTY_SCENE, 0.0, ANTENNA_W)  # flat ground hides nothing
        assert sky.visible == 22


def test_a_mountain_hides_them_too_but_not_beyond_two_kilometres():
    # a ridge along the north: 0 m at x = 1 km, 1 km high at x = 2 km, and on
    ridge = Heightmap(np.array([[0.0, 0.0, 1e3, 1e3]] * 2), (3e3, 8e3), (1.5e3, 0.0))
    steep, flat = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.4]]) / [
        [math.sqrt(2)],
        [math.hypot(1, 0.4)],
    ]
    sky = sky_of([steep, flat, (0.0, 0.0, 1.0)])
    look_up(sky, scene_of(terrain=ridge), 0.0, ANTENNA_W)
    # 45 degrees pass over the slope; 0.4 meets it where 0.4 x = x - 1000, at x = 1667 m
    assert (sky.visible, sky.hidden) == (2, 0b010)
    sky = sky_of([np.array([1.0, 0.0, 0.1]) / math.hypot(1.0, 0.1)])
    far = Heightmap(np.array([[0.0, 0.0, 1e3, 1e3]] * 2), (3e3, 8e3), (4.5e3, 0.0))
    look_up(sky, scene_of(terrain=far), 0.0, ANTENNA_W)
    assert sky.visible == 1


def receiver(scene):
    params = GnssParams(horizontal_accuracy_m=1.0, satellites=9, hdop=1.0)
    return SimulatedSensor(SENSORS["gnss"], params, EnvironmentParams(), 4, "quad", scene)


def test_a_vehicle_that_flies_into_a_street_loses_satellites_and_finds_them_again():
    def fly(scene, heights_m):
        """The sample at each height above the ground."""
        sensor, truth, found = receiver(scene), new_record(KINEMATICS), []
        truth.q_WB[0] = 1.0
        for k, height_m in enumerate(heights_m):
            truth.stamp_ns = k * sensor.period_ns
            truth.p_W[2] = height_m
            sample = sensor.measure(truth)
            found.append(sample.copy() if sample is not None else None)
        return found[1:]

    walls = [wall_east(50.0, 3.0), wall_east(50.0, -4.0)]
    heights_m = [60.0, 60.0, 40.0, 2.0, 60.0]
    over, low, bottom, again = fly(scene_of(walls), heights_m)
    free = fly(EMPTY_SCENE, heights_m)
    assert (over.satellites, over.hdop) == (9, free[0].hdop)
    assert again.p_W == pytest.approx(free[3].p_W)  # its errors went on as if nothing had been
    assert bottom.satellites <= low.satellites < 9
    assert bottom.satellites < 4
    assert bottom.status == -1.0
    assert np.all(np.isnan(bottom.p_W))
    assert np.all(np.isnan(bottom.v_W))
    assert np.all(np.isfinite(bottom.p_variance))
    assert np.all(bottom.p_variance >= over.p_variance)
