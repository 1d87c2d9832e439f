"""Motors: how a rotor follows the speed that it is told, what it draws, and the battery.

First order: ``d omega/dt = (command - omega) / tau`` with one constant for speeding up and one for
slowing down (Furrer et al., *RotorS*, 2016, eq. 10, as in Gazebo's MulticopterMotorModel).
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.compiled import kernel
from quadsim.vehicle.state import ROTOR


@kernel
def wanted_speed(i: int, vehicle: Any) -> float:
    """Speed in rad/s that motor ``i`` goes for; a weak one gives its share of the thrust."""
    command = float(vehicle.inputs.rotor_command_radps[i])
    share = vehicle.held.effectiveness[i]
    return command if share == 1.0 else command * math.sqrt(share)


@kernel
def rotor_acceleration(i: int, speed_radps: float, vehicle: Any, params: Any) -> float:
    """Angular acceleration of rotor ``i`` in rad/s^2.

    Args:
        i: rotor.
        speed_radps: its speed.
        vehicle: VEHICLE record, with the commanded speeds in its inputs.
        params: packed VehicleParams.
    """
    error = wanted_speed(i, vehicle) - speed_radps
    constant = params.time_constant_up_s if error > 0.0 else params.time_constant_down_s
    return float(error / constant)


@kernel
def motor_current_A(i: int, speed_radps: float, vehicle: Any, params: Any) -> float:
    """Electric current of motor ``i`` in A: shaft power over efficiency and voltage."""
    shaft_W = params.thrust_coefficient_N_s2 * params.torque_ratio_m * abs(speed_radps) ** 3
    return float(shaft_W / (params.battery.efficiency * params.battery.voltage_V))


@kernel
def battery_step(vehicle: Any, params: Any, dt_s: float) -> None:
    """Draw the motors' charge over one step and hold the battery's voltage for the next.

    Args:
        vehicle: VEHICLE record; its charge and held voltage change.
        params: packed VehicleParams.
        dt_s: length of the step.
    """
    current_A = 0.0
    for i in range(params.rotor_directions_count):
        current_A += motor_current_A(i, vehicle.x[ROTOR + i], vehicle, params)
    vehicle.charge_C -= current_A * dt_s
    vehicle.held.battery_V = params.battery.voltage_V
