"""What each figure of a multirotor brings along: its force model, linear in the figures.

A term is the wrench of the vehicle's own kernels (:func:`quadsim.lab.validate.kernels.wrenches`)
with a figure of one, less that without it. The disc's tilt (flapping) makes the same force as rotor
drag, k a / R more of it, of the thrust in hover; what inflow and forward flight change of it is
tilted as in the vehicle's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import plain
from quadsim.lab.validate.kernels import make_model, wrenches
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.rotors import hub_velocity

Array = NDArray[np.float64]
Figures = Mapping[str, float]

#: Figures that are zero in a term unless it sets them, by their keys in a vehicle's file.
_NONE: dict[str, float] = dict.fromkeys(
    (
        "thrust_coefficient_N_s2", "torque_ratio_m", "rotor_drag_N_s2", "rolling_moment_N_s2",
        "air_density_kg_m3", "rotor.inflow_N_s2", "rotor.inflow_model",
        "rotor.translational_lift_N_s2_m2", "rotor.hinge_stiffness_N_m", "rotor.hub_moment_N_s2",
        "rotor.inertia_kg_m2", "rotor.thrust_residual_count", "rotor.torque_residual_count",
        *(f"{key}.{i}" for key in ("body_drag_N_s_m", "drag_area_m2") for i in range(3)),
    ),
    0.0,
)  # fmt: skip

#: A rotor that gives thrust, which bounds the lift of forward flight; one whose disc stays level.
_LIFTS: dict[str, float] = {"thrust_coefficient_N_s2": 1.0}
_LEVEL: dict[str, float] = {"rotor.flapping_rad": 0.0}

#: Every term by the name of its figure: what it is made of, and what is taken off again.
TERMS: dict[str, tuple[Figures, Figures]] = {
    "thrust": (_LIFTS | _LEVEL, _LEVEL),
    "torque": (_LIFTS | _LEVEL | {"torque_ratio_m": 1.0}, _LIFTS | _LEVEL),
    "rotor_drag": ({"rotor_drag_N_s2": 1.0}, {}),
    "rolling_moment": ({"rolling_moment_N_s2": 1.0}, {}),
    "body_drag_x": ({"body_drag_N_s_m.0": 1.0}, {}),
    "body_drag_y": ({"body_drag_N_s_m.1": 1.0}, {}),
    "body_drag_z": ({"body_drag_N_s_m.2": 1.0}, {}),
    "inflow": (_LIFTS | {"rotor.inflow_N_s2": 1.0}, _LIFTS),
    "translational_lift": (_LIFTS | {"rotor.translational_lift_N_s2_m2": 1.0}, _LIFTS),
    "drag_area_x": ({"drag_area_m2.0": 1.0}, {}),
    "drag_area_y": ({"drag_area_m2.1": 1.0}, {}),
    "drag_area_z": ({"drag_area_m2.2": 1.0}, {}),
    "hub_moment": ({"rotor.hinge_stiffness_N_m": 1.0, "rotor.flapping_rad": 1.0}, {}),
    "rotor_inertia": ({"rotor.inertia_kg_m2": 1.0}, {}),
}


def _wrench(
    figures: Figures, speed_radps: Array, air_B: Array, w_B: Array, vehicle: VehicleParams
) -> Array:
    """(N, 6) force and torque of a vehicle of which only these figures are not zero."""
    model: Any = make_model(vehicle, 0.0)
    for key, value in (_NONE | dict(figures)).items():
        *path, last = key.split(".")
        group = model[1]
        for name in path:
            group = group[name]
        group[int(last) if last.isdigit() else last] = value
    out = np.zeros((len(speed_radps), 6))
    speed, air, rates = (np.ascontiguousarray(each) for each in (speed_radps, air_B, w_B))
    wrenches(model, speed, np.zeros_like(speed), air, rates, out)
    return out


def term_wrench(
    name: str, speed_radps: Array, air_B: Array, w_B: Array, vehicle: VehicleParams
) -> tuple[Array, Array]:
    """Force and torque, body axes, (N, 3) each, that a figure of one makes at N times.

    Args:
        name: of :data:`TERMS`; that of ``hub_moment`` is over the mass, as in a file's figures.
        speed_radps: (N, n) of the rotors.
        air_B: (N, 3) velocity through the air.
        w_B: (N, 3).
        vehicle: for the geometry of its rotors, and the tilt of their discs.
    """
    more, less = TERMS[name]
    signals = (speed_radps, air_B, w_B, vehicle)
    found = _wrench(more, *signals) - _wrench(less, *signals)
    if name == "hub_moment":
        found *= vehicle.rotor.radius_m
    return found[:, :3], found[:, 3:]


def hub_speed_up(air_B: Array, w_B: Array, vehicle: VehicleParams) -> Array:
    """(N, n) speed of the hubs through the air along body z."""
    hubs = np.array(vehicle.rotor_positions_B_m).T
    velocity: Any = plain(hub_velocity)
    return np.asarray(velocity(air_B.T[..., None], w_B.T[..., None], hubs)[2])
