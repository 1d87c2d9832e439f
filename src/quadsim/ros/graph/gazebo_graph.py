"""The graph with Gazebo, as data: what runs, which world it gets, which nodes join it to ours.

``launch/gazebo.launch.py`` turns the description into launch actions. Gazebo flies the vehicles
(``physics:=gazebo``), or shows what our physics fly (``gazebo:=view``).
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from xml.etree.ElementTree import Element  # the type alone

from quadsim.base.compiled import plain
from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world, share_dir
from quadsim.base.options import option
from quadsim.base.parameters import Vec3
from quadsim.gazebo.sdf import vehicle_model
from quadsim.gazebo.sensors import CameraParams
from quadsim.gazebo.worlds import for_gazebo
from quadsim.gazebo.xml import xml_text
from quadsim.geometry.rotation import to_euler
from quadsim.ros.graph.graph import NodeSpec, SimLaunch, prefixed
from quadsim.ros.graph.vehicles import frame_prefix, vehicle_namespaces
from quadsim.ros.runtime import topics
from quadsim.sensors import SECONDS
from quadsim.sim.scenario import Scenario, ScenarioFile
from quadsim.vehicle.start import standing_pose
from quadsim.world.sdf.world_file import load_world

CAMERA = "camera"
#: What Gazebo can lend to a vehicle that it does not fly.
DRAWN = ("lidar", CAMERA)
#: Longest step of Gazebo's physics, s.
LONGEST_STEP_S = 0.004


@dataclass(frozen=True)
class GazeboLaunch:
    """Arguments of ``gazebo.launch.py``: those of ``sim.launch.py`` that hold here, and its own."""

    without: ClassVar = ("drivers", "driver_namespace", "use_sim_time")

    sim: SimLaunch = field(default_factory=SimLaunch)
    physics: str | None = option(
        None, "who flies", choices=("gazebo", "ours"), unset="gazebo; ours with gazebo:=view"
    )
    gazebo: str = option("fly", "view: Gazebo shows what our physics fly", choices=("fly", "view"))
    lent: tuple[str, ...] = option(
        (),
        "sensors that are Gazebo's, with commas",
        unset="where it flies all of the suite, else none",
    )
    bridge: str | None = option(None, "a file of config/bridge, or a path", unset="physics or view")
    gui: bool = option(True, "false: Gazebo's server alone")
    start: bool = option(True, "start Gazebo; false: it runs already, with the world of world_file")
    world_file: str | None = option(
        None, "where the world with its vehicles is written", unset="in ~/.cache/quadsim"
    )
    fortress: bool = option(False, "Gazebo Fortress, with its names; false: Harmonic and later")

    @property
    def flies(self) -> bool:
        """Whether Gazebo flies the vehicles."""
        return self.gazebo == "fly"

    def describe(self) -> list[NodeSpec]:
        """The nodes; see :func:`describe_gazebo`."""
        return list(describe_gazebo(self).nodes)

    def notes(self) -> list[str]:
        """What the scenario takes from its world, and what of it Gazebo does otherwise."""
        scenario = self.sim.scenario.load()
        wind = scenario.environment.wind_W_mps
        if not (self.flies and any(wind)):
            return list(scenario.notes)
        words = "wind ({:g}, {:g}, {:g}) m/s: in Gazebo it drags the rotors alone, not the body"
        return [*scenario.notes, words.format(*wind)]

    def processes(self) -> list[GazeboProcess]:
        """Write the world, and give what is to be started with the nodes."""
        graph = describe_gazebo(self)
        if self.start:
            self._need_gazebo()
        world = graph.write_world()
        return [graph.process(world)] if self.start else []

    def _need_gazebo(self) -> None:
        """Refuse to start what is not installed."""
        program, other = ("ign", "false") if self.fortress else ("gz", "true")
        if shutil.which(program) is None:
            raise InputError(
                f"{program} is not on the path, so Gazebo cannot be started: install"
                f" ros-$ROS_DISTRO-ros-gz, or fortress:={other} for"
                f" {'Harmonic and later' if self.fortress else 'Gazebo Fortress'}, or start:=false"
                " where it runs already"
            )


@dataclass(frozen=True)
class GazeboProcess:
    """Gazebo itself.

    Attributes:
        command: program and arguments, the world's file last.
        environment: variables that it needs, added to those that are there.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class GazeboGraph:
    """A graph with Gazebo.

    Attributes:
        options: how it is started.
        world: text of the world's file, with the vehicles in it.
        nodes: the bridges, what joins Gazebo to ours, and our nodes.
    """

    options: GazeboLaunch
    world: str
    nodes: tuple[NodeSpec, ...]

    def write_world(self) -> Path:
        """Write the world's file; gives its path.

        Raises:
            InputError: it cannot be written.
        """
        if self.options.world_file:
            path = Path(self.options.world_file).expanduser()
        else:
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            key = hashlib.sha256(self.world.encode()).hexdigest()[:16]
            path = cache / "quadsim" / "gazebo" / f"{key}.sdf"
        try:
            if not self.options.world_file:
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
        fortress = self.options.fortress
        command = ["ign", "gazebo"] if fortress else ["gz", "sim"]
        command += ["-r"] if self.options.gui else ["-r", "-s", "--headless-rendering"]
        variable = "IGN_GAZEBO_RESOURCE_PATH" if fortress else "GZ_SIM_RESOURCE_PATH"
        folders = [str(share_dir() / "worlds" / "models"), os.environ.get(variable, "")]
        return GazeboProcess(
            (*command, str(world)), {variable: os.pathsep.join(filter(None, folders))}
        )


