"""Fixed-interval smoother: the best guess of a recorded flight from all of its messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.estimation.eskf.driver import StepLog
from quadsim.estimation.eskf.input_validation import CLOCK_JUMP_SAMPLES, accept
from quadsim.estimation.eskf.layout import ESKF
from quadsim.estimation.eskf.measurement_buffer import (
    BACKWARD,
    CLOCK_JUMP,
    EVENT,
    GAP,
    HORIZON_NS,
    IMU,
    NEVER_NS,
    OK,
    REPEATED,
    STEP,
    VERDICTS,
    new_timeline,
)
from quadsim.estimation.eskf.parameters import EstimatorParams, SecondParams
from quadsim.estimation.interface import TAKEN, ErrorStateEkf, Estimator
from quadsim.estimation.smoother.backward import (
    ADJOINT,
    CORE,
    SMOOTHED,
    SmoothedFlight,
    backward,
    drain,
    forward,
)
from quadsim.geometry.geodesy import Datum

#: Events in a block of memory, and the room that is stored in it for one message.
BLOCK, ROOM = 65536, 16
#: Events between two copies of the filter that the backward pass starts from.
SEGMENT = 128


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A smoothed flight.

    Attributes:
        rows: (M,) SMOOTHED at the IMU's stamps, which rise; those without an estimate are left out.
        covariance: (M, 15, 15) of the error of attitude (about the world's axes, rad), velocity
            (m/s), position (m) at the IMU and its gyroscope's and accelerometer's bias, in the
            layout's order; None if it was not asked for.
    """

    rows: NDArray[Any]
    covariance: NDArray[np.float64] | None = None


class _Section:
    """Events of a flight between two jumps of the clock, in the order of their arrival."""

    def __init__(self) -> None:
        self.blocks: list[NDArray[Any]] = []
        self.count = BLOCK  # of the last block

    def take(self, lines: NDArray[Any]) -> None:
        """Keep what a line has accepted."""
        if self.count + ROOM > BLOCK:
            if self.blocks:
                self.blocks[-1] = self.blocks[-1][: self.count]
            self.blocks.append(np.zeros(BLOCK, EVENT))
            self.count = 0
        self.count += drain(lines, self.blocks[-1], self.count)

    def give(self) -> NDArray[Any]:
        """All events in the order of their stamps, of equal ones the IMU first; they leave here."""
        if not self.blocks:
            return np.zeros(0, EVENT)
        self.blocks[-1] = self.blocks[-1][: self.count]
        events: NDArray[Any] = np.concatenate(self.blocks)
        self.blocks, self.count = [], BLOCK
        rank = np.where(events["kind"] == IMU, -1, events["kind"])
        ordered: NDArray[Any] = events[np.lexsort((rank, events["stamp_ns"]))]
        return ordered


class Smoother(ErrorStateEkf):
    """Takes the messages of a whole flight in any order, and then smooths it.

    The methods that take messages are the filter's, and so is what they refuse, but for lateness:
    nothing is too late here. The sensors' axes are not watched. There is no estimate until
    :meth:`smooth`; after it state, counts and health are those of the filter at the flight's end.

    Args:
        params: of the filter.
        datum: origin of ``map``; fixes are refused without one.
    """

    offer = staticmethod(accept)

    def __init__(self, params: EstimatorParams, datum: Datum | None) -> None:
        super().__init__(params, datum)
        self._begin()

    def _begin(self) -> None:
        self._sections = [_Section()]
        self._newest_ns = NEVER_NS
        self._backward_in_row = 0

    def _own(self, params: EstimatorParams) -> EstimatorParams:
        """Of two IMUs the first."""
        return replace(params, second=SecondParams())

    def imu_1(self, stamp_ns: int, *sample: ArrayLike) -> str:
        """Leave the second of two IMUs alone."""
        return VERDICTS[OK]

    def reset(self) -> None:
        """Forget all."""
        super().reset()
        self._begin()

    def _after_imu(self, verdict: str, stamp_ns: int, f_S: ArrayLike, w_S: ArrayLike) -> str:
        """Keep the sample, if the clock was not set back."""
        if verdict == VERDICTS[OK] and stamp_ns < self._newest_ns - HORIZON_NS:
            self._backward_in_row += 1
            if self._backward_in_row < CLOCK_JUMP_SAMPLES:
                drain(self._lines, np.zeros(ROOM, EVENT), 0)
                return self._judged(IMU, BACKWARD)
            self._sections.append(_Section())  # the clock was set back
            verdict, self._newest_ns = self._judged(IMU, CLOCK_JUMP), stamp_ns
        self._sections[-1].take(self._lines)
        if verdict in TAKEN:
            self._newest_ns = max(self._newest_ns, stamp_ns)
        self._backward_in_row = 0
        return verdict

    def _judged(self, kind: int, verdict: int, count: int = 1) -> str:
        """Count messages anew that input validation had found good."""
        line = self._lines[0]
        line.verdicts[kind, OK] -= count
        line.verdicts[kind, verdict] += count
        return VERDICTS[verdict]

    def _take(self, kind: int, stamp_ns: int, values: ArrayLike, covariance: ArrayLike) -> str:
        verdict = Estimator._take(self, kind, stamp_ns, values, covariance)
        self._sections[-1].take(self._lines)
        return verdict

    def smooth(self, with_covariance: bool = False) -> Smoothed:
        """Smooth the flight that was taken, and let go of its messages.

        Args:
            with_covariance: give full covariances: 1.8 kB an IMU sample.
        """
        line = self._lines[0]
        verdicts, received = line.verdicts.copy(), line.received.copy()
        self._lines[:] = new_timeline(self.params)
        self._lines[0].verdicts, self._lines[0].received = verdicts, received
        parts = []
        for section in self._sections:
            events = self._unrepeated(section.give())
            if len(events):
                self._lines["state"] = new_timeline(self.params)["state"]
                stamps_ns = events["stamp_ns"][events["kind"] == IMU]
                periods_ns = np.diff(stamps_ns)
                gaps = periods_ns > 3.0 * np.median(periods_ns) if len(periods_ns) else periods_ns
                self._judged(IMU, GAP, int(gaps.sum()))
            parts.append(smooth_events(self._lines, events, with_covariance))
        self._begin()
        rows = np.concatenate([part.rows for part in parts])
        rising = _rising(rows["odometry"]["stamp_ns"])
        if not with_covariance:
            return Smoothed(rows[rising])
        covariances = [part.covariance for part in parts if part.covariance is not None]
        return Smoothed(rows[rising], np.concatenate(covariances)[rising])

    def _unrepeated(self, events: NDArray[Any]) -> NDArray[Any]:
        """Events without those that repeat kind and stamp; the first to arrive is stored."""
        stamp_ns, kind = events["stamp_ns"], events["kind"]
        repeated = np.zeros(len(events), bool)
        repeated[1:] = (stamp_ns[1:] == stamp_ns[:-1]) & (kind[1:] == kind[:-1])
        if not repeated.any():
            return events
        for number, count in enumerate(np.bincount(kind[repeated])):
            self._judged(number, REPEATED, int(count))
        stored: NDArray[Any] = events[~repeated]
        return stored


