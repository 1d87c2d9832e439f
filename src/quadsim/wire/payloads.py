"""Many serialised messages in one piece of memory, as numpy takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64] | NDArray[np.intp] | NDArray[np.bool_] | slice


class Payloads(Sequence[bytes]):
    """Messages, or other pieces, of a buffer; a sequence of bytes that is never taken apart.

    Args:
        buffer: holds them, and perhaps more.
        begin: (N,) where each begins.
        length: (N,) how long each is.
    """

    def __init__(self, buffer: bytes, begin: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        self.buffer, self.begin, self.length = buffer, begin, length

    @classmethod
    def of(cls, parts: Sequence[bytes]) -> Payloads:
        """These pieces, copied one behind the other; or themselves, if they are such already."""
        if isinstance(parts, cls):
            return parts
        length = np.fromiter(map(len, parts), np.int64, len(parts))
        return cls(b"".join(parts), np.cumsum(length) - length, length)

    @classmethod
    def joined(cls, parts: Sequence[Payloads]) -> Payloads:
        """Several one behind the other; their buffers are copied whole."""
        if len(parts) == 1:
            return parts[0]
        sizes = [len(part.buffer) for part in parts]
        offsets = np.cumsum([0, *sizes]).tolist()
        nothing = np.zeros(0, np.int64)
        begin = [part.begin + offset for part, offset in zip(parts, offsets, strict=False)]
        return cls(
            b"".join(part.buffer for part in parts),
            np.concatenate([nothing, *begin]),
            np.concatenate([nothing, *(part.length for part in parts)]),
        )

    def __len__(self) -> int:
        return len(self.begin)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: Index) -> Payloads: ...
    def __getitem__(self, at: int | Index) -> bytes | Payloads:
        """One of them, or some."""
        if isinstance(at, int):
            begin = int(self.begin[at])
            return self.buffer[begin : begin + int(self.length[at])]
        return Payloads(self.buffer, self.begin[at], self.length[at])

    def __iter__(self) -> Iterator[bytes]:
        buffer = self.buffer
        ends = (self.begin + self.length).tolist()
        return (buffer[a:b] for a, b in zip(self.begin.tolist(), ends, strict=True))

    def heads(self, width: int, at: int = 0) -> NDArray[np.void]:
        """(N,) copies of ``width`` bytes of each from ``at`` on, of which each must have them."""
        if not len(self):
            return np.zeros(0, f"V{width}")
        room = len(self.buffer) - width + 1
        everywhere: NDArray[np.void] = np.ndarray((room,), f"V{width}", self.buffer, 0, (1,))
        return np.asarray(everywhere[self.begin + at])

    def compact(self) -> Payloads:
        """The same in a buffer of their own, which holds nothing else."""
        if not len(self) or int(self.length.sum()) == len(self.buffer):
            return Payloads(b"", self.begin, self.length) if not len(self) else self
        width = int(self.length[0])
        if not width or (self.length != width).any():
            return Payloads.of(list(self))
        begin = np.arange(0, len(self) * width, width, dtype=np.int64)
        return Payloads(self.heads(width).tobytes(), begin, self.length)
