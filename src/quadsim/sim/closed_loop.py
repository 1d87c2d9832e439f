"""A flight without ROS: deterministic, and hundreds of times faster than real time."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quadsim.control.airframe import pack_airframe
from quadsim.control.joystick import Sticks
from quadsim.control.position import new_position_control
from quadsim.control.watchdog import new_inner_loop
from quadsim.errors import FlightError
from quadsim.estimation.direct import DIRECT, new_direct
from quadsim.estimation.gps_ins import gps_ins_begin_at
from quadsim.estimation.parameters import LINEAR
from quadsim.estimation.timeline import new_timeline
from quadsim.geometry.rotation import from_euler
from quadsim.mission.flight import FlightManager
from quadsim.mission.script import Script
from quadsim.noise import stream
from quadsim.parameters import pack
from quadsim.sensors import SENSORS, ahrs
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.faults import changes
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.model import period_ns, set_faults
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.sim.linear import ATTITUDE_DEVICE
from quadsim.sim.log import (
    CRASH_REST_NS,
    ERROR,
    OK,
    WARN,
    Event,
    FlightLog,
    ImuSamples,
    Track,
    track_of,
)
from quadsim.sim.loop import LOG_ROW, SETUP, STATE, advance
from quadsim.sim.scenario import Scenario
from quadsim.vehicle.contact import CRASHES
from quadsim.vehicle.disturbances import changes as disturbance_changes
from quadsim.vehicle.disturbances import pack_disturbances
from quadsim.vehicle.faults import fault_words
from quadsim.vehicle.start import stand
from quadsim.vehicle.state import P
from quadsim.world.build import ground_beneath
from quadsim.world.wind import white_width

TICK_HZ = 50.0
LOG_HZ = 100.0
VEHICLE_NAME = "quad"

#: What is kept of every flight, beside the log's rows.
KEPT = ("imu", "gnss", "rangefinder")

#: Ticks after the end of the mission, in which the rotors come to rest.
REST_TICKS = 25

#: Between two messages of the battery.
BATTERY_PERIOD_NS = 1_000_000_000

Progress = Callable[[float, float, str], None]

#: Looks at the flight before each tick and gives the sticks; None: nothing is heard of them.
Pilot = Callable[["ClosedLoop"], Sticks | None]


def make_setups(scenario: Scenario) -> NDArray[np.record]:
    """The (1,) SETUP record of a scenario."""
    setups: NDArray[np.record] = np.zeros(1, SETUP)
    setup = setups[0]
    setup.delay = scenario.file.physics.command_delay_samples
    setup["physics"] = pack(scenario.file.physics)
    setup["vehicle"] = pack(scenario.vehicle)
    setup["disturbances"] = pack_disturbances(scenario.disturbances)
    setup["environment"][0] = pack(scenario.environment)
    setup["autopilot"] = pack(scenario.autopilot)
    setup["airframe"] = pack_airframe(scenario.airframe)
    for kind, params in scenario.sensors.items():
        setup[kind][0] = pack(params)
        setup[f"{kind}_period_ns"] = period_ns(params)
        state_noise(setup, scenario, params)
    return setups


def state_noise(setup: np.record, scenario: Scenario, params: object) -> None:
    """Write what a sensor's messages say of its noise; a fix says it itself."""
    if isinstance(params, ImuParams):
        setup.accel_covariance[::4] = params.accel_variance()
        setup.gyro_covariance[::4] = params.gyro_variance()
    elif isinstance(params, MagnetometerParams):
        setup.field_covariance[::4] = params.variance(scenario.environment.field_W_T())
    elif isinstance(params, BarometerParams):
        setup.pressure_variance[0] = params.variance()


def fault_events(scenario: Scenario) -> list[Event]:
    """Begin and end of each fault and disturbance of a scenario, in order."""
    faults = [
        Event(stamp_ns, WARN, "fault", f"{kind}: {words}")
        for kind, faults in scenario.faults.items()
        if kind in scenario.sensors
        for stamp_ns, words in changes(faults)
    ]
    befalls = [
        Event(stamp_ns, WARN, "disturbance", words)
        for stamp_ns, words in disturbance_changes(scenario.disturbances)
    ]
    return sorted(faults + befalls)


