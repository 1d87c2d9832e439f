"""A. Larsen's automated experiments (thesis, NTNU, 2010): four scenarios, four configurations.

A run begins where the vehicle leaves its hover over the start, and ends with a crash (any touch of
the ground), at the last waypoint, or after 100 s. After a crash it is tried again with the next
lower limit of speed. The autopilot passes waypoints by what it flies on; the run has arrived when
the true position is within the radius of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from quadsim.analysis.report.figures import thin
from quadsim.base.compiled import Array
from quadsim.lab.campaign.batch import Progress
from quadsim.lab.campaign.experiment import Job, demand, fly_cells
from quadsim.lab.estimator_rerun import rerun_estimator
from quadsim.mission.waypoint import Waypoint
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.world.scene.raycast_terrain import terrain_height

SCENARIOS = SHORT_FLAT, SLOPED, HILLY, PRECISION = (
    "ntnu_1_short_flat", "ntnu_2_medium_sloped", "ntnu_3_large_hilly", "ntnu_4_precision_flat",
)  # fmt: skip

#: Limits of speed, each for the attempt after a crash with the one before, m/s.
LIMITS_MPS = (10.0, 5.0, 2.0, 1.0)
#: Longest run, s.
TIMEOUT_S = 100.0
#: How long the vehicle stays at the last waypoint: longer than any run.
STAY_S = 10.0 * TIMEOUT_S
#: Items of a mission before the first waypoint that counts: take-off, and rest over the start.
ITEMS_BEFORE = 2


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
class Configuration:
    """What is known of the state.

    Attributes:
        blind: nothing corrects the estimate from the first waypoint on.
        starts_on_truth: the vehicle takes off on the truth, which the estimator gets at the first
            waypoint.
        noiseless: nothing is by chance, so that one seed is as good as all.
    """

    words: str
    sensors: str
    estimator: str
    fly_on: str = "estimate"
    blind: bool = False
    starts_on_truth: bool = False
    noiseless: bool = False


@dataclass(frozen=True, slots=True)
class VehicleKind:
    """A vehicle with its four configurations.

    Attributes:
        configurations: by their numbers from 1 on.
    """

    vehicle: str
    autopilot: str
    configurations: Sequence[Configuration]


_FILE = yaml.safe_load(
    files("quadsim.lab.reproduce").joinpath("ntnu.yaml").read_text(encoding="utf-8")
)

KINDS: Mapping[str, VehicleKind] = {
    name: VehicleKind(
        **each | {"configurations": [Configuration(**c) for c in each["configurations"]]}
    )
    for name, each in _FILE["kinds"].items()
}


@dataclass(frozen=True, slots=True)
class Reported:
    """A row of a table of results; velocities in km/h, all else in SI.

    Attributes:
        passed: the last waypoint was reached without crash or timeout (a share, over seeds).
        limit_kmh: limit of speed of the last one.
        velocity_kmh: largest and mean.
        height_m: above the ground: largest, mean, smallest.
        error_m: of the position flown on: largest and mean.
    """

    passed: float
    duration_s: float
    attempts: float
    limit_kmh: float
    velocity_kmh: tuple[float, ...]
    height_m: tuple[float, ...]
    error_m: tuple[float, ...]


#: The thesis's own results, by scenario and number of the configuration.
THESIS = {
    (name, number): Reported(*[*row[:4], tuple(row[4:6]), tuple(row[6:9]), tuple(row[9:])])
    for name, rows in _FILE["results"].items()
    for number, row in enumerate(rows, 1)
}


def attempt_scenario(name: str, kind: str, number: int, seed: int, limit_mps: float) -> Scenario:
    """One attempt: waypoints within a limit of speed, and a stay at the last instead of a landing.

    Args:
        name: of :data:`SCENARIOS`.
        kind: of :data:`KINDS`.
        number: of the configuration, from 1 on.
    """
    flown = KINDS[kind]
    known = flown.configurations[number - 1]
    scenario = load_scenario(
        name, _FILE["set"], vehicle=flown.vehicle, autopilot=flown.autopilot, sensors=known.sensors,
        estimator=known.estimator, fly_on=known.fly_on, seed=seed,
    )  # fmt: skip
    items = [
        replace(item, speed_mps=limit_mps) if isinstance(item, Waypoint) else item
        for item in scenario.items[:-1]
    ]
    assert isinstance(items[-1], Waypoint)
    items[-1] = replace(items[-1], type="hover", hold_s=STAY_S)
    return replace(scenario, items=tuple(items))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run with one limit of speed.

    Attributes:
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
class SeedAttempts:
    """What is stored of one seed of a cell.

    Attributes:
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


