"""``quadsim model``: vehicles and worlds as files for Gazebo (SDF) and RViz (URDF)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from quadsim.base.files import find, find_world
from quadsim.base.options import Option, argument, option
from quadsim.cli.common import write_or_print
from quadsim.cli.options import Suite, Vehicle, command

if TYPE_CHECKING:
    from quadsim.sensors.error_terms import SensorParams
    from quadsim.vehicle.parameters import VehicleParams

Fortress = Annotated[bool, Option("with the names of Gazebo Fortress; else Harmonic and later")]
Output = Annotated[
    Path | None,
    Option("a file to write, instead of printing it; one that is there is replaced", path="file"),
]


@dataclass(frozen=True)
class UrdfOptions:
    """Options of ``quadsim model urdf``."""

    vehicle: Vehicle = "x500"
    sensors: Suite = "default"
    prefix: str = option("", "before the names of links and frames, such as quad1/")
    output: Output = None


@dataclass(frozen=True)
class SdfOptions(UrdfOptions):
    """Options of ``quadsim model sdf``."""

    name: str = option("quad", "of the model, and its namespace")
    camera: bool = option(False, "with a camera ahead")
    view: bool = option(False, "for a vehicle that others move: lidar and camera alone")
    fortress: Fortress = False


@dataclass(frozen=True)
class WorldOptions:
    """Options of ``quadsim model world``."""

    world: str = argument()
    fortress: Fortress = False
    output: Output = None


def _load(vehicle: str, sensors: str) -> tuple[VehicleParams, dict[str, SensorParams]]:
    from quadsim.base.parameters import load
    from quadsim.sensors.devices import load_suite
    from quadsim.vehicle.parameters import VehicleParams

    return load(VehicleParams, find("vehicles", vehicle)), load_suite(sensors)


@click.group(no_args_is_help=False)
def model() -> None:
    """Write vehicles and worlds for Gazebo and RViz, with the figures of our files."""


@command(SdfOptions)
def sdf(options: SdfOptions) -> None:
    """Write a vehicle with its sensors as a model of Gazebo."""
    from quadsim.gazebo.sdf import model_sdf
    from quadsim.gazebo.sensors import CameraParams

    vehicle, sensors = options.vehicle, options.sensors
    text = model_sdf(
        *_load(vehicle, sensors),
        options.name,
        prefix=options.prefix,
        camera=CameraParams() if options.camera else None,
        view=options.view,
        fortress=options.fortress,
        comment=f"{vehicle} with the sensors {sensors}, written by quadsim model sdf.",
    )
    write_or_print(text, options.output)


@command(UrdfOptions)
def urdf(options: UrdfOptions) -> None:
    """Write a vehicle and the places of its sensors as robot_description."""
    from quadsim.gazebo.urdf import robot_description

    loaded = _load(options.vehicle, options.sensors)
    write_or_print(robot_description(*loaded, options.prefix), options.output)


@command(WorldOptions)
def world(options: WorldOptions) -> None:
    """Write WORLD, of worlds or a file, as a release of Gazebo takes it from anywhere."""
    from quadsim.gazebo.worlds import for_gazebo

    write_or_print(for_gazebo(find_world(options.world), fortress=options.fortress), options.output)


for _command in (sdf, urdf, world):
    model.add_command(_command)
