"""Rotations: Hamilton quaternions, ``w`` first, as tuples; ``q_AB`` turns B's axes into A's.

Euler angles are yaw-pitch-roll about z, y', x'' (aerospace sequence): R = Rz(yaw) Ry(pitch)
Rx(roll). Closed forms after Sola, *Quaternion kinematics for the error-state Kalman filter*, 2017.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, lane_kernel
from quadsim.base.elementary import asin, atan2, cos, sin
from quadsim.base.parameters import Vec3

Quat = tuple[float, float, float, float]
Mat3 = tuple[Vec3, Vec3, Vec3]


@lane_kernel
def quat(array: Array | tuple[float, ...]) -> Quat:
    """First four elements of an array as a quaternion."""
    return (array[0], array[1], array[2], array[3])


@lane_kernel
def multiply(a: Quat, b: Quat) -> Quat:
    """Hamilton product; multiply(q_AB, q_BC) = q_AC."""
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@lane_kernel
def conjugate(q: Quat) -> Quat:
    """Inverse of a unit quaternion: q_AB to q_BA."""
    return (q[0], -q[1], -q[2], -q[3])


@lane_kernel
def normalize(q: Quat) -> Quat:
    """The unit quaternion of the same direction."""
    factor = 1.0 / math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return (factor * q[0], factor * q[1], factor * q[2], factor * q[3])


@lane_kernel
def rotate(q: Quat, v: Vec3) -> Vec3:
    """v_A = R(q_AB) v_B."""
    # v + 2 w (u x v) + 2 u x (u x v), u the vector part
    tx = 2.0 * (q[2] * v[2] - q[3] * v[1])
    ty = 2.0 * (q[3] * v[0] - q[1] * v[2])
    tz = 2.0 * (q[1] * v[1] - q[2] * v[0])
    return (
        v[0] + q[0] * tx + q[2] * tz - q[3] * ty,
        v[1] + q[0] * ty + q[3] * tx - q[1] * tz,
        v[2] + q[0] * tz + q[1] * ty - q[2] * tx,
    )


@lane_kernel
def unrotate(q: Quat, v: Vec3) -> Vec3:
    """v_B = R(q_AB)^T v_A."""
    return rotate(conjugate(q), v)


@lane_kernel
def to_matrix(q: Quat) -> Mat3:
    """Rotation matrix of a unit quaternion, as a tuple of rows."""
    w, x, y, z = q
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


@lane_kernel
def to_matrix_scaled(q: Quat) -> Mat3:
    """Rotation matrix of a quaternion of any length but zero, without a square root."""
    w, x, y, z = q
    s = 2.0 / (w * w + x * x + y * y + z * z)
    sx, sy, sz = s * x, s * y, s * z
    return (
        (1.0 - (y * sy + z * sz), x * sy - w * sz, x * sz + w * sy),
        (x * sy + w * sz, 1.0 - (x * sx + z * sz), y * sz - w * sx),
        (x * sz - w * sy, y * sz + w * sx, 1.0 - (x * sx + y * sy)),
    )


@lane_kernel
def exp(phi: Vec3) -> Quat:
    """Quaternion of a rotation vector in rad."""
    angle2 = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2]
    if angle2 < 1e-8:  # the series is exact to 1e-19 here
        half = 0.5 - angle2 / 48.0
        return (1.0 - angle2 / 8.0, half * phi[0], half * phi[1], half * phi[2])
    angle = math.sqrt(angle2)
    factor = sin(0.5 * angle) / angle
    return (cos(0.5 * angle), factor * phi[0], factor * phi[1], factor * phi[2])


@lane_kernel
def log(q: Quat) -> Vec3:
    """Rotation vector in rad of a unit quaternion, at most pi long (q and -q alike)."""
    sign = -1.0 if q[0] < 0.0 else 1.0
    sine2 = q[1] * q[1] + q[2] * q[2] + q[3] * q[3]
    if sine2 < 1e-4:  # the series of asin(s)/s is exact to 3e-18 here, and five times as fast
        series = 1.0 + sine2 * (1.0 / 6.0 + sine2 * (3.0 / 40.0 + sine2 * (5.0 / 112.0)))
        factor = sign * 2.0 * series
    else:
        sine = math.sqrt(sine2)
        factor = sign * 2.0 * atan2(sine, sign * q[0]) / sine
    return (factor * q[1], factor * q[2], factor * q[3])


@lane_kernel
def from_euler(roll: float, pitch: float, yaw: float) -> Quat:
    """Quaternion from roll, pitch and yaw in rad."""
    cr, sr = cos(0.5 * roll), sin(0.5 * roll)
    cp, sp = cos(0.5 * pitch), sin(0.5 * pitch)
    cy, sy = cos(0.5 * yaw), sin(0.5 * yaw)
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


@lane_kernel
def to_euler(q: Quat) -> Vec3:
    """Roll, pitch and yaw in rad; pitch within +-pi/2."""
    w, x, y, z = q
    roll = atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x))))
    return (roll, pitch, yaw_of(q))


@lane_kernel
def yaw_of(q: Quat) -> float:
    """Yaw in rad."""
    w, x, y, z = q
    return atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


@lane_kernel
def wrap(angle: float) -> float:
    """The same angle within (-pi, pi]."""
    return angle - 2.0 * math.pi * math.ceil((angle - math.pi) / (2.0 * math.pi))


@lane_kernel
def apply(R_AB: Mat3, v: Vec3) -> Vec3:
    """v_A = R_AB v_B."""
    x, y, z = R_AB
    return (
        x[0] * v[0] + x[1] * v[1] + x[2] * v[2],
        y[0] * v[0] + y[1] * v[1] + y[2] * v[2],
        z[0] * v[0] + z[1] * v[1] + z[2] * v[2],
    )


@lane_kernel
def apply_inverse(R_AB: Mat3, v: Vec3) -> Vec3:
    """v_B = R_AB^T v_A."""
    x, y, z = R_AB
    return (
        x[0] * v[0] + y[0] * v[1] + z[0] * v[2],
        x[1] * v[0] + y[1] * v[1] + z[1] * v[2],
        x[2] * v[0] + y[2] * v[1] + z[2] * v[2],
    )


@lane_kernel
def compose(R_AB: Mat3, R_BC: Mat3) -> Mat3:
    """R_AC = R_AB R_BC."""
    x, y, z = (
        apply_inverse(R_BC, R_AB[0]),
        apply_inverse(R_BC, R_AB[1]),
        apply_inverse(R_BC, R_AB[2]),
    )
    return (x, y, z)


@lane_kernel
def matrix_from_euler(roll: float, pitch: float, yaw: float) -> Mat3:
    """Rotation matrix from roll, pitch and yaw in rad."""
    cr, sr = cos(roll), sin(roll)
    cp, sp = cos(pitch), sin(pitch)
    cy, sy = cos(yaw), sin(yaw)
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


@lane_kernel
def from_matrix(R: Mat3) -> Quat:
    """Unit quaternion of a rotation matrix, w >= 0.

    Source: S. W. Shepperd, *Quaternion from rotation matrix*, J. Guidance and Control 1, 1978: the
    largest of the four components is found first, so that nothing small is divided by.
    """
    (a, b, c), (d, e, f), (g, h, i) = R
    trace = a + e + i
    if trace >= max(a, e, i):
        q = (1.0 + trace, h - f, c - g, d - b)
    elif a >= max(e, i):
        q = (h - f, 1.0 + a - e - i, b + d, c + g)
    elif e >= i:
        q = (c - g, b + d, 1.0 - a + e - i, f + h)
    else:
        q = (d - b, c + g, f + h, 1.0 - a - e + i)
    q = normalize(q)
    return q if q[0] >= 0.0 else (-q[0], -q[1], -q[2], -q[3])
