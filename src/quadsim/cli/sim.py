"""``quadsim sim``: a scenario without ROS, in the deterministic closed loop."""

from __future__ import annotations

from pathlib import Path

import click

from quadsim.cli.common import (
    FlightProgress,
    exit_status,
    flight_options,
    json_option,
    loading,
    output_option,
    run_folder,
    staged,
    to_json,
)


@click.command()
@flight_options
@output_option
@click.option("--report/--no-report", default=True, help="Write report.html.  [default: report]")
@json_option
@click.pass_context
def sim(
    ctx: click.Context,
    scenario: str,
    autopilot: str | None,
    sensors: str | None,
    vehicle: str | None,
    seed: int | None,
    duration_s: float | None,
    output: Path | None,
    report: bool,
    as_json: bool,
) -> None:
    """Fly a scenario without ROS, as fast as the machine goes.

    The run's folder gets summary.json and report.html. The same scenario and seed give the same
    digest every time. Exit status: 0 passed, 1 failed a criterion, 2 bad input.
    """
    folder = run_folder(scenario, output)
    with loading("loading"):
        from quadsim.analysis.criteria import check_signals
        from quadsim.analysis.summary import summarize
        from quadsim.analysis.whole_files import write_whole
        from quadsim.cli.show import show_summary
        from quadsim.sim.closed_loop import run_all
        from quadsim.sim.scenario import load_scenario

        loaded = load_scenario(
            scenario,
            autopilot=autopilot,
            sensors=sensors,
            vehicle=vehicle,
            seed=seed,
            duration_s=duration_s,
        )
    check_signals(loaded.criteria, str(loaded.path))
    with FlightProgress(loaded.name, loaded.file.duration_s) as progress:
        (log, *others), digest = run_all(loaded, progress.update)
    with staged(folder) as scratch:
        page = folder / "report.html" if report else None
        summary = summarize(log, loaded.criteria, report=page, others=others)
        summary["digest"] = digest
        if report:
            from quadsim.analysis.report.page import write_report

            runs, summaries = {loaded.name: log}, {loaded.name: summary}
            write_report(runs, summaries, scratch / "report.html")
        write_whole(scratch / "summary.json", to_json(summary) + "\n")
    show_summary(summary, as_json)
    ctx.exit(exit_status(summary["passed"]))
