"""Our commands as a driver wants them: types, axes, units; whatever the driver file says.

What comes in is converted by :mod:`quadsim.analysis.bag.convert`; this is the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.analysis.bag.axes import WORLD
from quadsim.analysis.bag.standard import TWIST_STAMPED
from quadsim.parameters import Vec3

if TYPE_CHECKING:
    from quadsim.analysis.bag.driver_commands import DriverCommand

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


def _velocity(command: VelocityCommand, said: DriverCommand) -> tuple[list[float], float]:
    """Velocity in the driver's axes of the world, and yaw rate about its third one."""
    R = WORLD[said.world].T
    return (R @ np.array(command.v_W)).tolist(), float(R[2, 2]) * command.yaw_rate_radps


def _twist_stamped(command: VelocityCommand, said: DriverCommand) -> Fields:
    v, yaw_rate = _velocity(command, said)
    return {
        "header.stamp": command.stamp_ns,
        "header.frame_id": said.frame or "map",
        "twist.linear": v,
        "twist.angular.z": yaw_rate,
    }


def _twist(command: VelocityCommand, said: DriverCommand) -> Fields:
    v, yaw_rate = _velocity(command, said)
    return {"linear": v, "angular.z": yaw_rate}


def _px4_setpoint(command: VelocityCommand, said: DriverCommand) -> Fields:
    """TrajectorySetpoint: NaN is what PX4 is to leave alone (docs.px4.io, "Offboard Mode")."""
    v, yaw_rate = _velocity(command, said)
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


#: (our type, driver's type): fields of the driver's message.
_OUT: dict[tuple[str, str], Callable[[VelocityCommand, DriverCommand], Fields]] = {
    (TWIST_STAMPED, TWIST_STAMPED): _twist_stamped,
    (TWIST_STAMPED, "geometry_msgs/msg/Twist"): _twist,
    (TWIST_STAMPED, "px4_msgs/msg/TrajectorySetpoint"): _px4_setpoint,
    (TWIST_STAMPED, "px4_msgs/msg/OffboardControlMode"): _px4_mode,
}


def can_send(ours: str, theirs: str) -> bool:
    """Whether one of our commands can become a driver's message."""
    return (COMMANDS.get(ours, ""), theirs) in _OUT


def sendings() -> str:
    """What can become what, for messages."""
    return f"{', '.join(COMMANDS)} to {', '.join(theirs for _, theirs in _OUT)}"


def sent_as(said: DriverCommand, command: VelocityCommand) -> Fields:
    """Fields of the driver's message by their dotted names; what is not named stays zero.

    Args:
        said: what the driver file says.
        command: ours.
    """
    return _OUT[COMMANDS[said.ours], said.type](command, said)
