"""A. Larsen's automated experiments (thesis, NTNU, 2010): four scenarios, four configurations.

A run begins where the vehicle leaves its hover over the start, and ends with a crash (any touch of
the ground), at the last waypoint, or after 100 s. After a crash it is tried again with the next
lower limit of speed. The autopilot passes waypoints by what it flies on; the run has arrived when
the true position is within the radius of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.report.figures import thin
from quadsim.lab.campaign.batch import Progress, run_batch
from quadsim.lab.demands import demand
from quadsim.lab.estimator_rerun import estimate_beside
from quadsim.lab.reproduce.ntnu_cells import (
    HILLY,
    ITEMS_BEFORE,
    KINDS,
    LIMITS_MPS,
    PRECISION,
    SCENARIOS,
    SHORT_FLAT,
    SLOPED,
    THESIS,
    TIMEOUT_S,
    Configuration,
    Reported,
    scenario_of,
)
from quadsim.mission.waypoint import Waypoint
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import Scenario
from quadsim.world.scene.raycast_terrain import terrain_height

Array = NDArray[np.float64]

#: How a run can end.
ARRIVED, CRASHED, TIMED_OUT, GAVE_UP = "arrived", "crashed", "timed out", "gave up"
KMH = 3.6
#: Share of the runs of scenarios 1 to 3 with bad sensors that has to pass.
PASS_SHARE = 0.95
#: Lowest height above the ground where 5 m are held, m.
LOWEST_M = 2.0
#: Points of a line in a picture.
DRAWN = 600


@dataclass(frozen=True, slots=True)
class Job:
    """One seed of a cell of the table.

    Attributes:
        kind: a key of KINDS.
        scenario: its name.
        number: of the configuration.
        seed: of all randomness.
        drawn: keep what a picture shows.
    """

    kind: str
    scenario: str
    number: int
    seed: int
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run with one limit of speed.

    Attributes:
        limit_mps: of speed.
        end: how it ended.
        duration_s: since it began.
        speed_mps: largest and mean, in space.
        height_m: of ``base_link`` above the ground: largest, mean, smallest.
        error_m: of the position that was flown on: largest and mean.
        digest: of all that was flown.
    """

    limit_mps: float
    end: str
    duration_s: float
    speed_mps: tuple[float, float]
    height_m: tuple[float, float, float]
    error_m: tuple[float, float]
    digest: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a picture shows of a run; times since its beginning.

    Attributes:
        t_s: (N,).
        truth, estimate, blind: (N, 3) positions, W; NaN where there is none.
        height_m: (N,) above the ground.
        acceleration_mps2: (N,) magnitude.
        fixes: (K, 3) positions that GNSS gave.
        waypoints: (M, 2).
        radius_m: of the waypoints.
    """

    t_s: Array
    truth: Array
    estimate: Array
    blind: Array
    height_m: Array
    acceleration_mps2: Array
    fixes: Array
    waypoints: Array
    radius_m: float


@dataclass(frozen=True, slots=True)
class Flown:
    """What is kept of one seed of a cell.

    Attributes:
        seed: of the flight.
        attempts: in order.
        drawn: of the last attempt; None where nobody asked for it.
    """

    seed: int
    attempts: tuple[Attempt, ...]
    drawn: Drawn | None = None

    @property
    def last(self) -> Attempt:
        """The attempt that counts."""
        return self.attempts[-1]

    @property
    def passed(self) -> bool:
        """Whether it arrived."""
        return self.last.end == ARRIVED

    @property
    def at_once(self) -> bool:
        """Whether it arrived at the first attempt."""
        return self.attempts[0].end == ARRIVED


def heights_above_ground(scenario: Scenario, p_W: Array) -> Array:
    """Heights of points above the ground straight below, (N,) in m."""
    flat_m = scenario.environment.ground_height_m
    ground = [terrain_height(scenario.scene.terrain, flat_m, float(x), float(y)) for x, y, _ in p_W]
    return np.asarray(p_W[:, 2] - np.array(ground).reshape(-1))


class Run:
    """Watches a flight: when the run begins, and when and how it ends.

    Attributes:
        begin_ns: where the first waypoint was aimed at; -1 before.
        end: how it ended; empty before.
    """

    def __init__(self, scenario: Scenario, configuration: Configuration) -> None:
        self._scenario = scenario
        self._configuration = configuration
        last = scenario.items[-1]
        assert isinstance(last, Waypoint)
        self._goal, self.radius_m = last.position_W_m, last.radius_m
        self._last = len(scenario.items) - 1
        feet = scenario.vehicle.contact.points_B_m or ((0.0, 0.0, 0.0),)
        self._touch_m = -min(foot[2] for foot in feet)
        self.begin_ns = -1
        self.end_ns = -1
        self.end = ""

    def ends(self, loop: ClosedLoop) -> bool:
        """Called after each tick; whether the flight ends there."""
        item = loop.manager.status()["item"]
        if self.begin_ns < 0:
            if item and int(item) >= ITEMS_BEFORE:
                self._begin(loop)
            return False
        self.end_ns = loop.stamp_ns
        p_W = loop.state["truth"]["p_W"]
        away_m = math.hypot(p_W[0, 0] - self._goal[0], p_W[0, 1] - self._goal[1])
        height_m = float(heights_above_ground(self._scenario, p_W)[0])
        if height_m <= self._touch_m or int(loop.state.vehicle.crash):
            self.end = CRASHED
        elif item and int(item) >= self._last and away_m <= self.radius_m:
            self.end = ARRIVED
        elif (loop.stamp_ns - self.begin_ns) * 1e-9 >= TIMEOUT_S:
            self.end = TIMED_OUT
        return bool(self.end)

    def _begin(self, loop: ClosedLoop) -> None:
        """The run's first moment: what is flown on is what the configuration says."""
        self.begin_ns = loop.stamp_ns
        if self._configuration.told:
            loop.tell_start()
            loop.use_truth = self._configuration.fly_on == "truth"
            loop.manager.source_changed()
        if self._configuration.blind:
            loop.go_blind()


