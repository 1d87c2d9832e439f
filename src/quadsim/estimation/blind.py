"""Inertial navigation alone (``odometry/blind``): what the IMU knows since the start."""

from __future__ import annotations

from quadsim.estimation.filter import ErrorStateEkf
from quadsim.estimation.timeline import clear_timeline


class BlindIns(ErrorStateEkf):
    """The same start and prediction as the filter's; after it no measurement is fused.

    Its covariance grows as inertial navigation's errors do.
    """

    blind = True

    def start_from(self, other: ErrorStateEkf) -> None:
        """Go on from another filter's state as it is now."""
        line = self._lines[0]
        clear_timeline(line)
        line.state = other.state
        line.newest_imu_ns = line.state.imu_stamp_ns
