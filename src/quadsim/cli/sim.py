"""``quadsim sim``: a scenario without ROS, in the deterministic closed loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim.bag.profiles import Recording
from quadsim.base.errors import InputError
from quadsim.base.options import option
from quadsim.cli.common import FlightProgress, loading, run_folder, staged, to_json, write_pictures
from quadsim.cli.options import (
    Changes,
    Duration,
    Pictures,
    Printed,
    Report,
    RunFolder,
    command,
    given,
)
from quadsim.ros.graph.options import SCENARIO_SAYS, ScenarioOptions

if TYPE_CHECKING:
    from quadsim.bag.origin import Origin
    from quadsim.sim.log import FlightLog
    from quadsim.sim.recorded import RecordedLoop
    from quadsim.sim.scenario import Scenario
    from quadsim.sim.vehicles import Vehicles


@dataclass(frozen=True)
class FlightOptions(Printed):
    """What a flight without ROS leaves behind."""

    bag: Path | None = option(
        None, "write a bag here, as the graph would; the folder must not exist"
    )
    recording: Recording = field(default_factory=Recording)
    output: RunFolder = None
    report: Report = True
    pictures: Pictures = None

    def check(self) -> None:
        """Refuse what states how a bag is written where there is none.

        Raises:
            InputError: naming it.
        """
        for flag in given(Recording).values() if self.bag is None else ():
            raise InputError(f"{flag}: only with --bag")


@dataclass(frozen=True)
class SimOptions:
    """Options of ``quadsim sim``."""

    scenario: ScenarioOptions = field(default_factory=ScenarioOptions)
    duration_s: Duration = None
    changes: Changes = ()
    count: int | None = option(None, "vehicles in one world", ge=1, le=1000, unset=SCENARIO_SAYS)
    from_bag: Path | None = option(
        None, "repeat the run that this bag was made by, from its metadata alone"
    )
    own_parts: bool = option(
        False, "with --from-bag: run the own parts that the bag names, which are programs"
    )
    flight: FlightOptions = field(default_factory=FlightOptions)

    def load(self) -> tuple[Scenario, Origin | None]:
        """The scenario with what is given instead, or the one of a bag as it was.

        Raises:
            InputError: options that would change the run of a bag.
        """
        from quadsim.bag.origin import origin_of
        from quadsim.base.changes import parse_changes
        from quadsim.sim.scenario import own_parts

        if self.from_bag is None:
            if self.own_parts:
                raise InputError("--own-parts: only with --from-bag")
            others = {"duration_s": self.duration_s, "vehicles": self.count}
            return self.scenario.load(parse_changes(self.changes), **others), None
        of_run = {*given(ScenarioOptions), "changes", "count", "duration"}
        if flags := [flag for name, flag in given().items() if name in of_run]:
            raise InputError(f"--from-bag: repeats the run as it was; leave out {', '.join(flags)}")
        origin = origin_of(self.from_bag)
        parts = own_parts(origin.scenario)
        if parts and not self.own_parts:
            raise InputError(
                f"{self.from_bag}: was flown with {', '.join(map(str, parts))}; repeat it with"
                " --own-parts if you trust these programs"
            )
        for part in parts:
            part.load()
        return origin.scenario, origin


#: Makes the loop of a vehicle that keeps what a bag wants.
MakeRecorded = Callable[["Scenario", str, "Vehicles", int], "RecordedLoop"]


def fly_once(
    scenario: Scenario,
    bag: Path | None,
    recording: Recording,
    progress: Any,
    make: MakeRecorded | None = None,
) -> tuple[dict[str, FlightLog], str]:
    """Fly, with a bag where one is wanted: made before the flight, filled behind it.

    Args:
        progress: as of :meth:`ClosedLoop.fly`.
        make: makes the loop of a vehicle, if ours will not do.

    Returns:
        The flight of each vehicle by its name, and the digest of all.
    """
    from quadsim.bag.flight import write_flight
    from quadsim.bag.origin import DIGEST, run_facts
    from quadsim.bag.writer import BagWriter
    from quadsim.cli.common import say
    from quadsim.sim.closed_loop import vehicle_names
    from quadsim.sim.recorded import RecordedLoop
    from quadsim.sim.swarm import run_all

    names, rate_hz = vehicle_names(scenario.file.vehicles), scenario.imu.rate_hz
    if bag is None:
        if make is None:
            logs, digest = run_all(scenario, progress)
        else:
            logs, digest = run_all(scenario, progress, make, rate_hz, keep_samples=True)
        return dict(zip(names, logs, strict=True)), digest
    loops: list[RecordedLoop] = []

    def keep(flown: Scenario, vehicle: str, vehicles: Vehicles, index: int) -> RecordedLoop:
        loops.append((make or RecordedLoop)(flown, vehicle, vehicles, index))
        return loops[-1]

    recording.profile()
    with BagWriter(bag, run_facts(scenario), storage=recording.storage()) as writer:
        try:
            logs, digest = run_all(scenario, progress, keep, rate_hz, keep_samples=True)
            writer.tell(DIGEST, digest)
        finally:
            if loops:  # else whatever ended it came before there was a flight
                write_flight(writer, loops, recording)
    if writer.stopped:
        say(f"{bag}: {writer.stopped}")
        logs[0].notes.append(f"{bag}: {writer.stopped}")
    return dict(zip(names, logs, strict=True)), digest


def fly_and_report(
    loaded: Scenario,
    options: FlightOptions,
    make: MakeRecorded | None = None,
    tell: Callable[[dict[str, Any]], None] = lambda summary: None,
    notes: Callable[[str], list[str]] = lambda digest: [],
) -> int:
    """Fly a scenario, and leave a summary and a report in the run's folder.

    Args:
        options: what is left behind.
        make: as of :func:`fly_once`.
        notes: for the first vehicle's report, of the digest.

    Returns:
        The exit status.

    Raises:
        PartError: an own part failed; summary and report are written.
    """
    from quadsim.analysis.criteria import check_signals
    from quadsim.analysis.summary import summarize_all
    from quadsim.base.whole_files import write_whole
    from quadsim.cli.common import say
    from quadsim.cli.show import show_flight
    from quadsim.lab.tune.loop_margins import gains_that_do_not_suit
    from quadsim.sim.scenario import own_parts

    options.check()
    folder = run_folder(loaded.name, options.output)
    check_signals(loaded.criteria, str(loaded.path))
    ours = make is None and all(part.kind != "controller" for part in own_parts(loaded))
    warning = gains_that_do_not_suit(loaded.autopilot, loaded.vehicle) if ours else ""
    if warning:
        say(warning)
    with FlightProgress(loaded.name, loaded.file.duration_s) as progress:
        logs, digest = fly_once(loaded, options.bag, options.recording, progress.update, make)
    next(iter(logs.values())).notes += [*notes(digest), *filter(None, [warning])]
    with staged(folder) as scratch:
        page = folder / "report.html" if options.report else None
        summary = summarize_all(logs, loaded.criteria, bag=options.bag, report=page)
        summary["digest"] = digest
        tell(summary)
        if options.report or options.pictures is not None:
            from quadsim.analysis.report.page import runs_of, write_report

            runs, summaries = runs_of(loaded.name, logs, summary)
            if options.report:
                write_report(runs, summaries, scratch / "report.html")
            write_pictures(runs, summaries, options.pictures)
        write_whole(scratch / "summary.json", to_json(summary) + "\n")
    return show_flight(summary, own_parts(loaded), options.as_json)


@command(SimOptions)
def sim(options: SimOptions) -> int:
    """Fly a scenario without ROS, as fast as the machine goes.

    The run's folder gets summary.json and report.html. The same scenario and seed give the same
    digest every time. Exit status: 0 passed, 1 failed a criterion, 2 bad input.
    """
    with loading("loading"):
        loaded, origin = options.load()
    if origin is None:
        return fly_and_report(loaded, options.flight)
    repeated = origin

    def tell(summary: dict[str, Any]) -> None:
        digest = summary["digest"]
        summary["repeated"] = {"bag": options.from_bag, "digest": repeated.digest or None}
        summary["repeated"]["same"] = digest == repeated.digest

    return fly_and_report(loaded, options.flight, tell=tell, notes=repeated.compare)
