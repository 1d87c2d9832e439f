"""Flying a graph where no launch system is installed: start, watch, stop in order.

Every wait is for a condition, with a deadline that states what was missing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import sub
from pathlib import Path
from typing import Any, Generic, TypeVar

import psutil
from rclpy.context import Context
from std_srvs.srv import SetBool

from quadsim.bag.repair import repair
from quadsim.base.errors import FlightError, InputError
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.graph.graph_events import Report, Watcher
from quadsim.ros.graph.vehicles import vehicle_namespaces
from quadsim.ros.runtime.processes import GraphProcess, end_all
from quadsim.ros.runtime.runtime import own_node, stop_on_signals


@dataclass(frozen=True)
class CpuShare:
    """What one process used.

    Attributes:
        cpu_s: seconds of processor time, user's and system's, of all threads.
        cpu_cores: the same over the wall time, so 1 is a core that did nothing else.
    """

    cpu_s: float
    cpu_cores: float


class CpuUse:
    """CPU time from here on; processes that have ended are left out."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._begun_s = time.monotonic()
        self._marks: dict[str, tuple[psutil.Process, float]] = {}
        for name, pid in pids.items():
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                self._marks[name] = process, _used_s(process)

    def shares(self) -> dict[str, CpuShare]:
        """What each process has used up to now."""
        wall_s = max(time.monotonic() - self._begun_s, 1e-9)
        found = {}
        for name, (process, before_s) in self._marks.items():
            with suppress(psutil.Error):
                cpu_s = _used_s(process) - before_s
                if process.is_running():  # and nobody else has its id
                    found[name] = CpuShare(cpu_s, cpu_s / wall_s)
        return found


def queued_s(pid: int) -> float:
    """Time that the threads of a process have waited for a processor, s; 0 where nobody reports.

    The second number of Linux's ``schedstat``, in ns.
    """
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):
            total_ns += int(task.read_text(encoding="ascii").split()[1])
    return total_ns * 1e-9


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


#: Wall time until every node must be up and matched: the first flight compiles.
START_S = 180.0
#: Wall time without simulated time going on that means something hangs, what a process waited for
#: a processor left out; time after which who is waited for is named, and until it is named again.
STALL_S = 60.0
NAMED_S, NAMED_AGAIN_S = 4.0, 20.0
#: Between two looks at what stands still, and the share of it that a starved process queues.
LOOK_S, STARVED = 1.0, 0.5
#: A node that has not reported for so long is silent.
SILENT_S = 3.0
#: Wall time for the last reports.
REPORT_S = 3.0
#: Wall time for an answer of a service, and until it is asked again: an answer is lost where the
#: server has not yet found who asked.
ANSWER_S = 10.0
ASK_AGAIN_S = 1.0
#: Wall time until Fast DDS has given up the mailboxes that a killed process was writing into. Who
#: leaves before can crash (SharedMemChannelResource::release in 3.2.2): 5 of 240 did at once, none
#: of 219 after 2 s.
GIVEN_UP_S = 2.0

#: The node that flies all vehicles.
SWARM = "swarm"
#: Names of what is no single node: all in one process, and whoever watches them.
ALL_NODES, ITSELF = "all", "supervisor"

Progress = Callable[[float, float | None, str | None], None]
W = TypeVar("W", bound=Watcher)


class Interrupted(Exception):
    """Somebody pressed Ctrl-C or sent SIGTERM."""


@dataclass
class FlightOutcome:
    """What the supervisor knows of a flight.

    Attributes:
        flown_s: simulated time.
        wall_s: wall time of that.
        startup_s: wall time from the start of the processes to the first arming; 0 if none.
        reports: last report of each node.
        finished: whether every mission came to its end.
        unfinished: why not, of the vehicles whose mission did not, by namespace; empty: it is
            done, and the vehicle hovers.
        cpu: CPU time of that, by the full name of the process's node; :data:`ALL_NODES` where all
            are in one process, and :data:`ITSELF`.
        killed: labels of the processes that did not stop when told to.
    """

    flown_s: float = 0.0
    wall_s: float = 0.0
    startup_s: float = 0.0
    reports: dict[str, Report] = field(default_factory=dict)
    finished: bool = False
    unfinished: dict[str, str] = field(default_factory=dict)
    cpu: dict[str, CpuShare] = field(default_factory=dict)
    killed: tuple[str, ...] = ()


