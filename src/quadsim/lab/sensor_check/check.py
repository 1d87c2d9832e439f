"""``quadsim sensors check``: each figure of a device alone, an hour at rest, and a flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.parameters import leaves
from quadsim.lab.sensor_check import flight
from quadsim.lab.sensor_check import rest as at_rest
from quadsim.lab.sensor_check.bench import Bench
from quadsim.lab.sensor_check.echo import LidarBench, LidarRig, RangefinderRig
from quadsim.lab.sensor_check.experiments import Experiment, Rig, experiments
from quadsim.lab.sensor_check.figures import MeasuredFigure
from quadsim.lab.sensor_check.flight import DeviceFlight
from quadsim.lab.sensor_check.gnss import GnssRig
from quadsim.lab.sensor_check.rest import RestChannel, Rested
from quadsim.lab.sensor_check.rigs import BarometerRig, ImuRig, MagnetometerRig, PlainRig
from quadsim.sensors import SENSORS
from quadsim.sensors.depth_camera import KIND as DEPTH_CAMERA
from quadsim.sensors.lidar import KIND as LIDAR
from quadsim.world.environment import EnvironmentParams

#: Kinds whose errors do not show at rest, in words.
LEFT_OUT = {DEPTH_CAMERA: "a depth camera", "visual_odometry": "a visual odometry"}

#: Chance that a check refuses one of devices that are all as specified.
FALSE_ALARM = 0.05

#: How devices are shown on the bench; others as a :class:`PlainRig` does.
RIGS: dict[str, type[Rig]] = {
    rig.kind: rig
    for rig in (ImuRig, GnssRig, MagnetometerRig, BarometerRig, RangefinderRig, LidarRig)
}


@dataclass
class Checked:
    """What was measured of one device.

    Attributes:
        alone: each figure with the other errors off.
        flown: a flight; None without one.
    """

    kind: str
    params: Any
    alone: list[MeasuredFigure] = field(default_factory=list)
    rested: list[tuple[RestChannel, Rested]] = field(default_factory=list)
    flown: DeviceFlight | None = None

    def parts(self) -> dict[str, list[MeasuredFigure]]:
        """Figures by the way in which they were measured."""
        return {
            "alone": self.alone,
            "rest": [rested.figure for _, rested in self.rested],
            "flight": self.flown.figures if self.flown else [],
        }

    @property
    def passed(self) -> bool:
        """Whether all figures are as specified."""
        return all(figure.ok for figures in self.parts().values() for figure in figures)


@dataclass(frozen=True)
class Check:
    """A check of one or several devices.

    Attributes:
        devices: by the name under which they were asked for.
        confidence: of each interval, so that all together hold with 95 %.
        hours: at rest; 0: not at all.
    """

    devices: dict[str, Checked]
    confidence: float
    hours: float
    seed: int

    @property
    def passed(self) -> bool:
        """Whether all devices are as specified."""
        return all(device.passed for device in self.devices.values())

    def summary(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "passed": self.passed,
            "seed": self.seed,
            "hours": self.hours,
            "confidence": 1.0 - FALSE_ALARM,
            "confidence_of_each": self.confidence,
            "devices": {
                name: {
                    "sensor": device.kind,
                    "passed": device.passed,
                    **{
                        part: [asdict(figure) for figure in figures]
                        for part, figures in device.parts().items()
                    },
                }
                for name, device in self.devices.items()
            },
        }


def planned(kind: str, params: Any, environment: EnvironmentParams, seed: int) -> list[Experiment]:
    """All experiments for a device."""
    lidar = kind == LIDAR
    bench = LidarBench(environment, seed) if lidar else Bench(kind, environment, seed)
    return experiments(RIGS.get(kind, PlainRig)(bench, params))


def unmeasured(params: Any, plan: list[Experiment]) -> list[str]:
    """Dotted names of the numbers of a device, other than defaults, that no experiment shows."""
    shown = {name for experiment in plan for name in experiment.names}
    names = []
    for leaf in leaves(type(params)):
        value = attrgetter(leaf.name)(params)
        if value != leaf.default and leaf.name not in shown and not isinstance(value, str):
            names.append(leaf.name)
    return names


def check_devices(
    sets: Mapping[str, Mapping[str, Any]],
    hours: float,
    seed: int,
    fly: bool,
    tell: Callable[[str], None],
) -> Check:
    """Measure devices.

    Args:
        sets: name to devices that fly together, kind to parameters.
        hours: at rest; 0: not at all.

    Raises:
        InputError: there is nothing else than what is left out.
    """
    world = EnvironmentParams()
    found = {
        _name(name, kind, devices): Checked(kind, params)
        for name, devices in sets.items()
        for kind, params in devices.items()
        if kind not in LEFT_OUT
    }
    if left := [
        f"{name}: {words} is not measured here (docs/sensors.md)"
        for name, devices in sets.items()
        for kind, words in LEFT_OUT.items()
        if kind in devices
    ]:
        words = "; ".join(left)
        if not found:
            raise InputError(words)
        tell(words)
    plans = {name: planned(each.kind, each.params, world, seed) for name, each in found.items()}
    # each interval may miss, and the check shall miss once in twenty
    intervals = 0
    for name, device in found.items():
        intervals += sum(experiment.intervals for experiment in plans[name])
        if hours > 0.0 and device.kind in SENSORS:
            intervals += at_rest.rest_intervals(device.kind, device.params, hours)
        if fly and device.kind in SENSORS:
            intervals += flight.flight_intervals(device.kind)
    confidence = 1.0 - FALSE_ALARM / max(1, intervals)
    for name, device in found.items():
        if left := unmeasured(device.params, plans[name]):
            tell(f"{name}: not measured: {', '.join(left)}")
        tell(f"{name}: each figure alone")
        for experiment in plans[name]:
            device.alone += experiment.measure(confidence)
        if hours > 0.0 and device.kind in SENSORS:
            tell(f"{name}: {hours:g} h at rest")
            bench = Bench(device.kind, world, seed)
            device.rested = at_rest.rest(device.kind, device.params, bench, hours, confidence)
    for name, devices in sets.items():
        if fly and any(kind in SENSORS for kind in devices):
            tell(f"{name}: a flight")
            for kind, flown in flight.fly_devices(devices, seed, confidence).items():
                found[_name(name, kind, devices)].flown = flown
    return Check(found, confidence, hours, seed)


def _name(name: str, kind: str, devices: Mapping[str, Any]) -> str:
    """Of a device: its own, or that of its set with its kind."""
    return name if len(devices) == 1 else f"{name}/{kind}"
