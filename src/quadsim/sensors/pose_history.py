"""Where a vehicle was: what a lidar's rays are placed by."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.geometry.linear import lengths

#: A scan farther from the newest pose in time is too old, or of another clock, s.
WITHIN_S = 1.0


class PoseHistory:
    """Poses of the last while, to know where a scan was taken.

    Args:
        within_s: no scan is placed that is farther from the newest pose in time.
    """

    def __init__(self, within_s: float = WITHIN_S) -> None:
        self._within_ns = round(1e9 * within_s)
        self._poses: deque[tuple[int, Array, Array]] = deque()

    def take(self, stamp_ns: int, p_W: Any, q_WB: Any) -> None:
        """Keep a pose; one that jumps back in time begins anew."""
        if self._poses and stamp_ns <= self._poses[-1][0]:
            self._poses.clear()
        self._poses.append((stamp_ns, np.array(p_W, dtype=float), np.array(q_WB, dtype=float)))
        # one that is older stays, so that the oldest scan allowed lies between two
        while len(self._poses) > 2 and self._poses[1][0] < stamp_ns - self._within_ns:
            self._poses.popleft()

    def begins_after(self, stamp_ns: int) -> bool:
        """Whether there is no pose yet, or the first one came just after a time."""
        if not self._poses:
            return True
        first_ns, newest_ns = self._poses[0][0], self._poses[-1][0]
        return newest_ns - self._within_ns <= stamp_ns < first_ns

    def at(self, stamps_ns: NDArray[np.int64]) -> tuple[Array, Array]:
        """Positions (N, 3) and attitudes (N, 4) at times (N,): between two poses, or the last.

        Raises:
            ValueError: there was no pose yet, or the newest is of quite another time.
        """
        if not self._poses:
            raise ValueError("no pose yet")
        first_ns, newest_ns = self._poses[0][0], self._poses[-1][0]
        old_ns, ahead_ns = int(newest_ns - stamps_ns.min()), int(stamps_ns.max() - newest_ns)
        apart_ns, how = max((old_ns, "older"), (ahead_ns, "newer"))
        if apart_ns > self._within_ns:
            raise ValueError(
                f"{apart_ns * 1e-9:.2f} s {how} than the pose; have both the same clock?"
            )
        if stamps_ns.min() < first_ns:
            raise ValueError("older than the first pose")
        times_ns = np.array([stamp_ns for stamp_ns, *_ in self._poses])
        p_W = np.array([position for _, position, _ in self._poses])
        q_WB = np.array([attitude for *_, attitude in self._poses])
        earlier = np.searchsorted(times_ns, stamps_ns, side="right") - 1
        later = np.minimum(earlier + 1, len(times_ns) - 1)
        span_ns = np.maximum(times_ns[later] - times_ns[earlier], 1)
        part = np.minimum((stamps_ns - times_ns[earlier]) / span_ns, 1.0)[:, None]
        begin, end = q_WB[earlier], q_WB[later]
        sign = np.where(np.einsum("ij,ij->i", begin, end) < 0.0, -1.0, 1.0)[:, None]
        turn = (1.0 - part) * begin + part * sign * end
        turn /= lengths(turn)[:, None]
        return (1.0 - part) * p_W[earlier] + part * p_W[later], turn
