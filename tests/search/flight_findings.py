"""Flies a scenario and finds what its estimate said too surely, and how it ended.

An error is *wrong* while it is above 6 of the deviations that the estimate states, for 2 s without
a break in which the estimator's status is ``running``; it is *material* while it is also above a
size that matters to a flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scenario_drawing import scenario_of

from quadsim.analysis.metrics import errors
from quadsim.base.errors import FlightError
from quadsim.estimation.interface import status_of
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import ERROR, WARN, FlightLog, Track

SIGMAS, LASTS_S = 6.0, 2.0
#: Time between two looks at the status, s.
LOOK_S = 0.1
#: What matters: beside the way that a mission plans, the height of a low hover, a walking pace,
#: 0.5 m/s^2 that a level vehicle does not know of, and a course that is off by a sixth.
MATERIAL: Mapping[str, float] = {
    "position": 2.0,
    "height": 1.0,
    "velocity": 0.5,
    "tilt": np.radians(3.0),
    "yaw": np.radians(10.0),
}
UNITS = {"position": "m", "height": "m", "velocity": "m/s", "tilt": "rad", "yaw": "rad"}
#: Ideal sensors leave no error but that of the arithmetic.
LEAST_SIGMA = 1e-6

#: Events that tell what somebody put into the scenario, not what the vehicle found out.
PLANNED = ("fault", "disturbance", "crash", "timeout")


@dataclass
class Findings:
    """What one flight showed.

    Attributes:
        kinds: name of each finding (``wrong yaw``, ``material height``, ``crash``, ``failsafe``,
            ``timeout``, ``not finite``) to words.
        cause: how the flight ended if not as planned, by the flight's own events; empty: no word.
        flew: whether it took off.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    cause: str = ""
    flew: bool = False


def _sizes(estimate: Track, truth: Track) -> tuple[Any, dict[str, tuple[Any, Any]]]:
    """Stamps, and by what is judged: size of the error, and the error over its deviation."""
    error = errors(estimate, truth)
    assert error.sigma is not None
    whole = np.hstack([error.position_W, error.velocity_W, error.attitude_W])
    ratio = np.abs(whole) / np.maximum(error.sigma, LEAST_SIGMA)

    def length(values: Any) -> Any:
        return np.linalg.norm(values, axis=1)

    return error.stamp_ns, {
        "position": (length(error.position_W[:, :2]), ratio[:, :2].max(axis=1)),
        "height": (np.abs(error.position_W[:, 2]), ratio[:, 2]),
        "velocity": (length(error.velocity_W), ratio[:, 3:6].max(axis=1)),
        "tilt": (error.tilt, ratio[:, 6:8].max(axis=1)),
        "yaw": (np.abs(error.yaw), ratio[:, 8]),
    }


def _lasting(stamp_ns: Any, holds: Any) -> Any:
    """Rows of the first stretch that lasts LASTS_S; none: empty."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], holds.astype(np.int8), [0]])))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        if (stamp_ns[end - 1] - stamp_ns[first]) * 1e-9 >= LASTS_S:
            return np.arange(first, end)
    return np.arange(0)


def judge_estimate(log: FlightLog, fine: list[tuple[int, bool]]) -> dict[str, str]:
    """Findings of an estimate: name to words.

    Args:
        log: the flight.
        fine: stamps in ns, and whether the status was ``running`` from there on.
    """
    crash_ns = min((e.stamp_ns for e in log.events if e.name == "crash"), default=1 << 62)
    stamp_ns, sizes = _sizes(next(iter(log.estimates.values())), log.truth)
    looks_ns = np.array([at for at, _ in fine])
    is_fine = np.array([good for _, good in fine])
    counts = is_fine[np.maximum(np.searchsorted(looks_ns, stamp_ns, side="right") - 1, 0)]
    counts &= stamp_ns < crash_ns
    found = {}
    for name, (size, ratio) in sizes.items():
        wrong = counts & (ratio > SIGMAS)
        for word, holds in (("wrong", wrong), ("material", wrong & (size > MATERIAL[name]))):
            rows = _lasting(stamp_ns, holds)
            if len(rows):
                worst = rows[np.argmax(size[rows])]
                found[f"{word} {name}"] = (
                    f"{size[worst]:.3g} {UNITS[name]} at {ratio[worst]:.1f} sigma,"
                    f" {stamp_ns[worst] * 1e-9:.1f} s"
                )
    return found


def judge_end(log: FlightLog, findings: Findings) -> None:
    """Add how the flight ended, and the cause that its own events name."""
    ends = {event.name: event.message for event in log.events if event.level == ERROR}
    told = [e for e in log.events if e.level >= WARN and e.name not in PLANNED]
    findings.flew = any(event.name == "takeoff" for event in log.events)
    findings.cause = "; ".join(dict.fromkeys(f"{e.name}: {e.message}" for e in told))
    kinds = findings.kinds
    if "crash" in ends:
        crash = next(e for e in log.events if e.name == "crash")
        kinds["crash"] = f"{crash.message}, {crash.stamp_ns * 1e-9:.1f} s"
        before = [e for e in told if e.stamp_ns < crash.stamp_ns]
        findings.cause = "; ".join(dict.fromkeys(f"{e.name}: {e.message}" for e in before))
    elif "timeout" in ends and not (findings.cause and not findings.flew):
        kinds["timeout"] = ends["timeout"]
    for name in ("failsafe_landing", "failsafe_return", "stopped"):
        if name in ends and "crash" not in ends:
            kinds["failsafe"] = ends[name]


def fly(content: Mapping[str, Any]) -> Findings:
    """Fly a scenario's content on the error-state filter, and judge it."""
    loop = ClosedLoop(scenario_of(content))
    recovery_s, state = loop.scenario.estimator.gate.recovery_s, loop.state["line"]["state"][0]
    fine: list[tuple[int, bool]] = [(0, True)]

    def look(now: ClosedLoop) -> bool:
        if now.stamp_ns - fine[-1][0] >= LOOK_S * 1e9:
            fine.append((now.stamp_ns, status_of(state, recovery_s) == "running"))
        return False

    findings = Findings()
    try:
        log = loop.fly(ends=look)
    except FlightError as error:
        findings.kinds["not finite"] = str(error)
        return findings
    findings.kinds |= judge_estimate(log, fine)
    judge_end(log, findings)
    return findings
