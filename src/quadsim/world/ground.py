"""The ground that a world's own shapes make: sloped planes, floors, and meshes of any height."""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.compiled import plain
from quadsim.base.elementary import acos
from quadsim.geometry.rotation import rotate
from quadsim.geometry.vector import dot
from quadsim.world.scene.distance import surface_distance
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Sphere
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import Scene, cast_ray, scene_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.sdf.world_file import World

#: Vertical part of the normal of the steepest plane that is ground, 60 degrees.
LEAST_UP = 0.5
#: A sloped plane is ground on a square of so many cells about the origin, m.
SLOPE_CELLS, CELL_M = 512, 2.0
#: Something is let go so high above z = 0, or above the ground, to see what it stands on, m.
DROP_M = 0.5
#: Differences in height that do not count, m.
SAME_M = 1e-6
#: Beside a floor, what is so much lower is ground too, m.
LOWER_M = 0.01
#: The flat ground is so much beneath a floor, so that nothing stands on both, m.
BENEATH_M = 0.05
#: Longest way down, m.
FAR_M = 1e6


def slope_of(world: World) -> Obstacle | None:
    """The sloped plane that is the ground of a world without level ground or terrain."""
    if world.terrain is not None or world.ground_height_m is not None:
        return None
    planes = [
        obstacle
        for obstacle in world.obstacles
        if isinstance(obstacle.shape, Plane) and _plane(obstacle)[2] >= LEAST_UP
    ]
    return max(planes, key=lambda obstacle: _plane(obstacle)[3], default=None)


def _plane(obstacle: Obstacle) -> tuple[float, float, float, float]:
    """Upward unit normal of a plane in the world, and its height at the origin in m."""
    assert isinstance(obstacle.shape, Plane)
    normal = plain(rotate)(obstacle.pose_W.q_AB, obstacle.shape.normal)
    height_m = plain(dot)(normal, obstacle.pose_W.p_A) / normal[2] if normal[2] else -math.inf
    return (*normal, height_m)


def slope_heights(obstacle: Obstacle) -> Heightmap:
    """A sloped plane as terrain; its cells are parts of the same plane."""
    x_up, y_up, z_up, height_m = _plane(obstacle)
    at = (np.arange(SLOPE_CELLS + 1) - SLOPE_CELLS // 2) * CELL_M
    heights = height_m - (x_up / z_up) * at[None, :] - (y_up / z_up) * at[:, None]
    return Heightmap(heights, (SLOPE_CELLS * CELL_M, SLOPE_CELLS * CELL_M))


def ground_height_of(world: World, x: float, y: float) -> tuple[float, str] | None:
    """Height at which the flat ground does not hide the ground of a world, and what that is.

    That of the level ground; the lowest of a heightmap; of a slope that at the origin; just
    beneath the floor of a place; where something else is lower, as in a mesh with valleys, the
    lowest point, and at most -1 m.

    Args:
        world: what its file holds.
        x: of the place, m.
        y: of the place, m.

    Returns:
        m in ``map``, and words for the ground where it is not flat; None where there is none.
    """
    level_m = world.ground_height_m
    if world.terrain is not None:
        low_m, high_m = float(world.terrain.heights_m.min()), float(world.terrain.heights_m.max())
        words = f"terrain from {low_m:.6g} to {high_m:.6g} m"
        return low_m if level_m is None else max(low_m, level_m), words
    if level_m is not None:
        return level_m, ""
    slope = slope_of(world)
    if slope is not None:
        *_, up, height_m = _plane(slope)
        angle_deg = math.degrees(plain(acos)(min(up, 1.0)))
        return height_m, f"ground sloped by {angle_deg:.3g} deg, {height_m:.6g} m at the origin"
    shapes = [one for one in world.obstacles if not isinstance(one.shape, Plane)]
    if not shapes:
        return None
    lowest = min(map(_lowest_seen_m, shapes))
    bottom = min(lowest, -1.0) - 2.0 * SAME_M
    floor = standing_surface_m(scene_of(shapes), bottom, x, y)
    if floor <= bottom + SAME_M:
        return (bottom, f"no ground at the start above {bottom:.6g} m") if lowest < 0.0 else None
    if lowest < floor - LOWER_M:
        return bottom, f"ground of its shapes, {floor:.6g} m at the start"
    return floor - BENEATH_M, f"a floor at {floor:.6g} m"


def _lowest_seen_m(obstacle: Obstacle) -> float:
    """Height of the lowest point that may be seen from above: of level boxes and balls the top."""
    shape, z = obstacle.shape, obstacle.pose_W.p_A[2]
    up = np.abs(obstacle.pose_W.axes()[:, 2])
    level = up.max() > 1.0 - 1e-9
    if isinstance(shape, Mesh):
        points = shape.triangles_m.reshape(-1, 3) * obstacle.pose_W.axes()[:, 2]
        return z + float(points.sum(axis=1).min())
    if isinstance(shape, Box):
        half = 0.5 * float((up * np.array(shape.size_m)).sum())
        return z + half if level else z - half
    if isinstance(shape, Cylinder):
        half = 0.5 * up[2] * shape.length_m
        upright = up[2] > 1.0 - 1e-9
        across = shape.radius_m * math.sqrt(max(1.0 - float(up[2]) * float(up[2]), 0.0))
        return float(z + half if upright else z - half - across)
    assert isinstance(shape, Sphere)
    return z + shape.radius_m


def standing_surface_m(scene: Scene, ground_height_m: float, x: float, y: float) -> float:
    """Height of the ground, floor or roof on which a vehicle stands at a place.

    It is what something meets that is let go at z = 0.5 m, or so much above the ground where that
    is higher; from inside something solid, what is on top of it. Where it would fall to the flat
    ground below zero past a surface above, as beneath a mesh, it stands on the highest surface.

    Args:
        scene: terrain and obstacles.
        ground_height_m: of the flat ground.
        x: of the place, m.
        y: of the place, m.
    """
    ground_m = float(terrain_height(scene.terrain, ground_height_m, x, y))
    found_m = _below(scene, ground_height_m, x, y, max(ground_m, 0.0) + DROP_M)
    if found_m <= ground_m + SAME_M:
        if ground_height_m > -DROP_M or ground_m != ground_height_m or not len(scene.shapes.boxes):
            return ground_m
        top_m = float(scene.shapes.boxes[0, 5]) + DROP_M
        found_m = _below(scene, ground_height_m, x, y, max(top_m, ground_m + DROP_M))
    return max(found_m, ground_m)


def _below(scene: Scene, ground_height_m: float, x: float, y: float, z: float) -> float:
    """Height of the first surface beneath a point, after a way up out of what is solid."""
    for _ in range(1000):
        depth_m = -surface_distance(scene, ground_height_m, (x, y, z), 1.0)[0]
        if depth_m < 0.0:
            break
        z += depth_m + 1e-3
    return z - cast_ray(scene, ground_height_m, (x, y, z), (0.0, 0.0, -1.0), FAR_M)[0]
