"""Reading serialised messages of ROS: numbers are read where they lie, and checked.

Reading an Odometry through its Python class takes 60 us, most of it in checks of every number. Raw
subscriptions give the bytes; :mod:`quadsim.wire.encode` makes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message

from quadsim.base.parameters import Vec3
from quadsim.wire.decode import LAYOUTS, message_dtype
from quadsim.wire.encode import SECOND_NS
from quadsim.wire.joint_states import joint_velocities

_STAMPS = (struct.Struct(">iI"), struct.Struct("<iI"))  # big and little endian
_COUNT = struct.Struct("<I")
_STAMP_AT = 4  # behind the four bytes that say how the message is represented
_NAMES_AT = 12
_LITTLE_ENDIAN = b"\x00\x01"
#: Ten days before seconds leave an int32: what is added to a stamp must not.
LATEST_S = 2**31 - 1 - 864_000
#: Longest text of a message that is repeated in a log.
BRIEF = 80
#: What rclpy raises of bytes that are no message.
UNREADABLE = (RuntimeError, ValueError, TypeError, OverflowError, MemoryError, SystemError)


class MessageError(ValueError):
    """A message that is not used: bytes that are none, or what no such message can say."""


def refuse(words: str | None) -> None:
    """Refuse a message, where there are words why.

    Raises:
        MessageError: there are.
    """
    if words:
        raise MessageError(words)


def xyz(field: Any) -> Vec3:
    """Numbers of a Vector3 or a Point."""
    return (field.x, field.y, field.z)


def put_xyz(field: Any, numbers: Any) -> None:
    """Write numbers into a Vector3 or a Point."""
    field.x, field.y, field.z = map(float, numbers)


def deserialize(payload: bytes, kind: Any) -> Any:
    """A message of a class.

    Raises:
        MessageError: these bytes are no such message.
    """
    try:
        return deserialize_message(payload, kind)
    except UNREADABLE as error:
        raise MessageError(f"not a {kind.__name__}: {_first_line(error)}") from None


def brief(text: str) -> str:
    """A text of a message, as far as a line has room for it."""
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 3]}..."


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def checked_stamp(seconds: int, nanoseconds: int) -> int:
    """A time in ns that can be reckoned with.

    Raises:
        MessageError: it is below 0, in 2038, or has more than a second of nanoseconds.
    """
    if not (0 <= seconds <= LATEST_S and nanoseconds < SECOND_NS):
        raise MessageError(f"its stamp is {seconds} s and {nanoseconds} ns")
    return int(seconds * SECOND_NS + nanoseconds)


def stamp_ns_of(time: Any) -> int:
    """Nanoseconds of a Time message.

    Raises:
        MessageError: it is no time.
    """
    return checked_stamp(time.sec, time.nanosec)


def stamp_of(payload: bytes) -> int:
    """Stamp of the header that a serialised message begins with, ns.

    Raises:
        MessageError: there is none, or it is no time.
    """
    try:
        seconds, nanoseconds = _STAMPS[payload[1] & 1].unpack_from(payload, _STAMP_AT)
    except (struct.error, IndexError):
        raise MessageError(f"{len(payload)} bytes, too short for a header") from None
    if 0 <= seconds <= LATEST_S and nanoseconds < SECOND_NS:
        return int(seconds * SECOND_NS + nanoseconds)
    return checked_stamp(seconds, nanoseconds)


class Reader:
    """Numbers of serialised messages of one type; the layout is found once per set of frame names.

    Args:
        type_name: one of :data:`quadsim.wire.decode.LAYOUTS`.
    """

    def __init__(self, type_name: str) -> None:
        self._type_name = type_name
        self._layout = LAYOUTS[type_name]
        self._names = b""
        self._names_end = _NAMES_AT
        self._dtype: np.dtype[np.void] | None = None
        #: Where the fields of the last message lie in its bytes.
        self.places: dict[str, int] = {}

    @property
    def names(self) -> bytes:
        """Frame names of the last message as they came; the same object while they are the same."""
        return self._names

    @property
    def frames(self) -> list[str]:
        """Frame names of the last message."""
        names, at, found = self._names, 0, []
        for _ in range(self._layout.frames):
            at += -at % 4
            (length,) = _COUNT.unpack_from(names, at)
            found.append(names[at + 4 : at + 3 + length].decode(errors="replace"))
            at += 4 + length
        return found

    def read(self, payload: bytes) -> Any:
        """View of one message; ``view["p"]`` and so on by the layout's names.

        Raises:
            MessageError: these bytes are no such message.
        """
        return self.view(self.checked(payload))

    def view(self, checked: bytes) -> Any:
        """View of the message that was checked last."""
        return np.frombuffer(checked, self._dtype)[0]

    def checked(self, payload: bytes) -> bytes:
        """One message whose fields are in their :attr:`places`.

        Raises:
            MessageError: these bytes are no such message.
        """
        dtype = self._dtype
        if (
            dtype is None
            or len(payload) != dtype.itemsize
            or payload[_NAMES_AT : self._names_end] != self._names
            or payload[:2] != _LITTLE_ENDIAN
        ):
            self._learn(payload)
        return payload

    def _learn(self, payload: bytes) -> None:
        """Find the layout from a message."""
        try:
            dtype = message_dtype(self._layout, payload)
        except (struct.error, *UNREADABLE) as error:
            raise MessageError(f"not a {self._type_name}: {_first_line(error)}") from None
        assert dtype.fields is not None
        self._names_end = _NAMES_AT + dtype.fields["names"][0].itemsize
        self._names = payload[_NAMES_AT : self._names_end]
        self._dtype = dtype
        self.places = {name: place[1] for name, place in dtype.fields.items()}


def rotor_names(rotors: int) -> list[str]:
    """Names of a multirotor's rotors in messages."""
    return [f"rotor_{i}" for i in range(rotors)]


class RotorsReader:
    """Speeds in serialised JointState messages, in the order of the rotors' names.

    Args:
        names: of the numbers, where they are not ``rotor_0``, ``rotor_1``, ...
    """

    def __init__(self, rotors: int, names: Sequence[str] = ()) -> None:
        self._names = list(names) or rotor_names(rotors)
        self._head = b""
        self._speeds_at = self._count = 0
        self._order: NDArray[np.intp] | None = None  # of the speeds; None: as they are wanted

    def read(self, payload: bytes) -> NDArray[np.float64]:
        """Speeds by their names in rad/s, (rotors,).

        Raises:
            MessageError: these bytes are no such message, or hold other rotors.
        """
        head = payload[:2] + payload[_NAMES_AT : self._speeds_at]
        if not self._head or head != self._head:
            self._learn(payload)
        if len(payload) < self._speeds_at + 8 * self._count:
            raise MessageError(f"{len(payload)} bytes, too short for {self._count} speeds")
        speeds = np.frombuffer(payload, "<f8", self._count, self._speeds_at)
        return speeds if self._order is None else speeds[self._order]

    def _learn(self, payload: bytes) -> None:
        """Find where the speeds lie, and whose they are."""
        try:
            names, self._speeds_at, self._count = joint_velocities(payload)
        except (struct.error, *UNREADABLE) as error:
            raise MessageError(f"not a JointState: {_first_line(error)}") from None
        wanted = self._names
        if missing := [name for name in wanted if name not in names[: self._count]]:
            raise MessageError(f"no velocity of {', '.join(missing)}")
        places = [names.index(name) for name in wanted]
        self._order = None if places == list(range(self._count)) else np.array(places)
        self._head = payload[:2] + payload[_NAMES_AT : self._speeds_at]
