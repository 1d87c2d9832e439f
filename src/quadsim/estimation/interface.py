"""What every estimator has in common: its messages, and what is asked of it.

The error-state Kalman filter for nodes and replay: plain numpy in and out.

Inertial navigation alone (``odometry/blind``): what the IMU knows since the start.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import Array
from quadsim.base.parameters import pack
from quadsim.base.records import ODOMETRY
from quadsim.estimation.eskf.alignment import mount
from quadsim.estimation.eskf.heading import tells_heading
from quadsim.estimation.eskf.input_validation import offer
from quadsim.estimation.eskf.layout import (
    ANTENNA,
    BA,
    BG,
    EXTERNAL_ATTITUDE,
    EXTERNAL_ODOMETRY,
    EXTERNAL_POSITION,
    EXTERNAL_VELOCITY,
    FIELD_BIAS,
    FLOW_SCALE,
    GNSS_HEADING,
    GNSS_POSITION,
    GNSS_TIME,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    OPTICAL_FLOW,
    RANGE,
    REASONS,
    SENSORS,
    STATIC_PRESSURE,
    TERRAIN,
    THETA,
    VECTORS,
    WIND,
    ZERO_VELOCITY,
    P,
    V,
)
from quadsim.estimation.eskf.measurement_buffer import (
    GNSS_POSITION_1,
    GNSS_VELOCITY_1,
    IMU,
    IMU_1,
    KINDS,
    RANGE_1,
    VERDICTS,
    clear_timeline,
    new_timeline,
)
from quadsim.estimation.eskf.outputs import line_odometry, pose_covariance, twist_covariance
from quadsim.estimation.eskf.pairs import first_kind, tell_pairs
from quadsim.estimation.eskf.parameters import RECOVERY_S, EstimatorParams, SecondParams
from quadsim.estimation.eskf.repetition import SOURCES
from quadsim.estimation.eskf.update import GNSS_TIME_REACH_S
from quadsim.estimation.messages import Messages
from quadsim.estimation.mounting_check.check import AxesMonitor
from quadsim.estimation.voting_words import COMMON, common_fault, left_out, pairs_left_out
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
    OPTICAL_FLOW: (3, 1),
    EXTERNAL_ODOMETRY: (7, 36),
    EXTERNAL_VELOCITY: (3, 9, 36),
    GNSS_HEADING: (1, 1),
}
#: Sensors that are no message's.
DERIVED = ("gravity", "drag", "inclination", "odometry_yaw")
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

    #: Kernel that takes a message: see ``estimation.eskf.input_validation.offer``.
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
        verdict = self._take_imu(IMU, stamp_ns, f_S, w_S, f_covariance, w_covariance)
        return self._after_imu(verdict, stamp_ns, f_S, w_S)

    def imu_1(self, stamp_ns: int, *sample: ArrayLike) -> str:
        """Take a sample of the second of two IMUs; arguments as of :meth:`imu`."""
        return self._take_imu(IMU_1, stamp_ns, *sample)

    def _take_imu(
        self,
        kind: int,
        stamp_ns: int,
        f_S: ArrayLike,
        w_S: ArrayLike,
        f_covariance: ArrayLike = UNKNOWN,
        w_covariance: ArrayLike = UNKNOWN,
    ) -> str:
        values = np.concatenate((flat(f_S, 3), flat(w_S, 3)))
        covariance = np.concatenate((flat(f_covariance, 9), flat(w_covariance, 9)))
        return VERDICTS[self.offer(self._lines, kind, stamp_ns, values, covariance)]

    def _after_imu(self, verdict: str, stamp_ns: int, f_S: ArrayLike, w_S: ArrayLike) -> str:
        """What else an estimator does with an IMU sample; returns the verdict."""
        return verdict

    def in_map(self, messages: Messages) -> Messages:
        """Messages with GNSS positions in ``map``; where there is no datum, they are refused."""
        if self.datum is None:
            others = ~np.isin(messages.kind, (GNSS_POSITION, GNSS_POSITION_1))
            self._without_datum += len(messages) - int(others.sum())
            return messages[others]
        numbers = messages.numbers.copy()
        for kind in (GNSS_POSITION, GNSS_POSITION_1):
            for row in messages.numbers_of(kind, 0, 3):
                numbers[row] = _in_map(self.datum, *numbers[row].tolist())
        return Messages(messages.kind, messages.stamp_ns, messages.at, numbers)

    def _take(self, kind: int, stamp_ns: int, values: ArrayLike, covariance: ArrayLike) -> str:
        """Take a measurement of a kind of the layout."""
        sizes = SIZES[first_kind(kind)]
        verdict = self.offer(
            self._lines, kind, stamp_ns, flat(values, sizes[0]), flat(covariance, *sizes[1:])
        )
        return VERDICTS[verdict]

    def take(self, kind: str, stamp_ns: int, values: Sequence[Any]) -> str:
        """Take a message of one of ``KINDS``; a GNSS position is in ``map``."""
        if kind in ("imu", "imu_1"):
            return str(getattr(self, kind)(stamp_ns, *values))
        return self._take(KINDS.index(kind), stamp_ns, *values)

    def gnss_position(
        self, stamp_ns: int, geodetic: ArrayLike, covariance: ArrayLike = UNKNOWN
    ) -> str:
        """Fuse a fix.

        Args:
            stamp_ns: when it was taken.
            geodetic: (3,) latitude and longitude in degrees, height above the ellipsoid in m.
            covariance: (9,) m^2, ENU, row-major; all zero: unknown.
        """
        return self._fix(GNSS_POSITION, stamp_ns, geodetic, covariance)

    def _fix(self, kind: int, stamp_ns: int, geodetic: ArrayLike, covariance: ArrayLike) -> str:
        if self.datum is None:
            self._without_datum += 1
            return NO_DATUM
        p_W = _in_map(self.datum, *flat(geodetic, 3).tolist())
        return self._take(kind, stamp_ns, p_W, covariance)

    def gnss_position_1(
        self, stamp_ns: int, geodetic: ArrayLike, covariance: ArrayLike = UNKNOWN
    ) -> str:
        """Take a fix of the second of two receivers; arguments as of :meth:`gnss_position`."""
        return self._fix(GNSS_POSITION_1, stamp_ns, geodetic, covariance)

    def gnss_velocity_1(
        self, stamp_ns: int, v_W: ArrayLike, covariance: ArrayLike = UNKNOWN
    ) -> str:
        """Take a velocity of the second of two receivers; arguments as of the first's."""
        return self._take(GNSS_VELOCITY_1, stamp_ns, v_W, covariance)

    def range_1(self, stamp_ns: int, range_m: float, variance_m2: float = 0.0) -> str:
        """Take a range of the second of two range finders; arguments as of :meth:`range`."""
        return self._take(RANGE_1, stamp_ns, range_m, variance_m2)

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

    def optical_flow(self, stamp_ns: int, flow: ArrayLike, variance_rad2: float = 0.0) -> str:
        """Fuse an optical flow; see :mod:`~quadsim.estimation.eskf.optical_flow` for its signs.

        Args:
            stamp_ns: end of its interval.
            flow: (3,) about the sensor's x and y in rad, and the interval in s.
            variance_rad2: of each; 0: unknown.
        """
        return self._take(OPTICAL_FLOW, stamp_ns, flow, variance_rad2)

    def external_odometry(
        self, stamp_ns: int, pose: ArrayLike, covariance: ArrayLike = UNKNOWN_POSE
    ) -> str:
        """Fuse an odometry in a frame of its own, of which only z is known to point up.

        Args:
            stamp_ns: when it was taken.
            pose: (7,) of ``base_link`` in that frame: position in m, quaternion, w first.
            covariance: (36,) row-major: position, then rotation; all zero: unknown. What it grows
                by counts, where that is more than the parameters' drift.
        """
        return self._take(EXTERNAL_ODOMETRY, stamp_ns, pose, covariance)

    def external_velocity(
        self, stamp_ns: int, v_B: ArrayLike, covariance: ArrayLike = UNKNOWN
    ) -> str:
        """Fuse a velocity of ``base_link`` (3,) in its own axes, m/s.

        Args:
            stamp_ns: when it was taken.
            v_B: (3,).
            covariance: (9,), or (36,) of a twist; all zero: unknown.
        """
        return self._take(EXTERNAL_VELOCITY, stamp_ns, v_B, covariance)

    def gnss_heading(self, stamp_ns: int, heading_rad: float, variance_rad2: float = 0.0) -> str:
        """Fuse the azimuth of the baseline of two GNSS antennas, from east, counter-clockwise.

        Args:
            stamp_ns: when it was taken.
            heading_rad: from the first antenna to the second.
            variance_rad2: of it; 0: unknown.
        """
        return self._take(GNSS_HEADING, stamp_ns, heading_rad, variance_rad2)

    def zero_velocity(self, stamp_ns: int) -> str:
        """Fuse that the vehicle stands on the ground, by whoever knows."""
        return self._take(ZERO_VELOCITY, stamp_ns, 0.0, 0.0)

    def set_params(self, params: EstimatorParams) -> None:
        """Go on with other parameters."""
        before = self.params.mount
        self.params = self._own(params)
        self._lines[0]["params"] = pack(self.params)
        tell_pairs(self._lines[0], self.params)
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
            second = kind >= IMU_1 and not line.received[kind]
            if name in DERIVED or second:
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


