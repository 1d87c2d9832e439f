"""Missions and trajectories as they come in, checked."""

from __future__ import annotations

import math

from nav_msgs.msg import Path
from trajectory_msgs.msg import MultiDOFJointTrajectory

from quadsim.base.errors import InputError
from quadsim.geometry.rotation import yaw_of
from quadsim.mission.items import Item, items_from
from quadsim.mission.trajectories.timed import TrajectoryPoint
from quadsim.ros.messages.cdr import MessageError, brief, deserialize, stamp_ns_of, xyz
from quadsim.ros.messages.commands import (
    FARTHEST_M,
    FASTEST,
    quaternion_of,
    read_pose_command,
    refuse_large,
    refuse_other_frame,
)
from quadsim.ros.runtime import topics


def read_trajectory_command(
    message: MultiDOFJointTrajectory,
) -> tuple[list[TrajectoryPoint], int | None]:
    """Timed points in the world of a MultiDOFJointTrajectory in ``map``, and when they begin.

    Of each point the first transform counts, and the first velocity and acceleration where there
    are any. A header without a stamp begins now.

    Raises:
        MessageError: another frame, a point without a transform, or no rotation.
    """
    refuse_other_frame(message)
    points = []
    for i, point in enumerate(message.points):
        if not point.transforms:
            raise MessageError(f"points[{i}]: no transform")
        p_W = xyz(point.transforms[0].translation)
        yaw = yaw_of(quaternion_of(point.transforms[0].rotation))
        refuse_large(p_W, FARTHEST_M, "m")
        v_W = a_W = yaw_rate = None
        if point.velocities:
            v_W, yaw_rate = xyz(point.velocities[0].linear), point.velocities[0].angular.z
            refuse_large((*v_W, yaw_rate), FASTEST, "m/s or rad/s")
        if point.accelerations:
            a_W = xyz(point.accelerations[0].linear)
            refuse_large(a_W, FASTEST, "m/s^2")
        t_s = point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec
        points.append(TrajectoryPoint(t_s, p_W, yaw, v_W, a_W, yaw_rate))
    return points, stamp_ns_of(message.header.stamp) or None


def mission_of(payload: bytes) -> tuple[Item, ...]:
    """Take-off, a leg to each pose of a serialised Path in ``map``, landing.

    Raises:
        MessageError: another frame, no pose, or a number that cannot be.
    """
    message = deserialize(payload, Path)
    if message.header.frame_id != "map" or not message.poses:
        frame = brief(message.header.frame_id)
        raise MessageError(f"{len(message.poses)} poses in {frame!r}; give map")
    legs = []
    for pose in message.poses:
        pose.header.frame_id = "map"
        p_W, yaw = read_pose_command(pose)
        legs.append({"goto": {"position_W_m": list(p_W), "yaw_deg": math.degrees(yaw)}})
    try:
        return items_from([{"takeoff": {}}, *legs, {"land": {}}], topics.MISSION.name)
    except InputError as error:
        raise MessageError(str(error)) from None
