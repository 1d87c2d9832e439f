"""``quadsim campaign``: many flights of sampled scenarios, a table of them, and what it shows."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.errors import InputError
from quadsim.base.options import argument, option
from quadsim.cli.common import FlightProgress, counting, exit_status, finish, loading, say, to_json
from quadsim.cli.options import Printed, Processes, command

if TYPE_CHECKING:
    from quadsim.lab.campaign.batch import Pool
    from quadsim.lab.campaign.plan import Campaign


@dataclass(frozen=True)
class CampaignOptions(Printed):
    """Options of ``quadsim campaign``."""

    campaign: str = argument()
    output: Path | None = option(
        None, "folder of the campaign", path="folder", unset="runs/campaign-<name>"
    )
    resume: bool = option(False, "continue with what the folder holds")
    dask: str | None = option(
        None, "fly on a Dask cluster, by its scheduler: tcp://host:8786", metavar="ADDRESS"
    )
    processes: Processes = 0
    number: int | None = option(
        None,
        "fly this run alone, here, and compare its digest with the table's",
        ge=0,
        flags="--run",
        metavar="NUMBER",
    )
    bag: Path | None = option(None, "with --run: write a bag of it here, as sim does")

    def check(self) -> None:
        """Refuse options that do not go together.

        Raises:
            InputError: naming them.
        """
        if self.dask is not None and self.processes:
            raise InputError("--processes: is for this machine; with --dask the cluster decides")
        if self.number is None and self.bag is not None:
            raise InputError("--bag: goes with --run; a campaign keeps no bags")
        if self.number is not None and (self.dask is not None or self.processes or self.resume):
            raise InputError("--run: flies one run here; leave out --dask, --processes, --resume")


@command(CampaignOptions)
def campaign(options: CampaignOptions) -> int:
    """Fly a campaign: a file of config/campaigns, or a path (docs/campaigns.md).

    Its folder gets table.parquet (a row for each run), times.parquet, summary.json and report.html.
    A run that cannot be flown is a row with its reason. Ctrl-C and kills lose only the runs under
    way: continue with --resume. Exit status: 0 enough runs passed (pass_share), 1 not, 2 bad input.
    """
    options.check()
    output, dask, resume = options.output, options.dask, options.resume
    with loading("loading"):
        from quadsim.lab.campaign.flying import prepare_campaign
        from quadsim.lab.campaign.plan import load_campaign

        loaded = load_campaign(options.campaign)
        folder = output or Path("runs") / f"campaign-{loaded.name}"
        if options.number is None:
            contents = prepare_campaign(loaded)
    if options.number is not None:
        return _fly_one(loaded, folder, options.number, options.bag, options.as_json)
    from quadsim.lab.campaign.flying import fly_campaign
    from quadsim.lab.campaign.record import CampaignRecord

    CampaignRecord.check(folder, contents, resume)
    states: Counter[str] = Counter()
    try:
        with _pool(dask, options.processes) as pool, counting(loaded.name) as tell:

            def progress(done: int, total: int, status: str) -> None:
                states[status] += 1
                tell(done, total, ", ".join(f"{count} {name}" for name, count in states.items()))

            flown = fly_campaign(loaded, contents, folder, pool, resume, progress)
    except KeyboardInterrupt:
        given = [] if output is None else ["--output", str(output)]
        given += [] if dask is None else ["--dask", dask]
        again = shlex.join(["quadsim", "campaign", options.campaign, *given, "--resume"])
        say(f"what was flown is stored in {folder}; continue with: {again}")
        raise
    return _finish(loaded, folder, flown.wall_s, flown.flown, options.as_json)


@contextmanager
def _pool(dask: str | None, processes: int) -> Iterator[Pool]:
    """Where runs are flown."""
    if dask is None:
        from quadsim.lab.campaign.batch import Processes

        with Processes(processes) as local:
            yield local
        return
    from quadsim.lab.campaign.batch import Cluster

    with Cluster(dask) as cluster:
        yield cluster


def _finish(loaded: Campaign, folder: Path, wall_s: float, flown: int, as_json: bool) -> int:
    """Summary and report of the tables that there are; the exit status."""
    from quadsim.base.whole_files import write_whole
    from quadsim.cli.common import working
    from quadsim.lab.campaign.page import render_campaign
    from quadsim.lab.campaign.record import TABLE, TIMES, read_table
    from quadsim.lab.campaign.statistics import campaign_summary

    table = read_table(folder / TABLE)
    summary = campaign_summary(loaded, table, folder) | {
        "table": folder / TABLE,
        "times": folder / TIMES,
        "report": folder / "report.html",
        "flown": flown,
        "wall_s": wall_s,
        "flights_per_s": flown / wall_s if flown else None,
    }
    with working("writing the report"):
        write_whole(folder / "report.html", render_campaign(loaded, table, summary))
    write_whole(folder / "summary.json", to_json(summary) + "\n")
    return finish(summary, as_json, _show)


def _fly_one(loaded: Campaign, folder: Path, number: int, bag: Path | None, as_json: bool) -> int:
    """One run by itself, besides what the table states of it; the exit status."""
    from quadsim.analysis.summary import summarize_all
    from quadsim.bag.profiles import Recording
    from quadsim.cli.show import show_summary
    from quadsim.cli.sim import fly_once

    if number >= len(loaded):
        raise InputError(f"--run {number}: {loaded.name} has the runs 0 to {len(loaded) - 1}")
    run = loaded.run(number)
    scenario = run.load()
    with FlightProgress(f"{loaded.name} {number}", scenario.file.duration_s) as progress:
        logs, digest = fly_once(scenario, bag, Recording(), progress.update)
    stored = _kept_digest(folder, number)
    if stored is not None:
        same = stored == digest
        next(iter(logs.values())).notes.append(
            f"the digest is that of the run in {folder}"
            if same
            else f"the run in {folder} has another digest, {stored}"
        )
    summary = summarize_all(logs, scenario.criteria, bag=bag)
    summary["digest"] = digest
    summary["run"] = {"number": number, "values": run.values, "command": run.command()}
    show_summary(summary, as_json)
    if not as_json:
        click.echo(f"digest: {digest}\n{run.command()}")
    return exit_status(summary["passed"])


def _kept_digest(folder: Path, number: int) -> str | None:
    """Digest of a run in a folder's table, if it is there."""
    import pyarrow.parquet as pq

    from quadsim.lab.campaign.record import TABLE

    if not (folder / TABLE).is_file():
        return None
    found = pq.read_table(folder / TABLE, columns=["digest"], filters=[("run", "==", number)])
    digests = found["digest"].to_pylist()
    return str(digests[0]) if digests and digests[0] else None


