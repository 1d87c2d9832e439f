"""A flight without ROS: deterministic, and hundreds of times faster than real time."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import pack
from quadsim.control.joystick import Sticks
from quadsim.control.parameters import AutopilotParams
from quadsim.estimation.interface import (
    awaited,
    left_out_of,
    noisy_sensors,
    rejected_sensors,
    repeating_sensors,
)
from quadsim.estimation.reference_filters.gps_ins import gps_ins_begin_at
from quadsim.estimation.voting_words import vote_changes
from quadsim.mission.flight.flight import FlightManager
from quadsim.mission.script import Script
from quadsim.mission.swarms import moved_command
from quadsim.sensors import SENSORS, kind_of, topics_of
from quadsim.sensors.devices import check_faults
from quadsim.sensors.faults import FaultParams, fault_changes
from quadsim.sensors.model import set_faults
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.sim.beginning import begin_on_truth
from quadsim.sim.log import (
    CRASH_REST_NS,
    ERROR,
    OK,
    WARN,
    Event,
    FlightLog,
    ImuSamples,
    Track,
    timeout_event,
    track_of,
)
from quadsim.sim.parts import OwnParts
from quadsim.sim.scenario import Scenario
from quadsim.sim.start import ALIGNED
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.contact.contact import CRASHES
from quadsim.vehicle.disturbances import (
    Disturbance,
    check_disturbances,
    pack_disturbances,
)
from quadsim.vehicle.disturbances import changes as disturbance_changes
from quadsim.vehicle.faults import fault_words
from quadsim.vehicle.outline import outline_m
from quadsim.world.build import ground_beneath

TICK_HZ = 50.0
LOG_HZ = 100.0
VEHICLE_NAME = "quad"

#: Ticks after the end of the mission, in which the rotors come to rest.
REST_TICKS = 25

#: Between two looks at what contradicts the rest.
LOOK_NS = 100_000_000
#: Between two messages of the battery.
BATTERY_PERIOD_NS = 1_000_000_000

Progress = Callable[[float, float, str], None]

#: Looks at the flight before each tick and gives the sticks; None: nothing is heard of them.
Pilot = Callable[["ClosedLoop"], Sticks | None]


def fault_events(scenario: Scenario, vehicle: int = 1) -> list[Event]:
    """Begin and end of each fault and disturbance of a vehicle of a scenario, in order."""
    faults = [
        Event(stamp_ns, WARN, "fault", f"{kind}: {words}")
        for kind, faults in scenario.faults.items()
        if kind in scenario.sensors
        for stamp_ns, words in fault_changes(faults)
    ]
    befalls = [
        Event(stamp_ns, WARN, "disturbance", words)
        for stamp_ns, words in disturbance_changes(scenario.disturbances, vehicle)
    ]
    return sorted(faults + befalls)


def half_beam_rad(scenario: Scenario) -> float:
    """Half the width of the range finder's beam; 0 of a ray, or without one."""
    params = scenario.sensors.get("rangefinder")
    if not isinstance(params, RangefinderParams) or params.rays == 1:
        return 0.0
    return 0.5 * math.radians(params.field_of_view_deg)


