"""Replays that are judged: the summary of one, that of several together, and files of them.

A summary draws conclusions from the errors in words. Files are TUM and CSV, which other tools read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.analysis import consistency, metrics, trajectory
from quadsim.analysis.consistency import POSITION_DOF, interval
from quadsim.analysis.metrics import Score
from quadsim.analysis.replay import Replay
from quadsim.analysis.replay_log import mostly_refused
from quadsim.analysis.summary import Summary, digest, summarize
from quadsim.analysis.trajectory import Span
from quadsim.base.errors import InputError
from quadsim.base.surroundings import machine, versions
from quadsim.base.whole_files import whole_file
from quadsim.sim.disk_arrays import forget_track, give_back
from quadsim.sim.log import Arrivals, FlightLog, Track


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a replay is judged.

    Attributes:
        settle_s: time from the start that is not scored, s.
        alignment: how each estimate is moved onto the truth before it is judged.
    """

    settle_s: float = metrics.SETTLE_S
    alignment: str = trajectory.NONE
    spans: Sequence[Span] = trajectory.SPANS


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """One bag with one set of parameters.

    Attributes:
        title: what it is called where several are compared.
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
        asked: estimators; a run in which one of them never started has not passed.

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


#: Figures of which the worst is named, all of them errors: the largest.
_ERRORS = tuple(name for name in Score.__dataclass_fields__ if name != "count")


def file_stem(*parts: str) -> str:
    """A file name without anything that a shell or a file system minds."""
    return "_".join(re.sub(r"[^\w.+-]+", "_", part).strip("_") for part in parts)


def titles(
    bags: Sequence[Path], files: Sequence[str | None]
) -> dict[tuple[int, int], tuple[str, str | None]]:
    """Titles of the runs of each bag with each parameter file.

    No two are alike, nor alike as names of files. A bag goes by its name, a file by its own without
    the end.

    Args:
        files: of parameters, as they were asked for.

    Returns:
        Number of the bag, and of the file, to the title, and what the file is called; None where
        there is one alone.
    """
    bag_names = _apart([_name_of(bag) for bag in bags])
    file_names = _apart([Path(file).stem if file else "eskf" for file in files])
    several = len(files) > 1
    places = [(i, k) for i in range(len(bags)) for k in range(len(files))]
    whole = _apart(
        [f"{bag_names[i]}, {file_names[k]}" if several else bag_names[i] for i, k in places]
    )
    return {
        (i, k): (title, file_names[k] if several else None)
        for (i, k), title in zip(places, whole, strict=True)
    }


def _name_of(bag: Path) -> str:
    """A bag's folder, with the one above it where it is only called ``bag``."""
    whole = bag.resolve()
    return f"{whole.parent.name}/{whole.name}" if whole.name == "bag" else whole.name


def _apart(names: list[str]) -> list[str]:
    """Names, those that came before, as such or as a file's name, with a number behind them."""
    result: list[str] = []
    taken: set[str] = set()
    for name in names:
        free, number = name, 1
        while file_stem(free) in taken:
            number += 1
            free = f"{name} ({number})"
        taken.add(file_stem(free))
        result.append(free)
    return result


def combined_summary(
    runs: Sequence[tuple[ScoredRun, str | None]], failures: Mapping[str, str], settle_s: float
) -> Summary:
    """One summary of several runs.

    Args:
        runs: each with what its parameter file is called, where there are several.
        failures: bags that could not be replayed, and why.
        settle_s: time from the start that was not scored, s.

    Returns:
        ``runs``, each a summary of its own; ``estimators``: name (with its file) to the means over
        the bags, with ``nees_interval``, where the mean of so many independent flights lies;
        ``worst``: the same names to ``{value, run}``.
    """
    summaries = [run.summary for run, _ in runs]
    columns: dict[str, list[Summary]] = {}
    for run, file in runs:
        for name, scores in run.summary["estimators"].items():
            label = name if file is None else f"{name}, {file}"
            columns.setdefault(label, []).append(scores | {"run": run.title})
    means = {label: {"name": label} | _mean(scores) for label, scores in columns.items()}
    for label, scores in columns.items():
        judged = [score for score in scores if score["nees_mean"] is not None]
        means[label]["runs"] = len(scores)
        means[label]["nees_interval"] = interval(POSITION_DOF, len(judged)) if judged else None
    duration_s = sum(float(summary["duration_s"]) for summary in summaries)
    wall_s = sum(float(summary["wall_s"]) for summary in summaries)
    whole = hashlib.sha256("".join(str(s["digest"]) for s in summaries).encode())
    return {
        "scenario": None,
        "seed": None,
        "duration_s": duration_s,
        "wall_s": wall_s,
        "real_time_factor": duration_s / wall_s if wall_s else None,
        "passed": not failures and all(bool(summary["passed"]) for summary in summaries),
        "criteria": [],
        "estimator": next(iter(means.values()), None),
        "estimators": means,
        "worst": {label: _worst(scores) for label, scores in columns.items()},
        "tracking": None,
        "runs": summaries,
        "failures": [{"bag": bag, "error": error} for bag, error in failures.items()],
        "errors": [],
        "notes": [],
        "settle_s": settle_s,
        "bag": None,
        "report": None,
        "digest": whole.hexdigest(),
        "versions": versions(),
        "machine": machine(),
    }


