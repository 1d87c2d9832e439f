"""Rotor speeds out of JointState messages, whose layout depends on the names of their joints."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.bag.cdr import HEADER, LITTLE_ENDIAN, STAMP_END
from quadsim.errors import QuadsimError


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


def _velocities(payload: bytes) -> tuple[list[str], int, int]:
    """Names of the joints, where their velocities lie, and how many there are."""
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

    Raises:
        QuadsimError: a message is no JointState, or not all speak of the same joints.
    """
    stamps = np.zeros(len(payloads), np.int64)
    rows: list[NDArray[np.float64]] = []
    head, begin, names = b"", 0, list[str]()
    for i, payload in enumerate(payloads):
        try:
            if not rows or payload[STAMP_END:begin] != head:
                these, begin, count = _velocities(payload)
                if count != len(these) or (rows and these != names):
                    raise ValueError(f"{count} velocities of {', '.join(these) or 'no joint'}")
                head, names = payload[STAMP_END:begin], these
            rows.append(np.frombuffer(payload, "<f8", len(names), begin))
            seconds, nanoseconds = struct.unpack_from("<iI", payload, HEADER)
        except (ValueError, struct.error) as error:
            raise QuadsimError(f"message {i} is no sensor_msgs/msg/JointState: {error}") from None
        stamps[i] = seconds * 1_000_000_000 + nanoseconds
    return stamps, np.array(rows, float).reshape(len(rows), len(names)), names
