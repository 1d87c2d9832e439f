"""Terrain as a regular grid of heights, and the arrays that rays are cast at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.world.scene.raycast_terrain import TerrainArrays

MAX_POINTS = 4097


@dataclass(frozen=True, eq=False)
class Heightmap:
    """Heights on a grid in the world (``map``, ENU).

    Attributes:
        heights_m: (rows, columns) height above z = 0; rows go north, columns east.
        size_m: extent east and north, from the first to the last grid point.
        center_W_m: middle of the rectangle, east and north.
    """

    heights_m: NDArray[np.float64]
    size_m: tuple[float, float]
    center_W_m: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        """Refuse what is no grid."""
        shape = self.heights_m.shape
        if len(shape) != 2 or min(shape) < 2 or max(shape) > MAX_POINTS:
            raise InputError(f"heightmap: {shape} points; allowed: 2 to {MAX_POINTS} each way")
        if not np.all(np.isfinite(self.heights_m)):
            raise InputError("heightmap: a height is not finite")
        if not (min(self.size_m) > 0.0 and np.all(np.isfinite((*self.size_m, *self.center_W_m)))):
            raise InputError(f"heightmap: size {self.size_m}; allowed: > 0 m")


def terrain_arrays(terrain: Heightmap) -> TerrainArrays:
    """What kernels take, with the pyramid of maxima."""
    heights = np.ascontiguousarray(terrain.heights_m, dtype=np.float64)
    rows, columns = heights.shape
    step_x, step_y = terrain.size_m[0] / (columns - 1), terrain.size_m[1] / (rows - 1)
    corner = np.subtract(terrain.center_W_m, np.multiply(terrain.size_m, 0.5))
    corners = [heights[:-1, :-1], heights[:-1, 1:], heights[1:, :-1], heights[1:, 1:]]
    blocks = [np.max(corners, axis=0)]
    while blocks[-1].size > 1:
        finer = blocks[-1]
        padded = np.pad(finer, [(0, n % 2) for n in finer.shape], constant_values=-np.inf)
        quarters = padded.reshape(padded.shape[0] // 2, 2, padded.shape[1] // 2, 2)
        blocks.append(quarters.max(axis=(1, 3)))
    starts = np.cumsum([0] + [block.size for block in blocks[:-1]])
    levels = [(start, *block.shape) for start, block in zip(starts, blocks, strict=True)]
    return TerrainArrays(
        heights,
        np.array([*corner, step_x, step_y, heights.min(), heights.max()]),
        np.array(levels, np.int64),
        np.concatenate([block.ravel() for block in blocks]),
    )
