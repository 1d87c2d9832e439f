"""Electric motors and the battery against scipy and closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import ContactParams, VehicleParams
from quadsim.vehicle.propulsion.motors import (
    accelerate_rotors,
    battery_step,
    in_common,
    motor_current_A,
    open_circuit_V,
)
from quadsim.vehicle.propulsion.parameters import BatteryParams, MotorParams, RotorParams
from quadsim.vehicle.state import ROTOR, STATE_SIZE, VEHICLE
from quadsim.world.environment import EnvironmentParams

SECOND_NS = 1_000_000_000
KV, OHM, IDLE_A, INERTIA = 920.0, 0.12, 0.6, 2.65e-5
CONSTANT = 60.0 / (2.0 * math.pi * KV)  # V s/rad, and N m/A
X500 = load(VehicleParams, find("vehicles", "x500"))
DRAG = X500.thrust_coefficient_N_s2 * X500.torque_ratio_m  # N m s^2
ELECTRIC = replace(
    X500,
    contact=ContactParams(points_B_m=()),
    rotor=RotorParams(inertia_kg_m2=INERTIA),
    rotor_speed_max_radps=2000.0,
    motor=MotorParams("electric", KV, OHM, IDLE_A),
    battery=BatteryParams(capacity_Ah=5.0, voltage_V=14.8),
)


def record(params, speeds=(), commands=(), battery_V=14.8):
    vehicle = np.zeros(1, VEHICLE)[0]
    vehicle.x[ROTOR : ROTOR + len(speeds)] = speeds
    vehicle.inputs.rotor_command_radps[: len(commands)] = commands
    vehicle.held.effectiveness[:] = vehicle.held.density_ratio = 1.0
    vehicle.held.battery_V = battery_V
    vehicle.charge_C = params.battery.capacity_Ah * 3600.0
    return vehicle


def acceleration(i, speed, vehicle, packed):
    """Of one rotor, rad/s^2."""
    x, x_dot = np.zeros(STATE_SIZE), np.zeros(STATE_SIZE)
    x[ROTOR + i] = speed
    accelerate_rotors(x, vehicle, packed, x_dot)
    return x_dot[ROTOR + i]


def current_A(i, speed, vehicle, packed):
    """Of one motor."""
    return motor_current_A(i, speed, vehicle, packed, in_common(vehicle, packed))


def spin(params, command, seconds, start=0.0):
    """Rotor speed of a fleet's vehicle after a command."""
    fleet = Fleet(params, EnvironmentParams())
    fleet.set_motor_command(0, [command] * 4)
    fleet.set_motion(0, (0.0, 0.0, 1e3), rotor_speeds_radps=[start] * 4)
    fleet.step_to(round(seconds * SECOND_NS))
    return float(fleet.motor_speeds(0)[0])


def armature(battery_V, wanted, tau_s, most_A=math.inf):
    """The motor written from its circuit: a controller of the voltage, limited by the battery."""

    def slope(_, state):
        speed = state[0]
        friction_Nm = CONSTANT * IDLE_A * min(speed, 1.0)
        torque_Nm = INERTIA * (wanted - speed) / tau_s + DRAG * speed**2 + friction_Nm
        volts = CONSTANT * speed + OHM * torque_Nm / CONSTANT
        volts = min(max(volts, 0.0), battery_V)
        amps = min(max((volts - CONSTANT * speed) / OHM, -most_A), most_A)
        return [(CONSTANT * amps - DRAG * speed**2 - friction_Nm) / INERTIA]

    return slope


@pytest.mark.parametrize(
    ("battery_V", "wanted", "start", "most_A"),
    [
        (14.8, 900.0, 0.0, math.inf),  # the voltage limits the first part
        (11.0, 1500.0, 300.0, math.inf),  # and here all of it
        (14.8, 100.0, 1000.0, math.inf),  # braked by a short
        (14.8, 900.0, 200.0, 20.0),  # limited by the current
    ],
)
def test_spin_up_and_down_are_those_of_the_circuit(battery_V, wanted, start, most_A):
    limit_A = most_A if math.isfinite(most_A) else 0.0
    params = replace(
        ELECTRIC,
        motor=replace(ELECTRIC.motor, current_max_A=limit_A),
        battery=replace(ELECTRIC.battery, voltage_V=battery_V),
        time_constant_up_s=0.005,
        time_constant_down_s=0.005,
    )
    reference = solve_ivp(
        armature(battery_V, wanted, 0.005, most_A),
        (0.0, 0.04),
        [start],
        method="LSODA",
        rtol=1e-9,
        atol=1e-9,
        max_step=1e-4,
    )
    speed = spin(params, wanted, 0.04, start)
    # the limits are corners, on which RK4 at 1 ms is of second order: (dt/tau)^2 of 20 rad/s
    assert speed == pytest.approx(reference.y[0, -1], abs=0.5)
    unlimited = wanted + (start - wanted) * math.exp(-0.04 / 0.005)
    assert abs(speed - unlimited) > 1.0 or battery_V == 14.8


