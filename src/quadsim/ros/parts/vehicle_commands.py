"""One vehicle's commands and requests in, its events and mission out: of autopilot and swarm."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from rclpy.serialization import serialize_message
from std_srvs.srv import SetBool, Trigger

from quadsim.mission.flight.flight import FlightManager
from quadsim.ros.messages.cdr import refuse, stamp_ns_of, stamp_of
from quadsim.ros.messages.commands import (
    make_path,
    read_pose_command,
    read_velocity_command,
    refuse_stale,
)
from quadsim.ros.messages.missions import read_trajectory_command
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_event, make_status
from quadsim.ros.runtime.topics import full_name

REQUESTS = (
    "mission/start", "mission/pause", "mission/abort", "hover", "return_home", "land",
)  # fmt: skip
#: How many of its own messages it knows when it hears them.
OWN_MESSAGES = 100


class VehicleCommands:
    """Endpoints of one vehicle.

    Args:
        node: whose they are; one in the vehicle's namespace logs its events.
        steered: whether it takes commands and requests.

    Attributes:
        manager: who is commanded; to be set before the node spins.
        odometry: record whose attitude states where ``base_link`` points.
        begun_ns: simulated time at which the manager's time began.
        own: messages of its own, which come back on the topics that it listens to.
    """

    manager: FlightManager
    odometry: Any

    def __init__(self, node: QuadsimNode, namespace: str, steered: bool = True) -> None:
        self._node, self._namespace = node, namespace
        self._alone = namespace == node.get_namespace()
        self.begun_ns = 0
        self.own: deque[bytes] = deque(maxlen=OWN_MESSAGES)
        self._reported: dict[str, str] = {}
        self._events, self._status, self._mission = (
            node.events
            if self._alone and topic is topics.EVENTS
            else node.offer(topic, self._name(topic.name))
            for topic in (topics.EVENTS, topics.MISSION_STATUS, topics.MISSION)
        )
        if steered:
            self._listen()

    def _name(self, name: str) -> str:
        return name if self._alone else full_name(self._namespace, name)

    def _listen(self) -> None:
        """Subscriptions and services by which somebody steers the vehicle."""
        node = self._node
        for topic, callback, raw in (
            (topics.COMMAND_POSE, self._on_pose, False),
            (topics.COMMAND_VELOCITY, self._on_velocity, True),
            (topics.COMMAND_TRAJECTORY, self._on_trajectory, False),
        ):
            node.listen(topic, callback, self._name(topic.name), raw=raw)
        for name in REQUESTS:
            answer = partial(self._on_request, name.split("/")[-1])
            node.create_service(Trigger, self._name(name), answer)
        node.create_service(SetBool, self._name("arm"), self._on_arm)

    # ---- what comes in -------------------------------------------------------------------------

    def answer(self, response: Any, refused: str | None) -> Any:
        """Tell whether a request is obeyed, and why not."""
        response.success = refused is None
        response.message = refused or self.manager.state
        self.tell(self.manager.take_events())
        return response

    def _on_request(self, name: str, _: Any, response: Any) -> Any:
        """Start, pause, abort, hover, return home or land, as the manager calls them."""
        return self.answer(response, getattr(self.manager, name)())

    def _on_arm(self, request: Any, response: Any) -> Any:
        return self.answer(response, self.manager.arm() if request.data else self.manager.disarm())

    def _refuse_stale(self, stamp_ns: int) -> None:
        """Refuse a command that is older than the flight waits for the next."""
        timeout_s = self.manager.params.failsafe.command_timeout_s
        refuse_stale(stamp_ns, self.begun_ns + self.manager.now_ns, timeout_s)

    def _on_pose(self, message: Any) -> None:
        self._refuse_stale(stamp_ns_of(message.header.stamp))
        self._obey(self.manager.command_pose(*read_pose_command(message)))

    def _on_velocity(self, payload: bytes) -> None:
        if payload in self.own:
            return
        self._refuse_stale(stamp_of(payload))
        request = read_velocity_command(payload, self.odometry.q_WB)
        self._obey(self.manager.command_velocity(*request))

    def _on_trajectory(self, message: Any) -> None:
        points, begin_ns = read_trajectory_command(message)
        begin_ns = None if begin_ns is None else begin_ns - self.begun_ns
        self._obey(self.manager.command_trajectory(points, begin_ns))

    def _obey(self, refused: str | None) -> None:
        """Say what a command did now: while time stands still, no step will."""
        self.tell(self.manager.take_events())
        refuse(refused)

    # ---- status --------------------------------------------------------------------------------

    def event(self, level: int, name: str, message: str, stamp_ns: int) -> None:
        """Say on ``events`` that something happened."""
        self._events.publish(make_event(stamp_ns, level, name, message))
        if self._alone:
            self._node.get_logger().info(f"{name}: {message}")

    def tell(self, events: Iterable[tuple[int, int, str, str]]) -> None:
        """Publish new events, stamped by the manager's time, and the status if it changed."""
        for stamp_ns, level, name, message in events:
            self.event(level, name, message, self.begun_ns + stamp_ns)
        status = self.manager.status()
        if status != self._reported:
            self._reported = status
            level = int(bool(status["reason"]))
            self._status.publish(make_status(level, "mission", status["state"], status))

    def tell_mission(self) -> None:
        """Publish the waypoints."""
        path = serialize_message(make_path(self.manager.waypoints()))
        self.own.append(path)
        self._mission.publish(path)
