"""Many flights at once: one function over many jobs, in processes, results in the jobs' order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from quadsim.errors import FlightError

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Called with how many jobs are done and how many there are.
Progress = Callable[[int, int], None]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started in this block never see Ctrl-C: the one that waits for them does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_batch(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    processes: int = 0,
    progress: Progress | None = None,
) -> list[Result]:
    """Do a piece of work for every job.

    The first job is done by this process, before any other is started, so that kernels which are
    not compiled yet are compiled once. A result depends on its job alone, not on the number of
    processes. On an error or Ctrl-C the jobs under way are ended, the others never begun.

    Args:
        work: a function of a module; it, jobs and results go between processes.
        jobs: one for each call.
        processes: at once; 0: one for each core.
        progress: told after each job.

    Returns:
        Results in the order of the jobs.

    Raises:
        FlightError: a process died.
        Exception: whatever ``work`` raised.
    """
    results = []
    total = len(jobs)
    alone = 1 if (processes or cores()) > 1 else total
    for job in jobs[:alone]:
        results.append(work(job))
        if progress is not None:
            progress(len(results), total)
    rest = jobs[alone:]
    if not rest:
        return results
    pool = ProcessPoolExecutor(min(processes or cores(), len(rest)), get_context("spawn"))
    try:
        with _interrupts_ignored():
            futures = [pool.submit(work, job) for job in rest]
        for done, future in enumerate(as_completed(futures), len(results) + 1):
            future.result()
            if progress is not None:
                progress(done, total)
        return results + [future.result() for future in futures]
    except BrokenProcessPool:
        raise FlightError("a process of the batch died; was it ended, or out of memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)
