"""``quadsim rehearse``: a flight with real hardware, without the hardware."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from quadsim.base.errors import InputError
from quadsim.cli.common import (
    exit_status,
    json_option,
    loading,
    output_option,
    print_json,
    run_folder,
)
from quadsim.cli.counting import counting, processes_option
from quadsim.cli.experiment import FILE_WIDTH, keep
from quadsim.cli.rehearse_dds import fly_on_dds, take_bags, with_dds

#: So many flights are shown one by one.
MOST_ROWS = 20


@click.command()
@click.argument("scenario")
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Flights, with the seeds from --seed on.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of obstacles, vehicle and noise of the first flight.",
)
@click.option(
    "--speed", "speed_mps", type=float, help="Limit of speed, m/s.  [default: the file's]"
)
@processes_option
@click.option(
    "--dds",
    is_flag=True,
    help="Fly in real time by the graph of a real vehicle, against a stand-in behind its driver.",
)
@click.option("--composed", is_flag=True, help="With --dds: that graph in one process.")
@click.option("--domain", type=int, help="DDS domain, 0 to 232.  [default: ROS_DOMAIN_ID, or 0]")
@output_option
@json_option
@click.pass_context
def rehearse(
    ctx: click.Context,
    scenario: str,
    count: int,
    seed: int,
    speed_mps: float | None,
    processes: int,
    dds: bool,
    composed: bool,
    domain: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fly a stand-in for a real vehicle among virtual obstacles, as often as wanted.

    SCENARIO is a file of config/rehearsals, or a path. The stand-in has a mass and gains of its
    own, a link with latency and loss, and an estimator that lives on motion capture; virtual lidar,
    planner and guard fly it. Obstacles are drawn from the seed. The run's folder gets summary.json
    and a picture of the flights that came nearest to an obstacle. Exit status: 0 what has to hold
    holds, 1 it does not, 2 bad input.
    """
    if not dds and (composed or domain is not None):
        raise InputError("--composed, --domain: only with --dds")
    if dds and processes:
        raise InputError("--processes: not with --dds, which flies one at a time")
    with loading("loading"):
        from quadsim.hil.rehearsal.rehearsal import load_rehearsal, refuse_on_dds
        from quadsim.lab.rehearsals import (
            flights_to_draw,
            rehearsal_picture,
            rehearsal_summary,
            run_rehearsal,
        )

        first = load_rehearsal(scenario, seed, speed_mps)
        if dds:
            refuse_on_dds(first)
    folder = run_folder(f"rehearse-{first.name}", output)
    begin_s = time.perf_counter()
    with counting(first.name) as tell:
        seeds = range(seed, seed + count)
        if dds:
            flown = fly_on_dds(scenario, seeds, speed_mps, folder, domain, composed, tell)
            outcomes, measured, flights = flown
        else:
            outcomes = run_rehearsal(scenario, seeds, speed_mps, processes, tell)
    wall_s = time.perf_counter() - begin_s
    figure = rehearsal_picture(
        [(scenario, outcome) for outcome in flights_to_draw(outcomes)], speed_mps
    )
    summary = rehearsal_summary(first.name, outcomes, first.params.passes)
    if dds:
        summary = with_dds(summary, measured, folder)
    summary = keep(folder, summary, wall_s, {first.name: figure})
    if dds:
        take_bags(flights, folder)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
        click.echo(f"folder: {folder}")
    ctx.exit(exit_status(summary["passed"]))


def _show(summary: dict[str, Any]) -> None:
    """The flights, or those that matter, and what had to hold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from quadsim.cli.show import number, verdict

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    runs = summary["runs"]
    if len(runs) > MOST_ROWS:
        runs = sorted(runs, key=lambda row: (row["arrived"], row["clearance_m"]))[:MOST_ROWS]
        console.print(f"the {MOST_ROWS} of {summary['flights']} flights that matter most:")
    table = Table("seed", "end", "nearest, m", "time, s", "way, m", "fastest, m/s")
    for row in runs:
        table.add_row(
            str(row["seed"]), row["reason"], number(row["clearance_m"], 3),
            f"{row['time_s']:.1f}", f"{row['way_m']:.1f}", f"{row['speed_mps']:.2f}",
        )  # fmt: skip
    console.print(table)
    stops = [(row["seed"], stop) for row in runs for stop in row["stops"]]
    if stops:
        table = Table("seed", "taken away", "at, m/s", "stood after, m", "of, m", "s", "landing, s")
        for seed, stop in stops:
            table.add_row(
                str(seed), stop["what"], f"{stop['speed_mps']:.2f}", f"{stop['stop_m']:.2f}",
                f"{stop['allowed_m']:.2f}", f"{stop['stop_s']:.2f}", f"{stop['landing_s']:.2f}",
            )  # fmt: skip
        console.print(table)
    table = Table("over all flights", "reached", "limit", "")
    for item in summary["criteria"]:
        limit = (
            f"≥ {number(item['least'])}" if item["limit"] is None else f"≤ {number(item['limit'])}"
        )
        table.add_row(item["name"], number(item["value"]), limit, verdict(item["passed"]))
    console.print(table)
    words = (
        f"{summary['scenario']}: {summary['arrivals']} of {summary['flights']} arrived,"
        f" {summary['collisions']} collided, nearest {summary['clearance_m']:.2f} m: "
    )
    console.print(Text(words) + verdict(summary["passed"]))
