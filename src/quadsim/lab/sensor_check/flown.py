"""What flights say of an IMU: lines and floor of its rotors, low-passes, clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import leaves
from quadsim.lab.identify.alignment import POSE_DELAY, align_recorder
from quadsim.lab.parameter_text import one_line_yaml
from quadsim.lab.sensor_check.floor_fit import FloorFit, fit_floor, low_passed, spectra_of
from quadsim.lab.sensor_check.line_fit import LineFigure, LineFit
from quadsim.lab.sensor_check.shaken import ShakenStretch, read_shaken
from quadsim.lab.sensor_check.whitening import MOTION_HZ, Clock, folded
from quadsim.sensors.imu import ImuParams
from quadsim.vehicle.parameters import RecorderParams

Array = NDArray[np.float64]
#: A floor is told apart from nothing by this much, and a spectrum is as fitted within this factor.
TOLD, ALIKE = 3.0, 1.25
#: Name of a sensor to its axes, and units of a line's name.
SENSORS = {"accel": (slice(0, 3), "mps2"), "gyro": (slice(3, 6), "radps")}


@dataclass(frozen=True)
class FlownFigure:
    """A figure of the device file, an axis of it, what is found, and of lines what is recorded."""

    name: str
    axis: str
    unit: str
    found: LineFigure
    recorded: float | None = None


@dataclass(frozen=True)
class Flown:
    """All that flights say.

    Attributes:
        logs: the flights.
        flown_s: length of what was used.
        rate_hz: of the samples.
        reference: rotor speed at which the figures hold, rad/s.
        blades: of a propeller.
        clock: of the rotor speeds.
        pose_delay_s: value, low and high; None where there are no poses to tell it by.
        figures: in the order of the file.
        notes: what a reader should know.
    """

    logs: tuple[str, ...]
    flown_s: float
    rate_hz: float
    reference: float
    blades: int
    clock: Clock
    pose_delay_s: tuple[float, float, float] | None
    figures: tuple[FlownFigure, ...]
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """As one JSON object."""
        clock = self.clock
        return {
            "logs": self.logs,
            "flown_s": self.flown_s,
            "reference_speed_radps": self.reference,
            "blades": self.blades,
            "rotor_speed_scale": _ends(clock.scale, clock.half[0]) if clock.told else None,
            "rotor_speed_delay_s": _ends(clock.delay_s, clock.half[1]) if clock.told else None,
            "pose_delay_s": self.pose_delay_s,
            "figures": [
                {"name": each.name, "axis": each.axis, "unit": each.unit, "told": each.found.told,
                 "value": each.found.value, "low": each.found.low,
                 "high": each.found.high if np.isfinite(each.found.high) else None,
                 "recorded": each.recorded}
                for each in self.figures
            ],
            "notes": self.notes,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Of a device file."""
        of_name: dict[str, list[LineFigure]] = {}
        for each in self.figures:
            of_name.setdefault(each.name, []).append(each.found)
        nested = {name: found for name, found in of_name.items() if "vibration." in name}
        for name, found in of_name.items():
            if name not in nested and found[0].told:
                yield f"{name}: {_rounded(found)[0]!r}  # {_words(found)}"
        yield "sampling: point  # lines fold as they did"
        yield "vibration:"
        yield f"  reference_speed_radps: {self.reference!r}"
        yield f"  blades: {self.blades}"
        for name, found in nested.items():
            row = f"  {name.removeprefix('vibration.')}: {one_line_yaml(_rounded(found))}"
            yield f"{row}  # {_words(found)}"


def _ends(value: float, half: float) -> tuple[float, float, float]:
    return value, value - float(half), value + float(half)


def _rounded(found: Sequence[LineFigure]) -> list[float]:
    return [float(f"{each.value:.4g}") for each in found]


def _words(found: Sequence[LineFigure]) -> str:
    return ", ".join(
        f"{e.low:.3g} to {e.high:.3g}"
        if e.told
        else "not told" + (f", below {e.high:.3g}" if np.isfinite(e.high) else "")
        for e in found
    )


def fit_flown(
    bags: Sequence[Bag],
    namespace: str,
    blades: int,
    white: Mapping[str, Array],
    step: Mapping[str, float],
) -> Flown:
    """Fit all of some flights.

    Args:
        bags: open bags or logs.
        namespace: the vehicle in them.
        blades: of a propeller.
        white: density at rest of "accel" and "gyro", (3,); those that are absent are in the floor.
        step: counts of both.

    Raises:
        InputError: a flight lacks an IMU or rotor speeds, or is too short.
    """
    stretches = [s for k, bag in enumerate(bags) for s in read_shaken(bag, namespace, k)]
    flown = fit_stretches(stretches, blades, white, step)
    logs = tuple(str(bag.path) for bag in bags)
    return replace(flown, logs=logs, pose_delay_s=_pose_delay(bags, namespace))


