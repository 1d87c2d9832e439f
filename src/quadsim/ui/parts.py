"""Small things that all tabs of the page share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nicegui import ui

from quadsim.base.errors import InputError, QuadsimError
from quadsim.ui.choices import AS_SCENARIO

#: Look of lists and fields.
DENSE = "dense outlined options-dense hide-bottom-space"
#: How a choice that the scenario makes is called.
SCENARIO_SAYS = "as the scenario"


@contextmanager
def errors_told() -> Iterator[None]:
    """Tell an error of the block on the page, in one line."""
    try:
        yield
    except QuadsimError as error:
        ui.notify(" ".join(str(error).split()), type="negative", timeout=8000, close_button="close")


def every(period_s: float, callback: Callable[[], None]) -> None:
    """Call something again and again while a browser shows the page."""
    client = ui.context.client
    ui.timer(period_s, lambda: callback() if client.has_socket_connection else None)


def title(text: str) -> None:
    """The title of a group of controls."""
    ui.label(text).classes("text-xs font-bold uppercase tracking-wide opacity-60 mt-2")


def new_file(typed: str, ending: str, what: str) -> Path:
    """The path of a file to be written.

    Raises:
        InputError: it has another ending, or is there already.
    """
    path = Path(typed.strip()).expanduser()
    if path.suffix != ending:
        raise InputError(f"{path}: {what} ends in {ending}")
    if path.exists():
        raise InputError(f"{path}: exists already; name a new file")
    return path


def file_choice(setup: object, name: str, known: Sequence[str]) -> ui.select:
    """A list of files, to which a path may be typed, for a choice of the set-up."""

    def choose(event: Any) -> None:
        value = event.value
        setattr(setup, name, AS_SCENARIO if value in (None, SCENARIO_SAYS) else value)

    now = getattr(setup, name) or SCENARIO_SAYS
    options = list(dict.fromkeys([SCENARIO_SAYS, *known, now]))
    select = ui.select(
        options, label=name, value=now, on_change=choose, with_input=True,
        new_value_mode="add-unique",
    )  # fmt: skip
    return select.props(DENSE).classes("w-full").mark(name)
