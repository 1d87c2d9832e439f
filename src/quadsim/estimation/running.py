"""Running an estimator through blocks of messages, and what is seen of it meanwhile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.records import ODOMETRY
from quadsim.estimation.eskf.layout import (
    EXTERNAL_POSITION,
    GNSS_POSITION,
    SENSORS,
    STATIC_PRESSURE,
)
from quadsim.estimation.eskf.measurement_buffer import CAPACITY
from quadsim.estimation.innovation_log import BIASES, INNOVATION, Found, Seen, new_witness
from quadsim.estimation.interface import Estimator
from quadsim.estimation.messages import Messages


class Running:
    """An estimator that is given messages in blocks.

    It gets to know what its methods would tell it, to the bit; its sensors' axes are not watched.

    Args:
        estimator: one with a kernel for blocks; nobody else gives it messages.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._witnesses = new_witness()
        self._seen = _seen(estimator)

    def take(self, messages: Messages) -> Found:
        """Give it messages.

        Returns:
            Its output after each IMU sample, the stamps rising; innovations that do not change any
            more; biases.
        """
        estimator = self._estimator
        assert estimator.take_messages is not None
        messages = _prepared(estimator, messages)
        count = len(messages)
        found = Found(
            np.zeros(3, np.int64),
            np.zeros(count + 1, ODOMETRY),  # one that is tried
            np.zeros(2 * (count + CAPACITY), INNOVATION),  # a pose and a field give two each
            np.zeros(count, BIASES),
        )
        columns = (messages.kind, messages.stamp_ns, messages.at, messages.numbers)
        estimator.take_messages(estimator.lines, columns, self._seen, self._witnesses, found)
        kept = (
            rows[:number] for rows, number in zip(found[1:], found.counts.tolist(), strict=True)
        )
        return Found(found.counts, *kept)

    def newest(self) -> NDArray[Any]:
        """The newest innovation of each sensor, which late messages can still change."""
        witness = self._witnesses[0]
        newest: NDArray[Any] = witness["newest"][witness["known"] == 1]
        return newest

    @property
    def waiting(self) -> int:
        """How many messages wait for the IMU sample that follows them."""
        return int(self._witnesses["waiting"][0])


def _seen(estimator: Estimator) -> Seen:
    """Views of the estimator's record, which stays where it is."""
    state = estimator.state_of(estimator.lines)
    names = state.dtype.names or ()
    unknown = np.full((len(SENSORS), 3), math.nan)
    has_biases = "gyro_bias_S" in names
    return Seen(
        state["running"],
        state["stamp_ns"],
        estimator.lines["verdicts"][0],
        state["accepted"][0],
        state["rejected"][0] if "rejected" in names else np.zeros(len(SENSORS), np.int64),
        state["nis"][0],
        state["innovation"][0] if "innovation" in names else unknown,
        state["innovation_variance"][0] if "innovation_variance" in names else unknown,
        state["gyro_bias_S"][0] if has_biases else np.zeros(0),
        state["accel_bias_S"][0] if has_biases else np.zeros(0),
        state["covariance"][0],
    )


def _prepared(estimator: Estimator, messages: Messages) -> Messages:
    """Messages as kernels take them: what a method of the estimator does before it calls one."""
    datum = estimator.datum
    if datum is None:
        messages = estimator.without_fixes(messages)
    numbers = messages.numbers.copy()
    fixes = messages.numbers_of(GNSS_POSITION, 0, 3)
    if datum is not None and len(fixes):
        latitude_deg, longitude_deg, height_m = numbers[fixes].T
        known = np.isfinite(longitude_deg + height_m) & (np.abs(latitude_deg) <= 90.0)
        p_W = np.full(fixes.shape, math.nan)  # refused and counted with the rest
        for row in np.flatnonzero(known).tolist():
            p_W[row] = datum.to_enu(*numbers[fixes[row]].tolist())
        numbers[fixes] = p_W
    pressures = messages.numbers_of(STATIC_PRESSURE)
    numbers[pressures[~(numbers[pressures] > 0.0)]] = math.nan
    attitudes = messages.numbers_of(EXTERNAL_POSITION, 3, 4)
    wrong = np.abs(np.linalg.norm(numbers[attitudes], axis=1) - 1.0) > 0.01
    numbers[attitudes[wrong]] = math.nan
    return Messages(messages.kind, messages.stamp_ns, messages.at, numbers)
