"""Several vehicles in one world, each with its own sensors, estimator, control and mission.

Physics is one for all: they collide, and blow down on each other. Everything else is each one's
own, and its noise depends on its name alone, so that a vehicle which nobody comes near flies as if
it were alone. At each mission tick they tell each other where they estimate to be; by that they
give way to each other, where the scenario lets them, and wait for each other.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.records import MODE_POSITION, MODE_VELOCITY
from quadsim.control.parameters import PositionParams
from quadsim.control.reciprocal import GiveWayParams, give_way
from quadsim.estimation.eskf.alignment import KNOWN_WHITE
from quadsim.estimation.eskf.measurement_buffer import new_timeline
from quadsim.geometry.linear import lengths
from quadsim.mission.formations import Gather
from quadsim.sensors import kind_of
from quadsim.sim.beginning import begin_estimate
from quadsim.sim.closed_loop import LOG_HZ, REST_TICKS, TICK_HZ, ClosedLoop, Progress, vehicle_names
from quadsim.sim.log import OK, Event, FlightLog
from quadsim.sim.scenario import Scenario
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.start import check_place, place

#: States in which a vehicle leaves its way for another one.
YIELDING = ("mission", "hover", "guided", "velocity", "returning")
#: Who was free for so long has given way to the end, ns.
FREE_NS = 1_000_000_000
#: A slower reference waits for nobody, m/s.
STANDING_MPS = 0.05

#: Makes the loop of a vehicle: the scenario, its name, all vehicles, its index among them.
Make = Callable[[Scenario, str, Vehicles, int], ClosedLoop]


def wished_velocities(setpoints: NDArray[np.record], p_W: Array, params: PositionParams) -> Array:
    """Velocities by which the position loop would follow setpoints, (N, 3) m/s.

    Args:
        setpoints: (N,) SETPOINT records.
        p_W: (N, 3) estimated positions.
        params: of the position loop.
    """
    wish_W = np.array(setpoints["v_W"])
    error_W = setpoints["p_W"] - p_W
    away_m = lengths(error_W[:, :2])
    gain, braking = params.position_gain_xy, params.braking_mps2
    bend_m = braking / (gain * gain)
    far = np.sqrt(2.0 * braking * np.maximum(away_m - 0.5 * bend_m, 0.0))
    speed = np.where(away_m <= bend_m, gain * away_m, far)
    held = setpoints["mode"] == MODE_POSITION
    share = np.where(held & (away_m > 0.0), speed / np.maximum(away_m, 1e-12), 0.0)
    wish_W[:, :2] += share[:, None] * error_W[:, :2]
    most = np.full(len(wish_W), params.speed_max_mps)
    limited = setpoints["speed_mps"] > 0.0
    most[limited] = np.minimum(most[limited], setpoints["speed_mps"][limited])
    level = lengths(wish_W[:, :2])
    wish_W[:, :2] *= np.minimum(1.0, most / np.maximum(level, 1e-12))[:, None]
    return wish_W


class GivingWay:
    """Vehicles that keep apart: their setpoints are changed where their wishes do not fit.

    Args:
        loops: the vehicles.
        vehicles: their records.
        params: how they avoid each other.

    Attributes:
        now: (N,) whether each gives way at this tick.
    """

    def __init__(self, loops: list[ClosedLoop], vehicles: Vehicles, params: GiveWayParams) -> None:
        self._loops, self._params = loops, params
        self._odometries, self._setpoints = vehicles.states["odometry"], vehicles.states["setpoint"]
        autopilot = vehicles.scenario.autopilot
        self._position, self._most_mps = autopilot.position, autopilot.flight.speed_mps
        count = len(loops)
        self._given_W, self._whom = np.zeros((count, 3)), np.zeros(count, np.int64)
        self._free_ns: list[int | None] = [None] * count
        self.now = np.zeros(count, bool)

    def step(self, tick_ns: int) -> None:
        """Change the setpoints of a mission tick of this length, before they are flown."""
        loops, params, setpoints = self._loops, self._params, self._setpoints
        p_W, v_W = self._odometries["p_W"], self._odometries["v_W"]
        known = (self._odometries["stamp_ns"] > 0) & np.isfinite(p_W + v_W).all(axis=1)
        flies = known & np.array([loop.manager.flying and not loop.crashed for loop in loops])
        states = np.array([loop.manager.state in YIELDING for loop in loops])
        mode = setpoints["mode"]
        yields = flies & states & ((mode == MODE_POSITION) | (mode == MODE_VELOCITY))
        wish_W = wished_velocities(setpoints, p_W, self._position)
        give_way(
            np.ascontiguousarray(p_W),
            np.ascontiguousarray(v_W),
            wish_W,
            flies,
            yields,
            self._most_mps,
            params.radius_m,
            params.horizon_s,
            params.height_m,
            math.radians(params.right_deg),
            self._given_W,
            self._whom,
        )
        self.now[:] = self._whom >= 0
        for i in np.flatnonzero(self.now):
            self._change(int(i), tick_ns, p_W[i])
        self._tell()

    def _change(self, i: int, tick_ns: int, p_W: Array) -> None:
        """Let one fly the velocity that it was given, and its reference wait for it."""
        setpoint, given_W = self._setpoints[i], self._given_W[i]
        x, y = float(setpoint["v_W"][0]), float(setpoint["v_W"][1])
        square, late = x * x + y * y, 0.0
        if square > STANDING_MPS * STANDING_MPS:
            pace = (float(given_W[0]) * x + float(given_W[1]) * y) / square
            late = 1.0 - min(max(pace, 0.0), 1.0)
        self._loops[i].manager.give_way(round(late * tick_ns))
        setpoint["p_W"][:2] = p_W[:2]
        setpoint["v_W"][:2] = given_W[:2]
        setpoint["a_W"][:2] = 0.0

    def _tell(self) -> None:
        """Events: who begins to give way to whom, and who has done with it."""
        for i, loop in enumerate(self._loops):
            whom, free_ns = int(self._whom[i]), self._free_ns[i]
            if whom >= 0:
                if free_ns is None:
                    words = f"to {self._loops[whom].vehicle}"
                    loop.events.append(Event(loop.stamp_ns, OK, "gives way", words))
                self._free_ns[i] = loop.stamp_ns + FREE_NS
            elif free_ns is not None and loop.stamp_ns >= free_ns:
                self._free_ns[i] = None
                loop.events.append(Event(loop.stamp_ns, OK, "goes on", "nobody is in its way"))


def plain_loop(scenario: Scenario, name: str, vehicles: Vehicles, index: int) -> ClosedLoop:
    """The loop of one vehicle of a swarm."""
    return ClosedLoop(scenario, vehicle=name, vehicles=vehicles, index=index)


class Swarm:
    """The vehicles of one flight, tick by tick.

    Args:
        scenario: what flies.
        count: how many; None: as in the scenario.
        seconds: room in the logs; None: for the whole flight, else :meth:`ClosedLoop.forget` makes
            room anew.
        log_hz: rows of the logs a second, at most the IMU's rate.
        keep_samples: keep what every sensor publishes.
        make: makes the loop of a vehicle, if a plain one will not do.
        each_starts: who stands disarmed will arm and start by itself, and is waited for.

    Attributes:
        loops: of the vehicles.
        vehicles: their records, one for each.
        stamp_ns: simulated time.
    """

    def __init__(
        self,
        scenario: Scenario,
        count: int | None = None,
        seconds: float | None = None,
        log_hz: float = LOG_HZ,
        keep_samples: bool = False,
        make: Make = plain_loop,
        each_starts: bool = True,
    ) -> None:
        count = scenario.file.vehicles if count is None else count
        names = vehicle_names(count)
        if seconds is None:
            seconds = scenario.file.duration_s + (REST_TICKS + 1) / TICK_HZ
        self.scenario = scenario
        self.vehicles = Vehicles(scenario, names, seconds, log_hz, keep_samples)
        self.loops = [make(scenario, name, self.vehicles, i) for i, name in enumerate(names)]
        self.each_starts = each_starts
        self._gathers = any(
            isinstance(item, Gather) for mission in self.vehicles.missions for item in mission
        )
        self.stamp_ns = 0
        states = self.vehicles.states
        self._faults_ns = states["vehicle"]["fault_ns"]
        self._log_counts = states["log_count"]
        self._counts = {kind: slots["count"] for kind, slots in self.vehicles.devices.items()}
        swarm = scenario.file.swarm
        self._giving_way = (
            GivingWay(self.loops, self.vehicles, swarm.give_way)
            if swarm.avoid and count > 1
            else None
        )

    @property
    def over(self) -> bool:
        """Whether every flight has ended."""
        return all(loop.over for loop in self.loops)

    @property
    def giving_way(self) -> int:
        """How many vehicles give way to another one now."""
        return 0 if self._giving_way is None else int(self._giving_way.now.sum())

    def tick(self) -> None:
        """One mission tick of all."""
        self.decide()
        self.advance()

    def decide(self) -> None:
        """Begin a tick: every mission's setpoint, within what the others leave of it."""
        for loop in self.loops:
            loop.decide()
        self._gather()
        if self._giving_way is not None:
            first = self.loops[0]
            self._giving_way.step(first.next_tick_ns() - first.stamp_ns)

    def advance(self) -> None:
        """End it: fly to the next."""
        until_ns = self.loops[0].next_tick_ns()
        self.vehicles.advance(self.stamp_ns, until_ns)
        self.stamp_ns = until_ns
        for loop in self.loops:
            loop.notice(until_ns)

    def logged(self) -> tuple[NDArray[np.intp], NDArray[np.record]]:
        """Rows of the logs: (M,) whose, and (M,) LOG_ROW records, vehicle by vehicle."""
        return self._of_each(self.vehicles.logs, self._log_counts)

    def published(self, kind: str) -> tuple[NDArray[np.intp], NDArray[np.record]]:
        """What a kind of sensor has published: (M,) whose, and (M,) samples, vehicle by vehicle."""
        of_kind = kind_of(kind)
        device = slice(int(of_kind != kind), int(of_kind != kind) + 1)
        rows = self.vehicles.samples[of_kind][:, device]
        counts = self._counts[of_kind][:, device]
        return self._of_each(rows.reshape(len(rows), -1), counts.sum(axis=1))

    @staticmethod
    def _of_each(
        rows: NDArray[np.record], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.record]]:
        there = np.arange(min(int(counts.max()), rows.shape[1])) < counts[:, None]
        whose, which = np.nonzero(there)
        return whose, rows[whose, which]

    def references(self) -> tuple[NDArray[np.intp], Array]:
        """Where the missions want who is to follow something: (M,) whose, (M, 4) p_W and yaw.

        As decided, whoever gives way.
        """
        found = [(i, loop.wanted) for i, loop in enumerate(self.loops)]
        there = [(i, wanted) for i, wanted in found if wanted is not None]
        whose = np.array([i for i, _ in there], np.intp)
        return whose, np.array([wanted for _, wanted in there]).reshape(-1, 4)

    def place(self, i: int, motion: np.record) -> None:
        """Put vehicle ``i`` into the pose and velocities of a KINEMATICS, between two ticks.

        An error-state filter that runs begins anew there, about the true motion.

        Raises:
            InputError: nothing could be there.
        """
        scenario, state = self.scenario, self.vehicles.states[i]
        physics = scenario.file.physics
        check_place(scenario.vehicle, scenario.environment, self.vehicles.scene, physics, motion)
        of = [motion[key] for key in ("p_W", "v_W", "q_WB", "w_B")]
        place(state["vehicle"], physics, *of)
        for key, value in zip(("p_W", "v_W", "q_WB", "w_B"), of, strict=True):
            state["truth"][0][key] = value
        for devices in self.vehicles.devices.values():  # no IMU feels the jump
            devices["previous"][i] = state["truth"][0]
        if state["line"][0]["state"]["running"]:
            stamp_ns = state["odometry"]["stamp_ns"]
            state["line"] = new_timeline(scenario.estimator)
            one, none = self.vehicles.states[i : i + 1], np.zeros(KNOWN_WHITE)
            begin_estimate(one, scenario.file.start.deviations, none)
            state["odometry"]["stamp_ns"] = state["estimate"]["stamp_ns"] = stamp_ns

    def forget(self) -> None:
        """Make room in the logs: what they hold has been taken, by the missions too.

        Between :meth:`decide` and :meth:`advance`.
        """
        self._log_counts[:] = 0
        for counts in self._counts.values():
            counts[:] = 0
        for loop in self.loops:
            loop.forget()

    def _gather(self) -> None:
        """Let those who wait for each other go on, when nobody is left on the way.

        Of those who wait at different items, the hindmost.
        """
        if not self._gathers:
            return
        waiting = []
        for loop in self.loops:
            manager = loop.manager
            at = manager.gathers_at
            if at is not None:
                waiting.append((at, manager))
            elif not loop.crashed and (
                manager.on_its_way or (self.each_starts and manager.may_fly)
            ):
                return
        hindmost = min((at for at, _ in waiting), default=0)
        for at, manager in waiting:
            if at == hindmost:
                manager.release()

    def check(self) -> None:
        """Stop a run whose motion is no longer finite.

        Raises:
            FlightError: naming the vehicle that was the first.
        """
        first = self.first_fault
        if first is not None:
            self.loops[first].check()

    @property
    def first_fault(self) -> int | None:
        """Which vehicle's motion was the first not to go on; None: all do."""
        if not self._faults_ns.any():
            return None
        faulted = np.flatnonzero(self._faults_ns)
        return int(faulted[self._faults_ns[faulted].argmin()])

    def fly(self, progress: Progress | None = None) -> list[FlightLog]:
        """Arm each as soon as its checks pass, start the missions, and fly to the end of all.

        Args:
            progress: as of :meth:`ClosedLoop.fly`, of the first vehicle.

        Returns:
            The flights.
        """
        self.vehicles.advance(0, 0)  # compiled or loaded now, so that the clock measures the flight
        begin_s = time.perf_counter()
        first = self.loops[0]
        while not self.over:
            second_before = self.stamp_ns // 1_000_000_000
            self.tick()
            for loop in self.loops:
                loop.take_off_when_ready()
            if self.stamp_ns // 1_000_000_000 > second_before:
                self.check()
                if progress is not None:
                    height_m = float(first.state["truth"]["p_W"][0, 2])
                    progress(self.stamp_ns * 1e-9, height_m, first.manager.state)
        for _ in range(REST_TICKS if any(loop.manager.finished for loop in self.loops) else 0):
            self.tick()
        self.check()
        wall_s = time.perf_counter() - begin_s
        for loop in self.loops:
            loop.tell_timeout()
        return [loop.log(wall_s) for loop in self.loops]

    def digest(self) -> str:
        """SHA-256 of all flights."""
        digests = [loop.digest() for loop in self.loops]
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256("".join(digests).encode()).hexdigest()


def run_all(
    scenario: Scenario,
    progress: Progress | None = None,
    make: Make = plain_loop,
    log_hz: float = LOG_HZ,
    keep_samples: bool = False,
) -> tuple[list[FlightLog], str]:
    """Fly every vehicle of a scenario to its end, in one world.

    Args:
        scenario: what flies.
        progress: as of :meth:`ClosedLoop.fly`.
        make, log_hz, keep_samples: as of :class:`Swarm`.

    Returns:
        The flights, and one digest of all.
    """
    swarm = Swarm(scenario, make=make, log_hz=log_hz, keep_samples=keep_samples)
    logs = swarm.fly(progress)
    return logs, swarm.digest()
