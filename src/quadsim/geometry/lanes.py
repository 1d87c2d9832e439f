"""Rows of four numbers: blocks of a covariance, three rows of a matrix at a time."""

from __future__ import annotations

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Mat3

Four = tuple[float, float, float, float]
#: Three rows of four: a matrix of nine, and what lies next to it.
Rows = tuple[Four, Four, Four]


@kernel
def plus(a: Four, b: Four) -> Four:
    """Sum of two fours."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])


@kernel
def times(factor: float, a: Four) -> Four:
    """A number times four."""
    return (factor * a[0], factor * a[1], factor * a[2], factor * a[3])


@inline
def rows_at(matrix: Array, i: int, k: int) -> Rows:
    """Three rows of a matrix from ``i`` on, of four columns from ``k`` on."""
    return (
        (matrix[i, k], matrix[i, k + 1], matrix[i, k + 2], matrix[i, k + 3]),
        (matrix[i + 1, k], matrix[i + 1, k + 1], matrix[i + 1, k + 2], matrix[i + 1, k + 3]),
        (matrix[i + 2, k], matrix[i + 2, k + 1], matrix[i + 2, k + 2], matrix[i + 2, k + 3]),
    )


@inline
def combined(factors: Vec3 | Four, B: Rows) -> Four:
    """Sum of three rows, each times one of three factors."""
    return plus(plus(times(factors[0], B[0]), times(factors[1], B[1])), times(factors[2], B[2]))


@inline
def gained(A: Rows, F: Mat3 | Rows, B: Rows) -> Rows:
    """A + F B, with F three rows of at least three numbers."""
    return (
        plus(A[0], combined(F[0], B)),
        plus(A[1], combined(F[1], B)),
        plus(A[2], combined(F[2], B)),
    )


@inline
def added(A: Rows, factor: float, B: Rows) -> Rows:
    """A + factor B."""
    return (
        plus(A[0], times(factor, B[0])),
        plus(A[1], times(factor, B[1])),
        plus(A[2], times(factor, B[2])),
    )


@inline
def columns(A: Mat3 | Rows) -> Rows:
    """The transpose of a matrix of nine, as rows; the fourth of each is zero."""
    a, b, c = A
    return ((a[0], b[0], c[0], 0.0), (a[1], b[1], c[1], 0.0), (a[2], b[2], c[2], 0.0))


@inline
def upper_mirrored(A: Rows) -> Rows:
    """A symmetric matrix of nine by its upper half; the fourth of each row is zero."""
    a, b, c = A
    return ((a[0], a[1], a[2], 0.0), (a[1], b[1], b[2], 0.0), (a[2], b[2], c[2], 0.0))
