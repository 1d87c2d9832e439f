"""How far the compilation of kernels is: nobody waits for minutes without a word."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from numba.core import event

#: Kernels of a first flight, as counted in an empty cache; another state of the sources has some
#: more or less.
FIRST_KERNELS = 809
#: Compiling that takes less is not stated, s; time between two lines, s.
QUIET_S, EVERY_S = 2.0, 5.0


class CompileCount(event.Listener):
    """Counts the kernels that this process compiles, and reports it when that takes long.

    Args:
        say: takes a line.
        clock: wall time, s.
    """

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self.count, self.spent_s = 0, 0.0
        self._depth, self._began_s, self._due_s = 0, 0.0, QUIET_S

    def on_start(self, event: object) -> None:
        """A kernel is compiled, perhaps within another."""
        if not self._depth:
            self._began_s = self._clock()
        self._depth += 1
        self._tell()

    def on_end(self, event: object) -> None:
        """It is there."""
        self._depth -= 1
        self.count += 1
        if not self._depth:
            self.spent_s += self._clock() - self._began_s
        self._tell()

    def _tell(self) -> None:
        now_s = self.spent_s + (self._clock() - self._began_s if self._depth else 0.0)
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            self._say(f"compiling kernels, once: {self.count} so far in {now_s:.0f} s")


def count_compiled(say: Callable[[str], None]) -> CompileCount:
    """Say from now on when this process compiles for long."""
    counted = CompileCount(say)
    event.register("numba:compile", counted)  # type: ignore[no-untyped-call]
    return counted


def compiled_words(done: int, total: int, passed_s: float) -> str:
    """How many of about how many kernels are there, and the time left at this rate, in words."""
    if done >= total:
        return f"{done} kernels, more than the usual {total}"
    left = f", about {passed_s / done * (total - done):.0f} s left" if done else ""
    return f"{done} of about {total} kernels{left}"


@contextmanager
def counting_files(say: Callable[[str], None], total: int = FIRST_KERNELS) -> Iterator[None]:
    """Say every few seconds how many kernels other processes have put into the cache meanwhile."""
    folder, over = Path(os.environ.get("NUMBA_CACHE_DIR", "")), threading.Event()

    def count() -> int:
        return sum(1 for _ in folder.rglob("*.nbc"))

    before, began_s = count(), time.monotonic()

    def watch() -> None:
        while not over.wait(EVERY_S):
            say(compiled_words(count() - before, total, time.monotonic() - began_s))

    watcher = threading.Thread(target=watch, name="compiled kernels", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
