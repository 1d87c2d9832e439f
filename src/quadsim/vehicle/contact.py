"""Contact with the ground: each foot is a spring and damper with regularised Coulomb friction."""

from __future__ import annotations

import math
from typing import Any

from quadsim.compiled import kernel
from quadsim.geometry.rotation import Quat, rotate, unrotate
from quadsim.geometry.vector import add, cross, vec3
from quadsim.parameters import Vec3

#: Below this speed over the ground friction grows linearly from zero, in m/s.
STICTION_SPEED_MPS = 0.02


@kernel
def ground_wrench(
    p_W: Vec3, v_W: Vec3, q_WB: Quat, w_B: Vec3, params: Any, environment: Any
) -> tuple[Vec3, Vec3, int]:
    """Force of the ground in W (N), its torque in B (N m), and how many feet touch.

    Stiffness follows from the sag under the weight m g = n k sag, damping from the damping ratio
    of the vertical motion, c = 2 zeta sqrt(k m / n) per foot; the ground never pulls.
    """
    feet = params.contact.points_B_m_count
    force, torque = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    reach = 0.0
    for i in range(feet):
        r = vec3(params.contact.points_B_m[i])
        reach = max(reach, abs(r[0]) + abs(r[1]) + abs(r[2]))
    if feet == 0 or p_W[2] - environment.ground_height_m > reach:
        return force, torque, 0
    weight = params.mass_kg * 9.80665
    stiffness = weight / (feet * params.contact.sag_m)
    damping = 2.0 * params.contact.damping_ratio * math.sqrt(stiffness * params.mass_kg / feet)
    touching = 0
    for i in range(feet):
        r_B = vec3(params.contact.points_B_m[i])
        foot_W = add(p_W, rotate(q_WB, r_B))
        depth = environment.ground_height_m - foot_W[2]
        if depth <= 0.0:
            continue
        touching += 1
        speed_W = add(v_W, rotate(q_WB, cross(w_B, r_B)))
        normal = max(0.0, stiffness * depth - damping * speed_W[2])
        slip = math.sqrt(speed_W[0] * speed_W[0] + speed_W[1] * speed_W[1])
        grip = -params.contact.friction * normal / max(slip, STICTION_SPEED_MPS)
        f_W = (grip * speed_W[0], grip * speed_W[1], normal)
        force = add(force, f_W)
        torque = add(torque, cross(r_B, unrotate(q_WB, f_W)))
    return force, torque, touching
