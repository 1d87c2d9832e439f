"""Covariance in place: linear changes of the error state, scalar updates in Joseph form.

The covariance is stored full and exactly symmetric.
"""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.compiled import Array, kernel, template
from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.layout import ANTENNA, BA, BG, FIELD_BIAS, Eskf, N
from quadsim.geometry.rotation import Mat3
from quadsim.geometry.vector import dot

#: Of a row; NumPy's is compiled once for all, Python's for each number that a caller gives.
Index = int | np.int64


@kernel
def skew(a: Vec3) -> Mat3:
    """Matrix of the vector product: skew(a) b = a x b."""
    return ((0.0, -a[2], a[1]), (a[2], 0.0, -a[0]), (-a[1], a[0], 0.0))


@kernel
def scaled(factor: float, A: Mat3) -> Mat3:
    """Product of a number and a matrix."""
    a, b, c = A
    return (
        (factor * a[0], factor * a[1], factor * a[2]),
        (factor * b[0], factor * b[1], factor * b[2]),
        (factor * c[0], factor * c[1], factor * c[2]),
    )


@kernel
def less(A: Mat3, B: Mat3) -> Mat3:
    """Difference A - B."""
    a, b, c = A
    d, e, f = B
    return (
        (a[0] - d[0], a[1] - d[1], a[2] - d[2]),
        (b[0] - e[0], b[1] - e[1], b[2] - e[2]),
        (c[0] - f[0], c[1] - f[1], c[2] - f[2]),
    )


@kernel
def crossed(a: Vec3, B: Mat3) -> Mat3:
    """Product skew(a) B."""
    x, y, z = B
    return (
        (a[1] * z[0] - a[2] * y[0], a[1] * z[1] - a[2] * y[1], a[1] * z[2] - a[2] * y[2]),
        (a[2] * x[0] - a[0] * z[0], a[2] * x[1] - a[0] * z[1], a[2] * x[2] - a[0] * z[2]),
        (a[0] * y[0] - a[1] * x[0], a[0] * y[1] - a[1] * x[1], a[0] * y[2] - a[1] * x[2]),
    )


@template
def shear(covariance: Array, n: int, to: int, source: int, A: Mat3) -> None:
    """Covariance after x[to:to+3] += A x[source:source+3]; the two parts are different ones.

    Args:
        covariance: (N, N), changed in place.
        n: size of the part that is carried.
        to: first index of the part that changes.
        source: first index of the part it depends on.
        A: (3, 3).
    """
    shear_rows(covariance, np.int64(n), np.int64(to), np.int64(source), A)


@kernel
def shear_rows(covariance: Array, n: Index, to: Index, source: Index, A: Mat3) -> None:
    """:func:`shear`, compiled once for all parts."""
    a, b, c = A
    for k in range(n):
        x, y, z = covariance[source, k], covariance[source + 1, k], covariance[source + 2, k]
        covariance[to, k] += a[0] * x + a[1] * y + a[2] * z
        covariance[to + 1, k] += b[0] * x + b[1] * y + b[2] * z
        covariance[to + 2, k] += c[0] * x + c[1] * y + c[2] * z
    for r in range(3):
        x = covariance[to + r, source]
        y = covariance[to + r, source + 1]
        z = covariance[to + r, source + 2]
        covariance[to + r, to] += x * a[0] + y * a[1] + z * a[2]
        covariance[to + r, to + 1] += x * b[0] + y * b[1] + z * b[2]
        covariance[to + r, to + 2] += x * c[0] + y * c[1] + z * c[2]
    mirror(covariance, n, to)


@kernel
def shear_scalar(covariance: Array, n: int, to: int, source: int, factor: float) -> None:
    """Covariance after x[to:to+3] += factor x[source:source+3]."""
    for r in range(3):
        for k in range(n):
            covariance[to + r, k] += factor * covariance[source + r, k]
    for r in range(3):
        for k in range(3):
            covariance[to + r, to + k] += factor * covariance[to + r, source + k]
    mirror(covariance, n, to)


@kernel
def mirror(covariance: Array, n: Index, to: Index) -> None:
    """Copy three rows into their columns; of the block on the diagonal, its upper half."""
    for r in range(3):
        for k in range(to):
            covariance[k, to + r] = covariance[to + r, k]
        for k in range(to + 3, n):
            covariance[k, to + r] = covariance[to + r, k]
    covariance[to + 1, to] = covariance[to, to + 1]
    covariance[to + 2, to] = covariance[to, to + 2]
    covariance[to + 2, to + 1] = covariance[to + 1, to + 2]


