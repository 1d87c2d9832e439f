"""A load slung under a vehicle and a tether to a fixed point: inelastic ropes on a rigid body.

Taut ropes (``vehicle.ropes.suspension_rows``) give their multipliers together, the tension
being -lambda >= 0. After each step the state is put back on the taut ropes, positions and then
velocities (U. M. Ascher, *Stabilization of invariants of discretized differential systems*, Numer.
Algorithms 14, 1997); a rope that has become taut takes the velocities by which its ends part, in
an inelastic impact.

The load is a point mass with drag, which the ground carries. Where it touches something, that
surface is taken as a plane over the step. A spring and a damper push it out, with the sag and
damping ratio of the vehicle's feet; Coulomb friction holds it at an anchor by a spring of the same
stiffness until the limit, beyond which the anchor is dragged along.
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.base.compiled import Array, argument, kernel
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3, pack
from quadsim.geometry.rotation import Mat3, Quat, apply, to_matrix
from quadsim.geometry.vector import add, cross, dot, norm, scale, subtract, vec3
from quadsim.vehicle.formalisms.quaternion_constraint import rate_of
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.ropes.constraints import AT_MOST, EQUAL
from quadsim.vehicle.ropes.suspension_rows import (
    aim,
    attachment_B,
    fill_mobility,
    has_load,
    has_ropes,
    leave_out,
    pulls,
    rope_length_m,
    solve,
    span_rate_W,
    span_W,
)
from quadsim.vehicle.state import (
    LOAD_P,
    LOAD_V,
    Q_DOT,
    ROPES,
    SLUNG,
    TETHER,
    Load,
    P,
    Q,
    RopeRows,
    V,
    Vehicle,
    W,
    three,
)
from quadsim.world.air.atmosphere import STANDARD_GRAVITY_MPS2, air_density
from quadsim.world.earth.gravity import gravity_at
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.distance import surface_distance
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import Scene

__all__ = ["catch", "check_ropes", "hang", "has_load", "has_ropes", "suspend"]

#: Most iterations by which positions are put back; each squares what is left.
_ITERATIONS = 3
#: A rope that is this little off its length is on it, in m.
_ON_THE_ROPE_M = 1e-13
#: How a rope that is slack is held.
_LOOSE = argument(0)

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
    return bool(norm(subtract(three(vehicle.x[:], LOAD_P), vec3(load.looked_W_m))) < load.clear_m)


@kernel
def settle_load(
    vehicle: Vehicle, params: VehicleParams, environment: EnvironmentParams, scene: Scene
) -> None:
    """After a step: the surface near the load, its friction's anchor, and the air."""
    load, x = vehicle.suspension.load, vehicle.x[:]
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


@kernel
def pull(
    x: Array,
    R_WB: Mat3,
    v_W: Vec3,
    w_B: Vec3,
    a_W: Vec3,
    w_dot_B: Vec3,
    load_W: Vec3,
    vehicle: Vehicle,
    params: VehicleParams,
    rows: RopeRows,
) -> tuple[Vec3, Vec3, Vec3]:
    """What taut ropes add to the acceleration, the angular acceleration and that of the load.

    Args:
        x, R_WB, v_W, w_B, a_W, w_dot_B, vehicle, params, rows: see :func:`suspend`.
        load_W: acceleration of the load without its rope in m/s^2.
    """
    ropes, mass_kg = vehicle.suspension, vehicle.held.mass_kg
    for rope in range(ROPES):
        if ropes.taut[rope] == 0:
            continue
        r_B, away_W = attachment_B(rope, params), span_W(rope, x, R_WB, params)
        rate_W = span_rate_W(rope, x, R_WB, v_W, w_B, params)
        distance = aim(rope, away_W, R_WB, rows, params)
        n_W = vec3(rows.normal_W[rope])
        turning_B = add(cross(w_dot_B, r_B), cross(w_B, cross(w_B, r_B)))
        relative_W = add(a_W, apply(R_WB, turning_B))
        if rope == SLUNG:
            relative_W = subtract(relative_W, load_W)
        radial = dot(n_W, rate_W)
        across = (dot(rate_W, rate_W) - radial * radial) / distance
        rows.sides[rope] = AT_MOST
        rows.residual[rope] = dot(n_W, relative_W) + across
    fill_mobility(rows, mass_kg, params, True)
    for rope in range(ROPES):
        if ropes.taut[rope] == 0:
            leave_out(rope, rows)
    solve(rows)
    for rope in range(ROPES):
        ropes.tension_N[rope] = -rows.multiplier[rope]
    return pulls(rows, mass_kg, params)


