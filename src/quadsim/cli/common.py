"""What the commands share: errors as one line, JSON on stdout, progress on stderr, run folders."""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.kernel_folder import is_filled, set_filled

if TYPE_CHECKING:
    from quadsim.sim.log import FlightLog

PASSED, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

F = TypeVar("F", bound=Callable[..., Any])


def say(message: str) -> None:
    """One line for people, on stderr: stdout belongs to the result."""
    click.echo(f"quadsim: {message}", err=True)


def status_of(error: QuadsimError) -> int:
    """Exit status of an error: 2 for input that cannot be used, 1 for a run that broke."""
    return BAD_INPUT if isinstance(error, InputError) else FAILED


def one_line(message: object) -> str:
    """A message without line breaks."""
    return " ".join(str(message).split())


def json_option(command: F) -> F:
    """``--json``: one JSON object on stdout instead of a table."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")(
        command
    )


def write_pictures(
    runs: Mapping[str, FlightLog], summaries: Mapping[str, dict[str, Any]], folder: Path | None
) -> None:
    """Write the figures of runs into the folder of ``--pictures``, if there is one."""
    if folder is None:
        return
    with working("drawing the pictures"):
        from quadsim.analysis.report.pictures import save_pictures

        save_pictures(runs, summaries, folder)


def plain(value: Any) -> Any:
    """A value as JSON knows it: numpy turned into Python, NaN and infinity into null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def to_json(value: Any) -> str:
    """JSON text of nested plain values; see :func:`plain`."""
    return json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)


def print_json(value: Any) -> None:
    """Print the one JSON object of a command on stdout."""
    click.echo(to_json(value))


def ready_for_ros() -> None:
    """Set what the ROS wheels need, and keep the graph on this machine unless told otherwise.

    Raises:
        InputError: ROS is not installed.
    """
    if find_spec("rclpy") is None:
        raise InputError("rclpy is not installed: pip install 'quadsim[ros]', or source a ROS 2")
    if "AMENT_PREFIX_PATH" not in os.environ:
        os.environ.setdefault("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    from quadsim.ros.runtime.dds_environment import set_dds_environment

    set_dds_environment()


def run_folder(name: str, output: Path | None) -> Path:
    """Where a run goes: ``--output``, or a folder under ``runs/`` that nobody has taken.

    Raises:
        InputError: the folder exists already.
    """
    if output is not None:
        if output.exists() and not (output.is_dir() and not any(output.iterdir())):
            raise InputError(f"{output}: exists already; name a new folder with --output")
        return output
    stem = f"{Path(name).stem}-{datetime.now():%Y%m%d-%H%M%S}"
    folder = Path("runs") / stem
    for attempt in range(2, 1000):
        if not folder.exists():
            break
        folder = Path("runs") / f"{stem}-{attempt}"
    return folder


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A scratch folder that becomes ``folder`` when the block ends well, and vanishes else."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        yield scratch
        scratch.chmod(0o755)  # mkdtemp makes it private
        if folder.is_dir():
            folder.rmdir()  # empty, as run_folder saw to
        scratch.rename(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class FlightProgress:
    """How a flight goes: time flown, real-time factor, height, state; on stderr.

    On a terminal it is a line that renews itself; else a plain line every ``quiet_s`` seconds.

    >>> with FlightProgress("square", duration_s=40.0) as progress:
    ...     progress.update(12.5, height_m=1.5, state="mission")
    """

    RENEW_S = 0.1

    def __init__(
        self,
        label: str,
        duration_s: float | None,
        quiet_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._duration_s = duration_s
        self._clock = clock
        self._bar: Any = None
        self._every_s = quiet_s
        self._start_s = self._next_s = 0.0

    def __enter__(self) -> FlightProgress:
        self._start_s = self._clock()
        self._next_s = self._start_s + self._every_s
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.add_task(self._label, total=self._duration_s, state="starting")
            self._bar.start()
            self._every_s = self.RENEW_S
            self._next_s = self._start_s
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(
        self, flown_s: float, height_m: float | None = None, state: str | None = None
    ) -> None:
        """Tell how far the flight is; cheap when called often.

        Args:
            flown_s: flight time so far, s (the wall time is taken here).
            height_m: height of the vehicle, m.
            state: what the flight does, in a word.
        """
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        factor = flown_s / max(now_s - self._start_s, 1e-3)
        words = [f"{factor:.2f} x real time"]
        if height_m is not None and math.isfinite(height_m):
            words.append(f"height {height_m:.1f} m")
        if state:
            words.append(state)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=flown_s, state=", ".join(words))
            return
        total = f" of {self._duration_s:g}" if self._duration_s else ""
        say(f"{self._label}: {flown_s:.1f}{total} s, {', '.join(words)}")


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.1f} s"),
        TextColumn("{task.fields[state]}"),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """A line that says what a longer step does; a spinner on a terminal."""
    if not sys.stderr.isatty():
        say(what)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def loading(what: str) -> Iterator[None]:
    """A line while kernels are loaded; after a change of the sources it says they are compiled."""
    if is_filled():
        with working(what) if sys.stderr.isatty() else nullcontext(), _uncollected():
            yield
        return
    with working(f"{what}; the kernels are compiled once, which takes a minute or two"):
        yield
    set_filled()


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection while modules are loaded: each would walk over all that is there."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def finish(
    summary: Mapping[str, Any], as_json: bool, show: Callable[[Any], None], line: str = ""
) -> int:
    """Print what came of a command, as JSON or for people; the exit status.

    Args:
        summary: with ``passed``.
        as_json: whether the JSON object is asked for.
        show: prints tables of it.
        line: goes below them.
    """
    if as_json:
        print_json(summary)
    else:
        show(summary)
        if line:
            click.echo(line)
    return exit_status(summary["passed"])


def exit_status(passed: bool) -> int:
    """Exit status of a run that came to its end."""
    return PASSED if passed else FAILED
