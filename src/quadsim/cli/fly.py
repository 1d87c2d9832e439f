"""``quadsim fly``: a scenario as a graph of ROS 2 nodes on real DDS."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.errors import FlightError, InputError
from quadsim.cli.common import (
    INTERRUPTED,
    FlightProgress,
    exit_status,
    flight_options,
    json_option,
    loading,
    output_option,
    pictures_option,
    ready_for_ros,
    recording_options,
    run_folder,
    say,
    to_json,
    working,
    write_pictures,
)

if TYPE_CHECKING:
    from quadsim.ros.graph.supervisor import Outcome
    from quadsim.sim.scenario import Scenario


#: Longest flight by somebody's sticks where nothing else is said, s.
PILOTED_S = 3600.0
#: What is recorded of a swarm where nothing else is said.
SWARM_PROFILE = "swarm"
DEFAULT = click.core.ParameterSource.DEFAULT
#: Mapping of the keys of a terminal.
KEYBOARD = "keyboard"


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the run's folder, and leave nothing behind when the input cannot be used after all."""
    existed = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror})") from None
    try:
        yield
    except InputError:
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise


class _Progress:
    """Progress of a flight, which begins with the first call: the start does not count."""

    def __init__(self, stack: ExitStack, label: str, duration_s: float) -> None:
        self._stack = stack
        self._progress = FlightProgress(label, duration_s)
        self._entered = False

    def __call__(self, flown_s: float, height_m: float | None, state: str | None) -> None:
        if not self._entered:
            self._entered = True
            self._stack.enter_context(self._progress)
        self._progress.update(flown_s, height_m, state)


def _quiet(flown_s: float, height_m: float | None, state: str | None) -> None:
    """No progress: the pilot writes a line of its own."""


def _graph_values(outcome: Outcome, scenario: Scenario, nodes: list[str]) -> dict[str, Any]:
    """What the summary says of the graph beyond the flight."""
    from quadsim.ros.graph.supervisor import ITSELF

    dynamics = outcome.reports.get("/dynamics") or outcome.reports.get("/swarm")
    shares = {name: asdict(share) for name, share in outcome.cpu.items()}
    none = {"cpu_s": None, "cpu_cores": None}
    watcher = shares.pop(ITSELF, none)
    values: dict[str, Any] = {
        # in one process nobody knows which node uses what
        "nodes": {name: shares.get(name, none) for name in nodes},
        "cpu_s": sum(share["cpu_s"] for share in shares.values()) if shares else None,
        "cpu_cores": sum(share["cpu_cores"] for share in shares.values()) if shares else None,
        "supervisor": watcher,
        "startup_s": outcome.startup_s or None,
        "imu_received_fraction": None,
        "latency_ms": {
            "median": dynamics.number("latency_median_ms") if dynamics else None,
            "p99": dynamics.number("latency_99_ms") if dynamics else None,
        },
    }
    fractions = []
    for name, report in outcome.reports.items():
        last_ns, received = report.number("imu_last_ns"), report.number("imu_messages")
        if name.endswith("/estimator") and last_ns and received:
            # a sample a period from the start of simulated time; the first truth makes none
            published = round(last_ns / scenario.imu_period_ns) - 1
            fractions.append(received / published)
    if fractions:
        values["imu_received_fraction"] = min(fractions)
    return values


