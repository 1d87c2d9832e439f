"""Flies a scenario and finds what its estimate said too surely, and how it ended.

An error is *wrong* while it is above 6 of the deviations that the estimate states, for 2 s without
a break in which the estimator's status is ``running``; it is *material* while it is also above a
size that matters to a flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scenario_drawing import scenario_of

from quadsim.analysis.metrics import errors
from quadsim.base.errors import FlightError
from quadsim.estimation.interface import filter_status
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import ERROR, WARN, FlightLog

SIGMAS, LASTS_S = 6.0, 2.0
#: Time between two looks at the status, s.
LOOK_S = 0.1
#: Who has not armed until then does not.
NOT_ARMED_S = 60.0
#: What matters, and its unit: beside the way that a mission plans, the height of a low hover, a
#: walking pace, 0.5 m/s^2 that a level vehicle does not know of, a course that is off by a sixth.
MATERIAL: Mapping[str, tuple[float, str]] = {
    "position": (2.0, "m"),
    "height": (1.0, "m"),
    "velocity": (0.5, "m/s"),
    "tilt": (np.radians(3.0), "rad"),
    "yaw": (np.radians(10.0), "rad"),
}
#: Ideal sensors leave no error but that of the arithmetic.
LEAST_SIGMA = 1e-6
#: Events that tell what somebody put into the scenario, not what the vehicle found out.
PLANNED = ("fault", "disturbance", "crash", "timeout")
FAILSAFES = {"failsafe_landing", "failsafe_return", "stopped"}


@dataclass
class Findings:
    """What one flight showed.

    Attributes:
        kinds: name of each finding (``wrong yaw``, ``material height``, ``crash``, ``failsafe``,
            ``timeout``, ``not finite``) to words.
        cause: what the flight's own events tell of the way there; empty: no word.
        flew: whether it took off.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    cause: str = ""
    flew: bool = False


def _lasting(stamp_ns: Any, holds: Any) -> slice:
    """Rows of the first stretch that lasts LASTS_S; none: empty."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], holds.astype(np.int8), [0]])))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        if (stamp_ns[end - 1] - stamp_ns[first]) * 1e-9 >= LASTS_S:
            return slice(first, end)
    return slice(0)


def judge_estimate(log: FlightLog, fine: list[tuple[int, bool]]) -> dict[str, str]:
    """Findings of an estimate: name to words.

    Args:
        log: the flight.
        fine: stamps in ns, and whether the status was ``running`` from there on.
    """
    error = errors(next(iter(log.estimates.values())), log.truth)
    whole = np.hstack([error.position_W, error.velocity_W, error.attitude_W])
    ratio = np.abs(whole) / np.maximum(error.sigma, LEAST_SIGMA)
    judged = {
        "position": (np.hypot(*error.position_W[:, :2].T), ratio[:, :2]),
        "height": (np.abs(error.position_W[:, 2]), ratio[:, 2:3]),
        "velocity": (np.linalg.norm(error.velocity_W, axis=1), ratio[:, 3:6]),
        "tilt": (error.tilt, ratio[:, 6:8]),
        "yaw": (np.abs(error.yaw), ratio[:, 8:]),
    }
    looks_ns, is_fine = np.array([at for at, _ in fine]), np.array([good for _, good in fine])
    counts = is_fine[np.maximum(np.searchsorted(looks_ns, error.stamp_ns, side="right") - 1, 0)]
    counts &= error.stamp_ns < min(
        [e.stamp_ns for e in log.events if e.name == "crash"] + [1 << 62]
    )
    found = {}
    for name, (size, ratios) in judged.items():
        sigmas, (limit, unit) = ratios.max(axis=1), MATERIAL[name]
        wrong = counts & (sigmas > SIGMAS)
        for word, holds in (("wrong", wrong), ("material", wrong & (size > limit))):
            rows = _lasting(error.stamp_ns, holds)
            if len(size[rows]):
                at = rows.start + int(np.argmax(size[rows]))
                words = f"{size[at]:.3g} {unit} at {sigmas[at]:.1f} sigma"
                found[f"{word} {name}"] = f"{words}, {error.stamp_ns[at] * 1e-9:.1f} s"
    return found


def judge_end(log: FlightLog) -> Findings:
    """How the flight ended, and the cause that its own events name."""
    ends = {event.name: event for event in reversed(log.events) if event.level == ERROR}
    crash = ends.get("crash")
    told = [e for e in log.events if e.level >= WARN and e.name not in PLANNED]
    told = [e for e in told if crash is None or e.stamp_ns < crash.stamp_ns]
    cause = "; ".join(dict.fromkeys(f"{e.name}: {e.message}" for e in told))
    flew = any(event.name == "takeoff" for event in log.events)
    kinds = {}
    if crash is not None:
        kinds["crash"] = f"{crash.message}, {crash.stamp_ns * 1e-9:.1f} s"
    elif failed := FAILSAFES & ends.keys():
        kinds["failsafe"] = ends[min(failed)].message
    elif "timeout" in ends:
        kinds["timeout"] = ends["timeout"].message
    elif not flew and not cause:  # who does not arm and says why is honest
        kinds["timeout"] = "it never armed, without a word"
    return Findings(kinds, cause, flew)


def fly(content: Mapping[str, Any]) -> Findings:
    """Fly a scenario's content on the error-state filter, and judge it."""
    loop = ClosedLoop(scenario_of(content))
    state = loop.state["line"]["state"][0]
    fine: list[tuple[int, bool]] = [(0, True)]

    def look(now: ClosedLoop) -> bool:
        if now.stamp_ns - fine[-1][0] >= LOOK_S * 1e9:
            fine.append((now.stamp_ns, filter_status(state) == "running"))
        return not now.manager.armed and 0.0 < now.stamp_ns * 1e-9 - NOT_ARMED_S < 1.0

    try:
        log = loop.fly(ends=look)
    except FlightError as error:
        return Findings({"not finite": str(error)})
    findings = judge_end(log)
    findings.kinds |= judge_estimate(log, fine)
    return findings
