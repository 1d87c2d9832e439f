"""Rotors: their force, torque and angular momentum.

A rotor at r_i that turns with W_i, in air that passes its hub with (u, v, w) in body axes:

==================  ==================================================================  ==========
static thrust       S = k W^2                                                           [1] eq. 6
thrust              T = g S - k_z W w + min(k_h (u^2 + v^2), S), g of the ground        [2], [3]
thrust in descent   k_z W w goes over into that of the vortex ring state                [5]
tilt of the disc    (u, v) a / (R W): backwards, against the motion                     [4]
force in the disc   -(k_D W + T a / (R W)) (u, v)                                       [1] eq. 8
drag torque         -d c S about body z                                                 [1] eq. 7
rolling moment      -d k_R W (u, v)                                                     [1], [6]
moment of the hub   (K_b a / (R W) + k_M W) (v, -u)                                     [4]
==================  ==================================================================  ==========

With ``inflow_model: momentum`` the thrust is ``L - b W f`` with the flow through the disc,
``f = w + v_i``, and ``L = (k + b v_h / W) W^2 + k_h (u^2 + v^2)`` [5], so that it is k W^2 in
hover. The force in the disc gains ``-k_f f (u, v)``, what the inclined lift of the blades brings.

``thrust_residual`` adds to the thrust of each rotor what data show beyond this, linear in
``W^2, W w, W V, w^2, w V, V^2, u^2 - v^2, W V d, V^2 d, w V d``: V is the air speed in the disc, d
how far downstream of the centre of mass the hub is, by which the wakes of other rotors are told.
Where the air speed over the tip speed exceeds ``residual_advance_ratio``, it counts as that ratio.
``torque_residual`` adds to the roll torque ``y (c0 W^2 + c1 W w + c2 W V) + (c3 W + c4 w) v`` of
each rotor at (x, y), to the pitch torque ``-x (c5 W^2 + c6 W w + c7 W V) - (c8 W + c9 w) u``. With
16 numbers the roll gains ``c10 W w + c11 w u + c12 y u^2``, the pitch
``-c13 W w - c14 w v - c15 x v^2``: what a body that is not symmetric does.

All of it goes with the density of the air. Below idle the tilt falls to zero with the speed, and
the lift of forward flight is at most the static thrust (both ours): a rotor at rest has neither.

[1] Furrer, Burri, Achtelik, Siegwart, *RotorS*, 2016. [2] Svacha, Mohta, Kumar, *Improving
quadrotor trajectory tracking by compensating for aerodynamic effects*, ICUAS 2017: thrust loss k_z
and gain k_h. [3] The ground effect, below. [4] Hoffmann, Huang, Waslander, Tomlin, *Quadrotor
helicopter flight dynamics and control*, AIAA GNC 2007; Mahony, Kumar, Corke, *Multirotor aerial
vehicles*, IEEE RAM 2012: the disc tilts by an angle in proportion to the advance ratio. [5]
``vehicle.propulsion.inflow``. [6] The advancing blade lifts more, and which side it is on goes with
the sense of rotation d (Leishman, *Principles of helicopter aerodynamics*, ch. 4); RotorS leaves d
out, by which the moments of a quadrotor add up instead of cancelling.

Near the ground a rotor lifts more for the same speed. Potential flow with images below the ground:
the air that a rotor of radius R at height z moves is slowed by the share s, and at constant *power*
its thrust grows by 1/(1 - s):

- Cheeseman and Bennett, *The effect of the ground on a helicopter rotor in forward flight*, ARC R&M
  3021, 1955: its own image, s = (R/4z)^2, and in forward flight s / (1 + (V/v_i)^2) with the
  induced velocity v_i at hover.
- Sanchez-Cuevas, Heredia, Ollero, *Characterization of the aerodynamic ground effect and its
  influence in multirotor control*, Int. J. Aerospace Eng. 2017: also the images of the other
  rotors, R^2/2 z (d^2 + 4 z^2)^(-3/2) each at its distance d, and the air that rises under the
  body, 2 R^2 K_b z (b^2 + 4 z^2)^(-3/2) with b the distance of opposite rotors and K_b = 2. For a
  square quadrotor this is their closed form; here it holds for any number of rotors.

At constant power ``T v_i`` is constant, so that the induced velocity over that of the same thrust
far from the ground is (1 - s)^(3/2) (Leishman, *Principles of helicopter aerodynamics*, ch. 5: the
ratio of thrusts is k_G^(-2/3)). What that does to the thrust at constant *speed*, which a motor
holds, follows from the rotor's own inflow coefficient (:mod:`quadsim.vehicle.propulsion.inflow`).

Below half a radius, where nothing was measured, z counts as R/2; between 8 and 10 radii s goes to
zero, so that the thrust does not jump where the model ends (both ours).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Mat3, apply, apply_inverse
from quadsim.geometry.vector import add, scale, vec3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.inflow import (
    LINE_ENDS,
    blade_response,
    descent_loss,
    induced_velocity,
    momentum_disc,
    thrust_by_induced_share,
)
from quadsim.vehicle.propulsion.parameters import (
    MOMENTUM,
    NO_GROUND_EFFECT,
    RESIDUAL_FEATURES,
    SANCHEZ_CUEVAS,
    RotorParams,
)
from quadsim.vehicle.state import ROTOR, Held, V, Vehicle

#: Force in N and torque in N m, body axes.
Wrench = tuple[float, float, float, float, float, float]

#: In rotor radii: the lowest height, and where the effect fades and ends.
LOWEST, FADES, ENDS = 0.5, 8.0, 10.0


@kernel
def image_share(i: int, height_m: float, params: VehicleParams) -> float:
    """Share s by which the ground slows the air of rotor ``i`` in hover."""
    rotor = params.rotor
    radius, z = rotor.radius_m, max(height_m, LOWEST * rotor.radius_m)
    share = (radius / (4.0 * z)) ** 2
    if rotor.ground_effect != SANCHEZ_CUEVAS:
        return float(share)
    hub, farthest2 = params.rotor_positions_B_m[i], 0.0
    for k in range(params.rotor_directions_count):
        if k == i:
            continue
        other = params.rotor_positions_B_m[k]
        distance2 = (hub[0] - other[0]) ** 2 + (hub[1] - other[1]) ** 2
        farthest2 = max(farthest2, distance2)
        away2 = distance2 + 4.0 * z * z
        share += 0.5 * radius * radius * z / (away2 * math.sqrt(away2))
    away2 = farthest2 + 4.0 * z * z
    return float(share + 2.0 * radius * radius * rotor.fountain * z / (away2 * math.sqrt(away2)))


@kernel
def thrust_gain(i: int, R_WB: Mat3, vehicle: Vehicle, params: VehicleParams) -> float:
    """Thrust of rotor ``i`` over its thrust far from the ground, at the same speed.

    Args:
        i: rotor.
        R_WB: attitude of the body.
        vehicle: VEHICLE record, for ``held.height_m`` of the centre of mass above the ground, its
            velocity and the rotor's speed.
        params: packed VehicleParams.
    """
    rotor = params.rotor
    if rotor.ground_effect == NO_GROUND_EFFECT:
        return 1.0
    hub, up = params.rotor_positions_B_m[i], R_WB[2]
    height_m = vehicle.held.height_m + up[0] * hub[0] + up[1] * hub[1] + up[2] * hub[2]
    share = image_share(i, height_m, params)
    share *= min(max((ENDS - height_m / rotor.radius_m) / (ENDS - FADES), 0.0), 1.0)
    disc = momentum_disc(params)
    speed = vehicle.x[ROTOR + i]
    induced2 = params.thrust_coefficient_N_s2 * speed * speed / disc
    east = vehicle.x[V] - vehicle.held.wind_W_mps[0]
    north = vehicle.x[V + 1] - vehicle.held.wind_W_mps[1]
    share *= induced2 / (induced2 + east * east + north * north + 1e-12)
    left = 1.0 - min(share, 0.5)
    return float(thrust_by_induced_share(left * math.sqrt(left), blade_response(params)))


class Effects(NamedTuple):
    """Which of the effects that not every rotor has are there."""

    momentum: bool
    descent: bool  # of the line through hover
    flapping: bool
    residual: bool
    torque_residual: bool
    asymmetry: bool


@inline
def effects_of(params: VehicleParams) -> Effects:
    """The effects of a vehicle's rotors."""
    rotor = params.rotor
    return Effects(
        rotor.inflow_model == MOMENTUM,
        rotor.inflow_N_s2 > 0.0,
        rotor.flapping_rad > 0.0,
        rotor.thrust_residual_count > 0,
        rotor.torque_residual_count > 0,
        rotor.torque_residual_count > RESIDUAL_FEATURES,
    )


