"""Our commands, and poses from outside, as a driver wants them: types, axes, units.

What comes in is converted by :mod:`quadsim.drivers.convert`; this is the way out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat
from quadsim.wire.axes import WORLD, attitude_out
from quadsim.wire.standard import POSE, TWIST_STAMPED

if TYPE_CHECKING:
    from quadsim.drivers.commands import DriverCommand, DriverRelay

#: Our commands that can be sent, and their types.
COMMANDS = {"command_velocity/safe": TWIST_STAMPED, "command_velocity": TWIST_STAMPED}
#: By dotted names; ``header.stamp`` is in ns.
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VelocityCommand:
    """A velocity that the vehicle is to fly.

    Attributes:
        stamp_ns: of the command, by the clock of the pose that it answers.
        sent_ns: when it goes out, by the computer's clock, which PX4 is synchronised with.
        v_W: velocity in the world, east, north, up, m/s.
        yaw_rate_radps: about up.
    """

    stamp_ns: int
    sent_ns: int
    v_W: Vec3
    yaw_rate_radps: float


def _velocity(command: VelocityCommand, target: DriverCommand) -> tuple[list[float], float]:
    """Velocity in the driver's axes of the world, and yaw rate about its third one."""
    R = WORLD[target.world].T
    return (R @ np.array(command.v_W)).tolist(), float(R[2, 2]) * command.yaw_rate_radps


def _twist_stamped(command: VelocityCommand, target: DriverCommand) -> Fields:
    v, yaw_rate = _velocity(command, target)
    return {
        "header.stamp": command.stamp_ns,
        "header.frame_id": target.frame or "map",
        "twist.linear": v,
        "twist.angular.z": yaw_rate,
    }


def _twist(command: VelocityCommand, target: DriverCommand) -> Fields:
    v, yaw_rate = _velocity(command, target)
    return {"linear": v, "angular.z": yaw_rate}


def _px4_setpoint(command: VelocityCommand, target: DriverCommand) -> Fields:
    """TrajectorySetpoint: NaN is what PX4 is to leave alone (docs.px4.io, "Offboard Mode")."""
    v, yaw_rate = _velocity(command, target)
    unknown = [float("nan")] * 3
    return {
        "timestamp": command.sent_ns // 1000,
        "position": unknown,
        "velocity": v,
        "acceleration": unknown,
        "jerk": unknown,
        "yaw": float("nan"),
        "yawspeed": yaw_rate,
    }


def _px4_mode(command: VelocityCommand, _: DriverCommand) -> Fields:
    """OffboardControlMode, which PX4 wants beside setpoints, at least twice a second."""
    return {"timestamp": command.sent_ns // 1000, "velocity": True}


def _crazyflie_velocity(command: VelocityCommand, target: DriverCommand) -> Fields:
    """VelocityWorld, which Crazyswarm2 hands on as it is (crazyflie_server.cpp).

    The firmware takes its yaw rate in deg/s and clockwise (velocityDecoder of
    crtp_commander_generic.c).
    """
    v, yaw_rate = _velocity(command, target)
    return {
        "header.stamp": command.stamp_ns,
        "header.frame_id": target.frame or "world",
        "vel": v,
        "yaw_rate": -math.degrees(yaw_rate),
    }


#: (our type, driver's type): fields of the driver's message.
_OUT: dict[tuple[str, str], Callable[[VelocityCommand, DriverCommand], Fields]] = {
    (TWIST_STAMPED, TWIST_STAMPED): _twist_stamped,
    (TWIST_STAMPED, "geometry_msgs/msg/Twist"): _twist,
    (TWIST_STAMPED, "crazyflie_interfaces/msg/VelocityWorld"): _crazyflie_velocity,
    (TWIST_STAMPED, "px4_msgs/msg/TrajectorySetpoint"): _px4_setpoint,
    (TWIST_STAMPED, "px4_msgs/msg/OffboardControlMode"): _px4_mode,
}


def can_send(ours: str, theirs: str) -> bool:
    """Whether one of our commands can become a driver's message."""
    return (COMMANDS.get(ours, ""), theirs) in _OUT


def sendings() -> str:
    """What can become what, for messages."""
    return f"{', '.join(COMMANDS)} to {', '.join(theirs for _, theirs in _OUT)}"


def sent_as(target: DriverCommand, command: VelocityCommand) -> Fields:
    """Fields of the driver's message by their dotted names; what is not named stays zero.

    Args:
        target: what the driver file says.
        command: ours.
    """
    return _OUT[COMMANDS[target.ours], target.type](command, target)


@dataclass(frozen=True, slots=True)
class OutsidePose:
    """A pose that the vehicle's own estimator is to take.

    Attributes:
        stamp_ns: when it was measured.
        sent_ns: when it goes out, by the computer's clock.
        p_W: position in the world, east, north, up, m.
        q_WB: attitude of FLU, w first.
    """

    stamp_ns: int
    sent_ns: int
    p_W: Vec3
    q_WB: Quat


def _placed(pose: OutsidePose, target: DriverRelay) -> tuple[list[float], list[float]]:
    """Position and attitude (w first) in the driver's axes."""
    body = "frd" if target.world == "ned" else "flu"
    q = attitude_out(target.world, body, pose.q_WB)
    return (WORLD[target.world].T @ np.array(pose.p_W)).tolist(), q.tolist()


def _pose_stamped(pose: OutsidePose, target: DriverRelay) -> Fields:
    p, (w, x, y, z) = _placed(pose, target)
    return {
        "header.stamp": pose.stamp_ns,
        "header.frame_id": target.frame or "map",
        "pose.position": p,
        "pose.orientation": [x, y, z, w],
    }


def _px4_odometry(pose: OutsidePose, target: DriverRelay) -> Fields:
    """VehicleOdometry: NaN is what is not known; PX4 takes variances of its own then."""
    p, q = _placed(pose, target)
    unknown = [float("nan")] * 3
    return {
        "timestamp": pose.sent_ns // 1000,
        "timestamp_sample": pose.stamp_ns // 1000,
        "pose_frame": 1,  # POSE_FRAME_NED
        "position": p,
        "q": q,
        "velocity_frame": 0,  # VELOCITY_FRAME_UNKNOWN
        "velocity": unknown,
        "angular_velocity": unknown,
        "position_variance": unknown,
        "orientation_variance": unknown,
        "velocity_variance": unknown,
    }


#: Driver's type of a relayed pose: fields of its message.
_RELAYS: dict[str, Callable[[OutsidePose, DriverRelay], Fields]] = {
    POSE: _pose_stamped,
    "px4_msgs/msg/VehicleOdometry": _px4_odometry,
}
#: Types that a pose can be relayed as.
RELAYS = tuple(_RELAYS)


def relayed_as(target: DriverRelay, pose: OutsidePose) -> Fields:
    """Fields of the driver's message by their dotted names; what is not named stays zero.

    Args:
        target: what the driver file says.
        pose: from outside.
    """
    return _RELAYS[target.type](pose, target)
