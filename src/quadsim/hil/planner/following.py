"""Along a way: how fast at each place, and the velocity that follows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from quadsim.hil.planner.parameters import BESIDE_S, CROSS_GAIN_PER_S, LEAST_MPS, SpeedParams

#: Between two samples of a way, m.
SAMPLE_M = 0.2
#: Corners are rounded by the mean of the way about each point, with this standard deviation, m.
ROUNDING_M = 0.6


def sampled(corners_W: NDArray[np.float64]) -> NDArray[np.float64]:
    """A way in equal steps of about SAMPLE_M.

    Args:
        corners_W: (K >= 2, 2) m.

    Returns:
        (N >= 2, 2) m, with both ends.
    """
    lengths = np.hypot(*np.diff(corners_W, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    count = max(2, math.ceil(along[-1] / SAMPLE_M) + 1)
    at = np.linspace(0.0, along[-1], count)
    return np.column_stack([np.interp(at, along, corners_W[:, k]) for k in (0, 1)])


def rounded(points_W: NDArray[np.float64]) -> NDArray[np.float64]:
    """The samples of a way without its corners; the ends stay."""
    # mirrored about its ends, which so stay where they are
    reach = min(len(points_W) - 1, math.ceil(3.0 * ROUNDING_M / SAMPLE_M))
    before = 2.0 * points_W[0] - points_W[reach:0:-1]
    after = 2.0 * points_W[-1] - points_W[-2 : -2 - reach : -1]
    extended = np.concatenate([before, points_W, after])
    smooth = ndimage.gaussian_filter1d(
        extended, ROUNDING_M / SAMPLE_M, axis=0, mode="nearest", truncate=3.0
    )
    return np.asarray(smooth[reach : reach + len(points_W)])


@dataclass(frozen=True)
class Way:
    """A way with its speeds.

    Attributes:
        points_W: (N, 2) m.
        along_m: (N,) length up to each.
        speeds_mps: (N,) fastest at each, with room to brake for what comes.
        limits: (N,) index of :data:`LIMITS`, what bounds the speed at each.
    """

    points_W: NDArray[np.float64]
    along_m: NDArray[np.float64]
    speeds_mps: NDArray[np.float64]
    limits: NDArray[np.int64]


#: What may bound the speed, in words.
UNSEEN = "not seen free yet"
LIMITS = ("", "a bend", "an obstacle next to the path", UNSEEN)


def speeds_along(
    points_W: NDArray[np.float64],
    beside_m: NDArray[np.float64],
    known: NDArray[np.bool_],
    end_mps: float,
    params: SpeedParams,
) -> Way:
    """The fastest that a way can be flown.

    Bounded by the bends (v² κ <= acceleration), by obstacles at the sides (reached in
    :data:`BESIDE_S` at least), by what has not been seen (it can stop before), and by braking for
    all of that in time.

    Args:
        points_W: (N, 2) m.
        beside_m: (N,) distance to the nearest obstacle beyond what is stored, m.
        known: (N,) whether each was seen free.
        end_mps: speed at the end.
    """
    steps = np.hypot(*np.diff(points_W, axis=0).T)
    along_m = np.concatenate([[0.0], np.cumsum(steps)])
    bends = np.full(len(points_W), math.inf)
    if len(points_W) > 2:
        heading = np.unwrap(np.arctan2(*np.diff(points_W, axis=0).T[::-1]))
        curvature = np.abs(np.diff(heading)) / np.maximum(0.5 * (steps[1:] + steps[:-1]), 1e-6)
        bends[1:-1] = np.sqrt(params.acceleration_mps2 / np.maximum(curvature, 1e-9))
    alongside = np.maximum(beside_m / max(BESIDE_S, 1e-9), LEAST_MPS)
    unseen = np.where(np.logical_and.accumulate(known), math.inf, 0.0)
    candidates = np.stack([np.full(len(points_W), params.speed_mps), bends, alongside, unseen])
    limits = np.argmin(candidates, axis=0)
    speeds = candidates[limits, np.arange(len(points_W))]
    if speeds[-1] > end_mps:
        speeds[-1], limits[-1] = end_mps, 0
    for k in range(len(points_W) - 2, -1, -1):
        most = math.sqrt(speeds[k + 1] ** 2 + 2.0 * params.braking_mps2 * steps[k])
        if most < speeds[k]:
            speeds[k], limits[k] = most, limits[k + 1]
    return Way(points_W, along_m, speeds, limits)


def nearest_on(way: Way, p_W: NDArray[np.float64]) -> float:
    """Length along a way to the point of it that is nearest to a place."""
    a, b = way.points_W[:-1], way.points_W[1:]
    step = b - a
    square = np.maximum(np.einsum("ij,ij->i", step, step), 1e-12)
    share = np.clip(np.einsum("ij,ij->i", p_W - a, step) / square, 0.0, 1.0)
    k = int(np.argmin(np.hypot(*(a + share[:, None] * step - p_W).T)))
    return float(way.along_m[k] + share[k] * (way.along_m[k + 1] - way.along_m[k]))


def place_on(way: Way, along_m: float) -> NDArray[np.float64]:
    """(2,) point of a way at a length along it."""
    return np.array([np.interp(along_m, way.along_m, way.points_W[:, k]) for k in (0, 1)])


def follow(
    way: Way, p_W: NDArray[np.float64], v_W: NDArray[np.float64], params: SpeedParams
) -> tuple[NDArray[np.float64], str]:
    """Velocity that follows a way.

    It points along the way where the vehicle will be when it has answered, and back to the way; it
    is no faster than is allowed anywhere on the way until then.

    Args:
        p_W, v_W: (2,) position in m and velocity in m/s.

    Returns:
        (2,) m/s, and what bounds it, in words.
    """
    at_m, speed = nearest_on(way, p_W), float(np.hypot(*v_W))
    ahead_m = at_m + speed * params.reaction_s
    passed = np.searchsorted(way.along_m, [at_m, ahead_m], side="right")
    some = slice(max(int(passed[0]) - 1, 0), int(passed[1]) + 1)
    slowest = some.start + int(np.argmin(way.speeds_mps[some]))
    allowed = float(np.interp(ahead_m, way.along_m, way.speeds_mps))
    allowed = min(allowed, float(np.interp(at_m, way.along_m, way.speeds_mps)))
    tangent_m = at_m + speed * params.lag_s
    here, there = place_on(way, tangent_m), place_on(way, tangent_m + 2.0 * SAMPLE_M)
    if tangent_m + 2.0 * SAMPLE_M >= way.along_m[-1]:
        here, there = place_on(way, way.along_m[-1] - 2.0 * SAMPLE_M), way.points_W[-1]
    direction = (there - here) / max(float(np.hypot(*(there - here))), 1e-9)
    back = CROSS_GAIN_PER_S * (place_on(way, at_m) - p_W)
    wanted = allowed * direction + back
    length = float(np.hypot(*wanted))
    if length > max(allowed, 1e-9):
        wanted *= max(allowed, min(length, LEAST_MPS)) / length
    return wanted, LIMITS[int(way.limits[slowest])]
