"""Bands in which signals of a flight must stay for a time without a break.

After the pass criteria of the FCND estimation project (Udacity): a window in which the magnitude
of an error stays below a limit, and a share of samples within one stated deviation.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.metrics import MAX_GAP_S
from quadsim.analysis.signals import SIGNALS, Logs, SignalSeries
from quadsim.base.errors import InputError
from quadsim.base.parts import where_raised
from quadsim.sim.criterion import (
    AnyCriterion,
    EventCriterion,
    PartCriterion,
    SignalCriterion,
)
from quadsim.sim.log import ERROR, Array, Event, FlightLog


@dataclass(frozen=True, slots=True)
class Judged:
    """A criterion besides what a flight reached.

    Attributes:
        series: the signal between ``from_s`` and ``to_s``, shares summed up.
        value: of a magnitude: the smallest limit that would have passed; of the room between
            vehicles: the smallest; else the last value of the series; None where there is nothing
            to take it from.
        held_s: the longest time in the band without a break; of a share: the time up to the end.
        passed: whether it holds.
    """

    criterion: SignalCriterion
    series: SignalSeries
    value: float | None
    held_s: float
    passed: bool

    def figures(self) -> dict[str, Any]:
        """Its entry in the summary."""
        criterion = self.criterion
        return {
            "name": criterion.signal,
            "value": self.value,
            "least": criterion.least,
            "limit": criterion.limit,
            "hold_s": criterion.hold_s,
            "held_s": self.held_s,
            "from_s": criterion.from_s,
            "to_s": criterion.to_s,
            "passed": self.passed,
        }


def check_signals(criteria: Iterable[AnyCriterion], where: str) -> None:
    """Refuse criteria on signals that there are none.

    Raises:
        InputError: naming ``where`` and the signals there are.
    """
    for criterion in criteria:
        if isinstance(criterion, SignalCriterion) and criterion.signal not in SIGNALS:
            raise InputError(
                f"{where}: criteria: signal: {criterion.signal!r}; known: {', '.join(SIGNALS)}"
            )


def need_imu(criteria: Iterable[AnyCriterion]) -> bool:
    """Whether a log must hold the samples of the IMU for these criteria."""
    names = [item.signal for item in criteria if isinstance(item, SignalCriterion)]
    return any(name.startswith("accel") for name in names)


def stretches(series: SignalSeries, inside: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last row of each stretch inside, which a gap of the series breaks too."""
    if not len(series):
        return []
    new = np.ones(len(series), bool)
    new[1:] = (inside[1:] != inside[:-1]) | (np.diff(series.stamp_ns) > MAX_GAP_S * 1e9)
    first = np.flatnonzero(new)
    last = np.append(first[1:] - 1, len(series) - 1)
    return [(int(a), int(b)) for a, b in zip(first, last, strict=True) if inside[a]]


def _held_s(series: SignalSeries, least: float, limit: float, at_end: bool) -> tuple[float, bool]:
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

    Raises:
        InputError: there is no such signal.
    """
    check_signals([criterion], "judged")
    signal = SIGNALS[criterion.signal]
    series = signal.of(logs)
    since_ns = series.stamp_ns - logs[0].start_ns
    rows = (since_ns >= criterion.from_s * 1e9) & (since_ns <= criterion.to_s * 1e9)
    series = SignalSeries(series.stamp_ns[rows], series.values[rows])
    if signal.is_share:
        counts = np.arange(1, len(series) + 1)
        series = SignalSeries(series.stamp_ns, np.cumsum(series.values) / counts)

    def holds(limit: float) -> tuple[float, bool]:
        held_s, whole = _held_s(series, criterion.least, limit, signal.is_share)
        return held_s, held_s >= criterion.hold_s if criterion.hold_s else whole

    held_s, passed = holds(criterion.limit)
    value: float | None = None
    if signal.is_room:
        value = float(series.values.min()) if len(series) else None
    elif signal.is_share or criterion.least > 0.0:
        value = float(series.values[-1]) if len(series) else None
    else:
        value = _smallest_limit(series.values, lambda limit: holds(limit)[1])
    return Judged(criterion, series, value, held_s, passed)


def _smallest_limit(values: Array, passes: Callable[[float], bool]) -> float | None:
    """The smallest of the values that passes as a limit."""
    limits = np.unique(values[np.isfinite(values)]).tolist()
    first = bisect_left(limits, True, key=passes)
    return limits[first] if first < len(limits) else None


def _is_meant(criterion: EventCriterion, event: Event, start_ns: int) -> bool:
    since_s = (event.stamp_ns - start_ns) * 1e-9
    named = event.name == criterion.event and criterion.message in event.message
    return named and criterion.from_s <= since_s <= criterion.to_s


def judge_event(criterion: EventCriterion, log: FlightLog) -> dict[str, Any]:
    """What the summary has of an event that must come; its value is when it first came, in s."""
    came = [e.stamp_ns for e in log.events if _is_meant(criterion, e, log.start_ns)]
    value = (min(came) - log.start_ns) * 1e-9 if came else None
    words = f"event {criterion.event}" + (f": {criterion.message}" if criterion.message else "")
    return {
        "name": words,
        "event": criterion.event,
        "value": value,
        "limit": criterion.to_s,
        "from_s": criterion.from_s,
        "to_s": criterion.to_s,
        "passed": bool(came),
    }


def judge_part(criterion: PartCriterion, log: FlightLog) -> dict[str, Any]:
    """Entry in the summary of a criterion of the user's own; ``error`` if it failed."""
    judged: dict[str, Any] = {
        "name": criterion.part,
        "value": None,
        "least": criterion.least,
        "limit": criterion.limit,
        "passed": False,
    }
    part = criterion.of
    try:
        value = float(part.make().value(log))
    except InputError as error:
        return judged | {"error": str(error)}
    except Exception as error:
        return judged | {"error": f"{part}: failed: {where_raised(error)}"}
    passed = criterion.least <= value <= criterion.limit
    return judged | {"value": value if math.isfinite(value) else None, "passed": passed}


def surprises(criteria: Iterable[AnyCriterion], log: FlightLog) -> list[str]:
    """Errors of a flight that no criterion asks for."""
    asked = [item for item in criteria if isinstance(item, EventCriterion)]
    return [
        event.message
        for event in log.events
        if event.level >= ERROR and not any(_is_meant(item, event, log.start_ns) for item in asked)
    ]
