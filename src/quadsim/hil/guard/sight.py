"""What the guard knows to be in the way: hits of the last scans, and known shapes.

A way to a stop is no safe end where something comes: a vehicle that stands in its path is hit. So
commands are compared by the smallest distance to each moving shape over the next seconds, both in
motion (the velocity obstacle of P. Fiorini and Z. Shiller, *Motion planning in dynamic environments
using velocity obstacles*, IJRR 17, 1998, with the vehicle's own lag in it).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.control.avoidance import Obstacles, balls
from quadsim.geometry.linear import lengths
from quadsim.hil.guard.parameters import FARTHEST_M, FASTEST_MPS, GuardParams
from quadsim.hil.guard.reaches import Neighbours

Array = NDArray[np.float64]

#: A moving shape is a row of columns, no farther apart than this, along the way it may go.
ALONG_M = 0.25
#: No more of them for one shape.
MOST_ALONG = 40
#: Directions of azimuth that are told apart; rays no farther apart than so many look between.
DIRECTIONS, BETWEEN = 360, 10
#: Slower than this a level velocity has no direction, m/s.
STILL_MPS = 1e-3


@dataclass(frozen=True)
class Shape:
    """Something whose place is known, such as another vehicle: an upright cylinder.

    Attributes:
        p_W: its centre, m.
        v_W: its velocity, m/s.
        radius_m: horizontal.
        half_height_m: from its centre to its top or bottom.
    """

    p_W: Vec3
    v_W: Vec3
    radius_m: float
    half_height_m: float

    def is_finite(self) -> bool:
        """Whether every number is one."""
        return math.isfinite(sum(self.p_W) + sum(self.v_W) + self.radius_m + self.half_height_m)


@dataclass(frozen=True)
class Path:
    """Where a shape may be until the vehicle stands: upright, along a line.

    Attributes:
        start_W: (3,) relative to the vehicle, z 0, m.
        way_W: (3,) from there to its end, z 0.
        keep_out_m: from that line.
    """

    start_W: Array
    way_W: Array
    keep_out_m: float

    @property
    def nearest_W(self) -> Array:
        """(3,) its point nearest to the vehicle."""
        length2 = float(self.way_W @ self.way_W)
        share = -float(self.start_W @ self.way_W) / length2 if length2 > 0.0 else 0.0
        near: Array = self.start_W + min(max(share, 0.0), 1.0) * self.way_W
        return near

    @property
    def rows(self) -> Obstacles:
        """It as a row of columns that covers it."""
        way_m = math.sqrt(self.way_W @ self.way_W)
        count = min(1 + math.ceil(way_m / ALONG_M), MOST_ALONG)
        apart_m = way_m / (count - 1) if count > 1 else 0.0
        row: Array = self.start_W + np.linspace(0.0, 1.0, count)[:, None] * self.way_W
        return balls(row, math.hypot(self.keep_out_m, apart_m / 2.0), column=True)


def _covered(azimuths_rad: Array) -> NDArray[np.bool_]:
    """(DIRECTIONS,) which of them rays look into, (K,), or between."""
    covered = np.zeros(DIRECTIONS, np.bool_)
    covered[
        np.floor(azimuths_rad * (DIRECTIONS / (2.0 * math.pi))).astype(np.int64) % DIRECTIONS
    ] = True
    cells = np.flatnonzero(covered)
    apart = np.diff(cells, append=cells[:1] + DIRECTIONS)
    for begin, gap in zip(cells[apart > 1], apart[apart > 1], strict=True):
        if gap <= BETWEEN:
            covered[np.arange(begin, begin + gap) % DIRECTIONS] = True
    return covered


class Sight:
    """Hits and shapes, as obstacles about the vehicle."""

    def __init__(self, params: GuardParams) -> None:
        self._params = params
        #: Vehicles with guards of their own.
        self.neighbours = Neighbours(params)
        self._scans: deque[tuple[int, int, Array]] = deque()  # when it came, when it saw, hits
        self._points_W: Array = np.zeros((0, 3))
        self._seen_ns: Array = np.zeros(0)  # (N,) when each was seen
        self._shapes: tuple[Shape, ...] = ()
        self._scan_ns: int | None = None
        self._shapes_ns: int | None = None
        #: Whether shapes have to come, as scans do.
        self.expects_shapes = False
        #: In words: why they do not come.
        self.missing = ""
        self.range_m = params.sight.range_m
        self._looked_ns: Array = np.full(DIRECTIONS, -math.inf)  # when rays last stated something
        self._found: tuple[Array, Array, Obstacles, Array] | None = None

    def take_scan(
        self,
        now_ns: int,
        origin_W: Vec3,
        points_W: Any,
        range_m: float | None,
        late_s: float = 0.0,
        azimuths_W: Any = None,
    ) -> str | None:
        """Take the hits (N, 3) in W of one scan, seen so long ago; why not, or None.

        ``azimuths_W`` (K,), rad: where its rays have looked; None: all round.
        """
        points = np.asarray(points_W, dtype=np.float64)
        if points.size == 0:
            points = np.zeros((0, 3))
        if points.ndim != 2 or points.shape[1] != 3:
            return f"hits of shape {points.shape}; give (N, 3)"
        if not math.isfinite(sum(origin_W)):
            return "its origin is not finite"
        if not np.isfinite(points).all():
            return "a hit is not finite"
        if range_m is not None and not (math.isfinite(range_m) and range_m > 0.0):
            return f"a range of {range_m:g} m; allowed: > 0"
        looked = None if azimuths_W is None else np.asarray(azimuths_W, dtype=np.float64)
        if looked is not None and not np.isfinite(looked).all():
            return "an azimuth is not finite"
        if points.size and np.abs(points).max() > FARTHEST_M:
            return f"a hit farther than {FARTHEST_M:g} m from the map's origin"
        sight = self._params.sight
        self.range_m = min(sight.range_m, range_m or math.inf)
        if looked is None:
            self._looked_ns[:] = now_ns
        else:
            self._looked_ns[_covered(looked)] = now_ns
        seen_ns = now_ns - round(late_s * 1e9)
        keep = points[:, 2] >= sight.ignore_below_m
        keep &= ~self.neighbours.hit(now_ns, seen_ns, points)
        self._scans.append((now_ns, seen_ns, points[keep]))
        oldest_ns = now_ns - round(sight.memory_s * 1e9)
        while self._scans[0][0] < oldest_ns:
            self._scans.popleft()
        self._points_W = np.concatenate([hits for *_, hits in self._scans])
        self._seen_ns = np.concatenate(
            [np.full(len(hits), float(seen_ns)) for _, seen_ns, hits in self._scans]
        )
        self._scan_ns = now_ns
        return None

    def _looked(self, now_ns: int) -> NDArray[np.bool_]:
        """(DIRECTIONS,) into which rays have looked lately."""
        oldest_ns = now_ns - self._params.sight.timeout_s * 1e9
        looked: NDArray[np.bool_] = self._looked_ns >= oldest_ns
        return looked

    def _open(self, now_ns: int) -> NDArray[np.bool_] | None:
        """(DIRECTIONS,) which of them are open; None: all are, or it is not asked for."""
        looked = self._looked(now_ns)
        if looked.all() or not self._params.sight.required:
            return None
        alongside = min(math.ceil(math.degrees(self._params.sight.beside_rad)), DIRECTIONS // 2)
        around = np.concatenate(([0], np.cumsum(np.tile(looked, 3))))
        first = DIRECTIONS + np.arange(DIRECTIONS) - alongside
        count: NDArray[np.int64] = around[first + 2 * alongside + 1] - around[first]
        return np.asarray(count == 2 * alongside + 1)

    def seen_part(self, now_ns: int, v_W: Array) -> Array:
        """The velocity nearest to one whose level part goes into an open direction."""
        speed_mps = math.hypot(v_W[0], v_W[1])
        if speed_mps <= STILL_MPS:
            return v_W
        is_open = self._open(now_ns)
        if is_open is None:
            return v_W
        azimuth_rad = math.atan2(v_W[1], v_W[0])
        if is_open[math.floor(math.degrees(azimuth_rad)) % DIRECTIONS]:
            return v_W
        centres_rad = (np.flatnonzero(is_open) + 0.5) * (2.0 * math.pi / DIRECTIONS)
        along = np.cos(centres_rad - azimuth_rad)
        best = int(np.argmax(along)) if len(along) else -1
        level_mps = speed_mps * max(float(along[best]), 0.0) if best >= 0 else 0.0
        if level_mps == 0.0:
            return np.array((0.0, 0.0, v_W[2]))
        x, y = math.cos(centres_rad[best]), math.sin(centres_rad[best])
        return np.array((level_mps * x, level_mps * y, v_W[2]))

    def sees_all_round(self, now_ns: int) -> bool:
        """Whether every direction is open."""
        return self._open(now_ns) is None

    def is_seen(self, now_ns: int, v_W: Array) -> bool:
        """Whether a velocity goes into an open direction, or has no level part."""
        return self.seen_part(now_ns, v_W) is v_W

    def blind(self, now_ns: int) -> str:
        """In words, that no direction is open; empty where one is."""
        is_open = self._open(now_ns)
        if is_open is None or is_open.any():
            return ""
        covered_deg = int(self._looked(now_ns).sum()) * 360 // DIRECTIONS
        return (
            f"the scan covers {covered_deg} deg of azimuth; a direction is open where it covers"
            f" {math.degrees(self._params.sight.beside_rad):.0f} deg to either side"
            " (sight.beside_rad)"
        )

    def take_shapes(self, now_ns: int, shapes: Sequence[Shape]) -> str | None:
        """Take all known shapes in place of the last ones; why not, or None."""
        for i, shape in enumerate(shapes):
            if not shape.is_finite() or shape.radius_m < 0.0 or shape.half_height_m < 0.0:
                return f"shapes[{i}]: a number is not finite, or a size is below 0"
            sizes = (*shape.p_W, shape.radius_m, shape.half_height_m)
            if max(map(abs, sizes)) > FARTHEST_M or max(map(abs, shape.v_W)) > FASTEST_MPS:
                return f"shapes[{i}]: beyond {FARTHEST_M:g} m or {FASTEST_MPS:g} m/s"
        self._shapes = tuple(shapes)
        self._shapes_ns = now_ns
        self.missing = ""
        return None

    def fault(self, now_ns: int) -> str:
        """What is missing or too old, in words; empty where all is well."""
        sight = self._params.sight
        if sight.required:
            if self._scan_ns is None:
                return "no scan"
            age_s = (now_ns - self._scan_ns) * 1e-9
            if age_s > sight.timeout_s:
                return f"scan lost: none for {age_s:.2f} s"
        if self.expects_shapes or self._shapes:
            why = f": {self.missing}" if self.missing else ""
            if self._shapes_ns is None:
                return f"no known shapes yet{why}"
            age_s = (now_ns - self._shapes_ns) * 1e-9
            if age_s > sight.timeout_s:
                return f"known shapes lost: none for {age_s:.2f} s{why}"
        return self.neighbours.fault(now_ns)

    def _about(self, p_W: Array) -> tuple[Obstacles, Array]:
        """The hits about a place, with no keep-out, and their distances; stored while it stays."""
        if self._found is None or self._found[0] is not p_W or self._found[1] is not self._points_W:
            column = self._params.sight.scan == "column"
            found = balls(self._points_W - p_W, 0.0, column)
            self._found = (p_W, self._points_W, found, found.distance_m)
        return self._found[2], self._found[3]

    def hits(self, now_ns: int, p_W: Array, horizon_s: float, within_m: float) -> Obstacles:
        """What the scans hit, about a place.

        Args:
            now_ns: the watchdogs' time.
            p_W: (3,) the vehicle's.
            horizon_s: until the vehicle stands; since they were seen they may have moved as well.
            within_m: those that are farther from their keep-out do not matter.
        """
        params = self._params
        size_m = params.vehicle.radius_m
        if params.sight.scan == "point":
            size_m = max(size_m, params.vehicle.half_height_m)
        moving_s = horizon_s + np.maximum(now_ns - self._seen_ns, 0.0) * 1e-9
        moved_m = params.sight.obstacle_speed_mps * moving_s
        keep_out_m = size_m + params.vehicle.pose_uncertainty_m + moved_m
        found, distance_m = self._about(p_W)
        near = distance_m <= keep_out_m + within_m
        return Obstacles(found.o_W[near], keep_out_m[near], found.upright[near])

    def paths(self, now_ns: int, p_W: Array, rise_m: float, horizon_s: float) -> list[Path]:
        """Where known shapes may be within a horizon, about a place; those above or below left out.

        Args:
            now_ns: the watchdogs' time.
            p_W: (3,) the vehicle's.
            rise_m: farthest that it may go up or down within the horizon.
            horizon_s: time until it stands.
        """
        if not self._shapes or self._shapes_ns is None:
            return []
        vehicle = self._params.vehicle
        age_s = max(now_ns - self._shapes_ns, 0) * 1e-9
        paths = []
        for shape in self._shapes:
            v_W = np.array(shape.v_W)
            o_W = np.array(shape.p_W) + age_s * v_W - p_W
            apart_m = shape.half_height_m + vehicle.half_height_m + vehicle.pose_uncertainty_m
            if abs(o_W[2]) > apart_m + rise_m + abs(v_W[2]) * horizon_s:
                continue  # no way to meet
            keep_out_m = vehicle.radius_m + shape.radius_m + vehicle.pose_uncertainty_m
            level = np.array((1.0, 1.0, 0.0))
            paths.append(Path(o_W * level, horizon_s * v_W * level, keep_out_m))
        return paths

    def clearance_m(self, p_W: Array) -> float:
        """From the vehicle's outside to the nearest hit; inf where there is none."""
        distance_m = self._about(p_W)[1]
        if not len(distance_m):
            return math.inf
        return float(np.min(distance_m)) - self._params.vehicle.radius_m


