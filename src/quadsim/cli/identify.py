"""``quadsim identify``: the figures of a vehicle, or of its brakes, out of a recorded flight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from quadsim.base.errors import InputError
from quadsim.cli.common import exit_status, json_option, print_json, working

#: Width of tables that go to a file or a pipe.
FILE_WIDTH = 120
#: Options that belong to one of the two alone.
OF_VEHICLE, OF_BRAKES = ("vehicle", "gravity_mps2"), ("guard", "command")


@click.command()
@click.argument("bag", type=click.Path(path_type=Path))
@click.option("--namespace", default="/quad", show_default=True, help="The vehicle in the bag.")
@click.option(
    "--vehicle",
    default="x500",
    show_default=True,
    help="A vehicle of config/vehicles, or a file: mass, geometry, and what the bag does not tell.",
)
@click.option(
    "--odometry",
    default="",
    help="Topic of the odometry, such as motion capture's.  [default: ground_truth/odom, else"
    " odometry/filtered; with --brakes the pose by which the guard flew]",
)
@click.option(
    "--gravity",
    "gravity_mps2",
    type=click.FloatRange(9.5, 10.0),
    default=9.80665,
    show_default=True,
    help="Where it was flown, m/s^2.",
)
@click.option(
    "--brakes",
    is_flag=True,
    help="Latency and deceleration out of stops, for the guard; writes a guard file.",
)
@click.option(
    "--command",
    default="command_velocity/safe",
    show_default=True,
    help="With --brakes: topic (TwistStamped, ENU) of the velocities that were sent.",
)
@click.option(
    "--guard",
    default="default",
    show_default=True,
    help="With --brakes: a guard of config/guards, or a file, whose other keys are kept.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file; it must not exist yet.  [default: <bag>_vehicle.yaml, <bag>_guard.yaml]",
)
@json_option
@click.pass_context
def identify(
    ctx: click.Context,
    bag: Path,
    namespace: str,
    vehicle: str,
    odometry: str,
    gravity_mps2: float,
    brakes: bool,
    command: str,
    guard: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate a multirotor's figures from BAG and write a vehicle file.

    Thrust and drag over mass, torque over inertia and the motors' time constants come with 95 %
    intervals from motor speeds, their commands, IMU and odometry; what the flight does not tell is
    kept from --vehicle. Exit status: 0 the flight tells every figure, 1 some are kept (the file is
    written all the same), 2 bad input.

    With --brakes: how a vehicle under velocity commands stops. Latency and deceleration come with
    95 % intervals; a guard file counts on their worse ends. Exit status: 0, or 2 where the flight
    does not tell them.
    """
    for name in OF_VEHICLE if brakes else OF_BRAKES:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = f"--{name.removesuffix('_mps2')}"
            raise InputError(f"{option}: not used {'with' if brakes else 'without'} --brakes")
    kind = "guard" if brakes else "vehicle"
    path = output or Path(f"{bag.resolve().name.removesuffix('.mcap')}_{kind}.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(f"--output {path}: a {kind} file ends in .yaml")
    if path.exists():
        raise InputError(f"{path}: exists already; name a new file with --output")
    if brakes:
        _identify_brakes(bag, namespace, odometry, command, guard, path, as_json)
        return
    from quadsim.bag.reading import open_bag
    from quadsim.base.files import find
    from quadsim.base.parameters import from_mapping, read_yaml
    from quadsim.base.whole_files import write_whole
    from quadsim.lab.identify.flight_data import read_flight
    from quadsim.lab.identify.identification import identify_vehicle as estimate
    from quadsim.lab.identify.identified import vehicle_summary, vehicle_text
    from quadsim.vehicle.parameters import VehicleParams

    file = find("vehicles", vehicle)
    raw = read_yaml(file)
    params = from_mapping(VehicleParams, raw, str(file))
    with open_bag(bag) as opened, working(f"reading {bag}"):
        data = read_flight(opened, namespace, odometry)
    with working("estimating"):
        found = estimate(data, params, gravity_mps2)
    write_whole(path, vehicle_text(found, raw, Path(vehicle).stem))
    result = {**vehicle_summary(found), "file": path}
    if as_json:
        print_json(result)
    else:
        _show(result)
    ctx.exit(exit_status(found.passed))


def _identify_brakes(
    bag: Path,
    namespace: str,
    odometry: str,
    command: str,
    guard: str,
    path: Path,
    as_json: bool,
) -> None:
    """Measure how the vehicle stops, and write the guard's file."""
    from quadsim.bag.reading import open_bag
    from quadsim.base.files import find
    from quadsim.base.parameters import from_mapping, read_yaml
    from quadsim.base.whole_files import write_whole
    from quadsim.hil.guard.parameters import GuardParams
    from quadsim.lab.identify.brakes import (
        brakes_summary,
        guard_text,
        lowered_speed_limit,
        measure_brakes,
        read_brake_flight,
    )

    file = find("guards", guard)
    raw = read_yaml(file)
    from_mapping(GuardParams, raw, str(file))
    with open_bag(bag) as opened, working(f"reading {bag}"):
        flight = read_brake_flight(opened, namespace, odometry, command)
    found = measure_brakes(flight)
    write_whole(path, guard_text(found, raw, Path(guard).stem))
    result = {**brakes_summary(found), "file": path}
    result["notes"].append(f"all other keys are of {file}: check limits, height band and fence")
    lowered = lowered_speed_limit(found, raw)
    if lowered is not None:
        result["notes"].append(
            f"speed_max_mps is {lowered:g}, that of the fastest stop: faster ones are not measured"
        )
    if as_json:
        print_json(result)
    else:
        _show_brakes(result)


def _show_brakes(result: dict[str, Any]) -> None:
    """The stops, the two figures, and what the guard is to count on."""
    from rich.console import Console
    from rich.table import Table

    from quadsim.cli.show import number

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    console.print(result["source"], soft_wrap=True)
    stops = Table("s", "m/s", "way, m", "the guard counts, m", "")
    for stop in result["stops"]:
        stops.add_row(
            f"{stop['at_s']:.1f}",
            *(_digits(stop[key]) for key in ("speed_mps", "way_m", "counted_m")),
            stop["why_not"] and f"not used: {stop['why_not']}",
        )
    console.print(stops)
    table = Table("figure", "unit", "value", "95 % interval", "in the guard's file")
    for figure in result["figures"]:
        table.add_row(
            figure["name"],
            figure["unit"],
            number(figure["value"]),
            f"{number(figure['low'])} … {number(figure['high'])}",
            number(figure["guard"]),
        )
    console.print(table)
    for note in result["notes"]:
        console.print(note, soft_wrap=True)
    click.echo(f"file: {result['file']}")


def _digits(value: float) -> str:
    """Two decimals; nothing for what is not known."""
    return f"{value:.2f}" if value == value else ""


def _show(result: dict[str, Any]) -> None:
    """A table of the figures, and what is to be said beside it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from quadsim.cli.show import number

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    console.print(
        f"{result['source']}: {result['flown_s']:.1f} s of free flight, {result['odometry']}"
        " odometry",
        soft_wrap=True,
    )
    table = Table()
    table.add_column("figure", overflow="fold")
    for title in ("unit", "value", "95 % interval", "file", ""):
        table.add_column(title, no_wrap=True)
    colours = {"kept": "yellow", "found": "cyan"}
    for figure in result["figures"]:
        table.add_row(
            Text(figure["meaning"]),
            figure["unit"],
            number(figure["value"]),
            f"{number(figure['low'])} … {number(figure['high'])}",
            number(figure["file_value"]),
            Text(figure["origin"], colours.get(figure["origin"], "green")),
        )
    console.print(table)
    for row in result["unexplained"]:
        console.print(
            f"{row['name']} {row['axis']}: {number(row['rms'])} of {number(row['of'])}"
            f" {row['unit']} is not explained",
            soft_wrap=True,
        )
    for note in result["notes"]:
        console.print(note, soft_wrap=True)
    click.echo(f"file: {result['file']}")
