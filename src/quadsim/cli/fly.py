"""``quadsim fly``: a scenario as a graph of ROS 2 nodes on real DDS."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim.base.errors import FlightError, InputError
from quadsim.base.options import option
from quadsim.cli.common import (
    INTERRUPTED,
    FlightProgress,
    exit_status,
    loading,
    one_line,
    ready_for_ros,
    run_folder,
    say,
    to_json,
    working,
    write_pictures,
)
from quadsim.cli.options import (
    Domain,
    Duration,
    Pictures,
    Printed,
    Report,
    RunFolder,
    command,
    given,
)
from quadsim.ros.graph.options import SCENARIO_SAYS, GraphOptions, ScenarioOptions, SwarmOptions

if TYPE_CHECKING:
    from quadsim.ros.graph.graph import NodeSpec
    from quadsim.ros.graph.supervisor import FlightOutcome
    from quadsim.sim.scenario import Scenario


#: Longest flight by somebody's sticks where nothing else is stated, s.
PILOTED_S = 3600.0
#: What is recorded of a swarm where nothing else is stated.
SWARM_PROFILE = "swarm"
#: Mapping of the keys of a terminal.
KEYBOARD = "keyboard"


@dataclass(frozen=True)
class FlyOptions(Printed):
    """Options of ``quadsim fly``."""

    scenario: ScenarioOptions = field(default_factory=ScenarioOptions)
    duration_s: Duration = None
    count: int | None = option(None, "vehicles", ge=1, le=1000, unset=SCENARIO_SAYS)
    swarm: bool | None = option(
        None,
        "all vehicles in one process, not in nine each",
        flags="--swarm/--no-swarm",
        unset="more than four, own parts, a start in the air, or vehicles that give way or fly in"
        " formation",
    )
    publish: str | None = option(
        None,
        "of a swarm: truth and estimates; with each IMU; with every sensor",
        choices=("estimates", "imu", "all"),
        unset="estimates",
    )
    composed: bool = option(False, "all nodes in one process")
    rate: float | None = option(
        None,
        "simulated over wall time; lockstep: 0, the default, is as fast as the graph goes",
        ge=0.0,
        le=1000.0,
    )
    graph: GraphOptions = field(default_factory=GraphOptions)
    keys: bool = option(False, "arrow keys push the first vehicle; space pauses, r resets, q quits")
    pilot: bool = option(
        False, "fly by the keys of this terminal; arm by holding o. See docs/piloting.md"
    )
    domain: Domain = None
    output: RunFolder = None
    report: Report = True
    pictures: Pictures = None

    def check(self) -> None:
        """Refuse options that do not go together.

        Raises:
            InputError: naming them.
        """
        if self.graph.pacing == "realtime" and self.rate == 0.0:
            raise InputError("--rate: 0 is for --pacing lockstep; by the wall clock it is above 0")
        for name in self.terminal:
            if not sys.stdin.isatty():
                raise InputError(f"{name}: standard input is no terminal")
        if self.pilot and (self.keys or self.graph.joystick):
            raise InputError("--pilot: not together with --keys, --joystick")

    @property
    def terminal(self) -> list[str]:
        """Options that take the terminal's keys."""
        return ["--keys"] * self.keys + ["--pilot"] * self.pilot


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


def _quiet(flown_s: float, height_m: float | None, state: str | None) -> None:
    """No progress: the pilot writes a line of its own."""


