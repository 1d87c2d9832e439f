"""How far a point is from the ground: a heightmap inside its rectangle, flat ground outside.

The surface is the one that rays meet (``world.scene.raycast_terrain``): two triangles a cell,
flat ground around them, and a vertical wall where the heightmap's border is not at its height.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import norm, scale, subtract
from quadsim.world.scene.distance_shapes import Surface, nearest_on_triangle
from quadsim.world.scene.raycast_terrain import (
    TerrainArrays,
    cell_of,
    cell_slope,
    grid_position,
    is_on_heightmap,
    terrain_height,
)

UP: Vec3 = (0.0, 0.0, 1.0)

#: Distance, nearest point, and the surface's normal there, of what was found so far.
Found = tuple[float, Vec3, Vec3]

#: Nearer than this the direction to the nearest point is rounding: the surface's own normal holds.
AT_THE_SURFACE_M = 1e-7


@kernel
def highest_ground(
    terrain: TerrainArrays, ground_height_m: float, x: float, y: float, reach_m: float
) -> float:
    """A height that no ground within a square about a point exceeds.

    From the pyramid of maxima, at the level whose blocks are as large as the square: at most
    four of them.
    """
    rows, columns = terrain.heights.shape
    if rows == 0:
        return ground_height_m
    frame, levels = terrain.frame, terrain.levels
    u0, v0 = grid_position(terrain, x - reach_m, y - reach_m)
    u1, v1 = grid_position(terrain, x + reach_m, y + reach_m)
    if not (u1 >= 0.0 and v1 >= 0.0 and u0 <= columns - 1.0 and v0 <= rows - 1.0):
        return ground_height_m
    inside = u0 >= 0.0 and v0 >= 0.0 and u1 <= columns - 1.0 and v1 <= rows - 1.0
    highest = -math.inf if inside else ground_height_m
    i0, i1 = cell_of(u0, columns - 1), cell_of(u1, columns - 1)
    j0, j1 = cell_of(v0, rows - 1), cell_of(v1, rows - 1)
    level = 0
    while level < levels.shape[0] - 1 and max(i1 - i0, j1 - j0) >= 1 << level:
        level += 1
    if highest > frame[5]:
        return highest
    for j in range(j0 >> level, (j1 >> level) + 1):
        for i in range(i0 >> level, (i1 >> level) + 1):
            highest = max(highest, terrain.maxima[levels[level, 0] + j * levels[level, 2] + i])
    return highest


@kernel
def grid_point(terrain: TerrainArrays, i: int, j: int) -> Vec3:
    """One point of the grid (column i, row j) in the world."""
    frame = terrain.frame
    return (frame[0] + i * frame[2], frame[1] + j * frame[3], terrain.heights[j, i])


@kernel
def nearer(p: Vec3, candidate: Vec3, normal: Vec3, found: Found) -> Found:
    """What was found so far, or another point of the surface if it is nearer."""
    distance = norm(subtract(p, candidate))
    if distance < found[0]:
        return distance, candidate, normal
    return found


@kernel
def nearer_in_cell(terrain: TerrainArrays, i: int, j: int, p: Vec3, found: Found) -> Found:
    """The same with the two triangles of a cell."""
    corner, opposite = grid_point(terrain, i, j), grid_point(terrain, i + 1, j + 1)
    diagonal = subtract(opposite, corner)
    for side in range(2):
        south_east = side == 0
        third = grid_point(terrain, i + 1, j) if south_east else grid_point(terrain, i, j + 1)
        east, north = cell_slope(terrain, i, j, south_east)
        flat = 1.0 / math.sqrt(1.0 + east * east + north * north)
        candidate = nearest_on_triangle(p, corner, subtract(third, corner), diagonal)
        found = nearer(p, candidate, (-east * flat, -north * flat, flat), found)
    return found


@kernel
def nearer_on_wall(
    start: Vec3, end: Vec3, outward: Vec3, ground_height_m: float, p: Vec3, found: Found
) -> Found:
    """The same with the wall between the flat ground and one edge of the heightmap's border.

    What lies above the wall's slanted edge, or beyond its ends, is nearer to its neighbours.
    """
    along = subtract(end, start)
    length2 = along[0] * along[0] + along[1] * along[1]
    share = ((p[0] - start[0]) * along[0] + (p[1] - start[1]) * along[1]) / length2
    share = min(max(share, 0.0), 1.0)
    top = start[2] + share * along[2]
    z = min(max(p[2], min(top, ground_height_m)), max(top, ground_height_m))
    normal = outward if top > ground_height_m else scale(-1.0, outward)
    candidate = (start[0] + share * along[0], start[1] + share * along[1], z)
    return nearer(p, candidate, normal, found)


@kernel
def nearer_on_walls(
    terrain: TerrainArrays, i: int, j: int, ground_height_m: float, p: Vec3, found: Found
) -> Found:
    """The same with the walls of a cell on the border."""
    rows, columns = terrain.heights.shape
    south_west, north_west = grid_point(terrain, i, j), grid_point(terrain, i, j + 1)
    south_east, north_east = grid_point(terrain, i + 1, j), grid_point(terrain, i + 1, j + 1)
    ground = ground_height_m
    if i == 0:
        found = nearer_on_wall(south_west, north_west, (-1.0, 0.0, 0.0), ground, p, found)
    if i == columns - 2:
        found = nearer_on_wall(south_east, north_east, (1.0, 0.0, 0.0), ground, p, found)
    if j == 0:
        found = nearer_on_wall(south_west, south_east, (0.0, -1.0, 0.0), ground, p, found)
    if j == rows - 2:
        found = nearer_on_wall(north_west, north_east, (0.0, 1.0, 0.0), ground, p, found)
    return found


@kernel
def heightmap_distance(
    terrain: TerrainArrays, ground_height_m: float, p: Vec3, height: float, reach_m: float
) -> Surface:
    """Signed distance to a heightmap and its walls where they lie within a reach."""
    rows, columns = terrain.heights.shape
    limit = reach_m + AT_THE_SURFACE_M
    found = (limit, p, UP)
    if is_on_heightmap(terrain, p[0], p[1]):  # the cell below shrinks what is left to search
        u, v = grid_position(terrain, p[0], p[1])
        found = nearer_in_cell(terrain, cell_of(u, columns - 1), cell_of(v, rows - 1), p, found)
    u0, v0 = grid_position(terrain, p[0] - found[0], p[1] - found[0])
    u1, v1 = grid_position(terrain, p[0] + found[0], p[1] + found[0])
    if u1 < 0.0 or v1 < 0.0 or u0 > columns - 1.0 or v0 > rows - 1.0:
        return height, UP
    for j in range(cell_of(v0, rows - 1), cell_of(v1, rows - 1) + 1):
        for i in range(cell_of(u0, columns - 1), cell_of(u1, columns - 1) + 1):
            found = nearer_in_cell(terrain, i, j, p, found)
            if i == 0 or j == 0 or i == columns - 2 or j == rows - 2:
                found = nearer_on_walls(terrain, i, j, ground_height_m, p, found)
    distance, nearest, normal = found
    if distance == limit:
        return height, UP
    sign = -1.0 if height < 0.0 else 1.0
    if distance < AT_THE_SURFACE_M:
        return sign * distance, normal
    return sign * distance, scale(sign / distance, subtract(p, nearest))


@kernel
def ground_distance(
    terrain: TerrainArrays, ground_height_m: float, p_W: Vec3, reach_m: float
) -> Surface:
    """Signed distance of a point to the ground in m, negative below, and the outward normal.

    Exact where the ground lies within ``reach_m``; farther it is the height above the ground
    straight below (or the depth), with the normal upwards. A point that is not finite: (nan, up).
    """
    if not math.isfinite(p_W[0] + p_W[1] + p_W[2]):
        return math.nan, UP
    height = p_W[2] - terrain_height(terrain, ground_height_m, p_W[0], p_W[1])
    if terrain.heights.shape[0] == 0:
        return height, UP
    if height > reach_m:
        highest = highest_ground(terrain, ground_height_m, p_W[0], p_W[1], reach_m)
        if p_W[2] - reach_m > highest:
            return height, UP
    return heightmap_distance(terrain, ground_height_m, p_W, height, min(abs(height), reach_m))
