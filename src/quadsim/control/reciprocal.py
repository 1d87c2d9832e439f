"""Vehicles that give way to each other: reciprocal velocity obstacles, each for itself.

Every vehicle knows position and velocity of those around it, as they estimate them. Of the
velocities that keep it apart from each of them for the next seconds, if they do their half of it,
it takes the one nearest to what it wants (J. van den Berg, S. Guy, M. Lin, D. Manocha, *Reciprocal
n-body collision avoidance*, ISRR 2011). Each neighbour leaves a half-plane of velocities; the
nearest one in all of them is a linear program in the plane, whose solution their algorithm finds
line by line. Where the half-planes have nothing in common the velocity that violates them least is
taken.

Everything is level: a quadrotor blows down whoever is below it, so vehicles are upright columns
(J. Preiss, W. Hoenig, N. Ayanian, G. Sukhatme, *Downwash-aware trajectory planning for large
quadrotor teams*, IROS 2017), and those of another height are no neighbours. Vehicles that meet turn
to their right: what is symmetric would else stand still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, kernel, owning_kernel
from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Spec

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Neighbours that a vehicle heeds, the nearest.
MOST_NEIGHBOURS = 12
#: Lines nearer to parallel than this, by the sine of their angle, are.
PARALLEL = 1e-6
#: A request that violates a half-plane by less, in m/s, is none that needs a change.
SLACK_MPS = 1e-6
#: Time in which vehicles that are too near are to be apart, s.
APART_S = 0.5


@dataclass(frozen=True)
class GiveWayParams:
    """How vehicles of a swarm avoid each other."""

    radius_m: Annotated[
        float, Spec("half of what two vehicles keep between their axes", "m", gt=0.0, le=100.0)
    ] = 1.0
    horizon_s: Annotated[float, Spec("how far ahead they look", "s", gt=0.0, le=60.0)] = 3.0
    height_m: Annotated[
        float, Spec("vehicles farther above or below are no neighbours", "m", gt=0.0, le=1000.0)
    ] = 3.0
    right_deg: Annotated[
        float, Spec("turn of a velocity that leads to another vehicle", "deg", ge=0.0, le=60.0)
    ] = 15.0


@kernel
def half_plane(
    px: float, py: float, vx: float, vy: float, reach_m: float, horizon_s: float
) -> tuple[float, float, float, float]:
    """Least change of the relative velocity that leaves a velocity obstacle, and its line.

    Args:
        px, py: the other's position less the own, m.
        vx, vy: the own velocity less the other's, m/s.
        reach_m: distance to be held.
        horizon_s: for so long.

    Returns:
        The change u, and the direction of the line, with what is allowed to its left.
    """
    distance2 = px * px + py * py
    if distance2 <= reach_m * reach_m:  # too near: apart within a short time
        horizon_s = APART_S
    wx, wy = vx - px / horizon_s, vy - py / horizon_s
    along, w2 = wx * px + wy * py, wx * wx + wy * wy
    near = distance2 <= reach_m * reach_m
    if near or (along < 0.0 and along * along > reach_m * reach_m * w2):
        size = math.sqrt(w2)  # the nearest point of the border is on the cut-off circle
        nx, ny = (wx / size, wy / size) if size > 1e-9 else (0.0, 1.0)
        push = reach_m / horizon_s - size
        return (push * nx, push * ny, ny, -nx)
    leg = math.sqrt(distance2 - reach_m * reach_m)
    if px * wy - py * wx > 0.0:
        dx, dy = (px * leg - py * reach_m) / distance2, (px * reach_m + py * leg) / distance2
    else:
        dx, dy = -(px * leg + py * reach_m) / distance2, -(py * leg - px * reach_m) / distance2
    on = vx * dx + vy * dy
    return (on * dx - vx, on * dy - vy, dx, dy)


@kernel
def on_line(
    lines: Array, k: int, most_mps: float, gx: float, gy: float, along: bool
) -> tuple[bool, float, float]:
    """The best velocity on one line within the half-planes before it and the circle of speeds.

    Args:
        lines: (K, 4) a point of each line, and its direction.
        k: whose line.
        most_mps: radius of the circle.
        gx, gy: the request; or the direction in which as far as possible is best.
        along: whether it is a direction.

    Returns:
        Whether there is one, and it.
    """
    x, y, dx, dy = lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3]
    middle = x * dx + y * dy
    root = middle * middle + most_mps * most_mps - (x * x + y * y)
    if root < 0.0:
        return (False, 0.0, 0.0)
    low, high = -middle - math.sqrt(root), -middle + math.sqrt(root)
    for i in range(k):
        across = dx * lines[i, 3] - dy * lines[i, 2]
        out = lines[i, 2] * (y - lines[i, 1]) - lines[i, 3] * (x - lines[i, 0])
        if abs(across) <= PARALLEL:
            if out < 0.0:
                return (False, 0.0, 0.0)
            continue
        t = out / across
        if across >= 0.0:
            high = min(high, t)
        else:
            low = max(low, t)
        if low > high:
            return (False, 0.0, 0.0)
    if along:
        t = high if gx * dx + gy * dy > 0.0 else low
    else:
        t = min(max(dx * (gx - x) + dy * (gy - y), low), high)
    return (True, x + t * dx, y + t * dy)


@kernel
def outside(lines: Array, k: int, x: float, y: float) -> float:
    """How far a velocity is outside of a half-plane, m/s; negative inside."""
    return float(lines[k, 2] * (lines[k, 1] - y) - lines[k, 3] * (lines[k, 0] - x))


@kernel
def nearest_velocity(
    lines: Array, count: int, most_mps: float, gx: float, gy: float, along: bool
) -> tuple[int, float, float]:
    """The best velocity in all half-planes; the first one that leaves nothing ends the search.

    Args:
        lines, most_mps, gx, gy, along: as of :func:`on_line`.
        count: of the lines.

    Returns:
        The half-plane that failed (``count``: none did), and the best velocity before it.
    """
    size = math.sqrt(gx * gx + gy * gy)
    share = most_mps / size if size > 0.0 and (along or size > most_mps) else 1.0
    x, y = share * gx, share * gy
    for k in range(count):
        if outside(lines, k, x, y) > 0.0:
            found, new_x, new_y = on_line(lines, k, most_mps, gx, gy, along)
            if not found:
                return (k, x, y)
            x, y = new_x, new_y
    return (count, x, y)


@kernel
def least_violation(
    lines: Array, work: Array, count: int, first: int, most_mps: float, x: float, y: float
) -> tuple[float, float]:
    """The velocity that is the least outside of any half-plane.

    Args:
        lines, count, most_mps: as of :func:`nearest_velocity`.
        work: as large as ``lines``.
        first: the half-plane that failed.
        x, y: the best velocity before it.
    """
    worst = 0.0
    for k in range(first, count):
        if outside(lines, k, x, y) <= worst:
            continue
        made = 0
        for i in range(k):
            across = lines[k, 2] * lines[i, 3] - lines[k, 3] * lines[i, 2]
            if abs(across) <= PARALLEL:
                if lines[k, 2] * lines[i, 2] + lines[k, 3] * lines[i, 3] > 0.0:
                    continue
                px, py = 0.5 * (lines[k, 0] + lines[i, 0]), 0.5 * (lines[k, 1] + lines[i, 1])
            else:
                t = (
                    lines[i, 2] * (lines[k, 1] - lines[i, 1])
                    - lines[i, 3] * (lines[k, 0] - lines[i, 0])
                ) / across
                px, py = lines[k, 0] + t * lines[k, 2], lines[k, 1] + t * lines[k, 3]
            dx, dy = lines[i, 2] - lines[k, 2], lines[i, 3] - lines[k, 3]
            size = math.sqrt(dx * dx + dy * dy)
            work[made, 0], work[made, 1] = px, py
            work[made, 2], work[made, 3] = dx / size, dy / size
            made += 1
        reached, new_x, new_y = nearest_velocity(
            work, made, most_mps, -lines[k, 3], lines[k, 2], True
        )
        if reached == made:  # else by rounding alone: what was found stays
            x, y = new_x, new_y
        worst = outside(lines, k, x, y)
    return (x, y)


@owning_kernel
def neighbours_of(
    i: int, p_W: Array, flies: Flags, reach_m: float, height_m: float, near: Indices
) -> int:
    """Write the indices of a vehicle's nearest neighbours in order; how many there are."""
    count = 0
    apart2 = np.empty(MOST_NEIGHBOURS)
    for k in range(p_W.shape[0]):
        if k == i or not flies[k] or abs(p_W[k, 2] - p_W[i, 2]) > height_m:
            continue
        x, y = p_W[k, 0] - p_W[i, 0], p_W[k, 1] - p_W[i, 1]
        square = x * x + y * y
        if square > reach_m * reach_m or (count == MOST_NEIGHBOURS and square >= apart2[count - 1]):
            continue
        if count < MOST_NEIGHBOURS:
            count += 1
        at = count - 1
        while at > 0 and apart2[at - 1] > square:
            apart2[at], near[at] = apart2[at - 1], near[at - 1]
            at -= 1
        apart2[at], near[at] = square, k
    return count


