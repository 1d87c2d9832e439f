"""The computer next to the vehicle: virtual lidar, planner, guard, fed with what comes by radio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import Vec3
from quadsim.base.records import KINEMATICS
from quadsim.geometry.rotation import from_euler, to_matrix, yaw_of
from quadsim.hil.guard.guard import Guard, GuardOutput, Shape
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.planner.parameters import PlannerOutput, PlannerParams
from quadsim.hil.planner.planner import Planner
from quadsim.hil.planner.policy import PolicyPlanner
from quadsim.hil.rehearsal.stand_in import Telemetry, VehicleCommand
from quadsim.sensors.depth_camera import DepthCameraParams, SimulatedDepthCamera
from quadsim.sensors.depth_scan import DepthScanner
from quadsim.sensors.lidar import LidarParams, SimulatedLidar
from quadsim.sensors.pose_history import PoseHistory
from quadsim.sensors.scanner import Scanner
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.movers import Movers, MovingShape
from quadsim.world.scene.moving_scene import scene_with
from quadsim.world.scene.obstacles import Obstacle
from quadsim.world.scene.scene import Scene
from quadsim.world.scene.vehicle_track import VehicleTrack

#: Name of the virtual lidar's owner, of which its noise depends.
NAME = "hil"


class WorldScan(NamedTuple):
    """A scan in the world: (N, 3) hits, and (M, 3) ends of rays that hit nothing, m.

    ``azimuths_W`` (N + M,) is where these rays looked, rad.
    """

    stamp_ns: int
    origin_W: Vec3
    points_W: NDArray[np.float64]
    ends_W: NDArray[np.float64]
    azimuths_W: NDArray[np.float64]


class VirtualLidar:
    """A lidar that exists nowhere, carried by the poses that a vehicle reports.

    Args:
        scene: what stands in the virtual world.
        level: whether it keeps upright, whatever the vehicle's tilt.

    Attributes:
        reach_m: how far it sees.
    """

    def __init__(self, params: LidarParams, scene: Scene, seed: int, level: bool) -> None:
        self._device: Scanner = SimulatedLidar(params, EnvironmentParams(), seed, NAME, scene)
        self._scene, self._level = scene, level
        mount = from_euler(*(math.radians(angle) for angle in params.rotation_deg))
        self._rays_B = params.directions().reshape(-1, 3) @ np.array(to_matrix(mount)).T
        self._position_B = np.array(params.position_B_m)
        self.reach_m = params.range_max_m
        self._pose: np.record = np.zeros(1, KINEMATICS)[0]
        self._history = PoseHistory()
        # of a lidar that turns each ray's time after the first
        offsets_ns = np.round(1e9 * params.offsets_s()).astype(np.int64)
        self._after_ns = (
            np.tile(offsets_ns, params.channels) if params.spinning else np.zeros(1, int)
        )

    def look(self, pose: Telemetry, others: Sequence[Obstacle]) -> WorldScan | None:
        """Take a pose; give the newest scan that ends by its stamp, from where the lidar was.

        ``others`` are added to the scene, where they are now.
        """
        q_WB = from_euler(0.0, 0.0, yaw_of(pose.q_WB)) if self._level else pose.q_WB
        self._pose.stamp_ns, self._pose.p_W, self._pose.q_WB = pose.stamp_ns, pose.p_W, q_WB
        self._history.take(pose.stamp_ns, pose.p_W, q_WB)
        self._device.see(scene_with(self._scene, others))
        scan = self._device.measure(self._pose)
        return None if scan is None else self._in_world(scan)

    def _in_world(self, scan: Any) -> WorldScan | None:
        """Hits and misses of a scan, from where the lidar was; None: nobody knows where."""
        try:
            p_W, q_WB = self._history.at(scan.stamp_ns + self._after_ns)
        except ValueError:
            return None
        turn = Rotation.from_quat(q_WB, scalar_first=True)
        rays_W = turn.apply(self._rays_B)
        origins_W = np.broadcast_to(p_W + turn.apply(self._position_B), rays_W.shape)
        ranges = scan.ranges.ravel().astype(float)
        hit, free = np.isfinite(ranges), ranges == np.inf
        x, y, z = origins_W.mean(axis=0).tolist()
        return WorldScan(
            scan.stamp_ns,
            (x, y, z),
            origins_W[hit] + ranges[hit, None] * rays_W[hit],
            origins_W[free] + self.reach_m * rays_W[free],
            np.arctan2(rays_W[hit | free, 1], rays_W[hit | free, 0]),
        )


class VirtualCamera(VirtualLidar):
    """A depth camera that exists nowhere; it tilts as the vehicle does.

    Args:
        scene: what stands in the virtual world.
        range_m: how far it is relied on.
    """

    def __init__(self, params: DepthCameraParams, scene: Scene, seed: int, range_m: float) -> None:
        environment = EnvironmentParams()
        self._device = SimulatedDepthCamera(params, environment, seed, NAME, scene)
        self._scene, self._level = scene, False
        mount = params.position_B_m, params.rotation_deg
        self._scanner = DepthScanner(params.directions(), *mount, min(range_m, params.range_max_m))
        self.reach_m = self._scanner.range_m
        self._pose = np.zeros(1, KINEMATICS)[0]
        self._history = PoseHistory()

    def _in_world(self, image: Any) -> WorldScan | None:
        """The scan of an image, from where the camera was; None: nobody knows where."""
        try:
            p_W, q_WB = self._history.at(np.array([image.stamp_ns]))
        except ValueError:
            return None
        return WorldScan(image.stamp_ns, *self._scanner.scan(image.depth_m, p_W[0], q_WB[0]))


def virtual_eye(
    params: LidarParams | DepthCameraParams, scene: Scene, seed: int, range_m: float
) -> VirtualLidar:
    """What looks ahead: a lidar that keeps level, or a depth camera."""
    if isinstance(params, DepthCameraParams):
        return VirtualCamera(params, scene, seed, range_m)
    return VirtualLidar(params, scene, seed, level=True)


class OtherVehicle(NamedTuple):
    """A vehicle with a guard of its own, by the poses that it reports.

    ``size_m`` is radius and height of the upright cylinder about it.
    """

    track: VehicleTrack
    size_m: tuple[float, float]


class HilSide:
    """Planner and guard, and the virtual lidar that both look through.

    Args:
        planner: parameters of the planner, or the policy in its place.
        goal_W: where to fly, m.

    Attributes:
        enabled: whether the guard has been.
        planned: what the planner last stated.
        guarded: what the guard last stated.
        silent: of ``scan``, ``planner`` and ``dead_man``, those that are removed.
        neighbours: vehicles with guards of their own: the lidar sees them and the planner knows
            them, as the guard knows their reach.
    """

    def __init__(
        self,
        guard: GuardParams,
        planner: PlannerParams | PolicyPlanner,
        lidar: VirtualLidar,
        goal_W: Vec3,
    ) -> None:
        self.guard = Guard(guard)
        self.planner = planner if isinstance(planner, PolicyPlanner) else Planner(planner)
        self.planner.take_goals(np.array([goal_W]))
        self._lidar = lidar
        self._pose: Telemetry | None = None
        self.enabled = False
        self.refused = ""
        self.planned: PlannerOutput | None = None
        self.guarded: GuardOutput | None = None
        self.silent: frozenset[str] = frozenset()
        self.neighbours: list[OtherVehicle] = []

    @property
    def pose(self) -> Telemetry | None:
        """What the vehicle stated last."""
        return self._pose

    def _beside(self, stamp_ns: int, within_s: float = math.inf) -> list[MovingShape]:
        """Where the other vehicles are at a time, of those that were heard of lately."""
        return [
            track.shape(stamp_ns, size_m)
            for track, size_m in self.neighbours
            if track.stamp_ns and abs(stamp_ns - track.stamp_ns) * 1e-9 <= within_s
        ]

    def take_pose(self, now_ns: int, pose: Telemetry, movers: Movers) -> None:
        """Take what the vehicle reports, and look from there."""
        self._pose = pose
        self.guard.take_pose(pose.stamp_ns, now_ns, pose.p_W, pose.q_WB, pose.v_W)
        bodies = [shape.body for shape in self._beside(pose.stamp_ns)]
        scan = self._lidar.look(pose, [*movers.obstacles(), *bodies])
        if scan is None or "scan" in self.silent:
            return
        where = scan.origin_W, scan.points_W, self._lidar.reach_m, scan.azimuths_W
        self.guard.take_scan(scan.stamp_ns, now_ns, *where)
        if isinstance(self.planner, Planner):
            self.planner.take_scan(scan.stamp_ns, scan.origin_W, scan.points_W, scan.ends_W)

    def step(self, now_ns: int, movers: Movers, enable: bool) -> VehicleCommand | None:
        """Plan, guard, and give what is sent to the vehicle; None: nothing is.

        Args:
            now_ns: the watchdogs' clock.
            movers: those whose place is known, such as other vehicles.
            enable: whether somebody asks the guard to begin.
        """
        pose = self._pose
        self.guard.take_dead_man(now_ns, "dead_man" not in self.silent)
        shapes = movers.vehicles()
        self.guard.take_shapes(now_ns, [Shape(*shape) for shape in shapes])
        if pose is not None and "planner" not in self.silent:
            planner = self.planner
            if isinstance(planner, Planner):
                alongside = self._beside(pose.stamp_ns, planner.params.scan_timeout_s)
                planner.take_shapes(pose.stamp_ns, [*shapes, *alongside])
                plan = planner.step(pose.stamp_ns, pose.p_W, pose.v_W, yaw_of(pose.q_WB))
            else:
                plan = planner.step(pose.stamp_ns, pose.p_W, pose.v_W, pose.q_WB)
            self.planned = plan
            self.guard.take_wish(now_ns, plan.v_W, plan.yaw_rate_radps)
        if enable and not self.enabled:
            self.refused = self.guard.enable(now_ns) or ""
            self.enabled = not self.refused
        stated = self.guarded = self.guard.step(now_ns)
        if not stated.send and not stated.land:
            return None
        velocity_W = (float(stated.v_W[0]), float(stated.v_W[1]), float(stated.v_W[2]))
        return VehicleCommand(now_ns, velocity_W, float(stated.yaw_rate_radps), stated.land)
