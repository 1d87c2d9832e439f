"""Does the filter know what it does not know: errors of shipped sensors over stated deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.lab.campaign.batch import Progress
from quadsim.lab.campaign.experiment import Job, fly_cells
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

Array = NDArray[np.float64]

SCENARIOS = ("square", "figure_of_eight", "gps_outage")
#: Suites with which the error-state filter flies these, and the vehicle where it is another than
#: the scenario's: the vibration of ``phantom4`` is that vehicle's. Left out are those without
#: errors, and those without the receiver or the magnetometer with which the filter starts.
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


def _rotations(q: Array) -> Rotation:
    return Rotation.from_quat(np.roll(q, -1, axis=1))


def fly_suite(job: Job) -> Squares:
    """Fly one seed; ``cell`` is suite and scenario, ``extra`` dotted keys that are set."""
    suite, name = job.cell
    scenario = load_scenario(
        name, job.extra, sensors=suite, seed=job.seed, vehicle=VEHICLES.get(suite)
    )
    loop = ClosedLoop(scenario, log_hz=10.0)
    loop.fly()
    rows = loop.rows()
    rows = rows[rows["estimated"] != 0]
    rows = rows[np.linspace(len(rows) // 6, len(rows) - 1, TIMES).round().astype(int)]
    estimate = rows["estimate"]
    turn_W = (_rotations(rows["q_WB"]) * _rotations(estimate["q_WB"]).inv()).as_rotvec()
    errors = np.hstack([turn_W, rows["v_W"] - estimate["v_W"], rows["p_W"] - estimate["p_W"]])
    variance = np.hstack([estimate[f"{n}_variance"] for n in ("attitude", "v", "p")])
    return Squares(errors**2 / variance, errors)


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
        progress: called after each flight.
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