@click.command()
@flight_options
@click.option(
    "--count", type=click.IntRange(1, 1000), help="Vehicles.  [default: as the scenario says]"
)
@click.option(
    "--swarm/--no-swarm",
    default=None,
    help="All vehicles in one process, not in nine each.  [default: more than four, or vehicles"
    " that give way to each other or fly in formation]",
)
@click.option(
    "--publish",
    type=click.Choice(["estimates", "imu", "all"]),
    help="Of a swarm: truth and estimates; with each IMU; with every sensor.  [default: estimates]",
)
@click.option("--composed", is_flag=True, help="All nodes in one process.")
@click.option(
    "--pacing",
    type=click.Choice(["realtime", "lockstep"]),
    default="realtime",
    show_default=True,
    help="By the wall clock, or in step with the motor commands.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.0, 1000.0),
    help="Simulated over wall time; lockstep: 0, the default, is as fast as the graph goes.",
)
@click.option(
    "--drivers",
    default="sim",
    show_default=True,
    metavar="NAMES",
    help="Who gives what, with commas: vectornav:imu,sim. See docs/drivers.md.",
)
@click.option(
    "--driver-namespace",
    default="",
    metavar="NAME",
    help="What stands before the drivers' topics, /uav1.  [default: found]",
)
@click.option(
    "--beside",
    multiple=True,
    metavar="NAME",
    help="Run another estimator beside (may be repeated), and score it too.",
)
@click.option(
    "--keys",
    is_flag=True,
    help="Arrow keys push the first vehicle; space pauses, r resets, q quits.",
)
@click.option(
    "--pilot",
    is_flag=True,
    help="Fly by the keys of this terminal; arm by holding o. See docs/piloting.md.",
)
@click.option(
    "--joystick",
    metavar="NAME",
    help="Fly by the topic joy through a mapping of config/joysticks; arm by its button.",
)
@click.option("--domain", type=int, help="DDS domain, 0 to 232.  [default: ROS_DOMAIN_ID, or 0]")
@recording_options
@output_option
@click.option("--report/--no-report", default=True, help="Write report.html.  [default: report]")
@pictures_option
@json_option
@click.pass_context
def fly(
    ctx: click.Context,
    scenario: str,
    autopilot: str | None,
    sensors: str | None,
    vehicle: str | None,
    seed: int | None,
    duration_s: float | None,
    count: int | None,
    swarm: bool | None,
    publish: str | None,
    composed: bool,
    pacing: str,
    rate: float | None,
    drivers: str,
    driver_namespace: str,
    beside: tuple[str, ...],
    keys: bool,
    pilot: bool,
    joystick: str | None,
    domain: int | None,
    record_profile: str,
    split_mb: float,
    split_s: float,
    compression: str,
    output: Path | None,
    report: bool,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Fly a scenario as a graph of ROS 2 nodes; record a bag, and report.

    The run's folder gets the bag, summary.json and report.html. Exit status: 0 passed, 1 failed a
    criterion or a node died, 2 bad input, 130 interrupted (the bag is whole in any case).
    """
    if pacing == "realtime" and rate == 0.0:
        raise InputError("--rate: 0 is for --pacing lockstep; by the wall clock it is above 0")
    for name, given in (("--keys", keys), ("--pilot", pilot)):
        if given and not sys.stdin.isatty():
            raise InputError(f"{name}: standard input is no terminal")
    if pilot and (keys or joystick):
        raise InputError("--pilot: not together with --keys, --joystick")
    piloted = pilot or joystick is not None
    if piloted and duration_s is None:
        duration_s = PILOTED_S
    folder = run_folder(scenario, output)
    ready_for_ros()
    from quadsim.ros.runtime.domain import chosen_domain, held

    domain = chosen_domain(domain)
    with held(domain):
        from quadsim.ros.runtime.processes import prepare

        prepare()  # the server loads meanwhile
        with loading("starting the nodes"):
            from quadsim.analysis.criteria import check_signals
            from quadsim.bag.profiles import Recording
            from quadsim.bag.writer import need_room
            from quadsim.control.joystick import load_joystick
            from quadsim.ros.graph.graph import GraphOptions, describe
            from quadsim.ros.graph.supervisor import Interrupted, Supervisor
            from quadsim.ros.graph.swarm_graph import (
                NOT_WITH_A_SWARM,
                describe_swarm,
                flies_as_swarm,
            )
            from quadsim.sim.scenario import load_scenario

            loaded = load_scenario(
                scenario,
                autopilot=autopilot,
                sensors=sensors,
                vehicle=vehicle,
                seed=seed,
                duration_s=duration_s,
                vehicles=count,
            )
            count = loaded.file.vehicles
            together = flies_as_swarm(loaded, count, swarm)
            if publish is not None and not together:
                raise InputError("--publish: of a swarm only; --swarm flies one")
            for name, given in (("--keys", keys), ("--pilot", pilot)):
                if given and together:
                    raise InputError(f"{name}: {NOT_WITH_A_SWARM}")
            if together and ctx.get_parameter_source("record_profile") == DEFAULT:
                record_profile = SWARM_PROFILE
            check_signals(loaded.criteria, str(loaded.path))
            if joystick is not None:
                load_joystick(joystick)
            recording = Recording(record_profile, split_mb, split_s, compression)
            recording.profile()
            need_room(folder)
        bag = folder / "bag"
        options = GraphOptions(
            count=count,
            pacing=pacing,
            rate=rate if rate is not None else float(pacing == "realtime"),
            paused=True,
            arm=not piloted,
            bag=str(bag.absolute()),
            drivers=drivers,
            driver_namespace=driver_namespace,
            beside=beside,
            joystick=KEYBOARD if pilot else joystick or "",
            recording=recording,
        )
        if together:
            specs = describe_swarm(loaded, options, {"publish": publish or "estimates"})
        else:
            specs = describe(loaded, options)
        if not {"dynamics", "swarm"} & {spec.executable for spec in specs}:
            raise InputError(
                f"--drivers {drivers}: quadsim fly ends with the simulated vehicle's flight, and"
                " nothing simulates it; chain sim with its dynamics too, or use"
                " ros2 launch quadsim sim.launch.py"
            )
        failure = ""
        with _made(folder), ExitStack() as stack:
            progress = _Progress(stack, loaded.name, loaded.file.duration_s)
            supervisor = Supervisor(
                specs,
                count,
                domain,
                composed,
                loaded.file.duration_s,
                bag,
                _quiet if pilot else progress,
            )
            if keys or pilot:
                from quadsim.ros.graph.vehicles import namespaces
                from quadsim.ros.nodes.keys import KeysNode, at_terminal
                from quadsim.ros.nodes.pilot import PilotNode

                node = PilotNode if pilot else KeysNode
                stack.enter_context(at_terminal(node, domain, namespaces(count)[0]))
            try:
                supervisor.fly()
            except FlightError as error:
                failure = str(error)
            except Interrupted:
                failure = "interrupted"
    if failure:
        say(failure)
    if supervisor.outcome.killed:
        say(f"killed, as they did not stop: {', '.join(supervisor.outcome.killed)}")
    if failure == "interrupted":
        say(f"bag: {bag}")
        ctx.exit(INTERRUPTED)
    from quadsim.base.whole_files import write_whole

    summary = _finish(folder, bag, loaded, supervisor.outcome, failure, report, pictures, count)
    summary |= _graph_values(supervisor.outcome, loaded, [spec.full_name for spec in specs])
    write_whole(folder / "summary.json", to_json(summary) + "\n")
    from quadsim.cli.show import show_summary

    show_summary(summary, as_json)
    ctx.exit(exit_status(summary["passed"]))


def _finish(
    folder: Path,
    bag: Path,
    scenario: Scenario,
    outcome: Outcome,
    failure: str,
    report: bool,
    pictures: Path | None,
    count: int,
) -> dict[str, Any]:
    """Read the bag, score every vehicle's flight, write the report."""
    from quadsim.analysis.criteria import need_imu
    from quadsim.analysis.report.page import runs_of, write_report
    from quadsim.analysis.summary import summarize_all
    from quadsim.bag.log import read_logs
    from quadsim.bag.reading import open_bag
    from quadsim.ros.graph.vehicles import namespaces
    from quadsim.ros.nodes.recorder import STOPPED
    from quadsim.sim.log import ERROR, Event
    from quadsim.vehicle.outline import outline_m
    from quadsim.world.build import ground_beneath

    page = folder / "report.html" if report else None
    with working("reading the bag"), open_bag(bag) as opened:
        flown = read_logs(opened, namespaces(count), with_imu=need_imu(scenario.criteria))
        stamp_ns = round(outcome.flown_s * 1e9)
        for namespace, log in flown.items():
            log.wall_s = outcome.wall_s
            log.hull_m = outline_m(scenario.vehicle)
            log.ground_m = ground_beneath(
                scenario.scene, scenario.environment.ground_height_m, log.truth.p_W
            )
            if not failure and namespace in outcome.unfinished:
                words = "the mission did not end in time"
                log.events.append(Event(stamp_ns, ERROR, "timeout", words))
        first = next(iter(flown.values()))
        recorder = outcome.reports.get("/recorder")
        if recorder is not None and recorder.message not in ("recording", ""):
            first.events.append(Event(stamp_ns, ERROR, STOPPED, recorder.message))
        if failure:
            first.events.append(Event(stamp_ns, ERROR, "graph", failure))
        logs = {namespace.strip("/"): log for namespace, log in flown.items()}
        summary = summarize_all(logs, scenario.criteria, bag=bag, report=page)
    runs, summaries = runs_of(scenario.name, logs, summary)
    if page is not None:
        write_report(runs, summaries, page)
    write_pictures(runs, summaries, pictures)
    return summary
