"""What an estimator believes besides the motion, seen after each message: innovations and biases.

The innovations are the filter's own: its kernels leave the last one of each sensor in the record.

A measurement that is stamped after the newest IMU sample waits for it in the filter, and here; one
that the filter's border refuses does not. One that comes late takes the filter back, which then
runs again what followed: of each sensor the newest is judged anew, those before stay as they were
judged first. Of one that comes after a later one of its own sensor nothing is kept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.estimation.eskf.layout import (
    BA,
    BG,
    EXTERNAL_ATTITUDE,
    EXTERNAL_POSITION,
    INCLINATION,
    MAGNETIC_FIELD,
    SENSORS,
)
from quadsim.estimation.eskf.measurement_buffer import CAPACITY, NEVER_NS, OK

#: Biases change slowly: they are kept so often.
BIAS_STEP_NS = 100_000_000

#: What one measurement said; of one number only the first are meant.
INNOVATION = record_dtype(
    [
        ("sensor", np.int64),
        ("stamp_ns", np.int64),
        ("accepted", np.int64),
        ("nis", np.float64),  # NaN: refused, and the filter has begun again since
        ("value", np.float64, (3,)),
        ("variance", np.float64, (3,)),
    ]
)
#: Biases and their blocks of the covariance, in the axes of the IMU.
BIASES = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("gyro_bias_S", np.float64, (3,)),
        ("accel_bias_S", np.float64, (3,)),
        ("gyro_covariance_S", np.float64, (3, 3)),
        ("accel_covariance_S", np.float64, (3, 3)),
    ]
)
#: What is remembered between messages.
WITNESS = record_dtype(
    [
        ("odometry_ns", np.int64),  # of the newest output that was kept
        ("biases_ns", np.int64),  # when they are due
        ("seen", np.int64, (len(SENSORS),)),  # measurements, and the refused among them
        ("refused", np.int64, (len(SENSORS),)),
        ("known", np.int64, (len(SENSORS),)),  # whether there is a newest
        ("newest", INNOVATION, (len(SENSORS),)),
        ("nis", np.float64, (len(SENSORS),)),  # as it was last
        ("admitted", np.int64, (len(SENSORS),)),  # by the border
        ("waiting", np.int64),
        ("waiting_kind", np.int64, (CAPACITY,)),
        ("waiting_ns", np.int64, (CAPACITY,)),
    ]
)


class Seen(NamedTuple):
    """What is looked at, as arrays that show an estimator's record.

    Attributes:
        running: (1,) whether there is an estimate.
        stamp_ns: (1,) of the estimate.
        verdicts: (kinds, verdicts) of the border.
        accepted: (sensors,) counts.
        rejected: (sensors,).
        nis: (sensors,) of the last measurement of each.
        innovation: (sensors, 3).
        variance: (sensors, 3) of it.
        gyro_bias_S: (3,); (0,) where there is none, and so the next.
        accel_bias_S: (3,).
        covariance: (n, n), of the layout where there are biases.
    """

    running: NDArray[np.int64]
    stamp_ns: NDArray[np.int64]
    verdicts: NDArray[np.int64]
    accepted: NDArray[np.int64]
    rejected: NDArray[np.int64]
    nis: NDArray[np.float64]
    innovation: NDArray[np.float64]
    variance: NDArray[np.float64]
    gyro_bias_S: NDArray[np.float64]
    accel_bias_S: NDArray[np.float64]
    covariance: NDArray[np.float64]


class Found(NamedTuple):
    """Where a kernel writes what it finds, and (3,) how much of each there is.

    Attributes:
        counts: of the three.
        odometry: (N,) ODOMETRY.
        innovations: (N,) INNOVATION, those that will not change any more.
        biases: (N,) BIASES.
    """

    counts: NDArray[np.int64]
    odometry: NDArray[Any]
    innovations: NDArray[Any]
    biases: NDArray[Any]


def new_witness() -> NDArray[np.record]:
    """A (1,) WITNESS that has seen nothing yet."""
    witnesses: NDArray[np.record] = np.zeros(1, WITNESS)
    witnesses["odometry_ns"] = witnesses["biases_ns"] = NEVER_NS
    witnesses["newest"]["stamp_ns"] = NEVER_NS
    return witnesses


@kernel
def note_waiting(witness: Any, seen: Any, kind: int, stamp_ns: int) -> None:
    """A message of a kind was given to the estimator: wait for what becomes of it, if it is let in.

    Args:
        witness: WITNESS record.
        seen: see :class:`Seen`.
        kind: its sensor, of a pose that of the position.
        stamp_ns: of the message.
    """
    admitted = seen.verdicts[kind, OK]
    if admitted == witness.admitted[kind]:
        return
    witness.admitted[kind] = admitted
    n = witness.waiting
    if n == CAPACITY:  # what the filter cannot hold is not to come
        for i in range(1, n):
            witness.waiting_kind[i - 1] = witness.waiting_kind[i]
            witness.waiting_ns[i - 1] = witness.waiting_ns[i]
        n -= 1
    witness.waiting_kind[n] = kind
    witness.waiting_ns[n] = stamp_ns
    witness.waiting = n + 1


@kernel
def look(witness: Any, seen: Any, found: Any) -> None:
    """See what became of the messages that wait."""
    now_ns = seen.stamp_ns[0]
    left = 0
    for i in range(witness.waiting):
        kind, stamp_ns = witness.waiting_kind[i], witness.waiting_ns[i]
        note(witness, seen, found, kind, stamp_ns)
        if kind == MAGNETIC_FIELD:
            note(witness, seen, found, INCLINATION, stamp_ns)
        elif kind == EXTERNAL_POSITION:
            note(witness, seen, found, EXTERNAL_ATTITUDE, stamp_ns)
        if stamp_ns > now_ns:
            witness.waiting_kind[left] = kind
            witness.waiting_ns[left] = stamp_ns
            left += 1
    witness.waiting = left
    for sensor in range(seen.nis.size):
        if seen.nis[sensor] != witness.nis[sensor]:
            judge_again(witness, seen, sensor)
            witness.nis[sensor] = seen.nis[sensor]


@kernel
def note(witness: Any, seen: Any, found: Any, sensor: int, stamp_ns: int) -> None:
    """Write down what is new of a sensor."""
    refused = seen.rejected[sensor]
    count = seen.accepted[sensor] + refused
    if count == witness.seen[sensor]:
        return
    newest = witness.newest[sensor]
    if count > witness.seen[sensor] and stamp_ns > newest.stamp_ns:
        if witness.known[sensor] == 1:
            found.innovations[found.counts[1]] = newest
            found.counts[1] += 1
        witness.known[sensor] = 1
        newest.sensor = sensor
        newest.stamp_ns = stamp_ns
        write(newest, seen, sensor, refused == witness.refused[sensor])
        witness.nis[sensor] = seen.nis[sensor]
    witness.seen[sensor] = count
    witness.refused[sensor] = refused


@kernel
def judge_again(witness: Any, seen: Any, sensor: int) -> None:
    """The filter has gone back and run its newest measurement of a sensor again."""
    refused = seen.rejected[sensor]
    if seen.accepted[sensor] + refused != witness.seen[sensor] or witness.known[sensor] == 0:
        return
    newest = witness.newest[sensor]
    accepted = (newest.accepted == 1) == (refused == witness.refused[sensor])
    write(newest, seen, sensor, accepted)
    witness.refused[sensor] = refused


@kernel
def write(newest: Any, seen: Any, sensor: int, accepted: bool) -> None:
    """Write down the last innovation that the filter has made of a sensor."""
    nis = seen.nis[sensor]  # zero of a refusal: the filter has begun again since
    newest.accepted = 1 if accepted else 0
    newest.nis = nis if accepted or nis > 0.0 else math.nan
    for i in range(3):
        newest.value[i] = seen.innovation[sensor, i]
        newest.variance[i] = seen.variance[sensor, i]


@kernel
def note_biases(witness: Any, seen: Any, found: Any, stamp_ns: int) -> None:
    """Write the biases down, if they are due at an estimate."""
    if stamp_ns < witness.biases_ns:
        return
    witness.biases_ns = stamp_ns + BIAS_STEP_NS
    if seen.gyro_bias_S.size == 0:
        return
    row = found.biases[found.counts[2]]
    found.counts[2] += 1
    row.stamp_ns = stamp_ns
    for i in range(3):
        row.gyro_bias_S[i] = seen.gyro_bias_S[i]
        row.accel_bias_S[i] = seen.accel_bias_S[i]
        for k in range(3):
            row.gyro_covariance_S[i, k] = seen.covariance[BG + i, BG + k]
            row.accel_covariance_S[i, k] = seen.covariance[BA + i, BA + k]
