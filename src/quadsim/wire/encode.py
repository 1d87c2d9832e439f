"""Standard messages made without ROS: one at a time, or thousands of one topic at once.

Messages of a topic differ in their numbers only, so one is serialised (by rosbags) and copied, and
columns of numbers are laid over the copies: half a microsecond a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import Nodetype

from quadsim.wire.axes import rotation_matrices
from quadsim.wire.decode import LAYOUTS, message_dtype
from quadsim.wire.definitions import standard_types

_STAMP_AT = 4  # behind the four bytes that say how the message is represented
SECOND_NS = 1_000_000_000


def make(type_name: str, **fields: Any) -> Any:
    """A message of a standard type; fields that are not given are zero or empty.

    Args:
        type_name: ``package/msg/Type``.
        fields: by their names; nested messages are made by another call.
    """
    types = standard_types()
    values: dict[str, Any] = {}
    for field, (node, detail) in types.get_msgdef(type_name).fields:
        if field in fields:
            values[field] = fields[field]
        elif node == Nodetype.NAME:
            values[field] = make(str(detail))
        elif node == Nodetype.BASE:
            values[field] = "" if detail[0] == "string" else 0
        elif node == Nodetype.ARRAY:
            values[field] = np.zeros(detail[1])
        else:
            values[field] = _no_items(detail)
    return types.types[type_name](**values)


def _no_items(detail: Any) -> Any:
    (node, kind), _ = detail
    if node == Nodetype.BASE and kind[0] != "string":
        return np.zeros(0, "u1" if kind[0] in ("octet", "bool") else kind[0])
    return []


def time_of(stamp_ns: int) -> Any:
    """A Time message."""
    seconds, rest = divmod(int(stamp_ns), SECOND_NS)
    return make("builtin_interfaces/msg/Time", sec=seconds, nanosec=rest)


def header(frame: str = "", stamp_ns: int = 0) -> Any:
    """A Header message."""
    return make("std_msgs/msg/Header", frame_id=frame, stamp=time_of(stamp_ns))


def serialise(message: Any) -> bytes:
    """The message as little-endian CDR."""
    return bytes(standard_types().serialize_cdr(message, message.__msgtype__))


class Template:
    """Serialised messages of one topic.

    Args:
        message: with its frame names and whatever stays the same; it begins with a stamp, of a
            header or alone.
        marks: names of further numbers, float64, and the values by which the message holds them,
            which are nowhere else in it. Others are named by
            :data:`quadsim.wire.decode.LAYOUTS`.
    """

    def __init__(self, message: Any, marks: Mapping[str, Any] | None = None) -> None:
        self._bytes = serialise(message)
        self._places: dict[str, tuple[int, np.dtype[Any]]] = {}
        type_name = message.__msgtype__
        if type_name in LAYOUTS:
            dtype = message_dtype(LAYOUTS[type_name], self._bytes)
            assert dtype.fields is not None
            for name, (kind, at, *_) in dtype.fields.items():
                self._places[name] = (at, kind)
        for name, values in (marks or {}).items():
            mark = np.asarray(values, "<f8")
            kind = np.dtype(("<f8", mark.shape))
            self._places[name] = (self._bytes.index(mark.tobytes()), kind)

    def payloads(self, stamp_ns: NDArray[np.int64], **columns: NDArray[Any]) -> list[bytes]:
        """One message for each stamp.

        Args:
            stamp_ns: (N,) ns.
            columns: name to (N, ...) numbers.
        """
        count, size = len(stamp_ns), len(self._bytes)
        rows = np.tile(np.frombuffer(self._bytes, np.uint8), (count, 1))
        stamps = np.empty((count, 2), "<u4")
        stamps[:, 0], stamps[:, 1] = stamp_ns // SECOND_NS, stamp_ns % SECOND_NS
        rows[:, _STAMP_AT : _STAMP_AT + 8] = stamps.view(np.uint8)
        for name, values in columns.items():
            at, kind = self._places[name]
            column = np.ascontiguousarray(values, kind.base).reshape(count, -1).view(np.uint8)
            rows[:, at : at + kind.itemsize] = column
        whole = rows.tobytes()
        return [whole[i * size : (i + 1) * size] for i in range(count)]


def motion_columns(rows: NDArray[Any], stated: bool = False) -> dict[str, NDArray[Any]]:
    """Columns of Odometry messages: pose in the world, twist in the body.

    Args:
        rows: (M,) records of position, velocity, attitude and rate.
        stated: whether they state variances.
    """
    R_WB = rotation_matrices(rows["q_WB"])
    columns: dict[str, NDArray[Any]] = {
        "p": rows["p_W"],
        "q_xyzw": np.roll(rows["q_WB"], -1, axis=1),
        "v": np.einsum("nji,nj->ni", R_WB, rows["v_W"]),
        "w": rows["w_B"],
    }
    if stated:
        pose, twist = np.zeros((2, len(rows), 6, 6))
        axes = np.arange(3)
        pose[:, axes, axes] = rows["p_variance"]
        pose[:, axes + 3, axes + 3] = rows["attitude_variance"]
        twist[:, :3, :3] = np.einsum("nki,nk,nkj->nij", R_WB, rows["v_variance"], R_WB)
        columns |= {"pose_covariance": pose, "twist_covariance": twist}
    return columns
