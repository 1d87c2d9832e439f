"""Fly a hard climb on a low battery, with and without a mixer whose limit follows the voltage.

python docs/compare_battery.py

Prints the table of docs/control.md. The vehicle is `hexacopter`, whose motors are electric, with
the mass of a full load, on the truth. It is told to climb, aside and turning, with up to 15 m/s^2.
The battery's limits are 0; begun with 5 % it turns home at 11.5 s all the same, as its consumption
says.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml

from quadsim.base.files import find
from quadsim.base.parameters import read_yaml
from quadsim.geometry.rotation import quat, rotate, yaw_of
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.parameters import VehicleParams

MASS_KG = 15.0
FROM_S, TO_S = 9.0, 15.5
COMMANDS = [
    {"at_s": 9.0, "until_s": 10.9, "velocity_W_mps": [0.0, 0.0, 9.0]},
    {"at_s": 11.0, "until_s": 12.4, "velocity_W_mps": [8.0, 0.0, 9.0], "yaw_rate_radps": 1.5},
    {"at_s": 12.5, "until_s": 15.5, "velocity_W_mps": [-8.0, 4.0, 9.0], "yaw_rate_radps": -1.5},
]
#: (charge, time between two looks of the mixer at the voltage in ns; 0: it does not look)
FLIGHTS = ((1.0, 0), (0.1, 0), (0.1, 10**9), (0.05, 0), (0.05, 10**9), (0.05, 20_000_000))


def scenario_of(folder: Path, charge: float) -> Scenario:
    """The climb with a battery of this charge."""
    vehicle = read_yaml(find("vehicles", "hexacopter")) | {"mass_kg": MASS_KG}
    autopilot = read_yaml(find("autopilots", "default"))
    autopilot["flight"] = {
        "failsafe": {"battery_warn": 0.0, "battery_critical": 0.0},
        "arming": {"charge": 0.0},
        "ascent_mps": 15.0,
        "speed_mps": 12.0,
        "acceleration_mps2": 15.0,
    }
    scenario = {
        "vehicle": str(folder / "vehicle.yaml"),
        "autopilot": str(folder / "autopilot.yaml"),
        "fly_on": "truth",
        "duration_s": 16.0,
        "start": {"charge": charge},
        "mission": [{"takeoff": {"height_m": 3.0}}, {"hover": {"duration_s": 60.0}}],
        "commands": COMMANDS,
    }
    files = {"vehicle": vehicle, "autopilot": autopilot, "scenario": scenario}
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return load_scenario(str(folder / "scenario.yaml"))


def fastest_radps(vehicle: VehicleParams, voltage_V: float) -> float:
    """Steady speed at full voltage: the root of K (V - K W) / R - K I_0 = c k W^2."""
    motor = vehicle.motor
    constant = 30.0 / (math.pi * motor.kv_rpm_V)
    drag = vehicle.thrust_coefficient_N_s2 * vehicle.torque_ratio_m
    slope = constant**2 / motor.resistance_ohm
    stall = constant * (voltage_V / motor.resistance_ohm - motor.no_load_current_A)
    return (math.sqrt(slope * slope + 4.0 * drag * stall) - slope) / (2.0 * drag)


class Climb(ClosedLoop):
    """A closed loop that keeps an account, and may let the mixer know the voltage."""

    look_ns = 0

    def begin(self) -> None:
        """Before the first tick."""
        self.rows: list[tuple[float, ...]] = []
        self._full_radps = float(self.setup.airframe.rotor_speed_max_radps)
        self._full_mps2 = float(self.setup.airframe.thrust_max_mps2)

    def _follow(self) -> None:
        """What the motors reach at the voltage of now becomes the limit."""
        airframe, position = self.setup.airframe, self.state["position"]
        voltage_V = float(self.state.vehicle.held.battery_V)
        most = min(self._full_radps, fastest_radps(self.scenario.vehicle, voltage_V))
        airframe.rotor_speed_max_radps = most
        airframe.rotor_thrust_max_N = airframe.thrust_coefficient_N_s2 * most * most
        airframe.thrust_max_mps2 = self._full_mps2 * (most / self._full_radps) ** 2
        reserve = self.scenario.autopilot.attitude.thrust_reserve
        low, high = float(airframe.thrust_min_mps2), float(airframe.thrust_max_mps2)
        position["thrust_max"] = high - reserve * (high - low)

    def tick(self) -> None:
        """One tick, and a row: time, tilt error, yaw rate's error, height, voltage, account."""
        if self.look_ns and self.stamp_ns % self.look_ns < 20_000_000:
            self._follow()
        if self.manager.state == "disarmed" and self.manager.arm() is None:
            self.manager.start()
        super().tick()
        state, true = self.state, self.state["truth"][0]
        flown, asked = quat(true["q_WB"]), quat(state["command"]["q_WB"])
        z, wanted = rotate(flown, (0.0, 0.0, 1.0)), rotate(asked, (0.0, 0.0, 1.0))
        turn = yaw_of(flown) - yaw_of(asked)  # the command's yaw is ignored
        c, s = math.cos(turn), math.sin(turn)
        wanted = (c * wanted[0] - s * wanted[1], s * wanted[0] + c * wanted[1], wanted[2])
        tilt_deg = math.degrees(math.acos(min(1.0, float(np.dot(z, wanted)))))
        account = state["inner"]["attitude"]
        self.rows.append(
            (
                self.stamp_ns * 1e-9,
                tilt_deg,
                float(true["w_B"][2] - state["command"]["yaw_rate"]),
                float(true["p_W"][2]),
                float(state.vehicle.held.battery_V),
                float(account["mixed"]),
                float(account["short"]),
                float(account["missing"][0]),
            )
        )
        account["mixed"] = account["short"] = 0
        account["missing"] = 0.0


def main() -> None:
    """Print the table."""
    out = sys.stdout
    out.write("| charge | looks every | tilt error RMS, most (deg) | yaw rate error RMS (rad/s) |")
    out.write(" height won (m) | least voltage (V) | cut in | most thrust cut (N) |\n")
    for charge, look_ns in FLIGHTS:
        with tempfile.TemporaryDirectory() as folder:
            loop = Climb(scenario_of(Path(folder), charge))
        loop.look_ns = look_ns
        loop.begin()
        while loop.stamp_ns < TO_S * 1e9:
            loop.tick()
        time_s, tilt, yaw, height, volts, mixed, short, cut = np.array(loop.rows).T
        part = time_s > FROM_S
        out.write(
            f"| {100.0 * charge:.0f} % | {look_ns * 1e-9:g} s"
            f" | {np.sqrt(np.mean(tilt[part] ** 2)):.2f}, {tilt[part].max():.1f}"
            f" | {np.sqrt(np.mean(yaw[part] ** 2)):.2f} | {np.ptp(height[part]):.1f}"
            f" | {volts[part].min():.1f} | {100.0 * short[part].sum() / mixed[part].sum():.0f} %"
            f" | {cut[part].max():.0f} |\n"
        )


if __name__ == "__main__":
    main()
