"""Standard messages of any layout made without ROS, by rosbags: for the few that are no numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype

from quadsim.wire.definitions import standard_types
from quadsim.wire.encode import SECOND_NS


def make_message(type_name: str, **fields: Any) -> Any:
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
            values[field] = make_message(str(detail))
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


def header(frame: str = "", stamp_ns: int = 0) -> Any:
    """A Header message."""
    seconds, nanoseconds = divmod(int(stamp_ns), SECOND_NS)
    stamp = make_message("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)
    return make_message("std_msgs/msg/Header", frame_id=frame, stamp=stamp)


def serialise(type_name: str, **fields: Any) -> bytes:
    """A message of a standard type as little-endian CDR; arguments as of :func:`make_message`."""
    return bytes(standard_types().serialize_cdr(make_message(type_name, **fields), type_name))
