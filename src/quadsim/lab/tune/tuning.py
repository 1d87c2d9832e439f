"""Gains for a vehicle, from the inside out: relay experiments and rules, then a search on top.

The result is an autopilot file, and a picture of the steps before and after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import yaml
from plotly.subplots import make_subplots
from scipy.optimize import minimize

from quadsim._version import __version__
from quadsim.analysis.report.figures import ESTIMATE, REFERENCE, finish_panels, thin
from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find
from quadsim.base.parameters import from_mapping, load
from quadsim.control.airframe import pack_airframe
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.campaign.batch import run_batch
from quadsim.lab.parameter_text import parameter_lines
from quadsim.lab.tune.loop_margins import (
    KEYS,
    LEAST_GAIN,
    LEAST_PHASE_DEG,
    LOOPS,
    RULES,
    GainBounds,
    Margins,
    all_margins,
    apply_rule,
    raised,
    with_factors,
    within_margins,
)
from quadsim.lab.tune.relay import LimitCycle, RelayBench, filtered_share, inner_samples
from quadsim.lab.tune.step_flights import (
    AXES,
    SIZE,
    UNITS,
    Response,
    StepFlight,
    StepsFlown,
    fly_steps,
    make_flights,
)
from quadsim.sim.log import Array
from quadsim.sim.scenario import Scenario, load_scenario

#: As good as before is a cost up to this part higher: flights have noise.
SLACK = 0.02
#: Largest overshoot of a step in calm air.
MOST_OVERSHOOT = 0.10

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tuning:
    """Gains before and after, and what was flown with them.

    Attributes:
        scenario: vehicle, sensors, and the gains before as its autopilot.
        after: the new gains.
        cycles: loop to what its relay experiment told.
    """

    scenario: Scenario
    method: str
    rule: str
    seed: int
    loops: tuple[str, ...]
    after: AutopilotParams
    cycles: dict[str, LimitCycle]
    flown: tuple[StepsFlown, StepsFlown]
    notes: list[str] = field(default_factory=list)

    @property
    def margins(self) -> tuple[dict[str, Margins], dict[str, Margins]]:
        """Linear margins of the loops before and after."""
        vehicle = self.scenario.vehicle
        return all_margins(self.scenario.autopilot, vehicle), all_margins(self.after, vehicle)

    @property
    def as_good(self) -> bool:
        """Whether the new gains fly at least as well as those before.

        Gains before that lack margin may be quicker, and are no measure: then it is enough that no
        step in calm air overshoots by more than :data:`MOST_OVERSHOOT`.
        """
        before, after = self.flown
        if after.calm is None:
            return False
        if all(found.hold for found in self.margins[0].values()):
            return after.cost <= (1.0 + SLACK) * before.cost
        return all(item.figures.overshoot <= MOST_OVERSHOOT for item in after.calm)

    @property
    def passed(self) -> bool:
        """Whether they do, and every margin holds."""
        return self.as_good and all(found.hold for found in self.margins[1].values())

    def summary(self) -> dict[str, Any]:
        """As one JSON object."""
        before, after = self.margins
        return {
            "vehicle": self.scenario.file.vehicle,
            "sensors": self.scenario.file.sensors,
            "start": self.scenario.file.autopilot,
            "method": self.method,
            "rule": self.rule,
            "seed": self.seed,
            "loops": list(self.loops),
            "passed": self.passed,
            "as_good": self.as_good,
            "relay": {name: cycle.summary() for name, cycle in self.cycles.items()},
            "margins": {
                name: {"before": before[name].summary(), "after": after[name].summary()}
                for name in LOOPS
            },
            "steps": [
                {"axis": axis, "wind": windy}
                | {
                    when: _figures(flown.of(axis, windy))
                    for when, flown in zip(("before", "after"), self.flown, strict=True)
                }
                for windy in (False, True)
                for axis in AXES
            ],
            "cost": {"before": self.flown[0].cost, "after": self.flown[1].cost},
            "gains": {
                name: {"before": tuned_gains(self.scenario.autopilot)[name], "after": value}
                for name, value in tuned_gains(self.after).items()
            },
            "notes": self.notes,
        }


def _figures(response: Response | None) -> dict[str, float | None] | None:
    return None if response is None else {**response.figures.figures(), "ripple": response.ripple}


#: Keys that tuning sets.
POSITION_KEYS = (
    "position_gain_xy", "position_gain_z", "velocity_gain_xy", "velocity_gain_z",
    "velocity_integral_xy", "velocity_integral_z", "attitude_lag_s", "yaw_gain",
)  # fmt: skip
ATTITUDE_KEYS = ("tilt_gain", "rate_gain", "rate_integral", "rate_lead_s", "motor_lag_s")


def tuned_gains(params: AutopilotParams) -> dict[str, Any]:
    """The keys that tuning sets, by their dotted names."""
    keys = {"position": POSITION_KEYS, "attitude": ATTITUDE_KEYS}
    return {
        f"{part}.{key}": getattr(getattr(params, part), key)
        for part, names in keys.items()
        for key in names
    }


def load_vehicle(vehicle: str, sensors: str, autopilot: str, seed: int) -> Scenario:
    """What is tuned, over flat ground in calm air, its motor commands as late as in a graph."""
    scenario = load_scenario(
        "hover", vehicle=vehicle, sensors=sensors, autopilot=autopilot, seed=seed
    )
    late = inner_samples(scenario.imu_period_ns * 1e-9)
    physics = replace(scenario.file.physics, command_delay_samples=late)
    return replace(scenario, file=replace(scenario.file, physics=physics))


def bounds_of(bench: RelayBench) -> GainBounds:
    """What the vehicle's actuators and the gyroscope allow."""
    autopilot, airframe = bench.scenario.autopilot, pack_airframe(bench.scenario.airframe)
    gravity = autopilot.gravity_mps2
    lift = min(airframe.thrust_max_mps2 - gravity, gravity - airframe.thrust_min_mps2)
    left, derived = filtered_share(autopilot, bench.dt_s)
    sigma = float(bench.sigma.max())
    return GainBounds(bench.authority, float(lift), (left * sigma, derived * sigma))


