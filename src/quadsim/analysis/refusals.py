"""Measurements that an estimator refused, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadsim.estimation.eskf.measurement_buffer import VERDICTS
from quadsim.estimation.interface import NO_DATUM

#: Reasons that count as refused; after a gap or a jump of the clock a sample is used.
REASONS = (*(word for word in VERDICTS[1:] if word not in ("gap", "clock_jump")), NO_DATUM)
#: Of what a flight rests on, in words.
_FIXES = {
    "gnss_position": "fixes", "gnss_velocity": "velocities", "external_position": "poses",
    "external_attitude": "attitudes",
}  # fmt: skip


def refusals(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """Reason to number of the messages of a kind that were not taken."""
    found = {reason: counts.get(f"{kind}_{reason}", 0) for reason in REASONS}
    return {reason: number for reason, number in found.items() if number}


def mostly_refused(name: str, figures: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Measurements that a flight rests on of which more than half were refused, in words.

    Args:
        figures: its summary, with the innovations in ``nis``.
    """
    found = []
    for kind, words in _FIXES.items():
        gated = figures.get("nis", {}).get(kind, {})
        unfit = sum(refusals(counts, kind).values())
        all_ = gated.get("count", 0) + gated.get("refused", 0) + unfit
        share = (gated.get("refused", 0) + unfit) / all_ if all_ else 0.0
        if share > 0.5:
            found.append(f"{100.0 * share:.0f} % of the {words} refused ({name})")
    return found
