"""Many jobs at once: one function over them, in processes of this machine or on a Dask cluster.

Both are executors of :mod:`concurrent.futures`, so that one loop feeds them: only as many jobs
are handed over as keep them busy, which bounds memory however many there are.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from quadsim.base.errors import FlightError, InputError
from quadsim.base.extras import need
from quadsim.base.python_processes import outside_working_folder

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Called with how many jobs are done and how many there are.
Progress = Callable[[int, int], None]

#: Gives what stands for the result of a job whose process died.
Died = Callable[[Job], Result]

#: How often a process looks whether its parent is there.
LOOK_S = 1.0

DIED = "a process of the batch died; was it ended, or out of memory?"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


class Pool(Protocol):
    """Where jobs are done.

    Attributes:
        death: raised by the futures of jobs whose process died.
        all_die: whether the death of one process is that of all.
        task_s: about how long a task may take; jobs that are shorter go together. 0: one each.
    """

    death: type[BaseException]
    all_die: bool
    task_s: float

    def executor(self) -> Executor:
        """What takes jobs; another one after the last broke."""

    def width(self) -> int:
        """How many jobs are done at once."""

    def end(self, underway: Iterable[Future[Any]]) -> None:
        """End the jobs under way."""


class Processes:
    """Processes of this machine, which import what they need anew: a script has a main guard.

    They stay for the next batch, and end with the block of a ``with``, or when the process that
    started them ends, however it does.

    Args:
        count: at once; 0: one for each core.
    """

    death: type[BaseException] = BrokenProcessPool
    all_die = True
    task_s = 0.0

    def __init__(self, count: int = 0) -> None:
        self._count = count or cores()
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self._executor = None

    def executor(self) -> Executor:
        """The executor, whose processes start with the first jobs; a new one when it broke."""
        if self._executor is None or self._executor._broken:  # nothing public tells, up to 3.14
            self._executor = ProcessPoolExecutor(
                self._count, get_context("spawn"), _begin, (os.getpid(), str(Path.cwd()))
            )
        return self._executor

    def width(self) -> int:
        """How many jobs are done at once."""
        return self._count

    def end(self, underway: Iterable[Future[Any]]) -> None:
        """End the jobs under way, with their processes."""
        executor = self._executor
        if executor is None:
            return
        for process in list((executor._processes or {}).values()):
            process.kill()
        wait(list(underway))  # it finds that they died
        executor.shutdown(wait=True)
        self._executor = None


def _begin(parent: int, folder: str) -> None:
    """First thing in a process: it does not see Ctrl-C, and does not outlive its parent."""
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def _starting_processes() -> Iterator[None]:
    """Ctrl-C comes after this block, and never to processes that are started in it.

    They do not import from the working folder.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with outside_working_folder():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stream_results(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    pool: Pool,
    died: Died[Job, Result] | None = None,
    count: int = 0,
) -> Generator[tuple[int, Result], None, None]:
    """Do a piece of work for every job, and give results as they come.

    When a process dies that takes the others' jobs with it, the jobs that were under way are done
    again, each alone: that shows whose process it is that dies. So are the jobs
    of a task of several whose process died.

    Args:
        work: a function of a module; it, jobs and results go between processes.
        jobs: any number; they are asked for as there is room.
        pool: where they are done.
        died: of a job whose process died by it; None: that ends the batch.
        count: how many jobs there are; 0: not known, and each is a task.

    Yields:
        Place of a job, from 0 on, and its result.

    Raises:
        FlightError: a process died, or the cluster is gone.
        Exception: whatever ``work`` raised.
    """
    feed = _Feed(work, jobs, pool, died, count)
    try:
        while True:
            given = 0
            for place_result in feed.some():
                given += 1
                yield place_result
            if not (given or feed.ahead):
                return
    except CancelledError:
        raise FlightError("the cluster let go of the jobs; has its scheduler ended?") from None
    finally:
        if feed.underway or feed.ahead:
            pool.end(feed.underway)


