"""Arguments of ``hil.launch.py``: what is real, and how it is flown; and the vehicles they name.

Launch arguments hold for all vehicles (``drivers:=mocap,mavros vehicles:=3``); a file
(``fleet:=FILE``) gives the same arguments as keys for each one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from quadsim.bag.profiles import Recording
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.options import option
from quadsim.base.parameters import Spec, Vec3, load
from quadsim.hil.guard.parameters import STAND_IN as STAND_IN_BRAKES
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.guard.setpoints import KINDS, POSITION
from quadsim.hil.planner.parameters import PlannerParams
from quadsim.ros.graph.hil_vehicle import SETPOINTS, HilVehicle, hil_vehicle, refuse_shared
from quadsim.ros.graph.options import FirmwareSource, Record
from quadsim.ros.graph.vehicles import vehicle_namespaces

#: Structures in which the vehicle stands in for a real one.
STANDS_IN = ("basic", "sil")


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
    fleet: str = option(
        "",
        "hil, target: a file of vehicles, each with drivers, guard and planner of its own",
        unset="drivers names them",
    )
    vehicles: int = option(1, "hil, target: /quad1, /quad2, ...", ge=1, le=50)
    driver_namespace: str = option(
        "/",
        "what stands before the drivers' topics: /uav1",
        unset="/; of several /quad1, ..., or /NAME",
    )
    pose: str = option("", "our topic of its pose", unset="the first that the drivers give")
    relay: bool = option(False, "the pose goes into the vehicle's own estimator too")
    setpoints: tuple[str, ...] = option(
        (),
        "what the guard takes besides velocities, with commas: position, attitude, rates",
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
        None, "of the lidar in base_link, x,y,z", "m", unset="as in its file"
    )
    lidar_rotation: tuple[float, float, float] | None = option(
        None, "its roll,pitch,yaw", "deg", unset="as in its file"
    )
    level: bool = option(True, "the virtual lidar stays level")
    depth_camera: str = option(
        "",
        "a depth camera ahead (realsense_d455): a file of config/sensors, or a path; target: of"
        " the real one, for its place",
        unset="none",
    )
    camera_position: tuple[float, float, float] | None = option(
        None, "of the depth camera in base_link, x,y,z", "m", unset="as in its file"
    )
    camera_rotation: tuple[float, float, float] | None = option(
        None, "its roll,pitch,yaw", "deg", unset="as in its file"
    )
    rangefinder: str = option(
        "", "a virtual range finder: a file of config/sensors, or a path", unset="none"
    )
    optical_flow: str = option(
        "", "an optical flow sensor (px4flow) lent to the vehicle: a file, or a path", unset="none"
    )
    visual_odometry: str = option(
        "", "a visual odometry (vio_euroc) lent to the vehicle: a file, or a path", unset="none"
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
    lent: tuple[str, ...] = option(
        (), "what Gazebo lends, with commas: lidar, camera", unset="none"
    )
    record: Record = "true"
    recording: Recording = field(default_factory=Recording)
    apparitions: tuple[str, ...] = ()


#: Namespace of the vehicle for our nodes, and of the stand-in.
VEHICLE, STAND_IN = "/quad", "/stand_in"
#: A vehicle's name is one of ROS.
_NAME = re.compile(r"[A-Za-z]\w*")
#: Arguments that a fleet's file states of each vehicle, and their defaults.
_OF_FILE = {"drivers": "", "driver_namespace": "/", "vehicles": 1}
#: Where the vehicle's own map begins in ours, unless given, m.
_HERE: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class FleetMemberParams:
    """One vehicle of a fleet's file; a text that is not given is that of the launch argument."""

    name: Annotated[str, Spec("its namespace, /NAME, and its name in motion capture")]
    drivers: Annotated[str, Spec("as the argument: mocap,mavros")]
    driver_namespace: Annotated[
        str, Spec("what stands before the drivers' topics; not given: /NAME")
    ] = ""
    origin_W_m: Annotated[Vec3, Spec("of its own map in ours", "m", ge=-1e5, le=1e5)] = _HERE
    pose: Annotated[str, Spec("our topic of its pose")] = ""
    pose_frame: Annotated[str, Spec("the frame that its poses name")] = ""
    relay: Annotated[bool, Spec("the pose goes into the vehicle's own estimator too")] = False
    lidar: Annotated[str, Spec("a file of config/sensors, or a path")] = ""
    guard: Annotated[
        str, Spec("its limits, size and brakes: a file of config/guards, or a path")
    ] = ""
    planner: Annotated[str, Spec("a file of config/planners, or a path")] = ""
    vehicle: Annotated[str, Spec("a file of config/vehicles, or a path")] = ""

    def options(self, common: HilOptions) -> HilOptions:
        """The launch arguments of this vehicle."""
        texts = ("pose", "pose_frame", "lidar", "guard", "planner", "vehicle")
        given: dict[str, Any] = {key: text for key in texts if (text := getattr(self, key))}
        return replace(
            common,
            drivers=self.drivers,
            driver_namespace=self.driver_namespace or f"/{self.name}",
            relay=common.relay or self.relay,
            **given,
        )