def _refuse(name: str, value: object, allowed: str) -> InputError:
    return InputError(f"launch argument {name}: {str(value)!r}; allowed: {allowed}")


def lent_by_gazebo(options: GazeboLaunch, scenario: Scenario) -> tuple[str, ...]:
    """Kinds of sensors that are Gazebo's.

    Raises:
        InputError: options that do not go together, naming one and what is allowed.
    """
    flies = options.flies
    if options.physics == "gazebo" and not flies:
        raise _refuse("physics", "gazebo", "ours, with gazebo:=view, which only shows")
    if options.physics == "ours" and flies:
        raise _refuse("physics", "ours", "gazebo; ours needs gazebo:=view")
    carried = (*scenario.devices, CAMERA)
    known = carried if flies else tuple(kind for kind in carried if kind in DRAWN)
    lent = options.lent or (tuple(scenario.devices) if flies else ())
    for name in lent:
        if name not in known:
            raise _refuse("lent", name, f"{', '.join(known)}, with suite {scenario.file.sensors}")
    pacing, rate = options.sim.graph.pacing, options.sim.rate
    if flies and "imu" not in lent:
        raise _refuse("lent", ", ".join(lent), "with imu, which tells when to answer")
    if flies and pacing != "realtime":
        raise _refuse("pacing", pacing, "realtime, as Gazebo does not wait for commands")
    if flies and rate != 1.0:
        raise _refuse("rate", rate, "1.0; of Gazebo, <real_time_factor> in the world")
    return lent