def attempt(job: Job, limit_mps: float) -> tuple[Attempt, Drawn | None]:
    """Fly one attempt."""
    configuration = KINDS[job.kind].configurations[job.number - 1]
    scenario = scenario_of(job.scenario, job.kind, job.number, job.seed, limit_mps)
    loop = ClosedLoop(
        scenario, use_truth=True if configuration.told else None, keep_samples=job.drawn
    )
    run = Run(scenario, configuration)
    loop.fly(ends=run.ends)
    rows = loop.rows()
    rows = rows[(rows["stamp_ns"] >= run.begin_ns) & (rows["stamp_ns"] <= run.end_ns)]
    if run.begin_ns < 0 or not len(rows):
        nan = math.nan
        end = CRASHED if int(loop.state.vehicle.crash) else GAVE_UP
        empty = Attempt(limit_mps, end, 0.0, (nan, nan), (nan,) * 3, (nan, nan), loop.digest())
        return empty, None
    speeds = np.linalg.norm(rows["v_W"], axis=1)
    heights = heights_above_ground(scenario, rows["p_W"])
    off = np.zeros(len(rows))
    if configuration.fly_on != "truth":
        off = np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1)
    flown = Attempt(
        limit_mps,
        run.end or (CRASHED if int(loop.state.vehicle.crash) else GAVE_UP),
        (run.end_ns - run.begin_ns) * 1e-9,
        (float(speeds.max()), float(speeds.mean())),
        (float(heights.max()), float(heights.mean()), float(heights.min())),
        (float(off.max()), float(off.mean())),
        loop.digest(),
    )
    return flown, _drawn(loop, run, rows, heights) if job.drawn else None


def _drawn(loop: ClosedLoop, run: Run, rows: NDArray[np.record], heights: Array) -> Drawn:
    """What a picture shows."""
    scenario = loop.scenario
    stamps = rows["stamp_ns"]
    t_s = (stamps - run.begin_ns) * 1e-9
    few = thin(len(rows), DRAWN)
    name = "gps_ins" if len(loop.samples("ahrs")) else "eskf"
    track = estimate_beside(loop, name, run.begin_ns)
    at = np.searchsorted(track.stamp_ns, stamps)
    known = at < len(track)
    known[known] = track.stamp_ns[at[known]] == stamps[known]
    blind = np.full((len(rows), 3), np.nan)
    blind[known] = track.p_W[at[known]]
    flown = rows["p_W"] if loop.use_truth else rows["estimate"]["p_W"]
    fixes = loop.samples("gnss")
    fixes = fixes[(fixes["stamp_ns"] >= run.begin_ns) & (fixes["stamp_ns"] <= run.end_ns)]
    acceleration = np.linalg.norm(np.gradient(rows["v_W"], t_s, axis=0), axis=1)
    goals = [item.position_W_m for item in scenario.items if isinstance(item, Waypoint)]
    return Drawn(
        t_s[few],
        rows["p_W"][few],
        flown[few],
        blind[few],
        heights[few],
        acceleration[few],
        fixes["p_W"],
        np.array(goals)[1:, :2],
        run.radius_m,
    )


