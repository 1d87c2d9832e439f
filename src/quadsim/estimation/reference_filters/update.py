"""Covariance, updates and output of the filters that fuse on arrival; none has a gate."""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import Odometry
from quadsim.estimation.eskf.covariance import skew
from quadsim.estimation.eskf.layout import MOTION_SIZE, POSITION, VELOCITY, YAW, Motion
from quadsim.estimation.eskf.measurement_buffer import Timeline
from quadsim.estimation.eskf.update import Sym3, cholesky, judge, whiten
from quadsim.estimation.reference_filters.fusion import turn_to
from quadsim.geometry.rotation import Quat, conjugate, from_euler, quat, to_matrix, wrap
from quadsim.geometry.vector import store, vec3

#: Rotation about the world's axes, in the covariances that are put together for output.
ROTATION = 6


@kernel
def move(covariance: Array, dt_s: float) -> None:
    """Covariance after p += dt v, in place."""
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[POSITION + i, k] += dt_s * covariance[VELOCITY + i, k]
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[k, POSITION + i] += dt_s * covariance[k, VELOCITY + i]


@kernel
def turn(covariance: Array, column: Vec3) -> None:
    """Covariance after v += column yaw, in place."""
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[VELOCITY + i, k] += column[i] * covariance[YAW, k]
    for k in range(MOTION_SIZE):
        for i in range(3):
            covariance[k, VELOCITY + i] += column[i] * covariance[k, YAW]


@kernel
def fuse_number(motion: Motion, innovation: float, variance: float) -> None:
    """Kalman update by one number that sees ``motion.h``; adds to ``motion.correction``.

    x += K (z - h(x)), P = (1 - K H) P, which for one number is symmetric as it stands.
    """
    P, h, ph, correction = motion.covariance, motion.h, motion.ph, motion.correction
    S = variance
    for i in range(MOTION_SIZE):
        ph[i] = 0.0
        for k in range(MOTION_SIZE):
            ph[i] += P[i, k] * h[k]
    for i in range(MOTION_SIZE):
        S += h[i] * ph[i]
        innovation -= h[i] * correction[i]
    for i in range(MOTION_SIZE):
        gain = ph[i] / S
        correction[i] += gain * innovation
        for k in range(MOTION_SIZE):
            P[i, k] -= gain * ph[k]


@kernel
def fuse_vector(
    line: Timeline, sensor: int, at: int, z: Vec3, predicted: Vec3, noise: Sym3
) -> None:
    """Fuse a position or a velocity; nothing happens where its noise is not positive definite."""
    state, motion = line.state, line.motion
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
    store(state.innovation[sensor], y)
    store(state.innovation_variance[sensor], (S[0], S[3], S[5]))
    judge(state, sensor, nis, math.inf)
    first = whiten(L, (1.0, 0.0, 0.0))  # columns of the inverse of L: the whitened rows of H
    second = whiten(L, (0.0, 1.0, 0.0))
    third = whiten(L, (0.0, 0.0, 1.0))
    white = whiten(L, y)
    motion.correction[:] = 0.0
    for i in range(3):
        motion.h[:] = 0.0
        motion.h[at] = first[i]
        motion.h[at + 1] = second[i]
        motion.h[at + 2] = third[i]
        fuse_number(motion, white[i], 1.0)


@kernel
def fuse_heading(line: Timeline, sensor: int, yaw: float, variance: float) -> None:
    """Fuse a heading; the difference goes the short way round."""
    state, motion = line.state, line.motion
    innovation = wrap(yaw - motion.angles[2])
    S = motion.covariance[YAW, YAW] + variance
    state.innovation[sensor, 0], state.innovation_variance[sensor, 0] = innovation, S
    judge(state, sensor, innovation * innovation / S, math.inf)
    motion.h[:] = 0.0
    motion.h[YAW] = 1.0
    motion.correction[:] = 0.0
    fuse_number(motion, innovation, variance)


@kernel
def correct(motion: Motion, q_BS: Quat) -> None:
    """Move the state by ``motion.correction``."""
    x = motion.correction
    for i in range(3):
        motion.p_W[i] += x[POSITION + i]
        motion.v_W[i] += x[VELOCITY + i]
    if x[YAW] != 0.0:
        roll, pitch, yaw = vec3(motion.angles)
        turn_to(motion, from_euler(roll, pitch, wrap(yaw + x[YAW])), q_BS)


@kernel
def motion_odometry(motion: Motion, out: Odometry) -> None:
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
    out.attitude_variance[2] = P[YAW, YAW]


@kernel
def direct_odometry(lines: Records[Timeline], odometry: Records[Odometry]) -> bool:
    """The filter's output, from and into arrays of one record; False: there is none yet."""
    motion_odometry(lines[0].motion, odometry[0])
    return lines[0].motion.running == 1


def whole_covariance(motion: Motion) -> Array:
    """(9, 9) of position, velocity and rotation about the world's axes."""
    out = np.zeros((9, 9))
    at = [*range(6), ROTATION + 2]  # of the yaw
    out[np.ix_(at, at)] = motion.covariance
    out[[ROTATION, ROTATION + 1], [ROTATION, ROTATION + 1]] = motion.tilt_variance
    return out


def direct_pose_covariance(lines: Records[Timeline]) -> Array:
    """Covariance (6, 6) of the pose in ``map``: position, then rotation about its fixed axes."""
    at = [0, 1, 2, ROTATION, ROTATION + 1, ROTATION + 2]
    return whole_covariance(lines[0].motion)[np.ix_(at, at)]


def direct_twist_covariance(lines: Records[Timeline]) -> Array:
    """Covariance (6, 6) of the twist in ``base_link``: linear, then angular velocity.

    u = R^T v, so du = R^T (dv + v x theta); the rate is the gyroscope's, with its noise.
    """
    motion = lines[0].motion
    R_BW = np.array(to_matrix(conjugate(quat(motion.q_WB))))
    J = np.hstack([np.zeros((3, 3)), R_BW, R_BW @ np.array(skew(vec3(motion.v_W)))])
    out = np.diag(np.concatenate([np.zeros(3), motion.w_variance]))
    out[:3, :3] = J @ whole_covariance(motion) @ J.T
    return out