def refuse_what_gazebo_lacks(scenario: Scenario, options: GazeboLaunch) -> None:
    """A flight that looks as if it had what it has not would be worth nothing.

    Raises:
        InputError: naming what Gazebo does not have.
    """
    file, usual = scenario.file, ScenarioFile()
    flight = {
        "disturbances": bool(scenario.disturbances),
        "load": scenario.vehicle.load.rope_length_m > 0.0,
        "tether": scenario.vehicle.tether.length_m > 0.0,
        "environment.wind": file.environment.wind != usual.environment.wind,
        **{f"sensors: {name}": name in scenario.devices for name in SECONDS},
        "faults": any(scenario.faults.get(kind) for kind in options.lent),
    }
    ground = {
        "terrain": file.terrain != usual.terrain,
        "heightmap": file.heightmap != usual.heightmap,
    }
    for key in (name for name, given in flight.items() if given and options.flies):
        raise InputError(
            f"{scenario.path}: {key}: Gazebo does not know it; leave it out, or let our physics"
            " fly: gazebo:=view"
        )
    for key in (name for name, given in ground.items() if given):
        raise InputError(
            f"{scenario.path}: {key}: Gazebo does not know it; leave it out, or choose a world"
            " whose file has the ground"
        )


def _models(scenario: Scenario, options: GazeboLaunch) -> list[Element]:
    """A model of each vehicle, where it stands."""
    devices = {kind: scenario.devices[kind] for kind in options.lent if kind != CAMERA}
    models = []
    for namespace, pose in zip(
        vehicle_namespaces(options.sim.count),
        scenario.file.start.poses(options.sim.count),
        strict=True,
    ):
        model = vehicle_model(
            scenario.vehicle,
            devices,
            namespace.strip("/"),
            prefix=frame_prefix(namespace),
            camera=CameraParams() if CAMERA in options.lent else None,
            datum=scenario.environment.datum,
            view=not options.flies,
            fortress=options.fortress,
        )
        height_m, q_WB = standing_pose(scenario.vehicle, scenario.environment, scenario.scene, pose)
        place = model.find("pose")
        if place is None:
            place = Element("pose")
            model.insert(0, place)
        place.text = xml_text((pose[0], pose[1], float(height_m), *plain(to_euler)(q_WB)))
        models.append(model)
    return models


def _bridge(name: str, namespace: str, given: dict[str, Any], *arguments: str) -> NodeSpec:
    return NodeSpec("parameter_bridge", namespace, given, (), name, "ros_gz_bridge", arguments)


def _bridges(options: GazeboLaunch, world: str) -> list[NodeSpec]:
    """The bridges of ros_gz_bridge: one of the clock or the poses, one of each vehicle."""
    names = vehicle_namespaces(options.sim.count)
    if not options.flies:
        lent = find("bridge", options.bridge or "view") if options.lent else None
        return view_bridges(world, names, lent)
    clock = _bridge("clock_bridge", "/", {"config_file": str(find("bridge", "clock"))})
    return [clock, *_vehicle_bridges(names, find("bridge", options.bridge or "physics"))]


def _vehicle_bridges(names: Sequence[str], bridge_file: Path) -> list[NodeSpec]:
    given = {"config_file": str(bridge_file), "expand_gz_topic_names": True}
    return [_bridge("gazebo_bridge", name, given) for name in names]


def view_bridges(world: str, names: Sequence[str], bridge_file: Path | None) -> list[NodeSpec]:
    """The bridges of a Gazebo that shows vehicles.

    Args:
        bridge_file: of the topics that it lends; None: it lends nothing.
    """
    service = f"/world/{world}/set_pose@ros_gz_interfaces/srv/SetEntityPose"
    poses = _bridge("pose_bridge", "/", {}, service + "@gz.msgs.Pose@gz.msgs.Boolean")
    return [poses, *(_vehicle_bridges(names, bridge_file) if bridge_file else [])]


def _lidar_topics(scenario: Scenario, options: GazeboLaunch) -> list[str]:
    """What a lent lidar publishes: ``scan`` of a planar one, else ``points``."""
    if "lidar" not in options.lent:
        return []
    return ["scan" if getattr(scenario.scanners.get("lidar"), "channels", 1) == 1 else "points"]


