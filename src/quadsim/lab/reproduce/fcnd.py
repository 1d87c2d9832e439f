"""The scenarios 06 to 11 of the FCND estimation project (Udacity), each over many seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.criteria import Judged, check_signals, judge_signal
from quadsim.analysis.metrics import SETTLE_S, score
from quadsim.analysis.report.figures import thin
from quadsim.analysis.signals import SIGNALS
from quadsim.estimation import ESTIMATORS
from quadsim.lab.campaign.batch import Progress, run_batch
from quadsim.lab.demands import demand
from quadsim.lab.estimator_rerun import estimate_beside
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.criterion import SignalCriterion
from quadsim.sim.log import ERROR
from quadsim.sim.scenario import Scenario, load_scenario

SENSOR_NOISE, GPS_UPDATE = "fcnd_06_sensor_noise", "fcnd_11_gps_update"
SCENARIOS = (
    SENSOR_NOISE,
    "fcnd_07_attitude_estimation",
    "fcnd_08_predict_state",
    "fcnd_09_predict_covariance",
    "fcnd_10_magnetometer_update",
    GPS_UPDATE,
)

#: Share of the seeds of a scenario that has to pass.
PASS_SHARE = 0.95
#: In 06 the seeds' samples are taken together: a normal distribution within one deviation, and how
#: far off that may be over a hundred seeds; with fewer, by the root of their number, more.
ONE_SIGMA = math.erf(math.sqrt(0.5))
POOLED_TOLERANCE = 0.01
POOLED_SEEDS = 100
#: In 11: median over the seeds of the position RMSE of the filter that flies, m.
RMSE_LIMIT_M = 0.3
#: Runs in 11 beside the filter that flies, over the same samples.
BESIDE = ("ekf7",)


@dataclass(frozen=True, slots=True)
class Job:
    """One seed of a scenario.

    Attributes:
        scenario: name or file.
        seed: of all randomness.
        beside: estimators that run over the samples of the flight.
    """

    scenario: str
    seed: int
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """A criterion of one seed.

    Attributes:
        criterion: what was to hold.
        figures: as in a summary.
        t_s: (N,) since the start, thinned for drawing.
        values: (N,) of the signal, shares summed up.
        count: samples that were judged.
    """

    criterion: SignalCriterion
    figures: dict[str, Any]
    t_s: NDArray[np.float32]
    values: NDArray[np.float32]
    count: int

    @staticmethod
    def of(judged: Judged, start_ns: int) -> Reached:
        """What is kept of a judged criterion."""
        rows = thin(len(judged.series), 500)
        return Reached(
            judged.criterion,
            judged.figures(),
            ((judged.series.stamp_ns[rows] - start_ns) * 1e-9).astype(np.float32),
            judged.series.values[rows].astype(np.float32),
            len(judged.series),
        )


@dataclass(frozen=True, slots=True)
class Flown:
    """What is kept of one seed.

    Attributes:
        seed: of the flight.
        reached: its criteria, in the order of the file.
        errors: what went wrong in the flight.
        position_rmse_m: estimator to its figure, from 5 s on; None where it gave none.
        digest: of all that was flown.
    """

    seed: int
    reached: tuple[Reached, ...]
    errors: tuple[str, ...]
    position_rmse_m: dict[str, float | None]
    digest: str

    @property
    def passed(self) -> bool:
        """Whether all criteria hold and nothing went wrong."""
        return not self.errors and all(item.figures["passed"] for item in self.reached)


@lru_cache(maxsize=16)
def _scenario(name: str) -> Scenario:
    return load_scenario(name)


def fly(job: Job) -> Flown:
    """Fly one seed of a scenario, all its vehicles, and judge it."""
    scenario = _scenario(job.scenario)
    scenario = replace(scenario, file=replace(scenario.file, seed=job.seed))
    loops = [
        ClosedLoop(scenario, keep_samples=bool(job.beside), vehicle=name)
        for name in vehicle_names(scenario.file.vehicles)
    ]
    logs = [loop.fly() for loop in loops]
    log = logs[0]
    for name in job.beside:
        log.estimates[name] = estimate_beside(loops[0], name)
    from_ns = log.start_ns + round(SETTLE_S * 1e9)
    return Flown(
        seed=job.seed,
        reached=tuple(
            Reached.of(judge_signal(criterion, logs), log.start_ns)
            for criterion in scenario.criteria
            if isinstance(criterion, SignalCriterion)
        ),
        errors=tuple(e.message for each in logs for e in each.events if e.level >= ERROR),
        position_rmse_m={
            name: score(track, log.truth, from_ns).position_rmse_m
            for name, track in log.estimates.items()
        },
        digest=" ".join(loop.digest() for loop in loops),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario over its seeds.

    Attributes:
        scenario: what flew, with the first seed.
        flown: what is kept of each seed, in order.
    """

    scenario: Scenario
    flown: tuple[Flown, ...]

    @property
    def name(self) -> str:
        """Of the scenario."""
        return self.scenario.name

    @property
    def pass_share(self) -> float:
        """Share of the seeds that pass."""
        return sum(flown.passed for flown in self.flown) / len(self.flown)

    @property
    def headline(self) -> str:
        """What it shows, in a few words."""
        if self.name == SENSOR_NOISE:
            shares = " and ".join(f"{100 * row['pooled']:.1f} %" for row in self.rows())
            return f"{shares} of all seeds' samples within one deviation"
        passed = sum(flown.passed for flown in self.flown)
        return f"{passed} of {len(self.flown)} seeds pass"

    def demands(self) -> list[dict[str, Any]]:
        """What the scenario has to show over its seeds: name, value, least, limit, passed."""
        if self.name == SENSOR_NOISE:
            slack = POOLED_TOLERANCE * math.sqrt(max(1.0, POOLED_SEEDS / len(self.flown)))
            found = [
                demand(f"{item['name']}, all seeds", item["pooled"], ONE_SIGMA - slack,
                        ONE_SIGMA + slack)
                for item in self.rows()
            ]  # fmt: skip
            faultless = sum(not flown.errors for flown in self.flown) / len(self.flown)
            found.append(demand("share of flights without an error", faultless, PASS_SHARE, 1.0))
        else:
            found = [demand("share of seeds that pass", self.pass_share, PASS_SHARE, 1.0)]
        if self.name == GPS_UPDATE:
            name = next(iter(self.flown[0].position_rmse_m))
            value = self.position_rmse_m()[name]
            found.append(demand(f"median position RMSE of {name}, m", value, 0.0, RMSE_LIMIT_M))
        return [{"scenario": self.name, **item} for item in found]

    def rows(self) -> list[dict[str, Any]]:
        """Each criterion over the seeds: its band, what was reached, how many passed."""
        found = []
        for k, first in enumerate(self.flown[0].reached):
            each = [flown.reached[k] for flown in self.flown]
            values = [item.figures["value"] for item in each]
            known = [value for value in values if value is not None]
            low, median, high = np.quantile(known, (0.05, 0.5, 0.95)) if known else [None] * 3
            row = {key: first.figures[key] for key in ("name", "least", "limit", "hold_s")}
            row |= {"low": low, "median": median, "high": high}
            row["passed"] = sum(item.figures["passed"] for item in each)
            row["pooled"] = None
            if SIGNALS[first.criterion.signal].is_share and known:
                counts = [item.count for item in each if item.figures["value"] is not None]
                row["pooled"] = float(np.average(known, weights=counts))
            found.append(row)
        return found

    def position_rmse_m(self) -> dict[str, float | None]:
        """Estimator to the median of its position RMSE over the seeds."""
        medians: dict[str, float | None] = {}
        for name in self.flown[0].position_rmse_m:
            known = [flown.position_rmse_m.get(name) for flown in self.flown]
            numbers = [value for value in known if value is not None]
            medians[name] = float(np.median(numbers)) if numbers else None
        return medians

    def summary(self) -> dict[str, Any]:
        """What JSON says of the scenario, but for its seeds."""
        return {
            "name": self.name,
            "seeds": len(self.flown),
            "pass_share": self.pass_share,
            "passed": all(item["passed"] for item in self.demands()),
            "signals": self.rows(),
            "position_rmse_m": self.position_rmse_m(),
        }

    def runs(self) -> list[dict[str, Any]]:
        """What JSON says of each seed."""
        return [
            {
                "scenario": self.name,
                "seed": flown.seed,
                "passed": flown.passed,
                "criteria": [item.figures for item in flown.reached],
                "errors": list(flown.errors),
                "estimators": {
                    name: {"name": name, "position_rmse_m": value}
                    for name, value in flown.position_rmse_m.items()
                },
                "digest": flown.digest,
            }
            for flown in self.flown
        ]


def run(
    names: Sequence[str],
    seeds: int,
    processes: int = 0,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Fly scenarios over seeds from 1 on.

    Args:
        names: of :data:`SCENARIOS`.
        seeds: how many.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
        progress: told after each flight.
    """
    beside = tuple(name for name in BESIDE if name in ESTIMATORS)
    for name in names:
        scenario = _scenario(name)
        check_signals(scenario.criteria, str(scenario.path))
    jobs = [
        Job(name, seed, beside if name == GPS_UPDATE else ())
        for name in names
        for seed in range(1, seeds + 1)
    ]
    flown = run_batch(fly, jobs, processes, progress)
    return [
        Outcome(_scenario(name), tuple(flown[i * seeds : (i + 1) * seeds]))
        for i, name in enumerate(names)
    ]


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The experiment as one JSON object."""
    criteria = [item for outcome in outcomes for item in outcome.demands()]
    return {
        "experiment": "fcnd",
        "passed": all(item["passed"] for item in criteria),
        "criteria": criteria,
        "scenarios": [outcome.summary() for outcome in outcomes],
        "runs": [run for outcome in outcomes for run in outcome.runs()],
    }
