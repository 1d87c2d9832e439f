"""Where a ray meets the ground: a heightmap inside its rectangle, flat ground outside.

Each cell of the heightmap is two triangles that share the edge from its south-west to its
north-east corner, so the ground is continuous and a ray meets it in closed form. Along a ray, the
height above a triangle is linear: the hit is where it falls to zero. Blocks of cells whose highest
point stays below the ray are skipped by a pyramid of maxima (Tevs, Ihrke and Seidel, *Maximum
mipmaps for fast, accurate, and scalable dynamic height field rendering*, 2008).

Ground is solid. Where the border of the heightmap lies above or below the flat ground there is a
vertical wall.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3

Hit = tuple[float, float]


class TerrainArrays(NamedTuple):
    """A heightmap for kernels; all arrays C-contiguous.

    Attributes:
        heights: (rows, columns) in m; rows go north, columns east; (0, 0) for no heightmap.
        frame: (6,) x and y of ``heights[0, 0]``, cell size in x and y, lowest and highest point.
        levels: (levels, 3) first item in ``maxima``, rows and columns of each level.
        maxima: (S,) highest point of every block of 1, 2 x 2, 4 x 4, ... cells.
    """

    heights: NDArray[np.float64]
    frame: NDArray[np.float64]
    levels: NDArray[np.int64]
    maxima: NDArray[np.float64]


NO_TERRAIN = TerrainArrays(np.zeros((0, 0)), np.zeros(6), np.zeros((0, 3), np.int64), np.zeros(0))


@kernel
def grid_position(terrain: TerrainArrays, x: float, y: float) -> tuple[float, float]:
    """Column and row of a point, as real numbers."""
    frame = terrain.frame
    return (x - frame[0]) / frame[2], (y - frame[1]) / frame[3]


@kernel
def is_on_heightmap(terrain: TerrainArrays, x: float, y: float) -> bool:
    """Whether a point lies within the heightmap's rectangle, borders included."""
    rows, columns = terrain.heights.shape
    if rows == 0:
        return False
    u, v = grid_position(terrain, x, y)
    return bool(0.0 <= u <= columns - 1.0 and 0.0 <= v <= rows - 1.0)


@kernel
def cell_of(position: float, cells: int) -> int:
    """Index of the cell that holds a grid position; the border belongs to the last one."""
    return int(min(max(math.floor(position), 0.0), cells - 1.0))


@kernel
def cell_height(terrain: TerrainArrays, i: int, j: int, u: float, v: float) -> float:
    """Height in cell (column i, row j) at the grid position (u, v), held within the cell."""
    h = terrain.heights
    u, v = min(max(u - i, 0.0), 1.0), min(max(v - j, 0.0), 1.0)
    if u >= v:
        return float(h[j, i] + u * (h[j, i + 1] - h[j, i]) + v * (h[j + 1, i + 1] - h[j, i + 1]))
    return float(h[j, i] + v * (h[j + 1, i] - h[j, i]) + u * (h[j + 1, i + 1] - h[j + 1, i]))


@kernel
def cell_slope(terrain: TerrainArrays, i: int, j: int, south_east: bool) -> tuple[float, float]:
    """Slope towards east and north of one of the two triangles of a cell, in m/m."""
    h, frame = terrain.heights, terrain.frame
    if south_east:
        return (h[j, i + 1] - h[j, i]) / frame[2], (h[j + 1, i + 1] - h[j, i + 1]) / frame[3]
    return (h[j + 1, i + 1] - h[j + 1, i]) / frame[2], (h[j + 1, i] - h[j, i]) / frame[3]


@kernel
def terrain_height(terrain: TerrainArrays, ground_height_m: float, x: float, y: float) -> float:
    """Height of the ground at a point of the map in m: the heightmap's, or the flat ground's."""
    if not is_on_heightmap(terrain, x, y):
        return ground_height_m
    u, v = grid_position(terrain, x, y)
    rows, columns = terrain.heights.shape
    return cell_height(terrain, cell_of(u, columns - 1), cell_of(v, rows - 1), u, v)


@kernel
def flat_hit(ground_height_m: float, origin: Vec3, direction: Vec3) -> Hit:
    """Distance and cosine of incidence on flat ground."""
    height = origin[2] - ground_height_m
    if height < 0.0:
        return 0.0, 1.0
    if direction[2] < 0.0:
        return height / -direction[2], -direction[2]
    return math.inf, 0.0


@kernel
def over_heightmap(
    terrain: TerrainArrays, origin: Vec3, direction: Vec3
) -> tuple[float, float, float, float]:
    """Part of a ray's line that lies over the heightmap's rectangle.

    Returns:
        Distances at which the line comes and goes (the first above the second when it does not),
        and the cosines of incidence on the vertical walls there.
    """
    rows, columns = terrain.heights.shape
    frame = terrain.frame
    near, far, near_cos, far_cos = -math.inf, math.inf, 0.0, 0.0
    for axis in range(2):
        low = frame[axis] - origin[axis]
        high = low + frame[2 + axis] * ((columns if axis == 0 else rows) - 1)
        if direction[axis] == 0.0:
            if low > 0.0 or high < 0.0:
                return math.inf, -math.inf, 0.0, 0.0
            continue
        low, high = low / direction[axis], high / direction[axis]
        if min(low, high) > near:
            near, near_cos = min(low, high), abs(direction[axis])
        if max(low, high) < far:
            far, far_cos = max(low, high), abs(direction[axis])
    return near, far, near_cos, far_cos


