"""Trajectories of polynomial pieces in x, y, z and yaw, as a Crazyflie is sent them.

They are evaluated as its firmware does (bitcraze/crazyflie-firmware, pptraj.c): stretched in time,
backwards, moved, and at rest after the last piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.parameters import Vec3
from quadsim.mission.reference.legs import Motion
from quadsim.mission.trajectories.course import ZERO
from quadsim.mission.trajectories.polynomials import Polynomials

#: Coefficients of a polynomial: degree 7.
COEFFICIENTS = 8

_ORDERS = range(COEFFICIENTS)
#: From coefficients in tau to those in 1 - tau.
_REFLECTION = np.array(
    [[(1 - 2 * (j % 2)) * math.comb(k, j) for k in _ORDERS] for j in _ORDERS], dtype=float
)


class Piece(NamedTuple):
    """One piece.

    Attributes:
        duration_s: > 0.
        coefficients: of x, y, z in m and yaw in rad, 8 each, in ascending powers of time in s.
    """

    duration_s: float
    coefficients: tuple[tuple[float, ...], ...]


class PieceTrajectory:
    """Pieces one after the other.

    Args:
        timescale: how many times as long it takes.
        backwards: whether it is flown from its end to its start.
        shift_W: added to its places, m.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        timescale: float = 1.0,
        backwards: bool = False,
        shift_W: Vec3 = ZERO,
    ) -> None:
        steps_s = np.array([piece.duration_s for piece in pieces])
        coefficients: Array = np.array([piece.coefficients for piece in pieces], dtype=float)
        coefficients *= np.vander(steps_s, COEFFICIENTS, increasing=True)[:, None]  # of tau
        coefficients[:, :3, 0] += shift_W
        if backwards:
            steps_s = steps_s[::-1]
            coefficients = np.einsum("jk,nak->naj", _REFLECTION, coefficients[::-1])
        knots_s = np.concatenate([[0.0], np.cumsum(steps_s * timescale)])
        self._course = Polynomials(knots_s, coefficients)

    @property
    def duration_s(self) -> float:
        """Time from its start to its end."""
        return self._course.length_s

    def at(self, t_s: float) -> Motion:
        """Motion at a time; at rest after the end."""
        p, v, a, yaw, rate = self._course.at(t_s)
        return (p, v, a, yaw, rate) if t_s < self.duration_s else (p, ZERO, ZERO, yaw, 0.0)