#: Sensors whose rejection without a break means that the estimate has left the truth.
HOLDING = (
    GNSS_POSITION, GNSS_VELOCITY, EXTERNAL_POSITION, EXTERNAL_ATTITUDE, EXTERNAL_ODOMETRY,
    EXTERNAL_VELOCITY,
)  # fmt: skip
#: Sensors that must agree before a flight; a field that does not agree makes the heading uncertain.
NEEDED = (*HOLDING, STATIC_PRESSURE, RANGE, OPTICAL_FLOW, GNSS_HEADING)
OK, REPEATED = "ok", "repeated"
#: Verdicts on an IMU sample that is used; of one that is unchanged, its time.
TAKEN = (OK, "gap", "clock_jump", "unchanged")
#: Where the magnetic field tells no heading.
STEEP = (
    "the magnetic field is too steep here to tell a heading; give an external pose, or raise"
    " flight.arming.yaw_sigma_rad"
)
#: A flow that was left out for want of a height.
NO_HEIGHT = "flow not used: the height above the ground is not known, which a range tells"
#: Words for an odometry in another frame.
UNLEVEL = (
    "external_odometry is left out: z of its frame does not point up; publish it in a frame of"
    " REP 103, and the pose of base_link"
)
#: What a map without a fix and a field is.
LOCAL = "heading unknown: map begins where the vehicle stood, x was its nose (start.local)"
#: So many IMU samples in a row with the same stamp: its clock stands.
STANDING_STAMPS = 50