@inline
def hub_velocity(air_B: Vec3, w_B: Vec3, r_B: Vec3) -> Vec3:
    """Velocity (u, v, w) of a hub at r_B through the air, body axes, in m/s."""
    return (
        air_B[0] + w_B[1] * r_B[2] - w_B[2] * r_B[1],
        air_B[1] + w_B[2] * r_B[0] - w_B[0] * r_B[2],
        air_B[2] + w_B[0] * r_B[1] - w_B[1] * r_B[0],
    )


@inline
def translational_lift(static: float, air: Vec3, rotor: RotorParams) -> float:
    """Thrust in N gained in forward flight."""
    u, v, _ = air
    return min(rotor.translational_lift_N_s2_m2 * (u * u + v * v), static)


@inline
def thrust_by_momentum(
    static: float, speed: float, air: Vec3, gain: float, params: VehicleParams
) -> tuple[float, float]:
    """Thrust in N, and the flow through the disc in m/s, by blade elements and momentum theory.

    Args:
        static: static thrust in N.
        speed: of the rotor in rad/s.
        air: velocity (u, v, w) of the hub through the air in m/s.
        gain: of the thrust by the ground.
        params: packed VehicleParams.
    """
    u, v, w = air
    rotor, disc = params.rotor, momentum_disc(params)
    slope = rotor.blade_inflow_N_s2 * speed
    lift = translational_lift(static, air, rotor)
    lift += static + slope * math.sqrt(static / disc)
    flow = w + induced_velocity(lift, slope, w, u * u + v * v, disc)
    return (gain - 1.0) * static + lift - slope * flow, flow


