"""What was identified, as a vehicle file and as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from quadsim.base.parameters import from_mapping
from quadsim.lab.identify.equations import CHANNELS, PLACES
from quadsim.lab.identify.figures import MEANING, VehicleFigure, with_figures
from quadsim.lab.identify.identification import IdentifiedVehicle
from quadsim.lab.parameter_text import parameter_lines, rounded
from quadsim.vehicle.parameters import VehicleParams

#: Keys of a file and the figures that they come from.
KEYS = {
    "inertia_kg_m2": ("turn_x", "turn_y", "turn_z"),
    "thrust_coefficient_N_s2": ("thrust",),
    "rotor_drag_N_s2": ("rotor_drag",),
    "rolling_moment_N_s2": ("rolling_moment",),
    "body_drag_N_s_m": ("body_drag_x", "body_drag_y", "body_drag_z"),
    "drag_area_m2": ("drag_area_x", "drag_area_y", "drag_area_z"),
    "time_constant_up_s": ("time_constant_up",),
    "time_constant_down_s": ("time_constant_down",),
    "rotor.inflow_N_s2": ("inflow",),
    "rotor.translational_lift_N_s2_m2": ("translational_lift",),
    "rotor.inertia_kg_m2": ("rotor_inertia",),
}


def _words(figure: VehicleFigure) -> str:
    """Where a figure comes from."""
    if figure.origin == "kept":
        return "kept, the flight does not tell"
    half = 0.5 * (figure.high - figure.low)
    if figure.taken == 0.0:
        return "none seen"
    return f"+-{100.0 * half / abs(figure.value):.2g} %"


def _comment(figures: Mapping[str, VehicleFigure], names: tuple[str, ...]) -> str:
    words = [_words(figures[name]) for name in names if name in figures]
    return ", ".join(words[:1] if len(set(words)) == 1 else words)


def _content(identified: IdentifiedVehicle, raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The mapping of the new file: that of the old one with what was found."""
    vehicles = (with_figures(identified.vehicle, identified.figures, name), identified.vehicle)
    content: dict[str, Any] = {**raw, "name": name}
    rotor = dict(content.get("rotor", {}))
    for key in (*KEYS, "torque_ratio_m"):
        part, name = ("rotor", key[6:]) if key.startswith("rotor.") else ("", key)
        keys = rotor if part else content
        value, before = (getattr(getattr(v, part) if part else v, name) for v in vehicles)
        if name in keys or np.any(value):
            same = value == before and name in keys and not part
            keys[name] = raw[name] if same else rounded(value)
    return {**content, "rotor": rotor} if rotor else content


def vehicle_text(identified: IdentifiedVehicle, raw: Mapping[str, Any], vehicle_name: str) -> str:
    """The text of a vehicle file.

    Args:
        identified: what was found.
        raw: the mapping of the file whose figures are kept where the flight does not tell.
        vehicle_name: of that file.

    Raises:
        InputError: what was found is no vehicle.
    """
    source = " ".join(identified.data.source.split())
    name = f"identified from {source}; the rest of {vehicle_name}"
    content = _content(identified, raw, name)
    from_mapping(VehicleParams, content, source)
    lines = [
        f"# Estimated from {source}: {identified.flown_s:.4g} s of free flight.",
        "# Behind each figure of the flight: half of its 95 % interval. What has no such words is",
        f"# of {vehicle_name}: a flight tells figures over the mass, and the drag torque over the",
        "# inertia about z.",
    ]
    comments = {key: _comment(identified.figures, names) for key, names in KEYS.items()}
    return "\n".join([*lines, *parameter_lines(content, comments)]) + "\n"


def vehicle_summary(identified: IdentifiedVehicle) -> dict[str, Any]:
    """As one JSON object."""
    theta, motors = identified.solution.value, identified.motors.solution
    left, signal = identified.solution.noise, identified.equations.signal
    return {
        "source": identified.data.source,
        "vehicle": identified.vehicle.name,
        "passed": identified.passed,
        "flown_s": identified.flown_s,
        "odometry": "measured" if identified.data.exact else "estimated",
        "figures": [
            {**asdict(identified.figures[name]), "meaning": meaning, "unit": unit}
            for name, (meaning, unit) in MEANING.items()
            if name in identified.figures
        ],
        "unexplained": [
            {"name": name, "axis": axis, "unit": unit, "rms": float(rms), "of": float(of)}
            for (name, axis, unit), rms, of in zip(CHANNELS, left, signal, strict=False)
        ],
        "beside": {
            "command_delay_s": None if motors is None else float(motors.value[2]),
            "imu_delay_s": identified.late_s[0],
            "odometry_delay_s": identified.late_s[1],
            "imu_position_B_m": theta[PLACES["lever"]].tolist(),
            "imu_turned_deg": identified.grid.mount_deg,
            "accel_bias_mps2": theta[PLACES["accel_bias"]].tolist(),
            "thrust_centre_B_m": theta[PLACES["centre"]][:2].tolist(),
            "air_density_kg_m3": identified.data.air_density_kg_m3 or None,
            "wind_W_mps": None
            if identified.grid.wind_W is not None
            else theta[PLACES["wind"]].tolist(),
        },
        "notes": list(identified.data.notes),
    }
