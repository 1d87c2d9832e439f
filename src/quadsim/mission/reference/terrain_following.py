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
from typing import Any

import numpy as np

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.parameters import Vec3, pack
from quadsim.control.parameters import FlightParams
from quadsim.estimation.terrain import EARLY, FAR, TAKEN
from quadsim.geometry.length import hypot
from quadsim.geometry.vector import store
from quadsim.mission.flight.estimate_check import GOOD, Observation, observe
from quadsim.mission.flight.ground import (
    NEVER_NS,
    POINTS_AHEAD,
    Ground,
    Seen,
    clear_mps,
    ground_tick,
)
from quadsim.mission.reference.legs import leg_course
from quadsim.world.scene.raycast_terrain import TerrainArrays

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

#: Slowest reference that has a course, m/s.
LEAST_MPS = 1e-3
#: Longest time between two ticks that is made up for, s.
MOST_TICK_S = 0.1

#: What is remembered of the ground that is followed.
FOLLOWING = record_dtype(
    [
        ("level_m", np.float64),  # that heights count from, in W
        ("climb_mps", np.float64),  # its rate of change along the way
        ("lost", np.int64),
        ("risen_m", np.float64),  # while it was lost
        ("falls_away", np.int64),
        ("stamp_ns", np.int64),
        ("p_W", np.float64, (3,)),  # estimated
        ("v_W", np.float64, (3,)),
        ("speed_mps", np.float64),  # horizontal
        ("slope", np.float64, (2,)),
        ("curvature", np.float64, (2,)),  # change of the slope east and north along the way, 1/m
        ("height_m", np.float64),  # wanted
        ("most_mps", np.float64),
        ("course_ns", np.int64),
        ("ahead", np.float64, (POINTS_AHEAD,)),  # working memory
    ]
)


@kernel
def follow_ground(
    followings: Any,
    params: Any,
    stamp_ns: int,
    p_W: Vec3,
    v_W: Vec3,
    known: bool,
    far: bool,
    beneath: Vec3,
) -> None:
    """Move on to an estimate of position and velocity.

    Args:
        followings: (1,) FOLLOWING, changed in place.
        params: (1,) packed FlightParams.
        stamp_ns: the flight's time.
        p_W: position, m.
        v_W: velocity, m/s.
        known: whether the ground is known well enough to be followed.
        far: whether nothing is within the range finder's reach.
        beneath: height of the ground beneath in m and its slope east and north, where it is known.
    """
    following = followings[0]
    dt_s = min(max(stamp_ns - following.stamp_ns, 0) * 1e-9, MOST_TICK_S)
    following.stamp_ns = stamp_ns
    store(following.p_W, p_W)
    store(following.v_W, v_W)
    if known:
        level_m, east, north = beneath
        following.level_m = level_m
        following.lost, following.risen_m = 0, 0.0
        following.climb_mps = east * v_W[0] + north * v_W[1]
        following.speed_mps = hypot(v_W[0], v_W[1])
        _learn_curvature(following, east, north, following.speed_mps * dt_s)
        return
    if following.lost == 0:
        fallen_m = FALLEN_SHARE * following.height_m
        following.falls_away = 1 if p_W[2] - following.level_m > fallen_m else 0
    following.lost, following.climb_mps = 1, 0.0
    ground = params[0].ground
    if not far:
        rises = following.risen_m < ground.lost_climb_m
        following.climb_mps = ground.lost_climb_mps if rises else 0.0
    elif following.falls_away != 0 and following.risen_m > -SEEK_M:
        following.climb_mps = -SEEK_MPS
    following.level_m += following.climb_mps * dt_s
    following.risen_m += following.climb_mps * dt_s


@kernel
def _learn_curvature(following: Any, east: float, north: float, way_m: float) -> None:
    """Average the change of the slope along the way."""
    share = min(way_m / CURVATURE_M, 1.0)
    if 0.0 < share < 1.0:
        e0, n0 = following.slope[0], following.slope[1]
        ce, cn = following.curvature[0], following.curvature[1]
        following.curvature[0] = ce + (east - e0) / CURVATURE_M - share * ce
        following.curvature[1] = cn + (north - n0) / CURVATURE_M - share * cn
    following.slope[0], following.slope[1] = east, north


