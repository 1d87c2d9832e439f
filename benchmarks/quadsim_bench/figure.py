"""Figures of speed, and how the modules of this folder offer them.

A module of ``quadsim_bench`` that has a tuple ``MEASUREMENTS`` takes part; it imports ROS, and what
takes long to import, only inside its functions::

    def hover(session: Session) -> dict[str, Any]:
        wall_s = ...
        return {"hover_x_realtime": 10.0 / wall_s, "state": "landed"}

    MEASUREMENTS = (Measurement("hover", lines("hover_x_realtime x >=100 a hover of 10 s"), hover),)

A call is one round and gives one sample of each of its figures; the command repeats rounds, all
measurements in turn, and takes medians. Whatever else a call returns (``state`` above) goes into
the JSON object as details.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from quadsim.base.errors import QuadsimError

T = TypeVar("T")

Better = Literal["more", "less"]


class Unavailable(QuadsimError):
    """What a measurement needs is not installed; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure before it is measured.

    Attributes:
        name: unique, small letters and underscores, its unit in it.
        what: the work that is measured, in a few words.
        unit: as it is printed.
        better: whether more or less is better.
        target: the least or the most that will do; None: told, not judged.
        kept: whether the repository keeps its value, which ``--check`` compares with.
    """

    name: str
    what: str
    unit: str
    better: Better
    target: float | None = None
    kept: bool = False

    def summary(self) -> dict[str, Any]:
        """As it stands in the JSON object."""
        names = ("name", "unit", "target", "better", "what")
        return {name: getattr(self, name) for name in names}


def lines(table: str) -> tuple[Line, ...]:
    """Figures as text, one a line: name, unit, what is wanted, words.

    What is wanted is ``more`` or ``less``, or a target, as ``>=0.99`` or ``<=3``.
    """
    found = []
    for row in table.strip().splitlines():
        name, unit, wanted, what = row.split(maxsplit=3)
        better: Better = "more" if wanted.startswith((">", "more")) else "less"
        target = None if wanted == better else float(wanted[2:])
        found.append(Line(name, what, unit, better, target))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that was measured.

    Attributes:
        line: what it is.
        samples: one of each round, at least one.
    """

    line: Line
    samples: tuple[float, ...]

    @property
    def value(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples)

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.line.target is None:
            return None
        if self.line.better == "more":
            return self.value >= self.line.target
        return self.value <= self.line.target

    def summary(self) -> dict[str, Any]:
        """As it stands in the JSON object."""
        found = {"value": self.value, "samples": list(self.samples), "passed": self.passed}
        return self.line.summary() | found


@dataclass(slots=True)
class Session:
    """What the measurements of one call of the command share.

    Attributes:
        folder: for their files; it is gone afterwards.
        short: whether a look will do: less work in each round.
        peers: Python in whose environment other simulators are installed; None: none named.
        say: tells a person how it goes.
    """

    folder: Path
    short: bool = False
    peers: Path | None = None
    say: Callable[[str], None] = lambda words: None
    _made: dict[str, Any] = field(default_factory=dict)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What all rounds need is made in the first: a bag, a scene, whatever has to be loaded.

        Args:
            key: unique among all measurements.
            make: called once.
        """
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made


@dataclass(frozen=True, slots=True)
class Measurement:
    """Work that gives one sample of some figures.

    Attributes:
        name: unique; ``--only`` knows it.
        lines: its figures.
        measure: one round; returns a sample by each figure's name. One that is missing in it was
            not measured. It raises :class:`Unavailable` where it cannot be done here.
        short: whether it takes part in ``--short``, in which a round takes a second or two.
    """

    name: str
    lines: tuple[Line, ...]
    measure: Callable[[Session], Mapping[str, Any]]
    short: bool = False
