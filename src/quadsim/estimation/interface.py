"""What every estimator has in common: its messages, and what is asked of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import Array
from quadsim.base.parameters import pack
from quadsim.base.records import ODOMETRY
from quadsim.estimation.eskf.alignment import mount
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ATTITUDE,
    EXTERNAL_POSITION,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    RANGE,
    STATIC_PRESSURE,
    ZERO_VELOCITY,
)
from quadsim.estimation.eskf.measurement_buffer import KINDS, VERDICTS, new_timeline
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.messages import Messages
from quadsim.geometry.geodesy import Datum

_FLOAT = np.dtype(np.float64)
UNKNOWN = np.zeros(9)
UNKNOWN_POSE = np.zeros(36)
#: Of each kind, how many numbers a message has, and how many its covariance may have.
SIZES = {
    GNSS_POSITION: (3, 9),
    GNSS_VELOCITY: (3, 9, 36),
    MAGNETIC_FIELD: (3, 9),
    STATIC_PRESSURE: (1, 1),
    RANGE: (1, 1),
    EXTERNAL_POSITION: (3, 36),
    EXTERNAL_ATTITUDE: (4, 36),
    ZERO_VELOCITY: (1, 1),
}
#: Sensors that are no message's.
DERIVED = ("gravity", "drag", "inclination")
#: Verdict on a fix while there is no datum.
NO_DATUM = "no_datum"


def flat(values: ArrayLike, *sizes: int) -> NDArray[np.float64]:
    """One row that is aligned and writable, for kernels compile anew for others.

    It is the array's own memory where that is such a row (which no kernel writes to), else a copy.
    """
    if type(values) is np.ndarray and values.dtype is _FLOAT and values.flags.carray:
        result = values if values.ndim == 1 else values.reshape(-1)
    else:
        result = np.array(values, dtype=np.float64).reshape(-1)
    if result.size not in sizes:  # a kernel would read past the end
        raise ValueError(f"{result.size} numbers where {' or '.join(map(str, sizes))} are due")
    return result


def _in_map(datum: Datum, latitude_deg: float, longitude_deg: float, height_m: float) -> Array:
    """A fix as (3,) position; NaN, which is refused and counted, if it is none."""
    if math.isfinite(longitude_deg + height_m) and abs(latitude_deg) <= 90.0:
        return datum.to_enu(latitude_deg, longitude_deg, height_m)
    return np.full(3, math.nan)


class Estimator(ABC):
    """An estimator over the messages of one vehicle, in any order of arrival.

    Every method that takes a message returns its verdict: ``ok``, or why it is
    refused (see ``eskf.measurement_buffer.VERDICTS``); nothing raises on bad data, but on
    an array of the wrong size. A message that an estimator has no use for is ``ok``, and counted.

    Args:
        params: of the estimators.
        datum: origin of ``map``; fixes are refused until there is one.
    """

    #: Kernels that take a message: see ``estimation.eskf.input_validation.offer_imu``, ``offer``.
    offer_imu: ClassVar[Callable[..., int]]
    offer: ClassVar[Callable[..., int]]
    #: Kernels that give the output, from the (1,) record.
    fill_odometry: ClassVar[Callable[..., bool]]
    covariance_of_pose: ClassVar[Callable[..., NDArray[np.float64]]]
    covariance_of_twist: ClassVar[Callable[..., NDArray[np.float64]]]

    #: Whether measurements are left out once the estimator runs.
    blind: ClassVar[bool] = False

    def __init__(self, params: EstimatorParams, datum: Datum | None) -> None:
        self.params = self._own(params)
        self.datum = datum
        self._without_datum = 0
        self._lines = self._new_lines()
        self._running = self.state_of(self._lines)["running"]  # views: reading a record is slow
        self._odometry = np.zeros(1, ODOMETRY)

    def _new_lines(self) -> NDArray[np.record]:
        """The (1,) TIMELINE of an estimator that has seen nothing yet."""
        return new_timeline(self.params, self.blind)

    def _own(self, params: EstimatorParams) -> EstimatorParams:
        """Parameters that this estimator takes of those given."""
        return params

    @staticmethod
    @abstractmethod
    def state_of(lines: NDArray[np.record]) -> NDArray[np.record]:
        """The part of the record that holds ``running``, ``starts`` and ``q_WS``, a view (1,)."""

    @abstractmethod
    def health(self) -> dict[str, float | str]:
        """What a diagnostic shows; ``status`` and ``reason`` first, the counts last."""

    def reset(self) -> None:
        """Forget all, and start anew with the next IMU sample."""
        self._lines[:] = self._new_lines()
        self._without_datum = 0

    def imu(
        self,
        stamp_ns: int,
        f_S: ArrayLike,
        w_S: ArrayLike,
        f_covariance: ArrayLike = UNKNOWN,
        w_covariance: ArrayLike = UNKNOWN,
    ) -> str:
        """Predict with an IMU sample.

        Args:
            stamp_ns: end of its interval.
            f_S: (3,) specific force, m/s^2.
            w_S: (3,) angular velocity, rad/s.
            f_covariance: (9,) row-major; all zero: unknown.
            w_covariance: (9,).
        """
        verdict = self.offer_imu(
            self._lines,
            stamp_ns,
            flat(f_S, 3),
            flat(w_S, 3),
            flat(f_covariance, 9),
            flat(w_covariance, 9),
        )
        return self._after_imu(VERDICTS[verdict], stamp_ns, f_S, w_S)

    def _after_imu(self, verdict: str, stamp_ns: int, f_S: ArrayLike, w_S: ArrayLike) -> str:
        """What else an estimator does with an IMU sample; returns the verdict."""
        return verdict

    def in_map(self, messages: Messages) -> Messages:
        """Messages with GNSS positions in ``map``; where there is no datum, they are refused."""
        if self.datum is None:
            others = messages.kind != GNSS_POSITION
            self._without_datum += len(messages) - int(others.sum())
            return messages[others]
        numbers, fixes = messages.numbers.copy(), messages.numbers_of(GNSS_POSITION, 0, 3)
        for row in fixes:
            numbers[row] = _in_map(self.datum, *numbers[row].tolist())
        return Messages(messages.kind, messages.stamp_ns, messages.at, numbers)

    def _take(self, kind: int, stamp_ns: int, values: ArrayLike, covariance: ArrayLike) -> str:
        """Take a measurement of a kind of the layout."""
        sizes = SIZES[kind]
        verdict = self.offer(
            self._lines, kind, stamp_ns, flat(values, sizes[0]), flat(covariance, *sizes[1:])
        )
        return VERDICTS[verdict]

    def gnss_position(
        self, stamp_ns: int, geodetic: ArrayLike, covariance: ArrayLike = UNKNOWN
    ) -> str:
        """Fuse a fix.

        Args:
            stamp_ns: when it was taken.
            geodetic: (3,) latitude and longitude in degrees, height above the ellipsoid in m.
            covariance: (9,) m^2, ENU, row-major; all zero: unknown.
        """
        if self.datum is None:
            self._without_datum += 1
            return NO_DATUM
        p_W = _in_map(self.datum, *flat(geodetic, 3).tolist())
        return self._take(GNSS_POSITION, stamp_ns, p_W, covariance)

    def gnss_velocity(self, stamp_ns: int, v_W: ArrayLike, covariance: ArrayLike = UNKNOWN) -> str:
        """Fuse a GNSS velocity.

        Args:
            stamp_ns: when it was taken.
            v_W: (3,) m/s, ENU.
            covariance: (9,), or (36,) of a twist; all zero: unknown.
        """
        return self._take(GNSS_VELOCITY, stamp_ns, v_W, covariance)

    def magnetic_field(self, stamp_ns: int, m_S: ArrayLike, covariance: ArrayLike = UNKNOWN) -> str:
        """Fuse the magnetic field (3,) in T, covariance (9,) in T^2."""
        return self._take(MAGNETIC_FIELD, stamp_ns, m_S, covariance)

    def pressure(self, stamp_ns: int, pressure_pa: float, variance_pa2: float = 0.0) -> str:
        """Fuse static pressure as height."""
        return self._take(STATIC_PRESSURE, stamp_ns, pressure_pa, variance_pa2)

    def range(self, stamp_ns: int, range_m: float, variance_m2: float = 0.0) -> str:
        """Fuse a downward range; +inf and -inf say "nothing in range" (REP 117) and do nothing."""
        return self._take(RANGE, stamp_ns, range_m, variance_m2)

    def external_pose(
        self, stamp_ns: int, p_W: ArrayLike, q_WB: ArrayLike, covariance: ArrayLike = UNKNOWN_POSE
    ) -> str:
        """Fuse a pose of ``base_link`` in ``map``, such as a motion capture system's.

        It starts the estimator by itself, without GNSS and magnetic field.

        Args:
            stamp_ns: when it was taken.
            p_W: (3,) m.
            q_WB: (4,) quaternion, w first.
            covariance: (36,) row-major: position, then rotation about the fixed axes of ``map``;
                all zero: unknown.
        """
        verdict = self._take(EXTERNAL_POSITION, stamp_ns, p_W, covariance)
        return verdict if verdict != "ok" else self.external_attitude(stamp_ns, q_WB, covariance)

    def external_attitude(
        self, stamp_ns: int, q_WB: ArrayLike, covariance: ArrayLike = UNKNOWN_POSE
    ) -> str:
        """Fuse an attitude alone, of an AHRS; arguments as of :meth:`external_pose`."""
        return self._take(EXTERNAL_ATTITUDE, stamp_ns, q_WB, covariance)

    def zero_velocity(self, stamp_ns: int) -> str:
        """Fuse that the vehicle stands on the ground, by whoever knows."""
        return self._take(ZERO_VELOCITY, stamp_ns, 0.0, 0.0)

    def set_params(self, params: EstimatorParams) -> None:
        """Go on with other parameters."""
        before = self.params.mount
        self.params = self._own(params)
        self._lines[0]["params"] = pack(self.params)
        if self.params.mount != before:  # a lever arm that is a state stays as it was learned
            mount(self._lines[0].state, self._lines[0].params)

    @property
    def lines(self) -> NDArray[np.record]:
        """The (1,) record of the estimator and its messages, as it is now."""
        return self._lines

    @property
    def state(self) -> Any:
        """The estimator's record, as it is now."""
        return self.state_of(self._lines)[0]

    @property
    def running(self) -> bool:
        """Whether there is an estimate."""
        return bool(self._running[0])

    @property
    def counts(self) -> dict[str, int]:
        """Messages received, and refused by reason, for each kind; IMU gaps."""
        line = self._lines[0]
        result: dict[str, int] = {}
        for kind, name in enumerate(KINDS):
            if name in DERIVED:
                continue
            result[f"{name}_received"] = int(line.received[kind])
            for verdict in range(1, len(VERDICTS)):
                number = int(line.verdicts[kind, verdict])
                if number:
                    result[f"{name}_{VERDICTS[verdict]}"] = number
        if self._without_datum:
            result[f"gnss_position_{NO_DATUM}"] = self._without_datum
        return result

    def odometry(self) -> Any:
        """ODOMETRY record of ``base_link``; the next call writes it anew (``copy()`` to keep)."""
        self.fill_odometry(self._lines, self._odometry)
        return self._odometry[0]

    def pose_covariance(self) -> NDArray[np.float64]:
        """(6, 6) in ``map``: position, then rotation about its fixed axes."""
        return self.covariance_of_pose(self._lines)

    def twist_covariance(self) -> NDArray[np.float64]:
        """(6, 6) in ``base_link``: linear, then angular velocity."""
        return self.covariance_of_twist(self._lines)
