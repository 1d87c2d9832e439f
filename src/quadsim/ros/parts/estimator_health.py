"""What the estimator's node reports on ``/diagnostics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadsim.estimation.eskf.layout import SENSORS, VECTORS
from quadsim.estimation.interface import late_words
from quadsim.sim.log import ERROR, OK, WARN

#: How bad what the filter reports of itself is; what is not here is an error.
LEVELS = {"running": OK, "aligning": WARN}
#: Beginnings of what may be meant so: a simulation that is paused, a graph that starts.
MEANT = ("/clock", "no IMU")


def innovations(state: Any) -> dict[str, str | float]:
    """Last innovation and its normalised square, of each sensor that has been used.

    Args:
        state: ESKF record.
    """
    found: dict[str, str | float] = {}
    for sensor, name in enumerate(SENSORS):
        if state.accepted[sensor] + state.rejected[sensor] == 0:
            continue
        size = 3 if sensor in VECTORS else 1
        innovation = state.innovation[sensor][:size]
        found[f"{name}_innovation"] = " ".join(f"{x:.4g}" for x in innovation)
        found[f"{name}_nis"] = float(state.nis[sensor])
    return found


def judge_estimate(
    values: Mapping[str, Any], waits_for_datum: bool, trouble: str, frames: str
) -> tuple[int, str]:
    """Level and message: all that is wrong, the worst counts.

    Args:
        values: the filter's health.
        waits_for_datum: whether it does.
        trouble: of the IMU's stream, in words.
        frames: wrong ones of late, in words.
    """
    found: list[tuple[int, str]] = []
    if waits_for_datum:
        found.append((WARN, "waits for the datum"))
    if trouble:
        found.append((WARN if trouble.startswith(MEANT) else ERROR, trouble))
    status = str(values["status"])
    if status.startswith(("rejects", "repeats")):
        found.append((WARN, status))
    elif status != "running" and not found:
        words = ": ".join(filter(None, (status, str(values.get("awaited", "")))))
        found.append((LEVELS.get(status, ERROR), words))
    if values.get("gnss_time_counts"):
        found.append((WARN, late_words(float(values["gnss_time_s"]))))
    if values["axes"]:
        found.append((ERROR, str(values["axes"])))
    if frames:
        found.append((ERROR, f"wrong frame: {frames}"))
    worst = max((level for level, _ in found), default=OK)
    return worst, "; ".join(words for _, words in found) or "running"
