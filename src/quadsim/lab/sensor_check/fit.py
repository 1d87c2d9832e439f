"""``quadsim sensors fit``: figures of an IMU by its recording at rest, and its file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.reading import Bag
from quadsim.bag.topics import require
from quadsim.base.compiled import Array
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.parameters import from_mapping, leaves, read_yaml_text
from quadsim.lab.parameter_text import one_line_yaml
from quadsim.lab.sensor_check.allan import AllanCurve, allan_curve
from quadsim.lab.sensor_check.allan_fit import AllanFit, Estimate, fit_allan, select
from quadsim.lab.sensor_check.figures import count_step
from quadsim.sensors.imu import ImuParams
from quadsim.wire.decode import decode

IMU_TYPE = "sensor_msgs/msg/Imu"

#: A recording tells something of a bias from a minute on.
LEAST_S = 60.0

#: Mean rates and forces over a second may be off their median by this much (rad/s, m/s^2), or by
#: this many of their deviations, where that is more: a sensor of its own drifts less, a vehicle
#: that is touched moves more.
STILL = {"gyro": 0.03, "accel": 0.3}
STILL_SIGMAS = 8.0

UNITS = {"accel": "m/s^2", "gyro": "rad/s"}

#: Counts finer than this part of the noise are those of a number, not of a converter.
FINEST = 0.01

#: The shortest averages are left out until the rest is explained this well, and then so many times
#: as many, but never beyond this averaging time.
EXPLAINED, CLEAR, SHORTEST_S = 1e-3, 4.0, 2.0

#: Gravity where nothing else is known.
GRAVITY_MPS2 = 9.80665

TERMS = ("white", "walk", "instability")


@dataclass(frozen=True)
class ImuRecording:
    """An IMU at rest.

    Attributes:
        bag: where it is.
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


def read_recording(bag: Bag, namespace: str, name: str) -> ImuRecording:
    """The longest stretch of an IMU topic without gaps.

    Args:
        name: topic in it, or a full name.

    Raises:
        InputError: no such topic, or not a steady recording of a minute.
    """
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


@dataclass(frozen=True)
class Triad:
    """What was found of an accelerometer or a gyroscope.

    Attributes:
        curves: Allan deviations of its axes.
        density: white noise of each axis, without that of the counts.
        bias: (3,) of a gyroscope its mean; of an accelerometer what gravity has too much.
        step: distance of the counts; 0: none seen.
        from_s: shortest averaging time that was used.
    """

    found: AllanFit
    curves: tuple[AllanCurve, ...]
    terms: tuple[str, ...]
    density: tuple[Estimate, ...]
    bias: Array
    step: float
    from_s: float

    @property
    def explained(self) -> bool:
        """Whether the fit is as good as chance allows."""
        return self.found.chance >= EXPLAINED


@dataclass(frozen=True)
class Fitted:
    """All that was found of a recording at rest."""

    recording: ImuRecording
    triads: dict[str, Triad]

    @property
    def explained(self) -> bool:
        """Whether both fits are as good as chance allows."""
        return all(triad.explained for triad in self.triads.values())

    def summary(self) -> dict[str, Any]:
        """As one JSON object."""
        recording = self.recording
        return {
            "source": recording.source,
            "samples": len(recording.stamp_ns),
            "duration_s": recording.duration_s,
            "rate_hz": recording.rate_hz,
            "passed": self.explained,
            **{
                name: {
                    "from_tau_s": triad.from_s,
                    "chance_of_misfit": triad.found.chance,
                    "step": triad.step,
                    "bias": triad.bias,
                    "bias_instability": floors(triad),
                    "figures": [
                        {"name": figure, "axis": axis, "unit": unit, "value": estimate.value,
                         "low": estimate.low, "high": estimate.high}
                        for figure, axis, unit, estimate in fitted_figures(name, triad)
                    ],
                }
                for name, triad in self.triads.items()
            },
        }  # fmt: skip


def fit_recording(recording: ImuRecording) -> Fitted:
    """Estimate the figures of a recording at rest."""
    return Fitted(
        recording, {sensor: _fit_triad(recording, sensor) for sensor in ("accel", "gyro")}
    )


def _fit_triad(recording: ImuRecording, sensor: str) -> Triad:
    rows, rate_hz = recording.values[sensor], recording.rate_hz
    still = np.flatnonzero(np.ptp(rows, axis=0) == 0.0)
    if len(still):
        raise InputError(
            f"{recording.source}: {sensor} {'xyz'[still[0]]} never changes: no noise, so nothing to"
            " estimate"
        )
    curves = tuple(allan_curve(rows[:, axis], rate_hz) for axis in range(3))
    step = _converter(rows)
    terms, found, from_s = _beyond_filters(curves)
    counted2 = step**2 / (12.0 * rate_hz)
    density = tuple(
        Estimate(*(math.sqrt(max(end**2 - counted2, 0.0)) for end in (e.value, e.low, e.high)))
        for e in (axis["white"] for axis in found.estimates)
    )
    mean = rows.mean(axis=0)
    if sensor == "accel":
        size = float(np.linalg.norm(mean))
        mean = mean * (size - GRAVITY_MPS2) / size
    return Triad(found, curves, terms, density, mean, step, from_s)


