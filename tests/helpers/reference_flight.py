"""The motion of a vehicle by an adaptive integrator, which fixed steps are measured against."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from quadsim.base.errors import FlightError
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.multirotor import derivative
from quadsim.vehicle.state import ROTOR, STATE_SIZE


def reference_state(
    fleet: Fleet, duration_s: float, tolerance: float = 1e-13
) -> NDArray[np.float64]:
    """State of a fleet's first vehicle after a time, under what is held now.

    Held are the motor commands, the wind, the battery's voltage and the ground effect; nothing may
    be near enough to be touched. By Dormand and Prince's method of eighth order, as scipy has it
    (Hairer, Norsett and Wanner, *Solving ODEs I*, II.5).

    Args:
        fleet: of the formalism ``quaternion``; it is not advanced.
        duration_s: how far to integrate.
        tolerance: relative and absolute, of each step.

    Returns:
        (ROTOR + rotors,) state, see :mod:`quadsim.vehicle.state`, its quaternion normalised.

    Raises:
        FlightError: no step is small enough.
    """
    model: Any = fleet.model(0)
    vehicle = model[0]
    size = ROTOR + fleet.rotor_count

    def rates(_: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        x, x_dot = np.zeros(STATE_SIZE), np.zeros(STATE_SIZE)
        x[:size] = state
        derivative(x, model, x_dot)
        return x_dot[:size]

    start = np.array(vehicle.x[:size])
    found = solve_ivp(rates, (0.0, duration_s), start, "DOP853", rtol=tolerance, atol=tolerance)
    if not found.success:
        raise FlightError(f"no adaptive solution: {found.message}")
    end: NDArray[np.float64] = found.y[:, -1]
    end[6:10] /= np.linalg.norm(end[6:10])
    return end
