"""The state of a vehicle and what it is stepped with: records alone, below every law.

A :class:`Vehicle` holds what lasts from step to step. Working memory that means nothing after a
step is in a :class:`Workspace`, which all vehicles of a world share.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Vector, inline
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.base.records import MAX_ROTORS, PerRotor
from quadsim.vehicle.contact.hull import MAX_FEET, MAX_HULL
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.world.air.wind import WIND_STATE
from quadsim.world.environment import EnvironmentParams

#: State x: position p_W, velocity v_W, attitude (as the formalism keeps it), body rates w_B and
#: rotor speeds; then what few vehicles have: the quaternion's rate (formalism ``constraint``), and
#: position and velocity of a slung load in W.
P, V, Q, W, ROTOR = 0, 3, 6, 10, 13
Q_DOT = ROTOR + MAX_ROTORS
LOAD_P = Q_DOT + 4
LOAD_V = LOAD_P + 3
STATE_SIZE = LOAD_V + 3

#: Each point of a vehicle may touch the ground and one obstacle at once.
SURFACES = 2
SLOTS = SURFACES * (MAX_FEET + MAX_HULL)

#: The ropes: of a slung load, and a tether.
SLUNG, TETHER = 0, 1
ROPES = 2

#: What stopped a vehicle's motion.
FAULTS = ("", "the motion went to infinity", "gimbal lock: pitch is at 90 degrees")
NO_FAULT, NOT_FINITE, GIMBAL_LOCK = range(3)


class VehicleInputs(Record):
    """What acts on a vehicle from outside, held until it is set anew."""

    rotor_command_radps: PerRotor
    external_force_W_N: Vector
    external_torque_B_Nm: Vector
    # of the other vehicles, from their motion at the start of the step
    neighbour_force_W_N: Vector
    neighbour_torque_B_Nm: Vector
    downwash_W_mps: Vector


class Held(Record):
    """What is held over one step of the integration."""

    mass_kg: float
    density_ratio: float  # of the air, over that at which the coefficients hold
    wind_W_mps: Vector  # downwash included
    ground_m: float  # height of the ground below, in map
    height_m: float  # of the centre of mass above the ground below
    battery_V: float
    motor_current_A: PerRotor  # at the last truth
    effectiveness: PerRotor  # 1 healthy, 0 lost
    thrust_gain: PerRotor  # by ground effect
    push_W_N: Vector  # force and torque of disturbances
    push_B_Nm: Vector


class Feet(Record):
    """Contacts of one vehicle.

    A surface is held as its tangent plane, n.x = offset, over each step.
    """

    near: int  # how many of `slots` count
    slots: Annotated[NDArray[np.int64], SLOTS]  # point times SURFACES plus the kind of surface
    state: Annotated[NDArray[np.int64], SLOTS]  # FAR, NEAR, TOUCHING
    normal_W: Annotated[Array, SLOTS, 3]
    offset_m: Annotated[Array, SLOTS]
    anchor_W_m: Annotated[Array, SLOTS, 3]  # where the spring of friction is tied
    approach_mps: Annotated[Array, SLOTS]  # speed that counts at a touch, before it
    free_at_W_m: Vector  # about there no obstacle is
    free_m: float  # within this distance
    clear_at_W_m: Vector  # about there nothing is at all
    clear_m: float  # within this distance
    reach_m: float  # of the farthest point; 0: what follows is not known yet
    foot_N_m: float  # stiffness of a foot, N/m
    foot_Ns_m: float  # its damping, N s/m
    hull_N_m: float
    hull_Ns_m: float
    body_radius_m: float  # the upright cylinder around all points
    body_middle_m: float
    body_half_m: float
    tilted_s: float  # for how long it lies tilted
    impact_mps: float  # speed of the last touch


class Load(Record):
    """What is held over a step.

    The nearest surface as unit normal and height along it, where friction holds the load while
    it touches, and the air.
    """

    normal_W: Vector
    offset_m: float
    touches: int
    anchor_W_m: Vector
    air_density_kg_m3: float
    looked_W_m: Vector  # where surfaces were looked for last,
    clear_m: float  # and how far around there are none


class Suspension(Record):
    """Ropes that are taut and their tensions, and the load."""

    taut: Annotated[NDArray[np.int64], ROPES]
    released: int  # the load has been let go, and its rope with it
    tension_N: Annotated[Array, ROPES]
    load: Load


class Vehicle(Record):
    """One vehicle of a fleet."""

    x: Annotated[Array, STATE_SIZE]
    last_x: Annotated[Array, STATE_SIZE]  # at the start of the last step
    R_WB: Annotated[Array, 9]  # of the formalism `matrix`, at the start of the step
    inputs: VehicleInputs
    held: Held
    wind: Annotated[Any, WIND_STATE]
    wind_from_W_mps: Vector  # at both ends of the period
    wind_to_W_mps: Vector
    feet: Feet
    suspension: Suspension
    charge_C: float
    polarization_V: float  # over the RC pair of the battery
    contact: int
    crash: int
    fault: int
    fault_ns: int


class RopeRows(Record):
    """Ropes as rows of a Lagrange constraint, and the working memory of its solver."""

    normal_W: Annotated[Array, ROPES, 3]
    turn_B_m: Annotated[Array, ROPES, 3]
    mobility: Annotated[Array, ROPES, ROPES]
    residual: Annotated[Array, ROPES]
    multiplier: Annotated[Array, ROPES]
    sides: Annotated[NDArray[np.int64], ROPES]
    status: Annotated[NDArray[np.int64], ROPES]
    elimination: Annotated[Array, ROPES + 1, ROPES]


class Workspace(Record):
    """Working memory of a step; nothing of it lasts."""

    slopes: Annotated[Array, 3, STATE_SIZE]  # of the integrator
    ropes: RopeRows


VEHICLE, WORKSPACE = dtype_of(Vehicle), dtype_of(Workspace)

#: Vehicle, its parameters, the world's, how the motion is computed, and working memory.
Model = tuple[Vehicle, VehicleParams, EnvironmentParams, PhysicsParams, Workspace]


@inline
def three(x: Array, start: int) -> Vec3:
    """Three elements of a state from ``start`` on."""
    return (x[start], x[start + 1], x[start + 2])