class RunWatch:
    """Watches a flight: when the run begins, and when and how it ends.

    Attributes:
        begin_ns: where the first waypoint was aimed at; -1 before.
        end_ns: where it was watched last; -1 before the beginning.
        end: how it ended; empty before.
    """

    def __init__(self, scenario: Scenario, configuration: Configuration) -> None:
        self._scenario, self._configuration = scenario, configuration
        last = scenario.items[-1]
        assert isinstance(last, Waypoint)
        self._goal, self.radius_m = last.position_W_m, last.radius_m
        feet = scenario.vehicle.contact.points_B_m or ((0.0, 0.0, 0.0),)
        self._touch_m = -min(foot[2] for foot in feet)
        self.begin_ns = self.end_ns = -1
        self.end = ""

    def ends(self, loop: ClosedLoop) -> bool:
        """Called after each tick; whether the flight ends there."""
        item = int(loop.manager.status()["item"] or -1)
        if self.begin_ns < 0:
            if item >= ITEMS_BEFORE:
                self._begin(loop)
            return False
        self.end_ns = loop.stamp_ns
        p_W = loop.state["truth"]["p_W"]
        height_m = float(heights_above_ground(self._scenario, p_W)[0])
        at_last = item >= len(self._scenario.items) - 1
        if height_m <= self._touch_m or int(loop.state.vehicle.crash):
            self.end = CRASHED
        elif at_last and math.dist(p_W[0, :2], self._goal[:2]) <= self.radius_m:
            self.end = ARRIVED
        elif (loop.stamp_ns - self.begin_ns) * 1e-9 >= TIMEOUT_S:
            self.end = TIMED_OUT
        return bool(self.end)

    def _begin(self, loop: ClosedLoop) -> None:
        """The run's first moment: what is flown on is by the configuration."""
        self.begin_ns = loop.stamp_ns
        if self._configuration.starts_on_truth:
            loop.tell_start()
            loop.use_truth = self._configuration.fly_on == "truth"
            loop.manager.source_changed()
        if self._configuration.blind:
            loop.go_blind()


def attempt(job: Job, limit_mps: float) -> tuple[Attempt, Drawn | None]:
    """Fly one attempt; see :func:`fly_ntnu`."""
    kind, name, number = job.cell
    configuration = KINDS[kind].configurations[number - 1]
    scenario = attempt_scenario(name, kind, number, job.seed, limit_mps)
    on_truth = True if configuration.starts_on_truth else None
    loop = ClosedLoop(scenario, use_truth=on_truth, keep_samples=bool(job.extra))
    run = RunWatch(scenario, configuration)
    loop.fly(ends=run.ends)
    rows = loop.rows()
    rows = rows[(rows["stamp_ns"] >= run.begin_ns) & (rows["stamp_ns"] <= run.end_ns)]
    end = run.end or (CRASHED if int(loop.state.vehicle.crash) else GAVE_UP)
    if run.begin_ns < 0 or not len(rows):
        nan = math.nan
        return Attempt(limit_mps, end, 0.0, (nan,) * 2, (nan,) * 3, (nan,) * 2, loop.digest()), None
    speeds = np.linalg.norm(rows["v_W"], axis=1)
    heights = heights_above_ground(scenario, rows["p_W"])
    on_estimate = float(configuration.fly_on != "truth")
    off = on_estimate * np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1)
    flown = Attempt(
        limit_mps,
        end,
        (run.end_ns - run.begin_ns) * 1e-9,
        (float(speeds.max()), float(speeds.mean())),
        (float(heights.max()), float(heights.mean()), float(heights.min())),
        (float(off.max()), float(off.mean())),
        loop.digest(),
    )
    return flown, _drawn(loop, run, rows, heights) if job.extra else None


def _drawn(loop: ClosedLoop, run: RunWatch, rows: NDArray[np.record], heights: Array) -> Drawn:
    """What a picture shows."""
    stamps = rows["stamp_ns"]
    t_s, few = (stamps - run.begin_ns) * 1e-9, thin(len(rows), DRAWN)
    name = "gps_ins" if len(loop.samples("ahrs")) else "eskf"
    track = rerun_estimator(loop, name, run.begin_ns)
    _, here, there = np.intersect1d(stamps, track.stamp_ns, return_indices=True)
    blind = np.full((len(rows), 3), np.nan)
    blind[here] = track.p_W[there]
    flown = rows["p_W"] if loop.use_truth else rows["estimate"]["p_W"]
    fixes = loop.samples("gnss")
    fixes = fixes[(fixes["stamp_ns"] >= run.begin_ns) & (fixes["stamp_ns"] <= run.end_ns)]
    acceleration = np.linalg.norm(np.gradient(rows["v_W"], t_s, axis=0), axis=1)
    lines = (t_s, rows["p_W"], flown, blind, heights, acceleration)
    goals = [item.position_W_m for item in loop.scenario.items if isinstance(item, Waypoint)]
    corners = np.array(goals)[1:, :2]
    drawn: list[Any] = [*(line[few] for line in lines), fixes["p_W"], corners, run.radius_m]
    return Drawn(*drawn)