@inline
def thrust_by_line(
    static: float, speed: float, air: Vec3, gain: float, descent: bool, params: VehicleParams
) -> float:
    """Thrust in N by the line through hover; in ``descent`` by that of the vortex ring state."""
    rotor, w = params.rotor, air[2]
    lost = rotor.inflow_N_s2 * speed * w
    if descent and w < 0.0 and momentum_disc(params) * w * w > LINE_ENDS * LINE_ENDS * static:
        lost = descent_loss(static, speed, w, params)
    return gain * static - lost + translational_lift(static, air, rotor)


@inline
def thrust_residual(speed: float, air: Vec3, r_B: Vec3, rotor: RotorParams) -> float:
    """Thrust in N that the vehicle's residual adds to the rotor at r_B."""
    u, v, w = air
    c, V = rotor.thrust_residual, math.sqrt(u * u + v * v)
    if rotor.residual_advance_ratio > 0.0:
        known = rotor.residual_advance_ratio * rotor.radius_m * speed
        if V * V + w * w > known * known:
            share = known / math.sqrt(V * V + w * w)
            u, v, w, V = share * u, share * v, share * w, share * V
    downstream = -(u * r_B[0] + v * r_B[1]) / (V + 1e-6)
    return float(
        speed * (c[0] * speed + c[1] * w + (c[2] + c[7] * downstream) * V)
        + c[3] * w * w
        + (c[4] + c[9] * downstream) * w * V
        + (c[5] + c[8] * downstream) * V * V
        + c[6] * (u * u - v * v)
    )


