"""A map of one height: which cells the lidar has seen free or occupied, and the ways over it.

Rays free the cells that they pass at that height and occupy those where they end. A cell is free
again once some rays have passed it, so what has left is forgotten as soon as it is looked
at, and what nobody has looked at for long is unknown again.

The way that takes least time is Dijkstra's of scipy, from the goal: the time to it is then known of
every cell, a way from anywhere is a walk along the predecessors, and where two ways compete the map
states by how much one is better.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.hil.planner.parameters import MapParams

#: Echoes count up to this much above and below the vehicle, m.
HALF_BAND_M = 0.5
#: Rays that must pass an obstacle's cell until it is free.
PASSES = 4
#: What was not seen for so long is unknown again, s.
MAP_MEMORY_S = 60.0


@kernel
def mark_rays(
    left: NDArray[np.int8],
    seen_s: NDArray[np.float64],
    corner: tuple[float, float, float],
    origin: tuple[float, float, float],
    ends: NDArray[np.float64],
    echoes: int,
    band: tuple[float, float],
    passes: int,
    now_s: float,
) -> None:
    """Put the rays of one scan into a map: those that pass first, so that every echo stays.

    A ray goes from cell to cell by the nearer of the next two borders (Amanatides and Woo, 1987).

    Args:
        left: (X, Y) rays that must still pass until a cell is free; 0 free or unknown.
        seen_s: (X, Y) when a ray was there last.
        corner: lower x and y of the map, and the side of a cell, m.
        origin: where the rays begin, m.
        ends: (N, 3) where they end, m.
        echoes: that many of them, the first ones, end at an echo.
        band: heights between which rays and echoes count, m.
        passes: what ``left`` is where an echo was.
        now_s: time of the scan.
    """
    columns, rows = left.shape
    cell = corner[2]
    for k in range(ends.shape[0]):
        x, y, z = origin
        dx, dy, dz = ends[k, 0] - x, ends[k, 1] - y, ends[k, 2] - z
        begin, end = 0.0, 1.0
        if dz != 0.0:
            low, high = (band[0] - z) / dz, (band[1] - z) / dz
            begin, end = max(begin, min(low, high)), min(end, max(low, high))
        elif not band[0] <= z <= band[1]:
            continue
        if not begin < end:
            continue
        u, v = (x + begin * dx - corner[0]) / cell, (y + begin * dy - corner[1]) / cell
        dx, dy = dx / cell, dy / cell
        i, j = math.floor(u), math.floor(v)
        # the cell of an echo itself is not passed
        last_i = math.floor((x - corner[0]) / cell + dx)
        last_j = math.floor((y - corner[1]) / cell + dy)
        step_i, step_j = (1 if dx > 0.0 else -1), (1 if dy > 0.0 else -1)
        per_i = abs(1.0 / dx) if dx != 0.0 else math.inf
        per_j = abs(1.0 / dy) if dy != 0.0 else math.inf
        next_i = begin + ((i + 1 - u) if dx > 0.0 else (u - i)) * per_i if dx != 0.0 else math.inf
        next_j = begin + ((j + 1 - v) if dy > 0.0 else (v - j)) * per_j if dy != 0.0 else math.inf
        at = begin
        while at <= end:
            if k < echoes and i == last_i and j == last_j:
                break
            if 0 <= i < columns and 0 <= j < rows:
                if left[i, j] > 0:
                    left[i, j] -= 1
                seen_s[i, j] = now_s
            elif (
                (i < 0 and step_i < 0)
                or (j < 0 and step_j < 0)
                or (i >= columns and step_i > 0)
                or (j >= rows and step_j > 0)
            ):
                break  # it never comes back
            if next_i < next_j:
                at, i = next_i, i + step_i
                next_i += per_i
            else:
                at, j = next_j, j + step_j
                next_j += per_j
    for k in range(echoes):
        if band[0] <= ends[k, 2] <= band[1]:
            i = math.floor((ends[k, 0] - corner[0]) / cell)
            j = math.floor((ends[k, 1] - corner[1]) / cell)
            if 0 <= i < columns and 0 <= j < rows:
                left[i, j] = passes
                seen_s[i, j] = now_s


def disc(radius_cells: float) -> NDArray[np.int64]:
    """(N, 2) cells whose middles are within a radius of that of one."""
    reach = math.floor(radius_cells)
    i, j = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    inside = np.hypot(i, j) <= radius_cells
    return np.column_stack([i[inside], j[inside]])


class OccupancyMap:
    """Cells of a rectangle at one height.

    Attributes:
        corner_m: (2,) lower x and y, a multiple of the cell.
        shape: cells along x and y.
        height_m: that it holds for.
    """

    def __init__(self, params: MapParams) -> None:
        self._params = params
        self.corner_m: NDArray[np.float64] = np.zeros(2)
        self.height_m = math.nan
        self._left: NDArray[np.int8] = np.zeros((0, 0), np.int8)
        self._seen_s: NDArray[np.float64] = np.zeros((0, 0))

    @property
    def cell_m(self) -> float:
        """Side of a cell."""
        return self._params.cell_m

    @property
    def shape(self) -> tuple[int, int]:
        """Cells along x and y."""
        return (self._left.shape[0], self._left.shape[1])

    def forget(self) -> None:
        """Nothing is known any more."""
        self._left[:] = 0
        self._seen_s[:] = -math.inf

    def cover(self, lower_m: NDArray[np.float64], upper_m: NDArray[np.float64]) -> bool:
        """Reach over a rectangle, and keep what was known inside.

        Args:
            lower_m, upper_m: (2,) corners.

        Returns:
            Whether that is within the number of cells that are allowed; if not, all is as it was.
        """
        cell = self._params.cell_m
        first = np.floor(lower_m / cell).astype(int)
        count = np.ceil(upper_m / cell).astype(int) - first
        if np.prod(count.astype(float)) > self._params.cells_max:
            return False
        left = np.zeros(count, np.int8)
        seen_s = np.full(count, -math.inf)
        before = np.round(self.corner_m / cell).astype(int)
        low = np.maximum(first, before)
        high = np.minimum(first + count, before + self.shape)
        if np.all(high > low):
            to = tuple(slice(a, b) for a, b in zip(low - first, high - first, strict=True))
            source = tuple(slice(a, b) for a, b in zip(low - before, high - before, strict=True))
            left[to], seen_s[to] = self._left[source], self._seen_s[source]
        self.corner_m, self._left, self._seen_s = first * cell, left, seen_s
        return True

    def at_height(self, height_m: float) -> None:
        """Hold for this height from now on; what was seen far from it is forgotten."""
        if not abs(height_m - self.height_m) <= 0.5 * HALF_BAND_M:
            self.forget()
            self.height_m = height_m

    def take(
        self,
        now_s: float,
        origin_W: Vec3,
        points_W: NDArray[np.float64],
        ends_W: NDArray[np.float64],
    ) -> None:
        """Put a scan in; arguments as of :meth:`quadsim.hil.planner.planner.Planner.take_scan`."""
        half_m = HALF_BAND_M
        mark_rays(
            self._left,
            self._seen_s,
            (float(self.corner_m[0]), float(self.corner_m[1]), self._params.cell_m),
            (float(origin_W[0]), float(origin_W[1]), float(origin_W[2])),
            np.concatenate([points_W, ends_W]).astype(float, copy=False),
            len(points_W),
            (self.height_m - half_m, self.height_m + half_m),
            PASSES,
            now_s,
        )

    def free_around(self, now_s: float, p_W: Vec3, radius_m: float) -> None:
        """Where the vehicle is there is no obstacle."""
        place = np.array([p_W[:2]])
        cells = self.inside(self.cells_of(place) + disc(radius_m / self._params.cell_m + 1.0))
        i, j = cells[np.hypot(*(self.middles_of(cells) - place).T) <= radius_m].T
        self._left[i, j], self._seen_s[i, j] = 0, now_s

    def known(self, now_s: float) -> NDArray[np.bool_]:
        """(X, Y) which cells were seen lately."""
        return self._seen_s >= now_s - MAP_MEMORY_S

    def occupied(self, now_s: float) -> NDArray[np.bool_]:
        """(X, Y) which cells hold an obstacle, as far as is known."""
        return (self._left > 0) & self.known(now_s)

    def seen(self, now_s: float) -> NDArray[np.int8]:
        """(X, Y) 0 free, 100 occupied, -1 unknown: as nav_msgs/OccupancyGrid has them."""
        cells = np.where(self._left > 0, np.int8(100), np.int8(0))
        cells[~self.known(now_s)] = -1
        return cells

    def clearance_m(self, now_s: float) -> NDArray[np.float64]:
        """(X, Y) distance of the cells' middles to the nearest obstacle; inf without any.

        The obstacle may fill its cell, so half a cell is taken off.
        """
        occupied = self.occupied(now_s)
        if not occupied.any():
            return np.full(self.shape, math.inf)
        cells = ndimage.distance_transform_edt(~occupied)
        return np.asarray(np.maximum(cells - 0.5, 0.0) * self._params.cell_m)

    def axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(X,) and (Y,) x and y of the cells' middles, m."""
        x, y = (
            self.corner_m[k] + (np.arange(self.shape[k]) + 0.5) * self._params.cell_m
            for k in (0, 1)
        )
        return x, y

    def cells_of(self, points_W: NDArray[np.float64]) -> NDArray[np.int64]:
        """(N, 2) cells of points; outside of the map they are too."""
        return np.floor((points_W[:, :2] - self.corner_m) / self._params.cell_m).astype(np.int64)

    def inside(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """(M, 2) those of (N, 2) cells that are in the map."""
        return cells[((cells >= 0) & (cells < self.shape)).all(axis=1)]

    def middles_of(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N, 2) middles of cells, m."""
        return (cells + 0.5) * self._params.cell_m + self.corner_m


#: Cells that touch at a side or a corner are neighbours.
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))

#: Straight pieces longer than this are not looked for, cells.
LONGEST_CELLS = 60


@lru_cache(maxsize=2)
def _edges(
    columns: int, rows: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """All pairs of neighbours of a grid, sorted as scipy wants them.

    Returns:
        First cell, second cell, where each first cell begins, and half the length in cells.
    """
    index = np.arange(columns * rows, dtype=np.int32).reshape(columns, rows)
    first, second, half = [], [], []
    for i, j in NEIGHBOURS:
        a = index[: columns - i, max(0, -j) : rows - max(0, j)].ravel()
        b = index[i:, max(0, j) : rows + min(0, j)].ravel()
        first += [a, b]
        second += [b, a]
        half += [np.full(a.size, 0.5 * math.hypot(i, j))] * 2
    order = np.argsort(np.concatenate(first), kind="stable")
    firsts, seconds = np.concatenate(first)[order], np.concatenate(second)[order]
    begins = np.searchsorted(firsts, np.arange(columns * rows + 1)).astype(np.int32)
    return firsts, seconds, begins, np.concatenate(half)[order]


class TimesToGoal:
    """The time from every cell to a goal, and the way there.

    Args:
        cost_s: (X, Y) time across each cell; inf where it must not fly.
        goal: cell.
    """

    def __init__(self, cost_s: NDArray[np.float64], goal: tuple[int, int]) -> None:
        self._cost_s = cost_s
        first, second, begins, half = _edges(*cost_s.shape)
        flat = cost_s.ravel()
        graph = csr_matrix(
            (half * (flat[first] + flat[second]), second, begins), shape=(flat.size, flat.size)
        )
        times_s, self._before = dijkstra(
            graph, indices=int(np.ravel_multi_index(goal, cost_s.shape)), return_predecessors=True
        )
        #: (X, Y) s; inf where there is no way.
        self.times_s = times_s.reshape(cost_s.shape)

    def way(self, start: tuple[int, int]) -> NDArray[np.int64]:
        """(K, 2) cells from one to the goal, both included.

        Args:
            start: a cell from which there is a way.
        """
        cell = int(np.ravel_multi_index(start, self._cost_s.shape))
        cells = [cell]
        while self._before[cell] >= 0:
            cell = int(self._before[cell])
            cells.append(cell)
        return np.column_stack(np.unravel_index(cells, self._cost_s.shape)).astype(np.int64)

    def straightened(self, way: NDArray[np.int64]) -> NDArray[np.int64]:
        """Corners of a way whose pieces are straight: each takes no more time than its cells did.

        Args:
            way: (K, 2) cells.
        """
        times_s = self.times_s[way[:, 0], way[:, 1]]
        stored, at, last = [0], 0, len(way) - 1
        while at < last:
            low, high = at + 1, min(at + LONGEST_CELLS, last)
            if self._time_s(way[at], way[high]) <= times_s[at] - times_s[high]:
                low = high
            while high - low > 1:  # the farthest that can be reached, if all nearer ones can
                middle = (low + high) // 2
                if self._time_s(way[at], way[middle]) <= times_s[at] - times_s[middle]:
                    low = middle
                else:
                    high = middle
            at = low
            stored.append(at)
        return way[stored]

    def _time_s(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
        """Time straight from one cell to another; inf where an obstacle is in between."""
        length = float(np.hypot(*(b - a)))
        share = (np.arange(max(2, math.ceil(2.0 * length))) + 0.5) / max(2, math.ceil(2.0 * length))
        cells = np.round(a + share[:, None] * (b - a)).astype(np.int64)
        return length * float(np.mean(self._cost_s[cells[:, 0], cells[:, 1]]))
