"""The summary of a run: one JSON object with the keys of the architecture."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.analysis import metrics
from quadsim.analysis.criteria import judge_event, judge_signal, surprises
from quadsim.analysis.kept import forget, slices
from quadsim.analysis.landing import landing
from quadsim.analysis.surroundings import machine, versions
from quadsim.errors import InputError
from quadsim.sim.criterion import AnyCriterion, EventCriterion, SignalCriterion
from quadsim.sim.log import FlightLog

Criteria = Sequence[AnyCriterion]

Summary = dict[str, Any]


def digest(log: FlightLog) -> str:
    """SHA-256 over every state, estimate and motor speed of a flight: equal means bit-equal."""
    result = hashlib.sha256()
    arrays: list[np.ndarray[Any, Any]] = [log.motor_stamps_ns, log.motor_speed_radps]
    for track in (log.truth, *log.estimates.values()):
        arrays += [track.stamp_ns, track.p_W, track.v_W, track.q_WB, track.w_B]
    for array in arrays:
        result.update(str(array.shape).encode())
        for rows in slices(len(array)):
            result.update(array[rows].tobytes())
            forget(array)
    return result.hexdigest()


def value_at(summary: Mapping[str, Any], path: str) -> float | None:
    """A number of the summary by its dotted name.

    Raises:
        InputError: there is no such name.
    """
    value: Any = summary
    for key in path.split("."):
        if value is None:
            return None  # a part that this run has not, such as tracking
        if not isinstance(value, Mapping) or key not in value:
            raise InputError(f"criterion {path!r}: the summary has no {key!r}")
        value = value[key]
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return None
    if not isinstance(value, int | float):
        raise InputError(f"criterion {path!r}: {value!r} is not a number")
    return float(value)


def judge(summary: Summary, criteria: Criteria, logs: Sequence[FlightLog]) -> None:
    """Fill in ``criteria`` and ``passed``; a value that is missing does not pass."""
    judged: list[dict[str, Any]] = []
    for criterion in criteria:
        if isinstance(criterion, SignalCriterion):
            judged.append(judge_signal(criterion, logs).figures())
            continue
        if isinstance(criterion, EventCriterion):
            judged.append(judge_event(criterion, logs[0]))
            continue
        value = value_at(summary, criterion.value)
        passed = value is not None and value <= criterion.limit
        judged.append(
            {
                "name": criterion.value,
                "value": value,
                "limit": criterion.limit,
                "passed": passed,
            }
        )
    summary["criteria"] = judged
    summary["passed"] = all(item["passed"] for item in judged) and not summary["errors"]


def summarize(
    log: FlightLog,
    criteria: Criteria = (),
    settle_s: float = metrics.SETTLE_S,
    bag: Path | None = None,
    report: Path | None = None,
    others: Sequence[FlightLog] = (),
) -> Summary:
    """Summary of one flight.

    Args:
        log: the flight.
        criteria: what a passed flight keeps; without any, a flight without an error passed.
        settle_s: time from the first stamp that is not scored, s.
        bag: where its bag lies.
        report: where its report lies.
        others: flights of the scenario's other vehicles, for the criteria that look at all.
    """
    from_ns = log.start_ns + round(settle_s * 1e9)
    scores = {
        name: {"name": name} | metrics.score(track, log.truth, from_ns).figures()
        for name, track in log.estimates.items()
    }
    duration_s = log.duration_s
    tracking = metrics.tracking_rmse_m(log)
    summary: Summary = {
        "scenario": log.scenario or None,
        "seed": log.seed if log.scenario else None,
        "duration_s": duration_s,
        "wall_s": log.wall_s or None,
        "real_time_factor": duration_s / log.wall_s if log.wall_s else None,
        "passed": True,
        "criteria": [],
        "estimator": next(iter(scores.values()), None),
        "estimators": scores,
        "tracking": None if tracking is None else {"position_rmse_m": tracking},
        "topics": {
            name: {
                "count": count,
                "rate_hz": count / duration_s if duration_s and count > 1 else None,
            }
            for name, count in log.topics.items()
        },
        "landing": landing(log),
        "errors": [words for each in (log, *others) for words in surprises(criteria, each)],
        "notes": list(log.notes),
        "settle_s": settle_s,
        "bag": None if bag is None else str(bag),
        "report": None if report is None else str(report),
        "digest": digest(log),
        "versions": versions(),
        "machine": machine(),
    }
    judge(summary, criteria, (log, *others))
    return summary
