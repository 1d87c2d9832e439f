"""A motion-capture system: poses at a rate, with noise, latency, lost frames and drop-outs."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.rotation import Quat, exp, multiply
from quadsim.sensors.error_terms import due


class SeenPose(NamedTuple):
    """Position and attitude of the vehicle's body axes in W, and when they were seen."""

    stamp_ns: int
    p_W: Vec3
    q_WB: Quat


@dataclass(frozen=True)
class MotionCaptureParams:
    """A motion-capture system that sees the vehicle."""

    rate_hz: Annotated[float, Spec("frames a second", "Hz", ge=1.0, le=500.0)] = 120.0
    position_sigma_m: Annotated[float, Spec("noise of an axis", "m", ge=0.0, le=1.0)] = 0.001
    attitude_sigma_deg: Annotated[float, Spec("noise about an axis", "deg", ge=0.0, le=30.0)] = 0.2
    latency_s: Annotated[
        float, Spec("from the frame to the vehicle's estimator", "s", ge=0.0, le=0.4)
    ] = 0.01
    loss: Annotated[float, Spec("share of single frames that are lost", "1", ge=0.0, le=1.0)] = 0.02
    dropouts_per_s: Annotated[
        float, Spec("drop-outs (hidden markers), at random", "1/s", ge=0.0, le=10.0)
    ] = 0.1
    dropout_s: Annotated[
        tuple[float, float], Spec("shortest and longest drop-out", "s", ge=0.0, le=10.0)
    ] = (0.05, 0.3)

    def __post_init__(self) -> None:
        """Refuse drop-outs whose shortest is the longer one."""
        if self.dropout_s[0] > self.dropout_s[1]:
            raise InputError(f"dropout_s: {list(self.dropout_s)}; allowed: shortest, longest")

    def covariance(self) -> NDArray[np.float64]:
        """(36,) of a pose's message, row-major: position in m^2, rotation in rad^2."""
        turn = math.radians(self.attitude_sigma_deg)
        diagonal = [max(self.position_sigma_m, 1e-4) ** 2] * 3 + [max(turn, 1e-4) ** 2] * 3
        return np.diag(diagonal).ravel()


class MotionCapture:
    """Sees a vehicle; give it each true pose in the order of the stamps.

    Attributes:
        gone: while true, it sees nothing.
        frames, unseen: how many frames were due, and how many of them saw nothing.
    """

    def __init__(self, params: MotionCaptureParams, generator: np.random.Generator) -> None:
        self._params, self._generator = params, generator
        self._period_ns = round(1e9 / params.rate_hz)
        self._latency_ns = round(params.latency_s * 1e9)
        self._queue: deque[tuple[int, SeenPose]] = deque()
        self._before_ns = 0
        self._hidden_ns = (0, 0)  # begin and end of the next drop-out
        self.gone = False
        self.frames = self.unseen = 0
        self._plan_dropout(0)

    def _plan_dropout(self, after_ns: int) -> None:
        """Draw begin and end of the next drop-out."""
        rate = self._params.dropouts_per_s
        if rate == 0.0:
            self._hidden_ns = (1 << 62, 1 << 62)
            return
        begin_ns = after_ns + round(float(self._generator.exponential(1.0 / rate)) * 1e9)
        lasts_s = float(self._generator.uniform(*self._params.dropout_s))
        self._hidden_ns = (begin_ns, begin_ns + round(lasts_s * 1e9))

    def see(self, stamp_ns: int, p_W: Vec3, q_WB: Quat) -> None:
        """Take a true pose; a frame is taken at the first one after each period's end."""
        is_due = due(self._period_ns, self._before_ns, stamp_ns)
        self._before_ns = stamp_ns
        if not is_due:
            return
        while stamp_ns >= self._hidden_ns[1]:
            self._plan_dropout(self._hidden_ns[1])
        white = self._generator.standard_normal(6).tolist()
        lost = float(self._generator.random()) < self._params.loss
        self.frames += 1
        if lost or self.gone or stamp_ns >= self._hidden_ns[0]:
            self.unseen += 1
            return
        sigma_m, turn = self._params.position_sigma_m, math.radians(self._params.attitude_sigma_deg)
        seen_W = (
            p_W[0] + sigma_m * white[0], p_W[1] + sigma_m * white[1], p_W[2] + sigma_m * white[2]
        )  # fmt: skip
        # noise turns about the world's axes, as the covariance of a message counts it
        rotated = multiply(exp((turn * white[3], turn * white[4], turn * white[5])), q_WB)
        self._queue.append((stamp_ns + self._latency_ns, SeenPose(stamp_ns, seen_W, rotated)))

    def arrived(self, now_ns: int) -> list[SeenPose]:
        """Poses that have arrived since the last call, the oldest first."""
        poses = []
        while self._queue and self._queue[0][0] <= now_ns:
            poses.append(self._queue.popleft()[1])
        return poses
