"""Recovery near the ground: level and full thrust when a crash is near, then a climb."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from quadsim.mission.flight.mission_items import MissionStates
from quadsim.mission.flight.states import WARN

#: One more dive below the floor than this ends the flight.
MOST_RECOVERIES = 3
#: Pull-ups in a landing, after which it is let go on.
MOST_PULL_UPS = 6

#: Height above the floor to which a recovery climbs at least, m.
RECOVERY_CLIMB_M = 0.5

#: On the way down; what comes after a recovery needs no item of the mission.
LANDINGS = ("landing", "failsafe_landing", "failsafe_return")

#: A landing that sinks faster than so often its speed falls.
TOO_FAST = 2.0

#: What stands between the body's centre and the ground, m.
LEGS_M = 0.25

#: A fall is one that the estimate is sure of, by so many of its deviations.
DEVIATIONS = 3.0

#: Climb rate at which a fall has been caught, m/s.
CAUGHT_MPS = 0.2


class Recovery(MissionStates):
    """The machine with its recovery; arguments and attributes as of the machine."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._handlers["recovery"] = self._on_recovery

    def _reset(self) -> None:
        """Forget the last flight."""
        super()._reset()
        self._recoveries = 0
        self._crippled = False  # a motor is lost: no more thrust than control asks for
        self._recovered_state = "hover"

    def recover(self) -> str | None:
        """Level, full thrust, then a climb to a safe height; the mission goes on after it."""
        if not self.flying or self.state in ("takeoff", "landing", "failsafe_landing", "recovery"):
            return f"not while {self.state}"
        self._pull_up("as told")
        return None

    @abstractmethod
    def _go_home(self, reason: str) -> None:
        """Fly home and land there."""

    @property
    def _recovers_level(self) -> bool:
        """Whether it is being pulled up: level, whatever the way."""
        return self.state == "recovery" and self._guidance.pulls_up

    def _fast_mps(self) -> float:
        """Sink rate above which a descent may be a fall."""
        least_mps = self._params.failsafe.impact_sink_mps
        if self.state not in LANDINGS:
            return least_mps
        return max(least_mps, TOO_FAST * self._sink_mps)

    def _falls(self) -> bool:
        """Pull up where the sink rate leads into the ground before full thrust could stop it."""
        if self._recovers_level or self._recoveries > MOST_PULL_UPS or self._crippled:
            return False
        failsafe, sink_mps = self._params.failsafe, self._sink_rate_mps - self._doubt_mps()
        if sink_mps <= self._fast_mps():
            return False
        height_m = self._clearance_m()
        stop_m = sink_mps * (
            failsafe.impact_lag_s + 0.5 * sink_mps / failsafe.impact_acceleration_mps2
        )
        if stop_m < height_m - failsafe.impact_margin_m:
            return False
        self._pull_up(f"falls, {sink_mps:.1f} m/s at {height_m:.2f} m")
        return True

    def _doubt_mps(self) -> float:
        """How much of a sink rate may be the estimate's own error."""
        variance = 0.0 if self._odometry is None else float(self._odometry["v_variance"][0, 2])
        return DEVIATIONS * math.sqrt(variance) if 0.0 < variance < math.inf else 0.0

    def _clearance_m(self) -> float:
        """Height of the feet above the ground beneath, as far as that is known; else infinite."""
        if not self.ground.used:
            return self._height_m() - min(self._params.failsafe.floor_m, 0.0)
        if not self.ground.known:
            return math.inf
        x, y, z = self._guidance.estimate[0]
        return z - self.ground.at(x, y)[0] - LEGS_M

    def _pull_up(self, words: str) -> None:
        """Level and full thrust until it climbs."""
        if self.state != "recovery":
            self._suspend()
            self._recovered_state = self.state
        self._recoveries += 1
        self._guidance.pull_up(self._stamp_ns, self._params.ascent_mps)
        self._enter("recovery", words, WARN)

    def _recover(self) -> None:
        """Climb away from the ground; too often, land."""
        self._suspend()
        self._recoveries += 1
        if self._recoveries > MOST_RECOVERIES:
            self._fail("too low, again and again")
            return
        self._recovered_state = self.state
        self._climb_away()
        self._enter("recovery", f"too low, {self._height_m():.2f} m", WARN)

    def _climb_away(self) -> None:
        """A leg straight up to the height that was wanted, or a safe one."""
        (x, y, z), yaw = self._guidance.estimate
        wanted_m = self._guidance.motion(self._stamp_ns)[0][2]
        least_m = z - self._height_m() + self._params.failsafe.floor_m + RECOVERY_CLIMB_M
        self._guidance.stand(self._stamp_ns, (x, y, z), yaw)
        self._guidance.go(self._stamp_ns, (x, y, max(wanted_m, least_m)), yaw)

    def _on_recovery(self) -> None:
        if self._guidance.pulls_up:
            if self._v_up > CAUGHT_MPS:
                self._climb_away()
            elif self._since_s(self._entered_ns) > self._params.failsafe.recovery_s:
                self._fail("it falls, and no recovery")
        elif self._guidance.is_over(self._stamp_ns):
            if self._guidance.away_m <= self._params.arrival_radius_m:
                self._go_on()
            elif self._guidance.late_s(self._stamp_ns) > self._params.failsafe.recovery_s:
                self._fail("too low, and no recovery")

    def _go_on(self) -> None:
        """What came before a recovery."""
        again: dict[str, Callable[[], None]] = {
            "mission": self._begin_item,
            "takeoff": self._begin_item,
            "landing": lambda: self._begin_landing(self._sink_mps, "again"),
            "failsafe_landing": lambda: self._fail(self.reason),
            "failsafe_return": lambda: self._go_home(self.reason),
        }
        if self._recoveries > MOST_RECOVERIES and self._recovered_state not in LANDINGS:
            self._fail("too low, again and again")
            return
        items_left = self._index < len(self._items)
        if self._recovered_state in again and (items_left or self._recovered_state in LANDINGS):
            again[self._recovered_state]()
        else:
            self._enter("hover", "recovered")
