"""The ground beneath as the flight uses it, and the level that heights above it count from.

The level is the ground predicted beneath the vehicle. It rises at slope times velocity, which the
setpoint feeds forward, so that a slope is followed without lag. The speed is such that the climb
fits what the autopilot may climb and sink, that the ground's curvature fits the vertical
acceleration to count on, and that the ground ahead stays below.

Where the ground is lost, its last level is held and the vehicle slows down. Where readings stop
altogether, or are "too near", the level rises gently, up to a limit. Where they are "nothing
within reach" after the ground fell away (over a crest, the vehicle was higher than wanted when it
was lost), it sinks until the ground is seen again.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import quadsim.estimation.terrain as plane
from quadsim.base.compiled import Array, Record, Records, kernel
from quadsim.base.parameters import Vec3, dtype_of, pack
from quadsim.base.records import Odometry
from quadsim.control.parameters import FlightParams
from quadsim.geometry.length import hypot
from quadsim.geometry.vector import vec3
from quadsim.mission.flight.estimate_check import (
    GOOD,
    EstimateCheck,
    EstimateWatch,
    is_valid_odometry,
)
from quadsim.mission.reference.legs import Leg, leg_course
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays

#: Time ahead for which the way must be clear, s.
LOOK_AHEAD_S = 1.5
#: Time without a reading after which the ground is lost, s.
GROUND_TIMEOUT_S = 1.0
#: Distance to which the learned slope holds, m.
SLOPE_REACH_M = 15.0
#: Without any reading: climb, most that is climbed so, fastest over ground, m/s.
LOST_CLIMB_MPS = 0.3
LOST_CLIMB_M = 5.0
LOST_SPEED_MPS = 1.5

#: Readings that wait for an odometry as new as they are.
MOST_WAITING = 64
#: Points ahead at which the ground is looked up.
POINTS_AHEAD = 6
#: Stamp of what has never been: any time lies longer ago than every timeout.
NEVER_NS = -(2**62)

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
SEEK_MPS, SEEK_M = 1.0, 50.0
#: Slope below which speed needs no limit.
LEVEL_SLOPE = 0.02
#: Slowest reference that has a course, m/s.
LEAST_MPS = 1e-3
#: Longest time between two ticks that is made up for, s.
MOST_TICK_S = 0.1


class Following(Record):
    """What is remembered of the ground, of its readings and of the level that follows it."""

    ground: plane.GroundEstimate
    begin: int  # count of readings that were looked at, and of all that came
    end: int
    stamps_ns: Annotated[NDArray[np.int64], MOST_WAITING]
    readings: Annotated[Array, MOST_WAITING, 3]  # range, variance, half the beam
    known: bool  # whether a reading is recent enough to fly on, or there is a map
    near: bool  # whether the newest reading stated "too near"
    far: bool  # whether the newest stated "nothing within reach", and is recent
    seen_ns: int  # stamps of the newest reading that was taken,
    far_ns: int  # and of the newest if that was too far
    level_m: float  # that heights count from, in W
    climb_mps: float  # its rate of change along the way
    lost: bool
    risen_m: float  # while it was lost
    falls_away: bool
    stamp_ns: int
    speed_mps: float  # horizontal
    slope: Annotated[Array, 2]
    curvature: Annotated[Array, 2]  # change of the slope east and north along the way, 1/m
    height_m: float  # wanted
    most_mps: float
    course_ns: int
    ahead: Annotated[Array, POINTS_AHEAD]  # working memory


FOLLOWING = dtype_of(Following)

#: Whether the ground is known, near, far and lost; a point of W, x and y; height of the ground
#: there, its slope towards east and north; the level that heights count from, and its climb.
Seen = tuple[bool, bool, bool, bool, float, float, float, float, float, float, float]


@kernel
def _take_readings(
    followings: Records[Following],
    params: Records[FlightParams],
    terrain: TerrainArrays,
    odometries: Records[Odometry],
) -> None:
    """Take note of an odometry, then of the readings that are not newer."""
    following = followings[0]
    plane.ground_motion(followings["ground"], params["ground"], odometries)
    following.begin = max(following.begin, following.end - MOST_WAITING)
    while following.begin < following.end:
        k = following.begin % MOST_WAITING
        stamp_ns, reading = following.stamps_ns[k], following.readings[k]
        found = plane.ground_range(
            followings["ground"], params["ground"], terrain, stamp_ns,
            reading[0], reading[1], reading[2],
        )  # fmt: skip
        if found == plane.EARLY:
            break
        following.begin += 1
        following.near = found == plane.NEAR
        following.far_ns = stamp_ns if found == plane.FAR else NEVER_NS
        if found == plane.TAKEN:
            following.seen_ns = stamp_ns
    now_ns, timeout_s = following.ground.stamp_ns, GROUND_TIMEOUT_S
    recent = (now_ns - following.seen_ns) * 1e-9 <= timeout_s
    following.known = terrain.heights.shape[0] > 0 or recent
    following.far = (now_ns - following.far_ns) * 1e-9 <= timeout_s


@kernel
def observe_ground(
    followings: Records[Following],
    params: Records[FlightParams],
    terrain: TerrainArrays,
    odometries: Records[Odometry],
) -> Seen:
    """Take note of an odometry and of the readings up to it.

    Args:
        followings: (1,) FOLLOWING, changed in place.
        params: (1,) packed FlightParams.
        odometries: (1,) ODOMETRY; nothing is done with one that is not whole.
    """
    odometry = odometries[0]
    if is_valid_odometry(odometry):
        _take_readings(followings, params, terrain, odometries)
    return seen_at(followings, params, terrain, odometry.p_W[0], odometry.p_W[1])


@kernel
def seen_at(
    followings: Records[Following],
    params: Records[FlightParams],
    terrain: TerrainArrays,
    x: float,
    y: float,
) -> Seen:
    """What is known of the ground, at a point of W."""
    following = followings[0]
    height, east, north = plane.ground_at(followings["ground"], terrain, x, y, SLOPE_REACH_M)
    return (
        following.known, following.near, following.far, following.lost, x, y, height, east, north,
        following.level_m, following.climb_mps,
    )  # fmt: skip


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
    gains_m: Array, ahead_m: float, v_up: float, most_mps: float, agility_mps2: float
) -> float:
    """Fastest on a course whose climb leads clear of the ground ahead; infinite where all does.

    Args:
        gains_m: (N,) height that must be gained until each of the points ahead, m.
        ahead_m: distance of the last of them.
        most_mps: highest.
        agility_mps2: vertical acceleration to count on.
    """
    fastest, count = math.inf, len(gains_m)
    for k in range(1, count + 1):
        if gains_m[k - 1] > 0.0:
            needed_s = climb_s(gains_m[k - 1], v_up, most_mps, agility_mps2)
            fastest = min(fastest, ahead_m * k / count / needed_s)
    return fastest


@kernel
def _move_level(
    following: Following, params: FlightParams, stamp_ns: int, p_W: Vec3, v_W: Vec3, beneath: Vec3
) -> None:
    """Move the level on to an estimate.

    Args:
        following: FOLLOWING record, changed in place.
        stamp_ns: the flight's time.
        p_W, v_W: estimated.
        beneath: height of the ground in m and its slope east and north, where it is known.
    """
    dt_s = min(max(stamp_ns - following.stamp_ns, 0) * 1e-9, MOST_TICK_S)
    following.stamp_ns = stamp_ns
    if following.known:
        level_m, east, north = beneath
        following.level_m = level_m
        following.lost, following.risen_m = False, 0.0
        following.climb_mps = east * v_W[0] + north * v_W[1]
        following.speed_mps = hypot(v_W[0], v_W[1])
        _learn_curvature(following, east, north, following.speed_mps * dt_s)
        return
    if not following.lost:
        following.falls_away = p_W[2] - following.level_m > FALLEN_SHARE * following.height_m
    following.lost, following.climb_mps = True, 0.0
    if not following.far:
        rises = following.risen_m < LOST_CLIMB_M
        following.climb_mps = LOST_CLIMB_MPS if rises else 0.0
    elif following.falls_away and following.risen_m > -SEEK_M:
        following.climb_mps = -SEEK_MPS
    following.level_m += following.climb_mps * dt_s
    following.risen_m += following.climb_mps * dt_s


@kernel
def _learn_curvature(following: Following, east: float, north: float, way_m: float) -> None:
    """Average the change of the slope along the way."""
    share = min(way_m / CURVATURE_M, 1.0)
    if 0.0 < share < 1.0:
        e0, n0 = following.slope[0], following.slope[1]
        ce, cn = following.curvature[0], following.curvature[1]
        following.curvature[0] = ce + (east - e0) / CURVATURE_M - share * ce
        following.curvature[1] = cn + (north - n0) / CURVATURE_M - share * cn
    following.slope[0], following.slope[1] = east, north


@kernel
def _most_mps(
    followings: Records[Following],
    params: FlightParams,
    terrain: TerrainArrays,
    course: tuple[float, float],
    p_W: Vec3,
    v_up: float,
) -> float:
    """Fastest that is safe on a course (unit vector east, north) from where the level is now.

    With the ground rising by ``rise`` over a distance d ahead, the vehicle at the height h above it
    must have gained rise + least - h when it gets there: no sooner than in :func:`climb_s`.
    """
    following, ground, grounds = followings[0], params.ground, followings["ground"]
    if following.lost:
        following.most_mps = LOST_SPEED_MPS
        return float(following.most_mps)
    above_m, height_m = p_W[2] - following.level_m, max(following.height_m, LEAST_HEIGHT_M)
    climb = CLIMB_SHARE * params.ascent_mps
    ahead_m = max(following.speed_mps * LOOK_AHEAD_S, LEAST_AHEAD_M)
    gains = following.ahead
    place = (p_W[0], p_W[1])
    plane.heights_ahead(grounds, terrain, place, course, ahead_m, SLOPE_REACH_M, gains)
    for k in range(len(gains)):
        gains[k] = gains[k] - following.level_m + LEAST_SHARE * height_m - above_m
    fastest = clear_mps(gains, ahead_m, v_up, climb, ground.agility_mps2)
    slope = following.slope[0] * course[0] + following.slope[1] * course[1]
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
def follow_ground(
    followings: Records[Following],
    params: Records[FlightParams],
    heights: Array,
    frame: Array,
    levels: NDArray[np.int64],
    maxima: Array,
    watches: Records[EstimateWatch],
    odometries: Records[Odometry],
    fresh: bool,
    stamp_ns: int,
    legs: Records[Leg],
    leg_s: float,
    goal: Vec3,
) -> tuple[Seen, float, float]:
    """All of a tick above ground: readings, level, and the fastest that is safe on the course.

    Args:
        followings, params, odometries: as of :func:`observe_ground`.
        heights, frame, levels, maxima: of the TerrainArrays; a named tuple takes microseconds to
            hand over, its arrays do not.
        watches: (1,) WATCH, with the estimate; readings count while it is good.
        fresh: whether the odometry and its readings are to be taken note of.
        stamp_ns: the flight's time.
        legs: (1,) LEG.
        leg_s: time into the leg; not a number: the goal is flown to without one.
        goal: its height above the ground.

    Returns:
        What is seen at the estimate; speed of the reference, or distance of the goal; the fastest
        that is safe, not a number where the second is too small for a course.
    """
    terrain, watch = TerrainArrays(heights, frame, levels, maxima), watches[0]
    if fresh and watch.verdict == GOOD and is_valid_odometry(odometries[0]):
        _take_readings(followings, params, terrain, odometries)
    p_W, v_W = vec3(watch.p_W), vec3(watch.v_W)
    reach_m = SLOPE_REACH_M
    beneath = plane.ground_at(followings["ground"], terrain, p_W[0], p_W[1], reach_m)
    _move_level(followings[0], params[0], stamp_ns, p_W, v_W, beneath)
    seen = seen_at(followings, params, terrain, p_W[0], p_W[1])
    if math.isnan(leg_s):
        x, y, height_m = goal[0] - p_W[0], goal[1] - p_W[1], goal[2]
    else:
        x, y, height_m = leg_course(legs, leg_s)
    length = hypot(x, y)
    if length < LEAST_MPS:
        return seen, length, math.nan
    followings[0].height_m = height_m
    most = _most_mps(followings, params[0], terrain, (x / length, y / length), p_W, v_W[2])
    return seen, length, most


class Ground:
    """The ground as far as it is known (:mod:`quadsim.estimation.terrain`), and its level.

    Readings are dropped until somebody wants the ground (:meth:`use`): most flights do not.

    Args:
        params: how it is learned and followed; ``params.ground.map`` lets the terrain be used.
        flat_m: height of the ground outside of them, m.

    Attributes:
        used: whether readings are taken in.
        known: whether a reading is recent enough to fly on, or the ground is on the map.
        near: whether the newest reading stated "too near".
        far: whether the newest stated "nothing within reach".
        lost: whether the ground is not known well enough to be followed.
        level_m: the level that heights above ground count from, in W.
        climb_mps: rate of change of it along the way.
        now: (1,) FOLLOWING, all that is remembered.
    """

    def __init__(
        self, params: FlightParams, terrain: TerrainArrays = NO_TERRAIN, flat_m: float = 0.0
    ) -> None:
        self.used = self.near = self.far = self.lost = False
        self._terrain = terrain if params.ground.map else NO_TERRAIN
        self._params = np.array([pack(params)])
        self.known = len(self._terrain.heights) > 0
        self.now: NDArray[np.record] = np.zeros(1, FOLLOWING)
        self.now["seen_ns"] = self.now["far_ns"] = NEVER_NS
        self.now["known"], self.now["ground"]["flat_m"] = self.known, flat_m
        self.now["height_m"] = self.now["most_mps"] = math.inf
        self.level_m = self.climb_mps = 0.0
        self._place: tuple[float, float] | None = None  # looked at last, since the last tick
        self._found = (0.0, 0.0, 0.0)  # there
        # views, as finding a field of a record takes longer than reading it
        self._end, self._stamps_ns = self.now["end"], self.now["stamps_ns"][0]
        self._readings = self.now["readings"][0]

    @property
    def never_seen(self) -> bool:
        """Whether no reading was taken yet."""
        return bool(self.now["seen_ns"].item() == NEVER_NS)

    def set_level(self, level_m: float) -> None:
        """Let heights above ground count from a level in W, until the ground reports better."""
        self.level_m = level_m
        self.now["level_m"] = level_m

    def use(self) -> None:
        """Take readings in from now on."""
        self.used = True

    def take(
        self, stamp_ns: int, range_m: float, variance_m2: float, half_beam_rad: float = 0.0
    ) -> None:
        """Keep a reading until a tick has an odometry as new.

        Args:
            stamp_ns: of the reading.
            range_m: along body -z; +inf: nothing within reach, -inf: too near, NaN: nothing known.
            variance_m2: of it; not above 0: not stated.
            half_beam_rad: half the width of the beam, 0 for a ray.
        """
        if self.used:
            end = self._end.item()
            k = end % MOST_WAITING
            self._stamps_ns[k], self._readings[k] = stamp_ns, (range_m, variance_m2, half_beam_rad)
            self._end[0] = end + 1

    def observe(self, odometries: Any) -> None:
        """Move on to an odometry ((1,) ODOMETRY) and take in the readings up to it."""
        if self.used:
            self._keep(observe_ground(self.now, self._params, self._terrain, odometries))

    def _keep(self, seen: Seen) -> None:
        (
            self.known, self.near, self.far, self.lost, x, y, height, east, north, self.level_m,
            self.climb_mps,
        ) = seen  # fmt: skip
        self._place, self._found = (x, y), (height, east, north)

    def at(self, x: float, y: float) -> tuple[float, float, float]:
        """Height in W in m, and slope towards east and north, predicted at a point of W.

        Where nothing was seen yet it is the map's, or 0.
        """
        if self._place != (x, y):
            self._keep(seen_at(self.now, self._params, self._terrain, x, y))
        return self._found

    def begin(self, estimate: EstimateCheck, stamp_ns: int, legs: Any, height_m: float) -> None:
        """Begin to hold a height above ground; without any reading, from the present height."""
        self.now["height_m"], self.now["most_mps"] = height_m, math.inf
        self.follow(estimate, stamp_ns, legs, math.nan, estimate.p_W, fresh=False)
        if self.lost and not self.far:
            self.set_level(max(self.level_m, estimate.p_W[2] - height_m))

    def follow(
        self,
        estimate: EstimateCheck,
        stamp_ns: int,
        legs: Any,
        leg_s: float,
        goal: Vec3,
        fresh: bool = True,
    ) -> tuple[float, float]:
        """Move on to an estimate; arguments and numbers as of :func:`follow_ground`."""
        seen, length, most = follow_ground(
            self.now, self._params, *self._terrain, estimate.watches, estimate.odometries, fresh,
            stamp_ns, legs, leg_s, goal,
        )  # fmt: skip
        self._keep(seen)
        return length, most