@pytest.mark.many
def test_top_speed_is_where_the_voltage_ends():
    """K (V - K w) / R - K I_0 = c k w^2, the positive root."""
    for battery_V in (10.0, 14.8):
        params = replace(ELECTRIC, battery=replace(ELECTRIC.battery, voltage_V=battery_V))
        b = CONSTANT**2 / OHM
        c = CONSTANT * (battery_V / OHM - IDLE_A)
        top = (-b + math.sqrt(b * b + 4.0 * DRAG * c)) / (2.0 * DRAG)
        assert spin(params, 2000.0, 1.0) == pytest.approx(top, rel=1e-6)


def test_an_electric_motor_with_volts_to_spare_is_of_first_order():
    first = replace(ELECTRIC, motor=MotorParams())
    strong = replace(ELECTRIC, battery=replace(ELECTRIC.battery, voltage_V=200.0))
    assert spin(strong, 800.0, 0.02, 700.0) == pytest.approx(spin(first, 800.0, 0.02, 700.0))


def test_a_weak_motor_gives_its_share_of_the_thrust():
    vehicle = record(X500, [0.0] * 4, [800.0] * 4)
    vehicle.held.effectiveness[1] = 0.5
    vehicle.held.effectiveness[2] = 0.0
    packed = pack(X500)
    for i, share in ((0, 1.0), (1, 0.5), (2, 0.0)):
        speed = 800.0 * math.sqrt(share)
        assert acceleration(i, speed, vehicle, packed) == pytest.approx(0.0, abs=1e-9)


def test_what_the_battery_gives_goes_into_air_heat_and_friction():
    packed = pack(ELECTRIC)
    speed = 800.0
    vehicle = record(ELECTRIC, [speed] * 4, [speed] * 4)
    amps = DRAG * speed**2 / CONSTANT + IDLE_A
    watts = DRAG * speed**3 + OHM * amps**2 + CONSTANT * speed * IDLE_A
    assert current_A(0, speed, vehicle, packed) == pytest.approx(watts / 14.8, rel=1e-12)
    # as a motor of first order: shaft power over efficiency and voltage
    first = replace(ELECTRIC, motor=MotorParams())
    expected = DRAG * speed**3 / (0.6 * 14.8)
    assert current_A(0, speed, vehicle, pack(first)) == pytest.approx(expected, rel=1e-12)


def test_no_current_at_rest():
    vehicle = record(ELECTRIC, [0.0] * 4, [0.0] * 4)
    assert current_A(0, 0.0, vehicle, pack(ELECTRIC)) == 0.0
    assert acceleration(0, 0.0, vehicle, pack(ELECTRIC)) == 0.0


@pytest.mark.parametrize(
    ("state", "cell_V"),
    # Chen and Rincon-Mora 2006, eq. 2, by hand
    [(1.0, 4.1029), (0.5, 3.80336), (0.1, 3.67457), (0.0, 2.654), (-0.02, 1.60446), (-0.1, 0.0)],
)
def test_open_circuit_voltage_of_lithium_polymer(state, cell_V):
    battery = BatteryParams(voltage_V=14.8, capacity_Ah=2.0, open_circuit="lithium_polymer")
    packed = pack(replace(X500, battery=battery))
    assert open_circuit_V(state * 7200.0, packed) == pytest.approx(4.0 * cell_V, abs=4e-4)


def test_the_voltage_sags_and_relaxes():
    """A steady power P behind R_0: V = (E + sqrt(E^2 - 4 R_0 P)) / 2."""
    battery = BatteryParams(capacity_Ah=1000.0, voltage_V=14.8, efficiency=0.5, resistance_ohm=0.05)
    params = replace(X500, battery=battery)
    vehicle = record(params, [800.0] * 4, [800.0] * 4)
    for _ in range(50):
        battery_step(vehicle, pack(params), 1e-3)
    watts = 4.0 * DRAG * 800.0**3 / 0.5
    sagged = (14.8 + math.sqrt(14.8**2 - 4.0 * 0.05 * watts)) / 2.0
    assert vehicle.held.battery_V == pytest.approx(sagged, rel=1e-9)
    assert sagged < 14.0


