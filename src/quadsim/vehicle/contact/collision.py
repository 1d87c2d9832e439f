"""Collisions of two vehicles: the points of each against the body of the other.

The body is the upright cylinder, in its own axes, around all of a vehicle's points, and a share of
its radius taller at either end (ours), so that rotors of equal height meet with their rims. A point
inside it is pushed out along the normal of the nearest face, with the spring and damper of the
hull, and pushes back with the opposite force at the same place, so that linear and angular momentum
are kept. There is no friction.

Forces are held over a step, so they are those of its middle: a spring held from its beginning
would gain energy with each step, by a factor 1 + (w dt)^2 / 2.
"""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Mat3, apply, apply_inverse
from quadsim.geometry.vector import add, cross, dot, norm, scale, subtract
from quadsim.vehicle.contact.points import (
    NO_CRASH,
    VEHICLES_STRUCK,
    count_points,
    point_B,
)
from quadsim.vehicle.formalisms.formalisms import attitude_matrix, body_rates
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import P, V, Vehicle, three
from quadsim.world.scene.distance_shapes import cylinder_distance


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
