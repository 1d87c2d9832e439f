"""Where each part of a vehicle's state lies, and the records of what acts on it."""

from __future__ import annotations

from quadsim.base.compiled import Array, Record, Vector, inline
from quadsim.base.parameters import Vec3
from quadsim.base.records import MAX_ROTORS, PerRotor

#: State x: position p_W, velocity v_W, attitude (as the formalism keeps it), body rates w_B and
#: rotor speeds; then what few vehicles have: the quaternion's rate (formalism ``constraint``), and
#: position and velocity of a slung load in W.
P, V, Q, W, ROTOR = 0, 3, 6, 10, 13
Q_DOT = ROTOR + MAX_ROTORS
LOAD_P = Q_DOT + 4
LOAD_V = LOAD_P + 3
STATE_SIZE = LOAD_V + 3


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


@inline
def three(x: Array, start: int) -> Vec3:
    """Three elements of a state from ``start`` on."""
    return (x[start], x[start + 1], x[start + 2])
