"""Threads that share the parts of a job, and look for the next one before they sleep.

A thread that sleeps takes 10 to 50 us to wake up, as long as a call of a thousand vehicles. These
look for the next job for some ten microseconds, in compiled code and without Python's lock. Who
gives a job takes parts of it, too, and never waits for a thread that has not begun.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic
from numpy.typing import NDArray

from quadsim.base.compiled import kernel

Words = NDArray[np.int64]

#: Words of a job, each in a cache line of its own: which parts nobody has begun (the first in the
#: lower half, the last and one in the upper), how many are done and how many there are, two of the
#: work's own, and from here on the job that each thread has seen.
LEFT, DONE, PARTS, GIVEN, FOUND, SEATS, LINE = 0, 8, 16, 24, 32, 40, 8
#: What a thread that sleeps has seen.
ASLEEP = -1
#: So often a thread looks for the next job, and who gave one for its end, before it does not: some
#: ten microseconds. Jobs that follow one another within this time, in s, are a row.
LOOKS, ROW_S = 4000, 50e-6
#: After so many such looks for the end of a job, a millisecond, others use the processors: a thread
#: that had begun a part was off its own. No row begins for this time, in s.
BUSY_LOOKS, BUSY_S = 15, 0.1

_PAUSES = platform.machine().lower() in ("x86_64", "amd64")


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Pointer to a word."""
    return builder.gep(context.make_array(kind)(context, builder, value=array).data, [index])


def _exchange(operation: str) -> Any:
    """An atomic instruction on a word and a value, as a function that returns the word before."""

    def declare(typing_context: Any, words: Any, i: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            where = _place(context, builder, signature.args[0], args[0], args[1])
            return builder.atomic_rmw(operation, where, args[2], "seq_cst")

        return types.int64(words, types.intp, types.int64), generate

    return intrinsic(declare)


def _look(typing_context: Any, words: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _PAUSES:  # leaves the core to the other thread that shares it
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        return builder.load_atomic(_place(context, builder, signature.args[0], *args), "acquire", 8)

    return types.int64(words, types.intp), generate


#: ``added(words, i, value)`` and ``swapped(words, i, value)`` change a word and return what it was,
#: ``seen(words, i)`` reads it as it is now; for kernels.
added, swapped = _exchange("add"), _exchange("xchg")
seen: Any = intrinsic(_look)


@kernel
def begin_job(words: Words, parts: int, given: int) -> None:
    """State a job, of which threads then take parts."""
    words[DONE], words[PARTS], words[GIVEN], words[FOUND] = 0, parts, given, 0
    swapped(words, LEFT, parts << 32)


@kernel
def call_thread(words: Words, seat: int, job: int) -> bool:
    """Let a thread see a job; whether it sleeps."""
    return bool(swapped(words, seat, job) == ASLEEP)


@kernel
def next_part(words: Words, seat: int) -> int:
    """A part that nobody else does; -1: none is left.

    Threads begin at the first, who gave the job at the last: its data stay in their caches.
    """
    left = added(words, LEFT, 1 if seat > 0 else -(1 << 32))
    first, end = left & 0xFFFFFFFF, left >> 32
    if first >= end:
        return -1
    return int(first if seat > 0 else end - 1)


@kernel
def end_part(words: Words) -> None:
    """A part is done."""
    added(words, DONE, 1)


@kernel
def goes_on(words: Words, seat: int, job: int) -> bool:
    """Look for what follows when no part is left.

    Args:
        words: of the job.
        seat: of a thread; 0: of who gave the job.
        job: that the thread has seen.

    Returns:
        Whether a thread has seen another job. Else it is to sleep. Of who gave the job: whether not
        all is done yet.
    """
    for _ in range(LOOKS):
        if seat == 0:
            if seen(words, DONE) == words[PARTS]:
                return False
        elif seen(words, seat) != job:
            return True
    if seat == 0:
        return True
    now = swapped(words, seat, ASLEEP)
    if now == job:
        return False
    swapped(words, seat, now)  # one came meanwhile
    return True


def _serve(
    gate: SimpleQueue[bool], work: Callable[[Words, int], bool], words: Words, seat: int
) -> None:
    """Do parts of jobs until the end."""
    while gate.get():
        work(words, seat)


def _end(gates: Sequence[SimpleQueue[bool]]) -> None:
    """Let threads end."""
    for gate in gates:
        gate.put(False)


class Crew:
    """Threads for the jobs of one kind.

    Args:
        threads: how many share a job, with the one that gives it.
        work: a kernel without Python's lock, of the words and a seat: takes parts by
            :func:`next_part` until none is left, and returns :func:`goes_on`, a thread (of a seat
            above 0) after all jobs that it sees.
    """

    def __init__(self, threads: int, work: Callable[[Words, int], bool]) -> None:
        self.words: Words = np.zeros(SEATS + LINE * threads, np.int64)
        self._work, self._job, self._ended_s = work, 0, -ROW_S
        self._seats = [SEATS + LINE * k for k in range(threads - 1)]
        self._gates: list[SimpleQueue[bool]] = [SimpleQueue() for _ in self._seats]
        for seat, gate in zip(self._seats, self._gates, strict=True):
            self.words[seat] = ASLEEP
            threading.Thread(
                target=_serve, args=(gate, work, self.words, seat), name="crew", daemon=True
            ).start()
        weakref.finalize(self, _end, self._gates)

    def do(self, parts: int, given: int, others: int, large: bool) -> int:
        """Do a job.

        Args:
            parts: of it.
            given: what the work reads in ``words[GIVEN]``.
            others: threads that are called at most.
            large: it is worth waking them. Else they are called only in a row of jobs that follow
                one another closely.

        Returns:
            What the work has put into ``words[FOUND]``.
        """
        words = self.words
        if words[DONE] != words[PARTS]:  # an interrupt came in the last one
            self._finish()
        begin_job(words, parts, given)
        if others > 0 and (large or 0.0 <= time.perf_counter() - self._ended_s < ROW_S):
            self._job += 1
            for seat, gate in zip(self._seats[:others], self._gates, strict=False):
                if call_thread(words, seat, self._job):
                    gate.put(True)
        looks = self._finish()
        self._ended_s = time.perf_counter() + (BUSY_S if looks > BUSY_LOOKS else 0.0)
        return int(words[FOUND])

    def _finish(self) -> int:
        """Do what is left; how often it was looked for the end of parts that others do."""
        looks = 0
        while self._work(self.words, 0):
            os.sched_yield()
            looks += 1
        return looks
