"""What rays of the range finder and the lidar meet: flat ground, terrain and obstacles, as arrays.

A :class:`Scene` holds arrays of the same types whatever is in it, so every kernel that takes one is
compiled once. Positions and directions are in the world (``map``, ENU), lengths in m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.linear import applied
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Shape, Sphere
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays, flat_hit, ground_hit
from quadsim.world.scene.raycast_tree import (
    BOX,
    CYLINDER,
    MESH,
    NO_MESHES,
    NO_SHAPES,
    SPHERE,
    MeshArrays,
    ShapeArrays,
    nearest_plane,
    nearest_shape,
)
from quadsim.world.scene.terrain import Heightmap, terrain_arrays

#: Ids in images: nothing, the ground (flat, terrain, planes), the first obstacle that stands, the
#: first of the others of a scene, and the last.
NOTHING_ID, GROUND_ID, FIRST_ID, BESIDE_ID, LAST_ID = 0, 1, 2, 32768, 65535

#: No recorded wind.
NO_WIND: NDArray[np.float64] = np.zeros((0, 1, 5))

#: Boxes are this much larger than what they hold, of 1 m and of the largest coordinate: rounding
#: must not hide an item that touches its box.
MARGIN = 1e-9


def build_tree(
    lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sort items into a tree: halved at the median of the widest axis, level by level.

    Args:
        lower: (N, 3) lower corners of the items' boxes, N > 0.
        upper: (N, 3) upper corners.

    Returns:
        (L W,) rows of the items, W for each of the L = 2^k leaves; to fill the leaves some items
        come twice, side by side. (2 L - 1, 6) boxes of the nodes, the root first.
    """
    count = len(lower)
    depth = max(0, (count - 1).bit_length() - 1)
    leaves = 2**depth
    order = np.resize(np.arange(count), leaves * math.ceil(count / leaves))
    center = 0.5 * (lower + upper)
    for level in range(depth):
        groups = order.reshape(2**level, -1)
        points = center[groups]
        widest = np.argmax(np.ptp(points, axis=1), axis=1)
        along = np.take_along_axis(points, widest[:, None, None], axis=2)[..., 0]
        halves = np.argpartition(along, along.shape[1] // 2, axis=1)
        order = np.take_along_axis(groups, halves, axis=1)
    margin = MARGIN * (1.0 + max(np.abs(lower).max(), np.abs(upper).max()))
    lower = lower[order].reshape(leaves, -1, 3).min(axis=1) - margin
    upper = upper[order].reshape(leaves, -1, 3).max(axis=1) + margin
    levels = [np.hstack([lower, upper])]
    while len(lower) > 1:
        lower, upper = lower.reshape(-1, 2, 3).min(axis=1), upper.reshape(-1, 2, 3).max(axis=1)
        levels.insert(0, np.hstack([lower, upper]))
    return order.ravel(), np.vstack(levels)


class Scene(NamedTuple):
    """Terrain and obstacles for compiled ray casting.

    Attributes:
        planes: (P, 4) unit normal and offset n.x of each solid half-space.
        shapes: bounded shapes.
        meshes: the triangles of those shapes that are meshes.
        terrain: a heightmap.
        wind: recorded wind, see :func:`quadsim.world.build.read_wind`.
    """

    planes: NDArray[np.float64]
    shapes: ShapeArrays
    meshes: MeshArrays
    terrain: TerrainArrays
    wind: NDArray[np.float64] = NO_WIND

    @property
    def is_flat(self) -> bool:
        """Whether there is nothing but the flat ground."""
        solid = (self.planes, self.shapes.boxes, self.terrain.heights)
        return all(len(array) == 0 for array in solid)


#: Nothing but the flat ground.
EMPTY_SCENE = Scene(np.zeros((0, 4)), NO_SHAPES, NO_MESHES, NO_TERRAIN, NO_WIND)


def _size_of(shape: Shape) -> tuple[int, Vec3]:
    """Kind of a bounded shape and the half sizes of the box about its origin."""
    if isinstance(shape, Box):
        return BOX, (0.5 * shape.size_m[0], 0.5 * shape.size_m[1], 0.5 * shape.size_m[2])
    if isinstance(shape, Sphere):
        return SPHERE, (shape.radius_m, shape.radius_m, shape.radius_m)
    if isinstance(shape, Cylinder):
        return CYLINDER, (shape.radius_m, shape.radius_m, 0.5 * shape.length_m)
    return MESH, (0.0, 0.0, 0.0)


def _mesh_arrays(meshes: Sequence[Mesh]) -> MeshArrays:
    """Each mesh as a tree of its own, one after the other."""
    rows, boxes, triangles = [], [], []
    first_box = first_triangle = 0
    for mesh in meshes:
        corners = mesh.triangles_m
        order, tree = build_tree(corners.min(axis=1), corners.max(axis=1))
        leaves = (len(tree) + 1) // 2
        rows.append((first_box, leaves, first_triangle, len(order) // leaves, int(mesh.closed)))
        edges = corners[:, 1:] - corners[:, :1]
        boxes.append(tree)
        triangles.append(np.hstack([corners[:, 0], edges.reshape(-1, 6)])[order])
        first_box, first_triangle = first_box + len(tree), first_triangle + len(order)
    return MeshArrays(np.array(rows, np.int64), np.vstack(boxes), np.vstack(triangles))


def _shape_arrays(obstacles: Sequence[Obstacle], meshes: Sequence[Mesh]) -> ShapeArrays:
    """Bounded shapes in the order of their tree."""
    mesh_rows = {id(mesh): row for row, mesh in enumerate(meshes)}
    kinds, poses, sizes, lower, upper = [], [], [], [], []
    for place, obstacle in enumerate(obstacles):
        kind, size = _size_of(obstacle.shape)
        axes, position = obstacle.pose_W.axes(), np.array(obstacle.pose_W.p_A)
        corners = np.array([np.negative(size), size])
        if isinstance(obstacle.shape, Mesh):
            points = obstacle.shape.triangles_m.reshape(-1, 3)
            corners = np.array([points.min(axis=0), points.max(axis=0)])
        middle = position + applied(axes.T, corners.mean(axis=0))
        reach = 0.5 * applied(np.abs(axes).T, np.ptp(corners, axis=0))
        image_id = min(FIRST_ID + place, LAST_ID)
        kinds.append((kind, mesh_rows.get(id(obstacle.shape), -1), image_id))
        poses.append(np.concatenate([position, axes.ravel()]))
        sizes.append(size)
        lower.append(middle - reach)
        upper.append(middle + reach)
    order, boxes = build_tree(np.array(lower), np.array(upper))
    return ShapeArrays(
        np.array(kinds, np.int64)[order], np.array(poses)[order], np.array(sizes)[order], boxes
    )


def _plane_row(obstacle: Obstacle, shape: Plane) -> NDArray[np.float64]:
    """Unit normal in the world, and the height of the plane along it."""
    normal = applied(obstacle.pose_W.axes().T, np.array(shape.normal))
    return np.append(normal, applied(normal[None], np.array(obstacle.pose_W.p_A)))


def scene_of(obstacles: Sequence[Obstacle] = (), terrain: Heightmap | None = None) -> Scene:
    """Make the arrays for ray casting.

    Args:
        obstacles: shapes in the world; one mesh in several obstacles is stored once.
        terrain: replaces the flat ground inside its rectangle.
    """
    planes = [_plane_row(o, o.shape) for o in obstacles if isinstance(o.shape, Plane)]
    bounded = [obstacle for obstacle in obstacles if not isinstance(obstacle.shape, Plane)]
    shapes = {id(obstacle.shape): obstacle.shape for obstacle in bounded}.values()
    meshes = [shape for shape in shapes if isinstance(shape, Mesh)]
    return Scene(
        np.array(planes).reshape(-1, 4),
        _shape_arrays(bounded, meshes) if bounded else NO_SHAPES,
        _mesh_arrays(meshes) if meshes else NO_MESHES,
        NO_TERRAIN if terrain is None else terrain_arrays(terrain),
    )


@kernel
def cast_ray(
    scene: Scene, ground_height_m: float, origin_W: Vec3, direction_W: Vec3, range_max_m: float
) -> tuple[float, float]:
    """First thing that a ray meets.

    Args:
        scene: what is there besides the flat ground.
        ground_height_m: height of the flat ground.
        origin_W: start of the ray.
        direction_W: unit vector.
        range_max_m: how far to look.

    Returns:
        Distance in m, and the cosine of the angle between ray and surface normal, within [0, 1].
        Nothing within ``range_max_m``, or a ray that is not finite: (inf, 0). Origin under the
        ground or inside an obstacle: (0, 1).
    """
    if not math.isfinite(
        origin_W[0] + origin_W[1] + origin_W[2] + direction_W[0] + direction_W[1] + direction_W[2]
    ):
        return math.inf, 0.0
    if scene.terrain.heights.shape[0] == 0:
        best, best_cos = flat_hit(ground_height_m, origin_W, direction_W)
    else:
        best, best_cos = ground_hit(
            scene.terrain, ground_height_m, origin_W, direction_W, range_max_m
        )
    distance, cosine = nearest_plane(scene.planes, origin_W, direction_W)
    if distance < best:
        best, best_cos = distance, cosine
    if scene.shapes.boxes.shape[0] > 0:
        limit = min(best, range_max_m)
        distance, cosine = nearest_shape(scene.shapes, scene.meshes, origin_W, direction_W, limit)
        if distance < best:
            best, best_cos = distance, cosine
    if best <= range_max_m:
        return best, best_cos
    return math.inf, 0.0
