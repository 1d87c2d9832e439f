"""``quadsim validate``: a vehicle file judged by flights that were recorded."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quadsim.base.options import argument, option
from quadsim.cli.common import PASSED, print_json, working
from quadsim.cli.options import ColumnMapName, Driver, Namespace, Printed, command

if TYPE_CHECKING:
    from quadsim.lab.validate.validation import JudgedFlight

#: Figures are named together where the flights hardly tell which of them is off.
ALIKE = 0.95


@dataclass(frozen=True)
class ValidateOptions(Printed):
    """Options of ``quadsim validate``."""

    vehicle: str = argument()
    logs: tuple[Path, ...] = argument("LOG...")
    namespace: Namespace = "/quad"
    columns: ColumnMapName = ""
    driver: Driver = None
    gravity_mps2: float = option(
        9.80665, "where it was flown", "m/s^2", ge=9.5, le=10.0, flags="--gravity"
    )
    trim_s: float = option(
        4.0,
        "time before each prediction in which a constant torque is observed; 0: none",
        "s",
        ge=0.0,
        le=60.0,
        flags="--trim",
    )
    level: float = option(0.9, "of the bounds on the prediction error", "1", gt=0.0, lt=1.0)
    tolerance_m: float = option(
        0.25, "error of position beyond which a prediction is not to be trusted", "m", gt=0.0,
        flags="--tolerance",
    )  # fmt: skip
    bounds: Path | None = option(
        None, "JSON of an earlier run whose bounds are held against these flights", path="file",
        unset="none",
    )  # fmt: skip
    output: Path | None = option(
        None, "page to look at; it must not exist yet", path="file", unset="none"
    )


@command(ValidateOptions)
def validate(options: ValidateOptions) -> int:
    """Predict recorded flights with VEHICLE and say how well it does.

    LOG is a bag or a log of another format (docs/logs.md) with rotor speeds, or their commands, and
    a true motion. Force and torque are compared at each instant; the motion is predicted from
    recorded rotor speeds over windows of 0.01 to 2 s. With --bounds it is reported how often bounds
    that were made from other flights hold on these. Exit status: 0, or 2 where a log does not hold
    what is needed.
    """
    from quadsim.bag.reading import open_bag
    from quadsim.base.errors import InputError
    from quadsim.base.files import find
    from quadsim.base.parameters import load
    from quadsim.base.whole_files import write_whole
    from quadsim.lab.identify.flights import stretches_of
    from quadsim.lab.validate.bounds import judge_bounds, read_bounds
    from quadsim.lab.validate.recorded import read_recorded
    from quadsim.lab.validate.residuals import HORIZONS_S
    from quadsim.lab.validate.validation import (
        ValidationSettings,
        judge_predictions,
        rank_suspects,
        render_validation,
        report,
        window_errors,
    )
    from quadsim.vehicle.parameters import VehicleParams

    if options.output is not None and options.output.exists():
        raise InputError(f"{options.output}: exists already; name a new file with --output")
    vehicle = load(VehicleParams, find("vehicles", options.vehicle))
    settings = ValidationSettings(
        options.gravity_mps2, options.trim_s, options.level, options.tolerance_m
    )
    stated = read_bounds(options.bounds, vehicle.name) if options.bounds is not None else []
    judged: list[JudgedFlight] = []
    for log in options.logs:
        with working(f"judging by {log}"), open_bag(log, options.driver, options.columns) as bag:
            judged.append(
                judge_predictions(read_recorded(bag, options.namespace, vehicle), vehicle, settings)
            )
    flights = stretches_of([each.flight for each in judged])
    result = report(judged, vehicle, settings)
    result["suspects"] = [asdict(each) for each in rank_suspects(
        flights, vehicle, options.gravity_mps2)]  # fmt: skip
    if stated:
        result["bounds_held"] = judge_bounds(stated, HORIZONS_S, window_errors(judged)[1])
    if options.output is not None:
        write_whole(options.output, render_validation(judged, result))
        result["page"] = options.output
    if options.as_json:
        print_json(result)
    else:
        _show(result)
    return PASSED


def _show(result: dict[str, Any]) -> None:
    """Tables of what was found."""
    from rich.table import Table

    from quadsim.cli.show import number, tables

    console = tables()
    logs = Table("log", "flown, s", "force, N", "torque, N m")
    for log in [*result["logs"], {**result, "log": "all", "flown_s": None}]:
        figures = (log[key] for key in ("flown_s", "force_rmse_n", "torque_rmse_nm"))
        logs.add_row(log["log"], *map(number, figures))
    console.print(logs)
    table = Table("horizon, s", "windows", "position, m", "velocity, m/s", "attitude, rad")
    keys = ("position_rmse_m", "velocity_rmse_mps", "attitude_rmse_rad")
    for row in result["prediction"]:
        cells = (number(row[key]) for key in keys)
        table.add_row(number(row["horizon_s"]), str(row["windows"]), *cells)
    console.print(table)
    for line in (*_trusted(result), *_held(result)):
        console.print(line, soft_wrap=True)
    first = result["suspects"][0]
    alike = [
        each for each in result["suspects"] if each["likelihood"] > ALIKE * first["likelihood"]
    ]
    console.print(
        f"if one figure is off: {' or '.join(map(_suspect, alike))}, which explains"
        f" {100.0 * first['explained']:.0f} % of the squared error",
        soft_wrap=True,
    )
    notes = {note for log in result["logs"] for note in log["notes"]}
    for note in sorted(notes):
        console.print(note, soft_wrap=True)
    if "page" in result:
        click.echo(f"page: {result['page']}")


def _trusted(result: dict[str, Any]) -> list[str]:
    """How far predictions are to be trusted, of which flights that holds and up to where."""
    from quadsim.cli.show import number

    lines = []
    for regime, horizon_s in result["trust_s"].items():
        rows = [row for row in result["bounds"] if row["regime"] == regime and row["up_to"]]
        last = [row for row in rows if row["horizon_s"] <= max(horizon_s, rows[0]["horizon_s"])][
            -1:
        ]
        for row in last:
            top = (number(value) for value in row["up_to"].values())
            flights = "another flight" if row["another_flight"] else "these logs alone"
            lines.append(
                f"at {regime}: do not trust beyond {horizon_s:g} s; for {flights}, up to {{}} m/s,"
                " {} m/s^2, {} rad/s and a path of {} m".format(*top)
            )
    return [*lines, "that is too much trust if the vehicle's file was fitted to these logs"]


def _held(result: dict[str, Any]) -> list[str]:
    """How often bounds of other flights hold."""
    return [
        f"bounds given for {row['horizon_s']:g} s: hold in "
        + ("no window" if row["coverage"] is None else f"{100 * row['coverage']:.0f} %")
        + f" of {row['bounded']} windows within their limits, of {row['windows']}"
        for row in result.get("bounds_held", [])
        if row["windows"]
    ]


def _suspect(each: dict[str, Any]) -> str:
    """A figure and its factor."""
    from quadsim.cli.show import number

    half = f" +- {number(each['half'], 2)}" if math.isfinite(each["half"]) else ""
    return f"{each['name']} x {number(each['factor'])}{half}"
