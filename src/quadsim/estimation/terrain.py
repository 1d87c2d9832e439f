"""The ground beneath the vehicle, learned from a range finder that looks down along body -z.

Each reading r gives a point of the ground, p + r d, with d the beam's direction at the time of the
reading; on flat ground its height is that of r cos(tilt). A Kalman filter fits the plane

    height(x, y) = map(x, y) + height beneath + slope . ((x, y) - vehicle)

to the points over the last metres flown: the slope walks at random with the way (``slope_walk``),
so that old points are forgotten by distance, not by time. Without a map, map(x, y) = 0.

The way is the integral of the odometry's velocity, not the difference of its positions: where a
position fix moves the estimate up or down, the height above the ground must not jump. Readings
farther off than ``gate`` deviations are outliers, until ``outliers`` of them came in a row: then
the ground has a step, and the filter begins anew from there.

A wide beam (a sonar's) reads the nearest point inside its cone: on the plane, the direction towards
its normal, as far as the cone's edge allows (for flat ground h = r cos(max(0, tilt - half beam))).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, kernel
from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Spec, Vec3, dtype_of
from quadsim.base.records import Odometry
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, norm, scale, store, vec3
from quadsim.world.scene.raycast_terrain import TerrainArrays, terrain_height

#: Deviation of the ground from a plane beneath the beam, m.
ROUGHNESS_M = 0.03
#: Change of the slope along a metre of the way, 1/sqrt(m).
SLOPE_WALK = 0.1
#: Least error of the vertical velocity to count on, m/s.
LEAST_DRIFT_MPS = 0.05
#: Deviations beyond which a reading is an outlier, and outliers in a row that are a step.
GATE_SIGMAS = 4.0
STEP_OUTLIERS = 4.0

#: Odometries that are remembered, for readings that arrive late; 1.3 s at 50 Hz.
HISTORY = 64
#: Longest time between two odometries over which the way is integrated, s.
MOST_GAP_S = 1.0
#: Half the base of the differences that give the map's slope, m.
SLOPE_STEP_M = 1.0
#: Beams farther from the vertical than this see the horizon rather than the ground: cosine.
LEAST_COSINE = 0.2
#: Time over which an error of the velocity holds on, s.
VELOCITY_CORRELATION_S = 1.0
#: Deviation of the height before the first reading, m.
UNKNOWN_M = 1e3

#: What became of a reading: taken; stored for later, as no odometry is as new; nothing seen (too
#: far); too near; an outlier; of no use (not a number, too old, or too tilted).
READINGS = ("taken", "early", "far", "near", "outlier", "useless")
TAKEN, EARLY, FAR, NEAR, OUTLIER, USELESS = range(6)


class GroundEstimate(Record):
    """The filter and the way flown.

    ``height`` is that of the ground beneath over the map, counted as the z of ``track``,
    ``covariance`` that of (height, slope east, slope north).
    """

    known: int
    stamp_ns: int  # of the newest odometry
    seen_ns: int  # of the newest reading that was taken
    refused: int  # readings in a row
    flat_m: float  # height of the ground outside the map
    p_W: Vector
    v_W: Vector
    track: Vector
    height: float
    slope: Annotated[Array, 2]
    covariance: Annotated[Array, 3, 3]
    count: int
    stamps_ns: Annotated[NDArray[np.int64], HISTORY]
    tracks: Annotated[Array, HISTORY, 3]
    places: Annotated[Array, HISTORY, 2]  # x and y of p_W
    downs: Annotated[Array, HISTORY, 3]  # body -z in W
    tilt_variances: Annotated[Array, HISTORY]


GROUND = dtype_of(GroundEstimate)


@dataclass(frozen=True)
class GroundParams:
    """How the ground is learned, and what is done where it is not seen."""

    map: Annotated[
        bool, Spec("the terrain is known beforehand, as elevation data; else it is felt alone")
    ] = False
    range_sigma_m: Annotated[
        float, Spec("deviation of a reading that states none", "m", gt=0.0, le=10.0)
    ] = 0.05
    slope_sigma: Annotated[
        float, Spec("deviation of slopes that were not flown over", "1", gt=0.0, le=10.0)
    ] = 0.3
    agility_mps2: Annotated[
        float, Spec("vertical acceleration to count on", "m/s^2", gt=0.0, le=50.0)
    ] = 3.0


@kernel
def map_height(ground: GroundEstimate, terrain: TerrainArrays, x: float, y: float) -> float:
    """Height of the map at a point in W; 0 without a map."""
    if terrain.heights.shape[0] == 0:
        return 0.0
    return terrain_height(terrain, ground.flat_m, x, y)


@kernel
def _map_slope(
    ground: GroundEstimate, terrain: TerrainArrays, x: float, y: float
) -> tuple[float, float]:
    """Slope of the map towards east and north, by central differences."""
    if terrain.heights.shape[0] == 0:
        return 0.0, 0.0
    step = SLOPE_STEP_M
    east = map_height(ground, terrain, x + step, y) - map_height(ground, terrain, x - step, y)
    north = map_height(ground, terrain, x, y + step) - map_height(ground, terrain, x, y - step)
    return 0.5 * east / step, 0.5 * north / step


@kernel
def _move(
    ground: GroundEstimate, params: GroundParams, east: float, north: float, drift2: float
) -> None:
    """Carry the plane and its covariance along a step of the way.

    Args:
        ground: GROUND record.
        params: packed GroundParams.
        east, north: the step in m.
        drift2: variance by which the step's own height is wrong, m^2.
    """
    c = ground.covariance
    ground.height += ground.slope[0] * east + ground.slope[1] * north
    for i in range(3):  # F C, then C F'
        c[0, i] += east * c[1, i] + north * c[2, i]
    for i in range(3):
        c[i, 0] += east * c[i, 1] + north * c[i, 2]
    c[0, 0] += drift2
    grown = SLOPE_WALK * SLOPE_WALK * hypot(east, north)
    most = params.slope_sigma * params.slope_sigma
    for k in range(1, 3):
        c[k, k] += grown
        if c[k, k] > most:
            factor = math.sqrt(most / c[k, k])
            for i in range(3):
                c[k, i] *= factor
                c[i, k] *= factor


@kernel
def ground_motion(
    grounds: Records[GroundEstimate], params: Records[GroundParams], odometries: Records[Odometry]
) -> None:
    """Take note of an odometry; the plane beneath the vehicle moves with it.

    Args:
        grounds: (1,) GROUND records, changed in place.
        params: (1,) packed GroundParams.
        odometries: (1,) ODOMETRY, whole; one with the stamp of the last changes nothing.
    """
    ground, odometry = grounds[0], odometries[0]
    dt_s = (odometry.stamp_ns - ground.stamp_ns) * 1e-9
    if ground.count > 0 and dt_s == 0.0:
        return
    if ground.count == 0 or dt_s < 0.0 or dt_s > MOST_GAP_S:
        ground.count = 0
        ground.known = 0
    else:
        way = scale(0.5 * dt_s, add(vec3(ground.v_W), vec3(odometry.v_W)))
        store(ground.track, add(vec3(ground.track), way))
        if ground.known != 0:
            drift2 = LEAST_DRIFT_MPS**2 + odometry.v_variance[2]
            drift2 *= VELOCITY_CORRELATION_S * dt_s
            _move(ground, params[0], way[0], way[1], drift2)
    ground.stamp_ns = odometry.stamp_ns
    store(ground.p_W, vec3(odometry.p_W))
    store(ground.v_W, vec3(odometry.v_W))
    k = ground.count % HISTORY
    ground.count += 1
    ground.stamps_ns[k] = odometry.stamp_ns
    store(ground.tracks[k], vec3(ground.track))
    ground.places[k, 0], ground.places[k, 1] = odometry.p_W[0], odometry.p_W[1]
    store(ground.downs[k], rotate(quat(odometry.q_WB), (0.0, 0.0, -1.0)))
    variance = odometry.attitude_variance
    ground.tilt_variances[k] = max(variance[0], variance[1])


@kernel
def nearest_direction(axis: Vec3, slope: tuple[float, float], half_beam_rad: float) -> Vec3:
    """Direction of the nearest point of a plane inside a cone.

    Args:
        axis: unit vector of the cone's axis, W.
        slope: of the plane towards east and north.
        half_beam_rad: half the cone's width; 0 for a ray.

    Returns:
        Unit vector: against the plane's normal, or on the cone's edge next to it.
    """
    if half_beam_rad <= 0.0:
        return axis
    length = math.sqrt(1.0 + slope[0] * slope[0] + slope[1] * slope[1])
    plumb = (slope[0] / length, slope[1] / length, -1.0 / length)
    cosine = axis[0] * plumb[0] + axis[1] * plumb[1] + axis[2] * plumb[2]
    if cosine >= cos(half_beam_rad):
        return plumb
    aside = add(plumb, scale(-cosine, axis))
    return add(scale(cos(half_beam_rad), axis), scale(sin(half_beam_rad) / norm(aside), aside))


@kernel
def _forget(ground: GroundEstimate, params: GroundParams, height2: float) -> None:
    """A covariance that knows neither the height nor the slope."""
    ground.covariance[:, :] = 0.0
    ground.covariance[0, 0] = height2
    ground.covariance[1, 1] = ground.covariance[2, 2] = params.slope_sigma**2


@kernel
def _fit(
    ground: GroundEstimate,
    params: GroundParams,
    east: float,
    north: float,
    height: float,
    r2: float,
) -> int:
    """Update the plane with the height of a point; TAKEN or OUTLIER.

    Args:
        ground: GROUND record.
        params: packed GroundParams.
        east, north: of the point from the vehicle, m.
        height: of the point over the map, as the z of the track, m.
        r2: its variance, m^2.
    """
    c = ground.covariance
    if ground.known == 0:
        ground.height, ground.slope[0], ground.slope[1] = height, 0.0, 0.0
        _forget(ground, params, UNKNOWN_M * UNKNOWN_M)
        ground.known, ground.refused = 1, 0
    error = height - ground.height - ground.slope[0] * east - ground.slope[1] * north
    a0 = c[0, 0] + east * c[0, 1] + north * c[0, 2]
    a1 = c[1, 0] + east * c[1, 1] + north * c[1, 2]
    a2 = c[2, 0] + east * c[2, 1] + north * c[2, 2]
    s = a0 + east * a1 + north * a2 + r2
    if error * error > GATE_SIGMAS * GATE_SIGMAS * s:
        ground.refused += 1
        if ground.refused < STEP_OUTLIERS:
            return OUTLIER
        _forget(ground, params, error * error)
        a0, a1, a2 = c[0, 0], east * c[1, 1], north * c[2, 2]
        s = a0 + east * a1 + north * a2 + r2
    ground.refused = 0
    ground.height += a0 / s * error
    ground.slope[0] += a1 / s * error
    ground.slope[1] += a2 / s * error
    gains = (a0, a1, a2)
    for i in range(3):
        for j in range(3):
            c[i, j] -= gains[i] * gains[j] / s
    return TAKEN


@kernel
def _at(ground: GroundEstimate, stamp_ns: int) -> tuple[int, int, float]:
    """Remembered odometries before and after a stamp, and the share of the second; -1: too old."""
    oldest = max(ground.count - HISTORY, 0)
    k = ground.count - 1
    while k > oldest and ground.stamps_ns[k % HISTORY] > stamp_ns:
        k -= 1
    i = k % HISTORY
    if k < 0 or ground.stamps_ns[i] > stamp_ns:
        return -1, -1, 0.0
    j = (k + 1) % HISTORY if k + 1 < ground.count else i
    span_ns = ground.stamps_ns[j] - ground.stamps_ns[i]
    return i, j, (stamp_ns - ground.stamps_ns[i]) / span_ns if span_ns > 0 else 0.0


@kernel
def ground_range(
    grounds: Records[GroundEstimate],
    params: Records[GroundParams],
    terrain: TerrainArrays,
    stamp_ns: int,
    range_m: float,
    variance_m2: float,
    half_beam_rad: float,
) -> int:
    """Take a range finder's reading into the ground.

    Args:
        grounds: (1,) GROUND records, changed in place.
        params: (1,) packed GroundParams.
        terrain: map of the ground; NO_TERRAIN without one.
        stamp_ns: of the reading.
        range_m: along body -z; +inf: nothing within reach, -inf: too near, NaN: nothing known.
        variance_m2: of it; not above 0: not stated.
        half_beam_rad: half the width of the beam, 0 for a ray.

    Returns:
        What became of it, an index of :data:`READINGS`.
    """
    ground = grounds[0]
    if range_m == math.inf:
        return FAR
    if range_m == -math.inf:
        return NEAR
    if not (math.isfinite(range_m) and range_m >= 0.0):
        return USELESS
    if ground.count == 0 or stamp_ns > ground.stamp_ns:
        return EARLY
    i, j, share = _at(ground, stamp_ns)
    if i < 0:
        return USELESS
    down = add(scale(1.0 - share, vec3(ground.downs[i])), scale(share, vec3(ground.downs[j])))
    track = add(scale(1.0 - share, vec3(ground.tracks[i])), scale(share, vec3(ground.tracks[j])))
    x = (1.0 - share) * ground.places[i, 0] + share * ground.places[j, 0]
    y = (1.0 - share) * ground.places[i, 1] + share * ground.places[j, 1]
    mapped = _map_slope(ground, terrain, x, y)
    slope = (ground.slope[0] + mapped[0], ground.slope[1] + mapped[1])
    way = nearest_direction(scale(1.0 / norm(down), down), slope, half_beam_rad)
    if way[2] > -LEAST_COSINE:
        return USELESS
    way = scale(range_m, way)
    east = track[0] + way[0] - ground.track[0]
    north = track[1] + way[1] - ground.track[1]
    height = track[2] + way[2] - map_height(ground, terrain, x + way[0], y + way[1])
    p = params[0]
    stated = variance_m2 if 0.0 < variance_m2 < math.inf else p.range_sigma_m * p.range_sigma_m
    # a tilt that is wrong by d moves the point by r d: along the plane as far as it slopes
    lever = hypot(way[0], way[1]) + range_m * hypot(slope[0], slope[1])
    tilt2 = ground.tilt_variances[j] * lever * lever
    found = _fit(ground, p, east, north, height, stated + ROUGHNESS_M**2 + tilt2)
    if found == TAKEN:
        ground.seen_ns = stamp_ns
    return found


@kernel
def ground_at(
    grounds: Records[GroundEstimate], terrain: TerrainArrays, x: float, y: float, reach_m: float
) -> tuple[float, float, float]:
    """Ground predicted at a point of W: height in m, slope towards east and towards north.

    Where it was never seen it is the map's (0 without a map).

    Args:
        grounds: (1,) GROUND records.
        terrain: map of the ground; NO_TERRAIN without one.
        x, y: the point in W, m.
        reach_m: distance from the vehicle beyond which the learned slope goes on level.
    """
    ground = grounds[0]
    east, north = _map_slope(ground, terrain, x, y)
    height = map_height(ground, terrain, x, y)
    if ground.known == 0:
        return height, east, north
    dx, dy = x - ground.p_W[0], y - ground.p_W[1]
    distance = hypot(dx, dy)
    share = 1.0 if distance <= reach_m else reach_m / distance
    height += ground.p_W[2] - ground.track[2] + ground.height
    height += share * (ground.slope[0] * dx + ground.slope[1] * dy)
    return height, east + ground.slope[0], north + ground.slope[1]


@kernel
def heights_ahead(
    grounds: Records[GroundEstimate],
    terrain: TerrainArrays,
    place: tuple[float, float],
    course: tuple[float, float],
    ahead_m: float,
    reach_m: float,
    heights: Array,
) -> None:
    """Heights of the ground at equal distances on a course.

    Args:
        grounds, terrain, reach_m: as of :func:`ground_at`.
        place: from where, in W, m.
        course: unit vector east, north.
        ahead_m: distance of the last one.
        heights: (N,) result in m.
    """
    count = heights.shape[0]
    for k in range(1, count + 1):
        d = ahead_m * k / count
        x, y = place[0] + d * course[0], place[1] + d * course[1]
        heights[k - 1] = ground_at(grounds, terrain, x, y, reach_m)[0]
