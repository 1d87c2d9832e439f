"""A flight in the closed loop, as programs and own parts look at it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.records import SETPOINT_MODES
from quadsim.control.airframe import AirframeParams
from quadsim.mission.flight.flight import FlightManager
from quadsim.sim.log import Event
from quadsim.sim.scenario import Scenario
from quadsim.vehicle.state import ROTOR


class ViewedLoop(Protocol):
    """What a view needs of a closed loop."""

    scenario: Scenario
    setup: Any
    state: Any
    use_truth: bool
    events: list[Event]
    own: Any

    @property
    def manager(self) -> FlightManager:
        """Its autopilot."""

    @property
    def records(self) -> dict[str, NDArray[np.record]]:
        """Live (1,) records of this moment."""

    def samples(self, kind: str) -> NDArray[np.record]:
        """What a sensor has published so far."""


@dataclass(frozen=True, slots=True)
class State:
    """The motion of a vehicle at one time.

    Frames: W is the world (``map``, ENU), B the body (``base_link``, FLU).

    Attributes:
        time_s: since the start of the simulation.
        p_W: (3,) position, m.
        v_W: (3,) velocity, m/s.
        q_WB: (4,) unit quaternion, w first, that turns body axes into world axes.
        w_B: (3,) angular velocity, rad/s.
        sigma: (9,) standard deviations of ``p_W`` in m, ``v_W`` in m/s and of the attitude about
            the world axes in rad; None of the true state.
    """

    time_s: float
    p_W: Array
    v_W: Array
    q_WB: Array
    w_B: Array
    sigma: Array | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What the mission wants now.

    Attributes:
        mode: ``stop`` (motors off), ``idle``, ``position``, ``velocity``, ``descend`` or
            ``attitude``.
        p_W: (3,) position, m, in mode ``position``.
        v_W: (3,) velocity, m/s.
        a_W: (3,) acceleration, m/s^2.
        yaw: heading, rad.
        yaw_rate: rad/s.
    """

    mode: str
    p_W: Array
    v_W: Array
    a_W: Array
    yaw: float
    yaw_rate: float


class Rates(NamedTuple):
    """What an own controller may command: body rates, which our rate loop flies.

    Attributes:
        w_B: (3,) in rad/s.
        thrust: collective specific thrust along body z, m/s^2; 0 stops the motors.
    """

    w_B: ArrayLike
    thrust: float


class Attitude(NamedTuple):
    """What an own controller may command: an attitude, which our attitude loop flies.

    Attributes:
        roll, pitch: rad.
        yaw_rate: rad/s.
        thrust: collective specific thrust along body z, m/s^2; 0 stops the motors.
    """

    roll: float
    pitch: float
    yaw_rate: float
    thrust: float


class FlightView:
    """A flight in the closed loop, to be looked at.

    Attributes:
        scenario: what flies.
    """

    _loop: ViewedLoop
    scenario: Scenario

    @property
    def time_s(self) -> float:
        """Simulated time since the start, s."""
        return float(self._loop.state["stamp_ns"]) * 1e-9

    @property
    def control_period_s(self) -> float:
        """Length of a control step: the period of the IMU and of the inner loops, s."""
        return int(self._loop.setup.imu_period_ns) * 1e-9

    @property
    def mode(self) -> str:
        """State of the autopilot: ``disarmed``, ``takeoff``, ``mission``, ``landing``, ..."""
        return self._loop.manager.state

    @property
    def events(self) -> list[Event]:
        """What has happened so far: changes of state, faults, crashes."""
        return list(self._loop.events)

    @cached_property
    def airframe(self) -> AirframeParams:
        """The vehicle as the controller is told it: mass, rotors, limits."""
        return self.scenario.airframe

    @property
    def state(self) -> State:
        """The true motion."""
        return self._state(self._loop.records["truth"], self.time_s)

    @property
    def odometry(self) -> State:
        """The motion that is flown on: the estimate, or the truth with ``fly_on: truth``.

        Before there is an estimate it is at rest in the origin.
        """
        found = self._loop.records["odometry"]
        if found["stamp_ns"].item() <= 0:
            return State(0.0, np.zeros(3), np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3))
        return self._state(found, found["stamp_ns"].item() * 1e-9)

    @property
    def estimate(self) -> State | None:
        """What the estimator believes; None as long as it has not started."""
        own = "estimate" if self._loop.use_truth else "odometry"
        found = self._loop.records[own]
        if found["stamp_ns"].item() <= 0:
            return None
        variances = [found[f"{part}_variance"][0] for part in ("p", "v", "attitude")]
        sigma = np.sqrt(np.maximum(np.concatenate(variances), 0.0))
        return self._state(found, found["stamp_ns"].item() * 1e-9, sigma)

    @staticmethod
    def _state(rows: NDArray[Any], time_s: float, sigma: Array | None = None) -> State:
        """A copy of a (1,) record: by arrays, as a record alone takes microseconds to look into."""
        p_W, v_W, q_WB, w_B = (rows[name][0].copy() for name in ("p_W", "v_W", "q_WB", "w_B"))
        return State(time_s, p_W, v_W, q_WB, w_B, sigma)

    @property
    def setpoint(self) -> Target:
        """What the mission wants now."""
        rows = self._loop.records["setpoint"]
        p_W, v_W, a_W = (rows[name][0].copy() for name in ("p_W", "v_W", "a_W"))
        mode = SETPOINT_MODES[rows["mode"].item()]
        return Target(mode, p_W, v_W, a_W, rows["yaw"].item(), rows["yaw_rate"].item())

    @property
    def records(self) -> dict[str, NDArray[Any]]:
        """Live (1,) records for kernels: odometry, estimate, setpoint, command and truth.

        Their fields are in :mod:`quadsim.base.records`.
        """
        return self._loop.records

    @property
    def rotor_speed_radps(self) -> Array:
        """True speeds of the (n,) rotors, rad/s."""
        rotors = len(self.scenario.vehicle.commands)
        return np.array(self._loop.state.vehicle.x[ROTOR : ROTOR + rotors])

    @property
    def sensors(self) -> dict[str, dict[str, Any]]:
        """Newest sample of each sensor that has published one, by its kind.

        ``simulation.sensors["imu"]["f_S"]`` is the specific force in m/s^2; the fields and units
        of each kind are those of its sample in :mod:`quadsim.sensors`.
        """
        found = {}
        for kind in self._kinds:
            samples = self._loop.samples(kind)
            if len(samples):
                newest = samples[-1]
                found[kind] = {name: newest[name].copy() for name in newest.dtype.names or ()}
        return found

    @property
    def _kinds(self) -> tuple[str, ...]:
        own = self._loop.own
        return (*self.scenario.sensors, *(own.readings if own is not None else ()))

    def samples(self, kind: str) -> NDArray[np.record]:
        """Everything that a sensor has published so far, (N,) records, which stay as they are.

        Raises:
            InputError: the vehicle has no such sensor.
        """
        if kind not in self._kinds:
            raise InputError(
                f"no sensor {kind!r}; the vehicle has {', '.join(sorted(self._kinds))}"
            )
        return self._loop.samples(kind).copy()
