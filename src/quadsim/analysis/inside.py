"""What an estimator believes besides the motion, written down while it runs.

The innovations are the filter's own: its kernels leave the last one of each sensor in the record.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.bag.axes import rotation_matrices
from quadsim.estimation.direct_filter import DirectFilter
from quadsim.estimation.filter import ErrorStateEkf
from quadsim.estimation.interface import Estimator
from quadsim.estimation.layout import (
    BA,
    BG,
    EXTERNAL_ATTITUDE,
    EXTERNAL_POSITION,
    GNSS_POSITION,
    GNSS_VELOCITY,
    INCLINATION,
    MAGNETIC_FIELD,
    RANGE,
    SENSORS,
    STATIC_PRESSURE,
    VECTORS,
)
from quadsim.estimation.smoother import Smoother
from quadsim.estimation.timeline import CAPACITY, OK
from quadsim.sim.log import Array, Innovations, Inside

#: Biases change slowly: they are kept so often.
BIAS_STEP_NS = 100_000_000
#: An estimator's method to the sensors whose innovations a message of it leaves.
LEFT_BY: dict[str, tuple[int, ...]] = {
    "gnss_position": (GNSS_POSITION,),
    "gnss_velocity": (GNSS_VELOCITY,),
    "magnetic_field": (MAGNETIC_FIELD, INCLINATION),
    "pressure": (STATIC_PRESSURE,),
    "range": (RANGE,),
    "external_pose": (EXTERNAL_POSITION, EXTERNAL_ATTITUDE),
}
#: Numbers of one row of biases: two of three and two blocks of the covariance; after the stamp.
_BIAS_ROW = 24


class _Sensor:
    """Innovations of one sensor: stamp, NIS, whether accepted, and 3 + 3 numbers, or 1 + 1.

    Args:
        sensor: of the layout.
        nis: of each sensor, as the filter writes them.
        innovation: (sensors, 3) the same.
        variance: (sensors, 3).
    """

    def __init__(self, sensor: int, nis: Array, innovation: Array, variance: Array) -> None:
        self.sensor = sensor
        self.width = 3 if sensor in VECTORS else 1
        self._nis = nis[sensor : sensor + 1]  # views: taking one out of a record is slow
        self._innovation = innovation[sensor, : self.width]
        self._variance = variance[sensor, : self.width]
        self.seen = self.refused = 0
        self.newest_ns = -(2**63)
        self.stamp_ns = array("q")
        self.accepted = array("b")
        self.nis = array("d")
        self.numbers = array("d")

    def append(self, accepted: bool) -> None:
        """Write down the last one that the filter has made."""
        last = self._nis.item()  # zero of a refusal: the filter has begun again since
        self.accepted.append(accepted)
        self.nis.append(last if accepted or last > 0.0 else math.nan)
        self.numbers.extend(self._innovation.tolist())
        self.numbers.extend(self._variance.tolist())

    def drop(self) -> None:
        """Forget what was written last, but for its stamp."""
        self.accepted.pop()
        self.nis.pop()
        del self.numbers[-2 * self.width :]

    def kept(self) -> Innovations:
        """What was written down."""
        numbers = np.array(self.numbers).reshape(-1, 2, self.width)
        return Innovations(
            np.array(self.stamp_ns, np.int64),
            numbers[:, 0],
            np.sqrt(np.maximum(numbers[:, 1], 0.0)),
            np.array(self.nis),
            np.array(self.accepted, bool),
        )


class Witness:
    """Looks into an estimator after each message.

    A measurement that is stamped after the newest IMU sample waits for it in the filter, and here;
    one that the filter's border refuses does not.
    One that comes late takes the filter back, which then runs again what followed: of each sensor
    the newest is written down anew, those before stay as they were judged first. Of one that comes
    after a later one of its own sensor nothing is kept.

    Args:
        estimator: that takes the messages.
    """

    def __init__(self, estimator: Estimator) -> None:
        state = estimator.state_of(estimator.lines)
        self._state = state
        self._accepted = state["accepted"][0]
        self._nis = state["nis"][0]
        direct = isinstance(estimator, DirectFilter)
        none = np.zeros(len(SENSORS), np.int64)
        unknown = np.full((len(SENSORS), 3), np.nan)
        self._rejected = none if direct else state["rejected"][0]
        innovation = unknown if direct else state["innovation"][0]
        variance = unknown if direct else state["innovation_variance"][0]
        self._stamp_ns = state["stamp_ns"]
        self._has_biases = not direct
        self._sensors = {
            kind: [_Sensor(sensor, self._nis, innovation, variance) for sensor in sensors]
            for kind, sensors in LEFT_BY.items()
        }
        self._all = [sensor for sensors in self._sensors.values() for sensor in sensors]
        self._admitted = estimator.lines["verdicts"][0, :, OK]
        self._waited_for = dict.fromkeys(LEFT_BY, 0)
        self._last_nis: list[float] = self._nis.tolist()
        self.next_ns = -(2**63)
        self._bias_ns = array("q")
        self._biases = array("d")
        self.waiting: list[tuple[str, int]] = []

    def measured(self, kind: str, stamp_ns: int) -> None:
        """A message was given to the estimator's method ``kind``."""
        admitted = self._admitted.item(LEFT_BY[kind][0])
        if admitted != self._waited_for[kind]:
            self._waited_for[kind] = admitted
            self.waiting.append((kind, stamp_ns))
            del self.waiting[:-CAPACITY]  # what the filter cannot hold is not to come
        self.look()

    def look(self) -> None:
        """See what became of the messages that wait."""
        now_ns = self._stamp_ns.item()
        left = []
        for kind, stamp_ns in self.waiting:
            for sensor in self._sensors[kind]:
                self._note(sensor, stamp_ns)
            if stamp_ns > now_ns:
                left.append((kind, stamp_ns))
        self.waiting = left
        nis = self._nis.tolist()
        if nis != self._last_nis:
            for sensor in self._all:
                if nis[sensor.sensor] != self._last_nis[sensor.sensor]:
                    self._judge_again(sensor)
            self._last_nis = nis

    def _note(self, kept: _Sensor, stamp_ns: int) -> None:
        """Write down what is new of a sensor."""
        sensor = kept.sensor
        refused = self._rejected.item(sensor)
        seen = self._accepted.item(sensor) + refused
        if seen == kept.seen:
            return
        if seen > kept.seen and stamp_ns > kept.newest_ns:
            kept.newest_ns = stamp_ns
            kept.stamp_ns.append(stamp_ns)
            kept.append(refused == kept.refused)
            self._last_nis[sensor] = self._nis.item(sensor)
        kept.seen, kept.refused = seen, refused

    def _judge_again(self, kept: _Sensor) -> None:
        """The filter has gone back and run its newest measurement of a sensor again."""
        refused = self._rejected.item(kept.sensor)
        seen = self._accepted.item(kept.sensor) + refused
        if seen != kept.seen or not kept.nis:
            return
        accepted = bool(kept.accepted[-1]) == (refused == kept.refused)
        kept.drop()
        kept.append(accepted)
        kept.refused = refused

    def estimated(self, stamp_ns: int) -> None:
        """There is an estimate of ``next_ns`` or later: write the biases down."""
        self.next_ns = stamp_ns + BIAS_STEP_NS
        if not self._has_biases:
            return
        state = self._state[0]
        self._bias_ns.append(stamp_ns)
        for part in (
            state["gyro_bias_S"],
            state["accel_bias_S"],
            state["covariance"][BG : BG + 3, BG : BG + 3],
            state["covariance"][BA : BA + 3, BA : BA + 3],
        ):
            self._biases.extend(part.ravel().tolist())

    def inside(self) -> Inside:
        """What was written down; biases along the axes of ``base_link``."""
        rows = np.array(self._biases).reshape(-1, _BIAS_ROW)
        q_BS = self._state["q_BS"] if self._has_biases else np.array([[1.0, 0.0, 0.0, 0.0]])
        innovations = {
            SENSORS[sensor.sensor]: sensor.kept()
            for sensor in self._all
            if any(sensor.nis)  # what is not fused by a Kalman update has none
        }
        return _turned(
            np.array(self._bias_ns, np.int64),
            rotation_matrices(q_BS)[0],
            rows[:, :3],
            rows[:, 3:6],
            rows[:, 6:15].reshape(-1, 3, 3),
            rows[:, 15:].reshape(-1, 3, 3),
            innovations,
        )


