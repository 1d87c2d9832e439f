"""What goes out to a vehicle by its driver file: commands through the gate, services, poses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistStamped
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from trajectory_msgs.msg import MultiDOFJointTrajectory

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.base.records import KINEMATICS
from quadsim.drivers.commands import DriverParameter
from quadsim.drivers.driver import Driver
from quadsim.drivers.outward import (
    ATTITUDE,
    RATES,
    AnyCommand,
    DriverCommand,
    OutsidePose,
    ThrustCommand,
    VelocityCommand,
    relayed_as,
    sent_as,
    standing_command,
)
from quadsim.hil.guard.gate import CommandGateParams, Gate
from quadsim.hil.guard.pose import refused_pose
from quadsim.ros.drivers.outlet import Lender, Outlet, publishers_of
from quadsim.ros.drivers.services import Services, set_fields
from quadsim.ros.messages.cdr import MessageError, stamp_ns_of, stamp_of
from quadsim.ros.messages.setpoint_messages import READERS
from quadsim.ros.parts.truth_input import POSES
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import LEVELS, QuadsimNode
from quadsim.ros.runtime.packages import is_installed, lost
from quadsim.ros.runtime.topics import full_name, message_class

#: The one command that goes to a vehicle: what the guard has let pass.
COMMAND = "command_velocity/safe"
#: What else may go there, by what is sent: attitudes and body rates that the guard has let pass.
SETPOINTS = {ATTITUDE: "command_attitude/safe", RATES: "command_rates/safe"}
#: Period of what is sent in place of refused commands, and of looking who is there.
HOLD_S, LOOK_S = 0.05, 0.2
#: A vehicle that is to land is asked again after that time.
ASK_AGAIN_S = 1.0
#: Wall time until it is asked again: while nothing is known, and else.
ASK_S, AGAIN_S = 2.0, 10.0


def number_in(answer: Any) -> float:
    """A number of a ParameterValue; NaN: it is none."""
    if answer.type == ParameterType.PARAMETER_DOUBLE:
        return float(answer.double_value)
    if answer.type == ParameterType.PARAMETER_INTEGER:
        return float(answer.integer_value)
    return math.nan


class FlightParameters:
    """Asks for parameters from time to time, and judges them.

    mavros offers those of the flight controller as ROS parameters of its node ``param``, once it
    has read them from there (mavros/src/plugins/param.cpp).

    Args:
        full: full name of a driver's node.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        full: Callable[[Driver, str], str],
        sent: Collection[str] = (),
    ) -> None:
        self._asked_s = -math.inf
        self._values: dict[str, float] = {}
        self._known: list[tuple[DriverParameter, str, Any]] = []
        for driver in drivers:
            for rule in driver.parameters:
                if rule.of and not set(rule.of) & set(sent):
                    continue
                name = full(driver, rule.node) if rule.node else ""
                client = None
                if name:
                    client = node.create_client(GetParameters, f"{name}/get_parameters")
                self._known.append((rule, name, client))

    def ask(self) -> None:
        """Ask again, when it is time."""
        now_s = time.monotonic()
        every = all(math.isfinite(self._values.get(s.name, math.nan)) for s, _, _ in self._known)
        if now_s - self._asked_s < (AGAIN_S if every else ASK_S):
            return
        self._asked_s = now_s
        for rule, _, client in self._known:
            if client is not None and client.service_is_ready():
                request = GetParameters.Request(names=[rule.name])
                future = client.call_async(request)
                future.add_done_callback(lambda done, name=rule.name: self._take(name, done))

    def _take(self, name: str, done: Any) -> None:
        answer = done.result()
        if answer is not None and answer.values:
            self._values[name] = number_in(answer.values[0])

    def judge(self) -> tuple[int, str]:
        """0 in order, 1 not known, 2 no flight; and why."""
        unread = []
        for rule, name, _ in self._known:
            value = self._values.get(rule.name, math.nan)
            if not math.isnan(value) and not rule.allows(value):
                return 2, (
                    f"{rule.name} of the flight controller is {value:g}; allowed: {rule.allowed}:"
                    f" {rule.why}"
                )
            if math.isnan(value):
                whence = f"could not be read from {name}" if name else "cannot be read by this link"
                unread.append(f"{rule.name} {whence}; see that it is {rule.allowed}")
        return (1, "; ".join(unread)) if unread else (0, "")


