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
from quadsim.hil.guard.gate import CommandGateParams
from quadsim.hil.guard.parameters import STAND_IN as STAND_IN_BRAKES
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.guard.setpoints import KINDS, POSITION
from quadsim.hil.planner.parameters import PlannerParams
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.ros.graph.gazebo_graph import DRAWN, view_bridges
from quadsim.ros.graph.graph import NodeSpec, prefixed
from quadsim.ros.graph.hil_vehicle import (
    AUTOPILOT,
    OFFBOARD_STATE,
    POSE_STAMPED,
    POSES,
    SETPOINTS,
    HilVehicle,
    hil_vehicle,
    refuse_shared,
)
from quadsim.ros.graph.options import FirmwareSource, Record, bag_of
from quadsim.ros.graph.vehicles import vehicle_namespaces
from quadsim.sensors.devices import load_device
from quadsim.vehicle.parameters import VehicleParams
from quadsim.wire.standard import ODOMETRY
from quadsim.world.sdf.world_file import load_world

#: Executables of the graph beside those of every graph.
NODES = ("driver", "planner", "guard", "monitor", "stand_in")
#: Where the vehicle stands in for a real one.
STANDS_IN = ("basic", "sil")
#: Namespace of the vehicle for our nodes, and of the stand-in.
VEHICLE, STAND_IN = "/quad", "/stand_in"
#: Of several vehicles one person holds the button for all.
ONE_BUTTON = (("joy", "/joy"), ("dead_man", "/dead_man"))
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
    vehicles: int = option(1, "hil, target: /quad1, /quad2, ...", ge=1, le=50)
    driver_namespace: str = option(
        "/",
        "what stands before the drivers' topics: /uav1; of several one each",
        unset="/; of several /quad1, ...",
    )
    origins: tuple[float, ...] = option(
        (),
        "of each vehicle's own map in ours: x,y,z of one after the other",
        "m",
        unset="all have one map",
    )
    pose: str = option(
        "", "our topic that says where it is", unset="the first that the drivers give"
    )
    relay: bool = option(False, "the pose goes into the vehicle's own estimator too")
    setpoints: tuple[str, ...] = option(
        (),
        "what the guard takes beside velocities, with commas: position, attitude, rates",
        unset="none",
    )
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
        "a file of config/guards, or a path; hil, target: one with the vehicle's own brakes; of"
        " several vehicles one for all or one each, with commas",
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
    lent: tuple[str, ...] = option(
        (), "what Gazebo lends, with commas: lidar, camera", unset="none"
    )
    record: Record = "true"
    recording: Recording = field(default_factory=Recording)
    apparitions: tuple[str, ...] = ()

    def describe(self) -> list[NodeSpec]:
        """The nodes; of ``basic`` all in one process."""
        specs = describe_hil(self)
        return [composed(specs)] if self.structure == "basic" else specs


def _vehicles(options: HilOptions) -> list[HilVehicle]:
    """The vehicles with their drivers.

    Raises:
        InputError: no drivers, or numbers that do not fit each other.
    """
    chain, count, structure = options.drivers, options.vehicles, options.structure
    if structure in STANDS_IN:
        if chain or count > 1:
            given = f"drivers: {chain!r}" if chain else f"vehicles: {count}"
            raise InputError(
                f"{given} with structure {structure}, whose vehicle stands in; allowed: none"
                " and one, or structure hil"
            )
        stands_in = hil_vehicle(VEHICLE, "stand_in", STAND_IN, options.pose, (0.0, 0.0, 0.0))
        _refuse_setpoints(options, stands_in)
        if {*options.setpoints} - {POSITION} and not options.firmware.firmware:
            raise InputError("setpoints: the stand-in has attitudes and rates with firmware alone")
        return [stands_in]
    if not chain:
        raise InputError(
            f"drivers: none with structure {structure}; give those of the vehicle, such as"
            " mavros or px4,mocap"
        )
    names = vehicle_namespaces(count)
    places = (options.driver_namespace or "/").split(",")
    places = names if places == ["/"] and count > 1 else places
    origins = options.origins or (0.0,) * 3 * count
    for what, found, needed in (
        ("driver_namespace", len(places), count),
        ("origins", len(origins), 3 * count),
    ):
        if found != needed:
            raise InputError(f"{what}: {found} given; allowed: {needed}, for {count} vehicles")
    vehicles = [
        hil_vehicle(name, chain, place.strip() or "/", options.pose, origins[3 * k : 3 * k + 3])
        for k, (name, place) in enumerate(zip(names, places, strict=True))
    ]
    _refuse_setpoints(options, vehicles[0])
    refuse_shared(vehicles)
    return vehicles