def fly_ntnu(job: Job) -> SeedAttempts:
    """Fly one seed of a cell, again with a lower limit of speed after each crash.

    Args:
        job: ``cell`` is the kind, the scenario and the number of the configuration; ``extra``
            whether what a picture shows is stored.
    """
    attempts: list[Attempt] = []
    for limit_mps in LIMITS_MPS:
        flown, drawn = attempt(job, limit_mps)
        attempts.append(flown)
        if flown.end != CRASHED:
            break
    return SeedAttempts(job.seed, tuple(attempts), drawn)


@dataclass(frozen=True, slots=True)
class NtnuCell:
    """A cell of the table over its seeds.

    Attributes:
        flown: what is stored of each seed, in order.
    """

    kind: str
    scenario: str
    number: int
    flown: tuple[SeedAttempts, ...]

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

        def medians(values: list[Any], scale: float = 1.0) -> tuple[float, ...]:
            rows = scale * np.array(values, float).reshape(len(values), -1)
            return tuple(
                float(np.nanmedian(c)) if np.isfinite(c).any() else math.nan for c in rows.T
            )

        last = [flown.last for flown in self.flown]
        return Reported(
            self.pass_share,
            medians([each.duration_s for each in last])[0],
            medians([len(flown.attempts) for flown in self.flown])[0],
            medians([each.limit_mps for each in last], KMH)[0],
            medians([each.speed_mps for each in last], KMH),
            medians([each.height_m for each in last]),
            (medians([each.error_m for each in last])[0], self.mean_error_m()),
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
        """The cell as JSON, without its seeds."""
        ends = [flown.last.end for flown in self.flown]
        return {
            "scenario": self.scenario,
            "configuration": self.number,
            "words": self.configuration.words,
            "seeds": len(self.flown),
            "ends": {end: ends.count(end) for end in sorted(set(ends))},
            "first_attempt": sum(flown.at_once for flown in self.flown),
            "lowest_m": self.lowest_m(),
            "ours": asdict(self.reported()),
            "thesis": asdict(THESIS[self.scenario, self.number]),
        }

    def runs(self) -> list[dict[str, Any]]:
        """Each seed as JSON."""
        return [
            {
                "scenario": self.scenario,
                "configuration": self.number,
                "seed": flown.seed,
                "passed": flown.passed,
                "attempts": [asdict(each) for each in flown.attempts],
            }
            for flown in self.flown
        ]


def run_ntnu(
    names: Sequence[str],
    seeds: int,
    kind: str = "thesis",
    processes: int = 0,
    progress: Progress | None = None,
) -> list[NtnuCell]:
    """Fly scenarios under all configurations over seeds from 1 on.

    Args:
        names: of :data:`SCENARIOS`.
        seeds: how many; one of a configuration without noise.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
    """
    jobs = [
        Job((kind, name, number), seed, seed == 1)
        for name in names
        for number, configuration in enumerate(KINDS[kind].configurations, 1)
        for seed in range(1, 2 if configuration.noiseless else seeds + 1)
    ]
    cells = fly_cells(fly_ntnu, jobs, processes, progress)
    return [NtnuCell(kind, name, k, tuple(flown)) for (_, name, k), flown in cells.items()]


def ntnu_summary(outcomes: Sequence[NtnuCell]) -> dict[str, Any]:
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


TITLES = (
    "scenario", "configuration", "", "passed", "duration s", "attempts", "limit km/h",
    "velocity km/h max / avg", "height m max / avg / min", "position error m max / avg",
)  # fmt: skip


def _slashed(values: Sequence[float], digits: int) -> str:
    """Numbers with slashes between; a dash for what is not known."""
    return " / ".join(f"{v:.{digits}f}" if math.isfinite(v) else "-" for v in values)


def table_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Texts of the table.

    Args:
        cells: as of :meth:`NtnuCell.summary`.
    """
    before = ""
    for cell in cells:
        name, seeds = cell["scenario"], cell["seeds"]
        words = f"{cell['configuration']} {cell['words']}"
        passed = f"{round(cell['ours']['passed'] * seeds)} of {seeds}" if seeds > 1 else ""
        yield ("" if name == before else name, words, "ours", *_texts(cell["ours"], passed))
        yield ("", "", "thesis", *_texts(cell["thesis"]))
        before = name


def _texts(row: Mapping[str, Any], passed: str = "") -> tuple[str, ...]:
    digits = {"velocity_kmh": 0, "height_m": 2, "error_m": 2}
    return (
        passed or ("yes" if row["passed"] else "no"),
        _slashed([row["duration_s"]], 1),
        f"{row['attempts']:.0f}",
        _slashed([row["limit_kmh"]], 0),
        *(_slashed(row[name], count) for name, count in digits.items()),
    )
