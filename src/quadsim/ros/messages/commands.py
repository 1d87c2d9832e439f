"""Commands and references to messages and back, checked where they come in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped
from nav_msgs.msg import Path
from trajectory_msgs.msg import MultiDOFJointTrajectory

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, from_euler, quat, rotate, unrotate, yaw_of
from quadsim.ros.messages.cdr import MessageError, brief, deserialize, put_xyz, stamp_ns_of, xyz
from quadsim.ros.messages.conversion import unit_quaternion

#: Commanded places, and speeds (rates, accelerations) in SI units, are refused beyond these.
FARTHEST_M, FASTEST = 1e6, 1e4
#: Likewise forces in N and torques in N m.
MOST_WRENCH = 1e6


def read_attitude_command(message: MultiDOFJointTrajectory, command: Any) -> None:
    """Read an attitude command into an ATTITUDE_COMMAND record.

    Raises:
        MessageError: a part or a number is missing; the record is as it was.
    """
    point = message.points[0] if message.points else None
    if not (point and point.transforms and point.velocities and point.accelerations):
        raise MessageError("one point with transform, velocity and acceleration is wanted")
    yaw_rate, thrust = point.velocities[0].angular.z, point.accelerations[0].linear.z
    if not math.isfinite(yaw_rate + thrust):
        raise MessageError("yaw rate or thrust is not finite")
    refuse_large((yaw_rate, thrust), FASTEST, "rad/s or m/s^2")
    command.q_WB[:] = quaternion_of(point.transforms[0].rotation)
    command.yaw_rate, command.thrust = yaw_rate, thrust
    command.stamp_ns = stamp_ns_of(message.header.stamp)


def quaternion_of(field: Any) -> Quat:
    """A Quaternion, w first, of length 1.

    Raises:
        MessageError: no rotation.
    """
    return unit_quaternion(np.array((field.x, field.y, field.z, field.w)))


def refuse_other_frame(message: Any) -> None:
    """Refuse what is not in ``map``.

    Raises:
        MessageError: it is not.
    """
    if message.header.frame_id != "map":
        raise MessageError(f"frame {brief(message.header.frame_id)!r}; give map")


def refuse_large(numbers: Iterable[float], most: float, unit: str) -> None:
    """Refuse what no vehicle flies to, or at; what is not a number is refused where it is used.

    Raises:
        MessageError: one is larger.
    """
    for number in numbers:
        if math.isfinite(number) and abs(number) > most:
            raise MessageError(f"{number:g} {unit}; at most {most:g}")


def refuse_stale(stamp_ns: int, now_ns: int, most_s: float) -> None:
    """Refuse a command that was on its way for too long; one without a stamp is not old.

    Raises:
        MessageError: telling its age.
    """
    age_s = (now_ns - stamp_ns) * 1e-9
    if stamp_ns and age_s > most_s:
        raise MessageError(f"{age_s:.2f} s old; at most {most_s:g}")


def read_velocity_command(payload: bytes, q_WB: Any) -> tuple[Vec3, float]:
    """Velocity in the world in m/s and yaw rate in rad/s of a TwistStamped in map or base_link.

    Raises:
        MessageError: no such message, another frame, or a speed that nothing flies.
    """
    message = deserialize(payload, TwistStamped)
    v, frame = xyz(message.twist.linear), message.header.frame_id
    refuse_large((*v, message.twist.angular.z), FASTEST, "m/s or rad/s")
    if frame.rsplit("/", 1)[-1] == "base_link":  # level: rotated by the heading alone
        v = rotate(from_euler(0.0, 0.0, yaw_of(quat(q_WB))), v)
    elif frame != "map":
        raise MessageError(f"frame {brief(frame)!r}; give map or base_link")
    return v, message.twist.angular.z


def read_pose_command(message: PoseStamped) -> tuple[Vec3, float]:
    """Position in the world in m and yaw in rad of a PoseStamped in ``map``.

    Raises:
        MessageError: another frame, or no rotation.
    """
    refuse_other_frame(message)
    p_W = xyz(message.pose.position)
    refuse_large(p_W, FARTHEST_M, "m")
    return p_W, yaw_of(quaternion_of(message.pose.orientation))


def make_path(points_W: Any) -> Path:
    """Waypoints (K, 3) in ``map`` as a Path."""
    message = Path(poses=[PoseStamped() for _ in points_W])
    message.header.frame_id = "map"
    for pose, point in zip(message.poses, points_W, strict=True):
        pose.header.frame_id = "map"
        put_xyz(pose.pose.position, point)
    return message


def wrench_of(message: Any, q_WB: Any) -> tuple[Vec3, Vec3]:
    """Force in the world's and torque in the body's axes of a WrenchStamped in either frame.

    Raises:
        MessageError: another frame, a number is missing or is no vehicle's.
    """
    f, t = xyz(message.wrench.force), xyz(message.wrench.torque)
    if not all(map(math.isfinite, (*f, *t))):
        raise MessageError("a number in it is not finite")
    refuse_large((*f, *t), MOST_WRENCH, "N or N m")
    frame = message.header.frame_id
    if frame == "map":
        return f, unrotate(quat(q_WB), t)
    if frame.rsplit("/", 1)[-1] == "base_link":
        return rotate(quat(q_WB), f), t
    raise MessageError(f"frame {brief(frame)!r}; give map or base_link")
