"""Python processes of ours, which do not import from the working folder.

Python looks there first for what a program given by ``-c`` or ``-m`` imports: a user's
``signal.py`` would take the place of the standard library's. Since 3.11 ``PYTHONSAFEPATH`` stops
that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Runs a module without a look in the working folder, by a name that Python 3.10 knows, too.
_RUN = """import sys
sys.path = [place for place in sys.path if place]
from runpy import run_module
run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)"""


def module_command(module: str, *arguments: str) -> list[str]:
    """Command line that runs a module of ours."""
    return [sys.executable, "-c", _RUN, module, *arguments]


@contextmanager
def outside_working_folder() -> Iterator[None]:
    """Let Python processes that start in this block, and those they start, not look in the folder.

    With Python 3.10 they start in ``/``.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    folder = Path.cwd() if sys.version_info < (3, 11) else None
    if folder is not None:
        os.chdir("/")  # where others cannot write
    try:
        yield
    finally:
        if folder is not None:
            os.chdir(folder)
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before
