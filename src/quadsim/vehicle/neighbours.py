"""What vehicles do to each other: downwash and collisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Records, kernel, owning_kernel
from quadsim.geometry.vector import dot, subtract, vec3
from quadsim.vehicle.contact.contact import collide
from quadsim.vehicle.contact.points import prepare
from quadsim.vehicle.downwash import BEYOND, Wake, is_beyond, wake_at, wake_of
from quadsim.vehicle.formalisms.formalisms import attitude_matrix
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import ROTOR, P, V, Vehicle, three
from quadsim.world.air.atmosphere import air_density
from quadsim.world.environment import EnvironmentParams


@kernel
def lift_N(vehicle: Vehicle, params: VehicleParams) -> float:
    """Sum of the rotors' thrusts in still air, in N."""
    total = 0.0
    for i in range(params.rotor_directions_count):
        speed = vehicle.x[ROTOR + i]
        total += params.thrust_coefficient_N_s2 * speed * speed
    return float(vehicle.held.density_ratio * total)


@kernel
def add_wake(wake: Wake, i: int, p_W: Array, wind_W: Array) -> None:
    """Add a vehicle's wake to the air of those below it.

    Args:
        wake: its wake.
        i: which one it is.
        p_W: (N, 3) positions in m.
        wind_W: (N, 3) velocities in m/s, which grow.
    """
    x, y, z = p_W[i, 0], p_W[i, 1], p_W[i, 2]
    for k in range(p_W.shape[0]):
        offset_W = (p_W[k, 0] - x, p_W[k, 1] - y, p_W[k, 2] - z)
        depth_m = dot(offset_W, wake.down_W)
        if k != i and not is_beyond(wake, offset_W, depth_m):
            added_W = wake_at(wake, offset_W, depth_m)
            for axis in range(3):
                wind_W[k, axis] += added_W[axis]


@kernel
def collide_near(
    vehicles: Records[Vehicle],
    who: NDArray[np.int64],
    p_W: Array,
    v_W: Array,
    params: VehicleParams,
    physics: PhysicsParams,
) -> None:
    """Forces between all that may touch; who surely does not is told without a root.

    Args:
        vehicles: (N,) VEHICLE records.
        who: (M,) which of them count.
        p_W: (M, 3) their positions in m.
        v_W: (M, 3) their velocities in m/s.
        params: packed VehicleParams of all.
        physics: packed PhysicsParams.
    """
    reach_m = 2.0 * vehicles[who[0]].feet.reach_m
    for i in range(who.shape[0]):
        for k in range(i + 1, who.shape[0]):
            x, y, z = p_W[i, 0] - p_W[k, 0], p_W[i, 1] - p_W[k, 1], p_W[i, 2] - p_W[k, 2]
            # a sum of components is never less than the length
            fast_mps = abs(v_W[i, 0] - v_W[k, 0]) + abs(v_W[i, 1] - v_W[k, 1])
            fast_mps += abs(v_W[i, 2] - v_W[k, 2])
            near_m = BEYOND * (reach_m + physics.step_s * fast_mps)
            if not x * x + y * y + z * z > near_m * near_m:
                collide(vehicles[who[i]], vehicles[who[k]], params, physics)


@owning_kernel
def interact(
    vehicles: Records[Vehicle],
    params: VehicleParams,
    environment: EnvironmentParams,
    physics: PhysicsParams,
) -> None:
    """Write wakes and collision forces into every vehicle's inputs, from the motion as it is now.

    Vehicles out of each other's reach leave no bit of each other changed, and so does one whose
    motion could not go on.

    Args:
        vehicles: (N,) VEHICLE records.
        params: packed VehicleParams of all.
        environment: packed EnvironmentParams.
        physics: packed PhysicsParams.
    """
    who: NDArray[np.int64] = np.empty(vehicles.shape[0], np.int64)
    count = 0
    for i in range(vehicles.shape[0]):
        vehicle = vehicles[i]
        for axis in range(3):
            vehicle.inputs.neighbour_force_W_N[axis] = 0.0
            vehicle.inputs.neighbour_torque_B_Nm[axis] = 0.0
            vehicle.inputs.downwash_W_mps[axis] = 0.0
        if vehicle.feet.reach_m == 0.0:
            prepare(vehicle.feet, params)
        if vehicle.fault_ns == 0:
            who[count] = i
            count += 1
    if count < 2:
        return
    who = who[:count]
    # in one piece: all pairs look at them, and a record is large
    p_W, v_W, wind_W = np.empty((count, 3)), np.empty((count, 3)), np.zeros((count, 3))
    for i in range(count):
        x = vehicles[who[i]].x
        for axis in range(3):
            p_W[i, axis], v_W[i, axis] = x[P + axis], x[V + axis]
    for i in range(count):
        upper = vehicles[who[i]]
        thrust_N = lift_N(upper, params)
        if thrust_N <= 0.0:
            continue
        R_WB = attitude_matrix(upper.x, upper, physics.formalism)
        density = air_density(environment, upper.x[P + 2])
        air_W = subtract(three(upper.x, V), vec3(upper.held.wind_W_mps))
        add_wake(wake_of(R_WB, thrust_N, density, params, air_W), i, p_W, wind_W)
    for i in range(count):
        for axis in range(3):
            vehicles[who[i]].inputs.downwash_W_mps[axis] = wind_W[i, axis]
    collide_near(vehicles, who, p_W, v_W, params, physics)
