"""A slung load apart from its rope: a point mass with drag, which the ground carries.

Where it touches something, that surface is taken as a plane over the step. A spring and a damper
push it out, with the sag and damping ratio of the vehicle's feet; Coulomb friction holds it at an
anchor by a spring of the same stiffness until the limit, beyond which the anchor is dragged along.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import add, dot, norm, scale, subtract, vec3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import LOAD_P, LOAD_V, Load, Vehicle, three
from quadsim.world.air.atmosphere import STANDARD_GRAVITY_MPS2, air_density
from quadsim.world.earth.gravity import gravity_at
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.distance import surface_distance
from quadsim.world.scene.scene import Scene

#: Surfaces are looked for within this distance of the load.
REACH_M = 1.0


@kernel
def load_stiffness(params: VehicleParams) -> tuple[float, float]:
    """Spring in N/m and damper in N s/m between load and ground."""
    mass = params.load.mass_kg
    stiffness = mass * STANDARD_GRAVITY_MPS2 / params.contact.sag_m
    return stiffness, 2.0 * params.contact.damping_ratio * math.sqrt(stiffness * mass)


@kernel
def along_surface(a: Vec3, normal: Vec3) -> Vec3:
    """The part of a vector that lies in a plane."""
    return subtract(a, scale(dot(a, normal), normal))


@kernel
def surface_force_W(p_W: Vec3, v_W: Vec3, load: Load, params: VehicleParams) -> tuple[Vec3, Vec3]:
    """Normal force and friction on the load in N."""
    normal = vec3(load.normal_W)
    depth = load.offset_m - dot(normal, p_W)
    if depth <= 0.0:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    stiffness, damping = load_stiffness(params)
    push = max(0.0, stiffness * depth - damping * dot(normal, v_W))
    grip = scale(-damping, along_surface(v_W, normal))
    if load.touches != 0:
        stretch = along_surface(subtract(p_W, vec3(load.anchor_W_m)), normal)
        grip = subtract(grip, scale(stiffness, stretch))
    wanted, limit = norm(grip), params.contact.friction * push
    if wanted > limit:
        grip = scale(limit / wanted, grip)
    return scale(push, normal), grip


@kernel
def load_acceleration_W(
    x: Array, vehicle: Vehicle, params: VehicleParams, environment: EnvironmentParams
) -> Vec3:
    """Acceleration of the load without its rope: gravity, drag in the vehicle's wind, ground."""
    load = vehicle.suspension.load
    p_W, v_W = three(x, LOAD_P), three(x, LOAD_V)
    air_W = subtract(v_W, vec3(vehicle.held.wind_W_mps))
    drag = -0.5 * load.air_density_kg_m3 * params.load.drag_area_m2 * norm(air_W)
    push, grip = surface_force_W(p_W, v_W, load, params)
    force = add(scale(drag, air_W), add(push, grip))
    a_W = scale(1.0 / params.load.mass_kg, force)
    return (a_W[0], a_W[1], a_W[2] - gravity_at(environment, p_W[2]))


@kernel
def is_in_the_clear(vehicle: Vehicle) -> bool:
    """Whether the load is still where no surface is: within the sphere found free around it.

    The plane of the nearest surface touches that sphere, so that inside it the plane is not met.
    """
    load = vehicle.suspension.load
    return bool(norm(subtract(three(vehicle.x, LOAD_P), vec3(load.looked_W_m))) < load.clear_m)


@kernel
def settle_load(
    vehicle: Vehicle, params: VehicleParams, environment: EnvironmentParams, scene: Scene
) -> None:
    """After a step: the surface near the load, its friction's anchor, and the air."""
    load, x = vehicle.suspension.load, vehicle.x
    p_W, v_W = three(x, LOAD_P), three(x, LOAD_V)
    load.air_density_kg_m3 = air_density(environment, p_W[2])
    height, normal = surface_distance(scene, environment.ground_height_m, p_W, REACH_M)
    load.offset_m = dot(normal, p_W) - height
    load.clear_m = min(height, REACH_M)
    for i in range(3):
        load.normal_W[i], load.looked_W_m[i] = normal[i], p_W[i]
    if height >= 0.0:
        load.touches = 0
        return
    anchor = p_W
    if load.touches != 0:
        stiffness, damping = load_stiffness(params)
        push, _ = surface_force_W(p_W, v_W, load, params)
        anchor = vec3(load.anchor_W_m)
        stretch = along_surface(subtract(p_W, anchor), normal)
        grip = add(scale(stiffness, stretch), scale(damping, along_surface(v_W, normal)))
        limit = params.contact.friction * norm(push)
        if norm(grip) > limit:
            longest, length = limit / stiffness, norm(stretch)
            if length > longest:
                anchor = subtract(p_W, scale(longest / length, stretch))
    load.touches = 1
    for i in range(3):
        load.anchor_W_m[i] = anchor[i]
