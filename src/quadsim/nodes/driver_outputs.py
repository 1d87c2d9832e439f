"""What goes out to a vehicle by its driver file: commands, and what the vehicle is asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from geometry_msgs.msg import TwistStamped
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_srvs.srv import SetBool, Trigger

from quadsim.analysis.bag.driver import Driver
from quadsim.analysis.bag.driver_commands import DriverCommand, DriverService
from quadsim.analysis.bag.outward import VelocityCommand, sent_as
from quadsim.analysis.bag.standard import TWIST_STAMPED
from quadsim.errors import InputError
from quadsim.nodes import qos
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import MessageError
from quadsim.nodes.driver_inputs import topic_of
from quadsim.nodes.packages import installed, lost
from quadsim.nodes.topics import message_class
from quadsim.nodes.world_messages import make_time, stamp_ns_of

#: The one command that goes to a vehicle: what the guard has let pass.
COMMAND = "command_velocity/safe"
#: Wall time for the driver's answer.
ANSWER_S = 3.0


def set_fields(message: Any, fields: dict[str, Any]) -> None:
    """Set fields of a message by their dotted names.

    Args:
        message: of any type.
        fields: three numbers for a vector; ns for a time.
    """
    for name, value in fields.items():
        owner, *rest = message, *name.split(".")
        for part in rest[:-1]:
            owner = getattr(owner, part)
        last = rest[-1]
        there = getattr(owner, last)
        if last == "stamp":
            setattr(owner, last, make_time(value))
        elif isinstance(value, list) and hasattr(there, "x"):
            there.x, there.y, there.z = value
        else:
            setattr(owner, last, value)


def field_of(message: Any, name: str) -> Any:
    """A field by its dotted name."""
    for part in name.split("."):
        message = getattr(message, part)
    return message


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


def check_commands(drivers: Sequence[Driver]) -> None:
    """Refuse a driver whose installed messages cannot carry our commands.

    Raises:
        ImportError: the package is there, without the type.
        InputError: the type is there, without a field.
    """
    standing = VelocityCommand(0, 0, (0.0, 0.0, 0.0), 0.0)
    for command in (command for driver in drivers for command in driver.commands):
        if not installed(command.type):
            continue
        message = message_class(command.type)()
        try:
            set_fields(message, sent_as(command, standing))
        except AttributeError as error:
            package = command.type.partition("/")[0]
            raise InputError(
                f"{command.type} as it is installed here cannot carry {command.ours} ({error});"
                f" another version of {package} is needed, or the node's parameter send: false"
            ) from None


def lost_service(service: DriverService) -> str:
    """Why a driver cannot be asked here for something, in one line; empty: it can."""
    if not installed(service.type):
        return next(lost([(service.ours, service.type)]))
    try:
        message_class(service.type)
    except ImportError as error:
        return f"{error}, so the vehicle cannot be asked"
    return ""


class Outputs:
    """Commands and services of the first drivers of a chain that have them.

    Offers ``vehicle/arm`` (SetBool), ``vehicle/offboard`` and ``vehicle/land`` (Trigger), which ask
    the driver and answer as it does.

    Args:
        node: whose endpoints they are.
        drivers: their files.
        before: what stands before their topics and services; empty: nothing.
    """

    def __init__(self, node: QuadsimNode, drivers: Sequence[Driver], before: str) -> None:
        self._node, self._before = node, before
        self._commands: list[tuple[DriverCommand, Any, Any]] = []
        self._services: dict[str, tuple[Driver, DriverService]] = {}
        self._clients: dict[str, Any] = {}
        self.sent = 0
        needs: list[tuple[str, str]] = []
        for driver in drivers:
            for service in driver.services:
                needs.append((f"vehicle/{service.ours}", service.type))
                self._services.setdefault(service.ours, (driver, service))
        takers = [driver for driver in drivers if driver.commands_of(COMMAND)]
        for driver in takers[:1]:
            for command in driver.commands_of(COMMAND):
                needs.append((command.ours, command.type))
                if installed(command.type):
                    self._offer(driver, command)
        for line in lost(needs):
            node.get_logger().error(line)
        if self._commands:
            node.listen(topic_of(COMMAND, TWIST_STAMPED), self._on_command, raw=False)
        if self._services:
            # while one waits for its answer, answers, commands and poses go on
            group = ReentrantCallbackGroup()
            for kind, name, asked in (
                (SetBool, "arm", self._on_arm),
                (Trigger, "offboard", self._on_offboard),
                (Trigger, "land", self._on_land),
            ):
                node.create_service(kind, f"vehicle/{name}", asked, callback_group=group)
        self._lost = {ours: lost_service(said) for ours, (_, said) in self._services.items()}
        strange = [self._lost[o] for o, (_, s) in self._services.items() if installed(s.type)]
        for line in dict.fromkeys(filter(None, strange)):
            node.get_logger().error(line)
        for ours, (driver, service) in self._services.items():  # known by the time they are asked
            if not self._lost[ours]:
                self._client(service.type, self._full(driver, service.name))

    def _full(self, driver: Driver, name: str) -> str:
        full = driver.full_name(name)
        return full if full.startswith("/") else f"{self._before.rstrip('/')}/{full}"

    def _offer(self, driver: Driver, command: DriverCommand) -> None:
        name = self._full(driver, command.name)
        publisher = self._node.create_publisher(
            message_class(command.type),
            name,
            qos.profile(
                command.depth,
                command.reliability == "reliable",
                command.durability == "transient_local",
            ),
            event_callbacks=self._node.publisher_events(name),
        )
        self._commands.append((command, message_class(command.type)(), publisher))

    def _on_command(self, message: TwistStamped) -> None:
        now_ns = int(self._node.get_clock().now().nanoseconds)
        given = read_command(message, now_ns, time.time_ns())
        for command, output, publisher in self._commands:
            set_fields(output, sent_as(command, given))
            publisher.publish(output)
        self.sent += 1

    async def _on_arm(self, request: Any, response: Any) -> Any:
        return await self._ask("arm" if request.data else "disarm", response)

    async def _on_offboard(self, _: Any, response: Any) -> Any:
        return await self._ask("offboard", response)

    async def _on_land(self, _: Any, response: Any) -> Any:
        return await self._ask("land", response)

    async def _ask(self, ours: str, response: Any) -> Any:
        """Ask the driver, and answer as it does."""
        response.success = False
        if ours not in self._services:
            response.message = f"the driver cannot be asked for {ours}"
            return response
        driver, service = self._services[ours]
        name = self._full(driver, service.name)
        if self._lost[ours]:
            response.message = self._lost[ours]
            return response
        client = self._client(service.type, name)
        if not client.service_is_ready():
            response.message = f"{name} is not offered: is the driver running?"
            return response
        request = client.srv_type.Request()
        set_fields(request, service.request(time.time_ns()))
        answer = await self._within(client, client.call_async(request))
        if answer is None:
            response.message = f"{name} has not answered within {ANSWER_S:g} s"
            return response
        said = field_of(answer, service.answer)
        response.success = said is True or (said == 0 and not isinstance(said, bool))
        response.message = f"{name}: {getattr(answer, 'message', '') or f'{service.answer}={said}'}"
        self._node.get_logger().info(f"{ours}: {response.message}")
        return response

    def _client(self, type_name: str, name: str) -> Any:
        if name not in self._clients:
            self._clients[name] = self._node.create_client(message_class(type_name), name)
        return self._clients[name]

    async def _within(self, client: Any, asked: Any) -> Any:
        """What a service answers, or None after a while; it is then waited for no more."""
        done: Any = Future()

        def end(answer: Any) -> None:
            if not done.done():
                done.set_result(answer)

        asked.add_done_callback(lambda future: end(future.result()))
        timer = self._node.wall_timer(ANSWER_S, lambda: end(None))
        try:
            return await done
        finally:
            self._node.destroy_timer(timer)
            client.remove_pending_request(asked)