def fly(job: Job) -> Flown:
    """Fly one seed of a cell, again with a lower limit of speed after each crash."""
    attempts = []
    drawn = None
    for limit_mps in LIMITS_MPS:
        flown, drawn = attempt(job, limit_mps)
        attempts.append(flown)
        if flown.end != CRASHED:
            break
    return Flown(job.seed, tuple(attempts), drawn)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell of the table over its seeds.

    Attributes:
        kind: a key of KINDS.
        scenario: its name.
        number: of the configuration.
        flown: what is kept of each seed, in order.
    """

    kind: str
    scenario: str
    number: int
    flown: tuple[Flown, ...]

    @property
    def configuration(self) -> Configuration:
        """What was known of the state."""
        return KINDS[self.kind].configurations[self.number - 1]

    @property
    def pass_share(self) -> float:
        """Share of the seeds that pass."""
        return float(np.mean([flown.passed for flown in self.flown]))

    def reported(self) -> Reported:
        """Its row of the table: medians over the seeds; passed is a share."""
        last = [flown.last for flown in self.flown]

        def median(values: Sequence[float]) -> float:
            known = [value for value in values if math.isfinite(value)]
            return float(np.median(known)) if known else math.nan

        return Reported(
            self.pass_share,
            median([each.duration_s for each in last]),
            median([len(flown.attempts) for flown in self.flown]),
            KMH * median([each.limit_mps for each in last]),
            (
                KMH * median([each.speed_mps[0] for each in last]),
                KMH * median([each.speed_mps[1] for each in last]),
            ),
            (
                median([each.height_m[0] for each in last]),
                median([each.height_m[1] for each in last]),
                median([each.height_m[2] for each in last]),
            ),
            (median([each.error_m[0] for each in last]), self.mean_error_m()),
        )

    def mean_error_m(self) -> float:
        """Mean over the seeds of the mean position error."""
        known = [f.last.error_m[1] for f in self.flown if math.isfinite(f.last.error_m[1])]
        return float(np.mean(known)) if known else math.nan

    def lowest_m(self) -> float:
        """Lowest height above the ground of all seeds and attempts."""
        heights = [each.height_m[2] for flown in self.flown for each in flown.attempts]
        return float(np.nanmin(heights)) if np.isfinite(heights).any() else math.nan

    def demands(self) -> list[dict[str, Any]]:
        """What it has to show: name, value, least, limit, passed; nothing of the quadrotor."""
        if self.kind != "thesis":
            return []
        found = []
        if self.number <= 3:
            found.append(demand("share that passes", self.pass_share, 1.0, 1.0))
        elif self.scenario != PRECISION:
            found.append(demand("share that passes", self.pass_share, PASS_SHARE, 1.0))
        if self.scenario == HILLY and self.number <= 3:
            share = float(np.mean([flown.at_once for flown in self.flown]))
            found.append(demand("share that passes at 10 m/s at once", share, 1.0, 1.0))
        # redraw_s of the attitude was fitted to that cell, so it proves nothing
        if self.number >= 3 and (self.scenario, self.number) != (SLOPED, 3):
            limit_m = THESIS[self.scenario, self.number].error_m[1]
            found.append(demand("mean position error, m", self.mean_error_m(), 0.0, limit_m))
        if self.scenario in (SHORT_FLAT, SLOPED, HILLY):
            lowest = demand("lowest height above ground, m", self.lowest_m(), LOWEST_M, None)
            found.append(lowest)
        where = {"scenario": self.scenario, "configuration": self.number}
        return [where | item for item in found]

    def summary(self) -> dict[str, Any]:
        """What JSON says of the cell, but for its seeds."""
        ends = [flown.last.end for flown in self.flown]
        names = Reported.__dataclass_fields__
        found, thesis = self.reported(), THESIS[self.scenario, self.number]
        return {
            "scenario": self.scenario,
            "configuration": self.number,
            "words": self.configuration.words,
            "seeds": len(self.flown),
            "ends": {end: ends.count(end) for end in sorted(set(ends))},
            "first_attempt": sum(flown.at_once for flown in self.flown),
            "lowest_m": self.lowest_m(),
            "ours": {name: getattr(found, name) for name in names},
            "thesis": {name: getattr(thesis, name) for name in names},
        }

    def runs(self) -> list[dict[str, Any]]:
        """What JSON says of each seed."""
        return [
            {
                "scenario": self.scenario,
                "configuration": self.number,
                "seed": flown.seed,
                "passed": flown.passed,
                "attempts": [
                    {name: getattr(each, name) for name in Attempt.__dataclass_fields__}
                    for each in flown.attempts
                ],
            }
            for flown in self.flown
        ]


def run(
    names: Sequence[str],
    seeds: int,
    kind: str = "thesis",
    processes: int = 0,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Fly scenarios under all configurations over seeds from 1 on.

    Args:
        names: of :data:`~quadsim.lab.reproduce.ntnu_cells.SCENARIOS`.
        seeds: how many; one of a configuration without noise.
        kind: a key of KINDS.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
        progress: told after each flight.
    """
    jobs = [
        Job(kind, name, number, seed, drawn=seed == 1)
        for name in names
        for number, configuration in enumerate(KINDS[kind].configurations, 1)
        for seed in range(1, 2 if configuration.noiseless else seeds + 1)
    ]
    flown = run_batch(fly, jobs, processes, progress)
    cells: dict[tuple[str, int], list[Flown]] = {}
    for job, each in zip(jobs, flown, strict=True):
        cells.setdefault((job.scenario, job.number), []).append(each)
    return [Outcome(kind, name, number, tuple(each)) for (name, number), each in cells.items()]


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The experiment as one JSON object."""
    criteria = [item for outcome in outcomes for item in outcome.demands()]
    return {
        "experiment": "ntnu",
        "vehicle": outcomes[0].kind,
        "passed": all(item["passed"] for item in criteria),
        "criteria": criteria,
        "cells": [outcome.summary() for outcome in outcomes],
        "runs": [run for outcome in outcomes for run in outcome.runs()],
    }


__all__ = ["SCENARIOS", "Outcome", "fly", "run", "summarize"]
