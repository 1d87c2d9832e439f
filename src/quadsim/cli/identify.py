"""``quadsim identify``: the figures of a vehicle, or of its brakes, out of a recorded flight."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.options import argument, option
from quadsim.base.whole_files import write_whole
from quadsim.cli.common import finish, output_file, working
from quadsim.cli.options import Namespace, Printed, command, given

#: Options that belong to one of the two alone.
OF_VEHICLE = ("vehicle", "gravity_mps2", "flights", "residual")
OF_BRAKES = ("guard", "command")


@dataclass(frozen=True)
class IdentifyOptions(Printed):
    """Options of ``quadsim identify``."""

    bags: tuple[Path, ...] = argument("BAG...")
    namespace: Namespace = "/quad"
    vehicle: str = option(
        "x500",
        "a vehicle of config/vehicles, or a file: mass, geometry, and what the bag does not tell",
    )
    odometry: str = option(
        "",
        "topic of the odometry, such as motion capture's",
        unset="ground_truth/odom, else odometry/filtered; with --brakes the pose by which the"
        " guard flew",
    )
    gravity_mps2: float = option(
        9.80665, "where it was flown", "m/s^2", ge=9.5, le=10.0, flags="--gravity"
    )
    flights: bool = option(
        False,
        "fit the motions that the vehicle predicts to recorded flights of any format, of which"
        " poses and rotor speeds suffice; with several logs it is always so",
    )
    residual: bool = option(
        False, "with --flights: fit the residual of the torque, too, in place of the inertia"
    )
    brakes: bool = option(
        False, "latency and deceleration out of stops, for the guard; writes a guard file"
    )
    command: str = option(
        "command_velocity/safe",
        "with --brakes: topic (TwistStamped, ENU) of the velocities that were sent",
    )
    guard: str = option(
        "default", "with --brakes: a guard of config/guards, or a file, whose other keys stay"
    )
    output: Path | None = option(
        None,
        "the file; it must not exist yet",
        path="file",
        unset="<bag>_vehicle.yaml, <bag>_guard.yaml",
    )

    def file(self) -> Path:
        """The file to write.

        Raises:
            InputError: it is there already, its name is wrong, or an option is of no use.
        """
        others, used = (OF_VEHICLE, "with") if self.brakes else (OF_BRAKES, "without")
        for name, flag in given().items():
            if name in others:
                raise InputError(f"{flag}: not used {used} --brakes")
        if self.brakes and len(self.bags) > 1:
            raise InputError("--brakes: takes one bag")
        return output_file(self.output, self.bags[0], "guard" if self.brakes else "vehicle")


@command(IdentifyOptions)
def identify(options: IdentifyOptions) -> int:
    """Estimate a multirotor's figures from BAG and write a vehicle file.

    Thrust and drag over mass, torque over inertia and the motors' time constants come with 95 %
    intervals from motor speeds, their commands, IMU and odometry; what the flight does not tell
    stays as in --vehicle. Exit status: 0 the flight tells every figure, 1 some stay (the file is
    written all the same), 2 bad input.

    With --flights, or with several logs: recorded flights of a real vehicle, whose poses need no
    velocities. Mount, delays and biases of the recorder are found along with the figures.

    With --brakes: how a vehicle under velocity commands stops. Latency and deceleration come with
    95 % intervals; a guard file counts on their worse ends. Exit status: 0, or 2 where the flight
    does not tell them.
    """
    path = options.file()
    if options.brakes:
        return _identify_brakes(options, path)
    if options.flights or options.residual or len(options.bags) > 1:
        return _identify_flights(options, path)
    from quadsim.bag.reading import open_bag
    from quadsim.lab.identify.flight_data import read_flight
    from quadsim.lab.identify.identification import identify_vehicle as estimate
    from quadsim.lab.identify.identification import vehicle_summary, vehicle_text
    from quadsim.vehicle.parameters import VehicleParams

    _, raw, params = _file("vehicles", options.vehicle, VehicleParams)
    (bag,) = options.bags
    with open_bag(bag) as opened, working(f"reading {bag}"):
        data = read_flight(opened, options.namespace, options.odometry)
    with working("estimating"):
        found = estimate(data, params, options.gravity_mps2)
    write_whole(path, vehicle_text(found, raw, Path(options.vehicle).stem))
    result = {**vehicle_summary(found), "file": path}
    return finish(result, options.as_json, _show, f"file: {path}")


def _file(kind: str, name: str, cls: type[Any]) -> tuple[Path, dict[str, Any], Any]:
    """A file of ``config/<kind>``: its path, its mapping, and the parameters."""
    from quadsim.base.parameters import from_mapping, read_yaml

    path = find(kind, name)
    raw = read_yaml(path)
    return path, raw, from_mapping(cls, raw, str(path))


def _identify_flights(options: IdentifyOptions, path: Path) -> int:
    """Fit a vehicle's predictions to recorded flights, and write its file."""
    from quadsim.bag.reading import open_bag
    from quadsim.lab.identify.alignment import align_recorder
    from quadsim.lab.identify.flights import flights_summary, flights_text, identify_flights
    from quadsim.lab.validate.recorded import read_recorded
    from quadsim.vehicle.parameters import VehicleParams

    _, raw, params = _file("vehicles", options.vehicle, VehicleParams)
    with ExitStack() as stack, working("reading"):
        bags = [stack.enter_context(open_bag(log)) for log in options.bags]
        alignment = align_recorder(bags, options.namespace, params.recorder)
        aligned = replace(params, recorder=alignment.applied(params.recorder))
        recorded = [read_recorded(bag, options.namespace, aligned) for bag in bags]
    with working("predicting, which takes minutes for many flights"):
        found = identify_flights(recorded, aligned, options.gravity_mps2, options.residual)
    found = replace(found, before=params)
    write_whole(path, flights_text(found, alignment, raw, Path(options.vehicle).stem))
    result = {**flights_summary(found, recorded, alignment), "file": path}
    return finish(result, options.as_json, _show_flights, f"file: {path}")


