"""The graph with Gazebo, as data: what runs, which world it gets, which nodes join it to ours.

``launch/gazebo.launch.py`` turns the description into launch actions. Gazebo flies the vehicles
(``physics:=gazebo``), or shows what our physics fly (``gazebo:=view``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element  # the type alone

from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world, share_dir
from quadsim.base.parameters import Vec3
from quadsim.gazebo.sdf import vehicle_model
from quadsim.gazebo.sensors import CameraParams
from quadsim.gazebo.worlds import for_gazebo
from quadsim.gazebo.xml import text_of
from quadsim.ros.gazebo.figures import figures_of
from quadsim.ros.graph.gazebo_arguments import (
    CAMERA,
    DRAWN,
    GAZEBO_ARGUMENTS,
    Choice,
    choice_of,
    refuse_what_gazebo_lacks,
)
from quadsim.ros.graph.graph import LAUNCH_ARGUMENTS, NodeSpec, as_flag, describe_launch, prefixed
from quadsim.ros.graph.vehicles import frame_prefix, namespaces
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.start import standing_height_m
from quadsim.world.sdf.world_file import load_world


@dataclass(frozen=True)
class GazeboProcess:
    """Gazebo itself.

    Attributes:
        command: program and arguments, the world's file last.
        environment: variables that it needs, beside those that are there.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class GazeboGraph:
    """A graph with Gazebo.

    Attributes:
        world: text of the world's file, with the vehicles in it.
        world_file: where it is to be written; empty: in the cache, by its content.
        starts: whether Gazebo is to be started.
        gui: with its window.
        fortress: as Gazebo Fortress is called.
        nodes: the bridges, what joins Gazebo to ours, and our nodes.
    """

    world: str
    world_file: str
    starts: bool
    gui: bool
    fortress: bool
    nodes: tuple[NodeSpec, ...]

    def write_world(self) -> Path:
        """Write the world's file; gives its path.

        Raises:
            InputError: it cannot be written.
        """
        if self.world_file:
            path = Path(self.world_file).expanduser()
        else:
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            key = hashlib.sha256(self.world.encode()).hexdigest()[:16]
            path = cache / "quadsim" / "gazebo" / f"{key}.sdf"
        try:
            if not self.world_file:
                path.parent.mkdir(parents=True, exist_ok=True)
            # another Gazebo may be reading it
            if not path.is_file() or path.read_bytes() != self.world.encode():
                path.write_text(self.world, encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"launch argument world_file: {path}: cannot be written ({error.strerror})"
            ) from None
        return path

    def process(self, world: Path) -> GazeboProcess:
        """Gazebo with a world that begins at once."""
        command = ["ign", "gazebo"] if self.fortress else ["gz", "sim"]
        command += ["-r"] if self.gui else ["-r", "-s", "--headless-rendering"]
        variable = "IGN_GAZEBO_RESOURCE_PATH" if self.fortress else "GZ_SIM_RESOURCE_PATH"
        folders = [str(share_dir() / "worlds" / "models"), os.environ.get(variable, "")]
        return GazeboProcess(
            (*command, str(world)), {variable: os.pathsep.join(filter(None, folders))}
        )


def _models(scenario: Scenario, choice: Choice, count: int) -> list[Element]:
    """A model of each vehicle, where it stands."""
    devices = {kind: scenario.devices[kind] for kind in choice.lent if kind != CAMERA}
    models = []
    for namespace, pose in zip(namespaces(count), scenario.file.start.poses(count), strict=True):
        model = vehicle_model(
            scenario.vehicle,
            devices,
            namespace.strip("/"),
            prefix=frame_prefix(namespace),
            camera=CameraParams() if CAMERA in choice.lent else None,
            datum=scenario.environment.datum,
            view=not choice.flies,
            fortress=choice.fortress,
        )
        height_m = standing_height_m(scenario.vehicle, scenario.environment, scenario.scene, pose)
        place = model.find("pose")
        if place is None:
            place = Element("pose")
            model.insert(0, place)
        place.text = text_of((pose[0], pose[1], float(height_m), 0.0, 0.0, pose[2]))
        models.append(model)
    return models


def _bridges(choice: Choice, world: str, count: int) -> list[NodeSpec]:
    """The bridges of ros_gz_bridge: one of the clock or the poses, one of each vehicle."""

    def bridge(name: str, namespace: str, given: dict[str, Any], *arguments: str) -> NodeSpec:
        return NodeSpec("parameter_bridge", namespace, given, (), name, "ros_gz_bridge", arguments)

    if choice.flies:
        bridges = [bridge("clock_bridge", "/", {"config_file": str(find("bridge", "clock"))})]
    else:
        service = f"/world/{world}/set_pose@ros_gz_interfaces/srv/SetEntityPose"
        types = "@gz.msgs.Pose@gz.msgs.Boolean"
        bridges = [bridge("pose_bridge", "/", {}, service + types)]
    if choice.flies or choice.lent:
        given = {"config_file": str(choice.bridge), "expand_gz_topic_names": True}
        bridges += [bridge("gazebo_bridge", name, given) for name in namespaces(count)]
    return bridges


