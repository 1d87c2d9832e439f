"""Downwash: the wake that one vehicle blows on another below.

All rotors together push a jet of the momentum flux T/rho downwards along -z of the body, through
the area A of all discs. First it has the speed of the fully contracted wake, 2 v_i =
sqrt(2 T / (rho A)) (momentum theory), reached over about a radius; farther down it is a round
turbulent jet, whose speed on the axis falls as ``B sqrt(4 T / (pi rho)) / x`` with B = 6.06
(Panchapakesan and Lumley, J. Fluid Mech. 246, 1993; Pope, *Turbulent flows*, 2000, eq. 5.6), and
across as (1 + r^2/w^2)^-2 (Pope, eq. 5.82). The width w is what keeps the momentum,
``rho U^2 pi w^2 / 3 = T``; it spreads by 0.092 x to half the speed (measured: 0.096). That the wake
of a whole quadrotor is such a jet: Bauersfeld, Muller, Ziegler, Coletti, Scaramuzza, *Robotics
meets fluid dynamics*, RA-L 2024.

The air that the vehicle flies through carries its wake along; the time that this takes is that of
the air on the axis (ours).
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.compiled import kernel
from quadsim.geometry.rotation import Mat3
from quadsim.geometry.vector import add, dot, scale, subtract
from quadsim.parameters import Vec3

#: Decay constant B of the speed on the axis.
JET_DECAY = 6.06

#: The wake ends where the air on the axis is slower, in m/s, and this many widths from the axis.
SLOWEST_MPS, WIDTHS = 0.5, 4.0


@kernel
def axis_speed(depth_m: float, core_mps: float, decay_m2ps: float) -> float:
    """Speed in m/s of the air on the axis of a wake: constant in the core, then that of a jet."""
    return min(core_mps, decay_m2ps / depth_m)


@kernel
def travel_time(depth_m: float, core_mps: float, decay_m2ps: float) -> float:
    """Seconds that the air on the axis takes from the rotors down to a depth."""
    core_m = decay_m2ps / core_mps
    if depth_m <= core_m:
        return depth_m / core_mps
    return core_m / core_mps + 0.5 * (depth_m * depth_m - core_m * core_m) / decay_m2ps


@kernel
def downwash_W(
    p_W: Vec3,
    p_above_W: Vec3,
    R_above_WB: Mat3,
    thrust_N: float,
    density_kg_m3: float,
    params: Any,
    air_above_W: Vec3,
) -> Vec3:
    """Velocity in m/s (world axes) that a vehicle's wake adds to the air at a point.

    Args:
        p_W: the point.
        p_above_W: centre of mass of the vehicle that blows.
        R_above_WB: its attitude.
        thrust_N: sum of its rotors' thrusts.
        density_kg_m3: of the air.
        params: its packed VehicleParams.
        air_above_W: its velocity through the air.
    """
    still = (0.0, 0.0, 0.0)
    down_W = (-R_above_WB[0][2], -R_above_WB[1][2], -R_above_WB[2][2])
    offset_W = subtract(p_W, p_above_W)
    depth_m = dot(offset_W, down_W)
    if depth_m <= 0.0 or thrust_N <= 0.0:
        return still
    radius2 = params.rotor_directions_count * params.rotor.radius_m**2  # of the same area
    flux = thrust_N / (math.pi * density_kg_m3)
    core_mps, decay_m2ps = math.sqrt(2.0 * flux / radius2), JET_DECAY * math.sqrt(4.0 * flux)
    speed = axis_speed(depth_m, core_mps, decay_m2ps)
    if speed < SLOWEST_MPS:
        return still
    carried_s = travel_time(depth_m, core_mps, decay_m2ps)
    offset_W = add(offset_W, scale(carried_s, air_above_W))
    along_m = dot(offset_W, down_W)
    across2 = dot(offset_W, offset_W) - along_m * along_m
    width2 = 3.0 * flux / (speed * speed)
    if across2 > WIDTHS * WIDTHS * width2:
        return still
    begun = depth_m / math.sqrt(depth_m * depth_m + radius2)
    return scale(begun * speed / (1.0 + across2 / width2) ** 2, down_W)
