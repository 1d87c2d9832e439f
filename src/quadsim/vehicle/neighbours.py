"""What vehicles do to each other: downwash and collisions."""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel
from quadsim.geometry.vector import subtract, vec3
from quadsim.vehicle.contact import collide
from quadsim.vehicle.downwash import downwash_W
from quadsim.vehicle.formalisms import attitude_matrix
from quadsim.vehicle.state import ROTOR, P, V, three
from quadsim.world.atmosphere import air_density


@kernel
def lift_N(vehicle: Any, params: Any) -> float:
    """Sum of the rotors' thrusts in still air, in N."""
    total = 0.0
    for i in range(params.rotor_directions_count):
        speed = vehicle.x[ROTOR + i]
        total += params.thrust_coefficient_N_s2 * speed * speed
    return float(vehicle.held.density_ratio * total)


@kernel
def interact(vehicles: Any, params: Any, environment: Any, physics: Any) -> None:
    """Write wakes and collision forces into every vehicle's inputs, from the motion as it is now.

    Vehicles out of each other's reach leave no bit of each other changed.

    Args:
        vehicles: (N,) VEHICLE records.
        params: packed VehicleParams of all.
        environment: packed EnvironmentParams.
        physics: packed PhysicsParams.
    """
    for i in range(vehicles.shape[0]):
        inputs = vehicles[i].inputs
        for axis in range(3):
            inputs.neighbour_force_W_N[axis] = 0.0
            inputs.neighbour_torque_B_Nm[axis] = 0.0
            inputs.downwash_W_mps[axis] = 0.0
    for i in range(vehicles.shape[0]):
        upper = vehicles[i]
        p_W = three(upper.x, P)
        R_WB = attitude_matrix(upper.x, upper, physics.formalism)
        thrust_N = lift_N(upper, params)
        density = air_density(environment, p_W[2])
        air_W = subtract(three(upper.x, V), vec3(upper.held.wind_W_mps))
        for k in range(vehicles.shape[0]):
            if k == i:
                continue
            lower = vehicles[k]
            below_W = three(lower.x, P)
            blown = downwash_W(below_W, p_W, R_WB, thrust_N, density, params, air_W)
            for axis in range(3):
                lower.inputs.downwash_W_mps[axis] += blown[axis]
            if k > i:
                collide(upper, lower, params, physics)
