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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from quadsim.bag.origin import surroundings
from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world
from quadsim.base.parameters import flatten, load
from quadsim.hil.guard.gate import CommandGateParams
from quadsim.hil.guard.reaches import growth_mps
from quadsim.hil.guard.setpoints import POSITION
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.ros.graph.gazebo_graph import DRAWN, view_bridges
from quadsim.ros.graph.graph import NodeSpec, prefixed
from quadsim.ros.graph.hil_options import STAND_IN, STANDS_IN, HilMember, HilOptions, hil_members
from quadsim.ros.graph.hil_vehicle import AUTOPILOT, OFFBOARD_STATE, POSE_STAMPED, POSES, HilVehicle
from quadsim.ros.graph.options import bag_of
from quadsim.ros.graph.vehicles import vehicle_namespaces
from quadsim.sensors.devices import load_device
from quadsim.vehicle.parameters import VehicleParams
from quadsim.wire.standard import ODOMETRY
from quadsim.world.sdf.world_file import load_world

#: Executables of the graph besides those of every graph.
NODES = ("driver", "planner", "guard", "monitor", "stand_in")
#: Of several vehicles one person holds the button for all.
ONE_BUTTON = (("joy", "/joy"), ("dead_man", "/dead_man"))
#: Devices whose measurements go into the vehicle's own estimator, and our topics of them.
LOANS = {
    "rangefinder": "range/down",
    "optical_flow": "flow/down",
    "visual_odometry": "odometry/visual",
}
#: Our topics of a real lidar and a real depth camera.
SCANS = ("scan", "points", "camera/depth/image_rect_raw", "camera/depth/camera_info")


class _Other(NamedTuple):
    """Another vehicle, as lidar, planner, guard and monitor know it: by its poses."""

    topic: str
    type: str
    radius_m: float
    height_m: float
    frame: str


def _configured(options: HilOptions, seen: bool) -> list[_Other]:
    """Other vehicles of the launch arguments; ``seen``: those too that are only seen."""
    named = [(name, ODOMETRY) for name in options.others]
    named += [(name, ODOMETRY) for name in options.apparitions if seen]
    named += [(name, POSE_STAMPED) for name in options.others_pose]
    sizes = []
    for key in ("others_radius", "others_height"):
        numbers = getattr(options, key)
        numbers = numbers * len(named) if len(numbers) == 1 else numbers
        if len(numbers) < len(named):
            raise InputError(f"{key}: {len(numbers)}; allowed: 1, or one each of {len(named)}")
        sizes.append(numbers)
    return [
        _Other(name, kind, radius_m, height_m, options.pose_frame)
        for (name, kind), radius_m, height_m in zip(named, *sizes, strict=False)
    ]


def _neighbour(member: HilMember) -> _Other:
    """A vehicle of this graph, as the others know it."""
    vehicle, body = member.vehicle, member.guard.vehicle
    size_m = body.radius_m, 2.0 * body.half_height_m
    frame = member.options.pose_frame
    return _Other(vehicle.pose_topic, POSES[vehicle.pose], *size_m, frame)


def _others(
    member: HilMember, neighbours: Sequence[HilMember] = (), seen: bool = False
) -> dict[str, Any]:
    """Parameters of whoever has to know of other vehicles.

    Args:
        neighbours: those with guards of their own; none for the guard, which knows their reach.
        seen: whether those count too that are only seen.
    """
    others = [*_configured(member.options, seen), *map(_neighbour, neighbours)]
    others.sort(key=lambda other: other.type != ODOMETRY)  # as the nodes count them
    given: dict[str, Any] = {
        f"others.{key}": [other.topic for other in others if other.type == kind]
        for key, kind in (("odometry", ODOMETRY), ("pose", POSE_STAMPED))
    } | {
        f"others.{key}": values[:1] if len(set(values)) == 1 else values
        for key in ("radius_m", "height_m", "frame")
        if (values := [getattr(other, key) for other in others])
    }
    if given.get("others.frame") == [member.options.pose_frame]:
        del given["others.frame"]
    return {name: values for name, values in given.items() if values}


def _seeing(kind: str, device: str, member: HilMember, neighbours: Sequence[HilMember]) -> NodeSpec:
    """A virtual sensor that rides on the vehicle."""
    options, vehicle = member.options, member.vehicle
    placed = {"lidar": _lidar, "depth_camera": _camera}
    params = placed[kind](options) if kind in placed else load_device(kind, device)
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
            **_others(member, neighbours, seen=True),
        },
        (("ground_truth/odom", vehicle.heard), ("external/pose_stamped", vehicle.heard)),
    )


def _placed(kind: str, device: str, position: Any, rotation: Any) -> Any:
    """Parameters of a device where it is mounted."""
    place = {"position_B_m": position, "rotation_deg": rotation}
    keys = {key: list(numbers) for key, numbers in place.items() if numbers is not None}
    return load_device(kind, device, keys, kind)


def _lidar(options: HilOptions) -> Any:
    """Parameters of the lidar, virtual or real."""
    device = options.lidar or "virtual_lidar"
    return _placed("lidar", device, options.lidar_position, options.lidar_rotation)