class RunningGraph(Generic[W]):
    """A graph's processes, and the node that watches them from this one.

    Args:
        bag: folder that the recorder writes; None if there is no recorder.
        composed: all nodes in one process, but for those in the namespace ``alone``.
        alone: namespace of nodes that have a process each in any case.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        domain: int,
        bag: Path | None,
        composed: bool,
        alone: str = "",
    ) -> None:
        self.specs = list(specs)
        apart = [s for s in self.specs if not composed or (alone and s.namespace == alone)]
        self._groups = [(spec.label, [spec]) for spec in apart]
        if together := [spec for spec in self.specs if spec not in apart]:
            self._groups.append(("graph", together))
        self._domain, self._bag = domain, bag
        self._stop = threading.Event()
        self.processes: list[GraphProcess] = []
        #: Labels of the processes that had to be killed.
        self.killed: tuple[str, ...] = ()

    @contextmanager
    def watched_by(self, make: Callable[[Context], W]) -> Iterator[W]:
        """Let a node watch the graph, which ends with the block; its bag is whole in any case."""
        with stop_on_signals(self._stop):
            try:
                with own_node(make, self._domain) as (self.watcher, self._spin):
                    try:
                        yield self.watcher
                    finally:
                        self._outlast_killed()
            finally:  # the watcher has left DDS before the nodes do, see runtime.ending()
                self._end()

    def _outlast_killed(self) -> None:
        """Stay in DDS for a while where a process has left it without a word."""
        if not all(process.alive for process in self.processes):
            deadline = time.monotonic() + GIVEN_UP_S
            while time.monotonic() < deadline:
                self._spin(0.05)

    def _end(self) -> None:
        """Stop the processes, the recorder last, and make its bag whole."""
        self.killed, _ = end_all(self.processes)
        if self._bag is not None and self._bag.is_dir():
            repair(self._bag)

    def start(self) -> None:
        """Start the processes, and wait until all nodes have found each other.

        Raises:
            FlightError: they have not, or one has ended.
        """
        for label, specs in self._groups:
            self.processes.append(GraphProcess(label, specs, self._domain))
            self.check()
        if not self.wait(lambda: not self._incomplete(), START_S):
            lonely = ", ".join(self._incomplete())
            raise FlightError(f"after {START_S:g} s these nodes lack a counterpart: {lonely}")

    def _incomplete(self) -> list[str]:
        return [s.label for s in self.specs if not self.watcher.complete(s.full_name)]

    def check(self) -> None:
        """Leave when told to, or when a process has ended.

        Raises:
            Interrupted: told to.
            FlightError: a process has ended.
        """
        if self._stop.is_set():
            raise Interrupted
        for process in self.processes:
            if not process.alive:
                raise FlightError(f"node {process.label} {process.cause()}; the graph was stopped")

    def wait(self, condition: Callable[[], bool], within_s: float = math.inf) -> bool:
        """Spin until a condition holds; False if the time is over."""
        deadline = time.monotonic() + within_s
        while not condition():
            self._spin(0.05)
            self.check()
            if time.monotonic() > deadline:
                return False
        return True

    def ask(self, client: Any, request: Any, within_s: float = ANSWER_S) -> None:
        """Ask a service until it agrees.

        Raises:
            FlightError: it is not offered, does not answer, or goes on refusing.
        """
        if not self.wait(client.service_is_ready, within_s):
            raise FlightError(f"nobody offers {client.srv_name}")
        deadline, stated = time.monotonic() + within_s, "no answer"
        while time.monotonic() < deadline:
            future = client.call_async(request)
            if self.wait(future.done, ASK_AGAIN_S):
                answer = future.result()
                if answer.success:
                    return
                stated = answer.message
                self.wait(lambda: False, 0.2)
        raise FlightError(f"{client.srv_name}: {stated}")

    def collect(self) -> None:
        """Wait for a last report of every node."""
        report = self.watcher.report
        counts = {s.full_name: report(s.full_name).count for s in self.specs}
        self.wait(lambda: all(report(n).count > c for n, c in counts.items()), REPORT_S)


class Standstill:
    """For how long simulated time has stood still without a busy machine as the reason.

    A second in which some process of the graph waited for a processor half of the time does not
    count, nor does what is beyond it where the look itself came late.
    """

    def __init__(self, pids: Sequence[int], queued: Callable[[int], float] = queued_s) -> None:
        self._pids, self._queued = pids, queued
        self.start(-1, 0.0)

    def start(self, time_ns: int, now_s: float) -> None:
        """Count from now."""
        self._time_ns, self._since_s, self._looked_s = time_ns, now_s, now_s
        self._before: list[float] = []
        self.counted_s = 0.0

    def look(self, time_ns: int, now_s: float) -> bool:
        """Take note of simulated time; whether it has stood for so long that it is reported."""
        past_s = now_s - self._looked_s
        if time_ns != self._time_ns:
            self.start(time_ns, now_s)
        elif past_s >= LOOK_S:
            queued = [self._queued(pid) for pid in self._pids]
            if max(map(sub, queued, self._before), default=0.0) < STARVED * past_s:
                self.counted_s += LOOK_S
            self._looked_s, self._before = now_s, queued
        return now_s - self._since_s >= NAMED_S


class Supervisor:
    """One flight of a graph.

    Args:
        specs: the graph's nodes; see :func:`quadsim.ros.graph.graph.describe`.
        count: vehicles.
        composed: all nodes in one process.
        duration_s: longest flight, simulated.
        bag: folder that the recorder writes; None if there is no recorder.
        progress: called with time flown, height and state of the first vehicle.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        count: int,
        domain: int,
        composed: bool,
        duration_s: float,
        bag: Path | None,
        progress: Progress,
    ) -> None:
        self._graph: RunningGraph[Watcher] = RunningGraph(specs, domain, bag, composed)
        self._namespaces = vehicle_namespaces(count)
        swarm = next((spec.full_name for spec in specs if spec.executable == SWARM), "")
        self._world = swarm or "/dynamics"
        self._heights = swarm or f"{self._namespaces[0]}/autopilot"
        self._domain = domain
        self._composed = composed
        self._duration_ns = round(duration_s * 1e9)
        self._progress = progress
        self.outcome = FlightOutcome()

    def fly(self) -> FlightOutcome:
        """Fly to the end of the missions or of the time.

        Raises:
            InputError: the domain is somebody else's.
            FlightError: a node ended, time stood still, or somebody else set it.
            Interrupted: by a signal. The bag is whole in every case.
        """
        try:
            with self._graph.watched_by(partial(Watcher, namespaces=self._namespaces)) as watcher:
                self._watcher = watcher
                self.outcome.reports = watcher.reports
                self._start()
                self._graph.wait(self._over)
                self._note_end()
                self._pause(True)
                self._graph.collect()
                self._note_unfinished()
        finally:
            self.outcome.killed = self._graph.killed
        return self.outcome

    def _start(self) -> None:
        """Start the graph, and let time run."""
        self._started_s = time.monotonic()
        self._graph.start()
        if self._watcher.clock_heard:  # ours is paused
            raise InputError(self._foreign_clock())
        self._pause(False)
        pids = {self._name_of(process): process.pid for process in self._graph.processes}
        self._cpu = CpuUse(pids | {ITSELF: os.getpid()})
        self._begun_s = time.monotonic()
        self._standstill = Standstill(list(pids.values()))

    def _name_of(self, process: GraphProcess) -> str:
        return ALL_NODES if self._composed else process.specs[0].full_name

    def _foreign_clock(self) -> str:
        return (
            f"DDS domain {self._domain}: somebody else publishes /clock there; stop it, or"
            " choose another domain with --domain"
        )

    def _pause(self, paused: bool) -> None:
        self._graph.ask(self._watcher.pause_client, SetBool.Request(data=paused))

    def _over(self) -> bool:
        """Whether every mission has finished, or the time is over."""
        watcher, now_s = self._watcher, time.monotonic()
        if watcher.clock_disturbed:
            raise FlightError(self._foreign_clock())
        time_ns = watcher.time_ns
        world = watcher.report(self._world).message
        if world == "paused":
            self._standstill.start(time_ns, now_s)
        elif self._standstill.look(time_ns, now_s):
            words = f"time stands still at {time_ns * 1e-9:.3f} s: {self._waited_for(world)}"
            if self._standstill.counted_s >= STALL_S:
                raise FlightError(f"simulated {words}")
            watcher.get_logger().warning(words, throttle_duration_sec=NAMED_AGAIN_S)
        mission = watcher.missions.get(self._namespaces[0], {})
        if not self.outcome.startup_s and mission.get("armed") == "true":
            self.outcome.startup_s = now_s - self._started_s
        height_m = watcher.report(self._heights).number("height_m")
        self._progress(time_ns * 1e-9, height_m, mission.get("state"))
        return time_ns >= self._duration_ns or all(map(watcher.over, self._namespaces))

    def _waited_for(self, world: str) -> str:
        """Which nodes do not report any more, or else the report of the world's."""
        since_s, names = time.monotonic() - SILENT_S, [s.full_name for s in self._graph.specs]
        silent = [name for name in names if self._watcher.report(name).heard_s < since_s]
        lives = f"alive and silent: {', '.join(silent)}"
        return lives if silent else f"node {self._world} has {world!r}"

    def _why(self, namespace: str) -> str:
        """Why a vehicle's mission is not over, as its autopilot or the swarm last stated."""
        stated = self._watcher.report(self._heights).values
        key = f"unfinished {namespace.strip('/')}"
        if key not in stated:
            stated, key = self._watcher.report(f"{namespace}/autopilot").values, "unfinished"
        return stated.get(key, "its autopilot did not say why")

    def _note_unfinished(self) -> None:
        outcome, finished = self.outcome, self._watcher.finished
        outcome.unfinished = {n: self._why(n) for n in self._namespaces if not finished(n)}
        outcome.finished = not any(outcome.unfinished.values())

    def _note_end(self) -> None:
        outcome = self.outcome
        outcome.flown_s = self._watcher.time_ns * 1e-9
        outcome.wall_s = time.monotonic() - self._begun_s
        outcome.cpu = self._cpu.shares()
