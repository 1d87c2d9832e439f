"""A simulated flight that Python steps, looks at and commands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from quadsim.api.flight import Flight
from quadsim.base.errors import InputError
from quadsim.base.parameters import flatten, from_mapping, unflatten
from quadsim.base.parts import given_parts, is_part
from quadsim.control.parameters import AutopilotParams
from quadsim.sensors.faults import FaultParams
from quadsim.sim.closed_loop import LOG_HZ, REST_TICKS, TICK_HZ, VEHICLE_NAME, ClosedLoop
from quadsim.sim.flight_view import FlightView as FlightView
from quadsim.sim.flight_view import State as State
from quadsim.sim.library import Library
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import Scenario, check_scenario, load_scenario
from quadsim.sim.snapshot import Snapshot
from quadsim.sim.start import SIGMAS
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.disturbances import MotorChange, Push, WindChange

#: What a simulation remembers in addition to its loop, and which it is.
_BESIDE = ("scenario", "start_mission", "_start", "_told_failure", "_now_ns", "_until_ns", "_load")

#: A name in ``config/``, or the path of a file.
Name = str | PathLike[str]


class Controller(Protocol):
    """Any object that flies the vehicle in place of the built-in position and attitude loops."""

    def update(self, now: FlightView) -> ArrayLike:
        """Give the (n,) commanded rotor speeds in rad/s, once each control step."""
        ...


def _numbers(name: str, value: ArrayLike, count: int = 0) -> list[float]:
    """Numbers as a list, so many if not 0.

    Raises:
        InputError: they are none, or another many.
    """
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {value!r}; needed: numbers") from None
    if found.ndim != 1 or (count and found.size != count):
        raise InputError(f"{name}: {value!r}; needed: {count or 'a row of'} numbers")
    return [float(each) for each in found]


def _start_keys(start: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a start.

    Raises:
        InputError: they are none.
    """
    if not isinstance(start, Mapping):
        raise InputError(f"start: {start!r}; needed: keys and values")
    return dict(start)


