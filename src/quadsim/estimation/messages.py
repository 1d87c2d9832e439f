"""Messages of several sensors in the order in which they come, as arrays for kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.eskf.layout import (
    EXTERNAL_ODOMETRY,
    EXTERNAL_POSITION,
    EXTERNAL_VELOCITY,
    GNSS_HEADING,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    OPTICAL_FLOW,
    RANGE,
    STATIC_PRESSURE,
)
from quadsim.estimation.eskf.measurement_buffer import (
    GNSS_POSITION_1,
    GNSS_VELOCITY_1,
    IMU,
    IMU_1,
    KINDS,
    RANGE_1,
)

#: Kind of a message to the estimator's method that takes it; a pose is an external position.
METHODS = {
    IMU: "imu",
    IMU_1: "imu_1",
    GNSS_POSITION: "gnss_position",
    GNSS_VELOCITY: "gnss_velocity",
    MAGNETIC_FIELD: "magnetic_field",
    STATIC_PRESSURE: "pressure",
    RANGE: "range",
    OPTICAL_FLOW: "optical_flow",
    EXTERNAL_POSITION: "external_pose",
    EXTERNAL_ODOMETRY: "external_odometry",
    EXTERNAL_VELOCITY: "external_velocity",
    GNSS_HEADING: "gnss_heading",
    GNSS_POSITION_1: "gnss_position_1",
    GNSS_VELOCITY_1: "gnss_velocity_1",
    RANGE_1: "range_1",
}
#: How many numbers the method's arguments are, one behind the other; a velocity's covariance is a
#: twist's.
_ARGUMENTS = {
    IMU: (3, 3, 9, 9),
    IMU_1: (3, 3, 9, 9),
    GNSS_POSITION: (3, 9),
    GNSS_VELOCITY: (3, 36),
    MAGNETIC_FIELD: (3, 9),
    STATIC_PRESSURE: (1, 1),
    RANGE: (1, 1),
    OPTICAL_FLOW: (3, 1),
    EXTERNAL_POSITION: (3, 4, 36),
    EXTERNAL_ODOMETRY: (7, 36),
    EXTERNAL_VELOCITY: (3, 36),
    GNSS_HEADING: (1, 1),
    GNSS_POSITION_1: (3, 9),
    GNSS_VELOCITY_1: (3, 36),
    RANGE_1: (1, 1),
}
#: Of each kind, how many numbers a message has, and how many of them are its covariance.
NUMBERS = np.array([sum(_ARGUMENTS.get(kind, ())) for kind in range(len(KINDS))])
COVARIANCE = np.array([_ARGUMENTS.get(kind, (0,))[-1] for kind in range(len(KINDS))])
COVARIANCE[IMU] = COVARIANCE[IMU_1] = 18
_SHAPES: dict[int, tuple[int, ...]] = {1: (), 9: (3, 3), 36: (6, 6)}


class Measurement(NamedTuple):
    """One call: the estimator's method ``kind``, with the stamp and then the values."""

    kind: str
    stamp_ns: int
    values: tuple[Any, ...]


class Column(NamedTuple):
    """Messages of one kind among others.

    Attributes:
        kind: of :data:`METHODS`.
        place: (N,) of each among all.
        stamp_ns: (N,).
        numbers: (N, K) the method's arguments, one behind the other.
    """

    kind: int
    place: NDArray[np.intp]
    stamp_ns: NDArray[np.int64]
    numbers: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages in the order in which they come.

    Attributes:
        kind: (N,) of :data:`METHODS`.
        stamp_ns: (N,).
        at: (N,) where the numbers of each begin.
        numbers: (M,) of all messages.
    """

    kind: NDArray[np.int64]
    stamp_ns: NDArray[np.int64]
    at: NDArray[np.int64]
    numbers: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.kind)

    def __iter__(self) -> Iterator[Measurement]:
        rows = zip(self.kind.tolist(), self.stamp_ns.tolist(), self.at.tolist(), strict=True)
        for kind, stamp_ns, at in rows:
            values = []
            for width in _ARGUMENTS[kind]:
                part = self.numbers[at : at + width]
                values.append(part.reshape(_SHAPES.get(width, (width,))) if width > 1 else part[0])
                at += width
            yield Measurement(METHODS[kind], stamp_ns, tuple(values))

    def __getitem__(self, rows: NDArray[np.bool_]) -> Messages:
        """Some of the messages."""
        return Messages(self.kind[rows], self.stamp_ns[rows], self.at[rows], self.numbers)

    def numbers_of(self, kind: int, first: int = 0, count: int = 1) -> NDArray[np.intp]:
        """(N, count) places among the numbers of some of those of each message of a kind."""
        begin = self.at[self.kind == kind] + first
        return np.asarray(begin[:, None] + np.arange(count))

    @staticmethod
    def of(columns: Sequence[Column]) -> Messages:
        """Messages of several kinds, each in its place."""
        kinds, begins, end = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for column in columns:
            count, width = column.numbers.shape
            kinds.append(np.full(count, column.kind))
            begins.append(end + width * np.arange(count))
            end += count * width
        order = np.argsort(np.concatenate([[], *(column.place for column in columns)]))
        stamps = [np.zeros(0, np.int64), *(column.stamp_ns for column in columns)]
        return Messages(
            np.concatenate(kinds)[order],
            np.concatenate(stamps)[order],
            np.concatenate(begins)[order],
            np.concatenate([np.zeros(0), *(column.numbers.ravel() for column in columns)]),
        )
