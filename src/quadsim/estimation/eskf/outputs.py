"""The filter's output: motion of ``base_link``, and covariances of its pose and twist."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Records, kernel, owning_kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import Odometry
from quadsim.estimation.eskf.covariance import skew, times_row
from quadsim.estimation.eskf.gnss import column, without_time
from quadsim.estimation.eskf.heading import heading_doubt
from quadsim.estimation.eskf.layout import BG, GNSS_TIME, THETA, Eskf, N, P, V
from quadsim.estimation.eskf.measurement_buffer import Buffer
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.geometry.rotation import (
    Mat3,
    conjugate,
    exp,
    multiply,
    quat,
    rotate,
    to_matrix,
    unrotate,
)
from quadsim.geometry.vector import add, cross, dot, scale, store, subtract, vec3


@kernel
def mount_variance(params: EstimatorParams) -> float:
    """Variance of the turn of ``base_link`` against the IMU about each axis, rad^2."""
    sigma = math.radians(params.mount.imu_sigma_deg)
    return sigma * sigma


@kernel
def place_variance(params: EstimatorParams) -> float:
    """Variance of the IMU's place in ``base_link`` along each axis, m^2."""
    return params.mount.imu_sigma_m * params.mount.imu_sigma_m


@kernel
def eskf_odometry(state: Eskf, params: EstimatorParams, odometry: Odometry) -> None:
    """Motion of ``base_link``: what the filter knows of the IMU, moved by its mount.

    p_B = p_S - R r, v_B = v_S - R (w x r) with r the IMU's place. The variances are those of the
    moved point, in the world's axes.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        odometry: ODOMETRY record to fill.
    """
    covariance = state.covariance
    q_BS = quat(state.q_BS)
    share, certain = without_time(state)
    turn = scale(share, column(covariance, THETA))
    q_WS = multiply(exp(turn), quat(state.q_WS))
    q_WB = multiply(q_WS, conjugate(q_BS))
    r_B = vec3(params.mount.imu_position_B_m)
    bias_S = add(vec3(state.gyro_bias_S), scale(share, column(covariance, BG)))
    w_B = rotate(q_BS, subtract(vec3(state.w_S), bias_S))
    if state.turns_unseen == 1:
        w_B = (0.0, 0.0, 0.0)  # and its deviation is a guess
    odometry.w_variance = state.w_variance[0]
    odometry.stamp_ns = state.stamp_ns
    store(odometry.q_WB, q_WB)
    store(odometry.w_B, w_B)
    for i in range(3):
        p, v, theta = covariance[P + i], covariance[V + i], covariance[THETA + i]
        odometry.p_W[i] = state.p_W[i] + share * p[GNSS_TIME]
        odometry.v_W[i] = state.v_W[i] + share * v[GNSS_TIME]
        odometry.p_variance[i] = p[P + i] - certain * p[GNSS_TIME] ** 2 + place_variance(params)
        odometry.v_variance[i] = v[V + i] - certain * v[GNSS_TIME] ** 2
        odometry.attitude_variance[i] = theta[THETA + i] - certain * theta[GNSS_TIME] ** 2
        odometry.attitude_variance[i] += mount_variance(params)
    odometry.attitude_variance[2] += heading_doubt(state)
    if r_B[0] == 0.0 and r_B[1] == 0.0 and r_B[2] == 0.0:
        return
    lever_W = rotate(q_WB, r_B)
    swing_W = rotate(q_WB, cross(w_B, r_B))
    R_WS = to_matrix(q_WS)
    r_S = unrotate(q_BS, r_B)
    h, ph, noise = state.h, state.ph, state.w_variance
    for i in range(3):
        odometry.p_W[i] -= lever_W[i]
        odometry.v_W[i] -= swing_W[i]
        h[:] = 0.0
        h[P + i] = 1.0
        put_cross(h, THETA, i, lever_W)
        variance = times_row(covariance, state.n, h, ph)
        variance += place_variance(params)
        odometry.p_variance[i] = variance - certain * ph[GNSS_TIME] ** 2
        h[:] = 0.0
        h[V + i] = 1.0
        put_cross(h, THETA, i, swing_W)
        of_rate = cross(R_WS[i], r_S)  # -R (dw x r) = (R_i x r) . (-dw), dw = -dbg - noise
        variance = 0.0
        for k in range(3):
            h[BG + k] = -of_rate[k]
            variance += of_rate[k] * of_rate[k] * noise[k]
        variance += times_row(covariance, state.n, h, ph)
        odometry.v_variance[i] = variance - certain * ph[GNSS_TIME] ** 2


@kernel
def put_cross(row: Array, at: int, axis: int, a: Vec3) -> None:
    """Write row ``axis`` of the matrix of a x."""
    b = skew(a)[axis]
    for k in range(3):
        row[at + k] = b[k]


@kernel
def line_odometry(lines: Records[Buffer], odometry: Records[Odometry]) -> bool:
    """The filter's output, from and into arrays of one record; False: there is none yet."""
    eskf_odometry(lines[0].state, lines[0].params, odometry[0])
    return lines[0].state.running == 1


