"""Multipliers of constraints: linear systems, and those where a limit acts from one side only.

Rows are equalities ``phi = 0`` or limits, ``phi <= 0`` (a rope, lambda <= 0) and ``phi >= 0`` (a
floor, lambda >= 0); a limit that the motion leaves has lambda = 0. By Gauss' principle of least
constraint the answer is the motion nearest to the free one, in the norm of the mass matrix, that
all rows allow: a strictly convex quadratic program, solved for lambda by the dual active-set method
of Goldfarb and Idnani, *Mathematical Programming* 27, 1983, pp. 1-33.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, kernel

#: What a row of A asks of phi: at most zero, zero, at least zero.
AT_MOST, EQUAL, AT_LEAST = -1, 0, 1

#: Outcomes. Solved; solved, with rows that follow from others and whose multiplier was left at zero
#: (the motion is unique, the share of the forces is not); no motion satisfies all rows; the mass
#: matrix is not positive definite or something is not finite.
SOLVED, REDUNDANT, CONTRADICTORY, SINGULAR = range(4)

_FREE, _HELD, _FOLLOWS = range(3)

#: A pivot below this times the size of the matrix and its largest element counts as zero.
PIVOT_EPSILON = 2.2e-16
#: Share of a row's own mobility below which it follows from the rows already held.
DEPENDENT = 1e-10
#: Share of the largest residual that is rounding, of an independent and of a dependent row.
ROUNDING, DEPENDENT_ROUNDING = 1e-14, 1e-8


@kernel
def stabilisation(phi: float, phi_dot: float, rate_per_s: float) -> float:
    """What Baumgarte adds to ``A_dot x_dot``: 2 r phi_dot + r^2 phi, critically damped, 1/s^2.

    J. Baumgarte, *Computer Methods in Applied Mechanics and Engineering* 1, 1972, pp. 1-16. The
    violation then decays as exp(-r t) instead of growing with the errors of the integration.
    """
    return rate_per_s * (2.0 * phi_dot + rate_per_s * phi)


@kernel
def solve_in_place(matrix: Array, rhs: Array) -> bool:
    """Solve ``matrix y = rhs`` by Gaussian elimination with partial pivoting.

    Golub and Van Loan, *Matrix Computations*, 4th ed., algorithm 3.4.1. Rows that have a zero in
    the column are passed over, which makes the block matrices of mechanics cheap.

    Args:
        matrix: (n, n), or larger and its upper left part is meant; overwritten.
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


@kernel
def _scale(mobility: Array, row: int) -> float:
    """What makes residuals of different rows comparable."""
    own = mobility[row, row]
    return float(math.sqrt(own)) if own > 0.0 else 1.0


@kernel
def _next_row(
    mobility: Array,
    residual: Array,
    sides: NDArray[np.int64],
    status: NDArray[np.int64],
    least: float,
) -> int:
    """An equality that is not held yet, else the limit that is violated most; -1 for none."""
    worst, row = least, -1
    for i in range(residual.shape[0]):
        if status[i] != _FREE:
            continue
        if sides[i] == EQUAL:
            return i
        size = -sides[i] * residual[i] / _scale(mobility, i)
        if size > worst:
            worst, row = size, i
    return row


@kernel
def _response(mobility: Array, status: NDArray[np.int64], row: int, elimination: Array) -> float:
    """How the multipliers of held rows answer that of one more, and how mobile it stays.

    Returns:
        The mobility of ``row`` while the others are held, over its own; 0 if it follows from them.
        The answers are in the last row of ``elimination``, in the order of the held rows.
    """
    m = mobility.shape[0]
    held = 0
    for i in range(m):
        if status[i] == _HELD:
            column = 0
            for j in range(m):
                if status[j] == _HELD:
                    elimination[held, column] = mobility[i, j]
                    column += 1
            elimination[m, held] = mobility[i, row]
            held += 1
    own = mobility[row, row]
    if not own > 0.0 or not solve_in_place(elimination, elimination[m, :held]):
        return 0.0
    left, k = own, 0
    for i in range(m):
        if status[i] == _HELD:
            left -= mobility[row, i] * elimination[m, k]
            k += 1
    return float(left / own)


@kernel
def _first_release(
    sides: NDArray[np.int64],
    status: NDArray[np.int64],
    way: float,
    answers: Array,
    multiplier: Array,
) -> tuple[float, int]:
    """How far a multiplier can go ``way`` until a held limit would have to act wrongly."""
    step, row, k = math.inf, -1, 0
    for i in range(sides.shape[0]):
        if status[i] == _HELD:
            shrink = sides[i] * way * answers[k]
            k += 1
            if shrink > 0.0 and sides[i] * multiplier[i] / shrink < step:
                step, row = max(0.0, sides[i] * multiplier[i] / shrink), i
    return step, row


@kernel
def _advance(
    mobility: Array,
    residual: Array,
    status: NDArray[np.int64],
    row: int,
    change: float,
    answers: Array,
    multiplier: Array,
) -> None:
    """Change the multiplier of ``row``, those of the held rows with it, and all residuals."""
    m = residual.shape[0]
    multiplier[row] += change
    for i in range(m):
        residual[i] += mobility[i, row] * change
    k = 0
    for j in range(m):
        if status[j] == _HELD:
            multiplier[j] -= change * answers[k]
            for i in range(m):
                residual[i] -= mobility[i, j] * change * answers[k]
            k += 1


@kernel
def multipliers(
    mobility: Array,
    residual: Array,
    sides: NDArray[np.int64],
    status: NDArray[np.int64],
    elimination: Array,
    multiplier: Array,
) -> int:
    """Multipliers lambda with which ``residual + mobility lambda`` obeys every row.

    Args:
        mobility: (m, m) A M^-1 A^T.
        residual: (m,) A x_dd - bias of the free motion; overwritten by that of the answer.
        sides: (m,) AT_MOST, EQUAL or AT_LEAST: the sign that residual and lambda may have.
        status: (m,) whole numbers, working memory.
        elimination: (m + 1, m) working memory.
        multiplier: (m,) lambda, the result.

    Returns:
        SOLVED, REDUNDANT, CONTRADICTORY, or SINGULAR where something is not finite.
    """
    m = residual.shape[0]
    largest = 0.0
    for i in range(m):
        if not math.isfinite(residual[i] + mobility[i, i]):
            return SINGULAR
        largest = max(largest, abs(residual[i]) / _scale(mobility, i))
        multiplier[i] = 0.0
        status[i] = _FREE
    outcome, row, way = SOLVED, -1, 0.0
    for _ in range(20 + 20 * m):  # a row is held and let go a few times at most
        if row < 0:
            row = _next_row(mobility, residual, sides, status, ROUNDING * largest)
            if row < 0:
                return outcome
            way = -1.0 if residual[row] > 0.0 else 1.0
        left = _response(mobility, status, row, elimination)
        answers = elimination[m]
        step, released = _first_release(sides, status, way, answers, multiplier)
        if left > DEPENDENT:
            full = abs(residual[row]) / (left * mobility[row, row])
            if full <= step:
                step, released = full, -1
        elif abs(residual[row]) <= DEPENDENT_ROUNDING * largest * _scale(mobility, row):
            status[row], outcome, row = _FOLLOWS, REDUNDANT, -1
            continue
        elif released < 0:
            return CONTRADICTORY
        _advance(mobility, residual, status, row, way * step, answers, multiplier)
        if released < 0:
            status[row], row = _HELD, -1
        else:
            status[released], multiplier[released] = _FREE, 0.0
    return CONTRADICTORY
