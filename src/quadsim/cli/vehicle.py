"""``quadsim vehicle import``: vehicle files of other programs as ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from quadsim.base.options import Option, argument, option
from quadsim.cli.common import say, write_or_print
from quadsim.cli.options import Changes, command

Written = Annotated[
    Path | None,
    Option("a file to write, instead of printing it; one that is there is replaced", path="file"),
]


@dataclass(frozen=True)
class ImportOptions:
    """Options of ``quadsim vehicle import``."""

    file: Path = argument()
    fill: tuple[str, ...] = option(
        (),
        "a file, or a vehicle of config/vehicles, that tells what FILE does not; may be repeated",
        metavar="FILE",
    )
    changes: Changes = ()
    output: Written = None
    suite: Path | None = option(
        None, "write a sensor suite with the places of FILE's sensors", path="file"
    )


@click.group(no_args_is_help=False)
def vehicle() -> None:
    """Make vehicle files from those of other programs."""


@command(ImportOptions)
def import_(options: ImportOptions) -> None:
    """Write FILE of another program as a vehicle file.

    SDF and URDF (Gazebo, RotorS, PX4, hector; expand xacro first), PX4's airframes, and the
    parameters of RotorPy, Agilicious, Flightmare and hector_quadrotor are read by their content.
    What FILE does not tell is asked for, or filled in and stated, a line each.
    """
    from quadsim.base.changes import parse_changes
    from quadsim.lab.vehicle_import.vehicle_file import import_vehicle, suite_text

    text, figures = import_vehicle(options.file, options.fill, parse_changes(options.changes))
    for note in figures.notes:
        say(note)
    for mount in figures.mounts:
        x, y, z = mount.position_B_m
        say(f"{mount.kind} {mount.name}: ({x:.5g}, {y:.5g}, {z:.5g}) m from the centre of mass")
    if options.suite is not None:
        write_or_print(suite_text(figures.mounts, options.file.name), options.suite)
    write_or_print(text, options.output)


vehicle.add_command(import_)
