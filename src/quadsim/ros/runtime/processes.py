"""Processes of a graph, forked from one preloaded server.

The server (multiprocessing's fork server) imports rclpy, the nodes and the kernels once; a process
is then there in milliseconds. A process ends when it is told to, and when whoever started it ends.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from quadsim.base.errors import FlightError
from quadsim.base.python_processes import outside_working_folder
from quadsim.ros.nodes import node_module
from quadsim.sensors import TABLE

if TYPE_CHECKING:  # what describes the graph takes long to import, and the server can start before
    from quadsim.ros.graph.graph import NodeSpec

PRELOAD = "quadsim.ros.runtime.preload"

#: Nodes outside of the loop of control, or of few samples: their processes let others finish.
PATIENT = {"recorder", *TABLE} - {"imu"}

#: Time for a clean stop, s; after it the process is killed.
STOP_S = 5.0
#: How often who watches child processes looks whether it is over, s.
LOOK_S = 0.2


def _set_title(title: str) -> None:
    """Name in ``ps``, where setproctitle is installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    setproctitle(title)


def maker(spec: NodeSpec) -> Any:
    """What makes a node, given a context."""
    make = node_module(spec.executable).make
    arguments = [part for pair in spec.remappings for part in ("-r", ":=".join(pair))]
    if spec.name:
        arguments += ["-r", f"__node:={spec.name}"]
    return partial(
        make,
        namespace=spec.namespace,
        overrides=dict(spec.parameters),
        cli_args=["--ros-args", *arguments] if arguments else None,
        use_global_arguments=False,
    )


def lower_priority(specs: Sequence[NodeSpec]) -> None:
    """Let a message that wakes this process not interrupt another, where all nodes are patient.

    Threads that are started afterwards inherit it, so it comes before those of DDS.
    """
    if {spec.executable for spec in specs} <= PATIENT:
        with suppress(OSError):  # a container may forbid it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _run(title: str, specs: Sequence[NodeSpec], domain: int) -> None:
    """Body of a process: its nodes, until told to stop or left alone."""
    from quadsim.ros.runtime.runtime import END_S, run

    os.setpgid(0, 0)  # a Ctrl-C on the terminal is for the supervisor, which stops in order
    _set_title(title)
    lower_priority(specs)
    stop = threading.Event()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        faulthandler.dump_traceback_later(END_S, exit=True)  # nobody else is left to end it
        stop.set()

    threading.Thread(target=follow, daemon=True).start()
    raise SystemExit(run([maker(spec) for spec in specs], domain=domain, stop=stop))


class GraphProcess:
    """One process with one or several nodes.

    Raises:
        FlightError: the server has ended.
    """

    def __init__(self, label: str, specs: Sequence[NodeSpec], domain: int) -> None:
        self.label = label
        self.specs = specs
        context = multiprocessing.get_context("forkserver")
        self._process: BaseProcess = context.Process(
            target=_run, args=(f"quadsim: {label}", specs, domain), name=label
        )
        try:
            with outside_working_folder():
                ensure_running()
            self._process.start()
        except (EOFError, OSError) as error:  # its own words are on stderr
            raise FlightError(f"the server that starts the nodes is gone ({error!r})") from None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid or 0

    @property
    def sentinel(self) -> int:
        """Ready when the process has ended."""
        return self._process.sentinel

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    @property
    def failed(self) -> bool:
        """Whether it ended with an exit status of its own that is not 0."""
        return (self._process.exitcode or 0) > 0

    def cause(self) -> str:
        """How it ended, in words."""
        code = self._process.exitcode
        if code is None:
            return "is running"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with status {code}"

    def tell_to_stop(self) -> None:
        """Send SIGTERM."""
        if self.alive:
            self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        """Forget an ended process."""
        self._process.join()
        self._process.close()


def end_all(processes: Sequence[GraphProcess]) -> tuple[tuple[str, ...], str]:
    """Stop processes, recorders last, and forget them.

    Returns:
        Labels of what had to be killed; the recorder that ended with an error, in words.
    """
    recorders = [p for p in processes if p.specs[-1].executable == "recorder"]
    killed = (*stop_all([p for p in processes if p not in recorders]), *stop_all(recorders))
    failed = next((f"node {p.label} {p.cause()}" for p in recorders if p.failed), "")
    for process in processes:
        process.close()
    return killed, failed


@contextmanager
def child_nodes(
    specs: Sequence[NodeSpec], domain: int, stop: threading.Event
) -> Iterator[list[str]]:
    """Run a process per node while the block runs; the recorder is stopped last.

    Args:
        stop: set when a process ends early.

    Yields:
        What went wrong, in words; complete when the block has ended.

    Raises:
        FlightError: the server that starts the processes has ended.
    """
    failures: list[str] = []
    processes: list[GraphProcess] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if wait([process.sentinel for process in processes], LOOK_S) and not over.is_set():
                ended = next(process for process in processes if not process.alive)
                failures.append(f"node {ended.label} {ended.cause()}; the replay was stopped")
                stop.set()
                return

    watcher = threading.Thread(target=watch, name="child nodes")
    try:
        for spec in specs:  # one by one, so that those that are there are stopped if one fails
            process = GraphProcess(spec.label, [spec], domain)
            processes.append(process)
        if processes:
            watcher.start()
        yield failures
    finally:
        over.set()
        if watcher.is_alive():
            watcher.join()
        _, failed = end_all(processes)
        if failed and not failures:  # it has stated itself what was wrong
            failures.append(f"{failed}: the bag is not complete")


def prepare(*nodes: str) -> None:
    """Start the server in the background; the first process waits until it is ready.

    Args:
        nodes: executables that it imports in addition to those of every graph.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD, *(f"quadsim.ros.nodes.{node}" for node in nodes)])
    with outside_working_folder():
        ensure_running()


def stop_all(processes: Sequence[GraphProcess], within_s: float = STOP_S) -> list[str]:
    """Tell processes to stop and wait; kill what does not, long after the last one that did.

    They leave DDS one after another, see :func:`quadsim.ros.runtime.domain.leaving`.

    Returns:
        Labels of what had to be killed.
    """
    for process in processes:
        process.tell_to_stop()
    deadline = time.monotonic() + within_s
    left: dict[Any, GraphProcess] = {p.sentinel: p for p in processes if p.alive}
    while left and (rest_s := deadline - time.monotonic()) > 0.0:
        for sentinel in wait(list(left), rest_s):
            left.pop(sentinel)
            deadline = time.monotonic() + within_s
    for process in left.values():
        process.kill()
    return [process.label for process in left.values()]
