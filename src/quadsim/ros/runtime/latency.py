"""Latencies: of what is measured one by one, and from a message to the one that answers it."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

#: Messages that may wait for their answer.
WAITING = 50
#: Times count for so long, s.
KEPT_S = 60.0


class Latencies:
    """The last so many latencies.

    Attributes:
        count: of all, also those that are forgotten.
    """

    def __init__(self, size: int = 20_000) -> None:
        self._values_s = np.zeros(size)
        self.count = 0

    def add(self, seconds: float) -> None:
        """One more."""
        self._values_s[self.count % len(self._values_s)] = seconds
        self.count += 1

    def percentile_ms(self, share: float) -> float:
        """Percentile in ms; NaN before the first."""
        values_s = self._values_s[: self.count]
        return float(np.percentile(values_s, share)) * 1e3 if self.count else math.nan


class Latency:
    """Times from messages to their answers of one stamp, of the last minute.

    A message is answered by the first that carries its stamp; what answers nothing that is known
    is not counted.

    Attributes:
        count: messages that were answered.
        missed: messages that were not, though some before them were.
    """

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}
        self._times_ns: deque[tuple[int, int]] = deque()
        self._asked_ns = self._answered_ns = 0  # when the last one was
        self.count = self.missed = 0

    def asked(self, stamp_ns: int, now_ns: int) -> None:
        """A message with this stamp was seen."""
        self._answered_ns = self._answered_ns or now_ns  # silence begins with the first
        self._asked[stamp_ns] = self._asked_ns = now_ns
        while len(self._asked) > WAITING:
            del self._asked[next(iter(self._asked))]
            self.missed += self.count > 0

    def answered(self, stamp_ns: int, now_ns: int) -> None:
        """An answer with this stamp was seen."""
        asked_ns = self._asked.pop(stamp_ns, None)
        if asked_ns is None:
            return
        self._times_ns.append((now_ns, now_ns - asked_ns))
        self._answered_ns = now_ns
        for earlier_ns in [stamp for stamp in self._asked if stamp < stamp_ns]:
            del self._asked[earlier_ns]
            self.missed += self.count > 0
        self.count += 1

    def silent_s(self, now_ns: int) -> float:
        """For how long none was answered, while they come; 0 where none comes."""
        if not self._asked_ns or now_ns - self._asked_ns > 1_000_000_000:
            return 0.0
        return max(now_ns - self._answered_ns, 0) * 1e-9

    def values(self, name: str, now_ns: int) -> dict[str, float]:
        """Median, 99th percentile and largest of the last minute in ms, and how many there were.

        Args:
            now_ns: as of the other methods.
        """
        while self._times_ns and self._times_ns[0][0] < now_ns - KEPT_S * 1e9:
            self._times_ns.popleft()
        counts: dict[str, float] = {f"{name}_count": self.count, f"{name}_missed": self.missed}
        if not self._times_ns:
            return counts
        times_ms = np.array([time_ns for _, time_ns in self._times_ns]) * 1e-6
        median, most = np.percentile(times_ms, [50.0, 99.0])
        return {
            f"{name}_ms": float(median),
            f"{name}_99_ms": float(most),
            f"{name}_max_ms": float(times_ms.max()),
            **counts,
        }