def _show(summary: dict[str, Any]) -> None:
    """The campaign in a few tables on stdout."""
    from rich.text import Text

    from quadsim.cli.show import number, percentage, print_table, tables, verdict

    console = tables()
    success = summary["success"]
    rate, low, high = (percentage(success[key]) for key in ("rate", "low", "high"))
    console.print(
        Text(
            f"{summary['campaign']}: {success['passed']} of {success['runs']} runs passed,"
            f" {rate} ({low} to {high}): "
        )
        + verdict(summary["passed"])
    )
    keys = ("mean", "5 %", "median", "95 %", "most")
    rows = (
        (name, str(row["count"]), *(number(row[key]) for key in keys))
        for name, row in summary["metrics"].items()
    )
    print_table(console, ("figure", "runs", *keys), rows)
    for name, count in summary["missed"].items():
        console.print(f"missed {count} times: {name}", markup=False)
    for reason, count in summary["broken"].items():
        console.print(Text(f"broken {count} times: {reason}", "yellow"), soft_wrap=True)
    shown = ("rank_correlation", "share", "p_value")
    rows = (
        (row["factor"], row["metric"], *(number(row[key], 2) for key in shown))
        for row in summary["dependences"][:8]
    )
    print_table(console, ("factor", "figure", "rank correlation", "share", "p"), rows)
    for row in summary["worst"][:3]:
        console.print(
            Text(f"run {row['run']} {row['status']}{': ' if row['reason'] else ''}{row['reason']}"),
            Text(f"  {row['again']}", "dim"),
            sep="\n",
            soft_wrap=True,
        )
    if summary["flown"]:
        console.print(f"{summary['flown']} flights in {summary['wall_s']:.1f} s")
    console.print(f"report: {summary['report']}", markup=False, soft_wrap=True)