@kernel
def suspend(
    x: Array,
    R_WB: Mat3,
    v_W: Vec3,
    w_B: Vec3,
    a_W: Vec3,
    w_dot_B: Vec3,
    vehicle: Vehicle,
    params: VehicleParams,
    environment: EnvironmentParams,
    rows: RopeRows,
    x_dot: Array,
) -> tuple[Vec3, Vec3]:
    """What ropes make of the free accelerations; the load's derivative goes into ``x_dot``.

    It is for vehicles that :func:`has_ropes`.

    Args:
        x: (STATE_SIZE,) state, of which only a vehicle with a load needs the load's elements.
        R_WB: attitude.
        v_W: velocity in m/s.
        w_B: body rates in rad/s.
        a_W: acceleration without ropes, gravity included, in m/s^2.
        w_dot_B: angular acceleration without ropes in rad/s^2.
        vehicle: VEHICLE record; the tensions are left in ``vehicle.suspension``.
        params: packed VehicleParams.
        environment: packed EnvironmentParams.
        rows: working memory.
        x_dot: (STATE_SIZE,) of which the load's elements are written, if there is one.

    Returns:
        Acceleration in W in m/s^2, angular acceleration in B in rad/s^2.
    """
    ropes = vehicle.suspension
    load_W = (0.0, 0.0, 0.0)
    if has_load(params):
        load_W = load_acceleration_W(x, vehicle, params, environment)
    linear, turn = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    if ropes.taut[SLUNG] != 0 or ropes.taut[TETHER] != 0:
        linear, turn, load = pull(x, R_WB, v_W, w_B, a_W, w_dot_B, load_W, vehicle, params, rows)
        load_W = add(load_W, load)
    if has_load(params):
        for i in range(3):
            x_dot[LOAD_P + i] = x[LOAD_V + i]
            x_dot[LOAD_V + i] = load_W[i]
    return add(a_W, linear), add(w_dot_B, turn)


@kernel
def _put_back_positions(
    x: Array,
    R_WB: Mat3,
    vehicle: Vehicle,
    params: VehicleParams,
    rows: RopeRows,
    held: tuple[int, int],
) -> None:
    """Bring body and load onto the ropes that are ``held`` (0 no, 1 taut, 2 just struck).

    Both move along the ropes, as their masses have it: for a rope just struck that is where its
    impact would have brought them, had it come at its moment within the step. Another rope
    that is slack does not get too long by this.
    """
    ropes, mass_kg = vehicle.suspension, vehicle.held.mass_kg
    for _ in range(_ITERATIONS):
        worst = 0.0
        for rope in range(ROPES):
            length = rope_length_m(rope, params)
            if length == 0.0 or (rope == SLUNG and ropes.released != 0):
                continue
            off = aim(rope, span_W(rope, x, R_WB, params), R_WB, rows, params) - length
            rows.residual[rope] = off
            rows.sides[rope] = EQUAL if held[rope] == 1 else AT_MOST
            if held[rope] != 0 or off > 0.0:
                worst = max(worst, abs(off))
        if worst < _ON_THE_ROPE_M:
            return
        fill_mobility(rows, mass_kg, params, False)
        for rope in range(ROPES):
            if rope_length_m(rope, params) == 0.0 or (rope == SLUNG and ropes.released != 0):
                leave_out(rope, rows)
        solve(rows)
        body, _, load = pulls(rows, mass_kg, params)
        for i in range(3):
            x[P + i] += body[i]
            if has_load(params):
                x[LOAD_P + i] += load[i]


@kernel
def _put_back_velocities(
    x: Array,
    R_WB: Mat3,
    vehicle: Vehicle,
    params: VehicleParams,
    rows: RopeRows,
    held: tuple[int, int],
) -> None:
    """Take the velocities along the held ropes; where one was struck, ropes may also let go."""
    ropes, mass_kg = vehicle.suspension, vehicle.held.mass_kg
    side = AT_MOST if max(held[SLUNG], held[TETHER]) == 2 else EQUAL
    for rope in range(ROPES):
        if held[rope] != 0:
            rate_W = span_rate_W(rope, x, R_WB, three(x, V), three(x, W), params)
            aim(rope, span_W(rope, x, R_WB, params), R_WB, rows, params)
            rows.residual[rope] = dot(vec3(rows.normal_W[rope]), rate_W)
            rows.sides[rope] = side
    fill_mobility(rows, mass_kg, params, True)
    for rope in range(ROPES):
        if held[rope] == 0:
            leave_out(rope, rows)
    solve(rows)
    for rope in range(ROPES):
        if held[rope] != 0 and side == AT_MOST:
            ropes.taut[rope] = 1 if rows.multiplier[rope] < 0.0 else 0
    body, turn, load = pulls(rows, mass_kg, params)
    # the formalism `constraint` keeps the quaternion's rate; no other looks at it
    q_dot = rate_of((x[Q], x[Q + 1], x[Q + 2], x[Q + 3]), turn)
    for i in range(4):
        x[Q_DOT + i] += q_dot[i]
    for i in range(3):
        x[V + i] += body[i]
        x[W + i] += turn[i]
        if held[SLUNG] != 0:
            x[LOAD_V + i] += load[i]


