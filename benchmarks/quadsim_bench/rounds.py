"""Which measurements there are, which are wanted, and their rounds."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import quadsim_bench
from quadsim.base.errors import InputError, QuadsimError
from quadsim_bench.figure import Figure, Measurement, Session, Unavailable


def all_measurements() -> list[Measurement]:
    """Those of every module of this folder, by the modules' names."""
    found: list[Measurement] = []
    for module in sorted(info.name for info in iter_modules(quadsim_bench.__path__)):
        found += getattr(import_module(f"quadsim_bench.{module}"), "MEASUREMENTS", ())
    return found


def chosen(
    measurements: Sequence[Measurement],
    only: Sequence[str] = (),
    short: bool = False,
    kept: bool = False,
) -> list[Measurement]:
    """Measurements with those of their figures that are wanted.

    Args:
        measurements: all.
        only: names of figures or of measurements, or how they begin (``closed_loop`` of
            ``closed_loop_x_realtime``), patterns with ``*`` too; none: all.
        short: only those that have a short version, where nothing is named.
        kept: only figures whose value the repository keeps.

    Raises:
        InputError: a name that nothing has.
    """
    names = [name for each in measurements for name in (each.name, *(x.name for x in each.lines))]
    for name in only:
        if not any(_matches(known, name) for known in names):
            close = get_close_matches(name, names, 3, 0.5)
            hint = f"did you mean {', '.join(close)}?" if close else "quadsim bench --list has all"
            raise InputError(f"--only: no figure {name!r}; {hint}")

    def wanted(name: str) -> bool:
        return any(_matches(name, pattern) for pattern in only)

    found = []
    for each in measurements:
        if short and not each.short and not only:
            continue
        lines = tuple(
            line
            for line in each.lines
            if (not only or wanted(line.name) or wanted(each.name)) and (line.kept or not kept)
        )
        if lines:
            found.append(replace(each, lines=lines))
    return found


def _matches(name: str, pattern: str) -> bool:
    """Whether a name, or how it begins, is asked for."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}_*")


@dataclass(slots=True)
class Outcome:
    """What was measured.

    Attributes:
        figures: in the order of the measurements.
        absent: name of a measurement to why it cannot be made here.
        failed: name of a measurement to what went wrong.
        details: name of a measurement to what its rounds told besides figures, and
            ``busy_elsewhere_cores`` of each: how much of the machine others had meanwhile.
    """

    figures: list[Figure] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    details: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong and every target is met."""
        return not self.failed and all(figure.passed is not False for figure in self.figures)

    def need(self, wanted: Sequence[Measurement]) -> None:
        """Let what was not measured be something that went wrong."""
        there = {figure.line.name for figure in self.figures}
        for each in wanted:
            if each.name not in self.failed and not there.issuperset(x.name for x in each.lines):
                self.failed[each.name] = self.absent.pop(each.name, "gave no figure")

    def retry(self, wanted: Sequence[Measurement], session: Session) -> None:
        """Measure again; figures that missed their targets are taken from there."""
        again = {figure.line.name: figure for figure in measure(wanted, session, 1).figures}
        self.figures = [
            again.get(figure.line.name, figure) if figure.passed is False else figure
            for figure in self.figures
        ]


def measure(
    wanted: Sequence[Measurement],
    session: Session,
    repeat: int,
    progress: Callable[[str, int], None] = lambda name, done: None,
) -> Outcome:
    """Every measurement once, then all again, so that none has the good times alone.

    One that cannot be made, or goes wrong, is named, and the others are made.

    Args:
        wanted: at least one.
        session: what they share.
        repeat: rounds, at least one.
        progress: told the name of each measurement before its round, and how many are done.
    """
    outcome = Outcome()
    samples: dict[str, list[float]] = {}
    for done in range(repeat * len(wanted)):
        each = wanted[done % len(wanted)]
        if each.name in outcome.absent or each.name in outcome.failed:
            continue
        progress(each.name, done)
        try:
            found, elsewhere = _watched(each, session)
        except Unavailable as error:
            outcome.absent[each.name] = str(error)
        except (QuadsimError, OSError, subprocess.SubprocessError) as error:
            outcome.failed[each.name] = str(error) or type(error).__name__
        else:
            rest: dict[str, Any] = {"busy_elsewhere_cores": elsewhere}
            names = {line.name for line in each.lines}
            for name, value in found.items():
                if name in names:
                    samples.setdefault(name, []).append(float(value))
                else:
                    rest[name] = value
            outcome.details.setdefault(each.name, []).append(rest)
    outcome.figures = [
        Figure(line, tuple(samples[line.name]))
        for each in wanted
        for line in each.lines
        if line.name in samples
    ]
    return outcome


def _watched(each: Measurement, session: Session) -> tuple[Mapping[str, Any], float]:
    """One round, and how many cores were busy with others' work meanwhile."""
    begin_s, others_s = time.perf_counter(), _busy_s() - _own_s()
    found = each.measure(session)
    others_s = _busy_s() - _own_s() - others_s
    return found, round(max(0.0, others_s) / max(time.perf_counter() - begin_s, 1e-3), 2)


def _busy_s() -> float:
    """Seconds that the machine's processors have worked, or were taken from it."""
    line, _, _ = Path("/proc/stat").read_text(encoding="ascii").partition("\n")
    ticks = [int(each) for each in line.split()[1:]]  # proc(5): the fourth and fifth are idle
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Seconds of this process and of those it started that have ended."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system
