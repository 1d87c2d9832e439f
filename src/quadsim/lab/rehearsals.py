"""A rehearsal over many seeds, and what its flights show together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from quadsim.hil.rehearsal.flight import Flight, Outcome
from quadsim.hil.rehearsal.parameters import PassParams
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.lab.campaign.batch import Progress, run_batch

#: Name of a rehearsal, seed, and limit of speed (None: the file's).
Job = tuple[str, int, float | None]


def fly_one(job: Job) -> Outcome:
    """Fly one seed of a rehearsal."""
    return Flight(load_rehearsal(*job)).fly()


def run(
    name: str,
    seeds: Sequence[int],
    speed_mps: float | None = None,
    processes: int = 0,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Fly a rehearsal over seeds, each with a field, a vehicle and noise of its own.

    Args:
        name: of a file in ``config/rehearsals``, or its path.
        seeds: of the flights.
        speed_mps: limit of speed instead of the file's.
        processes: at once; 0: one for each core.
        progress: told after each flight.

    Raises:
        InputError: as of :func:`quadsim.hil.rehearsal.rehearsal.load_rehearsal`.
    """
    return run_batch(fly_one, [(name, seed, speed_mps) for seed in seeds], processes, progress)


def _at_most(name: str, value: float, limit: float) -> dict[str, Any]:
    """A criterion with an upper limit; what is not known does not pass."""
    return {"name": name, "value": value, "least": None, "limit": limit, "passed": value <= limit}


def _at_least(name: str, value: float, least: float) -> dict[str, Any]:
    """A criterion with a lower limit."""
    return {"name": name, "value": value, "least": least, "limit": None, "passed": value >= least}


def criteria(outcomes: Sequence[Outcome], passes: PassParams) -> list[dict[str, Any]]:
    """What had to hold over all flights, and what did."""
    count = len(outcomes)
    collisions = sum(outcome.collided for outcome in outcomes)
    arrivals = sum(outcome.arrived for outcome in outcomes) / count
    landings = sum(outcome.landed for outcome in outcomes) / count
    clearance_m = min(outcome.clearance_m for outcome in outcomes)
    stops = [stop for outcome in outcomes for stop in outcome.stops]
    found = [_at_most("collisions", collisions, passes.collisions)]
    if passes.arrivals > 0.0:
        found.append(_at_least("arrivals", arrivals, passes.arrivals))
    if passes.clearance_m > 0.0:
        found.append(_at_least("clearance_m", clearance_m, passes.clearance_m))
    if passes.lands:
        found.append(_at_least("landings", landings, 1.0))
    if passes.says:
        said = sum(
            passes.says in outcome.reason
            or any(passes.says in event.message for event in outcome.events)
            for outcome in outcomes
        )
        found.append(_at_least("says", said / count, 1.0))
    for name, limit in (("stop_s", passes.stop_s), ("stop_over_m", passes.stop_over_m)):
        if limit > 0.0:
            values = [getattr(stop, name) for stop in stops]
            worst = max(values) if values and not any(map(math.isnan, values)) else math.nan
            found.append(_at_most(name, worst, limit))
    return found


def summarize(name: str, outcomes: Sequence[Outcome], passes: PassParams) -> dict[str, Any]:
    """The summary of a rehearsal: counts, smallest distance, times, criteria, one row a flight."""
    judged = criteria(outcomes, passes)
    arrived = [outcome for outcome in outcomes if outcome.arrived]
    nearest = min(outcomes, key=lambda outcome: outcome.clearance_m)
    return {
        "scenario": name,
        "flights": len(outcomes),
        "collisions": sum(outcome.collided for outcome in outcomes),
        "arrivals": len(arrived),
        "clearance_m": nearest.clearance_m,
        "clearance_seed": nearest.seed,
        "clearance_median_m": statistics.median(outcome.clearance_m for outcome in outcomes),
        "time_median_s": statistics.median(o.time_s for o in arrived) if arrived else None,
        "time_max_s": max(o.time_s for o in arrived) if arrived else None,
        "speed_max_mps": max(outcome.speed_mps for outcome in outcomes),
        "speed_mean_mps": sum(o.way_m for o in arrived) / sum(o.time_s for o in arrived)
        if arrived
        else None,
        "criteria": judged,
        "passed": all(item["passed"] for item in judged),
        "runs": [outcome.row() for outcome in outcomes],
    }
