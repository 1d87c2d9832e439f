"""Turning arrays of vectors, covariances and attitudes from a driver's axes to ENU and FLU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.geometry.rotation import Quat

Array = NDArray[Any]
_HALF_SQRT2 = 0.7071067811865476
#: Turns NED axes into ENU axes (its own inverse up to sign).
Q_ENU_NED: Quat = (0.0, _HALF_SQRT2, _HALF_SQRT2, 0.0)
#: Turns FRD axes into FLU axes.
Q_FLU_FRD: Quat = (0.0, 1.0, 0.0, 0.0)

#: Driver's axes to the quaternion (w first) that turns them into ENU, or into FLU.
_Q_WORLD = {
    "enu": (1.0, 0.0, 0.0, 0.0),
    "ned": Q_ENU_NED,
    "y_up": (_HALF_SQRT2, _HALF_SQRT2, 0.0, 0.0),  # east, up, south, as of OptiTrack's Motive
}
_Q_BODY = {
    "flu": (1.0, 0.0, 0.0, 0.0),
    "frd": Q_FLU_FRD,
    "rfu": (_HALF_SQRT2, 0.0, 0.0, -_HALF_SQRT2),  # right, forward, up
    "y_up": (_HALF_SQRT2, _HALF_SQRT2, 0.0, 0.0),  # forward, up, right
}
_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def rotation_matrices(q: Array) -> Array:
    """(N, 3, 3) matrices of (N, 4) unit quaternions, w first."""
    w, x, y, z = q.T
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
        ],
        -2,
    )


#: Driver's axes to the (3, 3) matrix that turns its vectors; exact, for it is a permutation.
WORLD = {name: np.round(rotation_matrices(np.array([q]))[0]) for name, q in _Q_WORLD.items()}
BODY = {name: np.round(rotation_matrices(np.array([q]))[0]) for name, q in _Q_BODY.items()}


def turned_rows(R: Array, vectors: Array) -> Array:
    """(N, 3) vectors in other axes, as float64."""
    return np.asarray(vectors.astype(float) @ R.T)


def about(R: Array, covariance: Array) -> Array:
    """(N, 3, 3) covariances in other axes; ``R`` is (3, 3) or one for each."""
    return np.asarray(R @ covariance @ np.swapaxes(R, -1, -2))


def about_both(R: Array, covariance: Array) -> Array:
    """(N, 6, 6) covariances of two vectors that both turn with the (3, 3) matrix."""
    both = np.zeros((6, 6))
    both[:3, :3] = both[3:, 3:] = R
    return np.asarray(both @ covariance @ both.T)


def attitude(world: str, body: str, q: Array) -> Array:
    """(N, 4) attitudes of the driver's body axes in its world axes, as FLU in ENU; w first."""
    if (world, body) == ("enu", "flu"):
        return q
    return multiply_rows(multiply_rows(np.array(_Q_WORLD[world]), q), _CONJUGATE * _Q_BODY[body])


def attitude_out(world: str, body: str, q_WB: Any) -> Array:
    """(4,) attitude of FLU in ENU as that of a driver's body axes in its world; w first."""
    to_world = multiply_rows(_CONJUGATE * _Q_WORLD[world], np.asarray(q_WB))
    return multiply_rows(to_world, np.array(_Q_BODY[body]))


def multiply_rows(a: Array, b: Array) -> Array:
    """Hamilton products of (..., 4) quaternions, w first."""
    w, x, y, z = np.moveaxis(a, -1, 0)
    s, i, j, k = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            w * s - x * i - y * j - z * k,
            w * i + x * s + y * k - z * j,
            w * j - x * k + y * s + z * i,
            w * k + x * j - y * i + z * s,
        ],
        -1,
    )
