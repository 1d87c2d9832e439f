"""The graph of a scenario, described once, as data: which nodes, where, with which parameters.

``launch/*.launch.py`` turns the description into launch actions, ``quadsim fly`` into processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from quadsim.bag.origin import run_facts
from quadsim.base.errors import InputError
from quadsim.base.options import option
from quadsim.base.parameters import IsDataclass, flatten
from quadsim.base.parts import part_of
from quadsim.estimation.eskf.parameters import ERROR_STATE
from quadsim.ros.graph.driver_choice import Drivers, choose
from quadsim.ros.graph.options import Arm, GraphOptions, Record, ScenarioOptions, bag_of
from quadsim.ros.graph.vehicles import vehicle_namespaces
from quadsim.ros.parts.sampling import sampling_text
from quadsim.ros.runtime import topics
from quadsim.sensors import kind_of
from quadsim.sensors.devices import needs_of
from quadsim.sensors.error_terms import SensorParams
from quadsim.sensors.faults import faults_to_text
from quadsim.sim.scenario import Scenario
from quadsim.vehicle.disturbances import disturbances_to_text

#: Of ``motor_speed``, where the IMU does not feel it.
MOTOR_RATE_HZ = 100.0
#: Sensors that need every truth.
ALL_TRUTHS = ("imu", "lidar")


@dataclass(frozen=True)
class NodeSpec:
    """One node.

    Attributes:
        executable: as ``ros2 run quadsim <executable>``.
        namespace: of the node.
        parameters: name to value.
        remappings: pairs of names.
        name: of the node; usually the executable's.
        package: of the executable; ours, or of a node that ``ros2 launch`` alone can start.
        arguments: of its command line, apart from those of ROS; ours take none.
    """

    executable: str
    namespace: str
    parameters: Mapping[str, Any]
    remappings: tuple[tuple[str, str], ...] = ()
    name: str = ""
    package: str = "quadsim"
    arguments: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Name with its namespace, as ROS shows it."""
        return f"{self.namespace.rstrip('/')}/{self.name or self.executable}"

    @property
    def label(self) -> str:
        """Name for people: ``imu``, or ``quad2/imu`` where there are several vehicles."""
        return self.full_name.removeprefix("/quad/").strip("/")


def prefixed(params: IsDataclass, prefix: str = "") -> dict[str, Any]:
    """Parameters of a class by their ROS names."""
    return {prefix + name: value for name, value in flatten(params).items()}


def _scene(scenario: Scenario) -> dict[str, Any]:
    return {
        "world": scenario.file.world,
        **prefixed(scenario.file.terrain, "terrain."),
        **prefixed(scenario.file.heightmap, "heightmap."),
    }


def _seldom(scenario: Scenario) -> dict[str, SensorParams]:
    """Sensors that need few truths."""
    return {name: p for name, p in scenario.devices.items() if kind_of(name) not in ALL_TRUTHS}


def _dynamics(scenario: Scenario) -> dict[str, Any]:
    return {
        "sampled": ",".join(
            sampling_text(kind, params.rate_hz, params.latency_s)
            for kind, params in _seldom(scenario).items()
        ),
        "vehicle": scenario.file.vehicle,
        "sensors": scenario.file.sensors,
        "truth_rate_hz": scenario.imu.rate_hz,
        "motor_rate_hz": scenario.imu.rate_hz if scenario.imu.vibration.on else MOTOR_RATE_HZ,
        "imu_latency_s": scenario.imu.latency_s,
        "seed": scenario.file.seed,
        **_scene(scenario),
        "disturbances": disturbances_to_text(scenario.disturbances),
        **prefixed(scenario.vehicle),
        **prefixed(scenario.environment, "environment."),
        **prefixed(scenario.file.start, "start."),
        **prefixed(scenario.file.physics, "physics."),
    }


def _controller(scenario: Scenario) -> dict[str, Any]:
    return {
        "config": scenario.file.autopilot,
        "vehicle": scenario.file.vehicle,
        **prefixed(scenario.autopilot),
        **prefixed(scenario.airframe, "airframe."),
    }


