"""The summary of a run: one JSON object with the keys of the architecture."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.analysis import metrics
from quadsim.analysis.criteria import judge_event, judge_part, judge_signal, surprises
from quadsim.analysis.metrics import body_z
from quadsim.analysis.signals import SIGNALS
from quadsim.base.errors import InputError
from quadsim.base.surroundings import machine, versions
from quadsim.sim.criterion import AnyCriterion, EventCriterion, PartCriterion, SignalCriterion
from quadsim.sim.disk_arrays import forget_track, give_back, slices
from quadsim.sim.log import HOVERS, FlightLog, Track

Criteria = Sequence[AnyCriterion]

Summary = dict[str, Any]
#: Event by which a mission tells that a place was not reached in time.
MISSED = "not reached"
#: The last stretch of a descent, m above where it ended.
LAST_M = 0.3
#: What is slower stands.
STILL_MPS = 0.1


def landing(log: FlightLog) -> dict[str, float] | None:
    """Figures of the landing; None where the vehicle never flew, or still moves at the end.

    Returns:
        ``speed_mps``: fastest sink over the last 0.3 m; ``slide_mps``: fastest horizontal speed
        there; ``tilt_rad``: tilt at rest; ``away_m``: horizontal distance from the start.
    """
    truth = log.truth
    if len(truth) < 2 or np.linalg.norm(truth.v_W[-1]) > STILL_MPS:
        return None
    last = _last_above(truth, float(truth.p_W[-1, 2]) + LAST_M)
    if last is None:
        return None
    v_W = truth.v_W[last:]
    cosine = float(body_z(truth.q_WB[-1:])[0, 2])
    return {
        "speed_mps": float(max(-v_W[:, 2].min(), 0.0)),
        "slide_mps": float(np.hypot(v_W[:, 0], v_W[:, 1]).max()),
        "tilt_rad": float(np.arccos(np.clip(cosine, -1.0, 1.0))),
        "away_m": float(np.hypot(*(truth.p_W[-1] - truth.p_W[0])[:2])),
    }


def _last_above(truth: Track, height_m: float) -> int | None:
    """The last row higher than something; None where there is none."""
    for rows in reversed(list(slices(len(truth)))):
        above = np.flatnonzero(truth.p_W[rows, 2] > height_m)
        forget_track(truth)
        if len(above):
            return int(rows.start + above[-1])
    return None


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
            give_back(array)
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


def judge_criteria(summary: Summary, criteria: Criteria, logs: Sequence[FlightLog]) -> None:
    """Fill in ``criteria`` and ``passed``; a value that is missing does not pass."""
    judged: list[dict[str, Any]] = []
    for criterion in criteria:
        if isinstance(criterion, SignalCriterion):
            judged.append(judge_signal(criterion, logs).figures())
            continue
        if isinstance(criterion, EventCriterion):
            judged.append(judge_event(criterion, logs[0]))
            continue
        if isinstance(criterion, PartCriterion):
            judged.append(judge_part(criterion, logs[0]))
            continue
        value = value_at(summary, criterion.value)
        passed = value is not None and value <= criterion.limit
        judged.append(
            {"name": criterion.value, "value": value, "limit": criterion.limit, "passed": passed}
        )
    summary["criteria"] = judged
    summary["passed"] = all(item["passed"] for item in judged) and not summary["errors"]


def outcome(log: FlightLog, criteria: Criteria = (), settle_s: float = metrics.SETTLE_S) -> Summary:
    """What a flight reached: the summary but for what it was made with and where things lie.

    Args:
        criteria: what a passed flight keeps; without any, a flight without an error passed.
        settle_s: time from the first stamp that is not scored, s.
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
            name: {"count": n, "rate_hz": n / duration_s if duration_s and n > 1 else None}
            for name, n in log.topics.items()
        },
        "landing": landing(log),
        "mission": {"missed": sum(event.name == MISSED for event in log.events)},
        "errors": surprises(criteria, log),
        "notes": [*log.notes, *(event.message for event in log.events if event.name == HOVERS)],
        "settle_s": settle_s,
    }
    judge_criteria(summary, [item for item in criteria if not _is("is_room", item)], [log])
    return summary


