"""Node ``swarm``: many vehicles in one process, physics, sensors, estimators and control of all.

It is the closed loop's swarm (:mod:`quadsim.sim.swarm`) on ROS: paced by the wall clock, published
in the vehicles' namespaces, each steered by the topics and services of an autopilot.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks

from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import Spec, read_yaml_text
from quadsim.drivers.crazyflies import numbered, robots_of
from quadsim.firmware.fly import Flown, flown_by
from quadsim.ros.graph.options import CrazyswarmOptions, FirmwareFlight, SwarmOptions
from quadsim.ros.graph.vehicles import frame_prefix, vehicle_namespaces
from quadsim.ros.messages.transforms import WorldTransforms
from quadsim.ros.messages.world import make_clock, make_datum
from quadsim.ros.nodes.description import Description
from quadsim.ros.parts.vehicle_commands import VehicleCommands
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare, declare_one, on_reset, value_of
from quadsim.ros.runtime.resets import RESET
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic, full_name
from quadsim.ros.simulation.simulated_time import SimulatedTime
from quadsim.ros.simulation.spawned import SimulatedWorld
from quadsim.ros.swarm.crazyswarm import Crazyswarm
from quadsim.sensors import SENSORS, kind_of, topics_of
from quadsim.sensors.error_terms import due
from quadsim.sim.closed_loop import TICK_HZ
from quadsim.sim.log import ERROR, OK, WARN
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.swarm import Swarm, plain_loop
from quadsim.vehicle.outline import outline_m
from quadsim.wire import samples
from quadsim.wire.encode import Template, VehicleTemplates
from quadsim.wire.samples import SampleMessages, motion_columns
from quadsim.world.scene.scene import Scene

TICK_NS = round(1e9 / TICK_HZ)
#: Room in the logs, which are emptied at each tick, s.
ROOM_S = 1.0
#: Where nothing paces: a timer that gives the other callbacks their turn, s.
AT_ONCE_S = 1e-4
#: Ticks between two looks at a mission's status, where nothing has happened.
STATUS_TICKS = 10
#: And between two looks at what is to be logged.
LOG_TICKS = 50
#: Most vehicles that a line names.
NAMED = 5

Event = tuple[int, int, str, str]

REFERENCE_PERIOD_NS = 100_000_000


class VehiclesTopic:
    """One topic of all vehicles.

    Args:
        templates: a message of each vehicle; none: :meth:`begin` gives them.
    """

    _messages: VehicleTemplates

    def __init__(
        self, node: Any, namespaces: Sequence[str], topic: Topic, templates: Sequence[Template] = ()
    ) -> None:
        quiet = PublisherEventCallbacks(use_default_callbacks=False)  # hundreds would be watched
        self._publishers = [
            node.create_publisher(
                topic.message,
                full_name(namespace, topic.name),
                topic.offered,
                event_callbacks=quiet,
            )
            for namespace in namespaces
        ]
        self.count = 0
        if templates:
            self.begin(templates)

    def begin(self, templates: Sequence[Template]) -> None:
        """Publish copies of these messages from now on."""
        self._messages = VehicleTemplates(templates)

    def publish(
        self, vehicles: NDArray[np.intp], stamp_ns: NDArray[np.int64], **columns: Any
    ) -> None:
        """Publish a message for each row; see :meth:`VehicleTemplates.payloads`."""
        payloads = self._messages.payloads(vehicles, stamp_ns, **columns)
        for i, payload in zip(vehicles.tolist(), payloads, strict=True):
            self._publishers[i].publish(payload)
        self.count += len(payloads)


class SwarmOutputs:
    """Truth, estimates and sensors of all vehicles.

    Args:
        level: how much, as of :class:`quadsim.ros.graph.options.SwarmOptions`.
    """

    def __init__(
        self, node: Any, namespaces: Sequence[str], scenario: Scenario, level: str
    ) -> None:
        self._bodies = [frame_prefix(namespace) + "base_link" for namespace in namespaces]
        self._transforms = WorldTransforms(node, "map")
        motions = [samples.odometry_messages(body).template for body in self._bodies]
        references = [samples.reference_messages().template] * len(namespaces)
        self._truth = VehiclesTopic(node, namespaces, topics.TRUTH, motions)
        self._estimate = VehiclesTopic(node, namespaces, topics.ODOMETRY, motions)
        self._reference = VehiclesTopic(node, namespaces, topics.REFERENCE, references)
        self._estimated_ns = np.zeros(len(namespaces), np.int64)
        wanted = {"estimates": (), "imu": ("imu",), "all": tuple(scenario.sensors)}[level]
        self._sensors = {
            kind: [
                VehiclesTopic(node, namespaces, topics.SENSORS[topic.name])
                for topic in topics_of(kind)
            ]
            for kind in wanted
        }
        self._messages: dict[str, list[SampleMessages]] = {}
        self._prefixes = [frame_prefix(name) for name in namespaces]
        self.begin(scenario)

    def begin(self, scenario: Scenario) -> None:
        """Publish the sensors of a scenario from now on: their covariances, and the datum of fixes.

        Kinds that the first scenario lacked have no topic, those that this one lacks are silent.
        """
        for kind in self._sensors.keys() & scenario.sensors.keys():
            params, environment = scenario.sensors[kind], scenario.environment
            made = [
                [
                    messages
                    for _, messages in SENSORS[kind_of(kind)].outputs(
                        params, environment, prefix, kind
                    )
                ]
                for prefix in self._prefixes
            ]
            self._messages[kind] = made[0]
            for batch, *of_each in zip(self._sensors[kind], *made, strict=True):
                batch.begin([messages.template for messages in of_each])

    @property
    def count(self) -> int:
        """Messages so far."""
        batches = (self._truth, self._estimate, self._reference, *chain(*self._sensors.values()))
        return sum(batch.count for batch in batches)

    def publish_references(self, swarm: Swarm, before_ns: int, begun_ns: int) -> None:
        """Publish transforms and references of the last tick, when they are due.

        Args:
            before_ns: their time a tick ago.
            begun_ns: simulated time at which theirs began.
        """
        if not due(REFERENCE_PERIOD_NS, before_ns, swarm.stamp_ns):
            return
        poses = {}
        for body, loop in zip(self._bodies, swarm.loops, strict=True):
            odometry = loop.state.odometry
            if odometry.stamp_ns:
                poses[body] = (odometry.p_W, odometry.q_WB)
        self._transforms.publish(swarm.stamp_ns + begun_ns, poses)
        vehicles, rows = swarm.references()
        half, zero = 0.5 * rows[:, 3], np.zeros(len(rows))
        self._reference.publish(
            vehicles,
            np.full(len(rows), swarm.stamp_ns + begun_ns),
            p=rows[:, :3],
            q_xyzw=np.stack([zero, zero, np.sin(half), np.cos(half)], axis=1),
        )

    def publish(self, swarm: Swarm, begun_ns: int) -> None:
        """Publish what the vehicles' logs hold, stamped from when they began."""
        for kind, batches in self._sensors.items():
            vehicles, rows = swarm.published(kind)
            for batch, messages in zip(batches, self._messages[kind], strict=True):
                there = messages.chosen(rows)
                chosen = rows[there]
                batch.publish(
                    vehicles[there], chosen["stamp_ns"] + begun_ns, **messages.numbers(chosen)
                )
        vehicles, rows = swarm.logged()
        self._truth.publish(vehicles, rows["stamp_ns"] + begun_ns, **motion_columns(rows))
        new_ns = rows["estimate"]["stamp_ns"] + begun_ns
        known = (rows["estimated"] != 0) & (new_ns > self._estimated_ns[vehicles])
        known[1:] &= (vehicles[1:] != vehicles[:-1]) | (new_ns[1:] != new_ns[:-1])
        self._estimated_ns[vehicles[known]] = new_ns[known]
        estimates = rows["estimate"][known]
        self._estimate.publish(
            vehicles[known], new_ns[known], **motion_columns(estimates, stated=True)
        )