@kernel
def most_mps(
    following: Any,
    params: Any,
    grounds: Any,
    terrain: TerrainArrays,
    course: tuple[float, float],
    height_m: float,
) -> float:
    """Fastest that is safe on a course, from where :func:`follow_ground` has moved on to.

    With the ground rising by ``rise`` over a distance d ahead, the vehicle at the height h
    above it must have gained rise + least - h when it gets there: no sooner than in
    :func:`quadsim.mission.flight.ground.climb_s`.

    Args:
        following: FOLLOWING record.
        params: packed FlightParams.
        grounds: (1,) GROUND.
        terrain: elevation data.
        course: unit vector east, north.
        height_m: wanted above the ground.
    """
    following.height_m = height_m
    if following.lost != 0:
        following.most_mps = params.ground.lost_speed_mps
        return float(following.most_mps)
    ground, p_W = params.ground, following.p_W
    above_m, height_m = p_W[2] - following.level_m, max(height_m, LEAST_HEIGHT_M)
    slope = following.slope[0] * course[0] + following.slope[1] * course[1]
    climb = CLIMB_SHARE * params.ascent_mps
    ahead_m = max(following.speed_mps * ground.look_ahead_s, LEAST_AHEAD_M)
    heights_m = (following.level_m, LEAST_SHARE * height_m, above_m)
    fastest = clear_mps(
        grounds, ground, terrain, following.ahead, (p_W[0], p_W[1]), course, ahead_m, heights_m,
        (following.v_W[2], climb),
    )  # fmt: skip
    if slope > LEVEL_SLOPE:
        fastest = min(fastest, climb / slope)
    elif slope < -LEVEL_SLOPE:
        fastest = min(fastest, -CLIMB_SHARE * params.descent_mps / slope)
    bend = abs(following.curvature[0] * course[0] + following.curvature[1] * course[1])
    if bend > 0.0:
        fastest = min(fastest, math.sqrt(CURVATURE_SHARE * ground.agility_mps2 / bend))
    share = (above_m / height_m - LEAST_SHARE) / (FULL_SHARE - LEAST_SHARE)
    if share < 1.0:
        fastest = min(fastest, params.speed_mps) * max(share, 0.0)
    grown = GROWTH_MPS2 * min((following.stamp_ns - following.course_ns) * 1e-9, MOST_TICK_S)
    following.course_ns = following.stamp_ns
    most = min(fastest, following.most_mps + grown)
    following.most_mps = most if most < params.speed_mps else math.inf
    return float(most)


@kernel
def follow_on_course(
    followings: Any,
    params: Any,
    grounds: Any,
    heights: Any,
    frame: Any,
    levels: Any,
    maxima: Any,
    stamp_ns: int,
    p_W: Vec3,
    v_W: Vec3,
    known: bool,
    far: bool,
    beneath: Vec3,
    legs: Any,
    leg_s: float,
    goal: Vec3,
) -> tuple[float, float]:
    """All of a tick: :func:`follow_ground`, the course, and :func:`most_mps` on it.

    Args:
        followings, params, stamp_ns, p_W, v_W, known, far, beneath: as of :func:`follow_ground`.
        grounds, heights, frame, levels, maxima: as of ``mission.flight.ground.ground_tick``.
        legs: (1,) LEG.
        leg_s: time into the leg; not a number: the goal is flown to without one.
        goal: its height above the ground.

    Returns:
        Speed of the reference, or distance of the goal; the fastest that is safe. The second is
        not a number where the first is too small for a course.
    """
    follow_ground(followings, params, stamp_ns, p_W, v_W, known, far, beneath)
    if math.isnan(leg_s):
        x, y, height_m = goal[0] - p_W[0], goal[1] - p_W[1], goal[2]
    else:
        x, y, height_m = leg_course(legs, leg_s)
    length = hypot(x, y)
    if length < LEAST_MPS:
        return length, math.nan
    terrain, course = TerrainArrays(heights, frame, levels, maxima), (x / length, y / length)
    return length, most_mps(followings[0], params[0], grounds, terrain, course, height_m)


@kernel
def look(
    watches: Any,
    limits: Any,
    stamp_ns: int,
    odometries: Any,
    grounds: Any,
    ground_params: Any,
    heights: Any,
    frame: Any,
    levels: Any,
    maxima: Any,
    reading_ns: int,
    range_m: float,
    variance_m2: float,
    half_beam_rad: float,
    seen_ns: int,
    far_ns: int,
    followings: Any,
    params: Any,
    legs: Any,
    leg_s: float,
    goal: Vec3,
) -> tuple[Observation, Seen, tuple[float, float]]:
    """All that a tick above ground looks at, which takes half as long as call by call.

    Args:
        watches, limits, stamp_ns, odometries: as of ``mission.flight.estimate_check.observe``.
        grounds, ground_params, heights, frame, levels, maxima: as of
            :func:`quadsim.mission.flight.ground.ground_tick`.
        reading_ns, range_m, variance_m2, half_beam_rad: the reading there, or ``NO_READING``.
        seen_ns, far_ns: of :class:`Ground`, before that reading.
        followings, params, legs, leg_s, goal: as of :func:`follow_on_course`.

    Returns:
        What these three return, one after the other; of an estimate that is not good the first
        alone means something.
    """
    observation = observe(watches, limits, stamp_ns, odometries)
    if observation[0] != GOOD:
        return observation, (EARLY, 0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.0, math.nan)
    seen = ground_tick(
        grounds, ground_params, heights, frame, levels, maxima, odometries, reading_ns, range_m,
        variance_m2, half_beam_rad,
    )  # fmt: skip
    found, now_ns = seen[0], seen[1]
    if found == TAKEN:
        seen_ns = reading_ns
    if reading_ns != NEVER_NS and found != EARLY:
        far_ns = reading_ns if found == FAR else NEVER_NS
    timeout_s = ground_params[0].timeout_s
    known = heights.shape[0] > 0 or (now_ns - seen_ns) * 1e-9 <= timeout_s
    far = (now_ns - far_ns) * 1e-9 <= timeout_s
    course = follow_on_course(
        followings, params, grounds, heights, frame, levels, maxima, stamp_ns, observation[2],
        observation[3], known, far, (seen[4], seen[5], seen[6]), legs, leg_s, goal,
    )  # fmt: skip
    return observation, seen, course


