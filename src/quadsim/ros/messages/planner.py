"""Input and output of the planner as messages."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid
from numpy.typing import NDArray
from visualization_msgs.msg import Marker, MarkerArray

from quadsim.hil.planner.occupancy import OccupancyMap
from quadsim.ros.messages.cdr import MessageError, brief, xyz
from quadsim.ros.messages.commands import refuse_other_frame
from quadsim.ros.messages.markers import new_marker, text_marker
from quadsim.ros.messages.world import make_time

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
