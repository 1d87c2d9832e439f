"""The nearest obstacle on a ray: a binary tree of boxes over all shapes, and one over each mesh.

The trees are perfect: the children of node k are 2 k + 1 and 2 k + 2, every leaf holds the same
number of rows (:func:`quadsim.world.scene.scene.build_tree` builds them). Children are visited
nearest first.

Shapes are met in their own frame. A convex solid cuts an interval out of the line of a ray: the
line is inside from ``near`` to ``far``, distances from the ray's origin in m, and misses it when
``near > far``. The origin is inside where ``near < 0 < far``. With the interval comes the cosine of
incidence at ``near``: the angle between the line and the surface's normal there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.base.scratch import scratch
from quadsim.geometry.vector import cross, dot, norm, subtract

BOX, SPHERE, CYLINDER, MESH = range(4)

#: A tree of 2^30 leaves has fewer open nodes than this.
STACK_SIZE = 32
#: Memory of one: nodes, and how far each is.
open_nodes, open_gaps = scratch(STACK_SIZE, dtype=np.int64), scratch(STACK_SIZE)

#: Front and back of a closed mesh that a ray meets this close together are one edge, grazed.
GRAZED_M = 1e-9

#: Stands for 1 / 0: large, and still finite when multiplied by a distance.
STEEP = 1e200

#: By how much of its size a triangle is widened, so that no ray slips through where two meet.
EDGE_OVERLAP = 1e-12

Interval = tuple[float, float, float]
MISS: Interval = (math.inf, -math.inf, 0.0)


@kernel
def box_interval(origin: Vec3, direction: Vec3, half_size: Vec3) -> Interval:
    """Interval inside a box about its centre: three slabs (Kay and Kajiya, 1986)."""
    near, far, cosine = -math.inf, math.inf, 0.0
    for axis in range(3):
        if direction[axis] == 0.0:
            if abs(origin[axis]) > half_size[axis]:
                return MISS
            continue
        low = (-half_size[axis] - origin[axis]) / direction[axis]
        high = (half_size[axis] - origin[axis]) / direction[axis]
        if min(low, high) > near:
            near, cosine = min(low, high), abs(direction[axis])
        far = min(far, max(low, high))
    return near, far, cosine


@kernel
def sphere_interval(origin: Vec3, direction: Vec3, radius: float) -> Interval:
    """Interval inside a sphere about its centre.

    The distance of the line from the centre is taken from the point of the line that is nearest to
    it, which does not cancel for small spheres far (Haines et al., Ray Tracing Gems, 2019, 7).
    """
    middle = -dot(origin, direction)
    x = origin[0] + middle * direction[0]
    y = origin[1] + middle * direction[1]
    z = origin[2] + middle * direction[2]
    square = radius * radius - (x * x + y * y + z * z)
    if square < 0.0:
        return MISS
    half = math.sqrt(square)
    return middle - half, middle + half, min(1.0, half / radius)


@kernel
def cylinder_interval(origin: Vec3, direction: Vec3, radius: float, half_length: float) -> Interval:
    """Interval inside a closed cylinder about its centre, its axis along z."""
    near, far, cosine = -math.inf, math.inf, 0.0
    across = direction[0] * direction[0] + direction[1] * direction[1]
    if across > 0.0:
        middle = -(origin[0] * direction[0] + origin[1] * direction[1]) / across
        x, y = origin[0] + middle * direction[0], origin[1] + middle * direction[1]
        square = radius * radius - (x * x + y * y)
        if square < 0.0:
            return MISS
        half = math.sqrt(square / across)
        near, far, cosine = middle - half, middle + half, min(1.0, across * half / radius)
    elif origin[0] * origin[0] + origin[1] * origin[1] > radius * radius:
        return MISS
    if direction[2] == 0.0:
        return (near, far, cosine) if abs(origin[2]) <= half_length else MISS
    low = (-half_length - origin[2]) / direction[2]
    high = (half_length - origin[2]) / direction[2]
    if min(low, high) > near:
        near, cosine = min(low, high), abs(direction[2])
    return near, min(far, max(low, high)), cosine


@kernel
def triangle_hit(
    origin: Vec3, direction: Vec3, corner: Vec3, edge_1: Vec3, edge_2: Vec3
) -> tuple[float, float]:
    """Distance to a triangle seen from either side (Möller and Trumbore, 1997).

    Returns:
        Distance in m, inf for none; and the cosine between the ray and the normal edge_1 x edge_2
        rotated against it: negative when the ray comes from behind, where the normal points along.
    """
    p = cross(direction, edge_2)
    determinant = dot(edge_1, p)
    if determinant == 0.0:
        return math.inf, 0.0
    apart = subtract(origin, corner)
    u = dot(apart, p) / determinant
    q = cross(apart, edge_1)
    v = dot(direction, q) / determinant
    distance = dot(edge_2, q) / determinant
    inside = u >= -EDGE_OVERLAP and v >= -EDGE_OVERLAP and u + v <= 1.0 + EDGE_OVERLAP
    if not (inside and distance >= 0.0):
        return math.inf, 0.0
    cosine = determinant / norm(cross(edge_1, edge_2))
    return distance, min(1.0, max(-1.0, cosine))


class MeshArrays(NamedTuple):
    """All meshes for kernels, each in its own frame; all arrays C-contiguous.

    Attributes:
        rows: (M, 5) first row in ``boxes``, leaves, first row in ``triangles``, triangles in a
            leaf, whether the mesh is closed.
        boxes: (K, 6) lower and upper corner of every node of the trees.
        triangles: (T, 9) first corner and the two edges from it, in the order of the leaves.
    """

    rows: NDArray[np.int64]
    boxes: NDArray[np.float64]
    triangles: NDArray[np.float64]


class ShapeArrays(NamedTuple):
    """All bounded shapes for kernels, in the order of the leaves; all arrays C-contiguous.

    Attributes:
        kinds: (N, 3) BOX, SPHERE, CYLINDER or MESH, the mesh's row, and the id in images.
        poses: (N, 12) position, then the shape's x, y and z axis, in the world.
        sizes: (N, 3) half sizes of a box; radius; radius, radius and half length of a cylinder.
        boxes: (2 L - 1, 6) lower and upper corner of every node of the tree; (0, 6) for none.
    """

    kinds: NDArray[np.int64]
    poses: NDArray[np.float64]
    sizes: NDArray[np.float64]
    boxes: NDArray[np.float64]


NO_MESHES = MeshArrays(np.zeros((0, 5), np.int64), np.zeros((0, 6)), np.zeros((0, 9)))
NO_SHAPES = ShapeArrays(
    np.zeros((0, 3), np.int64), np.zeros((0, 12)), np.zeros((0, 3)), np.zeros((0, 6))
)


@kernel
def three_of(table: NDArray[np.float64], row: int, column: int) -> Vec3:
    """Three numbers of a row: one by one, as a slice would be counted by Numba's memory."""
    return (table[row, column], table[row, column + 1], table[row, column + 2])


