"""Small vectors as tuples: kernels keep them in registers, and nobody can change them."""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, lane_kernel
from quadsim.base.parameters import Vec3


@lane_kernel
def vec3(array: Array | tuple[float, ...]) -> Vec3:
    """First three elements of an array as a tuple."""
    return (array[0], array[1], array[2])


@lane_kernel
def store(array: Array, values: tuple[float, ...]) -> None:
    """Write a tuple into the first elements of an array."""
    for i in range(len(values)):
        array[i] = values[i]


@lane_kernel
def add(a: Vec3, b: Vec3) -> Vec3:
    """Sum a + b."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@lane_kernel
def subtract(a: Vec3, b: Vec3) -> Vec3:
    """Difference a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@lane_kernel
def scale(factor: float, a: Vec3) -> Vec3:
    """Product of a number and a vector."""
    return (factor * a[0], factor * a[1], factor * a[2])


@lane_kernel
def dot(a: Vec3, b: Vec3) -> float:
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@lane_kernel
def cross(a: Vec3, b: Vec3) -> Vec3:
    """Vector product a x b."""
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@lane_kernel
def norm(a: Vec3) -> float:
    """Euclidean length."""
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])
