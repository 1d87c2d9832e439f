"""Estimators run over many messages at once: the same kernels in the same order, without Python.

A call from Python costs several times what a prediction does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, kernel, template
from quadsim.base.parameters import dtype_of
from quadsim.base.records import ODOMETRY
from quadsim.estimation.eskf.input_validation import offer
from quadsim.estimation.eskf.layout import BA, BG, EXTERNAL_ATTITUDE, EXTERNAL_POSITION
from quadsim.estimation.eskf.measurement_buffer import (
    CAPACITY,
    HORIZON_NS,
    IMU,
    IMU_1,
    INNOVATION,
    NEVER_NS,
    OK,
    Buffer,
)
from quadsim.estimation.eskf.outputs import line_odometry
from quadsim.estimation.interface import Estimator
from quadsim.estimation.messages import COVARIANCE, NUMBERS, Messages
from quadsim.estimation.reference_filters.ekf7 import ekf7_offer
from quadsim.estimation.reference_filters.fusion import direct_odometry
from quadsim.estimation.reference_filters.gps_ins import gps_ins_offer

#: Biases change slowly: they are stored so often.
BIAS_STEP_NS = 100_000_000


class Biases(Record):
    """Biases and their blocks of the covariance, in the axes of the IMU."""

    stamp_ns: int
    gyro_bias_S: Vector
    accel_bias_S: Vector
    gyro_covariance_S: Annotated[Array, 3, 3]
    accel_covariance_S: Annotated[Array, 3, 3]


BIASES = dtype_of(Biases)


#: Kinds, stamps in ns, places of the numbers, and the numbers of messages.
Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array]


class Found(NamedTuple):
    """What a block of messages gives.

    Attributes:
        counts: (3,) how many there are of the others.
        odometry: (N,) ODOMETRY after each IMU sample, the stamps rising.
        innovations: (N,) INNOVATION, those that late messages cannot change any more.
        biases: (N,) BIASES.
    """

    counts: NDArray[np.int64]
    odometry: NDArray[Any]
    innovations: NDArray[Any]
    biases: NDArray[Any]


class RunProgress(Record):
    """What is remembered between blocks."""

    odometry_ns: int  # of the newest output that was stored
    biases_ns: int  # when they are due
    innovations: int  # that have been read


PROGRESS = dtype_of(RunProgress)


@kernel
def take_biases(line: Buffer, progress: RunProgress, found: Found, stamp_ns: int) -> None:
    """Keep the biases of an error-state filter, if they are due at an estimate."""
    if stamp_ns < progress.biases_ns or line.motion.running == 1:
        return
    progress.biases_ns = stamp_ns + BIAS_STEP_NS
    state, row = line.state, found.biases[found.counts[2]]
    found.counts[2] += 1
    row.stamp_ns = stamp_ns
    for i in range(3):
        row.gyro_bias_S[i] = state.gyro_bias_S[i]
        row.accel_bias_S[i] = state.accel_bias_S[i]
        for k in range(3):
            row.gyro_covariance_S[i, k] = state.covariance[BG + i, BG + k]
            row.accel_covariance_S[i, k] = state.covariance[BA + i, BA + k]


@kernel
def take_innovations(line: Buffer, progress: RunProgress, found: Found) -> None:
    """Read the innovations that late messages cannot change; what the ring has lost is left out."""
    count = unchangeable = line.state.innovation_count
    if line.snapshot_count > 0:  # the filter goes back to none before its oldest copy
        unchangeable = line.snapshots[line.snapshot_first].innovation_count
    progress.innovations = max(progress.innovations, count - CAPACITY)
    while progress.innovations < count:
        row = line.innovations[progress.innovations % CAPACITY]
        is_late = row.stamp_ns < line.newest_imu_ns - HORIZON_NS
        if progress.innovations >= unchangeable and not is_late:
            return
        found.innovations[found.counts[1]] = row
        found.counts[1] += 1
        progress.innovations += 1


@template
def run_through(
    take: Callable[..., int],
    fill_odometry: Callable[..., bool],
    lines: Records[Buffer],
    columns: Columns,
    progresses: Records[RunProgress],
    found: Found,
) -> None:
    """Give messages to an estimator; with its kernels filled in, the kernels below.

    Args:
        take: the estimator's ``offer``.
        fill_odometry: its ``fill_odometry``.
        lines: (1,) its record.
        columns: kinds, stamps, places and numbers, as of
            :class:`~quadsim.estimation.messages.Messages`.
        progresses: (1,) PROGRESS.
        found: gets the output of every IMU stamp that rises, while there is one, and the rest.
    """
    kinds, stamps_ns, at, numbers = columns
    line, progress = lines[0], progresses[0]
    for i in range(kinds.size):
        kind, stamp_ns, a = kinds[i], stamps_ns[i], at[i]
        end = a + NUMBERS[kind]
        known = end - COVARIANCE[kind]
        sensor, last = kind, EXTERNAL_ATTITUDE if kind == EXTERNAL_POSITION else kind
        while sensor <= last:  # one call: each is a copy of the filter in machine code
            b = a + 3 if sensor != last else known
            verdict = take(lines, sensor, stamp_ns, numbers[a:b], numbers[known:end])
            if sensor != last and verdict != OK:
                break
            sensor, a = sensor + 1, b
        if kind == IMU or kind == IMU_1:
            n = found.counts[0]
            if fill_odometry(lines, found.odometry[n : n + 1]):
                now_ns = found.odometry[n].stamp_ns
                if now_ns > progress.odometry_ns:
                    progress.odometry_ns = now_ns
                    found.counts[0] = n + 1
                    take_biases(line, progress, found, now_ns)
        take_innovations(line, progress, found)


@kernel
def eskf_messages(
    lines: Records[Buffer], columns: Columns, progresses: Records[RunProgress], found: Found
) -> None:
    """The error-state filter over messages; see :func:`run_through`."""
    run_through(offer, line_odometry, lines, columns, progresses, found)


@kernel
def ekf7_messages(
    lines: Records[Buffer], columns: Columns, progresses: Records[RunProgress], found: Found
) -> None:
    """The EKF of seven states over messages; see :func:`run_through`."""
    run_through(ekf7_offer, direct_odometry, lines, columns, progresses, found)


@kernel
def gps_ins_messages(
    lines: Records[Buffer], columns: Columns, progresses: Records[RunProgress], found: Found
) -> None:
    """The linear GPS/INS filter over messages; see :func:`run_through`."""
    run_through(gps_ins_offer, direct_odometry, lines, columns, progresses, found)


#: The kernel of an estimator for many messages, by that for one.
_MESSAGES = {offer: eskf_messages, ekf7_offer: ekf7_messages, gps_ins_offer: gps_ins_messages}


class Running:
    """An estimator that is given messages in blocks.

    It gets to know what its methods would tell it, to the bit; its sensors' axes are not watched.

    Args:
        estimator: not one that needs the whole flight; nobody else gives it messages.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._progress: Any = np.zeros(1, PROGRESS)
        self._progress["odometry_ns"] = self._progress["biases_ns"] = NEVER_NS

    def take(self, messages: Messages) -> Found:
        """Give it messages; the arrays of what they give are views."""
        estimator = self._estimator
        messages = estimator.in_map(messages)
        count = len(messages)
        found = Found(
            np.zeros(3, np.int64),
            np.zeros(count + 1, ODOMETRY),  # one that is tried
            np.zeros(2 * (count + CAPACITY), INNOVATION),  # a pose and a field give two each
            np.zeros(count, BIASES),
        )
        columns = (messages.kind, messages.stamp_ns, messages.at, messages.numbers)
        _MESSAGES[estimator.offer](estimator.lines, columns, self._progress, found)
        stored = (
            rows[:number] for rows, number in zip(found[1:], found.counts.tolist(), strict=True)
        )
        return Found(found.counts, *stored)

    def newest(self) -> NDArray[Any]:
        """The newest innovations, which late messages can still change."""
        line = self._estimator.lines[0]
        first, last = int(self._progress["innovations"][0]), int(line.state.innovation_count)
        rows: NDArray[Any] = line.innovations[np.arange(first, last) % CAPACITY]
        return rows
