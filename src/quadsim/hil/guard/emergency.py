"""What is sent when the guard itself has failed: zero, then the call to land and a descent.

It stands where :class:`quadsim.hil.guard.guard.Guard` stood and looks at nothing but the time, so
that nothing of what led to the failure can lead to another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quadsim.geometry.rotation import Quat
from quadsim.hil.guard.output import STATES, GuardEvent, GuardOutput
from quadsim.hil.guard.parameters import WatchParams

#: Commanded with the call to land, m/s.
LAND_SINK_MPS = 0.4

DISABLED, _, _, BRAKING, _, LANDING = STATES

#: Zero is sent for so long before the descent, s.
BRAKED_S = 2.0
#: Once the vehicle reports that it lands, its own autopilot has taken over after this time, s.
HANDED_OVER_S = 2.0
#: Without an answer the descent goes on for so long, s.
LAST_S = 60.0


class Emergency:
    """A guard without inputs; see the module.

    Args:
        params: of the guard that has failed.
        now_ns: the watchdogs' time.
        words: what has happened.
    """

    def __init__(self, params: WatchParams, now_ns: int, words: str) -> None:
        self._sink_W = np.array((0.0, 0.0, -LAND_SINK_MPS))
        self._begun_ns, self._words = now_ns, words
        self._lands_ns: int | None = None
        self.enabled = True
        self.offboard: bool | None = None

    q_WB: Quat = (1.0, 0.0, 0.0, 0.0)

    def take_nothing(self, *_: Any) -> None:
        """Inputs change nothing any more."""

    take_pose = take_scan = take_wish = take_dead_man = take_shapes = expect_shapes = take_nothing
    take_ready = take_reset = take_autopilot = take_rivals = take_nothing
    take_neighbour = expect_neighbours = take_position = take_setpoint = take_nothing

    def reach(self, _: int) -> None:
        """Where the vehicle will be it does not know."""
        return

    def take_offboard(self, inside: bool) -> None:
        """A vehicle that leaves offboard mode belongs to whoever has taken it."""
        self.offboard = inside
        if not inside:
            self.disable()

    def enable(self, _: int) -> str:
        """It does not begin again."""
        return self._words

    def disable(self) -> None:
        """Send nothing more."""
        self.enabled = False

    def take_events(self) -> tuple[GuardEvent, ...]:
        """What happened was told when it began."""
        return ()

    def step(self, now_ns: int) -> GuardOutput:
        """Zero for :data:`BRAKED_S`, then a descent; the call to land from then on."""
        lands = (now_ns - self._begun_ns) * 1e-9 >= BRAKED_S
        return GuardOutput(
            send=self.enabled,
            v_W=self._sink_W.copy() if lands and self.enabled else np.zeros(3),
            yaw_rate_radps=0.0,
            state=(LANDING if lands else BRAKING) if self.enabled else DISABLED,
            reason=self._words,
            margin_m=math.nan,
            clearance_m=math.nan,
            latency_s=math.nan,
            land=lands and self.enabled,
        )

    def over(self, now_ns: int, lands: bool) -> bool:
        """Whether nothing is left to do.

        Args:
            now_ns: the watchdogs' time.
            lands: whether the vehicle has stated that it lands by itself.
        """
        if lands and self._lands_ns is None:
            self._lands_ns = now_ns
        handed_over = self._lands_ns is not None and (
            (now_ns - self._lands_ns) * 1e-9 >= HANDED_OVER_S
        )
        return not self.enabled or handed_over or (now_ns - self._begun_ns) * 1e-9 >= LAST_S