@kernel
def cell_hit(
    terrain: TerrainArrays, i: int, j: int, origin: Vec3, direction: Vec3, start: float, end: float
) -> Hit:
    """First hit in one cell, which the ray crosses from one distance to another."""
    x, y, z = origin
    u0, v0 = grid_position(terrain, x + start * direction[0], y + start * direction[1])
    u1, v1 = grid_position(terrain, x + end * direction[0], y + end * direction[1])
    across0, across1 = (u0 - i) - (v0 - j), (u1 - i) - (v1 - j)  # above zero: south-east triangle
    above = z + start * direction[2] - cell_height(terrain, i, j, u0, v0)
    for part in range(2):
        stop, u, v, south_east = end, u1, v1, across0 + across1 >= 0.0
        if across0 * across1 < 0.0:
            south_east = (across0 > 0.0) == (part == 0)
            if part == 0:  # up to the shared edge
                share = across0 / (across0 - across1)
                stop = start + share * (end - start)
                u, v = u0 + share * (u1 - u0), v0 + share * (v1 - v0)
        elif part == 1:
            break
        above_stop = z + stop * direction[2] - cell_height(terrain, i, j, u, v)
        if above_stop < 0.0:
            if above > 0.0:
                start += above / (above - above_stop) * (stop - start)
            east, north = cell_slope(terrain, i, j, south_east)
            steepness = math.sqrt(1.0 + east * east + north * north)
            cosine = (east * direction[0] + north * direction[1] - direction[2]) / steepness
            return start, min(1.0, max(0.0, cosine))
        start, above = stop, above_stop
    return math.inf, 0.0


@kernel
def heightmap_hit(
    terrain: TerrainArrays, origin: Vec3, direction: Vec3, start: float, end: float
) -> Hit:
    """First hit on the heightmap between two distances, over its rectangle all the way.

    The ray is above the ground at the start.
    """
    frame, levels, maxima = terrain.frame, terrain.levels, terrain.maxima
    cells_u, cells_v = terrain.heights.shape[1] - 1, terrain.heights.shape[0] - 1
    if direction[2] < 0.0:  # below the lowest point there is nothing to look for
        end = min(end, (origin[2] - frame[4] + 1.0) / -direction[2])
    elif direction[2] > 0.0:
        end = min(end, (frame[5] - origin[2]) / direction[2])
    elif origin[2] > frame[5]:
        return math.inf, 0.0
    u0, v0 = grid_position(terrain, origin[0], origin[1])
    u_rate, v_rate = direction[0] / frame[2], direction[1] / frame[3]
    i, j = cell_of(u0 + start * u_rate, cells_u), cell_of(v0 + start * v_rate, cells_v)
    top = levels.shape[0] - 1
    level = top
    while start <= end:
        i_block, j_block = i >> level, j >> level
        i_edge = (i_block + 1 if u_rate > 0.0 else i_block) << level
        j_edge = (j_block + 1 if v_rate > 0.0 else j_block) << level
        u_exit = (i_edge - u0) / u_rate if u_rate != 0.0 else math.inf
        v_exit = (j_edge - v0) / v_rate if v_rate != 0.0 else math.inf
        leave = max(start, min(u_exit, v_exit, end))
        lowest = origin[2] + (start if direction[2] > 0.0 else leave) * direction[2]
        highest = maxima[levels[level, 0] + j_block * levels[level, 2] + i_block]
        if lowest <= highest:
            if level > 0:
                level -= 1
                continue
            distance, cosine = cell_hit(terrain, i, j, origin, direction, start, leave)
            if distance < math.inf:
                return distance, cosine
        if min(u_exit, v_exit) >= end:
            break
        start = leave
        if u_exit <= v_exit:
            i = i_edge if u_rate > 0.0 else i_edge - 1
            size = 1 << level
            j = cell_of(v0 + start * v_rate - j_block * size, size) + j_block * size
        else:
            j = j_edge if v_rate > 0.0 else j_edge - 1
            size = 1 << level
            i = cell_of(u0 + start * u_rate - i_block * size, size) + i_block * size
        if not (0 <= i < cells_u and 0 <= j < cells_v):
            break
        if level < top and (i >> level + 1 != i_block >> 1 or j >> level + 1 != j_block >> 1):
            level += 1
    return math.inf, 0.0


@kernel
def ground_hit(
    terrain: TerrainArrays,
    ground_height_m: float,
    origin: Vec3,
    direction: Vec3,
    range_max_m: float,
) -> Hit:
    """First hit on a heightmap and the flat ground around it: distance, cosine of incidence."""
    flat, flat_cos = flat_hit(ground_height_m, origin, direction)
    near, far, near_cos, far_cos = over_heightmap(terrain, origin, direction)
    if near > far or far < 0.0 or near > min(flat, range_max_m):
        return flat, flat_cos
    start = max(near, 0.0)
    x, y = origin[0] + start * direction[0], origin[1] + start * direction[1]
    u, v = grid_position(terrain, x, y)
    rows, columns = terrain.heights.shape
    edge = cell_height(terrain, cell_of(u, columns - 1), cell_of(v, rows - 1), u, v)
    if origin[2] + start * direction[2] < edge:
        return (start, near_cos) if near > 0.0 else (0.0, 1.0)
    distance, cosine = heightmap_hit(terrain, origin, direction, start, min(far, range_max_m))
    if distance < math.inf or far > range_max_m:
        return distance, cosine
    if origin[2] + far * direction[2] < ground_height_m:
        return far, far_cos
    if direction[2] < 0.0:
        return max(flat, far), flat_cos
    return math.inf, 0.0
