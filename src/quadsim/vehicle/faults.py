"""Why a vehicle's motion could not go on, in words."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.vehicle.multirotor import FAULTS, GIMBAL_LOCK
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import ROTOR, P, Q, V, W


def _numbers(values: NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


def stiffness(vehicle: np.record, params: VehicleParams) -> dict[str, float]:
    """How fast each part of the model moves in its last finite state, in 1/s.

    A step of an explicit method that is longer than about two to three of their inverses lets the
    motion grow without bound (Hairer and Wanner, *Solving ODEs II*, IV.2).
    """
    mass_kg = float(vehicle.held.mass_kg)
    x = vehicle.last_x
    speed_mps = float(np.linalg.norm(x[V : V + 3]))
    rotor_radps = float(np.abs(x[ROTOR : ROTOR + len(params.rotor_directions)]).max(initial=0.0))
    least_inertia = min(params.inertia_kg_m2)
    arm_m = max((math.hypot(*hub) for hub in params.rotor_positions_B_m), default=0.0)
    rotor_drag = params.rotor_drag_N_s2 * rotor_radps * len(params.rotor_directions)
    drag = max(params.body_drag_N_s_m) + 1.2 * max(params.drag_area_m2) * speed_mps + rotor_drag
    reach_m = max((math.hypot(*foot) for foot in params.contact.points_B_m), default=0.0)
    spring = mass_kg * 9.80665 / params.contact.sag_m
    return {
        "drag": max(drag / mass_kg, rotor_drag * arm_m**2 / least_inertia),
        "contact": max(math.sqrt(spring / mass_kg), reach_m * math.sqrt(spring / least_inertia)),
        "motors": 1.0 / min(params.time_constant_up_s, params.time_constant_down_s),
        "rotation": float(np.linalg.norm(x[W : W + 3])),
    }


def fault_words(
    vehicle: np.record, params: VehicleParams, physics: PhysicsParams, name: str = ""
) -> str:
    """One line: what happened, when, in which state, and what is the likely cause.

    Args:
        vehicle: VEHICLE record with a fault.
        params: its parameters.
        physics: how it was integrated.
        name: of the vehicle, where there are several.
    """
    x = vehicle.last_x
    where = f" of {name}" if name else ""
    at = (
        f"{FAULTS[int(vehicle.fault)]}{where} at t = {int(vehicle.fault_ns) * 1e-9:.3f} s, from"
        f" p = {_numbers(x[P : P + 3])} m, v = {_numbers(x[V : V + 3])} m/s,"
        f" w = {_numbers(x[W : W + 3])} rad/s"
    )
    if vehicle.fault == GIMBAL_LOCK:
        angles = np.degrees(x[Q : Q + 3])
        return (
            f"{at}, roll, pitch, yaw = {_numbers(angles)} deg: Euler angles have no rates there;"
            " use physics.formalism quaternion, constraint or matrix"
        )
    rates = stiffness(vehicle, params)
    cause = max(rates, key=lambda part: rates[part])
    forced = float(np.abs(vehicle.inputs.external_force_W_N).max(initial=0.0))
    if forced > 1e3 * vehicle.held.mass_kg * 9.80665:
        return f"{at}: the likely cause is external_wrench, {forced:.3g} N"
    return (
        f"{at}: the likely cause is its {cause}, which moves within {1.0 / rates[cause]:.2g} s at"
        f" a step of {physics.step_s:g} s; use a smaller physics.step_s"
    )
