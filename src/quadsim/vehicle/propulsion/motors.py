"""Motors: how a rotor follows the speed that it is told, what it draws, and the battery.

``first_order``: ``dW/dt = (command - W) / tau``, one constant for speeding up and one for slowing
down (Furrer et al., *RotorS*, 2016, eq. 10, as in Gazebo's MulticopterMotorModel). A battery below
its nominal voltage limits the speed that can be reached: ``W <= W_max V / V_nominal``.

``electric``: a brushless motor as its direct-current equivalent, with K = 30 / (pi Kv),

- K (I - I_0) = J dW/dt + c k W^2,  V = K W + R I,  0 <= V <= battery voltage,

whose controller asks for the current that gives the first-order answer and gets what voltage and
current limit allow: at full voltage the motor cannot, and a battery that sags makes it slower. It
brakes by shorting the winding (V = 0). The battery gives I V / V_battery. (Bangura, Melega, Naldi,
Mahony, *Aerodynamics of rotor blades for quadrotors*, 2016, for the drag torque; the equivalent
circuit is that of any text on electric machines.)

Battery: ``V = E(charge) - R_0 I - U``, ``tau dU/dt = R_1 I - U`` (Chen and Rincon-Mora, *Accurate
electrical battery model*, IEEE Trans. Energy Conversion 21, 2006, with one of its two RC pairs).
The voltage does not fall below half of E - U, at which a source with a resistance gives the most
power. An empty battery ends: E falls to zero in the 3.6 % of its capacity below no charge.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, inline, kernel
from quadsim.base.elementary import exp
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.parameters import ELECTRIC, LITHIUM_POLYMER
from quadsim.vehicle.state import ROTOR, Vehicle

#: Nominal voltage of a lithium-polymer cell in V.
CELL_V = 3.7

#: Share of the nominal voltage below which a battery does not fall, so that a current is defined.
LEAST_SHARE = 0.05

#: Charge over the capacity at which the voltage is gone: the formula of Chen and Rincon-Mora is
#: zero there, and a battery of constant voltage falls as far in a straight line (ours).
DEAD_CHARGE = -0.0363305

#: What all motors of a vehicle have in common: static thrust over squared speed in N s^2; torque
#: over thrust in m; time constants up and down in s; 30 / (pi K) in rad/s/V, or A per N m; that
#: times the inertia; current without load in A; 1 / resistance; 1 / inertia; limit of the current
#: in A, or 0; voltage of the battery.
Motors = tuple[float, float, float, float, float, float, float, float, float, float, float]


@inline
def wanted_speed(i: int, vehicle: Vehicle) -> float:
    """Speed in rad/s that motor ``i`` goes for; a weak one gives its share of the thrust."""
    command = vehicle.inputs.rotor_command_radps[i]
    share = vehicle.held.effectiveness[i]
    return float(command if share == 1.0 else command * math.sqrt(share))


@inline
def in_common(vehicle: Vehicle, params: VehicleParams) -> Motors:
    """What all motors of a vehicle have in common, see :data:`Motors`; once for all of them."""
    motor, held = params.motor, vehicle.held
    radps_per_V = math.pi / 30.0 * motor.kv_rpm_V
    return (
        held.density_ratio * params.thrust_coefficient_N_s2,
        params.torque_ratio_m,
        params.time_constant_up_s,
        params.time_constant_down_s,
        radps_per_V,
        radps_per_V * params.rotor.inertia_kg_m2,
        motor.no_load_current_A,
        1.0 / motor.resistance_ohm,
        1.0 / params.rotor.inertia_kg_m2,
        motor.current_max_A,
        held.battery_V,
    )


@inline
def drag_torque_Nm(speed_radps: float, common: Motors) -> float:
    """Torque of the air that brakes one rotor."""
    static = common[0] * speed_radps**2
    return common[1] * static


@inline
def follow_speed(wanted_radps: float, speed_radps: float, up_s: float, down_s: float) -> float:
    """What a motor of first order does, in rad/s^2."""
    error = wanted_radps - speed_radps
    return error / (up_s if error > 0.0 else down_s)


@inline
def winding(wanted_radps: float, speed_radps: float, common: Motors) -> tuple[float, float]:
    """Current in A through an electric motor, and its angular acceleration in rad/s^2."""
    (
        _,
        _,
        up_s,
        down_s,
        radps_per_V,
        swing_A,
        no_load_A,
        conductance,
        mobility,
        limit_A,
        battery_V,
    ) = common
    back_V = speed_radps / radps_per_V
    friction_A = no_load_A * min(speed_radps, 1.0)  # none at rest
    load_Nm = drag_torque_Nm(speed_radps, common)
    wanted = follow_speed(wanted_radps, speed_radps, up_s, down_s)
    steady_A = radps_per_V * load_Nm + friction_A
    current_A = steady_A + swing_A * wanted
    lowest_A = -conductance * back_V
    highest_A = lowest_A + conductance * battery_V
    if limit_A > 0.0:
        lowest_A = max(lowest_A, -limit_A)
        highest_A = min(highest_A, limit_A)
    current_A = min(max(current_A, lowest_A), highest_A)
    return current_A, (current_A - steady_A) * mobility / radps_per_V


@inline
def accelerate_rotors(x: Array, vehicle: Vehicle, params: VehicleParams, x_dot: Array) -> None:
    """Write the angular accelerations of all rotors in rad/s^2.

    Args:
        x: (STATE_SIZE,) state, for their speeds.
        vehicle: VEHICLE record, with the commanded speeds in its inputs.
        params: packed VehicleParams.
        x_dot: (STATE_SIZE,) of which the rotors' elements are written.
    """
    common = in_common(vehicle, params)
    if params.motor.model == ELECTRIC:
        for i in range(params.rotor_directions_count):
            x_dot[ROTOR + i] = winding(wanted_speed(i, vehicle), x[ROTOR + i], common)[1]
        return
    full_V, battery_V = params.battery.voltage_V, vehicle.held.battery_V
    for i in range(params.rotor_directions_count):
        wanted_radps = wanted_speed(i, vehicle)
        if wanted_radps * full_V > params.rotor_speed_max_radps * battery_V:
            wanted_radps = params.rotor_speed_max_radps * battery_V / full_V
        x_dot[ROTOR + i] = follow_speed(wanted_radps, x[ROTOR + i], common[2], common[3])


@inline
def motor_current_A(
    i: int, speed_radps: float, vehicle: Vehicle, params: VehicleParams, common: Motors
) -> float:
    """Current in A that motor ``i`` draws from the battery; negative while it brakes.

    Without an electric model it is shaft power over efficiency and voltage.
    """
    battery_V = vehicle.held.battery_V
    if params.motor.model == ELECTRIC:
        current_A = winding(wanted_speed(i, vehicle), speed_radps, common)[0]
        back_V = speed_radps / common[4]
        return float(current_A * (back_V + params.motor.resistance_ohm * current_A) / battery_V)
    shaft_W = drag_torque_Nm(speed_radps, common) * abs(speed_radps)
    return float(shaft_W / (params.battery.efficiency * battery_V))


@kernel
def open_circuit_V(charge_C: float, params: VehicleParams) -> float:
    """Voltage of the battery without load.

    Lithium polymer: 3.685 - 1.031 exp(-35 s) + 0.2156 s - 0.1178 s^2 + 0.3201 s^3 V a cell at the
    state of charge s (Chen and Rincon-Mora, eq. 2), with as many cells as 3.7 V go into the nominal
    voltage. Below no charge the same formula falls to zero.
    """
    battery = params.battery
    s = min(max(charge_C / (3600.0 * battery.capacity_Ah), DEAD_CHARGE), 1.0)
    if battery.open_circuit != LITHIUM_POLYMER:
        return float(battery.voltage_V * min(1.0 - s / DEAD_CHARGE, 1.0))
    cell_V = 3.685 - 1.031 * exp(-35.0 * s) + s * (0.2156 + s * (0.3201 * s - 0.1178))
    return float(battery.voltage_V / CELL_V * max(cell_V, 0.0))


@inline
def battery_step(vehicle: Vehicle, params: VehicleParams, dt_s: float) -> None:
    """Draw the motors' charge over one step and hold the battery's voltage for the next.

    Args:
        vehicle: VEHICLE record; its charge, polarization and held voltage change.
        params: packed VehicleParams.
        dt_s: length of the step.
    """
    battery = params.battery
    current_A = 0.0
    common = in_common(vehicle, params)
    for i in range(params.rotor_directions_count):
        current_A += motor_current_A(i, vehicle.x[ROTOR + i], vehicle, params, common)
    vehicle.charge_C -= current_A * dt_s
    if battery.polarization_ohm > 0.0:
        drop_V = battery.polarization_ohm * current_A
        left = exp(-dt_s / battery.polarization_s)
        vehicle.polarization_V = drop_V + left * (vehicle.polarization_V - drop_V)
    source_V = open_circuit_V(vehicle.charge_C, params) - vehicle.polarization_V
    voltage_V = max(source_V - battery.resistance_ohm * current_A, 0.5 * source_V)
    vehicle.held.battery_V = max(voltage_V, LEAST_SHARE * battery.voltage_V)
