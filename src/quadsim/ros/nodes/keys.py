"""Node ``keys``: arrow keys in a terminal push a vehicle.

The arrows push forward, back, left and right of the vehicle's heading, level, with a pulse of
``force_N`` for ``duration_s`` of simulated time; a key that is held down repeats and so goes on.
Space pauses and resumes the world, ``r`` resets it, ``q`` and Ctrl-C quit.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from prompt_toolkit.input import create_input
from rclpy.context import Context
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from std_srvs.srv import SetBool, Trigger

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.rotation import from_euler, quat, rotate, yaw_of
from quadsim.ros.messages.cdr import put_xyz, stamp_of
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare
from quadsim.ros.runtime.runtime import entry_points, new_context, spin

#: How often the keyboard is looked at.
LOOK_PERIOD_S = 0.02

#: Directions of the keys: forward, left, up of the vehicle, level.
DIRECTIONS: dict[str, Vec3] = {
    "up": (1.0, 0.0, 0.0),
    "down": (-1.0, 0.0, 0.0),
    "left": (0.0, 1.0, 0.0),
    "right": (0.0, -1.0, 0.0),
}
PAUSE, RESET, QUIT = " ", "r", ("q", "c-c")


@dataclass(frozen=True)
class KeysParams:
    """One press of an arrow key."""

    force_N: Annotated[float, Spec("of a push", "N", gt=0.0, le=1e4)] = 5.0
    duration_s: Annotated[float, Spec("of a push, in simulated time", "s", gt=0.0, le=10.0)] = 0.2


class KeySource(Protocol):
    """Where keys come from."""

    def pressed(self) -> list[str]:
        """Names of the keys since the last call."""
        ...

    def close(self) -> None:
        """Give the keyboard back; a second call changes nothing."""
        ...


class Keyboard:
    """The keys of the terminal on standard input, one by one and without an echo.

    Raises:
        InputError: standard input is no terminal.
    """

    def __init__(self) -> None:
        if not sys.stdin.isatty():
            raise InputError("keys: standard input is no terminal")
        self._input = create_input(sys.stdin)
        self._raw = self._input.raw_mode()
        self._raw.__enter__()
        self._open = True

    def pressed(self) -> list[str]:
        """Names of the keys since the last call: ``up``, ``down``, ``left``, ``right``, letters."""
        return [str(getattr(press.key, "value", press.key)) for press in self._input.read_keys()]

    def close(self) -> None:
        """Set the terminal as it was."""
        if self._open:
            self._open = False
            self._raw.__exit__(None, None, None)


def force_of(key: str, yaw: float, force_N: float) -> Vec3:
    """Force of an arrow key on a vehicle of a heading, world axes, in N."""
    forward, left, up = DIRECTIONS[key]
    level = (force_N * forward, force_N * left, force_N * up)
    return rotate(from_euler(0.0, 0.0, yaw), level)


class KeysNode(QuadsimNode):
    """Keys in, ``external_wrench`` and calls of ``/sim/...`` out.

    Args:
        keyboard: where keys come from; None is this process' terminal.
        kwargs: as of :class:`QuadsimNode`.

    Raises:
        InputError: there is no terminal.
    """

    def __init__(self, keyboard: KeySource | None = None, **kwargs: Any) -> None:
        super().__init__("keys", **kwargs)
        self.params = declare(self, KeysParams())
        self._keyboard = keyboard or Keyboard()
        self.when_destroyed(self._keyboard.close)
        self._truth = b""
        self._until_ns = 0
        self._paused = False
        self._output = self.offer(topics.EXTERNAL_WRENCH)
        self.when_destroyed(self._end_push)
        self._pause = self.create_client(SetBool, "/sim/pause")
        self._reset = self.create_client(Trigger, "/sim/reset")
        self.listen(topics.TRUTH, self._on_truth, reliable=False)
        self.wall_timer(LOOK_PERIOD_S, self._look)
        self.get_logger().info(
            f"arrow keys push with {self.params.force_N:g} N for {self.params.duration_s:g} s;"
            " space pauses, r resets, q quits"
        )

    def _on_truth(self, payload: bytes) -> None:
        """Keep the newest truth, whose stamp is the time, and end a push that is over."""
        self._truth = payload
        if self._until_ns and stamp_of(payload) >= self._until_ns:
            self._until_ns = 0
            self._publish((0.0, 0.0, 0.0))

    def _look(self) -> None:
        for key in self._keyboard.pressed():
            self._on_key(key)

    def _on_key(self, key: str) -> None:
        if key in DIRECTIONS and self._truth:
            truth = deserialize_message(self._truth, Odometry)
            q = truth.pose.pose.orientation
            yaw = yaw_of(quat((q.w, q.x, q.y, q.z)))
            self._until_ns = stamp_of(self._truth) + round(self.params.duration_s * 1e9)
            self._publish(force_of(key, yaw, self.params.force_N))
        elif key == PAUSE and self._pause.service_is_ready():
            self._paused = not self._paused
            self._pause.call_async(SetBool.Request(data=self._paused))
        elif key == RESET and self._reset.service_is_ready():
            self._reset.call_async(Trigger.Request())
        elif key in QUIT:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C where the terminal makes it

    def _publish(self, force_W_N: Vec3) -> None:
        message = WrenchStamped()
        message.header.frame_id = "map"
        message.header.stamp = make_time(stamp_of(self._truth))
        put_xyz(message.wrench.force, force_W_N)
        self._output.publish(message)

    def _end_push(self) -> None:
        if self._until_ns:
            self._publish((0.0, 0.0, 0.0))

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Whether it pushes."""
        return 0, "pushing" if self._until_ns else "waiting for keys", {}


class MakeOfKeys(Protocol):
    """Makes a node that takes keys; keyword arguments as of :class:`QuadsimNode`."""

    def __call__(self, keyboard: KeySource, **kwargs: Any) -> Node:
        """Make it."""
        ...


@contextmanager
def at_terminal(make: MakeOfKeys, domain: int, namespace: str) -> Iterator[None]:
    """Run a node on this process' terminal while the block runs.

    Raises:
        InputError: there is no terminal.
    """
    keyboard = Keyboard()
    stop = threading.Event()

    def make_in(context: Context) -> Node:
        return make(keyboard, context=context, namespace=namespace, use_global_arguments=False)

    try:
        context = new_context(domain)
        thread = threading.Thread(target=spin, args=([make_in], context, stop), name="keys")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            context.try_shutdown()
    finally:
        keyboard.close()


make, main = entry_points(KeysNode)
