"""Rows that grow with a flight, stored on the disk: memory stays what it was, however long it flew.

They are read back as arrays that show the file, so whoever takes them sees no difference, but that
they cannot be written. The pages that were looked at count as the process's memory until
:func:`give_back` gives them back; :func:`slices` and :func:`blocks_of_track` go through a flight in
blocks.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.sim.log import Track

#: What is smaller stays in memory, bytes: of each topic and each estimate.
HELD_BYTES = 1 << 17
#: Rows that are worked on at once.
BLOCK_ROWS = 1 << 14

#: Rows that are copied at once by :func:`taken_rows`; those in between are looked at with them.
_TAKEN_ROWS = 512

_STAMP = np.dtype(np.int64)
_MOTION = [("p_W", "f8", (3,)), ("v_W", "f8", (3,)), ("q_WB", "f8", (4,)), ("w_B", "f8", (3,))]
_SIGMA = [("sigma", "f8", (9,))]


class KeptRows:
    """Rows of one type, appended block by block and read when all are there.

    Beyond :data:`HELD_BYTES` they lie in a file without a name, in the folder that ``TMPDIR``
    names; it is gone with the last array that shows it, or with the process.

    Args:
        dtype: of a row.
    """

    def __init__(self, dtype: Any) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._file = tempfile.SpooledTemporaryFile(HELD_BYTES)  # noqa: SIM115
        self._size = 0

    def __del__(self) -> None:  # of a flight that was not read to its end
        self._file.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Keep (N,) rows.

        Raises:
            InputError: the disk is full.
        """
        try:
            self._size += self._file.write(np.ascontiguousarray(rows).tobytes())
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: no room for what a long flight leaves"
                f" ({error.strerror}); TMPDIR names another folder"
            ) from None

    def whole(self) -> NDArray[Any]:
        """All rows, read-only where they lie on the disk; nothing can be appended any more."""
        with self._file as file:
            if self._size <= HELD_BYTES:
                file.seek(0)
                return np.frombuffer(bytearray(file.read()), self._dtype)
            file.flush()
            shown = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(shown, self._dtype)


class KeptTrack:
    """A track, appended part by part.

    Args:
        with_sigma: whether it has stated deviations.
    """

    def __init__(self, with_sigma: bool) -> None:
        self._stamps = KeptRows(_STAMP)
        self._dtype = np.dtype(_MOTION + _SIGMA if with_sigma else _MOTION)
        self._rows = KeptRows(self._dtype)

    def append(self, part: Track) -> None:
        """Keep a copy of a part; its deviations, where they are wanted, must be there."""
        rows = np.zeros(len(part), self._dtype)
        for name in self._dtype.names or ():
            rows[name] = getattr(part, name)
        self._stamps.append(part.stamp_ns.copy())
        self._rows.append(rows)

    def track(self) -> Track:
        """All of it; nothing can be appended any more."""
        rows = self._rows.whole()
        sigma = rows["sigma"] if "sigma" in (self._dtype.names or ()) else None
        stamp_ns = self._stamps.whole()
        return Track(stamp_ns, rows["p_W"], rows["v_W"], rows["q_WB"], rows["w_B"], sigma)


def give_back(*arrays: NDArray[Any] | None) -> None:
    """Give the memory of arrays that show a file back; they are read anew when looked at again."""
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)


def forget_track(track: Track) -> None:
    """The same of a track."""
    give_back(track.stamp_ns, track.p_W)


def taken_rows(array: NDArray[Any], rows: NDArray[np.intp] | None = None) -> NDArray[Any]:
    """A copy of some rows of an array, rising, or of all of them."""
    index = np.arange(len(array)) if rows is None else rows
    parts = [array[:0]]
    for begin in range(0, len(index), _TAKEN_ROWS):
        parts.append(array[index[begin : begin + _TAKEN_ROWS]])
        give_back(array)
    return np.concatenate(parts)


def slices(count: int, first: int = 0) -> Iterator[slice]:
    """Rows from ``first`` on in blocks of :data:`BLOCK_ROWS`; one empty block where there is none.

    What is worked out block by block then has the shape that it would have had at once.
    """
    for begin in range(first, max(count, first + 1), BLOCK_ROWS):
        yield slice(begin, min(begin + BLOCK_ROWS, count))


def blocks_of_track(track: Track, from_ns: int | None = None) -> Iterator[Track]:
    """A track in blocks, from a stamp on; at least one, which may be empty."""
    first = 0 if from_ns is None else int(np.searchsorted(track.stamp_ns, from_ns))
    for rows in slices(len(track), first):
        yield track[rows]
        forget_track(track)
