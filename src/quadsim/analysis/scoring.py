"""The summary of a replay: that of a flight, and what its errors say beyond one number each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quadsim.analysis import consistency, metrics, trajectory
from quadsim.analysis.refusals import mostly_refused
from quadsim.analysis.replay import Replay
from quadsim.analysis.summary import Summary, digest, summarize
from quadsim.analysis.trajectory import Span
from quadsim.base.errors import InputError
from quadsim.sim.disk_arrays import forget_track, give_back
from quadsim.sim.log import Arrivals, FlightLog, Track


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a replay is judged.

    Attributes:
        settle_s: time from the start that is not scored, s.
        alignment: how each estimate is moved onto the truth before it is judged.
        spans: of the relative errors.
    """

    settle_s: float = metrics.SETTLE_S
    alignment: str = trajectory.NONE
    spans: Sequence[Span] = trajectory.SPANS


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """One bag with one set of parameters.

    Attributes:
        title: what it is called where several are compared.
        log: the flight, its estimates aligned.
        summary: of the flight, by :func:`judged`.
    """

    title: str
    log: FlightLog
    summary: Summary


def judge_replay(
    title: str, bag: Path, asked: Sequence[str], result: Replay, scoring: Scoring
) -> ScoredRun:
    """Judge a replay.

    Args:
        title: of the run.
        bag: that was replayed.
        asked: estimators; a run in which one of them never started has not passed.
        result: of the replay.
        scoring: how.

    Raises:
        InputError: the truth does not say how to align an estimate.
    """
    log, from_ns = result.log, result.log.start_ns + round(scoring.settle_s * 1e9)
    log.wall_s = result.wall_s
    if len(log.truth) and scoring.settle_s >= log.duration_s:
        log.notes.append(f"it ends within {scoring.settle_s:g} s (--settle): nothing is scored")
    flown_digest = digest(log)
    try:
        estimates = {
            name: trajectory.aligned(track, log.truth, scoring.alignment, from_ns)
            for name, track in log.estimates.items()
        }
    except InputError as error:
        raise InputError(f"{bag}: {error}") from None
    log = replace(log, estimates=estimates)
    summary = summarize(log, settle_s=scoring.settle_s, bag=bag)
    summary["title"] = title
    summary["digest"] = flown_digest
    summary["duration_s"] = result.flown_s
    summary["real_time_factor"] = result.flown_s / result.wall_s
    summary["counts"] = result.counts
    summary["alignment"] = scoring.alignment
    summary["passed"] = set(asked) <= set(log.estimates)
    for name, track in log.estimates.items():
        summary["estimators"][name] |= _more(name, track, log, result, from_ns, scoring.spans)
    summary["refused"] = [
        words
        for name in result.counts
        if name in log.estimates
        for words in mostly_refused(name, summary["estimators"][name], result.counts[name])
    ]
    for name, figures in summary["topics"].items():
        if name in log.arrivals:
            figures |= arrival_figures(log.arrivals[name])
    for track in (log.truth, *result.log.estimates.values(), *log.estimates.values()):
        forget_track(track)
    give_back(log.motor_speed_radps, log.command_radps)
    return ScoredRun(title, log, summary)


def _more(
    name: str, track: Track, log: FlightLog, result: Replay, from_ns: int, spans: Sequence[Span]
) -> dict[str, Any]:
    """What is added to an estimator's figures."""
    before = result.log.estimates[name]
    pair = trajectory.compared(track, log.truth, from_ns)
    unmoved = pair if track is before else trajectory.compared(before, log.truth, from_ns)
    found = consistency.Consistency(metrics.errors_in_parts(track, log.truth, from_ns))
    innovations = log.inside[name].innovations if name in log.inside else {}
    return {
        "ate": trajectory.absolute(*unmoved),
        "rpe": {str(span): trajectory.relative(*pair, span) for span in spans},
        "nees": found.nees(),
        "nis": {kind: consistency.nis(found, from_ns) for kind, found in innovations.items()},
        "availability": consistency.availability(track.stamp_ns, *result.span_ns, found),
    }


def arrival_figures(arrivals: Arrivals) -> dict[str, float | int | None]:
    """How a topic's messages came, as plain numbers."""
    lengths_ns = arrivals.gaps_ns[:, 1] - arrivals.gaps_ns[:, 0]
    return {
        "median_rate_hz": arrivals.rate_hz,
        "gaps": len(lengths_ns),
        "gap_max_s": float(lengths_ns.max()) * 1e-9 if len(lengths_ns) else None,
        "repeated": arrivals.repeated,
        "latency_median_s": arrivals.latency_median_s,
        "latency_p99_s": arrivals.latency_p99_s,
    }