@kernel
def reciprocals(direction: Vec3) -> Vec3:
    """1 / direction, finite where the ray is parallel to a face."""
    x, y, z = direction
    return (
        1.0 / x if abs(x) > 1.0 / STEEP else STEEP,
        1.0 / y if abs(y) > 1.0 / STEEP else STEEP,
        1.0 / z if abs(z) > 1.0 / STEEP else STEEP,
    )


@kernel
def entry(boxes: NDArray[np.float64], row: int, origin: Vec3, inverse: Vec3) -> float:
    """Distance at which a ray enters a box of a tree: 0 from inside, inf for never."""
    near, far = 0.0, math.inf
    for axis in range(3):
        low = (boxes[row, axis] - origin[axis]) * inverse[axis]
        high = (boxes[row, axis + 3] - origin[axis]) * inverse[axis]
        near = max(near, min(low, high))
        far = min(far, max(low, high))
    return near if near <= far else math.inf


@kernel
def push_children(
    boxes: NDArray[np.float64],
    first: int,
    node: int,
    origin: Vec3,
    inverse: Vec3,
    nodes: NDArray[np.int64],
    entries: NDArray[np.float64],
    open_count: int,
) -> int:
    """Put the children that the ray enters on the stack, the nearer one on top."""
    left, right = 2 * node + 1, 2 * node + 2
    left_entry = entry(boxes, first + left, origin, inverse)
    right_entry = entry(boxes, first + right, origin, inverse)
    if left_entry < right_entry:
        left, right = right, left
        left_entry, right_entry = right_entry, left_entry
    if left_entry < math.inf:
        nodes[open_count], entries[open_count] = left, left_entry
        open_count += 1
    if right_entry < math.inf:
        nodes[open_count], entries[open_count] = right, right_entry
        open_count += 1
    return open_count


