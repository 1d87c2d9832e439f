"""Other vehicles with guards of their own: no two guards certify the same place.

Each guard reports its *reach*: points whose hull holds all that its vehicle reaches if zero is
commanded from now on. Between two reaches is a gap. Each guard lets its own reach grow into its
half of that gap alone, so that the vehicles stay apart however both of them decide (buffered
Voronoi cells: D. Zhou, Z. Wang, S. Bandyopadhyay, M. Schwager, *Fast, on-line collision avoidance
for dynamic vehicles using buffered Voronoi cells*, RA-L 2017; here of reaches, not of places).

A rotor blows down whoever is below it, so distances are those of upright ellipsoids (J. Preiss,
W. Hoenig, N. Ayanian, G. Sukhatme, *Downwash-aware trajectory planning for large quadrotor teams*,
IROS 2017): a height counts for less, by ``HEIGHT_RATIO``.

What a scan hits within a neighbour's keep-out about its reach is the neighbour itself: its own
guard proves that nothing else is there. It counts by its reach alone, and is no obstacle that
stands. Where something else were there all the same, it would be as far from the own reach as
promised, which keeps both keep-outs from that of the neighbour.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, kernel
from quadsim.hil.guard.parameters import FARTHEST_M, PERIOD_S, GuardParams

#: Distance above and below over that to the side, for all vehicles (Preiss et al., above).
HEIGHT_RATIO = 3.0
#: Iterations after which the best plane that was found is taken.
MOST_STEPS = 64
#: No reach has more points.
MOST_POINTS = 1000
#: Faster than a clock drifts: how the least delay that was seen is forgotten, s/s.
FORGET = 1e-4
#: Reaches are stored for so long, for scans that come late, ns.
KEPT_NS = 500_000_000
#: A stamp that is so much earlier than the last one begins anew, ns.
ANEW_NS = 1_000_000_000


@kernel
def separation(a: Array, b: Array) -> tuple[float, float, float, float, float]:
    """A plane between the hulls of two sets of points, by Gilbert's method.

    Args:
        a: (M, 3) points, m.
        b: (N, 3) points, m.

    Returns:
        Unit normal from a to b, the largest n a, and the gap along n, m; negative where they meet.
    """
    px, py, pz = b[0, 0] - a[0, 0], b[0, 1] - a[0, 1], b[0, 2] - a[0, 2]
    best, top = -math.inf, 0.0
    bx, by, bz = 1.0, 0.0, 0.0
    for _ in range(MOST_STEPS):
        size = math.sqrt(px * px + py * py + pz * pz)
        if size < 1e-9:
            break
        nx, ny, nz = px / size, py / size, pz / size
        far, k = -math.inf, 0
        for i in range(len(a)):
            along = nx * a[i, 0] + ny * a[i, 1] + nz * a[i, 2]
            if along > far:
                far, k = along, i
        near, m = math.inf, 0
        for i in range(len(b)):
            along = nx * b[i, 0] + ny * b[i, 1] + nz * b[i, 2]
            if along < near:
                near, m = along, i
        if near - far > best:
            best, top = near - far, far
            bx, by, bz = nx, ny, nz
        if size - (near - far) < 1e-4:
            break
        dx, dy, dz = b[m, 0] - a[k, 0] - px, b[m, 1] - a[k, 1] - py, b[m, 2] - a[k, 2] - pz
        length2 = dx * dx + dy * dy + dz * dz
        if length2 < 1e-18:
            break
        step = min(max(-(px * dx + py * dy + pz * dz) / length2, 0.0), 1.0)
        px, py, pz = px + step * dx, py + step * dy, pz + step * dz
    return bx, by, bz, top, best


@kernel
def hull_gaps(points: Array, hull: Array, gaps: Array) -> None:
    """Write into gaps (N,) how far each point of (N, 3) is from the hull of others (M, 3), m."""
    for k in range(len(points)):
        gaps[k] = separation(points[k : k + 1], hull)[4]


def growth_mps(params: GuardParams) -> float:
    """How fast a vehicle's reach grows at most, m/s: it moves on, and speeds up."""
    limits, vehicle = params.limits, params.vehicle
    change_mps2 = limits.acceleration_max_mps2
    fastest = math.hypot(limits.speed_max_mps, limits.climb_max_mps)
    grown = fastest * (1.0 + change_mps2 / vehicle.brake_mps2)
    return grown + change_mps2 * vehicle.latency_s


