"""Gains on sliders: which there are, and the steps that a vehicle flies with them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quadsim._version import __version__
from quadsim.base.parameters import flatten, leaves, unflatten
from quadsim.base.spec import Spec
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.parameter_text import parameter_lines
from quadsim.lab.tune.loop_margins import LOOPS, Margins, all_margins
from quadsim.lab.tune.step_flights import StepFlight, StepsFlown, fly_steps, make_flights
from quadsim.lab.tune.tuning import load_vehicle, tune_by_relay

Flat = dict[str, Any]
#: Of all noise and wind.
SEED = 1
_SPECS = {leaf.name: leaf.spec for leaf in leaves(AutopilotParams)}


@dataclass(frozen=True)
class Gain:
    """One slider.

    Attributes:
        key: dotted, of an autopilot file.
        axes: places in the key's list, where it holds one.
    """

    group: str
    label: str
    key: str
    axes: tuple[int, ...] = ()

    @property
    def spec(self) -> Spec:
        """Meaning, unit and range of the key."""
        return _SPECS[self.key]

    def read(self, flat: Mapping[str, Any]) -> float:
        """Its value among all keys."""
        value = flat[self.key]
        return float(value[self.axes[0]] if self.axes else value)

    def write(self, flat: Flat, value: float) -> None:
        """Set it among all keys."""
        if not self.axes:
            flat[self.key] = value
            return
        flat[self.key] = [
            value if axis in self.axes else old for axis, old in enumerate(flat[self.key])
        ]


GAINS = (
    Gain("position", "horizontal", "position.position_gain_xy"),
    Gain("position", "height", "position.position_gain_z"),
    Gain("position", "yaw", "position.yaw_gain"),
    Gain("velocity", "horizontal", "position.velocity_gain_xy"),
    Gain("velocity", "horizontal, integral", "position.velocity_integral_xy"),
    Gain("velocity", "climb", "position.velocity_gain_z"),
    Gain("velocity", "climb, integral", "position.velocity_integral_z"),
    Gain("attitude and rate", "tilt", "attitude.tilt_gain"),
    Gain("attitude and rate", "roll and pitch rate", "attitude.rate_gain", (0, 1)),
    Gain("attitude and rate", "roll and pitch, integral", "attitude.rate_integral", (0, 1)),
    Gain("attitude and rate", "roll and pitch, lead", "attitude.rate_lead_s"),
    Gain("attitude and rate", "yaw rate", "attitude.rate_gain", (2,)),
    Gain("attitude and rate", "yaw rate, integral", "attitude.rate_integral", (2,)),
)


@dataclass(frozen=True)
class Tried:
    """What gains gave.

    Attributes:
        steps: flown in calm air and in wind.
        margins: of the linear loops, by name.
    """

    steps: StepsFlown
    margins: dict[str, Margins]


class GainBench:
    """A vehicle in hover that flies the same steps with any gains.

    Args:
        vehicle, sensors, autopilot: names or paths, as of ``quadsim tune``.

    Raises:
        InputError: a file is wrong, or the vehicle is no multirotor.
    """

    def __init__(self, vehicle: str, sensors: str, autopilot: str) -> None:
        self.vehicle, self.sensors, self.autopilot = vehicle, sensors, autopilot
        self.scenario = load_vehicle(vehicle, sensors, autopilot, SEED)
        self.start: Flat = flatten(self.scenario.autopilot)
        self._flights: dict[bool, StepFlight] = {}
        self._lock = threading.Lock()

    def params(self, flat: Mapping[str, Any]) -> AutopilotParams:
        """The autopilot with these keys."""
        return unflatten(AutopilotParams, flat, "gains")

    def try_out(self, flat: Mapping[str, Any]) -> Tried:
        """Fly the steps with these keys; takes some tenths of a second.

        Raises:
            FlightError: the vehicle does not come to hover with the gains of its file.
        """
        params = self.params(flat)
        with self._lock:
            self._flights = self._flights or make_flights(self.scenario, SEED)
            steps = fly_steps(self._flights, params)
        return Tried(steps, all_margins(params, self.scenario.vehicle))

    def by_relay(self) -> tuple[Flat, list[str]]:
        """Keys that relay experiments and the rule ``cascade`` give, with notes.

        Raises:
            FlightError: a loop has no limit cycle.
        """
        params, _, notes = tune_by_relay(self.scenario, LOOPS, "cascade", lambda _: None)
        return flatten(params), notes

    def changed(self, flat: Mapping[str, Any]) -> Flat:
        """Keys that differ from the file's."""
        return {key: value for key, value in flat.items() if value != self.start[key]}

    def file_text(self, flat: Mapping[str, Any]) -> str:
        """An autopilot file with these keys."""
        head = f"# Made by quadsim {__version__}, quadsim ui, for {self.vehicle}."
        return "\n".join([head, *parameter_lines(asdict(self.params(flat)))]) + "\n"