def _show_flights(result: dict[str, Any]) -> None:
    """A table of the figures."""
    from quadsim.cli.show import number, print_table, tables

    console = tables()
    rows = (
        (each["name"], number(each["value"]), _interval(each), number(each["file_value"]),
         each["origin"])
        for each in result["figures"]
    )  # fmt: skip
    print_table(console, ("figure", "value", "95 % interval", "file", ""), rows)
    console.print(f"{result['flown_s']:.1f} s of free flight", soft_wrap=True)
    for note in result["notes"]:
        console.print(note, soft_wrap=True)


def _identify_brakes(options: IdentifyOptions, path: Path) -> int:
    """Measure how the vehicle stops, and write the guard's file."""
    from quadsim.bag.reading import open_bag
    from quadsim.hil.guard.parameters import GuardParams
    from quadsim.lab.identify.brakes import (
        brakes_summary,
        guard_text,
        lowered_speed_limit,
        measure_brakes,
        read_brake_flight,
    )

    file, raw, _ = _file("guards", options.guard, GuardParams)
    (bag,) = options.bags
    with open_bag(bag) as opened, working(f"reading {bag}"):
        flight = read_brake_flight(opened, options.namespace, options.odometry, options.command)
    found = measure_brakes(flight)
    write_whole(path, guard_text(found, raw, Path(options.guard).stem))
    result = {**brakes_summary(found), "file": path}
    result["notes"].append(f"all other keys are of {file}: check limits, height band and fence")
    lowered = lowered_speed_limit(found, raw)
    if lowered is not None:
        result["notes"].append(
            f"speed_max_mps is {lowered:g}, that of the fastest stop: faster ones are not measured"
        )
    return finish(result, options.as_json, _show_brakes, f"file: {path}", passed=True)


def _show_brakes(result: dict[str, Any]) -> None:
    """The stops, the two figures, and what the guard is to count on."""
    from quadsim.cli.show import number, print_table, tables

    console = tables()
    console.print(result["source"], soft_wrap=True)
    stops = (
        (
            f"{stop['at_s']:.1f}",
            *(f"{stop[key]:.2f}".replace("nan", "") for key in ("speed_mps", "way_m", "counted_m")),
            stop["why_not"] and f"not used: {stop['why_not']}",
        )
        for stop in result["stops"]
    )
    print_table(console, ("s", "m/s", "way, m", "the guard counts, m", ""), stops)
    figures = (
        (each["name"], each["unit"], number(each["value"]), _interval(each), number(each["guard"]))
        for each in result["figures"]
    )
    titles = ("figure", "unit", "value", "95 % interval", "in the guard's file")
    print_table(console, titles, figures)
    for note in result["notes"]:
        console.print(note, soft_wrap=True)


def _interval(figure: dict[str, Any]) -> str:
    from quadsim.cli.show import number

    return f"{number(figure['low'])} … {number(figure['high'])}"


def _show(result: dict[str, Any]) -> None:
    """A table of the figures, and its notes."""
    from rich.text import Text

    from quadsim.cli.show import narrow, number, print_table, tables

    console = tables()
    console.print(
        f"{result['source']}: {result['flown_s']:.1f} s of free flight, {result['odometry']}"
        " odometry",
        soft_wrap=True,
    )
    colours = {"kept": "yellow", "found": "cyan"}
    rows = (
        (
            Text(each["meaning"]), each["unit"], number(each["value"]), _interval(each),
            number(each["file_value"]),
            Text(each["origin"], colours.get(each["origin"], "green")),
        )
        for each in result["figures"]
    )  # fmt: skip
    print_table(console, narrow("figure", "unit", "value", "95 % interval", "file", ""), rows)
    for row in result["unexplained"]:
        console.print(
            f"{row['name']} {row['axis']}: {number(row['rms'])} of {number(row['of'])}"
            f" {row['unit']} is not explained",
            soft_wrap=True,
        )
    for note in result["notes"]:
        console.print(note, soft_wrap=True)
