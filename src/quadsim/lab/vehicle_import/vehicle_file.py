"""Vehicle files of ours from the figures that files of other programs give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.base.changes import given_keys, set_keys
from quadsim.base.errors import InputError
from quadsim.base.files import find, read_limited
from quadsim.base.parameters import from_mapping, read_yaml, read_yaml_text
from quadsim.lab.parameter_text import parameter_lines, rounded
from quadsim.lab.vehicle_import.figures import HOVER_SPEED, Figures, Mount, read_text
from quadsim.lab.vehicle_import.links import MAX_BYTES, read_links
from quadsim.vehicle.layout import lay_out
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.start import hover_speed_radps

GRAVITY_MPS2 = 9.80665
#: Digits that are written.
WRITTEN = 10
#: What no rule can tell of a vehicle.
ASKED = ("mass_kg", "inertia_kg_m2", "rotor_positions_B_m", "rotor_directions")
#: Figure of merit of a rotor and time in hover of a battery that a file does not tell.
MERIT, HOVER_S, VOLTAGE_V = 0.6, 900.0, 14.8
#: A motor that is quicker is not simulated, s.
QUICKEST_S = 0.002
#: The shipped suite whose devices a suite with the file's places has.
SUITE = "default"
#: Kinds of sensors that have a place in a suite.
PLACED = ("imu", "gnss", "rangefinder")


def read_figures(path: Path) -> Figures:
    """Figures of a file of any program that is known, or of a vehicle file of ours.

    Raises:
        InputError: the file cannot be read, or nothing that is known.
    """
    content = read_limited(path, MAX_BYTES)
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return read_links(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: neither XML nor UTF-8 text") from None
    try:
        mapping = read_yaml_text(text, str(path)) if path.suffix != ".py" else None
    except InputError:
        mapping = None
    if not isinstance(mapping, Mapping) or "mass_kg" not in mapping:
        return read_text(path, text, mapping)
    own = Figures(str(path))
    for key in given_keys(mapping):
        value: Any = mapping
        for part in key.split("."):
            value = value[part]
        own.put(key, value, f"of {path.name}")
    return own


def merge(figures: Sequence[Figures]) -> Figures:
    """The first's figures, with what it lacks from those behind it, which a note names."""
    first = figures[0]
    for other in figures[1:]:
        if "rotor_layout" in first.values or "rotor_positions_B_m" in first.values:
            for key in ("rotor_layout", "arm_m", "rotor_height_m", "rotor_axes_B"):
                other.values.pop(key, None)
        if "inertia_kg_m2" in first.values:
            other.values.pop("inertia_products_kg_m2", None)
        lacking = [key for key in other.values if key not in first.values and key != "name"]
        for key in lacking:
            first.put(key, other.values[key], f"of {Path(other.where).name}")
        first.notes += [f"from {other.where}: {', '.join(lacking) or 'nothing'}", *other.notes]
        first.mounts += other.mounts
    return first


def complete(figures: Figures) -> None:
    """Fill in what the figures lack, and say so; the inertia becomes one that a body can have.

    Raises:
        InputError: something is missing that no rule can tell.
    """
    value = figures.values
    if "rotor_layout" in value:
        value.setdefault("rotor_positions_B_m", ())
        value.setdefault("rotor_directions", ())
    for key in ASKED:
        if key not in value:
            _ask(figures, key)
    _make_possible(figures)

    def fill(key: str, number: Any, how: str) -> None:
        if key not in value:
            figures.put(key, number, f"ours: {how}")
            figures.notes.append(f"{key}: filled in as {_shown(number)}: {how}")

    places = value["rotor_positions_B_m"]
    if "rotor_layout" in value:
        places = lay_out(str(value["rotor_layout"]), float(value["arm_m"]), 0.0)[0]
    hubs = np.array(places, dtype=float)
    weight_N = float(value["mass_kg"]) * GRAVITY_MPS2
    axes = np.array(value.get("rotor_axes_B", [(0.0, 0.0, 1.0)] * len(hubs)), dtype=float)
    upright = float(np.sum(axes[:, 2] / np.linalg.norm(axes, axis=1)))
    speed = value.pop(HOVER_SPEED, None)
    if "thrust_coefficient_N_s2" not in value:
        if speed is None:
            _ask(figures, "thrust_coefficient_N_s2")
        k = weight_N / upright / speed**2
        fill("thrust_coefficient_N_s2", k, f"lifts the weight at {figures.sources[HOVER_SPEED]}")
    k = float(value["thrust_coefficient_N_s2"])
    if not k > 0.0:
        raise InputError(f"{figures.where}: thrust_coefficient_N_s2: {k!r}; allowed: > 0")
    hover_radps = math.sqrt(weight_N / upright / k)
    gaps = [np.hypot(*(a - b)[:2]) for i, a in enumerate(hubs) for b in hubs[:i]]
    gap_m = min((gap for gap in gaps if gap > 1e-3), default=0.3)
    fill("rotor.radius_m", min(5.0, 0.4 * gap_m), "0.4 of the distance to the next rotor")
    radius_m = float(value["rotor.radius_m"])
    induced_mps = math.sqrt(weight_N / len(hubs) / (2.0 * 1.225 * math.pi * radius_m**2))
    ratio_m = induced_mps / (MERIT * hover_radps)
    fill("torque_ratio_m", ratio_m, f"a figure of merit of {MERIT}, in hover")
    fill("rotor_speed_max_radps", math.sqrt(2.0) * hover_radps, "lifts twice the weight")
    if not value.get("rotor_speed_min_radps"):
        value.pop("rotor_speed_min_radps", None)
        fill("rotor_speed_min_radps", 0.1 * value["rotor_speed_max_radps"], "a tenth of the most")
    for key in ("time_constant_up_s", "time_constant_down_s"):
        fill(key, 0.05, "a motor of this class")
        if value[key] < QUICKEST_S:
            figures.notes.append(f"{key}: {value[key]:g} s is taken as {QUICKEST_S:g} s")
            figures.put(key, QUICKEST_S, "ours: the quickest that is simulated")
    reach = 0.7 * np.abs(hubs[:, :2]).max(axis=0)
    x, y = (float(part) for part in reach)
    z = -0.5 * float(np.hypot(x, y))
    feet = [[x, y, z], [-x, y, z], [-x, -y, z], [x, -y, z]]
    fill("contact.points_B_m", feet, "0.7 of the rotors' reach, and half of that down")
    if "contact.sag_m" not in value and weight_N < 1.0:
        fill("contact.sag_m", 0.001, "a light vehicle")
    shaft_W = weight_N * float(value["torque_ratio_m"]) * hover_radps
    if not any(key.startswith("battery.") for key in value):
        charge = min(1000.0, shaft_W / 0.6 * HOVER_S / 3600.0 / VOLTAGE_V)
        fill("battery.capacity_Ah", charge, f"{HOVER_S / 60:g} min of hover")
        fill("battery.voltage_V", VOLTAGE_V, "four cells")
    if not any(key in value for key in ("drag_area_m2", "body_drag_N_s_m")):
        figures.notes.append("drag_area_m2: none in the file, so that the body has no drag")


