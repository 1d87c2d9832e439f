"""How far a point is from the nearest surface of a scene, and which way is out.

The counterpart of ray casting for what touches: distances are signed, negative inside what is
solid, and the nearest point of the surface is the point less distance times normal. Trees are those
of :mod:`quadsim.world.scene.raycast_tree`; a box that is farther than what was found is not opened.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import add, cross, dot, norm, scale, subtract
from quadsim.world.scene.distance_ground import AT_THE_SURFACE_M, UP, ground_distance
from quadsim.world.scene.distance_shapes import (
    Surface,
    box_distance,
    cylinder_distance,
    nearest_on_triangle,
    sphere_distance,
)
from quadsim.world.scene.raycast_tree import (
    BOX,
    MESH,
    SPHERE,
    MeshArrays,
    ShapeArrays,
    mesh_hit,
    open_gaps,
    open_nodes,
    three_of,
)
from quadsim.world.scene.scene import Scene

#: Open meshes are sheets without an inside; what touches them meets them this thick on either
#: side, so that a point does not pass unseen between two steps.
SHEET_HALF_THICKNESS_M = 0.01

#: Whether a point is inside a closed mesh is asked by a ray that no edge of a model lies along.
PROBE: Vec3 = (0.48, 0.36, 0.8)


@kernel
def gap_to_box(boxes: NDArray[np.float64], row: int, p: Vec3) -> float:
    """Distance of a point to a box of a tree, 0 inside."""
    square = 0.0
    for axis in range(3):
        gap = max(boxes[row, axis] - p[axis], p[axis] - boxes[row, axis + 3], 0.0)
        square += gap * gap
    return math.sqrt(square)


@kernel
def push_nearer(
    boxes: NDArray[np.float64],
    first: int,
    node: int,
    p: Vec3,
    nodes: NDArray[np.int64],
    gaps: NDArray[np.float64],
    open_count: int,
) -> int:
    """Put both children of a node on the stack, the nearer one on top."""
    left, right = 2 * node + 1, 2 * node + 2
    left_gap = gap_to_box(boxes, first + left, p)
    right_gap = gap_to_box(boxes, first + right, p)
    if left_gap < right_gap:
        left, right = right, left
        left_gap, right_gap = right_gap, left_gap
    nodes[open_count], gaps[open_count] = left, left_gap
    nodes[open_count + 1], gaps[open_count + 1] = right, right_gap
    return open_count + 2


@kernel
def nearest_triangle(
    meshes: MeshArrays, mesh: int, p: Vec3, reach_m: float
) -> tuple[float, Vec3, int]:
    """Distance to the nearest triangle of a mesh, the point there, and its row; inf for none."""
    first_box, leaves = meshes.rows[mesh, 0], meshes.rows[mesh, 1]
    first_triangle, width = meshes.rows[mesh, 2], meshes.rows[mesh, 3]
    nodes, gaps = open_nodes(), open_gaps()
    nodes[0], gaps[0] = 0, gap_to_box(meshes.boxes, first_box, p)
    best, best_point, best_row = math.inf, p, -1
    open_count = 1
    while open_count > 0:
        open_count -= 1
        if gaps[open_count] > min(best, reach_m):
            continue
        node = nodes[open_count]
        if node < leaves - 1:
            open_count = push_nearer(meshes.boxes, first_box, node, p, nodes, gaps, open_count)
            continue
        start = first_triangle + (node - leaves + 1) * width
        for row in range(start, start + width):
            point = nearest_on_triangle(
                p,
                three_of(meshes.triangles, row, 0),
                three_of(meshes.triangles, row, 3),
                three_of(meshes.triangles, row, 6),
            )
            distance = norm(subtract(p, point))
            if distance < best:
                best, best_point, best_row = distance, point, row
    return best, best_point, best_row


@kernel
def mesh_distance(meshes: MeshArrays, mesh: int, p: Vec3, reach_m: float) -> Surface:
    """Signed distance to a mesh in its frame; (inf, up) outside of its reach.

    A closed mesh is solid. An open one is a sheet of twice SHEET_HALF_THICKNESS_M.
    """
    closed = meshes.rows[mesh, 4] == 1
    inside = False
    if closed and gap_to_box(meshes.boxes, meshes.rows[mesh, 0], p) == 0.0:
        inside = mesh_hit(meshes, mesh, p, PROBE, math.inf)[0] == 0.0
    skin = 0.0 if closed else SHEET_HALF_THICKNESS_M
    distance, point, row = nearest_triangle(meshes, mesh, p, math.inf if inside else reach_m + skin)
    if row < 0:
        return math.inf, UP
    sign = -1.0 if inside else 1.0
    if distance >= AT_THE_SURFACE_M:
        return sign * distance - skin, scale(sign / distance, subtract(p, point))
    face = cross(three_of(meshes.triangles, row, 3), three_of(meshes.triangles, row, 6))
    return sign * distance - skin, scale(1.0 / norm(face), face)


@kernel
def shape_distance(
    shapes: ShapeArrays, meshes: MeshArrays, row: int, p_W: Vec3, reach_m: float
) -> Surface:
    """Signed distance to one bounded shape, and the outward normal in the world."""
    poses, size = shapes.poses, three_of(shapes.sizes, row, 0)
    apart = subtract(p_W, three_of(poses, row, 0))
    x, y, z = three_of(poses, row, 3), three_of(poses, row, 6), three_of(poses, row, 9)
    p = (dot(x, apart), dot(y, apart), dot(z, apart))
    kind = shapes.kinds[row, 0]
    if kind == MESH:
        distance, normal = mesh_distance(meshes, shapes.kinds[row, 1], p, reach_m)
    elif kind == BOX:
        distance, normal = box_distance(p, size)
    elif kind == SPHERE:
        distance, normal = sphere_distance(p, size[0])
    else:
        distance, normal = cylinder_distance(p, size[0], size[2])
    return distance, add(scale(normal[0], x), add(scale(normal[1], y), scale(normal[2], z)))


@kernel
def obstacle_distance(scene: Scene, p_W: Vec3, reach_m: float) -> Surface:
    """Signed distance to the nearest plane or shape within a reach; (inf, up) for none.

    Inside several, the one that is deepest counts.
    """
    best, best_normal = math.inf, UP
    for row in range(scene.planes.shape[0]):
        normal = three_of(scene.planes, row, 0)
        height = dot(normal, p_W) - scene.planes[row, 3]
        if height < best:
            best, best_normal = height, normal
    shapes = scene.shapes
    if shapes.boxes.shape[0] > 0:
        leaves = (shapes.boxes.shape[0] + 1) // 2
        width = shapes.kinds.shape[0] // leaves
        nodes, gaps = open_nodes(), open_gaps()
        nodes[0], gaps[0] = 0, gap_to_box(shapes.boxes, 0, p_W)
        open_count = 1
        while open_count > 0:
            open_count -= 1
            limit = min(reach_m, max(best, 0.0))
            # a sheet is felt a little outside of its box
            if gaps[open_count] > limit + SHEET_HALF_THICKNESS_M:
                continue
            node = nodes[open_count]
            if node < leaves - 1:
                open_count = push_nearer(shapes.boxes, 0, node, p_W, nodes, gaps, open_count)
                continue
            start = (node - leaves + 1) * width
            for row in range(start, start + width):
                distance, normal = shape_distance(shapes, scene.meshes, row, p_W, limit)
                if distance < best:
                    best, best_normal = distance, normal
    return (best, best_normal) if best <= reach_m else (math.inf, UP)


@kernel
def obstacles_beyond(scene: Scene, p_W: Vec3, horizon_m: float) -> float:
    """A distance within which there is no obstacle, at most ``horizon_m``: from boxes, so cheap.

    Args:
        scene: planes and shapes; ground does not count.
        p_W: a point.
        horizon_m: the largest answer that is of use; a box farther than that is not opened.
    """
    best = horizon_m
    for row in range(scene.planes.shape[0]):
        best = min(best, max(dot(three_of(scene.planes, row, 0), p_W) - scene.planes[row, 3], 0.0))
    boxes = scene.shapes.boxes
    if boxes.shape[0] == 0:
        return best
    leaves = (boxes.shape[0] + 1) // 2
    nodes, gaps = open_nodes(), open_gaps()
    nodes[0], gaps[0] = 0, gap_to_box(boxes, 0, p_W)
    open_count = 1
    while open_count > 0:
        open_count -= 1
        gap = max(gaps[open_count] - SHEET_HALF_THICKNESS_M, 0.0)
        if gap >= best:
            continue
        if nodes[open_count] >= leaves - 1:
            best = gap
        else:
            open_count = push_nearer(boxes, 0, nodes[open_count], p_W, nodes, gaps, open_count)
    return best


@kernel
def surface_distance(scene: Scene, ground_height_m: float, p_W: Vec3, reach_m: float) -> Surface:
    """Signed distance of a point to the nearest surface of all, and the outward normal.

    Args:
        scene: terrain and obstacles.
        ground_height_m: height of the flat ground.
        p_W: the point; a small sphere about it is its radius nearer.
        reach_m: how far to look. Beyond it obstacles do not count and the distance to the ground
            is the height above it.
    """
    distance, normal = ground_distance(scene.terrain, ground_height_m, p_W, reach_m)
    other, other_normal = obstacle_distance(scene, p_W, reach_m)
    return (other, other_normal) if other < distance else (distance, normal)
