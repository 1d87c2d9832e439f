"""Another vehicle, by what is heard of its poses: where it is at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.world.scene.movers import MovingShape

#: A velocity out of poses is taken over so long at least, ns.
BASELINE_NS = 50_000_000
#: A stamp that is so much earlier than the last one begins anew: one of them was wrong.
ANEW_NS = 1_000_000_000
#: When nothing is heard it is assumed to fly on for so long, s.
FLIES_ON_S = 0.5


class VehicleTrack:
    """One other vehicle: its last position and velocity in W.

    Attributes:
        stamp_ns: of them; 0: nothing has been heard.
        came_ns: when that was heard, by its listener's clock.
    """

    def __init__(self) -> None:
        self.stamp_ns = self.came_ns = 0
        self.p_W: NDArray[np.float64] = np.zeros(3)
        self.v_W: NDArray[np.float64] = np.zeros(3)
        self._base: tuple[int, NDArray[np.float64]] | None = None

    def take(self, stamp_ns: int, p_W: Any, v_W: Any | None, came_ns: int = 0) -> str | None:
        """Take where it is; why not, or None.

        Its velocity comes out of positions where none is given.
        """
        if stamp_ns <= self.stamp_ns:
            if self.stamp_ns - stamp_ns < ANEW_NS:
                return "repeats or jumps back in time"
            self.forget()
        self.stamp_ns, self.came_ns, self.p_W = stamp_ns, came_ns, np.array(p_W)
        if v_W is not None:
            self.v_W = np.array(v_W)
            return None
        if self._base is None:
            self._base = (stamp_ns, self.p_W)
        base_ns, base_W = self._base
        if stamp_ns - base_ns >= BASELINE_NS:
            self.v_W = (self.p_W - base_W) / ((stamp_ns - base_ns) * 1e-9)
            self._base = (stamp_ns, self.p_W)
        return None

    def forget(self) -> None:
        """As if nothing had been heard."""
        self.stamp_ns = self.came_ns = 0
        self.v_W, self._base = np.zeros(3), None

    def shape(
        self, stamp_ns: int, size_m: tuple[float, float], flies_on_s: float = FLIES_ON_S
    ) -> MovingShape:
        """Where it is at a time, and its velocity: it flies on for a while, and then stands.

        Args:
            stamp_ns: the time.
            size_m: radius and height of the upright cylinder about its position.
            flies_on_s: so long with its last velocity.
        """
        age_s = (stamp_ns - self.stamp_ns) * 1e-9
        ahead_s = min(max(age_s, -flies_on_s), flies_on_s)
        v_W = self.v_W if age_s <= flies_on_s else np.zeros(3)
        p_W = self.p_W + ahead_s * self.v_W
        return MovingShape(tuple(p_W.tolist()), tuple(v_W.tolist()), size_m[0], 0.5 * size_m[1])
