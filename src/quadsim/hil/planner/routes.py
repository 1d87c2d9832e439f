"""Which way to a goal: the map, the search in it, and when a way is left for a better one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from quadsim.base.parameters import Vec3
from quadsim.hil.planner.following import Way, nearest_on, rounded, sampled, speeds_along
from quadsim.hil.planner.occupancy import HALF_BAND_M, OccupancyMap, TimesToGoal, disc
from quadsim.hil.planner.parameters import BESIDE_S, LEAST_MPS, PASSING_RADIUS_M, PlannerParams
from quadsim.world.scene.movers import MovingShape

#: Time through what was not seen yet, of that through free air.
UNKNOWN_COST = 1.5
#: A way is left for one that takes this share of its time.
CHANGE_SHARE = 0.9
#: What moves may be met so much earlier or later than planned, s.
SHAPES_SPREAD_S = 0.6

Array = NDArray[np.float64]
#: Vehicles that meet pass each other on the right, as their guards do: a disc of this radius, m, on
#: the left of another takes so many times longer.
LEFT_M, LEFT_COST = 1.5, 3.0
#: A way ends so near its goal, of the radius in which it has arrived; the rest is for the flight.
ARRIVING_SHARE = 0.7


class Routes:
    """Finds ways, and stays with one as long as no other is clearly better.

    Attributes:
        map: of what was seen.
        reason: why there is no way, in words; empty while there is one.
    """

    def __init__(self, params: PlannerParams) -> None:
        self._params = params
        self.map = OccupancyMap(params.map)
        self._body = disc(params.vehicle_radius_m / params.map.cell_m)
        self._around_m = params.map.around_m
        self._way: Way | None = None
        self._taken: NDArray[np.bool_] = np.zeros((0, 0), bool)  # cells that the way needs
        self._box: Array | None = None  # what the map must reach over
        self._shapes: tuple[MovingShape, ...] = ()
        self._shapes_s = -math.inf
        self.reason = ""

    def new_goal(self) -> None:
        """The ways to the last goal are no longer wanted."""
        self._way, self._box, self._around_m = None, None, self._params.map.around_m

    def take_scan(self, now_s: float, origin_W: Vec3, points_W: Array, ends_W: Array) -> bool:
        """Put a scan into the map; reports whether an echo is in the way."""
        if self.map.shape == (0, 0):
            return False
        moving = self._of_shapes(now_s, points_W)
        points_W, ends_W = points_W[~moving], np.vstack([ends_W, points_W[moving]])
        self.map.take(now_s, origin_W, points_W, ends_W)
        if self._way is None or self._taken.shape != self.map.shape:
            return False
        level = np.abs(points_W[:, 2] - self.map.height_m) <= HALF_BAND_M
        cells = self.map.inside(self.map.cells_of(points_W[level]))
        return bool(self._taken[cells[:, 0], cells[:, 1]].any())

    def _of_shapes(self, now_s: float, points_W: Array) -> NDArray[np.bool_]:
        """(N,) which echoes are of something that is known to move: no part of the map."""
        of_one = np.zeros(len(points_W), bool)
        for shape in self._shapes_now(now_s):
            p_W = np.array(shape.p_W) + (now_s - self._shapes_s) * np.array(shape.v_W)
            gap_m = np.hypot(*(points_W[:, :2] - p_W[:2]).T) - shape.radius_m
            of_one |= gap_m <= self._params.margin_m
        return of_one

    def _shapes_now(self, now_s: float) -> tuple[MovingShape, ...]:
        """What is known to move, if that was told lately."""
        age_s = now_s - self._shapes_s
        return self._shapes if age_s <= self._params.scan_timeout_s else ()

    def take_shapes(self, now_s: float, shapes: Sequence[MovingShape]) -> None:
        """Take all that is known to move, in place of what was known before."""
        self._shapes, self._shapes_s = tuple(shapes), now_s

    def find(self, now_s: float, p: Array, v: Array, goal: Array, last: bool) -> Way | None:
        """The way to fly now, with its speeds; None, and a reason, where there is none.

        Args:
            now_s: time.
            p, v: (3,) where the vehicle is, m, and its velocity, m/s.
            goal: (3,) m.
            last: whether it is to stop there.
        """
        self.map.at_height(float(p[2]))
        if not self._cover(p, goal):
            self._way = None
            return None
        found = self._search(now_s, p, v, goal)
        while found is None and self._widen(p, goal):
            found = self._search(now_s, p, v, goal)
        if found is None:
            self._way = None
            return None
        self._narrow(found, p, goal)
        speed = self._params.speed
        # at a goal that is passed: that with which it may stop beyond it
        passing = math.sqrt(2.0 * speed.braking_mps2 * PASSING_RADIUS_M)
        end_mps = 0.0 if last else min(speed.speed_mps, passing)
        self.reason = ""
        self._way = self._with_speeds(found, end_mps)
        self._mark_taken()
        return self._way

    # ---- the map's rectangle -------------------------------------------------------------------

    def _cover(self, p: Array, goal: Array) -> bool:
        """Let the map reach around vehicle and goal: as far as it has been widened, or may be."""
        if self._inside_box(p, 0.5 * self._around_m):
            return True
        while True:
            box = self._wanted_box(p, goal, self._around_m)
            if self.map.cover(box[0], box[1]):
                self._box = box
                return True
            if self._around_m <= self._params.map.around_m:
                break
            self._around_m = max(0.5 * self._around_m, self._params.map.around_m)
        if self._inside_box(p, 0.0):
            return True
        away_m = float(np.hypot(*(goal - p)[:2]))
        self.reason = f"the goal is {away_m:.0f} m away: more than map.cells_max cells"
        return False

    def _inside_box(self, p: Array, border_m: float) -> bool:
        """Whether the vehicle is inside of what the map reaches over, and not near its border."""
        box = self._box
        if box is None:
            return False
        return bool(np.all(p[:2] >= box[0] + border_m) and np.all(p[:2] <= box[1] - border_m))

    @staticmethod
    def _wanted_box(p: Array, goal: Array, around_m: float) -> Array:
        ends = np.stack([p[:2], goal[:2]])
        return np.stack([ends.min(axis=0) - around_m, ends.max(axis=0) + around_m])

    def _widen(self, p: Array, goal: Array) -> bool:
        """Look for ways farther around; False where the map can get no larger."""
        box = self._wanted_box(p, goal, 2.0 * self._around_m)
        area = (self._params.area_min_W_m, self._params.area_max_W_m)
        if np.all(self._box[0] <= area[0]) and np.all(self._box[1] >= area[1]):  # type: ignore
            return False
        if not self.map.cover(box[0], box[1]):
            return False
        self._box, self._around_m = box, 2.0 * self._around_m
        return True

    def _narrow(self, points: Array, p: Array, goal: Array) -> None:
        """Make a map that was widened small again, if the way that was found fits in."""
        box = self._wanted_box(p, goal, self._params.map.around_m)
        widened = self._around_m > self._params.map.around_m
        if widened and np.all(points >= box[0]) and np.all(points <= box[1]):
            self._around_m, self._box = self._params.map.around_m, None

    # ---- the search ----------------------------------------------------------------------------

    def _search(self, now_s: float, p: Array, v: Array, goal: Array) -> Array | None:
        """(N, 2) samples of the way to fly; None, and the reason, where there is none."""
        params, cell = self._params, self._params.map.cell_m
        here = (float(p[0]), float(p[1]), float(p[2]))
        self.map.free_around(now_s, here, params.vehicle_radius_m)
        self._clearance_m = self.map.clearance_m(now_s)
        beside_m, left_m = self._room_beside_shapes(now_s, p, v)
        self._room_m = np.minimum(self._clearance_m, beside_m)
        self._known = self.map.known(now_s)
        speeds = np.clip(
            (self._clearance_m - params.keep_m) / max(BESIDE_S, 1e-9),
            LEAST_MPS,
            params.speed.speed_mps,
        )
        cost_s = cell / speeds
        cost_s[~self._known] *= UNKNOWN_COST
        cost_s[left_m < params.keep_m] *= LEFT_COST
        cost_s[self._room_m < params.keep_m] = math.inf
        self._cost_s = cost_s
        self._close_outside()
        where = f"({goal[0]:.1f}, {goal[1]:.1f})"
        goal_cell = self._goal_cell(now_s, goal)
        if goal_cell is None:
            self.reason = f"an obstacle stands at the goal {where}"
            return None
        start = None
        if self._joined(p, goal_cell):
            times = TimesToGoal(cost_s, goal_cell)
            start = self._start(times, p, v)
        if start is None:
            self.reason = f"no way to the goal {where} is left"
            return None
        before, cells = start
        corners = self.map.middles_of(times.straightened(times.way(cells)))
        corners = np.vstack([before, corners])
        if np.isfinite(self._cost_s[tuple(self.map.cells_of(goal[None])[0])]):
            corners[-1] = goal[:2]
        return self._better(self._round(corners), p)

    def _goal_cell(self, now_s: float, goal: Array) -> tuple[int, int] | None:
        """The cell of the goal; while it is taken by what moves, the nearest one besides that."""
        cell = self._free_near(goal, ARRIVING_SHARE * self._params.arrival_radius_m)
        at_goal = self.map.cells_of(goal[None])[0]
        if cell is None and self._inside(*at_goal) and self._clearance_m[tuple(at_goal)] > 0.0:
            around_m = [
                shape.radius_m + math.hypot(*shape.v_W[:2]) * SHAPES_SPREAD_S
                for shape in self._shapes_now(now_s)
            ]
            if around_m:
                cell = self._free_near(goal, 2.0 * (self._params.keep_m + max(around_m)))
        return cell

    def _room_beside_shapes(self, now_s: float, p: Array, v: Array) -> tuple[Array, Array]:
        """(X, Y) distance to what moves, at the time when the vehicle can be in each cell, m.

        It may be earlier there or later by ``shapes_spread_s``. The second is that to the disc on
        the left of what moves, seen from the vehicle; negative inside.
        """
        gap_m, left_m = np.full((2, *self.map.shape), math.inf)
        params = self._params
        middles = np.stack(np.meshgrid(*self.map.axes(), indexing="ij"), axis=-1)
        apart = middles - p[:2]
        speed = max(float(np.hypot(*v[:2])), 0.5 * params.speed.speed_mps)
        there_s = np.hypot(apart[..., 0], apart[..., 1]) / speed
        begin_s = np.maximum(there_s - SHAPES_SPREAD_S, 0.0)
        end_s = there_s + SHAPES_SPREAD_S
        for shape in self._shapes_now(now_s):
            apart_m = abs(shape.p_W[2] - self.map.height_m) - shape.half_height_m
            if apart_m > HALF_BAND_M:
                continue
            moves = np.array(shape.v_W[:2])
            place = shape.p_W[:2] + (now_s - self._shapes_s) * moves
            apart = middles - place
            met_s = np.clip(apart @ moves / max(float(moves @ moves), 1e-12), begin_s, end_s)
            apart = apart - met_s[..., None] * moves
            gap_m = np.minimum(gap_m, np.hypot(apart[..., 0], apart[..., 1]) - shape.radius_m)
            x, y = (place - p[:2]) / max(float(np.hypot(*(place - p[:2]))), 1e-9)
            alongside = apart - LEFT_M * np.array((-y, x))
            left_m = np.minimum(left_m, np.hypot(*np.moveaxis(alongside, -1, 0)) - LEFT_M)
        return np.maximum(gap_m, 0.0), left_m

    def _joined(self, p: Array, goal_cell: tuple[int, int]) -> bool:
        """Whether the vehicle is in one piece with the goal, or too near an obstacle to say.

        That takes a tenth of a search, which would look everywhere before it finds nothing.
        """
        i, j = self.map.cells_of(p[None])[0]
        if not self._inside(i, j) or not np.isfinite(self._cost_s[i, j]):
            return self._inside(i, j)
        pieces, _ = ndimage.label(np.isfinite(self._cost_s), np.ones((3, 3)))
        return bool(pieces[i, j] == pieces[goal_cell])

    def _close_outside(self) -> None:
        """No way leads out of the area."""
        x, y = self.map.axes()
        low, high = self._params.area_min_W_m, self._params.area_max_W_m
        self._cost_s[(x < low[0]) | (x > high[0])] = math.inf
        self._cost_s[:, (y < low[1]) | (y > high[1])] = math.inf

    def _free_near(self, place: Array, reach_m: float) -> tuple[int, int] | None:
        """The cell of a place, or the nearest one whose middle is in reach and can be flown to."""
        cells, away_m = self._open_near(self._cost_s, place, reach_m + self._params.map.cell_m)
        here = self.map.cells_of(place[None])[0]
        away_m[(cells == here).all(axis=1)] = 0.0  # there the way ends at the place itself
        if not np.any(away_m <= reach_m):
            return None
        i, j = cells[np.argmin(away_m)].tolist()
        return i, j

    def _open_near(
        self, of: Array, place: Array, reach_m: float
    ) -> tuple[NDArray[np.int64], Array]:
        """(K, 2) cells about a place at which a map is finite, and how far they are, m."""
        reach = disc(reach_m / self._params.map.cell_m)
        cells = self.map.inside(self.map.cells_of(place[None])[0] + reach)
        cells = cells[np.isfinite(of[cells[:, 0], cells[:, 1]])]
        return cells, np.hypot(*(self.map.middles_of(cells) - place[:2]).T)

    def _start(
        self, times: TimesToGoal, p: Array, v: Array
    ) -> tuple[Array, tuple[int, int]] | None:
        """Where the search begins, and what is flown before.

        That is where the vehicle will be when it has answered, so that a bend there counts; or
        where it is; or, too near an obstacle, the nearest place that is not.
        """
        ahead = p[:2] + v[:2] * self._params.speed.reaction_s
        i, j = self.map.cells_of(np.array([ahead]))[0]
        if np.hypot(*(ahead - p[:2])) > self._params.map.cell_m and self._inside(i, j):
            line = self._line(p[:2], ahead)
            if np.isfinite(line).all() and np.isfinite(times.times_s[i, j]):
                return np.array([p[:2], ahead]), (int(i), int(j))
        i, j = self.map.cells_of(p[None])[0]
        if not self._inside(i, j):
            return None
        if np.isfinite(times.times_s[i, j]):
            return np.array([p[:2]]), (int(i), int(j))
        if np.isfinite(self._cost_s[i, j]):
            return None  # free, and shut in
        return self._way_out(times, p)

    def _way_out(self, times: TimesToGoal, p: Array) -> tuple[Array, tuple[int, int]] | None:
        """The nearest place with a way to the goal, straight and through no obstacle."""
        cells, away_m = self._open_near(times.times_s, p, self._params.keep_m + 1.0)
        for cell in cells[np.argsort(away_m)]:
            if self._line(p[:2], self.map.middles_of(cell), of=self._clearance_m).min() > 0.0:
                return np.array([p[:2]]), (int(cell[0]), int(cell[1]))
        return None

    def _inside(self, i: int, j: int) -> bool:
        return bool(0 <= i < self.map.shape[0] and 0 <= j < self.map.shape[1])

    def _line(self, a: Array, b: Array, of: Array | None = None) -> Array:
        """Values of a map, the cost's by default, along a line inside of it."""
        points = sampled(np.array([a, b]))
        return self._at(self._cost_s if of is None else of, points)

    def _at(self, values: Array, points: Array) -> Array:
        """Values of a map at (N, 2) places; at its border outside of it."""
        cells = np.clip(self.map.cells_of(points), 0, np.array(self.map.shape) - 1)
        return np.asarray(values[cells[:, 0], cells[:, 1]])

    # ---- the way -------------------------------------------------------------------------------

    def _round(self, corners: Array) -> Array:
        """Samples of a way, its corners rounded where there is room."""
        points = sampled(corners)
        keep_m = self._params.keep_m
        smooth = rounded(points)
        before, after = (self._at(self._room_m, way) for way in (points, smooth))
        return smooth if np.all((after >= keep_m) | (after >= before)) else points

    def _time_s(self, points: Array) -> float:
        """Time along a way, by the cost of its cells."""
        lengths = np.hypot(*np.diff(points, axis=0).T)
        costs = self._at(self._cost_s, points)
        # where it begins too near an obstacle it goes slowly, but it goes
        slow_s = self._params.map.cell_m / LEAST_MPS
        costs[:4] = np.minimum(costs[:4], slow_s)
        return float(np.sum(lengths * 0.5 * (costs[1:] + costs[:-1])) / self._params.map.cell_m)

    def _better(self, points: Array, p: Array) -> Array:
        """The way flown so far, or the new one if it takes clearly less time."""
        if self._way is None:
            return points
        at_m = nearest_on(self._way, p[:2])
        rest = self._way.points_W[self._way.along_m >= at_m]
        if len(rest) < 2 or np.hypot(*(rest[0] - p[:2])) > 2.0 * self._params.map.cell_m:
            return points
        if np.hypot(*(rest[-1] - points[-1])) > self._params.map.cell_m:
            return points
        if self._time_s(points) < CHANGE_SHARE * self._time_s(rest):
            return points
        first = int(np.searchsorted(self._way.along_m, at_m, side="right")) - 1
        return self._way.points_W[max(first, 0) :]

    def _with_speeds(self, points: Array, end_mps: float) -> Way:
        """A way with its speeds."""
        cells = np.clip(self.map.cells_of(points), 0, np.array(self.map.shape) - 1)
        around = np.clip(
            cells[:, None, :] + self._body, 0, np.array(self.map.shape) - 1
        )  # (N, M, 2)
        known = np.asarray(self._known[around[..., 0], around[..., 1]].all(axis=1))
        beside_m = self._at(self._clearance_m, points) - self._params.keep_m
        return speeds_along(points, beside_m, known, end_mps, self._params.speed)

    def _mark_taken(self) -> None:
        """Remember which cells the vehicle needs on its way."""
        assert self._way is not None
        self._taken = np.zeros(self.map.shape, bool)
        cells = self.map.cells_of(self._way.points_W)[:, None, :] + self._body
        cells = self.map.inside(cells.reshape(-1, 2))
        self._taken[cells[:, 0], cells[:, 1]] = True