class SwarmLog:
    """Events of all vehicles since the last lines, by their names."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, list[str]]] = {}
        self._levels: dict[str, int] = {}

    def take(self, vehicle: str, events: Iterable[Event]) -> None:
        """Take a vehicle's events: stamp in ns, level, name and message of each."""
        for _, level, name, message in events:
            self._told.setdefault(name, {}).setdefault(message, []).append(vehicle)
            self._levels[name] = max(level, self._levels.get(name, 0))

    def lines(self) -> list[tuple[int, str]]:
        """A line for each kind of event since the last call, and the highest level of it."""
        found = []
        for name, by_message in self._told.items():
            vehicles = [vehicle for each in by_message.values() for vehicle in each]
            more = f" and {len(vehicles) - NAMED} more" if len(vehicles) > NAMED else ""
            words = f" ({next(iter(by_message))})" if len(by_message) == 1 else ""
            line = f"{name}: {', '.join(vehicles[:NAMED])}{more}{words}"
            found.append((self._levels[name], line))
        self._told, self._levels = {}, {}
        return found


@dataclass(frozen=True)
class SwarmNodeParams(CrazyswarmOptions, FirmwareFlight, SwarmOptions):
    """How the node runs."""

    count: Annotated[int, Spec("vehicles; 0: as in the scenario", ge=0, le=1000)] = 0
    rate: Annotated[
        float, Spec("simulated over wall time; 0: as fast as possible", ge=0.0, le=1e3)
    ] = 1.0
    paused: Annotated[bool, Spec("wait for /sim/pause with data false")] = False
    auto_start: Annotated[bool, Spec("each arms and starts its mission when possible")] = False


