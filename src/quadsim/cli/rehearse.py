"""``quadsim rehearse``: a flight with real hardware, without the hardware."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.errors import FlightError, InputError
from quadsim.base.options import argument, option
from quadsim.cli.common import (
    INTERRUPTED,
    counting,
    finish,
    loading,
    ready_for_ros,
    run_folder,
    say,
)
from quadsim.cli.experiment import store_run
from quadsim.cli.options import Domain, Printed, Processes, RunFolder, command
from quadsim.ros.graph.options import FirmwareRate, FirmwareSource

if TYPE_CHECKING:
    from quadsim.firmware.fly import FirmwareChoice
    from quadsim.hil.rehearsal.flight import Outcome
    from quadsim.hil.rehearsal.rehearsal import Rehearsal

#: So many flights are shown one by one.
MOST_ROWS = 20


@dataclass(frozen=True)
class RehearseOptions(Printed):
    """Options of ``quadsim rehearse``."""

    scenario: str = argument()
    count: int = option(1, "flights, with the seeds from --seed on", ge=1, le=100_000)
    seed: int = option(1, "seed of obstacles, vehicle and noise of the first flight", ge=0)
    speed_mps: float | None = option(
        None, "limit of speed", "m/s", flags="--speed", unset="the file's"
    )
    sensors: str | None = option(
        None,
        "suite whose depth camera the computer sees by (depth), instead of a level lidar",
        unset="the file's",
    )
    firmware: FirmwareSource = field(default_factory=FirmwareSource)
    rate: FirmwareRate = 1.0
    processes: Processes = 0
    dds: bool = option(
        False,
        "fly in real time by the graph of a real vehicle, against a stand-in behind its driver",
    )
    composed: bool = option(False, "with --dds: that graph in one process")
    domain: Domain = None
    output: RunFolder = None


@command(RehearseOptions)
def rehearse(options: RehearseOptions) -> int:
    """Fly a stand-in for a real vehicle among virtual obstacles, as often as wanted.

    SCENARIO is a file of config/rehearsals, or a path. The stand-in has a mass and gains of its
    own, a link with latency and loss, and an estimator that lives on motion capture; virtual lidar,
    planner and guard fly it. With --firmware it flies by other people's autopilot. Obstacles are
    drawn from the seed. The run's folder gets summary.json and a picture of the flights that came
    nearest to an obstacle. Exit status: 0 what has to hold holds, 1 it does not, 2 bad input.
    """
    if not options.dds and (options.composed or options.domain is not None):
        raise InputError("--composed, --domain: only with --dds")
    if options.dds and options.processes:
        raise InputError("--processes: not with --dds, which flies one at a time")
    scenario, speed_mps = options.scenario, options.speed_mps
    with loading("loading"):
        from quadsim.hil.rehearsal.rehearsal import load_rehearsal, refuse_on_dds
        from quadsim.lab.rehearsals import (
            flights_to_draw,
            rehearsal_picture,
            rehearsal_summary,
            run_rehearsal,
        )

        firmware = _firmware(options)
        load = partial(
            load_rehearsal,
            scenario,
            speed_mps=speed_mps,
            firmware=firmware,
            sensors=options.sensors,
        )
        first = load(options.seed)
        if options.dds:
            refuse_on_dds(first)
    folder = run_folder(f"rehearse-{first.name}", options.output)
    begin_s = time.perf_counter()
    with counting(first.name) as tell:
        seeds = range(options.seed, options.seed + options.count)
        if options.dds:
            outcomes, measured, flights = fly_on_dds(
                load, seeds, folder, options.domain, options.composed, tell
            )
        else:
            outcomes = run_rehearsal(
                scenario, seeds, speed_mps, options.processes, tell, firmware, options.sensors
            )
    wall_s = time.perf_counter() - begin_s
    figure = rehearsal_picture(
        [(scenario, outcome) for outcome in flights_to_draw(outcomes)], speed_mps
    )
    summary = rehearsal_summary(first.name, outcomes, first.params.passes)
    if options.dds:
        summary = with_dds(summary, measured, folder)
    summary = store_run(folder, summary, wall_s, {first.name: figure})
    if options.dds:
        take_bags(flights, folder)
    return finish(summary, options.as_json, _show, f"folder: {folder}")


def _firmware(options: RehearseOptions) -> FirmwareChoice | None:
    """What flies the stand-in; None: our autopilot."""
    firmware = options.firmware.choice
    if options.rate != 1.0 and (firmware is None or options.dds):
        raise InputError("--rate: only with --firmware, and not with --dds, which is in real time")
    return None if firmware is None else replace(firmware, rate=options.rate)


def _show(summary: dict[str, Any]) -> None:
    """The flights, or those that matter, and what had to hold."""
    from rich.text import Text

    from quadsim.cli.show import number, print_table, tables, verdict

    console = tables()
    runs = summary["runs"]
    if len(runs) > MOST_ROWS:
        runs = sorted(runs, key=lambda row: (row["arrived"], row["clearance_m"]))[:MOST_ROWS]
        console.print(f"the {MOST_ROWS} of {summary['flights']} flights that matter most:")
    flights = (
        (
            str(row["seed"]), row["reason"], number(row["clearance_m"], 3),
            f"{row['time_s']:.1f}", f"{row['way_m']:.1f}", f"{row['speed_mps']:.2f}",
        )
        for row in runs
    )  # fmt: skip
    print_table(
        console, ("seed", "end", "nearest, m", "time, s", "way, m", "fastest, m/s"), flights
    )
    keys = ("speed_mps", "stop_m", "allowed_m", "stop_s", "landing_s")
    stops = (
        (str(row["seed"]), stop["what"], *(f"{stop[key]:.2f}" for key in keys))
        for row in runs
        for stop in row["stops"]
    )
    titles = ("seed", "removed", "at, m/s", "stood after, m", "of, m", "s", "landing, s")
    print_table(console, titles, stops)
    criteria = (
        (
            item["name"], number(item["value"]),
            f"≥ {number(item['least'])}" if item["limit"] is None else f"≤ {number(item['limit'])}",
            verdict(item["passed"]),
        )
        for item in summary["criteria"]
    )  # fmt: skip
    print_table(console, ("over all flights", "reached", "limit", ""), criteria)
    words = (
        f"{summary['scenario']}: {summary['arrivals']} of {summary['flights']} arrived,"
        f" {summary['collisions']} collided, nearest {summary['clearance_m']:.2f} m: "
    )
    console.print(Text(words) + verdict(summary["passed"]))


# ---- on DDS: the same flights by the graph of a real vehicle, in real time -----------------------

#: Outcomes, what else was measured of each, and the folder that has the bags until they are stored.
Flown = tuple[list["Outcome"], list[dict[str, float]], Path]


def fly_on_dds(
    load: Callable[[int], Rehearsal],
    seeds: Sequence[int],
    folder: Path,
    domain: int | None,
    composed: bool,
    tell: Callable[[int, int], None],
) -> Flown:
    """Fly seeds of a rehearsal on DDS, one after the other.

    Args:
        load: reads the rehearsal of a seed.
        folder: of the run; bags lie next to it until :func:`take_bags`.
        domain: DDS domain; None: ROS_DOMAIN_ID's.
        composed: all nodes but the stand-in in one process.
        tell: is told flights done, and of how many.

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
                    load(seed), flights / f"seed-{seed}", chosen_domain(domain), composed
                )
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