def smooth_events(
    lines: NDArray[Any], events: NDArray[Any], with_covariance: bool = False
) -> Smoothed:
    """Filter forwards and keep copies; then filter each segment again, and go back over it.

    Args:
        lines: (1,) TIMELINE, its filter as it is before the first event, afterwards after the last.
        events: (K,) EVENT in the order of their stamps, of equal ones the IMU first.
        with_covariance: give full covariances.
    """
    is_sample = events["kind"] == IMU
    samples = np.flatnonzero(is_sample)
    ends = _segment_ends(samples, len(events))
    firsts = [0, *ends][: len(ends)]
    copies = _copies(lines, events, firsts, ends)
    at_end = lines["state"][0].copy()
    start = lines["params"]["start"][0]
    time_sigma_s = float(start["gnss_time_s"])
    if len(ends) and time_sigma_s > 0.0 and at_end["gnss_time_counts"] != 1:
        lines["state"][0] = copies[0]  # the stamps of GNSS are exact: no state
        start["gnss_time_s"] = 0.0
        copies = _copies(lines, events, firsts, ends)
        at_end = lines["state"][0].copy()
    capacity = 1 + 3 * max((b - a for a, b in zip(firsts, ends, strict=True)), default=0)
    log = StepLog(np.zeros(capacity, ESKF), np.zeros(capacity, STEP))
    out = np.zeros(len(samples), SMOOTHED)
    covariance = np.zeros((len(samples) if with_covariance else 0, CORE, CORE))
    flight = SmoothedFlight(events, np.cumsum(is_sample) - 1, out, covariance)
    adjoints = np.zeros(1, ADJOINT)
    for k in range(len(ends) - 1, -1, -1):
        lines["state"][0] = copies[k]
        count = forward(lines, events, firsts[k], ends[k], log, 1)
        backward(adjoints, lines, flight, log, count)
    lines["state"][0] = at_end
    start["gnss_time_s"] = time_sigma_s
    known = out["odometry"]["stamp_ns"] > 0
    return Smoothed(out[known], covariance[known] if with_covariance else None)


def _copies(
    lines: NDArray[Any], events: NDArray[Any], firsts: list[int], ends: list[int]
) -> NDArray[Any]:
    """The filter before each segment; ``lines`` holds it after the last one."""
    copies, log = np.zeros(len(ends), ESKF), StepLog(np.zeros(0, ESKF), np.zeros(0, STEP))
    for k, (first, last) in enumerate(zip(firsts, ends, strict=True)):
        copies[k] = lines["state"][0]
        forward(lines, events, first, last, log, 0)
    return copies


def _segment_ends(samples: NDArray[np.intp], count: int) -> list[int]:
    """Indices behind the last event of each segment; each but the last ends with an IMU sample."""
    ends: list[int] = []
    while count and (not ends or ends[-1] < count):
        wanted = (ends[-1] if ends else 0) + SEGMENT - 1
        at = int(np.searchsorted(samples, wanted))
        ends.append(int(samples[at]) + 1 if at < len(samples) else count)
    return ends


def _rising(stamp_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which stamps are later than all before them."""
    newest = np.maximum.accumulate(stamp_ns)
    return np.concatenate([[True], stamp_ns[1:] > newest[:-1]])[: len(stamp_ns)]
