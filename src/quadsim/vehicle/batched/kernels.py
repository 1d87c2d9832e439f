"""Kernels of a crowd: many vehicles side by side, one in each lane of the processor's registers.

A block of ``LANES`` vehicles lies in a small array, one row for each number of the state, one
column (lane) for each vehicle. A loop over the lanes of plain arithmetic, with no branch and with
distances in memory that the compiler knows, becomes vector instructions. Each lane's arithmetic is
that of one vehicle alone: neither the lane nor the threads change a bit of the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import inline, kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, multiply, normalize, rotate, unrotate
from quadsim.geometry.vector import add, cross, scale, subtract
from quadsim.vehicle.state import ROTOR, P, Q, V, W

Array = NDArray[np.float64]

#: Vehicles of a block: its rows, 512 bytes each, stay in the processor's first cache.
LANES = 64

#: Rows of a block: those of the state (13 and a speed for each rotor), the rotors' commands, what
#: the attitude law goes for (attitude, collective thrust) and keeps (its integral, the body rates
#: at its last call; rows from the commands' end), and working memory, five rows for each rotor.
WANTED_Q, WANTED_THRUST, INTEGRAL, LAST_W, LAW_ROWS = 0, 4, 5, 8, 11


class Airframe(NamedTuple):
    """What the model takes of the vehicle and of the world; SI."""

    mass_kg: float
    inertia_kg_m2: Vec3
    inverse_inertia: Vec3  # a division costs as much as ten products
    rotors: tuple[tuple[float, float, float, float], ...]  # hub in B (m) and sense of rotation
    thrust_N_s2: float
    torque_ratio_m: float
    drag_N_s2: float
    rolling_N_s2: float
    rotor_inertia_kg_m2: float
    speed_min_radps: float
    speed_max_radps: float
    rate_up_per_s: float
    rate_down_per_s: float
    body_drag_N_s_m: Vec3
    gravity_mps2: float
    gravity_gradient_per_s2: float
    wind_W_mps: Vec3
    rest_height_m: float  # of the centre of mass where the vehicle stands on the ground


@kernel
def load_block(columns: Array, start: int, width: int, first: int, last: int, s: Array) -> None:
    """Copy rows of some vehicles into a block; lanes that are left repeat the last of them."""
    for k in range(first, last):
        for i in range(width):
            s[k * LANES + i] = columns[k, start + i]
        for i in range(width, LANES):
            s[k * LANES + i] = s[k * LANES + width - 1]


@kernel
def store_block(columns: Array, start: int, width: int, first: int, last: int, s: Array) -> None:
    """Copy rows of a block's vehicles back."""
    for k in range(first, last):
        for i in range(width):
            columns[k, start + i] = s[k * LANES + i]


@kernel
def not_finite(s: Array, rows: int) -> int:
    """The first lane in which a row is not finite, -1 without one; the last row is overwritten."""
    total = s[s.size - LANES :]
    for i in range(LANES):
        total[i] = 0.0
    for k in range(rows):
        for i in range(LANES):
            total[i] += s[k * LANES + i]
    for i in range(LANES):
        if not np.isfinite(total[i]):
            return i
    return -1


@inline
def read3(s: Array, row: int, i: int) -> Vec3:
    """Three rows of lane ``i``."""
    k = row * LANES + i
    return (s[k], s[k + LANES], s[k + 2 * LANES])


@inline
def read4(s: Array, row: int, i: int) -> Quat:
    """Four rows of lane ``i``."""
    k = row * LANES + i
    return (s[k], s[k + LANES], s[k + 2 * LANES], s[k + 3 * LANES])


@inline
def write(s: Array, row: int, i: int, values: tuple[float, ...]) -> None:
    """Rows of lane ``i`` from a tuple."""
    for k in range(len(values)):
        s[(row + k) * LANES + i] = values[k]


@inline
def clip(value: float, low: float, high: float) -> float:
    """The value within its limits; what is not a number stays so."""
    return low if value < low else (high if value > high else value)


@inline
def along3(x: Vec3, h: float, x_dot: Vec3) -> Vec3:
    """Sum x + h x_dot."""
    return (x[0] + h * x_dot[0], x[1] + h * x_dot[1], x[2] + h * x_dot[2])


