"""Our commands, and poses from outside, as a driver wants them: types, axes, units.

What comes in is converted by :mod:`quadsim.drivers.convert`; this is the way out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.rotation import Quat
from quadsim.wire.axes import WORLD, attitude_out
from quadsim.wire.px4 import PACKAGE
from quadsim.wire.standard import IMU, POSE, TWIST_STAMPED

_NAME = re.compile(r"/?[A-Za-z_]\w*(/\w+)*")
#: A Twist that is none: Crazyswarm2 takes x and y of it for degrees, and z for PWM.
LEGACY = "cmd_vel_legacy"
#: Our commands that can be sent, and what they are.
VELOCITY, ATTITUDE, RATES = "velocity", "attitude", "rates"
COMMANDS = {
    "command_velocity/safe": VELOCITY,
    "command_velocity": VELOCITY,
    "command_attitude/safe": ATTITUDE,
    "command_rates/safe": RATES,
}
#: Thrust over mass that hovers, m/s^2.
HOVERS_MPS2 = 9.80665
#: AttitudeTarget.type_mask: what is to be ignored of it. Rates besides an attitude all count:
#: ArduPilot stops where some are masked (GCS_MAVLink_Copter.cpp), and PX4 takes the yaw rate alone
#: (mavlink_receiver.cpp).
IGNORE_NOTHING, IGNORE_ATTITUDE = 0, 128
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


@dataclass(frozen=True, slots=True)
class ThrustCommand:
    """An attitude or body rates that the vehicle is to take, with a thrust.

    Attributes:
        stamp_ns, sent_ns: as of :class:`VelocityCommand`.
        q_WB: FLU in east, north, up, w first; of rates the present one.
        w_B: body rates in FLU, rad/s; of an attitude its yaw rate alone.
        thrust_mps2: collective thrust over mass.
    """

    stamp_ns: int
    sent_ns: int
    q_WB: Quat
    w_B: Vec3
    thrust_mps2: float


def check_name(name: str) -> None:
    """Refuse what is no definite name.

    Raises:
        InputError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a name that can be sent to; give one without *")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One topic on which a driver takes something."""

    name: Annotated[str, Spec("the driver's topic, relative to its namespace, or absolute")]
    world: Annotated[
        str, Spec("axes of the world: enu (and body FLU), or ned (FRD)", choices=("enu", "ned"))
    ] = "enu"
    frame: Annotated[str, Spec("that the header is to name; empty: map")] = ""
    reliability: Annotated[
        str, Spec("as the driver asks for it", choices=("best_effort", "reliable"))
    ] = "reliable"
    durability: Annotated[
        str, Spec("as the driver asks for it", choices=("volatile", "transient_local"))
    ] = "volatile"
    depth: Annotated[int, Spec("messages that the queue keeps", ge=1)] = 1
    versioned: Annotated[
        bool, Spec("the driver may append _v and a number: the name is taken that is listened to")
    ] = False

    def check(self, type_name: str) -> None:
        """Refuse what cannot be sent to.

        Raises:
            InputError: no definite name, or axes that the type has not.
        """
        check_name(self.name)
        if type_name.startswith(PACKAGE) and self.world != "ned":
            raise InputError(f"{type_name} is NED; give world: ned")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCommand(Outgoing):
    """One topic on which a driver takes commands."""

    ours: Annotated[str, Spec("our topic, relative to the vehicle")]
    type: Annotated[str, Spec("the driver's, package/msg/Type")]
    hover: Annotated[
        float, Spec("of attitudes and rates: the vehicle's thrust that hovers", "1", gt=0.0, le=1.0)
    ] = 0.5
    lifts: Annotated[
        bool,
        Spec("of attitudes and rates: the vehicle adds thrust as it tilts, so that the lift stays"),
    ] = False

    def __post_init__(self) -> None:
        check_name(self.ours)
        if self.type.count("/") != 2:
            raise InputError(f"type: {self.type!r} is not package/msg/Type")
        if not can_send(self.ours, self.type):
            raise InputError(
                f"{self.ours} cannot become {self.type}; what can, of commands: {sendings()}"
            )
        self.check(self.type)

    @property
    def warning(self) -> str:
        """What somebody should know before anything is sent; empty: nothing."""
        if self.name.rpartition("/")[2] != LEGACY:
            return ""
        return (
            f"{self.name}: Crazyswarm2 reads x and y of it as degrees of pitch and roll and z as"
            " PWM of the motors, not as m/s; use cmd_velocity_world, as in drivers:=crazyswarm2"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRelay(Outgoing):
    """One topic on which a vehicle's estimator takes a pose from outside."""

    type: Annotated[str, Spec("the driver's, package/msg/Type", choices=RELAYS)]

    def __post_init__(self) -> None:
        self.check(self.type)


def _throttle(command: ThrustCommand, target: DriverCommand) -> float:
    """Thrust as the vehicle takes it, 0 to 1: proportional, through what hovers.

    A vehicle that lifts as it tilts divides it by the cosine of the tilt.
    """
    share: float = command.thrust_mps2 / HOVERS_MPS2 * target.hover
    if target.lifts:
        _, x, y, _ = command.q_WB
        share *= max(1.0 - 2.0 * (x * x + y * y), 0.0)
    return min(max(share, 0.0), 1.0)


def _mavros_thrust(command: ThrustCommand, target: DriverCommand, rates: bool) -> Fields:
    """AttitudeTarget of mavros_msgs, ENU and FLU (setpoint_raw.cpp turns them)."""
    w, x, y, z = command.q_WB
    return {
        "header.stamp": command.stamp_ns,
        "header.frame_id": target.frame or "map",
        "type_mask": IGNORE_ATTITUDE if rates else IGNORE_NOTHING,
        "orientation": [x, y, z, w],
        "body_rate": list(command.w_B),
        "thrust": _throttle(command, target),
    }


def _imu(command: ThrustCommand, target: DriverCommand, rates: bool) -> Fields:
    """Imu of an attitude, body rates and specific force; of rates without orientation (REP 145)."""
    w, x, y, z = command.q_WB
    return {
        "header.stamp": command.stamp_ns,
        "header.frame_id": target.frame or "map",
        "orientation": [x, y, z, w],
        "orientation_covariance": [-1.0 if rates else 0.0] + 8 * [0.0],
        "angular_velocity": list(command.w_B),
        "linear_acceleration": [0.0, 0.0, command.thrust_mps2],
    }


def _px4_attitude(command: ThrustCommand, target: DriverCommand) -> Fields:
    """VehicleAttitudeSetpoint: attitude of FRD in NED, thrust along body z down."""
    return {
        "timestamp": command.sent_ns // 1000,
        "q_d": attitude_out("ned", "frd", command.q_WB).tolist(),
        "yaw_sp_move_rate": -command.w_B[2],
        "thrust_body": [0.0, 0.0, -_throttle(command, target)],
    }


def _px4_rates(command: ThrustCommand, target: DriverCommand) -> Fields:
    """VehicleRatesSetpoint: about the axes of FRD."""
    x, y, z = command.w_B
    return {
        "timestamp": command.sent_ns // 1000,
        "roll": x,
        "pitch": -y,
        "yaw": -z,
        "thrust_body": [0.0, 0.0, -_throttle(command, target)],
    }


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
    return {
        "timestamp": command.sent_ns // 1000,
        **dict.fromkeys(("position", "acceleration", "jerk"), [float("nan")] * 3),
        "velocity": v,
        "yaw": float("nan"),
        "yawspeed": yaw_rate,
    }


def _px4_mode(command: AnyCommand, field: str) -> Fields:
    """OffboardControlMode, which PX4 wants besides setpoints, at least twice a second."""
    return {"timestamp": command.sent_ns // 1000, field: True}


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


AnyCommand = VelocityCommand | ThrustCommand
_MAVROS, _PX4 = "mavros_msgs/msg/AttitudeTarget", "px4_msgs/msg/"
#: (what ours is, driver's type): fields of the driver's message.
_OUT: dict[tuple[str, str], Callable[[Any, DriverCommand], Fields]] = {
    (VELOCITY, TWIST_STAMPED): _twist_stamped,
    (VELOCITY, "geometry_msgs/msg/Twist"): _twist,
    (VELOCITY, "crazyflie_interfaces/msg/VelocityWorld"): _crazyflie_velocity,
    (VELOCITY, f"{_PX4}TrajectorySetpoint"): _px4_setpoint,
    (VELOCITY, f"{_PX4}OffboardControlMode"): lambda ours, _: _px4_mode(ours, "velocity"),
    (ATTITUDE, f"{_PX4}OffboardControlMode"): lambda ours, _: _px4_mode(ours, "attitude"),
    (RATES, f"{_PX4}OffboardControlMode"): lambda ours, _: _px4_mode(ours, "body_rate"),
    (ATTITUDE, f"{_PX4}VehicleAttitudeSetpoint"): _px4_attitude,
    (RATES, f"{_PX4}VehicleRatesSetpoint"): _px4_rates,
    (ATTITUDE, _MAVROS): lambda ours, target: _mavros_thrust(ours, target, rates=False),
    (RATES, _MAVROS): lambda ours, target: _mavros_thrust(ours, target, rates=True),
    (ATTITUDE, IMU): lambda ours, target: _imu(ours, target, rates=False),
    (RATES, IMU): lambda ours, target: _imu(ours, target, rates=True),
}


def can_send(ours: str, theirs: str) -> bool:
    """Whether one of our commands can become a driver's message."""
    return (COMMANDS.get(ours, ""), theirs) in _OUT


def sendings() -> str:
    """What can become what, for messages."""
    return "; ".join(
        f"{ours} to {', '.join(theirs for known, theirs in _OUT if known == kind)}"
        for ours, kind in COMMANDS.items()
    )


def standing_command(ours: str) -> AnyCommand:
    """A command of a kind that asks for nothing."""
    if COMMANDS[ours] == VELOCITY:
        return VelocityCommand(0, 0, (0.0, 0.0, 0.0), 0.0)
    return ThrustCommand(0, 0, (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0), HOVERS_MPS2)


def sent_as(target: DriverCommand, command: AnyCommand) -> Fields:
    """Fields of the driver's message by their dotted names; what is not named stays zero."""
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
    """Fields of the driver's message by their dotted names; what is not named stays zero."""
    return _RELAYS[target.type](pose, target)