def summarize(
    log: FlightLog,
    criteria: Criteria = (),
    settle_s: float = metrics.SETTLE_S,
    bag: Path | None = None,
    report: Path | None = None,
) -> Summary:
    """Summary of one flight.

    Args:
        criteria: as of :func:`outcome`.
        settle_s: as of :func:`outcome`.
        bag: where its bag lies.
        report: where its report lies.
    """
    return outcome(log, criteria, settle_s) | {
        "bag": None if bag is None else str(bag),
        "report": None if report is None else str(report),
        "digest": digest(log),
        "versions": versions(),
        "machine": machine(),
    }


def _is(flag: str, criterion: AnyCriterion) -> bool:
    """Whether the signal of a criterion has a flag: ``of_all``, ``is_room`` between vehicles."""
    found = SIGNALS.get(criterion.signal) if isinstance(criterion, SignalCriterion) else None
    return bool(getattr(found, flag, False))


def _worst(each: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Of a criterion that was judged for each vehicle, the one that fails, or is nearest to."""

    def badness(named: tuple[str, dict[str, Any]]) -> tuple[bool, float]:
        item = named[1]
        value = item["value"]
        if value is None:
            return not item["passed"], np.inf
        return not item["passed"], -value if item.get("least") else value

    vehicle, item = max(each, key=badness)
    return item | {"vehicle": vehicle}


def _together(
    logs: Mapping[str, FlightLog],
    criteria: Criteria,
    of_one: Callable[[FlightLog, Criteria], Summary],
) -> Summary:
    """One summary of the flights of several vehicles, each by ``of_one``."""
    each = [item for item in criteria if not _is("of_all", item)]
    runs = [{"vehicle": name, **of_one(log, each)} for name, log in logs.items()]
    summary: Summary = dict(runs[0])
    del summary["vehicle"]
    joint: Summary = {"errors": []}
    judge_criteria(joint, [item for item in criteria if _is("of_all", item)], list(logs.values()))
    of_all = iter(joint["criteria"])
    judged = [[(run["vehicle"], item) for item in run["criteria"]] for run in runs]
    of_each = iter(zip(*judged, strict=True))
    summary["criteria"] = [
        next(of_all) if _is("of_all", item) else _worst(next(of_each)) for item in criteria
    ]
    summary["errors"] = [f"{run['vehicle']}: {words}" for run in runs for words in run["errors"]]
    summary["passed"] = joint["passed"] and all(run["passed"] for run in runs)
    summary["runs"] = runs
    return summary


def outcome_all(logs: Mapping[str, FlightLog], criteria: Criteria = ()) -> Summary:
    """As :func:`summarize_all`, without what the flights were made with and where things lie."""
    if len(logs) == 1:
        return outcome(next(iter(logs.values())), criteria)
    return _together(logs, criteria, outcome)


def summarize_all(
    logs: Mapping[str, FlightLog],
    criteria: Criteria = (),
    bag: Path | None = None,
    report: Path | None = None,
) -> Summary:
    """Summary of the flight of one vehicle, or of several: it has passed if each of them has.

    Args:
        logs: name to flight, one for each vehicle.
        criteria: what each keeps; those that look at all vehicles hold for all together.
        bag, report: as of :func:`summarize`.

    Returns:
        Of several, figures are of the first, ``runs`` holds the summary of each (``vehicle``),
        each of the ``criteria`` is that of the vehicle that it is worst for, and ``digest`` is the
        SHA-256 of those of the runs.
    """
    if len(logs) == 1:
        return summarize(next(iter(logs.values())), criteria, bag=bag, report=report)
    summary = _together(
        logs, criteria, lambda log, each: summarize(log, each, bag=bag, report=report)
    )
    digests = "".join(run["digest"] for run in summary["runs"])
    summary["digest"] = hashlib.sha256(digests.encode()).hexdigest()
    return summary
