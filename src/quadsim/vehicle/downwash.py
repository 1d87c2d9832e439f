"""Downwash: the air that one vehicle's rotors blow on another below."""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel
from quadsim.geometry.rotation import Mat3
from quadsim.parameters import Vec3


@kernel
def downwash_W(
    p_W: Vec3, p_above_W: Vec3, R_above_WB: Mat3, thrust_N: float, density_kg_m3: float, params: Any
) -> Vec3:
    """Velocity in m/s (world axes) that a vehicle's wake adds to the air at a point.

    Args:
        p_W: the point.
        p_above_W: centre of mass of the vehicle that blows.
        R_above_WB: its attitude.
        thrust_N: sum of its rotors' thrusts.
        density_kg_m3: of the air.
        params: its packed VehicleParams.
    """
    return (0.0, 0.0, 0.0)
