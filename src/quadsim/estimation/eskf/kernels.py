"""The error-state Kalman filter's kernels, in one place; and its output.

All take the ESKF record first and the packed parameters second. See
:mod:`~quadsim.estimation.eskf.mechanisation` and :mod:`~quadsim.estimation.eskf.gnss`.
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.base.compiled import kernel, new_record
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.alignment import carried
from quadsim.estimation.eskf.covariance import skew, times_row
from quadsim.estimation.eskf.gnss import eskf_gnss_position, eskf_gnss_velocity
from quadsim.estimation.eskf.gnss_time import column, without_time
from quadsim.estimation.eskf.heading import heading_doubt
from quadsim.estimation.eskf.heights import eskf_pressure, eskf_range
from quadsim.estimation.eskf.layout import BG, ESKF, GNSS_TIME, THETA, P, V
from quadsim.estimation.eskf.magnetic_field import eskf_magnetic_field
from quadsim.estimation.eskf.mechanisation import eskf_imu
from quadsim.geometry.rotation import (
    conjugate,
    exp,
    from_euler,
    multiply,
    quat,
    rotate,
    to_matrix,
    unrotate,
)
from quadsim.geometry.vector import add, cross, scale, store, subtract, vec3

__all__ = [
    "ESKF",
    "eskf_gnss_position",
    "eskf_gnss_velocity",
    "eskf_imu",
    "eskf_magnetic_field",
    "eskf_odometry",
    "eskf_pressure",
    "eskf_range",
    "new_eskf",
]


@kernel
def mount(state: Any, params: Any) -> None:
    """Take the mounting of the sensors over into the record, in the IMU's axes."""
    mounts = params.mount
    degree = math.pi / 180.0
    angles = mounts.imu_roll_pitch_yaw_deg
    q_BS = from_euler(degree * angles[0], degree * angles[1], degree * angles[2])
    imu_B = vec3(mounts.imu_position_B_m)
    store(state.q_BS, q_BS)
    store(state.antenna_S, unrotate(q_BS, subtract(vec3(mounts.antenna_position_B_m), imu_B)))
    range_B = subtract(vec3(mounts.rangefinder_position_B_m), imu_B)
    store(state.rangefinder_S, unrotate(q_BS, range_B))


def new_eskf(params: Any) -> Any:
    """A filter that has seen nothing yet.

    Args:
        params: packed :class:`~quadsim.estimation.eskf.parameters.EstimatorParams`.
    """
    state = new_record(ESKF)
    state.q_WS[0] = 1.0
    state.alignment.q_0S[0] = 1.0
    state.inertial.q_FS[0] = 1.0
    state.n = carried(params)
    store(state.field_W_T, vec3(params.magnetic_field_W_T))
    mount(state, params)
    return state


@kernel
def eskf_odometry(state: Any, params: Any, odometry: Any) -> None:
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
    odometry.stamp_ns = state.stamp_ns
    store(odometry.q_WB, q_WB)
    store(odometry.w_B, w_B)
    for i in range(3):
        p, v, theta = covariance[P + i], covariance[V + i], covariance[THETA + i]
        odometry.p_W[i] = state.p_W[i] + share * p[GNSS_TIME]
        odometry.v_W[i] = state.v_W[i] + share * v[GNSS_TIME]
        odometry.p_variance[i] = p[P + i] - certain * p[GNSS_TIME] ** 2
        odometry.v_variance[i] = v[V + i] - certain * v[GNSS_TIME] ** 2
        odometry.attitude_variance[i] = theta[THETA + i] - certain * theta[GNSS_TIME] ** 2
    odometry.attitude_variance[2] += heading_doubt(state)
    if r_B[0] == 0.0 and r_B[1] == 0.0 and r_B[2] == 0.0:
        return
    lever_W = rotate(q_WB, r_B)
    swing_W = rotate(q_WB, cross(w_B, r_B))
    R_WS = to_matrix(q_WS)
    r_S = unrotate(q_BS, r_B)
    row, product, noise = state.row, state.product, state.w_variance
    for i in range(3):
        odometry.p_W[i] -= lever_W[i]
        odometry.v_W[i] -= swing_W[i]
        row[:] = 0.0
        row[P + i] = 1.0
        put_cross(row, THETA, i, lever_W)
        variance = times_row(covariance, state.n, row, product)
        odometry.p_variance[i] = variance - certain * product[GNSS_TIME] ** 2
        row[:] = 0.0
        row[V + i] = 1.0
        put_cross(row, THETA, i, swing_W)
        of_rate = cross(R_WS[i], r_S)  # -R (dw x r) = (R_i x r) . (-dw), dw = -dbg - noise
        variance = 0.0
        for k in range(3):
            row[BG + k] = -of_rate[k]
            variance += of_rate[k] * of_rate[k] * noise[k]
        variance += times_row(covariance, state.n, row, product)
        odometry.v_variance[i] = variance - certain * product[GNSS_TIME] ** 2


@kernel
def put_cross(row: Any, at: int, axis: int, a: Vec3) -> None:
    """Write row ``axis`` of the matrix of a x."""
    b = skew(a)[axis]
    for k in range(3):
        row[at + k] = b[k]
