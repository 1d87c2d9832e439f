"""Odometries out of logs that keep position, velocity and attitude apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import LogFile, Stamps
from quadsim.wire.axes import rotation_matrices

Array = NDArray[Any]

#: Of a velocity that is not sent and stands as zero, m^2/s^2.
UNSENT_VARIANCE = 1e6


def at(stamp_ns: Stamps, known_ns: Stamps, values: Array) -> Array:
    """(N, k) values at other stamps, linearly between their own (M, k)."""
    columns = [np.interp(stamp_ns, known_ns, column) for column in np.asarray(values, float).T]
    return np.stack(columns, axis=1)


def add_odometry(
    log: LogFile,
    topic: str,
    attitude: tuple[Stamps, Array],
    place: tuple[Stamps, Array, Array],
    rate: tuple[Stamps, Array] | None = None,
) -> None:
    """Add an odometry at the stamps of its attitudes, where the position beside is known.

    Args:
        log: what it is added to.
        topic: ours.
        attitude: stamps, and (N, 4) q_WB, w first.
        place: stamps, (M, 3) positions in W, (M, 3) velocities in W.
        rate: stamps, and (K, 3) rates in B; None: unknown.
    """
    stamp_ns, q_WB = attitude
    place_ns, p_W, v_W = place
    inside = (stamp_ns >= place_ns[0]) & (stamp_ns <= place_ns[-1])
    at_place = at(stamp_ns, place_ns, p_W)
    inside &= np.isfinite(at_place).all(axis=1)
    stamp_ns, q_WB, p_W = stamp_ns[inside], q_WB[inside], at_place[inside]
    v = np.einsum("nji,nj->ni", rotation_matrices(q_WB), at(stamp_ns, place_ns, v_W))
    w = np.full((len(stamp_ns), 3), np.nan) if rate is None else at(stamp_ns, *rate)
    log.add(topic, stamp_ns, p=p_W, q_xyzw=np.roll(q_WB, -1, axis=1), v=v, w=w)


def quaternions(roll_pitch_yaw: Array) -> Array:
    """(N, 4) quaternions, w first, of (N, 3) angles in rad, turned about z, y, x."""
    from scipy.spatial.transform import Rotation

    return np.roll(Rotation.from_euler("ZYX", roll_pitch_yaw[:, ::-1]).as_quat(), 1, axis=1)


def no_attitude() -> Array:
    """Covariance by which an IMU says that it gives no attitude (REP 145)."""
    covariance = np.zeros((3, 3))
    covariance[0, 0] = -1.0
    return covariance


def diagonal_matrices(sigma: Array) -> Array:
    """(N, 3, 3) covariances of (N, 3) deviations; what is not known is zero."""
    known = np.where(np.isfinite(sigma) & (sigma > 0.0), sigma, 0.0)
    return np.asarray(np.eye(3) * (known**2)[:, None, :])
