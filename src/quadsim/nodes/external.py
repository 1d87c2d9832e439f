"""What others say of the vehicle: its pose by motion capture, and that it stands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.interface import UNKNOWN_POSE
from quadsim.nodes import topics
from quadsim.nodes.topics import Topic

#: Parameter ``external_pose_type`` to the topic that is listened to.
POSES: dict[str, Topic] = {
    "pose": topics.EXTERNAL_POSE_STAMPED,
    "pose_with_covariance": topics.EXTERNAL_POSE,
    "odometry": topics.EXTERNAL_ODOMETRY,
}

STAND_PERIOD_NS = 100_000_000
#: A vehicle that stands still turns and is accelerated less than this in the mean of that time.
STILL_RATE_RADPS, STILL_FORCE_MPS2 = 0.1, 0.5


def pose_of(view: Any) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Position (3,), quaternion (4,) w first, and covariance (36,), zero: unknown, of a message."""
    covariance = view["pose_covariance"].ravel() if "pose_covariance" in view.dtype.names else None
    return (
        view["p"].copy(),
        np.roll(view["q_xyzw"], 1),
        UNKNOWN_POSE if covariance is None else covariance.copy(),
    )


class Standing:
    """Whether the filter is to hear that the vehicle stands: it is said so, and the IMU is still.

    Args:
        gravity_mps2: as the filter has it.
    """

    def __init__(self, gravity_mps2: float) -> None:
        self.said = False
        self._gravity_mps2 = gravity_mps2
        self._forget(0)

    def _forget(self, stamp_ns: int) -> None:
        self._begin_ns = stamp_ns
        self._sum = np.zeros(6)
        self._count = 0

    def tell(self, said: bool) -> None:
        """Take what somebody says of it."""
        self.said = said
        self._forget(0)

    def holds(self, stamp_ns: int, f_S: Any, w_S: Any) -> bool:
        """Take an IMU sample; true ten times a second while the vehicle stands."""
        if not self.said:
            return False
        if not 0 <= stamp_ns - self._begin_ns < 10 * STAND_PERIOD_NS:
            self._forget(stamp_ns)
        self._sum[:3] += f_S
        self._sum[3:] += w_S
        self._count += 1
        if stamp_ns - self._begin_ns < STAND_PERIOD_NS:
            return False
        fx, fy, fz, wx, wy, wz = (self._sum / self._count).tolist()
        self._forget(stamp_ns)
        return (
            math.sqrt(wx * wx + wy * wy + wz * wz) < STILL_RATE_RADPS
            and abs(math.sqrt(fx * fx + fy * fy + fz * fz) - self._gravity_mps2) < STILL_FORCE_MPS2
        )
