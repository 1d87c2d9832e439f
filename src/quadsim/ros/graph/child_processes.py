"""Processes of a graph that run with a node of this process, and end with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait

from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.runtime.processes import GraphProcess, end_all

#: How often the watch looks whether it is over, s.
LOOK_S = 0.2


@contextmanager
def child_nodes(
    specs: Sequence[NodeSpec], domain: int, stop: threading.Event
) -> Iterator[list[str]]:
    """Run a process per node while the block runs; the recorder is stopped last.

    Args:
        specs: the nodes.
        domain: DDS domain.
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