def _refuse_setpoints(options: HilOptions, vehicle: HilVehicle) -> None:
    """Refuse setpoints that the vehicle cannot be told.

    Raises:
        InputError: an unknown kind, or no driver takes it.
    """
    for kind in options.setpoints:
        if kind not in KINDS:
            raise InputError(f"setpoints: {kind!r}; allowed: {', '.join(KINDS)}")
        if kind != POSITION and not vehicle.takes(SETPOINTS[kind]):
            raise InputError(
                f"setpoints: drivers {vehicle.chain}: none of them takes {SETPOINTS[kind]}"
            )


def _guards(options: HilOptions) -> list[GuardParams]:
    """The guard's file of each vehicle.

    Raises:
        InputError: of a file, or their number.
    """
    names = [name.strip() for name in options.guard.split(",")]
    if len(names) not in (1, options.vehicles):
        raise InputError(
            f"guard: {len(names)} files; allowed: 1, or one each of {options.vehicles} vehicles"
        )
    guards = [load(GuardParams, find("guards", name)) for name in names]
    for guard in guards:
        _refuse_others_brakes(options, guard)
    return guards * options.vehicles if len(guards) == 1 else guards


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


def _seeing(kind: str, device: str, options: HilOptions, vehicle: HilVehicle) -> NodeSpec:
    """A virtual sensor that rides on the vehicle."""
    params = _lidar(options) if kind == "lidar" else load_device(kind, device)
    return NodeSpec(
        kind,
        vehicle.name,
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


def _riding(options: HilOptions, vehicle: HilVehicle, guard: GuardParams) -> dict[str, Any]:
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


def _relay(options: HilOptions, vehicle: HilVehicle) -> str:
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


def _driver(options: HilOptions, vehicle: HilVehicle, guard: GuardParams, alone: bool) -> NodeSpec:
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
        vehicle.name,
        {
            "drivers": vehicle.chain,
            "topics": " ".join(wanted),
            "driver_namespace": vehicle.namespace,
            "alone": alone,
            "send": True,
            "relay": relay,
            **_thrust(options),
            **({"origin_W_m": list(vehicle.origin_W)} if any(vehicle.origin_W) else {}),
            **prefixed(CommandGateParams(guard.limits, guard.watch)),
        },
        ((source, vehicle.heard),) if source not in ("", vehicle.heard) else (),
    )


def _thrust(options: HilOptions) -> dict[str, Any]:
    """Which setpoints go out to the vehicle as they are."""
    kinds = [kind for kind in options.setpoints if kind != POSITION]
    return {"setpoints": kinds} if kinds else {}


def describe_hil(options: HilOptions) -> list[NodeSpec]:
    """Nodes of a flight among virtual obstacles, the recorder last.

    Raises:
        InputError: naming the option and what is allowed.
    """
    vehicles, guards = _vehicles(options), _guards(options)
    planner = load(PlannerParams, find("planners", options.planner)) if options.planner else None
    if options.structure != "target":
        load_world(find_world(options.world))  # what is wrong with it is said here, in one line
    nodes = []
    if options.structure in STANDS_IN:
        given = {"rehearsal": options.rehearsal, "seed": options.seed, "world": options.world}
        nodes.append(NodeSpec("stand_in", STAND_IN, given | asdict(options.firmware)))
    known = list(zip(vehicles, guards, strict=True))
    for vehicle, guard in known:
        others = [one for one in known if one[0] is not vehicle]
        nodes += _of_vehicle(options, vehicle, guard, planner, others)
    nodes += _shown_by_gazebo(options, vehicles)
    if bag_of(options.record) is not None:
        facts = {
            "guard": json.dumps(flatten(guards[0])),
            "planner": json.dumps(flatten(planner)) if planner else "",
        }
        nodes.append(_recorder(options, vehicles, nodes, facts))
    return nodes