def tune_by_relay(
    scenario: Scenario, loops: Sequence[str], rule: str, say: Say
) -> tuple[AutopilotParams, dict[str, LimitCycle], list[str]]:
    """Gains by relay experiments, each loop around those tuned before it.

    Args:
        scenario: vehicle, sensors, and the gains to start from.
        loops: of :data:`LOOPS`, from the inside out.
        rule: of :data:`RULES`.

    Returns:
        Gains, limit cycles by loop, and notes.

    Raises:
        FlightError: a limit cycle does not come.
    """
    bench = RelayBench(scenario)
    bounds = bounds_of(bench)
    params: AutopilotParams = scenario.autopilot
    notes: list[str] = []
    if "rate" in loops:  # the gains are to be for this vehicle's motors
        params = replace(params, attitude=replace(params.attitude, motor_lag_s=0.0))
    cycles: dict[str, LimitCycle] = {}
    for loop in loops:
        try:
            cycle = bench.ultimate(loop, params)
        except FlightError:
            if loop != "yaw_rate" or "rate" not in cycles:
                raise
            cycle = cycles["rate"]
            notes.append(
                "yaw_rate: the gyroscope's noise hides its limit cycle; the rate loop's is taken,"
                " whose motors are the same"
            )
        cycles[loop] = cycle
        params = apply_rule(rule, params, loop, (cycle.gain, cycle.period_s), bounds)
        if RULES[rule].keeps_margins:
            params = within_margins(params, scenario.vehicle, loop)
            if loop == "rate":
                params = raised(params, scenario.vehicle, bounds)
        say(f"{loop}: ultimate gain {cycle.gain:.4g}, period {cycle.period_s:.3g} s")
    return params, cycles, notes


def take_off_with(
    scenario: Scenario, seed: int, candidates: Sequence[AutopilotParams]
) -> dict[bool, StepFlight]:
    """Flights in hover, taken off with the first gains that bring the vehicle there.

    Raises:
        FlightError: none does.
    """
    *first, last = candidates
    for autopilot in first:
        with suppress(FlightError):
            return make_flights(replace(scenario, autopilot=autopilot), seed)
    return make_flights(replace(scenario, autopilot=last), seed)


