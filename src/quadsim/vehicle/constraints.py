"""Lagrange constraints: linear systems of motion under constraints, solved inside kernels.

A system ``M x_dd = F`` under ``phi(x) = 0`` with ``A = d phi / dx`` moves by

    [M, -A^T; A, 0] [x_dd; lambda] = [F; -A_dot x_dot].
"""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel

#: A pivot below this times the size of the matrix and its largest element counts as zero.
PIVOT_EPSILON = 2.2e-16


@kernel
def solve_in_place(matrix: Any, rhs: Any) -> bool:
    """Solve ``matrix y = rhs`` by Gaussian elimination with partial pivoting.

    Golub and Van Loan, *Matrix Computations*, 4th ed., algorithm 3.4.1. Rows that have a zero in
    the column are passed over, which makes the block matrices of mechanics cheap.

    Args:
        matrix: (n, n), overwritten.
        rhs: (n,), overwritten by the solution y.

    Returns:
        Whether there is one solution; False for a matrix that is singular to rounding or not
        finite, and then ``rhs`` means nothing.
    """
    n = rhs.shape[0]
    largest = 0.0
    for i in range(n):
        for j in range(n):
            largest = max(largest, abs(matrix[i, j]))
    least = PIVOT_EPSILON * n * largest
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        if not abs(matrix[pivot, k]) > least:  # NaN too
            return False
        if pivot != k:
            rhs[k], rhs[pivot] = rhs[pivot], rhs[k]
            for j in range(k, n):
                matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
        inverse = 1.0 / matrix[k, k]
        for i in range(k + 1, n):
            if matrix[i, k] == 0.0:
                continue
            factor = matrix[i, k] * inverse
            rhs[i] -= factor * rhs[k]
            for j in range(k + 1, n):
                matrix[i, j] -= factor * matrix[k, j]
    for k in range(n - 1, -1, -1):
        total = rhs[k]
        for j in range(k + 1, n):
            total -= matrix[k, j] * rhs[j]
        rhs[k] = total / matrix[k, k]
    return True
