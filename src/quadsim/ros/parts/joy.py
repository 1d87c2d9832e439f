"""What a joystick's messages ask of the autopilot, through its mapping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadsim.base.errors import InputError
from quadsim.control.joystick import Joystick, Sticks, load_joystick
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode


class JoyInput:
    """The subscription of ``joy``.

    Buttons are timed, and sticks missed, by the node's clock: a driver's stamps are of its own.

    Args:
        node: who listens.
        mapping: a file of ``config/joysticks``, or a path.
        on_button: takes the name of a button, once, when it is pressed (arm: has been held).
        on_sticks: takes forward, left, up, yaw, each in [-1, 1], of each message.

    Raises:
        InputError: the mapping cannot be used.
    """

    def __init__(
        self,
        node: QuadsimNode,
        mapping: str,
        on_button: Callable[[str], None],
        on_sticks: Callable[[Sticks], None],
    ) -> None:
        self._joystick = Joystick(load_joystick(mapping))
        self._clock = node.get_clock()
        self._on_button, self._on_sticks = on_button, on_sticks
        node.listen(topics.JOY, self._on_joy, raw=False, reliable=False)

    def _on_joy(self, message: Any) -> None:
        now_ns = self._clock.now().nanoseconds
        try:
            reading = self._joystick.read(message.axes, message.buttons, now_ns)
        except InputError as error:
            raise MessageError(str(error)) from None
        for name in reading.asked:
            self._on_button(name)
        self._on_sticks(reading.sticks)
