"""Covariances of the published pose and twist."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, owning_kernel
from quadsim.estimation.eskf.covariance import skew
from quadsim.estimation.eskf.gnss_time import without_time
from quadsim.estimation.eskf.heading import heading_doubt
from quadsim.estimation.eskf.layout import BG, GNSS_TIME, THETA, N, P, V
from quadsim.geometry.rotation import Mat3, conjugate, multiply, quat, rotate, to_matrix
from quadsim.geometry.vector import vec3


@kernel
def put(out: Any, row: int, column: int, factor: float, A: Mat3) -> None:
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
def sandwich(J: Any, covariance: Any, out: Any) -> None:
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
def take_off(J: Any, state: Any, out: Any) -> None:
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
def pose_covariance(lines: Any) -> NDArray[np.float64]:
    """Covariance of the pose of ``base_link`` in ``map``: position, then rotation.

    The rotation is about the fixed axes of ``map``, as geometry_msgs/PoseWithCovariance says.

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
    put(J, 0, P, 1.0, one)
    put(J, 0, THETA, 1.0, skew(lever_W))  # p_S - R r, and -theta x (R r) = (R r) x theta
    put(J, 3, THETA, 1.0, one)
    out = np.zeros((6, 6))
    sandwich(J, state.covariance, out)
    take_off(J, state, out)
    out[5, 5] += heading_doubt(state)
    return out


@owning_kernel
def twist_covariance(lines: Any) -> NDArray[np.float64]:
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
    put(G, 3, 0, 1.0, R_BS)
    J = np.zeros((6, N))
    put(J, 0, V, 1.0, R_BW)
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
    return out
