"""The points by which a vehicle touches things, and the spring and damper behind each."""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import norm, vec3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import SURFACES, Feet

#: Kinds of surfaces.
GROUND, OBSTACLE = range(SURFACES)

#: What a point has to do with a surface.
FAR, NEAR, TOUCHING = range(3)

#: How a vehicle crashed, in words; 0 is not at all.
CRASHES = (
    "",
    "a foot hit too hard",
    "the hull struck the ground or an obstacle",
    "it lies on its side or on its back",
    "it struck another vehicle",
)
NO_CRASH, HARD_LANDING, HULL_STRUCK, TIPPED_OVER, VEHICLES_STRUCK = range(5)

#: Gravity behind a sag under the weight, whatever gravity the world has.
WEIGHT_MPS2 = 9.80665

#: By how much of its radius a vehicle's body is taller, at either end, than where its points are.
BODY_MARGIN = 0.15


@kernel
def count_points(params: VehicleParams) -> int:
    """How many points can touch: feet, then hull."""
    return int(params.contact.points_B_m_count + params.contact.hull_B_m_count)


@kernel
def point_B(params: VehicleParams, i: int) -> Vec3:
    """One of the points in body axes, m."""
    feet = params.contact.points_B_m_count
    if i < feet:
        return vec3(params.contact.points_B_m[i])
    return vec3(params.contact.hull_B_m[i - feet])


@kernel
def is_foot(params: VehicleParams, i: int) -> bool:
    """Whether a point is one of the feet."""
    return bool(i < params.contact.points_B_m_count)


@kernel
def springs_of(feet: Feet, params: VehicleParams, i: int) -> tuple[float, float]:
    """Stiffness in N/m and damping in N s/m behind a point."""
    if is_foot(params, i):
        return feet.foot_N_m, feet.foot_Ns_m
    return feet.hull_N_m, feet.hull_Ns_m


@kernel
def prepare(feet: Feet, params: VehicleParams) -> None:
    """Write what follows from the parameters alone.

    n feet carry the weight with the sag: k = m g / (n sag), c = 2 zeta sqrt(k m / n), the damping
    ratio of the vertical motion. A point of the hull carries it alone: k = m g / sag, and is
    damped with the mass that it feels at the end of the longest arm about the weakest axis,
    1 / (1/m + r^2/J), as a damper for the whole mass is too stiff for the step.
    """
    contact = params.contact
    low, high, radius, reach = math.inf, -math.inf, 0.0, 0.0
    for i in range(count_points(params)):
        r = point_B(params, i)
        reach = max(reach, norm(r))
        radius = max(radius, math.sqrt(r[0] * r[0] + r[1] * r[1]))
        low, high = min(low, r[2]), max(high, r[2])
    if reach == 0.0:
        return
    weight = params.mass_kg * WEIGHT_MPS2
    share = max(contact.points_B_m_count, 1)
    feet.foot_N_m = weight / (share * contact.sag_m)
    feet.foot_Ns_m = 2.0 * contact.damping_ratio * math.sqrt(feet.foot_N_m * params.mass_kg / share)
    inertia = min(params.inertia_kg_m2[0], params.inertia_kg_m2[1], params.inertia_kg_m2[2])
    felt = 1.0 / (1.0 / params.mass_kg + reach * reach / inertia)
    feet.hull_N_m = weight / contact.hull_sag_m
    feet.hull_Ns_m = 2.0 * contact.damping_ratio * math.sqrt(feet.hull_N_m * felt)
    feet.body_radius_m = radius
    feet.body_middle_m = 0.5 * (low + high)
    feet.body_half_m = 0.5 * (high - low) + BODY_MARGIN * radius
    feet.reach_m = reach
