"""Steps of position, height and yaw, flown in the closed loop, and figures of the responses.

The figures are those of Ogata, *Modern Control Engineering* (5th ed., 2010), section 5-3, but for
the rise time, which is from 10 to 90 % there for overdamped systems alone and here for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from quadsim.analysis.metrics import yaws_of
from quadsim.base.errors import FlightError
from quadsim.base.parameters import pack
from quadsim.base.records import MODE_POSITION
from quadsim.control.parameters import AutopilotParams
from quadsim.mission.flight.flight import FlightManager
from quadsim.mission.items import items_from
from quadsim.mission.reference.legs import write_setpoint
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import Array
from quadsim.sim.scenario import Scenario
from quadsim.world.air.wind_parameters import WindParams

#: Settled is what stays within this part of the step.
SETTLED = 0.02

#: Last part of the response, over which the steady-state error is taken.
STEADY_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Figures of a step response; None where the response never gets there.

    Attributes:
        rise_s: from 10 to 90 % of the step, first crossings.
        overshoot: beyond the goal at most, over the step; 0 for none.
        settling_s: from the step until it stays within the band for good.
        steady_error: goal minus mean of the last tenth of the response, in the signal's unit.
        itae: integral of time times the size of the error over the step, s^2.
    """

    rise_s: float | None
    overshoot: float
    settling_s: float | None
    steady_error: float
    itae: float

    def figures(self) -> dict[str, float | None]:
        """As JSON has them."""
        return asdict(self)


def _crossing(time_s: Array, share: Array, level: float) -> float | None:
    """When a signal first reaches a level, between samples by a straight line."""
    above = np.flatnonzero(share >= level)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return float(time_s[0])
    part = (level - share[k - 1]) / (share[k] - share[k - 1])
    return float(time_s[k - 1] + part * (time_s[k] - time_s[k - 1]))


def _settling(time_s: Array, off: Array, band: float) -> float | None:
    """When a signal enters a band about its goal for the last time."""
    outside = np.flatnonzero(np.abs(off) > band)
    if not len(outside):
        return 0.0
    k = int(outside[-1])
    if k == len(off) - 1:
        return None
    part = (abs(off[k]) - band) / (abs(off[k]) - abs(off[k + 1]))
    return float(time_s[k] + part * (time_s[k + 1] - time_s[k]) - time_s[0])


def step_figures(time_s: Array, values: Array, start: float, goal: float) -> StepFigures:
    """Figures of one response.

    Args:
        time_s: (N,) rising; the step is at the first.
        values: (N,) of the signal, finite.
        start: where it was.
        goal: where it is told to go; not ``start``.
    """
    share = (values - start) / (goal - start)
    low, high = _crossing(time_s, share, 0.1), _crossing(time_s, share, 0.9)
    last = values[-max(1, round(STEADY_SHARE * len(values))) :]
    error = np.abs(1.0 - share) * (time_s - time_s[0])
    return StepFigures(
        rise_s=None if low is None or high is None else high - low,
        overshoot=max(0.0, float(share.max()) - 1.0),
        settling_s=_settling(time_s, 1.0 - share, SETTLED),
        steady_error=float(goal - last.mean()),
        itae=float(np.sum(0.5 * (error[1:] + error[:-1]) * np.diff(time_s))),
    )


#: Axes of the steps, and how far they go: m, and rad.
AXES = ("x", "y", "z", "yaw")
SIZE = {"x": 1.0, "y": 1.0, "z": 1.0, "yaw": 1.0}
UNITS = {"x": "m", "y": "m", "z": "m", "yaw": "rad"}

#: Hover before the first step, with the gains in question; one response.
SETTLE_S, HOLD_S = 3.0, 6.0
#: Height of the steps, and the longest take-off.
HEIGHT_M, TAKEOFF_S = 6.0, 40.0
#: Height over the ground below which a flight has failed.
LOST_M = 1.0
#: Wind of the windy flights: mean, and the turbulence's reference, m/s.
WIND_W_MPS, W20_MPS = (4.0, 2.0, 0.0), 4.0