def is_odometry_level(state: Any) -> bool:
    """Whether the frame of an external odometry is level, as far as anything was rejected."""
    alone = state["innovation_variance"][EXTERNAL_ODOMETRY, 1] == 0.0  # of the tilt, see is_level
    return not (alone and state["rejected_in_row"][EXTERNAL_ODOMETRY] >= 3)


def rejected_sensors(state: Any) -> list[str]:
    """Names of the sensors that must agree and are rejected, three times in a row or more.

    Args:
        state: ESKF record.
    """
    in_row = state["rejected_in_row"]
    return [SENSORS[sensor] for sensor in NEEDED if in_row[sensor] >= 3]


def filter_status(state: Any) -> str:
    """The filter's own status.

    ``aligning``, ``running``, ``diverging`` while GNSS or the external pose is rejected at least
    three times in a row, or ``rejects ...`` while another sensor has been for
    ``RECOVERY_S``.

    Args:
        state: ESKF record.
    """
    if not state["running"]:
        return "aligning"
    in_row, since_ns = state["rejected_in_row"], state["rejected_since_ns"]
    if not is_odometry_level(state):
        return UNLEVEL
    if max(in_row[sensor] for sensor in HOLDING) >= 3:
        return "diverging"
    lasting = (in_row >= 3) & (state["stamp_ns"] - since_ns > RECOVERY_S * 1e9)
    refused = [name for name, is_refused in zip(SENSORS, lasting, strict=True) if is_refused]
    return f"rejects {', '.join(refused)}" if refused else "running"


