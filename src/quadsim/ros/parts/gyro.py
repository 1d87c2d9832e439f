"""The gyroscope that the mixer goes on by while no odometry comes; it knows no ROS graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.ros.messages.cdr import MessageError, Reader, stamp_of
from quadsim.ros.runtime import topics

#: Weight of a new difference between gyroscope and odometry in the bias; its largest size, rad/s.
BIAS_WEIGHT, MOST_BIAS_RADPS = 0.02, 0.2
#: How far a clock may be behind, ns: a period of ``/clock``.
SLACK_NS = 10_000_000

Array = NDArray[np.float64]


class Gyro:
    """The newest sample of an IMU with the body's axes, and the bias of its gyroscope.

    Attributes:
        stamp_ns: of the newest sample; 0 before the first.
    """

    def __init__(self) -> None:
        self.stamp_ns = 0
        self._payload = b""
        self._reader = Reader(topics.IMU_RAW.type_name)
        self._bias_B: Array = np.zeros(3)

    def take(self, payload: bytes, now_ns: int, hold_ns: int) -> None:
        """Keep a sample.

        Args:
            payload: CDR bytes of ``imu/data_raw``.
            now_ns: the clock, or the newest odometry where that is later.
            hold_ns: age at which a sample counts as none.

        Raises:
            MessageError: its stamp is ahead of all that is known of the time, repeats or jumps
                back, or the bytes are no such message.
        """
        stamp_ns = stamp_of(payload)
        if stamp_ns > now_ns + hold_ns + SLACK_NS:
            raise MessageError("its stamp is in the future")
        if stamp_ns <= self.stamp_ns:
            raise MessageError("repeats or jumps back in time")
        self._reader.read(payload)
        self._payload, self.stamp_ns = payload, stamp_ns

    def rates_B(self, now_ns: int, hold_ns: int) -> Array:
        """Rates without their bias, rad/s; NaN where no sample is fresh."""
        if not self.stamp_ns or abs(now_ns - self.stamp_ns) > hold_ns:
            return np.full(3, np.nan)
        rates_B: Array = self._rates() - self._bias_B
        return rates_B

    def learn(self, stamp_ns: int, w_B: Array) -> None:
        """Learn the bias from the rates of an odometry, rad/s, if it is of the newest sample."""
        if self.stamp_ns and self.stamp_ns == stamp_ns:
            off = np.clip(self._rates() - w_B, -MOST_BIAS_RADPS, MOST_BIAS_RADPS)
            if np.isfinite(off).all():
                self._bias_B += BIAS_WEIGHT * (off - self._bias_B)

    def _rates(self) -> Any:
        return self._reader.read(self._payload)["w"]
