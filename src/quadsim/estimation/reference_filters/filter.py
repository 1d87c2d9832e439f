"""The source systems' filters for nodes and replay: plain numpy in and out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.eskf.layout import REASONS, SENSORS, VECTORS
from quadsim.estimation.interface import DERIVED, Estimator
from quadsim.estimation.reference_filters.ekf7 import ekf7_offer
from quadsim.estimation.reference_filters.fusion import (
    direct_odometry,
    direct_pose_covariance,
    direct_twist_covariance,
)
from quadsim.estimation.reference_filters.gps_ins import gps_ins_offer


class DirectFilter(Estimator):
    """What fuses a message when it arrives, in whatever order, and refuses none by its value."""

    fill_odometry = staticmethod(direct_odometry)
    covariance_of_pose = staticmethod(direct_pose_covariance)
    covariance_of_twist = staticmethod(direct_twist_covariance)

    @staticmethod
    def state_of(lines: NDArray[np.record]) -> NDArray[np.record]:
        """The MOTION record in it."""
        motion: NDArray[np.record] = lines["motion"]
        return motion

    def health(self) -> dict[str, float | str]:
        """Status, deviations, and of each sensor the normalised innovations squared.

        ``<sensor>_test_ratio`` is the last one over the error-state filter's limit, for comparison:
        nothing is rejected here.
        """
        motion, aligner, gate = self.state, self._lines[0].state, self.params.gate
        result: dict[str, float | str] = {
            "status": "running" if motion.running else "aligning",
            "reason": REASONS[int(aligner.reason)],
            "starts": float(aligner.starts),
            "started": ("in flight", "standing")[int(aligner.started_standing)],
        }
        variances = np.maximum(np.diagonal(motion.covariance), 0.0)
        tilt_variance = float(motion.tilt_variance)
        result["attitude_sigma_rad"] = float(np.sqrt(max(variances[6], tilt_variance)))
        result["velocity_sigma_mps"] = float(np.sqrt(np.max(variances[3:6])))
        result["position_sigma_m"] = float(np.sqrt(np.max(variances[:3])))
        for sensor, name in enumerate(SENSORS):
            if name in DERIVED:
                continue
            limit = gate.chi2_3 if sensor in VECTORS else gate.chi2_1
            accepted = float(aligner.accepted[sensor])
            result[f"{name}_test_ratio"] = float(aligner.nis[sensor]) / limit
            result[f"{name}_nis_mean"] = float(aligner.nis_sum[sensor]) / max(accepted, 1.0)
            result[f"{name}_accepted"] = accepted
            result[f"{name}_rejected"] = 0.0
        result.update({name: float(number) for name, number in self.counts.items()})
        return result


class Ekf7(DirectFilter):
    """The FCND project's estimator; see :mod:`~quadsim.estimation.reference_filters.ekf7`."""

    offer = staticmethod(ekf7_offer)


class GpsIns(DirectFilter):
    """The thesis' linear GPS/INS filter; see ``estimation.reference_filters.gps_ins``."""

    offer = staticmethod(gps_ins_offer)