class SwarmNode(QuadsimNode):
    """All vehicles, stepped from mission tick to mission tick."""

    _flown: Flown | None = None
    _crazyswarm: Crazyswarm | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("swarm", **kwargs)
        self._name = declare_one(self, "scenario", "formation", "what they fly")
        about = "keys of the scenario given otherwise, as YAML; from the next reset on"
        declare_one(self, "overrides", "", about, on_reset("overrides"))
        self.params = declare(self, SwarmNodeParams())
        path = self.params.crazyflies
        self._robots = robots_of(Path(path)) if path else ()
        self._count = len(self._robots) or self.params.count
        scenario = self._read()
        self._count = scenario.file.vehicles
        self.swarm = self._make(scenario)
        self._begun_ns = 0  # simulated time at which this flight began
        self._ticks = 0
        self._computed_ns, self._reported_ns = 0, time.monotonic_ns()
        self._clock_output = self.offer(topics.CLOCK)
        self._datum = self.offer(topics.DATUM)
        self.namespaces = vehicle_namespaces(self._count)
        self._outputs = SwarmOutputs(self, self.namespaces, scenario, self.params.publish)
        self._log = SwarmLog()
        self._commands = [
            VehicleCommands(self, namespace, self.params.steered) for namespace in self.namespaces
        ]
        if self.params.offer == "crazyswarm2":
            robots = self._robots or numbered(
                [(*pose[:2], 0.0) for pose in scenario.file.start.poses(self._count)]
            )
            self._crazyswarm = Crazyswarm(self, robots, scenario)
        self._descriptions = [Description(self, namespace) for namespace in self.namespaces]
        self._tell(scenario)
        rate, paused = self.params.rate, self.params.paused
        self._time = SimulatedTime(
            self,
            TICK_NS,
            rate,
            paused,
            self._step,
            self._on_reset,
            SimulatedWorld(
                name=lambda: self.swarm.scenario.file.world,
                now_ns=lambda: self.stamp_ns,
                truths=self._truths,
                place=self._place,
                outline_m=lambda: outline_m(self.swarm.scenario.vehicle),
                scene=lambda: self.swarm.scenario.scene,
                see=self._see,
                tell=self._tell_all,
            ),
        )
        self.wall_timer(self._time.wall.wall_period_s if rate else AT_ONCE_S, self._on_timer)

    def _read(self) -> Scenario:
        """The scenario as its files say it now.

        Raises:
            InputError: one of them cannot be read, or is wrong, or does not fit the parameters.
        """
        keys = read_yaml_text(value_of(self, "overrides"), "parameter overrides") or {}
        if not isinstance(keys, Mapping):
            raise InputError("parameter overrides: expected keys and values, {start: {z_m: 5.0}}")
        dotted = {key: value for key, value in keys.items() if "." in str(key)}
        given = {key: value for key, value in keys.items() if key not in dotted}
        if self._count:
            given["vehicles"] = self._count  # their missions are checked, not those of the file
        places = [list(robot.initial_position) for robot in self._robots]
        changes = dotted | ({"start.positions_m": places} if places else {})
        scenario = load_scenario(self._name, changes, **given)
        rate_hz = self.params.motion_rate_hz
        if rate_hz > scenario.imu.rate_hz:
            raise InputError(
                f"node {self.get_fully_qualified_name()}: parameter motion_rate_hz: {rate_hz:g};"
                f" allowed: at most the IMU's rate, {scenario.imu.rate_hz:g} Hz"
            )
        return scenario

    def _make(self, scenario: Scenario) -> Swarm:
        """The vehicles on the ground, every device switched on."""
        params, keep = self.params, self.params.publish == "all"
        if self._flown is not None:
            self._flown.close()
            self._flown = None
        if params.firmware:
            self._flown = flown_by(
                params.firmware, scenario, params.executable, params.firmware_parameters,
                params.port, params.rate or 1.0, params.auto,
            )  # fmt: skip
        swarm = Swarm(
            scenario,
            self._count,
            ROOM_S,
            params.motion_rate_hz,
            keep_samples=keep,
            make=plain_loop if self._flown is None else self._flown.plain,
            each_starts=params.auto_start,
        )
        swarm.vehicles.advance(0, 0)  # compiled or loaded now, not in flight
        return swarm

    def _tell(self, scenario: Scenario) -> None:
        """Where the world lies, who flies the loops from now on, how the vehicles look."""
        self._datum.publish(make_datum(scenario.environment.datum))
        parts = zip(self._commands, self.swarm.loops, self._descriptions, strict=True)
        for commands, loop, description in parts:
            commands.manager, commands.odometry = loop.manager, loop.state.odometry
            commands.begun_ns = self._begun_ns
            commands.tell_mission()
            commands.tell(())
            description.tell(scenario.vehicle, scenario.file.sensors)
        if self._crazyswarm is not None:
            self._crazyswarm.begin(self.swarm.loops)

    @property
    def stamp_ns(self) -> int:
        """Simulated time."""
        return self._begun_ns + self.swarm.stamp_ns

    def _truths(self) -> dict[str, Any]:
        """Name of each vehicle to its truth now."""
        found = {}
        for namespace, loop in zip(self.namespaces, self.swarm.loops, strict=True):
            found[namespace.strip("/")] = truth = loop.state["truth"][0].copy()
            truth["stamp_ns"] += self._begun_ns
        return found

    def _place(self, name: str, motion: Any) -> None:
        """Put a vehicle somewhere, as its physics is told, and whoever hears of events."""
        names = [namespace.strip("/") for namespace in self.namespaces]
        i = names.index(name)
        self.swarm.place(i, motion)
        self._commands[i].event(WARN, "moved", "by set_entity_state", self.stamp_ns)

    def _see(self, scene: Scene) -> None:
        """Let all fly in another scene."""
        self.swarm.vehicles.see(scene)

    def _tell_all(self, level: int, name: str, message: str) -> None:
        for commands in self._commands:
            commands.event(level, name, message, self.stamp_ns)

    def _on_reset(self) -> str:
        """All back to their start, by the files as they are now; time goes on."""
        try:
            scenario = self._read()
            swarm = self._make(scenario)
        except InputError as error:
            self.get_logger().error(f"nothing is reset: {error}")
            return str(error)
        self._begun_ns = self.stamp_ns
        self.swarm = swarm
        self._time.restart()
        self._outputs.begin(scenario)
        self._tell(scenario)
        for commands in self._commands:
            commands.event(OK, RESET, "back at the start", self.stamp_ns)
        return ""

    def destroy_node(self) -> None:
        """End the firmware, too."""
        if self._crazyswarm is not None:
            self._crazyswarm.close()
        if self._flown is not None:
            self._flown.close()
        super().destroy_node()

    # ---- time ----------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        """Step as often as the wall clock asks for; without one, once."""
        if not self._time.paused:
            self._time.tie()
            paced = self.params.rate > 0.0
            for _ in range(self._time.steps_due(time.monotonic_ns()) if paced else 1):
                self._step()

    def _step(self) -> None:
        """One mission tick of all, and what there is to say of it."""
        begin_ns = time.thread_time_ns()
        swarm = self.swarm
        self._time.spawned.step(self.stamp_ns, TICK_NS)
        swarm.decide()
        self._outputs.publish_references(swarm, swarm.stamp_ns - TICK_NS, self._begun_ns)
        swarm.forget()
        swarm.advance()
        if self.params.auto_start:
            for loop in swarm.loops:
                loop.take_off_when_ready()
        try:
            swarm.check()
        except FlightError as error:
            broken = self._commands[swarm.first_fault or 0]
            broken.event(ERROR, "physics", str(error), self.stamp_ns)
            raise
        self._computed_ns += time.thread_time_ns() - begin_ns
        self._clock_output.publish(make_clock(self.stamp_ns))
        self._outputs.publish(swarm, self._begun_ns)
        if self._crazyswarm is not None:
            self._crazyswarm.publish(self.stamp_ns, TICK_NS)
        self._ticks += 1
        if self._ticks % LOG_TICKS == 0:
            self._write_log()
        for i, (commands, loop) in enumerate(zip(self._commands, swarm.loops, strict=True)):
            if loop.events or (self._ticks + i) % STATUS_TICKS == 0:
                events, loop.events = loop.events, []
                self._log.take(self.namespaces[i].strip("/"), events)
                commands.tell(events)

    def _write_log(self) -> None:
        for level, line in self._log.lines():
            if level >= ERROR:
                self.get_logger().error(line)
            else:
                self.get_logger().info(line)

    # ---- health --------------------------------------------------------------------------------

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Pace, what the computing costs, and how many vehicles fly."""
        now_ns = time.monotonic_ns()
        computed = self._computed_ns / max(1, now_ns - self._reported_ns)
        self._computed_ns, self._reported_ns = 0, now_ns
        loops = self.swarm.loops
        crashed = sum(loop.crashed for loop in loops)
        values = self._time.values() | {
            "computing_share": computed,
            "vehicles": len(loops),
            "flying": sum(loop.manager.flying and not loop.crashed for loop in loops),
            "crashed": crashed,
            "giving_way": self.swarm.giving_way,
            "height_m": float(loops[0].state["truth"]["p_W"][0, 2]),
            "messages": self._outputs.count,
        }
        values |= {f"unfinished {one.vehicle}": one.manager.unfinished() for one in loops}
        return WARN if crashed else OK, self._time.words, values


make, main = entry_points(SwarmNode)