@dataclass(frozen=True, slots=True)
class Response:
    """One step.

    Attributes:
        axis: of :data:`AXES`.
        time_s: (N,) since the step.
        values: (N,) of the estimate that is flown on, the start taken off: m or rad.
        ripple: root mean square over the response of the rotors' commands, each against its mean
            over a tenth of a second, over the mean command.
    """

    axis: str
    time_s: Array
    values: Array
    figures: StepFigures
    ripple: float


class _Steps:
    """What stands in for the flight manager: a pose that is told to it.

    All that the loop tells its manager goes to the one that took off, which steers no more.
    """

    finished = False
    has_reference = False
    state = "steps"

    def __init__(self, p_W: Array, yaw: float, manager: FlightManager) -> None:
        self.p_W, self.yaw = p_W, yaw
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def step(self, stamp_ns: int, odometries: Any, setpoints: Any, thrust: float = 0.0) -> None:
        """Write the pose as it is, without a path that leads there."""
        still = (0.0, 0.0, 0.0)
        p_W = (float(self.p_W[0]), float(self.p_W[1]), float(self.p_W[2]))
        write_setpoint(setpoints, MODE_POSITION, p_W, still, still, self.yaw, 0.0)

    def take_events(self) -> list[Any]:
        """None ever."""
        return []


class StepFlight(ClosedLoop):
    """A vehicle in hover, from which steps are flown again and again with other gains.

    Args:
        scenario: vehicle, sensors, estimator; its autopilot flies the take-off.
        windy: whether in wind, or in calm air.

    Raises:
        FlightError: it does not come to hover.
    """

    def __init__(self, scenario: Scenario, seed: int, windy: bool = False) -> None:
        environment = scenario.environment
        if windy:
            wind = WindParams(turbulence="dryden", w20_mps=W20_MPS)
            environment = replace(environment, wind_W_mps=WIND_W_MPS, wind=wind)
        seconds = TAKEOFF_S + SETTLE_S + HOLD_S * len(AXES) + 2.0
        file = replace(scenario.file, seed=seed, environment=environment, duration_s=seconds)
        mission = [{"takeoff": {"height_m": HEIGHT_M}}, {"hover": {"duration_s": 3600.0}}]
        items = items_from(mission, "steps")
        scenario = replace(scenario, file=file, items=items, criteria=(), disturbances=())
        super().__init__(scenario)
        self._take_off()
        self._taken_off = self.manager
        self._kept, self._kept_ns = self._vehicles.keep(), self.stamp_ns

    def _take_off(self) -> None:
        while self.stamp_ns < TAKEOFF_S * 1e9:
            self.tick()
            waiting = self.manager.state == "disarmed" and self._odometry.stamp_ns > 0
            if waiting and self.manager.arm() is None:
                self.manager.start()
            v_W, p_W = self.state["truth"]["v_W"][0], self.state["truth"]["p_W"][0]
            if abs(p_W[2] - HEIGHT_M) < 0.5 and float(np.abs(v_W).max()) < 0.3:
                return
        raise FlightError(
            f"{self.scenario.vehicle.name}: does not come to hover within {TAKEOFF_S:g} s with the"
            f" autopilot {self.scenario.autopilot.name!r}; name another with --autopilot"
        )

    def _restore(self, autopilot: AutopilotParams) -> None:
        """Back to the hover after take-off, with other gains."""
        self._vehicles.restore(self._kept)
        self.stamp_ns = self._kept_ns
        self.setup["autopilot"] = pack(autopilot)
        self.events = []
        self._crash_ns = self._lost = 0
        self._battery_ns = self.stamp_ns
        self._ranges = int(self.devices["rangefinder"]["count"].sum())

    def respond(self, autopilot: AutopilotParams, axes: Sequence[str]) -> list[Response] | None:
        """Fly steps one after the other; None where the vehicle is lost.

        Args:
            autopilot: gains in question.
            axes: of :data:`AXES`.
        """
        self._restore(autopilot)
        yaw = float(yaws_of(self._odometry.q_WB[None])[0])
        steps = _Steps(np.array([0.0, 0.0, HEIGHT_M]), yaw, self._taken_off)
        self.manager = steps  # type: ignore[assignment]
        if not self._hold(SETTLE_S):
            return None
        found = []
        for axis in axes:
            first = int(self.state.log_count)
            start = steps.yaw if axis == "yaw" else steps.p_W[AXES.index(axis)]
            if axis == "yaw":
                steps.yaw += SIZE[axis]
            else:
                steps.p_W[AXES.index(axis)] += SIZE[axis]
            if not self._hold(HOLD_S):
                return None
            found.append(self._response(axis, float(start), self.rows()[first:]))
        return found

    def _hold(self, seconds: float) -> bool:
        """Fly on; whether the vehicle still flies."""
        until_ns = self.stamp_ns + round(seconds * 1e9)
        while self.stamp_ns < until_ns:
            self.tick()
            vehicle = self.state.vehicle
            if vehicle.crash or vehicle.fault_ns or self.state["truth"]["p_W"][0, 2] < LOST_M:
                return False
        return bool(np.all(np.isfinite(self.state["truth"]["p_W"])))

    def _response(self, axis: str, start: float, rows: np.ndarray[Any, Any]) -> Response:
        time_s = (rows["stamp_ns"] - rows["stamp_ns"][0]) * 1e-9
        estimate = rows["estimate"]
        if axis == "yaw":
            values: np.ndarray[Any, Any] = np.unwrap(yaws_of(estimate["q_WB"])) - start
            values = values - 2.0 * math.pi * round(float(values[0]) / (2.0 * math.pi))
        else:
            values = estimate["p_W"][:, AXES.index(axis)] - start
        commands = rows["rotor_command_radps"][:, : len(self.scenario.vehicle.commands)]
        figures = step_figures(time_s, values, 0.0, SIZE[axis])
        return Response(axis, time_s, values, figures, ripple_of(commands))


