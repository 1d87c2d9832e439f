"""CPU time of a graph's processes between two moments of a flight."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import psutil


@dataclass(frozen=True)
class CpuShare:
    """What one process used.

    Attributes:
        cpu_s: seconds of processor time, user's and system's, of all threads.
        cpu_cores: the same over the wall time, so 1 is a core that did nothing else.
    """

    cpu_s: float
    cpu_cores: float


class _Mark(NamedTuple):
    """A process at a moment."""

    process: psutil.Process
    used_s: float


class CpuUse:
    """CPU time from here on.

    Args:
        pids: process ids by name.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._begun_s = time.monotonic()
        marks = {name: _mark(pid) for name, pid in pids.items()}
        self._marks = {name: mark for name, mark in marks.items() if mark is not None}

    def shares(self) -> dict[str, CpuShare]:
        """What each process has used up to now; one that has ended is not there."""
        wall_s = max(time.monotonic() - self._begun_s, 1e-9)
        found = {}
        for name, mark in self._marks.items():
            now = _mark(mark.process.pid)
            if now is not None and now.process == mark.process:
                cpu_s = now.used_s - mark.used_s
                found[name] = CpuShare(cpu_s, cpu_s / wall_s)
        return found


def _mark(pid: int) -> _Mark | None:
    """A process now; None if it has ended, which somebody else will tell."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
    except psutil.Error:
        return None
    return _Mark(process, float(times.user + times.system))