def awaited(lines: Any) -> str:
    """What a filter that has not started waits for, in words.

    Of one that runs: why no heading is to be had; empty where there is nothing to say.

    Args:
        lines: (1,) LINE record, of the filter and its messages.
    """
    line = lines[0]
    state, params = line["state"], line["params"]
    window, start = state["alignment"], params["start"]
    points = tells_heading(tuple(params["magnetic_field_W_T"].tolist()))
    if state["running"] and state["local"]:
        return LOCAL
    if state["running"]:
        return "" if points else STEEP
    if not window["imu_count"]:
        return "waits for the IMU" + _refusals(line, IMU)
    waited_s = (state["stamp_ns"] - window["start_ns"]) * 1e-9
    needs = (
        (GNSS_POSITION, start["require_gnss"], window["fix_count"], "a GNSS fix", "require_gnss"),
        (
            MAGNETIC_FIELD, start["require_heading"] and points, window["field_count"],
            "the magnetic field", "require_heading",
        ),
    )  # fmt: skip
    missing = [
        f"{name}{_refusals(line, kind)} (start.{key}: false goes without)"
        for kind, needed, count, name, key in needs
        if needed and not count and waited_s > 0.5 * start["window_s"]
    ]
    rest = "a window of rest, or of motion in which gravity and the field are not parallel"
    return f"waits for {' and '.join(missing) or rest}"


def _refusals(line: Any, kind: int) -> str:
    """Of a kind of messages, how many came and were refused, by reason."""
    counts = line["verdicts"][kind]
    found = [
        f"{counts[i]} {VERDICTS[i]}"
        for i in range(len(VERDICTS))
        if counts[i] and VERDICTS[i] not in TAKEN
    ]
    return f" ({line['received'][kind]} came; refused: {', '.join(found)})" if found else ""


def late_words(late_s: float) -> str:
    """An estimated offset of GNSS stamps in words, and the key that sets it.

    Args:
        late_s: how much later than the fix its stamp is, by the IMU's clock; below zero it is the
            IMU's stamps that are late.
    """
    whose, key = ("GNSS", "gnss_s") if late_s > 0.0 else ("IMU", "imu_s")
    more = " or more" if abs(late_s) >= GNSS_TIME_REACH_S else ""
    return f"{whose} stamps are {abs(late_s):.2f} s{more} late: delay.{key}"


def repeating_sensors(frozen: int) -> list[str]:
    """Names of the sensors that repeat one value to the bit, of the bits of the filter's record."""
    return [name for at, name in enumerate(SOURCES) if frozen >> at & 1]


#: Sensors whose noise is judged, in the order of the bits of ``noisy``.
NOISY = ("gyroscope", "gnss_position", "gnss_velocity")


def noisy_sensors(line: Any) -> list[str]:
    """Names of the sensors whose noise is far beyond what they state, of the filter's record."""
    return [name for at, name in enumerate(NOISY) if line["noisy"] >> at & 1]


