"""Node ``planner``: a pose, scans and goals in, ``command_velocity`` for the guard out."""

from __future__ import annotations

import math
import time
from array import array
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid
from numpy.typing import NDArray
from visualization_msgs.msg import Marker, MarkerArray

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import quat, yaw_of
from quadsim.hil.planner.occupancy import OccupancyMap
from quadsim.hil.planner.parameters import PlannerOutput, PlannerParams
from quadsim.hil.planner.planner import NO_SCAN, Planner, load_kernels
from quadsim.ros.messages.cdr import MessageError, brief, xyz
from quadsim.ros.messages.commands import make_path, refuse_other_frame
from quadsim.ros.messages.markers import new_marker, text_marker
from quadsim.ros.messages.world import make_time
from quadsim.ros.parts.other_vehicles import Others
from quadsim.ros.parts.pose_input import PoseInput
from quadsim.ros.parts.scan_input import PlacedScan, ScanInput
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_status
from quadsim.ros.runtime.params import declare, declare_one
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.error_terms import due
from quadsim.wire.encode import Template
from quadsim.world.scene.vehicle_track import VehicleTrack

#: Commands come with poses, but no more often than this.
PERIOD_NS = 20_000_000
#: So many goals are named in the log.
NAMED = 10
#: The map is published so often, for whoever looks at it.
MAP_PERIOD_NS = 1_000_000_000


#: More goals at a time, or one farther, are refused: the planner would say nothing for long.
MOST_GOALS, FARTHEST_GOAL_M = 1000, 1e5
#: Red, green, blue of the way by the planner's state.
COLOURS = {
    "idle": (0.5, 0.5, 0.5),
    "flying": (0.1, 0.5, 1.0),
    "blocked": (1.0, 0.2, 0.1),
    "arrived": (0.1, 0.8, 0.2),
}


def read_goals(message: Any) -> NDArray[np.float64]:
    """(K, 3) places of a Path in ``map``, m; none stops the planner.

    Raises:
        MessageError: another frame, a number is missing, too many, or too far.
    """
    for frame in [message.header.frame_id, *(pose.header.frame_id for pose in message.poses)]:
        if frame not in ("map", ""):
            raise MessageError(f"frame {brief(frame)!r}; give map")
    if len(message.poses) > MOST_GOALS:
        raise MessageError(f"{len(message.poses)} goals; at most {MOST_GOALS}")
    goals_W = np.array([xyz(pose.pose.position) for pose in message.poses]).reshape(-1, 3)
    _check_goals(goals_W)
    return goals_W


def read_goal(message: Any, height_m: float) -> NDArray[np.float64]:
    """(1, 3) place of a PoseStamped in ``map``, m.

    Args:
        message: RViz gives goals on the ground: a height of 0 is the one that is flown at.
        height_m: that.

    Raises:
        MessageError: another frame, or a number is missing.
    """
    refuse_other_frame(message)
    x, y, z = xyz(message.pose.position)
    goals_W = np.array([[x, y, z if z != 0.0 else height_m]])
    _check_goals(goals_W)
    return goals_W


def _check_goals(goals_W: NDArray[np.float64]) -> None:
    """Refuse what is no place, or none that anything flies to."""
    if not np.isfinite(goals_W).all():
        raise MessageError("a number in it is not finite")
    if np.abs(goals_W).max(initial=0.0) > FARTHEST_GOAL_M:
        raise MessageError(f"a goal farther than {FARTHEST_GOAL_M:g} m from the map's origin")


def make_map(seen: OccupancyMap, stamp_ns: int) -> OccupancyGrid:
    """What was seen, at the height of flight."""
    message = OccupancyGrid()
    message.header.frame_id = "map"
    message.header.stamp = message.info.map_load_time = make_time(stamp_ns)
    message.info.resolution = seen.cell_m
    message.info.width, message.info.height = seen.shape
    position = message.info.origin.position
    position.x, position.y = map(float, seen.corner_m)
    position.z = seen.height_m if math.isfinite(seen.height_m) else 0.0
    message.info.origin.orientation.w = 1.0
    # a row of the message goes along x
    message.data = array("b", np.ascontiguousarray(seen.seen(stamp_ns * 1e-9).T).tobytes())
    return message


def make_plan_markers(
    path_W: NDArray[np.float64], goals_W: NDArray[np.float64], state: str, reason: str, p_W: Any
) -> MarkerArray:
    """The way as a line, goals as balls, and in words what the planner does, above the vehicle."""
    color = (*COLOURS[state], 1.0)
    shown = [
        new_marker("planner", i, kind, color, (size_m,) * 3, np.asarray(points_W).tolist())
        for i, (kind, points_W, size_m) in enumerate(
            ((Marker.LINE_STRIP, path_W, 0.06), (Marker.SPHERE_LIST, goals_W, 0.3))
        )
    ]
    for marker in shown:
        if not marker.points:
            marker.action = Marker.DELETE
    text = state + (f": {reason}" if reason else "")
    place_W = (p_W[0], p_W[1], p_W[2] + 0.8)
    return MarkerArray(markers=[*shown, text_marker("planner", 2, color, 0.3, place_W, text)])


