"""``quadsim bench``: how fast everything is on this machine."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.kernel_folder import is_filled
from quadsim.cli.common import exit_status, one_line, print_json, say

if TYPE_CHECKING:
    from quadsim_bench.figure import Measurement

#: Width of a table that goes into a file.
FILE_WIDTH = 132
#: How often --check measures again what missed. Others on the machine slow one piece of work more
#: than another for seconds; a slower program misses every time.
RETRIES = 2


@click.command()
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="A figure or a measurement, or how it begins, as graph (may be repeated).  [default: all]",
)
@click.option("--short", is_flag=True, help="A look: what takes seconds, with less work a round.")
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Rounds, of which medians are taken.",
)
@click.option(
    "--peers",
    type=click.Path(path_type=Path, exists=True),
    help="A venv, or its Python, with other simulators to measure in turn (docs/performance.md).",
)
@click.option(
    "--check",
    is_flag=True,
    help="Judge only the ratios that the repository keeps: none may be 1.75 times as bad.",
)
@click.option("--keep", is_flag=True, help="Measure those ratios and write them there.")
@click.option("--list", "listed", is_flag=True, help="Name the figures, and measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.pass_context
def bench(
    ctx: click.Context,
    only: tuple[str, ...],
    short: bool,
    repeat: int,
    peers: Path | None,
    check: bool,
    keep: bool,
    listed: bool,
    as_json: bool,
) -> None:
    """Measure how fast everything is, against the targets.

    What cannot be measured here (no ROS, no peers) is named with what to install. Exit status: 0
    every target met, 1 one missed or a measurement that went wrong, 2 bad input.
    """
    if check and keep:
        raise click.UsageError("--check and --keep: one of them")
    from quadsim_bench.figure import Session
    from quadsim_bench.kept import judged, kept_file, read_kept, write_kept
    from quadsim_bench.machine import load, surroundings
    from quadsim_bench.peers import python_of
    from quadsim_bench.rounds import all_measurements, chosen, measure

    if peers is not None:
        peers = python_of(peers.absolute())
    wanted = chosen(all_measurements(), only, short, kept=check or keep)
    if check:
        wanted = judged(wanted, read_kept(kept_file()))
    if listed:
        _list(wanted, as_json)
        return
    if not is_filled():
        say("kernels that are not compiled yet are compiled first, which takes a minute or two")
    result = surroundings() | {"repeat": repeat, "short": short}
    begin_s = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="quadsim-bench-") as folder,
        _progress(repeat * len(wanted)) as tell,
    ):
        session = Session(Path(folder), short, peers, say)
        outcome = measure(wanted, session, repeat, tell)
        if check:
            outcome.need(wanted)
            for _ in range(RETRIES if outcome.figures else 0):
                if not outcome.passed:
                    say("measuring what missed again: others' work may have slowed it")
                    outcome.retry(wanted, session)
    if keep:
        write_kept(kept_file(), outcome.figures, result)
    result |= {
        "load_after": load(),
        "wall_s": round(time.perf_counter() - begin_s, 1),
        "figures": [figure.summary() for figure in outcome.figures],
        "absent": outcome.absent,
        "failed": outcome.failed,
        "details": outcome.details,
        "passed": outcome.passed,
    }
    if as_json:
        print_json(result)
    else:
        _show(result)
    ctx.exit(exit_status(outcome.passed))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A line that renews itself on a terminal, else one line for each round; on stderr."""
    if not sys.stderr.isatty():
        yield lambda name, done: say(f"{name} ({done + 1} of {total})")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name, done: bar.update(task, description=name, completed=done)


def _list(wanted: list[Measurement], as_json: bool) -> None:
    """Names, units and targets of what would be measured."""
    from quadsim.cli.show import number

    rows = [line.summary() | {"measurement": each.name} for each in wanted for line in each.lines]
    if as_json:
        print_json(rows)
        return
    _table(
        ("figure", "measurement", "unit", "target", "what"),
        [
            (row["name"], row["measurement"], row["unit"], _limit(row, number), row["what"])
            for row in rows
        ],
    )


def _limit(row: dict[str, Any], number: Callable[[float | None], str]) -> str:
    """A target as it is read: at least, at most."""
    if row["target"] is None:
        return ""
    return f"{'≥' if row['better'] == 'more' else '≤'} {number(row['target'])}"


def _table(titles: tuple[str, ...], rows: list[Any]) -> None:
    """A table on stdout."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    table = Table(*titles)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _show(result: dict[str, Any]) -> None:
    """The figures, and what is missing, for people."""
    from rich.console import Console
    from rich.text import Text

    from quadsim.cli.show import number, verdict

    _table(
        ("figure", "median", "unit", "target", "", "samples"),
        [
            (
                row["name"],
                number(row["value"]),
                row["unit"],
                _limit(row, number),
                "" if row["passed"] is None else verdict(row["passed"]),
                " ".join(number(value, 3) for value in row["samples"]),
            )
            for row in result["figures"]
        ],
    )
    console = Console(highlight=False)
    for name, why in result["absent"].items():
        console.print(Text(f"{name}: not measured: {one_line(why)}", "yellow"), soft_wrap=True)
    for name, why in result["failed"].items():
        console.print(Text(f"{name}: {one_line(why)}", "red"), soft_wrap=True)
    loads = f"load {result['load_before'][0]:g} before, {result['load_after'][0]:g} after"
    where = f"{result['machine']['processor']}, {result['machine']['cores_allowed']} cores, {loads}"
    words = f"{where}, {result['wall_s']:.0f} s: "
    console.print(Text(words) + verdict(result["passed"]), soft_wrap=True)
