"""Experiments: flights in cells, each cell over seeds, and what has to be shown by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from quadsim.base.errors import InputError
from quadsim.lab.campaign.batch import Progress, run_batch

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
