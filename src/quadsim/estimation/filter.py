"""The error-state Kalman filter for nodes and replay: plain numpy in and out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation import border, timeline
from quadsim.estimation.interface import Estimator
from quadsim.estimation.layout import (
    BA,
    BG,
    FIELD_BIAS,
    GNSS_POSITION,
    GNSS_VELOCITY,
    REASONS,
    SENSORS,
    TERRAIN,
    THETA,
    VECTORS,
    WIND,
    P,
    V,
)
from quadsim.estimation.outputs import pose_covariance, twist_covariance


class ErrorStateEkf(Estimator):
    """Error-state Kalman filter; data late or out of order are fused at their own time."""

    offer_imu = staticmethod(border.offer_imu)
    offer = staticmethod(border.offer)
    fill_odometry = staticmethod(timeline.line_odometry)
    covariance_of_pose = staticmethod(pose_covariance)
    covariance_of_twist = staticmethod(twist_covariance)
    #: Whether measurements are left out once the filter runs.
    blind = False

    def new_lines(self) -> NDArray[np.record]:
        """The (1,) TIMELINE of a filter that has seen nothing yet."""
        return timeline.new_timeline(self.params, self.blind)

    @staticmethod
    def state_of(lines: NDArray[np.record]) -> NDArray[np.record]:
        """The ESKF record in it."""
        state: NDArray[np.record] = lines["state"]
        return state

    def health(self) -> dict[str, float | str]:
        """What a diagnostic shows: status, reason, deviations, biases, innovations, refusals.

        ``status`` is ``aligning``, ``running``, or ``diverging`` while GNSS is rejected at least
        three times in a row. ``<sensor>_test_ratio`` is the last normalised innovation squared
        over its limit: above one is rejected.
        """
        state, gate = self.state, self.params.gate
        gnss = max(int(state.rejected_in_row[s]) for s in (GNSS_POSITION, GNSS_VELOCITY))
        status = "aligning" if not state.running else ("diverging" if gnss >= 3 else "running")
        result: dict[str, float | str] = {
            "status": status,
            "reason": REASONS[int(state.reason)],
            "recoveries": float(state.recoveries),
            "starts": float(state.starts),
            "started": ("in flight", "standing")[int(state.started_standing)],
        }
        sigma = np.sqrt(np.maximum(np.diagonal(state.covariance), 0.0))
        for name, at in (
            ("attitude_sigma_rad", THETA),
            ("velocity_sigma_mps", V),
            ("position_sigma_m", P),
            ("gyro_bias_sigma_radps", BG),
            ("accel_bias_sigma_mps2", BA),
            ("field_bias_sigma_T", FIELD_BIAS),
        ):
            result[name] = float(np.max(sigma[at : at + 3]))
        for i, axis in enumerate("xyz"):
            result[f"gnss_bias_{axis}_m"] = float(state.gnss_bias_W[i])
        result["terrain_height_m"] = float(state.terrain_height_m)
        result["terrain_sigma_m"] = float(sigma[TERRAIN])
        result["wind_sigma_mps"] = float(np.max(sigma[WIND : WIND + 2]))
        for i, axis in enumerate("xy"):
            result[f"wind_{axis}_mps"] = float(state.wind_W_mps[i])
        for i, axis in enumerate("xyz"):
            result[f"gyro_bias_{axis}_radps"] = float(state.gyro_bias_S[i])
            result[f"accel_bias_{axis}_mps2"] = float(state.accel_bias_S[i])
            result[f"field_bias_{axis}_T"] = float(state.field_bias_S_T[i])
        for sensor, name in enumerate(SENSORS):
            limit = gate.chi2_3 if sensor in VECTORS else gate.chi2_1
            accepted = int(state.accepted[sensor])
            result[f"{name}_test_ratio"] = float(state.nis[sensor]) / limit
            result[f"{name}_nis_mean"] = float(state.nis_sum[sensor]) / max(accepted, 1)
            result[f"{name}_accepted"] = float(accepted)
            result[f"{name}_rejected"] = float(state.rejected[sensor])
        result.update({name: float(number) for name, number in self.counts.items()})
        return result
