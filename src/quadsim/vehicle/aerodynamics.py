"""Drag of the airframe."""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel
from quadsim.parameters import Vec3


@kernel
def body_drag(air_B: Vec3, vehicle: Any, params: Any) -> Vec3:
    """Force of the air on the airframe, body axes, in N: linear in the air speed.

    Args:
        air_B: velocity of the centre of mass through the air in m/s.
        vehicle: VEHICLE record, for the air's density.
        params: packed VehicleParams.
    """
    ratio = vehicle.held.density_ratio
    drag = params.body_drag_N_s_m
    return (
        -ratio * drag[0] * air_B[0],
        -ratio * drag[1] * air_B[1],
        -ratio * drag[2] * air_B[2],
    )
