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
from quadsim.base.parameters import flatten, from_mapping, load
from quadsim.drivers.driver import Driver, DriverTopic
from quadsim.hil.guard.gate import GateParams
from quadsim.hil.guard.parameters import STAND_IN as STAND_IN_BRAKES
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.planner.planner import PlannerParams
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.ros.graph.driver_choice import Drivers, choose, definite
from quadsim.ros.graph.graph import NodeSpec, as_flag, as_names, as_number, prefixed
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
STRUCTURES = ("basic", "sil", "hil", "target")
#: Where the vehicle stands in for a real one.
STANDS_IN = ("basic", "sil")
#: Namespace of the vehicle for our nodes, and of the stand-in.
VEHICLE, STAND_IN = "/quad", "/stand_in"
#: What the autopilot itself estimates.
AUTOPILOT = "odometry/autopilot"
#: Our topics that can say where the vehicle is, the likeliest first, and as what.
POSES = {
    AUTOPILOT: "odometry",
    "external/odom": "odometry",
    "external/pose_stamped": "pose",
    "ground_truth/odom": "odometry",
}
#: What goes to the vehicle.
COMMAND = "command_velocity/safe"
#: Whether the vehicle obeys it.
OFFBOARD_STATE = "vehicle/offboard_state"
#: Our topics of a real lidar.
SCANS = ("scan", "points")

#: Arguments of ``hil.launch.py``: default and meaning.
HIL_ARGUMENTS = {
    "structure": ("hil", "basic, sil, hil or target: what is real"),
    "drivers": ("", "of the vehicle: files of config/drivers, with commas; needed in hil, target"),
    "driver_namespace": ("/", "what stands before the drivers' topics: /uav1"),
    "pose": ("", "our topic that says where it is; empty: the first that the drivers give"),
    "relay": ("false", "whether the pose goes into the vehicle's own estimator too"),
    "pose_frame": ("map", "the frame that poses name; it must be z up"),
    "world": ("flat", "the virtual world: a file of worlds, or a path"),
    "lidar": (
        "virtual_lidar",
        "a file of config/sensors, or a path; empty: none; target: of the real one, for its place",
    ),
    "lidar_position": ("", "of the lidar in base_link, x,y,z in m; empty: as its file says"),
    "lidar_rotation": ("", "its roll,pitch,yaw in deg; empty: as its file says"),
    "level": ("true", "the virtual lidar stays level"),
    "rangefinder": ("", "a virtual range finder: a file of config/sensors, or a path"),
    "guard": (
        "default",
        "a file of config/guards, or a path; hil, target: one with the vehicle's own brakes",
    ),
    "planner": (
        "default",
        "a file of config/planners, or a path; empty: none of ours",
    ),
    "vehicle": ("", "for robot_description: a file of config/vehicles; empty: none"),
    "dead_man_button": ("-1", "which of joy's buttons; -1: the topic dead_man (Bool) instead"),
    "others": ("", "topics (Odometry) of other vehicles, with commas"),
    "others_pose": ("", "topics (PoseStamped) of other vehicles, with commas"),
    "others_radius": ("0.4", "of other vehicles, m"),
    "others_height": ("0.4", "of other vehicles, m"),
    "rehearsal": ("pillars", "basic, sil: the vehicle that stands in, a file of config/rehearsals"),
    "seed": ("1", "basic, sil: of vehicle, link and noise"),
    "record": ("true", "true, false, or the folder of the bag"),
    "record_profile": ("all", "a file of config/recording, or a path: topics of the bag"),
    "split_mb": ("0", "a new file of the bag at this size, MB; 0: never"),
}


@dataclass(frozen=True)
class HilOptions:
    """What is real, and how it is flown; see :data:`HIL_ARGUMENTS`.

    Attributes:
        structure: one of :data:`STRUCTURES`.
        drivers: chain of driver files.
        driver_namespace: before the drivers' topics.
        pose: our topic that says where the vehicle is; empty: the first that drivers give.
        relay: whether the pose goes into the vehicle's own estimator too.
        pose_frame: the frame of poses.
        world: the virtual one.
        lidar: device of the virtual one; empty: none. In ``target`` its place alone counts.
        lidar_keys: keys of it that differ from the device's file.
        level: whether it stays level.
        rangefinder: device of the virtual one; empty: none.
        guard: its parameters.
        dead_man_button: of the topic ``joy``; -1: the topic ``dead_man`` says it.
        planner: its parameters; None: somebody else publishes ``command_velocity``.
        vehicle: whose ``robot_description`` is published; empty: none.
        others: topics of other vehicles (Odometry).
        others_pose: topics of other vehicles (PoseStamped).
        others_radius_m: one for all, or one for each.
        others_height_m: likewise.
        apparitions: topics (Odometry) of things that the virtual sensors alone see, and that need
            not be there from the beginning; sizes behind those of the others.
        rehearsal: whose vehicle stands in.
        seed: of the stand-in.
        bag: folder; None records nothing, an empty text lets the recorder name it.
        recording: which topics, and how the bag lies on the disk.
    """

    structure: str = "hil"
    drivers: str = ""
    driver_namespace: str = "/"
    pose: str = ""
    relay: bool = False
    pose_frame: str = "map"
    world: str = "flat"
    lidar: str = "virtual_lidar"
    lidar_keys: Mapping[str, Any] = field(default_factory=dict)
    level: bool = True
    rangefinder: str = ""
    guard: GuardParams = field(default_factory=GuardParams)
    dead_man_button: int = -1
    planner: PlannerParams | None = field(default_factory=PlannerParams)
    vehicle: str = ""
    others: tuple[str, ...] = ()
    others_pose: tuple[str, ...] = ()
    others_radius_m: tuple[float, ...] = (0.4,)
    others_height_m: tuple[float, ...] = (0.4,)
    apparitions: tuple[str, ...] = ()
    rehearsal: str = "pillars"
    seed: int = 1
    bag: str | None = None
    recording: Recording = field(default_factory=Recording)


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
        return POSES[self.pose]

    @property
    def our_type(self) -> str:
        """Type of our topic of it."""
        return {"odometry": ODOMETRY, "pose": POSE_STAMPED}[self.pose_type]

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
    def source(self) -> str:
        """``NAME TYPE`` of the driver's topic of the pose; empty: found when it is there."""
        return self.source_of(self.pose)

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
        if self.source and not self.source.partition(" ")[2].startswith(PACKAGE):
            return self.source
        return f"{VEHICLE}/{self.pose} {self.our_type}"

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
    chain, namespace = options.drivers, options.driver_namespace
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