class ClosedLoop:
    """One flight of a scenario, tick by tick.

    Args:
        scenario: what flies.
        use_truth: fly on the true state, the estimator runs too; None: as the scenario sets.
        keep_samples: keep what every sensor publishes, not IMU and GNSS alone.
        log_hz: rows of the log a second, at most the IMU's rate.
        vehicle: its name, of which its noise depends.
        pilot: flies assisted from the first stick that moves; None: nobody.
        tick_hz: mission ticks a second.
        vehicles: those among which it flies, which somebody else advances between :meth:`decide`
            and :meth:`notice`; None: it is alone in its world.
        index: which of them it is.
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
        vehicles: Vehicles | None = None,
        index: int = 0,
    ) -> None:
        self.scenario = scenario
        self.vehicle = vehicle
        self._pilot = pilot
        self.use_truth = scenario.file.fly_on == "truth" if use_truth is None else use_truth
        self.stamp_ns = 0
        self.tick_ns = round(1e9 / tick_hz)
        ticks = math.ceil(scenario.file.duration_s * tick_hz)
        self.end_ns = ticks * self.tick_ns
        ticks += REST_TICKS
        if vehicles is None:
            seconds = ticks / tick_hz
            vehicles = Vehicles(scenario, [vehicle], seconds, log_hz, keep_samples)
        self._vehicles = vehicles
        own = slice(index, index + 1)
        self._setups, self._states = vehicles.setups[own], vehicles.states[own]
        self.setup, self.state = self._setups[0], self._states[0]
        self._linear = vehicles.linear[own]
        #: Slots of its devices by kind, (M,) of each.
        self.devices = {kind: slots[index] for kind, slots in vehicles.devices.items()}
        self._log: NDArray[np.record] = vehicles.logs[index]
        self._samples: dict[str, NDArray[np.record]] = {
            kind: samples[index] for kind, samples in vehicles.samples.items()
        }
        self._flies_on_truth = vehicles.use_truth[own]
        self._scene = scenario.scene
        self._reference = np.zeros((ticks + 1, 4))
        self._reference_ns = np.zeros(ticks + 1, np.int64)
        self.tell_start()
        self._odometry = self._states["odometry"].view(np.recarray)[0]
        self._setpoint = self._states["setpoint"].view(np.recarray)[0]
        self._command = self._states["command"].view(np.recarray)[0]
        # looked at in each tick: views, as finding a field of a record takes microseconds, and
        # arrays of one, as a record goes into compiled code thirty times slower
        self._filters = self._states["line"]["state"][0]
        self._frozen_now, self._frozen = self._states["line"]["frozen"][0], 0
        self._noisy_now, self._noisy = self._states["line"]["noisy"][0], 0
        lines = self._states["line"][0]
        self._votes_now, self._voted = (lines["vote"]["changed"], lines["pairs"]["changed"]), 0
        self._left_out: dict[str, str] = {}
        self._odometries, self._setpoints = self._states["odometry"], self._states["setpoint"]
        self._odometry_now_ns = self._odometries["stamp_ns"]
        self._p_wish_W, self._yaw_wish = self._setpoints["p_W"][0], self._setpoints["yaw"]
        self._thrust_now = self._states["command"]["thrust"]
        self._range_counts = self.devices["rangefinder"]["count"]
        self._range_samples = [
            [samples[name] for name in ("stamp_ns", "range_m", "variance_m2")]
            for samples in self._samples["rangefinder"]
        ]
        self._lost_now = self._states["inner"]["attitude"]["lost"]
        vehicles_now = self._states["vehicle"]
        self._crash_now, self._fault_now = vehicles_now["crash"], vehicles_now["fault_ns"]
        self._charge_now = vehicles_now["charge_C"]
        self._battery_now = vehicles_now["held"]["battery_V"]
        self._capacity_C = scenario.vehicle.battery.capacity_Ah * 3600.0
        self._imu_period_ns = int(self.setup.imu_period_ns)
        self._known_as = self.vehicle if len(vehicles.states) > 1 else ""
        self.manager = FlightManager(
            scenario.autopilot.flight,
            vehicles.missions[index],
            self._scene.terrain,
            scenario.environment.ground_height_m,
            scenario.autopilot.position,
        )
        self.manager.estimate.awaited = self._awaited
        self._switches = sorted(scenario.file.switch_at_s)
        self._half_beam_rad = half_beam_rad(scenario)
        self._ranges = 0
        offset_W_m = vehicles.offsets_W_m[index]
        commands = [moved_command(command, offset_W_m) for command in scenario.commands]
        self._script = Script(commands)
        self._flown = 0
        self.events: list[Event] = []
        self._faults = fault_events(scenario, index + 1)
        self._disturbances = list(scenario.disturbances)
        self._sensor_faults = {kind: list(faults) for kind, faults in scenario.faults.items()}
        self._number = index + 1
        #: Name of the estimate that is flown on.
        self.flies_on: str = scenario.estimator.filter
        #: Whether the take-off waits, for firmware that is not ready yet.
        self.held = False
        self._crash_ns = 0
        self._battery_ns = 0  # when the battery next publishes its state
        self._lost = 0
        self._aligns = self._starts_mission = False
        self._begin_in_air()
        #: Parts of the user's own; None: there are none.
        self.own = OwnParts(self, vehicles, index) if scenario.parts else None

    @cached_property
    def records(self) -> dict[str, NDArray[np.record]]:
        """Live (1,) records of this moment, for kernels."""
        names = ("odometry", "estimate", "setpoint", "command")
        return {name: self._states[name] for name in names} | {"truth": self._states["truth"][:, 0]}

    # ---- changes from outside -------------------------------------------------------------------

    def disturb(self, item: Disturbance) -> None:
        """Disturb the vehicle by something that is not in the scenario.

        Args:
            item: at a time that has not passed.

        Raises:
            InputError: it cannot happen to this vehicle, or too much happens at once.
        """
        befalls = [*self._disturbances, item]
        check_disturbances(befalls, self.scenario.vehicle, self._number, "disturbance")
        coming = [each for each in befalls if self._is_coming(disturbance_changes([each]))]
        self.setup["disturbances"] = pack_disturbances(coming, self._number)
        self._disturbances = befalls
        self._expect(disturbance_changes([item], self._number), "disturbance", "")

    def fail_sensor(self, kind: str, fault: FaultParams) -> None:
        """Let a sensor fail in a way that the scenario has not planned.

        Raises:
            InputError: the vehicle has no such sensor, or the fault does not fit it.
        """
        sensors = self.scenario.sensors
        if kind not in sensors:
            raise InputError(f"no sensor {kind!r}; the vehicle has {', '.join(sorted(sensors))}")
        acting = [
            each
            for each in self._sensor_faults.get(kind, [])
            if not each.duration_s or self._is_coming(fault_changes([each]))
        ]
        faults = [*acting, fault]
        check_faults(kind, sensors[kind], faults, kind)
        self._sensor_faults[kind] = faults
        of_kind = kind_of(kind)
        box = self.devices[of_kind]["outbox"][int(of_kind != kind)]
        set_faults(box, SENSORS[of_kind], sensors[kind], faults)
        self._expect(fault_changes([fault]), "fault", f"{kind}: ")

    def set_autopilot(self, params: AutopilotParams) -> None:
        """Control with other gains from now on; the mission keeps its own parameters."""
        self.setup["autopilot"] = pack(params)

    def _is_coming(self, stamps: list[tuple[int, str]]) -> bool:
        """Whether the last of some changes is still to come."""
        return stamps[-1][0] >= self.stamp_ns

    def _expect(self, stamps: list[tuple[int, str]], name: str, before: str) -> None:
        """Keep changes as events, each when it comes."""
        events = [Event(stamp_ns, WARN, name, f"{before}{words}") for stamp_ns, words in stamps]
        self._faults = sorted([*self._faults, *events])

    def go_blind(self) -> None:
        """Let the error-state filter go on by the IMU alone."""
        self.state["line"]["blind"] = 1

    def tell_start(self) -> None:
        """Tell the linear filter the true motion, as the thesis's was; others find it."""
        if len(self._linear):
            self.state["truth"]["stamp_ns"] = self.stamp_ns
            gps_ins_begin_at(self._linear, self._states["truth"][0], self.setup.imu_period_ns)

    def next_tick_ns(self) -> int:
        """Stamp of the IMU at which the next mission tick is due."""
        period_ns = self._imu_period_ns
        due_ns = (self.stamp_ns // self.tick_ns + 1) * self.tick_ns
        return -(-due_ns // period_ns) * period_ns

    def tick(self) -> None:
        """One mission tick: mission setpoint, position loop, and the loop up to the next tick."""
        self.decide()
        until_ns = self.next_tick_ns()
        self._vehicles.advance(self.stamp_ns, until_ns)
        self.notice(until_ns)

    def _awaited(self) -> str:
        """What the filter that is flown on waits for, in words."""
        ours = self.flies_on == "eskf" and not self.use_truth
        return awaited(self._states["line"][0]) if ours else ""

    def decide(self) -> None:
        """Begin a mission tick: what the mission wishes goes into the state."""
        if self._switches and self.stamp_ns >= self._switches[0] * 1e9:
            self._switches.pop(0)
            self._switch()
        if self._aligns and self._is_aligned():
            self._aligns = False
            self._switch()
        manager, stamp_ns = self.manager, self.stamp_ns
        odometries = self._odometries if self._odometry_now_ns.item() > 0 else None
        if manager.ground.used:
            self._hand_over_ranges()
        if stamp_ns >= self._battery_ns:
            self._battery_ns = stamp_ns + BATTERY_PERIOD_NS
            self._tell_battery()
        frozen, noisy = self._frozen_now.item(), self._noisy_now.item()
        changed = frozen != self._frozen or noisy != self._noisy
        if not self.use_truth and (changed or not manager.armed):
            self._frozen, self._noisy = frozen, noisy
            manager.take_rejected(
                rejected_sensors(self._filters[0]),
                repeating_sensors(frozen),
                noisy_sensors(self._states["line"][0][0]),
            )
        if self.scenario.estimator.second.any:
            self._tell_vote(stamp_ns)
        self._script.give(manager, stamp_ns)
        sticks = self._pilot(self) if self._pilot is not None else None
        if sticks is not None:
            manager.take_sticks(sticks)
        if self.own is not None:
            self.own.tick(stamp_ns)
        manager.step(stamp_ns, odometries, self._setpoints, self._thrust_now.item())
        if manager.has_reference:
            self._reference_ns[self._flown] = stamp_ns
            reference = self._reference[self._flown]
            reference[:3] = self._p_wish_W
            reference[3] = self._yaw_wish.item()
            self._flown += 1
        self._flies_on_truth[0] = self.use_truth

    def notice(self, until_ns: int) -> None:
        """End it, at a stamp: take its events; one who crashed a while ago has none."""
        if self._rests:
            self.stamp_ns = until_ns
            self.manager.take_events()
            return
        self.stamp_ns = until_ns
        lost = self._lost_now.item()
        if lost > self._lost:
            self.manager.motor_lost(lost - 1)
        self._lost = lost
        events = self.manager.take_events()
        if events:
            self.events += [Event(*event) for event in events]
        if not self._crash_ns and self._crash_now.item():
            self._tell_crash()
        while self._faults and self._faults[0].stamp_ns <= until_ns:
            self.events.append(self._faults.pop(0))

    def _switch(self) -> None:
        """Fly on the truth instead of the estimate, or the other way about."""
        self.use_truth = not self.use_truth
        self.manager.source_changed()
        source = "truth" if self.use_truth else "estimate"
        self.events.append(Event(self.stamp_ns, OK, "state source", f"flies on the {source}"))

    def _is_aligned(self) -> bool:
        """Whether the filter, with control on the truth, is as sure as arming asks for."""
        estimate, arming = self.state.estimate, self.scenario.autopilot.flight.arming
        p, v, turn = estimate.p_variance, estimate.v_variance, estimate.attitude_variance
        return estimate.stamp_ns > 0 and all(
            variance <= limit * limit
            for variance, limit in (
                (max(p[0], p[1]), arming.position_sigma_m),
                (p[2], arming.height_sigma_m),
                (max(v), arming.velocity_sigma_mps),
                (max(turn[0], turn[1]), arming.tilt_sigma_rad),
                (turn[2], arming.yaw_sigma_rad),
            )
        )

    def _begin_in_air(self) -> None:
        """Fly from the first tick on, where the start is in the air, and say how."""
        start = self.scenario.file.start
        if not start.is_airborne:
            return
        self.events.append(Event(0, OK, "start", start.words(self.use_truth)))
        self._aligns = start.estimate == ALIGNED and not self.use_truth
        self.use_truth |= self._aligns
        if self.use_truth:
            begin_on_truth(self._states)
        if start.hovers:
            ground_m = ground_beneath(
                self._scene, self.scenario.environment.ground_height_m, self._odometry.p_W[None]
            )
            self.manager.begin_in_air(self._odometries, float(ground_m[0]))
            self._starts_mission = True

    def _hand_over_ranges(self) -> None:
        """Give the flight manager the range finder's newest readings."""
        for stamps_ns, ranges_m, variances_m2 in self._range_samples[:1]:
            newest = self._range_counts.item(0)
            for i in range(self._ranges, newest):
                self.manager.take_range(
                    stamps_ns.item(i), ranges_m.item(i), variances_m2.item(i), self._half_beam_rad
                )
            self._ranges = max(self._ranges, newest)

    def _tell_vote(self, stamp_ns: int) -> None:
        """Keep as events what the filter leaves out of two of a kind, and takes back."""
        changes = sum(int(counts.sum()) for counts in self._votes_now)
        if changes == self._voted and stamp_ns % LOOK_NS:
            return
        self._voted, now = changes, left_out_of(self._states["line"][0][0])
        events, self._left_out = vote_changes(self._left_out, now), now
        self.events += [Event(stamp_ns, level, name, words) for level, name, words in events]

    def _tell_battery(self) -> None:
        """Give the manager the battery's state, as on ``battery_state``."""
        charge = self._charge_now.item() / self._capacity_C
        self.manager.take_battery(self.stamp_ns, max(charge, 0.0), self._battery_now.item())

    def _tell_crash(self) -> None:
        """Keep a crash as an event."""
        self._crash_ns = self.stamp_ns
        impact = float(self.state.vehicle.feet.impact_mps)
        words = f"{CRASHES[self._crash_now.item()]}, at {impact:.1f} m/s: motors off"
        self.events.append(Event(self.stamp_ns, ERROR, "crash", words))

    @property
    def _rests(self) -> bool:
        """Whether it has crashed, and lain for a while: others may still fly."""
        return self._crash_ns > 0 and self.stamp_ns >= self._crash_ns + CRASH_REST_NS

    @property
    def over(self) -> bool:
        """Whether the flight has ended: by mission, time, crash a while ago, or a failed part."""
        failed = self._part_failed and not self.manager.armed
        return failed or self._rests or self.manager.finished or self.stamp_ns >= self.end_ns

    @property
    def _part_failed(self) -> bool:
        """Whether a part of the user's own has failed: ours land."""
        return self.own is not None and self.own.error is not None

    @property
    def crashed(self) -> bool:
        """Whether it has hit something too hard."""
        return self._crash_ns > 0

    def check(self) -> None:
        """Stop a run whose motion is no longer finite.

        Raises:
            FlightError: with time, state and likely cause.
        """
        if self._fault_now.item():
            vehicle, scenario = self.state.vehicle, self.scenario
            words = fault_words(vehicle, scenario.vehicle, scenario.file.physics, self._known_as)
            raise FlightError(words)

    @property
    def wanted(self) -> NDArray[np.float64] | None:
        """The reference of the last tick, p_W in m and yaw in rad; None where there is none."""
        return self._reference[self._flown - 1] if self.manager.has_reference else None

    def forget(self) -> None:
        """What has been handed over is no more in the logs, nor the reference in its."""
        self._ranges = self._flown = 0

    def take_off_when_ready(self) -> None:
        """Arm as soon as the checks pass, once, and start the mission."""
        manager = self.manager
        if self._starts_mission:
            self._starts_mission = False
            manager.start()
        if self.held or manager.armed or manager.finished:
            return
        if manager.state == "disarmed" and manager.arm() is None:
            manager.start()

    def tell_timeout(self) -> None:
        """Keep it as an event that the flight ends before its mission, and why."""
        if not (self.manager.finished or self._crash_ns or self._part_failed):
            self.events.append(timeout_event(self.stamp_ns, self.manager.unfinished()))

    def fly(
        self, progress: Progress | None = None, ends: Callable[[ClosedLoop], bool] | None = None
    ) -> FlightLog:
        """Arm as soon as the arming checks pass, start the mission, and fly to its end.

        Args:
            progress: called each simulated second with time flown in s, height in m and state.
            ends: called after each tick; whether the flight ends there.
        """
        # compiled or loaded now, so that the clock measures the flight
        self._vehicles.advance(0, 0)
        begin_s = time.perf_counter()
        ended = False
        second_ns = (self.stamp_ns // 1_000_000_000 + 1) * 1_000_000_000  # when the next is full
        while not (self.over or ended):
            self.tick()
            self.take_off_when_ready()
            ended = ends is not None and ends(self)
            if self.stamp_ns >= second_ns:
                second_ns = (self.stamp_ns // 1_000_000_000 + 1) * 1_000_000_000
                self.check()
                if progress is not None:
                    height_m = float(self.state["truth"]["p_W"][0, 2])
                    progress(self.stamp_ns * 1e-9, height_m, self.manager.state)
        for _ in range(REST_TICKS if self.manager.finished else 0):
            self.tick()
        self.check()
        wall_s = time.perf_counter() - begin_s
        if not ended:
            self.tell_timeout()
        return self.log(wall_s)

    def log(self, wall_s: float, since_ns: int = 0) -> FlightLog:
        """What has been flown so far, or since a stamp."""

        def newest(records: NDArray[np.record]) -> NDArray[np.record]:
            return records[np.searchsorted(records["stamp_ns"], since_ns) :]

        rows = newest(self.rows())
        estimate = rows["estimate"][rows["estimated"] != 0]
        # it is of an IMU sample that took time to arrive; without a new one it is repeated
        estimate = estimate[np.diff(estimate["stamp_ns"], prepend=-1) > 0]
        fixes = newest(self.samples("gnss"))
        gnss = replace(
            Track.empty(len(fixes), with_sigma=True),
            stamp_ns=fixes["stamp_ns"],
            p_W=fixes["p_W"],
            v_W=fixes["v_W"],
        )
        assert gnss.sigma is not None
        gnss.sigma[:, :3] = np.sqrt(fixes["p_variance"])
        gnss.sigma[:, 3:6] = np.sqrt(fixes["v_variance"])
        felt = newest(self.samples("imu"))
        stated = np.sqrt(self.scenario.imu.accel_variance())
        first = int(np.searchsorted(self._reference_ns[: self._flown], since_ns))
        wished = self._reference[first : self._flown]
        yaw = wished[:, 3]
        reference = replace(
            Track.empty(len(wished)),
            stamp_ns=self._reference_ns[first : self._flown],
            p_W=wished[:, :3],
            q_WB=np.stack(
                [np.cos(yaw / 2), np.zeros_like(yaw), np.zeros_like(yaw), np.sin(yaw / 2)], axis=1
            ),
        )
        rotors = len(self.scenario.vehicle.commands)
        return FlightLog(
            scenario=self.scenario.name,
            seed=self.scenario.file.seed,
            truth=Track(rows["stamp_ns"], rows["p_W"], rows["v_W"], rows["q_WB"], rows["w_B"]),
            estimates={self.flies_on: track_of(estimate)},
            reference=reference,
            motor_stamps_ns=rows["stamp_ns"],
            motor_speed_radps=rows["rotor_speed_radps"][:, :rotors],
            command_stamps_ns=rows["stamp_ns"],
            command_radps=rows["rotor_command_radps"][:, :rotors],
            topics={
                name: int(self.devices[kind_of(name)]["count"][int(kind_of(name) != name)])
                for name in self.scenario.sensors
                if topics_of(name)
            },
            events=list(self.events),
            notes=list(self.scenario.notes),
            wall_s=wall_s,
            waypoints=self.manager.waypoints(),
            gnss=gnss,
            imu=ImuSamples(
                felt["stamp_ns"], felt["f_S"], felt["w_S"], np.broadcast_to(stated, (len(felt), 3))
            ),
            hull_m=outline_m(self.scenario.vehicle),
            ground_m=ground_beneath(
                self._scene, self.scenario.environment.ground_height_m, rows["p_W"]
            ),
        )

    def rows(self) -> NDArray[np.record]:
        """What has been logged so far, (N,) LOG_ROW records."""
        return self._log[: int(self.state.log_count)]

    def samples(self, kind: str) -> NDArray[np.record]:
        """What a sensor has published so far, (N,) records of its model's ``sample``."""
        if self.own is not None and kind in self.own.readings:
            return self.own.readings[kind]()
        of_kind = kind_of(kind)
        device = slice(int(of_kind != kind), int(of_kind != kind) + 1)
        samples: NDArray[np.record] = self._samples[of_kind][device].reshape(-1)
        return samples[: int(self.devices[of_kind]["count"][device].sum())]

    def digest(self) -> str:
        """SHA-256 over every logged state: motion, estimate, rotors and reference."""
        return hashlib.sha256(np.ascontiguousarray(self.rows()).view(np.uint8).data).hexdigest()


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