def _do(work: Callable[[Job], Result], jobs: Sequence[Job]) -> tuple[list[Result], float]:
    """A task: results of its jobs, and how long they took, s."""
    begin_s = time.perf_counter()
    return [work(job) for job in jobs], time.perf_counter() - begin_s


class _Feed(Generic[Job, Result]):
    """Hands tasks to a pool, as many as keep it busy.

    Args:
        work, jobs, pool, died, count: as of :func:`stream`.

    Attributes:
        underway: jobs of each task, with their places.
    """

    #: A process has so many tasks to come at the end of a batch, or its last one idles the others.
    LAST_TASKS = 4

    def __init__(
        self,
        work: Callable[[Job], Result],
        jobs: Iterable[Job],
        pool: Pool,
        died: Died[Job, Result] | None,
        count: int,
    ) -> None:
        self._work, self._jobs, self._pool, self._died = work, enumerate(jobs), pool, died
        self._left = count
        self._done, self._took_s = 0, 0.0
        self.underway: dict[Future[tuple[list[Result], float]], list[tuple[int, Job]]] = {}
        self.ahead: deque[list[tuple[int, Job]]] = deque()

    def some(self) -> Iterator[tuple[int, Result]]:
        """Hand over tasks, wait for one, and give the results of all that are done."""
        pool = self._pool
        try:
            self._fill()
            for future in wait(self.underway, return_when=FIRST_COMPLETED).done:
                task = self.underway[future]
                error = future.exception()
                if not isinstance(error, pool.death) or self._died is None or pool.all_die:
                    results = self._results(future)
                elif len(task) == 1:
                    results = [self._died(task[0][1])]
                else:  # whose process dies, shows when each goes alone
                    del self.underway[future]
                    self.ahead.extendleft([job] for job in reversed(task))
                    continue
                del self.underway[future]
                yield from zip((place for place, _ in task), results, strict=True)
        except pool.death:
            if self._died is None:
                raise FlightError(DIED) from None
            yield from self._one_by_one(self._died)

    def _results(self, future: Future[tuple[list[Result], float]]) -> list[Result]:
        results, took_s = future.result()
        self._done += len(results)
        self._took_s += took_s
        return results

    def _size(self) -> int:
        """How many jobs the next task has: enough for its time, few where the end is near."""
        if not (self._pool.task_s and self._done):
            return 1
        in_time = self._pool.task_s * self._done / max(self._took_s, 1e-9)
        at_the_end = self._left / (self.LAST_TASKS * self._pool.width())
        return max(1, int(min(in_time, at_the_end)))

    def _fill(self) -> None:
        """Hand over tasks until each process has one to do and one to come."""
        room = 2 * self._pool.width() - len(self.underway)
        while len(self.ahead) < room:
            task = list(islice(self._jobs, self._size()))
            if not task:
                break
            self._left -= len(task)
            self.ahead.append(task)
        executor = self._pool.executor() if self.ahead and room > 0 else None
        while self.ahead and room > 0:
            assert executor is not None
            with _starting_processes():
                future = executor.submit(_do, self._work, [job for _, job in self.ahead[0]])
            self.underway[future] = self.ahead.popleft()  # one that could not be handed over stays
            room -= 1

    def _one_by_one(self, died: Died[Job, Result]) -> Iterator[tuple[int, Result]]:
        """Results of tasks that were under way when a process died, each job by itself."""
        for future, task in list(self.underway.items()):
            if future.done() and future.exception() is None:
                results = self._results(future)
            else:
                results = [self._alone(job, died) for _, job in task]
            del self.underway[future]
            yield from zip((place for place, _ in task), results, strict=True)

    def _alone(self, job: Job, died: Died[Job, Result]) -> Result:
        """Result of a job that runs alone."""
        executor = self._pool.executor()
        try:
            with _starting_processes():
                future = executor.submit(self._work, job)
            return future.result()
        except self._pool.death:
            return died(job)


