"""Terrain, flat ground and obstacles as Rerun draws them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import rerun as rr
from scipy.spatial.transform import Rotation

from quadsim.view.shapes import Triangles
from quadsim.view.world_shapes import (
    OBSTACLE,
    GroundPatch,
    flat_shape,
    obstacle_mesh,
    plane_shape,
    solids_by_kind,
    terrain_shape,
)
from quadsim.world.scene.raycast_tree import BOX, CYLINDER, MESH, SPHERE
from quadsim.world.scene.scene import Scene

GROUND = "/world/ground"
OBSTACLES = "/world/obstacles"


def as_mesh(shape: Triangles, alpha: int = 255) -> rr.Mesh3D:
    """Triangles as Rerun takes them."""
    return rr.Mesh3D(
        vertex_positions=shape.points_m.astype(np.float32),
        triangle_indices=shape.faces.astype(np.uint32),
        vertex_normals=shape.normals.astype(np.float32),
        vertex_colors=shape.colours,
        albedo_factor=None if alpha == 255 else (255, 255, 255, alpha),
    )


def draw_scene(
    recording: rr.RecordingStream, scene: Scene, ground_height_m: float, place: GroundPatch
) -> None:
    """Log terrain or flat ground, and every obstacle, once for all times.

    Args:
        place: where flat ground and planes are drawn.
    """

    def log(path: str, what: rr.AsComponents) -> None:
        recording.log(path, what, static=True)

    log("/world", rr.ViewCoordinates.RIGHT_HAND_Z_UP)
    if len(scene.terrain.heights):
        log(GROUND, as_mesh(terrain_shape(scene.terrain)))
    else:
        log(GROUND, as_mesh(flat_shape(place, ground_height_m)))
    for i, plane in enumerate(scene.planes):
        log(f"{OBSTACLES}/plane_{i}", as_mesh(plane_shape(plane, place)))
    draw_solids(scene, OBSTACLES, log)


def draw_solids(scene: Scene, root: str, log: Callable[[str, rr.AsComponents], None]) -> None:
    """Log the bounded shapes of a scene below a path."""
    shapes = scene.shapes
    for kind, rows in solids_by_kind(scene).items():
        axes = shapes.poses[rows, 3:].reshape(-1, 3, 3)  # rows: the axes of the shape
        centers, sizes = shapes.poses[rows, :3], shapes.sizes[rows]
        rotated = Rotation.from_matrix(np.swapaxes(axes, 1, 2)).as_quat()
        place_of = {"centers": centers, "quaternions": rotated, "colors": OBSTACLE}
        if kind == BOX:
            log(f"{root}/boxes", rr.Boxes3D(half_sizes=sizes, fill_mode="solid", **place_of))
        elif kind == SPHERE:
            log(
                f"{root}/spheres",
                rr.Ellipsoids3D(half_sizes=sizes, fill_mode="solid", **place_of),
            )
        elif kind == CYLINDER:
            log(
                f"{root}/cylinders",
                rr.Cylinders3D(
                    lengths=2.0 * sizes[:, 2], radii=sizes[:, 0], fill_mode="solid", **place_of
                ),
            )
        elif kind == MESH:
            for i, row in enumerate(rows):
                log(f"{root}/mesh_{i}", as_mesh(obstacle_mesh(scene, int(row))))