def tune_loops(
    scenario: Scenario,
    method: str = "relay",
    rule: str = "cascade",
    loops: Sequence[str] = (),
    seed: int = 1,
    evaluations: int = 60,
    processes: int = 0,
    say: Say = lambda _: None,
) -> Tuning:
    """Tune a vehicle's loops and fly steps before and after.

    Args:
        scenario: vehicle, sensors, and the gains to start from, of :func:`load_vehicle`.
        rule: of :data:`RULES`.
        loops: of :data:`LOOPS`; all where none are named.
        evaluations: of ``optimise``, for each group of loops.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
        say: called with how it goes, a line at a time.
    """
    for name in loops:
        if name not in LOOPS:
            raise InputError(f"loops: {name!r} unknown; known: {', '.join(LOOPS)}")
    names = tuple(name for name in LOOPS if name in loops or not loops)
    after, cycles, notes = tune_by_relay(scenario, names, rule, say)
    shipped = load(AutopilotParams, find("autopilots", "default"))
    flights = take_off_with(scenario, seed, (after, scenario.autopilot, shipped))
    before, flown = fly_steps(flights, scenario.autopilot), fly_steps(flights, after)
    if method == "optimise":
        better = search(scenario, after, names, seed, evaluations, processes, say)
        found = fly_steps(flights, better)
        if found.cost < flown.cost or not _hold(scenario, after):
            after, flown = better, found
        else:
            notes.append("optimise: found nothing better than the relay's gains")
    if before.calm is None:
        notes.append("the gains before lose the vehicle")
    lost = [name for name, found in all_margins(after, scenario.vehicle).items() if not found.hold]
    if lost:
        notes.append(
            f"too little margin: {', '.join(lost)}; take --rule cascade, or tune these loops too"
        )
    return Tuning(scenario, method, rule, seed, names, after, cycles, (before, flown), notes)


def _hold(scenario: Scenario, params: AutopilotParams) -> bool:
    return all(found.hold for found in all_margins(params, scenario.vehicle).values())


#: Group: its loops, and the axes of the steps by which it is judged.
GROUPS = {
    "sideways": (("rate", "tilt", "velocity", "position"), ("x", "y")),
    "upwards": (("climb", "height"), ("z",)),
    "turning": (("yaw_rate", "yaw"), ("yaw",)),
}

#: Corners of the first simplex: each gain in turn by this factor.
FIRST_FACTOR = 1.3
#: Cost of a margin that is missing altogether; margins are to hold with this much to spare.
MARGIN_COST, SPARE = 10.0, 1.02


def margin_cost(params: AutopilotParams, scenario: Scenario) -> float:
    """Cost of the margins that do not hold; 0 where all do."""
    missing = 0.0
    for found in all_margins(params, scenario.vehicle).values():
        missing += max(0.0, 1.0 - found.phase_deg / (SPARE * LEAST_PHASE_DEG))
        missing += max(0.0, 1.0 - found.gain / (SPARE * LEAST_GAIN))
    return MARGIN_COST * missing


class GroupSearch(NamedTuple):
    """One group's search.

    Attributes:
        scenario: vehicle and sensors; its autopilot is where the search starts.
        loops: whose gains are varied.
        evaluations: steps that may be flown, each in calm air and in wind.
    """

    scenario: Scenario
    loops: tuple[str, ...]
    axes: tuple[str, ...]
    seed: int
    evaluations: int


def search_group(job: GroupSearch) -> tuple[tuple[float, ...], str]:
    """Search one group of loops; the vehicle takes off with the gains of the start.

    Returns:
        Factors of the gains, and in words what was found.
    """
    start = job.scenario.autopilot
    flights = make_flights(job.scenario, job.seed)
    size = sum(len(KEYS[loop]) for loop in job.loops)

    def cost(logs: Array) -> float:
        if float(np.abs(logs).max()) > math.log(8.0):
            return 1e3
        params = with_factors(start, job.loops, [math.exp(value) for value in logs])
        return fly_steps(flights, params, job.axes).cost + margin_cost(params, job.scenario)

    corners = np.vstack([np.zeros(size), math.log(FIRST_FACTOR) * np.eye(size)])
    options = {"initial_simplex": corners, "maxfev": job.evaluations, "xatol": 0.01, "fatol": 1e-4}
    result = minimize(cost, np.zeros(size), method="Nelder-Mead", options=options)
    first = cost(np.zeros(size))
    best = result.x if result.fun < first else np.zeros(size)
    least = min(float(result.fun), first)
    words = f"cost {first:.4g} to {least:.4g} in {int(result.nfev) + 1} flights"
    return tuple(math.exp(value) for value in best), words


