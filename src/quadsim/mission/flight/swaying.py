"""A vehicle that does not know its heading: level, swaying, until GNSS has seen which way it sways.

With a heading that is off by more than a right angle, position control drives the vehicle away from
where it shall be. Attitude and height need no heading. So it tilts forth and back along its own x
axis: the accelerations lie far above the noise of GNSS, and take it nowhere. The estimator compares
both (:mod:`quadsim.estimation.eskf.heading`).
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.base.elementary import cos
from quadsim.base.records import MODE_ATTITUDE

#: Deviation of the heading beyond which it is lost, rad: position control drives away.
LOST_RAD = 0.5 * math.pi
#: Tilt in each direction, rad, and the time of both, s. The latter is four of the intervals over
#: which the estimator takes accelerations; 2 m/s^2, 0.5 m/s, 0.13 m.
TILT_RAD, PERIOD_S = 0.2, 1.6
#: Longest time for it, s: three times what GNSS of 0.05 m/s needs.
MOST_S = 6.0
#: Height below which a tilt may strike the ground, m.
LEAST_M = 0.4
#: Gains that hold the height, 1/s^2 and 1/s.
HEIGHT_GAIN, CLIMB_GAIN = 1.0, 2.0


class Swaying:
    """The sway, from when the heading is lost to when it is found.

    Attributes:
        begun_ns: when it began; None: the heading is known.
    """

    def __init__(self) -> None:
        self.begun_ns: int | None = None
        self._last_ns = 0
        self._height_m = self._thrust = 0.0

    def begin(self, stamp_ns: int, height_m: float, thrust: float) -> None:
        """Sway from now on.

        Args:
            stamp_ns: now.
            height_m: that is held.
            thrust: last commanded collective specific thrust, that carries the vehicle, m/s^2.
        """
        self.begun_ns = self._last_ns = stamp_ns
        self._height_m, self._thrust = height_m, thrust

    def lasts_s(self, stamp_ns: int) -> float:
        """Time since it began; 0 while it does not sway."""
        return 0.0 if self.begun_ns is None else (stamp_ns - self.begun_ns) * 1e-9

    def write(self, stamp_ns: int, height_m: float, climb_mps: float, setpoints: Any) -> int:
        """Write the attitude that is wanted now into a (1,) SETPOINT.

        Returns:
            Time since the last one, in ns, by which the reference falls behind.
        """
        pitch = TILT_RAD * cos(2.0 * math.pi * self.lasts_s(stamp_ns) / PERIOD_S)
        up = HEIGHT_GAIN * (self._height_m - height_m) - CLIMB_GAIN * climb_mps
        setpoints["mode"] = MODE_ATTITUDE
        setpoints["roll"] = setpoints["yaw_rate"] = 0.0
        setpoints["pitch"] = pitch
        setpoints["thrust"] = (self._thrust + up) / cos(pitch)
        since_ns, self._last_ns = stamp_ns - self._last_ns, stamp_ns
        return since_ns
