"""How long rays take: 1000 rays against 100 obstacles and a heightmap of 256 x 256 cells.

``python benchmarks/ray_casting.py`` prints one JSON object; times are medians on one core.
"""

from __future__ import annotations

import json
import statistics
import timeit

import numpy as np
from scipy.spatial.transform import Rotation

from quadsim.analysis.surroundings import machine, versions
from quadsim.world.obstacles import Box, Cylinder, Obstacle, Pose, Sphere
from quadsim.world.scene import EMPTY_SCENE, Scene, cast_rays, scene_of
from quadsim.world.terrain import Heightmap

RAYS, OBSTACLES, CELLS, SIZE_M, RANGE_M = 1000, 100, 256, 256.0, 100.0
RNG = np.random.default_rng(1)


def terrain() -> Heightmap:
    """Hills of some metres."""
    x, y = np.meshgrid(*2 * [np.linspace(0.0, SIZE_M, CELLS + 1)])
    heights = 6.0 * np.sin(x / 15.0) * np.cos(y / 11.0) + RNG.normal(0.0, 0.05, x.shape)
    return Heightmap(heights, (SIZE_M, SIZE_M))


def obstacles() -> list[Obstacle]:
    """Boxes, spheres and cylinders, strewn over the terrain."""
    shapes = [Box((2.0, 3.0, 4.0)), Sphere(2.0), Cylinder(0.5, 12.0)]
    found = []
    for k in range(OBSTACLES):
        x, y, z, w = Rotation.random(rng=RNG).as_quat()
        place = RNG.uniform([-80.0, -80.0, 0.0], [80.0, 80.0, 12.0])
        found.append(Obstacle(f"{k}", shapes[k % 3], Pose(tuple(place), (w, x, y, z))))
    return found


def median_ms(scene: Scene, origins: np.ndarray, directions: np.ndarray) -> float:
    """Median time of one call with all rays."""
    distance, cosine = np.zeros(RAYS), np.zeros(RAYS)

    def call() -> None:
        cast_rays(scene, 0.0, origins, directions, RANGE_M, distance, cosine)

    call()
    return 1e3 * statistics.median(timeit.repeat(call, number=1, repeat=200))


def main() -> None:
    """Measure and print."""
    directions = RNG.standard_normal((RAYS, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    angle = np.linspace(0.0, 2.0 * np.pi, RAYS)
    level = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(RAYS)])
    origins = np.tile([0.0, 0.0, 15.0], (RAYS, 1))
    hills, things = terrain(), obstacles()
    scenes = {
        "flat": EMPTY_SCENE,
        "heightmap": scene_of((), hills),
        "obstacles": scene_of(things),
        "both": scene_of(things, hills),
    }
    result = {
        "rays": RAYS,
        "obstacles": OBSTACLES,
        "heightmap_cells": CELLS,
        "range_m": RANGE_M,
        "all_around_ms": {k: median_ms(s, origins, directions) for k, s in scenes.items()},
        "level_ms": {k: median_ms(s, origins, level) for k, s in scenes.items()},
        "machine": machine(),
        "versions": versions(),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
