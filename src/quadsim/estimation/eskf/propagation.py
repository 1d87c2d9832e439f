"""Covariance over one step of the mechanisation, by its block sparsity; nothing is stored between.

Of the error state, one step changes attitude, velocity and position, by themselves and by the
biases of the IMU; all else stands still. So F P F^T is a few products of blocks of nine, in
registers, and for what lies next to these five parts a chain of sums column by column.
"""

from __future__ import annotations

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import crossed, less, scaled, skew
from quadsim.estimation.eskf.layout import BA, BG, FIELD_BIAS, PRESSURE, THETA, WIND, P, V
from quadsim.estimation.eskf.parameters import NoiseParams
from quadsim.geometry.lanes import Rows, added, columns, gained, rows_at, upper_mirrored
from quadsim.geometry.rotation import Mat3


@inline
def row_dot(a: Vec3, x: float, y: float, z: float) -> float:
    """Scalar product."""
    return a[0] * x + a[1] * y + a[2] * z


@inline
def rotated(R: Mat3, variance: Vec3) -> Mat3:
    """R diag(variance) R^T."""
    a, b, c = R
    x, y, z = variance
    ab = a[0] * b[0] * x + a[1] * b[1] * y + a[2] * b[2] * z
    ac = a[0] * c[0] * x + a[1] * c[1] * y + a[2] * c[2] * z
    bc = b[0] * c[0] * x + b[1] * c[1] * y + b[2] * c[2] * z
    return (
        (a[0] * a[0] * x + a[1] * a[1] * y + a[2] * a[2] * z, ab, ac),
        (ab, b[0] * b[0] * x + b[1] * b[1] * y + b[2] * b[2] * z, bc),
        (ac, bc, c[0] * c[0] * x + c[1] * c[1] * y + c[2] * c[2] * z),
    )


@inline
def put_rows(covariance: Array, i: int, k: int, A: Rows) -> None:
    """Write a block of nine and its mirror image."""
    a, b, c = A
    covariance[i, k], covariance[i, k + 1], covariance[i, k + 2] = a[0], a[1], a[2]
    covariance[i + 1, k], covariance[i + 1, k + 1], covariance[i + 1, k + 2] = b[0], b[1], b[2]
    covariance[i + 2, k], covariance[i + 2, k + 1], covariance[i + 2, k + 2] = c[0], c[1], c[2]
    if i != k:
        covariance[k, i], covariance[k, i + 1], covariance[k, i + 2] = a[0], b[0], c[0]
        covariance[k + 1, i], covariance[k + 1, i + 1], covariance[k + 1, i + 2] = a[1], b[1], c[1]
        covariance[k + 2, i], covariance[k + 2, i + 1], covariance[k + 2, i + 2] = a[2], b[2], c[2]


@kernel
def walk(covariance: Array, at: int, size: int, density: float, dt_s: float) -> None:
    """Random walk of a part of the state."""
    for i in range(at, at + size):
        covariance[i, i] += density * density * dt_s