#: Rows of the log over which a command's mean is taken.
RIPPLE_ROWS = 11


def ripple_of(commands: Array) -> float:
    """Root mean square of commands against their moving mean, over their mean; (N, rotors)."""
    window = np.ones(RIPPLE_ROWS) / RIPPLE_ROWS
    left = [
        column[RIPPLE_ROWS // 2 : -(RIPPLE_ROWS // 2)] - np.convolve(column, window, "valid")
        for column in commands.T
    ]
    return float(np.sqrt(np.mean(np.square(left))) / max(float(commands.mean()), 1e-9))


#: Weights of the cost: integral of time times error (s^2), overshoot beyond what is free, ripple
#: of the rotors' commands, and steady-state error over the step.
FREE_OVERSHOOT, OVERSHOOT, RIPPLE, STEADY = 0.02, 4.0, 2.0, 1.0
#: Of a flight that was lost.
LOST_COST = 100.0


def cost_of(responses: Sequence[Response] | None) -> float:
    """Cost of responses, mean over them; a lost flight costs :data:`LOST_COST`."""
    if responses is None:
        return LOST_COST
    costs = [
        item.figures.itae
        + OVERSHOOT * max(0.0, item.figures.overshoot - FREE_OVERSHOOT)
        + RIPPLE * item.ripple
        + STEADY * abs(item.figures.steady_error) / SIZE[item.axis]
        for item in responses
    ]
    return min(float(np.mean(costs)), LOST_COST)


@dataclass(frozen=True, slots=True)
class StepsFlown:
    """The steps of one autopilot.

    Attributes:
        calm: responses in calm air; None where the vehicle was lost.
    """

    calm: list[Response] | None
    windy: list[Response] | None
    cost: float

    def of(self, axis: str, windy: bool = False) -> Response | None:
        """A response in calm air or in wind; None where the vehicle was lost."""
        responses = self.windy if windy else self.calm
        return next((item for item in responses or () if item.axis == axis), None)


def fly_steps(
    flights: Mapping[bool, StepFlight], autopilot: AutopilotParams, axes: Sequence[str] = AXES
) -> StepsFlown:
    """Fly the steps in calm air and in wind.

    Args:
        flights: by whether they are windy.
        autopilot: gains in question.
        axes: of :data:`AXES`.
    """
    calm, windy = (flights[name].respond(autopilot, axes) for name in (False, True))
    return StepsFlown(calm, windy, 0.5 * (cost_of(calm) + cost_of(windy)))


def make_flights(scenario: Scenario, seed: int) -> dict[bool, StepFlight]:
    """A flight in calm air and one in wind, in hover, each with a seed of its own."""
    return {False: StepFlight(scenario, seed), True: StepFlight(scenario, seed + 1, windy=True)}
