"""How far and how long a vehicle goes on after something was taken away."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from quadsim.base.parameters import Vec3
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.rehearsal.parameters import TroubleParams

#: A vehicle that is slower stands, m/s.
STANDING_MPS = 0.15


@dataclass(frozen=True)
class Stop:
    """What a trouble led to.

    Attributes:
        what: was taken away.
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
        self._begun: dict[TroubleParams, tuple[float, float]] = {}  # when, and how fast
        self._way_m: dict[TroubleParams, float] = {}
        self._stood: dict[TroubleParams, tuple[float, float]] = {}  # time and way until standing
        self._landing_s = math.nan
        self._before_W: Vec3 | None = None

    def begin(self, trouble: TroubleParams, t_s: float, p_W: Vec3, v_W: Vec3) -> None:
        """Follow a trouble from the moment at which it begins."""
        if t_s >= trouble.at_s and trouble not in self._begun:
            self._begun[trouble] = (t_s, math.hypot(*v_W))
            self._way_m[trouble] = 0.0
            self._before_W = p_W

    def look(self, t_s: float, p_W: Vec3, v_W: Vec3) -> None:
        """Take the true motion."""
        if self._before_W is None:
            return
        step_m = math.dist(p_W[:2], self._before_W[:2])
        self._before_W = p_W
        for trouble, (begin_s, _) in self._begun.items():
            if trouble in self._stood:
                continue
            self._way_m[trouble] += step_m
            if math.hypot(*v_W[:2]) < STANDING_MPS:
                self._stood[trouble] = (t_s - begin_s, self._way_m[trouble])

    def landing_began(self, t_s: float) -> None:
        """Take note that a landing has begun."""
        self._landing_s = t_s

    @property
    def stops(self) -> list[Stop]:
        """What each trouble led to so far."""
        found = []
        for trouble, (begin_s, speed_mps) in self._begun.items():
            stop_s, stop_m = self._stood.get(trouble, (math.nan, math.nan))
            braking_m = speed_mps**2 / (2.0 * self._assumed.brake_mps2)
            found.append(
                Stop(
                    trouble.what, begin_s, speed_mps, stop_m, stop_s,
                    speed_mps * self._assumed.latency_s + braking_m, self._landing_s - begin_s,
                )
            )  # fmt: skip
        return found