def _of_vehicle(
    options: HilOptions,
    vehicle: HilVehicle,
    guard: GuardParams,
    planner: PlannerParams | None,
    others: Sequence[tuple[HilVehicle, GuardParams]],
) -> list[NodeSpec]:
    """The nodes of one vehicle, which keeps apart from others with guards of their own."""
    name, virtual = vehicle.name, options.structure != "target"
    nodes = [_driver(options, vehicle, guard, alone=not others)]
    for kind, device in (("lidar", options.lidar), ("rangefinder", options.rangefinder)):
        if virtual and device and kind not in options.lent:
            nodes.append(_seeing(kind, device, options, vehicle))
    riding = _riding(options, vehicle, guard)
    remappings = (("odometry/filtered", vehicle.heard), ("external/pose_stamped", vehicle.heard))
    if planner is not None:
        nodes.append(NodeSpec("planner", name, prefixed(planner) | riding, remappings))
    own: dict[str, Any] = {
        "dead_man.button": options.dead_man_button,
        "autopilot.odometry": vehicle.autopilot,
    }
    if options.setpoints:
        own["setpoints"] = list(options.setpoints)
    if others:
        own["neighbours.names"] = [other.name.strip("/") for other, _ in others]
        own["neighbours.keep_out_m"] = [theirs.keep_out_m for _, theirs in others]
    heard = (
        *remappings,
        *([(AUTOPILOT, vehicle.heard_of(AUTOPILOT))] if vehicle.autopilot == "beside" else []),
        *(ONE_BUTTON if others else ()),
    )
    nodes.append(NodeSpec("guard", name, prefixed(guard) | own | riding, heard))
    shown = {
        "pose": vehicle.timed,
        "setpoint": vehicle.setpoint,
        "world": options.world if virtual else "",
    }
    nodes.append(NodeSpec("monitor", name, riding | shown, remappings))
    if options.vehicle:
        find("vehicles", options.vehicle)
        nodes.append(NodeSpec("description", name, {"vehicle": options.vehicle}))
    return nodes


def _shown_by_gazebo(options: HilOptions, vehicles: Sequence[HilVehicle]) -> list[NodeSpec]:
    """What shows the vehicles in Gazebo, which lends them camera and lidar.

    Raises:
        InputError: of ``lent``, or the pose is no odometry.
    """
    if not options.lent:
        return []
    for what in options.lent:
        if what not in DRAWN or options.structure == "target":
            allowed = "none" if options.structure == "target" else ", ".join(DRAWN)
            raise InputError(
                f"lent: {what!r} with structure {options.structure}; allowed: {allowed}"
            )
    pose = vehicles[0].pose
    if POSES[pose] == POSE_STAMPED:
        raise InputError(f"lent: the pose {pose} is no odometry; allowed: a pose:= that is one")
    world = load_world(find_world(options.world)).name
    lidar = "scan" if getattr(_lidar(options), "channels", 1) == 1 else "points"
    given = {
        "world": world,
        "lent": [lidar if kind == "lidar" else kind for kind in options.lent],
        "odometry_reliable": False,
    }
    names = [vehicle.name for vehicle in vehicles]
    return [
        *view_bridges(world, names, find("bridge", "view")),
        *(
            NodeSpec("gazebo_view", vehicle.name, given, (("ground_truth/odom", vehicle.heard),))
            for vehicle in vehicles
        ),
    ]


def _recorder(
    options: HilOptions,
    vehicles: Sequence[HilVehicle],
    nodes: Sequence[NodeSpec],
    facts: Mapping[str, str],
) -> NodeSpec:
    """All of ours, and what the drivers themselves were told and said."""
    truth = f"{STAND_IN}/ground_truth/odom {ODOMETRY}"
    also = [
        *(text for vehicle in vehicles for text in _recorded(vehicle)),
        *(f"{name} {ODOMETRY}" for name in (*options.others, *options.apparitions)),
        *(f"{name} {POSE_STAMPED}" for name in options.others_pose),
        truth if options.structure in STANDS_IN else "",
    ]
    first = vehicles[0]
    flown = {
        "structure": options.structure,
        "drivers": first.chain,
        "pose": first.heard if first.heard != first.pose else f"{first.name}/{first.pose}",
        "world": options.world,
    }
    executables = sorted(
        {
            node.executable
            for node in nodes
            if node.namespace == first.name and node.package == NodeSpec.package
        }
    )
    count = {"count": len(vehicles)} if len(vehicles) > 1 else {}
    return NodeSpec(
        "recorder",
        "/",
        {
            "output": bag_of(options.record) or "",
            **flatten(options.recording),
            "metadata": json.dumps(surroundings() | flown | dict(facts)),
            "nodes": " ".join([*executables, "recorder"]),
            "also": [text for text in also if text],
            **count,
        },
    )


def _recorded(vehicle: HilVehicle) -> list[str]:
    """``NAME TYPE`` of what one vehicle's driver said and was told."""
    ours = f"{vehicle.name}/{vehicle.pose} {POSES[vehicle.pose]}"
    return [
        ours if vehicle.heard == vehicle.pose else "",
        vehicle.source_of(vehicle.pose),
        *vehicle.told,
    ]


def composed(specs: Sequence[NodeSpec]) -> NodeSpec:
    """One process that holds all of these nodes."""
    return NodeSpec("composed", "/", {"nodes": json.dumps([asdict(spec) for spec in specs])})