@inline
def torque_residual(speed: float, air: Vec3, r_B: Vec3, rotor: RotorParams) -> tuple[float, float]:
    """Torque in N m about x and y that the vehicle's residual adds for the rotor at r_B."""
    u, v, w = air
    c, V = rotor.torque_residual, math.sqrt(u * u + v * v)
    roll = r_B[1] * speed * (c[0] * speed + c[1] * w + c[2] * V) + (c[3] * speed + c[4] * w) * v
    pitch = r_B[0] * speed * (c[5] * speed + c[6] * w + c[7] * V) + (c[8] * speed + c[9] * w) * u
    return roll, -pitch


@inline
def asymmetry(speed: float, air: Vec3, r_B: Vec3, rotor: RotorParams) -> tuple[float, float]:
    """Torque in N m about x and y by the last six numbers of the vehicle's residual."""
    u, v, w = air
    c = rotor.torque_residual
    roll = w * (c[10] * speed + c[11] * u) + c[12] * r_B[1] * u * u
    pitch = w * (c[13] * speed + c[14] * v) + c[15] * r_B[0] * v * v
    return roll, -pitch


@inline
def disc_tilt(speed: float, params: VehicleParams) -> float:
    """Tilt of the disc in rad over the air speed in it; it falls to zero below idle."""
    flapping = params.rotor.flapping_rad / params.rotor.radius_m
    idle = max(params.rotor_speed_min_radps, 1.0)
    return float(flapping * speed / max(speed * speed, idle * idle))


@inline
def add_rotor(
    total: Wrench,
    r_B: Vec3,
    direction: float,
    speed: float,
    air_B: Vec3,
    w_B: Vec3,
    gain: float,
    effects: Effects,
    params: VehicleParams,
) -> Wrench:
    """The wrench about the centre of mass, and that of one rotor more.

    Args:
        total: of the rotors so far.
        r_B: its hub in m.
        direction: in which it turns, 1 or -1.
        speed: in rad/s.
        air_B: velocity of the centre of mass through the air in m/s.
        w_B: body rates in rad/s.
        gain: of its thrust by the ground.
        effects: of the vehicle's rotors.
        params: packed VehicleParams, or tuples with fields of the same names.
    """
    rotor = params.rotor
    air = hub_velocity(air_B, w_B, r_B)
    u, v, _ = air
    static = params.thrust_coefficient_N_s2 * speed * speed
    side = params.rotor_drag_N_s2 * speed  # force in the disc over the air speed in it
    if effects.momentum:
        thrust, flow = thrust_by_momentum(static, speed, air, gain, params)
        side += rotor.inflow_drag_N_s2_m2 * flow
    else:
        thrust = thrust_by_line(static, speed, air, gain, effects.descent, params)
    if effects.residual:
        thrust += thrust_residual(speed, air, r_B, rotor)
    tilt = disc_tilt(speed, params) if effects.flapping else 0.0
    side += tilt * thrust
    rolling = direction * params.rolling_moment_N_s2 * speed
    hub = rotor.hinge_stiffness_N_m * tilt + rotor.hub_moment_N_s2 * speed
    fx, fy, fz, tx, ty, tz = total
    tx += r_B[1] * thrust + r_B[2] * side * v - rolling * u + hub * v
    ty -= r_B[2] * side * u + r_B[0] * thrust + rolling * v + hub * u
    tz -= r_B[0] * side * v - r_B[1] * side * u
    tz -= direction * params.torque_ratio_m * static
    if effects.torque_residual:
        roll, pitch = torque_residual(speed, air, r_B, rotor)
        tx += roll
        ty += pitch
    if effects.asymmetry:
        roll, pitch = asymmetry(speed, air, r_B, rotor)
        tx += roll
        ty += pitch
    return fx - side * u, fy - side * v, fz + thrust, tx, ty, tz


@inline
def disc_axes(axis_B: Vec3) -> Mat3:
    """Attitude in B of a rotor's disc, whose z is its axis: the shortest turn out of body z."""
    x, y, z = axis_B
    k = 1.0 / (1.0 + z)
    return ((1.0 - k * x * x, -k * x * y, x), (-k * x * y, 1.0 - k * y * y, y), (-x, -y, z))


