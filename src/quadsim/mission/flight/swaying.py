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
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.states import OK, WARN

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
#: The heading is the pilot's matter, or there is a graver one.
UNSWAYED = ("manual", "recovery")


class Swaying:
    """The sway, from when the heading is lost to when it is found."""

    def __init__(self, flight: FlightContext, landing: Landing) -> None:
        self._flight, self._landing = flight, landing
        self.reset()

    def reset(self) -> None:
        """Forget the last flight."""
        self._begun_ns: int | None = None
        self._last_ns = 0
        self._height_m = self._thrust = 0.0

    def write(self, setpoints: Any) -> None:
        """Sway instead of what was written, while the heading is lost; in vain, land."""
        flight, landing = self._flight, self._landing
        lost = flight.estimate.yaw_sigma.item() > LOST_RAD
        if not lost or not flight.flying or flight.blind or flight.state in UNSWAYED:
            if self._begun_ns is not None and not lost:
                words = f"after {flight.since_s(self._begun_ns):.1f} s"
                flight.event(OK, "heading found", words)
            self._begun_ns = None
            return
        height_m = flight.height_m()
        if self._begun_ns is None:
            if height_m < LEAST_M:
                return
            self._begun_ns = self._last_ns = flight.now_ns
            self._height_m, self._thrust = height_m, flight.thrust
            flight.event(WARN, "heading lost", "sways until GNSS tells it")
        lasts_s = flight.since_s(self._begun_ns)
        if lasts_s > MOST_S:
            landing.fail("the heading is lost", blind=True)
            landing.trusted = False
            return
        pitch = TILT_RAD * cos(2.0 * math.pi * lasts_s / PERIOD_S)
        climb_mps = flight.estimate.v_W[2]
        up = HEIGHT_GAIN * (self._height_m - height_m) - CLIMB_GAIN * climb_mps
        setpoints["mode"] = MODE_ATTITUDE
        setpoints["roll"] = setpoints["yaw_rate"] = 0.0
        setpoints["pitch"] = pitch
        setpoints["thrust"] = (self._thrust + up) / cos(pitch)
        flight.reference.fall_behind(flight.now_ns - self._last_ns)
        self._last_ns = flight.now_ns