def said_of(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """What a scenario's files say: executable to parameters, those of a vehicle's for each."""
    by_node = {"dynamics": _dynamics(scenario)}
    for kind, params in scenario.devices.items():
        faults = scenario.faults.get(kind, ())
        by_node[kind] = {
            "seed": scenario.file.seed,
            **prefixed(scenario.environment, "environment."),
            **prefixed(params),
            "faults": faults_to_text(faults) if faults else "",
        }
        if kind != kind_of(kind):
            by_node[kind]["second"] = True
        if "scene" in needs_of(kind, params):
            by_node[kind] |= _scene(scenario)
    by_node["estimator"] = {
        "config": scenario.file.estimator,
        "installation": "known",
        **prefixed(scenario.estimator),
    }
    by_node["autopilot"] = {
        "mission": str(scenario.path),
        "use_truth": scenario.file.fly_on == "truth",
        **_controller(scenario),
    }
    if scenario.autopilot.flight.ground.map:
        by_node["autopilot"] |= _scene(scenario)
        by_node["autopilot"] |= prefixed(scenario.environment, "environment.")
    # the mixer reads the gyroscope in what is taken for the body's axes
    aligned = not any(scenario.estimator.mount.imu_roll_pitch_yaw_deg)
    by_node["mixer"] = {**_controller(scenario), "gyro_fallback": aligned}
    return by_node


def _chosen(
    scenario: Scenario, options: GraphOptions, drivers: Drivers
) -> dict[str, dict[str, Any]]:
    """What the options say: executable to parameters."""
    simulated = drivers.simulated if options.sim_time is None else options.sim_time
    sim_time = {"use_sim_time": simulated}
    place: dict[str, Any] = {}
    if not drivers.has_datum:
        place = {"datum_source": "parameter", **prefixed(scenario.environment.datum, "datum.")}
    pose = drivers.external_pose_type
    if pose != "none":
        place["external_pose_type"] = pose
    return {
        "dynamics": {
            "count": options.count,
            "pacing": options.pacing,
            "rate": options.rate,
            "paused": options.paused,
        },
        "estimator": {
            **sim_time,
            **place,
            "own": own.name if (own := part_of(scenario.parts, "estimator")) else "",
            "beside": list(options.beside),
        },
        "autopilot": {**sim_time, "auto_start": options.arm, "joystick": options.joystick or ""},
        "mixer": sim_time,
    }


def _refuse(scenario: Scenario, options: GraphOptions, drivers: Drivers) -> None:
    """Refuse what a graph of nodes for each vehicle cannot fly."""
    if scenario.estimator.filter != ERROR_STATE:
        raise InputError(
            f"{scenario.path}: estimator: {scenario.file.estimator} flies on"
            f" {scenario.estimator.filter}, in the closed loop alone: quadsim sim"
        )
    if together := scenario.parts_of_the_loop:
        raise InputError(
            f"{scenario.path}: {together[0]}: is flown by the node swarm: quadsim fly --swarm, or"
            " swarm.launch.py; the node estimator runs own estimators without arguments"
        )
    if options.count > 1 and options.driver_namespace and drivers.entries:
        raise InputError(
            f"driver_namespace: {options.driver_namespace!r} with {options.count} vehicles, which"
            " would all have the same driver; give none, with each driver under its vehicle's"
            " namespace (/quad1/mavros), or one vehicle"
        )
    # in lockstep physics waits for the answer to each IMU sample, lost ones too
    dropped = any(fault.fault in ("dropout", "delay") for fault in scenario.faults.get("imu", ()))
    if options.pacing == "lockstep" and (scenario.imu.loss_probability or dropped):
        raise InputError(
            f"{scenario.path}: pacing lockstep waits for the answer to each IMU sample, and some"
            " are lost or delayed: use realtime, or no loss_probability, dropout, delay of the IMU"
        )
    if options.count > 1 and scenario.is_flown_together:
        raise InputError(
            f"{scenario.path}: {options.count} vehicles that give way to each other, gather or fly"
            " in formation are flown by the node swarm: quadsim fly --swarm, or swarm.launch.py"
        )


def describe(scenario: Scenario, options: GraphOptions | None = None) -> list[NodeSpec]:
    """Nodes of a scenario's graph: the physics, each vehicle's, the recorder last.

    Args:
        options: how.

    Raises:
        InputError: of the drivers; the graph cannot fly on the scenario's estimator.
    """
    options = options or GraphOptions()
    said_by_files = said_of(scenario)
    drivers = choose(options.drivers, said_by_files)
    _refuse(scenario, options, drivers)
    around = {
        name: _drivers_of(name, options, drivers) for name in vehicle_namespaces(options.count)
    }
    taken = tuple(pair for pairs, _ in around.values() for pair in pairs)

    sampled = _sampled(scenario, drivers)

    def spec(executable: str, namespace: str, parameters: Mapping[str, Any]) -> NodeSpec:
        name = executable
        remappings = (*options.remappings.get(name, ()), *taken, *sampled.get(name, ()))
        # an empty list cannot be passed
        given = {key: value for key, value in parameters.items() if value != []}
        executable = kind_of(name)
        return NodeSpec(
            executable, namespace, given, remappings, "" if name == executable else name
        )

    source = source_of(scenario)
    chosen = _chosen(scenario, options, drivers)
    parameters = {
        executable: {**source, **by_node, **chosen.get(executable, {})}
        for executable, by_node in said_by_files.items()
    }
    (measures_field,) = topics.MAGNETIC_FIELD.publishers
    if measures_field in parameters and measures_field not in drivers.nodes:
        # a real one: its field is that of the real place, not of the scenario's
        parameters["estimator"].pop("magnetic_field_W_T")
        parameters["estimator"] |= {"installation": "unknown"}
    if "autopilot" in sampled:
        rate_hz = scenario.autopilot.position.rate_hz
        parameters["estimator"] |= {"sampled_rate_hz": rate_hz}
    nodes = [spec("dynamics", "/", parameters.pop("dynamics"))]
    offsets = scenario.offsets_W_m(options.count)
    for namespace, offset in zip(vehicle_namespaces(options.count), offsets, strict=True):
        parameters["autopilot"] |= {"mission_offset_W_m": list(offset)}
        nodes += [
            spec(executable, namespace, dict(given)) for executable, given in parameters.items()
        ]
    nodes = [node for node in nodes if (node.name or node.executable) in drivers.nodes]
    nodes += [
        NodeSpec("driver", namespace, given) for namespace, (_, given) in around.items() if given
    ]
    if options.bag is not None:
        nodes.append(spec("recorder", "/", recorder_parameters(scenario, options, nodes)))
    return nodes


def recorder_parameters(
    scenario: Scenario, options: GraphOptions, nodes: Sequence[NodeSpec]
) -> dict[str, Any]:
    """Parameters of the recorder of a graph of some nodes."""
    executables = sorted({node.name or node.executable for node in nodes} | {"recorder"})
    return {
        "output": options.bag,
        **flatten(options.recording),
        "metadata": json.dumps(run_facts(scenario)),
        "count": options.count,
        "nodes": " ".join(executables),
    }


def source_of(scenario: Scenario) -> dict[str, str]:
    """Where a scenario is read again, and what of it was given otherwise."""
    overrides = yaml.safe_dump(dict(scenario.overrides)) if scenario.overrides else ""
    return {"scenario": str(scenario.path), "overrides": overrides}


def _sampled(scenario: Scenario, drivers: Drivers) -> dict[str, tuple[tuple[str, str], ...]]:
    """Who hears another topic than its own: executable to remappings.

    Of the truth, or of the estimate, only what is used; and the contact as ``landed``.

    A fault that delays a sensor's samples publishes them at times that nobody foresees.
    """
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    if "dynamics" in drivers.nodes:
        for kind in _seldom(scenario):
            if not any(fault.fault == "delay" for fault in scenario.faults.get(kind, ())):
                found[kind] = ((topics.TRUTH.name, topics.sampled_truth(kind).name),)
        if scenario.file.landed == "contact":
            found["estimator"] = ((topics.LANDED.name, topics.CONTACT.name),)
    if {"estimator", "autopilot"} <= set(drivers.nodes):
        found["autopilot"] = ((topics.ODOMETRY.name, topics.ODOMETRY_SAMPLED.name),)
    return found


def _drivers_of(
    namespace: str, options: GraphOptions, drivers: Drivers
) -> tuple[tuple[tuple[str, str], ...], dict[str, Any]]:
    """Names that are remapped for a vehicle, and parameters of its node ``driver``; none: no node.

    Commands go out where the vehicle is not ours.
    """
    before = options.driver_namespace
    if options.count > 1 and not before:
        before = namespace
    pairs, left = drivers.remapped(namespace, before)
    send = "dynamics" not in drivers.nodes
    if not (left or (send and drivers.entries)):
        return pairs, {}
    return pairs, {
        "drivers": ",".join(entry.text for entry in drivers.entries),
        "topics": " ".join(topic for _, topic in left),
        "driver_namespace": options.driver_namespace,
        "alone": options.count == 1,
        "send": send,
    }


@dataclass(frozen=True)
class SimLaunch:
    """Arguments of ``sim.launch.py``."""

    scenario: ScenarioOptions = field(default_factory=ScenarioOptions)
    graph: GraphOptions = field(default_factory=GraphOptions)
    count: int = option(1, "vehicles", ge=1, le=1000)
    rate: float = option(
        1.0, "simulated over wall time; lockstep: 0 is as fast as the graph goes", ge=0.0
    )
    record: Record = "true"
    arm: Arm = False
    use_sim_time: bool | None = option(
        None, "watchdogs on simulated time", unset="as the drivers do"
    )

    def describe(self) -> list[NodeSpec]:
        """The nodes.

        Raises:
            InputError: of the scenario, the drivers, or options that do not go together.
        """
        options = replace(
            self.graph,
            count=self.count,
            rate=self.rate,
            arm=self.arm,
            bag=bag_of(self.record),
            sim_time=self.use_sim_time,
        )
        return describe(self.scenario.load(), options)