@lru_cache(maxsize=1)
def _processes(count: int, folder: Path) -> Processes:
    """The processes of the last batch, for the next one that wants as many in the same folder."""
    return Processes(count)


def run_apart(work: Callable[[Job], Result], job: Job, pool: Pool) -> Result:
    """Do one job in another process, and wait for it.

    Raises:
        FlightError: the process died.
        Exception: whatever ``work`` raised.
    """
    ((_, result),) = stream_results(work, [job], pool)
    return result


def run_batch(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    processes: int = 0,
    progress: Progress | None = None,
) -> list[Result]:
    """Do a piece of work for every job, on this machine.

    The first job is done by this process, before any other is started, so that kernels which are
    not compiled yet are compiled once. A result depends on its job alone, not on the number of
    processes. On an error or Ctrl-C the jobs under way are ended, the others never begun.

    Args:
        work: a function of a module; it, jobs and results go between processes.
        processes: at once; 0: one for each core.

    Returns:
        Results in the order of the jobs.

    Raises:
        FlightError: a process died.
        Exception: whatever ``work`` raised.
    """
    results: dict[int, Result] = {}
    total = len(jobs)
    alone = 1 if (processes or cores()) > 1 else total
    for place, job in enumerate(jobs[:alone]):
        results[place] = work(job)
        if progress is not None:
            progress(len(results), total)
    rest = jobs[alone:]
    if rest:
        pool = _processes(min(processes or cores(), len(rest)), Path.cwd())
        with closing(stream_results(work, rest, pool)) as flown:
            for place, result in flown:
                results[alone + place] = result
                if progress is not None:
                    progress(len(results), total)
    return [results[place] for place in range(total)]


#: How long the scheduler and its first worker are waited for.
PATIENCE_S = 20.0

#: A task takes one to three milliseconds of the scheduler, however short it is (docs/scale.md): so
#: long ones keep a thousand workers busy, and little is flown again where one is lost.
TASK_S = 20.0

#: How often it is asked how many workers there are.
COUNT_S = 5.0


class Cluster:
    """The workers of a Dask scheduler; they come and go as they like.

    Args:
        address: of the scheduler, as ``tcp://host:8786``.
        patience_s: how long it and its first worker are waited for.

    Raises:
        InputError: Dask is not installed, nobody answers, or there is no worker.
    """

    all_die = False
    task_s = TASK_S

    def __init__(self, address: str, patience_s: float = PATIENCE_S) -> None:
        distributed = need("distributed", "--dask")
        self.death: type[BaseException] = distributed.KilledWorker
        words = "no scheduler answers there; start one: dask scheduler"
        self._client: Any = None
        try:
            self._client = distributed.Client(address, timeout=patience_s, set_as_default=False)
            words = "the scheduler has no worker; start one:"
            words += f" dask worker {address} --nthreads 1 --nworkers auto"
            self._client.wait_for_workers(1, timeout=patience_s)
        except (OSError, ValueError, RuntimeError):  # a TimeoutError is an OSError
            if self._client is not None:
                self._client.close()
            raise InputError(f"--dask {address}: {words}") from None
        self._width, self._looked_s = 0, -COUNT_S

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def executor(self) -> Executor:
        """What takes jobs."""
        found: Executor = self._client.get_executor(pure=False)
        return found

    def width(self) -> int:
        """How many jobs are done at once, as of a moment ago."""
        if time.monotonic() - self._looked_s >= COUNT_S:
            self._width = max(1, sum(self._client.nthreads().values()))
            self._looked_s = time.monotonic()
        return self._width

    def end(self, underway: Iterable[Future[Any]]) -> None:
        """Take back the jobs that have not begun; those that have come to their end."""
        for future in underway:
            future.cancel()