def test_the_rc_pair_lags():
    """U = R_1 I (1 - exp(-t / tau)), and it decays when the motors stop."""
    battery = BatteryParams(
        capacity_Ah=1000.0, voltage_V=14.8, polarization_ohm=1e-4, polarization_s=0.5
    )
    params = replace(X500, battery=battery)
    vehicle = record(params, [800.0] * 4, [800.0] * 4)
    amps = 4.0 * DRAG * 800.0**3 / (0.6 * 14.8)
    for _ in range(30):
        battery_step(vehicle, pack(params), 0.01)
    lagged = 1e-4 * amps * (1.0 - math.exp(-0.3 / 0.5))
    # the voltage falls by 2e-4 of it, by which the current grows
    assert 14.8 - vehicle.held.battery_V == pytest.approx(lagged, rel=1e-3)
    vehicle.x[ROTOR : ROTOR + 4] = 0.0
    for _ in range(50):
        battery_step(vehicle, pack(params), 0.01)
    assert 14.8 - vehicle.held.battery_V == pytest.approx(lagged * math.exp(-1.0), rel=1e-3)


@pytest.mark.parametrize("battery_V", [14.8, 11.1, 7.4, 20.0])
def test_the_voltage_limits_a_motor_of_first_order(battery_V):
    """Full speed at the nominal voltage; below it in proportion, as without load by W = V / K."""
    vehicle, packed = record(X500, [0.0] * 4, [1000.0] * 4, battery_V), pack(X500)
    top = 1000.0 * min(battery_V / 14.8, 1.0)
    assert acceleration(0, top, vehicle, packed) == pytest.approx(0.0, abs=1e-9)
    assert acceleration(0, top - 10.0, vehicle, packed) > 0.0
    assert vehicle.inputs.rotor_command_radps[0] == 1000.0  # what it was told stays


@pytest.mark.parametrize("name", ["x500", "iris", "hummingbird", "crazyflie2", "phantom4", "fcnd"])
def test_an_empty_battery_ends_the_flight(name):
    """At full throttle from a charge of nothing: the 3.6 % below it last for half a second."""
    params = load(VehicleParams, find("vehicles", name))
    small = replace(params, battery=replace(params.battery, capacity_Ah=0.02))
    top = [params.rotor_speed_max_radps] * len(params.rotor_directions)
    fleet = Fleet(small, EnvironmentParams(), charge=0.0)
    fleet.set_motor_command(0, top)
    fleet.set_motion(0, (0.0, 0.0, 1e3), rotor_speeds_radps=top)
    fleet.step_to(3 * SECOND_NS)
    assert fleet.truth(0).v_W[2] < -5.0
    assert fleet.battery_charge(0) == 0.0
    charged = Fleet(params, EnvironmentParams())
    charged.set_motor_command(0, top)
    charged.set_motion(0, (0.0, 0.0, 1e3), rotor_speeds_radps=top)
    charged.step_to(SECOND_NS // 10)
    # full throttle takes a full battery of three cells just below its nominal voltage
    assert charged.motor_speeds(0).min() > 0.99 * top[0]


def test_a_battery_gives_no_more_than_it_can():
    """P = V (E - V) / R is largest at half of E; a load beyond it takes the voltage there."""
    battery = BatteryParams(capacity_Ah=1000.0, voltage_V=14.8, efficiency=0.5, resistance_ohm=0.5)
    params = replace(X500, battery=battery)
    vehicle = record(params, [1000.0] * 4, [1000.0] * 4)
    watts = 4.0 * DRAG * 1000.0**3 / 0.5
    assert watts > 14.8**2 / (4.0 * 0.5)
    for _ in range(50):
        battery_step(vehicle, pack(params), 1e-3)
        assert vehicle.held.battery_V >= 7.4 - 1e-9


def test_charge_is_the_integral_of_the_current():
    params = replace(X500, battery=BatteryParams(capacity_Ah=5.0, voltage_V=14.8))
    vehicle = record(params, [700.0] * 4, [700.0] * 4)
    for _ in range(100):
        battery_step(vehicle, pack(params), 1e-2)
    used_C = 5.0 * 3600.0 - vehicle.charge_C
    assert used_C == pytest.approx(4.0 * DRAG * 700.0**3 / (0.6 * 14.8), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rotor": RotorParams()}, "inertia_kg_m2"),
        ({"motor": MotorParams("electric", 200.0, OHM)}, r"hover takes 36\.9 V of 14\.8 V"),
        ({"motor": MotorParams("electric", KV, OHM, 0.0, 5.0)}, r"hover takes 7\.8 A"),
    ],
)
def test_motors_that_cannot_hover_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        replace(ELECTRIC, **change)


def test_an_electric_motor_needs_a_winding():
    with pytest.raises(InputError, match="kv_rpm_V: 0 with resistance_ohm 0"):
        MotorParams("electric")
