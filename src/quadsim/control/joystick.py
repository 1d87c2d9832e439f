"""Joysticks: mapping files, and what a joystick's axes and buttons say through them.

A mapping (``config/joysticks``) tells which axis is which stick and which button asks for what.
Sticks are shares of their range, in [-1, 1]: forward, left, up, and yaw to the left, the signs in
which ``joy_node`` publishes sticks pushed forward and to the left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import Spec, load

#: Forward, left, up, yaw; each in [-1, 1].
Sticks = tuple[float, float, float, float]
RELEASED: Sticks = (0.0, 0.0, 0.0, 0.0)

#: Larger sizes of an axis are no joystick's; single precision and a driver's rounding are below.
LARGEST_AXIS = 1.01

#: Longest gap between two messages over which a button counts as held and sticks as known, s.
GAP_S = 0.5


@dataclass(frozen=True)
class AxisParams:
    """One stick."""

    index: Annotated[int, Spec("which of the message's axes", ge=0, le=63)]
    sign: Annotated[int, Spec("1, or -1 where the driver has it the other way", ge=-1, le=1)] = 1
    dead_zone: Annotated[
        float, Spec("deflection that counts as none, over the range", "1", ge=0.0, le=0.5)
    ] = 0.05
    expo: Annotated[
        float, Spec("0: in proportion; 1: with the cube, gentle in the middle", "1", ge=0.0, le=1.0)
    ] = 0.3

    def __post_init__(self) -> None:
        """Refuse a sign that is none."""
        if self.sign == 0:
            raise InputError("sign: 0; allowed: 1, -1")

    def stick(self, deflection: float) -> float:
        """Share of the range, in [-1, 1], of an axis' value."""
        return self.sign * shaped(deflection, self.dead_zone, self.expo)


@dataclass(frozen=True)
class AxesParams:
    """The four sticks."""

    forward: AxisParams
    left: AxisParams
    up: AxisParams
    yaw: AxisParams

    def all(self) -> tuple[AxisParams, AxisParams, AxisParams, AxisParams]:
        """In the order of :data:`Sticks`."""
        return (self.forward, self.left, self.up, self.yaw)


def _button(doc: str) -> Spec:
    return Spec(f"{doc}: which of the message's buttons; -1 for none", ge=-1, le=63)


@dataclass(frozen=True)
class ButtonsParams:
    """What buttons ask for; each is obeyed once, when it is pressed."""

    arm: Annotated[int, _button("arm, when it is held")] = -1
    disarm: Annotated[int, _button("disarm, on the ground")] = -1
    take_off: Annotated[int, _button("take off, armed")] = -1
    land: Annotated[int, _button("land here")] = -1
    hover: Annotated[int, _button("stop and hover")] = -1
    start: Annotated[int, _button("begin the mission, or go on with it")] = -1
    assisted: Annotated[int, _button("assisted control")] = -1
    manual: Annotated[int, _button("manual flight, where it is allowed")] = -1
    source: Annotated[int, _button("from the estimate to the truth, or back")] = -1

    def named(self) -> dict[str, int]:
        """Those that there are."""
        return {name: index for name, index in vars(self).items() if index >= 0}


@dataclass(frozen=True)
class JoystickParams:
    """A mapping file (``config/joysticks``)."""

    axes: AxesParams
    buttons: ButtonsParams = field(default_factory=ButtonsParams)
    description: Annotated[str, Spec("which joystick, in which mode")] = ""
    hold_s: Annotated[float, Spec("time for which arm is held", "s", ge=0.1, le=10.0)] = 1.0

    def __post_init__(self) -> None:
        """Refuse an axis or a button with two meanings."""
        axes = {name: axis.index for name, axis in vars(self.axes).items()}
        for kind, indices in (("axes", axes), ("buttons", self.buttons.named())):
            first: dict[int, str] = {}
            for name, index in indices.items():
                if index in first:
                    raise InputError(f"{kind}: {name}: {index} is {first[index]} already")
                first[index] = name


