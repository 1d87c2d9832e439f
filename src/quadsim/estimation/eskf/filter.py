"""The error-state Kalman filter for nodes and replay: plain numpy in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.estimation.eskf.input_validation import offer, offer_imu
from quadsim.estimation.eskf.layout import (
    ANTENNA,
    BA,
    BG,
    EXTERNAL_ATTITUDE,
    EXTERNAL_POSITION,
    FIELD_BIAS,
    GNSS_POSITION,
    GNSS_TIME,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    RANGE,
    REASONS,
    SENSORS,
    STATIC_PRESSURE,
    TERRAIN,
    THETA,
    VECTORS,
    WIND,
    P,
    V,
)
from quadsim.estimation.eskf.outputs import line_odometry, pose_covariance, twist_covariance
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.interface import UNKNOWN_POSE, Estimator
from quadsim.estimation.mounting_check.check import AxesMonitor
from quadsim.geometry.geodesy import Datum

#: Sensors whose rejection without a break means that the estimate has left the truth.
HOLDING = (GNSS_POSITION, GNSS_VELOCITY, EXTERNAL_POSITION, EXTERNAL_ATTITUDE)
#: Sensors that must agree before a flight; a field that does not agree makes the heading uncertain.
NEEDED = (*HOLDING, STATIC_PRESSURE, RANGE)
OK, REPEATED = "ok", "repeated"
#: Verdicts on an IMU sample that is used.
TAKEN = (OK, "gap", "clock_jump")
#: So many IMU samples in a row with the same stamp: its clock stands.
STANDING_STAMPS = 50


def rejected_sensors(state: Any) -> list[str]:
    """Names of the sensors that must agree and are rejected, three times in a row or more.

    Args:
        state: ESKF record.
    """
    in_row = state["rejected_in_row"]
    return [SENSORS[sensor] for sensor in NEEDED if in_row[sensor] >= 3]


class ErrorStateEkf(Estimator):
    """Error-state Kalman filter; data late or out of order are fused at their own time."""

    offer_imu = staticmethod(offer_imu)
    offer = staticmethod(offer)
    fill_odometry = staticmethod(line_odometry)
    covariance_of_pose = staticmethod(pose_covariance)
    covariance_of_twist = staticmethod(twist_covariance)

    def __init__(self, params: EstimatorParams, datum: Datum | None) -> None:
        super().__init__(params, datum)
        self.axes = AxesMonitor(self.params)
        self.reset()

    def reset(self) -> None:
        """Forget all, and start anew with the next IMU sample."""
        super().reset()
        self._standing_stamps = 0
        self.axes.reset()

    def _after_imu(self, verdict: str, stamp_ns: int, f_S: ArrayLike, w_S: ArrayLike) -> str:
        """Count stamps that stand, and watch the axes."""
        self._standing_stamps = self._standing_stamps + 1 if verdict == REPEATED else 0
        if not self.blind and verdict in TAKEN:
            self.axes.imu(stamp_ns, f_S, w_S)
        return verdict

    def _take(self, kind: int, stamp_ns: int, values: ArrayLike, covariance: ArrayLike) -> str:
        verdict = super()._take(kind, stamp_ns, values, covariance)
        if self.blind or verdict != OK:
            return verdict
        if kind == GNSS_POSITION:
            self.axes.gnss_position(stamp_ns, values, covariance)
        elif kind == GNSS_VELOCITY:
            self.axes.gnss_velocity(stamp_ns, values, covariance)
        elif kind == MAGNETIC_FIELD:
            self.axes.magnetic_field(stamp_ns, values)
        return verdict

    def external_pose(
        self, stamp_ns: int, p_W: ArrayLike, q_WB: ArrayLike, covariance: ArrayLike = UNKNOWN_POSE
    ) -> str:
        """Fuse a pose of ``base_link`` in ``map``; see :meth:`Estimator.external_pose`."""
        verdict = super().external_pose(stamp_ns, p_W, q_WB, covariance)
        if not self.blind and verdict == OK:
            self.axes.external_pose(stamp_ns, p_W, q_WB)
        return verdict

    @staticmethod
    def state_of(lines: NDArray[np.record]) -> NDArray[np.record]:
        """The ESKF record in it."""
        state: NDArray[np.record] = lines["state"]
        return state

    def set_params(self, params: EstimatorParams) -> None:
        """Go on with other parameters; which states are carried changes with the next start."""
        before = self.params
        super().set_params(params)
        if (before.mount, before.magnetic_field_W_T) != (params.mount, params.magnetic_field_W_T):
            self.axes = AxesMonitor(self.params)

    def _is_refused(self, sensor: int) -> bool:
        """Whether a sensor has been rejected without a break for so long that it is no chance."""
        state = self.state
        since_s = (int(state.stamp_ns) - int(state.rejected_since_ns[sensor])) * 1e-9
        return int(state.rejected_in_row[sensor]) >= 3 and since_s > self.params.gate.recovery_s

    def health(self) -> dict[str, float | str]:
        """What a diagnostic shows: status, reason, deviations, biases, innovations, refusals.

        ``status`` is ``aligning``, ``running``, ``diverging`` while GNSS or the external pose is
        rejected at least three times in a row, ``rejects ...`` while another sensor has been
        rejected for longer than ``gate.recovery_s``, or ``imu clock stands``. ``rejected`` names
        the sensors for which the autopilot refuses to arm. ``axes`` names sensors whose axes are
        not as declared. ``<sensor>_test_ratio`` is the last normalised
        innovation squared over its limit: above one is rejected. ``gnss_time_s`` is how late GNSS
        stamps are; ``gnss_time_counts`` whether the estimate rests on it.
        """
        state, gate = self.state, self.params.gate
        rejected = max(int(state.rejected_in_row[sensor]) for sensor in HOLDING)
        refused = [SENSORS[sensor] for sensor in range(len(SENSORS)) if self._is_refused(sensor)]
        status = "aligning" if not state.running else ("diverging" if rejected >= 3 else "running")
        if status == "running" and refused:
            status = f"rejects {', '.join(refused)}"
        if self._standing_stamps >= STANDING_STAMPS:
            status = "imu clock stands"
        result: dict[str, float | str] = {
            "status": status,
            "rejected": ", ".join(rejected_sensors(state)),
            "axes": "; ".join(f"{name}: {words}" for name, words in self.axes.report().items()),
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
            ("lever_arm_sigma_m", ANTENNA),
        ):
            result[name] = float(np.max(sigma[at : at + 3]))
        for i, axis in enumerate("xyz"):
            result[f"gnss_bias_{axis}_m"] = float(state.gnss_bias_W[i])
        result["terrain_height_m"] = float(state.terrain_height_m)
        result["terrain_sigma_m"] = float(sigma[TERRAIN])
        result["gnss_time_s"] = float(state.gnss_time_s)
        result["gnss_time_sigma_s"] = float(sigma[GNSS_TIME])
        result["gnss_time_counts"] = float(state.gnss_time_counts)
        result["heading_confirmed"] = float(state.heading.confirmed)
        result["wind_sigma_mps"] = float(np.max(sigma[WIND : WIND + 2]))
        for i, axis in enumerate("xy"):
            result[f"wind_{axis}_mps"] = float(state.wind_W_mps[i])
        for i, axis in enumerate("xyz"):
            result[f"gyro_bias_{axis}_radps"] = float(state.gyro_bias_S[i])
            result[f"accel_bias_{axis}_mps2"] = float(state.accel_bias_S[i])
            result[f"field_bias_{axis}_T"] = float(state.field_bias_S_T[i])
            result[f"lever_arm_{axis}_m"] = float(state.antenna_S[i])
        for sensor, name in enumerate(SENSORS):
            limit = gate.chi2_3 if sensor in VECTORS else gate.chi2_1
            accepted = int(state.accepted[sensor])
            result[f"{name}_test_ratio"] = float(state.nis[sensor]) / limit
            result[f"{name}_nis_mean"] = float(state.nis_sum[sensor]) / max(accepted, 1)
            result[f"{name}_accepted"] = float(accepted)
            result[f"{name}_rejected"] = float(state.rejected[sensor])
        result.update({name: float(number) for name, number in self.counts.items()})
        return result