def search(
    scenario: Scenario,
    start: AutopilotParams,
    loops: Sequence[str],
    seed: int,
    evaluations: int,
    processes: int,
    say: Callable[[str], None],
) -> AutopilotParams:
    """Search all groups, each in a process of its own, and put together what they found.

    Nelder and Mead's simplex over the logarithms of the gains, from those that are there.

    Args:
        start: gains to begin with.
        processes: as of :func:`quadsim.lab.campaign.batch.run_batch`.
    """
    scene = replace(scenario, autopilot=start)
    jobs = {}
    for name, (members, axes) in GROUPS.items():
        if varied := tuple(loop for loop in members if loop in loops):
            jobs[name] = GroupSearch(scene, varied, axes, seed, evaluations)
    params, results = start, run_batch(search_group, list(jobs.values()), processes)
    for (name, job), (factors, words) in zip(jobs.items(), results, strict=True):
        say(f"{name}: {words}")
        params = with_factors(params, job.loops, factors)
    return params


WIDTH_PX, INNER_PX = 1100, 840

_BEFORE, _AFTER = "#d55e00", ESTIMATE


def _one(words: str) -> str:
    return " ".join(words.split())


def autopilot_text(tuning: Tuning) -> str:
    """The text of an autopilot file with every key, and how it was made as a comment."""
    file = tuning.scenario.file
    how = f"relay experiments, rule {tuning.rule}"
    if tuning.method == "optimise":
        how += ", then a search over flown steps"
    name = f"{_one(file.vehicle)}, tuned by {tuning.method}"
    content = asdict(replace(tuning.after, name=name))
    head = [
        f"# Made by quadsim {__version__}, quadsim tune: {how}; seed {tuning.seed}.",
        f"# Vehicle {_one(file.vehicle)}, sensors {_one(file.sensors)}.",
        f"# Loops tuned: {', '.join(tuning.loops)}.",
        f"# What tuning does not set is of the autopilot {_one(file.autopilot)}.",
    ]
    text = "\n".join([*head, *parameter_lines(content)]) + "\n"
    from_mapping(AutopilotParams, yaml.safe_load(text), "tuned autopilot")
    return text


def tuning_picture(tuning: Tuning) -> go.Figure:
    """Steps before and after, a row for each axis, in calm air and in wind."""
    titles = [
        f"{axis}, {UNITS[axis]}{', wind 4.5 m/s with gusts' if windy else ''}"
        for axis in AXES
        for windy in (False, True)
    ]
    figure = make_subplots(
        rows=len(AXES), cols=2, subplot_titles=titles, vertical_spacing=0.08, shared_xaxes=True
    )
    before, after = tuning.flown
    for row, axis in enumerate(AXES, 1):
        for windy in (False, True):
            place = {"row": row, "col": 1 + windy}
            for flown, name, colour in ((before, "before", _BEFORE), (after, "after", _AFTER)):
                response = flown.of(axis, windy)
                if response is not None:
                    rows = thin(len(response.time_s), 400)
                    figure.add_scatter(
                        x=response.time_s[rows], y=response.values[rows], name=name, mode="lines",
                        line={"color": colour, "width": 1.8}, **place,
                    )  # fmt: skip
            line = {"color": REFERENCE, "dash": "dash", "width": 1}
            figure.add_hline(y=SIZE[axis], line=line, **place)
            figure.update_yaxes(range=[-0.2, 1.8 * SIZE[axis]], **place)
    figure.update_xaxes(title_text="time since the step, s", row=len(AXES))
    lost = " (before: lost)" if before.calm is None else ""
    vehicle = _one(tuning.scenario.file.vehicle)
    title = f"<b>{vehicle}</b>, {tuning.method}: steps before and after{lost}"
    return finish_panels(figure, WIDTH_PX, INNER_PX, title)
