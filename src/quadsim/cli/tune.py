"""``quadsim tune``: gains for a vehicle, by relay experiments or by a search over flown steps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from quadsim.cli.common import (
    exit_status,
    json_option,
    loading,
    one_line,
    output_option,
    print_json,
    run_folder,
    say,
    staged,
    to_json,
)
from quadsim.cli.experiment import write_figures

#: Width of tables that go to a file or a pipe.
FILE_WIDTH = 130


@click.command()
@click.option(
    "--vehicle",
    default="x500",
    show_default=True,
    help="A vehicle of config/vehicles, or a file.",
)
@click.option(
    "--sensors",
    default="default",
    show_default=True,
    help="A sensor suite of config/sensors, or a file.",
)
@click.option(
    "--autopilot",
    default="default",
    show_default=True,
    help="Gains to start from, of config/autopilots, or a file.",
)
@click.option(
    "--loops",
    multiple=True,
    metavar="NAME",
    help="rate, yaw_rate, tilt, velocity, position, climb, height or yaw (may be repeated).  "
    "[default: all]",
)
@click.option(
    "--method",
    type=click.Choice(["relay", "optimise"]),
    default="relay",
    show_default=True,
    help="Relay experiments and a rule; or a search over flown steps on top of them.",
)
@click.option(
    "--rule",
    type=click.Choice(["cascade", "tyreus-luyben", "ziegler-nichols"]),
    default="cascade",
    show_default=True,
    help="From ultimate gain and period to gains.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(5, 10_000),
    default=60,
    show_default=True,
    help="optimise: flights of each group of loops.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Seed of all noise and wind.",
)
@click.option(
    "--processes",
    type=click.IntRange(0, 1024),
    default=0,
    help="optimise: at once.  [default: one for each core]",
)
@output_option
@json_option
@click.pass_context
def tune(
    ctx: click.Context,
    vehicle: str,
    sensors: str,
    autopilot: str,
    loops: tuple[str, ...],
    method: str,
    rule: str,
    evaluations: int,
    seed: int,
    processes: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the gains of a multirotor's control loops, from the inside out.

    The run's folder gets autopilot.yaml, summary.json and a picture of steps before and after.
    Exit status: 0 the new gains fly at least as well and every loop has 45 degrees and a factor of
    3 of margin, 1 not (the file is written all the same), 2 bad input.
    """
    folder = run_folder(f"tune-{Path(vehicle).stem}", output)
    with loading("loading"):
        from quadsim.base.whole_files import write_whole
        from quadsim.lab.tune.tuned import autopilot_text, tuning_picture
        from quadsim.lab.tune.tuning import chosen_loops, load_vehicle
        from quadsim.lab.tune.tuning import tune_loops as find_gains

        chosen_loops(loops)
        scenario = load_vehicle(vehicle, sensors, autopilot, seed)
    begin_s = time.perf_counter()
    found = find_gains(scenario, method, rule, loops, seed, evaluations, processes, say)
    wall_s = time.perf_counter() - begin_s
    with staged(folder) as scratch:
        write_whole(scratch / "autopilot.yaml", autopilot_text(found))
        (drawn,) = write_figures({"steps": tuning_picture(found)}, scratch)
        summary = found.summary() | {
            "wall_s": wall_s,
            "file": folder / "autopilot.yaml",
            "picture": folder / drawn,
        }
        write_whole(scratch / "summary.json", to_json(summary) + "\n")
    if as_json:
        print_json(summary)
    else:
        _show(summary)
        click.echo(f"file: {folder / 'autopilot.yaml'}")
    ctx.exit(exit_status(summary["passed"]))


#: Columns of the table of steps: key, title, factor to the unit shown.
_STEPS = (
    ("rise_s", "rise, s", 1.0),
    ("overshoot", "overshoot, %", 100.0),
    ("settling_s", "settling, s", 1.0),
    ("steady_error", "steady error", 1.0),
)


def _pair(before: Any, after: Any, key: str, factor: float = 1.0) -> str:
    """Two figures, before and after."""
    words = []
    for figures in (before, after):
        value = None if figures is None else figures[key]
        words.append("-" if value is None else f"{factor * value:.3g}")
    return " → ".join(words)


def _show(summary: dict[str, Any]) -> None:
    """Tables: loops with their margins, and the steps."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from quadsim.cli.show import verdict

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    table = Table("loop", "ultimate gain", "period, s", "crossover, rad/s", "phase, deg", "gain")
    for name, margins in summary["margins"].items():
        relay = summary["relay"].get(name)
        pairs = (_pair(margins["before"], margins["after"], key)
                 for key in ("crossover_radps", "phase_deg", "gain"))  # fmt: skip
        table.add_row(
            name,
            "-" if relay is None else f"{relay['ultimate_gain']:.4g}",
            "-" if relay is None else f"{relay['ultimate_period_s']:.3g}",
            *pairs,
        )
    console.print(table)
    table = Table("step", *(title for _, title, _ in _STEPS))
    for row in summary["steps"]:
        name = row["axis"] + (" in wind" if row["wind"] else "")
        table.add_row(
            name, *(_pair(row["before"], row["after"], key, scale) for key, _, scale in _STEPS)
        )
    console.print(table)
    for note in summary["notes"]:
        console.print(Text(one_line(note), "yellow"), soft_wrap=True)
    cost = summary["cost"]
    words = f"tune: cost {cost['before']:.4g} → {cost['after']:.4g}, {summary['wall_s']:.0f} s: "
    console.print(Text(words) + verdict(summary["passed"]))
