"""Inertial navigation alone (``odometry/blind``): what the IMU knows since the start."""

from __future__ import annotations

from dataclasses import replace

from quadsim.estimation.eskf.filter import ErrorStateEkf
from quadsim.estimation.eskf.measurement_buffer import clear_timeline
from quadsim.estimation.eskf.parameters import EstimatorParams

#: Longer than any flight, s.
NEVER_S = 1e9


class BlindIns(ErrorStateEkf):
    """The same start and prediction as the filter's; after it nothing is fused.

    Its covariance grows as inertial navigation's errors do.
    """

    blind = True

    def _own(self, params: EstimatorParams) -> EstimatorParams:
        """Without gravity's direction and the drag, which are no messages."""
        fusion = replace(params.fusion, gravity_after_s=NEVER_S, drag_per_s=0.0)
        return replace(params, fusion=fusion)

    def start_from(self, other: ErrorStateEkf) -> None:
        """Go on from another filter's state as it is now."""
        line = self._lines[0]
        clear_timeline(line)
        line.state = other.state
        line.newest_imu_ns = line.state.imu_stamp_ns
