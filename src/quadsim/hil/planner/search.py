"""The way that takes least time: Dijkstra's search by scipy, from the goal over a grid of cells.

From the goal, because the time to it is then known of every cell: a way from anywhere is a walk
along the predecessors, and where two ways compete the map states by how much one is better.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

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