def _beyond_filters(curves: Sequence[AllanCurve]) -> tuple[tuple[str, ...], AllanFit, float]:
    """Fit the averages that are so long that filters inside the sensor do not matter.

    Those lower the shortest averages: twice as long ones then say a larger density, or nothing
    explains both.

    Returns:
        The terms, the fit, and the shortest average.
    """

    def fitted(from_s: float) -> tuple[tuple[str, ...], AllanFit]:
        late = [curve.from_tau(from_s) for curve in curves]
        terms = select(late, TERMS)
        return terms, fit_allan(late, terms)

    first_s = from_s = float(curves[0].tau_s[0])
    terms, found = fitted(from_s)
    while 2.0 * from_s <= SHORTEST_S:
        later_terms, later = fitted(2.0 * from_s)
        if found.chance >= EXPLAINED and all(
            one["white"].high >= other["white"].low
            for one, other in zip(found.estimates, later.estimates, strict=True)
        ):
            break
        terms, found, from_s = later_terms, later, 2.0 * from_s
    if from_s > first_s:  # what is left of the filter falls as 1/tau: a good deal further on
        from_s = min(CLEAR * from_s, SHORTEST_S)
        terms, found = fitted(from_s)
    return terms, found, from_s


def _converter(rows: Array) -> float:
    """Distance of counts on all axes; 0 where the readings are as fine as their numbers."""
    steps = [count_step(rows[:2000, axis]) for axis in range(3)]
    noise = float(np.diff(rows, axis=0).std()) / math.sqrt(2.0)
    if min(steps) < FINEST * noise or max(steps) > (1.0 + 1e-6) * min(steps):
        return 0.0
    return float(np.mean(steps))


def fitted_figures(sensor: str, triad: Triad) -> Iterator[tuple[str, str, str, Estimate]]:
    """Name as in a file, axis, unit and estimate of all that was found."""
    units = {leaf.name: leaf.spec.unit for leaf in leaves(ImuParams)}
    names = {"walk": f"{sensor}_bias_walk", "instability": f"{sensor}_instability"}
    density, time = f"{sensor}_noise_density", f"{sensor}_instability_time_s"
    for axis, estimate in zip("xyz", triad.density, strict=True):
        yield density, axis, units[density], estimate
    for term in triad.terms[1:]:
        for axis, found in zip("xyz", triad.found.estimates, strict=True):
            yield names[term], axis, units[names[term]], found[term]
    if "instability" in triad.terms:
        yield time, "", units[time], triad.found.estimates[0]["instability_time_s"]


def floors(triad: Triad) -> list[float]:
    """Lowest Allan deviation of each axis over 0.664: the bias instability of data sheets."""
    return [curve.flat_floor() for curve in triad.curves]


def device_file(fitted: Fitted) -> str:
    """The text of a sensor file.

    Raises:
        InputError: a figure that no IMU of this project has, such as its rate.
    """
    recording = fitted.recording
    source = f"{' '.join(recording.bag.name.split())}, {recording.topic}"
    lines = [
        "# Behind each figure: its 95 % interval on x, y, z.",
        f"# Estimated from {source}: {recording.duration_s:.6g} s at rest.",
        "# The accelerometer's bias is what it reads too much along gravity; across it a",
        "# recording at rest cannot tell bias from tilt.",
        "sensor: imu",
        f"rate_hz: {recording.rate_hz!r}",
    ]
    for sensor, triad in fitted.triads.items():
        lines += _lines(sensor, triad)
    text = "\n".join(lines) + "\n"
    content = read_yaml_text(text, recording.source)
    content.pop("sensor")
    from_mapping(ImuParams, content, recording.source)
    return text


def _lines(sensor: str, triad: Triad) -> Iterator[str]:
    rows: dict[str, list[Estimate]] = {}
    for name, _, _, estimate in fitted_figures(sensor, triad):
        rows.setdefault(name, []).append(estimate)
    for name, estimates in rows.items():
        comment = ", ".join(f"{e.low:.4g} to {e.high:.4g}" for e in estimates)
        values = [float(f"{e.value:.5g}") for e in estimates]
        value = values[0] if name.endswith("time_s") else values
        yield f"{name}: {one_line_yaml(value)}  # {comment}"
    yield f"{sensor}_bias: {one_line_yaml([float(f'{x:.5g}') for x in triad.bias])}"
    if triad.step > 0.0:
        yield f"{sensor}_step: {one_line_yaml(float(f'{triad.step:.7g}'))}"
