"""The normal numbers of a flight, drawn in blocks: a call to a generator costs more than a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.normals import Words, fill_normals, words_of

#: What is drawn at once.
BLOCK_NS = 1_000_000_000


class Source(NamedTuple):
    """One device of one vehicle: its stream, a row for each period, numbers in a row."""

    generator: np.random.Generator
    period_ns: int  # 0: it is not there
    width: int


class Kept(NamedTuple):
    """Noise as it was at a stamp."""

    words: list[Words]
    white: Sequence[NDArray[np.float64]]
    used: NDArray[np.int64]
    drawn_ns: int


class WhiteNoise:
    """Standard normal numbers of N vehicles: of each stream row for row, as a node draws them.

    Args:
        vehicles: the devices of each vehicle; all vehicles have the same, at the same rates.

    Attributes:
        white: (N, rows, width) for each device, refilled in place.
        used: (N, devices) rows of each that are used up; who uses them counts here.
    """

    def __init__(self, vehicles: Sequence[Sequence[Source]]) -> None:
        self._vehicles = vehicles
        self._words = [[words_of(of.generator) for of in sources] for sources in vehicles]
        self.white = tuple(
            np.zeros((len(vehicles), BLOCK_NS // of.period_ns + 2 if of.period_ns else 0, of.width))
            for of in vehicles[0]
        )
        self.used = np.zeros((len(vehicles), len(self.white)), np.int64)
        self._drawn_ns = 0

    def draw(self, stamp_ns: int, until_ns: int) -> None:
        """See that there is a row for each sample up to a stamp.

        Args:
            stamp_ns: up to which the rows are used up.
            until_ns: at most BLOCK_NS later.
        """
        if until_ns <= self._drawn_ns:
            return
        drawn_ns = stamp_ns + BLOCK_NS
        for vehicle, sources in enumerate(self._vehicles):
            for k, (_, period_ns, width) in enumerate(sources):
                if period_ns == 0 or width == 0:
                    continue
                white = self.white[k][vehicle]
                left = self._drawn_ns // period_ns - stamp_ns // period_ns
                rows = drawn_ns // period_ns - stamp_ns // period_ns
                white[:left] = white[self.used[vehicle, k] :][:left].copy()
                fill_normals(self._words[vehicle][k], white[left:rows].reshape(-1))
        self.used[:] = 0
        self._drawn_ns = drawn_ns

    def keep(self) -> Kept:
        """What :meth:`restore` goes back to."""
        words = [of.copy() for one in self._words for of in one]
        white = [array.copy() for array in self.white]
        return Kept(words, white, self.used.copy(), self._drawn_ns)

    def restore(self, kept: Kept) -> None:
        """Go on from where it was kept."""
        sources = [of for one in self._words for of in one]
        for words, before in zip(sources, kept.words, strict=True):
            words[:] = before
        for array, rows in zip(self.white, kept.white, strict=True):
            array[:] = rows
        self.used[:], self._drawn_ns = kept.used, kept.drawn_ns
