"""What an estimator assumed besides the motion, stored while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.eskf.layout import DRAG, GRAVITY, SENSORS, VECTORS
from quadsim.estimation.eskf.measurement_buffer import INNOVATION
from quadsim.estimation.interface import Estimator
from quadsim.estimation.running import BIAS_STEP_NS, BIASES, Found
from quadsim.sim.disk_arrays import KeptRows, give_back
from quadsim.sim.log import Array, Innovations, Inside
from quadsim.wire.axes import rotation_matrices


class FilterStates:
    """Innovations and biases of an estimator."""

    def __init__(self, estimator: Estimator) -> None:
        self._q_BS = estimator.lines["state"]["q_BS"]
        self._innovations = [KeptRows(INNOVATION) for _ in SENSORS]
        self._biases = KeptRows(BIASES)

    def take(self, found: Found) -> None:
        """Keep what was seen."""
        self._biases.append(found.biases.copy())  # it shows memory for many more
        self.take_innovations(found.innovations)

    def take_innovations(self, rows: NDArray[Any]) -> None:
        """Keep innovations."""
        for sensor in np.flatnonzero(np.bincount(rows["sensor"], minlength=1)).tolist():
            of_it = rows[rows["sensor"] == sensor]
            of_it["variance"] = np.sqrt(np.maximum(of_it["variance"], 0.0))
            self._innovations[sensor].append(of_it)

    def inside(self) -> Inside:
        """What was stored; biases along the axes of ``base_link``; nothing more can be taken."""
        stored = {sensor: rows.whole() for sensor, rows in enumerate(self._innovations)}
        innovations = {
            SENSORS[sensor]: _innovations(rows, 3 if sensor in VECTORS else 1)
            for sensor, rows in stored.items()
            if len(rows) and sensor not in (GRAVITY, DRAG)  # which are no messages
        }
        rows = self._biases.whole()
        covariances = rows["gyro_covariance_S"], rows["accel_covariance_S"]
        found = _turned(rows["stamp_ns"], rows, self._q_BS, covariances, innovations)
        give_back(rows)
        return found


def _innovations(rows: NDArray[Any], width: int) -> Innovations:
    """Of one sensor; deviations are where the variances were."""
    accepted = rows["accepted"].astype(bool)
    give_back(rows)
    value, sigma = rows["value"][:, :width], rows["variance"][:, :width]
    return Innovations(rows["stamp_ns"], value, sigma, rows["nis"], accepted)


def _turned(
    stamp_ns: NDArray[np.int64],
    rows: NDArray[Any],
    q_BS: Array,
    covariances_S: Sequence[Array],
    innovations: dict[str, Innovations],
) -> Inside:
    """Biases of rows and their (N, 3, 3) covariances, rotated from the IMU's axes."""
    R_BS = rotation_matrices(q_BS)[0]
    variances = [np.einsum("ij,njk,ik->ni", R_BS, each, R_BS) for each in covariances_S]
    return Inside(
        stamp_ns,
        rows["gyro_bias_S"] @ R_BS.T,
        rows["accel_bias_S"] @ R_BS.T,
        np.sqrt(np.maximum(np.concatenate(variances, axis=1), 0.0)),
        innovations,
    )


def inside_of_smoothed(rows: NDArray[Any], q_BS: Array) -> Inside:
    """Biases of a smoothed flight; there is no innovation in it.

    Args:
        rows: (N,) SMOOTHED.
        q_BS: (4,) attitude of the IMU; axes' errors are taken as independent when it turns them.
    """
    stamp_ns = rows["odometry"]["stamp_ns"]
    slots = stamp_ns // BIAS_STEP_NS
    rows = rows[np.concatenate([[True], slots[1:] > slots[:-1]])[: len(rows)]]
    variances = rows["gyro_bias_variance"], rows["accel_bias_variance"]
    covariances = [variance[:, :, None] * np.eye(3) for variance in variances]
    return _turned(rows["odometry"]["stamp_ns"], rows, q_BS[None], covariances, {})