def _refuse_others_brakes(options: HilOptions) -> None:
    """A real vehicle flies by brakes and latency of its own.

    Raises:
        InputError: they are those of the stand-in.
    """
    known = options.guard.vehicle.measured_on.strip()
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
    count = len(odometry) + len(options.others_pose)
    return given | {
        "others.radius_m": _each(options.others_radius_m, count),
        "others.height_m": _each(options.others_height_m, count),
    }


def _each(numbers: Sequence[float], count: int) -> list[float]:
    """One number for all, or the first of those that are given one by one."""
    return list(numbers) if len(numbers) == 1 else list(numbers[:count])


def _seeing(kind: str, device: str, options: HilOptions, vehicle: _Vehicle) -> NodeSpec:
    """A virtual sensor that rides on the vehicle."""
    keys = options.lidar_keys if kind == "lidar" else {}
    params = load_device(kind, device, keys, kind)
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


def _mount(options: HilOptions) -> dict[str, Any]:
    """Parameters of whoever places a lidar's messages: its place, and the body that it sees."""
    device = options.lidar or "virtual_lidar"
    params: Any = load_device("lidar", device, options.lidar_keys, "lidar")
    mount: dict[str, Any] = {
        "lidar.position_B_m": list(params.position_B_m),
        "lidar.rotation_deg": list(params.rotation_deg),
    }
    if options.structure == "target" and options.vehicle:  # a real lidar sees its own vehicle
        hull_m = hull_radius_m(load(VehicleParams, find("vehicles", options.vehicle)))
        mount["lidar.self_radius_m"] = min(hull_m, options.guard.vehicle.radius_m)
        mount["lidar.self_half_height_m"] = options.guard.vehicle.half_height_m
    return mount


def _riding(options: HilOptions, vehicle: _Vehicle) -> dict[str, Any]:
    """Parameters of whoever flies by the vehicle's pose."""
    return {
        "pose_type": vehicle.pose_type,
        "frames.pose": options.pose_frame,
        "use_sim_time": False,
        **_mount(options),
    }


def _beside(vehicle: _Vehicle) -> tuple[tuple[str, str], ...]:
    """Where the guard hears the autopilot's own odometry beside the pose."""
    if vehicle.autopilot != "beside":
        return ()
    return ((AUTOPILOT, vehicle.heard_of(AUTOPILOT)),)


def _stand_in(options: HilOptions) -> NodeSpec:
    given = {"rehearsal": options.rehearsal, "seed": options.seed, "world": options.world}
    return NodeSpec("stand_in", STAND_IN, given)


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


def _driver(options: HilOptions, vehicle: _Vehicle) -> NodeSpec:
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
            **prefixed(GateParams(options.guard.limits, options.guard.watch)),
        },
        ((source, vehicle.heard),) if source not in ("", vehicle.heard) else (),
    )


