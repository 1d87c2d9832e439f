"""``quadsim identify``: the figures of a vehicle out of a recorded flight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from quadsim.cli.common import exit_status, json_option, print_json, working
from quadsim.errors import InputError

#: Width of tables that go to a file or a pipe.
FILE_WIDTH = 120


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
    " odometry/filtered]",
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
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The vehicle file; it must not exist yet.  [default: <bag>_vehicle.yaml]",
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
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate a multirotor's figures from BAG and write a vehicle file.

    Thrust and drag over mass, torque over inertia and the motors' time constants come with 95 %
    intervals from motor speeds, their commands, IMU and odometry; what the flight does not tell is
    kept from --vehicle. Exit status: 0 the flight tells every figure, 1 some are kept (the file is
    written all the same), 2 bad input.
    """
    from quadsim.analysis.bag.reading import open_bag
    from quadsim.analysis.whole_files import write_whole
    from quadsim.experiments.flight_data import read_flight
    from quadsim.experiments.identification import identify as estimate
    from quadsim.experiments.identified import summary, vehicle_text
    from quadsim.files import find
    from quadsim.parameters import from_mapping, read_yaml
    from quadsim.vehicle.parameters import VehicleParams

    path = output or Path(f"{bag.resolve().name.removesuffix('.mcap')}_vehicle.yaml")
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(f"--output {path}: a vehicle file ends in .yaml")
    if path.exists():
        raise InputError(f"{path}: exists already; name a new file with --output")
    file = find("vehicles", vehicle)
    raw = read_yaml(file)
    params = from_mapping(VehicleParams, raw, str(file))
    with open_bag(bag) as opened, working(f"reading {bag}"):
        data = read_flight(opened, namespace, odometry)
    with working("estimating"):
        found = estimate(data, params, gravity_mps2)
    write_whole(path, vehicle_text(found, raw, Path(vehicle).stem))
    result = {**summary(found), "file": path}
    if as_json:
        print_json(result)
    else:
        _show(result)
    ctx.exit(exit_status(found.passed))


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
