"""Scenarios: which vehicle flies what, with which sensors, in which world, and what must hold.

Whether a mission stays within its fence and above the ground that the scenario knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from quadsim.base.changes import changes_by_file, given_keys, set_keys
from quadsim.base.errors import InputError, shown
from quadsim.base.files import find
from quadsim.base.parameters import P, Spec, Vec3, from_mapping
from quadsim.base.parts import Part, parts_from, parts_out
from quadsim.control.airframe import AirframeParams, known_airframe
from quadsim.control.parameters import AutopilotParams, FenceParams, FlightParams
from quadsim.control.reciprocal import GiveWayParams
from quadsim.estimation.eskf.parameters import ATTITUDES, EXTERNAL, LINEAR, EstimatorParams
from quadsim.mission.flight.fence import item_places, mission_fault
from quadsim.mission.formations import Formation, Gather
from quadsim.mission.items import Item, Takeoff, items_from, name_of
from quadsim.mission.script import Command, commands_from
from quadsim.mission.swarms import missions_of
from quadsim.mission.trajectories.limits import check_trajectories
from quadsim.mission.waypoint import ReturnHome
from quadsim.sensors import SCANNERS, topics_of
from quadsim.sensors.devices import check_faults, load_suite
from quadsim.sensors.error_terms import SensorParams
from quadsim.sensors.faults import FaultParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.slot import OUTBOX_SIZE
from quadsim.sim.criterion import AnyCriterion, PartCriterion, criteria_from
from quadsim.sim.installation import BelievedParams, as_installed, believed_airframe
from quadsim.sim.library import Library
from quadsim.sim.start import ALIGNED, StartParams
from quadsim.vehicle.disturbances import Disturbance, check_disturbances, disturbances_from
from quadsim.vehicle.parameters import LoadParams, TetherParams, VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.ropes.suspension import check_ropes
from quadsim.vehicle.start import standing_height_m
from quadsim.world.build import HeightmapParams, environment_of, extent_m
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import EMPTY_SCENE, Scene
from quadsim.world.scene.terrain_hills import HillsParams

#: Between two places of a leg that are looked at, m.
LOOK_M = 1.0
#: No leg is looked at in more places.
MOST_LOOKS = 500


def _legs(
    items: Sequence[Item], home_W_m: Vec3, flight: FlightParams
) -> Iterator[tuple[int, Item, Vec3, Vec3]]:
    """Index, item, start and end of each straight way whose height does not count from ground."""
    at = home_W_m
    for i, item in enumerate(items):
        follows_ground = getattr(item, "height", "") == "above_ground"
        for goal in item_places(item, at, home_W_m, flight):
            if not follows_ground and not isinstance(item, Takeoff | ReturnHome):
                yield i, item, at, goal
            at = goal


def check_mission(
    items: Sequence[Item],
    flight: FlightParams,
    vehicle: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    pose: tuple[float, float, float],
    where: str,
) -> None:
    """Refuse a mission that leaves the fence or goes below the ground.

    Args:
        items: the mission.
        flight: its fence and its floor.
        vehicle: for how high it stands.
        environment: for the flat ground.
        scene: for the terrain.
        pose: where it starts: x, y in m and yaw in rad.
        where: the file that errors name.

    Raises:
        InputError: naming the item and what is allowed.
    """
    if not items:
        return
    home = (pose[0], pose[1], standing_height_m(vehicle, environment, scene, pose))
    fault = mission_fault(items, flight, home)
    if fault is not None:
        raise InputError(f"{where}: {fault}")
    if scene.is_flat and home[2] + flight.failsafe.floor_m >= environment.ground_height_m:
        return
    for i, item, start, goal in _legs(items, home, flight):
        count = min(math.ceil(math.dist(start[:2], goal[:2]) / LOOK_M), MOST_LOOKS) or 1
        for k in range(1, count + 1):
            share = k / count
            x, y, z = (a + share * (b - a) for a, b in zip(start, goal, strict=True))
            ground_m = float(terrain_height(scene.terrain, environment.ground_height_m, x, y))
            if z < ground_m:
                raise InputError(
                    f"{where}: mission[{i}]: {name_of(item)}: z = {z:.2f} m at ({x:.1f}, {y:.1f});"
                    f" allowed: above the ground, {ground_m:.2f} m"
                )


#: Vehicles that one graph can fly.
MAX_VEHICLES = 1000


@dataclass(frozen=True)
class SwarmParams:
    """What several vehicles in one world have to do with each other."""

    avoid: Annotated[bool, Spec("they give way to each other")] = False
    places: Annotated[
        str,
        Spec(
            "of the mission: moved for each as it stands from the start's place (x_m, y_m), or the"
            " same; formations are never moved",
            choices=("moved", "same"),
        ),
    ] = "moved"
    give_way: GiveWayParams = field(default_factory=GiveWayParams)


#: Keys of a scenario file that hold lists, and its own parts.
LISTS = ("mission", "criteria", "faults", "events", "commands", "parts")


@dataclass(frozen=True)
class ScenarioFile:
    """The keys of a scenario file but for its lists (mission, commands, ...)."""

    description: Annotated[str, Spec("what it shows")] = ""
    vehicle: Annotated[str, Spec("a file of config/vehicles")] = "x500"
    sensors: Annotated[str, Spec("a file of config/sensors/suites")] = "default"
    estimator: Annotated[str, Spec("a file of config/estimators")] = "eskf"
    autopilot: Annotated[str, Spec("a file of config/autopilots")] = "default"
    fly_on: Annotated[
        str, Spec("what is flown on; the estimator runs in any case", choices=("estimate", "truth"))
    ] = "estimate"
    landed: Annotated[
        str, Spec("who tells the estimator that the vehicle stands", choices=("nobody", "contact"))
    ] = "nobody"
    switch_at_s: Annotated[
        tuple[float, ...],
        Spec("when the closed loop changes between truth and estimate", "s", ge=0.0, le=86400.0),
    ] = ()
    vehicles: Annotated[
        int, Spec("in one world, each with noise of its own", ge=1, le=MAX_VEHICLES)
    ] = 1
    seed: Annotated[int, Spec("seed of all randomness", ge=0, le=2**63 - 1)] = 1
    duration_s: Annotated[float, Spec("longest flight", "s", gt=0.0, le=86400.0)] = 60.0
    believed_mass: Annotated[
        float, Spec("mass that the controller believes, over the vehicle's", "1", ge=0.5, le=2.0)
    ] = 1.0
    believed: BelievedParams = field(default_factory=BelievedParams)
    start: StartParams = field(default_factory=StartParams)
    swarm: SwarmParams = field(default_factory=SwarmParams)
    physics: PhysicsParams = field(default_factory=PhysicsParams)
    environment: EnvironmentParams = field(default_factory=EnvironmentParams)
    world: Annotated[str, Spec("a file of worlds, or a path: what rays meet")] = "flat"
    terrain: HillsParams = field(default_factory=HillsParams)
    heightmap: HeightmapParams = field(default_factory=HeightmapParams)
    load: LoadParams = field(default_factory=LoadParams)
    tether: TetherParams = field(default_factory=TetherParams)
    fence: FenceParams = field(default_factory=FenceParams)


@dataclass(frozen=True)
class Scenario:
    """A scenario with every file it names read.

    Attributes:
        name: of its file.
        file: the keys as written, with what was overridden.
        vehicle: what flies.
        sensors: kind of sensor to its parameters; the second of two is ``imu_1``.
        estimator: parameters of the estimator.
        autopilot: parameters of autopilot and mixer.
        items: the mission.
        criteria: what a passed flight keeps.
        path: of its file.
        scene: what rays meet on the flat ground.
        faults: kind of sensor to what goes wrong with it.
        scanners: lidar and depth camera, which fly in the graph alone.
        disturbances: what befalls the vehicles.
        commands: what somebody commands on the way.
        overrides: keys of the file that were given otherwise.
        parts: own parts of the user, which take the place of ours.
        notes: what was taken from its world.
    """

    name: str
    file: ScenarioFile
    vehicle: VehicleParams
    sensors: Mapping[str, SensorParams]
    estimator: EstimatorParams
    autopilot: AutopilotParams
    items: tuple[Item, ...]
    criteria: tuple[AnyCriterion, ...]
    path: Path
    scene: Scene = EMPTY_SCENE
    faults: Mapping[str, tuple[FaultParams, ...]] = field(default_factory=dict)
    scanners: Mapping[str, SensorParams] = field(default_factory=dict)
    disturbances: tuple[Disturbance, ...] = ()
    commands: tuple[Command, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def devices(self) -> dict[str, SensorParams]:
        """What the vehicle carries that publishes: sensors, and what scans."""
        published = {name: params for name, params in self.sensors.items() if topics_of(name)}
        return {**published, **self.scanners}

    @property
    def environment(self) -> EnvironmentParams:
        """The world."""
        return self.file.environment

    @property
    def imu(self) -> ImuParams:
        """Parameters of the IMU, whose rate is that of the truth and of control."""
        imu = self.sensors["imu"]
        assert isinstance(imu, ImuParams)
        return imu

    @property
    def step_ns(self) -> int:
        """Step of the physics."""
        return self.file.physics.step_ns

    @property
    def imu_period_ns(self) -> int:
        """Time between two IMU samples."""
        return round(1e9 / self.imu.rate_hz)

    @property
    def is_flown_together(self) -> bool:
        """Whether its vehicles have to know of each other."""
        together = any(isinstance(item, Formation | Gather) for item in self.items)
        return together or self.file.swarm.avoid

    @property
    def parts_of_the_loop(self) -> tuple[Part, ...]:
        """Own parts that fly in the closed loop alone, also where a node runs that."""
        return tuple(part for part in self.parts if part.kind != "estimator" or part.arguments)

    def offsets_W_m(self, count: int) -> list[Vec3]:
        """By how much the places of its mission are moved for each of ``count`` vehicles."""
        start = self.file.start
        if self.file.swarm.places == "same":
            return [(0.0, 0.0, 0.0)] * count
        alone_x, alone_y, _ = start.poses(1)[0]
        return [(x - alone_x, y - alone_y, 0.0) for x, y, _ in start.poses(count)]

    def missions(self, count: int) -> list[tuple[Item, ...]]:
        """What each of ``count`` vehicles flies."""
        starts = [
            (pose[0], pose[1], standing_height_m(self.vehicle, self.environment, self.scene, pose))
            for pose in self.file.start.poses(count)
        ]
        flight = self.autopilot.flight
        return missions_of(self.items, starts, self.offsets_W_m(count), flight)

    @property
    def airframe(self) -> AirframeParams:
        """What the controller believes of the vehicle."""
        file = self.file
        return believed_airframe(known_airframe(self.vehicle), file.believed_mass, file.believed)


def faults_from(
    content: Any, devices: Mapping[str, SensorParams], where: str
) -> dict[str, tuple[FaultParams, ...]]:
    """Faults by kind of sensor, from a list of mappings with the key ``sensor``.

    Raises:
        InputError: not a list, an unknown sensor, or a fault that does not fit it.
    """
    if not isinstance(content, list):
        raise InputError(f"{where}: faults: expected a list")
    found: dict[str, list[FaultParams]] = {}
    for i, item in enumerate(content):
        at = f"{where}: faults[{i}]"
        if not isinstance(item, Mapping):
            raise InputError(f"{at}: expected keys and values, found {shown(item)}")
        kind = str(item.get("sensor"))
        if kind not in devices:
            raise InputError(f"{at}: sensor: {shown(kind)}; this vehicle has: {', '.join(devices)}")
        keys = {key: value for key, value in item.items() if key != "sensor"}
        fault = from_mapping(FaultParams, keys, at)
        check_faults(kind, devices[kind], [fault], at)
        found.setdefault(kind, []).append(fault)
    for kind, faults in found.items():
        check_faults(kind, devices[kind], faults, f"{where}: faults of {kind}")
    return {kind: tuple(faults) for kind, faults in found.items()}


def _options(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Keys given outside the file, each checked under the name of its option."""
    given = {key: value for key, value in overrides.items() if value is not None}
    for key, value in given.items():
        from_mapping(ScenarioFile, {key: value}, f"--{key.removesuffix('_s')}")
    return given