@kernel
def propagate_motion(
    covariance: Array,
    half_s: float,
    first: Mat3,
    tip: Mat3,
    push: Mat3,
    second: Mat3,
    angle_noise: Mat3,
    velocity_noise: Mat3,
) -> None:
    """The parts of the motion and the IMU's biases over one step; see :func:`propagate`.

    F P F^T as six shears x += A y of one part by another, each from both sides: position by
    velocity, attitude by the gyroscope's bias, velocity by attitude and by the accelerometer's,
    attitude again, position again. Each block of nine stays in registers from the first shear to
    the last, three rows with the rows of attitude, velocity and position along them; of the
    symmetric ones the upper half counts.

    Args:
        covariance: (N, N), changed in place.
        half_s: half the step.
        first: what the gyroscope's bias turns in the first half.
        tip: what a turn does to the velocity.
        push: what the accelerometer's bias does to it.
        second: what the gyroscope's bias turns in the second half.
        angle_noise: white noise of each half's rotation.
        velocity_noise: of the step's velocity.
    """
    TT, TV = rows_at(covariance, THETA, THETA), rows_at(covariance, THETA, V)
    TP, VP = rows_at(covariance, THETA, P), rows_at(covariance, V, P)
    VV, PP = rows_at(covariance, V, V), rows_at(covariance, P, P)
    GT, GV, GP = (
        rows_at(covariance, BG, THETA), rows_at(covariance, BG, V), rows_at(covariance, BG, P)
    )  # fmt: skip
    AT, AV, AP = (
        rows_at(covariance, BA, THETA), rows_at(covariance, BA, V), rows_at(covariance, BA, P)
    )  # fmt: skip
    GG, GA = rows_at(covariance, BG, BG), rows_at(covariance, BG, BA)
    AG, AA = rows_at(covariance, BA, BG), rows_at(covariance, BA, BA)
    tips, pushes = columns(tip), columns(push)

    PP, TP, VP, GP, AP = move_position(half_s, PP, TP, VP, GP, AP, TV, VV, GV, AV)
    TT, TV, TP, GT, AT = turn_step(first, angle_noise, TT, TV, TP, GT, AT, GV, GP, GG, AG)

    VV = gained(VV, tip, TV)
    TV = gained(TV, TT, tips)
    VP = gained(VP, tip, TP)
    GV, AV = gained(GV, GT, tips), gained(AV, AT, tips)
    VV = gained(VV, columns(TV), tips)

    VV = gained(VV, push, AV)
    TV = gained(TV, columns(AT), pushes)
    VP, GV = gained(VP, push, AP), gained(GV, GA, pushes)
    AV = gained(AV, AA, pushes)
    VV = with_noise(gained(VV, columns(AV), pushes), velocity_noise)

    TT, TV, TP, GT, AT = turn_step(second, angle_noise, TT, TV, TP, GT, AT, GV, GP, GG, AG)
    PP, TP, VP, GP, AP = move_position(half_s, PP, TP, VP, GP, AP, TV, VV, GV, AV)

    put_rows(covariance, THETA, THETA, TT)
    put_rows(covariance, THETA, V, TV)
    put_rows(covariance, THETA, P, TP)
    put_rows(covariance, BG, THETA, GT)
    put_rows(covariance, BA, THETA, AT)
    put_rows(covariance, V, V, VV)
    put_rows(covariance, V, P, VP)
    put_rows(covariance, BG, V, GV)
    put_rows(covariance, BA, V, AV)
    put_rows(covariance, P, P, upper_mirrored(PP))
    put_rows(covariance, BG, P, GP)
    put_rows(covariance, BA, P, AP)


@inline
def with_noise(A: Rows, noise: Mat3) -> Rows:
    """A symmetric block by its upper half, and noise."""
    return added(upper_mirrored(A), 1.0, columns(noise))


@inline
def move_position(
    half_s: float, PP: Rows, TP: Rows, VP: Rows, GP: Rows, AP: Rows, TV: Rows, VV: Rows, GV: Rows,
    AV: Rows,
) -> tuple[Rows, Rows, Rows, Rows, Rows]:  # fmt: skip
    """Half a step of the position by the velocity; the first five blocks afterwards."""
    PP = added(PP, half_s, VP)
    VP = added(VP, half_s, VV)
    PP = added(PP, half_s, columns(VP))
    return PP, added(TP, half_s, TV), VP, added(GP, half_s, GV), added(AP, half_s, AV)


@inline
def turn_step(
    by: Mat3, noise: Mat3, TT: Rows, TV: Rows, TP: Rows, GT: Rows, AT: Rows, GV: Rows, GP: Rows,
    GG: Rows, AG: Rows,
) -> tuple[Rows, Rows, Rows, Rows, Rows]:  # fmt: skip
    """Half a step of the attitude by the gyroscope's bias; the first five blocks afterwards."""
    turns = columns(by)
    TT = gained(TT, by, GT)
    TV, TP = gained(TV, by, GV), gained(TP, by, GP)
    GT, AT = gained(GT, GG, turns), gained(AT, AG, turns)
    return with_noise(gained(TT, columns(GT), turns), noise), TV, TP, GT, AT