class Simulation(FlightView):
    """One vehicle with its sensors, estimator and autopilot, without ROS.

    The same arguments give the same flight, to the last bit, as ``quadsim sim`` does.

    Args:
        scenario: a name in ``config/scenarios``, or the path of a file.
        vehicle: another vehicle than the scenario's; a name in ``config/vehicles`` or a path.
        sensors: another sensor suite; a name in ``config/sensors/suites`` or a path.
        estimator: other parameters of the estimator, a name in ``config/estimators`` or a path; or
            an own estimator, as ``controller``.
        autopilot: other parameters of the autopilot; a name in ``config/autopilots`` or a path.
        seed: of all noise; None takes the scenario's.
        duration_s: time after which the flight ends; None takes the scenario's.
        fly_on: ``"estimate"`` or ``"truth"``; None takes the scenario's.
        changes: dotted keys to set, as of ``--set``: ``{"vehicle.mass_kg": 1.4}``.
        controller: flies in place of the built-in control loops: ``module:Class``, or an object;
            see :class:`Controller`.
        parts: other own parts, by their kind: ``{"wind": "my:Thermal"}``, or objects; see
            ``docs/parts.md``.
        start: another start than the scenario's: keys of ``start:``, or ``p_W``, ``v_W``, ``q_WB``
            and ``w_B`` in m, m/s, unit quaternion (w first) and rad/s. With a height it flies.
        start_mission: arm as soon as the checks pass, and fly the scenario's mission. With False
            the vehicle waits for :meth:`arm`.

    Raises:
        InputError: a file or a key is wrong; the message names it and the remedy.

    Example:
        >>> simulation = Simulation("hover", seed=3)
        >>> simulation.step(500)  # one second
        >>> simulation.state.p_W
    """

    _loop: ClosedLoop

    def __init__(
        self,
        scenario: Name = "square",
        *,
        vehicle: Name | None = None,
        sensors: Name | None = None,
        estimator: Name | object | None = None,
        autopilot: Name | None = None,
        seed: int | None = None,
        duration_s: float | None = None,
        fly_on: str | None = None,
        changes: Mapping[str, Any] | None = None,
        controller: str | Controller | None = None,
        parts: Mapping[str, object] | None = None,
        start: Mapping[str, Any] | None = None,
        start_mission: bool = True,
    ) -> None:
        own = {**(parts or {}), **({} if controller is None else {"controller": controller})}
        if not isinstance(estimator, str | PathLike | None) or is_part("estimator", estimator):
            own["estimator"], estimator = estimator, None
        self._own = given_parts(own)
        files = {
            "vehicle": vehicle, "sensors": sensors, "estimator": estimator, "autopilot": autopilot
        }  # fmt: skip
        self._load = partial(
            load_scenario,
            fspath(scenario),
            changes,
            Library(),
            duration_s=duration_s,
            fly_on=fly_on,
            **{name: None if file is None else fspath(file) for name, file in files.items()},
        )
        self._start = _start_keys({} if start is None else start)
        self.scenario = self._loaded(seed)
        if self.scenario.file.vehicles > 1:
            raise InputError(
                f"{self.scenario.path}: has {self.scenario.file.vehicles} vehicles; a Simulation"
                " flies one, `quadsim sim` flies all"
            )
        self.start_mission = start_mission
        self.reset()

    def reset(
        self,
        seed: int | None = None,
        state: State | Mapping[str, Any] | None = None,
        estimate: str | Mapping[str, float] | None = None,
    ) -> None:
        """Put the vehicle back to its start, or into another, every device switched on anew.

        Args:
            seed: of all noise from now on; None keeps it.
            state: where it starts from now on: a :class:`State`, or a mapping as ``start``; None
                keeps the start.
            estimate: what the filter begins with: ``"aligned"``, ``"truth"``, ``"drawn"``, or a
                mapping of the deviations about which it is drawn: ``{"position_sigma_m": 1.0}``.

        Raises:
            InputError: nothing could be there; or a key or a value is wrong.
        """
        if isinstance(state, State):
            state = {name: getattr(state, name) for name in ("p_W", "v_W", "q_WB", "w_B")}
        keys: dict[str, Any] = {} if estimate is None else {"estimate": estimate}
        if isinstance(estimate, Mapping):
            for key in estimate:
                if key not in SIGMAS:
                    raise InputError(f"estimate: unknown key {key!r}; allowed: {', '.join(SIGMAS)}")
            keys = {"estimate": "drawn", **estimate}
        begin = self._start if state is None else _start_keys(state)
        if state is None and keys:  # the deviations of an earlier estimate are over
            begin = {key: value for key, value in begin.items() if key not in SIGMAS}
        previous, self._start = self._start, {**begin, **keys}
        if seed is not None or state is not None or keys:
            try:
                self.scenario = self._loaded(self.scenario.file.seed if seed is None else seed)
            except InputError:
                self._start = previous
                raise
        self._told_failure = False
        seconds = math.ceil(self.scenario.file.duration_s * TICK_HZ + REST_TICKS) / TICK_HZ
        self._vehicles = Vehicles(self.scenario, [VEHICLE_NAME], seconds, LOG_HZ, keep_samples=True)
        self._loop = ClosedLoop(self.scenario, vehicles=self._vehicles)
        self._now_ns = self._until_ns = 0
        self._period_ns = int(self._loop.setup.imu_period_ns)

    def snapshot(self) -> Snapshot:
        """The whole of the flight now, to go on from with :meth:`restore`, to the same last bit.

        Raises:
            InputError: an own part cannot be copied.
        """
        taken = Snapshot(self._loop, self._vehicles)
        taken.of = {name: getattr(self, name) for name in _BESIDE}
        return taken

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a moment of this simulation, as often as is wanted; resets do not end that.

        Raises:
            InputError: it is of another simulation.
        """
        if getattr(snapshot, "of", {}).get("_load") is not self._load:
            raise InputError("restore: the snapshot is of another simulation")
        snapshot.restore()
        self._loop, self._vehicles = snapshot.loop, snapshot.vehicles
        vars(self).update(snapshot.of)

    def _loaded(self, seed: Any) -> Scenario:
        """The scenario with the own parts."""
        if isinstance(seed, np.integer):
            seed = int(seed)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise InputError(f"seed: {seed!r} is not a whole number")
        scenario: Scenario = self._load(seed=seed)
        given = {part.kind for part in self._own}
        others = tuple(part for part in scenario.parts if part.kind not in given)
        scenario = replace(scenario, parts=(*others, *self._own))
        if self._start:
            begin = scenario.file.start.changed(self._start, "start")
            scenario = replace(scenario, file=replace(scenario.file, start=begin))
            check_scenario(scenario)
        return scenario

    @property
    def done(self) -> bool:
        """Whether the flight has ended: by its mission, by its time, or by a crash."""
        return self._loop.over

    # ---- flying --------------------------------------------------------------------------------

    def step(self, count: int = 1) -> State:
        """Advance by control steps, as many as asked for, or to the end of the flight.

        Args:
            count: of steps, each of :attr:`control_period_s`.

        Returns:
            The true motion afterwards.

        Raises:
            FlightError: the motion is no longer finite; with time, state and likely cause.
            InputError: no such number of steps.
            PartError: an own part failed. The built-in parts have taken over, and further steps
                show how they land the vehicle.
        """
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise InputError(f"step: {count!r}; needed: a whole number of steps, >= 0")
        until_ns = self._now_ns + int(count) * self._period_ns
        while self._now_ns < until_ns and not (self._at_tick and self.done):
            self._advance(until_ns)
            self._tell_failure()
        return self.state

    def _tell_failure(self) -> None:
        """Raise why an own part failed, once."""
        own = self._loop.own
        if own is not None and own.error is not None and not self._told_failure:
            self._told_failure = True
            raise own.error

    @property
    def _at_tick(self) -> bool:
        """Whether the mission is asked next what it wishes."""
        return self._now_ns == self._until_ns

    def _advance(self, until_ns: int) -> None:
        """To a stamp, or to the next one at which somebody is asked."""
        loop, tick_ns = self._loop, 0
        if self._at_tick:
            loop.decide()
            self._until_ns = loop.next_tick_ns()
            tick_ns = self._until_ns - self._now_ns
        next_ns = min(until_ns, self._until_ns)
        self._vehicles.advance(self._now_ns, next_ns, tick_ns)
        self._now_ns = next_ns
        if self._at_tick:
            loop.notice(next_ns)
            if self.start_mission:
                loop.take_off_when_ready()
            loop.check()

    def run(self, until: Callable[[Simulation], bool] | None = None) -> Flight:
        """Fly to the end of the mission.

        Args:
            until: looked at after each mission tick (50 Hz); the flight ends where it is true.

        Returns:
            The flight so far, with its scores.

        Raises:
            FlightError: as of :meth:`step`.
            PartError: an own part failed, and the flight was landed.
        """
        if until is not None and not callable(until):
            raise InputError(f"run: until: {until!r}; needed: a function of the simulation")
        while not (self._at_tick and self.done):
            self._advance(self._until_ns if not self._at_tick else self._now_ns + 10**9)
            if until is not None and self._at_tick and until(self):
                return self.flight()
        self._loop.tell_timeout()
        for _ in range(REST_TICKS if self._loop.manager.finished else 0):
            self._loop.tick()
        self._now_ns = self._until_ns = self._loop.stamp_ns
        self._tell_failure()
        return self.flight()

    def flight(self) -> Flight:
        """What has been flown so far, to be scored, plotted and written."""
        return Flight.of_simulation(self._loop)

    def log(self, since_s: float = 0.0) -> FlightLog:
        """Tracks of the flight so far, or of its end alone; without scores, and so quick.

        Args:
            since_s: time from which on, s.
        """
        if not math.isfinite(since_s):
            raise InputError(f"log: since_s: {since_s!r}; needed: seconds")
        return self._loop.log(0.0, max(0, round(since_s * 1e9)))

    # ---- what goes wrong -----------------------------------------------------------------------

    def push(
        self,
        force_W_N: ArrayLike = (0.0, 0.0, 0.0),
        torque_B_Nm: ArrayLike = (0.0, 0.0, 0.0),
        duration_s: float = 0.5,
    ) -> None:
        """Push the vehicle from now on, for some time.

        Args:
            force_W_N: (3,) at the centre of mass, east, north and up, N.
            torque_B_Nm: (3,) about the body's axes, N m.
            duration_s: how long.
        """
        force, torque = (
            tuple(_numbers(name, value))
            for name, value in (("force_W_N", force_W_N), ("torque_B_Nm", torque_B_Nm))
        )
        now = {"at_s": self.time_s, "duration_s": duration_s}
        self._loop.disturb(
            from_mapping(Push, now | {"force_W_N": force, "torque_B_Nm": torque}, "push")
        )

    def fail_motor(self, index: int, effectiveness: float = 0.0) -> None:
        """Weaken a motor from now on.

        Args:
            index: of the motor, from 0.
            effectiveness: share of thrust and torque that is left; 0 is lost, 1 healthy.
        """
        keys = {"at_s": self.time_s, "index": index, "effectiveness": effectiveness}
        self._loop.disturb(from_mapping(MotorChange, keys, "fail_motor"))

    def set_wind(self, wind_W_mps: ArrayLike, rise_s: float = 1.0) -> None:
        """Let the mean wind become another one.

        Args:
            wind_W_mps: (3,) velocity of the air, east, north and up, m/s.
            rise_s: how long the change takes.
        """
        wind = _numbers("wind_W_mps", wind_W_mps)
        keys = {"at_s": self.time_s, "wind_W_mps": wind, "rise_s": rise_s}
        self._loop.disturb(from_mapping(WindChange, keys, "set_wind"))

    def fail_sensor(
        self,
        sensor: str,
        fault: str,
        value: ArrayLike = (),
        duration_s: float = 0.0,
        channel: str = "",
    ) -> None:
        """Let a sensor fail from now on.

        Args:
            sensor: its kind, as in :attr:`sensors`.
            fault: ``outage`` and ``spoofing`` of a GNSS receiver; ``stuck``, ``frozen``,
                ``noisier``, ``bias``, ``dropout`` and ``delay`` of any.
            value: as the fault wants; see :class:`quadsim.sensors.faults.FaultParams`.
            duration_s: how long; 0: until the end.
            channel: what of the sensor, such as ``accel``; empty for all.
        """
        keys = {
            "fault": fault, "at_s": self.time_s, "duration_s": duration_s,
            "value": _numbers("value", np.atleast_1d(value)), "channel": channel,
        }  # fmt: skip
        self._loop.fail_sensor(sensor, from_mapping(FaultParams, keys, "fail_sensor"))

    def set_gains(self, changes: Mapping[str, Any]) -> None:
        """Fly on with other gains.

        Args:
            changes: dotted keys of an autopilot file: ``{"position.position_gain_xy": 1.5}``.
        """
        if not isinstance(changes, Mapping):
            raise InputError(f"set_gains: {changes!r}; needed: keys and values")
        params = unflatten(
            AutopilotParams, flatten(self.scenario.autopilot) | dict(changes), "set_gains"
        )
        self._loop.set_autopilot(params)

    # ---- commands ------------------------------------------------------------------------------

    def arm(self) -> None:
        """Arm, and let the mission wait for :meth:`start`."""
        self._obey("arm", self._loop.manager.arm())

    def start(self) -> None:
        """Begin the mission, or go on with it."""
        self._obey("start", self._loop.manager.start())

    def take_off(self) -> None:
        """Take off and hover."""
        self._obey("take_off", self._loop.manager.take_off())

    def go_to(self, p_W: ArrayLike, yaw_rad: float = 0.0) -> None:
        """Fly to a place, in m, and hover there."""
        x, y, z = _numbers("p_W", p_W, 3)
        self._obey("go_to", self._loop.manager.command_pose((x, y, z), yaw_rad))

    def fly_velocity(self, v_W: ArrayLike, yaw_rate_radps: float = 0.0) -> None:
        """Fly a velocity, in m/s, until the next command, or until none comes for a while."""
        x, y, z = _numbers("v_W", v_W, 3)
        self._obey("fly_velocity", self._loop.manager.command_velocity((x, y, z), yaw_rate_radps))

    def land(self) -> None:
        """Land here."""
        self._obey("land", self._loop.manager.land())

    def _obey(self, name: str, refusal: str | None) -> None:
        """Raise why the autopilot refuses a command."""
        if refusal is not None:
            raise InputError(f"{name}: {refusal}")
