"""What one step of one vehicle costs, RK4 at 1 kHz, in a compiled loop on one core.

``python benchmarks/vehicle_step.py`` prints one JSON object: nanoseconds of processor time a step,
median of runs of one simulated second, wind and its random numbers included. An x500 hovers by
constant rotor speeds, 30 m above the ground or 0.5 m.

- ``drag_only``: thrust, drag torque, rotor drag and linear body drag; calm air.
- ``everything``: also inflow, translational lift, flapping with hinges, electric motors, battery
  sag, quadratic drag, air density by height, normal gravity, wind with shear and Dryden turbulence.
- ``..._low``: the same near the ground: ground effect, and the search for contact.
- ``slung_load``: everything, with a load on a rope.
- ``formalism_...``: drag only, by the other formalisms.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from dataclasses import replace

import numpy as np

from quadsim.analysis.surroundings import machine, versions
from quadsim.files import find
from quadsim.parameters import load
from quadsim.vehicle.crowd import drag_model
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import LoadParams, VehicleParams
from quadsim.vehicle.physics import FORMALISMS, PhysicsParams
from quadsim.vehicle.propulsion import MotorParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.wind_parameters import WindParams

SECOND_NS, STEPS, RUNS = 1_000_000_000, 1000, 41
HIGH_M, LOW_M = 30.0, 0.5

X500 = load(VehicleParams, find("vehicles", "x500"))
#: The x500 with every effect; figures of ordinary size, as only their cost counts here.
EVERYTHING = replace(
    X500,
    drag_area_m2=(0.02, 0.02, 0.04),
    air_density_kg_m3=1.225,
    rotor=replace(
        X500.rotor,
        inflow_N_s2=1e-4,
        translational_lift_N_s2_m2=1e-3,
        flapping_rad=0.5,
        hinge_stiffness_N_m=0.1,
    ),
    motor=MotorParams(
        model="electric", kv_rpm_V=920.0, resistance_ohm=0.1, no_load_current_A=0.5
    ),
)  # fmt: skip
STORMY = EnvironmentParams(
    gravity="model",
    wind_W_mps=(3.0, 1.0, 0.0),
    wind=WindParams(shear="log", turbulence="dryden"),
)


def step_ns(
    params: VehicleParams,
    environment: EnvironmentParams,
    height_m: float = HIGH_M,
    formalism: str = "quaternion",
) -> dict[str, float]:
    """Processor time of one step in ns: median, and the fastest run, which others disturb least."""
    fleet = Fleet(params, environment, physics=PhysicsParams(formalism=formalism))
    mass_kg = params.mass_kg + params.load.mass_kg
    hover = np.full(4, np.sqrt(mass_kg * 9.80665 / 4.0 / params.thrust_coefficient_N_s2))
    times = []
    for run in range(RUNS + 1):
        fleet.reset()
        fleet.set_motion(0, (0.0, 0.0, height_m), rotor_speeds_radps=hover)
        fleet.set_motor_command(0, hover)
        start = time.process_time()
        fleet.step_to(SECOND_NS)
        if run > 0:  # the first compiles
            times.append((time.process_time() - start) / STEPS * 1e9)
    return {"median": round(statistics.median(times), 1), "fastest": round(min(times), 1)}


def main() -> None:
    """Measure and print."""
    plain, calm = drag_model(X500), EnvironmentParams()
    slung = replace(EVERYTHING, load=LoadParams(mass_kg=0.3, rope_length_m=0.4))
    found = {
        "drag_only": step_ns(plain, calm),
        "drag_only_low": step_ns(plain, calm, LOW_M),
        "everything": step_ns(EVERYTHING, STORMY),
        "everything_low": step_ns(EVERYTHING, STORMY, LOW_M),
        "slung_load": step_ns(slung, STORMY),
    }
    for formalism in FORMALISMS[1:]:
        found[f"formalism_{formalism}"] = step_ns(plain, calm, formalism=formalism)
    result = {
        "machine": machine(),
        "versions": versions(),
        "load_average": os.getloadavg()[0],
        "step_ns": found,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