class PlannerNode(QuadsimNode):
    """Flies to goals around what the lidar sees; without a goal it states nothing.

    Parameters: ``config`` (a file of config/planners) and every field of it; those of
    :class:`PoseInput`, :class:`ScanInput` and :class:`Others`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("planner", **kwargs)
        config = declare_one(self, "config", "default", "a file of config/planners, or a path")
        params = declare(self, load(PlannerParams, find("planners", config)))
        load_kernels(params)
        self._planner = Planner(params)
        self._said: PlannerOutput | None = None
        self._stamp_ns = self._stepped_ns = self._map_ns = 0
        self._plans = 0
        self._plan_ms = 0.0
        self._track = VehicleTrack()  # its own velocity, where the pose reports none
        self._template = Template.of(topics.COMMAND_VELOCITY.type_name, "map")
        self._velocity = self.offer(topics.COMMAND_VELOCITY, needed=True)
        self._path = self.offer(topics.PLANNER_PATH)
        self._status = self.offer(topics.PLANNER_STATUS)
        self._map = self.offer(topics.PLANNER_MAP)
        self._markers = self.offer(topics.PLANNER_MARKERS)
        self._scans = ScanInput(self, self._on_scan)
        self._pose = PoseInput(self, self._on_pose)
        self._others = Others(self, self._pose.frame)
        self.listen(topics.GOALS, lambda message: self._fly_to(read_goals(message)), raw=False)
        self.listen(topics.GOAL_POSE, self._on_goal, raw=False)
        self._say_status()

    # ---- inputs --------------------------------------------------------------------------------

    def _on_goal(self, message: Any) -> None:
        if not self._stamp_ns:
            raise MessageError("there is no pose yet")
        self._fly_to(read_goal(message, float(self._pose.record["p_W"][2])))

    def _fly_to(self, goals_W: Any) -> None:
        try:
            self._planner.take_goals(goals_W)
        except InputError as error:
            raise MessageError(str(error)) from None
        places = "; ".join(", ".join(f"{x:.1f}" for x in goal) for goal in goals_W[:NAMED])
        if len(goals_W) > NAMED:
            places += f" and {len(goals_W) - NAMED} more"
        self.get_logger().info(f"flies to {places}" if len(goals_W) else "no goal: stops")

    def _on_scan(self, scan: PlacedScan) -> None:
        self._planner.take_scan(scan.stamp_ns, scan.origin_W, scan.points_W, scan.ends_W)

    def _on_pose(self, stamp_ns: int) -> None:
        """Step when it is time."""
        pose = self._pose.record
        self._scans.poses.take(stamp_ns, pose["p_W"], pose["q_WB"])
        if stamp_ns < self._stamp_ns:
            self._stepped_ns = self._map_ns = 0
            self._track = VehicleTrack()
        self._stamp_ns = stamp_ns
        if not self._pose.has_velocity and stamp_ns > self._track.stamp_ns:
            self._track.take(stamp_ns, pose["p_W"], None)
        if due(PERIOD_NS, self._stepped_ns, stamp_ns):
            self._stepped_ns = stamp_ns
            self._step(stamp_ns)

    # ---- steps ---------------------------------------------------------------------------------

    def _step(self, stamp_ns: int) -> None:
        pose = self._pose.record
        if self._others.tracks:
            within_s = self._planner.params.scan_timeout_s
            self._planner.take_shapes(stamp_ns, self._others.at(stamp_ns, within_s))
        v_W = pose["v_W"] if self._pose.has_velocity else self._track.v_W
        begun_s = time.perf_counter()
        stated = self._planner.step(
            stamp_ns, tuple(pose["p_W"].tolist()), tuple(v_W.tolist()), yaw_of(quat(pose["q_WB"]))
        )
        if self._planner.plans != self._plans:
            self._plan_ms = 1e3 * (time.perf_counter() - begun_s)
        if stated.state != "idle":
            w = (0.0, 0.0, stated.yaw_rate_radps)
            self._velocity.publish(self._template.payload(stamp_ns, v=stated.v_W, w=w))
        self._tell(stated)

    def _tell(self, stated: PlannerOutput) -> None:
        """Publish the way when it was looked for anew, and the state when it changes."""
        before = self._summary()
        self._said = stated
        changed = self._summary() != before
        if changed or self._planner.plans != self._plans:
            self._plans = self._planner.plans
            path = make_path(stated.path_W)
            path.header.stamp.sec, path.header.stamp.nanosec = divmod(self._stamp_ns, 10**9)
            self._path.publish(path)
            self._markers.publish(
                make_plan_markers(
                    stated.path_W,
                    self._planner.goals_W,
                    stated.state,
                    stated.reason,
                    self._pose.record["p_W"],
                )
            )
        if changed:
            self._say_status()
        if self._planner.plans and self._stamp_ns - self._map_ns >= MAP_PERIOD_NS:
            self._map_ns = self._stamp_ns
            self._map.publish(make_map(self._planner.seen, self._stamp_ns))

    def _summary(self) -> tuple[int, str, dict[str, Any]]:
        """Level, state and what there is to say of it."""
        stated = self._said
        if stated is None:
            return 0, "no pose", {}
        stands = stated.state == "blocked" or stated.reason == NO_SCAN
        reason = stated.reason if stands else ""  # what else makes it slow changes all the time
        return int(stands), stated.state, {"reason": reason, "goals": len(self._planner.goals_W)}

    def _say_status(self) -> None:
        level, state, values = self._summary()
        self._status.publish(make_status(level, "planner", state, values))

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """State, and what a search takes."""
        level, state, values = self._summary()
        if self._said is not None:
            values |= {
                "slow": self._said.reason,
                "wanted_mps": float(np.linalg.norm(self._said.v_W)),
                "plans": self._plans,
                "plan_ms": self._plan_ms,
            }
        return level, state, values


make, main = entry_points(PlannerNode)
