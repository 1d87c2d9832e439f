"""Attitude control of a crowd: from a wanted attitude and thrust to rotor speeds.

Mellinger and Kumar, *Minimum snap trajectory generation and control for quadrotors*, ICRA 2011,
eqs. 10 and 11, with the integral and the derivative that the Crazyflie's firmware adds
(``controller_mellinger.c``): with R_e = R_WC^T R_WB (C: the wanted attitude) and
e = vee(R_e - R_e^T),

    torque = J (-k_R e - k_w w_B + k_I int(-e dt) - k_d dw_B/dt),

each axis limited, then shared among the rotors by the least squares of their geometry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from quadsim.base.compiled import inline
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.linear import pseudo_inverse
from quadsim.geometry.rotation import conjugate, multiply, normalize
from quadsim.vehicle.batched.kernels import (
    INTEGRAL,
    LANES,
    LAST_W,
    WANTED_Q,
    WANTED_THRUST,
    Airframe,
    Array,
    clip,
    read3,
    read4,
)
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import ROTOR, Q, W


@dataclass(frozen=True)
class AttitudeLaw:
    """Gains of the attitude law, over the moments of inertia: one set suits vehicles of any size.

    Near the wanted attitude e is twice the angle, so that the natural frequency is
    sqrt(2 attitude_per_s2) and the damping ratio rate_per_s over twice that.
    """

    attitude_per_s2: Annotated[Vec3, Spec("k_R", "1/s^2", ge=0.0, le=1e5)] = (50.0, 50.0, 5.0)
    rate_per_s: Annotated[Vec3, Spec("k_w", "1/s", ge=0.0, le=1e4)] = (14.0, 14.0, 5.0)
    integral_per_s3: Annotated[Vec3, Spec("k_I", "1/s^3", ge=0.0, le=1e5)] = (0.0, 0.0, 0.0)
    acceleration: Annotated[Vec3, Spec("k_d", "1", ge=0.0, le=100.0)] = (0.0, 0.0, 0.0)
    integral_limit_s: Annotated[Vec3, Spec("of the integral", "s", ge=0.0, le=1e5)] = (1.0,) * 3
    acceleration_limit_radps2: Annotated[
        Vec3, Spec("of the torque over the inertia", "rad/s^2", gt=0.0, le=1e6)
    ] = (200.0, 200.0, 20.0)


class Gains(NamedTuple):
    """What the kernel takes of the law and of the vehicle."""

    attitude_Nm: Vec3
    rate_Nms: Vec3
    integral_Nm_per_s: Vec3
    acceleration_Nms2: Vec3
    integral_limit_s: Vec3
    torque_limit_Nm: Vec3
    shares: tuple[tuple[float, float, float, float], ...]  # each rotor's thrust of (F, torque)


def gains_of(law: AttitudeLaw, params: VehicleParams) -> Gains:
    """The law for one vehicle, and how its rotors share thrust and torque (least squares)."""
    inertia = params.inertia_kg_m2

    def times_inertia(values: Vec3) -> Vec3:
        return (values[0] * inertia[0], values[1] * inertia[1], values[2] * inertia[2])

    hubs = np.array(params.rotor_positions_B_m)
    senses = np.array(params.rotor_directions)
    ones = np.ones(len(senses))
    wrench = np.stack([ones, hubs[:, 1], -hubs[:, 0], -params.torque_ratio_m * senses])
    shares = [(float(a), float(b), float(c), float(d)) for a, b, c, d in pseudo_inverse(wrench)]
    return Gains(
        times_inertia(law.attitude_per_s2),
        times_inertia(law.rate_per_s),
        times_inertia(law.integral_per_s3),
        times_inertia(law.acceleration),
        law.integral_limit_s,
        times_inertia(law.acceleration_limit_radps2),
        tuple(shares),
    )


@inline
def axis_torque(
    s: Array, i: int, k: int, error: float, rate: float, dt_s: float, base: int, gains: Gains
) -> float:
    """Torque about body axis ``k`` of lane ``i`` in N m; the law's memory goes on."""
    integral, last = (base + INTEGRAL + k) * LANES + i, (base + LAST_W + k) * LANES + i
    limit = gains.integral_limit_s[k]
    s[integral] = clip(s[integral] - error * dt_s, -limit, limit)
    torque = (
        gains.integral_Nm_per_s[k] * s[integral]
        - gains.attitude_Nm[k] * error
        - gains.rate_Nms[k] * rate
        - gains.acceleration_Nms2[k] * ((rate - s[last]) / dt_s)
    )
    s[last] = rate
    return clip(torque, -gains.torque_limit_Nm[k], gains.torque_limit_Nm[k])


@inline
def control_lane(s: Array, i: int, dt_s: float, body: Airframe, gains: Gains) -> None:
    """Rotor commands of lane ``i``; a wanted thrust of zero or less stops the rotors.

    Args:
        s: the block; rotor commands and the law's memory are written.
        i: the lane.
        dt_s: time between two calls.
        body: the vehicle.
        gains: the law for it.
    """
    n = len(body.rotors)
    base = ROTOR + 2 * n
    w_B = read3(s, W, i)
    turn = multiply(conjugate(normalize(read4(s, base + WANTED_Q, i))), read4(s, Q, i))
    double = 4.0 * turn[0]  # vee(R - R^T) of the quaternion (w, u) is 4 w u
    roll = axis_torque(s, i, 0, double * turn[1], w_B[0], dt_s, base, gains)
    pitch = axis_torque(s, i, 1, double * turn[2], w_B[1], dt_s, base, gains)
    yaw = axis_torque(s, i, 2, double * turn[3], w_B[2], dt_s, base, gains)
    thrust_N = s[(base + WANTED_THRUST) * LANES + i]
    low = body.thrust_N_s2 * body.speed_min_radps * body.speed_min_radps
    high = body.thrust_N_s2 * body.speed_max_radps * body.speed_max_radps
    for k in range(n):
        share = gains.shares[k]
        f = share[0] * thrust_N + share[1] * roll + share[2] * pitch + share[3] * yaw
        speed = math.sqrt(clip(f, low, high) / body.thrust_N_s2)
        s[(ROTOR + n + k) * LANES + i] = 0.0 if thrust_N <= 0.0 else speed
