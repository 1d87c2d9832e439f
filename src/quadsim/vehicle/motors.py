"""Motors: how a rotor follows the speed that it is told, what it draws, and the battery.

``first_order``: ``dW/dt = (command - W) / tau``, one constant for speeding up and one for slowing
down (Furrer et al., *RotorS*, 2016, eq. 10, as in Gazebo's MulticopterMotorModel).

``electric``: a brushless motor as its direct-current equivalent, with K = 30 / (pi Kv),

- K (I - I_0) = J dW/dt + c k W^2,  V = K W + R I,  0 <= V <= battery voltage,

whose controller asks for the current that gives the first-order answer and gets what voltage and
current limit allow: at full voltage the motor cannot, and a battery that sags makes it slower. It
brakes by shorting the winding (V = 0). The battery gives I V / V_battery. (Bangura, Melega, Naldi,
Mahony, *Aerodynamics of rotor blades for quadrotors*, 2016, for the drag torque; the equivalent
circuit is that of any text on electric machines.)

Battery: ``V = E(charge) - R_0 I - U``, ``tau dU/dt = R_1 I - U`` (Chen and Rincon-Mora, *Accurate
electrical battery model*, IEEE Trans. Energy Conversion 21, 2006, with one of its two RC pairs).
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.compiled import kernel, lane_kernel
from quadsim.vehicle.propulsion import ELECTRIC, LITHIUM_POLYMER
from quadsim.vehicle.state import ROTOR

#: Nominal voltage of a lithium-polymer cell in V.
CELL_V = 3.7

#: Share of the nominal voltage below which a battery does not fall, so that a current is defined.
LEAST_SHARE = 0.05


@lane_kernel
def wanted_speed(i: int, vehicle: Any) -> float:
    """Speed in rad/s that motor ``i`` goes for; a weak one gives its share of the thrust."""
    command = vehicle.inputs.rotor_command_radps[i]
    share = vehicle.held.effectiveness[i]
    return float(command if share == 1.0 else command * math.sqrt(share))


@kernel
def drag_torque_Nm(speed_radps: float, vehicle: Any, params: Any) -> float:
    """Torque of the air that brakes one rotor."""
    static = vehicle.held.density_ratio * params.thrust_coefficient_N_s2 * speed_radps**2
    return float(params.torque_ratio_m * static)


@kernel
def wanted_acceleration(i: int, speed_radps: float, vehicle: Any, params: Any) -> float:
    """What a motor of first order does, in rad/s^2."""
    error = wanted_speed(i, vehicle) - speed_radps
    constant = params.time_constant_up_s if error > 0.0 else params.time_constant_down_s
    return float(error / constant)


@kernel
def winding(i: int, speed_radps: float, vehicle: Any, params: Any) -> tuple[float, float]:
    """Current in A through an electric motor, and its angular acceleration in rad/s^2."""
    motor = params.motor
    radps_per_V = math.pi / 30.0 * motor.kv_rpm_V  # also A per N m; its inverse V s/rad and N m/A
    conductance, mobility = 1.0 / motor.resistance_ohm, 1.0 / params.rotor.inertia_kg_m2
    back_V = speed_radps / radps_per_V
    friction_A = motor.no_load_current_A * min(speed_radps, 1.0)  # none at rest
    load_Nm = drag_torque_Nm(speed_radps, vehicle, params)
    wanted = wanted_acceleration(i, speed_radps, vehicle, params)
    steady_A = radps_per_V * load_Nm + friction_A
    swing_A = radps_per_V * params.rotor.inertia_kg_m2  # per rad/s^2
    current_A = steady_A + swing_A * wanted
    lowest_A = -conductance * back_V
    highest_A = lowest_A + conductance * vehicle.held.battery_V
    if motor.current_max_A > 0.0:
        lowest_A = max(lowest_A, -motor.current_max_A)
        highest_A = min(highest_A, motor.current_max_A)
    current_A = min(max(current_A, lowest_A), highest_A)
    return current_A, (current_A - steady_A) * mobility / radps_per_V


@lane_kernel
def rotor_acceleration(i: int, speed_radps: float, vehicle: Any, params: Any) -> float:
    """Angular acceleration of rotor ``i`` in rad/s^2.

    Args:
        i: rotor.
        speed_radps: its speed.
        vehicle: VEHICLE record, with the commanded speeds in its inputs.
        params: packed VehicleParams.
    """
    if params.motor.model == ELECTRIC:
        return winding(i, speed_radps, vehicle, params)[1]
    return wanted_acceleration(i, speed_radps, vehicle, params)


@lane_kernel
def motor_current_A(i: int, speed_radps: float, vehicle: Any, params: Any) -> float:
    """Current in A that motor ``i`` draws from the battery; negative while it brakes.

    Without an electric model it is shaft power over efficiency and voltage.
    """
    battery_V = vehicle.held.battery_V
    if params.motor.model == ELECTRIC:
        current_A = winding(i, speed_radps, vehicle, params)[0]
        back_V = speed_radps / (math.pi / 30.0 * params.motor.kv_rpm_V)
        return float(current_A * (back_V + params.motor.resistance_ohm * current_A) / battery_V)
    shaft_W = drag_torque_Nm(speed_radps, vehicle, params) * abs(speed_radps)
    return float(shaft_W / (params.battery.efficiency * battery_V))


@kernel
def open_circuit_V(charge_C: float, params: Any) -> float:
    """Voltage of the battery without load.

    Lithium polymer: 3.685 - 1.031 exp(-35 s) + 0.2156 s - 0.1178 s^2 + 0.3201 s^3 V a cell at the
    state of charge s (Chen and Rincon-Mora, eq. 2), with as many cells as 3.7 V go into the nominal
    voltage.
    """
    battery = params.battery
    if battery.open_circuit != LITHIUM_POLYMER:
        return float(battery.voltage_V)
    s = min(max(charge_C / (3600.0 * battery.capacity_Ah), 0.0), 1.0)
    cell_V = 3.685 - 1.031 * math.exp(-35.0 * s) + s * (0.2156 + s * (0.3201 * s - 0.1178))
    return float(battery.voltage_V / CELL_V * cell_V)


@lane_kernel
def battery_step(vehicle: Any, params: Any, dt_s: float) -> None:
    """Draw the motors' charge over one step and hold the battery's voltage for the next.

    Args:
        vehicle: VEHICLE record; its charge, polarization and held voltage change.
        params: packed VehicleParams.
        dt_s: length of the step.
    """
    battery = params.battery
    current_A = 0.0
    for i in range(params.rotor_directions_count):
        current_A += motor_current_A(i, vehicle.x[ROTOR + i], vehicle, params)
    vehicle.charge_C -= current_A * dt_s
    if battery.polarization_ohm > 0.0:
        drop_V = battery.polarization_ohm * current_A
        left = math.exp(-dt_s / battery.polarization_s)
        vehicle.polarization_V = drop_V + left * (vehicle.polarization_V - drop_V)
    voltage_V = open_circuit_V(vehicle.charge_C, params) - vehicle.polarization_V
    voltage_V -= battery.resistance_ohm * current_A
    vehicle.held.battery_V = max(voltage_V, LEAST_SHARE * battery.voltage_V)
