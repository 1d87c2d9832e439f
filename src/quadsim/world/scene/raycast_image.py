"""What the rays of a camera meet: for each what ``cast_ray`` finds, at a small part of its cost.

The image is cut into tiles. All rays of a tile lie between four planes through the camera, and a
shape that is beyond one of them is met by none (frustum culling of beams: Reshetov, Soupikov and
Hurley, *Multi-level ray tracing algorithm*, 2005). The others are tried from the nearest on, until
what is left is farther than all that the tile's rays have met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, owning_kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import lengths
from quadsim.geometry.vector import add, dot, scale, subtract
from quadsim.world.scene.distance import gap_to_box
from quadsim.world.scene.raycast_terrain import flat_hit, ground_hit
from quadsim.world.scene.raycast_tree import (
    MESH,
    STACK_SIZE,
    hit_in_frame,
    nearest_plane,
    three_of,
)
from quadsim.world.scene.scene import GROUND_ID, NOTHING_ID, Scene

#: Side of a tile, pixels.
TILE = 16


class ImageRays(NamedTuple):
    """The rays of an image in the camera's axes S.

    Attributes:
        directions: (3, rows, columns) unit vectors, one axis after the other.
        tiles: (T, 4) first row, behind the last, first column, behind the last.
        sides: (T + 1, 4, 3) normals, towards the rays, of planes that hold those of each tile, and
            of the whole image; zero where there is no such plane.
    """

    directions: NDArray[np.float64]
    tiles: NDArray[np.int64]
    sides: NDArray[np.float64]


class ImageHits(NamedTuple):
    """What the rays of an image have met.

    Attributes:
        distances: (rows, columns) m; inf for nothing in range.
        cosines: (rows, columns) of the incidence.
        ids: (rows, columns) ``NOTHING_ID``, ``GROUND_ID`` or a shape's.
    """

    distances: NDArray[np.float64]
    cosines: NDArray[np.float64]
    ids: NDArray[np.uint16]


def image_rays(directions_S: NDArray[np.float64], tile_rows: int = TILE) -> ImageRays:
    """Sort the rays of an image into tiles.

    Args:
        directions_S: (rows, columns, 3) unit vectors.
        tile_rows: rows of a tile; 1 where rows are cast at different times.
    """
    rows, columns = directions_S.shape[:2]
    tiles = [
        (row, min(row + tile_rows, rows), column, min(column + TILE, columns))
        for row in range(0, rows, tile_rows)
        for column in range(0, columns, TILE)
    ]
    sides = [_sides(directions_S[a:b, c:d]) for a, b, c, d in tiles]
    return ImageRays(
        np.ascontiguousarray(np.moveaxis(directions_S, 2, 0)),
        np.array(tiles),
        np.array([*sides, _sides(directions_S)]),
    )


def _sides(directions_S: NDArray[np.float64]) -> NDArray[np.float64]:
    """(4, 3) normals of four planes that hold rays between them; zero for too wide a bundle."""
    rays = directions_S.reshape(-1, 3)
    axis = rays.mean(axis=0)
    upright = np.array((0.0, 0.0, 1.0)) if abs(axis[2]) <= 0.7 else np.array((1.0, 0.0, 0.0))
    across = np.cross(upright, axis)
    up = np.cross(axis, across)
    ahead = (rays * axis).sum(axis=1)
    if ahead.min() <= 0.0:
        return np.zeros((4, 3))
    normals = []
    for aside in (across, up):
        slopes = (rays * aside).sum(axis=1) / ahead
        normals += [aside - slopes.min() * axis, slopes.max() * axis - aside]
    found = np.array(normals)
    return np.asarray(found / lengths(found)[:, None])


@kernel
def _is_beside(
    sides: NDArray[np.float64], tile: int, center: Vec3, half: NDArray[np.float64]
) -> bool:
    """Whether a box lies beyond one of a tile's planes.

    Args:
        sides: of the image.
        tile: a row of them.
        center: of the box, from the camera, in S.
        half: (3, 3) half edges of the box in S.
    """
    for side in range(4):
        n = (sides[tile, side, 0], sides[tile, side, 1], sides[tile, side, 2])
        reach = 1e-9 + abs(dot(n, three_of(half, 0, 0)))
        reach += abs(dot(n, three_of(half, 1, 0))) + abs(dot(n, three_of(half, 2, 0)))
        if dot(n, center) < -reach:
            return True
    return False


@owning_kernel
def _find_shapes(
    scene: Scene, origin_W: Vec3, range_m: float, rows: NDArray[np.int64], gaps: NDArray[np.float64]
) -> int:
    """Rows of the shapes whose boxes are in range, and how far those are; how many."""
    boxes = scene.shapes.boxes
    leaves = (boxes.shape[0] + 1) // 2
    width = scene.shapes.kinds.shape[0] // leaves
    nodes = np.empty(STACK_SIZE, np.int64)
    nodes[0], open_count, count = 0, 1, 0
    while open_count > 0:
        open_count -= 1
        node = nodes[open_count]
        gap = gap_to_box(boxes, node, origin_W)
        if gap > range_m:
            continue
        if node < leaves - 1:
            nodes[open_count], nodes[open_count + 1] = 2 * node + 1, 2 * node + 2
            open_count += 2
            continue
        first = (node - leaves + 1) * width
        for row in range(first, first + width):
            if row > first and scene.shapes.kinds[row, 2] == scene.shapes.kinds[row - 1, 2]:
                continue  # one that fills a leaf
            rows[count], gaps[count] = row, gap
            count += 1
    return count


@kernel
def _cast_ground(
    scene: Scene,
    ground_height_m: float,
    rays: ImageRays,
    origin_W: Vec3,
    R_WS: NDArray[np.float64],
    range_m: float,
    rows: tuple[int, int],
    hits: ImageHits,
) -> None:
    """Meet flat ground, terrain and planes."""
    x_W, y_W, z_W = three_of(R_WS, 0, 0), three_of(R_WS, 1, 0), three_of(R_WS, 2, 0)
    directions = rays.directions
    for row in range(rows[0], rows[1]):
        for column in range(directions.shape[2]):
            ray_S = (
                directions[0, row, column],
                directions[1, row, column],
                directions[2, row, column],
            )
            ray_W = (dot(x_W, ray_S), dot(y_W, ray_S), dot(z_W, ray_S))
            if scene.terrain.heights.shape[0] == 0:
                best, cosine = flat_hit(ground_height_m, origin_W, ray_W)
            else:
                best, cosine = ground_hit(scene.terrain, ground_height_m, origin_W, ray_W, range_m)
            if scene.planes.shape[0] > 0:
                distance, other = nearest_plane(scene.planes, origin_W, ray_W)
                if distance < best:
                    best, cosine = distance, other
            met = best <= range_m
            hits.distances[row, column] = best if met else np.inf
            hits.cosines[row, column] = cosine if met else 0.0
            hits.ids[row, column] = GROUND_ID if met else NOTHING_ID


@kernel
def _try_shape(
    scene: Scene,
    shape: int,
    rays: ImageRays,
    tile: int,
    origin: Vec3,
    axes: NDArray[np.float64],
    range_m: float,
    hits: ImageHits,
) -> float:
    """Try the rays of a tile with a shape, given the camera in its frame; the farthest hit."""
    x, y, z = three_of(axes, 0, 0), three_of(axes, 1, 0), three_of(axes, 2, 0)
    directions, farthest = rays.directions, 0.0
    for row in range(rays.tiles[tile, 0], rays.tiles[tile, 1]):
        for column in range(rays.tiles[tile, 2], rays.tiles[tile, 3]):
            best = min(hits.distances[row, column], range_m)
            ray_S = (
                directions[0, row, column],
                directions[1, row, column],
                directions[2, row, column],
            )
            ray = (dot(x, ray_S), dot(y, ray_S), dot(z, ray_S))
            distance, cosine = hit_in_frame(scene.shapes, scene.meshes, shape, origin, ray, best)
            if distance <= best and distance < hits.distances[row, column]:
                best = distance
                hits.distances[row, column], hits.cosines[row, column] = distance, cosine
                hits.ids[row, column] = scene.shapes.kinds[shape, 2]
            farthest = max(farthest, best)
    return farthest


@owning_kernel
def cast_image(
    scene: Scene,
    ground_height_m: float,
    rays: ImageRays,
    origin_W: Vec3,
    R_WS: NDArray[np.float64],
    range_m: float,
    rows: tuple[int, int],
    hits: ImageHits,
) -> None:
    """Cast some rows of an image; see :func:`quadsim.world.scene.scene.cast_ray`.

    Args:
        scene: what is there besides the flat ground.
        ground_height_m: height of the flat ground.
        rays: of the image.
        origin_W: where they begin.
        R_WS: (3, 3) attitude of the camera.
        range_m: how far to look.
        rows: the first, and behind the last; tiles begin and end with them.
        hits: is filled.
    """
    _cast_ground(scene, ground_height_m, rays, origin_W, R_WS, range_m, rows, hits)
    shapes, meshes = scene.shapes, scene.meshes
    if shapes.boxes.shape[0] == 0:
        return
    found, gaps = np.empty(shapes.kinds.shape[0], np.int64), np.empty(shapes.kinds.shape[0])
    count = _find_shapes(scene, origin_W, range_m, found, gaps)
    order = np.argsort(gaps[:count])
    whole = rays.sides.shape[0] - 1
    axes, halves = np.empty((count, 3, 3)), np.empty((count, 3, 3))
    origins, centers = np.empty((count, 3)), np.empty((count, 3))
    near, near_m = np.empty(count, np.int64), np.empty(count)
    used, last_id = 0, -1
    for k in range(count):
        shape = found[order[k]]
        if shapes.kinds[shape, 2] == last_id:
            continue  # one that fills a leaf
        last_id = shapes.kinds[shape, 2]
        middle, size = (0.0, 0.0, 0.0), three_of(shapes.sizes, shape, 0)
        if shapes.kinds[shape, 0] == MESH:
            box = meshes.rows[shapes.kinds[shape, 1], 0]
            low, high = three_of(meshes.boxes, box, 0), three_of(meshes.boxes, box, 3)
            middle, size = scale(0.5, add(low, high)), scale(0.5, subtract(high, low))
        apart = subtract(origin_W, three_of(shapes.poses, shape, 0))
        centers[used] = 0.0
        for i in range(3):
            axis = three_of(shapes.poses, shape, 3 + 3 * i)
            origins[used, i] = dot(axis, apart)
            for j in range(3):
                axes[used, i, j] = (
                    axis[0] * R_WS[0, j] + axis[1] * R_WS[1, j] + axis[2] * R_WS[2, j]
                )
                halves[used, i, j] = size[i] * axes[used, i, j]
                centers[used, j] += (middle[i] - origins[used, i]) * axes[used, i, j]
        if not _is_beside(rays.sides, whole, three_of(centers, used, 0), halves[used]):
            near[used], near_m[used] = shape, gaps[order[k]]
            used += 1
    for tile in range(rays.tiles.shape[0]):
        if rays.tiles[tile, 0] < rows[0] or rays.tiles[tile, 1] > rows[1]:
            continue
        farthest = range_m
        for k in range(used):
            if near_m[k] > farthest:
                break
            if not _is_beside(rays.sides, tile, three_of(centers, k, 0), halves[k]):
                farthest = _try_shape(
                    scene, near[k], rays, tile, three_of(origins, k, 0), axes[k], range_m, hits
                )