def _camera(options: HilOptions) -> Any:
    """Parameters of the depth camera, virtual or real."""
    place = options.camera_position, options.camera_rotation
    return _placed("depth_camera", options.depth_camera, *place)


def _riding(member: HilMember) -> dict[str, Any]:
    """Parameters of whoever flies by the vehicle's pose, and places a lidar's messages."""
    options, vehicle, guard = member.options, member.vehicle, member.guard
    lidar = _lidar(options)
    given: dict[str, Any] = {
        "pose_type": vehicle.pose_type,
        "frames.pose": options.pose_frame,
        "use_sim_time": False,
        "lidar.position_B_m": list(lidar.position_B_m),
        "lidar.rotation_deg": list(lidar.rotation_deg),
    }
    if options.depth_camera:
        camera = _camera(options)
        given["camera.position_B_m"] = list(camera.position_B_m)
        given["camera.rotation_deg"] = list(camera.rotation_deg)
        given["camera.range_m"] = min(camera.range_max_m, guard.sight.range_m)
    elif options.camera_position is not None or options.camera_rotation is not None:
        raise InputError("camera_position, camera_rotation: there is no depth_camera; give one")
    if options.structure == "target" and options.vehicle:  # a real lidar sees its own vehicle
        hull_m = hull_radius_m(load(VehicleParams, find("vehicles", options.vehicle)))
        given["lidar.self_radius_m"] = min(hull_m, guard.vehicle.radius_m)
        given["lidar.self_half_height_m"] = guard.vehicle.half_height_m
    return given


def _relay(options: HilOptions, vehicle: HilVehicle) -> str:
    """As what the pose is relayed; empty: it is not."""
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


def _driver(member: HilMember, alone: bool) -> NodeSpec:
    """The driver gives the pose, if it is to be converted or found, and sends commands.

    It also tells whether the vehicle obeys them, where its file knows that.

    In ``target`` it gives what the vehicle sees as well.
    """
    options, vehicle, guard = member.options, member.vehicle, member.guard
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
            **_lent(options, vehicle),
            **({"origin_W_m": list(vehicle.origin_W)} if any(vehicle.origin_W) else {}),
            **prefixed(CommandGateParams(guard.limits, guard.watch)),
        },
        ((source, vehicle.heard),) if source not in ("", vehicle.heard) else (),
    )


def _lent(options: HilOptions, vehicle: HilVehicle) -> dict[str, Any]:
    """What virtual devices measure that the vehicle gets: an odometry; a flow, and ranges with it.

    Raises:
        InputError: of a device that no driver takes, that is rotated, or that rides on what the
            vehicle itself estimates.
    """
    kinds = [kind for kind in ("visual_odometry", "optical_flow") if getattr(options, kind)]
    if kinds and options.structure == "target":
        raise InputError(f"{kinds[0]}: in target the vehicle's own devices measure; leave it out")
    if "optical_flow" in kinds:
        kinds += ["rangefinder"] if options.rangefinder else []
        device: Any = load_device("optical_flow", options.optical_flow)
        if any(device.rotation_deg):
            raise InputError(
                f"optical_flow: {options.optical_flow} is rotated by rotation_deg; the vehicle"
                " takes flows in its own axes"
            )
    taken = {loan.ours for entry in vehicle.drivers.entries for loan in entry.driver.loans}
    for kind in kinds:
        if LOANS[kind] not in taken:
            raise InputError(f"{kind}: drivers {vehicle.chain}: none of them takes {LOANS[kind]}")
    if options.visual_odometry and vehicle.pose == AUTOPILOT:
        raise InputError(
            f"visual_odometry: made of {AUTOPILOT}, it would confirm the estimate by itself;"
            " allowed: a pose of somebody else, such as pose:=external/pose_stamped"
        )
    return {"lend": [LOANS[kind] for kind in kinds]} if kinds else {}


def _thrust(options: HilOptions) -> dict[str, Any]:
    """Which setpoints go out to the vehicle as they are."""
    kinds = [kind for kind in options.setpoints if kind != POSITION]
    return {"setpoints": kinds} if kinds else {}


def describe_hil(options: HilOptions) -> list[NodeSpec]:
    """Nodes of a flight among virtual obstacles, the recorder last.

    Raises:
        InputError: naming the option and what is allowed.
    """
    members = hil_members(options)
    if options.structure != "target":
        load_world(find_world(options.world))  # what is wrong with it is reported here, in one line
    nodes = []
    if options.structure in STANDS_IN:
        given = {"rehearsal": options.rehearsal, "seed": options.seed, "world": options.world}
        nodes.append(NodeSpec("stand_in", STAND_IN, given | asdict(options.firmware)))
    for member in members:
        nodes += _of_vehicle(member, [other for other in members if other is not member])
    nodes += _shown_by_gazebo(options, [member.vehicle for member in members])
    if bag_of(options.record) is not None:
        nodes.append(_recorder(options, members, nodes))
    return nodes


