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
and gain k_h. [3] ``vehicle.propulsion.ground_effect``. [4] Hoffmann, Huang, Waslander, Tomlin,
*Quadrotor helicopter flight dynamics and control*, AIAA GNC 2007; Mahony, Kumar, Corke, *Multirotor
aerial vehicles*, IEEE RAM 2012: the disc tilts by an angle in proportion to the advance ratio. [5]
``vehicle.propulsion.inflow``. [6] The advancing blade lifts more, and which side it is on goes with
the sense of rotation d (Leishman, *Principles of helicopter aerodynamics*, ch. 4); RotorS leaves d
out, by which the moments of a quadrotor add up instead of cancelling.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from quadsim.base.compiled import Array, inline
from quadsim.base.parameters import Vec3
from quadsim.vehicle.aerodynamics import reference_density
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.inflow import LINE_ENDS, descent_loss, induced_velocity
from quadsim.vehicle.propulsion.parameters import MOMENTUM, RESIDUAL_FEATURES
from quadsim.vehicle.state import ROTOR

if TYPE_CHECKING:
    from quadsim.vehicle.multirotor import Vehicle


@inline
def _residual(
    speed: float, u: float, v: float, w: float, V: float, r_B: Vec3, c: tuple[float, ...]
) -> float:
    """Thrust in N that the vehicle's residual adds to one rotor; V is the air speed in the disc."""
    downstream = -(u * r_B[0] + v * r_B[1]) / (V + 1e-6)
    return float(
        speed * (c[0] * speed + c[1] * w + (c[2] + c[7] * downstream) * V)
        + c[3] * w * w
        + (c[4] + c[9] * downstream) * w * V
        + (c[5] + c[8] * downstream) * V * V
        + c[6] * (u * u - v * v)
    )


@inline
def _torque_residual(
    speed: float, u: float, v: float, w: float, V: float, r_B: Vec3, c: tuple[float, ...]
) -> tuple[float, float]:
    """Torque in N m about x and y that the vehicle's residual adds for one rotor."""
    roll = r_B[1] * speed * (c[0] * speed + c[1] * w + c[2] * V) + (c[3] * speed + c[4] * w) * v
    pitch = r_B[0] * speed * (c[5] * speed + c[6] * w + c[7] * V) + (c[8] * speed + c[9] * w) * u
    return roll, -pitch


@inline
def _asymmetry(
    speed: float, u: float, v: float, w: float, r_B: Vec3, c: tuple[float, ...]
) -> tuple[float, float]:
    """Torque in N m about x and y by the last six numbers of the vehicle's residual."""
    roll = w * (c[10] * speed + c[11] * u) + c[12] * r_B[1] * u * u
    pitch = w * (c[13] * speed + c[14] * v) + c[15] * r_B[0] * v * v
    return roll, -pitch


