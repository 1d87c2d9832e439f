"""Experiments: flights in cells, each cell over seeds, and what has to be shown by them.

One of them is here: does the filter know what it does not know? It compares errors with stated
deviations, for shipped sensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from quadsim.analysis.metrics import errors
from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.lab.campaign.batch import Progress, run_batch
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

Flown = TypeVar("Flown")


@dataclass(frozen=True, slots=True)
class Job:
    """One flight of an experiment.

    Attributes:
        cell: what is flown over many seeds, such as a scenario and a set of sensors.
        extra: what else the experiment tells its flight.
    """

    cell: Any
    seed: int
    extra: Any = None


def fly_cells(
    fly: Callable[[Job], Flown],
    jobs: Sequence[Job],
    processes: int = 0,
    progress: Progress | None = None,
) -> dict[Any, list[Flown]]:
    """Fly all jobs in processes; each cell to its flights, in the order of the jobs.

    Args:
        fly: a function of a module.
        processes, progress: as of :func:`quadsim.lab.campaign.batch.run_batch`.
    """
    cells: dict[Any, list[Flown]] = {}
    for job, flown in zip(jobs, run_batch(fly, jobs, processes, progress), strict=True):
        cells.setdefault(job.cell, []).append(flown)
    return cells


def chosen_scenarios(
    names: Sequence[str], known: Sequence[str], experiment: str
) -> tuple[str, ...]:
    """Scenarios of an experiment that are asked for, in its order; all for no names.

    Raises:
        InputError: a name that it has not.
    """
    for name in names:
        if name not in known:
            raise InputError(
                f"--scenario {name}: no part of {experiment}; known: {', '.join(known)}"
            )
    return tuple(name for name in known if name in names or not names)


def demand(
    name: str, value: float | None, least: float | None, limit: float | None
) -> dict[str, Any]:
    """What has to be shown: name, value, least, limit, passed; None bounds nothing.

    A value that is not known, or no number, is within no bound.
    """
    number = math.nan if value is None else value
    passed = (least is None or number >= least) and (limit is None or number <= limit)
    return {"name": name, "value": value, "least": least, "limit": limit, "passed": bool(passed)}


SCENARIOS = ("square", "figure_of_eight", "gps_outage")
#: Suites with which the error-state filter flies these, and the vehicle where it is another than
#: the scenario's: the vibration of ``phantom4`` is that vehicle's. Left out are those without
#: errors, and those without the receiver or the compass with which the filter starts.
SUITES = (
    "default", "default_250hz", "default_1000hz", "swarm", "lidar", "fast_spin", "fcnd", "fcnd_gps",
    "phantom4", "thesis_devices", "thesis_devices_bad",
)  # fmt: skip
VEHICLES = {"phantom4": "phantom4"}
AXES = ("roll", "pitch", "yaw", "v_x", "v_y", "v_z", "p_x", "p_y", "p_z")
#: What the mean normalised square of each axis has to lie between.
LEAST, MOST = 0.5, 1.6
#: At so many times, spread evenly over the flight; the first sixth of it is the start's.
TIMES = 10


@dataclass(frozen=True)
class Squares:
    """Normalised squares of a flight.

    Attributes:
        squares: (TIMES, 9) of attitude about, velocity and position along the axes of ``map``.
        errors: (TIMES, 9) in rad, m/s and m.
    """

    squares: Array
    errors: Array


def fly_suite(job: Job) -> Squares:
    """Fly one seed; ``cell`` is suite and scenario, ``extra`` dotted keys that are set."""
    suite, name = job.cell
    scenario = load_scenario(
        name, job.extra, sensors=suite, seed=job.seed, vehicle=VEHICLES.get(suite)
    )
    log = ClosedLoop(scenario).fly()
    found = errors(next(iter(log.estimates.values())), log.truth)
    count = len(found.stamp_ns)
    at = np.linspace(count // 6, count - 1, TIMES).round().astype(int)
    assert found.sigma is not None
    off = np.hstack([found.attitude_W, found.velocity_W, found.position_W])[at]
    sigma = found.sigma[at][:, [6, 7, 8, 3, 4, 5, 0, 1, 2]]
    return Squares((off / sigma) ** 2, off)


def run_consistency(
    suites: Sequence[str],
    scenarios: Sequence[str],
    seeds: int,
    processes: int = 0,
    progress: Progress | None = None,
    changes: dict[str, Any] | None = None,
) -> dict[tuple[str, str], list[Squares]]:
    """Fly every scenario with every suite.

    Args:
        suites: files of ``config/sensors/suites``.
        scenarios: files of ``config/scenarios``.
        seeds: of each, from 1 on.
        processes: at once; 0: one for each core.
        changes: dotted keys that are set in all.

    Returns:
        Suite and scenario to its flights, in the order of the seeds.
    """
    jobs = [
        Job((suite, name), seed, changes or {})
        for suite in suites
        for name in scenarios
        for seed in range(1, seeds + 1)
    ]
    return fly_cells(fly_suite, jobs, processes, progress)


def means(flights: Sequence[Squares]) -> Array:
    """(9,) mean normalised squares over flights and times: 1 where the filter is consistent."""
    return np.asarray(np.mean([flight.squares for flight in flights], axis=(0, 1)))


def consistency_summary(found: dict[tuple[str, str], list[Squares]]) -> dict[str, Any]:
    """The table: a row for each suite and scenario, and whether all lie within the limits."""
    rows = []
    for (suite, name), flights in found.items():
        squares = means(flights)
        rms = np.sqrt(np.mean([flight.errors**2 for flight in flights], axis=(0, 1)))
        row = {"suite": suite, "scenario": name, "flights": len(flights)}
        row["squares"] = dict(zip(AXES, squares.tolist(), strict=True))
        row["rms"] = dict(zip(AXES, rms.tolist(), strict=True))
        row["passed"] = bool(np.all((squares >= LEAST) & (squares <= MOST)))
        rows.append(row)
    return {"least": LEAST, "most": MOST, "rows": rows, "passed": all(r["passed"] for r in rows)}