def load_joystick(name: str) -> JoystickParams:
    """Read a mapping by its name in ``config/joysticks``, or by its path.

    Raises:
        InputError: one line that names the file, the key and what is allowed.
    """
    return load(JoystickParams, find("joysticks", name))


def shaped(deflection: float, dead_zone: float, expo: float) -> float:
    """Share of a stick's range that a deflection asks for.

    Zero within the dead zone, from there on x = (|deflection| - zone) / (1 - zone), and
    (1 - expo) x + expo x^3 of that: continuous, odd, 1 at full deflection.

    Args:
        deflection: in [-1, 1]; beyond, as at the end.
        dead_zone: in [0, 1).
        expo: in [0, 1].
    """
    x = (min(abs(deflection), 1.0) - dead_zone) / (1.0 - dead_zone)
    if x <= 0.0:
        return 0.0
    return math.copysign((1.0 - expo) * x + expo * x * x * x, deflection)


@dataclass(frozen=True)
class Reading:
    """What one message states.

    Attributes:
        sticks: forward, left, up, yaw.
        asked: names of the buttons, as of :class:`ButtonsParams`, that ask for something now.
    """

    sticks: Sticks
    asked: tuple[str, ...]


class Joystick:
    """A joystick through its mapping.

    Sticks count from when all four have been seen released, and buttons from when they have: a
    joystick that is plugged in with a lever at its stop, or a key held down, moves nothing. After a
    gap of :data:`GAP_S` it counts as plugged in anew.

    Args:
        params: its mapping.
    """

    def __init__(self, params: JoystickParams) -> None:
        self._params = params
        self._axes = params.axes.all()
        self._buttons = params.buttons.named()
        self._need_axes = 1 + max(axis.index for axis in self._axes)
        self._need_buttons = 1 + max(self._buttons.values(), default=-1)
        self._stamp_ns: int | None = None
        self._ready = False
        self._released: set[str] = set()
        self._arm_ns: int | None = None

    def read(self, axes: Sequence[float], buttons: Sequence[int], stamp_ns: int) -> Reading:
        """Read a message.

        Args:
            axes: each in [-1, 1].
            buttons: 0 where one is up.
            stamp_ns: when it came.

        Raises:
            InputError: too few axes or buttons, or an axis that is no share of a range; what was
                known stays as it was.
        """
        self._check(axes, buttons)
        if self._stamp_ns is None or stamp_ns - self._stamp_ns > GAP_S * 1e9:
            self._ready = False
            self._released.clear()
            self._arm_ns = None
        self._stamp_ns = stamp_ns
        forward, left, up, yaw = (axis.stick(axes[axis.index]) for axis in self._axes)
        sticks = (forward, left, up, yaw)
        self._ready = self._ready or sticks == RELEASED
        down = {name for name, index in self._buttons.items() if buttons[index]}
        return Reading(sticks if self._ready else RELEASED, self._asked(down, stamp_ns))

    def _check(self, axes: Sequence[float], buttons: Sequence[int]) -> None:
        if len(axes) < self._need_axes or len(buttons) < self._need_buttons:
            raise InputError(
                f"{len(axes)} axes and {len(buttons)} buttons; the mapping needs"
                f" {self._need_axes} and {self._need_buttons}"
            )
        for i, value in enumerate(axes):
            if not abs(value) <= LARGEST_AXIS:  # NaN is not either
                raise InputError(f"axis {i}: {value:g}; allowed: -1 to 1")

    def _asked(self, down: set[str], stamp_ns: int) -> tuple[str, ...]:
        """Buttons that went down; arm when it has been held."""
        pressed = down & self._released
        self._released = (self._released | set(self._buttons)) - down
        if "arm" not in down:
            self._arm_ns = None
        elif "arm" in pressed:
            self._arm_ns = stamp_ns
        pressed.discard("arm")
        if self._arm_ns is not None and stamp_ns - self._arm_ns >= self._params.hold_s * 1e9:
            self._arm_ns = None
            pressed.add("arm")
        return tuple(name for name in self._buttons if name in pressed)
