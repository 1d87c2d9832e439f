"""The graph of a real vehicle among virtual obstacles, as data; and its three relatives.

The four structures of a simulator are one graph, of which more and more is real:

=========  =====================  ==============================  ============
structure  vehicle                world and lidar                 processes
=========  =====================  ==============================  ============
``basic``  stands in              virtual                         one
``sil``    stands in              virtual                         each its own
``hil``    real                   virtual                         each its own
``target`` real                   real                            each its own
=========  =====================  ==============================  ============

``launch/hil.launch.py`` turns it into launch actions, ``quadsim rehearse --dds`` into processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from quadsim.bag.origin import surroundings
from quadsim.bag.profiles import Recording
from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world
from quadsim.base.options import option
from quadsim.base.parameters import flatten, load
from quadsim.drivers.driver import Driver, DriverTopic
from quadsim.hil.guard.gate import CommandGateParams
from quadsim.hil.guard.parameters import STAND_IN as STAND_IN_BRAKES
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.planner.parameters import PlannerParams
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.ros.graph.driver_choice import Drivers, choose, definite
from quadsim.ros.graph.graph import NodeSpec, prefixed
from quadsim.ros.graph.options import FirmwareSource, Record, bag_of
from quadsim.sensors.devices import load_device
from quadsim.vehicle.parameters import VehicleParams
from quadsim.wire.px4 import PACKAGE
from quadsim.wire.standard import ODOMETRY
from quadsim.world.sdf.world_file import load_world

#: What goes with a velocity and carries none.
BESIDE_VELOCITY = "/OffboardControlMode"
POSE_STAMPED = "geometry_msgs/msg/PoseStamped"
#: Executables of the graph beside those of every graph.
NODES = ("driver", "planner", "guard", "monitor", "stand_in")
#: Where the vehicle stands in for a real one.
STANDS_IN = ("basic", "sil")
#: Namespace of the vehicle for our nodes, and of the stand-in.
VEHICLE, STAND_IN = "/quad", "/stand_in"
#: What the autopilot itself estimates.
AUTOPILOT = "odometry/autopilot"
#: Our topics that can say where the vehicle is, the likeliest first, and their types.
POSES = {
    AUTOPILOT: ODOMETRY,
    "external/odom": ODOMETRY,
    "external/pose_stamped": POSE_STAMPED,
    "ground_truth/odom": ODOMETRY,
}
#: What goes to the vehicle.
COMMAND = "command_velocity/safe"
#: Whether the vehicle obeys it.
OFFBOARD_STATE = "vehicle/offboard_state"
#: Our topics of a real lidar.
SCANS = ("scan", "points")


@dataclass(frozen=True)
class HilOptions:
    """What is real, and how it is flown: arguments of ``hil.launch.py``.

    Attributes:
        apparitions: topics (Odometry) of things that the virtual sensors alone see, and that need
            not be there from the beginning; their sizes stand behind those of the others.
    """

    structure: str = option("hil", "what is real", choices=("basic", "sil", "hil", "target"))
    drivers: str = option(
        "", "of the vehicle: files of config/drivers, with commas; needed in hil, target"
    )
    driver_namespace: str = option("/", "what stands before the drivers' topics: /uav1", unset="/")
    pose: str = option(
        "", "our topic that says where it is", unset="the first that the drivers give"
    )
    relay: bool = option(False, "the pose goes into the vehicle's own estimator too")
    pose_frame: str = option("map", "the frame that poses name; it must be z up")
    world: str = option("flat", "the virtual world: a file of worlds, or a path")
    lidar: str = option(
        "virtual_lidar",
        "a file of config/sensors, or a path; target: of the real one, for its place",
        unset="none",
    )
    lidar_position: tuple[float, float, float] | None = option(
        None, "of the lidar in base_link, x,y,z", "m", unset="as its file says"
    )
    lidar_rotation: tuple[float, float, float] | None = option(
        None, "its roll,pitch,yaw", "deg", unset="as its file says"
    )
    level: bool = option(True, "the virtual lidar stays level")
    rangefinder: str = option(
        "", "a virtual range finder: a file of config/sensors, or a path", unset="none"
    )
    guard: str = option(
        "default",
        "a file of config/guards, or a path; hil, target: one with the vehicle's own brakes",
    )
    planner: str = option("default", "a file of config/planners, or a path", unset="none of ours")
    vehicle: str = option(
        "", "for robot_description: a file of config/vehicles, or a path", unset="none"
    )
    dead_man_button: int = option(
        -1, "which of joy's buttons; -1: the topic dead_man (Bool) instead"
    )
    others: tuple[str, ...] = option((), "topics (Odometry) of other vehicles, with commas")
    others_pose: tuple[str, ...] = option((), "topics (PoseStamped) of other vehicles, with commas")
    others_radius: tuple[float, ...] = option(
        (0.4,), "of other vehicles, one for all or one for each", "m"
    )
    others_height: tuple[float, ...] = option(
        (0.4,), "of other vehicles, one for all or one for each", "m"
    )
    rehearsal: str = option(
        "pillars", "basic, sil: the vehicle that stands in, a file of config/rehearsals"
    )
    seed: int = option(1, "basic, sil: of vehicle, link and noise")
    firmware: FirmwareSource = field(default_factory=FirmwareSource)
    record: Record = "true"
    recording: Recording = field(default_factory=Recording)
    apparitions: tuple[str, ...] = ()

    def describe(self) -> list[NodeSpec]:
        """The nodes; of ``basic`` all in one process."""
        specs = describe_hil(self)
        return [composed(specs)] if self.structure == "basic" else specs


@dataclass(frozen=True)
class _Vehicle:
    """How the vehicle is heard and told.

    Attributes:
        chain: its drivers.
        namespace: before their topics.
        drivers: who gives what.
        pose: our topic of its pose.
    """

    chain: str
    namespace: str
    drivers: Drivers
    pose: str

    @property
    def pose_type(self) -> str:
        """What the pose comes as."""
        return "pose" if POSES[self.pose] == POSE_STAMPED else "odometry"

    def _said(self, ours: str) -> tuple[Driver, list[DriverTopic]]:
        """The driver that gives one of our topics, and what its file says of that."""
        name = next(name for name, given in self.drivers.passed if given == ours)
        driver = self.drivers.entry(name).driver
        return driver, [topic for topic in driver.topics if topic.ours == ours]

    def source_of(self, ours: str) -> str:
        """``NAME TYPE`` of the driver's topic of one of ours; empty: found when it is there."""
        driver, known = self._said(ours)
        full = definite(driver, known, self.namespace)
        return f"{full} {known[0].type}" if full else ""

    def heard_of(self, ours: str) -> str:
        """Where one of our topics is heard: at the driver where nothing is to be converted."""
        _, known = self._said(ours)
        source = self.source_of(ours)
        return source.partition(" ")[0] if known[0].as_it_is and source else ours

    @property
    def heard(self) -> str:
        """Where the pose is heard."""
        return self.heard_of(self.pose)

    @property
    def autopilot(self) -> str:
        """Whether the autopilot's own odometry is the pose, or there beside it, or not there."""
        if self.pose == AUTOPILOT:
            return "own"
        return "beside" if self.drivers.gives(AUTOPILOT) else "none"

    @property
    def timed(self) -> str:
        """``NAME TYPE`` of the poses that setpoints answer: with our stamps, nearest the driver."""
        source = self.source_of(self.pose)
        if source and not source.partition(" ")[2].startswith(PACKAGE):
            return source
        return f"{VEHICLE}/{self.pose} {POSES[self.pose]}"

    @property
    def told(self) -> list[str]:
        """``NAME TYPE`` of each of the driver's topics that a velocity goes to."""
        before = self.namespace.rstrip("/")
        for entry in self.drivers.entries:
            found = []
            for command in entry.driver.commands_of(COMMAND):
                full = entry.driver.full_name(command.name)
                absolute = full if full.startswith("/") else f"{before}/{full}"
                found.append(f"{absolute} {command.type}")
            if found:
                return found
        return []

    @property
    def setpoint(self) -> str:
        """The one of these that carries the velocity."""
        return next((text for text in self.told if not text.endswith(BESIDE_VELOCITY)), "")