def left_out_of(line: Any) -> dict[str, str]:
    """What of two of a kind is left out, or contradicts the rest, and why.

    Args:
        line: LINE record, of the filter and its messages.
    """
    vote = line["vote"]
    common = common_fault(vote, rejected_sensors(line["state"])) if vote["on"] else ""
    of_imus = left_out(vote) | ({COMMON: common} if common else {})
    return of_imus | pairs_left_out(line) if line["twos"] else of_imus


class ErrorStateEkf(Estimator):
    """Error-state Kalman filter; data late or out of order are fused at their own time."""

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

    @property
    def flies_on_second(self) -> bool:
        """Whether of two IMUs the second is used."""
        return bool(self._lines[0]["vote"]["used"])

    def left_out(self) -> dict[str, str]:
        """What of two of a kind is left out, or contradicts the rest, and why."""
        return left_out_of(self._lines[0])

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

    def health(self) -> dict[str, float | str]:
        """What a diagnostic shows: status, reason, deviations, biases, innovations, refusals.

        ``status`` is that of :func:`filter_status`, ``repeats ...`` while sensors do not measure
        or ``noisy ...`` and nothing is worse, or ``imu clock stands``. ``rejected``, ``repeating``
        and ``noisy`` name the sensors for which the autopilot refuses to arm. ``awaited`` is what
        it waits for before it starts. ``axes`` names sensors whose axes are not as declared.
        ``<sensor>_test_ratio`` is the last normalised innovation squared over
        its limit: above one is rejected. ``gnss_time_s`` is how late GNSS stamps are;
        ``gnss_time_counts`` whether the estimate rests on it.
        """
        state, gate = self.state, self.params.gate
        status = filter_status(state)
        repeating = ", ".join(repeating_sensors(int(self._lines[0].frozen)))
        noisy = ", ".join(noisy_sensors(self._lines[0]))
        if noisy and status == "running":
            status = f"noisy {noisy}"
        if repeating and status not in ("aligning", "diverging"):
            status = f"repeats {repeating}"
        if self._standing_stamps >= STANDING_STAMPS:
            status = "imu clock stands"
        result: dict[str, float | str] = {
            "status": status,
            "awaited": awaited(self._lines),
            "rejected": ", ".join(rejected_sensors(state)),
            "repeating": repeating,
            "noisy": noisy,
            "left_out": "; ".join(f"{name}: {why}" for name, why in self.left_out().items()),
            "axes": "; ".join(f"{name}: {words}" for name, words in self.axes.report().items()),
            "flow": NO_HEIGHT if state.flow_ns > 0 and state.flow_low_ns == state.flow_ns else "",
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
        result["odometry_jumps"] = float(state.odometry_jumps)
        result["terrain_height_m"] = float(state.terrain_height_m)
        result["terrain_sigma_m"] = float(sigma[TERRAIN])
        result["gnss_time_s"] = float(state.gnss_time_s)
        result["gnss_time_sigma_s"] = float(sigma[GNSS_TIME])
        result["gnss_time_counts"] = float(state.gnss_time_counts)
        result["heading_confirmed"] = float(state.heading.confirmed)
        result["flow_scale"] = float(state.flow_scale)
        result["flow_scale_sigma"] = float(sigma[FLOW_SCALE])
        result["local"] = float(state.local)
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


#: Longer than any flight, s.
NEVER_S = 1e9


class BlindIns(ErrorStateEkf):
    """The same start and prediction as the filter's; after it nothing is fused.

    Its covariance grows as inertial navigation's errors do.
    """

    blind = True

    def _own(self, params: EstimatorParams) -> EstimatorParams:
        """Without gravity's direction and drag, which are no messages; of two IMUs the first."""
        fusion = replace(params.fusion, gravity_after_s=NEVER_S, drag_per_s=0.0)
        return replace(params, fusion=fusion, second=SecondParams())

    def start_from(self, other: ErrorStateEkf) -> None:
        """Go on from another filter's state as it is now."""
        line = self._lines[0]
        clear_timeline(line)
        line.state = other.state
        line.newest_imu_ns = line.state.imu_stamp_ns
