"""Rotor speeds out of JointState messages, whose layout depends on the names of their joints."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import QuadsimError
from quadsim.wire.decode import HEADER, LITTLE_ENDIAN, STAMP_END
from quadsim.wire.payloads import Payloads


class _Cursor:
    """A place in one message, moved on by what is read."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self.at = payload, STAMP_END

    def count(self) -> int:
        """A length."""
        self.at += (HEADER - self.at) % 4
        (value,) = struct.unpack_from("<I", self._payload, self.at)
        self.at += 4
        return int(value)

    def text(self) -> str:
        """A string, without the zero at its end."""
        length = self.count()
        begin, self.at = self.at, self.at + length
        if self.at > len(self._payload):
            raise ValueError("a name is cut off")
        return self._payload[begin : self.at].rstrip(b"\0").decode()

    def numbers(self) -> tuple[int, int]:
        """Where a sequence of float64 begins, and how many there are."""
        count = self.count()
        if count:
            self.at += (HEADER - self.at) % 8
        begin, self.at = self.at, self.at + 8 * count
        if self.at > len(self._payload):
            raise ValueError("numbers are cut off")
        return begin, count


def joint_velocities(payload: bytes) -> tuple[list[str], int, int]:
    """Names of a JointState's joints, where their velocities lie, and how many there are.

    Raises:
        ValueError, struct.error: it is none.
    """
    if len(payload) < STAMP_END or payload[1] != LITTLE_ENDIAN:
        raise ValueError("not little-endian CDR")
    cursor = _Cursor(payload)
    cursor.text()  # the frame
    names = [cursor.text() for _ in range(cursor.count())]
    cursor.numbers()  # positions
    return names, *cursor.numbers()


def decode_joints(
    payloads: Sequence[bytes],
) -> tuple[NDArray[np.int64], NDArray[np.float64], list[str]]:
    """Stamps in ns, velocities (N, joints) and names of the joints, of messages of one topic.

    Joints that are called rotor_0, rotor_1, ... come in the order of their numbers.

    Raises:
        QuadsimError: a message is no JointState, or not all speak of the same joints.
    """
    messages = Payloads.of(payloads)
    stamps: list[NDArray[np.int64]] = []
    rows: list[NDArray[np.float64]] = []
    names = list[str]()
    start = 0
    while start < len(messages):
        try:
            these, begin, count = joint_velocities(messages[start])
            if count != len(these) or (rows and these != names):
                raise ValueError(f"{count} velocities of {', '.join(these) or 'no joint'}")
        except (ValueError, struct.error) as error:
            raise QuadsimError(
                f"message {start} is no sensor_msgs/msg/JointState: {error}"
            ) from None
        names, width = these, begin + 8 * count - HEADER
        short = np.flatnonzero(messages.length[start:] < HEADER + width)
        run = messages[start : start + int(short[0]) if len(short) else None]
        part: NDArray[Any] = run.heads(width, HEADER).view(np.uint8).reshape(-1, width)
        head = part[:, STAMP_END - HEADER : begin - HEADER]
        same = (head == head[0]).all(axis=1)  # where the velocities lie, and whose they are
        part = part[: len(part) if same.all() else int(np.argmin(same))]
        seconds, nanoseconds = (
            np.ascontiguousarray(part[:, at : at + 4]).view(kind)[:, 0].astype(np.int64)
            for at, kind in ((0, "<i4"), (4, "<u4"))
        )
        stamps.append(seconds * 1_000_000_000 + nanoseconds)
        rows.append(np.ascontiguousarray(part[:, begin - HEADER :]).view("<f8"))
        start += len(part)
    values = np.concatenate(rows).astype(float)
    wanted = [f"rotor_{i}" for i in range(len(names))]
    if sorted(names) == sorted(wanted):
        values, names = values[:, [names.index(name) for name in wanted]], wanted
    return np.concatenate(stamps), values, names
