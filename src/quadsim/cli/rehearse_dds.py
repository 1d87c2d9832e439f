"""``quadsim rehearse --dds``: the same flights by the graph of a real vehicle, in real time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.errors import FlightError, InputError
from quadsim.cli.common import INTERRUPTED, loading, ready_for_ros, say

if TYPE_CHECKING:
    from quadsim.firmware.fly import FirmwareChoice
    from quadsim.hil.rehearsal.flight import Outcome

#: Outcomes, what else was measured of each, and the folder that has the bags until they are kept.
Flown = tuple[list["Outcome"], list[dict[str, float]], Path]


def fly_on_dds(
    scenario: str,
    seeds: Sequence[int],
    speed_mps: float | None,
    folder: Path,
    domain: int | None,
    composed: bool,
    tell: Callable[[int, int], None],
    firmware: FirmwareChoice | None = None,
) -> Flown:
    """Fly seeds of a rehearsal on DDS, one after the other.

    Args:
        scenario: a file of ``config/rehearsals``, or its path.
        seeds: of the flights.
        speed_mps: limit of speed instead of the file's.
        folder: of the run; bags lie beside it until :func:`take_bags`.
        domain: DDS domain; None: ROS_DOMAIN_ID's.
        composed: all nodes but the stand-in in one process.
        tell: is told flights done, and of how many.
        firmware: flies the stand-in instead of our autopilot.

    Raises:
        InputError: ROS is not installed, the domain is somebody else's, or bags of another run lie
            there.
        FlightError: a flight could not be flown to its end; where its bag is.
        Exit: by a signal.
    """
    ready_for_ros()
    from quadsim.ros.runtime.domain import chosen_domain, held

    flights = flights_of(folder)
    outcomes, measured = [], []
    with held(chosen_domain(domain)):
        with loading("starting the nodes"):
            from quadsim.ros.graph.hil_graph import NODES
            from quadsim.ros.runtime.processes import prepare

            prepare(*NODES)
            from quadsim.ros.graph.dds_rehearsal import rehearse_on_dds
            from quadsim.ros.graph.supervisor import Interrupted
        for done, seed in enumerate(seeds):
            tell(done, len(seeds))
            try:
                outcome, latency = rehearse_on_dds(
                    scenario, seed, speed_mps, flights / f"seed-{seed}", chosen_domain(domain),
                    composed, firmware=firmware,
                )  # fmt: skip
            except FlightError as error:
                raise FlightError(f"seed {seed}: {error} (bags: {flights})") from None
            except Interrupted:
                say(f"interrupted (bags: {flights})")
                raise click.exceptions.Exit(INTERRUPTED) from None
            outcomes.append(outcome)
            measured.append(latency)
            words = f"seed {seed}: {outcome.reason}, nearest {outcome.clearance_m:.2f} m"
            say(f"{words}, {outcome.time_s:.1f} s")
    return outcomes, measured, flights


def flights_of(folder: Path) -> Path:
    """Where the bags lie until the run's folder is there.

    Raises:
        InputError: those of a run that failed are there.
    """
    flights = folder.with_name(f".{folder.name}.flights")
    if flights.exists():
        raise InputError(
            f"{flights}: bags of a run that did not end well; remove them, or name another --output"
        )
    return flights


def take_bags(flights: Path, folder: Path) -> None:
    """Move what was flown into the run's folder."""
    for path in sorted(flights.iterdir()):
        shutil.move(path, folder / path.name)
    flights.rmdir()


def with_dds(
    summary: dict[str, Any], measured: Sequence[dict[str, float]], folder: Path
) -> dict[str, Any]:
    """A rehearsal's summary with what DDS adds: bags, and how long commands took."""
    runs = [
        row | {"latency": latency, "bag": str(folder / f"seed-{row['seed']}" / "bag")}
        for row, latency in zip(summary["runs"], measured, strict=True)
    ]
    worst = {
        key: max(latency.get(key, float("nan")) for latency in measured)
        for key in ("driver_ms", "driver_99_ms")
    }
    return summary | {"runs": runs, "latency": worst}
