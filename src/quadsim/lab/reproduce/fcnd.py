"""The scenarios 06 to 11 of the FCND estimation project (Udacity), and fleets of its projects.

The fleets are X_MonteCarlo and X_TestManyQuads. Each of their vehicles is a closed loop of its own:
as in the projects, they do not feel each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.criteria import Judged, check_signals, judge_signal
from quadsim.analysis.metrics import SETTLE_S, score, tracking_rmse_m
from quadsim.analysis.report.figures import thin
from quadsim.analysis.signals import SIGNALS
from quadsim.base.noise import stream
from quadsim.control.airframe import AirframeParams, known_airframe
from quadsim.lab.campaign.batch import Progress
from quadsim.lab.campaign.experiment import Job, demand, fly_cells
from quadsim.lab.estimator_rerun import rerun_estimator
from quadsim.mission.items import Hover, Item
from quadsim.mission.trajectories.items import FigureOfEight
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.criterion import SignalCriterion
from quadsim.sim.log import ERROR
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.parameters import VehicleParams

SENSOR_NOISE, GPS_UPDATE = "fcnd_06_sensor_noise", "fcnd_11_gps_update"
SCENARIOS = (
    SENSOR_NOISE,
    "fcnd_07_attitude_estimation",
    "fcnd_08_predict_state",
    "fcnd_09_predict_covariance",
    "fcnd_10_magnetometer_update",
    GPS_UPDATE,
)
FLEETS = MONTE_CARLO, MANY_QUADS = "x_monte_carlo", "x_test_many_quads"

#: Share of the seeds of a scenario, and of the vehicles of a fleet, that has to pass.
PASS_SHARE = 0.95
#: In 06 the seeds' samples are taken together: a normal distribution within one deviation, and how
#: far off that may be over a hundred seeds; with fewer, by the root of their number, more.
ONE_SIGMA = math.erf(math.sqrt(0.5))
POOLED_TOLERANCE = 0.01
POOLED_SEEDS = 100
#: In 11: median over the seeds of the position RMSE of the filter that flies, m.
RMSE_LIMIT_M = 0.3
#: Runs in 11 after the filter that flies, over the same samples.
EXTRA_ESTIMATOR = "ekf7"

#: X_MonteCarlo: deviation of each figure as a share of the file's, drawn within three deviations.
#: Mass as of another battery or camera; thrust and torque of another propeller; motors of another
#: make.
VEHICLE_SPREAD = {
    "mass_kg": 0.05,
    "thrust_coefficient_N_s2": 0.05,
    "torque_ratio_m": 0.10,
    "time_constant_up_s": 0.20,
    "time_constant_down_s": 0.20,
}
#: The same of the inertia about x and y, of a body of another shape; about z it goes with their
#: sum, so that a flat body stays one.
INERTIA_SPREAD = 0.10
#: The same of the gains, by group of the autopilot's file.
GAIN_SPREAD = 0.10
GAINS = {
    "position": (
        "position_gain_xy", "position_gain_z", "velocity_gain_xy", "velocity_gain_z",
        "velocity_integral_xy", "velocity_integral_z", "yaw_gain",
    ),
    "attitude": ("tilt_gain", "rate_gain", "rate_integral"),
}  # fmt: skip
MOST_DEVIATIONS = 3.0

#: X_TestManyQuads: what each vehicle flies later and farther north than the one before.
LATER_S, FARTHER_M = 0.1, 0.1

#: Points that are stored for drawing, of a signal and of a way.
SIGNAL_POINTS, WAY_POINTS = 500, 400


@dataclass(frozen=True, slots=True)
class Reached:
    """A criterion of one seed.

    Attributes:
        t_s: (N,) since the start, thinned for drawing.
        values: (N,) of the signal, shares summed up.
    """

    criterion: SignalCriterion
    figures: dict[str, Any]
    t_s: NDArray[np.float32]
    values: NDArray[np.float32]
    count: int

    @staticmethod
    def of(judged: Judged, start_ns: int) -> Reached:
        """What is stored of a judged criterion."""
        series, rows = judged.series, thin(len(judged.series), SIGNAL_POINTS)
        t_s = ((series.stamp_ns[rows] - start_ns) * 1e-9).astype(np.float32)
        values = series.values[rows].astype(np.float32)
        return Reached(judged.criterion, judged.figures(), t_s, values, len(series))


@dataclass(frozen=True, slots=True)
class SeedFlown:
    """What is stored of one seed of a scenario, or of one vehicle of a fleet.

    Attributes:
        vehicle: name of the first one that flew.
        reached: its criteria, in the order of the file.
        position_rmse_m: estimator to its figure, from 5 s on; None where it gave none.
        tracking_rmse_m: of the truth against the reference, take-off and landing included.
        way_W: (N, 3) true positions of that vehicle, m, thinned.
        digest: of all that was flown.
    """

    seed: int
    vehicle: str
    reached: tuple[Reached, ...]
    errors: tuple[str, ...]
    position_rmse_m: dict[str, float | None]
    tracking_rmse_m: float
    way_W: NDArray[np.float64]
    digest: str

    @property
    def passed(self) -> bool:
        """Whether all criteria hold and nothing went wrong."""
        return not self.errors and all(item.figures["passed"] for item in self.reached)

    def of_fleet(self) -> dict[str, Any]:
        """What JSON adds of a vehicle of a fleet."""
        way_m = {"tracking_rmse_m": self.tracking_rmse_m, "rest_W_m": self.way_W[-1].tolist()}
        return {"vehicle": self.vehicle, **way_m}


@dataclass(frozen=True)
class VariedScenario(Scenario):
    """A scenario whose controller believes another vehicle than flies.

    Attributes:
        assumed: what the controller knows.
    """

    assumed: VehicleParams | None = None

    @property
    def airframe(self) -> AirframeParams:
        """What the controller believes of the vehicle."""
        return known_airframe(self.assumed or self.vehicle)


def _drawn(value: Any, spread: float, generator: np.random.Generator) -> Any:
    """A number, or each of several, times 1 plus a normal deviation within its bounds."""
    if isinstance(value, tuple):
        return tuple(_drawn(item, spread, generator) for item in value)
    deviation = math.inf
    while abs(deviation) > MOST_DEVIATIONS:
        deviation = float(generator.standard_normal())
    return value * (1.0 + spread * deviation)


def vary_vehicle(scenario: Scenario, vehicle: str) -> Scenario:
    """X_MonteCarlo: the scenario with another vehicle and other gains, drawn by seed and name.

    Args:
        scenario: as of its file.
    """
    generator = stream(scenario.file.seed, vehicle, "variation")

    def drawn(part: Any, spreads: Mapping[str, float]) -> dict[str, Any]:
        return {k: _drawn(getattr(part, k), spread, generator) for k, spread in spreads.items()}

    body = drawn(scenario.vehicle, VEHICLE_SPREAD)
    inertia = scenario.vehicle.inertia_kg_m2
    x, y = _drawn(inertia[:2], INERTIA_SPREAD, generator)
    body["inertia_kg_m2"] = (x, y, inertia[2] * (x + y) / (inertia[0] + inertia[1]))
    autopilot = scenario.autopilot
    for group, names in GAINS.items():
        part = getattr(autopilot, group)
        spreads = dict.fromkeys(names, GAIN_SPREAD)
        autopilot = replace(autopilot, **{group: replace(part, **drawn(part, spreads))})
    stored = {field.name: getattr(scenario, field.name) for field in fields(Scenario)}
    stored |= {"vehicle": replace(scenario.vehicle, **body), "autopilot": autopilot}
    return VariedScenario(**stored, assumed=scenario.vehicle)


def shifted(scenario: Scenario, index: int) -> Scenario:
    """X_TestManyQuads: the figure of eight of a vehicle, later and farther north by its index."""
    items: list[Item] = []
    for item in scenario.items:
        if isinstance(item, Hover):
            item = Hover(duration_s=item.duration_s + LATER_S * index)
        elif isinstance(item, FigureOfEight):
            x, y, z = item.center_W_m
            item = replace(item, center_W_m=(x, y + FARTHER_M * index, z))
        items.append(item)
    return replace(scenario, items=tuple(items))


def fly_fcnd(job: Job) -> SeedFlown:
    """Fly one seed of a scenario with all its vehicles, or one vehicle of a fleet, and judge it.

    Args:
        job: ``cell`` is the scenario's name, ``extra`` of a fleet the vehicle's index.
    """
    scenario = load_scenario(job.cell, seed=job.seed)
    names = vehicle_names(scenario.file.vehicles)
    if job.cell in FLEETS:
        names = names[job.extra : job.extra + 1]
        is_varied = job.cell == MONTE_CARLO
        scenario = vary_vehicle(scenario, names[0]) if is_varied else shifted(scenario, job.extra)
    extra = job.cell == GPS_UPDATE
    loops = [ClosedLoop(scenario, keep_samples=extra, vehicle=name) for name in names]
    logs = [loop.fly() for loop in loops]
    log = logs[0]
    if extra:
        log.estimates[EXTRA_ESTIMATOR] = rerun_estimator(loops[0], EXTRA_ESTIMATOR)
    from_ns = log.start_ns + round(SETTLE_S * 1e9)
    judged = (judge_signal(c, logs) for c in scenario.criteria if isinstance(c, SignalCriterion))
    return SeedFlown(
        job.seed,
        names[0],
        tuple(Reached.of(each, log.start_ns) for each in judged),
        tuple(e.message for each in logs for e in each.events if e.level >= ERROR),
        {n: score(track, log.truth, from_ns).position_rmse_m for n, track in log.estimates.items()},
        tracking_rmse_m(log) or math.nan,
        log.truth.p_W[thin(len(log.truth), WAY_POINTS)],
        " ".join(loop.digest() for loop in loops),
    )


@dataclass(frozen=True, slots=True)
class FcndResult:
    """A scenario or a fleet over its seeds.

    Attributes:
        scenario: what flew, as of its file.
        flown: what is stored of each seed, of a fleet of each vehicle of each seed.
    """

    scenario: Scenario
    flown: tuple[SeedFlown, ...]

    @property
    def name(self) -> str:
        """Of the scenario."""
        return self.scenario.name

    @property
    def is_fleet(self) -> bool:
        """Whether its vehicles are judged one by one."""
        return self.name in FLEETS

    @property
    def pass_share(self) -> float:
        """Share of the seeds, or vehicles, that pass."""
        return sum(flown.passed for flown in self.flown) / len(self.flown)

    @property
    def headline(self) -> str:
        """What it shows, in a few words."""
        if self.name == SENSOR_NOISE:
            shares = " and ".join(f"{100 * row['pooled']:.1f} %" for row in self.rows())
            return f"{shares} of all seeds' samples within one deviation"
        passed = sum(flown.passed for flown in self.flown)
        end = "vehicles end within the bounds" if self.is_fleet else "seeds pass"
        return f"{passed} of {len(self.flown)} {end}"

    def demands(self) -> list[dict[str, Any]]:
        """What has to be shown over the seeds: name, value, least, limit, passed."""
        if self.name == SENSOR_NOISE:
            slack = POOLED_TOLERANCE * math.sqrt(max(1.0, POOLED_SEEDS / len(self.flown)))
            low, high = ONE_SIGMA - slack, ONE_SIGMA + slack
            found = [
                demand(f"{row['name']}, all seeds", row["pooled"], low, high) for row in self.rows()
            ]
            faultless = sum(not flown.errors for flown in self.flown) / len(self.flown)
            found.append(demand("share of flights without an error", faultless, PASS_SHARE, 1.0))
        else:
            words = "vehicles within the bounds" if self.is_fleet else "seeds that pass"
            found = [demand(f"share of {words}", self.pass_share, PASS_SHARE, 1.0)]
        if self.name == GPS_UPDATE:
            name, value = next(iter(self.position_rmse_m().items()))
            found.append(demand(f"median position RMSE of {name}, m", value, 0.0, RMSE_LIMIT_M))
        return [{"scenario": self.name, **item} for item in found]

    def rows(self) -> list[dict[str, Any]]:
        """Each criterion over the seeds: its band, what was reached, how many passed."""
        found = []
        for each in zip(*(flown.reached for flown in self.flown), strict=True):
            first = each[0]
            known = [item for item in each if item.figures["value"] is not None]
            values = [item.figures["value"] for item in known]
            low, median, high = np.quantile(values, (0.05, 0.5, 0.95)) if known else [None] * 3
            row = {key: first.figures[key] for key in ("name", "least", "limit", "hold_s")}
            row |= {"low": low, "median": median, "high": high}
            row["passed"] = sum(item.figures["passed"] for item in each)
            pooled = SIGNALS[first.criterion.signal].is_share and bool(known)
            counts = [item.count for item in known]
            row["pooled"] = float(np.average(values, weights=counts)) if pooled else None
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
        """The scenario as JSON, without its seeds."""
        found = {
            "name": self.name,
            "seeds": len(self.flown),
            "pass_share": self.pass_share,
            "passed": all(item["passed"] for item in self.demands()),
            "signals": self.rows(),
            "position_rmse_m": self.position_rmse_m(),
        }
        if self.is_fleet:
            tracking = [flown.tracking_rmse_m for flown in self.flown]
            quantiles = np.quantile(tracking, (0.05, 0.5, 0.95)).tolist()
            found["tracking_rmse_m"] = dict(zip(("low", "median", "high"), quantiles, strict=True))
        return found

    def runs(self) -> list[dict[str, Any]]:
        """Each seed, or vehicle, as JSON."""
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
            | (flown.of_fleet() if self.is_fleet else {})
            for flown in self.flown
        ]


def run_fcnd(
    names: Sequence[str], seeds: int, processes: int = 0, progress: Progress | None = None
) -> list[FcndResult]:
    """Fly scenarios and fleets over seeds from 1 on.

    Args:
        names: of :data:`SCENARIOS` and :data:`FLEETS`.
        seeds: how many; of a fleet each flies every vehicle.
        processes, progress: as of :func:`quadsim.lab.campaign.batch.run_batch`.
    """
    scenarios = {name: load_scenario(name) for name in names}
    jobs: list[Job] = []
    for name, scenario in scenarios.items():
        check_signals(scenario.criteria, str(scenario.path))
        vehicles = range(scenario.file.vehicles if name in FLEETS else 1)
        jobs += [Job(name, seed, i) for seed in range(1, seeds + 1) for i in vehicles]
    cells = fly_cells(fly_fcnd, jobs, processes, progress)
    return [FcndResult(scenarios[name], tuple(flown)) for name, flown in cells.items()]


def fcnd_summary(results: Sequence[FcndResult]) -> dict[str, Any]:
    """The experiment as one JSON object."""
    criteria = [item for result in results for item in result.demands()]
    return {
        "experiment": "fcnd",
        "passed": all(item["passed"] for item in criteria),
        "criteria": criteria,
        "scenarios": [result.summary() for result in results],
        "runs": [run for result in results for run in result.runs()],
    }
