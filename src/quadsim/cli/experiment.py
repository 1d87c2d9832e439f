"""``quadsim experiment``: many flights at once, and what they show together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from quadsim.base.options import Option, option
from quadsim.cli.common import counting, finish, loading, run_folder, say, staged, to_json
from quadsim.cli.options import Printed, Processes, RunFolder, command

if TYPE_CHECKING:
    import plotly.graph_objects as go


@click.group(no_args_is_help=False)
def experiment() -> None:
    """Fly many times and report what the flights show together."""


Seeds = Annotated[
    int, Option("flights of each scenario, with the seeds from 1 on", ge=1, le=100_000)
]
Scenarios = Annotated[
    tuple[str, ...],
    Option(
        "a scenario of the experiment (may be repeated)",
        flags="--scenario",
        metavar="NAME",
        unset="all",
    ),
]


@dataclass(frozen=True)
class FcndOptions(Printed):
    """Options of ``quadsim experiment fcnd``."""

    seeds: Seeds = 100
    names: Scenarios = ()
    processes: Processes = 0
    output: RunFolder = None


@dataclass(frozen=True)
class NtnuOptions(FcndOptions):
    """Options of ``quadsim experiment ntnu``."""

    vehicle: str = option(
        "thesis",
        "the thesis's helicopter and sensors, with our gains or those of its table 6.1, or an"
        " x500 with sensors' real errors",
        choices=("thesis", "thesis-gains", "quadrotor"),
    )


@dataclass(frozen=True)
class ConsistencyOptions(FcndOptions):
    """Options of ``quadsim experiment consistency``."""

    seeds: Seeds = 40
    suites: tuple[str, ...] = option(
        (),
        "a set of sensors (may be repeated)",
        flags="--sensors",
        metavar="NAME",
        unset="all that the filter flies with",
    )


@command(FcndOptions)
def fcnd(options: FcndOptions) -> int:
    """Fly the FCND scenarios 06 to 11 over many seeds; its fleets when they are named.

    The run's folder gets summary.json and a picture of each scenario. A scenario passes when 95 %
    of its seeds pass; in 06 the samples of all seeds together have to be right. The fleets are
    x_monte_carlo (20 varied vehicles) and x_test_many_quads (9); every seed flies all of them. Exit
    status: 0 every scenario passes, 1 one does not, 2 bad input.
    """
    folder = run_folder("fcnd", options.output)
    with loading("loading"):
        from quadsim.lab.campaign.experiment import chosen_scenarios
        from quadsim.lab.reproduce.fcnd import FLEETS, SCENARIOS, fcnd_summary, run_fcnd
        from quadsim.lab.reproduce.pictures import fcnd_picture

        names = options.names
        scenarios = chosen_scenarios(names, (*SCENARIOS, *FLEETS), "fcnd") if names else SCENARIOS
    begin_s = time.perf_counter()
    with counting("fcnd") as tell:
        found = run_fcnd(scenarios, options.seeds, options.processes, tell)
    figures = {result.name: fcnd_picture(result) for result in found}
    return _finish(options, folder, fcnd_summary(found), begin_s, figures, _show)


def _finish(
    options: FcndOptions,
    folder: Path,
    summary: dict[str, Any],
    begin_s: float,
    figures: Mapping[str, go.Figure],
    show: Callable[[Any], None],
) -> int:
    """Keep and show what flights that began at a time have shown together; the exit status."""
    wall_s = time.perf_counter() - begin_s
    stored = store_run(folder, summary, wall_s, figures)
    return finish(stored, options.as_json, show, f"folder: {folder}")


@command(NtnuOptions)
def ntnu(options: NtnuOptions) -> int:
    """Fly the four scenarios of A. Larsen's thesis (NTNU, 2010) under its four configurations.

    After a crash a run is tried again with the next lower limit of speed: 10, 5, 2, 1 m/s. The
    run's folder gets summary.json and a picture of each scenario with the first seed's runs. Exit
    status: 0 what has to be shown is shown, 1 it is not, 2 bad input.
    """
    folder = run_folder("ntnu", options.output)
    with loading("loading"):
        from quadsim.lab.campaign.experiment import chosen_scenarios
        from quadsim.lab.reproduce.ntnu import SCENARIOS, ntnu_summary, run_ntnu
        from quadsim.lab.reproduce.pictures import pictures

        scenarios = chosen_scenarios(options.names, SCENARIOS, "ntnu")
    begin_s = time.perf_counter()
    with counting("ntnu") as tell:
        cells = run_ntnu(scenarios, options.seeds, options.vehicle, options.processes, tell)
    return _finish(options, folder, ntnu_summary(cells), begin_s, pictures(cells), _show_ntnu)


@command(ConsistencyOptions)
def consistency(options: ConsistencyOptions) -> int:
    """Compare the estimator's errors with its stated deviations, for every set of sensors.

    Flies each scenario with each set, and averages the squares of the errors over the stated
    variances, over seeds and times: 1 where the filter is consistent. Exit status: 0 every axis is
    within 0.5 and 1.6, 1 one is not, 2 bad input.
    """
    folder = run_folder("consistency", options.output)
    with loading("loading"):
        from quadsim.lab.campaign.experiment import (
            SCENARIOS,
            SUITES,
            chosen_scenarios,
            consistency_summary,
            run_consistency,
        )

        scenarios = chosen_scenarios(options.names, SCENARIOS, "consistency")
    begin_s = time.perf_counter()
    with counting("consistency") as tell:
        found = run_consistency(
            options.suites or SUITES, scenarios, options.seeds, options.processes, tell
        )
    return _finish(options, folder, consistency_summary(found), begin_s, {}, _show_consistency)


for _command in (fcnd, ntnu, consistency):
    experiment.add_command(_command)


def _show_consistency(summary: dict[str, Any]) -> None:
    """Table: a row for each set of sensors and scenario."""
    from quadsim.cli.show import print_table, tables, verdict

    rows = (
        (
            row["suite"], row["scenario"], *(f"{value:.2f}" for value in row["squares"].values()),
            verdict(row["passed"]),
        )
        for row in summary["rows"]
    )  # fmt: skip
    titles = ("sensors", "scenario", *summary["rows"][0]["squares"], "")
    print_table(tables(), titles, rows)


def store_run(
    folder: Path, summary: dict[str, Any], wall_s: float, figures: Mapping[str, go.Figure]
) -> dict[str, Any]:
    """Write summary and pictures into the run's folder; the whole summary."""
    from quadsim.base.whole_files import write_whole

    with staged(folder) as scratch:
        pictures = [folder / name for name in write_figures(figures, scratch)]
        summary = summary | {"wall_s": wall_s, "pictures": pictures}
        write_whole(scratch / "summary.json", to_json(summary) + "\n")
    return summary