@kernel
def put_block(out: Array, row: int, column: int, factor: float, A: Mat3) -> None:
    """Write a scaled 3 x 3 block."""
    for i in range(3):
        a = A[i]
        out[row + i, column] = factor * a[0]
        out[row + i, column + 1] = factor * a[1]
        out[row + i, column + 2] = factor * a[2]


@kernel
def transpose(A: Mat3) -> Mat3:
    """Matrix with rows and columns exchanged."""
    a, b, c = A
    return ((a[0], b[0], c[0]), (a[1], b[1], c[1]), (a[2], b[2], c[2]))


@kernel
def sandwich(J: Array, covariance: Array, out: Array) -> None:
    """Add J P J^T to ``out``."""
    rows, columns = J.shape
    for i in range(rows):
        for j in range(rows):
            total = 0.0
            for a in range(columns):
                if J[i, a] != 0.0:
                    for b in range(columns):
                        total += J[i, a] * covariance[a, b] * J[j, b]
            out[i, j] += total


@kernel
def take_off(J: Array, state: Eskf, out: Array) -> None:
    """Take off what an unknown time offset adds, while stamps count as exact."""
    _, certain = without_time(state)
    rows, columns = J.shape
    for i in range(rows):
        for j in range(rows):
            a, b = 0.0, 0.0
            for k in range(columns):
                a += J[i, k] * state.covariance[k, GNSS_TIME]
                b += J[j, k] * state.covariance[k, GNSS_TIME]
            out[i, j] -= certain * a * b


@owning_kernel
def pose_covariance(lines: Records[Buffer]) -> NDArray[np.float64]:
    """Covariance of the pose of ``base_link`` in ``map``: position, then rotation.

    The rotation is about the fixed axes of ``map``, as geometry_msgs/PoseWithCovariance defines it.

    Args:
        lines: (1,) TIMELINE.

    Returns:
        (6, 6) m^2, m rad, rad^2.
    """
    state, params = lines[0].state, lines[0].params
    q_WB = multiply(quat(state.q_WS), conjugate(quat(state.q_BS)))
    lever_W = rotate(q_WB, vec3(params.mount.imu_position_B_m))
    one = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    J = np.zeros((6, N))
    put_block(J, 0, P, 1.0, one)
    put_block(J, 0, THETA, 1.0, skew(lever_W))  # p_S - R r, and -theta x (R r) = (R r) x theta
    put_block(J, 3, THETA, 1.0, one)
    out = np.zeros((6, 6))
    sandwich(J, state.covariance, out)
    take_off(J, state, out)
    out[5, 5] += heading_doubt(state)
    for i in range(3):
        out[i, i] += place_variance(params)
        out[3 + i, 3 + i] += mount_variance(params)
    return out


@owning_kernel
def twist_covariance(lines: Records[Buffer]) -> NDArray[np.float64]:
    """Covariance of the twist of ``base_link`` in its own axes: linear, then angular.

    Linear: u = R^T v_S - w x r, so du = R^T (dv + v x theta) + r x dw; angular: dw = -R_BS (dbg +
    noise), with the gyroscope's noise of one sample.

    Args:
        lines: (1,) TIMELINE.

    Returns:
        (6, 6) (m/s)^2, m rad/s^2, (rad/s)^2.
    """
    state, params = lines[0].state, lines[0].params
    q_BS = quat(state.q_BS)
    q_BW = multiply(q_BS, conjugate(quat(state.q_WS)))
    R_BW = to_matrix(q_BW)
    R_BS = to_matrix(q_BS)
    swing = skew(vec3(params.mount.imu_position_B_m))
    G = np.zeros((6, 3))  # of an error of the rate, in S
    for c in range(3):
        for i in range(3):
            s = swing[i]
            G[i, c] = s[0] * R_BS[0][c] + s[1] * R_BS[1][c] + s[2] * R_BS[2][c]
    put_block(G, 3, 0, 1.0, R_BS)
    J = np.zeros((6, N))
    put_block(J, 0, V, 1.0, R_BW)
    v_B = rotate(q_BW, vec3(state.v_W))
    turn = skew(v_B)  # R^T (v x theta) = (R^T v) x (R^T theta)
    columns = transpose(R_BW)
    for i in range(3):
        t = turn[i]
        for c in range(3):
            k = columns[c]
            J[i, THETA + c] = t[0] * k[0] + t[1] * k[1] + t[2] * k[2]
    for i in range(6):
        for c in range(3):
            J[i, BG + c] = -G[i, c]
    out = np.zeros((6, 6))
    sandwich(J, state.covariance, out)
    take_off(J, state, out)
    noise = np.zeros((3, 3))
    for c in range(3):
        noise[c, c] = state.w_variance[c]
    sandwich(G, noise, out)
    mount = mount_variance(params)  # turns the velocity in the body's axes
    for i in range(3):
        out[i, i] += mount * dot(v_B, v_B)
        for c in range(3):
            out[i, c] -= mount * v_B[i] * v_B[c]
    return out