def _mean(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means of the numbers in nested mappings over those that have them; counts are added up."""
    result: dict[str, Any] = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        values = [part[key] for part in parts if part.get(key) is not None]
        if key in ("name", "run", "interval", "mean_interval"):
            continue
        if any(isinstance(value, Mapping) for value in values):
            result[key] = _mean(values)
        elif key in ("count", "refused"):
            result[key] = sum(values)
        elif key == "dof":
            result[key] = values[0]
        else:
            result[key] = sum(values) / len(values) if values else None
    return result


def _worst(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest of each error, and the run it comes from."""
    result: dict[str, Any] = {}
    for key in _ERRORS:
        found = [(score[key], score["run"]) for score in scores if score[key] is not None]
        value, run = max(found, default=(None, None))
        result[key] = None if run is None else {"value": value, "run": run}
    return result


#: Columns of a CSV after the stamp; what the truth does not say is empty.
_VECTORS = (
    "p_{}_m", "v_{}_mps", "q_{}", "w_{}_radps", "sigma_p_{}_m", "sigma_v_{}_mps",
    "sigma_attitude_{}_rad", "error_p_{}_m", "error_v_{}_mps", "error_attitude_{}_rad",
)  # fmt: skip
CSV_COLUMNS = (
    *(name.format(x) for name in _VECTORS for x in ("wxyz" if name == "q_{}" else "xyz")),
    "error_yaw_rad",
    "error_tilt_rad",
)
_ROWS = 4096  # written at once


def write_tum(track: Track, path: Path) -> None:
    """Write a trajectory as ``stamp tx ty tz qx qy qz qw``, s and m, as evo and others read it.

    Raises:
        InputError: the file cannot be written.
    """
    numbers = np.concatenate([track.p_W, np.roll(track.q_WB, -1, axis=1)], axis=1)
    with whole_file(path) as file:
        for stamp_ns, row in zip(track.stamp_ns.tolist(), numbers.tolist(), strict=True):
            seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
            file.write(f"{seconds}.{nanoseconds:09d} {' '.join(f'{x:.9g}' for x in row)}\n")


def write_csv(estimate: Track, truth: Track, path: Path) -> None:
    """Write an estimate with its errors, one row a stamp; see :data:`CSV_COLUMNS`.

    Raises:
        InputError: the file cannot be written.
    """
    with whole_file(path) as file:
        file.write(",".join(("stamp_ns", *CSV_COLUMNS)) + "\n")
        for first in range(0, len(estimate), _ROWS):
            part = estimate[first : first + _ROWS]
            for stamp_ns, row in zip(part.stamp_ns.tolist(), _rows(part, truth), strict=True):
                words = ("" if x != x else f"{x:.9g}" for x in row)
                file.write(f"{stamp_ns},{','.join(words)}\n")


def _rows(part: Track, truth: Track) -> Iterable[list[float]]:
    unknown = np.full((len(part), 9), np.nan)
    sigma = unknown if part.sigma is None else part.sigma
    error = metrics.errors(part, truth)
    known = np.isin(part.stamp_ns, error.stamp_ns)
    errors = np.full((len(part), 11), np.nan)
    angles = np.stack([error.yaw, error.tilt], axis=1)
    errors[known] = np.hstack([error.position_W, error.velocity_W, error.attitude_W, angles])
    rows: list[list[float]] = np.hstack(
        [part.p_W, part.v_W, part.q_WB, part.w_B, sigma, errors]
    ).tolist()
    return rows


def export_csv(run: ScoredRun, folder: Path) -> None:
    """Write every estimate of a run with its errors: ``<title>_<estimator>.csv``."""
    for name, track in run.log.estimates.items():
        write_csv(track, run.log.truth, folder / f"{file_stem(run.title, name)}.csv")


def export_tum(run: ScoredRun, folder: Path) -> None:
    """Write every estimate of a run, and the truth: ``<title>_<estimator>.tum``, ``_truth``."""
    for name, track in run.log.estimates.items():
        write_tum(track, folder / f"{file_stem(run.title, name)}.tum")
    if len(run.log.truth):
        write_tum(run.log.truth, folder / f"{file_stem(run.title, 'truth')}.tum")