@owning_kernel
def give_way(
    p_W: Array,
    v_W: Array,
    wish_W: Array,
    flies: Flags,
    gives_way: Flags,
    most_mps: float,
    radius_m: float,
    horizon_s: float,
    height_m: float,
    right_rad: float,
    given_W: Array,
    whom: Indices,
) -> None:
    """Velocities that keep vehicles apart, as near as can be to what each of them requests.

    Args:
        p_W: (N, 3) where they are, m.
        v_W: (N, 3) how they move, m/s.
        wish_W: (N, 3) velocities that they request.
        flies: (N,) bool; others are not there.
        gives_way: (N,) bool; of others nothing is expected, and they are not changed.
        most_mps: fastest, level.
        radius_m, horizon_s, height_m, right_rad: as of :class:`GiveWayParams`, rad.
        given_W: (N, 3) the result; the same number for number where the request may stay.
        whom: (N,) int64, the neighbour that forbids a request most, -1 where it may stay; a result.
    """
    lines, work = np.empty((MOST_NEIGHBOURS, 4)), np.empty((MOST_NEIGHBOURS, 4))
    near = np.empty(MOST_NEIGHBOURS, np.int64)
    keep_m = 2.0 * radius_m
    reach_m = keep_m + 2.0 * most_mps * horizon_s
    c, s = cos(right_rad), sin(right_rad)
    for i in range(p_W.shape[0]):
        whom[i] = -1
        for axis in range(3):
            given_W[i, axis] = wish_W[i, axis]
        if not gives_way[i] or not flies[i]:
            continue
        count = neighbours_of(i, p_W, flies, reach_m, height_m, near)
        worst = SLACK_MPS
        for k in range(count):
            j = near[k]
            vx, vy = v_W[i, 0] - v_W[j, 0], v_W[i, 1] - v_W[j, 1]
            px, py = p_W[j, 0] - p_W[i, 0], p_W[j, 1] - p_W[i, 1]
            ux, uy, dx, dy = half_plane(px, py, vx, vy, keep_m, horizon_s)
            share = 0.5 if gives_way[j] else 1.0
            lines[k, 0], lines[k, 1] = v_W[i, 0] + share * ux, v_W[i, 1] + share * uy
            lines[k, 2], lines[k, 3] = dx, dy
            out = outside(lines, k, wish_W[i, 0], wish_W[i, 1])
            if out > worst:
                worst, whom[i] = out, j
        if whom[i] < 0:
            continue
        gx, gy = wish_W[i, 0], wish_W[i, 1]
        gx, gy = c * gx + s * gy, c * gy - s * gx
        failed, x, y = nearest_velocity(lines, count, most_mps, gx, gy, False)
        if failed < count:
            x, y = least_violation(lines, work, count, failed, most_mps, x, y)
        given_W[i, 0], given_W[i, 1] = x, y
