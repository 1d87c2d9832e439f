"""Contact of a vehicle's points with ground, obstacles and other vehicles.

Each point that is a depth d inside a surface is pushed out along its normal n by a spring and a
damper, N = max(0, k d - c n.v): the surface never pulls. Friction is a spring and damper between
the point and an anchor on the surface, cut to mu N: below that limit the point sticks without
creeping, at the limit it slides and drags the anchor along (P. A. Cundall and O. D. L. Strack,
*A discrete numerical model for granular assemblies*, Geotechnique 29, 1979).

Surfaces are looked for once after each step (:func:`update_contacts`); over a step each is its
tangent plane, so that the derivative costs a few products for what is near, and nothing for what is
not.

Two vehicles collide by the points of each against the body of the other. The body is the upright
cylinder, in its own axes, around all of a vehicle's points, and a share of its radius taller at
either end (ours), so that rotors of equal height meet with their rims. A point inside it is pushed
out along the normal of the nearest face, with the spring and damper of the hull, and pushes back
with the opposite force at the same place, so that linear and angular momentum are kept. There is no
friction.

Forces are held over a step, so they are those of its middle: a spring held from its beginning
would gain energy with each step, by a factor 1 + (w dt)^2 / 2.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.elementary import cos
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Mat3, apply, apply_inverse
from quadsim.geometry.vector import add, cross, dot, norm, scale, subtract, vec3
from quadsim.vehicle.contact.points import (
    CRASHES,
    FAR,
    GROUND,
    HARD_LANDING,
    HULL_STRUCK,
    NEAR,
    NO_CRASH,
    OBSTACLE,
    TIPPED_OVER,
    TOUCHING,
    VEHICLES_STRUCK,
    count_points,
    is_foot,
    point_B,
    prepare,
    springs_of,
)
from quadsim.vehicle.formalisms.formalisms import attitude_matrix, body_rates
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import SURFACES, Feet, P, V, Vehicle, W, three
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.distance import obstacle_distance, obstacles_beyond
from quadsim.world.scene.distance_ground import ground_distance, highest_ground
from quadsim.world.scene.distance_shapes import cylinder_distance
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import Scene

__all__ = ["CRASHES", "collide", "contact_wrench", "is_clear", "update_contacts"]

#: How far beyond what it flies in two steps a point looks for surfaces, in m.
MARGIN_M = 0.02

#: How far under the ground a point looks for the nearest way out; deeper, it is up.
WAY_OUT_M = 1.0

#: How far to look for obstacles before they are looked for again, in m.
HORIZON_M = 20.0

#: A surface whose normal has rotated by more than acos of this since the last step is the other
#: side of something thin, through which the point would leave.
OTHER_SIDE = -0.5


@kernel
def push(vehicle: Vehicle, R_WB: Mat3, arm_W: Vec3, force_W: Vec3) -> None:
    """Add a force that acts at an arm from the centre of mass."""
    torque_B = apply_inverse(R_WB, cross(arm_W, force_W))
    for axis in range(3):
        vehicle.inputs.neighbour_force_W_N[axis] += force_W[axis]
        vehicle.inputs.neighbour_torque_B_Nm[axis] += torque_B[axis]


@kernel
def collide_points(
    first: Vehicle, second: Vehicle, params: VehicleParams, physics: PhysicsParams
) -> None:
    """Forces of the first vehicle's points in the second one's body, on both."""
    half_s = 0.5 * physics.step_s
    feet = second.feet
    R_1 = attitude_matrix(first.x, first, physics.formalism)
    R_2 = attitude_matrix(second.x, second, physics.formalism)
    w_1, w_2 = body_rates(first.x, physics.formalism), body_rates(second.x, physics.formalism)
    v_1, v_2 = three(first.x, V), three(second.x, V)
    between = subtract(three(first.x, P), three(second.x, P))
    between = add(between, scale(half_s, subtract(v_1, v_2)))
    stiffness, damping = feet.hull_N_m, feet.hull_Ns_m
    for i in range(count_points(params)):
        r_B = point_B(params, i)
        swing = apply(R_1, cross(w_1, r_B))
        arm_1 = add(apply(R_1, r_B), scale(half_s, swing))
        arm_2 = add(between, arm_1)
        in_body = apply_inverse(R_2, arm_2)
        in_body = subtract(in_body, scale(half_s, cross(w_2, in_body)))
        in_body = (in_body[0], in_body[1], in_body[2] - feet.body_middle_m)
        distance, normal = cylinder_distance(in_body, feet.body_radius_m, feet.body_half_m)
        if distance >= 0.0:
            continue
        normal_W = apply(R_2, normal)
        speed_2 = add(v_2, cross(apply(R_2, w_2), arm_2))
        closing_mps = dot(normal_W, subtract(speed_2, add(v_1, swing)))
        if closing_mps > params.contact.hull_speed_mps:
            for vehicle in (first, second):
                if vehicle.crash == NO_CRASH:
                    vehicle.crash = VEHICLES_STRUCK
        force_W = scale(max(0.0, damping * closing_mps - stiffness * distance), normal_W)
        push(first, R_1, arm_1, force_W)
        push(second, R_2, arm_2, scale(-1.0, force_W))


@kernel
def collide(first: Vehicle, second: Vehicle, params: VehicleParams, physics: PhysicsParams) -> None:
    """Add the forces between two vehicles to their inputs; nothing out of each other's reach.

    Args:
        first: VEHICLE record; its ``feet`` have been prepared.
        second: VEHICLE record of the same kind of vehicle, prepared too.
        params: packed VehicleParams of both.
        physics: packed PhysicsParams.
    """
    between = subtract(three(first.x, P), three(second.x, P))
    apart = subtract(three(first.x, V), three(second.x, V))
    reach = first.feet.reach_m + second.feet.reach_m + physics.step_s * norm(apart)
    if first.feet.reach_m == 0.0 or dot(between, between) > reach * reach:
        return
    collide_points(first, second, params, physics)
    collide_points(second, first, params, physics)


@kernel
def force_at(
    feet: Feet, params: VehicleParams, slot: int, p_W: Vec3, v_W: Vec3
) -> tuple[float, Vec3]:
    """Normal force in N and whole force in W in N on a point at one surface."""
    normal = vec3(feet.normal_W[slot])
    depth = feet.offset_m[slot] - dot(normal, p_W)
    if depth <= 0.0:
        return 0.0, (0.0, 0.0, 0.0)
    stiffness, damping = springs_of(feet, params, slot // SURFACES)
    out_mps = dot(normal, v_W)
    push = max(0.0, stiffness * depth - damping * out_mps)
    slip = tangential(subtract(p_W, vec3(feet.anchor_W_m[slot])), normal)
    slide = subtract(v_W, scale(out_mps, normal))
    hold = add(scale(-stiffness, slip), scale(-damping, slide))
    size, limit = norm(hold), params.contact.friction * push
    if size > limit:
        hold = scale(limit / size, hold)
    return push, add(scale(push, normal), hold)


@kernel
def tangential(a_W: Vec3, normal_W: Vec3) -> Vec3:
    """Part of a vector in a plane."""
    return subtract(a_W, scale(dot(normal_W, a_W), normal_W))


@kernel
def contact_wrench(
    x: Array, R_WB: Mat3, v_W: Vec3, w_B: Vec3, feet: Feet, params: VehicleParams
) -> tuple[Vec3, Vec3]:
    """Force in W in N and torque in B in N m of all surfaces that are near.

    Args:
        x: (STATE_SIZE,) state, for the position.
        R_WB: attitude.
        v_W: velocity in m/s.
        w_B: body rates in rad/s.
        feet: the surfaces that are near.
        params: packed VehicleParams.
    """
    force, torque = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    if feet.near == 0:
        return force, torque
    p_W = three(x, P)
    for n in range(feet.near):
        slot = feet.slots[n]
        r_B = point_B(params, slot // SURFACES)
        speed_W = add(v_W, apply(R_WB, cross(w_B, r_B)))
        _, f_W = force_at(feet, params, slot, add(p_W, apply(R_WB, r_B)), speed_W)
        force = add(force, f_W)
        torque = add(torque, cross(r_B, apply_inverse(R_WB, f_W)))
    return force, torque


@kernel
def obstacles_within(feet: Feet, scene: Scene, p_W: Vec3, span_m: float) -> bool:
    """Whether an obstacle may be within a distance; what is free is remembered."""
    if scene.planes.shape[0] == 0 and scene.shapes.boxes.shape[0] == 0:
        feet.free_m = math.inf
        return False
    moved = norm(subtract(p_W, vec3(feet.free_at_W_m)))
    if moved + span_m < feet.free_m:
        return False
    feet.free_m = obstacles_beyond(scene, p_W, HORIZON_M)
    for axis in range(3):
        feet.free_at_W_m[axis] = p_W[axis]
    return bool(feet.free_m <= span_m)


@kernel
def strike(vehicle: Vehicle, params: VehicleParams, slot: int) -> None:
    """A point begins to touch: tell a crash from a landing."""
    feet = vehicle.feet
    speed = feet.approach_mps[slot]
    feet.impact_mps = speed
    if vehicle.crash != NO_CRASH:
        return
    if is_foot(params, slot // SURFACES):
        if speed > params.contact.crash_speed_mps:
            vehicle.crash = HARD_LANDING
    elif speed > params.contact.hull_speed_mps:
        vehicle.crash = HULL_STRUCK


@kernel
def keep(
    vehicle: Vehicle,
    params: VehicleParams,
    slot: int,
    p_W: Vec3,
    v_W: Vec3,
    surface: tuple[float, Vec3],
    reach_m: float,
) -> None:
    """Keep a surface for the next step: its plane, and the anchor of friction.

    Args:
        vehicle: VEHICLE record.
        params: packed VehicleParams.
        slot: which point and kind of surface.
        p_W: the point.
        v_W: its velocity.
        surface: signed distance in m and outward normal.
        reach_m: a surface beyond this distance is far.
    """
    feet = vehicle.feet
    distance, normal = surface
    before = feet.state[slot]
    if before != FAR:
        old = vec3(feet.normal_W[slot])
        old_distance = dot(old, p_W) - feet.offset_m[slot]
        if old_distance < 0.0 and dot(old, normal) < OTHER_SIDE:
            distance, normal = old_distance, old
    if not distance <= reach_m:
        feet.state[slot] = FAR
        return
    feet.offset_m[slot] = dot(normal, p_W) - distance
    for axis in range(3):
        feet.normal_W[slot, axis] = normal[axis]
    feet.slots[feet.near] = slot
    feet.near += 1
    if before != TOUCHING:
        if before == FAR or distance >= 0.0:
            # what counts is how fast a foot closes in, and how fast anything else is at all
            closing = max(0.0, -dot(normal, v_W))
            foot = is_foot(params, slot // SURFACES)
            feet.approach_mps[slot] = closing if foot else norm(v_W)
            for axis in range(3):
                feet.anchor_W_m[slot, axis] = p_W[axis]
        if distance < 0.0:
            strike(vehicle, params, slot)
    if distance >= 0.0:
        feet.state[slot] = NEAR
        return
    feet.state[slot] = TOUCHING
    drag_anchor(feet, params, slot, p_W, v_W)


@kernel
def drag_anchor(feet: Feet, params: VehicleParams, slot: int, p_W: Vec3, v_W: Vec3) -> None:
    """Let the anchor follow a point that slides, as far behind as friction can hold."""
    push, _ = force_at(feet, params, slot, p_W, v_W)
    stiffness, _ = springs_of(feet, params, slot // SURFACES)
    slip = tangential(subtract(p_W, vec3(feet.anchor_W_m[slot])), vec3(feet.normal_W[slot]))
    length, limit = norm(slip), params.contact.friction * push / stiffness
    behind = scale(limit / length, slip) if length > limit else slip
    for axis in range(3):
        feet.anchor_W_m[slot, axis] = p_W[axis] - behind[axis]


@inline
def reach_ahead_m(vehicle: Vehicle, dt_s: float) -> float:
    """Distance from the centre of mass within which a point may be two steps later."""
    x = vehicle.x[:]  # sums of components are never less than the length, and need no root
    speed = abs(x[V]) + abs(x[V + 1]) + abs(x[V + 2])
    speed += vehicle.feet.reach_m * (abs(x[W]) + abs(x[W + 1]) + abs(x[W + 2]))
    return float(vehicle.feet.reach_m + MARGIN_M + 2.0 * dt_s * speed)


@inline
def is_clear(vehicle: Vehicle, dt_s: float) -> bool:
    """Whether nothing can be near, by what was seen at the last look around."""
    feet = vehicle.feet
    if feet.near != 0:
        return False
    moved = subtract(three(vehicle.x[:], P), vec3(feet.clear_at_W_m))
    moved_m = abs(moved[0]) + abs(moved[1]) + abs(moved[2])
    return bool(moved_m + reach_ahead_m(vehicle, dt_s) < feet.clear_m)


@kernel
def look_around(vehicle: Vehicle, environment: EnvironmentParams, scene: Scene, p_W: Vec3) -> None:
    """Remember how far, at least, ground and obstacles are.

    Beside a slope the highest ground within as far as the ground below may be higher than the
    vehicle; that nearer by is lower.
    """
    feet = vehicle.feet
    ground_m = environment.ground_height_m
    below_m = p_W[2] - terrain_height(scene.terrain, ground_m, p_W[0], p_W[1])
    horizon_m = min(max(below_m, feet.reach_m), HORIZON_M)
    clear_m = -math.inf
    while horizon_m > max(clear_m, feet.reach_m):
        highest_m = highest_ground(scene.terrain, ground_m, p_W[0], p_W[1], horizon_m)
        clear_m = max(clear_m, min(horizon_m, p_W[2] - highest_m))
        horizon_m *= 0.5
    feet.clear_m = min(clear_m, feet.free_m - norm(subtract(p_W, vec3(feet.free_at_W_m))))
    for i in range(3):
        feet.clear_at_W_m[i] = p_W[i]


@kernel
def update_contacts(
    vehicle: Vehicle,
    R_WB: Mat3,
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    dt_s: float,
) -> None:
    """Once after each step: which surfaces are near, what touches, whether that is a crash.

    Args:
        vehicle: VEHICLE record. ``feet`` are written for the next step, ``contact`` counts the
            points that touch, ``crash`` becomes an index of :data:`CRASHES` and stays.
        R_WB: attitude.
        params: packed VehicleParams.
        environment: packed EnvironmentParams, for the flat ground.
        scene: terrain and obstacles.
        dt_s: length of the step.
    """
    feet = vehicle.feet
    if feet.reach_m == 0.0:
        prepare(feet, params)
        if feet.reach_m == 0.0:
            return
    x = vehicle.x[:]
    p_W, v_W, w_B = three(x, P), three(x, V), three(x, W)
    span = reach_ahead_m(vehicle, dt_s)
    ground_m = environment.ground_height_m
    highest_m = highest_ground(scene.terrain, ground_m, p_W[0], p_W[1], span)
    ground = p_W[2] - span <= highest_m
    obstacles = obstacles_within(feet, scene, p_W, span)
    if feet.near == 0 and not (ground or obstacles):
        look_around(vehicle, environment, scene, p_W)
        return
    for n in range(feet.near):  # what is not near again is far
        slot = feet.slots[n]
        if not (ground if slot % SURFACES == GROUND else obstacles):
            feet.state[slot] = FAR
    feet.near = 0
    if ground or obstacles:
        for i in range(count_points(params)):
            r_B = point_B(params, i)
            at_W = add(p_W, apply(R_WB, r_B))
            speed_W = add(v_W, apply(R_WB, cross(w_B, r_B)))
            look_m = MARGIN_M + 2.0 * dt_s * norm(speed_W)
            if ground and at_W[2] - look_m > highest_m:
                feet.state[SURFACES * i + GROUND] = FAR
            elif ground:
                find_ground(vehicle, params, environment, scene, i, at_W, speed_W, look_m)
            if obstacles:
                surface = obstacle_distance(scene, at_W, look_m)
                keep(vehicle, params, SURFACES * i + OBSTACLE, at_W, speed_W, surface, look_m)
    judge(vehicle, R_WB, params, dt_s)


@kernel
def find_ground(
    vehicle: Vehicle,
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    i: int,
    p_W: Vec3,
    v_W: Vec3,
    look_m: float,
) -> None:
    """Look for the ground at one point; from below for the nearest way out."""
    ground_m = environment.ground_height_m
    deep = p_W[2] < terrain_height(scene.terrain, ground_m, p_W[0], p_W[1])
    reach_m = WAY_OUT_M if deep else look_m
    surface = ground_distance(scene.terrain, ground_m, p_W, reach_m)
    keep(vehicle, params, SURFACES * i + GROUND, p_W, v_W, surface, look_m)


@kernel
def judge(vehicle: Vehicle, R_WB: Mat3, params: VehicleParams, dt_s: float) -> None:
    """Count what touches, and tell a vehicle that has tipped over."""
    feet = vehicle.feet
    vehicle.contact = 0
    for n in range(feet.near):
        if feet.state[feet.slots[n]] == TOUCHING:
            vehicle.contact += 1
    tilted = R_WB[2][2] < cos(math.radians(params.contact.crash_tilt_deg))
    if vehicle.contact == 0 or not tilted:
        feet.tilted_s = 0.0
        return
    feet.tilted_s += dt_s
    if feet.tilted_s > params.contact.crash_time_s and vehicle.crash == NO_CRASH:
        vehicle.crash = TIPPED_OVER
