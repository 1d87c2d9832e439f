"""The guard's output at each step, and which of its commands may still be in force."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.hil.guard.law import ZERO
from quadsim.hil.guard.setpoints import ThrustSetpoint

Array = NDArray[np.float64]

#: disabled: nothing is sent. passing: the command received. limiting: the nearest safe velocity.
#: braking: zero, still moving. holding: zero, standing. landing: the vehicle's own autopilot lands.
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
        reason: why the command is not the one received; empty when it is. Disabled: what would be
            answered to being enabled.
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


#: A command so near to the velocity is the one that is followed, m/s.
FOLLOWED_MPS = 0.1


class SentCommands:
    """See the module.

    Args:
        now_ns: the watchdogs' time, from which nothing but zero has been commanded.
        longest_s: commands are stored for so long.
    """

    def __init__(self, now_ns: int, longest_s: float) -> None:
        self._sent: deque[tuple[int, Array]] = deque([(now_ns, ZERO)])
        self._zero_since_ns: int | None = now_ns
        self._longest_ns = longest_s * 1e9

    @property
    def last_W(self) -> Array:
        """(3,) the last one."""
        return self._sent[-1][1]

    def add(self, now_ns: int, v_W: Array) -> Array:
        """Take one that is sent; one array for what stays the same."""
        if np.array_equal(v_W, self.last_W):
            v_W = self.last_W
        self._sent.append((now_ns, v_W))
        if v_W.any():
            self._zero_since_ns = None
        elif self._zero_since_ns is None:
            self._zero_since_ns = now_ns
        while self._sent[0][0] < now_ns - self._longest_ns:
            self._sent.popleft()
        return v_W

    def zero_s(self, now_ns: int) -> float:
        """For how long nothing but zero has been commanded."""
        return 0.0 if self._zero_since_ns is None else (now_ns - self._zero_since_ns) * 1e-9

    def moving(self, now_ns: int, v_W: Array, back_s: float) -> Array:
        """(M, 3) a velocity, and each command that may be in force since it was measured.

        ``back_s``: a command that is older is not.
        """
        start_ns = now_ns - round(back_s * 1e9)
        rows = [v_W]
        for sent_ns, command_W in reversed(self._sent):
            if command_W is not rows[-1]:
                rows.append(command_W)
            if sent_ns < start_ns:
                break
        return np.array(rows)

    def nearest_mps(self, now_ns: int, v_W: Array, back_s: float) -> float:
        """How far a velocity is from the nearest command that it may answer to."""
        start_ns = now_ns - round(back_s * 1e9)
        least = math.inf
        for sent_ns, command_W in reversed(self._sent):
            off = v_W - command_W
            least = min(least, math.sqrt(off @ off))
            if sent_ns < start_ns or least < FOLLOWED_MPS:
                break
        return least
