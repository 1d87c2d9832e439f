"""Terrain, flat ground and obstacles of a world as triangles, whoever draws them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.sim.log import Array
from quadsim.view.shapes import Triangles, solid
from quadsim.world.scene.raycast_terrain import TerrainArrays
from quadsim.world.scene.raycast_tree import BOX, CYLINDER, MESH, SPHERE
from quadsim.world.scene.scene import Scene

#: Points of a terrain along its longer side; finer ones are thinned.
MAX_POINTS = 513
#: Flat ground reaches this far beyond what flies, m.
MARGIN_M = 40.0
#: Tiles of flat ground along a side, at most.
MAX_TILES = 160
_SAND, _GRASS, _ROCK = np.array([[206, 196, 158], [150, 172, 112], [150, 146, 140]], float)
_TILES = np.array([[188, 198, 178], [178, 189, 168]], np.uint8)
OBSTACLE, _PLANE = (164, 138, 112), (170, 170, 176)


@dataclass(frozen=True)
class GroundPatch:
    """What part of the world is flown in: its middle and half its width, m."""

    x_m: float = 0.0
    y_m: float = 0.0
    half_m: float = MARGIN_M

    @staticmethod
    def around(points_W: Array) -> GroundPatch:
        """The square about some points, (N, 3)."""
        points_W = points_W[np.isfinite(points_W).all(axis=1)]
        if not len(points_W):
            return GroundPatch()
        low, high = points_W[:, :2].min(axis=0), points_W[:, :2].max(axis=0)
        x_m, y_m = (0.5 * (low + high)).tolist()
        return GroundPatch(x_m, y_m, float(0.5 * (high - low).max()) + MARGIN_M)


def terrain_shape(terrain: TerrainArrays, most_points: int = MAX_POINTS) -> Triangles:
    """A heightmap: sand below, grass, rock where it is steep."""
    step = -(-max(terrain.heights.shape) // most_points)
    heights = terrain.heights[::step, ::step]
    west_m, south_m, step_x, step_y = terrain.frame[:4]
    rows, columns = heights.shape
    x = west_m + step * step_x * np.arange(columns)
    y = south_m + step * step_y * np.arange(rows)
    grid = np.stack([*np.meshgrid(x, y), heights], axis=-1)
    corner = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = corner[:-1, :-1], corner[:-1, 1:], corner[1:, :-1], corner[1:, 1:]
    faces = np.concatenate([np.stack([a, b, d], -1), np.stack([a, d, c], -1)]).reshape(-1, 3)
    slope = np.hypot(*np.gradient(heights, step * step_y, step * step_x)).ravel()
    span = max(float(np.ptp(heights)), 1e-6)
    share = ((heights.ravel() - heights.min()) / span)[:, None]
    colour = _SAND + (_GRASS - _SAND) * np.clip(2.5 * share, 0.0, 1.0)
    colour += (_ROCK - colour) * np.clip((slope[:, None] - 0.35) / 0.4, 0.0, 1.0)
    return Triangles(grid.reshape(-1, 3), faces, colour.astype(np.uint8))


def flat_shape(place: GroundPatch, height_m: float) -> Triangles:
    """Flat ground: tiles of 1 m, or of 10, 100, ... where it is wide."""
    tile_m = 1.0
    while 2.0 * place.half_m / tile_m > MAX_TILES:
        tile_m *= 10.0
    count = int(np.ceil(place.half_m / tile_m))
    x0, y0 = np.round(np.array([place.x_m, place.y_m]) / tile_m)
    i, j = (
        axis.ravel() for axis in np.meshgrid(np.arange(-count, count), np.arange(-count, count))
    )
    corners = np.stack([np.stack([x0 + i + di, y0 + j + dj], -1) for di, dj in _CORNERS], axis=1)
    points = np.dstack([tile_m * corners, np.full(corners.shape[:2], height_m)]).reshape(-1, 3)
    first = 4 * np.arange(len(i))[:, None]
    faces = np.concatenate([first + np.array(corner) for corner in ((0, 1, 2), (0, 2, 3))])
    odd = ((x0 + i + y0 + j) % 2).astype(int)
    return Triangles(points, faces, np.repeat(_TILES[odd], 4, axis=0))


_CORNERS = ((0, 0), (1, 0), (1, 1), (0, 1))


def plane_shape(plane: Array, place: GroundPatch) -> Triangles:
    """A square of a plane n.x = d near the place."""
    normal, offset = plane[:3], float(plane[3])
    here = np.array([place.x_m, place.y_m, 0.0])
    middle = here + normal * (offset - normal @ here)
    across = np.cross(normal, [0.0, 0.0, 1.0] if abs(normal[2]) < 0.9 else [1.0, 0.0, 0.0])
    across /= np.linalg.norm(across)
    along = np.cross(normal, across)
    signs = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * place.half_m
    points = middle + signs[:, :1] * across + signs[:, 1:] * along
    faces = np.array([(0, 1, 2), (0, 2, 3)])
    return Triangles(points, faces, np.full((4, 3), _PLANE, np.uint8))


def solids_by_kind(scene: Scene) -> dict[int, NDArray[np.intp]]:
    """Kind of bounded shape to its rows, each shape once (leaves of the tree may repeat some)."""
    shapes = scene.shapes
    if not len(shapes.kinds):
        return {}
    rows = np.hstack([shapes.kinds, shapes.poses, shapes.sizes])
    _, once = np.unique(rows, axis=0, return_index=True)
    kinds = shapes.kinds[once, 0]
    return {int(kind): once[kinds == kind] for kind in np.unique(kinds)}


def obstacle_mesh(scene: Scene, row: int) -> Triangles:
    """One obstacle that is a mesh, in the world."""
    _, leaves, start, width, _ = scene.meshes.rows[scene.shapes.kinds[row, 1]]
    triangles = scene.meshes.triangles[start : start + leaves * width]
    corner = triangles[:, :3]
    points = np.stack([corner, corner + triangles[:, 3:6], corner + triangles[:, 6:]], axis=1)
    pose = scene.shapes.poses[row]
    points = points.reshape(-1, 3) @ pose[3:].reshape(3, 3) + pose[:3]
    faces = np.arange(len(points)).reshape(-1, 3)
    return Triangles(points, faces, np.full((len(points), 3), OBSTACLE, np.uint8))


def world_shapes(
    scene: Scene, ground_height_m: float, place: GroundPatch, most_points: int = MAX_POINTS
) -> Iterator[Triangles]:
    """Everything that stands in a world.

    Args:
        place: where flat ground and planes are drawn.
        most_points: of a terrain along its longer side.
    """
    if len(scene.terrain.heights):
        yield terrain_shape(scene.terrain, most_points)
    else:
        yield flat_shape(place, ground_height_m)
    for plane in scene.planes:
        yield plane_shape(plane, place)
    for kind, rows in solids_by_kind(scene).items():
        for row in rows.tolist():
            yield obstacle_mesh(scene, row) if kind == MESH else _round_or_square(scene, kind, row)


def _round_or_square(scene: Scene, kind: int, row: int) -> Triangles:
    """A box, a sphere or a cylinder in the world."""
    from trimesh.creation import box, cylinder, icosphere

    size, pose = scene.shapes.sizes[row], scene.shapes.poses[row]
    mesh: Any
    if kind == BOX:
        mesh = box(extents=2.0 * size)
    elif kind == SPHERE:
        mesh = icosphere(subdivisions=2, radius=size[0])
    else:
        assert kind == CYLINDER
        mesh = cylinder(radius=size[0], height=2.0 * size[2], sections=24)
    to_world = np.eye(4)
    to_world[:3, :3], to_world[:3, 3] = pose[3:].reshape(3, 3).T, pose[:3]
    return solid(mesh.apply_transform(to_world), OBSTACLE)
