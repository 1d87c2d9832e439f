"""A rehearsal with every file that it names read: one field, one vehicle, one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError, shown
from quadsim.base.files import find, find_world
from quadsim.base.noise import stream
from quadsim.base.parameters import Vec3, from_mapping, load, read_yaml
from quadsim.base.parts import POLICIES, Part
from quadsim.firmware.fly import BOOT_S, FirmwareChoice
from quadsim.hil.guard.parameters import GuardParams, LimitParams
from quadsim.hil.planner.parameters import PlannerParams, SpeedParams
from quadsim.hil.planner.policy import PolicyPlanner
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.hil.rehearsal.parameters import TROUBLES_ON_DDS, RehearsalParams
from quadsim.hil.rehearsal.stand_in import varied
from quadsim.sensors.depth_camera import DepthCameraParams
from quadsim.sensors.devices import load_device, load_suite
from quadsim.sensors.lidar import LidarParams
from quadsim.sim.scenario import Scenario, read_scenario
from quadsim.world.scene.distance import obstacle_distance
from quadsim.world.scene.obstacle_fields import Field, make_field
from quadsim.world.scene.scene import Scene, scene_of
from quadsim.world.sdf.world_file import load_world

#: Keys of a scenario that are the rehearsal's to say, and why.
NOT_OF_STAND_IN = {
    "mission": "it takes off and is told velocities",
    "seed": "--seed is that of field, vehicle and noise",
    "duration_s": "the flight has its own duration_s",
    "start": "it starts where the field begins, or at start_W_m",
}
#: Vehicles of a fleet have seeds so far apart.
SEEDS_APART = 100_003
#: Time for take-off before the guard is enabled, s.
TAKEOFF_S = 15.0


@dataclass(frozen=True)
class Rehearsal:
    """One flight of a rehearsal, ready to be flown.

    Attributes:
        name: of its file.
        path: of its file.
        seed: of the field, the vehicle and all noise.
        params: the keys of the file.
        scenario: the stand-in: vehicle, sensors, estimator, autopilot, in an empty hall.
        guard, planner: parameters of the side that flies it.
        eye: the lidar or the depth camera by which that sees.
        field: the virtual world: obstacles, movers, start and goal.
        scene: its obstacles, for rays and distances.
        firmware: flies the stand-in instead of our autopilot; None: ours.
    """

    name: str
    path: Path
    seed: int
    params: RehearsalParams
    scenario: Scenario
    guard: GuardParams
    planner: PlannerParams
    eye: LidarParams | DepthCameraParams
    field: Field
    scene: Scene
    firmware: FirmwareChoice | None = None

    def make_planner(self) -> PlannerParams | PolicyPlanner:
        """What asks the guard for velocities: our planner, or a policy in its place.

        Raises:
            InputError: it cannot be loaded, or does not ask for velocities.
        """
        name = self.params.planner
        if not name.endswith(POLICIES):
            return self.planner
        near = self.path.parent / name
        part = Part("planner", str(near) if near.is_file() else name)
        return PolicyPlanner(part.make(scenario=self.scenario), self.planner.speed.speed_mps)

    @property
    def members(self) -> tuple[Rehearsal, ...]:
        """Those of the other vehicles of a fleet too, this one first."""
        others = range(1, len(self.params.fleet))
        given = str(self.path), self.seed, self.params.speed_mps or None, None
        suite = self.params.sensors or None
        return (self, *(load_rehearsal(*given, k, suite) for k in others))

    @property
    def takeoff_s(self) -> float:
        """Time in which it hovers at the start, or it will not be flown."""
        return _takeoff_s(self.firmware)


def _takeoff_s(firmware: FirmwareChoice | None) -> float:
    return TAKEOFF_S if firmware is None else TAKEOFF_S + BOOT_S[firmware.name]


def _lidar(content: Any, where: str) -> LidarParams:
    """The virtual lidar: a device, or one with keys that differ."""
    keys = {"device": content} if isinstance(content, str) else content
    if not isinstance(keys, Mapping) or not isinstance(keys.get("device"), str):
        raise InputError(f"{where}: lidar: {shown(content)} is no device, nor keys with 'device'")
    other = {key: value for key, value in keys.items() if key != "device"}
    params = load_device("lidar", keys["device"], other, f"{where}: lidar")
    assert isinstance(params, LidarParams)
    return params


def _camera(suite: str, where: str) -> DepthCameraParams:
    """The depth camera of a suite."""
    camera = load_suite(suite).get("depth_camera")
    if camera is None:
        raise InputError(f"{where}: {suite} has no depth_camera; allowed: a suite with one (depth)")
    assert isinstance(camera, DepthCameraParams)
    return camera


def _place(params: RehearsalParams, seed: int, where: str) -> Field:
    """The virtual world: a field drawn from the seed, or the obstacles of a world's file."""
    if params.field:
        return make_field(params.field, seed)
    if not params.world:
        raise InputError(f"{where}: field, world: neither is given; allowed: one of them")
    world = load_world(find_world(params.world))
    if world.terrain is not None:
        raise InputError(f"{where}: world: {world.path} has hills; allowed: level ground")
    standing = tuple(thing for thing in world.obstacles if not thing.is_level_ground())
    return Field(params.world, seed, standing, params.start_W_m, params.goal_W_m)