def _graph_values(outcome: FlightOutcome, scenario: Scenario, nodes: list[str]) -> dict[str, Any]:
    """Entries of the summary on the graph."""
    from quadsim.ros.graph.supervisor import ITSELF

    dynamics = outcome.reports.get("/dynamics") or outcome.reports.get("/swarm")
    shares = {name: asdict(share) for name, share in outcome.cpu.items()}
    none = {"cpu_s": None, "cpu_cores": None}
    watcher = shares.pop(ITSELF, none)
    fractions = []
    for name, report in outcome.reports.items():
        last_ns, received = report.number("imu_last_ns"), report.number("imu_messages")
        if name.endswith("/estimator") and last_ns and received:
            # a sample a period from the start of simulated time; the first truth makes none
            published = round(last_ns / scenario.imu_period_ns) - 1
            fractions.append(received / published)
    return {
        # in one process nobody knows which node uses what
        "nodes": {name: shares.get(name, none) for name in nodes},
        "cpu_s": sum(share["cpu_s"] for share in shares.values()) if shares else None,
        "cpu_cores": sum(share["cpu_cores"] for share in shares.values()) if shares else None,
        "supervisor": watcher,
        "startup_s": outcome.startup_s or None,
        "imu_received_fraction": min(fractions, default=None),
        "latency_ms": {
            "median": dynamics.number("latency_median_ms") if dynamics else None,
            "p99": dynamics.number("latency_99_ms") if dynamics else None,
        },
    }


@command(FlyOptions)
def fly(options: FlyOptions) -> int:
    """Fly a scenario as a graph of ROS 2 nodes; record a bag, and report.

    The run's folder gets the bag, summary.json and report.html. Exit status: 0 passed, 1 failed a
    criterion or a node died, 2 bad input, 130 interrupted (the bag is whole in any case).
    """
    options.check()
    folder = run_folder(options.scenario.scenario, options.output)
    ready_for_ros()
    from quadsim.ros.runtime.domain import chosen_domain, held

    domain = chosen_domain(options.domain)
    with held(domain):
        with loading("starting the nodes"):
            from quadsim.ros.runtime.processes import prepare

            prepare()  # the server loads meanwhile
            from quadsim.base.whole_files import write_whole

            loaded, specs = _described(options, folder)
        outcome, failure = _flown(options, loaded, specs, domain, folder)
    if failure:
        say(failure)
    if outcome.killed:
        say(f"killed, as they did not stop: {', '.join(outcome.killed)}")
    if failure == "interrupted":
        say(f"bag: {folder / 'bag'}")
        return INTERRUPTED
    try:
        summary = _summary(options, loaded, folder, outcome, failure)
    except InputError as error:  # there is no bag, or an empty one
        if not failure:
            raise
        say(one_line(error))
        return exit_status(passed=False)
    summary |= _graph_values(outcome, loaded, [spec.full_name for spec in specs])
    write_whole(folder / "summary.json", to_json(summary) + "\n")
    from quadsim.cli.show import show_flight
    from quadsim.sim.scenario import own_parts

    return show_flight(summary, own_parts(loaded), options.as_json)


def _described(options: FlyOptions, folder: Path) -> tuple[Scenario, list[NodeSpec]]:
    """The scenario and its graph."""
    from quadsim.analysis.criteria import check_signals
    from quadsim.bag.writer import need_room
    from quadsim.control.joystick import load_joystick
    from quadsim.lab.tune.loop_margins import gains_that_do_not_suit
    from quadsim.ros.graph.graph import describe
    from quadsim.ros.graph.swarm_graph import NOT_WITH_A_SWARM, describe_swarm, flies_as_swarm
    from quadsim.ros.parts.estimator_params import check_beside

    graph = options.graph
    piloted = options.pilot or graph.joystick is not None
    duration_s = PILOTED_S if piloted and options.duration_s is None else options.duration_s
    loaded = options.scenario.load(duration_s=duration_s, vehicles=options.count)
    count = loaded.file.vehicles
    together = flies_as_swarm(loaded, count, options.swarm)
    if options.publish is not None and not together:
        raise InputError("--publish: of a swarm only; --swarm flies one")
    for name in options.terminal if together else ():
        raise InputError(f"{name}: {NOT_WITH_A_SWARM}")
    check_signals(loaded.criteria, str(loaded.path))
    if warning := gains_that_do_not_suit(loaded.autopilot, loaded.vehicle):
        say(warning)
    if graph.joystick is not None:
        load_joystick(graph.joystick)
    recording = graph.recording
    if together and "record_profile" not in given():
        recording = replace(recording, record_profile=SWARM_PROFILE)
    recording.profile()
    need_room(folder)
    graph = replace(
        graph,
        count=count,
        rate=options.rate if options.rate is not None else float(graph.pacing == "realtime"),
        paused=True,
        arm=not piloted,
        bag=str((folder / "bag").absolute()),
        joystick=KEYBOARD if options.pilot else graph.joystick,
        recording=recording,
    )
    if together:
        swarm = SwarmOptions(publish=options.publish or "estimates")
        return loaded, describe_swarm(loaded, graph, swarm)
    specs = describe(loaded, graph)
    if not any(spec.executable == "dynamics" for spec in specs):
        raise InputError(
            f"--drivers {graph.drivers}: quadsim fly ends with the simulated vehicle's flight, and"
            " nothing simulates it; chain sim with its dynamics too, or use"
            " ros2 launch quadsim sim.launch.py"
        )
    check_beside(graph.beside, "--beside")
    return loaded, specs


