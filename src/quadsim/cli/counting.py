"""How many flights at once, and how far they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from quadsim.cli.common import say

#: Seconds between two lines of progress where there is no terminal.
QUIET_S = 10.0


class Tell(Protocol):
    """Is told how many flights are done and how many there are, and a word about them."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """After each flight."""


def pace(done: int, total: int, seconds: float) -> str:
    """Flights a second and the time that is left, in words."""
    if not done or seconds <= 0.0:
        return ""
    rate = done / seconds
    left_s = (total - done) / rate
    words = f"{left_s:.0f} s" if left_s < 120.0 else f"{left_s / 60.0:.0f} min"
    return f"{rate:.3g} flights/s, {words} left"


@contextmanager
def counting(label: str) -> Iterator[Tell]:
    """Progress of a batch on stderr, with rate and time left.

    A bar on a terminal, else a line now and then. The rate is that of flights since the first
    call, so that those which an earlier process flew do not count.
    """
    begin_s = told_s = time.monotonic()
    first: int | None = None

    def words(done: int, total: int) -> str:
        nonlocal first
        if first is None:
            first = done - 1
        return pace(done - first, total - first, time.monotonic() - begin_s)

    if not sys.stderr.isatty():

        def tell(done: int, total: int, note: str = "") -> None:
            nonlocal told_s
            now_s = time.monotonic()
            going = words(done, total)
            if now_s - told_s >= QUIET_S:
                told_s = now_s
                more = f"; {note}" if note else ""
                say(f"{label}: {done} of {total} flights, {now_s - begin_s:.0f} s, {going}{more}")

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[going]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, going="")

        def renew(done: int, total: int, note: str = "") -> None:
            more = f"; {note}" if note else ""
            bar.update(task, completed=done, total=total, going=words(done, total) + more)

        yield renew