def _lidar_topics(scenario: Scenario, choice: Choice) -> list[str]:
    """What a lent lidar publishes: ``scan`` of a planar one, else ``points``."""
    if "lidar" not in choice.lent:
        return []
    return ["scan" if getattr(scenario.lidar, "channels", 1) == 1 else "points"]


def _joints(scenario: Scenario, choice: Choice, world: str, count: int) -> list[NodeSpec]:
    """What joins Gazebo's vehicles to our nodes."""
    lidar = _lidar_topics(scenario, choice)
    if not choice.flies:
        camera = [CAMERA] if CAMERA in choice.lent else []
        lent = {"lent": [*lidar, *camera]} if lidar or camera else {}
        return [
            NodeSpec("gazebo_view", name, {"world": world, **lent}) for name in namespaces(count)
        ]
    sensors = [kind for kind in choice.lent if kind not in DRAWN]
    field_W_T = _field_W_T(scenario, choice)
    figures = figures_of(scenario.sensors, field_W_T)
    looks = {"vehicle": scenario.file.vehicle, "sensors": scenario.file.sensors}
    descriptions = [NodeSpec("description", name, looks) for name in namespaces(count)]
    return [
        NodeSpec(
            "gazebo_adapter",
            name,
            {
                "use_sim_time": True,
                "sensors": [*sensors, *lidar],
                "rotors": list(scenario.vehicle.commands),
                "publish_datum": i == 0,
                "seed": scenario.file.seed,
                "magnetic_field_W_T": list(field_W_T),
                **prefixed(scenario.environment.datum, "datum."),
                **prefixed(figures, "figures."),
            },
        )
        for i, name in enumerate(namespaces(count))
    ] + descriptions  # as dynamics does for vehicles of its own


def _field_W_T(scenario: Scenario, choice: Choice) -> Vec3:
    """Magnetic field that the magnetometer is in.

    Harmonic and later look it up in tables of their own, by the place, whatever the world says.
    """
    environment = scenario.environment
    if choice.flies and "magnetometer" in choice.lent and not choice.fortress:
        environment = replace(
            environment, magnetic_field="model", magnetic_field_W_T=(0.0, 0.0, 0.0)
        )
    return environment.field_W_T()


def _told(spec: NodeSpec, scenario: Scenario, choice: Choice) -> NodeSpec:
    """One of our nodes, told what Gazebo does otherwise."""
    if not choice.flies:
        return spec
    given = dict(spec.parameters)
    if spec.executable == "estimator":
        given["magnetic_field_W_T"] = list(_field_W_T(scenario, choice))
    if spec.executable == "recorder":
        # what Gazebo's sensors give is waited for as what ours would, but for our physics
        gone, come = {"dynamics", *DRAWN}, {"gazebo_adapter", "description"}
        names = ({*str(given["nodes"]).split()} - gone) | come
        given["nodes"] = " ".join(sorted(names))
    return replace(spec, parameters=given)


def describe_gazebo(values: Mapping[str, str]) -> GazeboGraph:
    """The graph for the texts that launch gives its arguments.

    Args:
        values: every name of :data:`GAZEBO_ARGUMENTS`.

    Raises:
        InputError: naming the argument, or what of the scenario Gazebo does not know.
    """
    shared = {name: values[name] for name in GAZEBO_ARGUMENTS if name in LAUNCH_ARGUMENTS}
    usual = {name: default for name, (default, _) in LAUNCH_ARGUMENTS.items()}
    every = describe_launch(usual | shared)
    scenario = load_scenario(
        values["scenario"],
        vehicle=values["vehicle"] or None,
        sensors=values["sensors"] or None,
        seed=int(values["seed"]) if values["seed"] else None,
    )
    choice, count = choice_of(values, scenario), int(values["count"])
    refuse_what_gazebo_lacks(scenario, choice)
    replaced = {"dynamics", *choice.lent} if choice.flies else set(choice.lent)
    ours = [spec for spec in every if spec.executable not in replaced]
    path = find_world(scenario.file.world)
    world = load_world(path).name
    return GazeboGraph(
        world=for_gazebo(
            path,
            _models(scenario, choice, count),
            environment=scenario.environment,
            fortress=choice.fortress,
        ),
        world_file=values["world_file"],
        starts=as_flag("start", values["start"]),
        gui=as_flag("gui", values["gui"]),
        fortress=choice.fortress,
        nodes=(
            *_bridges(choice, world, count),
            *_joints(scenario, choice, world, count),
            *(_told(spec, scenario, choice) for spec in ours),
        ),
    )


def gazebo_processes(values: Mapping[str, str]) -> Sequence[GazeboProcess]:
    """Write the world, and give what is to be started beside the nodes."""
    graph = describe_gazebo(values)
    world = graph.write_world()
    return [graph.process(world)] if graph.starts else []
