"""``quadsim sensors``: prove a device by measurement, and make a device's file from a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from quadsim.base.errors import InputError, shown
from quadsim.cli.common import exit_status, json_option, print_json, say, working

#: Width of tables that go to a file or a pipe.
FILE_WIDTH = 120


@click.group()
def sensors() -> None:
    """Check devices against their files; make a file from a recording at rest."""


def _html(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """A report's path, refused before any work is done."""
    if path is not None and path.suffix != ".html":
        raise InputError(f"--report {path}: a report ends in .html")
    return path


@sensors.command()
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True)
@click.option(
    "--hours",
    type=click.FloatRange(min=0.0, max=6.0),
    default=1.0,
    show_default=True,
    help="How long each device rests; 0: not at all.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all noise."
)
@click.option("--no-flight", is_flag=True, help="Leave the flight out.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_html,
    help="Write an HTML report here.",
)
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    configs: tuple[str, ...],
    hours: float,
    seed: int,
    no_flight: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Measure what devices put out and print it beside what their files specify.

    CONFIG is a device or a suite: a name in config/sensors or config/sensors/suites, or a file.
    Each figure is measured alone, with all other errors off and enough samples that its 95 %
    interval is within 5 %; then an hour at rest with everything on, and a flight. Exit status: 0
    all is as specified, 1 something is not, 2 bad input.
    """
    sets = {Path(config).stem: _devices(config) for config in configs}
    from quadsim.lab.sensor_check.check import CheckSettings, check_devices

    settings = CheckSettings(hours, seed, not no_flight)
    with working("measuring"):
        result = check_devices(sets, settings, tell=say)
    if report is not None:
        from quadsim.lab.sensor_check.report import write_check_report

        write_check_report(result, report)
    if as_json:
        print_json({**result.summary(), "report": report})
    else:
        _show(result)
        if report is not None:
            click.echo(f"report: {report}")
    ctx.exit(exit_status(result.passed))


@sensors.command()
@click.argument("bag", type=click.Path(path_type=Path))
@click.option(
    "--topic",
    default="imu/data_raw",
    show_default=True,
    help="Of the recording: in the namespace, or from / on.",
)
@click.option("--namespace", default="/quad", show_default=True, help="The vehicle in the bag.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The sensor file; it must not exist yet.  [default: <bag>_imu.yaml]",
)
@json_option
@click.pass_context
def fit(
    ctx: click.Context,
    bag: Path,
    topic: str,
    namespace: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate an IMU's noise from BAG, a recording at rest, and write a sensor file.

    White noise, random walk and bias instability come from the Allan deviation, each with its 95 %
    interval; a term that the recording does not show is left out. Exit status: 0 the figures
    explain the recording, 1 they do not (the file is written all the same), 2 bad input.
    """
    from quadsim.bag.reading import open_bag
    from quadsim.base.whole_files import write_whole
    from quadsim.lab.sensor_check import fit, recording

    path = output or Path(f"{bag.resolve().name.removesuffix('.mcap')}_imu.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(f"--output {path}: a sensor file ends in .yaml")
    if path.exists():
        raise InputError(f"{path}: exists already; name a new file with --output")
    with open_bag(bag) as opened, working(f"reading {bag}"):
        recorded = recording.read(opened, namespace, topic)
    recording.refuse_motion(recorded)
    with working("estimating"):
        fitted = fit.fit_recording(recorded)
    write_whole(path, fit.device_file(fitted))
    if as_json:
        print_json({**fitted.summary(), "file": path})
    else:
        _show_fit(fitted)
        click.echo(f"file: {path}")
    ctx.exit(exit_status(fitted.explained))


def _devices(config: str) -> Mapping[str, Any]:
    """Devices that an argument names, one or those of a suite: kind to parameters."""
    from quadsim.base.files import find, known
    from quadsim.base.parameters import read_yaml
    from quadsim.sensors import DEVICES
    from quadsim.sensors.devices import load_device, load_suite

    def checked(name: str) -> Mapping[str, Any]:
        """Of a suite, without what only the closed loop has."""
        return {kind: params for kind, params in load_suite(name).items() if kind in DEVICES}

    if config in known("sensors/suites"):
        return checked(config)
    if not config.endswith((".yaml", ".yml")) and "/" not in config:
        names = known("sensors")
        if config not in names:
            raise InputError(
                f"{shown(config)} is no device and no suite; devices: {', '.join(names)}; suites:"
                f" {', '.join(known('sensors/suites'))} (or give the path of a .yaml file)"
            )
    path = find("sensors", config)
    content = read_yaml(path)
    if "imu" in content:
        return checked(config)
    kind = content.get("sensor")
    if kind not in DEVICES:
        raise InputError(f"{path}: sensor: {shown(kind)}; allowed: {', '.join(DEVICES)}")
    return {kind: load_device(kind, config)}


def _console() -> Any:
    """A console on which a figure's name, unit and numbers stand side by side."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    return console


def _show(result: Any) -> None:
    """Specified beside measured, a table for each device."""
    from rich.table import Table
    from rich.text import Text

    from quadsim.cli.show import number

    console = _console()
    words = {"alone": "each figure alone", "rest": "at rest", "flight": "in flight"}
    for name, device in result.devices.items():
        table = Table(title=name)
        table.add_column("figure", overflow="fold")
        for title in ("unit", "specified", "measured", "interval", ""):
            table.add_column(title, no_wrap=True)
        for part, figures in device.parts().items():
            if figures:
                table.add_section()
                table.add_row(Text(words[part], "bold"))
            for figure in figures:
                certain = figure.high == figure.low
                interval = "" if certain else f"{number(figure.low)} … {number(figure.high)}"
                table.add_row(
                    Text(figure.name),
                    Text(figure.unit),
                    number(figure.specified),
                    number(figure.measured),
                    interval,
                    Text(figure.verdict, "green" if figure.ok else "red bold"),
                )
        console.print(table)
    verdict = Text("as specified", "green")
    if not result.passed:
        verdict = Text("not as specified", "red bold")
    console.print(Text(f"{len(result.devices)} device(s): ") + verdict)


def _show_fit(fitted: Any) -> None:
    """What was found, with intervals."""
    from rich.table import Table

    from quadsim.cli.show import number
    from quadsim.lab.sensor_check.fit import fitted_figures, floors

    console = _console()
    recording = fitted.recording
    seconds = f"{recording.duration_s:.1f} s at {recording.rate_hz:g} Hz"
    console.print(f"{recording.source}: {seconds}", soft_wrap=True)
    table = Table()
    table.add_column("figure", overflow="fold")
    for title in ("unit", "value", "95 % interval"):
        table.add_column(title, no_wrap=True)
    notes = []
    for sensor, triad in fitted.triads.items():
        for name, axis, unit, estimate in fitted_figures(sensor, triad):
            interval = f"{number(estimate.low)} … {number(estimate.high)}"
            table.add_row(f"{name} {axis}".strip(), unit, number(estimate.value), interval)
        flat = ", ".join(number(value) for value in floors(triad))
        notes.append(f"{sensor}: lowest Allan deviations over 0.664 (flicker): {flat}")
        bias = ", ".join(number(float(value)) for value in triad.bias)
        notes.append(f"{sensor}: bias {bias}")
        notes.append(f"{sensor}: counts of {number(triad.step)}" if triad.step else "")
        if triad.from_s > 1.5 / recording.rate_hz:
            notes.append(f"{sensor}: averages below {triad.from_s:.3g} s are filtered; left out")
        if not triad.explained:
            notes.append(f"{sensor}: these figures do not explain the recording")
    console.print(table)
    for note in filter(None, notes):
        console.print(note, soft_wrap=True)
