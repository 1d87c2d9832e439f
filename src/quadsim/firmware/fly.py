"""A flight of a scenario by firmware."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quadsim.base.errors import InputError
from quadsim.base.files import share_dir
from quadsim.firmware.bridge import Bridge, Craft, Firmware
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import Scenario
from quadsim.sim.vehicles import Vehicles

#: What can fly, and how long each takes on the ground until it can arm, s.
BOOT_S = {"betaflight": 8.0, "ardupilot": 45.0, "px4": 20.0}
FIRMWARE = tuple(BOOT_S)


def make_firmware(
    name: str,
    executable: Path | None,
    parameters: Path | None,
    port: str = "",
    rate: float = 1.0,
    auto: bool = False,
) -> Firmware:
    """A firmware by its name, not started yet."""
    from quadsim.firmware.ardupilot import ArduPilot
    from quadsim.firmware.betaflight import Betaflight
    from quadsim.firmware.px4 import Px4

    if port and name != "px4":
        raise InputError(f"--port: of a board with PX4; {name} has ports of its own")
    if auto and name != "ardupilot":
        raise InputError(f"--auto: of ardupilot; {name} is sent setpoints")
    if name == "px4":
        return Px4(executable, parameters, port, rate)
    if name == "ardupilot":
        return ArduPilot(executable, parameters, auto)
    return Betaflight(executable, parameters, rate)


def found_parameters(name: str, scenario: Scenario) -> Path | None:
    """The file of ``config/firmware`` for a scenario's vehicle and sensors, or for the vehicle."""
    vehicle, sensors = Path(scenario.file.vehicle).stem, scenario.file.sensors
    for stem in (f"{vehicle}_{sensors}", vehicle):
        path = share_dir() / "config/firmware" / f"{name}_{stem}.txt"
        if path.is_file():
            return path
    return None


@dataclass(frozen=True)
class FirmwareChoice:
    """Which firmware flies, as a user names it: paths and port, or empty; see :func:`flown_by`."""

    name: str
    executable: str = ""
    parameters: str = ""
    port: str = ""
    rate: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a name that is none."""
        if self.name not in FIRMWARE:
            raise InputError(f"firmware {self.name!r}; known: {', '.join(FIRMWARE)}")


class Flown:
    """Makes the loops of a scenario's vehicles, each flown by firmware; see ``Make`` of the swarm.

    Args:
        parameters: the file of its parameters, for the summary.
    """

    def __init__(self, start: Callable[[], Firmware], parameters: Path | None = None) -> None:
        self._start, self.parameters = start, parameters
        self.firmware: list[Firmware] = []
        self._crafts: list[Craft] = []

    def __call__(
        self, scenario: Scenario, vehicle: str, vehicles: Vehicles, index: int
    ) -> RecordedLoop:
        """The loop of one vehicle; what it keeps is what a bag wants."""
        loop = RecordedLoop(scenario, vehicle, vehicles, index)
        self.attach(loop, vehicles, index)
        return loop

    def plain(self, scenario: Scenario, vehicle: str, vehicles: Vehicles, index: int) -> ClosedLoop:
        """The loop of one vehicle, of which no more is stored than of any."""
        loop = ClosedLoop(scenario, vehicle=vehicle, vehicles=vehicles, index=index)
        self.attach(loop, vehicles, index)
        return loop

    def attach(self, loop: ClosedLoop, vehicles: Vehicles, index: int) -> Craft:
        """Let firmware fly a vehicle; what it is connected to."""
        firmware = self._start()
        self.firmware.append(firmware)
        craft = Bridge(loop, vehicles, index, firmware).craft
        self._crafts.append(craft)
        return craft

    def counts(self) -> list[dict[str, int]]:
        """Packets of each firmware, and what came to its ports from others (``strays``)."""
        pairs = zip(self.firmware, self._crafts, strict=False)
        return [{**firmware.counts(), "strays": craft.strays.count} for firmware, craft in pairs]

    def close(self) -> None:
        """End all."""
        for firmware in self.firmware:
            firmware.close()


def flown_by(
    name: str,
    scenario: Scenario,
    executable: str | Path = "",
    parameters: str | Path = "",
    port: str = "",
    rate: float = 1.0,
    auto: bool = False,
) -> Flown:
    """What flies a scenario by a firmware.

    Args:
        executable, parameters: paths, or empty; as of :func:`make_firmware`.
        port: of a board, or empty.
        rate: simulated over wall time, where the firmware keeps its own clock.
        auto: the firmware flies the mission itself.

    Raises:
        InputError: an unknown name, or a file that is not there.
    """
    if name not in FIRMWARE:
        raise InputError(f"firmware {name!r}; known: {', '.join(FIRMWARE)}")
    for path in (executable, parameters):
        if path and not Path(path).is_file():
            raise InputError(f"{path}: there is no such file")
    program = Path(executable) if executable else None
    settings = Path(parameters) if parameters else found_parameters(name, scenario)
    return Flown(lambda: make_firmware(name, program, settings, port, rate, auto), settings)
