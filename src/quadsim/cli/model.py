"""``quadsim model``: vehicles and worlds as files for Gazebo (SDF) and RViz (URDF)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world

if TYPE_CHECKING:
    from quadsim.sensors.timing import SensorParams
    from quadsim.vehicle.parameters import VehicleParams

fortress_option = click.option(
    "--fortress", is_flag=True, help="With the names of Gazebo Fortress; else Harmonic and later."
)
output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file to write, instead of printing it; one that is there is replaced.",
)


def _vehicle_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is carried by what, under which name."""
    for option in (
        click.option(
            "--sensors",
            default="default",
            show_default=True,
            help="A sensor suite of config/sensors/suites, or a file.",
        ),
        click.option(
            "--vehicle",
            default="x500",
            show_default=True,
            help="A vehicle of config/vehicles, or a file.",
        ),
    ):
        command = option(command)
    return command


def _load(vehicle: str, sensors: str) -> tuple[VehicleParams, dict[str, SensorParams]]:
    from quadsim.base.parameters import load
    from quadsim.sensors.devices import load_suite
    from quadsim.vehicle.parameters import VehicleParams

    return load(VehicleParams, find("vehicles", vehicle)), load_suite(sensors)


def _write(text: str, output: Path | None) -> None:
    """Print a file, or write it."""
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error.strerror})") from None


@click.group()
def model() -> None:
    """Write vehicles and worlds for Gazebo and RViz, with the figures of our files."""


@model.command()
@_vehicle_options
@click.option("--name", default="quad", show_default=True, help="Of the model, and its namespace.")
@click.option("--prefix", default="", help="Before the names of frames, such as quad1/.")
@click.option("--camera", is_flag=True, help="With a camera ahead.")
@click.option(
    "--view", is_flag=True, help="For a vehicle that others move: lidar and camera alone."
)
@fortress_option
@output_option
def sdf(
    vehicle: str,
    sensors: str,
    name: str,
    prefix: str,
    camera: bool,
    view: bool,
    fortress: bool,
    output: Path | None,
) -> None:
    """Write a vehicle with its sensors as a model of Gazebo."""
    from quadsim.gazebo.sdf import model_sdf
    from quadsim.gazebo.sensors import CameraParams

    params, devices = _load(vehicle, sensors)
    text = model_sdf(
        params,
        devices,
        name,
        prefix=prefix,
        camera=CameraParams() if camera else None,
        view=view,
        fortress=fortress,
        comment=f"{vehicle} with the sensors {sensors}, written by quadsim model sdf.",
    )
    _write(text, output)


@model.command()
@_vehicle_options
@click.option("--prefix", default="", help="Before the names of links, such as quad1/.")
@output_option
def urdf(vehicle: str, sensors: str, prefix: str, output: Path | None) -> None:
    """Write a vehicle and the places of its sensors as robot_description."""
    from quadsim.gazebo.urdf import robot_description

    _write(robot_description(*_load(vehicle, sensors), prefix), output)


@model.command()
@click.argument("world")
@fortress_option
@output_option
def world(world: str, fortress: bool, output: Path | None) -> None:
    """Write WORLD, of worlds or a file, as a release of Gazebo takes it from anywhere."""
    from quadsim.gazebo.worlds import for_gazebo

    _write(for_gazebo(find_world(world), fortress=fortress), output)
