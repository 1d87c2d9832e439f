"""Processor time of pieces of work, programs with their peak memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from quadsim.base.errors import FlightError

T = TypeVar("T")

#: What runs a program and tells what it used.
BESIDE = Path(__file__).with_name("beside.py")


def once_s(prepare: Callable[[], T], act: Callable[[T], object]) -> float:
    """Processor time of ``act`` on what ``prepare`` makes, s; the making is not counted."""
    subject = prepare()
    begin_s = time.process_time()
    act(subject)
    return time.process_time() - begin_s


def median_s(prepare: Callable[[], T], act: Callable[[T], object], runs: int) -> float:
    """Median of so many such times, s; a call before them compiles and fills caches."""
    return statistics.median([once_s(prepare, act) for _ in range(runs + 1)][1:])


class Ended(NamedTuple):
    """A program that came to its end.

    Attributes:
        stdout: what it printed.
        wall_s: from its start to its end, s.
        processor_s: of it and of those it waited for, s.
        peak_mb: the most memory that it held, MB.
    """

    stdout: str
    wall_s: float
    processor_s: float
    peak_mb: float


def run_command(arguments: Sequence[str | Path], folder: Path) -> Ended:
    """Run ``quadsim`` with these arguments, as a program of its own.

    Args:
        arguments: after the command's name.
        folder: where it runs, and where its output is kept meanwhile.

    Raises:
        FlightError: it failed; its last line is in the message.
    """
    out, err = folder / "stdout", folder / "stderr"
    command = [sys.executable, "-m", "quadsim.cli", *map(str, arguments)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", BESIDE, out, err, *command],
        stdout=subprocess.PIPE,
        cwd=folder,
        check=True,
    )
    used = json.loads(done.stdout)
    if used.pop("status") != 0:
        words = err.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise FlightError(f"quadsim {' '.join(command[3:])}: did not pass: {words}")
    return Ended(out.read_text(encoding="utf-8"), **used)
