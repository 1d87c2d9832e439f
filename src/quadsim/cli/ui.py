"""``quadsim ui``: fly, tune and compare on one page of a browser."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec

from quadsim.base.errors import InputError
from quadsim.base.options import option
from quadsim.base.surroundings import free_port
from quadsim.cli.common import loading, say
from quadsim.cli.options import command


@dataclass(frozen=True)
class UiOptions:
    """Options of ``quadsim ui``."""

    runs: tuple[str, ...] = option((), "", argument=True)
    port: int = option(8080, "of the page; 0: any", ge=0, le=65535)
    browser: bool = option(True, "open a browser", flags="--browser/--no-browser")


@command(UiOptions)
def ui(options: UiOptions) -> None:
    """Fly, tune and compare on one page of a browser; RUNS are bags or runs to open in it.

    The page is served to this machine alone (127.0.0.1), until Ctrl-C. Exit status: 0
    ended, 2 bad input.
    """
    if find_spec("nicegui") is None:
        raise InputError("quadsim ui needs NiceGUI; install it: pip install 'quadsim[ui]'")
    port = free_port(port=options.port)
    with loading("loading the page"):
        from quadsim.ui.page import serve
        from quadsim.ui.workspace import Workspace
    workspace = Workspace()
    for path in options.runs:
        workspace.open(path)
    say(f"http://127.0.0.1:{port} (Ctrl-C ends it)")
    with suppress(KeyboardInterrupt):
        serve(workspace, port, options.browser)
