"""Does the filter know what it does not know: errors of shipped sensors over stated deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim.analysis.metrics import errors
from quadsim.base.compiled import Array
from quadsim.lab.campaign.batch import Progress
from quadsim.lab.campaign.experiment import Job, fly_cells
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

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
