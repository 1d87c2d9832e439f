"""Attitudes and body rates that go through the guard, to messages and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from geometry_msgs.msg import Transform, Twist
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from quadsim.base.compiled import new_record
from quadsim.base.records import ATTITUDE_COMMAND
from quadsim.geometry.rotation import quat
from quadsim.hil.guard.setpoints import ATTITUDE, RATES, ThrustSetpoint
from quadsim.ros.messages.cdr import MessageError, put_xyz, xyz
from quadsim.ros.messages.commands import read_attitude_command
from quadsim.ros.messages.world import make_time


def read_attitude_setpoint(message: MultiDOFJointTrajectory) -> ThrustSetpoint:
    """Of ``command_attitude``: transform, yaw rate and thrust of its first point.

    Raises:
        MessageError: a part or a number is missing.
    """
    command: Any = new_record(ATTITUDE_COMMAND)
    read_attitude_command(message, command)
    w_B = (0.0, 0.0, float(command["yaw_rate"]))
    return ThrustSetpoint(ATTITUDE, quat(command["q_WB"]), w_B, float(command["thrust"]))


def read_rates_setpoint(message: MultiDOFJointTrajectory) -> ThrustSetpoint:
    """Of ``command_rates``: angular velocity (FLU) and acceleration along z of its first point.

    The guard also states the present attitude, by the transform.

    Raises:
        MessageError: a part or a number is missing.
    """
    point = message.points[0] if message.points else None
    if not (point and point.velocities and point.accelerations):
        raise MessageError("one point with velocity and acceleration is wanted")
    w_B, thrust = xyz(point.velocities[0].angular), point.accelerations[0].linear.z
    if not math.isfinite(sum(w_B) + thrust):
        raise MessageError("a rate or the thrust is not finite")
    q_WB = (1.0, 0.0, 0.0, 0.0)
    if point.transforms:
        stated = point.transforms[0].rotation
        q_WB = (stated.w, stated.x, stated.y, stated.z)
    return ThrustSetpoint(RATES, q_WB, w_B, thrust)


#: What reads a setpoint of each kind.
READERS = {ATTITUDE: read_attitude_setpoint, RATES: read_rates_setpoint}


def make_setpoint(setpoint: ThrustSetpoint, stamp_ns: int) -> MultiDOFJointTrajectory:
    """The message of a setpoint, in ``map``."""
    message, point = MultiDOFJointTrajectory(), MultiDOFJointTrajectoryPoint()
    message.header.frame_id, message.header.stamp = "map", make_time(stamp_ns)
    transform, velocity, acceleration = Transform(), Twist(), Twist()
    w, x, y, z = np.asarray(setpoint.q_WB, float).tolist()
    for axis, number in zip("wxyz", (w, x, y, z), strict=True):
        setattr(transform.rotation, axis, number)
    put_xyz(velocity.angular, setpoint.w_B)
    acceleration.linear.z = float(setpoint.thrust_mps2)
    point.transforms, point.velocities = [transform], [velocity]
    point.accelerations = [acceleration]
    message.points = [point]
    return message
