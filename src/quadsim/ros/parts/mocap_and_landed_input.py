"""What others say of the vehicle: its pose by motion capture, and that it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.eskf.standing import STANDING, node_stands
from quadsim.estimation.interface import UNKNOWN_POSE
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.topics import Topic

#: Parameter ``external_pose_type`` to the topic that is listened to.
POSES: dict[str, Topic] = {
    "pose": topics.EXTERNAL_POSE_STAMPED,
    "pose_with_covariance": topics.EXTERNAL_POSE,
    "odometry": topics.EXTERNAL_ODOMETRY,
}


def external_pose_of(
    view: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Position (3,), quaternion (4,) w first, and covariance (36,), zero: unknown, of a message."""
    covariance = view["pose_covariance"].ravel() if "pose_covariance" in view.dtype.names else None
    return (
        view["p"].copy(),
        np.roll(view["q_xyzw"], 1),
        UNKNOWN_POSE if covariance is None else covariance.copy(),
    )


class Standing:
    """Whether the filter is to hear that the vehicle stands, by the standing kernel.

    Args:
        gravity_mps2: as the filter has it.
    """

    def __init__(self, gravity_mps2: float) -> None:
        self._gravity_mps2 = gravity_mps2
        self._standing: NDArray[np.record] = np.zeros(1, STANDING)

    @property
    def said(self) -> bool:
        """Whether somebody reports it."""
        return bool(self._standing["said"][0])

    def tell(self, stated: bool) -> None:
        """Take what somebody reports of it."""
        if stated != self.said:
            self._standing[:] = np.zeros(1, STANDING)
            self._standing["said"] = int(stated)

    def holds(self, stamp_ns: int, f_S: Any, w_S: Any) -> bool:
        """Take an IMU sample; true ten times a second while the vehicle stands."""
        if not self.said:
            return False
        return bool(node_stands(self._standing, self._gravity_mps2, stamp_ns, f_S, w_S))
