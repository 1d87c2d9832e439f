"""Where a ray meets a box, a sphere, a cylinder or a triangle, in the shape's own frame.

A convex solid cuts an interval out of the line of a ray: the line is inside from ``near`` to
``far``, distances from the ray's origin in m, and misses it when ``near > far``. The origin is
inside where ``near < 0 < far``. With the interval comes the cosine of incidence at ``near``: the
angle between the line and the surface's normal there.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import cross, dot, norm, subtract

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