def check_attitude_device(
    devices: Mapping[str, SensorParams], estimator: EstimatorParams, file: ScenarioFile, where: str
) -> None:
    """Refuse a suite without the attitude device that the filter which is flown on needs."""
    external = estimator.gps_ins.attitude == ATTITUDES[EXTERNAL]
    if "ahrs" not in devices and external and estimator.filter == LINEAR:
        raise InputError(
            f"{where}: sensors: {file.sensors} has no ahrs, from which estimator"
            f" {file.estimator} takes its attitude; add one to the suite"
        )


def with_ropes(vehicle: VehicleParams, file: ScenarioFile) -> VehicleParams:
    """The vehicle with the load and the tether of a scenario, where it has them."""
    load_ = file.load if file.load.rope_length_m > 0.0 else vehicle.load
    tether = file.tether if file.tether.length_m > 0.0 else vehicle.tether
    return replace(vehicle, load=load_, tether=tether)


def with_fence(autopilot: AutopilotParams, fence: FenceParams) -> AutopilotParams:
    """The autopilot within the fence of a scenario, where it has one."""
    if fence == FenceParams():
        return autopilot
    return replace(autopilot, flight=replace(autopilot.flight, fence=fence))


def files_beside(path: Path, file: ScenarioFile) -> ScenarioFile:
    """A scenario whose world, heightmap and wind are looked for next to its own file first."""

    def found(name: str) -> str:
        near = path.parent / name
        return str(near.resolve()) if name and near.is_file() else name

    world = found(file.world) if file.world.endswith((".sdf", ".world")) else file.world
    heightmap = replace(file.heightmap, file=found(file.heightmap.file))
    wind = replace(file.environment.wind, file=found(file.environment.wind.file))
    return replace(
        file, world=world, heightmap=heightmap, environment=replace(file.environment, wind=wind)
    )