def half_beam_rad(scenario: Scenario) -> float:
    """Half the width of the range finder's beam; 0 of a ray, or without one."""
    params = scenario.sensors.get("rangefinder")
    if not isinstance(params, RangefinderParams) or params.rays == 1:
        return 0.0
    return 0.5 * math.radians(params.field_of_view_deg)


def _room(scenario: Scenario, kind: str, seconds: float) -> int:
    """Samples that a sensor can publish in a time."""
    params = scenario.looped.get(kind)
    return math.ceil(seconds * params.rate_hz) + 2 if params else 0


class ClosedLoop:
    """One flight of a scenario, tick by tick.

    Args:
        scenario: what flies.
        use_truth: fly on the true state, the estimator beside it; None: as the scenario says.
        keep_samples: keep what every sensor publishes, not IMU and GNSS alone.
        log_hz: rows of the log a second, at most the IMU's rate.
        vehicle: its name, of which its noise depends.
        pilot: flies assisted from the first stick that moves; None: nobody.
        tick_hz: mission ticks a second.
    """

    def __init__(
        self,
        scenario: Scenario,
        use_truth: bool | None = None,
        keep_samples: bool = False,
        log_hz: float = LOG_HZ,
        vehicle: str = VEHICLE_NAME,
        pilot: Pilot | None = None,
        tick_hz: float = TICK_HZ,
    ) -> None:
        self.scenario = scenario
        self.vehicle = vehicle
        self._pilot = pilot
        self.use_truth = scenario.file.fly_on == "truth" if use_truth is None else use_truth
        self._setups = make_setups(scenario)
        self._scene = scenario.scene
        self.setup = self._setups[0]
        self.setup.log_period_ns = round(1e9 / log_hz)
        self.stamp_ns = 0
        self.tick_ns = round(1e9 / tick_hz)
        ticks = math.ceil(scenario.file.duration_s * tick_hz)
        self.end_ns = ticks * self.tick_ns
        ticks += REST_TICKS
        seconds = ticks / tick_hz
        self._log = np.zeros(int(seconds * log_hz) + 2, LOG_ROW)
        self._reference = np.zeros((ticks + 1, 4))
        self._reference_ns = np.zeros(ticks + 1, np.int64)
        self._samples = tuple(
            np.zeros(
                _room(scenario, kind, seconds) if kind in KEPT or keep_samples else 0,
                model.sample,
            )
            for kind, model in {**SENSORS, ahrs.KIND: ahrs.MODEL}.items()
        )
        self._states = np.zeros(1, STATE)
        self.state = self._states[0]
        linear = int(scenario.estimator.filter == LINEAR)
        self._linear = np.zeros(linear, DIRECT)
        self._attitude = np.zeros(linear, ATTITUDE_DEVICE)
        self._devices: list[tuple[np.random.Generator, int, int]] = []
        self._start()
        self._odometry = self._states["odometry"].view(np.recarray)[0]
        self._setpoint = self._states["setpoint"].view(np.recarray)[0]
        self._command = self._states["command"].view(np.recarray)[0]
        # looked at in each tick: views, as finding a field in nested records takes microseconds
        self._lost_now = self._states["inner"]["attitude"]["lost"]
        self._crash_now = self._states["vehicle"]["crash"]
        self._imu_period_ns = int(self.setup.imu_period_ns)
        self.manager = FlightManager(
            scenario.autopilot.flight,
            scenario.items,
            self._scene.terrain,
            scenario.environment.ground_height_m,
            scenario.autopilot.position,
        )
        self._switches = sorted(scenario.file.switch_at_s)
        self._half_beam_rad = half_beam_rad(scenario)
        self._ranges = 0
        self._script = Script(scenario.commands)
        self._flown = 0
        self.events: list[Event] = []
        self._faults = fault_events(scenario)
        self._crash_ns = 0
        self._battery_ns = 0  # when the battery next says how it is
        self._lost = 0

    def _start(self) -> None:
        """The vehicle on the ground, every device switched on, the filter empty."""
        scenario, state = self.scenario, self.state
        stand(
            state.vehicle,
            scenario.vehicle,
            scenario.environment,
            self._scene,
            scenario.file.physics,
            scenario.file.start.poses(1)[0],
            scenario.file.start.charge,
        )
        state["truth"][0]["p_W"] = state.vehicle.x[P : P + 3]
        state["truth"][0]["q_WB"] = from_euler(0.0, 0.0, scenario.file.start.poses(1)[0][2])
        for kind, model in SENSORS.items():
            params = scenario.sensors.get(kind)
            generator = stream(scenario.file.seed, self.vehicle, kind)
            if params is not None:
                model.start(state[f"{kind}_state"][0], params, generator)
                faults = scenario.faults.get(kind, ())
                set_faults(state[f"{kind}_outbox"][0], model, params, faults)
            state[f"{kind}_previous"] = state["truth"]
            self._devices.append(
                (generator, int(self.setup[f"{kind}_period_ns"]), model.white_width)
            )
        self._devices.append(
            (
                stream(scenario.file.seed, self.vehicle, "wind"),
                int(self.setup.imu_period_ns),
                white_width(scenario.environment.wind),
            )
        )
        self._devices.append(self._start_attitude())
        state["line"] = new_timeline(scenario.estimator)
        if len(self._linear):
            self._linear[:] = new_direct(scenario.estimator)
            self.tell_start()
        state["inner"] = new_inner_loop()
        state["position"] = new_position_control(scenario.autopilot, self.setup.airframe)

    def _start_attitude(self) -> tuple[np.random.Generator, int, int]:
        """The attitude device switched on, if it is flown with; its stream, period and width."""
        generator = stream(self.scenario.file.seed, self.vehicle, ahrs.KIND)
        params = self.scenario.ahrs
        if params is None or not len(self._attitude):
            return generator, 0, ahrs.MODEL.white_width
        device = self._attitude[0]
        device["period_ns"] = period_ns(params)
        device["params"] = pack(params)
        device["previous"] = self.state["truth"]
        ahrs.MODEL.start(device["state"][0], params, generator)
        return generator, int(device["period_ns"]), ahrs.MODEL.white_width

    def go_blind(self) -> None:
        """Let the error-state filter go on by the IMU alone."""
        self.state["line"]["blind"] = 1

    def tell_start(self) -> None:
        """Tell the linear filter the true motion, as the thesis's was; others find it."""
        if len(self._linear):
            self.state["truth"]["stamp_ns"] = self.stamp_ns
            gps_ins_begin_at(self._linear, self._states["truth"][0], self.setup.imu_period_ns)

    def _next_tick_ns(self) -> int:
        """Stamp of the IMU at which the next mission tick is due."""
        period_ns = self._imu_period_ns
        due_ns = (self.stamp_ns // self.tick_ns + 1) * self.tick_ns
        return -(-due_ns // period_ns) * period_ns

    def _draw(self, until_ns: int) -> tuple[NDArray[np.float64], ...]:
        """Normal numbers for every sample that is due up to a stamp, by sensor; then the wind's."""
        return tuple(
            generator.standard_normal(
                (until_ns // period - self.stamp_ns // period if period else 0, width)
            )
            for generator, period, width in self._devices
        )

    def tick(self) -> None:
        """One mission tick: the mission's wish, the position loop, and the loop up to the next."""
        if self._switches and self.stamp_ns >= self._switches[0] * 1e9:
            self._switch()
        odometry = self._odometry if self._odometry.stamp_ns > 0 else None
        if self.manager.ground.used:
            self._hand_over_ranges()
        if self.stamp_ns >= self._battery_ns:
            self._battery_ns = self.stamp_ns + BATTERY_PERIOD_NS
            self._tell_battery()
        self._script.give(self.manager, self.stamp_ns)
        sticks = self._pilot(self) if self._pilot is not None else None
        if sticks is not None:
            self.manager.take_sticks(sticks)
        self.manager.step(self.stamp_ns, odometry, self._setpoint, float(self._command.thrust))
        if self.manager.has_reference:
            self._reference_ns[self._flown] = self.stamp_ns
            self._reference[self._flown, :3] = self._setpoint.p_W
            self._reference[self._flown, 3] = self._setpoint.yaw
            self._flown += 1
        until_ns = self._next_tick_ns()
        advance(
            self._states,
            self._setups,
            self._scene,
            until_ns,
            int(self.use_truth),
            self._draw(until_ns),
            self._log,
            self._samples,
            self._linear,
            self._attitude,
        )
        self.stamp_ns = until_ns
        lost = int(self._lost_now[0])
        if lost > self._lost:
            self.manager.motor_lost(lost - 1)
        self._lost = lost
        self.events += [Event(*event) for event in self.manager.take_events()]
        self._tell_crash()
        while self._faults and self._faults[0].stamp_ns <= until_ns:
            self.events.append(self._faults.pop(0))

    def _switch(self) -> None:
        """Fly on the truth instead of the estimate, or the other way about."""
        self._switches.pop(0)
        self.use_truth = not self.use_truth
        self.manager.source_changed()
        source = "truth" if self.use_truth else "estimate"
        self.events.append(Event(self.stamp_ns, OK, "state source", f"flies on the {source}"))

    def _hand_over_ranges(self) -> None:
        """Give the flight manager the range finder's newest readings."""
        readings = self.samples("rangefinder")
        for sample in readings[self._ranges :]:
            self.manager.take_range(
                int(sample["stamp_ns"]),
                float(sample["range_m"]),
                float(sample["variance_m2"]),
                self._half_beam_rad,
            )
        self._ranges = len(readings)

    def _tell_battery(self) -> None:
        """What the vehicle's battery says of itself, as on ``battery_state``."""
        vehicle = self.state.vehicle
        charge = float(vehicle.charge_C) / (self.scenario.vehicle.battery.capacity_Ah * 3600.0)
        self.manager.take_battery(self.stamp_ns, max(charge, 0.0), float(vehicle.held.battery_V))

    def _tell_crash(self) -> None:
        """Keep a crash as an event, once."""
        crash = int(self._crash_now[0])
        if crash and not self._crash_ns:
            self._crash_ns = self.stamp_ns
            impact = float(self.state.vehicle.feet.impact_mps)
            words = f"{CRASHES[crash]}, at {impact:.1f} m/s: motors off"
            self.events.append(Event(self.stamp_ns, ERROR, "crash", words))

    @property
    def over(self) -> bool:
        """Whether the flight has ended: by its mission, its time, or a crash a while ago."""
        crashed = self._crash_ns and self.stamp_ns >= self._crash_ns + CRASH_REST_NS
        return bool(self.manager.finished or crashed or self.stamp_ns >= self.end_ns)

    def _check(self) -> None:
        """Stop a run whose motion is no longer finite."""
        if self.state.vehicle.fault_ns:
            raise FlightError(
                fault_words(self.state.vehicle, self.scenario.vehicle, self.scenario.file.physics)
            )

    def fly(
        self,
        progress: Progress | None = None,
        ends: Callable[[ClosedLoop], bool] | None = None,
    ) -> FlightLog:
        """Arm as soon as the arming checks pass, start the mission, and fly to its end.

        Args:
            progress: called each simulated second with time flown in s, height in m and state.
            ends: called after each tick; whether the flight ends there.
        """
        # compiled or loaded now, so that the clock measures the flight
        advance(
            self._states, self._setups, self._scene, 0, 0, self._draw(0), self._log, self._samples,
            self._linear, self._attitude,
        )  # fmt: skip
        begin_s = time.perf_counter()
        ended = False
        while not (self.over or ended):
            second_before = self.stamp_ns // 1_000_000_000
            self.tick()
            known = self._odometry.stamp_ns > 0
            standing = known and self.manager.state == "disarmed" and not self.manager.finished
            if standing and self.manager.arm() is None:
                self.manager.start()
            ended = ends is not None and ends(self)
            if self.stamp_ns // 1_000_000_000 > second_before:
                self._check()
                if progress is not None:
                    height_m = float(self.state["truth"]["p_W"][0, 2])
                    progress(self.stamp_ns * 1e-9, height_m, self.manager.state)
        for _ in range(REST_TICKS if self.manager.finished else 0):
            self.tick()
        self._check()
        wall_s = time.perf_counter() - begin_s
        if not (ended or self.manager.finished or self._crash_ns):
            self.events.append(
                Event(self.stamp_ns, ERROR, "timeout", "the mission did not end in time")
            )
        return self.log(wall_s)

    def log(self, wall_s: float) -> FlightLog:
        """What has been flown so far."""
        rows = self.rows()
        estimated = rows[rows["estimated"] != 0]
        fixes = self.samples("gnss")
        gnss = replace(
            Track.empty(len(fixes), with_sigma=True),
            stamp_ns=fixes["stamp_ns"],
            p_W=fixes["p_W"],
            v_W=fixes["v_W"],
        )
        assert gnss.sigma is not None
        gnss.sigma[:, :3] = np.sqrt(fixes["p_variance"])
        gnss.sigma[:, 3:6] = np.sqrt(fixes["v_variance"])
        felt = self.samples("imu")
        stated = np.sqrt(self.setup.accel_covariance[::4])
        yaw = self._reference[: self._flown, 3]
        reference = replace(
            Track.empty(self._flown),
            stamp_ns=self._reference_ns[: self._flown],
            p_W=self._reference[: self._flown, :3],
            q_WB=np.stack(
                [np.cos(yaw / 2), np.zeros_like(yaw), np.zeros_like(yaw), np.sin(yaw / 2)], axis=1
            ),
        )
        rotors = len(self.scenario.vehicle.commands)
        return FlightLog(
            scenario=self.scenario.name,
            seed=self.scenario.file.seed,
            truth=Track(rows["stamp_ns"], rows["p_W"], rows["v_W"], rows["q_WB"], rows["w_B"]),
            estimates={
                self.scenario.estimator.filter: track_of(
                    estimated["estimate"], estimated["stamp_ns"]
                )
            },
            reference=reference,
            motor_stamps_ns=rows["stamp_ns"],
            motor_speed_radps=rows["rotor_speed_radps"][:, :rotors],
            command_stamps_ns=rows["stamp_ns"],
            command_radps=rows["rotor_command_radps"][:, :rotors],
            topics={kind: int(self.state[f"{kind}_count"]) for kind in self.scenario.sensors},
            events=list(self.events),
            wall_s=wall_s,
            waypoints=self.manager.waypoints(),
            gnss=gnss,
            imu=ImuSamples(
                felt["stamp_ns"],
                felt["f_S"],
                felt["w_S"],
                np.broadcast_to(stated, (len(felt), 3)),
            ),
            ground_m=ground_beneath(
                self._scene, self.scenario.environment.ground_height_m, rows["p_W"]
            ),
        )

    def rows(self) -> NDArray[np.record]:
        """What has been logged so far, (N,) LOG_ROW records."""
        return self._log[: int(self.state.log_count)]

    def samples(self, kind: str) -> NDArray[np.record]:
        """What a sensor has published so far, (N,) records of its model's ``sample``."""
        if kind == ahrs.KIND:
            return self._samples[-1][: int(self._attitude["count"].sum())]
        log = self._samples[list(SENSORS).index(kind)]
        return log[: int(self.state[f"{kind}_count"])]

    def digest(self) -> str:
        """SHA-256 over every logged state and everything that the loop remembers at the end."""
        rows, states = self.rows(), self._states.copy()
        states["log_count"] = len(rows)  # however many more were written
        content = hashlib.sha256(rows.tobytes())
        content.update(states.tobytes())
        content.update(self._linear.tobytes())
        content.update(self._attitude.tobytes())
        return content.hexdigest()


def run(
    scenario: Scenario, use_truth: bool | None = None, progress: Progress | None = None
) -> tuple[FlightLog, str]:
    """Fly a scenario to its end.

    Returns:
        The flight and its digest.
    """
    loop = ClosedLoop(scenario, use_truth)
    log = loop.fly(progress)
    return log, loop.digest()


def vehicle_names(count: int) -> list[str]:
    """Names of the vehicles of a flight: ``quad``, or ``quad1``, ``quad2``, ..."""
    return [VEHICLE_NAME] if count == 1 else [f"{VEHICLE_NAME}{i + 1}" for i in range(count)]


def run_all(
    scenario: Scenario,
    progress: Progress | None = None,
    make: Callable[[Scenario, str], ClosedLoop] | None = None,
) -> tuple[list[FlightLog], str]:
    """Fly every vehicle of a scenario to its end, each alone and with noise of its own.

    Args:
        scenario: what flies.
        progress: as of :meth:`ClosedLoop.fly`.
        make: makes the loop of a vehicle, if a plain one will not do.

    Returns:
        The flights, and one digest of all.
    """
    logs, digests = [], []
    for name in vehicle_names(scenario.file.vehicles):
        loop = make(scenario, name) if make is not None else ClosedLoop(scenario, vehicle=name)
        logs.append(loop.fly(progress))
        digests.append(loop.digest())
    if len(digests) == 1:
        return logs, digests[0]
    return logs, hashlib.sha256("".join(digests).encode()).hexdigest()
