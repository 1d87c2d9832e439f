"""The commands that a guard has sent: which of them may still be in force."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from quadsim.base.compiled import Array
from quadsim.hil.guard.law import ZERO

#: A command so near to the velocity is the one that is followed, m/s.
FOLLOWED_MPS = 0.1


class SentCommands:
    """See the module.

    Args:
        now_ns: the watchdogs' time, from which nothing but zero has been commanded.
        longest_s: commands are stored for so long.
    """

    def __init__(self, now_ns: int, longest_s: float) -> None:
        self._sent: deque[tuple[int, Array]] = deque([(now_ns, ZERO)])
        self._zero_since_ns: int | None = now_ns
        self._longest_ns = longest_s * 1e9

    @property
    def last_W(self) -> Array:
        """(3,) the last one."""
        return self._sent[-1][1]

    def add(self, now_ns: int, v_W: Array) -> Array:
        """Take one that is sent; one array for what stays the same."""
        if np.array_equal(v_W, self.last_W):
            v_W = self.last_W
        self._sent.append((now_ns, v_W))
        if v_W.any():
            self._zero_since_ns = None
        elif self._zero_since_ns is None:
            self._zero_since_ns = now_ns
        while self._sent[0][0] < now_ns - self._longest_ns:
            self._sent.popleft()
        return v_W

    def zero_s(self, now_ns: int) -> float:
        """For how long nothing but zero has been commanded."""
        return 0.0 if self._zero_since_ns is None else (now_ns - self._zero_since_ns) * 1e-9

    def moving(self, now_ns: int, v_W: Array, back_s: float) -> Array:
        """(M, 3) a velocity, and each command that may be in force since it was measured.

        ``back_s``: a command that is older is not.
        """
        start_ns = now_ns - round(back_s * 1e9)
        rows = [v_W]
        for sent_ns, command_W in reversed(self._sent):
            if command_W is not rows[-1]:
                rows.append(command_W)
            if sent_ns < start_ns:
                break
        return np.array(rows)

    def nearest_mps(self, now_ns: int, v_W: Array, back_s: float) -> float:
        """How far a velocity is from the nearest command that it may answer to."""
        start_ns = now_ns - round(back_s * 1e9)
        least = math.inf
        for sent_ns, command_W in reversed(self._sent):
            off = v_W - command_W
            least = min(least, math.sqrt(off @ off))
            if sent_ns < start_ns or least < FOLLOWED_MPS:
                break
        return least
