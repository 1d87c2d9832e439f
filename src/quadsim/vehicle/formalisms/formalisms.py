"""Four ways to keep an attitude, under one force model (lecture "Simulation").

- ``quaternion``: Q_dot = 1/2 Q (0, W); normalised after each step.
- ``euler``: roll, pitch, yaw; singular at a pitch of +-90 degrees, where it stops.
- ``constraint``: Q_dot is a state too, and Q'Q = 1 a Lagrange constraint of the dynamics, see
  :mod:`quadsim.vehicle.formalisms.quaternion_constraint`.
- ``matrix``: R_dot = R [W]x, in local coordinates: R = R_0 exp(theta) with R_0 the attitude at the
  start of the step, so that any Runge-Kutta method stays on the group (H. Munthe-Kaas, *High order
  Runge-Kutta methods on manifolds*, Appl. Numer. Math. 29, 1999).

In the state, the attitude begins at Q: a quaternion, three angles, or theta.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.elementary import cos, sin, tan
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import (
    Mat3,
    Quat,
    compose,
    exp,
    from_euler,
    from_matrix,
    matrix_from_euler,
    multiply,
    normalize,
    to_euler,
    to_matrix,
    to_matrix_scaled,
    wrap,
)
from quadsim.geometry.vector import add, cross, scale
from quadsim.vehicle.formalisms.quaternion_constraint import body_rates_of, rate_of
from quadsim.vehicle.physics import CONSTRAINT, EULER, MATRIX, QUATERNION
from quadsim.vehicle.state import Q_DOT, Q, Vehicle, W, three

#: Angles that change by more than this in one step, in rad, are those of a gimbal lock.
GIMBAL_STEP_RAD = 0.1


@inline
def four(x: Array, start: int) -> Quat:
    """Four elements of a state from ``start`` on."""
    return (x[start], x[start + 1], x[start + 2], x[start + 3])


@inline
def base_matrix(vehicle: Vehicle) -> Mat3:
    """R_0 of the formalism ``matrix``."""
    r = vehicle.R_WB
    return ((r[0], r[1], r[2]), (r[3], r[4], r[5]), (r[6], r[7], r[8]))


@inline
def attitude_matrix(x: Array, vehicle: Vehicle, formalism: int) -> Mat3:
    """R_WB of a state; a quaternion may be a little off the unit sphere."""
    if formalism == EULER:
        return matrix_from_euler(x[Q], x[Q + 1], x[Q + 2])
    if formalism == MATRIX:
        return compose(base_matrix(vehicle), to_matrix(exp(three(x, Q))))
    return to_matrix_scaled(four(x, Q))


@kernel
def attitude_quaternion(x: Array, vehicle: Vehicle, formalism: int) -> Quat:
    """Unit quaternion q_WB of a state."""
    if formalism == EULER:
        return from_euler(x[Q], x[Q + 1], x[Q + 2])
    if formalism == MATRIX:
        return from_matrix(attitude_matrix(x, vehicle, formalism))
    return normalize(four(x, Q))


@kernel
def set_attitude(x: Array, vehicle: Vehicle, formalism: int, q_WB: Quat, w_B: Vec3) -> None:
    """Write attitude and body rates into a state."""
    for i in range(4):
        x[Q + i] = x[Q_DOT + i] = 0.0
    for i in range(3):
        x[W + i] = w_B[i]
    if formalism == EULER:
        angles = to_euler(q_WB)
        for i in range(3):
            x[Q + i] = angles[i]
        return
    if formalism == MATRIX:
        keep_base(vehicle, to_matrix(q_WB))
        return
    for i in range(4):
        x[Q + i] = q_WB[i]
    if formalism == CONSTRAINT:
        q_dot = rate_of(q_WB, w_B)
        for i in range(4):
            x[Q_DOT + i] = q_dot[i]


@kernel
def keep_base(vehicle: Vehicle, R_WB: Mat3) -> None:
    """Write R_0 of the formalism ``matrix``."""
    for i in range(3):
        for k in range(3):
            vehicle.R_WB[3 * i + k] = R_WB[i][k]


@inline
def body_rates(x: Array, formalism: int) -> Vec3:
    """Angular rate w_B of a state in rad/s."""
    if formalism == CONSTRAINT:
        return body_rates_of(four(x, Q), four(x, Q_DOT))
    return three(x, W)


@kernel
def euler_rates(roll: float, pitch: float, w_B: Vec3) -> Vec3:
    """Rates of roll, pitch and yaw in rad/s."""
    s, c = sin(roll), cos(roll)
    about_z = s * w_B[1] + c * w_B[2]
    return (w_B[0] + tan(pitch) * about_z, c * w_B[1] - s * w_B[2], about_z / cos(pitch))


@kernel
def local_rates(theta: Vec3, w_B: Vec3) -> Vec3:
    """theta_dot of R = R_0 exp(theta): the inverse of the right Jacobian of the group, times w_B.

    Source: Sola, Deray and Atchuthan, *A micro Lie theory for state estimation in robotics*, 2018,
    eq. 144; by its series where the angle is small.
    """
    angle2 = theta[0] * theta[0] + theta[1] * theta[1] + theta[2] * theta[2]
    if angle2 < 1e-2:  # the next term is below 1e-14
        factor = 1.0 / 12.0 + angle2 * (1.0 / 720.0 + angle2 * (1.0 / 30240.0 + angle2 / 1209600.0))
    else:
        angle = math.sqrt(angle2)
        factor = 1.0 / angle2 - (1.0 + cos(angle)) / (2.0 * angle * sin(angle))
    turn = cross(theta, w_B)
    return add(add(w_B, scale(0.5, turn)), scale(factor, cross(theta, turn)))


@inline
def write_attitude_rates(x: Array, formalism: int, w_B: Vec3, x_dot: Array) -> None:
    """Derivative of the attitude into ``x_dot[Q : Q + 4]``."""
    if formalism == QUATERNION:
        q_dot = multiply(four(x, Q), (0.0, 0.5 * w_B[0], 0.5 * w_B[1], 0.5 * w_B[2]))
        for i in range(4):
            x_dot[Q + i] = q_dot[i]
        return
    if formalism == CONSTRAINT:
        for i in range(4):
            x_dot[Q + i] = x[Q_DOT + i]
        return
    if formalism == EULER:
        rates = euler_rates(x[Q], x[Q + 1], w_B)
    else:
        rates = local_rates(three(x, Q), w_B)
    for i in range(3):
        x_dot[Q + i] = rates[i]
    x_dot[Q + 3] = 0.0


@inline
def finish_step(x: Array, vehicle: Vehicle, formalism: int, dt_s: float) -> bool:
    """What a formalism does after each step; False at a gimbal lock."""
    if formalism == QUATERNION:
        q = normalize(four(x, Q))
        for i in range(4):
            x[Q + i] = q[i]
    elif formalism == MATRIX:
        keep_base(vehicle, attitude_matrix(x, vehicle, formalism))
        for i in range(3):
            x[Q + i] = 0.0
    elif formalism == CONSTRAINT:
        w_B = body_rates(x, formalism)
        for i in range(3):
            x[W + i] = w_B[i]
    else:
        rates = euler_rates(x[Q], x[Q + 1], three(x, W))
        x[Q], x[Q + 2] = wrap(x[Q]), wrap(x[Q + 2])
        step_rad = max(abs(rates[0]), abs(rates[2])) * dt_s
        slow = abs(x[W]) + abs(x[W + 1]) + abs(x[W + 2])
        return bool(cos(x[Q + 1]) > 0.0 and step_rad <= GIMBAL_STEP_RAD + slow * dt_s)
    return True