def _flown(
    options: FlyOptions, loaded: Scenario, specs: list[NodeSpec], domain: int, folder: Path
) -> tuple[FlightOutcome, str]:
    """Fly the graph; what came of it, and why it ended early, in words."""
    from quadsim.ros.graph.supervisor import Interrupted, Supervisor

    count, duration_s, failure = loaded.file.vehicles, loaded.file.duration_s, ""
    with _made(folder), ExitStack() as stack:
        progress = stack.enter_context(FlightProgress(loaded.name, duration_s))
        shown = _quiet if options.pilot else progress.update
        supervisor = Supervisor(
            specs, count, domain, options.composed, duration_s, folder / "bag", shown
        )
        if options.terminal:
            from quadsim.ros.graph.vehicles import vehicle_namespaces
            from quadsim.ros.nodes.keys import KeysNode, at_terminal
            from quadsim.ros.nodes.pilot import PilotNode

            node = PilotNode if options.pilot else KeysNode
            stack.enter_context(at_terminal(node, domain, vehicle_namespaces(count)[0]))
        try:
            supervisor.fly()
        except FlightError as error:
            failure = str(error)
        except Interrupted:
            failure = "interrupted"
    return supervisor.outcome, failure


def _summary(
    options: FlyOptions, scenario: Scenario, folder: Path, outcome: FlightOutcome, failure: str
) -> dict[str, Any]:
    """Read the bag, score every vehicle's flight, write the report."""
    from quadsim.analysis.criteria import need_imu
    from quadsim.analysis.report.page import runs_of, write_report
    from quadsim.analysis.summary import summarize_all
    from quadsim.bag.log import read_logs
    from quadsim.bag.reading import open_bag
    from quadsim.ros.graph.vehicles import vehicle_namespaces
    from quadsim.ros.nodes.recorder import STOPPED
    from quadsim.sim.log import ERROR, Event, timeout_event
    from quadsim.vehicle.outline import outline_m
    from quadsim.world.build import ground_beneath

    bag, page = folder / "bag", folder / "report.html" if options.report else None
    names = vehicle_namespaces(scenario.file.vehicles)
    with working("reading the bag"), open_bag(bag) as opened:
        flown = read_logs(opened, names, with_imu=need_imu(scenario.criteria))
        stamp_ns = round(outcome.flown_s * 1e9)
        for namespace, log in flown.items():
            log.wall_s = outcome.wall_s
            log.hull_m = outline_m(scenario.vehicle)
            log.ground_m = ground_beneath(
                scenario.scene, scenario.environment.ground_height_m, log.truth.p_W
            )
            if not failure and namespace in outcome.unfinished:
                log.events.append(timeout_event(stamp_ns, outcome.unfinished[namespace]))
        first = next(iter(flown.values()))
        first.notes += scenario.notes
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
    write_pictures(runs, summaries, options.pictures)
    return summary
