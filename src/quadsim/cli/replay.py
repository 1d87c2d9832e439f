"""``quadsim replay``: estimators over bags, scored against the truth in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quadsim.base.errors import InputError, QuadsimError
from quadsim.cli.common import (
    BAD_INPUT,
    FlightProgress,
    datum_option,
    driver_option,
    exit_status,
    json_option,
    loading,
    one_line,
    pictures_option,
    say,
    to_json,
    write_pictures,
)
from quadsim.cli.publish import publish, publish_options, publishing

if TYPE_CHECKING:
    from quadsim.analysis.replay import Settings
    from quadsim.analysis.scoring import ScoredRun, Scoring
    from quadsim.analysis.summary import Summary
    from quadsim.geometry.geodesy import Datum
    from quadsim.sim.log import FlightLog

#: As :data:`quadsim.analysis.trajectory.ALIGNMENTS`, which ``--help`` need not load.
ALIGNMENTS = NONE, *_ = ("none", "yaw", "se3", "sim3")


class EstimatorOption(click.Option):
    """An option whose help names the estimators; the registry is loaded for that only then."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Name and help."""
        from quadsim.estimation import ESTIMATORS

        *names, last = ESTIMATORS
        self.help = (
            f"{', '.join(names)} or {last}; may be given several times, "
            "the first is the one asked about."
        )
        return super().get_help_record(ctx)