@inline
def along4(x: Quat, h: float, x_dot: Quat) -> Quat:
    """Sum x + h x_dot."""
    return (
        x[0] + h * x_dot[0],
        x[1] + h * x_dot[1],
        x[2] + h * x_dot[2],
        x[3] + h * x_dot[3],
    )


@inline
def weigh(a: float, b: float, c: float, d: float) -> float:
    """Weighted sum of the four slopes of Runge and Kutta."""
    return a + 2.0 * b + 2.0 * c + d


@inline
def weigh3(a: Vec3, b: Vec3, c: Vec3, d: Vec3) -> Vec3:
    """The same of vectors."""
    return (
        weigh(a[0], b[0], c[0], d[0]),
        weigh(a[1], b[1], c[1], d[1]),
        weigh(a[2], b[2], c[2], d[2]),
    )


@inline
def weigh4(a: Quat, b: Quat, c: Quat, d: Quat) -> Quat:
    """The same of quaternions."""
    return (
        weigh(a[0], b[0], c[0], d[0]),
        weigh(a[1], b[1], c[1], d[1]),
        weigh(a[2], b[2], c[2], d[2]),
        weigh(a[3], b[3], c[3], d[3]),
    )


@inline
def slopes(
    z_m: float,
    v_W: Vec3,
    q: Quat,
    w_B: Vec3,
    s: Array,
    i: int,
    speeds: int,
    accelerations: int,
    body: Airframe,
) -> tuple[Vec3, Quat, Vec3]:
    """Derivatives of velocity, attitude and body rates; those of the rotors go to their rows.

    The forces of ``vehicle.propulsion.rotors`` (rotor drag and rolling moment proportional to
    rotor speed), linear body drag, gravity and the rotors' angular momentum.

    Args:
        z_m: height.
        v_W, q, w_B: velocity, attitude (of any norm) and body rates.
        s, i: the block and the lane.
        speeds: first row of the rotor speeds.
        accelerations: first row of their derivatives, which are written.
        body: vehicle and world.
    """
    q_WB = normalize(q)
    air_B = unrotate(q_WB, subtract(v_W, body.wind_W_mps))
    drag = body.body_drag_N_s_m
    force = (-drag[0] * air_B[0], -drag[1] * air_B[1], -drag[2] * air_B[2])
    torque = (0.0, 0.0, 0.0)
    momentum, momentum_dot = 0.0, 0.0
    commands = ROTOR + len(body.rotors)
    for k in range(len(body.rotors)):
        x, y, z, direction = body.rotors[k]
        speed = s[(speeds + k) * LANES + i]
        error = s[(commands + k) * LANES + i] - speed
        speed_dot = error * (body.rate_up_per_s if error > 0.0 else body.rate_down_per_s)
        s[(accelerations + k) * LANES + i] = speed_dot
        momentum += direction * speed
        momentum_dot += direction * speed_dot
        thrust = body.thrust_N_s2 * speed * speed
        hub = add(air_B, cross(w_B, (x, y, z)))
        in_disc, rolling = -body.drag_N_s2 * speed, -direction * body.rolling_N_s2 * speed
        f = (in_disc * hub[0], in_disc * hub[1], thrust)
        own = (rolling * hub[0], rolling * hub[1], -direction * body.torque_ratio_m * thrust)
        force = add(force, f)
        torque = add(torque, add(own, cross((x, y, z), f)))
    a_W = scale(1.0 / body.mass_kg, rotate(q_WB, force))
    gravity = body.gravity_mps2 - body.gravity_gradient_per_s2 * z_m
    inertia, inverse = body.inertia_kg_m2, body.inverse_inertia
    spin = body.rotor_inertia_kg_m2
    along = (
        inertia[0] * w_B[0],
        inertia[1] * w_B[1],
        inertia[2] * w_B[2] + spin * momentum,
    )
    net = subtract(torque, cross(w_B, along))
    return (
        (a_W[0], a_W[1], a_W[2] - gravity),
        multiply(q, (0.0, 0.5 * w_B[0], 0.5 * w_B[1], 0.5 * w_B[2])),
        (net[0] * inverse[0], net[1] * inverse[1], (net[2] - spin * momentum_dot) * inverse[2]),
    )


