"""The guard's output at each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.hil.guard.setpoints import ThrustSetpoint

Array = NDArray[np.float64]

#: disabled: nothing is sent. passing: the wish. limiting: the nearest safe velocity. braking: zero,
#: still moving. holding: zero, standing. landing: the vehicle's own autopilot is told to land.
STATES = ("disabled", "passing", "limiting", "braking", "holding", "landing")


@dataclass(frozen=True)
class GuardEvent:
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
        reason: why the command is not the wish; empty when it is. Disabled: what would be answered
            to being enabled.
        margin_m: room left between the keep-out of what is nearest and all that the vehicle can
            still reach if it brakes now; negative: it may be hit; inf: nothing is near; NaN: there
            is no pose.
        clearance_m: from the vehicle's outside to the nearest thing that the scan saw.
        latency_s: age of the pose that the command was made of, on the watchdogs' clock.
        land: whether the vehicle's own autopilot shall be told to land.
        setpoint: what is sent in place of the velocity; None: the velocity is.
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
    events: tuple[GuardEvent, ...] = ()
    setpoint: ThrustSetpoint | None = None
