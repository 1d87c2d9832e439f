"""Crazyswarm2's services and topics, offered by the node ``swarm``: its scripts fly our vehicles.

The other side is crazyflie_server of IMRCLab/crazyswarm2 with one address for each vehicle, and
``/all`` for the groups. Its parameters are those of a node of that name, next to ``swarm``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String

from quadsim.base.errors import InputError
from quadsim.drivers.crazyflies import GROUP_MASK, Robot
from quadsim.gazebo.urdf import robot_description
from quadsim.geometry.rotation import yaw_of
from quadsim.mission.flight.commander import PIECES, Commander
from quadsim.mission.trajectories.pieces import Piece
from quadsim.ros.messages.cdr import MessageError, put_xyz, refuse, xyz
from quadsim.ros.messages.commands import quaternion_of
from quadsim.ros.messages.transforms import WorldTransforms
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.packages import lost
from quadsim.ros.runtime.topics import Topic, message_class
from quadsim.sensors.devices import load_suite
from quadsim.sensors.error_terms import due
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import Scenario

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


#: Name of the frame that all is in, and between two messages, ns, as default_topics of its
#: crazyflies.yaml has them.
WORLD, POSE_NS, STATUS_NS = "world", 100_000_000, 1_000_000_000
#: Until the executor that turns ``swarm`` is there, s.
ATTACH_S = 0.02


class Crazyswarm:
    """The endpoints of all vehicles.

    Args:
        robots: names, places and parameters, in the order of the vehicles.

    Raises:
        InputError: the package of their types is not installed.
    """

    def __init__(self, node: QuadsimNode, robots: Sequence[Robot], scenario: Scenario) -> None:
        for words in lost([("Crazyswarm2's services", f"{PACKAGE}/srv/Takeoff")]):
            raise InputError(f"offer: crazyswarm2: {words}")
        self._node, self._robots = node, robots
        self._mass_kg = scenario.airframe.mass_kg
        self._loops: list[ClosedLoop] = []
        self._transforms = WorldTransforms(node, WORLD)
        status = message_class(f"{PACKAGE}/msg/Status")
        self._poses, self._odometries, self._statuses, self._looks = (
            [node.create_publisher(kind, f"/{robot.name}/{name}", profile) for robot in robots]
            for name, kind, profile in (
                ("pose", PoseStamped, qos.RELIABLE),
                ("odom", Odometry, qos.RELIABLE),
                ("status", status, qos.RELIABLE),
                (topics.ROBOT_DESCRIPTION.name, String, qos.LATCHED),
            )
        )
        suite = load_suite(scenario.file.sensors)
        for robot, look in zip(robots, self._looks, strict=True):
            text = robot_description(scenario.vehicle, suite, f"{robot.name}/")
            look.publish(String(data=text.replace(f"{robot.name}/base_link", robot.name)))
        self._server = self._parameters()
        self._listens = False
        self._attach = node.wall_timer(ATTACH_S, self._join)

    def _parameters(self) -> Node:
        """The node whose parameters scripts read and set."""
        server = Node("crazyflie_server", context=self._node.context, use_global_arguments=False)
        for robot in self._robots:
            at = f"robots.{robot.name}"
            server.declare_parameter(f"{at}.uri", robot.uri)
            server.declare_parameter(f"{at}.initial_position", list(robot.initial_position))
            for name, value in robot.firmware_params.items():
                server.declare_parameter(f"{robot.name}.params.{name}", value)
                if not server.has_parameter(f"all.params.{name}"):
                    server.declare_parameter(f"all.params.{name}", value)
        server.add_post_set_parameters_callback(self._on_parameters)
        return server

    def _join(self) -> None:
        """Turn with ``swarm``."""
        if self._node.executor is not None:
            self._node.executor.add_node(self._server)
            self._node.destroy_timer(self._attach)

    @property
    def _ready(self) -> bool:
        """Whether every vehicle can be armed: a script flies as soon as there are services."""
        managers = [loop.manager for loop in self._loops]
        return all(one.estimate.refusal(one.battery.charge) is None for one in managers)

    def _listen_to_all(self) -> None:
        """Offer everything, the services of all of them last: scripts wait for those."""
        for i, robot in enumerate(self._robots):
            self._listen(robot.name, (i,))
        self._listen("all", range(len(self._robots)))
        self._listens = True
        self._node.get_logger().info(f"Crazyswarm2: {len(self._robots)} vehicles can be flown")

    def _listen(self, name: str, whose: Sequence[int]) -> None:
        """Subscriptions and services of one vehicle or of all."""
        node = self._node
        for topic, (type_name, _) in SETPOINTS.items():
            if name != "all" or topic == "cmd_full_state":
                full = Topic(topic, type_name, qos.RELIABLE, qos.RELIABLE, ())
                node.listen(full, partial(self._on_setpoint, topic, whose), f"/{name}/{topic}",
                            raw=False)  # fmt: skip
        for service, (type_name, _) in SERVICES.items():
            if name != "all" or service != "upload_trajectory":
                answer = partial(self._on_request, service, f"/{name}/{service}", whose)
                node.create_service(message_class(type_name), f"/{name}/{service}", answer)

    def begin(self, loops: list[ClosedLoop]) -> None:
        """These are the vehicles from now on; group masks stay as they were set."""
        self._loops = loops
        for robot, loop in zip(self._robots, loops, strict=True):
            mask = self._server.get_parameter(f"{robot.name}.params.{GROUP_MASK}").value
            loop.manager.commander.group_mask = mask & 0xFF

    def close(self) -> None:
        """End the node of the parameters."""
        if self._server.executor is not None:
            self._server.executor.remove_node(self._server)
        self._server.destroy_node()

    # ---- what comes in -------------------------------------------------------------------------

    def _commanders(self, whose: Sequence[int]) -> list[Commander]:
        return [self._loops[i].manager.commander for i in whose]

    def _on_request(
        self, name: str, full: str, whose: Sequence[int], request: Any, response: Any
    ) -> Any:
        """Obey a service; the answer has no room for a refusal, so that is logged."""
        if name == "set_group_mask":
            params = [f"{self._robots[i].name}.params.{GROUP_MASK}" for i in whose]
            self._server.set_parameters([Parameter(p, value=request.group_mask) for p in params])
            return response
        mask = request.group_mask if name in OF_GROUPS else 0
        for commander in self._commanders(whose):
            if commander.addressed(mask):
                refused = SERVICES[name][1](commander, request)
                if refused:
                    self._node.get_logger().warning(f"{full} refused: {refused}")
        return response

    def _on_setpoint(self, name: str, whose: Sequence[int], message: Any) -> None:
        refused = [
            SETPOINTS[name][1](commander, message, self._mass_kg)
            for commander in self._commanders(whose)
        ]
        refuse(next(filter(None, refused), None))

    def _on_parameters(self, parameters: Sequence[Parameter]) -> None:
        """Obey the group mask, and set for each what was set for all."""
        for parameter in parameters:
            whom, _, name = parameter.name.partition(".params.")
            for robot, loop in zip(self._robots, self._loops, strict=True):
                if not name or whom not in ("all", robot.name):
                    continue
                if whom == "all" and self._server.has_parameter(f"{robot.name}.params.{name}"):
                    own = Parameter(f"{robot.name}.params.{name}", value=parameter.value)
                    self._server.set_parameters([own])
                elif name == GROUP_MASK:
                    loop.manager.commander.group_mask = parameter.value & 0xFF

    # ---- what goes out -------------------------------------------------------------------------

    def publish(self, stamp_ns: int, tick_ns: int) -> None:
        """Publish what is due since the last tick."""
        if not self._listens and self._ready:
            self._listen_to_all()
        if due(POSE_NS, stamp_ns - tick_ns, stamp_ns):
            self._publish_motion(stamp_ns)
        if due(STATUS_NS, stamp_ns - tick_ns, stamp_ns):
            for robot, loop, output in zip(self._robots, self._loops, self._statuses, strict=True):
                message = put_status(output.msg_type(), loop.manager, loop.crashed)
                message.header.frame_id, message.header.stamp = robot.name, make_time(stamp_ns)
                output.publish(message)

    def _publish_motion(self, stamp_ns: int) -> None:
        """Estimated poses, with their transforms, and velocities in the world."""
        stamp, moved = make_time(stamp_ns), {}
        for i, (robot, loop) in enumerate(zip(self._robots, self._loops, strict=True)):
            estimate = loop.state.odometry
            if estimate.stamp_ns <= 0:
                continue
            pose, odometry = PoseStamped(), Odometry()
            pose.header.frame_id, odometry.header.frame_id = WORLD, robot.name
            pose.header.stamp = odometry.header.stamp = stamp
            put_xyz(pose.pose.position, estimate.p_W)
            rotated = pose.pose.orientation
            rotated.w, rotated.x, rotated.y, rotated.z = estimate.q_WB.tolist()
            odometry.pose.pose = pose.pose
            put_xyz(odometry.twist.twist.linear, estimate.v_W)
            moved[robot.name] = (estimate.p_W, estimate.q_WB)
            self._poses[i].publish(pose)
            self._odometries[i].publish(odometry)
        self._transforms.publish(stamp_ns, moved)