def write_figures(figures: Mapping[str, go.Figure], folder: Path) -> list[str]:
    """Write pictures, or pages where no browser draws; their names."""
    from quadsim.analysis.report.pictures import save_picture
    from quadsim.base.surroundings import browser
    from quadsim.base.whole_files import write_whole

    kind = "png" if browser() else "html"
    if kind == "html":
        say("no Chromium to draw with (apt install chromium): the pictures are HTML pages")
    for title, figure in figures.items():
        path = folder / f"{title}.{kind}"
        if kind == "png":
            save_picture(figure, path, int(figure.layout.width), int(figure.layout.height))
        else:
            write_whole(path, figure.to_html(include_plotlyjs=True))
    return [f"{title}.{kind}" for title in figures]


def _band(item: dict[str, Any]) -> str:
    from quadsim.cli.show import number

    limit = number(item["limit"])
    if item["limit"] is None:
        return f"≥ {number(item['least'])}"
    return f"{number(item['least'])} … {limit}" if item["least"] else f"≤ {limit}"


def _show_ntnu(summary: dict[str, Any]) -> None:
    """Tables: each cell and the thesis's, and what had to be shown."""
    from rich.text import Text

    from quadsim.cli.show import number, print_table, tables, verdict
    from quadsim.lab.reproduce.ntnu import TITLES, table_rows

    console = tables()
    print_table(console, TITLES, table_rows(summary["cells"]))
    rows = (
        (
            item["scenario"], str(item["configuration"]), item["name"],
            number(item["value"]), _band(item), verdict(item["passed"]),
        )
        for item in summary["criteria"]
    )  # fmt: skip
    titles = ("scenario", "configuration", "has to show", "reached", "band", "")
    print_table(console, titles, rows)
    console.print(Text("ntnu: ") + verdict(summary["passed"]))


def _show(summary: dict[str, Any]) -> None:
    """Tables: what each scenario reached over the seeds, and what it had to show."""
    from rich.table import Column
    from rich.text import Text

    from quadsim.cli.show import criterion_words, number, print_table, tables, verdict

    console = tables()
    titles = ("scenario", "signal", "band", "5 %", "median", "95 %", "passed")
    signals = (
        (
            scenario["name"] * (i == 0), criterion_words(row)[0], _band(row),
            *(number(row[key]) for key in ("low", "median", "high")),
            f"{row['passed']} of {scenario['seeds']}",
        )
        for scenario in summary["scenarios"]
        for i, row in enumerate(scenario["signals"])
    )  # fmt: skip
    print_table(console, [Column(title, no_wrap=True) for title in titles], signals)
    before = ["", *(item["scenario"] for item in summary["criteria"])]
    criteria = (
        (
            item["scenario"] * (item["scenario"] != name), item["name"], number(item["value"]),
            _band(item), verdict(item["passed"]),
        )
        for name, item in zip(before, summary["criteria"], strict=False)
    )  # fmt: skip
    print_table(console, ("scenario", "over all seeds", "reached", "band", ""), criteria)
    for scenario in summary["scenarios"]:
        for other, value in list(scenario["position_rmse_m"].items())[1:]:
            console.print(
                f"{scenario['name']}: median position RMSE of {other} over the same samples:"
                f" {number(value)} m"
            )
    console.print(Text("fcnd: ") + verdict(summary["passed"]))
