"""The flight manager's view of the ground beneath: readings in, predictions out."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from quadsim.control.ground import (
    EARLY,
    FAR,
    NEAR,
    TAKEN,
    GroundParams,
    ground_at,
    ground_motion,
    ground_range,
    new_ground,
)
from quadsim.parameters import pack
from quadsim.world.raycast_terrain import NO_TERRAIN, TerrainArrays

#: Readings that wait for an odometry as new as they are.
MOST_WAITING = 64


class Ground:
    """The ground as far as it is known; see :mod:`quadsim.control.ground`.

    Readings are dropped until somebody wants the ground (:meth:`use`): most flights do not.

    Args:
        params: how it is learned.
        terrain: elevation data; looked at only with ``params.map``.
        flat_m: height of the ground outside of them, m.

    Attributes:
        used: whether readings are taken in.
    """

    def __init__(
        self, params: GroundParams, terrain: TerrainArrays = NO_TERRAIN, flat_m: float = 0.0
    ) -> None:
        self.used = False
        self._terrain = terrain if params.map else NO_TERRAIN
        self._params = params
        self._packed = np.array([pack(params)])
        self._grounds = new_ground(flat_m)
        self._ground = self._grounds[0]
        self._waiting: deque[tuple[int, float, float, float]] = deque(maxlen=MOST_WAITING)
        self._stamp_ns = 0
        self._seen_ns: int | None = None
        self._heard: tuple[int, int] | None = None  # stamp of the newest reading, what became of it

    @property
    def mapped(self) -> bool:
        """Whether there are elevation data."""
        return len(self._terrain.heights) > 0

    @property
    def age_s(self) -> float:
        """Time since the newest reading that was taken; infinite before the first."""
        return np.inf if self._seen_ns is None else (self._stamp_ns - self._seen_ns) * 1e-9

    @property
    def known(self) -> bool:
        """Whether a reading is recent enough to fly on, or the ground is on the map."""
        return self.mapped or self.age_s <= self._params.timeout_s

    @property
    def is_near(self) -> bool:
        """Whether the newest reading said "too near"."""
        return self._heard is not None and self._heard[1] == NEAR

    @property
    def is_far(self) -> bool:
        """Whether readings come, the newest of which said "nothing within reach"."""
        if self._heard is None or self._heard[1] != FAR:
            return False
        return (self._stamp_ns - self._heard[0]) * 1e-9 <= self._params.timeout_s

    def use(self) -> None:
        """Take readings in from now on."""
        self.used = True

    def take(
        self, stamp_ns: int, range_m: float, variance_m2: float, half_beam_rad: float = 0.0
    ) -> None:
        """Keep a reading until :meth:`step` has an odometry as new.

        Args:
            stamp_ns: of the reading.
            range_m: along body -z; +inf: nothing within reach, -inf: too near, NaN: nothing known.
            variance_m2: of it; not above 0: not stated.
            half_beam_rad: half the width of the beam, 0 for a ray.
        """
        if self.used:
            self._waiting.append((stamp_ns, range_m, variance_m2, half_beam_rad))

    def step(self, odometry: Any) -> None:
        """Move on to an odometry (an ODOMETRY record) and take in the readings up to it."""
        if not self.used:
            return
        ground_motion(self._grounds, self._packed, odometry)
        self._stamp_ns = int(odometry.stamp_ns)
        while self._waiting:
            reading = self._waiting[0]
            found = ground_range(self._grounds, self._packed, self._terrain, *reading)
            if found == EARLY:
                return
            self._waiting.popleft()
            self._heard = (reading[0], found)
            if found == TAKEN:
                self._seen_ns = reading[0]

    def at(self, x: float, y: float) -> tuple[float, float, float]:
        """Height in W in m, and slope towards east and north, predicted at a point of W.

        Where nothing was seen yet it is the map's, or 0.
        """
        return ground_at(self._grounds, self._terrain, x, y, self._params.reach_m)
