"""Where each part of a vehicle's state lies, and the records of what acts on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import lane_kernel, record_dtype
from quadsim.base.parameters import Vec3
from quadsim.base.records import MAX_ROTORS

Array = NDArray[np.float64]

#: State x: position p_W, velocity v_W, attitude (as the formalism keeps it), body rates w_B and
#: rotor speeds; then what few vehicles have: the quaternion's rate (formalism ``constraint``), and
#: position and velocity of a slung load in W.
P, V, Q, W, ROTOR = 0, 3, 6, 10, 13
Q_DOT = ROTOR + MAX_ROTORS
LOAD_P = Q_DOT + 4
LOAD_V = LOAD_P + 3
STATE_SIZE = LOAD_V + 3

#: What acts on a vehicle from outside, held until it is set anew.
INPUTS = record_dtype(
    [
        ("rotor_command_radps", np.float64, (MAX_ROTORS,)),
        ("external_force_W_N", np.float64, (3,)),
        ("external_torque_B_Nm", np.float64, (3,)),
        # of the other vehicles, from their motion at the start of the step
        ("neighbour_force_W_N", np.float64, (3,)),
        ("neighbour_torque_B_Nm", np.float64, (3,)),
        ("downwash_W_mps", np.float64, (3,)),
    ]
)

#: What is held over one step of the integration.
HELD = record_dtype(
    [
        ("mass_kg", np.float64),
        ("density_ratio", np.float64),  # of the air, over that at which the coefficients hold
        ("wind_W_mps", np.float64, (3,)),  # downwash included
        ("ground_m", np.float64),  # height of the ground below, in map
        ("height_m", np.float64),  # of the centre of mass above the ground below
        ("battery_V", np.float64),
        ("motor_current_A", np.float64, (MAX_ROTORS,)),  # at the last truth
        ("effectiveness", np.float64, (MAX_ROTORS,)),  # 1 healthy, 0 lost
        ("thrust_gain", np.float64, (MAX_ROTORS,)),  # by ground effect
        ("push_W_N", np.float64, (3,)),  # force and torque of disturbances
        ("push_B_Nm", np.float64, (3,)),
    ]
)


@lane_kernel
def three(x: Array, start: int) -> Vec3:
    """Three elements of a state from ``start`` on."""
    return (x[start], x[start + 1], x[start + 2])
