"""What rays of the range finder and the lidar meet: flat ground, terrain and obstacles, as arrays.

A :class:`Scene` holds arrays of the same types whatever is in it, so every kernel that takes one is
compiled once. Positions and directions are in the world (``map``, ENU), lengths in m.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel
from quadsim.parameters import Vec3


class Scene(NamedTuple):
    """Terrain and obstacles for compiled ray casting; all arrays C-contiguous.

    Attributes:
        planes: (P, 4) unit normal and offset n.x of each solid half-space.
        shape_kinds: (N, 2) kind of each bounded shape and its row in ``meshes``, in tree order.
        shape_poses: (N, 12) position, then the rows of the rotation matrix, shape to world.
        shape_sizes: (N, 3) half sizes of a box; radius; radius and half length of a cylinder.
        shape_boxes: (2 L - 1, 6) lower and upper corner of every node of the shapes' binary tree.
        meshes: (M, 5) first row in ``mesh_boxes``, leaves, first triangle, triangles in a leaf,
            whether it is closed.
        mesh_boxes: (K, 6) the trees of all meshes, each in its own frame.
        triangles: (T, 9) first corner and the two edges from it, in the mesh's frame.
        heights: (rows, columns) terrain's height; rows go north, columns east; (0, 0) for none.
        terrain_frame: (6,) x and y of ``heights[0, 0]``, cell size in x and y, lowest and highest.
        terrain_levels: (levels, 3) first item in ``terrain_maxima``, rows, columns.
        terrain_maxima: (S,) highest point of every block of 1, 2 x 2, 4 x 4, ... cells.
    """

    planes: NDArray[np.float64]
    shape_kinds: NDArray[np.int64]
    shape_poses: NDArray[np.float64]
    shape_sizes: NDArray[np.float64]
    shape_boxes: NDArray[np.float64]
    meshes: NDArray[np.int64]
    mesh_boxes: NDArray[np.float64]
    triangles: NDArray[np.float64]
    heights: NDArray[np.float64]
    terrain_frame: NDArray[np.float64]
    terrain_levels: NDArray[np.int64]
    terrain_maxima: NDArray[np.float64]


#: Nothing but the flat ground.
EMPTY_SCENE = Scene(
    planes=np.zeros((0, 4)),
    shape_kinds=np.zeros((0, 2), np.int64),
    shape_poses=np.zeros((0, 12)),
    shape_sizes=np.zeros((0, 3)),
    shape_boxes=np.zeros((0, 6)),
    meshes=np.zeros((0, 5), np.int64),
    mesh_boxes=np.zeros((0, 6)),
    triangles=np.zeros((0, 9)),
    heights=np.zeros((0, 0)),
    terrain_frame=np.zeros(6),
    terrain_levels=np.zeros((0, 3), np.int64),
    terrain_maxima=np.zeros(0),
)


@kernel
def cast_ray(
    scene: Scene, ground_height_m: float, origin_W: Vec3, direction_W: Vec3, range_max_m: float
) -> tuple[float, float]:
    """First thing that a ray meets.

    Args:
        scene: what is there beside the flat ground.
        ground_height_m: height of the flat ground.
        origin_W: start of the ray.
        direction_W: unit vector.
        range_max_m: how far to look.

    Returns:
        Distance in m, and the cosine of the angle between ray and surface normal, within [0, 1].
        Nothing within ``range_max_m``: (inf, 0). Origin under the ground or inside an
        obstacle: (0, 1).
    """
    height = origin_W[2] - ground_height_m
    if height < 0.0:
        return 0.0, 1.0
    if direction_W[2] < 0.0:
        distance = height / -direction_W[2]
        if distance <= range_max_m:
            return distance, -direction_W[2]
    return math.inf, 0.0


@kernel
def cast_rays(
    scene: Scene,
    ground_height_m: float,
    origins_W: NDArray[np.float64],
    directions_W: NDArray[np.float64],
    range_max_m: float,
    out_distance: NDArray[np.float64],
    out_cos: NDArray[np.float64],
) -> None:
    """Many rays at once; see :func:`cast_ray`.

    Args:
        scene: what is there beside the flat ground.
        ground_height_m: height of the flat ground.
        origins_W: (N, 3) starts of the rays.
        directions_W: (N, 3) unit vectors.
        range_max_m: how far to look.
        out_distance: (N,) is filled with the distances.
        out_cos: (N,) is filled with the cosines of incidence.
    """
    for i in range(origins_W.shape[0]):
        origin = (origins_W[i, 0], origins_W[i, 1], origins_W[i, 2])
        direction = (directions_W[i, 0], directions_W[i, 1], directions_W[i, 2])
        out_distance[i], out_cos[i] = cast_ray(
            scene, ground_height_m, origin, direction, range_max_m
        )
