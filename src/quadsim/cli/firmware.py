"""``quadsim firmware``: a scenario flown by Betaflight, ArduPilot or PX4."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quadsim.base.options import argument, option
from quadsim.cli.common import loading
from quadsim.cli.options import Changes, Duration, command
from quadsim.cli.sim import FlightOptions, fly_and_report
from quadsim.ros.graph.options import SCENARIO_SAYS, Auto, FirmwareRate, ScenarioOptions


@dataclass(frozen=True)
class FirmwareOptions:
    """Options of ``quadsim firmware``."""

    firmware: str = argument("betaflight|ardupilot|px4")
    scenario: ScenarioOptions = field(default_factory=ScenarioOptions)
    duration_s: Duration = None
    changes: Changes = ()
    count: int | None = option(None, "vehicles in one world", ge=1, le=100, unset=SCENARIO_SAYS)
    executable: Path | None = option(
        None, "the firmware's own program for simulation", path="file", unset="it runs already"
    )
    parameters: Path | None = option(
        None,
        "a file of the firmware's parameters",
        path="file",
        unset="that of config/firmware for the vehicle, if there is one",
    )
    rate: FirmwareRate = 1.0
    port: str = option(
        "",
        "of a board: a serial port, or udp:[ADDRESS:]PORT",
        metavar="NAME",
        unset="an executable's",
    )
    auto: Auto = False
    flight: FlightOptions = field(default_factory=FlightOptions)


def _of_tracking(criterion: Any) -> bool:
    return str(getattr(criterion, "value", "")).startswith("tracking.")


@command(FirmwareOptions)
def firmware(options: FirmwareOptions) -> int:
    """Fly a scenario by other people's firmware.

    The firmware takes the place of estimator, autopilot and mixer. Vehicle, world, sensors, faults,
    criteria and report are ours. docs/firmware.md has how to build each. Exit status: 0 passed, 1
    failed a criterion or the firmware broke off, 2 bad input.
    """
    with loading("loading"):
        from quadsim.base.changes import parse_changes
        from quadsim.firmware.fly import BOOT_S, flown_by

        name = options.firmware
        others = {"duration_s": options.duration_s, "vehicles": options.count}
        loaded = options.scenario.load(parse_changes(options.changes), **others)
        flown = flown_by(
            name, loaded, options.executable or "", options.parameters or "", options.port,
            options.rate, options.auto,
        )  # fmt: skip
        if options.duration_s is None:
            duration_s = loaded.file.duration_s + BOOT_S[name]
            loaded = replace(loaded, file=replace(loaded.file, duration_s=duration_s))
        if options.auto:  # it never hears of our reference
            stored = (item for item in loaded.criteria if not _of_tracking(item))
            loaded = replace(loaded, criteria=tuple(stored))

    def tell(summary: dict[str, Any]) -> None:
        summary["firmware"] = {
            "name": name,
            "parameters": flown.parameters,
            "packets": flown.counts(),
        }

    try:
        return fly_and_report(loaded, options.flight, flown, tell)
    finally:
        flown.close()