def fit_stretches(
    stretches: list[ShakenStretch],
    blades: int,
    white: Mapping[str, Array],
    step: Mapping[str, float],
) -> Flown:
    """The same of what was read."""
    notes = [] if white else ["no recording at rest: its noise is within the floor"]
    reference = float(f"{np.mean([each.speed.mean() for each in stretches]):.4g}")
    orders = [order for order in dict.fromkeys((1, blades)) if _folds_clear(stretches, order)]
    notes += [
        f"lines at {order} x rotor frequency fold into the motion: not told"
        for order in dict.fromkeys((1, blades))
        if order not in orders
    ]
    lines = LineFit(stretches, orders or [1], reference)
    clock = lines.clock() if orders else Clock(1.0, 0.0, np.zeros(2), False)
    if not clock.told:
        notes.append("no line is seen: scale and delay of the rotor speeds are not told")
        clock = replace(clock, scale=1.0, delay_s=0.0)
    spectra = spectra_of(stretches, (1, blades), clock, reference)
    floors = {
        name: fit_floor(spectra, axes, white.get(name, np.zeros(3)), step.get(name, 0.0))
        for name, (axes, _) in SENSORS.items()
    }
    for name, (axes, _) in SENSORS.items():
        lines.corner_hz[axes] = floors[name].corner_hz
    if clock.told:
        clock = lines.refined(clock)
    notes += [note for name, floor in floors.items() for note in _floor_notes(name, floor)]
    seconds = float(sum(each.time_s[-1] - each.time_s[0] for each in stretches))
    figures = tuple(_figures(lines, orders, blades, clock, floors))
    return Flown(
        (), seconds, spectra.rate_hz, reference, blades, clock, None, figures, tuple(notes)
    )


def _folds_clear(stretches: Sequence[ShakenStretch], order: int) -> bool:
    """Whether a line lies clear of the motion most of the time."""
    clear = []
    for each in stretches:
        line_hz = folded(order * each.speed / (2.0 * np.pi), each.rate_hz)
        clear.append((line_hz > MOTION_HZ).mean())
    return float(np.mean(clear)) > 0.8


def _floor_notes(name: str, floor: FloorFit) -> Iterator[str]:
    if floor.corner_hz[0] == 0.0:
        yield f"{name}: no corner of a low-pass is seen below half of the rate"
    for axis, misfit in zip("xyz", floor.misfit.tolist(), strict=True):
        if misfit > ALIKE:
            yield f"{name} {axis}: its spectrum is off the model's floor by up to x {misfit:.2g}"


def _pose_delay(bags: Sequence[Bag], namespace: str) -> tuple[float, float, float] | None:
    try:
        told = align_recorder(bags, namespace, RecorderParams()).told
    except InputError:
        return None
    return _ends(*told[POSE_DELAY]) if POSE_DELAY in told else None


def _figures(
    lines: LineFit, orders: Sequence[int], blades: int, clock: Clock,
    floors: Mapping[str, FloorFit],
) -> Iterator[FlownFigure]:  # fmt: skip
    """Figures of the file."""
    units = {leaf.name: leaf.spec.unit for leaf in leaves(ImuParams)}
    unknown = LineFigure(0.0, 0.0, np.inf, False)
    for sensor, (axes, unit) in SENSORS.items():
        corner, low, high = floors[sensor].corner_hz.tolist()
        name = f"{sensor}_bandwidth_hz"
        yield FlownFigure(name, "", units[name], LineFigure(corner, low, high, corner > 0.0))
        rows: dict[str, list[LineFigure]] = {}
        for k in range(axes.start, axes.stop):
            told = clock.told and len(orders) > 0
            found = lines.amplitudes(k, clock) if told else []
            by_order = dict(zip(orders, found, strict=False))
            rows.setdefault(f"vibration.{sensor}_rotor_{unit}", []).append(by_order.get(1, unknown))
            if blades > 1:
                of_blades = by_order.get(blades, unknown)
                rows.setdefault(f"vibration.{sensor}_blade_{unit}", []).append(of_blades)
        rows[f"vibration.{sensor}_floor"] = [
            LineFigure(value, low, high, True) if high < TOLD * value
            else LineFigure(0.0, 0.0, high, False)
            for value, low, high in floors[sensor].density.tolist()
        ]  # fmt: skip
        for name, triad in rows.items():
            order = {"rotor": 1, "blade": blades}.get(name.split("_")[1])
            line_hz = (order or 0) * clock.scale * lines.reference / (2.0 * np.pi)
            for axis, each in zip("xyz", triad, strict=True):
                seen = each.value * float(low_passed(line_hz, corner)) if order else None
                yield FlownFigure(name, axis, units[name], each, seen)
