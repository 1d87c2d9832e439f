"""How many vehicles step in a second: a crowd of ours, alone and beside Crazyflow and RotorPy.

``python benchmarks/crowd.py`` prints one JSON object. Figures are millions of vehicle steps a
second, medians of runs; where two are compared, their runs alternate. The peers are measured where
they are installed (`docs/many-vehicles.md`).

- ``drag_model_rk4``: an x500 with the drag model, RK4, rotor speeds commanded.
- ``euler_attitude``: a Crazyflie, Euler's method at 500 Hz, attitude control at each step; beside
  Crazyflow's first-principles model with the same figures, start and commands. ``held`` commands
  act for a hundred steps in one call; ``fresh`` ones are given, as angles, before each step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import (
    GRAVITY_MPS2,
    RATE_HZ,
    Crazyflow,
    crazyflie,
    firmware_law,
    rotorpy_many,
    rotorpy_one,
)
from scipy.spatial.transform import Rotation

from quadsim.analysis.surroundings import installed_version, machine, versions
from quadsim.files import find
from quadsim.parameters import load
from quadsim.vehicle.crowd import Crowd
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

STEPS, RUNS, HEIGHT_M = 100, 15, 1.0


def million_a_second(call: Callable[[], None], vehicle_steps: int) -> float:
    """Rate of one call."""
    start = time.perf_counter()
    call()
    return vehicle_steps / (time.perf_counter() - start) * 1e-6


def median(rates: list[float]) -> float:
    """Median, as it is printed."""
    return round(statistics.median(rates), 2)


def drag_model(count: int, threads: int) -> dict[str, float]:
    """Rates of an x500's drag model by RK4: a hundred steps in a call, and one."""
    params = load(VehicleParams, find("vehicles", "x500"))
    hover = np.sqrt(params.mass_kg * 9.80665 / 4.0 / params.thrust_coefficient_N_s2)
    noise = np.random.default_rng(1).normal(0.0, 0.5, (4, count))
    crowd = Crowd(params, EnvironmentParams(), count, threads=threads)

    def restart() -> None:
        crowd.reset()
        crowd.p_W[2] = HEIGHT_M
        crowd.rotor_speed_radps[:] = hover
        crowd.rotor_command_radps[:] = hover + noise

    rates: dict[str, list[float]] = {"hundred_steps": [], "one_step": []}
    for _ in range(RUNS):
        restart()
        crowd.step()  # into the caches, and for the first time through the compiler
        for name, steps in (("hundred_steps", STEPS), ("one_step", 1)):
            rate = million_a_second(lambda steps=steps: crowd.step(steps), count * steps)
            rates[name].append(rate)
    return {name: median(values) for name, values in rates.items()}


def commands(count: int) -> tuple[Array, Array]:
    """Tilts and headings of up to 0.05 rad, and thrusts about the weight, the same each time."""
    rng = np.random.default_rng(2)
    thrust_N = crazyflie().mass_kg * GRAVITY_MPS2 * rng.uniform(0.9, 1.1, count)
    return rng.uniform(-0.05, 0.05, (3, count)), thrust_N


def our_crowd(count: int, threads: int) -> Crowd:
    """Crazyflies in the air, rotors at hover."""
    crowd = Crowd(
        crazyflie(),
        EnvironmentParams(gravity_mps2=GRAVITY_MPS2),
        count,
        integrator="explicit_euler",
        step_ns=1_000_000_000 // RATE_HZ,
        law=firmware_law(),
        threads=threads,
    )
    params = crazyflie()
    hover = np.sqrt(params.mass_kg * GRAVITY_MPS2 / 4.0 / params.thrust_coefficient_N_s2)
    crowd.p_W[2] = HEIGHT_M
    crowd.rotor_speed_radps[:] = hover
    return crowd


def difference(crowd: Crowd, peer: Crazyflow, count: int) -> dict[str, float]:
    """How far apart the same half second leads both: evidence that the work is the same."""
    for one in (crowd, peer):
        one.want(*commands(count))
        one.step(RATE_HZ // 2)
    p_W, q_WB = peer.motion()
    ours, theirs = (Rotation.from_quat(np.roll(q, -1, axis=0).T) for q in (crowd.q_WB, q_WB))
    moved = np.linalg.norm(crowd.p_W - [[0.0], [0.0], [HEIGHT_M]], axis=0)
    return {
        "position_m": float(np.max(np.linalg.norm(crowd.p_W - p_W, axis=0))),
        "attitude_rad": float(np.max((ours.inv() * theirs).magnitude())),
        "way_m": float(np.median(moved)),
        "turn_rad": float(np.median(ours.magnitude())),
    }


def fresh(one: Any, angles: Array, thrust_N: Array) -> None:
    """Ten steps, each with a command of its own."""
    for k in range(10):
        one.want(angles * (1.0 - 0.01 * k), thrust_N)
        one.step(1)


def compared(count: int, threads: int) -> dict[str, Any]:
    """Rates of the attitude-controlled Crazyflies, ours and Crazyflow's in turn."""
    crowd, angles_thrust = our_crowd(count, threads), commands(count)
    flyers: dict[str, Any] = {"quadsim": crowd}
    found: dict[str, Any] = {}
    if installed_version("crazyflow"):
        flyers["crazyflow"] = Crazyflow(count, HEIGHT_M)
        found["difference_after_0.5_s"] = difference(crowd, flyers["crazyflow"], count)
    rates: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in flyers} for kind in ("held", "fresh")
    }
    for run in range(RUNS + 1):
        for name, one in flyers.items():
            one.want(*angles_thrust)
            held = million_a_second(lambda one=one: one.step(STEPS), count * STEPS)
            new = million_a_second(lambda one=one: fresh(one, *angles_thrust), count * 10)
            if run > 0:  # the first compiles
                rates["held"][name].append(held)
                rates["fresh"][name].append(new)
    for kind, by_name in rates.items():
        found[kind] = {name: median(values) for name, values in by_name.items()}
        if len(by_name) == 2:
            ratios = [a / b for a, b in zip(*by_name.values(), strict=True)]
            found[kind]["ratio"] = median(ratios)
    return found


def rotorpy(count: int) -> dict[str, float]:
    """Rates of RotorPy, of what is installed of it."""
    found = {}
    if installed_version("rotorpy"):
        found["one_rk45"] = rotorpy_one() * 1e-6
        if installed_version("torch"):
            found["batch_rk4"] = rotorpy_many(count) * 1e-6
    return {name: float(f"{rate:.3g}") for name, rate in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=0, help="0: one for each processor")
    options = parser.parse_args()
    peers = {name: installed_version(name) for name in ("crazyflow", "jax", "rotorpy", "torch")}
    result = {
        "machine": machine(),
        "versions": versions() | {name: v for name, v in peers.items() if v},
        "vehicles": options.vehicles,
        "threads": options.threads or len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "million_vehicle_steps_per_s": {
            "drag_model_rk4": drag_model(options.vehicles, options.threads),
            "euler_attitude": compared(options.vehicles, options.threads),
            "rotorpy": rotorpy(options.vehicles),
        },
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