def _in_world(
    file: ScenarioFile, given: set[str], library: Library
) -> tuple[ScenarioFile, list[str]]:
    """A scenario with what it leaves open taken from its world's file, and a line of that."""
    own_terrain = file.terrain.height_m > 0.0 or bool(file.heightmap.file)
    (x, y, _), *_ = file.start.poses(1)
    environment, notes = environment_of(
        library.world(file.world), file.environment, given, (x, y), own_terrain
    )
    return replace(file, environment=environment), notes


#: Files that a scenario names, apart from its sensors.
_FILES: Mapping[str, type[Any]] = {
    "vehicle": VehicleParams,
    "estimator": EstimatorParams,
    "autopilot": AutopilotParams,
}


def load_scenario(
    name: str,
    changes: Mapping[str, Any] | None = None,
    library: Library | None = None,
    **overrides: Any,
) -> Scenario:
    """Read a scenario and every file it names.

    Args:
        name: of a file in ``config/scenarios``, or its path.
        changes: dotted keys to set instead of the files': of the scenario (``terrain.seed``,
            ``mission.1.hover.duration_s``), and with the name of the file before them of what it
            names (``vehicle.mass_kg``, ``estimator.noise.gyro_density``, ``sensors.imu.rate_hz``;
            ``sensors.gnss`` alone is the name of another device).
        library: where the files are read; None: anew.
            Own parts are set as ``parts.controller`` and ``parts.controller.gain``.
        overrides: keys of :class:`ScenarioFile`, and ``parts``, to set instead of the file's; None
            keeps it.

    Raises:
        InputError: one line that names the file, the key and what is allowed.
    """
    library = library or Library()
    path = find("scenarios", name)
    return read_scenario(library.yaml(path), path, Path(name).stem, overrides, changes, library)


