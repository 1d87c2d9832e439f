"""One vehicle of the node ``swarm``: commands and requests in, events and the mission's state out.

Topics and services are those of the node ``autopilot``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rclpy.serialization import serialize_message
from std_srvs.srv import SetBool, Trigger

from quadsim.ros.messages.cdr import MessageError, stamp_of
from quadsim.ros.messages.commands import (
    make_path,
    read_pose_command,
    read_trajectory_command,
    read_velocity_command,
    refuse_stale,
)
from quadsim.ros.messages.world import stamp_ns_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_status
from quadsim.ros.runtime.topics import Topic, full_name
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import Event

REQUESTS = (
    "mission/start", "mission/pause", "mission/abort", "hover", "return_home", "land",
)  # fmt: skip


class Steering:
    """Endpoints of one vehicle.

    Args:
        node: whose they are.
        namespace: of the vehicle.
        steered: whether it takes commands and requests.
    """

    loop: ClosedLoop

    def __init__(self, node: QuadsimNode, namespace: str, steered: bool) -> None:
        self._node, self._namespace = node, namespace
        self._begun_ns = 0
        self._said: dict[str, str] = {}

        def offer(topic: Topic) -> Any:
            return node.offer(topic, full_name(namespace, topic.name))

        self._events = offer(topics.EVENTS)
        self._status = offer(topics.MISSION_STATUS)
        self._mission = offer(topics.MISSION)
        if steered:
            self._listen()

    def _listen(self) -> None:
        """Subscriptions and services by which somebody steers the vehicle."""
        node = self._node
        listen = (
            (topics.COMMAND_POSE, self._on_pose, False),
            (topics.COMMAND_VELOCITY, self._on_velocity, True),
            (topics.COMMAND_TRAJECTORY, self._on_trajectory, False),
        )
        for topic, callback, raw in listen:
            node.listen(topic, callback, full_name(self._namespace, topic.name), raw=raw)
        for name in REQUESTS:
            answer = partial(self._on_request, name.split("/")[-1])
            node.create_service(Trigger, full_name(self._namespace, name), answer)
        node.create_service(SetBool, full_name(self._namespace, "arm"), self._on_arm)

    def begin(self, loop: ClosedLoop, begun_ns: int) -> None:
        """Steer another loop, whose time began at a simulated time."""
        self.loop, self._begun_ns = loop, begun_ns
        self._said = {}
        self._mission.publish(serialize_message(make_path(loop.manager.waypoints())))
        self.tell(begun_ns, look=True)

    # ---- what comes in -------------------------------------------------------------------------

    def _answer(self, response: Any, refused: str | None) -> Any:
        response.success = refused is None
        response.message = refused or self.loop.manager.state
        self._tell_at_once(look=True)
        return response

    def _on_request(self, name: str, _: Any, response: Any) -> Any:
        return self._answer(response, getattr(self.loop.manager, name)())

    def _on_arm(self, request: Any, response: Any) -> Any:
        manager = self.loop.manager
        return self._answer(response, manager.arm() if request.data else manager.disarm())

    def _refuse_stale(self, stamp_ns: int) -> None:
        timeout_s = self.loop.scenario.autopilot.flight.failsafe.command_timeout_s
        refuse_stale(stamp_ns, self._begun_ns + self.loop.stamp_ns, timeout_s)

    def _on_pose(self, message: Any) -> None:
        self._refuse_stale(stamp_ns_of(message.header.stamp))
        self._obey(self.loop.manager.command_pose(*read_pose_command(message)))

    def _on_velocity(self, payload: bytes) -> None:
        self._refuse_stale(stamp_of(payload))
        q_WB = self.loop.state.odometry.q_WB
        self._obey(self.loop.manager.command_velocity(*read_velocity_command(payload, q_WB)))

    def _on_trajectory(self, message: Any) -> None:
        points, begin_ns = read_trajectory_command(message)
        begin_ns = None if begin_ns is None else begin_ns - self._begun_ns
        self._obey(self.loop.manager.command_trajectory(points, begin_ns))

    def _obey(self, refused: str | None) -> None:
        self._tell_at_once(look=False)
        if refused:
            raise MessageError(refused)

    # ---- what it says --------------------------------------------------------------------------

    def event(self, level: int, name: str, message: str, stamp_ns: int) -> None:
        """Say on ``events`` that something happened."""
        values = {"stamp_s": f"{stamp_ns * 1e-9:.3f}"}
        self._events.publish(make_status(level, name, message, values))

    def _tell_at_once(self, look: bool) -> None:
        """Say what a request or a command did now: while time stands still, no tick will."""
        self.loop.events += [Event(*event) for event in self.loop.manager.take_events()]
        self.tell(self._begun_ns, look)

    def tell(self, begun_ns: int, look: bool) -> None:
        """Publish new events, and the mission's status if it changed.

        Args:
            begun_ns: simulated time at which the loop's began.
            look: at the status, even if nothing has happened.
        """
        loop = self.loop
        if not (loop.events or look):
            return
        events, loop.events = loop.events, []
        for stamp_ns, level, name, message in events:
            self.event(level, name, message, begun_ns + stamp_ns)
        status = loop.manager.status()
        if status != self._said:
            self._said = status
            level = int(bool(status["reason"]))
            self._status.publish(make_status(level, "mission", status["state"], status))
