"""The flights that a report compares, and how each is drawn: colours of runs, names of lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from quadsim.analysis.metrics import Errors, errors
from quadsim.analysis.report.figures import (
    BLIND,
    ESTIMATE,
    FIXES,
    GROUND,
    MAX_POINTS,
    REFERENCE,
    RUNS,
    TRUTH,
    WAYPOINTS,
)
from quadsim.analysis.summary import Summary
from quadsim.sim.log import FlightLog

Runs = Mapping[str, FlightLog]

#: What lines are called: the legend of A. Larsen's thesis (NTNU 2010), and the autopilot's request.
TRUE, ESTIMATED, UNAIDED, WISH = "true", "estimated", "blind", "reference"
GPS, CORNERS, TERRAIN, BOUND = "GPS fixes", "waypoints", "ground", "3 σ stated"

#: Order of the legend; what is not named here stands between.
RANKS = {TRUE: 10, ESTIMATED: 20, UNAIDED: 30, GPS: 40, CORNERS: 50, WISH: 60, BOUND: 2000}

_COLOURS = {
    TRUE: TRUTH,
    ESTIMATED: ESTIMATE,
    UNAIDED: BLIND,
    WISH: REFERENCE,
    GPS: FIXES,
    CORNERS: WAYPOINTS,
    TERRAIN: GROUND,
}
#: Of a second estimator of the same run, a third, and so on.
_FURTHER = ("#cc79a7", "#56b4e9", "#8c6d1f", "#009e73")


@dataclass(frozen=True)
class Flights:
    """Runs in the order of their colours, with their summaries.

    Attributes:
        summaries: the same labels to summaries; empty where only figures are wanted.
    """

    runs: Runs
    summaries: Mapping[str, Summary] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Whether runs are compared: then a colour means a run, else a kind of line."""
        return len(self.runs) > 1

    @property
    def points(self) -> int:
        """How many points of a line are drawn, at most: fewer where more lines share a page."""
        count = sum(max(1, len(log.estimates)) for log in self.runs.values())
        return MAX_POINTS if count <= 2 else 800 if count <= 6 else 500

    @property
    def longest_s(self) -> float:
        """Duration of the longest run, s."""
        return max((log.duration_s for log in self.runs.values()), default=0.0)

    @cached_property
    def errors(self) -> dict[tuple[str, str], Errors]:
        """Run and estimator to the errors against the truth, where there is one."""
        found = {
            (run, name): errors(track, log.truth)
            for run, log in self.runs.items()
            for name, track in log.estimates.items()
            if len(log.truth)
        }
        return {key: error for key, error in found.items() if len(error)}

    @cached_property
    def _estimators(self) -> list[str]:
        names = dict.fromkeys(name for log in self.runs.values() for name in log.estimates)
        return [name for name in names if name != UNAIDED]

    def kind_of(self, estimator: str) -> str:
        """What the line of an estimator is called."""
        if estimator == UNAIDED:
            return UNAIDED
        return ESTIMATED if len(self._estimators) <= 1 else f"{ESTIMATED} by {estimator}"

    def colour(self, run: str, kind: str) -> str:
        """Colour of a line."""
        if self.several and kind not in (WISH, CORNERS):
            return RUNS[list(self.runs).index(run) % len(RUNS)]
        if kind in _COLOURS:
            return _COLOURS[kind]
        kinds = [self.kind_of(name) for name in self._estimators]
        number = kinds.index(kind) if kind in kinds else 0
        return _FURTHER[(number - 1) % len(_FURTHER)] if number else ESTIMATE

    def judged(self, run: str) -> list[Mapping[str, Any]]:
        """Criteria of a run, as in its summary."""
        return list(self.summaries.get(run, {}).get("criteria", []))
