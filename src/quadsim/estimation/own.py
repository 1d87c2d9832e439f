"""An own estimator: a plain class of a user's, with the methods that nodes and replay call."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, plain
from quadsim.base.parts import Part, PartError, fitted, given_words
from quadsim.base.records import ODOMETRY
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.messages import Measurement, Messages
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import to_matrix

#: Messages that an own estimator may have a method for; any other is that of an own sensor.
MESSAGES = (
    "imu", "gnss_position", "gnss_velocity", "magnetic_field", "pressure", "range",
    "external_pose", "external_odometry", "external_velocity", "gnss_heading",
    "zero_velocity",
)  # fmt: skip
#: Numbers of an odometry: p_W, v_W, q_WB, w_B; and with their deviations.
BARE, WITH_SIGMA = 13, 22
#: Largest difference of a quaternion's length from 1.
UNIT = 1e-3


def _message(kind: str) -> Callable[..., str]:
    """A method that takes the messages of a kind."""

    def take(self: OwnEstimator, stamp_ns: int, *values: Any) -> str:
        return self.take(kind, stamp_ns, values)

    take.__doc__ = f"Hand a message {kind} over; see :meth:`OwnEstimator.take`."
    return take


class OwnEstimator:
    """Runs an own estimator.

    The part has ``imu(stamp_ns, f_S, w_S)`` and ``odometry()``, and a method for each other message
    that it uses. A method takes as many of the values as it has arguments. Positions are in
    ``map``. ``odometry()`` gives None before there is an estimate, then p_W, v_W, q_WB, w_B and, if
    it states any, nine deviations.

    Args:
        part: which; its constructor may name ``params`` (:class:`EstimatorParams`).
        params: of the estimators, for mounts, the magnetic field and gravity.
        datum: origin of ``map``; without one there are no positions of GNSS.
        offered: what else its constructor may name.

    Attributes:
        counts: messages by kind.
        stamp_ns: newest stamp of the IMU.
        running: whether there is an estimate.
    """

    def __init__(
        self,
        part: Part,
        params: EstimatorParams,
        datum: Datum | None = None,
        offered: Mapping[str, object] | None = None,
    ) -> None:
        self.part, self.params, self.datum = part, params, datum
        self._offered = offered or {}
        self._odometries: NDArray[Any] = np.zeros(1, ODOMETRY)
        # after its stamp the record is p_W, v_W, q_WB, w_B and their variances
        self._stamps = self._odometries["stamp_ns"]
        self._numbers = self._odometries.view(np.float64)[1:]
        self.reset()

    def reset(self) -> None:
        """Make the part anew."""
        self._made = self.part.make(params=self.params, **self._offered)
        self._methods: dict[str, Callable[..., Any]] = {}
        self.counts: dict[str, int] = {}
        self.stamp_ns, self.running = 0, False
        self._samples: deque[tuple[int, str, Array]] = deque()

    def _method(self, kind: str) -> Callable[..., Any] | None:
        """Its method for a kind of message, if it has one."""
        if kind not in self._methods:
            method = getattr(self._made, kind, None)
            if method is None:
                return None
            self._methods[kind] = fitted(method)
        return self._methods[kind]

    def take(self, kind: str, stamp_ns: int, values: Sequence[Any]) -> str:
        """Hand a message over, if the part uses its kind.

        Args:
            kind: of :data:`MESSAGES`, or the name of an own sensor.
            stamp_ns: of the message.
            values: as the method of :class:`~quadsim.estimation.interface.Estimator` takes them;
                GNSS positions in ``map``.

        Returns:
            ``ok``, the verdict.

        Raises:
            PartError: the part raised.
        """
        if kind in ("range", "range_1") and math.isinf(values[0]):  # nothing is in range (REP 117)
            return "ok"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        method = self._method(kind)
        if kind == "imu":
            self.stamp_ns = stamp_ns
        if method is not None:
            try:
                method(stamp_ns, *values)
            except Exception as error:
                raise self.part.failed(error, stamp_ns * 1e-9) from error
        return "ok"

    def imu(self, stamp_ns: int, *values: Any) -> str:
        """Hand a sample of the IMU over, and read the estimate."""
        self.take("imu", stamp_ns, values)
        self.read()
        return "ok"

    def take_all(self, messages: Messages) -> NDArray[Any]:
        """Hand messages over; (N,) ODOMETRY after each sample of the IMU, the stamps rising."""
        rows, last_ns = [], self.stamp_ns
        for message in messages:
            while self._samples and message.kind == "imu":
                stamp_ns, name, values = self._samples[0]
                if stamp_ns > message.stamp_ns:
                    break
                self._samples.popleft()
                self.take(name, stamp_ns, (values,))
            self.take_measurement(message)
            if message.kind == "imu" and self.running and self.stamp_ns > last_ns:
                last_ns = self.stamp_ns
                rows.append(self._odometries.copy())
        return np.concatenate(rows) if rows else np.zeros(0, ODOMETRY)

    def expect(self, samples: Iterable[tuple[int, str, Array]]) -> None:
        """Take what own sensors gave, stamp, name and values, in its time in :meth:`take_all`."""
        self._samples.extend(sorted(samples, key=lambda sample: sample[0]))

    def take_measurement(self, message: Measurement) -> None:
        """Hand a message of a bag over, whose GNSS positions are geodetic."""
        if message.kind in ("imu", "gnss_position", "range", "gnss_position_1", "range_1"):
            getattr(self, message.kind)(message.stamp_ns, *message.values)
        else:
            self.take(message.kind, message.stamp_ns, message.values)

    def gnss_position(
        self, stamp_ns: int, geodetic: Sequence[float], *more: Any, kind: str = "gnss_position"
    ) -> str:
        """Hand a fix over: latitude and longitude in degrees, height in m."""
        if self.datum is None or not np.isfinite(geodetic).all():
            return "no_datum" if self.datum is None else "not_finite"
        latitude_deg, longitude_deg, height_m = map(float, geodetic)
        p_W = self.datum.to_enu(latitude_deg, longitude_deg, height_m)
        return self.take(kind, stamp_ns, (p_W, *more))

    def gnss_position_1(self, stamp_ns: int, geodetic: Sequence[float], *more: Any) -> str:
        """Hand a fix of the second receiver over."""
        return self.gnss_position(stamp_ns, geodetic, *more, kind="gnss_position_1")

    def range(self, stamp_ns: int, range_m: float, *more: Any, kind: str = "range") -> str:
        """Hand a downward range over; an infinite one means that nothing is in range (REP 117)."""
        return "ok" if math.isinf(range_m) else self.take(kind, stamp_ns, (range_m, *more))

    def range_1(self, stamp_ns: int, range_m: float, *more: Any) -> str:
        """Hand a range of the second range finder over."""
        return self.range(stamp_ns, range_m, *more, kind="range_1")

    imu_1 = _message("imu_1")
    gnss_velocity_1 = _message("gnss_velocity_1")
    gnss_velocity = _message("gnss_velocity")
    magnetic_field = _message("magnetic_field")
    pressure = _message("pressure")
    external_pose = _message("external_pose")
    external_odometry = _message("external_odometry")
    external_velocity = _message("external_velocity")
    gnss_heading = _message("gnss_heading")
    zero_velocity = _message("zero_velocity")

    def set_params(self, params: EstimatorParams) -> None:
        """Other parameters, which hold from the next start on."""
        self.params = params

    def read(self) -> None:
        """Ask for the estimate, and check it.

        Raises:
            PartError: the part raised, or gave something else than an odometry.
        """
        try:
            found = self._made.odometry()
            if found is None:
                self.running = False
                return
            numbers = np.concatenate(found, axis=None, dtype=float)
        except Exception as error:
            raise self.part.failed(error, self.stamp_ns * 1e-9) from error
        length = math.sqrt(sum(number * number for number in numbers[6:10].tolist()))
        if numbers.size not in (BARE, WITH_SIGMA) or not abs(length - 1.0) < UNIT:
            raise PartError(
                f"{self.part}: odometry() gave {given_words(found)} at"
                f" {self.stamp_ns * 1e-9:.3f} s; needed:"
                " p_W, v_W, the unit quaternion q_WB (w first), w_B, and nine deviations or none"
            )
        if not math.isfinite(float(numbers.sum())):
            raise PartError(
                f"{self.part}: odometry() gave numbers that are not finite at"
                f" {self.stamp_ns * 1e-9:.3f} s"
            )
        numbers[6:10] /= length
        numbers[BARE:] *= numbers[BARE:]  # variances
        self._stamps[0], self.running = self.stamp_ns, True
        self._numbers[: numbers.size] = numbers

    @property
    def odometries(self) -> NDArray[Any]:
        """(1,) ODOMETRY, as it is now."""
        return self._odometries

    def odometry(self) -> Any:
        """ODOMETRY record of ``base_link``, as it is now."""
        return self._odometries[0]

    def pose_covariance(self) -> Array:
        """(6, 6) in ``map``: position, then rotation about its fixed axes; zero: unknown."""
        row = self._odometries[0]
        return np.diag(np.concatenate([row["p_variance"], row["attitude_variance"]]))

    def twist_covariance(self) -> Array:
        """(6, 6) in ``base_link``: linear velocity, then zeros, as nothing states the angular."""
        row, covariance = self._odometries[0], np.zeros((6, 6))
        R_WB = np.array(plain(to_matrix)(tuple(row["q_WB"].tolist())))
        covariance[:3, :3] = R_WB.T @ np.diag(row["v_variance"]) @ R_WB
        return covariance
