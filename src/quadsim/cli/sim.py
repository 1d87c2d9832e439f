"""``quadsim sim``: a scenario without ROS, in the deterministic closed loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.errors import InputError
from quadsim.cli.common import (
    FlightProgress,
    exit_status,
    flight_options,
    json_option,
    loading,
    output_option,
    pictures_option,
    recording_options,
    run_folder,
    staged,
    to_json,
    write_pictures,
)

if TYPE_CHECKING:
    from quadsim.bag.origin import Origin
    from quadsim.bag.profiles import Recording
    from quadsim.sim.log import FlightLog
    from quadsim.sim.scenario import Scenario


def _scenario_of(
    ctx: click.Context,
    from_bag: Path | None,
    name: str,
    changes: tuple[str, ...],
    overrides: dict[str, Any],
) -> tuple[Scenario, Origin | None]:
    """The scenario of a file with what is given instead, or the one of a bag as it was.

    Raises:
        InputError: options that would change the run of a bag.
    """
    from quadsim.bag.origin import origin_of
    from quadsim.base.changes import parse_changes
    from quadsim.sim.scenario import load_scenario

    if from_bag is None:
        return load_scenario(name, parse_changes(changes), **overrides), None
    given = [
        key
        for key in ("scenario", "changes", *overrides)
        if ctx.get_parameter_source(key) != click.core.ParameterSource.DEFAULT
    ]
    if given:
        names = {"changes": "set", "vehicles": "count", "duration_s": "duration"}
        options = ", ".join(f"--{names.get(key, key)}" for key in given)
        raise InputError(f"--from-bag: repeats the run as it was; leave out {options}")
    origin = origin_of(from_bag)
    return origin.scenario, origin


def fly_once(
    scenario: Scenario, bag: Path | None, recording: Recording, progress: Any
) -> tuple[dict[str, FlightLog], str]:
    """Fly, with a bag where one is wanted: made before the flight, filled behind it.

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
    from quadsim.sim.vehicles import Vehicles

    names = vehicle_names(scenario.file.vehicles)
    if bag is None:
        logs, digest = run_all(scenario, progress)
        return dict(zip(names, logs, strict=True)), digest
    loops: list[RecordedLoop] = []

    def make(flown: Scenario, vehicle: str, vehicles: Vehicles, index: int) -> RecordedLoop:
        loops.append(RecordedLoop(flown, vehicle, vehicles, index))
        return loops[-1]

    recording.profile()
    with BagWriter(bag, run_facts(scenario), storage=recording.storage()) as writer:
        try:
            rate_hz = scenario.imu.rate_hz
            logs, digest = run_all(scenario, progress, make, rate_hz, keep_samples=True)
            writer.tell(DIGEST, digest)
        finally:
            if loops:  # else whatever ended it came before there was a flight
                write_flight(writer, loops, recording)
    if writer.stopped:
        say(f"{bag}: {writer.stopped}")
        logs[0].notes.append(f"{bag}: {writer.stopped}")
    return dict(zip(names, logs, strict=True)), digest


@click.command()
@flight_options
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the scenario or of a file that it names, such as vehicle.mass_kg=2.1 or"
    " sensors.gnss=ublox_m8; may be repeated.",
)
@click.option(
    "--count",
    "vehicles",
    type=click.IntRange(1, 1000),
    help="Vehicles in one world.  [default: as the scenario says]",
)
@click.option(
    "--bag",
    type=click.Path(path_type=Path),
    help="Write a bag here, as the graph would; the folder must not exist.",
)
@click.option(
    "--from-bag",
    type=click.Path(path_type=Path),
    help="Repeat the run that this bag was made by, from its metadata alone.",
)
@recording_options
@output_option
@click.option("--report/--no-report", default=True, help="Write report.html.  [default: report]")
@pictures_option
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
    changes: tuple[str, ...],
    vehicles: int | None,
    bag: Path | None,
    from_bag: Path | None,
    record_profile: str,
    split_mb: float,
    split_s: float,
    compression: str,
    output: Path | None,
    report: bool,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Fly a scenario without ROS, as fast as the machine goes.

    The run's folder gets summary.json and report.html. The same scenario and seed give the same
    digest every time. Exit status: 0 passed, 1 failed a criterion, 2 bad input.
    """
    with loading("loading"):
        from quadsim.analysis.criteria import check_signals
        from quadsim.analysis.summary import summarize_all
        from quadsim.bag.profiles import Recording
        from quadsim.base.whole_files import write_whole
        from quadsim.cli.show import show_summary

        overrides = {
            "autopilot": autopilot,
            "sensors": sensors,
            "vehicle": vehicle,
            "seed": seed,
            "duration_s": duration_s,
            "vehicles": vehicles,
        }
        loaded, origin = _scenario_of(ctx, from_bag, scenario, changes, overrides)
    folder = run_folder(loaded.name, output)
    check_signals(loaded.criteria, str(loaded.path))
    recording = Recording(record_profile, split_mb, split_s, compression)
    with FlightProgress(loaded.name, loaded.file.duration_s) as progress:
        logs, digest = fly_once(loaded, bag, recording, progress.update)
    if origin is not None:
        next(iter(logs.values())).notes += origin.compare(digest)
    with staged(folder) as scratch:
        page = folder / "report.html" if report else None
        summary = summarize_all(logs, loaded.criteria, bag=bag, report=page)
        summary["digest"] = digest
        if origin is not None:
            summary["repeated"] = {"bag": from_bag, "digest": origin.digest or None}
            summary["repeated"]["same"] = digest == origin.digest
        if report or pictures is not None:
            from quadsim.analysis.report.page import runs_of, write_report

            runs, summaries = runs_of(loaded.name, logs, summary)
            if report:
                write_report(runs, summaries, scratch / "report.html")
            write_pictures(runs, summaries, pictures)
        write_whole(scratch / "summary.json", to_json(summary) + "\n")
    show_summary(summary, as_json)
    ctx.exit(exit_status(summary["passed"]))
