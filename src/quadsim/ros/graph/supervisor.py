"""Flying a graph where no launch system is installed: start, watch, stop in order.

Every wait is for a condition, with a deadline that says what was missing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from std_srvs.srv import SetBool

from quadsim.bag.repair import repair
from quadsim.base.errors import FlightError, InputError
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.graph.graph_events import Report, Watcher
from quadsim.ros.graph.vehicles import namespaces
from quadsim.ros.runtime.cpu import CpuShare, CpuUse
from quadsim.ros.runtime.processes import GraphProcess, stop_all
from quadsim.ros.runtime.runtime import own_node, stop_on_signals

#: Wall time until every node must be up and matched: the first flight compiles.
START_S = 180.0
#: Wall time without simulated time going on that means something hangs.
STALL_S = 5.0
#: Wall time for the last reports.
REPORT_S = 3.0
#: Wall time for an answer of a service, and until it is asked again: an answer is lost where the
#: server has not yet found who asked.
ANSWER_S = 5.0
ASK_AGAIN_S = 1.0

#: The node that flies all vehicles.
SWARM = "swarm"
#: Names of what is no single node: all in one process, and whoever watches them.
ALL_NODES, ITSELF = "all", "supervisor"

Progress = Callable[[float, float | None, str | None], None]


class Interrupted(Exception):
    """Somebody pressed Ctrl-C or sent SIGTERM."""


@dataclass
class Outcome:
    """What the supervisor knows of a flight.

    Attributes:
        flown_s: simulated time.
        wall_s: wall time of that.
        startup_s: wall time from the start of the processes to the first arming; 0 if none.
        reports: last report of each node.
        finished: whether every mission came to its end.
        unfinished: namespaces of the vehicles whose mission did not.
        cpu: CPU time of that, by the full name of the process's node; :data:`ALL_NODES` where all
            are in one process, and :data:`ITSELF`.
        killed: labels of the processes that did not stop when told to.
    """

    flown_s: float = 0.0
    wall_s: float = 0.0
    startup_s: float = 0.0
    reports: dict[str, Report] = field(default_factory=dict)
    finished: bool = False
    unfinished: tuple[str, ...] = ()
    cpu: dict[str, CpuShare] = field(default_factory=dict)
    killed: tuple[str, ...] = ()


def end_graph(processes: Sequence[GraphProcess], bag: Path | None) -> tuple[str, ...]:
    """Stop the processes of a graph, the recorder last, and make its bag whole.

    Args:
        processes: of the graph.
        bag: folder that the recorder writes; None: there is no recorder.

    Returns:
        Labels of what had to be killed.
    """
    recorders = [p for p in processes if p.specs[-1].executable == "recorder"]
    others = [p for p in processes if p not in recorders]
    killed = (*stop_all(others), *stop_all(recorders))
    for process in processes:
        process.close()
    if bag is not None and bag.is_dir():
        repair(bag)
    return killed


class Supervisor:
    """One flight of a graph.

    Args:
        specs: the graph's nodes; see :func:`quadsim.ros.graph.graph.describe`.
        count: vehicles.
        domain: DDS domain.
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
        self._specs = list(specs)
        self._namespaces = namespaces(count)
        swarms = [spec for spec in self._specs if spec.executable == SWARM]
        self._world = swarms[0].full_name if swarms else "/dynamics"
        self._heights = self._world if swarms else f"{self._namespaces[0]}/autopilot"
        self._domain = domain
        self._composed = composed
        self._duration_ns = round(duration_s * 1e9)
        self._bag = bag
        self._progress = progress
        self._stop = threading.Event()
        self._processes: list[GraphProcess] = []
        self._moved = (0, 0.0)
        self._running = False
        self.outcome = Outcome()

    def fly(self) -> Outcome:
        """Fly to the end of the missions or of the time.

        Raises:
            InputError: the domain is somebody else's.
            FlightError: a node ended, time stood still, or somebody else set it.
            Interrupted: by a signal. The bag is whole in every case.
        """
        with stop_on_signals(self._stop):
            try:
                self._watch()
            finally:  # it has left DDS before the nodes do, see runtime.ending()
                self.outcome.killed = end_graph(self._processes, self._bag)
        return self.outcome

    def _watch(self) -> None:
        """The flight, as long as all nodes are there."""
        make = partial(Watcher, namespaces=self._namespaces)
        with own_node(make, self._domain) as (self._watcher, self._spin):
            try:
                self._start()
                self._follow()
                self._collect()
            finally:
                self.outcome.reports = dict(self._watcher.reports)

    # ---- waiting -------------------------------------------------------------------------------

    def _check(self) -> None:
        """Leave when told to, when a process has ended, or when time is not ours alone.

        Raises:
            Interrupted: told to.
            FlightError: a process has ended, or somebody else publishes time.
        """
        if self._stop.is_set():
            raise Interrupted
        if self._running and self._watcher.clock_disturbed:
            raise FlightError(self._foreign_clock())
        for process in self._processes:
            if not process.alive:
                raise FlightError(f"node {process.label} {process.cause()}; the graph was stopped")

    def _wait(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Spin until a condition holds; False if the time is over."""
        deadline = time.monotonic() + within_s
        while not condition():
            self._spin(0.05)
            self._check()
            if time.monotonic() > deadline:
                return False
        return True

    # ---- phases --------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start the processes, wait until all nodes have found each other, let time run."""
        self._started_s = time.monotonic()
        groups = (
            [("graph", self._specs)]
            if self._composed
            else [(spec.label, [spec]) for spec in self._specs]
        )
        for label, specs in groups:
            self._processes.append(GraphProcess(label, specs, self._domain))
            self._check()
        if not self._wait(lambda: not self._incomplete(), START_S):
            lonely = ", ".join(self._incomplete())
            raise FlightError(f"after {START_S:g} s these nodes lack a counterpart: {lonely}")
        if self._watcher.clock_heard:  # ours is paused
            raise InputError(self._foreign_clock())
        self._running = True
        self._pause(False)
        self._cpu = CpuUse(
            {self._name_of(process): process.pid for process in self._processes}
            | {ITSELF: os.getpid()}
        )
        self._moved = (0, time.monotonic())
        self._begun_s = time.monotonic()

    def _name_of(self, process: GraphProcess) -> str:
        return ALL_NODES if self._composed else process.specs[0].full_name

    def _foreign_clock(self) -> str:
        return (
            f"DDS domain {self._domain}: somebody else publishes /clock there; stop it, or"
            " choose another domain with --domain"
        )

    def _incomplete(self) -> list[str]:
        return [s.label for s in self._specs if not self._watcher.complete(s.full_name)]

    def _pause(self, paused: bool) -> None:
        client = self._watcher.pause_client
        if not self._wait(client.service_is_ready, ANSWER_S):
            raise FlightError(f"node {self._world} offers no /sim/pause")
        for _ in range(round(ANSWER_S / ASK_AGAIN_S)):
            future = client.call_async(SetBool.Request(data=paused))
            if self._wait(future.done, ASK_AGAIN_S):
                return
        raise FlightError(f"node {self._world} does not answer on /sim/pause")

    def _follow(self) -> None:
        """Until every mission has finished, or the time is over."""
        self._wait(self._over, float("inf"))
        self._note_time()
        finished = self._watcher.finished
        self.outcome.unfinished = tuple(n for n in self._namespaces if not finished(n))
        self.outcome.finished = not self.outcome.unfinished

    def _over(self) -> bool:
        watcher, now_s = self._watcher, time.monotonic()
        time_ns = watcher.time_ns
        paused = watcher.report(self._world).message == "paused"
        if time_ns != self._moved[0] or paused:
            self._moved = (time_ns, now_s)
        elif now_s - self._moved[1] > STALL_S:
            raise FlightError(
                f"simulated time stands still at {time_ns * 1e-9:.3f} s:"
                f" node {self._world} says {watcher.report(self._world).message!r}"
            )
        mission = watcher.missions.get(self._namespaces[0], {})
        if not self.outcome.startup_s and mission.get("armed") == "true":
            self.outcome.startup_s = now_s - self._started_s
        height_m = watcher.report(self._heights).number("height_m")
        self._progress(time_ns * 1e-9, height_m, mission.get("state"))
        return time_ns >= self._duration_ns or all(map(watcher.over, self._namespaces))

    def _note_time(self) -> None:
        self.outcome.flown_s = self._watcher.time_ns * 1e-9
        self.outcome.wall_s = time.monotonic() - self._begun_s
        self.outcome.cpu = self._cpu.shares()

    def _collect(self) -> None:
        """Hold the time and wait for a last report of every node."""
        self._pause(True)
        counts = {s.full_name: self._watcher.report(s.full_name).count for s in self._specs}
        self._wait(
            lambda: all(self._watcher.report(n).count > count for n, count in counts.items()),
            REPORT_S,
        )