@click.command()
@click.argument("bags", metavar="BAG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    default=("eskf",),
    show_default=True,
    cls=EstimatorOption,
)
@click.option("--namespace", default="/quad", show_default=True, help="The vehicle in the bag.")
@driver_option
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(min=0.0),
    default=5.0,
    show_default=True,
    help="Time from the start that is not scored, s.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    help="Parameters: a file of config/estimators, or a path; each of several is a run."
    "  [default: as flown, where the bag says so, else eskf]",
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a parameter.")
@click.option(
    "--sensors",
    metavar="SUITE",
    help="What the vehicle carried: a file of config/sensors/suites, or a path.  [default: as"
    " flown, where the bag says so, else assumptions, which are said]",
)
@datum_option
@click.option(
    "--truth",
    metavar="TOPIC",
    help="Odometry or poses to score against.  [default: ground_truth/odom, where there is one]",
)
@click.option(
    "--align",
    type=click.Choice(ALIGNMENTS),
    default=NONE,
    show_default=True,
    help="Move each estimate as a whole onto the truth before it is scored.",
)
@click.option(
    "--rpe",
    "spans",
    multiple=True,
    metavar="SPAN",
    help="Relative errors over so many seconds or metres.  [default: 1s, 5s, 10m]",
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML report here."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the JSON here too."
)
@click.option(
    "--csv",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every estimate with its errors into this folder.",
)
@click.option(
    "--tum",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the trajectories, and the truth's, into this folder as TUM files.",
)
@pictures_option
@json_option
@publish_options
@click.pass_context
def replay(
    ctx: click.Context,
    bags: tuple[Path, ...],
    estimators: tuple[str, ...],
    namespace: str,
    driver: str | None,
    settle_s: float,
    configs: tuple[str, ...],
    changes: tuple[str, ...],
    sensors: str | None,
    datum: Datum | None,
    truth: str | None,
    align: str,
    spans: tuple[str, ...],
    report: Path | None,
    output: Path | None,
    csv: Path | None,
    tum: Path | None,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Run estimators over the sensor topics of bags and score them against the truth in them.

    BAG is a rosbag2 folder or a single .mcap or .db3 file. A bag that was cut is repaired first.
    Exit status: 0 the estimators ran, 1 one never started, 2 bad input. Of several bags one that
    cannot be replayed is named, and the others are done; the status is then 2.
    """
    asked = publishing(ctx)
    if asked is not None:
        if len(bags) > 1 or len(configs) > 1:
            raise InputError("--publish: plays one bag, with one --config at most")
        status = publish(
            bags[0],
            asked,
            namespace=namespace,
            driver=driver,
            config=next(iter(configs), None),
            changes=changes,
            datum=datum,
            settle_s=settle_s,
            output=output,
            as_json=as_json,
        )
        ctx.exit(status)
    from quadsim.analysis.comparison import combined_summary, titles
    from quadsim.analysis.exports import export_csv, export_tum
    from quadsim.analysis.replay import (
        Settings,
        described,
        estimator_params,
        known_keys,
        load_kernels,
    )
    from quadsim.analysis.scoring import Scoring
    from quadsim.analysis.trajectory import SPANS, span_of
    from quadsim.base.whole_files import write_whole
    from quadsim.cli.show import show_runs, show_summary

    files = configs or (None,)
    settings = []
    for file in files:
        params, known = estimator_params(file, changes), known_keys(file, changes)
        if sensors is not None:
            params, known = described(params, known, sensors)
        settings.append(
            Settings(
                estimators,
                namespace,
                params,
                datum,
                truth,
                as_flown=file is None and sensors is None,
                changes=changes,
                known=known,
                driver=driver,
            )
        )
    scoring = Scoring(settle_s, align, tuple(span_of(text) for text in spans) or SPANS)
    _check_report(report, pictures, len(bags) * len(files))
    with loading("loading the kernels"):
        for each in settings:
            load_kernels(each)
    names = titles(bags, files)
    runs: list[tuple[ScoredRun, str | None]] = []
    failures: dict[str, str] = {}
    for i, bag in enumerate(bags):
        for k in range(len(files)):
            try:
                run = _one(bag, names[i, k][0], settings[k], scoring)
            except QuadsimError as error:
                if len(bags) == 1:
                    raise
                say(f"error: {one_line(error)}")
                failures[str(bag)] = one_line(error)
                break
            runs.append((run, names[i, k][1]))
    if not runs:
        ctx.exit(BAD_INPUT)
    single = len(bags) * len(files) == 1
    summary = runs[0][0].summary if single else combined_summary(runs, failures, settle_s)
    summary["report"] = None if report is None else str(report)
    logs, summaries = _compared([run for run, _ in runs])
    if report is not None:
        from quadsim.analysis.report.page import write_report

        write_report(logs, summaries, report)
    write_pictures(logs, summaries, pictures)
    for folder, export in ((csv, export_csv), (tum, export_tum)):
        if folder is not None:
            for run, _ in runs:
                export(run, folder)
    if output is not None:
        write_whole(output, to_json(summary) + "\n")
    (show_summary if single else show_runs)(summary, as_json)
    ctx.exit(BAD_INPUT if failures else exit_status(summary["passed"]))


def _one(bag: Path, title: str, settings: Settings, scoring: Scoring) -> ScoredRun:
    """Replay one bag with one set of parameters, and judge it."""
    from quadsim.analysis.replay import replay as run
    from quadsim.analysis.scoring import judge_replay

    with FlightProgress(title, None) as progress:
        result = run(bag, settings, progress.update)
    return judge_replay(title, bag, settings.estimators, result, scoring)


def _check_report(report: Path | None, pictures: Path | None, count: int) -> None:
    """Refuse a report that could not be written, before any work is done."""
    if report is None and pictures is None:
        return
    from quadsim.analysis.report.page import MAX_RUNS

    if report is not None and report.suffix != ".html":
        raise InputError(f"--report {report}: a report ends in .html")
    for name, path in (("report", report), ("pictures", pictures)):
        if path is not None and count > MAX_RUNS:
            raise InputError(f"--{name} {path}: {count} runs; at most {MAX_RUNS} are compared")


def _compared(runs: list[ScoredRun]) -> tuple[dict[str, FlightLog], dict[str, Summary]]:
    """Flights and summaries of all runs; a single one is called as its scenario."""
    labels = [run.title for run in runs]
    if len(runs) == 1:
        labels = [runs[0].log.scenario or runs[0].title]
    logs = {label: run.log for label, run in zip(labels, runs, strict=True)}
    return logs, {label: run.summary for label, run in zip(labels, runs, strict=True)}
