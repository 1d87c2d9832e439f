"""How long it takes from a message to the one that answers it; the two have one stamp."""

from __future__ import annotations

from collections import deque

import numpy as np

#: Messages that may wait for their answer, and times that are kept: a minute at 50 Hz.
WAITING, KEPT = 50, 3000


class Latency:
    """Times from messages to their answers, of the last minute or so.

    A message is answered by the first that carries its stamp; what answers nothing that is known
    is not counted.

    Attributes:
        count: messages that were answered.
        missed: messages that were not, though later ones and earlier ones were.
    """

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}
        self._times_ns: deque[int] = deque(maxlen=KEPT)
        self.count = self.missed = 0

    def asked(self, stamp_ns: int, now_ns: int) -> None:
        """A message with this stamp was seen."""
        self._asked[stamp_ns] = now_ns
        while len(self._asked) > WAITING:
            del self._asked[next(iter(self._asked))]

    def answered(self, stamp_ns: int, now_ns: int) -> None:
        """An answer with this stamp was seen."""
        asked_ns = self._asked.pop(stamp_ns, None)
        if asked_ns is None:
            return
        self._times_ns.append(now_ns - asked_ns)
        for earlier_ns in [stamp for stamp in self._asked if stamp < stamp_ns]:
            del self._asked[earlier_ns]
            self.missed += self.count > 0
        self.count += 1

    def values(self, name: str) -> dict[str, float]:
        """Median, 99th percentile and largest in ms, and how many there were; none without any."""
        if not self._times_ns:
            return {f"{name}_count": 0}
        times_ms = np.array(self._times_ns) * 1e-6
        median, most = np.percentile(times_ms, [50.0, 99.0])
        return {
            f"{name}_ms": float(median),
            f"{name}_99_ms": float(most),
            f"{name}_max_ms": float(times_ms.max()),
            f"{name}_count": self.count,
            f"{name}_missed": self.missed,
        }
