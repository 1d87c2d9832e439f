"""``quadsim rehearse``: a flight with real hardware, without the hardware."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.cli.common import (
    FlightProgress,
    exit_status,
    json_option,
    loading,
    output_option,
    print_json,
    ready_for_ros,
    run_folder,
    to_json,
)
from quadsim.cli.experiment import FILE_WIDTH, counting, draw, keep, processes_option
from quadsim.errors import InputError

if TYPE_CHECKING:
    from quadsim.sim.rehearsal.flight import Outcome

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
@click.option("--dds", is_flag=True, help="As processes on DDS, by the system's clock.")
@click.option("--composed", is_flag=True, help="--dds: all nodes but the vehicle in one process.")
@click.option("--domain", type=int, help="--dds: DDS domain.  [default: ROS_DOMAIN_ID, or 0]")
@processes_option
@output_option
@json_option
@click.pass_context
def rehearse(
    ctx: click.Context,
    scenario: str,
    count: int,
    seed: int,
    speed_mps: float | None,
    dds: bool,
    composed: bool,
    domain: int | None,
    processes: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fly a stand-in for a real vehicle among virtual obstacles, as often as wanted.

    SCENARIO is a file of config/rehearsals, or a path. The stand-in has a mass and gains of its
    own, a link with latency and loss, and an estimator that lives on motion capture; virtual lidar,
    planner and guard fly it. Obstacles are drawn from the seed. The run's folder gets summary.json
    and a picture of the flights that came nearest to an obstacle; with --dds, the very graph that
    flies a real vehicle, also a bag of each flight. Exit status: 0 what has to hold holds, 1 it
    does not, 2 bad input.
    """
    for name, given in (("--composed", composed), ("--domain", domain is not None)):
        if given and not dds:
            raise InputError(f"{name}: only with --dds")
    if dds and processes:
        raise InputError("--processes: not with --dds, which flies one at a time")
    with loading("loading"):
        from quadsim.analysis.whole_files import write_whole
        from quadsim.experiments.rehearsal_figures import picture
        from quadsim.experiments.rehearsals import run, summarize
        from quadsim.sim.rehearsal.rehearsal import load_rehearsal

        first = load_rehearsal(scenario, seed, speed_mps)
    folder = run_folder(f"rehearse-{first.name}", output)
    seeds = range(seed, seed + count)
    begin_s = time.perf_counter()
    if dds:
        flown = _fly_on_dds(scenario, seeds, speed_mps, folder / "flights", domain, composed)
        outcomes = [outcome for outcome, _ in flown]
    else:
        with counting(first.name) as tell:
            outcomes = run(scenario, seeds, speed_mps, processes, tell)
    wall_s = time.perf_counter() - begin_s
    summary = summarize(first.name, outcomes, first.params.passes)
    if dds:
        for row, (_, latency_ms) in zip(summary["runs"], flown, strict=True):
            row["latency_ms"] = latency_ms
    figure = picture(scenario, outcomes, speed_mps)
    pictures = {first.name: (figure, int(figure.layout.height))}
    width_px = int(figure.layout.width)
    if dds:  # the bags are there already
        drawn = [folder / name for name in draw(pictures, width_px, folder)]
        summary |= {"wall_s": wall_s, "pictures": drawn}
        write_whole(folder / "summary.json", to_json(summary) + "\n")
    else:
        summary = keep(folder, summary, wall_s, pictures, width_px)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
        click.echo(f"folder: {folder}")
    ctx.exit(exit_status(summary["passed"]))


def _fly_on_dds(
    name: str,
    seeds: range,
    speed_mps: float | None,
    folder: Path,
    domain: int | None,
    composed: bool,
) -> list[tuple[Outcome, dict[str, float]]]:
    """Fly seeds one after the other, each with a folder of its own; outcomes and latencies."""
    ready_for_ros()
    from quadsim.nodes.domain import chosen_domain, held
    from quadsim.nodes.supervisor import Interrupted

    domain = chosen_domain(domain)
    flown = []
    with held(domain):
        from quadsim.nodes.processes import prepare
        from quadsim.nodes.rehearsing import rehearse_on_dds

        prepare()
        for seed in seeds:
            label = f"{name}, seed {seed}"
            with FlightProgress(label, None) as progress:

                def tell(t_s: float, state: str, progress: FlightProgress = progress) -> None:
                    progress.update(t_s, state=state)

                place = folder / f"seed_{seed}"
                try:
                    flown.append(
                        rehearse_on_dds(name, seed, speed_mps, place, domain, composed, tell)
                    )
                except Interrupted:
                    raise KeyboardInterrupt from None
    return flown


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
