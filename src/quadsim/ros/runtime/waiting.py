"""Waiting for other nodes: that they are there, and that they have taken what was sent.

Every ROS node answers on its parameter services, and an executor works in the order of arrival, or
takes one message of each topic in turn. So a node that answers a question has taken what was sent
before it: everything, or at least one message of each topic. This asks nothing of the node but that
it spins, and does not depend on the middleware's own acknowledgements, which Fast DDS asks for only
every 3 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.node import Node

from quadsim.ros.player.control import PlayControl

#: After so long without an answer it is asked again: an answer is lost where the server has not
#: yet found who asked.
ASK_AGAIN_S = 1.0


class InStep:
    """The nodes that a player waits for.

    Args:
        node: who asks; its executor must run in another thread than the one that waits.
        names: full names of the nodes.
        control: what is woken by an answer, and ends a wait.
    """

    def __init__(self, node: Node, names: Sequence[str], control: PlayControl) -> None:
        self._control = control
        self._clients: dict[str, Any] = {
            name: node.create_client(GetParameters, f"{name}/get_parameters") for name in names
        }

    @property
    def names(self) -> list[str]:
        """Full names of the nodes."""
        return list(self._clients)

    def wait(self, within_s: float) -> list[str]:
        """Ask all at once, and wait; who has not answered by then, or when it is interrupted."""
        return self._wait(self.names, within_s)

    def wait_in_turn(self, within_s: float) -> list[str]:
        """Ask one after the other: then what one has sent to the next has come, too."""
        return [name for name in self.names if self._wait([name], within_s)]

    def _wait(self, names: list[str], within_s: float) -> list[str]:
        missing = names
        for _ in range(max(1, round(within_s / ASK_AGAIN_S))):
            asked = {name: self._ask(self._clients[name]) for name in missing}
            self._control.wait_until(partial(_all_done, asked.values()), ASK_AGAIN_S)
            missing = [name for name, future in asked.items() if not _all_done([future])]
            if not missing or self._control.interrupted:
                break
        return missing

    def _ask(self, client: Any) -> Any:
        """An answer to come; None where nobody is there yet."""
        if not client.service_is_ready():
            return None
        future = client.call_async(GetParameters.Request())
        future.add_done_callback(lambda _: self._control.notify())
        return future


def _all_done(futures: Iterable[Any]) -> bool:
    return all(future is not None and future.done() for future in futures)
