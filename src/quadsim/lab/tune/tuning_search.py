"""A search for better gains in the closed loop, from those that are there.

Nelder and Mead's simplex over the logarithms of the gains, one group of loops at a time: what moves
the vehicle sideways, what lifts it, what turns it. The groups are searched at once, in processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from quadsim.control.parameters import AutopilotParams
from quadsim.lab.campaign.batch import run_batch
from quadsim.lab.tune.loop_margins import LEAST_GAIN, LEAST_PHASE_DEG, all_margins
from quadsim.lab.tune.step_flights import fly_steps, make_flights
from quadsim.lab.tune.tuning_rules import KEYS, with_factors
from quadsim.sim.log import Array
from quadsim.sim.scenario import Scenario

#: Group: its loops, and the axes of the steps by which it is judged.
GROUPS = {
    "sideways": (("rate", "tilt", "velocity", "position"), ("x", "y")),
    "upwards": (("climb", "height"), ("z",)),
    "turning": (("yaw_rate", "yaw"), ("yaw",)),
}

#: Corners of the first simplex: each gain in turn by this factor.
FIRST_FACTOR = 1.3
#: Cost of a margin that is missing altogether; margins are to hold with this much to spare.
MARGIN_COST, SPARE = 10.0, 1.02


def margin_cost(params: AutopilotParams, scenario: Scenario) -> float:
    """Cost of the margins that do not hold; 0 where all do."""
    missing = 0.0
    for found in all_margins(params, scenario.vehicle).values():
        missing += max(0.0, 1.0 - found.phase_deg / (SPARE * LEAST_PHASE_DEG))
        missing += max(0.0, 1.0 - found.gain / (SPARE * LEAST_GAIN))
    return MARGIN_COST * missing


class GroupSearch(NamedTuple):
    """One group's search.

    Attributes:
        scenario: vehicle and sensors; its autopilot is where the search starts.
        loops: whose gains are varied.
        axes: of the steps.
        seed: of noise and wind.
        evaluations: steps that may be flown, each in calm air and in wind.
    """

    scenario: Scenario
    loops: tuple[str, ...]
    axes: tuple[str, ...]
    seed: int
    evaluations: int


def search_group(job: GroupSearch) -> tuple[tuple[float, ...], str]:
    """Search one group of loops; the vehicle takes off with the gains of the start.

    Returns:
        Factors of the gains, and in words what was found.
    """
    start = job.scenario.autopilot
    flights = make_flights(job.scenario, job.seed)
    size = sum(len(KEYS[loop]) for loop in job.loops)

    def cost(logs: Array) -> float:
        if float(np.abs(logs).max()) > math.log(8.0):
            return 1e3
        params = with_factors(start, job.loops, [math.exp(value) for value in logs])
        return fly_steps(flights, params, job.axes).cost + margin_cost(params, job.scenario)

    corners = np.vstack([np.zeros(size), math.log(FIRST_FACTOR) * np.eye(size)])
    options = {"initial_simplex": corners, "maxfev": job.evaluations, "xatol": 0.01, "fatol": 1e-4}
    result = minimize(cost, np.zeros(size), method="Nelder-Mead", options=options)
    first = cost(np.zeros(size))
    best = result.x if result.fun < first else np.zeros(size)
    least = min(float(result.fun), first)
    words = f"cost {first:.4g} to {least:.4g} in {int(result.nfev) + 1} flights"
    return tuple(math.exp(value) for value in best), words


def search(
    scenario: Scenario,
    start: AutopilotParams,
    loops: Sequence[str],
    seed: int,
    evaluations: int,
    processes: int,
    say: Callable[[str], None],
) -> AutopilotParams:
    """Search all groups, each in a process of its own, and put together what they found.

    Args:
        scenario: vehicle and sensors.
        start: gains to begin with.
        loops: that may be changed.
        seed: of noise and wind.
        evaluations: for each group.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
        say: called with what each group found.
    """
    scene = replace(scenario, autopilot=start)
    jobs = {}
    for name, (members, axes) in GROUPS.items():
        if varied := tuple(loop for loop in members if loop in loops):
            jobs[name] = GroupSearch(scene, varied, axes, seed, evaluations)
    params, results = start, run_batch(search_group, list(jobs.values()), processes)
    for (name, job), (factors, words) in zip(jobs.items(), results, strict=True):
        say(f"{name}: {words}")
        params = with_factors(params, job.loops, factors)
    return params
