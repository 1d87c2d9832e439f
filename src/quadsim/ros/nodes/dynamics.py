"""Node ``dynamics``: the world's physics. Motor commands in, truth and ``/clock`` out.

One node for all vehicles, in the root namespace; the vehicles' topics are in theirs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find
from quadsim.base.parameters import Spec, flatten, load
from quadsim.ros.graph.vehicles import vehicle_namespaces
from quadsim.ros.messages.cdr import MessageError, RotorsReader, stamp_of
from quadsim.ros.messages.commands import wrench_of
from quadsim.ros.messages.truth import VehicleTruth
from quadsim.ros.messages.world import make_clock, make_datum, wind_of
from quadsim.ros.nodes.description import Description, declare_sensors
from quadsim.ros.parts.control_params import refuse_other_commands
from quadsim.ros.parts.sampling import Sampling, samplings_from
from quadsim.ros.parts.scene_params import SCENE, DeclaredScene
from quadsim.ros.parts.timed_parameter import TimedParameter
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.latency import Latencies
from quadsim.ros.runtime.pacing import Forbearance, Lockstep, nearest
from quadsim.ros.runtime.params import ON_RESET, current, declare, declare_one, on_reset, value_of
from quadsim.ros.runtime.resets import RESET, Resets
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.simulation.simulated_time import SimulatedTime
from quadsim.ros.simulation.spawned import SimulatedWorld
from quadsim.sensors.devices import load_suite
from quadsim.sensors.error_terms import due
from quadsim.sim.log import ERROR, OK, WARN
from quadsim.sim.start import StartParams
from quadsim.vehicle.disturbances import (
    Disturbance,
    changes,
    check_disturbances,
    disturbances_from_text,
)
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.outline import outline_m
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.start import check_place
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene

#: Realtime: longest wait for a command, wall time, s.
PATIENCE_S = 1.0

CLOCK_PERIOD_NS = 10_000_000
#: How often time is looked after where commands make the steps, s.
COMMANDED_PERIOD_S = 0.02
#: Word for a node whose endpoint is not there.
MISSING = "is missing"
#: How many steps' wall times are remembered, for the latency of their commands.
KEPT_STEPS = 1024


@dataclass(frozen=True)
class DynamicsParams:
    """How the node runs; see also the parameters of vehicle, environment, start and physics."""

    count: Annotated[int, Spec("vehicles", ge=1, le=1000)] = 1
    truth_rate_hz: Annotated[
        float, Spec("rate of the truth, the IMU's", "Hz", ge=1.0, le=2000.0)
    ] = 500.0
    motor_rate_hz: Annotated[
        float, Spec("rate of motor_speed, at most the truth's", "Hz", ge=1.0, le=2000.0)
    ] = 100.0
    imu_latency_s: Annotated[
        float,
        Spec("lockstep: of the IMU's samples, to wait for their commands", "s", ge=0.0, le=0.5),
    ] = 0.0
    pacing: Annotated[
        str, Spec("by the wall clock, or by the motor commands", choices=("realtime", "lockstep"))
    ] = "realtime"
    rate: Annotated[
        float, Spec("simulated over wall time; lockstep: 0 for as fast as possible", ge=0.0, le=1e3)
    ] = 1.0
    paused: Annotated[bool, Spec("wait for /sim/pause with data false")] = False
    command_timeout_s: Annotated[
        float, Spec("lockstep: wall time after which a missing command is named", "s", gt=0.0)
    ] = 2.0
    max_command_age_s: Annotated[
        float,
        Spec(
            "realtime: wait for a command whose stamp is older; 0 never waits", "s", ge=0.0, le=1.0
        ),
    ] = 0.03


SAMPLED = (
    "sensors that hear ground_truth/sampled/KIND alone: KIND PERIOD_NS LATENCY_NS, with commas"
)


class DynamicsNode(QuadsimNode):
    """All vehicles, one compiled step, paced by the wall clock or by the commands."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("dynamics", **kwargs)
        vehicle = declare_one(
            self, "vehicle", "x500", "a file of config/vehicles, or a path", ON_RESET
        )
        declare(self, load(VehicleParams, find("vehicles", vehicle)), when=on_reset)
        sensors = declare_sensors(self, ON_RESET)
        declare(self, EnvironmentParams(), "environment.", on_reset)
        declare(self, StartParams(), "start.", on_reset)
        declare(self, PhysicsParams(), "physics.", on_reset)
        declare_one(self, "seed", 1, "of the wind", ON_RESET, ge=0)
        self._make_scene = DeclaredScene(self)
        self._scene = self._make_scene({})
        self.params = declare(
            self, DynamicsParams(), when=lambda name: ON_RESET if name == "imu_latency_s" else ""
        )
        declare_one(self, "sampled", "", SAMPLED, ON_RESET)
        self._period_ns = round(1e9 / self.params.truth_rate_hz)
        words = "what befalls the vehicles, a YAML list"
        self._disturbances = TimedParameter(self, "disturbances", words, self._read_disturbances)
        self.fleet = self._make_fleet({}, self._disturbances.items, self._scene)
        self._disturbances.apply = self.fleet.set_disturbances
        self.be_alone()
        self._latencies = Latencies()
        self._published_ns = np.zeros(KEPT_STEPS, np.int64)
        self._late = 0
        self._wait_for_nobody()
        self._stepped_ns = time.monotonic_ns()
        self._stalled = self._rivals = ""
        self._was_missing = False
        self._clock_output = self.offer(topics.CLOCK)
        self._datum = self.offer(topics.DATUM)
        self._datum.publish(make_datum(self.fleet.environment.datum))
        motors_ns = round(1e9 / self.params.motor_rate_hz)
        self._vehicles = [
            VehicleTruth(self, self.fleet, i, namespace, motors_ns, self._sampled({}))
            for i, namespace in enumerate(vehicle_namespaces(self.params.count))
        ]
        self._descriptions = [Description(self, vehicle.namespace) for vehicle in self._vehicles]
        self._describe(self.fleet.params, sensors)
        for vehicle_truth in self._vehicles:
            self._listen_to(vehicle_truth)
        self.listen(topics.WIND_INPUT, self._on_wind, raw=False)
        self._time = SimulatedTime(
            self,
            self._period_ns,
            self.params.rate,
            self.params.paused,
            self._step,
            self._on_reset,
            SimulatedWorld(
                name=lambda: str(value_of(self, "world")),
                now_ns=lambda: self.fleet.stamp_ns,
                truths=self._truths,
                place=self._place,
                outline_m=lambda: outline_m(self.fleet.params),
                scene=lambda: self._scene,
                see=self._see,
                tell=self._tell_all,
            ),
        )
        self._resets = Resets(
            self,
            "dynamics",
            lambda: flatten(load(VehicleParams, find("vehicles", vehicle))),
            self._take,
            self._start_over,
            self._tell_all,
        )
        self._timer: Any = None
        self._tick_s = 0.0
        self._tick_every(self._time.wall.wall_period_s)

    def _sampled(self, changed: dict[str, Any]) -> list[Sampling]:
        """Sensors that sample seldom, of the parameter that changes or of that which is."""
        text: str = changed.get("sampled", value_of(self, "sampled"))
        where = f"node {self.get_fully_qualified_name()}: parameter sampled"
        return samplings_from([part for part in text.split(",") if part], where)

    def _make_fleet(
        self, changed: dict[str, Any], disturbances: Sequence[Disturbance], scene: Scene
    ) -> Fleet:
        """The vehicles by the node's parameters, but for those that change."""
        count = self.params.count
        start = current(self, StartParams, "start.", changed)
        if not start.is_plain:
            raise InputError(
                "start: z_m, roll_deg, pitch_deg, estimate: the graph starts on level ground with"
                " an estimator that aligns; quadsim sim and fly --swarm start anywhere"
            )
        return Fleet(
            current(self, VehicleParams, "", changed),
            current(self, EnvironmentParams, "environment.", changed),
            start.poses(count),
            current(self, PhysicsParams, "physics.", changed),
            scene,
            disturbances,
            [namespace.strip("/") for namespace in vehicle_namespaces(count)],
            changed.get("seed", value_of(self, "seed")),
            self._period_ns,
            start.charge,
        )

    def _read_disturbances(
        self, text: str, begin_s: float
    ) -> tuple[list[Disturbance], list[tuple[int, tuple[int, str]]]]:
        """Disturbances of a text, in the flight's time, and what happens when to which vehicle."""
        given = disturbances_from_text(text, "disturbances")
        count = self.params.count
        check_disturbances(given, current(self, VehicleParams), count, "disturbances")
        found = [replace(item, at_s=item.at_s + begin_s) for item in given]
        reports = [
            (stamp_ns, (i, words))
            for i in range(count)
            for stamp_ns, words in changes(found, i + 1)
        ]
        return found, reports

    def _tell_all(self, level: int, name: str, message: str) -> None:
        """Say on every vehicle's ``events`` that something happened."""
        for vehicle in self._vehicles:
            vehicle.event(level, name, message)

    def _describe(self, params: VehicleParams, sensors: str) -> None:
        """Publish what the vehicles look like."""
        for description in self._descriptions:
            description.tell(params, sensors)

    def _wait_for_nobody(self) -> None:
        """Nobody has commanded yet: as before the first command."""
        params, physics = self.params, self.fleet.physics
        # a command answers its sample so many periods later: the sample's latency, then the delay
        latency_samples = math.ceil(round(params.imu_latency_s * 1e9) / self._period_ns)
        delay_ns = (physics.command_delay_samples + latency_samples) * self._period_ns
        self._late_ns = delay_ns + self._period_ns
        # age of a command that is waited for: 0 never, and what the IMU is late comes on top
        age_s = params.max_command_age_s and params.max_command_age_s + params.imu_latency_s
        self._forbearance = Forbearance(params.count, round(age_s * 1e9), round(PATIENCE_S * 1e9))
        self._lockstep = Lockstep(params.count, delay_ns) if params.pacing == "lockstep" else None

    def _listen_to(self, vehicle: VehicleTruth) -> None:
        reader = RotorsReader(self.fleet.rotor_count, self.fleet.params.commands)
        self.listen(
            topics.COMMAND_MOTOR_SPEED,
            lambda payload: self._on_command(vehicle, reader, payload),
            name=vehicle.topic(topics.COMMAND_MOTOR_SPEED),
            needed=True,
        )
        self.listen(
            topics.EXTERNAL_WRENCH,
            lambda message: self._on_wrench(vehicle, message),
            name=vehicle.topic(topics.EXTERNAL_WRENCH),
            raw=False,
        )

    # ---- what comes in -------------------------------------------------------------------------

    def _on_command(self, vehicle: VehicleTruth, reader: RotorsReader, payload: bytes) -> None:
        stamp_ns = stamp_of(payload)
        if not self._resets.settled(stamp_ns):
            return
        speeds = reader.read(payload)
        if stamp_ns <= vehicle.command_ns:
            raise MessageError("repeats or jumps back in time")
        if stamp_ns > self.fleet.stamp_ns + self._period_ns // 2:  # an IMU's stamps may jitter
            raise MessageError("answers an odometry of the future")
        vehicle.command_ns = stamp_ns
        self._count_latency(stamp_ns)
        if self._lockstep is None:
            self._forbearance.add(vehicle.index, stamp_ns)
            self.fleet.set_motor_command(vehicle.index, speeds)
        else:
            self._lockstep.add(vehicle.index, nearest(stamp_ns, self._period_ns), speeds)
            self._was_missing = False
            self._on_timer()

    def _count_latency(self, stamp_ns: int) -> None:
        """How long an answer took.

        Since the truth was due by the wall clock, or since it was published, if that was earlier (a
        timer's jitter of half a step is forgiven); in lockstep since it was published.
        """
        now_ns = time.monotonic_ns()
        step = nearest(stamp_ns, self._period_ns) // self._period_ns
        since_ns = int(self._published_ns[step % len(self._published_ns)])
        if self._lockstep is None:
            due_ns = self._time.wall.wall_of(stamp_ns)
            self._late += (now_ns - due_ns) * self._time.wall.rate > self._late_ns
            since_ns = min(since_ns, due_ns)
        self._latencies.add((now_ns - since_ns) * 1e-9)

    def _on_wrench(self, vehicle: VehicleTruth, message: Any) -> None:
        force_W_N, torque_B_Nm = wrench_of(message, self.fleet.truth(vehicle.index).q_WB)
        self.fleet.set_external_wrench(vehicle.index, force_W_N, torque_B_Nm)

    def _on_wind(self, message: Any) -> None:
        self.fleet.set_wind(wind_of(message))

    def _truths(self) -> dict[str, Any]:
        """Name of each vehicle to its truth now."""
        return {
            vehicle.namespace.strip("/"): self.fleet.truth(vehicle.index)
            for vehicle in self._vehicles
        }

    def _place(self, name: str, motion: Any) -> None:
        """Put a vehicle somewhere, as its physics is told, and whoever hears of events."""
        fleet = self.fleet
        i = fleet.names.index(name)
        check_place(fleet.params, fleet.environment, fleet.scene, fleet.physics, motion)
        fleet.set_motion(i, motion["p_W"], motion["v_W"], motion["q_WB"], motion["w_B"])
        self._vehicles[i].event(WARN, "moved", "by set_entity_state")

    def _see(self, scene: Scene) -> None:
        """Let all fly in another scene."""
        self.fleet.see(scene)

    def _on_reset(self) -> str:
        self._resets.at(self.fleet.stamp_ns)
        return ""

    def _take(self, changed: dict[str, Any], reset: bool) -> Callable[[], None]:
        """Make other vehicles, or the same in another world, for the flight that begins."""
        if not reset:
            return lambda: None
        params = current(self, VehicleParams, "", changed)
        refuse_other_commands(self.fleet.params.commands, params.commands)
        if (params.load.rope_length_m > 0.0) != (self.fleet.params.load.rope_length_m > 0.0):
            raise InputError("load: a load comes or goes with a restart of the graph only")
        in_scene = any(name.startswith(SCENE) for name in changed)
        scene = self._make_scene(changed) if in_scene else self._scene
        fleet = self._make_fleet(changed, (), scene)
        node_params = current(self, DynamicsParams, "", changed)
        self._sampled(changed)
        sensors = changed.get("sensors", value_of(self, "sensors"))
        load_suite(sensors)

        def apply() -> None:
            self._scene, self.fleet, self.params = scene, fleet, node_params
            self._disturbances.apply = fleet.set_disturbances
            self._describe(params, sensors)
            self._datum.publish(make_datum(fleet.environment.datum))

        return apply

    def _start_over(self, reset_ns: int, _: bool) -> None:
        """A flight begins now, and nobody has commanded yet."""
        self._disturbances.restart(reset_ns)
        self.fleet.reset(reset_ns)
        self._wait_for_nobody()
        self._time.restart()
        for vehicle in self._vehicles:
            sampled = self._sampled({})
            for one in sampled:
                one.restart(reset_ns)
            vehicle.restart(self.fleet, sampled)
            vehicle.event(OK, RESET, "back at the start")

    # ---- time ----------------------------------------------------------------------------------

    def _tick_every(self, period_s: float) -> None:
        """Look after the time so often."""
        if period_s == self._tick_s:  # as asked for: rclpy cuts it to whole nanoseconds
            return
        if self._timer is not None:
            self.destroy_timer(self._timer)
        self._tick_s = period_s
        self._timer = self.wall_timer(period_s, self._on_timer)

    def _on_timer(self) -> None:
        """Step as often as the pacing allows."""
        if self._time.paused:
            return
        self._tick_every(COMMANDED_PERIOD_S if self._commanded else self._time.wall.wall_period_s)
        self._time.tie()
        lockstep = self._lockstep
        if lockstep is None or not lockstep.started:
            if self._handing is not None and self._handing.queue:
                return  # nodes of this process have not taken the last steps: no more on top
            now_ns = time.monotonic_ns()
            if self._waits(now_ns):  # before the clock counts a slip, which moves its tie by a step
                return
            for _ in range(self._time.steps_due(now_ns)):
                self._step()
                if self._waits(now_ns):
                    return
            return
        while not lockstep.missing(self.fleet.stamp_ns):
            if self.params.rate and not self._time.steps_due(time.monotonic_ns()):
                return
            for i in range(self.fleet.count):
                speeds = lockstep.take(i, self.fleet.stamp_ns)
                if speeds is not None:
                    self.fleet.set_motor_command(i, speeds)
            self._step()
        if self._stalled:
            self._step_past_loss()

    def _step_past_loss(self) -> None:
        """Step with the last command where an endpoint was missing and has come back.

        DDS forgets a process that stands still for 20 s. Messages of that time are lost, and would
        never be answered.
        """
        silent = self._silent()
        self._was_missing |= MISSING in silent
        if silent and self._was_missing and MISSING not in silent:
            self._step()

    @property
    def _commanded(self) -> bool:
        """Whether commands alone make steps, and the wall clock none."""
        return self._lockstep is not None and self._lockstep.started and not self.params.rate

    def _waits(self, wall_ns: int) -> bool:
        """Whether physics by the wall clock waits for a late command."""
        return self._lockstep is None and self._forbearance.waits_for(self.fleet.stamp_ns, wall_ns)

    def _step(self) -> None:
        """One period of physics, and what is due of the truth."""
        before_ns = self.fleet.stamp_ns
        now_ns = before_ns + self._period_ns
        self._time.spawned.step(before_ns, self._period_ns)
        try:
            self.fleet.step_to(now_ns)
        except FlightError as error:
            self._tell_all(ERROR, "physics", str(error))
            raise
        self._stepped_ns = time.monotonic_ns()
        self._published_ns[now_ns // self._period_ns % KEPT_STEPS] = self._stepped_ns
        if due(CLOCK_PERIOD_NS, before_ns, now_ns):
            self._clock_output.publish(make_clock(now_ns))
        for _, (index, words) in self._disturbances.due(now_ns):
            self._vehicles[index].event(WARN, "disturbance", words)
        for vehicle in self._vehicles:
            vehicle.publish(before_ns, now_ns)

    # ---- health --------------------------------------------------------------------------------

    def _silent(self) -> str:
        """Who keeps lockstep waiting; empty if nobody does."""
        lockstep = self._lockstep
        since_ns = max(self._stepped_ns, self._time.restarted_ns)
        waited_s = (time.monotonic_ns() - since_ns) * 1e-9
        if lockstep is None or self._time.paused or waited_s < self.params.command_timeout_s:
            return ""
        for i in lockstep.missing(self.fleet.stamp_ns):
            vehicle = self._vehicles[i]
            for topic in (topics.IMU_RAW, topics.ODOMETRY, topics.COMMAND_MOTOR_SPEED):
                name = vehicle.topic(topic)
                if not self.count_publishers(name):
                    return f"node {topic.publishers[0]} of {vehicle.namespace} {MISSING} ({name})"
            return f"no answer on {vehicle.topic(topics.COMMAND_MOTOR_SPEED)}"
        return ""

    def _tell_rivals(self) -> str:
        """Name who else publishes a vehicle's truth: nodes take either, and a flight crashes."""
        found = [(v, self.rivals(v.topic(topics.TRUTH))) for v in self._vehicles]
        for vehicle, words in found:
            if words and words not in self._rivals:
                vehicle.event(ERROR, "several truths", words)
                self.get_logger().error(words)
        self._rivals = "; ".join(words for _, words in found if words)
        return self._rivals

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Pace, latency of the commands, and who is waited for."""
        silent = self._silent()
        if silent and silent != self._stalled:
            self._tell_all(WARN, "stalled", silent)  # a busy machine goes on after it
            self.get_logger().warning(f"lockstep waits: {silent}")
        self._stalled = silent
        rivals = self._tell_rivals()
        values = self._time.values() | {
            "latency_median_ms": self._latencies.percentile_ms(50.0),
            "latency_99_ms": self._latencies.percentile_ms(99.0),
            "late_commands": self._late,
            "waits": self._forbearance.waits,
        }
        if self._lockstep is not None:
            values["skipped_commands"] = self._lockstep.skipped
        if silent:
            return 2, f"stalled: {silent}", values
        if rivals:
            return 2, rivals, values
        return 0, self._time.words, values


make, main = entry_points(DynamicsNode)