@kernel
def add_rotated(covariance: Array, to: int, R: Mat3, variance: Vec3) -> None:
    """Add R diag(variance) R^T to a block on the diagonal."""
    a, b, c = R
    x, y, z = variance
    ab = a[0] * b[0] * x + a[1] * b[1] * y + a[2] * b[2] * z
    ac = a[0] * c[0] * x + a[1] * c[1] * y + a[2] * c[2] * z
    bc = b[0] * c[0] * x + b[1] * c[1] * y + b[2] * c[2] * z
    covariance[to, to] += a[0] * a[0] * x + a[1] * a[1] * y + a[2] * a[2] * z
    covariance[to + 1, to + 1] += b[0] * b[0] * x + b[1] * b[1] * y + b[2] * b[2] * z
    covariance[to + 2, to + 2] += c[0] * c[0] * x + c[1] * c[1] * y + c[2] * c[2] * z
    covariance[to, to + 1] += ab
    covariance[to + 1, to] += ab
    covariance[to, to + 2] += ac
    covariance[to + 2, to] += ac
    covariance[to + 1, to + 2] += bc
    covariance[to + 2, to + 1] += bc


@kernel
def left_jacobian(turn: Vec3) -> Mat3:
    """J of a rotation vector t: exp(t + d) = exp(J d) exp(t), to first order in d.

    J = 1 + (1 - cos a)/a^2 [t]x + (a - sin a)/a^3 [t]x^2 with a = |t| (Sola 2017, eq. 183, for the
    other side).
    """
    a2 = dot(turn, turn)
    a = math.sqrt(a2)
    if a < 1e-3:
        first, second = 0.5 - a2 / 24.0, 1.0 / 6.0 - a2 / 120.0
    else:
        first, second = (1.0 - cos(a)) / a2, (a - sin(a)) / (a2 * a)
    x, y, z = turn
    diagonal = 1.0 - second * a2
    return (
        (diagonal + second * x * x, second * x * y - first * z, second * x * z + first * y),
        (second * x * y + first * z, diagonal + second * y * y, second * y * z - first * x),
        (second * x * z - first * y, second * y * z + first * x, diagonal + second * z * z),
    )


@kernel
def turn_errors(covariance: Array, n: int, at: int, R: Mat3) -> None:
    """Covariance after the three errors t from ``at`` on become R t."""
    for k in range(n):
        t = (covariance[at, k], covariance[at + 1, k], covariance[at + 2, k])
        for i in range(3):
            covariance[at + i, k] = dot(R[i], t)
    for k in range(3):
        t = (covariance[at + k, at], covariance[at + k, at + 1], covariance[at + k, at + 2])
        for i in range(k, 3):
            covariance[at + k, at + i] = dot(R[i], t)
        for i in range(k):
            covariance[at + k, at + i] = covariance[at + i, at + k]
    for i in range(at, at + 3):
        for k in range(n):
            if k < at or k > at + 2:
                covariance[k, i] = covariance[i, k]


@kernel
def turn_fixed_errors(covariance: Array, n: int, R: Mat3) -> None:
    """Covariance after the errors of what is fixed in the IMU's axes are rotated by R."""
    for at in (BG, BA, FIELD_BIAS, ANTENNA):
        if at < n:
            turn_errors(covariance, n, at, R)


@kernel
def times_row(covariance: Array, n: int, h: Array, ph: Array) -> float:
    """Product of the covariance and a sparse row, ``ph``; returns h P h^T."""
    for k in range(N):
        ph[k] = 0.0
    for j in range(n):
        part = h[j]
        if part != 0.0:
            for k in range(n):
                ph[k] += part * covariance[j, k]
    variance = 0.0
    for k in range(n):
        variance += h[k] * ph[k]
    return variance


@kernel
def fuse(state: Eskf, innovation: float, variance: float, innovation_variance: float) -> None:
    """One scalar measurement, row ``state.h``: its part of ``state.correction`` and Joseph form.

    Several uncorrelated scalars of one vector follow each other, the correction summed up and
    applied once: the same as the vector at once. P' = (I - K H) P (I - K H)^T + K r K^T, by its
    two rank-one steps (Bierman 1977, "stabilised Joseph").

    Args:
        state: ESKF record.
        innovation: measurement less its prediction from the nominal state.
        variance: of the measurement's noise.
        innovation_variance: h P h^T and that; ``state.ph`` is P h^T.
    """
    covariance, h, K, ph = state.covariance, state.h, state.K, state.ph
    before, half = state.before, state.half
    n = state.n
    factor = 1.0 / innovation_variance
    rest = innovation
    for k in range(n):
        K[k] = factor * ph[k]
        rest -= h[k] * state.correction[k]
    for k in range(n):
        state.correction[k] += K[k] * rest
    for k in range(n):
        before[k] = ph[k]
        ph[k] = 0.0
    # ph = (I - K h) P h^T, of the unstabilised form
    for k in range(n):
        part, before_k = h[k], before[k]
        if part != 0.0:
            for i in range(n):
                ph[i] += (covariance[k, i] - K[i] * before_k) * part
    # P - K h P + (r K - ph) K^T, the mean of it and its mirror image: symmetric to the bit
    for k in range(n):
        half[k] = 0.5 * (variance * K[k] - ph[k] - before[k])
    for i in range(n):
        gain_i, half_i = K[i], half[i]
        for k in range(n):
            covariance[i, k] += gain_i * half[k] + half_i * K[k]