def _vehicle_of(options: HilOptions) -> _Vehicle:
    """The drivers, and which of their topics says where the vehicle is.

    Raises:
        InputError: no drivers, none that says a pose, or none that takes commands.
    """
    chain, namespace = options.drivers, options.driver_namespace or "/"
    if options.structure in STANDS_IN:
        if chain:
            raise InputError(
                f"drivers: {chain!r} with structure {options.structure}, whose vehicle stands in;"
                " allowed: none, or structure hil"
            )
        chain, namespace = "stand_in", STAND_IN
    if not chain:
        raise InputError(
            f"drivers: none with structure {options.structure}; give those of the vehicle, such as"
            " mavros or px4,mocap"
        )
    drivers = choose(chain, ())
    given = [pose for pose in POSES if drivers.gives(pose)]
    pose = options.pose or next(iter(given), "")
    if pose not in given:
        there = ", ".join(given) or "none"
        raise InputError(
            f"pose: {options.pose or 'none'} from drivers {chain}; what they give of"
            f" {', '.join(POSES)}: {there}{_remedy(options.pose, drivers)}"
        )
    vehicle = _Vehicle(chain, namespace, drivers, pose)
    if not vehicle.setpoint:
        raise InputError(f"drivers: {chain}: none of them takes {COMMAND}")
    return vehicle


