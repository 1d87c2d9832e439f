"""Hills from a seed: their statistics, and what must not depend on the grid."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import cast_ray, scene_of
from quadsim.world.scene.terrain_hills import HillsParams, hills

# Two terrains of 256 m like those of the thesis; the start is the origin of map, and the
# vehicle flies a diamond whose corners are this far from its middle, south of the start.
MEDIUM, MEDIUM_REACH_M = (
    HillsParams(
        height_m=30.0, wavelength_m=400.0, seed=26, center_W_m=(-22.0, -52.0), pad_radius_m=3.0
    ),
    30.0,
)
LARGE, LARGE_REACH_M = (
    HillsParams(
        height_m=80.0, wavelength_m=280.0, seed=55, center_W_m=(-22.0, -72.0), pad_radius_m=3.0
    ),
    50.0,
)


def heights_along_flight(params, reach_m):
    """Ground under a diamond, above the lowest point of the terrain."""
    terrain = hills(params)
    arrays = scene_of((), terrain).terrain
    corners = reach_m * np.array([[0, 0], [1, -1], [0, -2], [-1, -1], [0, 0]])
    path = np.concatenate([np.linspace(*leg, 60) for leg in pairwise(corners)])
    ground = [terrain_height(arrays, math.nan, x, y) for x, y in path]
    return np.array(ground) - terrain.heights_m.min()


@pytest.mark.parametrize(
    ("params", "reach_m", "lowest_m", "highest_m", "median", "most"),
    [
        (MEDIUM, MEDIUM_REACH_M, 6.0, 19.0, 0.13, 0.4),
        (LARGE, LARGE_REACH_M, 11.0, 64.0, 0.55, 1.3),
    ],
)
def test_terrain_like_that_of_the_thesis(params, reach_m, lowest_m, highest_m, median, most):
    """Ground under the flight, median of the slope, and 95 % of it, as measured there."""
    heights = hills(params).heights_m
    east_m, north_m = hills(params).size_m / np.subtract(heights.shape[::-1], 1)
    east, north = np.diff(heights, axis=1) / east_m, np.diff(heights, axis=0) / north_m
    slopes = np.hypot(east[:-1], north[:, 1:])  # of the south-eastern half of each cell
    assert np.median(slopes) == pytest.approx(median, rel=0.1)
    assert 0.8 * most < np.quantile(slopes, 0.95) < most
    ground = heights_along_flight(params, reach_m)
    assert ground.min() == pytest.approx(lowest_m, abs=2.0)
    assert ground.max() == pytest.approx(highest_m, abs=2.0)


def test_the_height_is_what_was_asked_for():
    terrain = hills(HillsParams(height_m=30.0, wavelength_m=100.0))
    assert np.ptp(terrain.heights_m) == pytest.approx(30.0, abs=1e-12)
    assert hills(HillsParams(height_m=0.0)) is None


def test_the_same_seed_gives_the_same_bits_and_another_other_hills():
    params = HillsParams(height_m=30.0)
    heights = [hills(replace(params, seed=seed)).heights_m for seed in (1, 1, 2)]
    assert np.array_equal(heights[0], heights[1])
    assert abs(np.corrcoef(heights[0].ravel(), heights[2].ravel())[0, 1]) < 0.9


def test_a_finer_grid_samples_the_same_hills():
    params = HillsParams(height_m=30.0, wavelength_m=100.0, cells=64)
    coarse = hills(params).heights_m
    fine = hills(replace(params, cells=512)).heights_m[::8, ::8]
    # The finer grid finds higher tops and deeper pits; a cell of 4 m is short for waves of 25 m.
    assert np.abs(coarse - fine).max() < 0.02 * 30.0


def test_hills_are_alike_at_any_size():
    small = hills(HillsParams(height_m=10.0, wavelength_m=50.0, size_m=100.0)).heights_m
    large = hills(HillsParams(height_m=20.0, wavelength_m=100.0, size_m=200.0)).heights_m
    assert large == pytest.approx(2.0 * small, abs=1e-9)


def test_waves_are_no_shorter_than_a_quarter_of_the_longest():
    """Squaring halves lengths once more; a window keeps the borders out of the spectrum."""
    params = HillsParams(height_m=1.0, wavelength_m=128.0, size_m=1024.0, cells=1023)
    heights = hills(params).heights_m
    window = np.outer(np.hanning(1024), np.hanning(1024))
    power = np.abs(np.fft.fft2((heights - heights.mean()) * window)) ** 2
    waves_per_m = np.hypot(*np.meshgrid(*2 * [np.fft.fftfreq(1024, 1024.0 / 1023.0)]))
    shorter = waves_per_m > 1.1 * 2.0 * 4.0 / 128.0
    assert power[shorter].sum() < 1e-6 * power.sum()
    longer = waves_per_m > 1.1 * 4.0 / 128.0
    assert power[longer].sum() > 1e-6 * power.sum()


def test_the_start_is_level_and_where_it_was_asked_for():
    params = HillsParams(height_m=60.0, start_height_m=7.0, pad_radius_m=5.0, cells=512)
    scene = scene_of((), hills(params))
    for angle in np.linspace(0.0, 6.0, 20):
        x, y = 4.5 * math.cos(angle), 4.5 * math.sin(angle)
        assert terrain_height(scene.terrain, 0.0, x, y) == 7.0
    assert cast_ray(scene, 0.0, (1.0, 2.0, 10.0), (0.0, 0.0, -1.0), 9.0) == (3.0, 1.0)
    bare = hills(replace(params, pad_radius_m=0.0, cells=256))
    assert bare.heights_m[128, 128] == pytest.approx(7.0, abs=1e-9)
    far = np.hypot(*np.meshgrid(*2 * [np.linspace(-128.0, 128.0, 257)])) > 10.0
    padded = hills(replace(params, cells=256))
    assert padded.heights_m[far] == pytest.approx(bare.heights_m[far], abs=1e-9)


@pytest.mark.parametrize("mapping", [{"height_m": -1.0}, {"cells": 1}, {"seed": -1}, {"hill": 1}])
def test_impossible_hills_are_refused(mapping):
    with pytest.raises(InputError, match=next(iter(mapping))):
        from_mapping(HillsParams, mapping, "x.yaml")
