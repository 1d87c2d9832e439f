"""``quadsim sensors``: prove a device by measurement, and make a device's file from a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from quadsim.base.errors import InputError, did_you_mean, shown
from quadsim.base.options import argument, option
from quadsim.cli.common import finish, output_file, say, working
from quadsim.cli.options import Namespace, Printed, command


@click.group(no_args_is_help=False)
def sensors() -> None:
    """Check devices against their files; make a file from a recording at rest."""


@dataclass(frozen=True)
class CheckOptions(Printed):
    """Options of ``quadsim sensors check``."""

    configs: tuple[str, ...] = argument("CONFIG...")
    hours: float = option(1.0, "how long each device rests; 0: not at all", ge=0.0, le=6.0)
    seed: int = option(1, "seed of all noise", ge=0)
    no_flight: bool = option(False, "leave the flight out")
    report: Path | None = option(None, "write an HTML report here", path="file")


@command(CheckOptions)
def check(options: CheckOptions) -> int:
    """Measure what devices put out and print it next to what their files specify.

    CONFIG is a device or a suite: a name in config/sensors or config/sensors/suites, or a file.
    Each figure is measured alone, with all other errors off and enough samples that its 95 %
    interval is within 5 %; then an hour at rest with everything on, and a flight. Exit status: 0
    all is as specified, 1 something is not, 2 bad input.
    """
    report = options.report
    if report is not None and report.suffix != ".html":
        raise InputError(f"--report {report}: a report ends in .html")
    sets = {Path(config).stem: _devices(config) for config in options.configs}
    from quadsim.lab.sensor_check.check import check_devices

    with working("measuring"):
        result = check_devices(sets, options.hours, options.seed, not options.no_flight, say)
    if report is not None:
        from quadsim.base.whole_files import write_whole
        from quadsim.lab.sensor_check.report import render_check

        write_whole(report, render_check(result))
    summary = {**result.summary(), "report": report}
    line = "" if report is None else f"report: {report}"
    return finish(summary, options.as_json, lambda _: _show(result), line)


@dataclass(frozen=True)
class FitOptions(Printed):
    """Options of ``quadsim sensors fit``."""

    bag: Path = argument("BAG")
    topic: str = option("imu/data_raw", "of the recording: in the namespace, or from / on")
    namespace: Namespace = "/quad"
    output: Path | None = option(
        None, "the sensor file; it must not exist yet", path="file", unset="<bag>_imu.yaml"
    )


@command(FitOptions)
def fit(options: FitOptions) -> int:
    """Estimate an IMU's noise from BAG, a recording at rest, and write a sensor file.

    White noise, random walk and bias instability come from the Allan deviation, each with its 95 %
    interval; a term that the recording does not show is left out. Exit status: 0 the figures
    explain the recording, 1 they do not (the file is written all the same), 2 bad input.
    """
    from quadsim.bag.reading import open_bag
    from quadsim.base.whole_files import write_whole
    from quadsim.lab.sensor_check import fit

    path = output_file(options.output, options.bag, "imu")
    with open_bag(options.bag) as opened, working(f"reading {options.bag}"):
        recorded = fit.read_recording(opened, options.namespace, options.topic)
    fit.refuse_motion(recorded)
    with working("estimating"):
        fitted = fit.fit_recording(recorded)
    write_whole(path, fit.device_file(fitted))
    summary = {**fitted.summary(), "file": path}
    return finish(summary, options.as_json, lambda _: _show_fit(fitted), f"file: {path}")


@dataclass(frozen=True)
class SuitesOptions(Printed):
    """Options of ``quadsim sensors suites``."""


@command(SuitesOptions)
def suites(options: SuitesOptions) -> int:
    """Print the sets of sensors, and where the filter is too sure of itself with one.

    The mean of squared errors over stated variances is above 1.6 there.
    """
    from quadsim.base.files import known
    from quadsim.sensors.devices import not_held

    found = {name: not_held(name) for name in known("sensors/suites")}
    return finish({"not_consistent": found}, options.as_json, _show_suites, passed=True)


def _show_suites(summary: Mapping[str, Any]) -> None:
    """A line for each suite, and what its file states."""
    for name, lines in summary["not_consistent"].items():
        click.echo("\n    not consistent: ".join([name, *lines]))


for _command in (check, fit, suites):
    sensors.add_command(_command)


def _devices(config: str) -> Mapping[str, Any]:
    """Devices that an argument names, one or those of a suite: kind to parameters."""
    from quadsim.base.files import find, known
    from quadsim.base.parameters import read_yaml
    from quadsim.sensors import DEVICES, SECONDS
    from quadsim.sensors.devices import load_device, load_suite

    def checked(name: str) -> Mapping[str, Any]:
        """Of a suite, without what only the closed loop has."""
        suite = load_suite(name)
        for second in suite.keys() & {*SECONDS}:
            click.echo(f"{second} is not flown here; check its device by its own name", err=True)
        return {kind: params for kind, params in suite.items() if kind in DEVICES}

    if config in known("sensors/suites"):
        return checked(config)
    if not config.endswith((".yaml", ".yml")) and "/" not in config:
        names, suites = known("sensors"), known("sensors/suites")
        if config not in names:
            meant = did_you_mean(config, names + suites)
            raise InputError(
                f"{shown(config)} is no device and no suite{meant}; devices: {', '.join(names)};"
                f" suites: {', '.join(suites)} (or give the path of a .yaml file)"
            )
    path = find("sensors", config)
    content = read_yaml(path)
    if "imu" in content:
        return checked(config)
    kind = content.get("sensor")
    if kind not in DEVICES:
        raise InputError(f"{path}: sensor: {shown(kind)}; allowed: {', '.join(DEVICES)}")
    return {kind: load_device(kind, config)}


def _show(result: Any) -> None:
    """Specified and measured, a table for each device."""
    from rich.table import Table
    from rich.text import Text

    from quadsim.cli.show import narrow, number, tables, verdict

    console = tables()
    words = {"alone": "each figure alone", "rest": "at rest", "flight": "in flight"}
    for name, device in result.devices.items():
        titles = narrow("figure", "unit", "specified", "measured", "interval", "")
        table = Table(*titles, title=name)
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
    outcome = verdict(result.passed, "as specified", "not as specified")
    console.print(Text(f"{len(result.devices)} device(s): ") + outcome)


def _show_fit(fitted: Any) -> None:
    """What was found, with intervals."""
    from quadsim.cli.show import narrow, number, print_table, tables
    from quadsim.lab.sensor_check.fit import fitted_figures, floors

    console, recording = tables(), fitted.recording
    seconds = f"{recording.duration_s:.1f} s at {recording.rate_hz:g} Hz"
    console.print(f"{recording.source}: {seconds}", soft_wrap=True)
    rows: list[tuple[str, ...]] = [
        (
            f"{name} {axis}".strip(), unit, number(found.value),
            f"{number(found.low)} … {number(found.high)}",
        )
        for sensor, triad in fitted.triads.items()
        for name, axis, unit, found in fitted_figures(sensor, triad)
    ]  # fmt: skip
    print_table(console, narrow("figure", "unit", "value", "95 % interval"), rows)
    notes = []
    for sensor, triad in fitted.triads.items():
        flat = ", ".join(number(value) for value in floors(triad))
        notes.append(f"{sensor}: lowest Allan deviations over 0.664 (flicker): {flat}")
        bias = ", ".join(number(float(value)) for value in triad.bias)
        notes.append(f"{sensor}: bias {bias}")
        notes.append(f"{sensor}: counts of {number(triad.step)}" if triad.step else "")
        if triad.from_s > 1.5 / recording.rate_hz:
            notes.append(f"{sensor}: averages below {triad.from_s:.3g} s are filtered; left out")
        if not triad.explained:
            notes.append(f"{sensor}: these figures do not explain the recording")
    for note in filter(None, notes):
        console.print(note, soft_wrap=True)
