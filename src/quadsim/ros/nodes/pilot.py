"""Node ``pilot``: a terminal's keys as a joystick.

It publishes ``joy`` in the layout of ``config/joysticks/keyboard.yaml``. A terminal tells of keys
that go down and repeat, never of those that go up: a key counts as held for ``hold_s`` after each
press, then its stick falls back to the middle within ``fall_s``.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any

from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Joy

from quadsim.base.parameters import Spec
from quadsim.control.joystick import ButtonsParams, Sticks
from quadsim.ros.nodes.keys import QUIT, Keyboard, KeySource
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, values_of
from quadsim.ros.runtime.params import declare
from quadsim.ros.runtime.runtime import entry_points

#: Deflection of a key, over the range.
DEFLECTION = 1.0
#: Time in which the stick of a key falls back, s.
FALL_S = 0.3
#: How often ``joy`` is published, and the line renewed.
PUBLISH_PERIOD_S, SHOW_PERIOD_S = 0.05, 0.2

#: Key to stick (forward, left, up, yaw) and sign.
STICKS = {
    "up": (0, 1.0), "down": (0, -1.0), "left": (1, 1.0), "right": (1, -1.0),
    "w": (2, 1.0), "s": (2, -1.0), "a": (3, 1.0), "d": (3, -1.0),
}  # fmt: skip
#: Key to button.
BUTTONS = {
    "o": "arm", "x": "disarm", "t": "take_off", "l": "land", "h": "hover", "g": "start",
    "1": "assisted", "2": "manual", "e": "source",
}  # fmt: skip
#: Lets go of everything.
RELEASE = " "
#: The buttons in the order of the messages.
ORDER = tuple(ButtonsParams.__dataclass_fields__)

HELP = (
    "arrows: forward, back, left, right; w, s: up, down; a, d: turn; space: let go;"
    " o held: arm; x: disarm; t: take off; l: land; h: hover; g: mission; 1: assisted; 2: manual;"
    " e: estimate or truth; q: quit"
)


@dataclass(frozen=True)
class PilotParams:
    """How keys become sticks."""

    hold_s: Annotated[
        float, Spec("time for which a key counts as held after each press", "s", gt=0.0, le=2.0)
    ] = 0.4


class Keypad:
    """Keys that were pressed a while ago, as sticks and buttons."""

    def __init__(self, params: PilotParams) -> None:
        self._params = params
        self._pressed: dict[str, float] = {}

    def press(self, key: str, now_s: float) -> None:
        """A key went down, or repeats."""
        if key == RELEASE:
            self._pressed.clear()
        elif key in STICKS:
            index, sign = STICKS[key]
            for other, (stick, rotated) in STICKS.items():
                if stick == index and rotated != sign:
                    self._pressed.pop(other, None)
            self._pressed[key] = now_s
        elif key in BUTTONS:
            self._pressed[key] = now_s

    def _share(self, key: str, now_s: float) -> float:
        """1 while a key counts as held, then down to 0."""
        if key not in self._pressed:
            return 0.0
        over_s = now_s - self._pressed[key] - self._params.hold_s
        return min(max(1.0 - over_s / FALL_S, 0.0), 1.0)

    def sticks(self, now_s: float) -> Sticks:
        """Forward, left, up, yaw."""
        found = [0.0, 0.0, 0.0, 0.0]
        for key, (index, sign) in STICKS.items():
            found[index] += sign * DEFLECTION * self._share(key, now_s)
        return (found[0], found[1], found[2], found[3])

    def buttons(self, now_s: float) -> list[int]:
        """1 for each that counts as held, in the order of the messages."""
        held = {BUTTONS[key] for key in BUTTONS if self._share(key, now_s) > 0.0}
        return [int(name in held) for name in ORDER]


class PilotNode(QuadsimNode):
    """Keys in, ``joy`` out; state, height and speed on one line of the terminal.

    Args:
        keyboard: where keys come from; None is this process' terminal.
        kwargs: as of :class:`QuadsimNode`.

    Raises:
        InputError: there is no terminal.
    """

    def __init__(self, keyboard: KeySource | None = None, **kwargs: Any) -> None:
        super().__init__("pilot", **kwargs)
        self._keypad = Keypad(declare(self, PilotParams()))
        self._keyboard = keyboard or Keyboard()
        self.when_destroyed(self._leave_terminal)
        self._status: dict[str, str] = {}
        self._odometry = b""
        self._output = self.offer(topics.JOY)
        self.listen(topics.MISSION_STATUS, self._on_status, raw=False)
        self.listen(topics.ODOMETRY, self._on_odometry, reliable=False)
        self.wall_timer(PUBLISH_PERIOD_S, self._publish)
        self.wall_timer(SHOW_PERIOD_S, self._show)
        if sys.stderr.isatty():
            sys.stderr.write(f"{HELP}\r\n")

    def _on_status(self, message: Any) -> None:
        self._status = values_of(message)

    def _on_odometry(self, payload: bytes) -> None:
        self._odometry = payload

    def _publish(self) -> None:
        """The keys since the last time, and what they make."""
        now_s = time.monotonic()
        for key in self._keyboard.pressed():
            if key in QUIT:
                signal.raise_signal(signal.SIGINT)  # as Ctrl-C where the terminal makes it
            self._keypad.press(key, now_s)
        message = Joy(axes=list(self._keypad.sticks(now_s)), buttons=self._keypad.buttons(now_s))
        message.header.frame_id = "joy"
        message.header.stamp = self.get_clock().now().to_msg()
        self._output.publish(message)

    def line(self) -> str:
        """State, height and speed."""
        words = [self._status.get("state", "waiting for the autopilot")]
        if self._odometry:
            odometry = deserialize_message(self._odometry, topics.ODOMETRY.message)
            v = odometry.twist.twist.linear
            words.append(f"height {odometry.pose.pose.position.z:.1f} m")
            words.append(f"speed {(v.x * v.x + v.y * v.y + v.z * v.z) ** 0.5:.1f} m/s")
        if reason := self._status.get("reason"):
            words.append(reason)
        return ", ".join(words)

    def _show(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{self.line()}")
            sys.stderr.flush()

    def _leave_terminal(self) -> None:
        """Set the terminal as it was, on a line of its own."""
        self._keyboard.close()
        if sys.stderr.isatty():
            sys.stderr.write("\n")

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """What it sees of the flight."""
        return 0, self.line(), {}


make, main = entry_points(PilotNode)