@dataclass(frozen=True)
class FleetParams:
    """A fleet's file."""

    vehicles: Annotated[tuple[FleetMemberParams, ...], Spec("the vehicles")]
    description: Annotated[str, Spec("which vehicles, and where")] = ""


@dataclass(frozen=True)
class HilMember:
    """One vehicle of the graph.

    Attributes:
        options: the launch arguments, as they are for this vehicle.
        vehicle: how it is heard and told.
        guard, planner: parameters of its own; no planner: None.
    """

    options: HilOptions
    vehicle: HilVehicle
    guard: GuardParams
    planner: PlannerParams | None

    @property
    def name(self) -> str:
        """Its namespace."""
        return self.vehicle.name


def hil_members(options: HilOptions) -> list[HilMember]:
    """The vehicles of the graph.

    Raises:
        InputError: naming the argument or the file and key, and what is allowed.
    """
    members = [_member(*each) for each in _said(options)]
    refuse_shared([member.vehicle for member in members])
    return members


#: Namespace, arguments, and where its own map begins, of one vehicle.
_Said = tuple[str, HilOptions, Vec3]


def _said(options: HilOptions) -> list[_Said]:
    """What is reported of each vehicle."""
    if options.structure in STANDS_IN:
        if options.drivers or options.vehicles > 1 or options.fleet:
            given = next(
                f"{key}: {value!r}"
                for key in ("drivers", "fleet", "vehicles")
                if (value := getattr(options, key)) not in ("", 1)
            )
            raise InputError(
                f"{given} with structure {options.structure}, whose vehicle stands in; allowed:"
                " none and one, or structure hil"
            )
        own = replace(options, drivers="stand_in", driver_namespace=STAND_IN)
        return [(VEHICLE, own, _HERE)]
    return _of_file(options) if options.fleet else _of_arguments(options)


def _of_file(options: HilOptions) -> list[_Said]:
    """The vehicles of a fleet's file."""
    for key, default in _OF_FILE.items():
        if getattr(options, key) != default:
            raise InputError(f"{key}: with fleet:={options.fleet}; allowed: in that file, of each")
    path = Path(options.fleet).expanduser()
    if not path.is_file():
        raise InputError(f"fleet: {options.fleet}: no such file")
    fleet = load(FleetParams, path).vehicles
    if not fleet:
        raise InputError(f"{path}: vehicles: none; allowed: one or more")
    for each in fleet:
        if not _NAME.fullmatch(each.name):
            raise InputError(
                f"{path}: vehicles: name: {each.name!r}; allowed: letters, digits and _, a letter"
                " first"
            )
    names = [f"/{each.name}" for each in fleet]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InputError(f"{path}: vehicles: {twice.strip('/')!r} is there twice; allowed: once")
    return [
        (name, each.options(options), each.origin_W_m)
        for name, each in zip(names, fleet, strict=True)
    ]


def _of_arguments(options: HilOptions) -> list[_Said]:
    """The vehicles of the launch arguments: one, or several alike."""
    if not options.drivers:
        raise InputError(
            f"drivers: none with structure {options.structure}; give those of the vehicle, such as"
            " mavros or px4,mocap"
        )
    namespace = options.driver_namespace or "/"
    if options.vehicles == 1:
        return [(VEHICLE, replace(options, driver_namespace=namespace), _HERE)]
    if namespace != "/":
        raise InputError(
            f"driver_namespace: {namespace} of {options.vehicles} vehicles; allowed: of one, or in"
            " the file of fleet:=, of each"
        )
    return [
        (name, replace(options, driver_namespace=name), _HERE)
        for name in vehicle_namespaces(options.vehicles)
    ]


def _member(name: str, own: HilOptions, origin_W: Vec3) -> HilMember:
    """One vehicle with its files read."""
    vehicle = hil_vehicle(name, own.drivers, own.driver_namespace, own.pose, origin_W)
    for kind in own.setpoints:
        if kind not in KINDS:
            raise InputError(f"setpoints: {kind!r}; allowed: {', '.join(KINDS)}")
        if kind != POSITION and not vehicle.takes(SETPOINTS[kind]):
            raise InputError(
                f"setpoints: drivers {own.drivers}: none of them takes {SETPOINTS[kind]}"
            )
    stands_in = own.structure in STANDS_IN and not own.firmware.firmware
    if stands_in and {*own.setpoints} - {POSITION}:
        raise InputError("setpoints: the stand-in has attitudes and rates with firmware alone")
    guard = load(GuardParams, find("guards", own.guard))
    _refuse_others_brakes(own, guard)
    planner = load(PlannerParams, find("planners", own.planner)) if own.planner else None
    return HilMember(own, vehicle, guard, planner)


def _refuse_others_brakes(options: HilOptions, guard: GuardParams) -> None:
    """A real vehicle flies by brakes and latency of its own."""
    known = guard.vehicle.measured_on.strip()
    if options.structure in STANDS_IN or known not in ("", STAND_IN_BRAKES):
        return
    whose = f"those of {known}" if known else "of no flight"
    raise InputError(
        f"guard: its brake_mps2 and latency_s are {whose}, and structure {options.structure} flies"
        " a real vehicle; measure them with 'quadsim identify --brakes BAG', or say in a file of"
        " your own, by vehicle.measured_on, how they are known (docs/hil.md)"
    )