def _turned(
    stamp_ns: NDArray[np.int64],
    R_BS: Array,
    gyro_bias_S: Array,
    accel_bias_S: Array,
    gyro_covariance_S: Array,
    accel_covariance_S: Array,
    innovations: dict[str, Innovations],
) -> Inside:
    """Biases and their (N, 3, 3) covariances, turned from the IMU's axes."""
    variances = [
        np.einsum("ij,njk,ik->ni", R_BS, covariance, R_BS)
        for covariance in (gyro_covariance_S, accel_covariance_S)
    ]
    return Inside(
        stamp_ns,
        gyro_bias_S @ R_BS.T,
        accel_bias_S @ R_BS.T,
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
    return _turned(
        rows["odometry"]["stamp_ns"],
        rotation_matrices(q_BS[None])[0],
        rows["gyro_bias_S"],
        rows["accel_bias_S"],
        rows["gyro_bias_variance"][:, :, None] * np.eye(3),
        rows["accel_bias_variance"][:, :, None] * np.eye(3),
        {},
    )


def witness_of(estimator: Estimator) -> Witness | None:
    """What looks into an estimator; None where nothing can be seen while it runs."""
    if isinstance(estimator, Smoother):
        return None
    if isinstance(estimator, ErrorStateEkf | DirectFilter):
        return Witness(estimator)
    return None
