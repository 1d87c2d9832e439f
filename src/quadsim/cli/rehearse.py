"""``quadsim rehearse``: a flight with real hardware, without the hardware."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.options import argument, option
from quadsim.cli.common import counting, finish, loading, run_folder
from quadsim.cli.experiment import store_run
from quadsim.cli.options import AsJson, Domain, Processes, RunFolder, command
from quadsim.cli.rehearse_dds import fly_on_dds, take_bags, with_dds
from quadsim.ros.graph.options import FirmwareSource

#: So many flights are shown one by one.
MOST_ROWS = 20


@dataclass(frozen=True)
class RehearseOptions:
    """Options of ``quadsim rehearse``."""

    scenario: str = argument()
    count: int = option(1, "flights, with the seeds from --seed on", ge=1, le=100_000)
    seed: int = option(1, "seed of obstacles, vehicle and noise of the first flight", ge=0)
    speed_mps: float | None = option(
        None, "limit of speed", "m/s", flags="--speed", unset="the file's"
    )
    firmware: FirmwareSource = field(default_factory=FirmwareSource)
    processes: Processes = 0
    dds: bool = option(
        False,
        "fly in real time by the graph of a real vehicle, against a stand-in behind its driver",
    )
    composed: bool = option(False, "with --dds: that graph in one process")
    domain: Domain = None
    output: RunFolder = None
    as_json: AsJson = False


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

        firmware = options.firmware.choice
        first = load_rehearsal(scenario, options.seed, speed_mps, firmware)
        if options.dds:
            refuse_on_dds(first)
    folder = run_folder(f"rehearse-{first.name}", options.output)
    begin_s = time.perf_counter()
    with counting(first.name) as tell:
        seeds = range(options.seed, options.seed + options.count)
        if options.dds:
            outcomes, measured, flights = fly_on_dds(
                scenario, seeds, speed_mps, folder, options.domain, options.composed, tell, firmware
            )
        else:
            outcomes = run_rehearsal(scenario, seeds, speed_mps, options.processes, tell, firmware)
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
    titles = ("seed", "taken away", "at, m/s", "stood after, m", "of, m", "s", "landing, s")
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
