"""Requests and setpoints of Crazyswarm2 as commands of a Crazyflie, and the state of one.

Units are those that reach the firmware (crazyflie_server.cpp, and crazyflie-firmware:
crtp_commander_rpyt.c, crtp_commander_generic.c), whatever comments of the definitions say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from quadsim.geometry.rotation import yaw_of
from quadsim.mission.flight.commander import PIECES, Commander
from quadsim.mission.trajectories.pieces import Piece
from quadsim.ros.messages.cdr import MessageError, xyz
from quadsim.ros.messages.commands import quaternion_of

PACKAGE = "crazyflie_interfaces"
#: Thrust of a Crazyflie 2.1 at 65535, N: four times THRUST_MAX (platform_defaults_cf2.h).
FULL_THRUST_N = 4 * 0.12
#: Thrusts between which it turns its motors (MIN_THRUST and MAX_THRUST of crtp_commander_rpyt.c).
LEAST_THRUST, MOST_THRUST = 1000, 60000
#: Bits of ``supervisor_info``, and numbers of ``pm_state`` (Status.msg).
CAN_BE_ARMED, IS_ARMED, CAN_FLY, IS_FLYING, IS_TUMBLED, IS_LOCKED = 1, 2, 8, 16, 32, 64
ON_BATTERY, LOW_POWER = 0, 3

#: Obeys a request; why not, in words.
Answer = Callable[[Commander, Any], str | None]


def duration_of(duration: Any) -> float:
    """A Duration in s."""
    return float(duration.sec + 1e-9 * duration.nanosec)


def _upload(commander: Commander, request: Any) -> str | None:
    pieces = [
        Piece(
            duration_of(piece.duration),
            tuple(
                tuple(map(float, row))
                for row in (piece.poly_x, piece.poly_y, piece.poly_z, piece.poly_yaw)
            ),
        )
        for piece in request.pieces[: PIECES + 1]  # more are refused, however many there are
    ]
    return commander.upload(request.trajectory_id, request.piece_offset, pieces)


def _start(commander: Commander, request: Any) -> str | None:
    return commander.start_trajectory(
        request.trajectory_id, request.timescale, request.reversed, request.relative
    )


def _go_to(commander: Commander, request: Any) -> str | None:
    duration_s = duration_of(request.duration)
    return commander.go_to(xyz(request.goal), request.yaw, duration_s, request.relative)


#: Name of each service to its type, and what it does; the last of ``all`` is offered last.
SERVICES: Mapping[str, tuple[str, Answer]] = {
    "takeoff": (
        f"{PACKAGE}/srv/Takeoff", lambda c, r: c.take_off(r.height, duration_of(r.duration))
    ),
    "land": (f"{PACKAGE}/srv/Land", lambda c, r: c.land(r.height, duration_of(r.duration))),
    "go_to": (f"{PACKAGE}/srv/GoTo", _go_to),
    "upload_trajectory": (f"{PACKAGE}/srv/UploadTrajectory", _upload),
    "start_trajectory": (f"{PACKAGE}/srv/StartTrajectory", _start),
    "notify_setpoints_stop": (
        f"{PACKAGE}/srv/NotifySetpointsStop", lambda c, _: c.stop_setpoints()
    ),
    "set_group_mask": (
        f"{PACKAGE}/srv/SetGroupMask", lambda c, r: setattr(c, "group_mask", r.group_mask)
    ),
    "arm": (f"{PACKAGE}/srv/Arm", lambda c, r: c.arm(r.arm)),
    "emergency": ("std_srvs/srv/Empty", lambda c, _: c.emergency()),
}  # fmt: skip
#: Services whose ``group_mask`` states who is meant. Of set_group_mask it is what is set.
OF_GROUPS = ("takeoff", "land", "go_to", "start_trajectory", "notify_setpoints_stop")


def _full_state(commander: Commander, message: Any, _: float) -> str | None:
    twist, yaw = message.twist, yaw_of(quaternion_of(message.pose.orientation))
    motion = (xyz(message.pose.position), xyz(twist.linear), xyz(message.acc))
    return commander.full_state(*motion, yaw, twist.angular.z)


def _position(commander: Commander, message: Any, _: float) -> str | None:
    """The yaw is in degrees: the server passes it on, and the firmware reads it so."""
    zero = (0.0, 0.0, 0.0)
    return commander.full_state(xyz(message), zero, zero, math.radians(message.yaw), 0.0)


def _hover(commander: Commander, message: Any, _: float) -> str | None:
    level = (message.vx, message.vy, 0.0)
    return commander.hover(level, message.z_distance, message.yaw_rate)


def _velocity(commander: Commander, message: Any, _: float) -> str | None:
    """The yaw rate is in deg/s and clockwise."""
    return commander.velocity(xyz(message.vel), -math.radians(message.yaw_rate))


def _legacy(commander: Commander, message: Any, mass_kg: float) -> str | None:
    """x: pitch and y: roll in degrees, forward and right; z: thrust; yaw in deg/s, clockwise."""
    pitch, roll, thrust = xyz(message.linear)
    turn = message.angular.z
    if not all(map(math.isfinite, (pitch, roll, thrust, turn))):
        raise MessageError("a number in it is not finite")
    thrust = 0.0 if thrust < LEAST_THRUST else min(thrust, MOST_THRUST)
    return commander.attitude(
        math.radians(roll),
        math.radians(pitch),
        -math.radians(turn),
        thrust / 65535.0 * FULL_THRUST_N / mass_kg,
    )


#: Name of each topic of setpoints to its type, and what it does, given the mass in kg.
SETPOINTS: Mapping[str, tuple[str, Callable[[Commander, Any, float], str | None]]] = {
    "cmd_full_state": (f"{PACKAGE}/msg/FullState", _full_state),
    "cmd_position": (f"{PACKAGE}/msg/Position", _position),
    "cmd_hover": (f"{PACKAGE}/msg/Hover", _hover),
    "cmd_velocity_world": (f"{PACKAGE}/msg/VelocityWorld", _velocity),
    "cmd_vel_legacy": ("geometry_msgs/msg/Twist", _legacy),
}


def put_status(message: Any, manager: Any, crashed: bool) -> Any:
    """Fill a Status with what a vehicle's flight manager knows; there is no radio.

    Args:
        message: a Status.
        manager: the FlightManager.
        crashed: whether it has struck something.
    """
    battery, locked = manager.battery, manager.commander.locked
    bits = (
        (CAN_BE_ARMED, not (manager.armed or locked or crashed) and manager.estimate.good),
        (IS_ARMED, manager.armed),
        (CAN_FLY, manager.armed and not crashed),
        (IS_FLYING, manager.flying),
        (IS_TUMBLED, crashed),
        (IS_LOCKED, locked),
    )
    message.supervisor_info = sum(bit for bit, holds in bits if holds)
    if math.isfinite(battery.voltage_V):
        message.battery_voltage = battery.voltage_V
    low = battery.charge <= manager.params.failsafe.battery_warn
    message.pm_state = LOW_POWER if low else ON_BATTERY
    return message