def _ask(figures: Figures, key: str) -> None:
    raise InputError(
        f"{figures.where}: it does not tell {key}: give --set {key}=..., or --fill FILE with a"
        " file that does"
    )


def _make_possible(figures: Figures) -> None:
    """Lower a largest moment of inertia that no body has to the sum of the others."""
    moments = [float(moment) for moment in figures.values["inertia_kg_m2"]]
    products = figures.values.get("inertia_products_kg_m2", (0.0, 0.0, 0.0))
    tensor = np.diag(moments)
    tensor[[0, 0, 1], [1, 2, 2]] = tensor[[1, 2, 2], [0, 0, 1]] = products
    turn = np.eye(3)
    if any(products):
        principal, turn = np.linalg.eigh(tensor)
        moments = principal.tolist()
    large = max(moments)
    rest = sum(moments) - large
    if large > rest > 0.0:
        figures.notes.append(
            f"inertia_kg_m2: no body has it ({large:.6g} > {rest:.6g}, the sum of the others);"
            f" {rest:.6g} is taken"
        )
        lowered = [rest * (1.0 - 1e-9) if moment == large else moment for moment in moments]
        tensor = turn @ np.diag(lowered) @ turn.T
        figures.values["inertia_kg_m2"] = lowered if not any(products) else np.diag(tensor).tolist()
        figures.sources["inertia_kg_m2"] = "lowered to what a body can have"
        if any(products):
            figures.values["inertia_products_kg_m2"] = tensor[[0, 0, 1], [1, 2, 2]].tolist()


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(rounded(value, WRITTEN))


def import_vehicle(
    path: Path, fill: Sequence[str] = (), changes: Mapping[str, Any] | None = None
) -> tuple[str, Figures]:
    """Text of a vehicle file with the figures of another program's file.

    Args:
        path: the file: SDF, URDF, PX4's airframe or parameters, RotorPy, Agilicious, Flightmare,
            hector_quadrotor.
        fill: files, or vehicles of ``config/vehicles``, that tell what it does not.

    Returns:
        The text, and the figures with their notes; the last gives the result.

    Raises:
        InputError: a file that cannot be read; what is missing that no rule can tell; a vehicle
            that cannot be.
    """
    others = [Path(name) if Path(name).is_file() else find("vehicles", name) for name in fill]
    figures = merge([read_figures(path), *map(read_figures, others)])
    for key, value in (changes or {}).items():
        figures.put(key, value, "--set")
    figures.values.setdefault("name", f"{path.stem}, from {path.name}")
    complete(figures)
    order = [*VehicleParams.__dataclass_fields__]
    keys = sorted(figures.values, key=lambda key: order.index(key.split(".")[0])
                  if key.split(".")[0] in order else len(order))  # fmt: skip
    content: dict[str, Any] = {}
    placed = {key: rounded(figures.values[key], WRITTEN) for key in keys}
    if "rotor_layout" in placed:
        for key in ("rotor_positions_B_m", "rotor_directions"):
            placed.pop(key)
    set_keys(content, placed, VehicleParams, str(path))
    head = [
        f"# {note}" for note in (f"Made by quadsim vehicle import {path.name}.", *figures.notes)
    ]
    comments = {key: " ".join(source.split()) for key, source in figures.sources.items()}
    text = "\n".join([*head, *parameter_lines(content, comments)]) + "\n"
    vehicle = from_mapping(VehicleParams, read_yaml_text(text, str(path)), str(path))
    figures.notes.append(
        f"{len(vehicle.rotor_directions)} rotors, {vehicle.mass_kg:.6g} kg, hover at"
        f" {hover_speed_radps(vehicle):.6g} rad/s"
    )
    return text, figures


def suite_text(mounts: Sequence[Mount], name: str) -> str:
    """A suite with the devices of the default one at the places of a file's sensors.

    Args:
        mounts: of the file; the first of a kind counts.
    """
    content = dict(read_yaml(find("sensors/suites", SUITE)))
    for kind in PLACED:
        mount = next((each for each in mounts if each.kind == kind), None)
        if mount is not None:
            place = rounded(list(mount.position_B_m), WRITTEN)
            content[kind] = {"device": content[kind], "position_B_m": place}
    head = f"# Places of the sensors of {name}; devices of the suite {SUITE}."
    return "\n".join([head, *parameter_lines(content)]) + "\n"