@inline
def put(s: Array, i: int, p_W: Vec3, v_W: Vec3, q: Quat, w_B: Vec3, body: Airframe) -> None:
    """Store a lane's new motion: a unit quaternion, and no way through the ground."""
    if p_W[2] < body.rest_height_m:
        p_W = (p_W[0], p_W[1], body.rest_height_m)
        v_W = (0.0, 0.0, 0.0)
    write(s, P, i, p_W)
    write(s, V, i, v_W)
    write(s, Q, i, normalize(q))
    write(s, W, i, w_B)


@inline
def euler_lane(s: Array, i: int, dt_s: float, body: Airframe) -> None:
    """One step of the explicit Euler method in one lane."""
    work = ROTOR + 2 * len(body.rotors) + LAW_ROWS
    p_W, v_W, q, w_B = read3(s, P, i), read3(s, V, i), read4(s, Q, i), read3(s, W, i)
    a_W, q_dot, w_dot = slopes(p_W[2], v_W, q, w_B, s, i, ROTOR, work, body)
    for k in range(len(body.rotors)):
        s[(ROTOR + k) * LANES + i] += dt_s * s[(work + k) * LANES + i]
    put(
        s, i, along3(p_W, dt_s, v_W), along3(v_W, dt_s, a_W), along4(q, dt_s, q_dot),
        along3(w_B, dt_s, w_dot), body,
    )  # fmt: skip


@inline
def rk4_lane(s: Array, i: int, dt_s: float, body: Airframe) -> None:
    """One step of the classical Runge-Kutta method in one lane."""
    n = len(body.rotors)
    work = ROTOR + 2 * n + LAW_ROWS
    probe, m1, m2, m3, m4 = work, work + n, work + 2 * n, work + 3 * n, work + 4 * n
    p_W, v_W, q, w_B = read3(s, P, i), read3(s, V, i), read4(s, Q, i), read3(s, W, i)
    h = 0.5 * dt_s
    a1, q1, w1 = slopes(p_W[2], v_W, q, w_B, s, i, ROTOR, m1, body)
    v2 = along3(v_W, h, a1)
    for k in range(n):
        s[(probe + k) * LANES + i] = s[(ROTOR + k) * LANES + i] + h * s[(m1 + k) * LANES + i]
    a2, q2, w2 = slopes(
        p_W[2] + h * v_W[2], v2, along4(q, h, q1), along3(w_B, h, w1), s, i, probe, m2, body
    )
    v3 = along3(v_W, h, a2)
    for k in range(n):
        s[(probe + k) * LANES + i] = s[(ROTOR + k) * LANES + i] + h * s[(m2 + k) * LANES + i]
    a3, q3, w3 = slopes(
        p_W[2] + h * v2[2], v3, along4(q, h, q2), along3(w_B, h, w2), s, i, probe, m3, body
    )
    v4 = along3(v_W, dt_s, a3)
    for k in range(n):
        s[(probe + k) * LANES + i] = s[(ROTOR + k) * LANES + i] + dt_s * s[(m3 + k) * LANES + i]
    a4, q4, w4 = slopes(
        p_W[2] + dt_s * v3[2], v4, along4(q, dt_s, q3), along3(w_B, dt_s, w3), s, i, probe, m4, body
    )
    sixth = dt_s / 6.0
    for k in range(n):
        r = k * LANES + i
        slope = weigh(s[m1 * LANES + r], s[m2 * LANES + r], s[m3 * LANES + r], s[m4 * LANES + r])
        s[ROTOR * LANES + r] += sixth * slope
    put(
        s, i,
        along3(p_W, sixth, weigh3(v_W, v2, v3, v4)), along3(v_W, sixth, weigh3(a1, a2, a3, a4)),
        along4(q, sixth, weigh4(q1, q2, q3, q4)), along3(w_B, sixth, weigh3(w1, w2, w3, w4)), body,
    )  # fmt: skip