def _refuse_others_brakes(options: HilOptions, guard: GuardParams) -> None:
    """A real vehicle flies by brakes and latency of its own.

    Raises:
        InputError: they are those of the stand-in.
    """
    known = guard.vehicle.measured_on.strip()
    if options.structure in STANDS_IN or known not in ("", STAND_IN_BRAKES):
        return
    whose = f"those of {known}" if known else "of no flight"
    raise InputError(
        f"guard: its brake_mps2 and latency_s are {whose}, and structure {options.structure} flies"
        " a real vehicle; measure them with 'quadsim identify --brakes BAG', or say in a file of"
        " your own, by vehicle.measured_on, how they are known (docs/hil.md)"
    )


def _remedy(pose: str, drivers: Drivers) -> str:
    """The chain in which a driver gives a pose that it has in several forms; empty: none does."""
    entries = drivers.entries
    for entry in entries:
        if pose in {topic.ours for topic in entry.topics}:
            texts = [f"{entry.name}:{pose}" if e is entry else e.text for e in entries]
            return f"; for {pose}: drivers:={','.join(texts)}"
    return ""


def _others(options: HilOptions, seen: bool = False) -> dict[str, Any]:
    """Parameters of whoever has to know of other vehicles.

    Args:
        options: how it is flown.
        seen: whether those count too that are only seen.
    """
    odometry = (*options.others, *(options.apparitions if seen else ()))
    topics = {"others.odometry": odometry, "others.pose": options.others_pose}
    given: dict[str, Any] = {name: list(names) for name, names in topics.items() if names}
    if not given:
        return {}
    count = len(odometry) + len(options.others_pose)  # one number may be for all
    return given | {
        "others.radius_m": list(options.others_radius[:count]),
        "others.height_m": list(options.others_height[:count]),
    }


