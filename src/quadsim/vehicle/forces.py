"""What acts on a vehicle, and Newton and Euler: one for all formalisms and integrators."""

from __future__ import annotations

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import HELICOPTER
from quadsim.geometry.inertia import has_products, over_tensor, times_tensor
from quadsim.geometry.rotation import Mat3, apply, apply_inverse
from quadsim.geometry.vector import add, cross, scale, subtract, vec3
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
        force_B, torque_B = helicopter_wrench(vehicle.x[:], w_B, held.density_ratio, params)
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


@inline
def accelerations(
    force_W: Vec3,
    torque_B: Vec3,
    w_B: Vec3,
    rotors: tuple[float, float],
    gravity_mps2: float,
    mass_kg: float,
    inertia: Vec3,
) -> tuple[Vec3, Vec3]:
    """Linear acceleration in W in m/s^2 and angular acceleration in B in rad/s^2.

    Args:
        force_W: in N, without the weight.
        torque_B: about the centre of mass in N m.
        w_B: body rates in rad/s.
        rotors: their angular momentum about body z in kg m^2/s, and its derivative in N m.
        gravity_mps2: downwards.
        mass_kg: of the body.
        inertia: its moments in kg m^2.
    """
    a_W = scale(1.0 / mass_kg, force_W)
    momentum = (inertia[0] * w_B[0], inertia[1] * w_B[1], inertia[2] * w_B[2] + rotors[0])
    net = subtract(torque_B, cross(w_B, momentum))
    w_dot_B = (net[0] / inertia[0], net[1] / inertia[1], (net[2] - rotors[1]) / inertia[2])
    return (a_W[0], a_W[1], a_W[2] - gravity_mps2), w_dot_B


@inline
def is_skew(params: VehicleParams) -> bool:
    """Whether rotors are tilted, or the body's axes are not the principal ones."""
    return params.rotor_axes_B_count > 0 or has_products(vec3(params.inertia_products_kg_m2))


@kernel
def skew_rates(
    torque_B: Vec3, w_B: Vec3, rotors: tuple[Vec3, Vec3], moments: Vec3, products: Vec3
) -> Vec3:
    """Angular acceleration of :func:`accelerations`, in rad/s^2, with a full inertia matrix.

    Args:
        torque_B: about the centre of mass in N m.
        w_B: body rates in rad/s.
        rotors: their angular momentum in B in kg m^2/s, and its derivative in N m.
        moments: elements xx, yy, zz of the inertia in kg m^2.
        products: its elements xy, xz, yz.
    """
    momentum = add(times_tensor(moments, products, w_B), rotors[0])
    net = subtract(subtract(torque_B, cross(w_B, momentum)), rotors[1])
    return over_tensor(moments, products, net)