def _check_room(scene: Scene, place_W: Vec3, radius_m: float, what: str, where: str) -> None:
    """Refuse a place that is in an obstacle, or so near that the vehicle is."""
    free_m = float(obstacle_distance(scene, place_W, 10.0)[0])
    if not free_m > radius_m:
        raise InputError(
            f"{where}: {what}: {list(place_W)} is {free_m:.2f} m from an obstacle; allowed: more"
            f" than {radius_m:.2f} m, the vehicle's radius"
        )


def _vehicle(
    content: Any, rehearsal: RehearsalParams, seed: int, path: Path, start_W: Vec3, takeoff_s: float
) -> Scenario:
    """The stand-in, of a mass and gains that the seed draws."""
    if not isinstance(content, Mapping):
        raise InputError(f"{path}: stand_in: expected keys and values, found {shown(content)}")
    for key, why in NOT_OF_STAND_IN.items():
        if key in content:
            raise InputError(f"{path}: stand_in: {key}: not here; {why}")
    keys = dict(content) | {
        "mission": [{"takeoff": {"height_m": start_W[2]}}],
        "seed": seed,
        "duration_s": rehearsal.duration_s + takeoff_s,
        "start": {"x_m": start_W[0], "y_m": start_W[1]},
    }
    scenario = read_scenario(keys, path, path.stem, {})
    rng = stream(seed, "stand_in", "vehicle")
    return varied(
        scenario,
        float(rng.uniform(*rehearsal.mass_share)),
        float(rng.uniform(*rehearsal.gain_share)),
    )


def _of_member(
    params: RehearsalParams, seed: int, member: int, firmware: FirmwareChoice | None, path: Path
) -> tuple[RehearsalParams, int]:
    """Parameters and seed of one vehicle of a fleet; without a fleet they stay."""
    if not params.fleet:
        return params, seed
    if firmware is not None:
        raise InputError(f"{path}: fleet: not with firmware; allowed: one vehicle")
    own = params.fleet[member]
    own_params = replace(
        params,
        start_W_m=own.start_W_m,
        goal_W_m=own.goal_W_m,
        troubles=() if member else params.troubles,
    )
    return own_params, seed + SEEDS_APART * member


