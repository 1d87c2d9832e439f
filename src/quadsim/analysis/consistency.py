"""Whether an estimator knows how good it is: NEES, NIS, and the time with a good estimate.

Chi-square tests after Bar-Shalom, Li and Kirubarajan, *Estimation with Applications to Tracking and
Navigation*, 2001, ch. 5.4. Deviations are those of single axes: correlations between axes are not
in a message's diagonal, nor here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv  # scipy.stats takes half a second to load

from quadsim.analysis.metrics import MAX_GAP_S, Errors, Mean, normalised
from quadsim.sim.disk_arrays import give_back, slices
from quadsim.sim.log import Array, Innovations, Stamps

#: Two-sided, of the chi-square intervals.
CONFIDENCE = 0.95
POSITION_DOF, WHOLE_DOF = 3, 9

Figures = dict[str, Any]


def quantile(probability: ArrayLike, dof: int) -> Array:
    """What a chi-square variable stays below with some probability."""
    return np.asarray(2.0 * gammaincinv(dof / 2, probability))


def interval(dof: int, count: int = 1) -> list[float]:
    """Where the mean of ``count`` independent normalised squares lies, with 95 % confidence."""
    tail = 0.5 * (1.0 - CONFIDENCE)
    bounds = quantile(np.array([tail, 1.0 - tail]), dof * count) / count
    return [float(bound) for bound in bounds]


class _Tested:
    """Normalised squares that come in blocks: their mean, and how many are as they should be.

    Args:
        dof: degrees of freedom.
    """

    def __init__(self, dof: int) -> None:
        self._dof, self._interval = dof, interval(dof)
        self._mean, self._inside = Mean(), 0

    def take(self, squares: Array) -> None:
        """Take the next ones."""
        low, high = self._interval
        self._mean.take(squares)
        self._inside += int(((squares >= low) & (squares <= high)).sum())

    def figures(self) -> Figures:
        """Mean, the interval of one, and the share of them that lies in it."""
        count = self._mean.count
        return {
            "dof": self._dof,
            "mean": self._mean.value,
            "interval": self._interval,
            "inside": self._inside / count if count else None,
            "count": count,
        }


class Consistency:
    """How the errors of an estimate compare with the deviations that it states.

    Args:
        errors: of an estimate, in one block or in several.
    """

    def __init__(self, errors: Iterable[Errors]) -> None:
        self._position, self._whole = _Tested(POSITION_DOF), _Tested(WHOLE_DOF)
        self._within = self._stated = 0
        for error in errors:
            if error.sigma is None:
                continue
            whole = np.concatenate([error.position_W, error.velocity_W, error.attitude_W], axis=1)
            self._position.take(normalised(error.position_W, error.sigma))
            self._whole.take(normalised(whole, error.sigma))
            sigma = error.sigma[:, :POSITION_DOF]
            stated = (sigma > 0.0).all(axis=1)
            inside = (np.abs(error.position_W) <= 3.0 * sigma).all(axis=1)
            self._within += int((stated & inside).sum())
            self._stated += int(stated.sum())

    def nees(self) -> dict[str, Figures]:
        """Normalised estimation error squared: of the position, of the nine numbers stated.

        Errors of a flight hang together over time. So the interval is that of one sample: the mean
        of a flight should lie in it, and over many flights in a narrower one (:func:`interval`).
        """
        return {"position": self._position.figures(), "whole": self._whole.figures()}

    def within_3_sigma(self) -> float | None:
        """Share of the stamps that state deviations with the position within three of them."""
        return self._within / self._stated if self._stated else None


def nis(innovations: Innovations, from_ns: int) -> Figures:
    """Normalised innovation squared of one kind of measurement, from a stamp on.

    ``mean`` is that of the accepted, and ``mean_interval`` where it should lie: the innovations of
    a filter that is right are white, so each of them is a sample.
    """
    late = innovations.stamp_ns >= from_ns
    accepted = innovations.accepted[late]
    dof = innovations.value.shape[1]
    tested = _Tested(dof)
    tested.take(innovations.nis[late][accepted])
    figures = tested.figures()
    count = figures["count"]
    figures["mean_interval"] = interval(dof, count) if count else None
    figures["refused"] = int((~accepted).sum())
    figures["refused_share"] = float(np.mean(~accepted)) if len(accepted) else None
    give_back(innovations.nis)
    return figures


def availability(
    stamp_ns: Stamps, first_ns: int, last_ns: int, found: Consistency
) -> dict[str, float | None]:
    """Shares of the time with an estimate, and of the judged stamps with an honest one.

    Args:
        stamp_ns: (N,) of the estimate.
        first_ns: of the flight's first IMU sample.
        found: of the estimate where the truth is known.

    Returns:
        ``share``: of the flight's time, the start included, a hole being longer than 0.5 s;
        ``within_3_sigma``: of the stamps that are judged and state deviations, those with the
        error of the position within three of them on every axis (0.992 for a filter that is right).
    """
    covered_ns = 0
    for rows in slices(len(stamp_ns)):
        steps_ns = np.diff(stamp_ns[rows.start : rows.stop + 1])
        covered_ns += int(np.sum(steps_ns[steps_ns <= MAX_GAP_S * 1e9]))
        give_back(stamp_ns)
    flown_ns = last_ns - first_ns
    return {
        "share": min(1.0, covered_ns / flown_ns) if flown_ns > 0 else None,
        "within_3_sigma": found.within_3_sigma(),
    }
