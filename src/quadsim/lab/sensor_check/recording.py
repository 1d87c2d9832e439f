"""An IMU's recording at rest out of a bag, and what is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.reading import Bag
from quadsim.bag.topics import require
from quadsim.base.errors import InputError, QuadsimError
from quadsim.wire.decode import decode

Array = NDArray[np.float64]
IMU_TYPE = "sensor_msgs/msg/Imu"

#: A recording tells something of a bias from a minute on.
LEAST_S = 60.0

#: Mean rates and forces over a second may be off their median by this much (rad/s, m/s^2), or by
#: this many of their deviations, where that is more: a sensor of its own drifts less, a vehicle
#: that is touched moves more.
STILL = {"gyro": 0.03, "accel": 0.3}
STILL_SIGMAS = 8.0

UNITS = {"accel": "m/s^2", "gyro": "rad/s"}


@dataclass(frozen=True)
class ImuRecording:
    """An IMU at rest.

    Attributes:
        bag: where it is.
        topic: full name.
        stamp_ns: (N,) of the samples.
        values: "accel" and "gyro" to (N, 3) in m/s^2 and rad/s.
    """

    bag: Path
    topic: str
    stamp_ns: NDArray[np.int64]
    values: dict[str, Array]

    @property
    def source(self) -> str:
        """Both, for messages."""
        return f"{self.bag}: {self.topic}"

    @property
    def rate_hz(self) -> float:
        """Samples a second, to six digits."""
        span_s = 1e-9 * float(self.stamp_ns[-1] - self.stamp_ns[0])
        return float(f"{(len(self.stamp_ns) - 1) / span_s:.6g}")

    @property
    def duration_s(self) -> float:
        """From the first sample to the last."""
        return 1e-9 * float(self.stamp_ns[-1] - self.stamp_ns[0])


def read(bag: Bag, namespace: str, name: str) -> ImuRecording:
    """The longest stretch of an IMU topic without gaps.

    Args:
        bag: an open bag.
        namespace: the vehicle.
        name: topic in it, or a full name.

    Raises:
        InputError: no such topic, or not a steady recording of a minute.
    """
    if name.startswith("/"):
        namespace, name = "/", name.lstrip("/")
    full = require(bag, namespace, name, IMU_TYPE)
    source = f"{bag.path}: {full}"
    try:
        blocks = [decode(IMU_TYPE, batch.payloads) for batch in bag.batches([full])]
    except QuadsimError as error:
        raise InputError(f"{source}: {error}") from None
    stamp_ns = np.concatenate([block.stamp_ns for block in blocks])
    part = _steady(stamp_ns, source)
    values = {
        sensor: np.concatenate([block[name] for block in blocks])[part]
        for sensor, name in (("accel", "f"), ("gyro", "w"))
    }
    for sensor, rows in values.items():
        if not np.isfinite(rows).all():
            raise InputError(f"{source}: {sensor}: readings that are no numbers")
    return ImuRecording(bag.path, full, stamp_ns[part], values)


def _steady(stamp_ns: NDArray[np.int64], source: str) -> slice:
    """The longest stretch in which no sample is missing."""
    apart = np.diff(stamp_ns)
    usual_ns = float(np.median(apart)) if len(apart) else 0.0
    if usual_ns <= 0.0:
        raise InputError(f"{source}: the stamps do not rise; an Allan deviation needs a clock")
    gaps = np.flatnonzero((apart <= 0) | (apart > 1.5 * usual_ns))
    edges = np.concatenate([[0], gaps + 1, [len(stamp_ns)]])
    longest = int(np.argmax(np.diff(edges)))
    part = slice(int(edges[longest]), int(edges[longest + 1]))
    seconds = 1e-9 * float(stamp_ns[part.stop - 1] - stamp_ns[part.start])
    if seconds < LEAST_S:
        words = f"{seconds:.3g} s without a gap" if len(gaps) else f"{seconds:.3g} s"
        raise InputError(f"{source}: too short: {words}; allowed: at least {LEAST_S:g} s at rest")
    return part


def refuse_motion(recording: ImuRecording) -> None:
    """Refuse a recording in which the sensor moves.

    Raises:
        InputError: naming the axis, the time and by how much.
    """
    window = max(1, round(recording.rate_hz))
    for sensor in ("gyro", "accel"):
        rows = recording.values[sensor]
        whole = rows[: len(rows) // window * window].reshape(-1, window, 3)
        means = whole.mean(axis=1)
        noise = np.median(whole.std(axis=1), axis=0) / math.sqrt(window)
        allowed = np.maximum(STILL[sensor], STILL_SIGMAS * noise)
        off = np.abs(means - np.median(means, axis=0)) / allowed
        if off.max() > 1.0:
            at, axis = np.unravel_index(int(off.argmax()), off.shape)
            by = float(means[at, axis] - np.median(means[:, axis]))
            raise InputError(
                f"{recording.source}: moves: {sensor} {'xyz'[int(axis)]} is off by {by:.3g}"
                f" {UNITS[sensor]} {int(at)} s after the start; record it at rest"
            )
