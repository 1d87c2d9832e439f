"""Processes of a graph that run beside a node of this process, and end with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait

from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.runtime.processes import GraphProcess, stop_all

#: How often the watch looks whether it is over, s.
LOOK_S = 0.2


class Beside:
    """What became of the processes.

    Attributes:
        failure: the node that ended early, in words; empty: none did.
    """

    def __init__(self) -> None:
        self.failure = ""


@contextmanager
def beside(specs: Sequence[NodeSpec], domain: int, stop: threading.Event) -> Iterator[Beside]:
    """Run a process per node while the block runs; the recorder is stopped last.

    Args:
        specs: the nodes.
        domain: DDS domain.
        stop: set when a process ends early.

    Raises:
        FlightError: the server that starts the processes has ended.
    """
    found, over = Beside(), threading.Event()
    processes: list[GraphProcess] = []

    def watch() -> None:
        sentinels = [process.sentinel for process in processes]
        while not over.is_set():
            if wait(sentinels, LOOK_S) and not over.is_set():
                ended = next(process for process in processes if not process.alive)
                found.failure = f"node {ended.label} {ended.cause()}; the replay was stopped"
                stop.set()
                return

    watcher = threading.Thread(target=watch, name="beside")
    try:
        for spec in specs:  # one by one, so that those that are there are stopped if one fails
            process = GraphProcess(spec.label, [spec], domain)
            processes.append(process)
        if processes:
            watcher.start()
        yield found
    finally:
        over.set()
        if watcher.is_alive():
            watcher.join()
        recorders = [p for p in processes if p.specs[-1].executable == "recorder"]
        stop_all([p for p in processes if p not in recorders])
        stop_all(recorders)
        for recorder in recorders:
            if recorder.failed and not found.failure:  # it has said itself what was wrong
                found.failure = f"node {recorder.label} {recorder.cause()}: the bag is not complete"
        for process in processes:
            process.close()
