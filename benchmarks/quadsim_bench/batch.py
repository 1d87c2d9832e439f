"""How many vehicles of a batch step in a second: an x500 with the drag model, RK4."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim_bench.figure import Measurement, Session, lines

if TYPE_CHECKING:
    from quadsim.sim.batched.vehicles import VehicleBatch

COUNT, STEPS, HEIGHT_M = 10_000, 100, 1.0


def million_a_second(call: Callable[[], object], vehicle_steps: int) -> float:
    """Rate of one call by the clock, as threads share its work."""
    begin_s = time.perf_counter()
    call()
    return vehicle_steps / (time.perf_counter() - begin_s) * 1e-6


def x500s(count: int = COUNT, threads: int = 0) -> Callable[[], VehicleBatch]:
    """What gives a batch at its start, rotor commands about hover."""
    from quadsim.base.files import find
    from quadsim.base.parameters import load
    from quadsim.sim.batched.vehicles import VehicleBatch, drag_model
    from quadsim.vehicle.parameters import VehicleParams
    from quadsim.world.environment import EnvironmentParams

    params = load(VehicleParams, find("vehicles", "x500"))
    hover = np.sqrt(params.mass_kg * 9.80665 / 4.0 / params.thrust_coefficient_N_s2)
    noise = np.random.default_rng(1).normal(0.0, 0.5, (4, count))
    batch = VehicleBatch(drag_model(params), EnvironmentParams(), count, threads=threads)

    def begin() -> VehicleBatch:
        batch.reset()
        batch.p_W[2] = HEIGHT_M
        batch.rotor_speed_radps[:] = hover
        batch.rotor_command_radps[:] = hover + noise
        return batch

    return begin


def measure(session: Session) -> dict[str, Any]:
    """Rates of a hundred steps in a call, and of one."""
    begin = session.once("x500s", x500s)
    rates: dict[int, list[float]] = {STEPS: [], 1: []}
    for _ in range(3 if session.short else 15):
        batch = begin()
        batch.step()  # into the caches, and for the first time through the compiler
        for steps, found in rates.items():
            found.append(million_a_second(partial(batch.step, steps), COUNT * steps))
    return {
        "crowd_million_steps_per_s": statistics.median(rates[STEPS]),
        "crowd_one_step_million_per_s": statistics.median(rates[1]),
    }


FIGURES = f"""
crowd_million_steps_per_s million/s >=5 {COUNT} x500, drag model, RK4, all cores, 100 steps a call
crowd_one_step_million_per_s million/s more the same, one step in a call
"""

MEASUREMENTS = (Measurement("batch", lines(FIGURES), measure, short=True),)
