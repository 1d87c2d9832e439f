"""Estimators run over many messages at once: the same kernels in the same order, without Python.

A call from Python costs several times what a prediction does. Beside the output, everything is
written down that is seen of the estimator after each message: see
:mod:`~quadsim.estimation.innovation_log`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from quadsim.base.compiled import inlined_kernel, kernel
from quadsim.estimation.eskf.input_validation import offer, offer_imu
from quadsim.estimation.eskf.layout import EXTERNAL_ATTITUDE, EXTERNAL_POSITION, RANGE
from quadsim.estimation.eskf.measurement_buffer import IMU, OK, line_odometry
from quadsim.estimation.innovation_log import look, note_biases, note_waiting
from quadsim.estimation.messages import COVARIANCE, NUMBERS
from quadsim.estimation.reference_filters.ekf7 import ekf7_offer, ekf7_offer_imu
from quadsim.estimation.reference_filters.gps_ins import gps_ins_offer, gps_ins_offer_imu
from quadsim.estimation.reference_filters.update import direct_odometry


@inlined_kernel
def run_through(
    take_imu: Callable[..., int],
    take: Callable[..., int],
    fill_odometry: Callable[..., None],
    lines: Any,
    messages: Any,
    seen: Any,
    witnesses: Any,
    found: Any,
) -> None:
    """Give messages to an estimator; with its kernels filled in, the kernels below.

    Args:
        take_imu: the estimator's ``offer_imu``.
        take: its ``offer``.
        fill_odometry: its ``fill_odometry``.
        lines: (1,) its record.
        messages: kinds, stamps, places and numbers, as of
            :class:`~quadsim.estimation.messages.Messages`.
        seen: what is looked at in the record: :class:`~quadsim.estimation.innovation_log.Seen`.
        witnesses: (1,) WITNESS.
        found: gets the output of every IMU stamp that rises, while there is one, and what was
            seen: :class:`~quadsim.estimation.innovation_log.Found`.
    """
    kinds, stamps_ns, at, numbers = messages
    witness = witnesses[0]
    for i in range(kinds.size):
        kind, stamp_ns, a = kinds[i], stamps_ns[i], at[i]
        if kind == IMU:
            take_imu(
                lines, stamp_ns, numbers[a : a + 3], numbers[a + 3 : a + 6],
                numbers[a + 6 : a + 15], numbers[a + 15 : a + 24],
            )  # fmt: skip
            if seen.running[0] == 1:
                n = found.counts[0]
                fill_odometry(lines, found.odometry[n : n + 1])
                now_ns = found.odometry[n].stamp_ns
                if now_ns > witness.odometry_ns:
                    witness.odometry_ns = now_ns
                    found.counts[0] = n + 1
                    note_biases(witness, seen, found, now_ns)
        else:
            end = a + NUMBERS[kind]
            known = end - COVARIANCE[kind]
            sensor, last = kind, kind
            if kind == EXTERNAL_POSITION:
                last = EXTERNAL_ATTITUDE  # if the position is let in
            elif kind == RANGE and math.isinf(numbers[a]):
                last = kind - 1  # REP 117: nothing in range
            while sensor <= last:  # one call: each is a copy of the filter in machine code
                b = a + 3 if sensor != last else known
                if take(lines, sensor, stamp_ns, numbers[a:b], numbers[known:end]) != OK:
                    break
                sensor, a = sensor + 1, b
            note_waiting(witness, seen, kind, stamp_ns)
        if kind != IMU or witness.waiting > 0:
            look(witness, seen, found)


@kernel
def eskf_messages(lines: Any, messages: Any, seen: Any, witnesses: Any, found: Any) -> None:
    """The error-state filter over messages; see :func:`run_through`."""
    run_through(offer_imu, offer, line_odometry, lines, messages, seen, witnesses, found)


@kernel
def ekf7_messages(lines: Any, messages: Any, seen: Any, witnesses: Any, found: Any) -> None:
    """The EKF of seven states over messages; see :func:`run_through`."""
    run_through(
        ekf7_offer_imu, ekf7_offer, direct_odometry, lines, messages, seen, witnesses, found
    )


@kernel
def gps_ins_messages(lines: Any, messages: Any, seen: Any, witnesses: Any, found: Any) -> None:
    """The linear GPS/INS filter over messages; see :func:`run_through`."""
    run_through(
        gps_ins_offer_imu, gps_ins_offer, direct_odometry, lines, messages, seen, witnesses, found
    )