@kernel
def propagate_rest(
    covariance: Array, n: int, half_s: float, first: Mat3, tip: Mat3, push: Mat3, second: Mat3
) -> None:
    """What lies next to them: each column alone; see :func:`propagate_motion` for the arguments."""
    for k in range(PRESSURE, n):
        t0, t1, t2 = covariance[THETA, k], covariance[THETA + 1, k], covariance[THETA + 2, k]
        v0, v1, v2 = covariance[V, k], covariance[V + 1, k], covariance[V + 2, k]
        p0, p1, p2 = covariance[P, k], covariance[P + 1, k], covariance[P + 2, k]
        g0, g1, g2 = covariance[BG, k], covariance[BG + 1, k], covariance[BG + 2, k]
        a0, a1, a2 = covariance[BA, k], covariance[BA + 1, k], covariance[BA + 2, k]
        p0, p1, p2 = p0 + half_s * v0, p1 + half_s * v1, p2 + half_s * v2
        t0 += row_dot(first[0], g0, g1, g2)
        t1 += row_dot(first[1], g0, g1, g2)
        t2 += row_dot(first[2], g0, g1, g2)
        v0 += row_dot(tip[0], t0, t1, t2)
        v1 += row_dot(tip[1], t0, t1, t2)
        v2 += row_dot(tip[2], t0, t1, t2)
        v0 += row_dot(push[0], a0, a1, a2)
        v1 += row_dot(push[1], a0, a1, a2)
        v2 += row_dot(push[2], a0, a1, a2)
        t0 += row_dot(second[0], g0, g1, g2)
        t1 += row_dot(second[1], g0, g1, g2)
        t2 += row_dot(second[2], g0, g1, g2)
        p0, p1, p2 = p0 + half_s * v0, p1 + half_s * v1, p2 + half_s * v2
        covariance[THETA, k], covariance[THETA + 1, k], covariance[THETA + 2, k] = t0, t1, t2
        covariance[V, k], covariance[V + 1, k], covariance[V + 2, k] = v0, v1, v2
        covariance[P, k], covariance[P + 1, k], covariance[P + 2, k] = p0, p1, p2
        covariance[k, THETA], covariance[k, THETA + 1], covariance[k, THETA + 2] = t0, t1, t2
        covariance[k, V], covariance[k, V + 1], covariance[k, V + 2] = v0, v1, v2
        covariance[k, P], covariance[k, P + 1], covariance[k, P + 2] = p0, p1, p2


@kernel
def propagate(
    covariance: Array,
    n: int,
    R_WS: Mat3,
    f_W: Vec3,
    turn_W: Vec3,
    dt_s: float,
    angle_variance: Vec3,
    velocity_variance: Vec3,
    noise: NoiseParams,
) -> None:
    """Covariance over one step of the midpoint mechanisation: its exact linearisation.

    The half steps of rotation and position about the step of velocity are those of the
    mechanisation itself: the attitude in the middle turns the specific force, the position goes
    with the mean of both velocities. White noise enters the same way.

    Args:
        covariance: (N, N), changed in place.
        n: size of the part that is carried.
        R_WS: attitude in the middle of the step.
        f_W: specific force in the world, m/s^2.
        turn_W: rotation of the step, rad.
        dt_s: length of the step.
        angle_variance: white noise of the step's rotation about the IMU's axes, rad^2.
        velocity_variance: of its velocity along the IMU's axes, (m/s)^2.
        noise: the ``noise`` of the packed parameters, for the walks.
    """
    half_s = 0.5 * dt_s
    # the gyroscope's bias acts in the axes of the middle of each half
    step = scaled(-half_s, R_WS)
    quarter = crossed((0.25 * turn_W[0], 0.25 * turn_W[1], 0.25 * turn_W[2]), step)
    half_angle = (0.5 * angle_variance[0], 0.5 * angle_variance[1], 0.5 * angle_variance[2])
    first, second = less(step, quarter), less(step, scaled(-1.0, quarter))
    tip = skew((-dt_s * f_W[0], -dt_s * f_W[1], -dt_s * f_W[2]))
    push = scaled(-dt_s, R_WS)
    propagate_motion(
        covariance, half_s, first, tip, push, second,
        rotated(R_WS, half_angle), rotated(R_WS, velocity_variance),
    )  # fmt: skip
    propagate_rest(covariance, n, half_s, first, tip, push, second)
    gyro_walk = noise.gyro_bias_walk * noise.gyro_bias_walk * dt_s
    accel_walk = noise.accel_bias_walk * noise.accel_bias_walk * dt_s
    for i in range(3):
        covariance[BG + i, BG + i] += gyro_walk
        covariance[BA + i, BA + i] += accel_walk
    covariance[PRESSURE, PRESSURE] += noise.pressure_walk * noise.pressure_walk * dt_s
    if n > FIELD_BIAS:
        walk(covariance, FIELD_BIAS, 3, noise.field_bias_walk, dt_s)
    if n > WIND:
        walk(covariance, WIND, 2, noise.wind_walk, dt_s)
