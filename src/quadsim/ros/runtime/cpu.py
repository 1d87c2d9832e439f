"""Processor time of a graph's processes, used and waited for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


class CpuUse:
    """CPU time from here on; processes that have ended are left out.

    Args:
        pids: process ids by name.
    """

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
