"""Signals of a flight: numbers over time that a criterion can name, none below zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from quadsim.analysis.metrics import Errors, at_stamps, body_z, errors, yaws_of
from quadsim.sim.log import Array, FlightLog, Stamps, Track

Logs = Sequence[FlightLog]


@dataclass(frozen=True, slots=True)
class SignalSeries:
    """A number over time.

    Attributes:
        stamp_ns: (N,) ns.
        values: (N,).
    """

    stamp_ns: Stamps
    values: Array

    def __len__(self) -> int:
        return len(self.stamp_ns)


NOTHING = SignalSeries(np.zeros(0, np.int64), np.zeros(0))


def _errors(log: FlightLog) -> Errors | None:
    """Errors of the first estimate, the one that flew."""
    estimate = next(iter(log.estimates.values()), None)
    return None if estimate is None or not len(log.truth) else errors(estimate, log.truth)


def _of_errors(value: Callable[[Errors], Array]) -> Callable[[Logs], SignalSeries]:
    def series(logs: Logs) -> SignalSeries:
        found = _errors(logs[0])
        return NOTHING if found is None else SignalSeries(found.stamp_ns, value(found))

    return series


def _of_truth(value: Callable[[Track], Array]) -> Callable[[Logs], SignalSeries]:
    def series(logs: Logs) -> SignalSeries:
        truth = logs[0].truth
        return SignalSeries(truth.stamp_ns, value(truth)) if len(truth) else NOTHING

    return series


def _tilt(truth: Track) -> Array:
    return np.asarray(np.arccos(np.clip(body_z(truth.q_WB)[:, 2], -1.0, 1.0)))


def _away(truth: Track) -> Array:
    return _length((truth.p_W - truth.p_W[0])[:, :2])


def _height(truth: Track) -> Array:
    return np.asarray(np.maximum(truth.p_W[:, 2] - truth.p_W[0, 2], 0.0))


def euler_angles(q_WB: Array) -> Array:
    """(N, 3) roll, pitch and yaw of (N, 4) quaternions, rotated z, y, x; rad."""
    w, x, y, z = q_WB.T
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0))
    return np.stack([roll, pitch, yaws_of(q_WB)], axis=1)


def _euler_error_max(logs: Logs) -> SignalSeries:
    estimate = next(iter(logs[0].estimates.values()), None)
    if estimate is None:
        return NOTHING
    known, true = at_stamps(logs[0].truth, estimate.stamp_ns)
    apart = euler_angles(estimate.q_WB[known]) - euler_angles(true.q_WB)
    rotated = np.abs(np.arctan2(np.sin(apart), np.cos(apart)))
    return SignalSeries(true.stamp_ns, rotated.max(axis=1, initial=0.0))


def _tracking(logs: Logs) -> SignalSeries:
    log = logs[0]
    if log.reference is None or not len(log.truth):
        return NOTHING
    known, wanted = at_stamps(log.reference, log.truth.stamp_ns)
    return SignalSeries(wanted.stamp_ns, _length(log.truth.p_W[known] - wanted.p_W))


def _heading_in_sigma(error: Errors) -> Array:
    if error.sigma is None:
        return np.zeros(len(error))
    return np.asarray(np.abs(error.attitude_W[:, 2]) <= error.sigma[:, 8], float)


def _gnss_x_in_sigma(logs: Logs) -> SignalSeries:
    fixes = logs[0].gnss
    if fixes is None or fixes.sigma is None:
        return NOTHING
    whole = np.asarray(np.isfinite(fixes.p_W).all(axis=1))
    fixes = fixes[whole]
    known, true = at_stamps(logs[0].truth, fixes.stamp_ns)
    off = np.abs(fixes.p_W[known, 0] - true.p_W[:, 0])
    assert fixes.sigma is not None
    return SignalSeries(true.stamp_ns, np.asarray(off <= fixes.sigma[known, 0], float))


def _accel_x_in_sigma(logs: Logs) -> SignalSeries:
    imu = logs[0].imu
    if imu is None:
        return NOTHING
    return SignalSeries(imu.stamp_ns, np.asarray(np.abs(imu.f_S[:, 0]) <= imu.f_sigma[:, 0], float))


def _probability(column: int) -> Callable[[Logs], SignalSeries]:
    """Of so small a sum of (error / stated deviation)^2 over the vehicles, were they right."""

    def series(logs: Logs) -> SignalSeries:
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
        from scipy.special import chdtr  # here, as it takes 0.1 s, and few criteria need it

        return SignalSeries(stamp_ns, np.asarray(chdtr(len(each), total)))

    return series


#: Events that a landing begins with.
LANDINGS = ("landing", "failsafe_landing", "crash", "stopped")


def _height_above_ground(logs: Logs) -> SignalSeries:
    """From the first item after the take-off to the landing."""
    log = logs[0]
    if log.ground_m is None or not len(log.truth):
        return NOTHING
    stamps = log.truth.stamp_ns
    begin_ns = next((event.stamp_ns for event in log.events if event.name == "mission"), None)
    if begin_ns is None:
        return NOTHING
    ends = (e.stamp_ns for e in log.events if e.name in LANDINGS and e.stamp_ns > begin_ns)
    rows = (stamps >= begin_ns) & (stamps < next(ends, int(stamps[-1]) + 1))
    above = log.truth.p_W[rows, 2] - log.ground_m[rows]
    return SignalSeries(stamps[rows], np.maximum(above, 0.0))


def _gap(logs: Logs) -> SignalSeries:
    """Smallest distance between the upright cylinders of any two vehicles, 0 where they meet."""
    if len(logs) < 2 or not all(len(log.truth) for log in logs):
        return NOTHING
    stamp_ns = logs[0].truth.stamp_ns
    places = np.full((len(logs), len(stamp_ns), 3), np.nan)  # of who has no truth any more
    for i, log in enumerate(logs):
        known, there = at_stamps(log.truth, stamp_ns)
        places[i, known] = there.p_W
    radius_m, height_m = np.array([log.hull_m for log in logs]).T
    gap_m = np.full(len(stamp_ns), np.inf)
    for i in range(len(logs) - 1):
        apart = places[i + 1 :] - places[i]
        level = np.hypot(apart[..., 0], apart[..., 1]) - (radius_m[i + 1 :] + radius_m[i])[:, None]
        upright = np.abs(apart[..., 2]) - 0.5 * (height_m[i + 1 :] + height_m[i])[:, None]
        gaps = np.hypot(np.maximum(level, 0.0), np.maximum(upright, 0.0))
        gap_m = np.fmin(gap_m, np.fmin.reduce(gaps))
    known = np.isfinite(gap_m)
    return SignalSeries(stamp_ns[known], gap_m[known])


@dataclass(frozen=True, slots=True)
class Signal:
    """What a criterion can name.

    Attributes:
        of: gives it for the flights of a scenario's vehicles; most look at the first alone.
        is_share: its values are 1 (within) and 0; what is judged is the share of ones since the
            criterion's beginning.
        of_all: it looks at all vehicles at once.
        is_room: it is between vehicles, and its smallest value counts; one alone has none.
    """

    doc: str
    unit: str
    of: Callable[[Logs], SignalSeries]
    is_share: bool = False
    of_all: bool = False
    is_room: bool = False


def _length(vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, axis=1))


def _shares(doc: str, of: Callable[[Logs], SignalSeries]) -> Signal:
    return Signal(doc, "1", of, is_share=True)


SIGNALS = {
    "position_error_m": Signal(
        "length of the position error", "m", _of_errors(lambda e: _length(e.position_W))
    ),
    "tracking_error_m": Signal(
        "distance of the truth from the reference, where there is one", "m", _tracking
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
    "tilt_rad": Signal("angle between true body z and the vertical", "rad", _of_truth(_tilt)),
    "sink_mps": Signal(
        "true speed downwards", "m/s", _of_truth(lambda t: np.maximum(-t.v_W[:, 2], 0.0))
    ),
    "away_m": Signal("true horizontal distance from the start", "m", _of_truth(_away)),
    "height_m": Signal("true height above the start", "m", _of_truth(_height)),
    "height_above_ground_m": Signal(
        "true height above the ground beneath, between take-off and landing", "m",
        _height_above_ground,
    ),
    "heading_in_sigma": _shares(
        "share of attitude errors about the vertical within one stated deviation",
        _of_errors(_heading_in_sigma),
    ),
    "gnss_x_in_sigma": _shares(
        "share of fixes whose east is within one stated deviation", _gnss_x_in_sigma
    ),
    "accel_x_in_sigma": _shares(
        "share of specific forces along x within one stated deviation of 0, as a level hover has",
        _accel_x_in_sigma,
    ),
    "x_error_probability": Signal(
        "chi-square probability of smaller east errors than the vehicles', by their deviations",
        "1", _probability(0), of_all=True,
    ),
    "v_x_error_probability": Signal(
        "the same of the velocities to the east", "1", _probability(3), of_all=True
    ),
    "gap_m": Signal(
        "smallest distance between the upright cylinders around any two vehicles", "m", _gap,
        of_all=True, is_room=True,
    ),
}  # fmt: skip
