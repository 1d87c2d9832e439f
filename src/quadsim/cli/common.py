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
    from quadsim.geometry.geodesy import Datum
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


def output_option(command: F) -> F:
    """``--output``: the run's folder."""
    return click.option(
        "--output",
        type=click.Path(path_type=Path),
        help="Folder of the run; it must not exist yet.  [default: runs/<scenario>-<time>]",
    )(command)


def flight_options(command: F) -> F:
    """Options of every command that flies: scenario, vehicle, sensors, gains, seed, duration."""
    for option in (
        click.option("--duration", "duration_s", type=float, help="Fly this long at most, s."),
        click.option("--seed", type=click.IntRange(min=0), help="Seed of all randomness."),
        click.option("--vehicle", help="A vehicle of config/vehicles, or a file."),
        click.option("--sensors", help="A sensor suite of config/sensors, or a file."),
        click.option("--autopilot", help="Gains of config/autopilots, or a file."),
        click.option(
            "--scenario",
            default="square",
            show_default=True,
            help="A scenario of config/scenarios, or a file.",
        ),
    ):
        command = option(command)
    return command


def _datum(ctx: click.Context, param: click.Parameter, text: str | None) -> Datum | None:
    if text is None:
        return None
    from quadsim.base.parameters import from_mapping
    from quadsim.geometry.geodesy import Datum

    try:
        latitude_deg, longitude_deg, height_m = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not LAT,LON,H (degrees, degrees, metres)") from None
    place = {"latitude_deg": latitude_deg, "longitude_deg": longitude_deg, "height_m": height_m}
    return from_mapping(Datum, place, "--datum")


def datum_option(command: F) -> F:
    """``--datum``: origin of ``map``, for bags that hold none."""
    option = click.option(
        "--datum",
        callback=_datum,
        metavar="LAT,LON,H",
        help="Origin of map in degrees and m, where the bag has no /datum.",
    )
    return option(command)


def driver_option(command: F) -> F:
    """``--driver``: whose topics a bag holds."""
    option = click.option(
        "--driver",
        metavar="NAME",
        help="Who published the bag, if not quadsim: mavros, px4, ... of config/drivers, or a file;"
        " several with commas.",
    )
    return option(command)


def _pictures_folder(
    ctx: click.Context, param: click.Parameter, folder: Path | None
) -> Path | None:
    """The folder of ``--pictures``; what draws them is looked for before any work is done."""
    if folder is not None:
        from quadsim.base.surroundings import browser

        if browser() is None:
            raise InputError(
                "--pictures needs Chromium or Chrome; install it (apt install chromium)"
            )
    return folder


def pictures_option(command: F) -> F:
    """``--pictures``: the figures of the report for papers."""
    return click.option(
        "--pictures",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_pictures_folder,
        help="Write each figure of the report into this folder, as PNG and SVG.",
    )(command)


def write_pictures(
    runs: Mapping[str, FlightLog], summaries: Mapping[str, dict[str, Any]], folder: Path | None
) -> None:
    """Write the figures of runs into the folder of ``--pictures``, if there is one."""
    if folder is None:
        return
    with working("drawing the pictures"):
        from quadsim.analysis.report.pictures import save_pictures

        save_pictures(runs, summaries, folder)


def recording_options(command: F) -> F:
    """Options of every command that records: topics, files, compression."""
    for option in (
        click.option(
            "--compression",
            type=click.Choice(["none", "zstd"]),
            default="none",
            show_default=True,
            help="Of the bag, chunk by chunk.",
        ),
        click.option(
            "--split-s",
            type=click.FloatRange(0.0, 1e6),
            default=0.0,
            help="A new file of the bag after this time, s.",
        ),
        click.option(
            "--split-mb",
            type=click.FloatRange(0.0, 1e6),
            default=0.0,
            help="A new file of the bag at this size, MB.",
        ),
        click.option(
            "--record-profile",
            default="all",
            show_default=True,
            help="Topics of the bag: a file of config/recording, or a path.",
        ),
    ):
        command = option(command)
    return command


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

    def say(self, message: str) -> None:
        """A line above the progress line."""
        if self._bar is not None:
            self._bar.console.print(f"quadsim: {message}", markup=False, highlight=False)
        else:
            say(message)


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


def exit_status(passed: bool) -> int:
    """Exit status of a run that came to its end."""
    return PASSED if passed else FAILED
