"""What vehicles do to each other: downwash and collisions.

The wake that one vehicle blows on another below: all rotors together push a jet of the momentum
flux T/rho downwards along -z of the body, through the area A of all discs. First it has the speed
of the fully contracted wake, 2 v_i = sqrt(2 T / (rho A)) (momentum theory), reached over about a
radius; farther down it is a round turbulent jet, whose speed on the axis falls as ``B sqrt(4 T /
(pi rho)) / x`` with B = 6.06 (Panchapakesan and Lumley, J. Fluid Mech. 246, 1993; Pope, *Turbulent
flows*, 2000, eq. 5.6), and across as (1 + r^2/w^2)^-2 (Pope, eq. 5.82). The width w is what keeps
the momentum, ``rho U^2 pi w^2 / 3 = T``; it spreads by 0.092 x to half the speed (measured: 0.096).
That the wake of a whole quadrotor is such a jet: Bauersfeld, Muller, Ziegler, Coletti, Scaramuzza,
*Robotics meets fluid dynamics*, RA-L 2024.

The air that the vehicle flies through carries its wake along; the time that this takes is that of
the air on the axis (ours).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Records, inline, kernel, owning_kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Mat3
from quadsim.geometry.vector import add, dot, norm, scale, subtract, vec3
from quadsim.vehicle.contact.contact import collide
from quadsim.vehicle.contact.points import prepare
from quadsim.vehicle.formalisms.formalisms import attitude_matrix
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import ROTOR, P, V, Vehicle, three
from quadsim.world.air.atmosphere import air_density
from quadsim.world.environment import EnvironmentParams

#: Decay constant B of the speed on the axis.
JET_DECAY = 6.06

#: The wake ends where the air on the axis is slower, in m/s, and this many widths from the axis.
SLOWEST_MPS, WIDTHS = 0.5, 4.0
#: Where it begins to fade to nothing there, as a vehicle must not feel a step (ours).
FADES_MPS, FADES_WIDTHS = 0.75, 3.5

#: The bounds of a wake are larger than it by this factor, which rounding does not reach.
BEYOND = 1.000001


class Wake(NamedTuple):
    """The wake of one vehicle, as it is now, and how far at most it reaches."""

    down_W: Vec3
    air_W: Vec3  # velocity in m/s of the vehicle through the air
    radius2_m2: float  # of a disc of the area of all
    flux_m4ps2: float  # thrust over pi and the density
    core_mps: float
    decay_m2ps: float
    deepest_m: float  # below this it has ended
    core_half_m: float  # half its width, of the core
    half_per_m: float  # and of the jet, by its depth
    drift_m: float  # how far the air carries it
    drift_per_m: float  # and how much farther by the square of the depth


@kernel
def travel_time(depth_m: float, core_mps: float, decay_m2ps: float) -> float:
    """Seconds that the air on the axis takes from the rotors down to a depth."""
    core_m = decay_m2ps / core_mps
    if depth_m <= core_m:
        return depth_m / core_mps
    return core_m / core_mps + 0.5 * (depth_m * depth_m - core_m * core_m) / decay_m2ps


@inline
def wake_of(
    R_WB: Mat3, thrust_N: float, density_kg_m3: float, params: VehicleParams, air_W: Vec3
) -> Wake:
    """Wake of a vehicle that has thrust.

    Args:
        R_WB: its attitude.
        thrust_N: sum of its rotors' thrusts.
        density_kg_m3: of the air.
        params: its packed VehicleParams.
        air_W: its velocity through the air.
    """
    radius2 = params.rotor_directions_count * params.rotor.radius_m**2
    flux = thrust_N / (math.pi * density_kg_m3)
    core_mps, decay_m2ps = math.sqrt(2.0 * flux / radius2), JET_DECAY * math.sqrt(4.0 * flux)
    half = BEYOND * WIDTHS * math.sqrt(3.0 * flux)
    # travel_time is at most half of decay / core^2 + depth^2 / decay, which it is in the jet
    drift_mps = BEYOND * 0.5 * norm(air_W)
    return Wake(
        (-R_WB[0][2], -R_WB[1][2], -R_WB[2][2]),
        air_W,
        radius2,
        flux,
        core_mps,
        decay_m2ps,
        BEYOND * decay_m2ps / SLOWEST_MPS,
        half / core_mps,
        half / decay_m2ps,
        drift_mps * decay_m2ps / (core_mps * core_mps),
        drift_mps / decay_m2ps,
    )


@inline
def is_beyond(wake: Wake, offset_W: Vec3, depth_m: float) -> bool:
    """Whether a wake surely ends before a point: by its bounds, without a root or a division.

    Args:
        wake: of a vehicle.
        offset_W: the point from its centre of mass.
        depth_m: of it along the wake's axis.
    """
    if depth_m <= 0.0 or depth_m > wake.deepest_m:
        return True
    depth2 = depth_m * depth_m
    reach_m = max(wake.core_half_m, wake.half_per_m * depth_m)
    reach_m += wake.drift_m + wake.drift_per_m * depth2
    return dot(offset_W, offset_W) - depth2 > reach_m * reach_m


@kernel
def wake_at(wake: Wake, offset_W: Vec3, depth_m: float) -> Vec3:
    """Velocity in m/s (world axes) of a wake at a point; arguments as of :func:`is_beyond`."""
    still = (0.0, 0.0, 0.0)
    if depth_m <= 0.0:
        return still
    # on the axis: constant in the core, then that of a jet
    speed = min(wake.core_mps, wake.decay_m2ps / depth_m)
    if speed < SLOWEST_MPS:
        return still
    carried_s = travel_time(depth_m, wake.core_mps, wake.decay_m2ps)
    offset_W = add(offset_W, scale(carried_s, wake.air_W))
    along_m = dot(offset_W, wake.down_W)
    across2 = dot(offset_W, offset_W) - along_m * along_m
    width2 = 3.0 * wake.flux_m4ps2 / (speed * speed)
    if across2 > WIDTHS * WIDTHS * width2:
        return still
    begun = depth_m / math.sqrt(depth_m * depth_m + wake.radius2_m2)
    widths2 = across2 / width2
    left = min((speed - SLOWEST_MPS) / (FADES_MPS - SLOWEST_MPS), 1.0)
    left *= min((WIDTHS**2 - widths2) / (WIDTHS**2 - FADES_WIDTHS**2), 1.0)
    return scale(left * begun * speed / (1.0 + widths2) ** 2, wake.down_W)


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
