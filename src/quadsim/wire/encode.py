"""Messages made as bytes: one is laid out, and numbers are set in copies of it.

Building and serialising an Odometry through its Python class takes 60 us, most of it in checks of
every number. The messages of a topic differ in their numbers only, so they are written in place: a
few microseconds for one, half a microsecond for each of thousands.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.errors import QuadsimError
from quadsim.wire.decode import HEADER, LAYOUTS, LITTLE_ENDIAN, aligned_offset, message_dtype

SECOND_NS = 1_000_000_000
_STAMP = struct.Struct("<iI")
_JOINT_FRAME = ""


class Cdr:
    """A message of zeros that is laid out field by field, behind its stamp.

    Attributes:
        content: the bytes so far, little-endian CDR.
        places: name of a field to its type with shape, and its offset.
    """

    def __init__(self) -> None:
        self.content = bytearray((0, LITTLE_ENDIAN, 0, 0)) + bytes(8)
        self.places: dict[str, tuple[Any, int]] = {"sec": ("<i4", 4), "nanosec": ("<u4", 8)}

    def put(self, data: bytes, alignment: int = 1) -> Cdr:
        """Append bytes, aligned."""
        self.content = (
            self.content.ljust(aligned_offset(len(self.content), alignment), b"\0") + data
        )
        return self

    def count(self, number: int) -> Cdr:
        """Append the length of a sequence."""
        return self.put(struct.pack("<I", number), 4)

    def text(self, text: str) -> Cdr:
        """Append a string."""
        return self.count(len(text.encode()) + 1).put(text.encode() + b"\0")

    def field(self, name: str, kind: Any, shape: tuple[int, ...] = ()) -> Cdr:
        """Append numbers that can be set by their name."""
        dtype = np.dtype((kind, shape))
        self.put(bytes(dtype.itemsize), dtype.base.itemsize)
        self.places[name] = (dtype, len(self.content) - dtype.itemsize)
        return self

    def template(self) -> Template:
        """Copies of this message."""
        formats, offsets = zip(*self.places.values(), strict=True)
        names, size = list(self.places), len(self.content)
        layout: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
        return Template(self.content, np.dtype(layout))


class Template:
    """Serialised messages of one topic, which differ in their numbers.

    Args:
        content: one of them.
        dtype: where its numbers are.

    Attributes:
        dtype: that.
        fields: views of the numbers that :meth:`payload` writes.
    """

    def __init__(self, content: bytes | bytearray, dtype: np.dtype[np.void]) -> None:
        self._buffer = bytearray(content)
        self.dtype = dtype
        record = np.frombuffer(self._buffer, dtype)
        self.fields: dict[str, Any] = {
            name: record[name][0] if record[name].ndim > 1 else record[name]
            for name in dtype.names or ()
        }

    @staticmethod
    def of(type_name: str, *frames: str, **numbers: ArrayLike) -> Template:
        """Messages of one of :data:`quadsim.wire.decode.LAYOUTS`.

        Args:
            type_name: ``package/msg/Type``.
            frames: as many names as the layout has.
            numbers: what stays the same, by the layout's names; what is not given is zero.
        """
        message = Cdr()
        for frame in frames:
            message.text(frame)
        for name, kind, shape in LAYOUTS[type_name].fields:
            message.field(name, kind, shape)
        template = message.template()
        for name, value in numbers.items():
            template.fields[name][...] = value
        return template

    @property
    def content(self) -> bytes:
        """The message as it is now."""
        return bytes(self._buffer)

    def payload(self, stamp_ns: int, **numbers: ArrayLike) -> bytes:
        """The message with this stamp and these numbers; others stay as they were."""
        for name, value in numbers.items():
            self.fields[name][...] = value
        _STAMP.pack_into(self._buffer, HEADER, *divmod(stamp_ns, SECOND_NS))
        return bytes(self._buffer)

    def payloads(self, stamp_ns: NDArray[np.int64], **columns: ArrayLike) -> list[bytes]:
        """One message for each stamp.

        Args:
            stamp_ns: (N,) ns.
            columns: name to (N, ...) numbers, or one for all.
        """
        rows = np.frombuffer(bytearray(self._buffer * len(stamp_ns)), np.uint8)
        return _filled(rows.reshape(len(stamp_ns), -1), self.dtype, stamp_ns, columns)


def _filled(
    rows: NDArray[np.uint8],
    dtype: np.dtype[np.void],
    stamp_ns: NDArray[np.int64],
    columns: Mapping[str, ArrayLike],
) -> list[bytes]:
    """Messages of (N, size) bytes, each with its stamp and numbers."""
    records = rows.reshape(-1).view(dtype)
    records["sec"], records["nanosec"] = np.divmod(stamp_ns, SECOND_NS)
    for name, values in columns.items():
        records[name] = values
    whole, size = rows.tobytes(), dtype.itemsize
    return [whole[at : at + size] for at in range(0, len(whole), size)]


class VehicleTemplates:
    """Messages of one topic of several vehicles, made together.

    Messages of one length, so of frame names of one length, are one array, whose columns are set.

    Args:
        templates: of each vehicle, with its frame names and what stays.
    """

    def __init__(self, templates: Sequence[Template]) -> None:
        self._dtypes = list(dict.fromkeys(template.dtype for template in templates))
        self._alike = np.array([self._dtypes.index(template.dtype) for template in templates])
        self._contents = [np.frombuffer(template.content, np.uint8) for template in templates]

    def payloads(
        self, vehicles: NDArray[np.intp], stamp_ns: NDArray[np.int64], **columns: NDArray[Any]
    ) -> list[bytes]:
        """One message for each row.

        Args:
            vehicles: (M,) whose.
            stamp_ns: (M,) ns.
            columns: names of the layout to (M, ...) numbers.
        """
        found: list[bytes] = [b""] * len(vehicles)
        for k, dtype in enumerate(self._dtypes):
            chosen = np.flatnonzero(self._alike[vehicles] == k)
            if not len(chosen):
                continue
            rows = np.stack([self._contents[i] for i in vehicles[chosen].tolist()])
            part = {name: values[chosen] for name, values in columns.items()}
            made = _filled(rows, dtype, stamp_ns[chosen], part)
            for i, payload in zip(chosen.tolist(), made, strict=True):
                found[i] = payload
        return found


@lru_cache(maxsize=64)
def cached_template(type_name: str, frames: tuple[str, ...]) -> Template:
    """Messages of one of the layouts, of which nothing may be set for good."""
    return Template.of(type_name, *frames)


def joint_template(names: Sequence[str], with_current: bool = False) -> Template:
    """JointState messages: ``speeds`` of rotors (N,), ``currents`` of their motors or none."""
    message = Cdr().text(_JOINT_FRAME).count(len(names))
    for name in names:
        message.text(name)
    count = len(names)
    message.count(0).count(count).field("speeds", "<f8", (count,))
    if with_current:
        message.count(count).field("currents", "<f8", (count,))
    else:
        message.count(0)
    return message.template()


def attitude_template(body: str) -> Template:
    """MultiDOFJointTrajectory messages of one point: an attitude command.

    Fields ``q_xyzw``, ``yaw_rate`` about the vertical and specific ``thrust`` along body z.
    """
    message = Cdr().text(body).count(1).text(body).count(1)
    message.count(1).field("translation", "<f8", (3,)).field("q_xyzw", "<f8", (4,))
    message.count(1).field("velocity", "<f8", (5,)).field("yaw_rate", "<f8")
    message.count(1).field("acceleration", "<f8", (2,)).field("thrust", "<f8")
    message.field("angular_acceleration", "<f8", (3,)).field("time_from_start", "<u4", (2,))
    return message.template()


def renamed(type_name: str, payload: bytes, frames: Sequence[str]) -> bytes:
    """One message with other frames, and all else as it is.

    Args:
        type_name: one of :data:`quadsim.wire.decode.LAYOUTS`.
        frames: as many names as the layout has.

    Raises:
        QuadsimError: the message is not what its type reports.
    """
    try:
        there = np.frombuffer(payload, message_dtype(LAYOUTS[type_name], payload))
    except (ValueError, struct.error, OverflowError) as error:
        raise QuadsimError(f"no {type_name}: {error}") from None
    made = cached_template(type_name, tuple(frames))
    known = made.fields.keys() & set(there.dtype.names or ())
    stamp_ns = int(there["sec"][0]) * SECOND_NS + int(there["nanosec"][0])
    return made.payload(stamp_ns, **{name: there[name][0] for name in known})