def _joints(scenario: Scenario, options: GazeboLaunch, world: str) -> list[NodeSpec]:
    """What joins Gazebo's vehicles to our nodes."""
    lidar = _lidar_topics(scenario, options)
    if not options.flies:
        camera = [CAMERA] if CAMERA in options.lent else []
        drawn = {"lent": [*lidar, *camera]} if lidar or camera else {}
        return [
            NodeSpec("gazebo_view", name, {"world": world, **drawn})
            for name in vehicle_namespaces(options.sim.count)
        ]
    sensors = [kind for kind in options.lent if kind not in DRAWN]
    field_W_T = _field_W_T(scenario, options)
    looks = {"vehicle": scenario.file.vehicle, "sensors": scenario.file.sensors}
    descriptions = [
        NodeSpec("description", name, looks) for name in vehicle_namespaces(options.sim.count)
    ]
    return [
        NodeSpec(
            "gazebo_adapter",
            name,
            {
                "use_sim_time": True,
                "suite": scenario.file.sensors,
                "sensors": [*sensors, *lidar],
                "rotors": list(scenario.vehicle.commands),
                "publish_datum": i == 0,
                "seed": scenario.file.seed,
                "magnetic_field_W_T": list(field_W_T),
                **prefixed(scenario.environment.datum, "datum."),
            },
        )
        for i, name in enumerate(vehicle_namespaces(options.sim.count))
    ] + descriptions  # as dynamics does for vehicles of its own


def _field_W_T(scenario: Scenario, options: GazeboLaunch) -> Vec3:
    """Magnetic field of the place.

    Harmonic and later look it up in tables of their own, by the place, whatever the world has.
    """
    environment = scenario.environment
    (measures_field,) = topics.MAGNETIC_FIELD.publishers
    if options.flies and measures_field in options.lent and not options.fortress:
        environment = replace(
            environment, magnetic_field="model", magnetic_field_W_T=(0.0, 0.0, 0.0)
        )
    return environment.field_W_T()


def _told(spec: NodeSpec, scenario: Scenario, options: GazeboLaunch) -> NodeSpec:
    """One of our nodes, told what Gazebo does otherwise."""
    if not options.flies:
        return spec
    given = dict(spec.parameters)
    if spec.executable == "estimator":
        given["magnetic_field_W_T"] = list(_field_W_T(scenario, options))
    if spec.executable == "recorder":
        # what Gazebo's sensors give is waited for as what ours would, but for our physics
        gone, come = {"dynamics", *DRAWN}, {"gazebo_adapter", "description"}
        names = ({*str(given["nodes"]).split()} - gone) | come
        given["nodes"] = " ".join(sorted(names))
    return replace(spec, parameters=given)


def _step_s(scenario: Scenario) -> float:
    """Step of Gazebo's physics: the IMU's period, or an equal part of it if that is long.

    Gazebo's sensor holds the last step's specific force. An impact ends in one step: an IMU with a
    longer period would show it for as long, and the estimate would count it several times.
    """
    period_s = 1.0 / float(scenario.devices["imu"].rate_hz)
    return period_s / math.ceil(period_s / LONGEST_STEP_S - 1e-9)


def describe_gazebo(options: GazeboLaunch) -> GazeboGraph:
    """The graph with Gazebo.

    Raises:
        InputError: naming the argument, or what of the scenario Gazebo does not know.
    """
    scenario = options.sim.scenario.load()
    options = replace(options, lent=lent_by_gazebo(options, scenario))
    refuse_what_gazebo_lacks(scenario, options)
    replaced = {"dynamics", *options.lent} if options.flies else set(options.lent)
    ours = [spec for spec in options.sim.describe() if spec.executable not in replaced]
    path = find_world(scenario.file.world)
    world = load_world(path).name
    return GazeboGraph(
        options,
        for_gazebo(
            path,
            _models(scenario, options),
            environment=scenario.environment,
            fortress=options.fortress,
            step_s=_step_s(scenario) if options.flies else None,
        ),
        (
            *_bridges(options, world),
            *_joints(scenario, options, world),
            *(_told(spec, scenario, options) for spec in ours),
        ),
    )
