"""MAVLink, by pymavlink: messages over a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from quadsim.base.extras import need
from quadsim.firmware.transport import ByteStream

SYSTEM, COMPONENT = 255, 190  # ours: a ground station's, MAV_COMP_ID_MISSIONPLANNER

Message = Any


def dialect() -> Any:
    """The messages of MAVLink 2.

    Raises:
        InputError: pymavlink is not installed.
    """
    return need("pymavlink.dialects.v20.ardupilotmega", "MAVLink")


def fits(data: bytes) -> bool:
    """Whether a packet begins as a message of MAVLink 1 or 2 does, and is long enough for one."""
    return data[:1] in (b"\xfe", b"\xfd") and len(data) >= 8


class Port:
    """MAVLink over a stream.

    Attributes:
        counts: messages by type, ``lost`` by their sequence, and ``damaged``.
    """

    def __init__(self, stream: ByteStream) -> None:
        self.messages = dialect()
        self.stream = stream
        self._link = self.messages.MAVLink(None, SYSTEM, COMPONENT)
        self._link.robust_parsing = True
        self._sequences: dict[tuple[int, int], int] = {}
        self.counts: Counter[str] = Counter()

    def receive(self, timeout_s: float = 0.0) -> Iterator[Any]:
        """Messages that have arrived, waiting for at most so long for the first."""
        data = self.stream.read(timeout_s)
        while data:
            for message in self._link.parse_buffer(data) or ():
                name = message.get_type()
                if name == "BAD_DATA":
                    self.counts["damaged"] += 1
                    continue
                self._count(message, name)
                yield message
            data = self.stream.read()

    def _count(self, message: Message, name: str) -> None:
        self.counts[name] += 1
        who, number = (message.get_srcSystem(), message.get_srcComponent()), message.get_seq()
        before = self._sequences.get(who)
        if before is not None:
            self.counts["lost"] += (number - before - 1) % 256
        self._sequences[who] = number

    def send(self, name: str, *fields: Any) -> None:
        """Send a message of a type, its fields in the order of its definition."""
        message = getattr(self.messages, f"MAVLink_{name}_message")(*fields)
        self.stream.write(message.pack(self._link))
        self._link.seq = (self._link.seq + 1) % 256
