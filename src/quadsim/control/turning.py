"""A heading that turns at a rate, for autopilots that are told attitudes."""

from __future__ import annotations

import math

#: It is at most so far from the present heading, rad, and begins there after such a pause, s.
LEAD_RAD, PAUSE_S = 0.3, 0.5


class TurningHeading:
    """The heading of attitudes of which the yaw rate counts.

    Told the present heading besides a rate, ArduPilot turns at 0.63 of the rate, since its own
    target leads the vehicle and is called back each time.
    """

    def __init__(self) -> None:
        self._yaw = 0.0
        self._at_ns: int | None = None

    def advance(self, now_ns: int, yaw: float, rate_radps: float) -> float:
        """Turn the heading up to now, and return it.

        Args:
            now_ns: time of this attitude.
            yaw: present heading, rad.
            rate_radps: at which it is to turn.
        """
        dt_s = math.inf if self._at_ns is None else (now_ns - self._at_ns) * 1e-9
        self._at_ns = now_ns
        if not 0.0 <= dt_s <= PAUSE_S:
            self._yaw = yaw
            return yaw
        ahead = math.remainder(self._yaw + rate_radps * dt_s - yaw, 2.0 * math.pi)
        self._yaw = yaw + min(max(ahead, -LEAD_RAD), LEAD_RAD)
        return self._yaw
