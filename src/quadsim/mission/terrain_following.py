"""Holding a height above the ground: the level that heights count from, and how fast is safe.

The level is the ground predicted beneath the vehicle; it rises at slope times velocity, which the
setpoint feeds forward, so that a slope is followed without lag. The speed is such that the climb
fits what the autopilot may climb and sink, that the ground's curvature fits the vertical
acceleration to count on, and that the ground ahead stays below.

Where the ground is lost, its last level is held and the vehicle slows down. Where readings stay
away altogether, or say "too near", the level rises gently, up to a limit. Where they say "nothing
within reach" after the ground fell away (over a crest, the vehicle was higher than wanted when it
was lost), it sinks until the ground is seen again.
"""

from __future__ import annotations

import math

from quadsim.control.parameters import FlightParams
from quadsim.mission.ground import Ground
from quadsim.parameters import Vec3

#: Share of the wanted height below which the vehicle does not go on.
LEAST_SHARE = 0.55
#: Share of the wanted height above which it goes on at full speed.
FULL_SHARE = 0.85
#: Share of the climb that is planned with.
CLIMB_SHARE = 0.85
#: Way ahead that is looked at even when standing, m.
LEAST_AHEAD_M = 3.0
#: Lowest height that is held, m.
LEAST_HEIGHT_M = 0.1
#: Way over which the curvature is averaged, m.
CURVATURE_M = 4.0
#: Share of the vertical acceleration that the curvature may ask for.
CURVATURE_SHARE = 0.8
#: Growth of the speed that is allowed, m/s^2: past a crest nobody knows what comes.
GROWTH_MPS2 = 1.5
#: Height over the wanted one from which on lost ground has fallen away.
FALLEN_SHARE = 1.1
#: Rate at which ground that fell away is looked for, m/s, and how far down.
SEEK_MPS = 1.0
SEEK_M = 50.0
#: Slope below which speed needs no limit.
LEVEL_SLOPE = 0.02

ZERO: Vec3 = (0.0, 0.0, 0.0)


class TerrainFollowing:
    """The level that heights above ground count from.

    Args:
        params: limits of climb and descent, and what to do without readings.
        ground: what is known of the ground.

    Attributes:
        level_m: the level in W.
        climb_mps: its rate of change along the way.
        lost: whether the ground is not known well enough to be followed.
    """

    def __init__(self, params: FlightParams, ground: Ground) -> None:
        self._params = params
        self._ground = ground
        self.level_m = 0.0
        self.climb_mps = 0.0
        self.lost = False
        self._risen_m = 0.0
        self._stamp_ns = 0
        self._p_W = self._v_W = ZERO  # estimated
        self._speed_mps = 0.0  # horizontal
        self._slope = (0.0, 0.0)
        self._height_m = math.inf  # wanted
        self._falls_away = False
        self._most_mps = math.inf
        self._course_ns = 0
        self._curvature = (0.0, 0.0)  # change of the slope east and north along the way, 1/m

    def begin(self, stamp_ns: int, p_W: Vec3, v_W: Vec3, height_m: float) -> None:
        """Begin to hold a height above ground; without any reading, from the present height."""
        self._height_m, self._most_mps = height_m, math.inf
        self.update(stamp_ns, p_W, v_W)
        if self.lost and not self._ground.is_far:
            self.level_m = max(self.level_m, p_W[2] - height_m)

    def update(self, stamp_ns: int, p_W: Vec3, v_W: Vec3) -> None:
        """Move on to an estimate of position and velocity."""
        dt_s = min(max(stamp_ns - self._stamp_ns, 0) * 1e-9, 0.1)
        self._stamp_ns = stamp_ns
        self._p_W, self._v_W = p_W, v_W
        if self._ground.known:
            self.level_m, east, north = self._ground.at(p_W[0], p_W[1])
            self.lost, self._risen_m = False, 0.0
            self.climb_mps = east * v_W[0] + north * v_W[1]
            self._speed_mps = math.hypot(v_W[0], v_W[1])
            self._learn_curvature((east, north), self._speed_mps * dt_s)
            return
        if not self.lost:
            self._falls_away = p_W[2] - self.level_m > FALLEN_SHARE * self._height_m
        self.lost, self.climb_mps = True, 0.0
        params = self._params.ground
        if not self._ground.is_far:
            self.climb_mps = params.lost_climb_mps if self._risen_m < params.lost_climb_m else 0.0
        elif self._falls_away and self._risen_m > -SEEK_M:
            self.climb_mps = -SEEK_MPS
        self.level_m += self.climb_mps * dt_s
        self._risen_m += self.climb_mps * dt_s

    def _learn_curvature(self, slope: tuple[float, float], way_m: float) -> None:
        """Average the change of the slope along the way."""
        share = min(way_m / CURVATURE_M, 1.0)
        if 0.0 < share < 1.0:
            (e0, n0), (e, n), (ce, cn) = self._slope, slope, self._curvature
            self._curvature = (
                ce + (e - e0) / CURVATURE_M - share * ce,
                cn + (n - n0) / CURVATURE_M - share * cn,
            )
        self._slope = slope

    def most_mps(self, course: tuple[float, float], height_m: float) -> float:
        """Fastest that is safe on a course, from where :meth:`update` has moved on to.

        With the ground rising by ``rise`` over a distance d ahead, the vehicle at the height h
        above it must have gained rise + least - h when it gets there: no sooner than in
        :func:`quadsim.mission.ground.climb_s`.

        Args:
            course: unit vector east, north.
            height_m: wanted above the ground.
        """
        self._height_m = height_m
        if self.lost:
            self._most_mps = self._params.ground.lost_speed_mps
            return self._most_mps
        params, here_m, (east, north) = self._params, self.level_m, self._slope
        (x, y, z), ground = self._p_W, params.ground
        above_m, height_m = z - here_m, max(height_m, LEAST_HEIGHT_M)
        slope = east * course[0] + north * course[1]
        climb = CLIMB_SHARE * params.ascent_mps
        ahead_m = max(self._speed_mps * ground.look_ahead_s, LEAST_AHEAD_M)
        heights_m = (here_m, LEAST_SHARE * height_m, above_m)
        fastest = self._ground.clear_mps((x, y), course, ahead_m, heights_m, (self._v_W[2], climb))
        if slope > LEVEL_SLOPE:
            fastest = min(fastest, climb / slope)
        elif slope < -LEVEL_SLOPE:
            fastest = min(fastest, -CLIMB_SHARE * params.descent_mps / slope)
        bend = abs(self._curvature[0] * course[0] + self._curvature[1] * course[1])
        if bend > 0.0:
            fastest = min(fastest, math.sqrt(CURVATURE_SHARE * ground.agility_mps2 / bend))
        share = (above_m / height_m - LEAST_SHARE) / (FULL_SHARE - LEAST_SHARE)
        if share < 1.0:
            fastest = min(fastest, params.speed_mps) * max(share, 0.0)
        grown = GROWTH_MPS2 * min((self._stamp_ns - self._course_ns) * 1e-9, 0.1)
        self._course_ns = self._stamp_ns
        most = min(fastest, self._most_mps + grown)
        self._most_mps = most if most < params.speed_mps else math.inf
        return most
