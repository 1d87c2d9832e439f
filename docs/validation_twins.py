"""Closed-loop twins of the Crazyflie's figure eights, for docs/make_validation.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from quadsim.bag.reading import open_bag
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.lab.validate.twin_parameters import TwinParams
from quadsim.lab.validate.twin_report import TwinFlights, closed_loop_report, twin_flights
from quadsim.vehicle.parameters import VehicleParams

VEHICLE, TWIN = "crazyflie21_closed_loop", "crazyflie_figure8"
#: What a figure's name begins with, and the column that counts it.
KINDS = {
    "gyroscope": "gyroscope, bands",
    "accelerometer": "accelerometer, bands",
    "rotor speeds": "rotor speeds, bands",
}


@cache
def flown_twins(paths: tuple[Path, ...]) -> list[TwinFlights]:
    """Each flight with its twin."""
    vehicle = load(VehicleParams, find("vehicles", VEHICLE))
    twin = load(TwinParams, find("twins", TWIN))
    found = []
    for seed, path in enumerate(paths):
        with open_bag(path) as bag:
            found.append(twin_flights(bag, "/quad", vehicle, twin, seed))
    return found


def closed_loop(paths: Sequence[Path]) -> str:
    """Figures of flights and twins by the slowness of the path, and how many are inside."""
    heads = [
        *("time scale", "tracking error, m", "twins", "rotors' mean, rad/s", "twins"),
        *("rotors' spread, rad/s", "twins", *KINDS.values(), "all"),
        *("single twins inside", "recorded themselves"),
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for group in closed_loop_report(flown_twins(tuple(paths))):
        rows = group["figures"]
        cells = [f"{group['scale']:g}"]
        for row, digits in zip(rows, (3, 0, 1), strict=False):
            cells.append(f"{row['lowest']:.{digits}f} to {row['highest']:.{digits}f}")
            cells.append(_marked(f"{row['simulated']:.{digits}f}", row))
        by_kind = ([r for r in rows if r["figure"].startswith(kind + ",")] for kind in KINDS)
        cells += map(_share, by_kind)
        cells.append(_share(rows))
        if group["twins"]:
            ends = f"{100 * min(group['twins']):.0f} to {100 * max(group['twins']):.0f} %"
            cells.append(f"{100 * group['simulated_inside']:.0f} % ({ends})")
            cells.append(f"{100 * group['flown_inside']:.0f} %")
        else:
            cells += 2 * ["–"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _marked(text: str, row: dict[str, Any]) -> str:
    return f"{text} (outside)" if row.get("inside") is False else text


def _share(rows: Sequence[dict[str, Any]]) -> str:
    known = [row["inside"] for row in rows if "inside" in row]
    return f"{sum(known)} of {len(known)}" if known else "–"


def classifier(paths: Sequence[Path]) -> str:
    """Share of windows that a classifier tells right, by what it is given."""
    from validation_classifier import told_apart

    flights = flown_twins(tuple(paths))
    lines = ["| given | told right | by |", "|---|---|---|"]
    groups = {
        "all": ("w_", "f_", "m"), "gyroscope": ("w_",), "accelerometer": ("f_",), "rotors": ("m",)
    }  # fmt: skip
    for words, begins in groups.items():
        share, best = told_apart(flights, begins)
        tells = "; ".join(name for name, weight in best[:3] if weight > 0.0)
        lines.append(f"| {words} | {100 * share:.0f} % | {tells} |")
    return "\n".join(lines) + "\n"
