"""``quadsim replay``: estimators over bags, scored against the truth in them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.files import missing_bag
from quadsim.base.options import argument, option
from quadsim.cli.common import (
    BAD_INPUT,
    FlightProgress,
    loading,
    one_line,
    say,
    to_json,
    write_pictures,
)
from quadsim.cli.options import (
    Driver,
    FixUnits,
    MapOrigin,
    Namespace,
    Pictures,
    Printed,
    command,
    given,
)
from quadsim.cli.publish import PublishOptions, publish

if TYPE_CHECKING:
    from quadsim.analysis.replay import Settings
    from quadsim.analysis.scoring import ScoredRun, Scoring
    from quadsim.analysis.summary import Summary
    from quadsim.sim.log import FlightLog


#: Options that a player has no use for.
OF_REPLAY = (
    *("estimators", "sensors", "parameters", "fix_units", "truth", "align", "spans"),
    *("report", "csv", "tum", "pictures"),
)


@dataclass(frozen=True)
class ReplayCommandOptions(Printed):
    """Options of ``quadsim replay``."""

    bags: tuple[Path, ...] = argument("BAG...")
    estimators: tuple[str, ...] = option(
        ("eskf",),
        "run eskf, ekf7, gps_ins, blind, smoother or module:Class of your own (may be repeated);"
        " the first is the one asked about",
        flags="--estimator",
    )
    namespace: Namespace = "/quad"
    driver: Driver = None
    settle_s: float = option(
        5.0, "time from the start that is not scored", "s", ge=0.0, flags="--settle"
    )
    configs: tuple[str, ...] = option(
        (),
        "parameters: a file of config/estimators, or a path; each of several is a run",
        flags="--config",
        unset="as flown, where the bag names it, else eskf",
    )
    changes: tuple[str, ...] = option(
        (), "change a parameter (may be repeated)", flags="--set", metavar="KEY=VALUE"
    )
    sensors: str | None = option(
        None,
        "what the vehicle carried: a file of config/sensors/suites, or a path",
        metavar="SUITE",
        unset="as flown, where the bag has them, else assumptions, which are named",
    )
    parameters: bool = option(
        False,
        "take the noise that a ULog's EKF2 was told; where there is a truth, its estimate is scored"
        " next to ours",
    )
    fix_units: FixUnits = False
    datum: MapOrigin = None
    truth: str | None = option(
        None,
        "odometry or poses to score against",
        metavar="TOPIC",
        unset="ground_truth/odom, where there is one",
    )
    align: str = option(
        "none",
        "move each estimate as a whole onto the truth before it is scored",
        choices=("none", "yaw", "se3", "sim3"),
    )
    spans: tuple[str, ...] = option(
        (),
        "relative errors over so many seconds or metres",
        flags="--rpe",
        metavar="SPAN",
        unset="1s, 5s, 10m",
    )
    report: Path | None = option(None, "write an HTML report here", path="file")
    output: Path | None = option(None, "write the JSON here too", path="file")
    csv: Path | None = option(
        None, "write every estimate with its errors into this folder", path="folder"
    )
    tum: Path | None = option(
        None,
        "write the trajectories, and the truth's, into this folder as TUM files",
        path="folder",
    )
    pictures: Pictures = None
    publish: PublishOptions = field(default_factory=PublishOptions)

    def check(self) -> None:
        """Refuse options that do not go together.

        Raises:
            InputError: naming them.
        """
        if self.publish.publish and (len(self.bags) > 1 or len(self.configs) > 1):
            raise InputError("--publish: plays one bag, with one --config at most")
        for name, flag in given().items() if self.publish.publish else ():
            if name in OF_REPLAY:
                raise InputError(f"{flag}: not with --publish")
        for flag in () if self.publish.publish else given(PublishOptions).values():
            raise InputError(f"{flag}: only with --publish")

    def check_report(self) -> None:
        """Refuse a report that could not be written, before any work is done.

        Raises:
            InputError: naming it.
        """
        if self.report is None and self.pictures is None:
            return
        from quadsim.analysis.report.page import MAX_RUNS

        if self.report is not None and self.report.suffix != ".html":
            raise InputError(f"--report {self.report}: a report ends in .html")
        count = len(self.bags) * max(len(self.configs), 1)
        for name, path in (("report", self.report), ("pictures", self.pictures)):
            if path is not None and count > MAX_RUNS:
                raise InputError(f"--{name} {path}: {count} runs; at most {MAX_RUNS} are compared")


@command(ReplayCommandOptions)
def replay(options: ReplayCommandOptions) -> int:
    """Run estimators over the sensor topics of bags and score them against the truth in them.

    BAG is a rosbag2 folder or a single .mcap, .db3 or .bag file. A bag that was cut is repaired
    first. Exit status: 0 the estimators ran, 1 one never started, 2 bad input. Of several bags one
    that cannot be replayed is named, and the others are done; the status is then 2.
    """
    options.check()
    if options.publish.publish:
        played = replace(
            options.publish.replay,
            namespace=options.namespace,
            driver=options.driver,
            config=next(iter(options.configs), None),
            changes=options.changes,
            datum=options.datum,
        )
        asked = replace(options.publish, replay=played)
        return publish(options.bags[0], asked, options.settle_s, options.output, options.as_json)
    from quadsim.analysis.replay import load_kernels

    settings = _settings_of(options)
    options.check_report()
    if not any(bag.exists() for bag in options.bags):  # before any kernel is loaded
        raise missing_bag(options.bags[0])
    with loading("loading the kernels"):
        for each in settings:
            load_kernels(each)
    runs, failures = _replayed(options, settings)
    if not runs:
        return BAD_INPUT
    status = _written(options, runs, failures)
    return BAD_INPUT if failures else status


def _settings_of(options: ReplayCommandOptions) -> list[Settings]:
    """How bags are replayed, once for each file of parameters."""
    from quadsim.analysis.replay import Settings, described, estimator_params, known_keys

    changes, sensors, settings = options.changes, options.sensors, []
    for file in options.configs or (None,):
        params, known = estimator_params(file, changes), known_keys(file, changes)
        if sensors is not None:
            params, known = described(params, known, sensors)
        settings.append(
            Settings(
                options.estimators,
                options.namespace,
                params,
                options.datum,
                options.truth,
                as_flown=file is None and sensors is None and not options.parameters,
                changes=changes,
                known=known,
                driver=options.driver,
                as_logged=options.parameters,
                fix_units=options.fix_units,
            )
        )
    return settings


def _replayed(
    options: ReplayCommandOptions, settings: list[Settings]
) -> tuple[list[tuple[ScoredRun, str | None]], dict[str, str]]:
    """Each bag with each of the settings, and why some bags cannot be replayed."""
    from quadsim.analysis.comparison import titles
    from quadsim.analysis.scoring import Scoring
    from quadsim.analysis.trajectory import SPANS, span_of

    spans = tuple(span_of(text) for text in options.spans) or SPANS
    scoring = Scoring(options.settle_s, options.align, spans)
    names = titles(options.bags, options.configs or (None,))
    runs: list[tuple[ScoredRun, str | None]] = []
    failures: dict[str, str] = {}
    for i, bag in enumerate(options.bags):
        for k, each in enumerate(settings):
            try:
                run = _one(bag, names[i, k][0], each, scoring)
            except QuadsimError as error:
                if len(options.bags) == 1:
                    raise
                say(f"error: {one_line(error)}")
                failures[str(bag)] = one_line(error)
                break
            runs.append((run, names[i, k][1]))
    return runs, failures


def _written(
    options: ReplayCommandOptions,
    runs: list[tuple[ScoredRun, str | None]],
    failures: dict[str, str],
) -> int:
    """Print and write what came of the replays; the exit status of those that were done."""
    from quadsim.analysis.comparison import combined_summary
    from quadsim.analysis.exports import export_csv, export_tum
    from quadsim.base.whole_files import write_whole
    from quadsim.cli.show import show_runs, show_summary

    single = len(options.bags) * max(len(options.configs), 1) == 1
    summary = runs[0][0].summary if single else combined_summary(runs, failures, options.settle_s)
    summary["report"] = None if options.report is None else str(options.report)
    logs, summaries = _compared([run for run, _ in runs])
    if options.report is not None:
        from quadsim.analysis.report.page import write_report

        write_report(logs, summaries, options.report)
    write_pictures(logs, summaries, options.pictures)
    for folder, export in ((options.csv, export_csv), (options.tum, export_tum)):
        if folder is not None:
            for run, _ in runs:
                export(run, folder)
    if options.output is not None:
        write_whole(options.output, to_json(summary) + "\n")
    return (show_summary if single else show_runs)(summary, options.as_json)


def _one(bag: Path, title: str, settings: Settings, scoring: Scoring) -> ScoredRun:
    """Replay one bag with one set of parameters, and judge it."""
    from quadsim.analysis.replay import replay as run
    from quadsim.analysis.scoring import judge_replay

    with FlightProgress(title, None) as progress:
        result = run(bag, settings, progress.update)
    return judge_replay(title, bag, settings.estimators, result, scoring)


def _compared(runs: list[ScoredRun]) -> tuple[dict[str, FlightLog], dict[str, Summary]]:
    """Flights and summaries of all runs; a single one is called as its scenario."""
    labels = [run.title for run in runs]
    if len(runs) == 1:
        labels = [runs[0].log.scenario or runs[0].title]
    logs = {label: run.log for label, run in zip(labels, runs, strict=True)}
    return logs, {label: run.summary for label, run in zip(labels, runs, strict=True)}
