"""Trajectories and errors as files that other tools read: TUM and CSV."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from quadsim.analysis import metrics
from quadsim.analysis.scoring import ScoredRun, file_stem
from quadsim.base.errors import InputError
from quadsim.sim.log import Track

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


@contextmanager
def _written(path: Path) -> Iterator[IO[str]]:
    """A text file that is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with temporary.open("w", encoding="utf-8") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_tum(track: Track, path: Path) -> None:
    """Write a trajectory as ``stamp tx ty tz qx qy qz qw``, s and m, as evo and others read it.

    Raises:
        InputError: the file cannot be written.
    """
    numbers = np.concatenate([track.p_W, np.roll(track.q_WB, -1, axis=1)], axis=1)
    with _written(path) as file:
        for stamp_ns, row in zip(track.stamp_ns.tolist(), numbers.tolist(), strict=True):
            seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
            file.write(f"{seconds}.{nanoseconds:09d} {' '.join(f'{x:.9g}' for x in row)}\n")


def write_csv(estimate: Track, truth: Track, path: Path) -> None:
    """Write an estimate with its errors, one row a stamp; see :data:`CSV_COLUMNS`.

    Raises:
        InputError: the file cannot be written.
    """
    with _written(path) as file:
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
