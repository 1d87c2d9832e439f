"""Small linear algebra with the same bits on every machine.

BLAS and LAPACK pick their routines by the processor, and each adds in an order of its own. These
are sums in one order; for a flight's setup, whose matrices are small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def product(A: Array, B: Array) -> Array:
    """A B of matrices (..., n, m) and (..., m, k)."""
    return np.asarray(np.einsum("...ij,...jk->...ik", A, B))


def applied(A: Array, v: Array) -> Array:
    """A v of matrices (..., n, m) and vectors (..., m)."""
    return np.asarray(np.einsum("...ij,...j->...i", A, v))


def lengths(vectors: Array) -> Array:
    """Lengths (...) of vectors (..., n)."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vectors, vectors)))


def solve(A: Array, B: Array) -> Array:
    """X of A X = B, of (n, n) and (n, k), by Gauss's elimination with partial pivoting.

    Raises:
        numpy.linalg.LinAlgError: A is singular.
    """
    rest, found = np.array(A, float), np.array(B, float)
    count = len(rest)
    for k in range(count):
        pivot = k + int(np.argmax(np.abs(rest[k:, k])))
        if rest[pivot, k] == 0.0:
            raise np.linalg.LinAlgError("singular matrix")
        rest[[k, pivot]], found[[k, pivot]] = rest[[pivot, k]], found[[pivot, k]]
        below = k + 1 + np.flatnonzero(rest[k + 1 :, k])  # few, where the matrix is a band
        factor = rest[below, k, None] / rest[k, k]
        rest[below, k:] -= factor * rest[k, k:]
        found[below] -= factor * found[k]
    for k in range(count - 1, -1, -1):
        found[k] /= rest[k, k]
        above = np.flatnonzero(rest[:k, k])
        found[above] -= rest[above, k, None] * found[k]
    return found


def pseudo_inverse(A: Array) -> Array:
    """Moore and Penrose's inverse (m, n) of a matrix (n, m) of rank n.

    Raises:
        numpy.linalg.LinAlgError: the rank is less.
    """
    scale = np.abs(A).max(axis=1, keepdims=True)  # rows of other units must not lose digits
    scaled = A / np.where(scale > 0.0, scale, 1.0)
    return np.asarray(solve(product(scaled, scaled.T), scaled).T / scale.T)
