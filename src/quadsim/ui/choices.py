"""What can be chosen for a flight, and the simulation that comes of a choice."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from quadsim.api.simulation import Simulation
from quadsim.base.changes import parse_changes
from quadsim.base.errors import InputError
from quadsim.base.files import find, known
from quadsim.base.parameters import read_yaml

#: What the scenario states, in a list of choices.
AS_SCENARIO = ""
#: Wind by its name: mean speed in m/s, and the reference speed of the turbulence at 20 feet.
WINDS: dict[str, tuple[float, float] | None] = {
    "as the scenario": None,
    "calm": (0.0, 0.0),
    "breeze, 3 m/s": (3.0, 3.0),
    "fresh, 6 m/s": (6.0, 6.0),
    "strong, 9 m/s": (9.0, 9.0),
}
#: Rates by their name.
RATES = {0.25: "¼ ×", 0.5: "½ ×", 1.0: "1 ×", 2.0: "2 ×", 5.0: "5 ×", 20.0: "20 ×", math.inf: "max"}


@dataclass
class FlightSetup:
    """What is to fly.

    Attributes:
        scenario: a name in ``config/scenarios``, or the path of a file.
        vehicle, sensors, estimator, autopilot: the same; empty: as the scenario states.
        wind: of :data:`WINDS`.
        wind_to_deg: where it blows to, from north over east, degrees.
        seed: of all noise; None: the scenario's.
        keys: lines of ``KEY=VALUE``, as of ``--set``.
        gains: dotted keys of the autopilot that the gain sliders have set.
    """

    scenario: str = "square"
    vehicle: str = AS_SCENARIO
    sensors: str = AS_SCENARIO
    estimator: str = AS_SCENARIO
    autopilot: str = AS_SCENARIO
    wind: str = "as the scenario"
    wind_to_deg: float = 90.0
    seed: int | None = None
    keys: str = ""
    gains: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The choices that are not the scenario's, in a line."""
        parts = [Path(self.scenario).stem]
        parts += [Path(name).stem for name in (self.vehicle, self.sensors, self.estimator) if name]
        if WINDS[self.wind] is not None:
            parts.append(self.wind.partition(",")[0])
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        if self.gains:
            parts.append(f"{len(self.gains)} gains")
        return ", ".join([*parts, *self.keys.split()])

    def changes(self) -> dict[str, Any]:
        """Dotted keys that differ from the scenario's.

        Raises:
            InputError: a line that is not ``KEY=VALUE``.
        """
        changes: dict[str, Any] = {f"autopilot.{key}": value for key, value in self.gains.items()}
        wind = WINDS[self.wind]
        if wind is not None:
            mean_mps, gusts_mps = wind
            to_rad = math.radians(self.wind_to_deg)
            east, north = mean_mps * math.sin(to_rad), mean_mps * math.cos(to_rad)
            changes |= {
                "environment.wind_W_mps": [east, north, 0.0],
                "environment.wind": (
                    {"turbulence": "dryden", "w20_mps": gusts_mps} if gusts_mps else {}
                ),
            }
        lines = (line.strip() for line in self.keys.splitlines())
        return changes | parse_changes(line for line in lines if line)

    def simulation(self) -> Simulation:
        """The simulation, ready to fly.

        Raises:
            InputError: a file or a key is wrong.
        """
        return Simulation(
            self.scenario,
            vehicle=self.vehicle or None,
            sensors=self.sensors or None,
            estimator=self.estimator or None,
            autopilot=self.autopilot or None,
            seed=self.seed,
            changes=self.changes(),
        )


@cache
def scenarios() -> dict[str, str]:
    """Shipped scenarios of one vehicle, by name, with what they show."""
    found = {}
    for name in known("scenarios"):
        content = read_yaml(find("scenarios", name))
        if int(content.get("vehicles", 1)) == 1:
            found[name] = str(content.get("description", ""))
    return found


def description(scenario: str) -> str:
    """What a scenario shows; empty where it does not say."""
    if scenario in scenarios():
        return scenarios()[scenario]
    try:
        return str(read_yaml(find("scenarios", scenario)).get("description", ""))
    except InputError as error:
        return str(error)