def _seeing(kind: str, device: str, options: HilOptions, vehicle: _Vehicle) -> NodeSpec:
    """A virtual sensor that rides on the vehicle."""
    params = _lidar(options) if kind == "lidar" else load_device(kind, device)
    return NodeSpec(
        kind,
        VEHICLE,
        {
            "device": device,
            **prefixed(params),
            "world": options.world,
            "seed": options.seed,
            "pose_type": vehicle.pose_type,
            "odometry_reliable": False,
            "frames.pose": options.pose_frame,
            "level": options.level and kind == "lidar",
            **_others(options, seen=True),
        },
        (("ground_truth/odom", vehicle.heard), ("external/pose_stamped", vehicle.heard)),
    )


def _lidar(options: HilOptions) -> Any:
    """Parameters of the lidar, virtual or real, where it is mounted."""
    place = {"position_B_m": options.lidar_position, "rotation_deg": options.lidar_rotation}
    keys = {key: list(numbers) for key, numbers in place.items() if numbers is not None}
    return load_device("lidar", options.lidar or "virtual_lidar", keys, "lidar")


def _riding(options: HilOptions, vehicle: _Vehicle, guard: GuardParams) -> dict[str, Any]:
    """Parameters of whoever flies by the vehicle's pose, and places a lidar's messages."""
    lidar = _lidar(options)
    given: dict[str, Any] = {
        "pose_type": vehicle.pose_type,
        "frames.pose": options.pose_frame,
        "use_sim_time": False,
        "lidar.position_B_m": list(lidar.position_B_m),
        "lidar.rotation_deg": list(lidar.rotation_deg),
        **_others(options),
    }
    if options.structure == "target" and options.vehicle:  # a real lidar sees its own vehicle
        hull_m = hull_radius_m(load(VehicleParams, find("vehicles", options.vehicle)))
        given["lidar.self_radius_m"] = min(hull_m, guard.vehicle.radius_m)
        given["lidar.self_half_height_m"] = guard.vehicle.half_height_m
    return given


def _relay(options: HilOptions, vehicle: _Vehicle) -> str:
    """As what the pose is relayed; empty: it is not.

    Raises:
        InputError: it is the autopilot's own, or no driver takes poses.
    """
    if not options.relay:
        return ""
    if vehicle.pose == AUTOPILOT:
        raise InputError(
            f"relay: the pose is {AUTOPILOT}, the autopilot's own; allowed: a pose of somebody"
            " else, such as pose:=external/pose_stamped"
        )
    if not any(entry.driver.relays for entry in vehicle.drivers.entries):
        raise InputError(f"relay: drivers {vehicle.chain}: none of them takes poses")
    return vehicle.pose_type


def _driver(options: HilOptions, vehicle: _Vehicle, guard: GuardParams) -> NodeSpec:
    """The driver gives the pose, if it is to be converted or found, and sends commands.

    It says whether the vehicle obeys them, too, where its file knows that.

    In ``target`` it gives what the vehicle sees as well.
    """
    wanted = [vehicle.pose] if vehicle.heard == vehicle.pose else []
    if vehicle.autopilot == "beside" and vehicle.heard_of(AUTOPILOT) == AUTOPILOT:
        wanted.append(AUTOPILOT)
    wanted += [OFFBOARD_STATE] if vehicle.drivers.gives(OFFBOARD_STATE) else []
    if options.structure == "target":
        wanted += [name for name in (*SCANS, "range/down") if vehicle.drivers.gives(name)]
    relay = _relay(options, vehicle)
    source = {"pose": "external/pose_stamped", "odometry": "external/odom"}.get(relay, "")
    return NodeSpec(
        "driver",
        VEHICLE,
        {
            "drivers": vehicle.chain,
            "topics": " ".join(wanted),
            "driver_namespace": vehicle.namespace,
            "alone": True,
            "send": True,
            "relay": relay,
            **prefixed(CommandGateParams(guard.limits, guard.watch)),
        },
        ((source, vehicle.heard),) if source not in ("", vehicle.heard) else (),
    )