@inline
def add_tilted_rotor(
    total: Wrench,
    axis_B: Vec3,
    r_B: Vec3,
    direction: float,
    speed: float,
    air_B: Vec3,
    w_B: Vec3,
    gain: float,
    effects: Effects,
    params: VehicleParams,
) -> Wrench:
    """The same as :func:`add_rotor` for a rotor that pulls along ``axis_B``: in its disc's axes."""
    R = disc_axes(axis_B)
    fx, fy, fz, tx, ty, tz = total
    f, t = apply_inverse(R, (fx, fy, fz)), apply_inverse(R, (tx, ty, tz))
    fx, fy, fz, tx, ty, tz = add_rotor(
        (f[0], f[1], f[2], t[0], t[1], t[2]), apply_inverse(R, r_B), direction, speed,
        apply_inverse(R, air_B), apply_inverse(R, w_B), gain, effects, params,
    )  # fmt: skip
    f, t = apply(R, (fx, fy, fz)), apply(R, (tx, ty, tz))
    return f[0], f[1], f[2], t[0], t[1], t[2]


@kernel
def tilted_rotors(
    x: Array, air_B: Vec3, w_B: Vec3, held: Held, effects: Effects, params: VehicleParams
) -> Wrench:
    """Sum over rotors of which each has an axis of its own."""
    total = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(params.rotor_directions_count):
        total = add_tilted_rotor(
            total, vec3(params.rotor_axes_B[i]), vec3(params.rotor_positions_B_m[i]),
            params.rotor_directions[i], x[ROTOR + i], air_B, w_B, held.thrust_gain[i], effects,
            params,
        )  # fmt: skip
    return total


@inline
def rotor_wrench(
    x: Array, air_B: Vec3, w_B: Vec3, held: Held, params: VehicleParams
) -> tuple[Vec3, Vec3]:
    """Force and torque of the rotors about the centre of mass, body axes, in N and N m.

    Args:
        x: (STATE_SIZE,) state, for the rotor speeds.
        air_B: velocity of the centre of mass through the air in m/s.
        w_B: body rates in rad/s.
        held: what is held over the step.
        params: packed VehicleParams.
    """
    effects = effects_of(params)
    total = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    upright = params.rotor_directions_count
    if params.rotor_axes_B_count > 0:
        total, upright = tilted_rotors(x, air_B, w_B, held, effects, params), 0
    for i in range(upright):
        total = add_rotor(
            total, vec3(params.rotor_positions_B_m[i]), params.rotor_directions[i], x[ROTOR + i],
            air_B, w_B, held.thrust_gain[i], effects, params,
        )  # fmt: skip
    fx, fy, fz, tx, ty, tz = total
    ratio = held.density_ratio
    return (ratio * fx, ratio * fy, ratio * fz), (ratio * tx, ratio * ty, ratio * tz)


@inline
def rotor_momentum(x: Array, params: VehicleParams) -> float:
    """Angular momentum of the rotors about body z relative to the body, in kg m^2/s.

    With h it and w the body rates, the rotors put -w x (0, 0, h) - (0, 0, dh/dt) on the body: the
    gyroscopic torque, and the reaction to speeding up. From a derivative of the state it is dh/dt.
    """
    total = 0.0
    for i in range(params.rotor_directions_count):
        total += params.rotor_directions[i] * x[ROTOR + i]
    return float(params.rotor.inertia_kg_m2 * total)


@kernel
def rotor_momentum_B(x: Array, params: VehicleParams) -> Vec3:
    """The same as :func:`rotor_momentum` of rotors that may be tilted, as a vector in B."""
    if params.rotor_axes_B_count == 0:
        return (0.0, 0.0, rotor_momentum(x, params))
    total = (0.0, 0.0, 0.0)
    for i in range(params.rotor_directions_count):
        spin = params.rotor_directions[i] * x[ROTOR + i]
        total = add(total, scale(spin, vec3(params.rotor_axes_B[i])))
    return scale(params.rotor.inertia_kg_m2, total)
