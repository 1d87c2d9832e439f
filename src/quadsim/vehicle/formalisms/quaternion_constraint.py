"""The quaternion's norm as a Lagrange constraint of the dynamics (lecture "Simulation").

State (X_dot, Q_dot, X, Q); phi(Q) = Q'Q - 1, A = Q', A_dot = Q_dot'. One linear system of size 15
gives the derivative of the state and the multiplier lambda:

    X_dd            = a_W
    Q_dd - Q lambda = 1/2 Q (0, gamma)
    d/dt X          = X_dot
    d/dt Q          = Q_dot
    Q' Q_dd         = -Q_dot' Q_dot - stabilisation / 2

The right-hand side has the acceleration along the unit sphere alone; the multiplier gives that
towards its middle, lambda = -Q_dot' Q_dot = -w^2/4 on the sphere. Differentiating
Q_dot = 1/2 Q (0, W) gives the same: 1/2 Q_dot (0, W) = -1/4 w^2 Q.

Two corrections to the lecture's sheet. Its matrix has the identity in the corner of lambda, by
which the last row reads Q' Q_dd + lambda = -Q_dot' Q_dot: the multiplier is half of what it takes,
and the norm grows. A zero belongs there. Its Q_dd = Q (0, gamma) Q* is a rotated vector and not the
second derivative.

Baumgarte's stabilisation of phi (``vehicle.ropes.constraints.stabilisation``) is off at a rate
of zero, which is the lecture's system.
"""

from __future__ import annotations

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.base.scratch import scratch
from quadsim.geometry.rotation import Quat, conjugate, multiply
from quadsim.vehicle.ropes.constraints import solve_in_place, stabilisation
from quadsim.vehicle.state import Q_DOT, P, Q, V

SIZE = 15
_matrix, _unknown = scratch(SIZE, SIZE), scratch(SIZE)


@kernel
def rate_of(q_WB: Quat, w_B: Vec3) -> Quat:
    """Q_dot = 1/2 Q (0, W)."""
    return multiply(q_WB, (0.0, 0.5 * w_B[0], 0.5 * w_B[1], 0.5 * w_B[2]))


@kernel
def body_rates_of(q_WB: Quat, q_dot: Quat) -> Vec3:
    """W = 2 Q* Q_dot, in rad/s."""
    turn = multiply(conjugate(q_WB), q_dot)
    return (2.0 * turn[1], 2.0 * turn[2], 2.0 * turn[3])


@kernel
def constrained_rates(x: Array, a_W: Vec3, w_dot_B: Vec3, rate_per_s: float, x_dot: Array) -> float:
    """Derivatives of X_dot, Q_dot, X and Q into ``x_dot``.

    Args:
        x: (STATE_SIZE,) state.
        a_W: acceleration of the centre of mass in m/s^2.
        w_dot_B: angular acceleration gamma in rad/s^2.
        rate_per_s: of Baumgarte's stabilisation; 0: none.
        x_dot: (STATE_SIZE,) result.

    Returns:
        The multiplier lambda, in 1/s^2.
    """
    q = (x[Q], x[Q + 1], x[Q + 2], x[Q + 3])
    q_dot = (x[Q_DOT], x[Q_DOT + 1], x[Q_DOT + 2], x[Q_DOT + 3])
    along = multiply(q, (0.0, 0.5 * w_dot_B[0], 0.5 * w_dot_B[1], 0.5 * w_dot_B[2]))
    matrix, unknown = _matrix(), _unknown()
    matrix[:], unknown[:] = 0.0, 0.0
    for i in range(SIZE - 1):
        matrix[i, i] = 1.0
    last = SIZE - 1
    for i in range(3):
        unknown[i] = a_W[i]
        unknown[7 + i] = x[V + i]
    phi, phi_dot = -1.0, 0.0
    for i in range(4):
        unknown[3 + i] = along[i]
        unknown[10 + i] = q_dot[i]
        unknown[last] -= q_dot[i] * q_dot[i]
        matrix[3 + i, last] = -q[i]
        matrix[last, 3 + i] = q[i]
        phi += q[i] * q[i]
        phi_dot += 2.0 * q[i] * q_dot[i]
    unknown[last] -= 0.5 * stabilisation(phi, phi_dot, rate_per_s)
    solve_in_place(matrix, unknown)
    for i in range(3):
        x_dot[V + i] = unknown[i]
        x_dot[P + i] = unknown[7 + i]
    for i in range(4):
        x_dot[Q_DOT + i] = unknown[3 + i]
        x_dot[Q + i] = unknown[10 + i]
    return float(unknown[last])