def _load(
    cls: type[P], kind: str, name: str, changes: Mapping[str, Any], library: Library
) -> tuple[P, frozenset[str]]:
    """Parameters of a file that a scenario names, and the dotted keys that are given there."""
    path = find(kind, name)
    content = library.yaml(path)
    set_keys(content, changes, cls, str(path))
    params = from_mapping(cls, content, _where(path, changes))
    return params, frozenset(given_keys(content))


def _where(path: Path, changes: Mapping[str, Any]) -> str:
    """What errors name: a file, and what does not fit it."""
    return f"{path} with {', '.join(changes)} set" if changes else str(path)


def read_scenario(
    content: dict[str, Any],
    path: Path,
    name: str,
    overrides: Mapping[str, Any],
    changes: Mapping[str, Any] | None = None,
    library: Library | None = None,
) -> Scenario:
    """Read every file that the keys of a scenario name.

    Args:
        content: the keys, those of lists included; they are taken out of it.
        path: of the file that they are from, for messages.
        name: of the scenario.
        overrides: as of :func:`load_scenario`.
        changes: as of :func:`load_scenario`.
        library: as of :func:`load_scenario`.

    Raises:
        InputError: as of :func:`load_scenario`.
    """
    library = library or Library()
    overrides = dict(overrides)
    content = content | {"parts": overrides.pop("parts")} if "parts" in overrides else content
    changed = changes_by_file(changes or {}, (*_FILES, "sensors", "parts"))
    set_keys(content, changed[""], ScenarioFile, str(path))
    where = _where(path, changed[""])
    mission, criteria, faults, events, commands, parts_given = (
        content.pop(key, {} if key == "parts" else []) for key in LISTS
    )
    parts = parts_from(parts_given, changed["parts"], where)
    content |= _options(overrides)
    file = files_beside(path, from_mapping(ScenarioFile, content, where, LISTS))
    file, notes = _in_world(file, set(given_keys(content)), library)
    devices = load_suite(file.sensors, read=library.yaml, changes=changed["sensors"])
    sensors = {name: params for name, params in devices.items() if name not in SCANNERS}
    (vehicle, _), (estimator, given), (autopilot, _) = (
        _load(cls, f"{kind}s", getattr(file, kind), changed[kind], library)
        for kind, cls in _FILES.items()
    )
    check_attitude_device(devices, estimator, file, where)
    scene = library.scene(file.world, file.terrain, file.heightmap, file.environment)
    vehicle = with_ropes(vehicle, file)
    try:
        check_ropes(vehicle, extent_m(scene))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    scenario = Scenario(
        name=name,
        file=file,
        vehicle=vehicle,
        sensors=sensors,
        estimator=as_installed(
            estimator, devices, file.environment, scene.is_flat, file.believed, given, where
        ),
        autopilot=with_fence(autopilot, file.fence),
        items=items_from(mission, where),
        criteria=criteria_from(criteria, Path(file.sensors).stem, where),
        path=path,
        scene=scene,
        faults=faults_from(faults, devices, where),
        scanners={kind: params for kind, params in devices.items() if kind in SCANNERS},
        disturbances=disturbances_from(events, where),
        commands=commands_from(commands, where),
        notes=tuple(notes),
        overrides=_options(overrides) | ({"parts": parts_out(parts)} if changed["parts"] else {}),
        parts=parts,
    )
    check_scenario(scenario)
    for part in own_parts(scenario):
        library.note_part(part)
    return scenario


