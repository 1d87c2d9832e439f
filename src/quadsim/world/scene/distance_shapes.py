"""How far a point is from a box, a sphere, a cylinder or a triangle, in the shape's own frame.

A solid gives the signed distance to its surface in m, negative inside, and the unit normal of the
surface at the nearest point, outwards: the nearest point is the point less distance times normal.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import add, dot, scale, subtract

#: Signed distance in m and outward unit normal.
Surface = tuple[float, Vec3]


@kernel
def box_distance(p: Vec3, half_size: Vec3) -> Surface:
    """Signed distance to a box about its centre."""
    outside, deepest, axis = 0.0, -math.inf, 0
    for k in range(3):
        beyond = abs(p[k]) - half_size[k]
        if beyond > 0.0:
            outside += beyond * beyond
        if beyond > deepest:
            deepest, axis = beyond, k
    if outside == 0.0:
        sign = -1.0 if p[axis] < 0.0 else 1.0
        return deepest, (
            sign if axis == 0 else 0.0,
            sign if axis == 1 else 0.0,
            sign if axis == 2 else 0.0,
        )
    distance = math.sqrt(outside)
    return distance, scale(
        1.0 / distance,
        (
            p[0] - min(max(p[0], -half_size[0]), half_size[0]),
            p[1] - min(max(p[1], -half_size[1]), half_size[1]),
            p[2] - min(max(p[2], -half_size[2]), half_size[2]),
        ),
    )


@kernel
def sphere_distance(p: Vec3, radius: float) -> Surface:
    """Signed distance to a sphere about its centre."""
    length = math.sqrt(dot(p, p))
    if length == 0.0:
        return -radius, (0.0, 0.0, 1.0)
    return length - radius, scale(1.0 / length, p)


@kernel
def cylinder_distance(p: Vec3, radius: float, half_length: float) -> Surface:
    """Signed distance to a closed cylinder about its centre, its axis along z."""
    from_axis = math.sqrt(p[0] * p[0] + p[1] * p[1])
    x, y = (p[0] / from_axis, p[1] / from_axis) if from_axis > 0.0 else (1.0, 0.0)
    up = -1.0 if p[2] < 0.0 else 1.0
    across, along = from_axis - radius, abs(p[2]) - half_length
    if across <= 0.0 and along <= 0.0:
        return (across, (x, y, 0.0)) if across > along else (along, (0.0, 0.0, up))
    across, along = max(across, 0.0), max(along, 0.0)
    distance = math.sqrt(across * across + along * along)
    across, along = across / distance, along / distance
    return distance, (across * x, across * y, along * up)


@kernel
def nearest_on_triangle(p: Vec3, corner: Vec3, edge_1: Vec3, edge_2: Vec3) -> Vec3:
    """Point of a triangle that is nearest to a point.

    By the regions of Ericson, *Real-Time Collision Detection*, 2005, 5.1.5: three corners, three
    edges, the face.
    """
    a = subtract(p, corner)
    d1, d2 = dot(edge_1, a), dot(edge_2, a)
    if d1 <= 0.0 and d2 <= 0.0:
        return corner
    b = subtract(a, edge_1)
    d3, d4 = dot(edge_1, b), dot(edge_2, b)
    if d3 >= 0.0 and d4 <= d3:
        return add(corner, edge_1)
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return add(corner, scale(d1 / (d1 - d3), edge_1))
    c = subtract(a, edge_2)
    d5, d6 = dot(edge_1, c), dot(edge_2, c)
    if d6 >= 0.0 and d5 <= d6:
        return add(corner, edge_2)
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return add(corner, scale(d2 / (d2 - d6), edge_2))
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 >= d3 and d5 >= d6:
        share = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return add(corner, add(scale(1.0 - share, edge_1), scale(share, edge_2)))
    total = va + vb + vc
    return add(corner, add(scale(vb / total, edge_1), scale(vc / total, edge_2)))
