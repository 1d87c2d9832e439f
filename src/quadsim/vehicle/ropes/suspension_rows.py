"""Ropes under a rigid body as rows of a Lagrange constraint.

A rope of length L from a body's point p + R r to an end e (a slung load, or the fixed anchor of a
tether) is the limit ``phi = |d| - L <= 0`` with ``d = p + R r - e``. With n = d/|d|

    phi_dot = n . (v + R (w x r) - e_dot)
    phi_dd  = n . (a + R (w_dot x r + w x (w x r)) - e_dd) + (|d_dot|^2 - phi_dot^2) / |d|

so that its row of A is (n, r x R'n, -n) for velocity, body rate and the load's velocity.
"""

from __future__ import annotations

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.inertia import has_products, over_tensor
from quadsim.geometry.rotation import Mat3, apply, apply_inverse
from quadsim.geometry.vector import add, cross, dot, norm, scale, subtract, vec3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.ropes.constraints import AT_MOST, multipliers
from quadsim.vehicle.state import LOAD_P, LOAD_V, ROPES, SLUNG, P, RopeRows, three


@kernel
def has_load(params: VehicleParams) -> bool:
    """Whether a load is slung under the vehicle."""
    return bool(params.load.rope_length_m > 0.0)


@kernel
def has_ropes(params: VehicleParams) -> bool:
    """Whether there is a load or a tether."""
    return bool(params.load.rope_length_m > 0.0 or params.tether.length_m > 0.0)


@kernel
def rope_length_m(rope: int, params: VehicleParams) -> float:
    """Length of a rope; 0 for none."""
    return float(params.load.rope_length_m if rope == SLUNG else params.tether.length_m)


@kernel
def attachment_B(rope: int, params: VehicleParams) -> Vec3:
    """Where a rope is tied to the body, from its centre of mass."""
    return vec3(params.load.attachment_B_m if rope == SLUNG else params.tether.attachment_B_m)


@kernel
def span_W(rope: int, x: Array, R_WB: Mat3, params: VehicleParams) -> Vec3:
    """From the far end of a rope to where it is tied to the body."""
    tip_W = add(three(x, P), apply(R_WB, attachment_B(rope, params)))
    if rope == SLUNG:
        return subtract(tip_W, three(x, LOAD_P))
    return subtract(tip_W, vec3(params.tether.anchor_W_m))


@kernel
def span_rate_W(
    rope: int, x: Array, R_WB: Mat3, v_W: Vec3, w_B: Vec3, params: VehicleParams
) -> Vec3:
    """Time derivative of :func:`span_W`."""
    tip_W = add(v_W, apply(R_WB, cross(w_B, attachment_B(rope, params))))
    return subtract(tip_W, three(x, LOAD_V)) if rope == SLUNG else tip_W


@kernel
def aim(rope: int, span_W: Vec3, R_WB: Mat3, rows: RopeRows, params: VehicleParams) -> float:
    """Write the row of A of a rope; returns |d| in m."""
    distance = norm(span_W)
    n_W = scale(1.0 / distance, span_W) if distance > 0.0 else (0.0, 0.0, 1.0)
    turn_B = cross(attachment_B(rope, params), apply_inverse(R_WB, n_W))
    for i in range(3):
        rows.normal_W[rope, i] = n_W[i]
        rows.turn_B_m[rope, i] = turn_B[i]
    return distance


@kernel
def _turned(torque_B: Vec3, params: VehicleParams) -> Vec3:
    """Angular acceleration by a torque, body axes."""
    return over_tensor(vec3(params.inertia_kg_m2), vec3(params.inertia_products_kg_m2), torque_B)


@kernel
def fill_mobility(rows: RopeRows, mass_kg: float, params: VehicleParams, turning: bool) -> None:
    """A M^-1 A^T of both ropes; with ``turning`` False of the positions alone."""
    for i in range(ROPES):
        for j in range(i + 1):
            total = dot(vec3(rows.normal_W[i]), vec3(rows.normal_W[j])) / mass_kg
            if turning and has_products(vec3(params.inertia_products_kg_m2)):
                total += dot(vec3(rows.turn_B_m[i]), _turned(vec3(rows.turn_B_m[j]), params))
            elif turning:
                for k in range(3):
                    turns = rows.turn_B_m[i, k] * rows.turn_B_m[j, k]
                    total += turns / params.inertia_kg_m2[k]
            if i == SLUNG and params.load.mass_kg > 0.0:
                total += 1.0 / params.load.mass_kg
            rows.mobility[i, j] = rows.mobility[j, i] = total


@kernel
def leave_out(rope: int, rows: RopeRows) -> None:
    """A rope that takes no part: it has no limit, and no other row moves it."""
    rows.sides[rope], rows.residual[rope] = AT_MOST, -1.0
    for i in range(ROPES):
        rows.mobility[rope, i] = rows.mobility[i, rope] = 0.0
    rows.mobility[rope, rope] = 1.0


@kernel
def solve(rows: RopeRows) -> None:
    """Multipliers of both ropes from their mobility, residuals and sides."""
    multipliers(
        rows.mobility,
        rows.residual,
        rows.sides,
        rows.status,
        rows.elimination,
        rows.multiplier,
    )


@kernel
def pulls(rows: RopeRows, mass_kg: float, params: VehicleParams) -> tuple[Vec3, Vec3, Vec3]:
    """M^-1 A^T lambda: of the body's velocity (W), its rate (B) and the load's velocity (W)."""
    linear, turn, load = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for rope in range(ROPES):
        force = rows.multiplier[rope]
        if force == 0.0:
            continue
        n_W, arm_B = vec3(rows.normal_W[rope]), vec3(rows.turn_B_m[rope])
        linear = add(linear, scale(force / mass_kg, n_W))
        inertia = params.inertia_kg_m2
        kick = (
            force * arm_B[0] / inertia[0],
            force * arm_B[1] / inertia[1],
            force * arm_B[2] / inertia[2],
        )
        if has_products(vec3(params.inertia_products_kg_m2)):
            kick = scale(force, _turned(arm_B, params))
        turn = add(turn, kick)
        if rope == SLUNG:
            load = scale(-force / params.load.mass_kg, n_W)
    return linear, turn, load
