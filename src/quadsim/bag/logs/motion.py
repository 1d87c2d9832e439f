"""Odometries out of logs that keep position, velocity and attitude apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import LogFile, Stamps
from quadsim.wire.axes import BODY, rotation_matrices, turned_rows

Array = NDArray[Any]

#: Of a velocity that is not sent and stands as zero, m^2/s^2.
UNSENT_VARIANCE = 1e6


def columns_at(at: Array, known: Array, values: Array) -> Array:
    """(N, k) columns of values (M, k) at other times, linear between theirs, held beyond the ends.

    Args:
        at: (N,) stamps, or s.
        known: (M,) rising, in the same unit.
    """
    return np.stack([np.interp(at, known, column) for column in values.T], axis=1)


def add_odometry(
    log: LogFile,
    topic: str,
    attitude: tuple[Stamps, Array],
    place: tuple[Stamps, Array, Array],
    rate: tuple[Stamps, Array] | None = None,
) -> None:
    """Add an odometry at the stamps of its attitudes, where the position is known too.

    Args:
        attitude: stamps, and (N, 4) q_WB, w first.
        place: stamps, (M, 3) positions in W, (M, 3) velocities in W.
        rate: stamps, and (K, 3) rates in B; None: unknown.
    """
    stamp_ns, q_WB = attitude
    place_ns, p_W, v_W = place
    inside = (stamp_ns >= place_ns[0]) & (stamp_ns <= place_ns[-1])
    at_place = columns_at(stamp_ns, place_ns, p_W)
    inside &= np.isfinite(at_place).all(axis=1)
    stamp_ns, q_WB, p_W = stamp_ns[inside], q_WB[inside], at_place[inside]
    v = np.einsum("nji,nj->ni", rotation_matrices(q_WB), columns_at(stamp_ns, place_ns, v_W))
    w = np.full((len(stamp_ns), 3), np.nan) if rate is None else columns_at(stamp_ns, *rate)
    log.add(topic, stamp_ns, p=p_W, q_xyzw=np.roll(q_WB, -1, axis=1), v=v, w=w)


def steps_s(stamp_ns: Stamps) -> Array:
    """(N,) time since the sample before; the usual one where that is a gap, or the first."""
    step_s = np.diff(stamp_ns, prepend=stamp_ns[0]) * 1e-9
    usual_s = float(np.median(step_s[1:])) if len(step_s) > 1 else 0.0
    step_s[(step_s <= 0.0) | (step_s > 1.5 * usual_s)] = usual_s
    return np.asarray(step_s)


def add_flow(
    log: LogFile, stamp_ns: Stamps, quality: Array, interval_s: Array, flow: Array, turn: Array
) -> None:
    """Add optical flows as :func:`quadsim.wire.samples.flow_messages`; NaN where the quality is 0.

    Args:
        stamp_ns: (N,) ends of the intervals.
        quality: (N,) from 0 to 255.
        interval_s: (N,) of them.
        flow, turn: (N, 3) rates in rad/s about the axes of FRD; of the flow the third is 0.
    """
    v, w = (interval_s[:, None] * turned_rows(BODY["frd"], rates) for rates in (flow, turn))
    v[:, 2] = interval_s
    v[quality == 0.0, :2] = np.nan
    covariance = np.zeros((len(v), 6, 6))
    covariance[:, 2, 2] = quality / 255.0
    log.add("flow/down", stamp_ns, v=v, w=w, covariance=covariance)


def quaternions(roll_pitch_yaw: Array) -> Array:
    """(N, 4) quaternions, w first, of (N, 3) angles in rad, about z, y, x in turn."""
    from scipy.spatial.transform import Rotation

    return np.roll(Rotation.from_euler("ZYX", roll_pitch_yaw[:, ::-1]).as_quat(), 1, axis=1)


def no_attitude() -> Array:
    """Covariance of an IMU that gives no attitude (REP 145)."""
    covariance = np.zeros((3, 3))
    covariance[0, 0] = -1.0
    return covariance


def diagonal_matrices(sigma: Array) -> Array:
    """(N, 3, 3) covariances of (N, 3) deviations; what is not known is zero."""
    known = np.where(np.isfinite(sigma) & (sigma > 0.0), sigma, 0.0)
    return np.asarray(np.eye(3) * (known**2)[:, None, :])
