"""``quadsim replay``: estimators over bags, scored against the truth in them; or a bag on DDS."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.files import missing_bag
from quadsim.base.options import argument, option
from quadsim.cli.common import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    PASSED,
    FlightProgress,
    loading,
    one_line,
    print_json,
    ready_for_ros,
    say,
    to_json,
    working,
    write_pictures,
)
from quadsim.cli.options import (
    Domain,
    Driver,
    FixUnits,
    MapOrigin,
    Namespace,
    Pictures,
    Printed,
    command,
    given,
)
from quadsim.ros.graph.options import ReplayOptions

if TYPE_CHECKING:
    from rclpy.context import Context

    from quadsim.analysis.replay import Settings
    from quadsim.analysis.scoring import ScoredRun, Scoring
    from quadsim.analysis.summary import Summary
    from quadsim.ros.graph.graph import NodeSpec
    from quadsim.ros.nodes.player import PlayerNode
    from quadsim.sim.log import FlightLog


#: Options that a player has no use for.
OF_REPLAY = (
    *("estimators", "sensors", "parameters", "fix_units", "truth", "align", "spans"),
    *("report", "csv", "tum", "pictures"),
)


@dataclass(frozen=True)
class PublishOptions:
    """Options of ``quadsim replay --publish``."""

    publish: bool = option(False, "play the bag on DDS instead; the options below are for that")
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    record: Path | None = option(None, "record what is heard into this new folder")
    domain: Domain = None


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
        return _publish(options)
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
    from quadsim.analysis.scoring import Scoring, titles
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
    from quadsim.analysis.scoring import combined_summary, export_csv, export_tum
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


# ---- --publish: the bag on DDS, with live nodes if asked for -------------------------------------


def _publish(options: ReplayCommandOptions) -> int:
    """Play a bag on DDS until it ends or somebody presses Ctrl-C.

    Returns:
        Exit status: 0 all was played, 1 a live node died or the record is not complete, 130
        interrupted.
    """
    (bag,), asked, output = options.bags, options.publish, options.output
    if asked.record is not None and asked.record.exists():
        raise InputError(f"{asked.record}: exists already; name a new folder with --record")
    ready_for_ros()
    from quadsim.base.whole_files import write_whole
    from quadsim.cli.show import show_summary
    from quadsim.ros.graph.replay_graph import describe_replay
    from quadsim.ros.runtime.domain import chosen_domain, held
    from quadsim.ros.runtime.processes import prepare

    domain = chosen_domain(asked.domain)
    with held(domain), ExitStack() as stack:
        recorded = asked.record
        if recorded is None and "estimator" in asked.replay.live:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-replay-"))
            recorded = Path(scratch) / "bag"
        played_by = replace(
            asked.replay,
            namespace=options.namespace,
            driver=options.driver,
            config=next(iter(options.configs), None),
            changes=options.changes,
            datum=options.datum,
            bag=None if recorded is None else str(recorded.absolute()),
        )
        specs = describe_replay(bag, played_by)
        if len(specs) > 1:
            with loading("starting the nodes"):
                prepare()
        status, played = _play(bag, specs, domain)
        if not played:
            return status
        say(_words(played))
        if status == INTERRUPTED:
            return status
        summary: dict[str, Any] = {"notes": [], "estimators": {}, "errors": []}
        if recorded is not None and recorded.is_dir():
            summary |= _score(recorded, options.namespace, options.settle_s)
    errors = [*summary["errors"], *played.pop("errors")]
    summary |= played | {"passed": status == PASSED, "record": asked.record, "errors": errors}
    if output is not None:
        write_whole(output, to_json(summary) + "\n")
    if options.as_json:
        print_json(summary)
    elif summary["estimators"]:
        show_summary(summary, as_json=False)
    return status


def _play(bag: Path, specs: list[NodeSpec], domain: int) -> tuple[int, dict[str, Any]]:
    """Run the player in this process and the other nodes in theirs; exit status and figures."""
    from quadsim.ros.runtime.processes import child_nodes, maker
    from quadsim.ros.runtime.runtime import run

    players: list[PlayerNode] = []
    stop = threading.Event()
    with (
        FlightProgress(bag.name, None) as progress,
        child_nodes(specs[1:], domain, stop) as failures,
    ):

        def tell(played_s: float, words: str) -> None:
            progress.update(played_s, None, words)

        def make(context: Context) -> PlayerNode:
            node: PlayerNode = maker(specs[0])(context=context, stop=stop, progress=tell)
            players.append(node)
            return node

        status = run([make], domain=domain, stop=stop)
    for failure in failures:
        say(failure)
        status = FAILED
    if not players:
        return status, {}
    (player,) = players
    if status == PASSED and not player.finished:
        say("interrupted")
        status = INTERRUPTED
    late = player.pace.lateness
    return status, {
        "bag": bag,
        "finished": player.finished,
        "errors": failures,
        "duration_s": player.played_s,
        "wall_s": player.wall_s,
        "rate": player.pace.rate,
        "messages": sum(player.outputs.counts.values()),
        "topics": {name: {"count": n} for name, n in sorted(player.outputs.counts.items())},
        "skipped": player.outputs.skipped,
        "late_ms": {"median": late.percentile_ms(50.0), "p99": late.percentile_ms(99.0)},
    }


def _score(recorded: Path, namespace: str, settle_s: float) -> dict[str, Any]:
    """Summary of the recorded bag: how good the live estimator was."""
    from quadsim.analysis.summary import summarize
    from quadsim.bag.log import read_log
    from quadsim.bag.reading import open_bag

    with working("reading the recorded bag"), open_bag(recorded) as opened:
        return summarize(read_log(opened, namespace), settle_s=settle_s)


def _words(summary: dict[str, Any]) -> str:
    """How it was played, in a line."""
    words = (
        f"{summary['bag']}: played {summary['messages']} messages, {summary['duration_s']:.1f} s"
    )
    words += f" in {summary['wall_s']:.1f} s"
    if summary["late_ms"]["median"] >= 0.0:  # NaN: nothing was waited for
        median, most = summary["late_ms"].values()
        words += f"; late by {median:.2f} ms (median), {most:.2f} ms (99 %)"
    return words
