"""Drag of the airframe: F_i = -(D_i + rho/2 |v| (C_D A)_i) v_i, v the velocity through the air.

The linear part stands for what small vehicles lose at low speed, the quadratic one is parasitic
drag (as in Folk, Paulos, Kumar, *RotorPy*, 2023, eq. 5, there as c_D = rho/2 C_D A).
"""

from __future__ import annotations

import math

from quadsim.base.compiled import inline
from quadsim.base.parameters import Vec3
from quadsim.vehicle.parameters import VehicleParams

#: Density of the air where a vehicle's figures shall hold in any, in kg/m^3 (ISO 2533).
STANDARD_DENSITY_KG_M3 = 1.225


@inline
def reference_density(params: VehicleParams) -> float:
    """Density in kg/m^3 of the air in which the vehicle's figures hold."""
    density = params.air_density_kg_m3
    return float(density if density > 0.0 else STANDARD_DENSITY_KG_M3)


@inline
def body_drag(air_B: Vec3, density_ratio: float, params: VehicleParams) -> Vec3:
    """Force of the air on the airframe, body axes, in N.

    Args:
        air_B: velocity of the centre of mass through the air in m/s.
        density_ratio: of the air, over that at which the figures hold.
        params: packed VehicleParams.
    """
    drag, area = params.body_drag_N_s_m, params.drag_area_m2
    speed = math.sqrt(air_B[0] * air_B[0] + air_B[1] * air_B[1] + air_B[2] * air_B[2])
    pressure = 0.5 * reference_density(params) * speed
    return (
        -density_ratio * (drag[0] + pressure * area[0]) * air_B[0],
        -density_ratio * (drag[1] + pressure * area[1]) * air_B[1],
        -density_ratio * (drag[2] + pressure * area[2]) * air_B[2],
    )