@kernel
def catch(
    vehicle: Vehicle,
    R_WB: Mat3,
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    rows: RopeRows,
) -> None:
    """After each step: ropes that went slack or taut, and the state back onto the taut ones.

    It is for vehicles that :func:`has_ropes`.

    Args:
        vehicle: VEHICLE record; positions, velocities and body rates change by what the
            integration was off, and velocities by the impact of a rope that has become taut.
        R_WB: attitude.
        params: packed VehicleParams.
        environment: packed EnvironmentParams.
        scene: terrain and obstacles, on which a load can lie.
        rows: working memory.
    """
    ropes, x = vehicle.suspension, vehicle.x[:]
    slung, tether = _LOOSE, _LOOSE
    for rope in range(ROPES):
        length = rope_length_m(rope, params)
        if length == 0.0 or (rope == SLUNG and ropes.released != 0):
            continue
        how = 0
        if ropes.taut[rope] != 0 and ropes.tension_N[rope] > 0.0:
            how = 1
        else:
            ropes.taut[rope], ropes.tension_N[rope] = 0, 0.0
            if norm(span_W(rope, x, R_WB, params)) >= length:
                how = 2
        if rope == SLUNG:
            slung = how
        else:
            tether = how
    held = (slung, tether)
    if slung != 0 or tether != 0:
        _put_back_positions(x, R_WB, vehicle, params, rows, held)
        _put_back_velocities(x, R_WB, vehicle, params, rows, held)
    if has_load(params) and not is_in_the_clear(vehicle):
        settle_load(vehicle, params, environment, scene)


def check_ropes(params: VehicleParams, extent_m: float) -> None:
    """Refuse ropes longer than the world.

    Args:
        params: the vehicle.
        extent_m: of the world: its terrain's longer side, or what else bounds it.

    Raises:
        InputError: naming the key, the length and the world's extent.
    """
    for key, length_m in (
        ("load.rope_length_m", params.load.rope_length_m),
        ("tether.length_m", params.tether.length_m),
    ):
        if length_m > extent_m:
            raise InputError(
                f"{key}: {length_m:g} m is longer than the world; allowed: <= {extent_m:g} m"
            )


def hang(
    vehicle: Any,
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    q_WB: Quat = (1.0, 0.0, 0.0, 0.0),
) -> None:
    """Lay the load under a vehicle that stands; on a short rope it hangs above the ground.

    Args:
        vehicle: VEHICLE record, already in its place.
        params: its parameters.
        environment: the world.
        scene: its terrain.
        q_WB: its attitude.

    Raises:
        InputError: the tether does not reach the vehicle.
    """
    ropes, x = vehicle.suspension, vehicle.x[:]
    packed: Any = pack(params)
    world: Any = pack(environment)
    R_WB = to_matrix(q_WB)
    reach_m = norm(span_W(TETHER, x, R_WB, packed))
    if 0.0 < params.tether.length_m < reach_m:
        raise InputError(
            f"tether.length_m: {params.tether.length_m:g} m; the vehicle starts {reach_m:.6g} m"
            " from its anchor_W_m"
        )
    if not has_load(packed):
        return
    east, north, up = span_W(SLUNG, x, R_WB, packed)  # from the origin, where the load still is
    ground_m = terrain_height(scene.terrain, environment.ground_height_m, east, north)
    lying_m = ground_m - params.contact.sag_m
    hanging_m = up - params.load.rope_length_m
    if hanging_m >= lying_m:
        ropes.taut[SLUNG], ropes.tension_N[SLUNG] = 1, params.load.mass_kg * STANDARD_GRAVITY_MPS2
    x[LOAD_P : LOAD_P + 3] = east, north, max(hanging_m, lying_m)
    settle_load(vehicle, packed, world, scene)