@kernel
def mesh_hit(
    meshes: MeshArrays, mesh: int, origin: Vec3, direction: Vec3, range_max_m: float
) -> tuple[float, float]:
    """Nearest triangle of a mesh, in its frame; (0, 1) from inside a closed one."""
    first_box, leaves = meshes.rows[mesh, 0], meshes.rows[mesh, 1]
    first_triangle, width = meshes.rows[mesh, 2], meshes.rows[mesh, 3]
    inverse = reciprocals(direction)
    nodes, entries = open_nodes(), open_gaps()
    nodes[0], entries[0] = 0, entry(meshes.boxes, first_box, origin, inverse)
    # From inside, the nearest triangle is seen from behind, however far it is.
    maybe_inside = meshes.rows[mesh, 4] == 1 and entries[0] == 0.0
    limit = math.inf if maybe_inside else range_max_m
    front, front_cos, back, back_cos = math.inf, 0.0, math.inf, 0.0
    open_count = 1
    while open_count > 0:
        open_count -= 1
        if entries[open_count] > min(limit, front, back + GRAZED_M):
            continue
        node = nodes[open_count]
        if node < leaves - 1:
            open_count = push_children(
                meshes.boxes, first_box, node, origin, inverse, nodes, entries, open_count
            )
            continue
        start = first_triangle + (node - leaves + 1) * width
        for row in range(start, start + width):
            distance, cosine = triangle_hit(
                origin,
                direction,
                three_of(meshes.triangles, row, 0),
                three_of(meshes.triangles, row, 3),
                three_of(meshes.triangles, row, 6),
            )
            if cosine >= 0.0 and distance < front:
                front, front_cos = distance, cosine
            elif cosine < 0.0 and distance < back:
                back, back_cos = distance, -cosine
    if maybe_inside and back < front - GRAZED_M:
        return 0.0, 1.0
    return (front, front_cos) if front <= back else (back, back_cos)


@kernel
def shape_hit(
    shapes: ShapeArrays,
    meshes: MeshArrays,
    row: int,
    origin_W: Vec3,
    direction_W: Vec3,
    range_max_m: float,
) -> tuple[float, float]:
    """Distance and cosine of incidence on one shape; (inf, 0) for none, (0, 1) from inside."""
    poses = shapes.poses
    apart = subtract(origin_W, three_of(poses, row, 0))
    x, y, z = three_of(poses, row, 3), three_of(poses, row, 6), three_of(poses, row, 9)
    origin = (dot(x, apart), dot(y, apart), dot(z, apart))
    direction = (dot(x, direction_W), dot(y, direction_W), dot(z, direction_W))
    return hit_in_frame(shapes, meshes, row, origin, direction, range_max_m)


@kernel
def hit_in_frame(
    shapes: ShapeArrays,
    meshes: MeshArrays,
    row: int,
    origin: Vec3,
    direction: Vec3,
    range_max_m: float,
) -> tuple[float, float]:
    """The same for a ray in the frame of the shape."""
    kind, size = shapes.kinds[row, 0], three_of(shapes.sizes, row, 0)
    if kind == MESH:
        return mesh_hit(meshes, shapes.kinds[row, 1], origin, direction, range_max_m)
    if kind == BOX:
        near, far, cosine = box_interval(origin, direction, size)
    elif kind == SPHERE:
        near, far, cosine = sphere_interval(origin, direction, size[0])
    else:
        near, far, cosine = cylinder_interval(origin, direction, size[0], size[2])
    if near <= far and near >= 0.0:
        return near, cosine
    if near < 0.0 < far:
        return 0.0, 1.0
    return math.inf, 0.0


@kernel
def nearest_shape(
    shapes: ShapeArrays,
    meshes: MeshArrays,
    origin_W: Vec3,
    direction_W: Vec3,
    range_max_m: float,
) -> tuple[float, float]:
    """Nearest of all bounded shapes within a range: distance and cosine of incidence."""
    best, best_cos = math.inf, 0.0
    leaves = (shapes.boxes.shape[0] + 1) // 2
    width = shapes.kinds.shape[0] // leaves
    inverse = reciprocals(direction_W)
    nodes, entries = open_nodes(), open_gaps()
    nodes[0], entries[0] = 0, entry(shapes.boxes, 0, origin_W, inverse)
    open_count = 1
    while open_count > 0:
        open_count -= 1
        if entries[open_count] > min(range_max_m, best):
            continue
        node = nodes[open_count]
        if node < leaves - 1:
            open_count = push_children(
                shapes.boxes, 0, node, origin_W, inverse, nodes, entries, open_count
            )
            continue
        start = (node - leaves + 1) * width
        for row in range(start, start + width):
            distance, cosine = shape_hit(
                shapes, meshes, row, origin_W, direction_W, min(range_max_m, best)
            )
            if distance < best:
                best, best_cos = distance, cosine
    return best, best_cos


@kernel
def nearest_plane(
    planes: NDArray[np.float64], origin_W: Vec3, direction_W: Vec3
) -> tuple[float, float]:
    """Nearest of the solid half-spaces: distance and cosine of incidence."""
    best, best_cos = math.inf, 0.0
    for row in range(planes.shape[0]):
        normal = three_of(planes, row, 0)
        height = dot(normal, origin_W) - planes[row, 3]
        approach = -dot(normal, direction_W)
        if height < 0.0:
            return 0.0, 1.0
        if approach > 0.0 and height / approach < best:
            best, best_cos = height / approach, min(1.0, approach)
    return best, best_cos
