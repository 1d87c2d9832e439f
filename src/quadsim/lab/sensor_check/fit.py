"""``quadsim sensors fit``: figures of an IMU at rest and in flight, and its file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping, leaves, read_yaml_text
from quadsim.lab.parameter_text import one_line_yaml
from quadsim.lab.sensor_check.allan import AllanCurve, allan_curve
from quadsim.lab.sensor_check.allan_fit import AllanFit, Estimate, fit_allan, select
from quadsim.lab.sensor_check.figures import count_step
from quadsim.lab.sensor_check.flown import Flown, fit_flown
from quadsim.lab.sensor_check.recording import ImuRecording
from quadsim.sensors.imu import ImuParams

Array = NDArray[np.float64]

#: Counts finer than this part of the noise are those of a number, not of a converter.
FINEST = 0.01

#: The shortest averages are left out until the rest is explained this well, and then so many times
#: as many, but never beyond this averaging time.
EXPLAINED, CLEAR, SHORTEST_S = 1e-3, 4.0, 2.0

#: One device has one rate, at rest and in flight, within this share.
ALIKE = 0.05

#: Gravity where nothing else is known.
GRAVITY_MPS2 = 9.80665

TERMS = ("white", "walk", "instability")


@dataclass(frozen=True)
class Triad:
    """What was found of an accelerometer or a gyroscope.

    Attributes:
        found: the fit.
        curves: Allan deviations of its axes.
        terms: what the curves show.
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
    """All that was found of a recording at rest, of flights, or of both."""

    recording: ImuRecording | None
    triads: dict[str, Triad] = field(default_factory=dict)
    flown: Flown | None = None

    @property
    def explained(self) -> bool:
        """Whether both fits are as good as chance allows."""
        return all(triad.explained for triad in self.triads.values())

    def summary(self) -> dict[str, Any]:
        """As one JSON object."""
        recording, flown = self.recording, self.flown
        rest = {} if recording is None else {
            "source": recording.source,
            "samples": len(recording.stamp_ns),
            "duration_s": recording.duration_s,
            "rate_hz": recording.rate_hz,
        }  # fmt: skip
        return {
            **rest,
            "passed": self.explained,
            **({} if flown is None else {"flights": flown.summary()}),
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


def with_flights(fitted: Fitted, bags: Sequence[Bag], namespace: str, blades: int) -> Fitted:
    """Add what flights say, noise at rest being known or not."""
    white = {
        name: np.array([each.value for each in triad.density])
        for name, triad in fitted.triads.items()
    }
    step = {name: triad.step for name, triad in fitted.triads.items()}
    flown = fit_flown(bags, namespace, blades, white, step)
    rest_hz = flown.rate_hz if fitted.recording is None else fitted.recording.rate_hz
    if abs(flown.rate_hz - rest_hz) > ALIKE * rest_hz:
        raise InputError(
            f"the flights' IMU has {flown.rate_hz:g} Hz, that at rest {rest_hz:g} Hz: two devices"
        )
    return replace(fitted, flown=flown)


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
    recording, flown = fitted.recording, fitted.flown
    lines = ["# Behind each figure: its 95 % interval on x, y, z."]
    rate_hz, where = 0.0, "the flights"
    if flown is not None:
        rate_hz = float(f"{flown.rate_hz:.6g}")
        names = ", ".join(" ".join(Path(log).name.split()) for log in flown.logs)
        lines.append(f"# Estimated from {flown.flown_s:.6g} s of flight: {names}.")
    if recording is not None:
        rate_hz, where = recording.rate_hz, recording.source
        source = f"{' '.join(recording.bag.name.split())}, {recording.topic}"
        lines += [
            f"# Estimated from {source}: {recording.duration_s:.6g} s at rest.",
            "# The accelerometer's bias is what it reads too much along gravity; across it a",
            "# recording at rest cannot tell bias from tilt.",
        ]
    lines += ["sensor: imu", f"rate_hz: {rate_hz!r}"]
    for sensor, triad in fitted.triads.items():
        lines += _lines(sensor, triad)
    lines += [] if flown is None else flown.lines()
    text = "\n".join(lines) + "\n"
    content = read_yaml_text(text, where)
    content.pop("sensor")
    from_mapping(ImuParams, content, where)
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
