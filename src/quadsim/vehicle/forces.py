"""The force model: one for all formalisms and integrators."""

from __future__ import annotations

from quadsim.base.compiled import Array, inline
from quadsim.base.parameters import Vec3
from quadsim.base.records import HELICOPTER
from quadsim.geometry.rotation import Mat3, apply, apply_inverse
from quadsim.geometry.vector import add, subtract, vec3
from quadsim.vehicle.aerodynamics import body_drag
from quadsim.vehicle.contact.contact import contact_wrench
from quadsim.vehicle.helicopter import helicopter_wrench
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.rotors import rotor_wrench
from quadsim.vehicle.state import Vehicle


@inline
def forces(
    x: Array,
    R_WB: Mat3,
    v_W: Vec3,
    w_B: Vec3,
    vehicle: Vehicle,
    params: VehicleParams,
) -> tuple[Vec3, Vec3]:
    """All that acts on a vehicle but for gravity, ropes and the rotors' angular momentum.

    Args:
        x: (STATE_SIZE,) state, for position and rotor speeds.
        R_WB: attitude.
        v_W: velocity in m/s.
        w_B: body rates in rad/s.
        vehicle: VEHICLE record, for what is held over the step.
        params: packed VehicleParams.

    Returns:
        Force in W in N, and torque about the centre of mass in B in N m.
    """
    held, inputs = vehicle.held, vehicle.inputs
    air_B = apply_inverse(R_WB, subtract(v_W, vec3(held.wind_W_mps)))
    if params.kind == HELICOPTER:
        force_B, torque_B = helicopter_wrench(vehicle.x, w_B, held.density_ratio, params)
    else:
        force_B, torque_B = rotor_wrench(x, air_B, w_B, held, params)
    force_W = apply(R_WB, add(force_B, body_drag(air_B, held.density_ratio, params)))
    if vehicle.feet.near != 0:
        ground_W, ground_B = contact_wrench(x, R_WB, v_W, w_B, vehicle.feet, params)
        force_W, torque_B = add(force_W, ground_W), add(torque_B, ground_B)
    force_W = add(force_W, vec3(inputs.external_force_W_N))
    torque_B = add(torque_B, vec3(inputs.external_torque_B_Nm))
    force_W = add(add(force_W, vec3(inputs.neighbour_force_W_N)), vec3(held.push_W_N))
    torque_B = add(add(torque_B, vec3(inputs.neighbour_torque_B_Nm)), vec3(held.push_B_Nm))
    return force_W, torque_B
