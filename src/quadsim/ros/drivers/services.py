"""What a vehicle is asked for by its driver file, until it does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_srvs.srv import SetBool, Trigger

from quadsim.drivers.commands import DriverService
from quadsim.drivers.driver import Driver
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.packages import is_installed, lost
from quadsim.ros.runtime.topics import message_class

#: Wall time for the driver's answer.
ANSWER_S = 3.0
#: An answer means that the request went out, as mavros's mode_sent does: the vehicle's state has to
#: follow within this time, else it is asked again; so often.
STATE_S, ASKS = 1.5, 3
#: What the vehicle's state is to be then: whether it obeys setpoints.
WANTED = {"offboard": True, "land": False}


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
            for axis, number in zip("xyzw", value, strict=False):
                setattr(there, axis, number)
        else:
            setattr(owner, last, value)


def message_field(message: Any, name: str) -> Any:
    """A field by its dotted name."""
    for part in name.split("."):
        message = getattr(message, part)
    return message


def lost_service(service: DriverService) -> str:
    """Why a driver cannot be asked here for something, in one line; empty: it can."""
    if not is_installed(service.type):
        return next(lost([(service.ours, service.type)]))
    try:
        message_class(service.type)
    except ImportError as error:
        return f"{error}, so the vehicle cannot be asked"
    return ""


class Services:
    """Services of the first drivers of a chain that have them.

    Offers ``vehicle/arm`` (SetBool), ``vehicle/offboard`` and ``vehicle/land`` (Trigger). The two
    last ones answer success when ``vehicle/offboard_state`` reports it, where somebody states it.

    Args:
        full: full name of a driver's service.

    Attributes:
        obeys: whether the vehicle obeys setpoints, as it stated last; None: nobody has stated. Of
            several who say it, one who reports that it does not is assumed.
    """

    def __init__(
        self, node: QuadsimNode, drivers: Sequence[Driver], full: Callable[[Driver, str], str]
    ) -> None:
        self._node, self._full = node, full
        self._services: dict[str, list[tuple[Driver, DriverService]]] = {}
        self._clients: dict[str, Any] = {}
        self._waiting: list[tuple[bool, Any]] = []
        self.obeys: bool | None = None
        for driver in drivers:
            for ours in {service.ours: None for service in driver.services}:
                stated = [(driver, service) for service in driver.services if service.ours == ours]
                self._services.setdefault(ours, stated)
        self._lost = {
            ours: next(filter(None, (lost_service(service) for _, service in stated)), "")
            for ours, stated in self._services.items()
        }
        strange = [
            self._lost[ours]
            for ours, stated in self._services.items()
            if all(is_installed(service.type) for _, service in stated)
        ]
        for line in dict.fromkeys(filter(None, strange)):
            node.get_logger().error(line)
        node.listen(topics.OFFBOARD_STATE, self._on_state, raw=False)
        if self._services:
            # while one waits for its answer, answers, commands and poses go on
            group = ReentrantCallbackGroup()
            for kind, name, asked in (
                (SetBool, "arm", self._on_arm),
                (Trigger, "offboard", self._on_offboard),
                (Trigger, "land", self._on_land),
            ):
                node.create_service(kind, f"vehicle/{name}", asked, callback_group=group)
        for ours, stated in self._services.items():  # known by the time they are asked
            for driver, service in stated if not self._lost[ours] else ():
                self._client(service.type, full(driver, service.name))

    @property
    def needs(self) -> list[tuple[str, str]]:
        """What is offered by which types of services."""
        return [
            (f"vehicle/{ours}", service.type)
            for ours, stated in self._services.items()
            for _, service in stated
        ]

    def _on_state(self, message: Any) -> None:
        rivals = self._node.rivals(topics.OFFBOARD_STATE.name)
        self.obeys = bool(message.data) and not (rivals and self.obeys is False)
        for wanted, future in self._waiting:
            if wanted == self.obeys and not future.done():
                future.set_result(True)

    async def _on_arm(self, request: Any, response: Any) -> Any:
        return await self._ask("arm" if request.data else "disarm", response)

    async def _on_offboard(self, _: Any, response: Any) -> Any:
        return await self._ask_until("offboard", response)

    async def _on_land(self, _: Any, response: Any) -> Any:
        return await self._ask_until("land", response)

    async def _ask_until(self, ours: str, response: Any) -> Any:
        """Ask until the vehicle's state is what was asked for."""
        wanted, rivals = WANTED[ours], self._node.rivals(topics.OFFBOARD_STATE.name)
        if rivals and wanted:
            response.success, response.message = False, f"{rivals}; allowed: one"
            return response
        known = (
            not rivals and self.obeys is not None and (self.obeys != wanted or ours == "offboard")
        )
        for _ in range(ASKS):
            await self._ask(ours, response)
            if not response.success or not known:
                return response
            if self.obeys == wanted or await self._state(wanted):
                return response
        does = "obeys" if wanted else "has left offboard mode"
        response.success = False
        response.message = (
            f"{response.message}; asked {ASKS} times, but vehicle/offboard_state does not say that"
            f" it {does} after {ASKS * STATE_S:g} s"
        )
        self._node.get_logger().error(f"{ours}: {response.message}")
        return response

    async def _state(self, wanted: bool) -> bool:
        """Whether the vehicle's state becomes that within its time."""
        entry: tuple[bool, Any] = (wanted, Future())
        self._waiting.append(entry)
        try:
            return bool(await self._within(entry[1], STATE_S))
        finally:
            self._waiting.remove(entry)

    async def _ask(self, ours: str, response: Any) -> Any:
        """Ask the driver, and answer as it does."""
        response.success = False
        if ours not in self._services:
            response.message = f"the driver cannot be asked for {ours}"
            return response
        if self._lost[ours]:
            response.message = self._lost[ours]
            return response
        for driver, service in self._services[ours]:
            await self._ask_one(ours, self._full(driver, service.name), service, response)
            if not response.success:
                break
        return response

    async def _ask_one(self, ours: str, name: str, service: DriverService, response: Any) -> None:
        """Ask one service, and answer as it does."""
        response.success = False
        client = self._client(service.type, name)
        if not client.service_is_ready():
            response.message = f"{name} is not offered: is the driver running?"
            return
        request = client.srv_type.Request()
        set_fields(request, service.request(time.time_ns()))
        asked = client.call_async(request)
        try:
            answer = await self._within(asked, ANSWER_S)
        finally:
            client.remove_pending_request(asked)
        if answer is None:
            response.message = f"{name} has not answered within {ANSWER_S:g} s"
            return
        stated = message_field(answer, service.answer) if service.answer else True
        response.success = stated is True or (stated == 0 and not isinstance(stated, bool))
        told = f"{service.answer}={stated}" if service.answer else "answered"
        response.message = f"{name}: {getattr(answer, 'message', '') or told}"
        self._node.get_logger().info(f"{ours}: {response.message}")

    def land(self) -> str:
        """Ask the vehicle to land, and do not wait for the answer.

        Returns:
            Why it cannot be asked; empty: it was.
        """
        if "land" not in self._services:
            return "the driver cannot be asked for land"
        if self._lost["land"]:
            return self._lost["land"]
        for driver, service in self._services["land"]:
            name = self._full(driver, service.name)
            client = self._client(service.type, name)
            if not client.service_is_ready():
                return f"{name} is not offered: is the driver running?"
            request = client.srv_type.Request()
            set_fields(request, service.request(time.time_ns()))
            client.call_async(request)
        return ""

    def _client(self, type_name: str, name: str) -> Any:
        if name not in self._clients:
            self._clients[name] = self._node.create_client(message_class(type_name), name)
        return self._clients[name]

    async def _within(self, asked: Any, longest_s: float) -> Any:
        """What a future becomes, or None after a while."""
        done: Any = Future()

        def end(answer: Any) -> None:
            if not done.done():
                done.set_result(answer)

        asked.add_done_callback(lambda future: end(future.result()))
        timer = self._node.wall_timer(longest_s, lambda: end(None))
        try:
            return await done
        finally:
            self._node.destroy_timer(timer)
