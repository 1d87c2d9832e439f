"""Commands of option classes: what :mod:`quadsim.base.options` declares, as click takes it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click
from click.core import ParameterSource

from quadsim.base.errors import InputError
from quadsim.base.options import Option, Setting, build, settings

if TYPE_CHECKING:
    from quadsim.geometry.geodesy import Datum

C = TypeVar("C")


def _datum(text: str) -> Datum:
    """Origin of ``map`` of a text."""
    from quadsim.base.parameters import from_mapping
    from quadsim.geometry.geodesy import Datum

    try:
        latitude_deg, longitude_deg, height_m = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not LAT,LON,H (degrees, degrees, metres)") from None
    place = {"latitude_deg": latitude_deg, "longitude_deg": longitude_deg, "height_m": height_m}
    return from_mapping(Datum, place, "--datum")


def _pictures_folder(folder: Path) -> Path:
    """The folder of ``--pictures``; what draws them is looked for before any work is done."""
    from quadsim.base.surroundings import browser

    if browser() is None:
        raise InputError("--pictures needs Chromium or Chrome; install it (apt install chromium)")
    return folder


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A command whose result may be printed as JSON."""

    as_json: Annotated[bool, Option("print one JSON object on stdout", flags="--json")] = False


Domain = Annotated[int | None, Option("DDS domain, 0 to 232", unset="ROS_DOMAIN_ID, or 0")]
Driver = Annotated[
    str | None,
    Option(
        "who published the bag, if not quadsim: mavros, px4, ... of config/drivers, or a file;"
        " several with commas",
        metavar="NAME",
    ),
]
MapOrigin = Annotated[
    Any,
    Option(
        "origin of map in degrees and m, where the bag has no /datum",
        name="datum",
        metavar="LAT,LON,H",
        read=_datum,
    ),
]
ColumnMapName = Annotated[
    str,
    Option(
        "column map of a log without topics of its own: a file of config/logs, or a path",
        metavar="MAP",
        unset="LOG.columns.yaml, else the shipped one that fits",
    ),
]
FixUnits = Annotated[
    bool, Option("mend units and axes that are found to be others than the messages' types ask for")
]
Namespace = Annotated[str, Option("the vehicle in the bag")]
Changes = Annotated[
    tuple[str, ...],
    Option(
        "set a key of the file, or of one that it names, such as vehicle.mass_kg=2.1 or"
        " sensors.gnss=ublox_m8; may be repeated",
        flags="--set",
        metavar="KEY=VALUE",
    ),
]
Duration = Annotated[float | None, Option("fly this long at most", "s", name="duration")]
RunFolder = Annotated[
    Path | None, Option("folder of the run; it must not exist yet", unset="runs/<scenario>-<time>")
]
Report = Annotated[bool, Option("write report.html", flags="--report/--no-report", unset="report")]
Pictures = Annotated[
    Path | None,
    Option(
        "write each figure of the report into this folder, as PNG and SVG",
        path="folder",
        read=_pictures_folder,
    ),
]
Processes = Annotated[int, Option("how many at once; 0: one for each core", ge=0, le=1024)]
Vehicle = Annotated[str, Option("a vehicle of config/vehicles, or a file")]
Suite = Annotated[str, Option("a sensor suite of config/sensors/suites, or a file")]


class _FiniteRange(click.FloatRange):
    """A range of numbers; NaN, which no comparison refuses, and infinity are not in it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of a text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


#: Bounds of a number that has none on one side.
_RANGES: dict[type[Any], type[Any]] = {int: click.IntRange, float: _FiniteRange}


def command(cls: type[C]) -> Callable[[Callable[[C], int | None]], click.Command]:
    """A click command of a function that takes an object of a class of options.

    The function's docstring is the help, and what it gives is the exit status.
    """
    known = settings(cls)

    def make(function: Callable[[C], int | None]) -> click.Command:
        def run(**values: Any) -> int | None:
            return function(build(cls, values, known))

        name = function.__name__.rstrip("_")
        about = inspect.getdoc(function)
        return click.Command(name, callback=run, params=list(map(_parameter, known)), help=about)

    return make


def given(cls: type[Any] | None = None) -> dict[str, str]:
    """Options that the command line of the running command gives: name to flag.

    Args:
        cls: only those of a class.
    """
    context = click.get_current_context()
    names = None if cls is None else {setting.name for setting in settings(cls)}
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and (names is None or parameter.name in names)
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


def _parameter(setting: Setting) -> click.Parameter:
    spec, required = setting.spec, setting.default is MISSING
    several = setting.items == 0
    if spec.argument:
        # None as a default would count as given
        default = {} if required else {"default": setting.default}
        return click.Argument(
            [setting.name],
            type=_type(setting),
            nargs=-1 if several else 1,
            required=required,
            metavar=spec.metavar or None,
            **default,
        )
    flags = spec.flags.split() or [f"--{setting.name.replace('_', '-')}"]
    shown = setting.kind is not bool and setting.default not in (None, "", ())
    words = spec.doc + (f" ({spec.unit})" if spec.unit else "")
    return click.Option(
        [*flags, setting.name],
        type=None if setting.kind is bool else _type(setting),
        is_flag=setting.kind is bool,
        multiple=several,
        default=setting.default,
        show_default=shown,
        metavar=spec.metavar or None,
        callback=_callback(setting),
        help=f"{words[0].upper()}{words[1:]}." + (f"  [default: {spec.unset}]" * bool(spec.unset)),
    )


def _type(setting: Setting) -> click.ParamType[Any]:
    spec, kind = setting.spec, setting.kind
    if spec.choices:
        return click.Choice(spec.choices)
    low, high = (x if y is None else y for x, y in ((spec.ge, spec.gt), (spec.le, spec.lt)))
    if kind in _RANGES and (low is not None or high is not None):
        made: click.ParamType[Any] = _RANGES[kind](
            low, high, min_open=spec.gt is not None, max_open=spec.lt is not None
        )
        return made
    if kind is Path:
        return click.Path(
            path_type=Path, file_okay=spec.path != "folder", dir_okay=spec.path != "file"
        )
    return click.types.convert_type(str if spec.read else kind)


def _callback(setting: Setting) -> Callable[[Any, Any, Any], Any] | None:
    """What makes the value of a text or of several."""
    spec = setting.spec
    if spec.commas:
        return lambda _, __, texts: tuple(
            part.strip() for text in texts for part in text.split(",") if part.strip()
        )
    if spec.read is None:
        return None
    read = spec.read

    def make(_: Any, __: Any, text: Any) -> Any:
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return make
