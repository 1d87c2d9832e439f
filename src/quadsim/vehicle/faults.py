"""Why a vehicle's motion could not go on, in words."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import FAULTS, GIMBAL_LOCK, P, Q, V, Vehicle, W

#: Faster than any vehicle here flies.
FASTEST_MPS = 100.0

#: Rate times step below which an explicit method does not grow.
STABLE = 1.0


def _numbers(values: NDArray[np.float64]) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


def _motor_s(params: VehicleParams) -> float:
    """Shortest time constant of the motors; 0 where there are none."""
    return min(params.time_constant_up_s, params.time_constant_down_s)


def stiffness(vehicle: Vehicle, params: VehicleParams) -> dict[str, float]:
    """How fast each part of the model moves at most in a motion of this vehicle, in 1/s.

    A step of an explicit method that is longer than about two to three of their inverses lets the
    motion grow without bound (Hairer and Wanner, *Solving ODEs II*, IV.2). What has grown tells
    nothing of where it began, so speeds count up to :data:`FASTEST_MPS`.
    """
    mass_kg = float(vehicle.held.mass_kg)
    speed_mps = min(math.hypot(*vehicle.last_x[V : V + 3]), FASTEST_MPS)
    rotor_radps = params.rotor_speed_max_radps
    least_inertia = min(params.inertia_kg_m2)
    arm_m = max((math.hypot(*hub) for hub in params.rotor_positions_B_m), default=0.0)
    rotor_drag = params.rotor_drag_N_s2 * rotor_radps * len(params.rotor_directions)
    drag = max(params.body_drag_N_s_m) + 1.2 * max(params.drag_area_m2) * speed_mps + rotor_drag
    reach_m = max((math.hypot(*foot) for foot in params.contact.points_B_m), default=0.0)
    spring = mass_kg * 9.80665 / params.contact.sag_m
    return {
        "drag": max(drag / mass_kg, rotor_drag * arm_m * arm_m / least_inertia),
        "contact": max(math.sqrt(spring / mass_kg), reach_m * math.sqrt(spring / least_inertia)),
        "motors": 1.0 / motor_s if (motor_s := _motor_s(params)) > 0.0 else 0.0,
    }


def fault_words(
    vehicle: Vehicle, params: VehicleParams, physics: PhysicsParams, name: str = ""
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
    if rates[cause] * physics.step_s < STABLE:
        return f"{at}: nothing in the vehicle's model is too fast for its step; look at its figures"
    return (
        f"{at}: the likely cause is its {cause}, which moves within {1.0 / rates[cause]:.2g} s at"
        f" a step of {physics.step_s:g} s; use a smaller physics.step_s"
    )