def describe_hil(options: HilOptions) -> list[NodeSpec]:
    """Nodes of a flight among virtual obstacles, the recorder last.

    Raises:
        InputError: naming the option and what is allowed.
    """
    vehicle = _vehicle_of(options)
    guard = load(GuardParams, find("guards", options.guard))
    planner = load(PlannerParams, find("planners", options.planner)) if options.planner else None
    _refuse_others_brakes(options, guard)
    virtual = options.structure != "target"
    if virtual:
        load_world(find_world(options.world))  # what is wrong with it is said here, in one line
    nodes = []
    if options.structure in STANDS_IN:
        given = {"rehearsal": options.rehearsal, "seed": options.seed, "world": options.world}
        nodes.append(NodeSpec("stand_in", STAND_IN, given | asdict(options.firmware)))
    nodes.append(_driver(options, vehicle, guard))
    for kind, device in (("lidar", options.lidar), ("rangefinder", options.rangefinder)):
        if virtual and device:
            nodes.append(_seeing(kind, device, options, vehicle))
    riding = _riding(options, vehicle, guard)
    remappings = (("odometry/filtered", vehicle.heard), ("external/pose_stamped", vehicle.heard))
    if planner is not None:
        nodes.append(NodeSpec("planner", VEHICLE, prefixed(planner) | riding, remappings))
    own = {"dead_man.button": options.dead_man_button, "autopilot.odometry": vehicle.autopilot}
    others = [(AUTOPILOT, vehicle.heard_of(AUTOPILOT))] if vehicle.autopilot == "beside" else []
    nodes.append(NodeSpec("guard", VEHICLE, prefixed(guard) | own | riding, (*remappings, *others)))
    shown = {
        "pose": vehicle.timed,
        "setpoint": vehicle.setpoint,
        "world": options.world if virtual else "",
    }
    nodes.append(NodeSpec("monitor", VEHICLE, riding | shown, remappings))
    if options.vehicle:
        find("vehicles", options.vehicle)
        nodes.append(NodeSpec("description", VEHICLE, {"vehicle": options.vehicle}))
    if bag_of(options.record) is not None:
        facts = {
            "guard": json.dumps(flatten(guard)),
            "planner": json.dumps(flatten(planner)) if planner else "",
        }
        nodes.append(_recorder(options, vehicle, nodes, facts))
    return nodes


def _recorder(
    options: HilOptions, vehicle: _Vehicle, nodes: Sequence[NodeSpec], facts: Mapping[str, str]
) -> NodeSpec:
    """All of ours, and what the driver itself was told and said."""
    truth = f"{STAND_IN}/ground_truth/odom {ODOMETRY}"
    also = [
        f"{VEHICLE}/{vehicle.pose} {POSES[vehicle.pose]}" if vehicle.heard == vehicle.pose else "",
        vehicle.source_of(vehicle.pose),
        *vehicle.told,
        *(f"{name} {ODOMETRY}" for name in (*options.others, *options.apparitions)),
        *(f"{name} {POSE_STAMPED}" for name in options.others_pose),
        truth if options.structure in STANDS_IN else "",
    ]
    flown = {
        "structure": options.structure,
        "drivers": vehicle.chain,
        "pose": vehicle.heard if vehicle.heard != vehicle.pose else f"{VEHICLE}/{vehicle.pose}",
        "world": options.world,
    }
    executables = sorted({node.executable for node in nodes if node.namespace == VEHICLE})
    return NodeSpec(
        "recorder",
        "/",
        {
            "output": bag_of(options.record) or "",
            **flatten(options.recording),
            "metadata": json.dumps(surroundings() | flown | dict(facts)),
            "nodes": " ".join([*executables, "recorder"]),
            "also": [text for text in also if text],
        },
    )


def composed(specs: Sequence[NodeSpec]) -> NodeSpec:
    """One process that holds all of these nodes."""
    return NodeSpec("composed", "/", {"nodes": json.dumps([asdict(spec) for spec in specs])})