def _of_vehicle(member: HilMember, others: Sequence[HilMember]) -> list[NodeSpec]:
    """The nodes of one vehicle, which keeps apart from others with guards of their own."""
    options, vehicle, guard = member.options, member.vehicle, member.guard
    name, virtual = vehicle.name, options.structure != "target"
    nodes = [_driver(member, alone=not others)]
    for kind in ("lidar", "depth_camera", *LOANS):
        device = getattr(options, kind)
        if virtual and device and kind not in options.lent:
            nodes.append(_seeing(kind, device, member, others))
    riding, known = _riding(member), _others(member, others)
    remappings = (("odometry/filtered", vehicle.heard), ("external/pose_stamped", vehicle.heard))
    if member.planner is not None:
        given = prefixed(member.planner) | riding | known
        nodes.append(NodeSpec("planner", name, given, remappings))
    own: dict[str, Any] = {
        "dead_man.button": options.dead_man_button,
        "autopilot.odometry": vehicle.autopilot,
    }
    if options.setpoints:
        own["setpoints"] = list(options.setpoints)
    if others:
        own["neighbours.names"] = [other.name.strip("/") for other in others]
        own["neighbours.keep_out_m"] = [other.guard.keep_out_m for other in others]
        own["neighbours.growth_mps"] = [growth_mps(other.guard) for other in others]
    heard = (
        *remappings,
        *([(AUTOPILOT, vehicle.heard_of(AUTOPILOT))] if vehicle.autopilot == "beside" else []),
        *(ONE_BUTTON if others else ()),
    )
    given = prefixed(guard) | own | riding | _others(member)
    nodes.append(NodeSpec("guard", name, given, heard))
    shown = {
        "pose": vehicle.timed,
        "setpoint": vehicle.answer,
        "world": options.world if virtual else "",
    }
    nodes.append(NodeSpec("monitor", name, riding | known | shown, remappings))
    if options.vehicle:
        find("vehicles", options.vehicle)
        nodes.append(NodeSpec("description", name, {"vehicle": options.vehicle}))
    return nodes


def _shown_by_gazebo(options: HilOptions, vehicles: Sequence[HilVehicle]) -> list[NodeSpec]:
    """What shows the vehicles in Gazebo, which lends them camera and lidar."""
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
    options: HilOptions, members: Sequence[HilMember], nodes: Sequence[NodeSpec]
) -> NodeSpec:
    """All of ours, and what the drivers themselves were told and stated."""
    vehicles = [member.vehicle for member in members]
    truth = f"{STAND_IN}/ground_truth/odom {ODOMETRY}"
    also = [
        *(text for vehicle in vehicles for text in _recorded(vehicle)),
        *(f"{name} {ODOMETRY}" for name in (*options.others, *options.apparitions)),
        *(f"{name} {POSE_STAMPED}" for name in options.others_pose),
        truth if options.structure in STANDS_IN else "",
    ]
    first, names = members[0], [vehicle.name for vehicle in vehicles]
    chains = [vehicle.chain for vehicle in vehicles]
    named = (f"{name.strip('/')}={chain}" for name, chain in zip(names, chains, strict=True))
    flown = {
        "structure": options.structure,
        "drivers": chains[0] if len(set(chains)) == 1 else ",".join(named),
        "pose": first.vehicle.pose_topic,
        "world": options.world,
        "guard": json.dumps(flatten(first.guard)),
        "planner": json.dumps(flatten(first.planner)) if first.planner else "",
    }
    executables = sorted(
        {
            node.executable
            for node in nodes
            if node.namespace == first.name and node.package == NodeSpec.package
        }
    )
    count = {"count": len(vehicles)} if len(vehicles) > 1 else {}
    named_otherwise = names != vehicle_namespaces(len(names))
    return NodeSpec(
        "recorder",
        "/",
        {
            "output": bag_of(options.record) or "",
            **flatten(options.recording),
            "metadata": json.dumps(surroundings() | flown),
            "nodes": " ".join([*executables, "recorder"]),
            "also": [text for text in also if text],
            **count,
            **({"namespaces": names} if named_otherwise else {}),
        },
    )


def _recorded(vehicle: HilVehicle) -> list[str]:
    """``NAME TYPE`` of what one vehicle's driver stated and was told."""
    ours = f"{vehicle.name}/{vehicle.pose} {POSES[vehicle.pose]}"
    return [
        ours if vehicle.heard == vehicle.pose else "",
        vehicle.source_of(vehicle.pose),
        *vehicle.told,
    ]


def composed(specs: Sequence[NodeSpec]) -> NodeSpec:
    """One process that holds all of these nodes."""
    return NodeSpec("composed", "/", {"nodes": json.dumps([asdict(spec) for spec in specs])})


@dataclass(frozen=True)
class HilLaunch(HilOptions):
    """What ``hil.launch.py`` launches."""

    def describe(self) -> list[NodeSpec]:
        """The nodes; of ``basic`` all in one process."""
        specs = describe_hil(self)
        return [composed(specs)] if self.structure == "basic" else specs
