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
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.kernel_folder import is_filled

if TYPE_CHECKING:
    from quadsim.sim.log import FlightLog

PASSED, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

P = TypeVar("P", bound="ProgressLine")


def say(message: str) -> None:
    """One line for people, on stderr: stdout belongs to the result."""
    click.echo(f"quadsim: {message}", err=True)


def status_of(error: QuadsimError) -> int:
    """Exit status of an error: 2 for input that cannot be used, 1 for a run that broke."""
    return BAD_INPUT if isinstance(error, InputError) else FAILED


def one_line(message: object) -> str:
    """A message without line breaks."""
    return " ".join(str(message).split())


def write_pictures(
    runs: Mapping[str, FlightLog], summaries: Mapping[str, dict[str, Any]], folder: Path | None
) -> None:
    """Write the figures of runs into the folder of ``--pictures``, if there is one."""
    if folder is None:
        return
    with working("drawing the pictures"):
        from quadsim.analysis.report.pictures import save_pictures

        save_pictures(runs, summaries, folder)


def json_value(value: Any) -> Any:
    """A value as JSON knows it: numpy converted into Python, NaN and infinity into null."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def to_json(value: Any) -> str:
    """JSON text of nested plain values; see :func:`json_value`."""
    return json.dumps(json_value(value), indent=2, allow_nan=False, ensure_ascii=False)


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
        if folder.is_dir():  # empty, or with the bag that the run wrote into it
            for path in scratch.iterdir():
                path.rename(folder / path.name)
        else:
            scratch.rename(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class ProgressLine:
    """How a run goes, on stderr: a bar that renews itself on a terminal, else a line now and then.

    Time begins with the first look at it, so that what it takes to start does not count.

    Args:
        total: how much there is, if that is known.
        column: what the bar shows of how much is done.
        quiet_s: time between two lines.
        clock: wall time, s.
    """

    RENEW_S = 0.1

    def __init__(
        self,
        label: str,
        total: float | None,
        column: str = "{task.completed:.1f} s",
        quiet_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.total = label, total
        self._column, self._clock = column, clock
        self._bar: Any = None
        self._every_s = quiet_s
        self._begin_s: float | None = None
        self._next_s = 0.0

    def __enter__(self: P) -> P:
        return self

    def _begin(self) -> float:
        """Show the bar, if there is a terminal; wall time of that, s."""
        begin_s = self._begin_s = self._clock()
        self._next_s = begin_s + self._every_s
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            texts = ("{task.description}", self._column, "{task.fields[words]}")
            first, *others = (TextColumn(text) for text in texts)
            columns = (first, BarColumn(bar_width=30), *others)
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self.label, total=self.total, words="starting")
            self._bar.start()
            self._every_s, self._next_s = self.RENEW_S, begin_s
        return begin_s

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def due(self) -> float:
        """Wall time since the begin, s, if something is to be shown now, else 0."""
        begin_s = self._begin() if self._begin_s is None else self._begin_s
        now_s = self._clock()
        if now_s < self._next_s:
            return 0.0
        self._next_s = now_s + self._every_s
        return max(now_s - begin_s, 1e-3)

    def show(self, done: float, words: str, line: str) -> None:
        """Show how much is done: words besides the bar, or a line."""
        if self._bar is None:
            say(f"{self.label}: {line}")
        else:
            self._bar.update(0, completed=done, total=self.total, words=words)


class FlightProgress(ProgressLine):
    """How a flight goes: time flown, real-time factor, height, state.

    >>> with FlightProgress("square", 40.0) as progress:
    ...     progress.update(12.5, height_m=1.5, state="mission")
    """

    def update(
        self, flown_s: float, height_m: float | None = None, state: str | None = None
    ) -> None:
        """Tell how far the flight is; cheap when called often.

        Args:
            flown_s: flight time so far, s (the wall time is taken here).
            height_m: height of the vehicle, m.
            state: what the flight does, in a word.
        """
        wall_s = self.due()
        if not wall_s:
            return
        words = f"{flown_s / wall_s:.2f} x real time"
        if height_m is not None and math.isfinite(height_m):
            words += f", height {height_m:.1f} m"
        words += f", {state}" if state else ""
        total = f" of {self.total:g}" if self.total else ""
        self.show(flown_s, words, f"{flown_s:.1f}{total} s, {words}")


class FlightCount(ProgressLine):
    """How many flights of a batch are done, with rate and time left.

    The rate is that of flights since the first call, so that those which an earlier process flew do
    not count.
    """

    def __init__(self, label: str) -> None:
        super().__init__(label, None, "{task.completed} of {task.total}")
        self._first: int | None = None
        self._begin()

    def tell(self, done: int, total: int, note: str = "") -> None:
        """Tell how many flights are done, of how many, and a word about them."""
        first = self._first = done - 1 if self._first is None else self._first
        wall_s = self.due()
        if not wall_s:
            return
        self.total = total
        words = flight_rate(done - first, total - first, wall_s) + (f"; {note}" if note else "")
        self.show(done, words, f"{done} of {total} flights, {wall_s:.0f} s, {words}")


def flight_rate(done: int, total: int, seconds: float) -> str:
    """Flights a second and the time that is left, in words."""
    if not done or seconds <= 0.0:
        return ""
    rate = done / seconds
    left_s = (total - done) / rate
    words = f"{left_s:.0f} s" if left_s < 120.0 else f"{left_s / 60.0:.0f} min"
    return f"{rate:.3g} flights/s, {words} left"


@contextmanager
def counting(label: str) -> Iterator[Callable[..., None]]:
    """Progress of a batch: what is told flights done, of how many, and a word about them."""
    with FlightCount(label) as count:
        yield count.tell


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A line that states what a longer step does; a spinner on a terminal.

    Yields:
        What states how far it is: another line, or in the place of the first one.
    """
    if not sys.stderr.isatty():
        say(what)
        yield say
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield status.update


