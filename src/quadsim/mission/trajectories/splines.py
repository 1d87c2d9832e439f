"""Interpolating splines, with the same bits on every machine.

The spline of degree 2 m - 1 that is at rest to derivative m - 1 at both ends has the least integral
of the squared derivative m of all curves through its points (I. J. Schoenberg, *Spline functions
and the problem of graduation*, 1964): least jerk with m = 3, least snap with m = 4. Its unknowns
are derivatives 1 to m - 1 at the inner knots. That the integral's gradient by them is zero is a
symmetric, positive definite system with a narrow band.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.geometry.linear import solve

Array = NDArray[np.float64]


@kernel
def solve_band(band: Array, found: Array) -> None:
    """Solve A X = B in place by elimination without pivoting.

    Args:
        band: (n, 2 p + 1), ``band[i, p + j - i]`` is A[i, j]; A must need no pivoting, as one that
            is positive definite does not. It is overwritten.
        found: (n, D) B; X is written into it.
    """
    count, p = len(band), band.shape[1] // 2
    for k in range(count):
        for i in range(k + 1, min(k + p + 1, count)):
            factor = band[i, p + k - i] / band[k, p]
            for j in range(k + 1, min(k + p + 1, count)):
                band[i, p + j - i] -= factor * band[k, p + j - k]
            for d in range(found.shape[1]):
                found[i, d] -= factor * found[k, d]
    for k in range(count - 1, -1, -1):
        for d in range(found.shape[1]):
            value = found[k, d]
            for j in range(k + 1, min(k + p + 1, count)):
                value -= band[k, p + j - k] * found[j, d]
            found[k, d] = value / band[k, p]


@cache
def _from_ends(m: int) -> tuple[Array, Array]:
    """What a segment's coefficients are made of, and the gradient of its integral.

    Returns:
        (2 m, 2 m) whole numbers, from derivatives k < m over k!, at the start and then at the end
        of a segment of length 1, to coefficients in ascending powers; and (2 m, 2 m), from the same
        to the gradient of half the integral by each of the 2 m derivatives.
    """
    orders = range(2 * m)
    # derivatives of the powers at 0 and at 1, over k!
    starts = np.array([[float(n == k) for n in orders] for k in orders])
    ends = np.array([[float(math.comb(n, k)) for n in orders] for k in orders])
    shape = np.rint(solve(np.concatenate([starts[:m], ends[:m]]), np.eye(2 * m)))
    # by parts: by derivative k at an end it is derivative 2 m - 1 - k there, but for the sign
    rows = [
        side * (1 - 2 * ((m - 1 - k) % 2)) * math.factorial(2 * m - 1 - k) * at[2 * m - 1 - k]
        for side, at in ((-1, starts), (1, ends))
        for k in range(m)
    ]
    return shape, np.asarray(np.einsum("ij,jk->ik", np.array(rows), shape))


def _powers(steps_s: Array, count: int) -> Array:
    """Powers (K, count) of the steps from 0 on."""
    factors = np.repeat(steps_s[:, None], count, axis=1)
    factors[:, 0] = 1.0
    return np.asarray(np.cumprod(factors, axis=1))


def _factorials(count: int) -> Array:
    return np.array([math.factorial(k) for k in range(count)], dtype=float)


def segments(derivatives: Array, steps_s: Array) -> Array:
    """Coefficients of a piecewise polynomial of degree 2 m - 1.

    Args:
        derivatives: (K + 1, m, D) values and derivatives to m - 1 at the knots.
        steps_s: (K,) between them.

    Returns:
        (K, D, 2 m) in ascending powers of tau in [0, 1].
    """
    m = derivatives.shape[1]
    shape, _ = _from_ends(m)
    scale = (_powers(steps_s, m) / _factorials(m))[..., None]
    start, end = scale * derivatives[:-1], scale * derivatives[1:]
    base = start[:, 0].copy()
    start[:, 0], end[:, 0] = 0.0, end[:, 0] - base  # far from zero, differences keep their digits
    found = np.einsum("ij,kjd->kdi", shape, np.concatenate([start, end], axis=1))
    found[..., 0] = base
    return np.asarray(found)


def rest_spline(values: Array, steps_s: Array, m: int) -> Array:
    """Derivatives at the knots of the spline of degree 2 m - 1 from rest to rest.

    Args:
        values: (K + 1, D) at the knots.
        steps_s: (K,) between them.
        m: order of the derivative whose squared integral is least.

    Returns:
        (K + 1, m, D) values and derivatives to m - 1.
    """
    count, unknown = len(steps_s), m - 1
    found = np.zeros((count + 1, m, values.shape[1]))
    found[:, 0] = values
    if count == 1:
        return found
    _, gradient = _from_ends(m)
    # (K, end, k, end, l): gradient by derivative k in seconds, from derivative l in seconds
    by = 1.0 / _powers(steps_s, 2 * m)[:, : m - 1 : -1]
    of = _powers(steps_s, m) / _factorials(m)
    parts = by[:, None, :, None, None] * gradient.reshape(2, m, 2, m) * of[:, None, None, None, :]
    half = 2 * unknown - 1
    band = np.zeros((unknown * (count - 1), 2 * half + 1))
    wanted = np.zeros((unknown * (count - 1), values.shape[1]))
    rise = np.diff(values, axis=0)
    for k in range(unknown):
        rows = slice(k, None, unknown)
        # the segment before ends at the knot, the one after starts there
        wanted[rows] = -parts[:-1, 1, k + 1, 1, 0, None] * rise[:-1]
        wanted[rows] -= parts[1:, 0, k + 1, 1, 0, None] * rise[1:]
        for n in range(unknown):
            here = half + n - k
            band[rows, here] = parts[:-1, 1, k + 1, 1, n + 1] + parts[1:, 0, k + 1, 0, n + 1]
            band[rows, here - unknown][1:] = parts[1:-1, 1, k + 1, 0, n + 1]
            band[rows, here + unknown][:-1] = parts[1:-1, 0, k + 1, 1, n + 1]
    solve_band(band, wanted)
    found[1:-1, 1:] = wanted.reshape(count - 1, unknown, -1)
    return found


def cubic_slopes(times_s: Array, values: Array) -> Array:
    """Slopes (K + 1, D) at the knots of the cubic spline through values (K + 1, D).

    Its third derivative is continuous at the second knot and at the last but one as well (C. de
    Boor, *A Practical Guide to Splines*, 1978, chapter IV: not a knot).
    """
    steps_s = np.diff(times_s)
    h, rises = steps_s[:, None], np.diff(values, axis=0) / steps_s[:, None]
    if len(h) == 1:
        return np.asarray(np.repeat(rises, 2, axis=0))
    band, wanted = np.zeros((len(values), 3)), np.zeros(values.shape)
    band[1:-1, 0], band[1:-1, 2] = steps_s[1:], steps_s[:-1]
    band[1:-1, 1] = 2.0 * (steps_s[:-1] + steps_s[1:])
    wanted[1:-1] = 3.0 * (h[:-1] * rises[1:] + h[1:] * rises[:-1])
    if len(h) == 2:  # a parabola
        band[0, 1:], band[-1, :2] = 1.0, 1.0
        wanted[0], wanted[-1] = 2.0 * rises[0], 2.0 * rises[1]
    else:
        both = times_s[2] - times_s[0]
        band[0, 1:] = steps_s[1], both
        wanted[0] = ((h[0] + 2.0 * both) * h[1] * rises[0] + h[0] * h[0] * rises[1]) / both
        both = times_s[-1] - times_s[-3]
        band[-1, :2] = both, steps_s[-2]
        wanted[-1] = (h[-1] * h[-1] * rises[-2] + (2.0 * both + h[-1]) * h[-2] * rises[-1]) / both
    solve_band(band, wanted)
    return wanted
