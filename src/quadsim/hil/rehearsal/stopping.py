"""How far and how long a vehicle goes on after something was removed."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from quadsim.base.parameters import Vec3
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.rehearsal.parameters import TroubleParams

#: A vehicle that is slower stands, m/s.
STANDING_MPS = 0.15


@dataclass(frozen=True)
class Stop:
    """What a trouble led to.

    Attributes:
        what: was removed.
        at_s: when, since the enabling.
        speed_mps: the true speed then.
        stop_m: way until the vehicle stood; NaN: it never did.
        stop_s: time until then.
        allowed_m: speed x latency + speed^2 / (2 brake), as the guard assumes them.
        landing_s: time until a landing was begun; NaN: none was.
    """

    what: str
    at_s: float
    speed_mps: float
    stop_m: float
    stop_s: float
    allowed_m: float
    landing_s: float

    @property
    def stop_over_m(self) -> float:
        """Way until it stood beyond what was allowed."""
        return self.stop_m - self.allowed_m

    def row(self) -> dict[str, float | str]:
        """Plain values."""
        return asdict(self) | {"stop_over_m": self.stop_over_m}


class StopWatch:
    """Follows the true motion from each trouble on.

    Args:
        guard: for what it assumes of latency and braking.
    """

    def __init__(self, guard: GuardParams) -> None:
        self._assumed = guard.vehicle
        self._found: dict[TroubleParams, Stop] = {}
        self._way_m: dict[TroubleParams, float] = {}
        self._landing_s = math.nan
        self._before_W: Vec3 | None = None

    def begin(self, trouble: TroubleParams, t_s: float, p_W: Vec3, v_W: Vec3) -> None:
        """Follow a trouble from the moment at which it begins."""
        if t_s >= trouble.at_s and trouble not in self._found:
            speed, brake_mps2 = math.hypot(*v_W), self._assumed.brake_mps2
            allowed_m = speed * self._assumed.latency_s + speed**2 / (2.0 * brake_mps2)
            nan = math.nan
            self._found[trouble] = Stop(trouble.what, t_s, speed, nan, nan, allowed_m, nan)
            self._way_m[trouble] = 0.0
            self._before_W = p_W

    def look(self, t_s: float, p_W: Vec3, v_W: Vec3) -> None:
        """Take the true motion."""
        if self._before_W is None:
            return
        step_m = math.dist(p_W[:2], self._before_W[:2])
        self._before_W = p_W
        for trouble, stop in self._found.items():
            if math.isnan(stop.stop_s):
                self._way_m[trouble] += step_m
                if math.hypot(*v_W[:2]) < STANDING_MPS:
                    way_m = self._way_m[trouble]
                    stood = replace(stop, stop_m=way_m, stop_s=t_s - stop.at_s)
                    self._found[trouble] = stood

    def landing_began(self, t_s: float) -> None:
        """Take note that a landing has begun."""
        self._landing_s = t_s

    @property
    def stops(self) -> list[Stop]:
        """What each trouble led to so far."""
        return [
            replace(stop, landing_s=self._landing_s - stop.at_s) for stop in self._found.values()
        ]