def own_parts(scenario: Scenario) -> tuple[Part, ...]:
    """Every own part of a scenario, those of its criteria too."""
    criteria = (item.of for item in scenario.criteria if isinstance(item, PartCriterion))
    return (*scenario.parts, *criteria)


def check_scenario(scenario: Scenario) -> None:
    """Refuse what the parts of a scenario, each right by itself, cannot give together.

    Raises:
        InputError: one line that names the file, the key and what is allowed.
    """
    path, environment = str(scenario.path), scenario.environment
    check_trajectories(
        scenario.items,
        [name_of(item) for item in scenario.items],
        scenario.autopilot,
        environment.ground_height_m,
        path,
    )
    check_disturbances(scenario.disturbances, scenario.vehicle, MAX_VEHICLES, path)
    _check_rates(scenario)
    count = scenario.file.vehicles
    _check_start(scenario, count)
    poses = scenario.file.start.poses(count)
    for pose, items in zip(poses, scenario.missions(count), strict=True):
        check_mission(
            items,
            scenario.autopilot.flight,
            scenario.vehicle,
            environment,
            scenario.scene,
            pose,
            path,
        )


def _check_start(scenario: Scenario, count: int) -> None:
    """Refuse a start in which a vehicle cannot be, or that the filter cannot begin with."""
    start, path = scenario.file.start, scenario.path
    world = (scenario.environment, scenario.scene, scenario.file.physics)
    try:
        start.check(count, scenario.vehicle, *world)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    own = any(part.kind == "estimator" for part in scenario.parts)
    if start.estimate != ALIGNED and (own or scenario.estimator.filter == LINEAR):
        raise InputError(
            f"{path}: start.estimate: {start.estimate} is for the error-state filter alone;"
            f" allowed here: {ALIGNED}"
        )


def _check_rates(scenario: Scenario) -> None:
    """Refuse rates and latencies that the simulation cannot give."""
    path = scenario.path
    if scenario.imu_period_ns < scenario.step_ns:
        raise InputError(
            f"{path}: physics.step_s: an IMU of {scenario.imu.rate_hz:g} Hz samples above the rate"
            f" of the physics; allowed: <= {scenario.imu_period_ns * 1e-9:g} s, not"
            f" {scenario.file.physics.step_s:g}"
        )
    devices = {**scenario.devices, **scenario.sensors}
    fastest = max(devices.values(), key=lambda params: params.rate_hz)
    if fastest.rate_hz > scenario.imu.rate_hz:
        raise InputError(
            f"{path}: sensors: a rate of {fastest.rate_hz:g} Hz is above the IMU's"
            f" {scenario.imu.rate_hz:g} Hz, at which the truth comes"
        )
    for kind, params in scenario.sensors.items():
        if params.latency_s * params.rate_hz >= OUTBOX_SIZE:
            raise InputError(
                f"{path}: sensors: {kind}: latency_s: {params.latency_s:g} s at"
                f" {params.rate_hz:g} Hz; allowed: less than {OUTBOX_SIZE} samples on their way"
            )