@dataclass(frozen=True)
class Halves:
    """Half-spaces n x <= b about a place, one for each neighbour.

    Attributes:
        normal_W: (K, 3) unit, towards the neighbour.
        own_m: (K,) the largest n x of the own reach.
        bound_m: (K,) how far that may grow; less than ``own_m`` where they are too near.
        law_m: (K,) the same less a margin, for what is planned.
        words: (K,) whose it is.
    """

    normal_W: Array
    own_m: Array
    bound_m: Array
    law_m: Array
    words: tuple[str, ...]

    def room(self, points_W: Array) -> float:
        """Least room of points; a reach that is too near may shrink, and not grow."""
        if not self.words:
            return math.inf
        most = np.maximum(self.own_m, self.bound_m)
        return float(np.min(most - (points_W @ self.normal_W.T).max(axis=0)))


class _Neighbour:
    """What one of them stated last."""

    def __init__(self, radius_m: float, growth_mps: float) -> None:
        self.radius_m, self.growth_mps = radius_m, growth_mps
        self.points_W: Array = np.zeros((0, 3))
        self.stamp_ns = self.came_ns = 0
        self.unsure = False  # it has stated that it does not know where it is
        self._late_s = 0.0
        self._least_ns = math.inf
        self._kept: deque[tuple[int, Array]] = deque()  # when each came, and where it is

    def take(self, stamp_ns: int, now_ns: int, points_W: Array) -> str | None:
        """Take a reach; why not, or None."""
        if self.stamp_ns and stamp_ns <= self.stamp_ns:
            if self.stamp_ns - stamp_ns < ANEW_NS:
                return "its reach repeats or goes back in time"
            self._least_ns = math.inf
        self.stamp_ns, self.unsure = stamp_ns, not len(points_W)
        if self.unsure:
            return None
        self._least_ns += FORGET * (now_ns - self.came_ns)
        self._least_ns = min(self._least_ns, now_ns - stamp_ns)
        self._late_s = (now_ns - stamp_ns - self._least_ns) * 1e-9
        self.came_ns, self.points_W = now_ns, points_W
        self._kept.append((now_ns, points_W))
        while self._kept[0][0] < now_ns - KEPT_NS:
            self._kept.popleft()
        return None

    def reach_at(self, seen_ns: int) -> Array:
        """The last reach that had come at a time: it holds where the vehicle was then."""
        before = (points_W for came_ns, points_W in reversed(self._kept) if came_ns <= seen_ns)
        return next(before, self._kept[0][1])

    def age_s(self, now_ns: int) -> float:
        """Time since it was stated, beyond the quickest way here; inf before the first."""
        if not len(self.points_W):
            return math.inf
        return (now_ns - self.came_ns) * 1e-9 + self._late_s