class TerrainFollowing:
    """The level that heights above ground count from.

    Args:
        params: limits of climb and descent, and what to do without readings.
        ground: what is known of the ground.
    """

    def __init__(self, params: FlightParams, ground: Ground) -> None:
        self._ground = ground
        self._params = np.array([pack(params)])
        self._now: Any = np.zeros(1, FOLLOWING)
        self._now["height_m"] = self._now["most_mps"] = math.inf
        # views, as finding a field of a record takes longer than reading it
        self._level_now, self._climb_now = self._now["level_m"], self._now["climb_mps"]
        self._lost_now = self._now["lost"]
        grounds, _, heights, frame, levels, maxima = ground.handed
        self._handed = (self._now, self._params, grounds, heights, frame, levels, maxima)

    @property
    def level_m(self) -> float:
        """The level in W."""
        return float(self._level_now.item())

    @level_m.setter
    def level_m(self, level_m: float) -> None:
        self._level_now[0] = level_m

    @property
    def climb_mps(self) -> float:
        """Rate of change of the level along the way."""
        return float(self._climb_now.item())

    @property
    def lost(self) -> bool:
        """Whether the ground is not known well enough to be followed."""
        return bool(self._lost_now.item())

    def begin(self, stamp_ns: int, p_W: Vec3, v_W: Vec3, height_m: float) -> None:
        """Begin to hold a height above ground; without any reading, from the present height."""
        self._now["height_m"], self._now["most_mps"] = height_m, math.inf
        follow_ground(self._now, self._params, stamp_ns, p_W, v_W, *self._seen(p_W))
        if self.lost and not self._ground.is_far:
            self.level_m = max(self.level_m, p_W[2] - height_m)

    def _seen(self, p_W: Vec3) -> tuple[bool, bool, Vec3]:
        """Of the ground beneath: whether it is known, or far, and height and slopes."""
        ground = self._ground
        if ground.known:
            return True, False, ground.at(p_W[0], p_W[1])
        return False, ground.is_far, (0.0, 0.0, 0.0)

    def advance(
        self, stamp_ns: int, p_W: Vec3, v_W: Vec3, legs: Any, leg_s: float, goal: Vec3
    ) -> tuple[float, float]:
        """Move on to an estimate; as :func:`follow_on_course`."""
        known, far, beneath = self._seen(p_W)
        return follow_on_course(
            *self._handed, stamp_ns, p_W, v_W, known, far, beneath, legs, leg_s, goal
        )

    def look(
        self,
        watches: Any,
        limits: Any,
        stamp_ns: int,
        odometries: Any,
        legs: Any,
        leg_s: float,
        goal: Vec3,
    ) -> tuple[Observation, tuple[float, float] | None]:
        """Observe an estimate, and advance to it with the ground beneath, in one call.

        Args:
            watches, limits, stamp_ns, odometries: as of ``mission.flight.estimate_check.observe``.
            legs, leg_s, goal: as of :meth:`advance`.

        Returns:
            The observation, and what :meth:`advance` returns; None if that is still to be called.
        """
        ground = self._ground
        reading = ground.next_reading
        if reading is None or not ground.used:
            observation = observe(watches, limits, stamp_ns, odometries)
            if observation[0] == GOOD:
                ground.step(odometries)
            return observation, None
        observation, seen, course = look(
            watches, limits, stamp_ns, odometries, *ground.handed, *reading, ground.seen_ns,
            ground.far_ns, self._now, self._params, legs, leg_s, goal,
        )  # fmt: skip
        if observation[0] != GOOD:
            return observation, None
        ground.note(seen)
        return observation, course
