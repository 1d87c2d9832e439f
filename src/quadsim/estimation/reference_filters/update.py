"""Covariance, updates and output of the filters that fuse on arrival; none has a gate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, owning_kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import skew
from quadsim.estimation.eskf.outputs import put, sandwich, transpose
from quadsim.estimation.eskf.update import Sym3, cholesky, whiten
from quadsim.estimation.reference_filters.fusion import HEADING, POSITION, SIZE, VELOCITY, turn_to
from quadsim.geometry.rotation import Quat, conjugate, from_euler, quat, to_matrix, unrotate, wrap
from quadsim.geometry.vector import store, vec3

#: Rotation about the world's axes, in the covariances that are put together for output.
ROTATION = 6


@kernel
def move(covariance: Any, dt_s: float) -> None:
    """Covariance after p += dt v, in place."""
    for k in range(SIZE):
        for i in range(3):
            covariance[POSITION + i, k] += dt_s * covariance[VELOCITY + i, k]
    for k in range(SIZE):
        for i in range(3):
            covariance[k, POSITION + i] += dt_s * covariance[k, VELOCITY + i]


@kernel
def turn(covariance: Any, column: Vec3) -> None:
    """Covariance after v += column yaw, in place."""
    for k in range(SIZE):
        for i in range(3):
            covariance[VELOCITY + i, k] += column[i] * covariance[HEADING, k]
    for k in range(SIZE):
        for i in range(3):
            covariance[k, VELOCITY + i] += column[i] * covariance[k, HEADING]


@kernel
def fuse_number(motion: Any, innovation: float, variance: float) -> None:
    """Kalman update by one number that sees ``motion.row``; adds to ``motion.correction``.

    x += K (z - h(x)), P = (1 - K H) P, which for one number is symmetric as it stands.
    """
    P, row, product, correction = motion.covariance, motion.row, motion.product, motion.correction
    total = variance
    for i in range(SIZE):
        product[i] = 0.0
        for k in range(SIZE):
            product[i] += P[i, k] * row[k]
    for i in range(SIZE):
        total += row[i] * product[i]
        innovation -= row[i] * correction[i]
    for i in range(SIZE):
        gain = product[i] / total
        correction[i] += gain * innovation
        for k in range(SIZE):
            P[i, k] -= gain * product[k]


@kernel
def count(motion: Any, sensor: int, nis: float) -> None:
    """Keep what an update says about the filter: the normalised innovation squared."""
    motion.nis[sensor] = nis
    motion.nis_sum[sensor] += nis
    motion.accepted[sensor] += 1


@kernel
def fuse_vector(motion: Any, sensor: int, at: int, z: Vec3, predicted: Vec3, noise: Sym3) -> None:
    """Fuse a position or a velocity; nothing happens where its noise is not positive definite."""
    P = motion.covariance
    y = (z[0] - predicted[0], z[1] - predicted[1], z[2] - predicted[2])
    S = (
        P[at, at] + noise[0],
        P[at, at + 1] + noise[1],
        P[at, at + 2] + noise[2],
        P[at + 1, at + 1] + noise[3],
        P[at + 1, at + 2] + noise[4],
        P[at + 2, at + 2] + noise[5],
    )
    L = cholesky(noise)
    a, b, c = whiten(cholesky(S), y)
    nis = a * a + b * b + c * c
    if not (math.isfinite(nis) and math.isfinite(L[5])):
        return
    count(motion, sensor, nis)
    first = whiten(L, (1.0, 0.0, 0.0))  # columns of the inverse of L: the whitened rows of H
    second = whiten(L, (0.0, 1.0, 0.0))
    third = whiten(L, (0.0, 0.0, 1.0))
    white = whiten(L, y)
    motion.correction[:] = 0.0
    for i in range(3):
        motion.row[:] = 0.0
        motion.row[at] = first[i]
        motion.row[at + 1] = second[i]
        motion.row[at + 2] = third[i]
        fuse_number(motion, white[i], 1.0)


@kernel
def fuse_heading(motion: Any, sensor: int, yaw: float, variance: float) -> None:
    """Fuse a heading; the difference goes the short way round."""
    innovation = wrap(yaw - motion.angles[2])
    total = motion.covariance[HEADING, HEADING] + variance
    count(motion, sensor, innovation * innovation / total)
    motion.row[:] = 0.0
    motion.row[HEADING] = 1.0
    motion.correction[:] = 0.0
    fuse_number(motion, innovation, variance)


@kernel
def correct(motion: Any, q_BS: Quat) -> None:
    """Move the state by ``motion.correction``."""
    x = motion.correction
    for i in range(3):
        motion.p_W[i] += x[POSITION + i]
        motion.v_W[i] += x[VELOCITY + i]
    if x[HEADING] != 0.0:
        roll, pitch, yaw = vec3(motion.angles)
        turn_to(motion, from_euler(roll, pitch, wrap(yaw + x[HEADING])), q_BS)


@kernel
def motion_odometry(motion: Any, out: Any) -> None:
    """The filter's output: from a MOTION into an ODOMETRY record."""
    P = motion.covariance
    out.stamp_ns = motion.stamp_ns
    store(out.p_W, vec3(motion.p_W))
    store(out.v_W, vec3(motion.v_W))
    store(out.q_WB, quat(motion.q_WB))
    store(out.w_B, vec3(motion.w_B))
    for i in range(3):
        out.p_variance[i] = P[POSITION + i, POSITION + i]
        out.v_variance[i] = P[VELOCITY + i, VELOCITY + i]
        out.attitude_variance[i] = motion.tilt_variance
    out.attitude_variance[2] = P[HEADING, HEADING]


