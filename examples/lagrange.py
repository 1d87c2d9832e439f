"""Lagrange constraints: motion under any number of equalities and one-sided limits.

A system ``M x_dd = F`` under ``phi(x) = 0`` with ``A = d phi / dx`` moves by

    [M, -A^T; A, 0] [x_dd; lambda] = [F; -A_dot x_dot - stabilisation].

It is solved by its Schur complement, the mobility ``A M^-1 A^T`` of the rows, whatever their number
and whether or not some follow from others; limits: see :mod:`quadsim.vehicle.ropes.constraints`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, kernel
from quadsim.vehicle.ropes.constraints import PIVOT_EPSILON, SINGULAR, multipliers


class ConstraintMemory(NamedTuple):
    """Working memory of the solver for n coordinates and m rows."""

    factor: Array  # (n, n) Cholesky factor of the mass matrix
    reach: Array  # (m, n) M^-1 A^T, by rows
    mobility: Array  # (m, m) A M^-1 A^T
    residual: Array  # (m,) A x_dd - bias
    status: NDArray[np.int64]  # (m,)
    elimination: Array  # (m + 1, m)


def constraint_memory(coordinates: int, rows: int) -> ConstraintMemory:
    """Memory for ``coordinates`` (n) and ``rows`` (m)."""
    n, m = coordinates, rows
    return ConstraintMemory(
        np.zeros((n, n)),
        np.zeros((m, n)),
        np.zeros((m, m)),
        np.zeros(m),
        np.zeros(m, np.int64),
        np.zeros((m + 1, m)),
    )


@kernel
def _mobility(mass: Array, jacobian: Array, memory: ConstraintMemory) -> bool:
    """M = L L^T, M^-1 A^T and A M^-1 A^T into the memory; False where M is not positive."""
    n, m = mass.shape[0], jacobian.shape[0]
    factor = memory.factor
    for i in range(n):
        for j in range(i + 1):
            total = mass[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i > j:
                factor[i, j] = total / factor[j, j]
            elif total > PIVOT_EPSILON * n * mass[i, i]:
                factor[i, i] = math.sqrt(total)
            else:
                return False
    for row in range(m):
        for i in range(n):
            memory.reach[row, i] = jacobian[row, i]
        _solve_factored(factor, memory.reach[row])
    for i in range(m):
        for j in range(m):
            total = 0.0
            for k in range(n):
                total += jacobian[i, k] * memory.reach[j, k]
            memory.mobility[i, j] = total
    return True


@kernel
def _solve_factored(factor: Any, rhs: Any) -> None:
    """Solve L L^T y = rhs in place."""
    n = rhs.shape[0]
    for i in range(n):
        for k in range(i):
            rhs[i] -= factor[i, k] * rhs[k]
        rhs[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            rhs[i] -= factor[k, i] * rhs[k]
        rhs[i] /= factor[i, i]


@kernel
def _restrict(
    motion: Any, jacobian: Any, bias: Any, sides: Any, memory: ConstraintMemory, multiplier: Any
) -> int:
    """Change a free motion as little as ``A motion (<=, =, >=) bias`` needs."""
    n, m = motion.shape[0], bias.shape[0]
    for i in range(m):
        memory.residual[i] = -bias[i]
        for k in range(n):
            memory.residual[i] += jacobian[i, k] * motion[k]
    outcome = multipliers(
        memory.mobility, memory.residual, sides, memory.status, memory.elimination, multiplier
    )
    for i in range(m):
        for k in range(n):
            motion[k] += memory.reach[i, k] * multiplier[i]
    return int(outcome)


@kernel
def accelerate(
    mass: Any,
    force: Any,
    jacobian: Any,
    bias: Any,
    sides: Any,
    memory: ConstraintMemory,
    acceleration: Any,
    multiplier: Any,
) -> int:
    """Accelerations under constraints: M x_dd = F + A^T lambda with A x_dd (<=, =, >=) bias.

    Args:
        mass: (n, n) symmetric positive definite M.
        force: (n,) F.
        jacobian: (m, n) A.
        bias: (m,) -A_dot x_dot - stabilisation.
        sides: (m,) AT_MOST, EQUAL or AT_LEAST.
        memory: of n coordinates and m rows.
        acceleration: (n,) x_dd, a result.
        multiplier: (m,) lambda, a result; the force of row i is ``A[i] lambda[i]``.

    Returns:
        SOLVED, REDUNDANT, CONTRADICTORY or SINGULAR; after the last two the results mean nothing.
    """
    if not _mobility(mass, jacobian, memory):
        return SINGULAR
    for i in range(force.shape[0]):
        acceleration[i] = force[i]
    _solve_factored(memory.factor, acceleration)
    return int(_restrict(acceleration, jacobian, bias, sides, memory, multiplier))


@kernel
def strike(
    mass: Any,
    velocity: Any,
    jacobian: Any,
    sides: Any,
    restitution: float,
    memory: ConstraintMemory,
    impulse: Any,
) -> int:
    """Velocities after an impact: v + M^-1 A^T impulse with A v_after (<=, =, >=) -e A v.

    With every row approaching this is v - M^-1 A^T (A M^-1 A^T)^-1 (1 + e) A v (Newton's law of
    impact); a limit that the others pull away from takes no part (Moreau, *Unilateral contact and
    dry friction in finite freedom dynamics*, 1988).

    Args:
        mass: (n, n) symmetric positive definite M.
        velocity: (n,) before; overwritten by that after.
        jacobian: (m, n) A of the rows that are at their limit.
        sides: (m,) AT_MOST, EQUAL or AT_LEAST.
        restitution: e, 0 inelastic to 1 elastic.
        memory: of n coordinates and m rows.
        impulse: (m,) result, along the rows of A.

    Returns:
        As of :func:`accelerate`.
    """
    if not _mobility(mass, jacobian, memory):
        return SINGULAR
    n, m = velocity.shape[0], jacobian.shape[0]
    for i in range(m):
        impulse[i] = 0.0
        for k in range(n):
            impulse[i] -= restitution * jacobian[i, k] * velocity[k]
    return int(_restrict(velocity, jacobian, impulse, sides, memory, impulse))
