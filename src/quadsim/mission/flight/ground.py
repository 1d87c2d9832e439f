"""The flight manager's view of the ground beneath: readings in, predictions out."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3, pack
from quadsim.estimation.terrain import (
    EARLY,
    FAR,
    NEAR,
    TAKEN,
    GroundParams,
    ground_at,
    ground_motion,
    ground_range,
    heights_ahead,
    new_ground,
)
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays

#: Readings that wait for an odometry as new as they are.
MOST_WAITING = 64
#: Points ahead at which the ground is looked up.
POINTS_AHEAD = 6
#: Stamp of what has never been: any time lies longer ago than every timeout.
NEVER_NS = -(2**62)
#: In place of a reading, where none waits.
NO_READING = (NEVER_NS, math.nan, 0.0, 0.0)

#: What became of a reading; stamp, x and y of the odometry; height of the ground, slope towards
#: east and towards north there.
Seen = tuple[int, int, float, float, float, float, float]


@kernel
def ground_tick(
    grounds: Any,
    params: Any,
    heights: Any,
    frame: Any,
    levels: Any,
    maxima: Any,
    odometries: Any,
    stamp_ns: int,
    range_m: float,
    variance_m2: float,
    half_beam_rad: float,
) -> Seen:
    """Take note of an odometry, then of a reading, and look at the ground beneath: all of a tick.

    Args:
        grounds: (1,) GROUND records, changed in place.
        params: (1,) packed GroundParams.
        heights, frame, levels, maxima: of the TerrainArrays.
        odometries: (1,) ODOMETRY, whole.
        stamp_ns, range_m, variance_m2, half_beam_rad: as of
            :func:`quadsim.estimation.terrain.ground_range`.

    Returns:
        As :data:`Seen`.
    """
    terrain = TerrainArrays(heights, frame, levels, maxima)
    ground_motion(grounds, params, odometries)
    found = ground_range(grounds, params, terrain, stamp_ns, range_m, variance_m2, half_beam_rad)
    odometry = odometries[0]
    x, y = odometry.p_W[0], odometry.p_W[1]
    height, east, north = ground_at(grounds, terrain, x, y, params[0].reach_m)
    return found, odometry.stamp_ns, x, y, height, east, north


@kernel
def climb_s(gain_m: float, v_up: float, most_mps: float, acceleration_mps2: float) -> float:
    """Shortest time in s to gain a height, from a climb rate to the most and on at that.

    Args:
        gain_m: the height, > 0.
        v_up: present climb rate in m/s, negative where the vehicle sinks.
        most_mps: highest climb rate.
        acceleration_mps2: with which it is reached.
    """
    if v_up >= most_mps:
        return gain_m / v_up
    a = acceleration_mps2
    gained_m = 0.5 * (most_mps * most_mps - v_up * v_up) / a  # when the most is reached
    if gain_m <= gained_m:
        return (math.sqrt(v_up * v_up + 2.0 * a * gain_m) - v_up) / a
    return (most_mps - v_up) / a + (gain_m - gained_m) / most_mps


@kernel
def clear_mps(
    grounds: Any,
    params: Any,
    terrain: TerrainArrays,
    ahead: Any,
    place: tuple[float, float],
    course: tuple[float, float],
    ahead_m: float,
    heights_m: Vec3,
    climbs_mps: tuple[float, float],
) -> float:
    """Fastest on a course whose climb leads clear of the ground ahead; infinite where all does.

    Args:
        grounds: (1,) GROUND records.
        params: packed GroundParams.
        terrain: elevation data.
        ahead: (POINTS_AHEAD,) working memory.
        place: from where, in W, m.
        course: unit vector east, north.
        ahead_m: as far as which the ground is looked at.
        heights_m: of the ground beneath, what must be left above the ground ahead, what is now.
        climbs_mps: present climb rate, highest.
    """
    heights_ahead(grounds, terrain, place, course, ahead_m, params.reach_m, ahead)
    here_m, least_m, above_m = heights_m
    fastest = math.inf
    for k in range(1, POINTS_AHEAD + 1):
        gain_m = ahead[k - 1] - here_m + least_m - above_m
        if gain_m > 0.0:
            d = ahead_m * k / POINTS_AHEAD
            needed_s = climb_s(gain_m, climbs_mps[0], climbs_mps[1], params.agility_mps2)
            fastest = min(fastest, d / needed_s)
    return fastest


class Ground:
    """The ground as far as it is known; see :mod:`quadsim.estimation.terrain`.

    Readings are dropped until somebody wants the ground (:meth:`use`): most flights do not.

    Args:
        params: how it is learned.
        terrain: elevation data; looked at only with ``params.map``.
        flat_m: height of the ground outside of them, m.

    Attributes:
        used: whether readings are taken in.
        mapped: whether there are elevation data.
        is_near: whether the newest reading said "too near".
        known: whether a reading is recent enough to fly on, or the ground is on the map.
        handed: what kernels are told of it: (1,) GROUND, (1,) packed GroundParams and the arrays of
            the terrain; a named tuple takes microseconds to hand over, its arrays do not.
    """

    def __init__(
        self, params: GroundParams, terrain: TerrainArrays = NO_TERRAIN, flat_m: float = 0.0
    ) -> None:
        self.used = False
        self._terrain = terrain if params.map else NO_TERRAIN
        self.mapped = self.known = len(self._terrain.heights) > 0
        self._params = params
        self._packed = np.array([pack(params)])
        self._grounds = new_ground(flat_m)
        self._ground = self._grounds[0]
        self.handed = (self._grounds, self._packed, *self._terrain)
        self._place: tuple[float, float] | None = None  # asked for last, since the last step
        self._found = (0.0, 0.0, 0.0)  # there
        self._waiting: deque[tuple[int, float, float, float]] = deque(maxlen=MOST_WAITING)
        self._stamp_ns = 0
        #: Stamps of the newest reading that was taken, and of the newest if that was too far.
        self.seen_ns = self.far_ns = NEVER_NS
        self.is_near = False

    @property
    def age_s(self) -> float:
        """Time since the newest reading that was taken; infinite before the first."""
        return math.inf if self.seen_ns == NEVER_NS else (self._stamp_ns - self.seen_ns) * 1e-9

    @property
    def is_far(self) -> bool:
        """Whether readings come, the newest of which said "nothing within reach"."""
        return (self._stamp_ns - self.far_ns) * 1e-9 <= self._params.timeout_s

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

    @property
    def next_reading(self) -> tuple[int, float, float, float] | None:
        """The reading that waits, or :data:`NO_READING`; None where several do."""
        waiting = self._waiting
        if not waiting:
            return NO_READING
        return waiting[0] if len(waiting) == 1 else None

    def step(self, odometries: Any) -> None:
        """Move on to an odometry ((1,) ODOMETRY) and take in the readings up to it."""
        if not self.used:
            return
        reading = self._waiting[0] if self._waiting else NO_READING
        self.note(ground_tick(*self.handed, odometries, *reading))

    def note(self, seen: Seen) -> None:
        """Keep what :func:`ground_tick` has found, and take in the other readings that wait."""
        found, self._stamp_ns, x, y, height, east, north = seen
        self._place, self._found = (x, y), (height, east, north)
        waiting = self._waiting
        while waiting and found != EARLY:
            stamp_ns = waiting.popleft()[0]
            if found == TAKEN:
                self.seen_ns = stamp_ns
            self.is_near = found == NEAR
            self.far_ns = stamp_ns if found == FAR else NEVER_NS
            if waiting:
                self._place = None  # what was found there may change
                found = ground_range(self._grounds, self._packed, self._terrain, *waiting[0])
        self.known = self.mapped or (
            (self._stamp_ns - self.seen_ns) * 1e-9 <= self._params.timeout_s
        )

    def at(self, x: float, y: float) -> tuple[float, float, float]:
        """Height in W in m, and slope towards east and north, predicted at a point of W.

        Where nothing was seen yet it is the map's, or 0.
        """
        if self._place != (x, y):
            self._found = ground_at(self._grounds, self._terrain, x, y, self._params.reach_m)
            self._place = (x, y)
        return self._found