@kernel
def direct_odometry(lines: Any, odometry: Any) -> None:
    """The filter's output, from and into arrays of one record."""
    motion_odometry(lines[0].motion, odometry[0])


@owning_kernel
def whole_covariance(motion: Any) -> NDArray[np.float64]:
    """(9, 9) of position, velocity and rotation about the world's axes."""
    out = np.zeros((9, 9))
    for i in range(6):
        for k in range(6):
            out[i, k] = motion.covariance[i, k]
        out[i, ROTATION + 2] = motion.covariance[i, HEADING]
        out[ROTATION + 2, i] = motion.covariance[HEADING, i]
    out[ROTATION, ROTATION] = motion.tilt_variance
    out[ROTATION + 1, ROTATION + 1] = motion.tilt_variance
    out[ROTATION + 2, ROTATION + 2] = motion.covariance[HEADING, HEADING]
    return out


@owning_kernel
def direct_pose_covariance(lines: Any) -> NDArray[np.float64]:
    """Covariance (6, 6) of the pose in ``map``: position, then rotation about its fixed axes."""
    one = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    J = np.zeros((6, 9))
    put(J, 0, POSITION, 1.0, one)
    put(J, 3, ROTATION, 1.0, one)
    out = np.zeros((6, 6))
    sandwich(J, whole_covariance(lines[0].motion), out)
    return out


@owning_kernel
def direct_twist_covariance(lines: Any) -> NDArray[np.float64]:
    """Covariance (6, 6) of the twist in ``base_link``: linear, then angular velocity.

    u = R^T v, so du = R^T (dv + v x theta); the rate is the gyroscope's, with its noise.
    """
    motion = lines[0].motion
    q_WB = quat(motion.q_WB)
    R_BW = to_matrix(conjugate(q_WB))
    turned = skew(unrotate(q_WB, vec3(motion.v_W)))  # R^T (v x theta) = (R^T v) x (R^T theta)
    columns = transpose(R_BW)
    J = np.zeros((6, 9))
    put(J, 0, VELOCITY, 1.0, R_BW)
    for i in range(3):
        t = turned[i]
        for c in range(3):
            k = columns[c]
            J[i, ROTATION + c] = t[0] * k[0] + t[1] * k[1] + t[2] * k[2]
    out = np.zeros((6, 6))
    sandwich(J, whole_covariance(motion), out)
    for i in range(3):
        out[3 + i, 3 + i] = motion.w_variance[i]
    return out