class Relay:
    """Sends each pose that comes to the first driver that takes poses, with the pose's stamp.

    Args:
        kind: ``pose`` (external/pose_stamped) or ``odometry`` (external/odom).
        full: full name of a driver's topic.

    Attributes:
        sent: how many poses went out.

    Raises:
        InputError: no driver takes poses here.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        kind: str,
        full: Callable[[Driver, str], str],
    ) -> None:
        takers = [(driver, relay) for driver in drivers for relay in driver.relays]
        usable = [(driver, relay) for driver, relay in takers if is_installed(relay.type)]
        if not usable:
            needs = [("relay", relay.type) for _, relay in takers]
            why = "; ".join(lost(needs)) or "no driver file of the chain has relays"
            raise InputError(f"relay: {kind}: {why}")
        driver, self._said = usable[0]
        self._outlet = Outlet(node, self._said, full(driver, self._said.name))
        self._record = new_record(KINEMATICS)
        topic, reader = POSES[kind]
        if kind == "odometry":
            topic = topics.EXTERNAL_ODOMETRY
        self._reader = reader(self._record)
        self.sent = 0
        node.listen(topic, self._take, reliable=False)

    def _take(self, payload: bytes) -> None:
        self._reader.read(payload)
        p_W, q_WB = self._record["p_W"].tolist(), self._record["q_WB"].tolist()
        refusal = refused_pose(tuple(p_W), tuple(q_WB))
        if refusal:
            raise MessageError(f"not relayed: {refusal}")
        sent_ns = time.time_ns()
        pose = OutsidePose(stamp_of(payload) or sent_ns, sent_ns, tuple(p_W), tuple(q_WB))
        set_fields(self._outlet.message, relayed_as(self._said, pose))
        self._outlet.publish()
        self.sent += 1

    def look(self) -> str:
        """What is wrong with who listens and who else publishes; empty: nothing."""
        return self._outlet.look()


def read_command(message: TwistStamped, now_ns: int, sent_ns: int) -> VelocityCommand:
    """A velocity in ``map``.

    Args:
        message: as the guard sends it.
        now_ns: stamp of one that has none.
        sent_ns: time by the computer's clock.

    Raises:
        MessageError: another frame, or a number is missing.
    """
    if message.header.frame_id != "map":
        raise MessageError(f"frame {message.header.frame_id!r}; give map, as the guard does")
    linear = message.twist.linear
    v_W, yaw_rate = (linear.x, linear.y, linear.z), message.twist.angular.z
    if not math.isfinite(sum(v_W) + yaw_rate):
        raise MessageError("a number in it is not finite")
    return VelocityCommand(stamp_ns_of(message.header.stamp) or now_ns, sent_ns, v_W, yaw_rate)


def check_commands(drivers: Sequence[Driver], setpoints: Sequence[str] = ()) -> None:
    """Refuse a driver whose installed messages cannot carry our commands.

    Raises:
        ImportError: the package is there, without the type.
        InputError: the type is there, without a field.
    """
    wanted = {COMMAND, *(SETPOINTS[kind] for kind in setpoints)}
    for command in (command for driver in drivers for command in driver.commands):
        if command.ours not in wanted or not is_installed(command.type):
            continue
        message = message_class(command.type)()
        try:
            set_fields(message, sent_as(command, standing_command(command.ours)))
        except AttributeError as error:
            package = command.type.partition("/")[0]
            raise InputError(
                f"{command.type} as it is installed here cannot carry {command.ours} ({error});"
                f" another version of {package} is needed, or the node's parameter send: false"
            ) from None


def _commands(takers: Sequence[Driver], ours: str) -> Sequence[DriverCommand]:
    """Where one of our commands goes by the first of the drivers."""
    return takers[0].commands_of(ours) if takers else ()


class Outputs:
    """Commands and services of the first drivers of a chain that have them.

    Commands go through the :class:`~quadsim.hil.guard.gate.Gate`. Whether the way to the vehicle is
    in order is reported on ``vehicle/ready`` (latched).

    Args:
        before: what stands before their topics and services; empty: nothing.
        relay: poses from outside that the vehicle's estimator is to get: ``pose``, ``odometry``;
            empty: none.
        setpoints: what goes out besides velocities: ``attitude``, ``rates``.
        lend: what virtual devices measure, for the vehicle.

    Raises:
        InputError: no driver takes poses, or what is lent.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        before: str,
        params: CommandGateParams | None = None,
        relay: str = "",
        setpoints: Sequence[str] = (),
        lend: Sequence[str] = (),
    ) -> None:
        self._node, self._before = node, before
        params = params or CommandGateParams()
        self.gate = Gate(params, full_name(node.get_namespace(), params.guard_node))
        self._outlets: dict[str, list[Outlet[DriverCommand]]] = {}
        self._command = node.resolve_topic_name(COMMAND)
        self._publishers: list[str] = []
        self._passed = (0, 0)  # stamp of the last command that went out, and when
        self._asked_s = -ASK_AGAIN_S
        self._said = ""
        self.sent = 0
        takers = [driver for driver in drivers if driver.commands_of(COMMAND)]
        needs: list[tuple[str, str]] = []
        wanted = [COMMAND, *(SETPOINTS[kind] for kind in setpoints)]
        for command in (one for ours in wanted for one in _commands(takers, ours)):
            needs.append((command.ours, command.type))
            if command.warning:
                node.get_logger().warning(command.warning)
            if is_installed(command.type):
                outlet = Outlet(node, command, self._full(takers[0], command.name))
                self._outlets.setdefault(command.ours, []).append(outlet)
        self.services = Services(node, drivers, self._full)
        for line in lost([*self.services.needs, *needs]):
            node.get_logger().error(line)
        self.relay = Relay(node, drivers, relay, self._full) if relay else None
        self.lenders = [Lender(node, drivers, ours, self._full) for ours in lend]
        self._parameters = FlightParameters(node, drivers, self._full, wanted)
        self._ready: Any = None
        if self._outlets:
            _ = node.events  # made now: not between a fault and what is told of it
            self._ready = node.offer(topics.VEHICLE_READY)
            node.create_subscription(
                TwistStamped,
                COMMAND,
                self._on_command,
                qos.profile(1),  # what waits is too old
                event_callbacks=node.subscription_events(COMMAND),
            )
            for kind in setpoints:
                node.create_subscription(
                    MultiDOFJointTrajectory,
                    SETPOINTS[kind],
                    partial(self._on_setpoint, kind),
                    qos.profile(1),
                    event_callbacks=node.subscription_events(SETPOINTS[kind]),
                )
            node.wall_timer(HOLD_S, self._hold)
            node.wall_timer(LOOK_S, self._look)
            self._look()

    def _full(self, driver: Driver, name: str) -> str:
        full = driver.full_name(name)
        return full if full.startswith("/") else f"{self._before.rstrip('/')}/{full}"

    # ---- commands ------------------------------------------------------------------------------

    def _on_command(self, message: TwistStamped) -> None:
        """Send a command on, if it may go out."""
        now_ns = time.monotonic_ns()
        if self._node.count_publishers(self._command) != len(self._publishers):
            self._publishers = publishers_of(self._node, self._command)
        stamp_ns = int(self._node.get_clock().now().nanoseconds)
        try:
            given = read_command(message, stamp_ns, time.time_ns())
        except MessageError as error:
            self._node.fault(COMMAND, str(error))
            self.gate.refuse(now_ns, str(error))
        else:
            yaw_rate = given.yaw_rate_radps
            if self.gate.take(now_ns, given.stamp_ns, given.v_W, yaw_rate, self._publishers):
                self._passed = given.stamp_ns, now_ns
                self._send(given)
                return
            self._node.count(f"{COMMAND} refused")
        self._tell()

    def _on_setpoint(self, kind: str, message: MultiDOFJointTrajectory) -> None:
        """Send an attitude or rates on, if they may go out."""
        now_ns, topic = time.monotonic_ns(), SETPOINTS[kind]
        publishers = publishers_of(self._node, self._node.resolve_topic_name(topic))
        try:
            given = READERS[kind](message)
        except MessageError as error:
            self._node.fault(topic, str(error))
            self.gate.refuse(now_ns, str(error))
        else:
            stamp_ns = stamp_ns_of(message.header.stamp)
            if self.gate.take_setpoint(now_ns, stamp_ns, given, publishers):
                self._passed = stamp_ns, now_ns
                numbers = given.q_WB, given.w_B, given.thrust_mps2
                self._send(ThrustCommand(stamp_ns, time.time_ns(), *numbers), topic)
                return
            self._node.count(f"{topic} refused")
        self._tell()

    def _send(self, command: AnyCommand, ours: str = COMMAND) -> None:
        for outlet in self._outlets[ours]:
            set_fields(outlet.message, sent_as(outlet.entry, command))
            outlet.publish()
        self.sent += 1

    def _hold(self) -> None:
        """Stop, and then land, a vehicle whose commands are refused."""
        now_ns = time.monotonic_ns()
        v_W: Vec3 | None = self.gate.step(now_ns, self.services.obeys)
        self._tell()
        if v_W is None:
            return
        stamp_ns = self._passed[0] + now_ns - self._passed[1]
        self._send(VelocityCommand(stamp_ns, time.time_ns(), v_W, 0.0))
        if self.gate.landing and now_ns * 1e-9 - self._asked_s >= ASK_AGAIN_S:
            self._asked_s = now_ns * 1e-9
            refused = self.services.land()
            if refused:
                self._node.get_logger().error(f"land: {refused}")

    def _tell(self) -> None:
        """Say as events, and in the log, what the gate has told."""
        for event in self.gate.take_events():
            self._node.tell_event(event.level, event.name, event.words)
            self._node.get_logger().error(event.words)

    # ---- whether all is in order ---------------------------------------------------------------

    def _look(self) -> None:
        """Say whether the way to the vehicle is in order, where that has changed."""
        self._publishers = publishers_of(self._node, self._command)
        self._parameters.ask()
        level, words = self.ready()
        if words != self._said:
            self._said = words
            self._ready.publish(DiagnosticStatus(level=LEVELS[level], name="driver", message=words))

    def ready(self) -> tuple[int, str]:
        """0 in order, 1 not known, 2 no flight; and why."""
        wrong = [
            self.gate.misfit(self._publishers),
            self._node.rivals(topics.OFFBOARD_STATE.name),
            *(one.look() for outlets in self._outlets.values() for one in outlets),
        ]
        wrong += [self.relay.look()] if self.relay is not None else []
        wrong += [lender.look() for lender in self.lenders]
        found = next(filter(None, wrong), "")
        if found:
            return 2, found
        level, words = self._parameters.judge()
        return level, words or "in order"
