"""Signals of a flight, and the bands in which they must stay for a time without a break.

After the pass criteria of the FCND estimation project (Udacity): a window in which the magnitude
of an error stays below a limit, and a share of samples within one stated deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr

from quadsim.analysis.metrics import MAX_GAP_S, Errors, at_stamps, errors, yaw_of
from quadsim.errors import InputError
from quadsim.sim.log import Array, FlightLog, Stamps
from quadsim.sim.scenario import Criterion, SignalCriterion

Logs = Sequence[FlightLog]


@dataclass(frozen=True, slots=True)
class Series:
    """A number over time.

    Attributes:
        stamp_ns: (N,) ns.
        values: (N,).
    """

    stamp_ns: Stamps
    values: Array

    def __len__(self) -> int:
        return len(self.stamp_ns)


NOTHING = Series(np.zeros(0, np.int64), np.zeros(0))


def _errors(log: FlightLog) -> Errors | None:
    """Errors of the first estimate, the one that flew."""
    estimate = next(iter(log.estimates.values()), None)
    return None if estimate is None or not len(log.truth) else errors(estimate, log.truth)


def _of_errors(value: Callable[[Errors], Array]) -> Callable[[Logs], Series]:
    def series(logs: Logs) -> Series:
        found = _errors(logs[0])
        return NOTHING if found is None else Series(found.stamp_ns, value(found))

    return series


def euler_angles(q_WB: Array) -> Array:
    """(N, 3) roll, pitch and yaw of (N, 4) quaternions, turned z, y, x; rad."""
    w, x, y, z = q_WB.T
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0))
    return np.stack([roll, pitch, yaw_of(q_WB)], axis=1)


def _euler_error_max(logs: Logs) -> Series:
    estimate = next(iter(logs[0].estimates.values()), None)
    if estimate is None:
        return NOTHING
    known, true = at_stamps(logs[0].truth, estimate.stamp_ns)
    apart = euler_angles(estimate.q_WB[known]) - euler_angles(true.q_WB)
    turned = np.abs(np.arctan2(np.sin(apart), np.cos(apart)))
    return Series(true.stamp_ns, turned.max(axis=1, initial=0.0))


def _heading_in_sigma(error: Errors) -> Array:
    if error.sigma is None:
        return np.zeros(len(error))
    return np.asarray(np.abs(error.attitude_W[:, 2]) <= error.sigma[:, 8], float)


def _gnss_x_in_sigma(logs: Logs) -> Series:
    fixes = logs[0].gnss
    if fixes is None or fixes.sigma is None:
        return NOTHING
    whole = np.asarray(np.isfinite(fixes.p_W).all(axis=1))
    fixes = fixes[whole]
    known, true = at_stamps(logs[0].truth, fixes.stamp_ns)
    off = np.abs(fixes.p_W[known, 0] - true.p_W[:, 0])
    assert fixes.sigma is not None
    return Series(true.stamp_ns, np.asarray(off <= fixes.sigma[known, 0], float))


def _accel_x_in_sigma(logs: Logs) -> Series:
    imu = logs[0].imu
    if imu is None:
        return NOTHING
    return Series(imu.stamp_ns, np.asarray(np.abs(imu.f_S[:, 0]) <= imu.f_sigma[:, 0], float))


def _probability(column: int) -> Callable[[Logs], Series]:
    """Of so small a sum of (error / stated deviation)^2 over the vehicles, were they right."""

    def series(logs: Logs) -> Series:
        found = [_errors(log) for log in logs]
        each = [error for error in found if error is not None and error.sigma is not None]
        if len(each) < len(logs):
            return NOTHING
        stamp_ns = each[0].stamp_ns
        for error in each[1:]:
            stamp_ns = np.intersect1d(stamp_ns, error.stamp_ns)
        total = np.zeros(len(stamp_ns))
        for error in each:
            rows = np.isin(error.stamp_ns, stamp_ns)
            vector = error.position_W if column < 3 else error.velocity_W
            assert error.sigma is not None
            total += (vector[rows, column % 3] / error.sigma[rows, column]) ** 2
        return Series(stamp_ns, np.asarray(chdtr(len(each), total)))

    return series


@dataclass(frozen=True, slots=True)
class Signal:
    """What a criterion can name.

    Attributes:
        doc: what it is.
        unit: of its values.
        of: gives it for the flights of a scenario's vehicles; all but the probabilities look at
            the first.
        is_share: its values are 1 (within) and 0; what is judged is the share of ones since the
            criterion's beginning.
    """

    doc: str
    unit: str
    of: Callable[[Logs], Series]
    is_share: bool = False


def _length(vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, axis=1))


SIGNALS = {
    "position_error_m": Signal(
        "length of the position error", "m", _of_errors(lambda e: _length(e.position_W))
    ),
    "velocity_error_mps": Signal(
        "length of the velocity error", "m/s", _of_errors(lambda e: _length(e.velocity_W))
    ),
    "tilt_error_rad": Signal(
        "angle between estimated and true body z", "rad", _of_errors(lambda e: e.tilt)
    ),
    "yaw_error_rad": Signal(
        "magnitude of the error of the yaw angle", "rad", _of_errors(lambda e: np.abs(e.yaw))
    ),
    "euler_error_max_rad": Signal(
        "largest magnitude of the errors of roll, pitch and yaw", "rad", _euler_error_max
    ),
    "heading_in_sigma": Signal(
        "share of attitude errors about the vertical within one stated deviation",
        "1",
        _of_errors(_heading_in_sigma),
        True,
    ),
    "gnss_x_in_sigma": Signal(
        "share of fixes whose east is within one stated deviation", "1", _gnss_x_in_sigma, True
    ),
    "accel_x_in_sigma": Signal(
        "share of specific forces along x within one stated deviation of 0, as a level hover has",
        "1",
        _accel_x_in_sigma,
        True,
    ),
    "x_error_probability": Signal(
        "chi-square probability of smaller east errors than the vehicles', by their deviations",
        "1",
        _probability(0),
    ),
    "v_x_error_probability": Signal("the same of the velocities to the east", "1", _probability(3)),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """A criterion beside what a flight reached.

    Attributes:
        criterion: what was to hold.
        series: the signal between ``from_s`` and ``to_s``, shares summed up.
        value: of a magnitude: the smallest limit that would have passed; else the last value of
            the series; None where there is nothing to take it from.
        held_s: the longest time in the band without a break; of a share: the time up to the end.
        passed: whether it holds.
    """

    criterion: SignalCriterion
    series: Series
    value: float | None
    held_s: float
    passed: bool

    def figures(self) -> dict[str, Any]:
        """What the summary says of it."""
        criterion = self.criterion
        return {
            "name": criterion.signal,
            "value": self.value,
            "least": criterion.least,
            "limit": criterion.limit,
            "hold_s": criterion.hold_s,
            "held_s": self.held_s,
            "passed": self.passed,
        }


def check_signals(criteria: Iterable[Criterion | SignalCriterion], where: str) -> None:
    """Refuse criteria on signals that there are none.

    Raises:
        InputError: naming ``where`` and the signals there are.
    """
    for criterion in criteria:
        if isinstance(criterion, SignalCriterion) and criterion.signal not in SIGNALS:
            raise InputError(
                f"{where}: criteria: signal: {criterion.signal!r}; known: {', '.join(SIGNALS)}"
            )


def need_imu(criteria: Iterable[Criterion | SignalCriterion]) -> bool:
    """Whether a log must hold the samples of the IMU for these criteria."""
    names = [item.signal for item in criteria if isinstance(item, SignalCriterion)]
    return any(name.startswith("accel") for name in names)


def stretches(series: Series, inside: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last row of each stretch inside, which a gap of the series breaks too."""
    if not len(series):
        return []
    new = np.ones(len(series), bool)
    new[1:] = (inside[1:] != inside[:-1]) | (np.diff(series.stamp_ns) > MAX_GAP_S * 1e9)
    first = np.flatnonzero(new)
    last = np.append(first[1:] - 1, len(series) - 1)
    return [(int(a), int(b)) for a, b in zip(first, last, strict=True) if inside[a]]