@inline
def rotor_wrench(
    x: Array, air_B: Vec3, w_B: Vec3, vehicle: Vehicle, params: VehicleParams
) -> tuple[Vec3, Vec3]:
    """Force and torque of the rotors about the centre of mass, body axes, in N and N m.

    Args:
        x: (STATE_SIZE,) state, for the rotor speeds.
        air_B: velocity of the centre of mass through the air in m/s.
        w_B: body rates in rad/s.
        vehicle: VEHICLE record, for what is held over the step.
        params: packed VehicleParams.
    """
    held, rotor = vehicle.held, params.rotor
    flapping = rotor.flapping_rad / rotor.radius_m
    idle = max(params.rotor_speed_min_radps, 1.0)
    disc = 0.0  # T / v_h^2 in hover; 0 without an inflow coefficient
    if rotor.inflow_N_s2 > 0.0 or rotor.inflow_model == MOMENTUM:
        disc = 2.0 * reference_density(params) * math.pi * rotor.radius_m * rotor.radius_m
    fx, fy, fz = 0.0, 0.0, 0.0
    tx, ty, tz = 0.0, 0.0, 0.0
    for i in range(params.rotor_directions_count):
        speed = x[ROTOR + i]
        r_B = params.rotor_positions_B_m[i]
        u = air_B[0] + w_B[1] * r_B[2] - w_B[2] * r_B[1]
        v = air_B[1] + w_B[2] * r_B[0] - w_B[0] * r_B[2]
        w = air_B[2] + w_B[0] * r_B[1] - w_B[1] * r_B[0]
        static = params.thrust_coefficient_N_s2 * speed * speed
        side = params.rotor_drag_N_s2 * speed
        if rotor.inflow_model == MOMENTUM:
            slope = rotor.blade_inflow_N_s2 * speed
            lift = min(rotor.translational_lift_N_s2_m2 * (u * u + v * v), static)
            lift += static + slope * math.sqrt(static / disc)
            flow = w + induced_velocity(lift, slope, w, u * u + v * v, disc)
            thrust = (held.thrust_gain[i] - 1.0) * static + lift - slope * flow
            side += rotor.inflow_drag_N_s2_m2 * flow
        else:
            lost = rotor.inflow_N_s2 * speed * w
            if w < 0.0 and disc * w * w > LINE_ENDS * LINE_ENDS * static:
                lost = descent_loss(static, speed, w, params)
            thrust = held.thrust_gain[i] * static - lost
            thrust += min(rotor.translational_lift_N_s2_m2 * (u * u + v * v), static)
        V = 0.0
        if rotor.thrust_residual_count > 0 or rotor.torque_residual_count > 0:
            V = math.sqrt(u * u + v * v)
        if rotor.thrust_residual_count > 0:
            share = 1.0
            if rotor.residual_advance_ratio > 0.0:
                known = rotor.residual_advance_ratio * rotor.radius_m * speed
                if V * V + w * w > known * known:
                    share = known / math.sqrt(V * V + w * w)
            thrust += _residual(
                speed, share * u, share * v, share * w, share * V, r_B, rotor.thrust_residual
            )
        tilt = flapping * speed / max(speed * speed, idle * idle)
        side += tilt * thrust
        rolling = params.rotor_directions[i] * params.rolling_moment_N_s2 * speed
        hub = rotor.hinge_stiffness_N_m * tilt + rotor.hub_moment_N_s2 * speed
        fx -= side * u
        fy -= side * v
        fz += thrust
        tx += r_B[1] * thrust + r_B[2] * side * v - rolling * u + hub * v
        ty -= r_B[2] * side * u + r_B[0] * thrust + rolling * v + hub * u
        tz -= r_B[0] * side * v - r_B[1] * side * u
        tz -= params.rotor_directions[i] * params.torque_ratio_m * static
        if rotor.torque_residual_count > 0:
            roll, pitch = _torque_residual(speed, u, v, w, V, r_B, rotor.torque_residual)
            tx += roll
            ty += pitch
        if rotor.torque_residual_count > RESIDUAL_FEATURES:
            roll, pitch = _asymmetry(speed, u, v, w, r_B, rotor.torque_residual)
            tx += roll
            ty += pitch
    ratio = held.density_ratio
    return (ratio * fx, ratio * fy, ratio * fz), (ratio * tx, ratio * ty, ratio * tz)


@inline
def rotor_momentum(x: Array, params: VehicleParams) -> float:
    """Angular momentum of the rotors about body z relative to the body, in kg m^2/s.

    With h it and w the body rates, the rotors put -w x (0, 0, h) - (0, 0, dh/dt) on the body: the
    gyroscopic torque, and the reaction to speeding up.
    """
    total = 0.0
    for i in range(params.rotor_directions_count):
        total += params.rotor_directions[i] * x[ROTOR + i]
    return float(params.rotor.inertia_kg_m2 * total)


@inline
def rotor_momentum_rate(x_dot: Array, params: VehicleParams) -> float:
    """Its derivative in N m, from the rotor accelerations in a derivative of the state."""
    return rotor_momentum(x_dot, params)