def describe_hil(options: HilOptions) -> list[NodeSpec]:
    """Nodes of a flight among virtual obstacles, the recorder last.

    Raises:
        InputError: naming the option and what is allowed.
    """
    if options.structure not in STRUCTURES:
        raise InputError(f"structure: {options.structure!r}; allowed: {', '.join(STRUCTURES)}")
    vehicle = _vehicle_of(options)
    _refuse_others_brakes(options)
    virtual = options.structure != "target"
    if virtual:
        load_world(find_world(options.world))  # what is wrong with it is said here, in one line
    nodes = [_stand_in(options)] if options.structure in STANDS_IN else []
    nodes.append(_driver(options, vehicle))
    for kind, device in (("lidar", options.lidar), ("rangefinder", options.rangefinder)):
        if virtual and device:
            nodes.append(_seeing(kind, device, options, vehicle))
    riding, others = _riding(options, vehicle), _others(options)
    remappings = (("odometry/filtered", vehicle.heard), ("external/pose_stamped", vehicle.heard))
    if options.planner is not None:
        given = {**prefixed(options.planner), **riding, **others}
        nodes.append(NodeSpec("planner", VEHICLE, given, remappings))
    nodes.append(
        NodeSpec(
            "guard",
            VEHICLE,
            {
                **prefixed(options.guard),
                "dead_man.button": options.dead_man_button,
                "autopilot.odometry": vehicle.autopilot,
                **riding,
                **others,
            },
            (*remappings, *_beside(vehicle)),
        )
    )
    nodes.append(
        NodeSpec(
            "monitor",
            VEHICLE,
            {
                **riding,
                "pose": vehicle.timed,
                "setpoint": vehicle.setpoint,
                "world": options.world if virtual else "",
                **others,
            },
            remappings,
        )
    )
    if options.vehicle:
        find("vehicles", options.vehicle)
        nodes.append(NodeSpec("description", VEHICLE, {"vehicle": options.vehicle}))
    if options.bag is not None:
        nodes.append(_recorder(options, vehicle, nodes))
    return nodes


def _recorder(options: HilOptions, vehicle: _Vehicle, nodes: Sequence[NodeSpec]) -> NodeSpec:
    """All of ours, and what the driver itself was told and said."""
    truth = f"{STAND_IN}/ground_truth/odom {ODOMETRY}"
    also = [
        f"{VEHICLE}/{vehicle.pose} {vehicle.our_type}" if vehicle.heard == vehicle.pose else "",
        vehicle.source,
        *vehicle.told,
        *(f"{name} {ODOMETRY}" for name in (*options.others, *options.apparitions)),
        *(f"{name} {POSE_STAMPED}" for name in options.others_pose),
        truth if options.structure in STANDS_IN else "",
    ]
    facts = {
        "structure": options.structure,
        "drivers": vehicle.chain,
        "pose": vehicle.heard if vehicle.heard != vehicle.pose else f"{VEHICLE}/{vehicle.pose}",
        "world": options.world,
        "guard": json.dumps(flatten(options.guard)),
        "planner": json.dumps(flatten(options.planner)) if options.planner else "",
    }
    executables = sorted({node.executable for node in nodes if node.namespace == VEHICLE})
    return NodeSpec(
        "recorder",
        "/",
        {
            "output": options.bag or "",
            **flatten(options.recording),
            "metadata": json.dumps(surroundings() | facts),
            "nodes": " ".join([*executables, "recorder"]),
            "also": [text for text in also if text],
        },
    )


def composed(specs: Sequence[NodeSpec]) -> NodeSpec:
    """One process that holds all of these nodes."""
    return NodeSpec("composed", "/", {"nodes": json.dumps([asdict(spec) for spec in specs])})


def _three(name: str, text: str) -> list[float]:
    """Three numbers, of a launch argument."""
    numbers = [as_number(name, part, float) for part in as_names(text)]
    if len(numbers) != 3:
        raise InputError(
            f"launch argument {name}: {text!r}; allowed: three numbers with commas between"
        )
    return numbers


def describe_hil_launch(values: Mapping[str, str]) -> list[NodeSpec]:
    """Nodes for the texts that launch gives its arguments.

    Args:
        values: every name of :data:`HIL_ARGUMENTS`.

    Raises:
        InputError: naming the argument and what is allowed.
    """
    record = values["record"]
    planner = values["planner"]
    placed = {"position_B_m": "lidar_position", "rotation_deg": "lidar_rotation"}
    options = HilOptions(
        structure=values["structure"],
        drivers=values["drivers"],
        driver_namespace=values["driver_namespace"] or "/",
        pose=values["pose"],
        relay=as_flag("relay", values["relay"]),
        pose_frame=values["pose_frame"],
        world=values["world"],
        lidar=values["lidar"],
        lidar_keys={
            key: _three(name, values[name]) for key, name in placed.items() if values[name]
        },
        level=as_flag("level", values["level"]),
        rangefinder=values["rangefinder"],
        guard=load(GuardParams, find("guards", values["guard"])),
        dead_man_button=as_number("dead_man_button", values["dead_man_button"], int),
        planner=load(PlannerParams, find("planners", planner)) if planner else None,
        vehicle=values["vehicle"],
        others=as_names(values["others"]),
        others_pose=as_names(values["others_pose"]),
        others_radius_m=(as_number("others_radius", values["others_radius"], float),),
        others_height_m=(as_number("others_height", values["others_height"], float),),
        rehearsal=values["rehearsal"],
        seed=as_number("seed", values["seed"], int),
        bag={"true": "", "false": None}.get(record.lower(), record),
        recording=from_mapping(
            Recording,
            {
                "record_profile": values["record_profile"],
                "split_mb": as_number("split_mb", values["split_mb"], float),
            },
            "launch argument",
        ),
    )
    specs = describe_hil(options)
    return [composed(specs)] if options.structure == "basic" else specs