def _cut(series: Series, criterion: SignalCriterion, start_ns: int) -> Series:
    since_ns = series.stamp_ns - start_ns
    rows = (since_ns >= criterion.from_s * 1e9) & (since_ns <= criterion.to_s * 1e9)
    return Series(series.stamp_ns[rows], series.values[rows])


def _held_s(series: Series, least: float, limit: float, at_end: bool) -> tuple[float, bool]:
    """Longest (or last) time in a band, and whether that is the whole series."""
    with np.errstate(invalid="ignore"):
        inside = (series.values >= least) & (series.values <= limit)
    found = stretches(series, inside)
    if at_end:
        found = [(a, b) for a, b in found if b == len(series) - 1]
    if not found:
        return 0.0, False
    lengths = [int(series.stamp_ns[b] - series.stamp_ns[a]) for a, b in found]
    return max(lengths) * 1e-9, found[0] == (0, len(series) - 1)


def judge_signal(criterion: SignalCriterion, logs: Logs) -> Judged:
    """Hold a criterion against the flights of a scenario's vehicles.

    Args:
        criterion: on a signal of :data:`SIGNALS`.
        logs: the flights, at least one.

    Raises:
        InputError: there is no such signal.
    """
    check_signals([criterion], "judged")
    signal = SIGNALS[criterion.signal]
    series = _cut(signal.of(logs), criterion, logs[0].start_ns)
    if signal.is_share:
        counts = np.arange(1, len(series) + 1)
        series = Series(series.stamp_ns, np.cumsum(series.values) / counts)

    def holds(limit: float) -> tuple[float, bool]:
        held_s, whole = _held_s(series, criterion.least, limit, signal.is_share)
        return held_s, held_s >= criterion.hold_s if criterion.hold_s else whole

    held_s, passed = holds(criterion.limit)
    value: float | None = None
    if signal.is_share or criterion.least > 0.0:
        value = float(series.values[-1]) if len(series) else None
    else:
        value = _smallest_limit(series.values, lambda limit: holds(limit)[1])
    return Judged(criterion, series, value, held_s, passed)


def _smallest_limit(values: Array, passes: Callable[[float], bool]) -> float | None:
    """The smallest of the values that passes as a limit."""
    limits = np.unique(values[np.isfinite(values)])
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if passes(float(limits[middle])):
            high = middle
        else:
            low = middle + 1
    return float(limits[low]) if low < len(limits) else None
