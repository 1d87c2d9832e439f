"""Inertia tensors as their moments (xx, yy, zz) and products (xy, xz, yz), elements of the matrix.

A product is the negative of the integral of x y dm, as in SDF and URDF.
"""

from __future__ import annotations

from quadsim.base.compiled import inline
from quadsim.base.parameters import Vec3


@inline
def times_tensor(moments: Vec3, products: Vec3, v: Vec3) -> Vec3:
    """J v: the angular momentum in kg m^2/s of rates in rad/s, body axes."""
    xy, xz, yz = products
    return (
        moments[0] * v[0] + xy * v[1] + xz * v[2],
        xy * v[0] + moments[1] * v[1] + yz * v[2],
        xz * v[0] + yz * v[1] + moments[2] * v[2],
    )


@inline
def over_tensor(moments: Vec3, products: Vec3, v: Vec3) -> Vec3:
    """J^-1 v: the angular acceleration in rad/s^2 by a torque in N m (Cramer's rule)."""
    (xx, yy, zz), (xy, xz, yz) = moments, products
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    d, e, f = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    inverse = 1.0 / (xx * a + xy * b + xz * c)
    return (
        inverse * (a * v[0] + b * v[1] + c * v[2]),
        inverse * (b * v[0] + d * v[1] + e * v[2]),
        inverse * (c * v[0] + e * v[1] + f * v[2]),
    )


@inline
def has_products(products: Vec3) -> bool:
    """Whether a tensor has any; without, its moments do alone."""
    return products[0] != 0.0 or products[1] != 0.0 or products[2] != 0.0
