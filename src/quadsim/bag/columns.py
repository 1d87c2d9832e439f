"""Messages of any topic of a bag as columns."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.contents import Bag

_TIMES = ("builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration")


def message_columns(bag: Bag, topic: str) -> dict[str, NDArray[Any]]:
    """All messages of a topic, field by field.

    Returns:
        ``log_ns`` (N,) and the fields by their names, those of nested messages behind a dot: (N,)
        or (N, K); times in ns; of type object where the length changes.

    Raises:
        QuadsimError: the bag does not say what the type is, or a message does not fit it.
    """
    rows: list[dict[str, Any]] = []
    for message in bag.messages([topic]):
        row = {"log_ns": message.log_ns}
        _add_fields(row, "", bag.deserialize(message))
        rows.append(row)
    return {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _add_fields(row: dict[str, Any], name: str, value: Any) -> None:
    """Put a value, or the fields of a message, into a row."""
    kind = getattr(value, "__msgtype__", None)
    if kind in _TIMES:
        row[name] = value.sec * 1_000_000_000 + value.nanosec
    elif kind is None:
        row[name] = value
    else:
        for field in fields(value):
            if field.name != "__msgtype__":
                inner = f"{name}.{field.name}" if name else field.name
                _add_fields(row, inner, getattr(value, field.name))


def _column(values: list[Any]) -> NDArray[Any]:
    """One field of all messages."""
    lists = isinstance(values[0], (list, np.ndarray))
    if not lists or (len({np.shape(value) for value in values}) == 1 and len(values[0])):
        column = np.array(values)
        if column.dtype != object or not lists:
            return column
    column = np.empty(len(values), object)
    column[:] = values
    return column