class Neighbours:
    """The vehicles with guards of their own.

    Args:
        params: of the own guard; theirs are taken for like it, but for size and growth.
    """

    def __init__(self, params: GuardParams) -> None:
        self._params = params
        self._all: dict[str, _Neighbour] = {}
        self._metric = np.array((1.0, 1.0, 1.0 / HEIGHT_RATIO))

    def expect(
        self, radii_m: Mapping[str, float], growths_mps: Mapping[str, float] | None = None
    ) -> None:
        """There are these, by name, with the keep-out about their centres (m).

        ``growths_mps``: how fast the reach of each grows at most; None: as one's own.
        """
        growths = growths_mps or dict.fromkeys(radii_m, growth_mps(self._params))
        self._all = {name: _Neighbour(radii_m[name], growths[name]) for name in radii_m}

    def hit(self, now_ns: int, seen_ns: int, points_W: Array) -> NDArray[np.bool_]:
        """(N,) which hits (N, 3) of a scan that was taken at ``seen_ns`` are of one of them.

        Of one that is lost every hit counts as an obstacle.
        """
        found = np.zeros(len(points_W), np.bool_)
        for one in self._all.values():
            if one.unsure or one.age_s(now_ns) > self._params.neighbours.timeout_s:
                continue
            hull_W, radius_m = one.reach_at(seen_ns), one.radius_m
            reach_m = radius_m / self._metric
            low, high = hull_W.min(axis=0) - reach_m, hull_W.max(axis=0) + reach_m
            some = np.flatnonzero(((points_W >= low) & (points_W <= high)).all(axis=1))
            gaps = np.empty(len(some))
            hull_gaps(points_W[some] * self._metric, hull_W * self._metric, gaps)
            found[some] |= gaps <= radius_m
        return found

    def take(self, name: str, stamp_ns: int, now_ns: int, points_W: Any) -> str | None:
        """Take the reach (N, 3) in W that one of them stated; why not, or None.

        Without a point: it does not know where it is.
        """
        if name not in self._all:
            return f"no neighbour is named {name!r}"
        points = np.array(points_W, dtype=np.float64)
        points = points.reshape(0, 3) if points.size == 0 else points
        if points.ndim != 2 or points.shape[1] != 3 or len(points) > MOST_POINTS:
            return f"a reach of shape {points.shape}; allowed: (N, 3), at most {MOST_POINTS}"
        if not np.isfinite(points).all():
            return "a point of its reach is not finite"
        if points.size and np.abs(points).max() > FARTHEST_M:
            return f"its reach is farther than {FARTHEST_M:g} m from the map's origin"
        return self._all[name].take(stamp_ns, now_ns, points)

    def fault(self, now_ns: int) -> str:
        """Which of them is silent or does not know where it is, in words; empty: none."""
        words = []
        for name, one in self._all.items():
            age_s = one.age_s(now_ns)
            if age_s <= self._params.neighbours.timeout_s:
                continue
            if one.unsure:
                words.append(f"neighbour {name} does not know where it is")
            elif not one.stamp_ns:
                words.append(f"neighbour {name} not heard")
            else:
                words.append(f"neighbour {name} lost: not heard for {age_s:.2f} s")
        return ", ".join(words)

    def near(self, p_W: Array) -> str:
        """Which of them is too near to begin, in words; empty: none."""
        for name, one in self._all.items():
            if not len(one.points_W):
                continue
            place = np.ascontiguousarray((p_W * self._metric)[None])
            gap_m = separation(place, one.points_W * self._metric)[4]
            least_m = self._params.keep_out_m + one.radius_m
            if gap_m < least_m:
                return f"neighbour {name} is {gap_m:.2f} m away; allowed: {least_m:.2f}"
        return ""

    def halves(self, now_ns: int, p_W: Array, own_W: Array, margin_m: float) -> Halves:
        """Which half of the space about a place is the vehicle's own.

        Args:
            now_ns: the watchdogs' time.
            p_W: (3,) the vehicle's place.
            own_W: (M, 3) its own reach, relative to that, 0 first.
            margin_m: held beyond what is promised, by what is planned.
        """
        params = self._params
        own = own_W * self._metric
        rows, words = [], []
        for name, one in self._all.items():
            if not len(one.points_W):
                continue
            theirs = (one.points_W - p_W) * self._metric
            nx, ny, nz, top, gap_m = separation(own, theirs)
            free_m = gap_m - params.keep_out_m - one.radius_m
            grown_m = one.growth_mps * (one.age_s(now_ns) + PERIOD_S)
            # what may have grown since is no reason to retreat
            half_m, law_m = (
                0.5 * min(max(free_m - grown_m - kept_m, 0.0), free_m) for kept_m in (0.0, margin_m)
            )
            normal = np.array((nx, ny, nz)) * self._metric
            size = math.sqrt(normal @ normal)
            rows.append(np.array((*normal, top, top + half_m, top + law_m)) / size)
            words.append(f"neighbour {name}")
        table = np.array(rows).reshape(-1, 6)
        own_m, bound_m, law_m = table[:, 3:].T
        return Halves(table[:, :3], own_m, bound_m, law_m, tuple(words))
