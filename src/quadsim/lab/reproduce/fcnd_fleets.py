"""X_MonteCarlo and X_TestManyQuads of the FCND projects (Udacity): many vehicles at once.

Each vehicle is a closed loop of its own: as in the projects, they do not feel each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.criteria import check_signals, judge_signal
from quadsim.analysis.metrics import SETTLE_S, score, tracking_rmse_m
from quadsim.analysis.report.figures import thin
from quadsim.base.noise import stream
from quadsim.control.airframe import AirframeParams
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.campaign.batch import Progress, run_batch
from quadsim.lab.demands import demand
from quadsim.lab.reproduce.fcnd import SCENARIOS, Flown, Outcome, Reached, run
from quadsim.mission.items import Hover, Item
from quadsim.mission.trajectories.items import FigureOfEight
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.criterion import SignalCriterion
from quadsim.sim.log import ERROR, FlightLog
from quadsim.sim.scenario import Scenario, airframe_of, load_scenario
from quadsim.vehicle.parameters import VehicleParams

MONTE_CARLO, MANY_QUADS = "x_monte_carlo", "x_test_many_quads"
FLEETS = (MONTE_CARLO, MANY_QUADS)

#: Share of the vehicles that has to end within the bounds.
VEHICLE_SHARE = 0.95

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

#: Points of a way that are kept for drawing.
WAY_POINTS = 400


@dataclass(frozen=True)
class VariedScenario(Scenario):
    """A scenario whose controller believes another vehicle than flies.

    Attributes:
        believed: what the controller knows.
    """

    believed: VehicleParams | None = None

    @property
    def airframe(self) -> AirframeParams:
        """What the controller believes of the vehicle."""
        return airframe_of(self.believed or self.vehicle)


def _drawn(value: Any, spread: float, generator: np.random.Generator) -> Any:
    """A number, or each of several, times 1 plus a normal deviation within its bounds."""
    if isinstance(value, tuple):
        return tuple(_drawn(item, spread, generator) for item in value)
    deviation = math.inf
    while abs(deviation) > MOST_DEVIATIONS:
        deviation = float(generator.standard_normal())
    return value * (1.0 + spread * deviation)


def varied(scenario: Scenario, vehicle: str) -> Scenario:
    """X_MonteCarlo: the scenario with another vehicle and other gains, drawn by seed and name.

    Args:
        scenario: as of its file.
        vehicle: its name.
    """
    generator = stream(scenario.file.seed, vehicle, "variation")
    body = {
        name: _drawn(getattr(scenario.vehicle, name), spread, generator)
        for name, spread in VEHICLE_SPREAD.items()
    }
    inertia = scenario.vehicle.inertia_kg_m2
    x, y = _drawn(inertia[:2], INERTIA_SPREAD, generator)
    body["inertia_kg_m2"] = (x, y, inertia[2] * (x + y) / (inertia[0] + inertia[1]))
    autopilot: AutopilotParams = scenario.autopilot
    for group, names in GAINS.items():
        part: Any = getattr(autopilot, group)
        drawn = {name: _drawn(getattr(part, name), GAIN_SPREAD, generator) for name in names}
        changed: dict[str, Any] = {group: replace(part, **drawn)}
        autopilot = replace(autopilot, **changed)
    kept = {field.name: getattr(scenario, field.name) for field in fields(Scenario)}
    kept |= {"vehicle": replace(scenario.vehicle, **body), "autopilot": autopilot}
    return VariedScenario(**kept, believed=scenario.vehicle)


def shifted(scenario: Scenario, index: int) -> Scenario:
    """X_TestManyQuads: the figure of eight of a vehicle, later and farther north by its index."""
    items: list[Item] = []
    for item in scenario.items:
        if isinstance(item, Hover):
            items.append(Hover(duration_s=item.duration_s + LATER_S * index))
        elif isinstance(item, FigureOfEight):
            x, y, z = item.center_W_m
            items.append(replace(item, center_W_m=(x, y + FARTHER_M * index, z)))
        else:
            items.append(item)
    return replace(scenario, items=tuple(items))


@dataclass(frozen=True, slots=True)
class FleetJob:
    """One vehicle of a fleet.

    Attributes:
        scenario: name of a fleet.
        seed: of all randomness.
        index: of the vehicle.
    """

    scenario: str
    seed: int
    index: int


@dataclass(frozen=True, slots=True)
class FlownVehicle(Flown):
    """What is kept of one vehicle.

    Attributes:
        vehicle: its name.
        tracking_rmse_m: of the truth against the reference, take-off and landing included.
        rest_W: where it came to rest, m.
        stamp_ns: (N,) of its way.
        way_W: (N, 3) true positions, m, thinned.
    """

    vehicle: str
    tracking_rmse_m: float
    rest_W: tuple[float, float, float]
    stamp_ns: NDArray[np.int64]
    way_W: NDArray[np.float64]


def fly_vehicle(job: FleetJob) -> FlownVehicle:
    """Fly one vehicle of a fleet, and judge it."""
    scenario = load_scenario(job.scenario, seed=job.seed)
    name = vehicle_names(scenario.file.vehicles)[job.index]
    if job.scenario == MONTE_CARLO:
        scenario = varied(scenario, name)
    else:
        scenario = shifted(scenario, job.index)
    loop = ClosedLoop(scenario, vehicle=name)
    log = loop.fly()
    from_ns = log.start_ns + round(SETTLE_S * 1e9)
    rows = thin(len(log.truth), WAY_POINTS)
    return FlownVehicle(
        seed=job.seed,
        reached=tuple(
            Reached.of(judge_signal(criterion, [log]), log.start_ns)
            for criterion in scenario.criteria
            if isinstance(criterion, SignalCriterion)
        ),
        errors=tuple(event.message for event in log.events if event.level >= ERROR),
        position_rmse_m={
            key: score(track, log.truth, from_ns).position_rmse_m
            for key, track in log.estimates.items()
        },
        digest=loop.digest(),
        vehicle=name,
        tracking_rmse_m=tracking_rmse_m(log) or math.nan,
        rest_W=_rest(log),
        stamp_ns=log.truth.stamp_ns[rows],
        way_W=log.truth.p_W[rows],
    )


def _rest(log: FlightLog) -> tuple[float, float, float]:
    x, y, z = log.truth.p_W[-1].tolist()
    return (x, y, z)


@dataclass(frozen=True, slots=True)
class FleetOutcome(Outcome):
    """A fleet over its seeds; ``flown`` holds each vehicle of each."""

    @property
    def vehicles(self) -> tuple[FlownVehicle, ...]:
        """Each vehicle of each seed."""
        return tuple(item for item in self.flown if isinstance(item, FlownVehicle))

    @property
    def headline(self) -> str:
        """What it shows, in a few words."""
        passed = sum(flown.passed for flown in self.flown)
        return f"{passed} of {len(self.flown)} vehicles end within the bounds"

    def demands(self) -> list[dict[str, Any]]:
        """What the fleet has to show: name, value, least, limit, passed."""
        share = demand("share of vehicles within the bounds", self.pass_share, VEHICLE_SHARE, 1.0)
        return [{"scenario": self.name, **share}]

    def summary(self) -> dict[str, Any]:
        """What JSON says of the fleet, but for its vehicles."""
        tracking = np.array([item.tracking_rmse_m for item in self.vehicles])
        low, median, high = np.quantile(tracking, (0.05, 0.5, 0.95)).tolist()
        found = Outcome.summary(self)
        return found | {"tracking_rmse_m": {"low": low, "median": median, "high": high}}

    def runs(self) -> list[dict[str, Any]]:
        """What JSON says of each vehicle."""
        return [
            {**run, "vehicle": item.vehicle, "tracking_rmse_m": item.tracking_rmse_m,
             "rest_W_m": list(item.rest_W)}
            for run, item in zip(Outcome.runs(self), self.vehicles, strict=True)
        ]  # fmt: skip


def run_fleets(
    names: Sequence[str], seeds: int, processes: int = 0, progress: Progress | None = None
) -> list[FleetOutcome]:
    """Fly fleets over seeds from 1 on.

    Args:
        names: of :data:`FLEETS`.
        seeds: how many; each flies every vehicle.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
        progress: told after each flight.
    """
    scenarios = {name: load_scenario(name) for name in names}
    for scenario in scenarios.values():
        check_signals(scenario.criteria, str(scenario.path))
    jobs = [
        FleetJob(name, seed, index)
        for name, scenario in scenarios.items()
        for seed in range(1, seeds + 1)
        for index in range(scenario.file.vehicles)
    ]
    flown = run_batch(fly_vehicle, jobs, processes, progress)
    found, begin = [], 0
    for scenario in scenarios.values():
        end = begin + seeds * scenario.file.vehicles
        found.append(FleetOutcome(scenario, tuple(flown[begin:end])))
        begin = end
    return found


def run_parts(
    names: Sequence[str], seeds: int, processes: int = 0, progress: Progress | None = None
) -> list[Outcome]:
    """Fly parts of the experiment: scenarios, then fleets, each told apart in ``progress``.

    Args:
        names: of :data:`quadsim.lab.reproduce.fcnd.SCENARIOS` and :data:`FLEETS`.
        seeds: how many.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
        progress: told after each flight.
    """
    scenarios = [name for name in names if name in SCENARIOS]
    fleets = [name for name in names if name in FLEETS]
    found: list[Outcome] = run(scenarios, seeds, processes, progress) if scenarios else []
    if fleets:
        found += run_fleets(fleets, seeds, processes, progress)
    return found
