"""Numbers that the drawing needs: angles of rotors, axes of ellipsoids, rows worth drawing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.analysis.metrics import yaws_of
from quadsim.sim.log import Array, Stamps

#: Drawn rotors turn this much slower than true ones, of which a picture shows but a flicker.
ROTOR_SLOWING = 40.0


@dataclass(slots=True)
class Rotors:
    """Angles of rotors, integrated from their speeds by the trapezoidal rule, block by block.

    A rotor that a gap longer than ``max_gap_ns`` hides stands still in it.
    """

    max_gap_ns: int = 500_000_000
    _stamp_ns: int | None = None
    _speed_radps: Array = field(default_factory=lambda: np.zeros(0))
    _angle: Array = field(default_factory=lambda: np.zeros(0))

    def turn(self, stamp_ns: Stamps, speed_radps: Array) -> Array:
        """Angles of the next block.

        Args:
            stamp_ns: (N,) rising, later than the block before.
            speed_radps: (N, n) speeds, rad/s, positive.

        Returns:
            (N, n) rad since the first sample of all, not wrapped.
        """
        if self._stamp_ns is None or self._speed_radps.shape != speed_radps.shape[1:]:
            self._stamp_ns = int(stamp_ns[0])
            self._speed_radps, self._angle = speed_radps[0], np.zeros(speed_radps.shape[1])
        steps_ns = np.diff(stamp_ns, prepend=self._stamp_ns)
        steps_s = np.where(steps_ns > self.max_gap_ns, 0, steps_ns) * 1e-9
        before = np.vstack([self._speed_radps[None], speed_radps[:-1]])
        angle = self._angle + np.cumsum(0.5 * (before + speed_radps) * steps_s[:, None], axis=0)
        self._stamp_ns = int(stamp_ns[-1])
        self._speed_radps, self._angle = speed_radps[-1], angle[-1]
        return angle


def ellipsoids(covariance: Array, sigmas: float = 3.0) -> tuple[Array, Array]:
    """Half axes and attitudes of the ellipsoids at which a position is so many deviations off.

    Args:
        covariance: (N, 3, 3) in m^2, symmetric; what is not finite or negative counts as none.

    Returns:
        (N, 3) half axes in m, rising; (N, 4) quaternions, w first, that turn the axes of the
        ellipsoid into the covariance's.
    """
    covariance = np.where(np.isfinite(covariance), covariance, 0.0)
    values, vectors = np.linalg.eigh(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))
    vectors[:, :, 0] *= np.linalg.det(vectors)[:, None]  # right-handed, so that it is a rotation
    return sigmas * np.sqrt(np.maximum(values, 0.0)), wxyz(Rotation.from_matrix(vectors))


def wxyz(rotation: Rotation) -> Array:
    """(N, 4) quaternions, w first."""
    return np.roll(rotation.as_quat(), 1, axis=-1)


def xyzw(q: Array) -> Array:
    """Quaternions with w last, as Rerun takes them, of (N, 4) ones with w first."""
    return np.roll(q, -1, axis=-1)


def heading(q_WB: Array) -> Array:
    """(N, 4) the same quaternions without roll and pitch."""
    yaw = 0.5 * yaws_of(q_WB)
    zero = np.zeros_like(yaw)
    return np.stack([np.cos(yaw), zero, zero, np.sin(yaw)], axis=1)


def spaced(stamp_ns: Stamps, period_ns: int, last_ns: int | None = None) -> NDArray[np.intp]:
    """Rows of which each is the first of its period, none in the period of ``last_ns``.

    Args:
        stamp_ns: (N,) rising.
    """
    slots = stamp_ns // period_ns
    before = -1 if last_ns is None else last_ns // period_ns
    return np.flatnonzero(np.diff(slots, prepend=before) > 0)