#: Step of the look ahead, s.
STEP_S = 0.1
#: A request is passed on in front of a shape if it leaves so much room, m.
PASSING_M = 0.3
#: What is commanded already is left for what leaves so much more, m.
BETTER_M = 0.2


def least_gaps(
    v_W: Array,
    commands_W: Array,
    answer_s: float,
    rate_mps2: float,
    paths: Sequence[Path],
    horizon_s: float,
) -> Array:
    """Smallest level distance to the keep-out of any shape under each of several commands.

    Args:
        v_W: (3,) the vehicle's velocity, m/s.
        commands_W: (C, 3) velocities that are compared.
        answer_s: time until the vehicle answers.
        rate_mps2: rate at which its velocity goes to the command from then on.
        paths: of the shapes within the horizon; they keep their velocity.
        horizon_s: of the paths.

    Returns:
        (C,) m, negative where one is entered; inf without shapes.
    """
    place: Array = np.zeros((len(commands_W), 2))
    velocity: Array = np.tile(v_W[:2], (len(commands_W), 1))
    target = commands_W[:, :2]
    gaps = np.full(len(commands_W), math.inf)
    for k in range(math.ceil(horizon_s / STEP_S) + 1):
        t_s = k * STEP_S
        for path in paths:
            shape = path.start_W[:2] + min(t_s / horizon_s, 1.0) * path.way_W[:2]
            apart = place - shape
            gaps = np.minimum(gaps, lengths(apart[:, :2]) - path.keep_out_m)
        place = place + STEP_S * velocity
        if t_s >= answer_s:
            change = target - velocity
            size = lengths(change[:, :2])
            share = np.minimum(1.0, rate_mps2 * STEP_S / np.maximum(size, 1e-9))
            velocity = velocity + share[:, None] * change
    return gaps


def ways_out(wish_W: Array, last_W: Array, paths: Sequence[Path], speed_mps: float) -> Array:
    """(C, 3) level commands that may lead past shapes: ahead, on, and to either side of each.

    None but the request and the last command is faster than ``speed_mps``.
    """
    found = [wish_W, last_W]
    size = math.hypot(wish_W[0], wish_W[1])
    if 0.1 < size < speed_mps:
        found.append(np.array((wish_W[0], wish_W[1], 0.0)) * (speed_mps / size))
    for path in paths:
        across = np.array((-path.way_W[1], path.way_W[0], 0.0))
        size = math.hypot(across[0], across[1])
        if size > 0.1:
            found += [across * (speed_mps / size), across * (-speed_mps / size)]
    return np.array(found)