@contextmanager
def loading(what: str) -> Iterator[None]:
    """A line while kernels are loaded; where there are none yet, those of a flight are compiled."""
    if is_filled():
        with working(what) if sys.stderr.isatty() else nullcontext(), _uncollected():
            yield
        return
    from quadsim.base.compile_count import count_compiled, counting_files
    from quadsim.base.surroundings import need_compiler

    need_compiler()
    from quadsim.precompile import fill_first

    what_first = "compiling what a flight needs, once, which takes a minute or two"
    with working(what_first) as tell, counting_files(lambda words: tell(f"compiling: {words}")):
        fill_first()
    count_compiled(say)
    with working(what):
        yield


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
    summary: Mapping[str, Any],
    as_json: bool,
    show: Callable[[Any], None],
    line: str = "",
    passed: bool | None = None,
) -> int:
    """Print what came of a command, as JSON or for people; the exit status.

    Args:
        as_json: whether the JSON object is asked for.
        line: goes below them.
        passed: whether all is as it should be; None: by the summary.
    """
    if as_json:
        print_json(summary)
    else:
        show(summary)
        if line:
            click.echo(line)
    return exit_status(summary["passed"] if passed is None else passed)


def exit_status(passed: bool) -> int:
    """Exit status of a run that came to its end."""
    return PASSED if passed else FAILED


def output_file(output: Path | None, bag: Path, kind: str) -> Path:
    """The parameter file to write: ``--output``, or ``<bag>_<kind>.yaml``.

    Raises:
        InputError: it is there already, or its name is wrong.
    """
    path = output or Path(f"{bag.resolve().name.removesuffix('.mcap')}_{kind}.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(f"--output {path}: the file's name ends in .yaml")
    if path.exists():
        raise InputError(f"{path}: exists already; name a new file with --output")
    return path


def write_or_print(text: str, output: Path | None) -> None:
    """Print a file, or write it in the place of what is there.

    Raises:
        InputError: it cannot be written.
    """
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error.strerror})") from None