def load_rehearsal(
    name: str,
    seed: int = 1,
    speed_mps: float | None = None,
    firmware: FirmwareChoice | None = None,
    member: int = 0,
    sensors: str | None = None,
) -> Rehearsal:
    """Read a rehearsal and every file it names.

    Args:
        name: of a file in ``config/rehearsals``, or its path.
        seed: of the field, the vehicle and all noise.
        speed_mps: limit of speed instead of the file's.
        firmware: flies the stand-in instead of our autopilot.
        member: which vehicle of a fleet; its noise is of a seed of its own.
        sensors: a suite whose depth camera it sees by, instead of the file's.

    Raises:
        InputError: one line that names the file, the key and what is allowed.
    """
    path = find("rehearsals", name)
    content = read_yaml(path)
    stand_in = content.pop("stand_in", {})
    sees, suite = str(path), sensors if sensors is not None else content.get("sensors", "")
    eye: LidarParams | DepthCameraParams
    if suite:
        sees = f"{path}: sensors" if sensors is None else "--sensors"
        if "lidar" in content and sensors is None:
            raise InputError(f"{path}: lidar, sensors: both are given; allowed: one of them")
        content.pop("lidar", None)
        eye = _camera(str(suite), sees)
        content = {"guard": "depth", "planner": "depth", **content, "sensors": suite}
    else:
        eye = _lidar(content.pop("lidar", "virtual_lidar"), str(path))
    params = from_mapping(RehearsalParams, content, str(path))
    for key in ("start_W_m", "goal_W_m"):
        if (params.field or params.fleet) and key in content:
            whose = "field" if params.field else "fleet"
            raise InputError(f"{path}: {key}: only with world; a {whose} has places of its own")
    params, seed = _of_member(params, seed, member, firmware, path)
    limit_from = f"{path}: speed_mps"
    if speed_mps is not None:
        limit_from = "--speed"
        given = from_mapping(RehearsalParams, {"speed_mps": speed_mps}, limit_from)
        params = replace(params, speed_mps=given.speed_mps)
    field = _place(params, seed, str(path))
    scene = scene_of(field.obstacles)
    scenario = _vehicle(stand_in, params, seed, path, field.start_W, _takeoff_s(firmware))
    radius_m = hull_radius_m(scenario.vehicle)
    _check_room(scene, field.start_W, radius_m, "start_W_m", str(path))
    _check_room(scene, field.goal_W, radius_m, "goal_W_m", str(path))
    guard = load(GuardParams, find("guards", params.guard))
    is_policy = params.planner.endswith(POLICIES)
    planner = load(PlannerParams, find("planners", "default" if is_policy else params.planner))
    if params.speed_mps > 0.0:
        for of, kind, key in (
            ("planner", SpeedParams, "speed_mps"),
            ("guard", LimitParams, "speed_max_mps"),
        ):
            from_mapping(kind, {key: params.speed_mps}, f"{limit_from}: {of}")  # in their ranges
        guard = replace(guard, limits=replace(guard.limits, speed_max_mps=params.speed_mps))
        planner = replace(planner, speed=replace(planner.speed, speed_mps=params.speed_mps))
    found = Rehearsal(
        path.stem, path, seed, params, scenario, guard, planner, eye, field, scene, firmware
    )  # fmt: skip
    found.make_planner()  # a policy that cannot fly is refused here
    return found


def refuse_on_dds(rehearsal: Rehearsal) -> None:
    """Refuse what the graph of a real vehicle cannot be made to do.

    Raises:
        InputError: a trouble is not of :data:`TROUBLES_ON_DDS`, or there are several vehicles.
    """
    if rehearsal.params.planner.endswith(POLICIES):
        raise InputError(f"{rehearsal.path}: planner: a policy: not with --dds; fly it without")
    if rehearsal.params.fleet:
        raise InputError(f"{rehearsal.path}: fleet: not with --dds; allowed: one vehicle")
    for trouble in rehearsal.params.troubles:
        if trouble.what not in TROUBLES_ON_DDS:
            raise InputError(
                f"{rehearsal.path}: troubles: {trouble.what}: not with --dds; allowed:"
                f" {', '.join(TROUBLES_ON_DDS)}"
            )
